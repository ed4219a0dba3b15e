/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h) whose slots are slices: jobs of one worker each, two of them on a node. */
#include "tests/unit/unit.h"

#include <math.h>

#include "common/clock.h"
#include "tests/unit/daemon/coord_check.h"

#define SLICES 22 /* record, coord/internal.h */

static struct world *begin_sliced(uint64_t seed)
{
    struct world *w = begin(seed);

    world_slice(w);
    return w;
}

static struct world *begin_training(uint64_t seed, uint32_t min_devices)
{
    struct world *w = begin_sliced(seed);

    w->limits.pack.min_devices = min_devices;
    train_unmoved(w);
    return w;
}

static bool is_released(const struct world *w, uint32_t slot)
{
    return world_slot_has(w, slot, DP_REC_RELEASED);
}

static void run_until_released(struct world *w, uint32_t n)
{
    while (world_count(w, DP_REC_RELEASED) < n && w->now_ns < 400000000000u && !w->broken[0])
        world_run(w, 0.5, false);
}

/* All but the first one of the batch host's, whose neighbour on the same node goes. */
static void slices_are_packed_and_given_back(void **state)
{
    struct world *w = begin_sliced(31);
    json_t *o, *slots;

    (void)state;
    world_start(w);
    run_until_released(w, 3);
    assert_true(world_is_settled(w));
    assert_true(w->held[0] && !w->held[1] && !w->held[2] && !w->held[3]);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    slots = json_object_get(o, "slots");
    assert_int_equal(json_array_size(slots), W_MAX);
    for (uint32_t s = 0; s < W_MAX; s++) {
        json_t *slot = json_array_get(slots, s);

        assert_string_equal(text_of(slot, "node"), s < 2 ? "n0" : "n1");
        assert_int_equal(int_of(slot, "job"), 201 + s);
        assert_string_equal(text_of(slot, "state"), s ? "released" : "active");
        assert_true(json_is_true(json_object_get(slot, "batch_host")) == (s == 0));
    }
    json_decref(o);
    end(w);
}

/* Ranks in turns over two nodes, as when slices came one after the other: the whole of the other node is left. */
static void whole_nodes_are_left(void **state)
{
    struct world *w = begin_sliced(31);
    uint32_t n = 0;
    json_t *o, *d;
    size_t i;

    (void)state;
    for (uint32_t s = 0; s < W_MAX; s++)
        snprintf(w->job.node[s], sizeof w->job.node[s], "n%u", s % 2);
    w->limits.pack.min_devices = 2;
    world_start(w);
    run_until_released(w, 2);
    assert_true(world_is_settled(w));
    assert_true(w->held[0] && !w->held[1] && w->held[2] && !w->held[3]);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN);
    json_array_foreach (json_object_get(o, "decisions"), i, d)
        n += strstr(text_of(d, "pack_reason"), "2 of 4 slices are enough (bound: 2), on 1 of 2 nodes: ") != NULL;
    assert_true(n > 0);
    json_decref(o);
    end(w);
}

/* One of two on a node is emptied and given back; the other one trains on, and a process of its own changes nothing there. */
static void one_of_two_on_a_node_goes(void **state)
{
    struct world *w = begin_sliced(32);
    uint32_t gone = 0;
    uint64_t step;

    (void)state;
    w->limits.pack.min_devices = 3;
    world_start(w);
    run_until_released(w, 1);
    while (gone < W_MAX && !is_released(w, gone))
        gone++;
    assert_in_range(gone, 1, W_MAX - 1);
    step = w->worker[gone ^ 1].step;
    world_run(w, 20.0, false);
    assert_true(world_is_settled(w));
    assert_int_equal(world_count(w, DP_REC_DRAIN), 1);
    assert_true(w->held[gone ^ 1] && w->worker[gone ^ 1].is_alive && w->worker[gone ^ 1].step > step);
    assert_true(dp_layout_stage(&w->worker[0].layout, gone ^ 1) > 0);
    end(w);
}

static const char *slot_text(json_t *status, uint32_t slot)
{
    return text_of(json_array_get(json_object_get(status, "slots"), slot), "text");
}

/* The script of slice 203 does something else when its worker has left: it is held as long, and 204 on the same node is not. */
static void a_slice_that_goes_on_is_held(void **state)
{
    struct world *w = begin_sliced(33);
    json_t *o;

    (void)state;
    w->is_stuck[2] = true;
    world_start(w);
    run_until_released(w, 2);
    world_run(w, 30.0, false);
    assert_true(world_slot_has(w, 2, DP_REC_HELD) && !world_slot_has(w, 2, DP_REC_GONE));
    assert_true(w->held[2] && is_released(w, 1) && is_released(w, 3));
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(slot_text(o, 2), "its worker has left, and its job goes on");
    assert_string_equal(slot_text(o, 3), "Slurm says that job 204 is over");
    json_decref(o);
    w->is_stuck[2] = false;
    world_run(w, 20.0, false);
    assert_true(is_released(w, 2) && !w->held[2] && world_is_settled(w));
    end(w);
}

static void run_until(struct world *w, uint32_t slot, enum dp_record type)
{
    while (!world_slot_has(w, slot, type) && w->now_ns < 400000000000u && !w->broken[0])
        world_run(w, 0.02, false);
}

static double freed_at_s(const struct world *w, uint32_t slot)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS), *s = json_array_get(json_object_get(o, "slots"), slot);
    double at_s = json_real_value(json_object_get(s, "freed_at_s")), now_s = json_real_value(json_object_get(o, "now_s"));

    json_decref(o);
    return (double)w->now_ns / 1e9 - now_s + at_s;
}

/* Slurm has a slice's job end, and the coordinator knows within an answer or two; one whose script goes on is asked about every 2 s. */
static void an_end_is_seen_at_once(void **state)
{
    uint64_t took_ns = 0;

    (void)state;
    for (uint64_t seed = 50; seed < 70; seed++) {
        struct world *w = begin_training(seed, 2);
        uint64_t freed_ns;
        uint32_t n_reads;

        world_take(w, 2);
        run_until(w, 2, DP_REC_DRAIN);
        while (w->held[2] && w->now_ns < 400000000000u)
            world_run(w, 0.02, false);
        freed_ns = w->now_ns;
        run_until(w, 2, DP_REC_GONE);
        took_ns += w->now_ns - freed_ns;
        freed_ns = w->now_ns;
        while (!is_released(w, 2) && w->now_ns < 400000000000u && !w->broken[0])
            world_run(w, 0.02, false);
        assert_true(w->now_ns > freed_ns + 1000000000u); /* two reads, confirm_s apart */
        assert_true(fabs(freed_at_s(w, 2) - (double)freed_ns / 1e9) < 0.05);
        w->is_stuck[3] = true;
        world_take(w, 3);
        run_until(w, 3, DP_REC_DRAIN);
        world_run(w, 10.0, false);
        n_reads = w->n_reads;
        world_run(w, 20.0, false);
        assert_in_range(w->n_reads - n_reads, 8, 14);
        end(w);
    }
    assert_true(took_ns / 20 < 750000000); /* an answer takes up to 0.3 s here */
}

/* Slurm's controller was killed before it wrote that a slice had ended: it is there again, and nobody asks for anything. */
static void a_forgotten_end_is_read_again(void **state)
{
    struct world *w = begin_sliced(13);

    (void)state;
    world_start(w);
    while (w->held[3] && w->now_ns < 200000000000u && !w->broken[0])
        world_run(w, 0.2, false);
    assert_false(w->held[3]);
    memcpy(w->held, w->held_durable, sizeof w->held);
    w->boot_s++;
    assert_true(w->held[3]);
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_true(!w->held[1] && !w->held[2] && !w->held[3]);
    assert_true(is_released(w, 3));
    end(w);
}

static enum dp_verdict hello(struct world *w, const char *node, uint32_t job_id, uint32_t pid, uint32_t rank, char text[256])
{
    struct dp_msg_hello m = {.job_id = job_id, .rank = rank, .n_workers = W_MAX, .n_layers = W_LAYERS, .epoch = 1,
                             .steps_total = W_STEPS, .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 2, 4, 6, 8}};
    struct dp_msg_welcome v;

    dp_coord_hello(w->c, w->now_ns, node, pid, &m, &v);
    memcpy(text, v.text, sizeof v.text);
    return (enum dp_verdict)v.verdict;
}

/* A slice is its job on its node: neither alone, nor that of the run, nor another one of the same node. */
static void who_is_who(void **state)
{
    struct world *w = begin_sliced(34);
    char text[256];

    (void)state;
    world_start(w);
    world_run(w, 4.0, false);
    assert_int_equal(hello(w, "n0", 202, 101, 1, text), DP_VERDICT_OK); /* it was there before */
    assert_int_equal(hello(w, "n1", 202, 101, 1, text), DP_VERDICT_DENIED);
    assert_string_equal(text, "not of this run");
    assert_int_equal(hello(w, "n0", 205, 101, 1, text), DP_VERDICT_DENIED);
    assert_int_equal(hello(w, "n0", 7, 101, 1, text), DP_VERDICT_DENIED);
    assert_int_equal(hello(w, "n2", 202, 101, 1, text), DP_VERDICT_DENIED);
    assert_string_equal(text, "this node is not part of the job");
    assert_int_equal(hello(w, "n0", 201, 101, 1, text), DP_VERDICT_DENIED);
    assert_string_equal(text, "rank 1 is process 101 on n0 (job 202)");
    end(w);
}

/* What a daemon says of an empty node, nobody asked for: Slurm alone ends slices. */
static void nobody_else_ends_a_slice(void **state)
{
    struct world *w = begin_sliced(35);
    struct dp_msg_slot_gone m = {.gone = 1, .text = "empty"};

    (void)state;
    w->is_stuck[2] = true;
    world_start(w);
    while (!world_slot_has(w, 2, DP_REC_DRAIN) && w->now_ns < 400000000000u && !w->broken[0])
        world_run(w, 0.5, false);
    world_run(w, 1.0, false);
    m.incarnation = dp_coord_incarnation(w->c);
    m.job_id = 203;
    dp_coord_slot_gone(w->c, w->now_ns, "n1", &m);
    world_run(w, 30.0, false);
    assert_true(world_slot_has(w, 2, DP_REC_HELD) && !world_slot_has(w, 2, DP_REC_GONE));
    end(w);
}

/* Crashes, lost messages and a Slurm that forgets, as for nodes. */
static void crashes_at_every_record(void **state)
{
    uint32_t n = 0;

    (void)state;
    for (uint32_t k = 0; k < 24; k++) {
        struct world *w = begin_sliced(36);

        w->crash_at = k;
        w->crash_before = k % 2;
        world_start(w);
        world_run(w, 150.0, false);
        n += w->n_crashes;
        if (!w->broken[0] && (!world_is_settled(w) || world_count(w, DP_REC_RELEASED) < 3))
            snprintf(w->broken, sizeof w->broken, "%u released after a crash at record %u", world_count(w, DP_REC_RELEASED), k);
        end(w);
    }
    assert_true(n >= 20);
}

static void faults_of_all_kinds(void **state)
{
    uint32_t n_released = 0, n_crashes = 0, n_lost = 0, n_renewals = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct world *w = begin_sliced(seed);

        w->loss_percent = seed % 3 ? 20 : 5;
        w->fault_percent = 1 + seed % 5;
        w->crash_percent = seed % 4 ? 8 : 0;
        w->full_percent = seed % 5 ? 0 : 15;
        w->renew_percent = seed % 3 == 1 ? 10 : 0;
        w->no_percent = seed % 2 ? 5 : 0;
        w->limits.pack.min_devices = 1 + seed % 3;
        world_start(w);
        world_run(w, 70.0, true);
        world_settle(w);
        n_released += world_count(w, DP_REC_RELEASED);
        n_crashes += w->n_crashes;
        n_lost += w->n_lost_updates;
        n_renewals += w->n_renewals;
        end(w);
    }
    assert_true(n_released > 200 && n_crashes > 200 && n_lost > 0 && n_renewals > 0);
}

static void has_left(const struct world *w, uint32_t rank)
{
    assert_false(w->worker[rank].is_alive);
    assert_true(w->worker[0].layout.gone[rank]);
    assert_int_equal(w->worker[rank].n_regroups, 0);
}

/* SIGTERM to one slice: its layers are elsewhere long before SIGKILL, in every mode in which layers move, and Slurm has it back. */
static void one_that_slurm_takes_leaves(void **state)
{
    (void)state;
    for (int mode = DP_MODE_BALANCE; mode <= DP_MODE_RELEASE; mode++) {
        struct world *w = begin_sliced(41);
        uint64_t step;

        w->limits.mode = (uint8_t)mode;
        train_unmoved(w);
        world_take(w, 2);
        world_run(w, 5.0, false);
        has_left(w, 2);
        step = w->worker[0].step;
        world_run(w, 25.0, false);
        assert_true(is_released(w, 2));
        assert_true(w->worker[0].step > step && w->worker[1].is_alive && w->worker[3].is_alive);
        assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
        assert_int_equal(w->worker[0].n_stops, 0);
        assert_true(world_is_settled(w));
        end(w);
    }
}

/* Home is one slice among others: its layers go, another worker leads, and the coordinator lives on beside nobody, through a restart, and
 * lets the next one go. Drained it leaves as well. */
static void home_leaves_like_any_other(void **state)
{
    (void)state;
    for (int is_drained = 0; is_drained < 2; is_drained++) {
        struct world *w = begin_training(47, 1);
        uint64_t step;

        if (is_drained)
            dp_coord_event(w->c, w->now_ns, 0, &(struct dp_msg_event){.kind = DP_EV_LEAVE, .value = DP_LEAVE_DRAINED});
        else
            world_take(w, 0);
        world_run(w, 30.0, false);
        assert_false(w->worker[0].is_alive);
        assert_true(w->worker[1].layout.gone[0] && is_released(w, 0));
        assert_true(dp_coord_can_do_without(w->c, w->job.slice[0]));
        world_crash(w);
        step = w->worker[1].step;
        world_run(w, 10.0, false);
        assert_true(w->worker[1].step > step);
        world_take(w, 1);
        world_run(w, 30.0, false);
        assert_true(is_released(w, 1) && w->worker[2].is_alive && w->worker[3].is_alive);
        assert_int_equal(w->worker[2].n_regroups, 0);
        assert_int_equal(w->worker[2].n_stops, 0);
        assert_true(world_is_settled(w));
        end(w);
    }
}

/* Its death makes the others regroup, and they go on. */
static void home_dies_like_any_other(void **state)
{
    struct world *w = begin_training(48, 1);
    uint64_t step;

    (void)state;
    world_kill(w, 0);
    world_run(w, 30.0, false);
    assert_true(is_released(w, 0));
    assert_int_equal(w->worker[1].n_regroups, 1);
    step = w->worker[1].step;
    world_crash(w);
    world_run(w, 10.0, false);
    assert_true(w->worker[1].step > step && world_is_settled(w));
    end(w);
}

/* Where home is the one job that its user submitted, he means the run when he ends it, and Slurm does not when it preempts it; while
 * nobody can say which, all save and stop, as long as there is time for it. */
static void the_only_job_is_the_run_to_its_user(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world *w = begin_sliced(49);

        w->limits.pack.min_devices = 1;
        w->job.slice[0] = w->job.job_id;
        w->job.is_preempted = i == 1;
        train_unmoved(w);
        w->is_ctld_down = i == 2;
        world_take(w, 0);
        world_run(w, 8.0, false);
        if (i == 1) {
            assert_true(!w->worker[0].is_alive && w->worker[1].layout.gone[0]);
            assert_int_equal(w->worker[0].n_stops, 0);
        } else {
            assert_in_range(w->worker[0].n_stops, 1, 4);
            assert_int_equal(world_count(w, DP_REC_INTENT), 0);
        }
        w->is_ctld_down = false;
        end(w);
    }
}

/* Where its user submitted an array, which has companions, he means the run when he ends all tasks, and not when he ends some of them,
 * or companions. When Slurm preempts them the companions train on. */
static void all_tasks_of_an_array_are_the_run_to_its_user(void **state)
{
    static const struct {
        uint32_t taken;
        bool is_preempted, may_grow, stops;
    } cases[] = {{3, false, true, true}, {1, false, true, false}, {13, false, true, false}, {12, false, true, false},
                 {3, true, true, false}, {3, false, false, false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = begin_sliced(53);

        w->limits.pack.min_devices = 1;
        w->limits.growth.max_gpus = cases[i].may_grow ? W_MAX : 0;
        w->limits.growth.slices = W_MAX;
        w->job.array_job_id = 9;
        w->job.is_companion[2] = w->job.is_companion[3] = true;
        w->job.is_preempted = cases[i].is_preempted;
        train_unmoved(w);
        for (uint32_t r = 0; r < W_MAX; r++)
            if (cases[i].taken & 1u << r)
                world_take(w, r);
        world_run(w, cases[i].stops ? 8.0 : 16.0, false);
        for (uint32_t r = 0; r < W_MAX && !cases[i].stops; r++)
            if (w->worker[r].is_alive == (cases[i].taken >> r & 1u))
                fail_msg("case %zu: worker %u %s", i, r, w->worker[r].is_alive ? "stays" : "has left");
        if (cases[i].stops)
            assert_int_equal(world_count(w, DP_REC_INTENT), 0);
        assert_in_range(w->worker[0].n_stops, cases[i].stops, cases[i].stops ? 4 : 0);
        end(w);
    }
}

/* The node of home and of the coordinator is lost, with the journal: the others make a new one, regroup, and train on; that one gives
 * back, hands over and is restarted like any. */
static void a_lost_coordinator_is_replaced(void **state)
{
    struct world *w = begin_training(50, 1);
    uint64_t step;

    (void)state;
    assert_true(world_take_over(w, "n0"));
    assert_true(dp_coord_incarnation(w->c) > 1024);
    world_run(w, 10.0, false);
    assert_true(w->worker[2].is_alive && w->worker[2].n_regroups == 1 && w->worker[3].n_regroups == 1);
    assert_true(w->worker[2].layout.gone[0] && w->worker[2].layout.gone[1]);
    step = w->worker[2].step;
    world_crash(w);
    world_run(w, 30.0, false);
    assert_true(w->worker[2].step > step && world_is_settled(w));
    world_take(w, 2);
    world_run(w, 30.0, false);
    assert_true(!w->worker[2].is_alive && is_released(w, 2) && w->worker[3].is_alive && world_is_settled(w));
    end(w);
}

/* Nobody had to be lost: its slices had left before. No step is made again. */
static void a_lost_coordinator_without_workers_costs_no_step(void **state)
{
    struct world *w = begin_training(51, 1);
    uint64_t step;

    (void)state;
    world_take(w, 0);
    world_take(w, 1);
    world_run(w, 30.0, false);
    assert_true(is_released(w, 0) && is_released(w, 1));
    step = w->worker[2].step;
    assert_true(world_take_over(w, "n0"));
    world_run(w, 10.0, false);
    assert_true(w->worker[2].step > step && w->worker[2].n_regroups == 0 && world_is_settled(w));
    end(w);
}

/* Its layers had moved to others, and it was in the run still: those who are left wait in their step until they hear that it is lost. */
static void a_lost_leader_without_layers_is_told(void **state)
{
    struct world *w = begin_training(54, 1);
    uint64_t step;

    (void)state;
    for (uint32_t r = 0; r < W_MAX; r++)
        w->worker[r].layout.cut[1] = w->worker[r].layout.cut[2] = 0;
    assert_true(world_take_over(w, "n0"));
    world_run(w, 10.0, false);
    assert_true(w->worker[2].n_regroups == 1 && w->worker[3].n_regroups == 1);
    assert_true(w->worker[2].layout.gone[0] && w->worker[2].layout.gone[1]);
    step = w->worker[2].step;
    world_run(w, 10.0, false);
    assert_true(w->worker[2].step > step && world_is_settled(w));
    end(w);
}

/* At any moment of hand-overs, releases and losses. */
static void taken_over_at_any_time(void **state)
{
    uint32_t n_regroups = 0, n_doubts = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct world *w = begin_sliced(seed);
        uint32_t tries = 0;

        w->loss_percent = seed % 3 ? 20 : 5;
        w->fault_percent = 1 + seed % 5;
        w->crash_percent = seed % 4 ? 8 : 0;
        w->limits.pack.min_devices = 1;
        world_start(w);
        world_run(w, 3.0 + (double)(seed % 40) * 0.7, true);
        while (!w->worker[2].layout.n_workers || !w->worker[2].is_alive)
            world_run(w, 0.1, false);
        for (uint32_t r = 2; r < W_MAX; r++)
            n_doubts += w->worker[r].doubt != 0;
        if (!world_take_over(w, "n0"))
            end(w);
        world_run(w, 20.0, true);
        w->loss_percent = w->fault_percent = w->crash_percent = 0;
        do
            world_run(w, 20.0, false);
        while (!world_is_settled(w) && ++tries < 20 && !w->broken[0]);
        if (tries == 20 && !w->broken[0])
            snprintf(w->broken, sizeof w->broken, "seed %llu is not settled", (unsigned long long)seed);
        n_regroups += w->worker[2].n_regroups + w->worker[3].n_regroups;
        end(w);
    }
    print_message("# %u regroups, %u workers were in doubt\n", n_regroups, n_doubts);
    assert_true(n_regroups > 100);
}

/* Two of them within a second leave by one hand-over; what the daemon forgets when it dies meanwhile, they say again. */
static void two_leave_together(void **state)
{
    (void)state;
    for (int crash = 0; crash < 2; crash++) {
        struct world *w = begin_training(42, 2);

        world_take(w, 1);
        world_run(w, 0.6, false);
        world_take(w, 3);
        if (crash) {
            world_run(w, 0.4, false);
            world_crash(w);
        }
        world_run(w, 12.0, false);
        has_left(w, 1);
        has_left(w, 3);
        assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
        assert_int_equal(w->worker[0].n_stops, 0);
        end(w);
    }
}

/* Where they cannot be let go the leader is asked to save and to stop, until it does: all, too many, or in a mode in which
 * layers do not move. Nobody is made to leave. */
static void where_one_cannot_leave_all_stop(void **state)
{
    static const struct {
        uint32_t taken, min_devices;
        uint8_t mode;
    } cases[] = {{15, 1, DP_MODE_RELEASE}, {14, 2, DP_MODE_BALANCE}, {4, 4, DP_MODE_RELEASE},
                 {4, 1, DP_MODE_OBSERVE}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = begin_sliced(43);

        w->limits.mode = cases[i].mode;
        w->limits.pack.min_devices = cases[i].min_devices;
        train_unmoved(w);
        for (uint32_t r = 0; r < W_MAX; r++)
            if (cases[i].taken >> r & 1)
                world_take(w, r);
        world_run(w, 7.0, false);
        assert_in_range(w->worker[0].n_stops, 2, 4);
        assert_int_equal(world_count(w, DP_REC_INTENT), 0);
        end(w);
    }
}

static bool has_event(const struct world *w, const char *text)
{
    const char *e;

    while ((e = dp_coord_next_event(w->c)))
        if (!strcmp(e, text))
            return true;
    return false;
}

/* A daemon's word has the time at which it came, which may be later than that of the tick behind it. */
static void drains(struct world *w, uint32_t ranks)
{
    for (uint32_t r = 0; r < W_MAX; r++)
        if (ranks >> r & 1)
            dp_coord_event(w->c, w->now_ns + 50 * DP_MS_NS, r, &(struct dp_msg_event){.kind = DP_EV_LEAVE, .value = DP_LEAVE_DRAINED});
}

/* A node is drained, as its daemon says: its slices leave, and stay where the others could not do without them. */
static void slices_leave_a_drained_node(void **state)
{
    struct world *w = begin_training(46, 2);

    (void)state;
    w->now_ns += 1000000; /* the daemon that coordinates says it between two ticks */
    drains(w, 12);
    w->now_ns -= 1000000;
    world_run(w, 4.0, false);
    has_left(w, 2);
    has_left(w, 3);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    drains(w, 3);
    world_run(w, 8.0, false);
    assert_true(w->worker[0].is_alive && w->worker[1].is_alive);
    assert_int_equal(world_count(w, DP_REC_INTENT), 1);
    assert_int_equal(w->worker[0].n_stops, 0);
    assert_true(has_event(w, "slices stay on a node that Slurm drains: fewer slices would be left than the user, or the site, asks for"));
    world_run(w, 20.0, false);
    world_take(w, 1); /* SIGTERM is another matter: all save and stop */
    world_run(w, 5.0, false);
    assert_true(w->worker[0].n_stops > 0);
    end(w);
}

static struct world *begin_nodes(uint64_t seed, uint32_t min_devices)
{
    struct world *w = begin(seed);

    w->limits.pack.min_devices = min_devices;
    train_unmoved(w);
    return w;
}

/* For a while, as its daemon does again and again. */
static void drain_for(struct world *w, uint32_t ranks, double seconds)
{
    for (double t = 0.0; t < seconds; t += 4.0) {
        drains(w, ranks);
        world_run(w, 4.0, false);
    }
}

/* A job of several nodes: its layers go to others by one hand-over, and Slurm has the node back, after the usual proof, by the one
 * shrink that there is. */
static void a_node_that_drains_is_given_back(void **state)
{
    (void)state;
    for (uint64_t seed = 60; seed < 70; seed++) {
        struct world *w = begin_nodes(seed, 3);

        drain_for(w, 4, 32.0);
        has_left(w, 2);
        assert_true(is_released(w, 2) && !w->held[2] && w->held[0] && w->held[1] && w->held[3]);
        assert_true(world_slot_has(w, 2, DP_REC_GONE));
        assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
        assert_int_equal(world_count(w, DP_REC_RELINTENT), 1);
        assert_int_equal(w->n_shrinks, 1);
        assert_true(has_event(w, "Slurm drains n2: its workers are to leave"));
        assert_true(world_is_settled(w));
        end(w);
    }
}

/* Two at the same time go by the one shrink that there is; home's node stays. */
static void nodes_that_drain_together(void **state)
{
    struct world *w = begin_nodes(71, 1);

    (void)state;
    drain_for(w, 11, 40.0);
    has_left(w, 1);
    has_left(w, 3);
    assert_true(is_released(w, 1) && is_released(w, 3) && w->worker[0].is_alive && w->worker[2].is_alive);
    assert_int_equal(w->n_shrinks, 1);
    end(w);
}

/* One drains when another one is emptied already: the one shrink that there is waits for the hand-over that is under way. */
static void the_last_shrink_waits_for_a_node_that_drains(void **state)
{
    struct world *w = begin_nodes(73, 2);

    (void)state;
    drains(w, 8);
    run_until(w, 3, DP_REC_DRAIN);
    w->vote_ms = 3000;
    drains(w, 4);
    run_until(w, 3, DP_REC_GONE);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1); /* slot 2's is under way */
    assert_int_equal(world_count(w, DP_REC_INTENT), 2);
    drain_for(w, 4, 40.0);
    assert_true(is_released(w, 2) && is_released(w, 3));
    assert_int_equal(w->n_shrinks, 1);
    end(w);
}

static void stays(struct world *w, uint32_t slot, const char *why)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    char text[300];

    snprintf(text, sizeof text, "Slurm drains it; %s", why);
    assert_string_equal(slot_text(o, slot), text);
    json_decref(o);
    assert_true(w->worker[slot].is_alive);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
}

/* Where the job could not give the node back, or the others could not do without it, nobody leaves, and it is said why. */
static void where_no_node_can_leave(void **state)
{
    static const struct {
        uint32_t ranks, slot, min_devices, allowed;
        uint8_t mode;
        bool has_stepmgr, is_old, is_paused;
        const char *why;
    } cases[] = {
        {4, 2, 4, 1, DP_MODE_RELEASE, false, false, false,
         "its workers stay: fewer devices would be left than the user, or the site, asks for"},
        {4, 2, 2, 1, DP_MODE_BALANCE, false, false, false, "its workers stay: nodes go back to Slurm in mode release only"},
        {4, 2, 2, 1, DP_MODE_OBSERVE, false, false, false, "its workers stay: layers may not move in this mode"},
        {4, 2, 2, 0, DP_MODE_RELEASE, false, false, false, "its workers stay: this Slurm lets a job shrink once, and it has"},
        {4, 2, 2, 0, DP_MODE_RELEASE, true, false, false, "its workers stay: the job has a stepmgr, and cannot shrink"},
        {4, 2, 2, 1, DP_MODE_RELEASE, false, true, false, "its workers stay: n2 is old"},
        {4, 2, 2, 1, DP_MODE_RELEASE, false, false, true, "its workers stay: the run is paused"},
        {1, 0, 1, 1, DP_MODE_RELEASE, false, false, false, "the run stays: it is coordinated there"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = begin(72);

        w->limits.mode = cases[i].mode;
        w->limits.pack.min_devices = cases[i].min_devices;
        w->is_old[2] = cases[i].is_old;
        w->job.shrinks_allowed = cases[i].allowed;
        w->job.has_stepmgr = cases[i].has_stepmgr;
        train_unmoved(w);
        if (cases[i].is_paused)
            assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_PAUSE, "", NULL), 0);
        drain_for(w, cases[i].ranks, 12.0);
        stays(w, cases[i].slot, cases[i].why);
        end(w);
    }
}

/* With packing beside it, and crashes and lost messages: whatever was proved empty is given back. */
static void nodes_drain_under_faults(void **state)
{
    uint32_t n_released = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct world *w = begin(seed + 900);

        w->loss_percent = 10;
        w->fault_percent = 1 + seed % 5;
        w->crash_percent = seed % 2 ? 8 : 0;
        w->limits.pack.min_devices = 1 + seed % 3;
        world_start(w);
        for (int i = 0; i < 15; i++) {
            if (w->c && i < 10)
                drains(w, 4);
            world_run(w, 4.0, true);
        }
        world_settle(w);
        n_released += is_released(w, 2);
        for (uint32_t s = 0; s < W_MAX; s++)
            if (!w->broken[0] && world_slot_has(w, s, DP_REC_GONE) && !is_released(w, s) && !world_slot_has(w, s, DP_REC_HELD))
                snprintf(w->broken, sizeof w->broken, "slot %u is gone, and never released", s);
        end(w);
    }
    assert_true(n_released > 20);
}

/* Home's disk is full just then: it is tried again, for as long as the worker waits, and nobody is made to stop. */
static void a_full_disk_only_delays_it(void **state)
{
    struct world *w = begin_training(45, 1);

    (void)state;
    w->is_disk_full = true;
    world_take(w, 2);
    world_run(w, 6.0, false);
    assert_true(w->worker[2].is_alive);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    assert_int_equal(w->worker[0].n_stops, 0);
    w->is_disk_full = false;
    world_run(w, 5.0, false);
    has_left(w, 2);
    end(w);
}

/* Of a run of nodes nobody leaves alone: Slurm takes the whole job. */
static void nodes_do_not_leave(void **state)
{
    struct world *w = begin(44);

    (void)state;
    train_unmoved(w);
    dp_coord_event(w->c, w->now_ns, 2, &(struct dp_msg_event){.kind = DP_EV_LEAVE});
    dp_coord_event(w->c, w->now_ns, W_MAX, &(struct dp_msg_event){.kind = DP_EV_LEAVE});
    world_run(w, 5.0, false);
    assert_int_equal(w->worker[0].n_stops, 0);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    end(w);
}

/* Under faults: whoever is not let go in time is killed, and the others go on without it either way. */
static void taken_under_faults(void **state)
{
    uint32_t n_left = 0, n_killed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct world *w = begin_sliced(seed);
        uint32_t tries = 0, r = (uint32_t)(seed % 4);

        w->loss_percent = seed % 3 ? 20 : 5;
        w->fault_percent = 1 + seed % 5;
        w->crash_percent = seed % 4 ? 8 : 0;
        w->no_percent = seed % 2 ? 5 : 0;
        w->limits.pack.min_devices = r ? 1 + seed % 3 : 1;
        world_start(w);
        world_run(w, 5.0 + (double)(seed % 20), true);
        world_take(w, r);
        world_run(w, 40.0, true);
        w->loss_percent = w->fault_percent = w->crash_percent = w->no_percent = 0;
        do
            world_run(w, 20.0, false);
        while (!world_is_settled(w) && ++tries < 20 && !w->broken[0]);
        if (tries == 20 && !w->broken[0])
            snprintf(w->broken, sizeof w->broken, "seed %llu is not settled", (unsigned long long)seed);
        if (w->worker[r].is_alive && !w->broken[0])
            snprintf(w->broken, sizeof w->broken, "seed %llu: it is still there", (unsigned long long)seed);
        n_killed += w->worker[0].n_regroups > 0;
        n_left += !w->worker[0].n_regroups;
        end(w);
    }
    print_message("# %u left, %u were killed before\n", n_left, n_killed);
    assert_true(n_left > 75 && n_killed > 0);
}

/* What is written anew names the same slots. */
static void a_journal_written_anew_has_them(void **state)
{
    struct world *w = begin_sliced(37);
    struct dp_err err = {0};
    struct world_record *r;
    struct dp_coord *c;
    uint32_t n = 0, n_slices = 0;

    (void)state;
    world_start(w);
    run_until_released(w, 3);
    r = world_snapshot(w->c, &n);
    assert_non_null(r);
    c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < n; i++) {
        n_slices += r[i].type == (enum dp_record)SLICES;
        if (dp_coord_replay(c, r[i].type, r[i].payload, r[i].bytes, &err) < 0)
            fail_msg("%s", err.text);
    }
    assert_int_equal(n_slices, 1);
    for (uint32_t s = 0; s < W_MAX; s++) {
        assert_string_equal(dp_coord_job(c)->node[s], w->job.node[s]);
        assert_int_equal(dp_coord_job(c)->slice[s], w->job.slice[s]);
    }
    dp_coord_destroy(c);
    free(r);
    end(w);
}

/* The journal is written anew between SLICES and NODES, and then its daemon dies: a restart finds the slices all the same. */
static void a_journal_written_anew_in_between(void **state)
{
    struct world *w = begin_sliced(40);

    (void)state;
    w->renew_percent = 100;
    w->crash_at = 1; /* behind NODES */
    world_start(w);
    assert_true(w->has_crashed && w->n_renewals > 0);
    w->renew_percent = 0;
    world_run(w, 10.0, false); /* its workers are refused where it does not know them */
    assert_int_equal(w->n_crashes, 1);
    for (uint32_t s = 0; s < W_MAX; s++)
        assert_int_equal(dp_coord_job(w->c)->slice[s], 201 + s);
    end(w);
}

/* A run of nodes writes none, and a journal of one has none. */
static void nodes_have_no_slices(void **state)
{
    struct world *w = begin(38);
    json_t *o;

    (void)state;
    world_start(w);
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, (enum dp_record)SLICES), 0);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_null(json_object_get(json_array_get(json_object_get(o, "slots"), 0), "job"));
    json_decref(o);
    end(w);
}

/* why NULL: it does not. */
static void refuses(struct world *w, const char *payload, size_t bytes, const char *why)
{
    static const uint8_t nodes[] = {0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 'a', 0, 1, 'a'};
    struct dp_err err = {0};
    struct dp_coord *c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    int rc = dp_coord_replay(c, (enum dp_record)SLICES, payload, bytes, &err);

    if (rc == 0)
        rc = dp_coord_replay(c, (enum dp_record)12, nodes, sizeof nodes, &err); /* NODES */
    assert_int_equal(rc, why ? -1 : 0);
    if (why && !strstr(err.text, why))
        fail_msg("\"%s\", not \"%s\"", err.text, why);
    dp_coord_destroy(c);
}

static void bad_slices_are_refused(void **state)
{
    struct world *w = begin_sliced(39);
    struct dp_err err = {0};

    (void)state;
    refuses(w, "\0\0\0\2\0\0\0\11\0\0\0\12\0\0\0\0", 16, NULL);
    refuses(w, "\0\0\0\2\0\0\0\11\0\0\0\11\0\0\0\0", 16, "slots 0 and 1 are both of job 9");
    refuses(w, "\0\0\0\2\0\0\0\11\0\0\0\0\0\0\0\0", 16, "slot 1 has a node and no job of its own");
    refuses(w, "\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0", 16, "slices without jobs");
    refuses(w, "\0\0\0\3\0\0\0\11\0\0\0\12\0\0\0\13\0\0\0\0\0\0", 22, "2 slots, 3 slices");
    refuses(w, "\0\0\0\0", 4, "0 slices");
    refuses(w, "\0\0\2\1", 4, "513 slices");
    refuses(w, "\0\0\0\2\0\0\0\11", 8, "");
    w->job.slice[3] = 201;
    assert_null(dp_coord_create(&w->job, &w->limits, &w->ops, w, &err));
    assert_non_null(strstr(err.text, "slots 0 and 3 are both of job 201"));
    w->job.slice[3] = 0;
    assert_null(dp_coord_create(&w->job, &w->limits, &w->ops, w, &err));
    end(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(slices_are_packed_and_given_back),
    cmocka_unit_test(whole_nodes_are_left),
    cmocka_unit_test(one_of_two_on_a_node_goes),
    cmocka_unit_test(a_slice_that_goes_on_is_held),
        cmocka_unit_test(an_end_is_seen_at_once),
    cmocka_unit_test(one_that_slurm_takes_leaves),
    cmocka_unit_test(two_leave_together),
    cmocka_unit_test(home_leaves_like_any_other),
    cmocka_unit_test(home_dies_like_any_other),
    cmocka_unit_test(the_only_job_is_the_run_to_its_user),
    cmocka_unit_test(all_tasks_of_an_array_are_the_run_to_its_user),
    cmocka_unit_test(a_lost_coordinator_is_replaced),
    cmocka_unit_test(a_lost_coordinator_without_workers_costs_no_step),
    cmocka_unit_test(a_lost_leader_without_layers_is_told),
    cmocka_unit_test(taken_over_at_any_time),
    cmocka_unit_test(where_one_cannot_leave_all_stop),
    cmocka_unit_test(a_full_disk_only_delays_it),
    cmocka_unit_test(slices_leave_a_drained_node),
    cmocka_unit_test(a_node_that_drains_is_given_back),
    cmocka_unit_test(nodes_that_drain_together),
    cmocka_unit_test(the_last_shrink_waits_for_a_node_that_drains),
    cmocka_unit_test(where_no_node_can_leave),
    cmocka_unit_test(nodes_drain_under_faults),
    cmocka_unit_test(nodes_do_not_leave),
    cmocka_unit_test(taken_under_faults),
    cmocka_unit_test(a_forgotten_end_is_read_again),
    cmocka_unit_test(who_is_who),
    cmocka_unit_test(nobody_else_ends_a_slice),
    cmocka_unit_test(crashes_at_every_record),
    cmocka_unit_test(faults_of_all_kinds),
    cmocka_unit_test(a_journal_written_anew_has_them),
    cmocka_unit_test(a_journal_written_anew_in_between),
    cmocka_unit_test(nodes_have_no_slices),
    cmocka_unit_test(bad_slices_are_refused),
};
TEST_MAIN("coord_slices", tests)
