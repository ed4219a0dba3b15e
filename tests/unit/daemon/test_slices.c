/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices, jobs of one worker each on the nodes of two real daemons (daemon_world.h), become one run: which ranks their workers
 * are told, who is refused, and what a restart of the daemons does. */
#include "tests/unit/daemon/daemon_check.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/conf/options.h"
#include "common/wire.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/slicing.h"
#include "tests/unit/unit.h"

enum { ARRAY = 103, HOME = 101, OTHER = 102, LATE = 103, FOREIGN = 200, STEP = 4, WAIT_S = 20 };

struct answer {
    int state; /* enum dp_wireup_state, -1: none */
    uint32_t rank, n_workers;
    char text[1024];
};

static struct dw_process *process[3];
static uint32_t n_seats = 2; /* of the run whose workers say HELLO */
static uint32_t max_gpus; /* of the steps that begin; 0: not asked for */

static int open_impatient_world(void **state)
{
    if (open_world(state) < 0)
        return -1;
    for (int n = 0; n < DW_NODES; n++)
        dw.node[n].config->slices_wait_s = WAIT_S;
    return 0;
}

/* The plugin tells of the step of a slice that Slurm has started there, and of its task. */
static struct dw_process *begin_step(uint32_t i, uint32_t job_id, uint32_t node, uint32_t n_slices)
{
    struct dp_msg_step_start start = {.job_id = job_id, .step_id = STEP + i, .uid = DW_OWNER, .gid = DW_OWNER,
                                      .options_set = DP_OPT_MODE | DP_OPT_SLICES, .mode = DP_MODE_BALANCE, .slices = n_slices};
    static struct dp_msg_tasks tasks;
    static uint8_t body[DP_BODY_MAX];
    struct dw_process *p = dw_fork(node, DW_WORKERS);
    struct dp_writer w;

    if (max_gpus) {
        start.options_set |= DP_OPT_MAX_GPUS;
        start.max_gpus = max_gpus;
    }
    memcpy(start.node, dw.node[node].name, sizeof start.node);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, &start);
    (void)dw_say(node, 0, DP_MSG_STEP_START, body, dp_writer_used(&w));
    dw_run(0.3, false);
    tasks = (struct dp_msg_tasks){.job_id = job_id, .step_id = STEP + i, .n_tasks = 1, .count = 1, .pid = {p->pid}};
    dp_writer_init(&w, body, sizeof body);
    dp_msg_tasks_encode(&w, &tasks);
    (void)dw_say(node, 0, DP_MSG_TASKS, body, dp_writer_used(&w));
    dw_run(0.3, false);
    return p;
}

static struct dw_process *begin(uint32_t i, uint32_t job_id, uint32_t array, uint32_t node, uint32_t n_slices)
{
    dw.slurm.slice[i] = (struct dw_slice){.job_id = job_id, .array = array, .uid = DW_OWNER, .node = node, .start_s = 10 + i};
    return begin_step(i, job_id, node, n_slices);
}

/* A process asks for the rank of a slice, once. */
static struct answer ask(uint32_t node, uint32_t job_id, uint32_t step_id, uint32_t pid, uint32_t uid)
{
    struct dp_msg_card m = {.job_id = job_id, .step_id = step_id, .n_workers = 1, .kind = DP_CARD_SLICE, .patience_ms = 1000};
    struct dp_header h = {DP_PROTO_VERSION, DP_MSG_CARD, 0, 1};
    uint8_t frame[4096];
    struct answer a = {.state = -1};
    struct dp_msg_wireup in;
    struct dp_writer out;
    struct dp_reader r;
    int fd = dw_connect(node, pid, uid);

    assert_true(fd >= 0);
    dp_writer_init(&out, frame + DP_HEADER_BYTES, sizeof frame - DP_HEADER_BYTES);
    dp_msg_card_encode(&out, &m);
    h.body_len = (uint32_t)dp_writer_used(&out);
    dp_header_encode(frame, &h);
    (void)!send(fd, frame, DP_HEADER_BYTES + h.body_len, MSG_NOSIGNAL);
    dw_run(0.2, false);
    if (recv(fd, frame, sizeof frame, MSG_DONTWAIT) > DP_HEADER_BYTES && dp_header_decode(frame, &h, NULL) == 0 &&
        h.type == DP_MSG_WIREUP) {
        dp_reader_init(&r, frame + DP_HEADER_BYTES, h.body_len);
        assert_int_equal(dp_msg_wireup_decode(&r, &in, NULL), 0);
        a = (struct answer){.state = in.state, .rank = in.speaker, .n_workers = in.n_workers};
        memcpy(a.text, in.text, sizeof a.text);
    }
    close(fd);
    return a;
}

/* As long as it is told to ask again, and not for ever. */
static struct answer ask_on(uint32_t i, uint32_t node, uint32_t job_id, uint32_t pid, double seconds)
{
    struct answer a = {.state = DP_WIREUP_LATER};

    for (uint64_t end = dw.now_ns + (uint64_t)(seconds * 1e9); a.state == DP_WIREUP_LATER && dw.now_ns < end;) {
        a = ask(node, job_id, STEP + i, pid, DW_OWNER);
        dw_run(0.3, false);
    }
    return a;
}

/* The world's own run, which would empty its nodes. */
static void end_own_run(void)
{
    dw.slurm.has_ended = dw.is_lost = true;
    for (uint32_t i = 0; i < dw.n_processes; i++)
        dw_exit(&dw.process[i]);
}

static void begin_two(uint32_t n_slices)
{
    struct answer a;

    dw_start(1, NULL, 0);
    dw_run(1.5, false);
    a = ask(0, DW_JOB, STEP, dw.process[0].pid, DW_OWNER);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_non_null(strstr(a.text, "--dynpipe-slices"));
    end_own_run();
    process[0] = begin(0, HOME, ARRAY, 0, n_slices);
    process[1] = begin(1, OTHER, ARRAY, 1, n_slices);
}

static void check_ranks(void)
{
    struct answer a[2];

    (void)ask_on(1, 1, OTHER, process[1]->pid, 2);
    (void)ask_on(0, 0, HOME, process[0]->pid, 4);
    a[1] = ask_on(1, 1, OTHER, process[1]->pid, 15);
    a[0] = ask_on(0, 0, HOME, process[0]->pid, 15);
    for (uint32_t i = 0; i < 2; i++) {
        if (a[i].state != DP_WIREUP_RANK)
            fail_msg("slice %u: state %d: %s", i, a[i].state, a[i].text);
        assert_int_equal(a[i].rank, i);
        assert_int_equal(a[i].n_workers, 2);
    }
    for (uint32_t i = 0; i < 2; i++) { /* all of them are known under home's step */
        struct dp_place at = dp_slice_place(dp_run_find(&dw.node[i].d, i ? OTHER : HOME));

        assert_int_equal(at.rank, i);
        assert_int_equal(at.step_id, STEP);
        assert_int_equal(at.n_there, 2);
        assert_false(at.joins);
    }
}

/* The other slice has ended, and what passed on for it on its node. */
static void is_known_at_home_only(void)
{
    assert_null(dp_run_find(&dw.node[1].d, OTHER));
    assert_null(dp_run_find(&dw.node[1].d, HOME));
    assert_non_null(dp_run_find(&dw.node[0].d, HOME));
}

static void two_slices_become_one_run(void **state)
{
    const struct dp_run *home, *far;
    const struct dp_job_info *job;

    (void)state;
    begin_two(2);
    check_ranks();
    home = dp_run_find(&dw.node[0].d, HOME);
    assert_non_null(home);
    assert_true(dp_slices_are(home));
    assert_non_null(home->coord);
    job = dp_coord_job(home->coord);
    assert_int_equal(job->n_nodes, 2);
    assert_int_equal(job->slice[0], HOME);
    assert_int_equal(job->slice[1], OTHER);
    far = dp_run_find(&dw.node[1].d, HOME);
    assert_non_null(far);
    assert_int_equal(far->role, DP_RUN_RELAY);
    assert_true(dp_slices_have(home, 1, dw.node[1].name, OTHER) && !dp_slices_have(home, 1, dw.node[0].name, 0));

    dw_restart_all(); /* and from the coordinator's journal it is the same */
    check_ranks();
    home = dp_run_find(&dw.node[0].d, HOME);
    assert_true(home && dp_slices_are(home));

    /* A slice ends, and what passed on for it there. */
    dw.slurm.slice[1].has_ended = true;
    dw_exit(process[1]);
    dw_run(12, false);
    is_known_at_home_only();
    end_world();
}

/* Whoever took node 1 over says that a job there is a slice, and Slurm does not. */
static void pretend(uint32_t job_id)
{
    struct dp_msg_slice m = {.job_id = HOME, .slice = job_id, .step_id = STEP, .pid = 999};
    struct dp_conn *c;

    dw.current = &dw.node[1];
    dp_peer_want(&dw.node[1].d, dw.node[0].name);
    dw_run(0.5, false);
    c = dp_peer_find(&dw.node[1].d, dw.node[0].name);
    assert_non_null(c);
    DP_CONN_SEND(c, slice, DP_MSG_SLICE, &m);
    dw_run(1.2, false); /* Slurm is asked once more, too */
}

static void who_is_no_slice_is_refused(void **state)
{
    struct dw_process *intruder, *foreign, *late;
    struct answer a;

    (void)state;
    begin_two(2);
    foreign = begin(2, FOREIGN, FOREIGN, 1, 2);
    a = ask(0, HOME, STEP, process[0]->pid, DW_STRANGER);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_non_null(strstr(a.text, "another user"));
    intruder = dw_fork(0, DW_WORKERS);
    a = ask(0, HOME, STEP, intruder->pid, DW_OWNER);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_non_null(strstr(a.text, "not started by any task"));

    /* One of two is there; no other makes it two. */
    (void)ask_on(0, 0, HOME, process[0]->pid, 3);
    dw.node[1].is_hostile = true;
    pretend(FOREIGN);
    pretend(DW_JOB);
    pretend(4711);
    pretend(HOME); /* which is not on that node */
    dw.node[1].is_hostile = false;
    assert_false(dp_slices_are(dp_run_find(&dw.node[0].d, HOME)));
    a = ask_on(2, 1, FOREIGN, foreign->pid, 3);
    assert_int_equal(a.state, DP_WIREUP_LATER); /* of a run of its own, that lacks a slice */
    check_ranks();

    late = begin(3, LATE, ARRAY, 1, 2);
    a = ask_on(3, 1, LATE, late->pid, 15);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_string_equal(a.text, "the run has the 2 slices that it needs");
    check_ranks();
    end_world();
}

static void too_few_do_not_begin(void **state)
{
    struct answer a[2];

    (void)state;
    begin_two(3);
    a[1] = ask_on(1, 1, OTHER, process[1]->pid, 3);
    a[0] = ask_on(0, 0, HOME, process[0]->pid, WAIT_S + 10);
    a[1] = ask_on(1, 1, OTHER, process[1]->pid, 5);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(a[i].state, DP_WIREUP_DENIED);
        assert_non_null(strstr(a[i].text, "of 3 slices have joined in 20 s, and the run needs more"));
    }
    assert_null(dp_run_find(&dw.node[0].d, HOME)->coord);
    end_world();
}

/* A process that ended is not waited for, nor counted. */
static void who_has_ended_is_not_counted(void **state)
{
    struct answer a;

    (void)state;
    begin_two(2);
    (void)ask_on(0, 0, HOME, process[0]->pid, 3);
    dw_exit(process[0]);
    dw_run(1, false);
    a = ask_on(1, 1, OTHER, process[1]->pid, 8);
    assert_int_equal(a.state, DP_WIREUP_LATER);
    assert_false(dp_slices_are(dp_run_find(&dw.node[0].d, HOME)));
    end_world();
}

/* ---- companions ---- */

static struct dp_run *home_run(void)
{
    return dp_run_find(&dw.node[0].d, HOME);
}

static struct dp_companions_view view(void)
{
    struct dp_companions_view v = {0};

    if (home_run())
        dp_companions_look(home_run(), &v);
    return v;
}

/* A job of no array that shall be so many slices; its worker is there. most: companions that the owner may have; lost: answers to
 * those who submit some. */
static void begin_home(uint32_t n_slices, uint32_t most, uint32_t lost)
{
    dw_start(1, NULL, 0);
    dw_run(1.5, false);
    end_own_run();
    dw.slurm.most_companions = most;
    dw.slurm.lose_answers = lost;
    process[0] = begin(0, HOME, 0, 0, n_slices);
}

static uint32_t n_companions(bool is_waiting)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < DW_SLICES; i++)
        n += dw.slurm.slice[i].slice_of == HOME && !dw.slurm.slice[i].has_ended && dw.slurm.slice[i].is_waiting == is_waiting;
    return n;
}

/* Slurm starts a companion that waits. */
static struct dw_process *start_companion(uint32_t i, uint32_t node, uint32_t n_slices)
{
    assert_true(dw.slurm.slice[i].is_waiting);
    dw.slurm.slice[i].is_waiting = false;
    dw.slurm.slice[i].node = node;
    dw.slurm.slice[i].start_s = dw.now_ns / UINT64_C(1000000000);
    return begin_step(i, dw.slurm.slice[i].job_id, node, n_slices);
}

static void a_job_gets_companions(void **state)
{
    struct answer a;
    uint32_t other;

    (void)state;
    begin_home(2, 8, 0);
    dw_run(1, false);
    assert_int_equal(n_companions(true), 1);
    assert_int_equal(view().state, DP_COMPANIONS_WAIT);
    assert_true(view().waiting_since_ns > 0);
    a = ask_on(0, 0, HOME, process[0]->pid, 8);
    assert_int_equal(a.state, DP_WIREUP_LATER);
    assert_string_equal(a.text, "1 of 2 slices have come; 1 wait in Slurm's queue");
    process[1] = start_companion(1, 1, 2);
    other = dw.slurm.slice[1].job_id;
    (void)ask_on(1, 1, other, process[1]->pid, 2);
    (void)ask_on(0, 0, HOME, process[0]->pid, 4);
    a = ask_on(1, 1, other, process[1]->pid, 15);
    if (a.state != DP_WIREUP_RANK)
        fail_msg("%s", a.text);
    assert_int_equal(a.rank, 1);
    assert_int_equal(a.n_workers, 2);
    dw_run(12, false);
    assert_int_equal(view().state, DP_COMPANIONS_THERE);
    assert_true(dw.slurm.slice[0].is_marked && dw.slurm.slice[1].is_marked);
    assert_int_equal(dw.slurm.n_submitted, 1);

    dw.slurm.slice[1].slice_of = 0; /* its owner writes another comment: it stays a slice, and asks for no companions of its own */
    dw_run(15, false);
    assert_int_equal(dw.slurm.slice[1].slice_of, HOME);
    assert_int_equal(dp_run_find(&dw.node[1].d, other)->job.slice_of, HOME);
    assert_int_equal(dw.slurm.n_submitted, 1);

    dw_restart_all(); /* the run has begun: nothing is asked for any more */
    dw_run(12, false);
    assert_true(home_run() && dp_slices_are(home_run()));
    assert_int_equal(dw.slurm.n_submitted, 1);

    dw.slurm.slice[0].has_ended = true; /* and with home its companion has no run */
    dw_exit(process[0]);
    dw_run(12, false);
    assert_null(home_run());
    end_world();
}

/* An answer that is lost, a daemon that is killed, and Slurm that is away: nothing is submitted twice. */
static void nothing_is_submitted_twice(void **state)
{
    uint32_t n;

    (void)state;
    begin_home(4, 8, 1);
    dw_run(12, false);
    assert_int_equal(dw.slurm.lose_answers, 0);
    assert_int_equal(dw.slurm.n_submitted, 3);
    assert_int_equal(n_companions(true), 3);
    assert_int_equal(view().state, DP_COMPANIONS_WAIT);
    for (int i = 0; i < 3; i++) {
        dw_restart_all();
        dw_run(9, false);
        assert_int_equal(dw.slurm.n_submitted, 3);
        assert_int_equal(view().state, DP_COMPANIONS_WAIT);
    }
    dw.slurm.is_down = true;
    dw.slurm.up_at_ns = UINT64_MAX;
    dw_run(60, false);
    n = dw.slurm.n_asked;
    dw_run(60, false);
    assert_in_range(dw.slurm.n_asked - n, 1, 3); /* it is asked less and less often */
    dw_restart_all();
    dw_run(9, false);
    dw.slurm.is_down = false;
    dw_run(60, false);
    assert_int_equal(dw.slurm.n_submitted, 3);
    assert_int_equal(view().state, DP_COMPANIONS_WAIT);

    /* What ends at once is not asked for again and again. */
    for (uint32_t i = 1; i < 4; i++)
        dw.slurm.slice[i].has_ended = true;
    dw_run(30, false);
    assert_int_equal(view().state, DP_COMPANIONS_THERE);
    assert_int_equal(view().n_ended, 3);
    assert_int_equal(dw.slurm.n_submitted, 3);
    end_world();
}

static void what_slurm_refuses_is_told(void **state)
{
    struct answer a;

    (void)state;
    begin_home(4, 2, 0);
    dw_run(3, false);
    assert_int_equal(view().state, DP_COMPANIONS_REFUSED);
    assert_string_equal(view().text, "so many are not allowed");
    assert_int_equal(view().wanted, 3);
    assert_int_equal(view().n_waiting, 2);
    a = ask_on(0, 0, HOME, process[0]->pid, 5);
    assert_int_equal(a.state, DP_WIREUP_LATER); /* two may still come, and it needs three */
    assert_non_null(strstr(a.text, "Slurm refuses more of them: so many are not allowed"));
    a = ask_on(0, 0, HOME, process[0]->pid, WAIT_S + 10);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_string_equal(a.text, "1 of 4 slices have joined in 20 s, and the run needs more; Slurm refuses more of them: so many are not "
                                "allowed");
    dw_run(3, false);
    assert_int_equal(n_companions(true), 0); /* and nobody waits for a run that failed */
    assert_int_equal(dw.slurm.n_submitted, 2);
    end_world();
}

static void none_at_all_fails_at_once(void **state)
{
    struct answer a;

    (void)state;
    begin_home(2, 0, 0);
    dw_run(3, false);
    a = ask_on(0, 0, HOME, process[0]->pid, WAIT_S / 2);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_string_equal(a.text, "no more than 1 of the 2 slices that the run needs are there; Slurm refuses more of them: so many are not "
                                "allowed");
    end_world();
}

/* Also when home's daemon is dead at that moment, and comes back. */
static void who_waits_is_withdrawn_with_home(void **state)
{
    (void)state;
    for (int is_away = 0; is_away < 2; is_away++) {
        begin_home(4, 8, 0);
        dw_run(3, false);
        process[1] = start_companion(1, 1, 4);
        if (is_away)
            dw_kill_daemon(0, 20);
        dw.slurm.slice[0].has_ended = true;
        dw_exit(process[0]);
        dw_run(12, false);
        assert_int_equal(n_companions(true), is_away ? 2 : 0);
        dw_run(is_away ? 20 : 0, false);
        assert_null(home_run());
        assert_int_equal(n_companions(true), 0);
        assert_int_equal(n_companions(false), 1); /* Slurm's cancel is for those that wait */
        end_world();
    }
}

/* A run that may grow begins with as many as it asked for, in as many seats as it may have; as the site allows. */
static void seats_for_growth(void **state)
{
    static const struct { uint32_t slices, most, site, seats; } of[] = {
        {2, 5, 512, 5}, {2, 5, 4, 4}, {2, 5, 1, 2}, {2, 5, 0, 2}, {1, 3, 512, 3}};
    struct answer a;

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        max_gpus = of[i].most;
        dw.node[0].config->run.max_gpus = dw.node[1].config->run.max_gpus = of[i].site;
        begin_home(of[i].slices, 8, 0);
        dw_run(2, false);
        assert_int_equal(n_companions(true), of[i].slices - 1);
        if (of[i].slices > 1) {
            process[1] = start_companion(1, 1, of[i].slices);
            (void)ask_on(1, 1, dw.slurm.slice[1].job_id, process[1]->pid, 2);
        }
        a = ask_on(0, 0, HOME, process[0]->pid, 15);
        if (a.state != DP_WIREUP_RANK)
            fail_msg("%u of %u: %s", of[i].slices, of[i].most, a.text);
        assert_int_equal(a.rank, 0);
        assert_int_equal(a.n_workers, of[i].seats);
        dw_restart_all(); /* and as many after a restart */
        dw_run(9, false);
        assert_true(home_run() && home_run()->coord && dp_slices_are(home_run()));
        assert_int_equal(dp_coord_job(home_run()->coord)->n_nodes, of[i].seats);
        assert_int_equal(dw.slurm.n_submitted, of[i].slices - 1);
        end_world();
    }
    max_gpus = 0;
    dw.node[0].config->run.max_gpus = dw.node[1].config->run.max_gpus = 512;
}

/* How many there shall be is changed while some wait, as growth does. */
static void more_and_fewer_are_wanted(void **state)
{
    (void)state;
    begin_home(4, 8, 0);
    dw_run(3, false);
    (void)start_companion(1, 1, 4);
    assert_int_equal(dp_companions_want(home_run(), 2, 0, 0), 0);
    dw_run(3, false);
    assert_int_equal(n_companions(true), 1);
    assert_int_equal(dw.slurm.slice[2].job_id, 1002); /* the newest went */
    assert_int_equal(dp_companions_want(home_run(), 4, 0, 0), 0);
    dw_run(0.12, false);
    assert_int_equal(dp_companions_want(home_run(), 5, 0, 30 * UINT64_C(1000000000)), 0); /* while that is asked */
    dw_run(3, false);
    assert_int_equal(n_companions(true), 4);
    assert_int_equal(view().state, DP_COMPANIONS_WAIT);
    assert_int_equal(view().wanted, 5);
    dw_run(60, false);
    assert_int_equal(view().state, DP_COMPANIONS_WITHDRAWN);
    assert_string_equal(view().text, "they waited for more than 30 s in the queue");
    assert_int_equal(n_companions(true), 0);
    assert_int_equal(n_companions(false), 1);
    assert_int_equal(dp_companions_want(home_run(), 2, 0, 0), 0); /* asked anew */
    dw_run(3, false);
    assert_int_equal(n_companions(true), 1);
    dp_companions_stop(home_run());
    dw_run(3, false);
    assert_int_equal(n_companions(true), 0);
    assert_int_equal(n_companions(false), 1);
    end_world();
}

/* A job that names another one, and is no slice of it. */
static void who_names_a_run_falsely_is_refused(void **state)
{
    struct dw_process *p[3];
    struct answer a;

    (void)state;
    begin_home(3, 0, 0);
    dw.slurm.most_companions = 8;
    dw_run(0.5, false);
    dw.slurm.slice[4] = (struct dw_slice){.job_id = 700, .uid = DW_OWNER, .node = 1, .slice_of = HOME, .start_s = 5, .is_older = true};
    p[0] = begin_step(4, 700, 1, 3);
    a = ask_on(4, 1, 700, p[0]->pid, 10);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_non_null(strstr(a.text, "it was asked for in an earlier life of that job"));
    dw.slurm.slice[5] = (struct dw_slice){.job_id = 701, .uid = DW_OWNER, .node = 1, .slice_of = 4711, .start_s = 15};
    p[1] = begin_step(5, 701, 1, 3);
    a = ask_on(5, 1, 701, p[1]->pid, 10);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    assert_non_null(strstr(a.text, "job 4711 is over"));
    dw.slurm.slice[6] = (struct dw_slice){.job_id = 702, .uid = DW_OWNER, .node = 1, .slice_of = 701, .start_s = 15};
    p[2] = begin_step(6, 702, 1, 3); /* whose home is a slice itself */
    a = ask_on(6, 1, 702, p[2]->pid, 10);
    assert_int_equal(a.state, DP_WIREUP_DENIED);
    dw.node[1].is_hostile = true; /* and no daemon makes them slices */
    pretend(700);
    pretend(701);
    dw.node[1].is_hostile = false;
    assert_false(dp_slices_are(home_run()));
    end_world();
}

/* Two companions begin in the moment in which home's job is over: neither takes the other one for a part of the run. */
static void two_that_are_late_do_not_wait_for_each_other(void **state)
{
    struct dw_process *p[2];
    struct answer a[2];

    (void)state;
    begin_home(3, 0, 0);
    dw.slurm.most_companions = 8;
    dw_run(0.5, false);
    dw.slurm.slice[0].has_ended = true;
    dw_exit(process[0]);
    for (uint32_t i = 0; i < 2; i++) {
        dw.slurm.slice[4 + i] = (struct dw_slice){.job_id = 700 + i, .uid = DW_OWNER, .node = i, .slice_of = HOME, .start_s = 15};
        p[i] = begin_step(4 + i, 700 + i, i, 3);
    }
    for (uint32_t t = 0; t < 15; t++)
        for (uint32_t i = 0; i < 2; i++)
            a[i] = ask_on(4 + i, i, 700 + i, p[i]->pid, 1);
    for (uint32_t i = 0; i < 2; i++)
        if (a[i].state != DP_WIREUP_DENIED || !strstr(a[i].text, "no run is there"))
            fail_msg("slice %u: state %d: %s", i, a[i].state, a[i].text);
    end_world();
}

/* All were requeued, and another one than before begins first: what the comments say is of their former lives. */
static void another_one_is_home_of_a_new_run(void **state)
{
    struct answer a[2];

    (void)state;
    dw_start(1, NULL, 0);
    dw_run(1.5, false);
    end_own_run();
    process[1] = begin(0, OTHER, ARRAY, 1, 2);
    dw.slurm.slice[0].slice_of = HOME;
    process[0] = begin(1, HOME, ARRAY, 0, 2);
    (void)ask_on(1, 0, HOME, process[0]->pid, 2);
    (void)ask_on(0, 1, OTHER, process[1]->pid, 4);
    a[0] = ask_on(1, 0, HOME, process[0]->pid, 15);
    a[1] = ask_on(0, 1, OTHER, process[1]->pid, 15);
    for (uint32_t i = 0; i < 2; i++)
        if (a[i].state != DP_WIREUP_RANK)
            fail_msg("slice %u: state %d: %s", i, a[i].state, a[i].text);
    assert_int_equal(a[1].rank, 0);
    assert_int_equal(a[0].rank, 1);
    assert_int_equal(dp_run_find(&dw.node[1].d, OTHER)->role, DP_RUN_COORD);
    assert_int_equal(dp_run_find(&dw.node[0].d, OTHER)->role, DP_RUN_RELAY);
    end_world();
}

/* A slice that Slurm takes has KillWait to hand its layers over, and needs the line to its coordinator for that. */
static void one_that_is_taken_keeps_its_line(void **state)
{
    (void)state;
    begin_two(2);
    check_ranks();
    dw.slurm.slice[1].is_ending = true;
    dw_run(12, false);
    assert_non_null(dp_run_find(&dw.node[1].d, OTHER));
    assert_non_null(dp_run_find(&dw.node[1].d, HOME));
    dw_exit(process[1]);
    dw_run(12, false);
    is_known_at_home_only();
    end_world();
}

/* A newcomer that was not told when its run ended, because its node was cut off, finds out, and looks for no other one. The run
 * is one that waits for a third slice; home's daemon says all the same that the second has its rank, and joins. */
static void a_newcomer_finds_out_that_its_run_is_over(void **state)
{
    struct dp_msg_slice_rank m = {.job_id = HOME, .slice = OTHER, .state = DP_SLICE_RANKED, .step_id = STEP, .rank = 1, .n_workers = 3,
                                  .n_there = 1, .joins = 1};
    struct dp_conn *c;
    struct answer a;

    (void)state;
    begin_two(3);
    (void)ask_on(0, 0, HOME, process[0]->pid, 2);
    a = ask_on(1, 1, OTHER, process[1]->pid, 4);
    assert_int_equal(a.state, DP_WIREUP_LATER);
    dw.current = &dw.node[0];
    c = dp_peer_find(&dw.node[0].d, dw.node[1].name);
    assert_non_null(c);
    m.pid = process[1]->pid;
    DP_CONN_SEND(c, slice_rank, DP_MSG_SLICE_RANK, &m);
    dw_run(12, false); /* its run is there */
    a = ask_on(1, 1, OTHER, process[1]->pid, 2);
    assert_int_equal(a.state, DP_WIREUP_RANK);
    assert_true(dp_slice_place(dp_run_find(&dw.node[1].d, OTHER)).joins);
    dw.slurm.slice[0].has_ended = true;
    dw_exit(process[0]);
    dw_run(12, false);
    assert_null(dp_run_find(&dw.node[0].d, HOME));
    dw_run(7, false);
    a = ask_on(1, 1, OTHER, process[1]->pid, 2);
    if (a.state != DP_WIREUP_DENIED)
        fail_msg("state %d: %s", a.state, a.text);
    assert_non_null(strstr(a.text, "the run of job 101 is over"));
    assert_null(dp_run_find(&dw.node[1].d, HOME));
    end_world();
}

static bool has_journal(uint32_t node, uint32_t job_id, uint32_t restarts)
{
    char path[160];

    snprintf(path, sizeof path, "%s/job-%u.%u.journal", dw.node[node].folder, job_id, restarts);
    return access(path, F_OK) == 0;
}

/* The node of home and of the coordinator is lost. When it comes back home's job is in its next life, on another node, on this one again,
 * or in the queue: the journal of the life before is done with. */
static void a_former_life_is_done_with(void **state)
{
    (void)state;
    for (int now = 0; now < 3; now++) {
        begin_two(2);
        check_ranks();
        assert_true(has_journal(0, HOME, 0));
        dw_kill_daemon(0, 20);
        for (uint32_t i = 0; i < 2; i++) {
            dw_exit(process[i]);
            dw.slurm.slice[i].restart_count = 1;
            dw.slurm.slice[i].start_s = 60;
            if (now == 0)
                dw.slurm.slice[i].node = 1;
            dw.slurm.slice[i].is_ending = now == 2;
        }
        dw_run(45, false);
        assert_true(!home_run() == (now != 1));
        assert_false(has_journal(0, HOME, 0));
        end_world();
    }
}

/* The worker of a slice says that it trains, and hears an answer within a second, or none: *verdict -1. returns its connection. */
static int greet_as(uint32_t rank, uint32_t i, uint32_t node, uint32_t job_id, int *verdict, char text[256])
{
    static struct dp_msg_hello m;
    static uint8_t frame[DP_HEADER_BYTES + DP_BODY_MAX];
    struct dp_msg_step_start options = {.options_set = DP_OPT_MODE | DP_OPT_SLICES, .mode = DP_MODE_BALANCE, .slices = n_seats};
    struct dp_header h = {DP_PROTO_VERSION, DP_MSG_HELLO, 0, 1};
    struct dp_msg_welcome welcome;
    int fd = dw_connect(node, process[i]->pid, DW_OWNER);
    struct dp_writer w;
    struct dp_reader r;

    *verdict = -1;

    m = (struct dp_msg_hello){.job_id = job_id, .step_id = STEP + i, .rank = rank, .n_workers = n_seats, .n_layers = 4,
                              .steps_total = 1000, .microbatches = 4, .tokens_per_microbatch = 64, .stage_message_bytes = 1000,
                              .regroups = 1, .cut = {0, 2, n_seats == 2 ? 4 : 3, 4}};
    assert_true(fd >= 0);
    assert_int_equal(dp_options_format(&options, m.options, sizeof m.options), 0);
    dp_writer_init(&w, frame + DP_HEADER_BYTES, DP_BODY_MAX);
    dp_msg_hello_encode(&w, &m);
    h.body_len = (uint32_t)dp_writer_used(&w);
    dp_header_encode(frame, &h);
    (void)!send(fd, frame, DP_HEADER_BYTES + h.body_len, MSG_NOSIGNAL);
    dw_run(1.0, false);
    if (recv(fd, frame, sizeof frame, MSG_DONTWAIT) <= DP_HEADER_BYTES || dp_header_decode(frame, &h, NULL) < 0 ||
        h.type != DP_MSG_WELCOME)
        return fd;
    dp_reader_init(&r, frame + DP_HEADER_BYTES, h.body_len);
    assert_int_equal(dp_msg_welcome_decode(&r, &welcome, NULL), 0);
    *verdict = welcome.verdict;
    snprintf(text, 256, "%.255s", welcome.text);
    return fd;
}

static int greet(uint32_t i, uint32_t node, uint32_t job_id, int *verdict, char text[256])
{
    return greet_as(i, i, node, job_id, verdict, text);
}

/* It is welcome, and stays connected. */
static int say_hello(uint32_t i, uint32_t node, uint32_t job_id)
{
    char text[256] = "no answer";
    int verdict, fd = greet(i, node, job_id, &verdict, text);

    if (verdict != DP_VERDICT_OK)
        fail_msg("job %u: %s", job_id, text);
    return fd;
}

static void goes_on_from_its_journal(void)
{
    const struct dp_run *run = home_run();

    assert_non_null(run);
    assert_non_null(run->coord);
    assert_true(run->is_home_over && run->job.restart_count == 0 && dp_slices_are(run));
    assert_int_equal(dp_coord_incarnation(run->coord) >= 2, 1);
    assert_true(has_journal(0, HOME, 0));
}

/* Home's job is requeued while another slice trains on, and the daemon of the coordinator is killed, twice, when the job is elsewhere, on
 * this node again, or in the queue: it goes on from the journal. When that slice is requeued, too, nobody trains in this life. */
static void others_train_on_when_home_runs_again(void **state)
{
    (void)state;
    for (int now = 0; now < 3; now++) {
        int fd[2];

        begin_two(2);
        check_ranks();
        fd[0] = say_hello(0, 0, HOME);
        fd[1] = say_hello(1, 1, OTHER);
        assert_true(dp_coord_can_do_without(home_run()->coord, HOME));
        dw_kill_daemon(0, 2);
        dw_exit(process[0]);
        dw.slurm.slice[0].restart_count = 1;
        dw.slurm.slice[0].start_s = dw.now_ns / 1000000000;
        if (now == 0)
            dw.slurm.slice[0].node = 1;
        dw.slurm.slice[0].is_ending = now == 2;
        for (int times = 0; times < 2; times++) {
            dw_run(8, false);
            goes_on_from_its_journal();
            dw_kill_daemon(0, 2);
        }
        dw_run(8, false);
        goes_on_from_its_journal();
        dw_exit(process[1]);
        dw.slurm.slice[1].restart_count = 1;
        if (now == 1)
            dw_kill_daemon(0, 2); /* and finds it out after a restart */
        dw_run(20, false);
        assert_false(has_journal(0, HOME, 0));
        assert_true(!home_run() || home_run()->job.restart_count == 1);
        close(fd[0]);
        close(fd[1]);
        end_world();
    }
}

static void lose_files(uint32_t node)
{
    char path[160];

    snprintf(path, sizeof path, "%s/job-%u.0.journal", dw.node[node].folder, HOME);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/node.journal", dw.node[node].folder);
    assert_int_equal(unlink(path), 0);
}

static char said[256]; /* why it is not welcome */

/* Its worker says HELLO again and again, as long as it is not welcome. returns after how many seconds it was; -1: not in time. */
static int wait_for_welcome(int *fd, uint32_t i, uint32_t node, uint32_t job_id, int seconds)
{
    int verdict;

    for (int s = 0; s < seconds; s += 2) {
        *fd = greet(i, node, job_id, &verdict, said);
        if (verdict == DP_VERDICT_OK)
            return s;
        dw_run(1.0, false);
        close(*fd);
    }
    return -1;
}

/* The coordinator's node boots without its files while another slice trains on, and home's job is elsewhere, on that node again, or in
 * the queue. Its daemon is there, and says that it does not have the run: another one coordinates, and not before it has said so for
 * 10 s. A daemon that has its journal never is taken for one of these, however often it is killed. */
static void a_coordinator_that_has_forgotten_is_replaced(void **state)
{
    (void)state;
    for (int now = 0; now < 6; now++) {
        bool has_files = now >= 3;
        const struct dp_run *far;
        int fd[2], waited;

        begin_two(2);
        check_ranks();
        fd[0] = say_hello(0, 0, HOME);
        fd[1] = say_hello(1, 1, OTHER);
        dw.slurm.slice[1].slice_of = HOME;
        dw_kill_daemon(0, 2);
        close(fd[0]);
        close(fd[1]);
        dw_exit(process[0]);
        dw.slurm.slice[0].restart_count = 1;
        dw.slurm.slice[0].start_s = dw.now_ns / 1000000000;
        if (now % 3 == 0)
            dw.slurm.slice[0].node = 1;
        dw.slurm.slice[0].is_ending = now % 3 == 2;
        if (!has_files)
            lose_files(0);
        waited = wait_for_welcome(&fd[1], 1, 1, OTHER, 90);
        if (waited < 0 || (waited < 16) != has_files)
            fail_msg("case %d: welcome after %d s", now, waited);
        far = dp_run_find(&dw.node[1].d, HOME);
        assert_non_null(far);
        assert_int_equal(far->role, has_files ? DP_RUN_RELAY : DP_RUN_COORD);
        assert_int_equal(far->job.restart_count, 0);
        assert_true(has_journal(has_files ? 0 : 1, HOME, 0));
        close(fd[1]);
        end_world();
    }
}

/* Does the coordinator here say that? */
static bool has_said(const struct dp_run *run, const char *text)
{
    json_t *doc = run && run->coord ? dp_coord_json(run->coord, dw.now_ns, DP_QUERY_STATUS) : NULL, *event;
    bool has = false;
    size_t i;

    json_array_foreach(json_object_get(doc, "events"), i, event)
        has |= strstr(json_string_value(json_object_get(event, "text")), text) != NULL;
    json_decref(doc);
    return has;
}

/* Two slices of a job and its companion, which is on this node; both train, and home's job was requeued since, while its daemon was away.
 * home: on which node the job runs again; DW_NODES: it waits. */
static uint32_t lose_home_of_companions(uint32_t companion_on, uint32_t home, int fd[2])
{
    uint32_t other;
    struct answer a;

    begin_home(2, 8, 0);
    dw_run(1, false);
    process[1] = start_companion(1, companion_on, 2);
    other = dw.slurm.slice[1].job_id;
    (void)ask_on(1, companion_on, other, process[1]->pid, 2);
    (void)ask_on(0, 0, HOME, process[0]->pid, 8);
    a = ask_on(1, companion_on, other, process[1]->pid, 15);
    if (a.state != DP_WIREUP_RANK)
        fail_msg("%s", a.text);
    fd[0] = say_hello(0, 0, HOME);
    fd[1] = say_hello(1, companion_on, other);
    dw_kill_daemon(0, 2);
    close(fd[0]);
    dw_exit(process[0]);
    dw.slurm.slice[0].restart_count = 1;
    dw.slurm.slice[0].start_s = dw.now_ns / 1000000000;
    dw.slurm.slice[0].is_ending = home == DW_NODES;
    dw.slurm.slice[0].node = home % DW_NODES;
    dw.slurm.slice[1].is_older = true;
    return other;
}

/* A job is requeued while its daemon is restarted. Its companions are no part of its next life, and their workers train on: they are not
 * refused, but find their coordinator, which goes on from its journal and has them save and stop. */
static void companions_of_a_former_life_save(void **state)
{
    (void)state;
    for (uint32_t now = 0; now < 6; now++) {
        uint32_t companion_on = now % 2, other;
        int fd[2], waited;

        other = lose_home_of_companions(companion_on, now / 2, fd);
        close(fd[1]);
        dw_run(2.2, false);
        waited = wait_for_welcome(&fd[1], 1, companion_on, other, 60);
        if (waited < 0)
            fail_msg("case %u: not welcome: %s", now, said);
        dw_run(10, false);
        goes_on_from_its_journal();
        assert_true(has_said(home_run(), "all save and stop: the job that asked for the slices was requeued"));
        dw_exit(process[1]);
        dw.slurm.slice[1].has_ended = true;
        close(fd[1]);
        dw_run(40, false);
        assert_false(has_journal(0, HOME, 0));
        assert_true(!home_run() || home_run()->job.restart_count == 1);
        end_world();
    }
}

static const uint32_t third_node[] = {0, 0, 1}; /* of those below, by rank */

/* Three slices, of an array or companions, have their ranks: one is beside home. */
static void begin_three(bool is_array, uint32_t job[3])
{
    struct answer a = {.state = -1};

    job[0] = HOME, job[1] = LATE, job[2] = OTHER;
    if (is_array) {
        dw_start(1, NULL, 0);
        dw_run(1.5, false);
        end_own_run();
        for (uint32_t r = 0; r < 3; r++)
            process[r] = begin(r, job[r], ARRAY, third_node[r], 3);
    } else {
        begin_home(3, 8, 0);
        dw_run(1, false);
        for (uint32_t r = 1; r < 3; r++) {
            process[r] = start_companion(r, third_node[r], 3);
            job[r] = dw.slurm.slice[r].job_id;
        }
    }
    for (int times = 0; times < 3; times++)
        for (uint32_t r = 3; r-- > 0;)
            a = ask_on(r, third_node[r], job[r], process[r]->pid, 5);
    assert_int_equal(a.state, DP_WIREUP_RANK);
}

/* They train. Then home's node boots without its files, while home's job is requeued, and runs on this node again, or waits (DW_NODES). */
static void forget_beside_another(bool is_array, uint32_t home, uint32_t job[3])
{
    int fd[3];

    n_seats = 3;
    begin_three(is_array, job);
    for (uint32_t r = 0; r < 3; r++)
        fd[r] = say_hello(r, third_node[r], job[r]);
    dw_kill_daemon(0, 2);
    for (uint32_t r = 0; r < 3; r++)
        close(fd[r]);
    dw_exit(process[0]);
    for (uint32_t r = 1; r < 3; r++) {
        dw.slurm.slice[r].slice_of = HOME;
        dw.slurm.slice[r].is_older = !is_array;
    }
    dw.slurm.slice[0].restart_count = 1;
    dw.slurm.slice[0].start_s = dw.now_ns / 1000000000;
    dw.slurm.slice[0].is_ending = home == DW_NODES;
    dw.slurm.slice[0].node = home % DW_NODES;
    lose_files(0);
    dw_run(2.2, false);
}

/* The coordinator's node boots without its files, and a slice of the run trains beside it, whose rank nobody there knows any more: its
 * worker's word goes to the daemon that is to coordinate. Home's job waits, runs elsewhere, or there again; and then its worker may be
 * there before the slice's daemon knows of the run: it is refused. Companions save and stop, since their home was requeued. */
static void one_beside_who_has_forgotten_comes_by_its_own_word(void **state)
{
    (void)state;
    for (uint32_t now = 0; now < 9; now++) {
        bool is_array = now < 4 || now > 6, has_begun = now == 3;
        uint32_t home = has_begun ? 0 : now > 6 ? DW_NODES : now % 4, late = now > 6 ? now - 6 : 0, job[3]; /* late: a worker */
        int verdict[3] = {-1, -1, -1}, fd[3];
        struct answer a;

        forget_beside_another(is_array, home, job);
        if (has_begun) {
            process[0] = begin_step(0, HOME, 0, 3);
            a = ask_on(0, 0, HOME, process[0]->pid, 2);
            assert_int_equal(a.state, DP_WIREUP_LATER);
        }
        for (int s = 0; s < 160; s += 2)
            for (uint32_t r = 1; r < 3; r++)
                if (r == late && s < 70) {
                    dw_run(1.0, false);
                } else if (verdict[r] != DP_VERDICT_OK) {
                    fd[r] = greet(r, third_node[r], job[r], &verdict[r], said);
                    if (verdict[r] == DP_VERDICT_DENIED)
                        fail_msg("case %u: worker %u: %s", now, r, said);
                    if (verdict[r] != DP_VERDICT_OK)
                        close(fd[r]);
                }
        if (verdict[1] != DP_VERDICT_OK || verdict[2] != DP_VERDICT_OK)
            fail_msg("case %u: %d %d: %s", now, verdict[1], verdict[2], said);
        assert_int_equal(dp_run_find(&dw.node[1].d, HOME)->role, DP_RUN_COORD);
        assert_int_equal(dp_run_find(&dw.node[0].d, HOME)->role, DP_RUN_RELAY);
        if (has_begun) {
            a = ask_on(0, 0, HOME, process[0]->pid, 20);
            assert_int_equal(a.state, DP_WIREUP_DENIED);
            assert_string_equal(a.text, "a run that began in an earlier life of this job goes on without it");
        }
        dw_run(15, false);
        assert_int_equal(dp_run_find(&dw.node[1].d, HOME)->slicing->is_told_stop, !is_array);
        for (uint32_t r = 1; r < 3; r++)
            close(fd[r]);
        end_world();
    }
    n_seats = 2;
}

/* A worker that says that it has home's rank, that of another slice, or one of a larger run is not believed: nobody begins to
 * coordinate. */
static void a_false_rank_is_not_taken(void **state)
{
    static const struct { uint32_t rank, n_seats; } lie[] = {{0, 3}, {2, 3}, {3, 4}, {3, 3}};

    (void)state;
    for (uint32_t i = 0; i < sizeof lie / sizeof lie[0]; i++) {
        uint32_t job[3];
        int verdict;

        forget_beside_another(true, DW_NODES, job);
        for (int s = 0; s < 60; s += 2)
            for (uint32_t r = 1; r < 3; r++) {
                n_seats = r == 1 ? lie[i].n_seats : 3;
                close(greet_as(r == 1 ? lie[i].rank : r, r, third_node[r], job[r], &verdict, said));
                assert_int_not_equal(verdict, DP_VERDICT_OK);
            }
        assert_int_equal(dp_run_find(&dw.node[1].d, HOME)->role, DP_RUN_RELAY);
        assert_null(dp_run_find(&dw.node[1].d, HOME)->coord);
        end_world();
    }
    n_seats = 2;
}

/* Home is over, and the daemon of the only slice that trains is restarted: nobody tells it where the run is. Its worker is not refused, nor
 * taken for one of a new run, so it trains on. */
static void who_trains_is_not_refused(void **state)
{
    int fd[2], verdict;

    (void)state;
    begin_two(2);
    check_ranks();
    fd[0] = say_hello(0, 0, HOME);
    fd[1] = say_hello(1, 1, OTHER);
    dw.slurm.slice[1].slice_of = HOME;
    dw_exit(process[0]);
    dw.slurm.slice[0].has_ended = true;
    dw_run(15, false);
    assert_true(home_run() && home_run()->is_home_over);
    dw_kill_daemon(1, 2);
    close(fd[0]);
    close(fd[1]);
    dw_run(2.2, false);
    for (int s = 0; s < 120; s += 2) {
        fd[1] = greet(1, 1, OTHER, &verdict, said);
        if (verdict == DP_VERDICT_DENIED)
            fail_msg("after %d s: %s", s, said);
        dw_run(1.0, false);
        close(fd[1]);
    }
    assert_true(home_run() && home_run()->coord);
    end_world();
}

static uint32_t n_of_array(bool is_waiting)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < DW_SLICES; i++)
        n += dw.slurm.slice[i].slice_of == ARRAY && !dw.slurm.slice[i].has_ended && dw.slurm.slice[i].is_waiting == is_waiting;
    return n;
}

/* The tasks of an array that may grow are a run with a seat more, and have companions: a job that names the array finds the run,
 * whose coordinator takes none before it trains, and never is home, though it began first. Where the array may not grow no job is one. */
static void an_array_has_companions(void **state)
{
    struct dw_process *p;
    struct answer a;

    (void)state;
    for (int may_grow = 0; may_grow < 2; may_grow++) {
        max_gpus = may_grow ? 3 : 0;
        begin_two(2);
        dw.slurm.slice[4] = (struct dw_slice){.job_id = 900, .uid = DW_OWNER, .node = 1, .slice_of = ARRAY, .start_s = 1};
        a.state = -1;
        for (int i = 0; i < 40 && a.state != DP_WIREUP_RANK; i++) { /* it has no worker yet, and is asked in vain where the run is */
            (void)ask_on(0, 0, HOME, process[0]->pid, 1);
            a = ask_on(1, 1, OTHER, process[1]->pid, 1);
        }
        if (a.state != DP_WIREUP_RANK)
            fail_msg("%s", a.text);
        assert_int_equal(a.rank, 1);
        assert_int_equal(a.n_workers, may_grow ? 3 : 2);
        p = begin_step(4, 900, 1, 2);
        a = ask_on(4, 1, 900, p->pid, 20);
        assert_int_equal(a.state, may_grow ? DP_WIREUP_DENIED : DP_WIREUP_LATER);
        if (!strstr(a.text, may_grow ? "the run has the 2 slices that it needs" : "Slurm does not show job 900"))
            fail_msg("%s", a.text);
        end_world();
    }
    max_gpus = 0;
}

/* They are asked for as those of a job are, and name the array: not home, which may be over before they begin. */
static void companions_of_an_array_name_it(void **state)
{
    (void)state;
    max_gpus = 4;
    begin_two(2);
    dw.slurm.most_companions = 8;
    (void)ask_on(0, 0, HOME, process[0]->pid, 3);
    (void)ask_on(1, 1, OTHER, process[1]->pid, 15);
    assert_true(dp_slices_are(home_run()));
    assert_int_equal(dp_companions_want(home_run(), 2, 0, 0), 0);
    dw_run(3, false);
    assert_int_equal(n_of_array(true), 2);
    dw_restart_all();
    dw_run(9, false);
    assert_true(home_run() && dp_slices_are(home_run()));
    assert_int_equal(dp_companions_want(home_run(), 2, 0, 0), 0);
    dw_run(9, false);
    assert_int_equal(n_of_array(true), 2);
    assert_int_equal(dw.slurm.n_submitted, 2);
    dw.slurm.slice[0].has_ended = dw.slurm.slice[1].has_ended = true; /* and are withdrawn when the run ends */
    dw_exit(process[0]);
    dw_exit(process[1]);
    dw_run(20, false);
    assert_null(home_run());
    assert_int_equal(n_of_array(true), 0);
    max_gpus = 0;
    end_world();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_slices_become_one_run),
    cmocka_unit_test(one_that_is_taken_keeps_its_line),
    cmocka_unit_test(another_one_is_home_of_a_new_run),
    cmocka_unit_test(two_that_are_late_do_not_wait_for_each_other),
    cmocka_unit_test(who_is_no_slice_is_refused),
    cmocka_unit_test(too_few_do_not_begin),
    cmocka_unit_test(who_has_ended_is_not_counted),
    cmocka_unit_test(a_newcomer_finds_out_that_its_run_is_over),
    cmocka_unit_test(a_job_gets_companions),
    cmocka_unit_test(nothing_is_submitted_twice),
    cmocka_unit_test(what_slurm_refuses_is_told),
    cmocka_unit_test(none_at_all_fails_at_once),
    cmocka_unit_test(who_waits_is_withdrawn_with_home),
    cmocka_unit_test(more_and_fewer_are_wanted),
    cmocka_unit_test(seats_for_growth),
    cmocka_unit_test(who_names_a_run_falsely_is_refused),
    cmocka_unit_test(a_former_life_is_done_with),
    cmocka_unit_test(others_train_on_when_home_runs_again),
    cmocka_unit_test(a_coordinator_that_has_forgotten_is_replaced),
    cmocka_unit_test(one_beside_who_has_forgotten_comes_by_its_own_word),
    cmocka_unit_test(a_false_rank_is_not_taken),
    cmocka_unit_test(who_trains_is_not_refused),
    cmocka_unit_test(companions_of_a_former_life_save),
    cmocka_unit_test(an_array_has_companions),
    cmocka_unit_test(companions_of_an_array_name_it),
};

int main(void)
{
    return cmocka_run_group_tests_name("slices", tests, open_impatient_world, close_world);
}
