/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole runs of three workers, one of which has no layers, or layers of which others have copies, and is killed at every kind of moment:
 * the others go on with the step that they are at, in another layout, read no checkpoint, and have the losses of a run of one worker,
 * each step's line once. */
#define _GNU_SOURCE /* nftw */
#include "tests/unit/unit.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/fakedaemon.h"
#include "tests/unit/worker/procs.h"
#include "tests/unit/worker/run_files.h"
#include "worker/checkpoint/distributed.h"
#include "worker/handover/transfer.h"
#include "worker/scheme/prune_select.h"
#include "worker/shadow/pace.h"
#include "worker/step/pipeline.h"
#include "worker/step/step_sync.h"
#include "worker/step/tied_head.h"
#include "worker/train/log/metrics.h"
#include "worker/train/trainer.h"

#define N 3       /* workers; the process after them plays the daemon */
#define STEPS 32
#define EVERY 8   /* steps between two checkpoints, and evaluations */
#define KILL_AT 16 /* a step with everything at its boundary: schemes, evaluation, checkpoint */
#define AGAIN_AT 24 /* a step; LATER */
#define PREPARED_AT 8 /* steps that are begun before anybody hears of the hand-over: copies are whole by then */
#define WAIT_MS 20
#define HANG_NS (50 * DP_SECOND_NS) /* only a fault takes so long */

enum moment {
    FORWARD,        /* of step KILL_AT */
    BEFORE_SUM,
    UNTOLD,         /* the leader has decided, and nobody has heard it */
    AFTER_SUM,      /* the order is there */
    LEADER_LOGS,    /* before the line of the step, the step itself is done */
    SELECTING,      /* what is pruned */
    SELECTED,       /* the others hear of it, or the REGROUP before: then some have pruned, and others not */
    EVALUATING,
    EVALUATED,
    SAVING,         /* only the leader: layers are written */
    SAVED,          /* and the checkpoint has its name */
    HANDING_OVER,   /* the hand-over has begun */
    VOTED,          /* and this worker is in doubt */
    NEXT_FORWARD,   /* of the step behind KILL_AT */
    N_MOMENTS
};

enum scheme { PRUNING, TIED, FREEZING, CHANGE, N_SCHEMES };

struct player {
    struct fake_peer peer;
    bool is_there, is_closed;
    uint64_t acked; /* epoch */
    int bye;        /* enum dp_goodbye, -1: not said */
};

static struct fake_daemon d;
static struct player worker[N];
static uint64_t first_epoch;
static struct dp_msg_event newest; /* REGROUPED of the leader; kind 0: none */
static char dir[64], log_path[96], checkpoint_dir[96];
static enum scheme scheme;
static uint32_t victim, laggard; /* laggard: hears no order of KILL_AT, but the REGROUP; N: none does */
static bool misses_boundary;     /* the laggard hears that order, and does its step, but nothing of its boundary */
static enum moment moment;
static enum { NOT_AGAIN, WITHOUT_LAYERS, WITH_LAYERS, LATER } dies_again; /* `second`, in the regroup; or when it trains again */
static uint32_t second;          /* worker 1, or where that is the victim 2 */
static bool has_copies;          /* all have layers, and copies of another's */
static uint32_t cuts[N + 1];     /* of the regroup */
static bool is_saving;           /* the run has checkpoints */

/* ---- workers ---- */

static const char *const options[N_SCHEMES][5] = {
    {"prune.begin=4", "prune.end=24", "prune.every=4", "freeze.layers=0", "model.tied_head=false"},
    {"prune.begin=4", "prune.end=24", "prune.every=4", "freeze.layers=0", "model.tied_head=true"},
    {"freeze.begin=4", "freeze.end=24", "freeze.every=4", "freeze.layers=5", "freeze.rule=linear"},
    {"freeze.begin=4", "freeze.end=24", "freeze.every=4", "freeze.layers=4", "freeze.rule=change"}, /* by what layers remember */
};

static int load(struct dp_train_config *c, uint32_t n, const char *log, const char *checkpoints, struct dp_err *err)
{
    static char text[7][160];
    char *over[] = {(char *)"model.blocks=4", (char *)"model.channels=12", (char *)"model.heads=3", (char *)"model.context=8",
                    (char *)"train.batch=2", (char *)"train.microbatches=2", (char *)"data.eval_batches=2",
                    (char *)options[scheme][0], (char *)options[scheme][1], (char *)options[scheme][2],
                    (char *)options[scheme][3], (char *)options[scheme][4], (char *)"pipeline.threads=1",
                    text[0], text[1], text[2], text[3], text[4], text[5], text[6],
                    (char *)(has_copies ? "handover.copies=1" : "handover.copies=0"),
                    (char *)"data.eval_every=8", (char *)"checkpoint.keep=1", (char *)"checkpoint.resume=none"};

    snprintf(text[0], sizeof text[0], "data.path=%s/text", dir);
    snprintf(text[1], sizeof text[1], "output.log=%s", log);
    snprintf(text[2], sizeof text[2], "output.tune=%s/tune.json", dir);
    snprintf(text[3], sizeof text[3], "train.steps=%d", STEPS);
    snprintf(text[4], sizeof text[4], "checkpoint.dir=%s", checkpoints);
    snprintf(text[5], sizeof text[5], "checkpoint.every=%d", checkpoints[0] ? EVERY : 0);
    snprintf(text[6], sizeof text[6], "pipeline.layout=%s",
             n == 1 ? "" : has_copies ? "0-1|2-3|4-5" : victim == 0 ? "-|0-2|3-5" : "0-2|3-5|-");
    return dp_train_config_load(NULL, sizeof over / sizeof over[0], over, c, err);
}

static uint32_t my_rank;
static uint64_t at_step; /* of this worker: that it makes */
static bool (*must_regroup)(void *arg);
static void *trainer;
static bool has_lagged;

static void die_at(enum moment what)
{
    if (my_rank == victim && moment == what)
        raise(SIGKILL);
}

static void die_at_step(enum moment what, uint64_t step)
{
    if (step == KILL_AT)
        die_at(what);
}

void dp_trainer_serve(void *arg);

/* A slow worker: what it is to hear next comes after the REGROUP. */
static int lag(struct dp_err *err)
{
    uint64_t end_ns = dp_now_ns() + HANG_NS;

    has_lagged = true;
    while (!must_regroup(trainer) && dp_now_ns() < end_ns) {
        dp_trainer_serve(trainer);
        usleep(2000);
    }
    return dp_err_set(err, DP_EGONE, "the run regroups");
}

/* With the types of the function itself. */
#define WRAP(type, name, ...)            \
    __typeof__(name) __real_##name;      \
    __typeof__(name) __wrap_##name;      \
    type __wrap_##name(__VA_ARGS__)

WRAP(void, dp_transport_give_up_when, struct dp_transport *t, bool (*fn)(void *arg), void *arg)
{
    must_regroup = fn;
    trainer = arg;
    __real_dp_transport_give_up_when(t, fn, arg);
}

WRAP(int, dp_pipeline_train, struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step, double *losses,
     uint64_t *wait_ns, struct dp_err *err)
{
    at_step = step + 1;
    die_at_step(FORWARD, at_step);
    die_at_step(NEXT_FORWARD, step);
    return __real_dp_pipeline_train(p, layout, stage, step, losses, wait_ns, err);
}

WRAP(int, dp_step_sync, struct dp_collectives *s, const struct dp_train_config *config, uint64_t step, const struct dp_step_part *part,
     const struct dp_reached *reached, uint64_t migration, const struct dp_step_shadow *shadow, struct dp_step_order *order,
     struct dp_err *err)
{
    int rc;

    die_at_step(BEFORE_SUM, step);
    if (my_rank == second && dies_again == LATER && step == AGAIN_AT)
        raise(SIGKILL);
    rc = __real_dp_step_sync(s, config, step, part, reached, migration, shadow, order, err);
    if (rc == 0)
        die_at_step(AFTER_SUM, step);
    return rc;
}

WRAP(int, dp_collectives_broadcast, struct dp_collectives *c, void *data, size_t bytes, struct dp_err *err)
{
    bool is_order = at_step == KILL_AT && bytes == sizeof(struct dp_step_order);

    if (my_rank == victim && is_order)
        die_at(UNTOLD);
    if (my_rank == laggard && is_order && !misses_boundary && !has_lagged)
        return lag(err);
    return __real_dp_collectives_broadcast(c, data, bytes, err);
}

WRAP(int, dp_handover_poll, struct dp_handover *h, struct dp_err *err)
{
    if (my_rank == laggard && misses_boundary && at_step == KILL_AT && !has_lagged)
        return lag(err);
    return __real_dp_handover_poll(h, err);
}

WRAP(void, dp_metrics_step, struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage)
{
    die_at_step(LEADER_LOGS, s->step);
    __real_dp_metrics_step(m, s, stage);
}

WRAP(int, dp_prune_select, struct dp_backend *be, struct dp_prune_part *parts, uint32_t n, uint32_t n_copies, uint32_t n_layers, uint64_t k,
     dp_allreduce_fn *sum, void *arg, struct dp_prune_cut *cut, struct dp_err *err)
{
    int rc;

    die_at_step(SELECTING, at_step);
    rc = __real_dp_prune_select(be, parts, n, n_copies, n_layers, k, sum, arg, cut, err);
    die_at_step(SELECTED, at_step);
    return rc;
}

WRAP(int, dp_pipeline_eval, struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step, uint32_t n,
     double *loss, uint64_t *wait_ns, struct dp_err *err)
{
    int rc;

    die_at_step(EVALUATING, step);
    rc = __real_dp_pipeline_eval(p, layout, stage, step, n, loss, wait_ns, err);
    die_at_step(EVALUATED, step);
    return rc;
}

WRAP(int, dp_ckpt_commit, const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
     const struct dp_ckpt_entry *entries, struct dp_err *err)
{
    int rc;

    die_at_step(SAVING, step);
    rc = __real_dp_ckpt_commit(config, step, tune, entries, err);
    die_at_step(SAVED, step);
    return rc;
}

WRAP(int, dp_handover_run, struct dp_handover *h, const struct dp_handover_args *args, uint64_t migration, struct dp_handover_outcome *out,
     struct dp_err *err)
{
    die_at(HANDING_OVER);
    return __real_dp_handover_run(h, args, migration, out, err);
}

WRAP(int, dp_member_vote_yes, struct dp_member *m, struct dp_msg_vote *vote, struct dp_err *err)
{
    int rc = __real_dp_member_vote_yes(m, vote, err);

    die_at(VOTED);
    return rc;
}

WRAP(struct dp_transfer *, dp_transfer_create, const struct dp_handover_args *args, uint64_t migration, const struct dp_moves *moves,
     const struct dp_layout *next, struct dp_err *err)
{
    if (my_rank == second && dies_again == WITH_LAYERS && args->held)
        raise(SIGKILL);
    return __real_dp_transfer_create(args, migration, moves, next, err);
}

WRAP(int, dp_tied_head_renew, struct dp_tied_head *t, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step,
     uint64_t *wait_ns, struct dp_err *err)
{
    if (my_rank == second && dies_again == WITHOUT_LAYERS)
        raise(SIGKILL);
    return __real_dp_tied_head_renew(t, layout, stage, step, wait_ns, err);
}

WRAP(const struct dp_msg_prepare *, dp_control_prepare, const struct dp_control *c)
{
    return at_step < PREPARED_AT ? NULL : __real_dp_control_prepare(c);
}

/* No clock decides when a copy is whole. */
WRAP(uint64_t, dp_pace_budget, const struct dp_pace *p, uint64_t step_ns, uint64_t gradient_bytes)
{
    (void)p, (void)step_ns, (void)gradient_bytes;
    return UINT64_MAX;
}

/* To `log` alone: what is printed would be taken for results of the test. */
static int run_worker(struct dp_transport *t, uint32_t rank, uint32_t n, const char *log, const char *checkpoints)
{
    static struct dp_train_config config;
    struct dp_wireup w = {.rank = rank, .n_workers = n, .n_there = n, .local_rank = rank,
                          .way = n > 1 ? DP_WIREUP_BY_DAEMON : DP_WIREUP_ALONE};
    struct dp_trainer_args args = {.config = &config, .wireup = &w, .transport = n > 1 ? t : NULL,
                                   .socket = n > 1 ? d.path : NULL};
    enum dp_run_outcome end;
    struct dp_err err = {0};

    my_rank = n > 1 ? rank : UINT32_MAX; /* alone nobody dies */
    if (!freopen("/dev/null", "w", stdout))
        return 9;
    if (load(&config, n, log, checkpoints, &err) == 0 && dp_trainer_run(&args, &end, &err) == 0)
        return 0;
    fprintf(stderr, "# worker %u: %s\n", rank, err.text);
    return 1;
}

static int body(struct dp_transport *t, uint32_t rank)
{
    return run_worker(t, rank, N, log_path, is_saving ? checkpoint_dir : "");
}

static void name_alone(char *log, size_t cap)
{
    snprintf(log, cap, "%s/alone-%d.jsonl", dir, (int)scheme);
}

static int body_alone(struct dp_transport *t, uint32_t rank)
{
    char log[96];

    name_alone(log, sizeof log);
    return run_worker(t, rank, 1, log, "");
}

/* ---- the daemon ---- */

static void take(struct player *p, const struct dp_header *h, const uint8_t *bytes)
{
    struct dp_msg_decision_ack ack;
    struct dp_msg_goodbye bye;
    struct dp_msg_event event;
    struct dp_reader r;

    dp_reader_init(&r, bytes, h->body_len);
    if (h->type == DP_MSG_DECISION_ACK && dp_msg_decision_ack_decode(&r, &ack, NULL) == 0)
        p->acked = ack.epoch;
    else if (h->type == DP_MSG_GOODBYE && dp_msg_goodbye_decode(&r, &bye, NULL) == 0)
        p->bye = bye.how;
    else if (h->type == DP_MSG_EVENT && dp_msg_event_decode(&r, &event, NULL) == 0 && event.kind == DP_EV_REGROUPED)
        newest = event;
}

static void serve(void)
{
    for (uint32_t r = 0; r < N; r++) {
        struct player *p = &worker[r];
        struct dp_header h;
        const uint8_t *bytes;
        int rc = 0;

        while (p->is_there && !p->is_closed && (rc = fake_next(&p->peer, WAIT_MS / N, &h, &bytes)) > 0)
            take(p, &h, bytes);
        p->is_closed |= rc < 0;
    }
}

/* Whoever comes says in HELLO which worker it is. */
static int meet(void)
{
    for (uint32_t i = 0; i < N; i++) {
        static struct dp_msg_hello hello;
        static struct fake_peer p;
        struct dp_header h;
        struct dp_reader r;
        const uint8_t *bytes;

        if (fake_accept(&d, &p, 20000) < 0 || fake_next(&p, 20000, &h, &bytes) != 1 || h.type != DP_MSG_HELLO)
            return -1;
        dp_reader_init(&r, bytes, h.body_len);
        if (dp_msg_hello_decode(&r, &hello, NULL) < 0 || hello.rank >= N)
            return -1;
        first_epoch = hello.epoch;
        worker[hello.rank] = (struct player){.peer = p, .is_there = true, .bye = -1};
        fake_welcome(&worker[hello.rank].peer, DP_VERDICT_OK, "", "");
    }
    return 0;
}

/* cut: N + 1, of those who are not closed. */
static void regroup(uint64_t epoch, const uint32_t *cut)
{
    struct dp_msg_regroup m = {.incarnation = 1, .migration = epoch, .go = true, .epoch = epoch, .n_workers = N, .n_layers = 6};

    snprintf(m.text, sizeof m.text, "worker %u was killed", victim);
    memcpy(m.cut, cut, (N + 1) * sizeof *cut);
    for (uint32_t r = 0; r < N; r++)
        m.gone[r] = worker[r].is_closed;
    for (uint32_t r = 0; r < N; r++)
        if (!m.gone[r])
            FAKE_SEND(&worker[r].peer, regroup, DP_MSG_REGROUP, &m);
}

/* A hand-over of one layer, which never comes to a decision. */
static void prepare(void)
{
    struct dp_msg_prepare m = {.incarnation = 1, .migration = 1, .epoch = first_epoch, .n_workers = N, .n_layers = 6};
    const uint32_t *cut = victim == 0 ? (const uint32_t[]){0, 0, 2, 6} : (const uint32_t[]){0, 2, 6, 6};

    memcpy(m.cut, cut, (N + 1) * sizeof *cut);
    for (uint32_t r = 0; r < N; r++)
        FAKE_SEND(&worker[r].peer, prepare, DP_MSG_PREPARE, &m);
}

#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        uint64_t begin_ns = dp_now_ns();                                                           \
        while (!(cond)) {                                                                          \
            if (dp_now_ns() - begin_ns > HANG_NS) {                                                \
                fprintf(stderr, "# daemon, line %d: never: %s\n", __LINE__, #cond);                \
                return 1;                                                                          \
            }                                                                                      \
            serve();                                                                               \
        }                                                                                          \
    } while (0)

static bool is_over(uint32_t rank)
{
    return worker[rank].is_closed || worker[rank].bye == DP_BYE_COMPLETED;
}

static int play(struct dp_transport *t, uint32_t rank)
{
    const bool is_lost = dies_again == WITH_LAYERS;

    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    if (moment == HANDING_OVER || moment == VOTED)
        prepare();
    UNTIL(worker[victim].is_closed);
    regroup(first_epoch + 1, cuts);
    if (dies_again) {
        const uint32_t last = 3 - victim - second;

        UNTIL(worker[second].is_closed);
        regroup(first_epoch + 2, last == 0 ? (const uint32_t[]){0, 6, 6, 6} : (const uint32_t[]){0, 0, 0, 6});
    }
    UNTIL(is_over(0) && is_over(1) && is_over(2));
    if (!newest.kind || (moment != SELECTED && !strstr(newest.text, "no step is lost") != is_lost)) {
        fprintf(stderr, "# moment %d, victim %u: %s\n", (int)moment, victim, newest.text);
        return 3;
    }
    return 0;
}

/* ---- tests ---- */

/* The run alone has each step's line once, and so has this one, unless it went back to the checkpoint (may_go_back). */
static void compare(bool may_go_back)
{
    double alone[STEPS + 1], here[STEPS + 1];
    char path[96];
    int n;

    name_alone(path, sizeof path);
    assert_int_equal(run_files_losses(path, STEPS, alone), STEPS);
    n = run_files_losses(log_path, STEPS, here);
    if (n < STEPS || (n > STEPS && !may_go_back))
        fail_msg("moment %d, victim %u, scheme %d: %d lines of steps", (int)moment, victim, (int)scheme, n);
    for (int i = 1; i <= STEPS; i++)
        if (memcmp(&alone[i], &here[i], sizeof alone[i]) != 0)
            fail_msg("moment %d, victim %u, scheme %d: step %d has a loss of %.17g, alone it is %.17g", (int)moment, victim, (int)scheme, i,
                     here[i], alone[i]);
}

/* What the boundary asks is done, and in the log. */
static void check_boundary(void)
{
    static const char *const names[N_SCHEMES] = {"pruned", "pruned", "frozen", "frozen"};
    char alone[96], text[4096], here[4096];
    int n;

    name_alone(alone, sizeof alone);
    n = run_files_events(alone, names[scheme], KILL_AT, text);
    assert_true(n == 1 || scheme == CHANGE);
    if (n && (run_files_events(log_path, names[scheme], KILL_AT, here) < 1 || strcmp(text, here) != 0))
        fail_msg("moment %d, victim %u: step %d %s otherwise than alone", (int)moment, victim, KILL_AT, names[scheme]);
    assert_int_equal(run_files_events(alone, "eval", KILL_AT, text), 1);
    if (run_files_events(log_path, "eval", KILL_AT, here) < 1 || strcmp(text, here) != 0)
        fail_msg("moment %d, victim %u: step %d evaluated otherwise than alone", (int)moment, victim, KILL_AT);
    if (is_saving && run_files_events(log_path, "saved", KILL_AT, NULL) < 1)
        fail_msg("moment %d, victim %u: step %d not saved", (int)moment, victim, KILL_AT);
}

static void run(void)
{
    procs_body_fn *const bodies[] = {body, body, body, play};
    int want[] = {0, 0, 0, 0};
    static int n;

    want[second] = dies_again ? 256 + SIGKILL : 0;
    want[victim] = 256 + SIGKILL;
    snprintf(log_path, sizeof log_path, "%s/run-%d.jsonl", dir, n);
    snprintf(checkpoint_dir, sizeof checkpoint_dir, "%s/checkpoints-%d", dir, n++);
    memset(worker, 0, sizeof worker);
    procs_run(N + 1, bodies, want, false);
}

static void regroup_as(uint32_t a, uint32_t b)
{
    memcpy(cuts, (const uint32_t[]){0, a, b, 6}, sizeof cuts);
}

static void set_case(enum moment what, uint32_t whose)
{
    moment = what;
    victim = whose;
    laggard = N;
    misses_boundary = false;
    dies_again = NOT_AGAIN;
    second = victim == 1 ? 2 : 1;
    if (victim == 0)
        what % 2 ? regroup_as(0, 5) : regroup_as(0, 1);
    else if (victim == 1)
        what % 2 ? regroup_as(1, 1) : regroup_as(6, 6);
    else
        what % 2 ? regroup_as(5, 6) : regroup_as(1, 6);
}

static bool is_leaders(int m)
{
    return m == UNTOLD || m == LEADER_LOGS || m == SAVING || m == SAVED;
}

static void one_without_layers_dies_at_any_moment(void **state)
{
    (void)state;
    is_saving = true;
    for (int m = 0; m < N_MOMENTS; m++) {
        scheme = m % 2 ? TIED : PRUNING;
        set_case((enum moment)m, 0);
        run();
        compare(m == SELECTED);
        check_boundary();
        if (is_leaders(m))
            continue;
        set_case((enum moment)m, 2);
        run();
        compare(m == SELECTED);
        check_boundary();
    }
    is_saving = false;
}

static void the_same_while_layers_freeze(void **state)
{
    static const enum moment some[] = {FORWARD, AFTER_SUM, EVALUATED, NEXT_FORWARD};

    (void)state;
    for (scheme = FREEZING; scheme < N_SCHEMES; scheme++) {
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            set_case(some[i], i % 2 ? 2 : 0);
            run();
            compare(false);
            check_boundary();
        }
    }
    scheme = PRUNING;
}

/* It has given its part, and hears of the order from the others, who have done that step. */
static void one_has_not_heard_the_order(void **state)
{
    (void)state;
    for (scheme = PRUNING; scheme < N_SCHEMES; scheme++) {
        for (int i = 0; i < 4; i++) {
            set_case(i < 2 ? LEADER_LOGS : AFTER_SUM, i < 2 ? 0 : 2);
            laggard = i < 2 ? 1 + (uint32_t)i : 1;
            if (i == 3)
                regroup_as(0, 6);
            run();
            compare(false);
            check_boundary();
        }
    }
    scheme = PRUNING;
}

/* Layers of one worker are frozen and those of the other are not yet. */
static void one_has_not_frozen_yet(void **state)
{
    (void)state;
    scheme = FREEZING;
    set_case(EVALUATING, 2);
    laggard = 1;
    misses_boundary = true;
    run();
    compare(false);
    check_boundary();
    scheme = PRUNING;
}

/* The second one dies when its layers have gone to the other, or before that: then they are lost. */
static void another_one_dies_meanwhile(void **state)
{
    (void)state;
    is_saving = true;
    for (scheme = PRUNING; scheme <= TIED; scheme++) {
        set_case(NEXT_FORWARD, 0);
        regroup_as(0, 0);
        dies_again = WITHOUT_LAYERS;
        run();
        compare(false);
        check_boundary();
        dies_again = WITH_LAYERS;
        run();
        compare(true);
    }
    dies_again = NOT_AGAIN;
    is_saving = false;
    scheme = PRUNING;
}

/* Whoever it is: another one has copies of its layers, and no checkpoint is there to go back to. */
static void one_with_layers_dies_at_any_moment(void **state)
{
    (void)state;
    has_copies = true;
    for (int m = 0; m < N_MOMENTS; m++) {
        scheme = m / N % 2 ? TIED : PRUNING;
        is_saving = m == SAVING || m == SAVED;
        set_case((enum moment)m, is_leaders(m) ? 0 : (uint32_t)m % N);
        run();
        compare(m == SELECTED);
        check_boundary();
    }
    is_saving = false;
    for (scheme = FREEZING; scheme < N_SCHEMES; scheme++) {
        set_case(NEXT_FORWARD, (uint32_t)scheme % N);
        run();
        compare(false);
        check_boundary();
    }
    scheme = PRUNING;
    has_copies = false;
}

/* It does the step on its own layers and on its copies, of which some become layers. */
static void one_with_copies_has_not_heard_the_order(void **state)
{
    (void)state;
    has_copies = true;
    for (scheme = PRUNING; scheme < N_SCHEMES; scheme++) {
        set_case(scheme % 2 ? LEADER_LOGS : AFTER_SUM, scheme % 2 ? 0 : 2);
        laggard = 1;
        run();
        compare(false);
        check_boundary();
    }
    scheme = FREEZING;
    set_case(EVALUATING, 0);
    laggard = 1;
    misses_boundary = true;
    run();
    compare(false);
    check_boundary();
    scheme = PRUNING;
    has_copies = false;
}

/* Copies are made anew after the first loss, and the last worker goes on alone. */
static void two_die_one_after_the_other(void **state)
{
    (void)state;
    has_copies = true;
    for (uint32_t first = 0; first < N; first++) {
        scheme = first % 2 ? TIED : PRUNING;
        set_case(NEXT_FORWARD, first);
        dies_again = LATER;
        run();
        compare(false);
        check_boundary();
    }
    set_case(NEXT_FORWARD, 0);
    regroup_as(0, 0);
    dies_again = WITHOUT_LAYERS;
    run();
    compare(false);
    check_boundary();
    dies_again = NOT_AGAIN;
    scheme = PRUNING;
    has_copies = false;
}

static int set_up(void **state)
{
    procs_body_fn *const bodies[] = {body_alone};

    (void)state;
    victim = laggard = second = N;
    fake_daemon_start(&d);
    snprintf(dir, sizeof dir, "%s", d.dir);
    run_files_text(dir);
    for (scheme = PRUNING; scheme < N_SCHEMES; scheme++)
        procs_run(1, bodies, (const int[]){0}, false);
    scheme = PRUNING;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)st, (void)what;
    return at->level ? remove(path) : 0;
}

static int tear_down(void **state)
{
    (void)state;
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    fake_daemon_stop(&d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_without_layers_dies_at_any_moment),
        cmocka_unit_test(the_same_while_layers_freeze),
        cmocka_unit_test(one_has_not_heard_the_order),
        cmocka_unit_test(one_has_not_frozen_yet),
        cmocka_unit_test(another_one_dies_meanwhile),
        cmocka_unit_test(one_with_layers_dies_at_any_moment),
        cmocka_unit_test(one_with_copies_has_not_heard_the_order),
        cmocka_unit_test(two_die_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
