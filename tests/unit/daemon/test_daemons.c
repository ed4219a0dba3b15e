/* SPDX-License-Identifier: BSD-3-Clause */
/* Two real daemons with what daemon_world.h has around them: what concerns more than one node. Faults of all kinds are
 * tests/fuzz/fuzz_daemons.c's. */
#include "tests/unit/daemon/daemon_check.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/wire.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/run.h"
#include "tests/lib/nvml_script.h"
#include "tests/unit/unit.h"

enum { FLOOD_S = 10, PER_STEP = 20 };
#define INTERVAL_S 0.2 /* report_ms of the world */
/* Twice what each worker is asked for, and what may come at once. */
#define TAKEN_MAX (DW_WORKERS * (2 * (uint32_t)(FLOOD_S / INTERVAL_S) + 8 + 1))

static void a_run_gives_a_node_back(void **state)
{
    (void)state;
    dw_start(1, NULL, 0);
    dw_run(40, false);
    dw_restart_all();
    assert_true(dw.n_commits >= 2);
    assert_int_equal(dw.n_released, 1);
    assert_false(dw.slurm.held[1]);
    end_world();
}

static bool has_event(const char *text)
{
    json_t *o = dp_coord_json(dp_run_find(&dw.node[0].d, DW_JOB)->coord, dw.now_ns, DP_QUERY_STATUS), *e;
    bool has = false;
    size_t i;

    json_array_foreach (json_object_get(o, "events"), i, e)
        has = has || strstr(json_string_value(json_object_get(e, "text")), text);
    json_decref(o);
    return has;
}

/* Its daemon asks Slurm, and tells; of the node of the coordinator itself, too, which stays. */
static void a_node_that_drains_is_left(void **state)
{
    (void)state;
    dw_start(2, NULL, 0);
    dw.slurm.drains[0] = true;
    while (!dp_run_find(&dw.node[0].d, DW_JOB) || !dp_run_find(&dw.node[0].d, DW_JOB)->coord)
        dw_advance(DW_STEP_NS);
    for (int i = 0; i < 200 && !has_event("and the run stays there"); i++)
        dw_advance(DW_STEP_NS);
    assert_true(has_event("Slurm drains n0, and the run stays there: it is coordinated there"));
    assert_int_equal(dw.n_commits, 0);
    dw.slurm.drains[1] = true;
    for (int i = 0; i < 1000 && !dw.n_released; i++)
        dw_advance(DW_STEP_NS);
    assert_true(has_event("committed at step") && has_event("Slurm drains n1"));
    assert_int_equal(dw.n_released, 1);
    assert_false(dw.slurm.held[1]);
    end_world();
}

/* ---- a node with a card, whose driver is tests/lib/nvml.c ---- */

#define MIB (1ull << 20)

static char dev_folder[] = "/tmp/dp-world-dev-XXXXXX", script_path[] = "/tmp/dp-world-nvml-XXXXXX";

/* returns NULL: no device file can be made. */
static struct nvml_script *add_card(void)
{
    char path[64];
    int fd;
    void *script;

    assert_non_null(mkdtemp(dev_folder));
    snprintf(path, sizeof path, "%s/nvidia0", dev_folder);
    if (mknod(path, S_IFCHR | 0600, makedev(195, 0)) < 0)
        return NULL;
    assert_true((fd = mkstemp(script_path)) >= 0);
    assert_int_equal(ftruncate(fd, sizeof(struct nvml_script)), 0);
    script = mmap(NULL, sizeof(struct nvml_script), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(script != MAP_FAILED);
    close(fd);
    setenv("NVML_SCRIPT", script_path, 1);
    return script;
}

static void remove_card(struct nvml_script *script)
{
    char path[64];

    snprintf(path, sizeof path, "%s/nvidia0", dev_folder);
    unlink(path);
    rmdir(dev_folder);
    if (script) {
        munmap(script, sizeof *script);
        unlink(script_path);
    }
    for (int n = 0; n < DW_NODES; n++)
        dw.node[n].config->device_files[0] = '\0';
}

static void assert_report_has(const char *want)
{
    json_t *status = dp_coord_json(dp_run_find(&dw.node[0].d, DW_JOB)->coord, dw.now_ns, DP_QUERY_STATUS);
    char *text = json_dumps(status, 0);

    assert_non_null(text);
    if (!strstr(text, want))
        print_error("%s\n", text);
    assert_non_null(strstr(text, want));
    free(text);
    json_decref(status);
}

/* What was in use before the run began is known to the proof: a card that does not come back to it holds its slot, and
 * training goes on; as soon as it does, the slot is given back. */
static void memory_that_stays_holds_the_slot(void **state)
{
    struct nvml_script *script = add_card();
    const char *build = getenv("DP_BUILDDIR");
    uint64_t step;

    (void)state;
    if (!script) {
        remove_card(NULL);
        skip();
    }
    script->n_cards = 1;
    script->card[0].used = 500 * MIB;
    for (int n = 0; n < DW_NODES; n++)
        snprintf(dw.node[n].config->device_files, sizeof dw.node[n].config->device_files, "%s/nvidia[0-9]*", dev_folder);
    dw_start(1, NULL, 0);
    snprintf(dw.nvml, sizeof dw.nvml, "%.200s/tests/lib/nvml.so", build ? build : ".");
    dw_run(2, false);
    assert_int_equal(script->n_reads, 2 * DW_NODES); /* both nodes, two looks each */
    assert_int_equal(dp_run_find(&dw.node[1].d, DW_JOB)->before.n, 1);
    script->card[0].used = 9000 * MIB;
    dw_run(40, false);
    step = dw.worker[0].step;
    dw_run(20, false);
    assert_true(dw.worker[0].step > step);
    assert_true(dw.n_commits >= 2);
    assert_int_equal(dw.n_fenced, 0);
    assert_int_equal(dw.n_released, 0);
    assert_true(script->n_reads > 2 * DW_NODES);
    assert_report_has("nvidia0: 9000 MiB in use, 500 before the run, and no process is on it");
    script->card[0].used = 510 * MIB;
    dw_run(40, false);
    assert_int_equal(dw.n_released, 1);
    assert_report_has("device_memory=back:1,processes:0,unseen:0");
    script->card[0].used = 700 * MIB;
    dw_requeue(); /* its next life has a start of its own */
    dw_run(20, false);
    assert_int_equal(dp_run_find(&dw.node[1].d, DW_JOB)->before.card[0].used, 700 * MIB);
    end_world();
    remove_card(script);
}

/* A worker reports without a pause: on its node the rest is dropped, so it is not even passed on. */
static void reports_of_a_worker_are_limited(void **state)
{
    (void)state;
    dw_start(2, NULL, 0);
    dw_run(4, false);
    dw.n_reports = 0;
    for (uint64_t end = dw.now_ns + FLOOD_S * 1000000000ull; dw.now_ns < end;) {
        for (int i = 0; i < PER_STEP; i++)
            dw_report(2);
        dw_advance(DW_STEP_NS);
    }
    assert_in_range(dw.n_reports, 3 * FLOOD_S / INTERVAL_S / 2, TAKEN_MAX);
    end_world();
}

static void relay_report(struct dp_conn *c, uint32_t rank)
{
    static uint8_t body[DP_BODY_MAX];
    static struct dp_msg_report m;
    struct dp_msg_relay relay = {.job_id = DW_JOB, .rank = rank, .pid = 1000 + rank, .inner_type = DP_MSG_REPORT, .inner = body};
    struct dp_writer w;

    m = (struct dp_msg_report){.rank = rank, .epoch = 1, .step = 1, .window_steps = 1, .step_ns = 1000000,
                               .first_layer = 2 * rank, .n_layers = 2};
    dp_writer_init(&w, body, sizeof body);
    dp_msg_report_encode(&w, &m);
    relay.inner_len = (uint32_t)dp_writer_used(&w);
    DP_CONN_SEND(c, relay, DP_MSG_RELAY, &relay);
}

/* A node passes on whatever it likes: the batch host does not look at it, and goes on hearing the others. */
static void reports_of_a_run_are_limited_where_it_is_coordinated(void **state)
{
    (void)state;
    dw_start(3, NULL, 0);
    dw_run(4, false);
    dw.n_reports = 0;
    dw.node[1].is_hostile = true;
    for (uint64_t end = dw.now_ns + FLOOD_S * 1000000000ull; dw.now_ns < end;) {
        struct dp_conn *c = dp_peer_find(&dw.node[1].d, dw.node[0].name);

        assert_non_null(c);
        for (int i = 0; i < PER_STEP; i++)
            relay_report(c, (uint32_t)i % DW_WORKERS); /* the others' in their names, too */
        dw_advance(DW_STEP_NS);
    }
    assert_in_range(dw.n_reports, 2 * FLOOD_S / INTERVAL_S, TAKEN_MAX);
    end_world();
}

static uint32_t n_in_doubt(void)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < DW_WORKERS; r++)
        n += dw.worker[r].doubt != 0;
    return n;
}

/* The job's time is over while workers wait for a decision, and these daemons die and come back while Slurm waits for
 * the processes (KillWait): the workers hear it, or they could not save. */
static void die_at_the_limit(uint64_t seed, bool first, bool second)
{
    dw_start(seed, NULL, 0);
    for (int i = 0; i < 2000 && n_in_doubt() < DW_WORKERS; i++)
        dw_advance(DW_STEP_NS);
    assert_int_equal(n_in_doubt(), DW_WORKERS);
    dw.slurm.has_ended = dw.slurm.is_completing = true;
    if (first)
        dw_kill_daemon(0, 1.0);
    if (second)
        dw_kill_daemon(1, 1.0);
    dw_run(25, false);
    assert_int_equal(n_in_doubt(), 0);
    assert_true(dw.n_commits + dw.n_aborts > 0);
    assert_non_null(dp_run_find(&dw.node[0].d, DW_JOB));
    dw.is_lost = true;
    for (uint32_t i = 0; i < dw.n_processes; i++)
        dw_exit(&dw.process[i]);
    dw_run(40, false); /* the second may have asked the first once more */
    assert_null(dp_run_find(&dw.node[0].d, DW_JOB));
    assert_null(dp_run_find(&dw.node[1].d, DW_JOB));
    end_world();
}

static void daemons_that_die_at_the_time_limit_come_back_to_the_run(void **state)
{
    (void)state;
    die_at_the_limit(4, true, false);
    die_at_the_limit(5, false, true);
    die_at_the_limit(6, true, true);
}

/* The job was put back into the queue: Slurm speaks of its next life already. */
static void a_daemon_does_not_take_the_next_life_for_this_one(void **state)
{
    (void)state;
    dw_start(7, NULL, 0);
    dw_run(5, false);
    dw.slurm.has_ended = dw.slurm.is_completing = dw.slurm.is_queued = true;
    dw.slurm.restart_count = 1;
    dw_kill_daemon(0, 1.0);
    dw_run(5, false);
    assert_null(dp_run_find(&dw.node[0].d, DW_JOB));
    end_world();
}

/* The job runs on the node again that it had given back, and the daemon there cannot write that down: until Slurm has
 * said what the job is now nobody is told that the node was given back. */
static void requeue_with_a_dead_disk(uint64_t seed)
{
    dw_start(seed, NULL, 0);
    for (int i = 0; i < 2000 && !dw.n_released; i++)
        dw_advance(DW_STEP_NS);
    assert_int_equal(dw.n_released, 1);
    while (dp_run_find(&dw.node[1].d, DW_JOB)->next_read_ns < dw.now_ns + 4000000000u)
        dw_advance(DW_STEP_NS);
    dw_requeue();
    dw.slurm.begin_at_ns = dw.now_ns + 2 * DW_STEP_NS; /* before that daemon looks at the job again */
    dw.node[1].disk_dead_until_ns = dw.now_ns + 1500000000u;
    dw_run(7, false);
    for (uint32_t r = 0; r < DW_WORKERS; r++)
        assert_true(dw.worker[r].is_welcome);
    end_world();
}

static void a_requeued_job_is_not_turned_away_for_a_full_disk(void **state)
{
    (void)state;
    for (uint64_t seed = 8; seed < 12; seed++) /* a step of the same number needs no record */
        requeue_with_a_dead_disk(seed);
}

/* Workers that cannot move layers, on the batch host's node and on the other one: what they expect comes to the coordinator, and what
 * they should begin again with to them. */
static void what_foreign_trainers_say_and_hear_goes_between_nodes(void **state)
{
    static struct dp_msg_expect m;
    static uint8_t body[4096];
    json_t *o, *list;

    (void)state;
    dw_start(21, NULL, 0);
    dw.is_fixed = true;
    dw_run(6, false);
    for (uint32_t rank = 0; rank < DW_WORKERS; rank++) {
        struct dp_writer w;

        assert_true(dw.worker[rank].n_proposals > 0);
        assert_true(dw.worker[rank].n_limits > 0); /* any of them may lead one day */
        m = (struct dp_msg_expect){.rank = rank, .step = 90000 + rank, .first_layer = 2 * rank, .n_layers = 1};
        m.layer[0] = (struct dp_layer_load){5000000, 0, 0, 100, 0, 10000, 10000};
        dp_writer_init(&w, body, sizeof body);
        dp_msg_expect_encode(&w, &m);
        dw_worker_send(rank, DP_MSG_EXPECT, body, dp_writer_used(&w));
    }
    dw_run(2, false);
    o = dp_coord_json(dp_run_find(&dw.node[0].d, DW_JOB)->coord, dw.now_ns, DP_QUERY_EXPLAIN);
    list = json_object_get(o, "expected");
    assert_int_equal(json_array_size(list), DW_WORKERS);
    for (uint32_t i = 0; i < DW_WORKERS; i++) {
        assert_int_equal(json_integer_value(json_object_get(json_array_get(list, i), "step")), 90000 + i);
        assert_float_equal(json_real_value(json_object_get(json_array_get(list, i), "microbatch_ms")), 5.0, 0.0);
    }
    json_decref(o);
    assert_int_equal(dw.n_commits, 0);
    end_world();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_gives_a_node_back),
    cmocka_unit_test(a_node_that_drains_is_left),
    cmocka_unit_test(memory_that_stays_holds_the_slot),
    cmocka_unit_test(reports_of_a_worker_are_limited),
    cmocka_unit_test(reports_of_a_run_are_limited_where_it_is_coordinated),
    cmocka_unit_test(daemons_that_die_at_the_time_limit_come_back_to_the_run),
    cmocka_unit_test(a_daemon_does_not_take_the_next_life_for_this_one),
    cmocka_unit_test(a_requeued_job_is_not_turned_away_for_a_full_disk),
    cmocka_unit_test(what_foreign_trainers_say_and_hear_goes_between_nodes),
};

int main(void)
{
    return cmocka_run_group_tests_name("daemons", tests, open_world, close_world);
}
