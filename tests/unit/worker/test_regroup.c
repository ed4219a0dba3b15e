/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole runs of three workers, one of which is killed while it trains: the others hear REGROUP of a daemon that is played
 * here, begin again at the newest checkpoint without new processes, and have the losses of a run that nothing happened to. So it is
 * when the one that leads leaves by a hand-over, whether layers are pruned or frozen meanwhile, and while layers are copied for a hand-over
 * that is to come. */
#define _GNU_SOURCE /* nftw */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/fakedaemon.h"
#include "tests/unit/worker/procs.h"
#include "tests/unit/worker/run_files.h"
#include "worker/checkpoint/ckpt_manifest.h"
#include "worker/checkpoint/distributed.h"
#include "worker/copies/copies.h"
#include "worker/train/log/metrics.h"
#include "worker/train/trainer.h"

#define N 3        /* workers; the process after them plays the daemon */
#define STEPS 60
#define EVERY 8    /* steps between two checkpoints */
#define KILL_AT 20 /* steps: the victim ends there, and makes no other one */
#define WAIT_MS 20
#define HANG_NS (50 * DP_SECOND_NS) /* only a fault takes so long */

struct player {
    struct fake_peer peer;
    bool is_there, is_closed;
    uint64_t acked; /* epoch */
    int n_acks;
    bool voted;     /* yes */
    uint64_t migration; /* of its newest vote, whatever it was */
    int bye;        /* enum dp_goodbye, -1: not said */
};

static struct fake_daemon d;
static struct player worker[N];
static uint64_t first_epoch; /* that they came with */
static uint64_t saved_step;         /* of the newest SAVED */
static struct dp_msg_event newest;  /* REGROUPED of the leader; kind 0: none */
static char dir[64], log_path[96], checkpoint_dir[96];
static bool has_checkpoints;
static int seed = 42;
static uint32_t victim = 2;
static enum { TRAINING, BEFORE_COMMIT, AFTER_COMMIT, NEVER } dies; /* at a step, or in its second checkpoint */
static enum { AS_IT_IS, HALF_A_LINE, A_FOLDER } leaves_log;
static bool dies_again;             /* worker 1, when it makes its layers anew */
static enum { PRUNING, SCHEDULE, CHANGE, FROM_THE_START, N_SCHEMES } scheme;
static const char *background = "auto", *max_rate = "0"; /* copying for a hand-over while training goes on */
static int copies;                  /* handover.copies */
static bool are_compared;           /* with the last checkpoint, those that are there in the end; least_copies of them at least */
static int least_copies;
static bool is_tied;                /* model.tied_head */
static char weights[128];           /* that runs begin with, empty: new ones */
static const char *ends_with;       /* NULL: the run completes; part of the error that it ends with */

/* ---- workers ---- */

/* Rule `change` freezes by what layers remember: the checkpoint of step 16 lies between two events. */
static const char *const options[N_SCHEMES][5] = {
    {"prune.begin=4", "prune.end=24", "prune.every=4", "freeze.layers=0", "freeze.rule=linear"},
    {"freeze.begin=6", "freeze.end=40", "freeze.every=6", "freeze.layers=5", "freeze.rule=linear"},
    {"freeze.begin=6", "freeze.end=40", "freeze.every=6", "freeze.layers=4", "freeze.rule=change"},
    {"freeze.begin=0", "freeze.end=0", "freeze.every=6", "freeze.layers=3", "freeze.rule=linear"},
};

static int load(struct dp_train_config *c, const char *log, const char *checkpoints, struct dp_err *err)
{
    static char text[12][160];
    char *over[] = {(char *)"model.blocks=4", (char *)"model.channels=12", (char *)"model.heads=3", (char *)"model.context=8",
                    (char *)"train.batch=2", (char *)"train.microbatches=2", (char *)"data.eval_every=0",
                    (char *)options[scheme][0], (char *)options[scheme][1], (char *)options[scheme][2],
                    (char *)options[scheme][3], (char *)options[scheme][4], (char *)"pipeline.threads=1",
                    text[0], text[1], text[2], text[3], text[4], text[5],
                    text[6], text[7], text[8], text[9], text[10], text[11], (char *)"checkpoint.keep=1", (char *)"checkpoint.resume=none"};

    snprintf(text[0], sizeof text[0], "data.path=%s/text", dir);
    snprintf(text[1], sizeof text[1], "output.log=%s", log);
    snprintf(text[2], sizeof text[2], "output.tune=%s/tune.json", dir);
    snprintf(text[3], sizeof text[3], "train.steps=%d", STEPS);
    snprintf(text[4], sizeof text[4], "checkpoint.dir=%s", checkpoints);
    snprintf(text[5], sizeof text[5], "checkpoint.every=%d", checkpoints[0] ? EVERY : 0);
    snprintf(text[6], sizeof text[6], "train.seed=%d", seed);
    snprintf(text[7], sizeof text[7], "checkpoint.weights=%s", weights);
    snprintf(text[8], sizeof text[8], "handover.background=%s", background);
    snprintf(text[9], sizeof text[9], "handover.max_rate=%s", max_rate);
    snprintf(text[10], sizeof text[10], "handover.copies=%d", copies);
    snprintf(text[11], sizeof text[11], "model.tied_head=%s", is_tied ? "true" : "false");
    return dp_train_config_load(NULL, sizeof over / sizeof over[0], over, c, err);
}

static uint32_t my_rank;

/* What the one that leads leaves of the log. */
static void spoil_log(void)
{
    static const char half[] = "{\"step\":2";
    int fd;

    if (leaves_log == HALF_A_LINE) {
        fd = open(log_path, O_WRONLY | O_APPEND);
        if (fd < 0 || write(fd, half, sizeof half - 1) != (ssize_t)sizeof half - 1)
            _exit(9);
    } else if (leaves_log == A_FOLDER && (unlink(log_path) < 0 || mkdir(log_path, 0700) < 0)) {
        _exit(9);
    }
}

void __real_dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage);
void __wrap_dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage);
void __wrap_dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage)
{
    if (my_rank == victim && dies == TRAINING && s->step == KILL_AT) {
        spoil_log();
        raise(SIGKILL);
    }
    __real_dp_metrics_step(m, s, stage);
}

int __real_dp_ckpt_commit(const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
                          const struct dp_ckpt_entry *entries, struct dp_err *err);
int __wrap_dp_ckpt_commit(const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
                          const struct dp_ckpt_entry *entries, struct dp_err *err);
int __wrap_dp_ckpt_commit(const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
                          const struct dp_ckpt_entry *entries, struct dp_err *err)
{
    bool is_time = my_rank == victim && step == 2 * EVERY;
    int rc;

    if (is_time && dies == BEFORE_COMMIT)
        raise(SIGKILL);
    rc = __real_dp_ckpt_commit(config, step, tune, entries, err);
    if (is_time && dies == AFTER_COMMIT)
        raise(SIGKILL);
    return rc;
}

int __real_dp_start_again(struct dp_collectives *c, const struct dp_train_config *config, struct dp_saved *saved,
                          struct dp_start *out, struct dp_err *err);
int __wrap_dp_start_again(struct dp_collectives *c, const struct dp_train_config *config, struct dp_saved *saved,
                          struct dp_start *out, struct dp_err *err);
int __wrap_dp_start_again(struct dp_collectives *c, const struct dp_train_config *config, struct dp_saved *saved,
                          struct dp_start *out, struct dp_err *err)
{
    int rc = __real_dp_start_again(c, config, saved, out, err);

    if (my_rank == 1 && dies_again)
        raise(SIGKILL);
    return rc;
}

static int n_compared, n_wrong; /* copies */

/* Is it the layer that the last checkpoint has? */
static bool is_saved(const struct dp_layer *l)
{
    char name[64], path[320];
    uint8_t *have = NULL, *want = NULL;
    size_t n = 0, got = 0;
    bool is;
    FILE *f;

    dp_ckpt_layer_name(l->index, name);
    snprintf(path, sizeof path, "%s/step-%08d/%s", checkpoint_dir, STEPS, name);
    f = fopen(path, "rb");
    if (!f || dp_layer_write(l, &have, &n, NULL) < 0)
        abort();
    want = malloc(n + 1);
    got = fread(want, 1, n + 1, f);
    is = got == n && memcmp(have, want, n) == 0;
    free(have);
    free(want);
    fclose(f);
    return is;
}

void __real_dp_copies_destroy(struct dp_copies *c);
void __wrap_dp_copies_destroy(struct dp_copies *c);
void __wrap_dp_copies_destroy(struct dp_copies *c)
{
    struct dp_layer **list = NULL;
    uint32_t n = are_compared && dp_copies_step(c) == STEPS ? dp_copies_list(c, &list) : 0;

    for (uint32_t i = 0; i < n; i++) {
        if (is_tied && list[i]->kind == DP_LAYER_HEAD)
            continue; /* its copy of wte has no content */
        n_compared++;
        n_wrong += !is_saved(list[i]);
    }
    __real_dp_copies_destroy(c);
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

    my_rank = rank;
    if (!freopen("/dev/null", "w", stdout))
        return 9;
    if (load(&config, log, checkpoints, &err) == 0 && dp_trainer_run(&args, &end, &err) == 0)
        return ends_with ? 8 : n_wrong ? 7 : n_compared < least_copies ? 6 : 0;
    if (ends_with && strstr(err.text, ends_with))
        return 0;
    fprintf(stderr, "# worker %u: %s\n", rank, err.text);
    return 1;
}

static int body(struct dp_transport *t, uint32_t rank)
{
    return run_worker(t, rank, N, log_path, has_checkpoints ? checkpoint_dir : "");
}

static void name_alone(char *log, size_t cap)
{
    snprintf(log, cap, "%s/alone-%d%s%s.jsonl", dir, (int)scheme, weights[0] ? "-weights" : "", is_tied ? "-tied" : "");
}

static int body_alone(struct dp_transport *t, uint32_t rank)
{
    char log[96];

    name_alone(log, sizeof log);
    return run_worker(t, rank, 1, log, "");
}

/* Another run, whose last checkpoint stays. */
static int body_other(struct dp_transport *t, uint32_t rank)
{
    seed = 43;
    return run_worker(t, rank, 1, log_path, checkpoint_dir);
}

/* Ends with the checkpoint in which a leader is to die. */
static int body_before(struct dp_transport *t, uint32_t rank)
{
    char log[96];

    snprintf(log, sizeof log, "%s/before.jsonl", dir);
    seed = 43;
    dies = AFTER_COMMIT;
    victim = 0;
    return run_worker(t, rank, 1, log, checkpoint_dir);
}

/* ---- the daemon ---- */

static void take(struct player *p, const struct dp_header *h, const uint8_t *bytes)
{
    struct dp_msg_decision_ack ack;
    struct dp_msg_goodbye bye;
    struct dp_msg_event event;
    struct dp_msg_vote vote;
    struct dp_reader r;

    dp_reader_init(&r, bytes, h->body_len);
    if (h->type == DP_MSG_DECISION_ACK && dp_msg_decision_ack_decode(&r, &ack, NULL) == 0) {
        p->acked = ack.epoch;
        p->n_acks++;
    }
    if (h->type == DP_MSG_VOTE && dp_msg_vote_decode(&r, &vote, NULL) == 0)
        p->voted = vote.yes, p->migration = vote.migration;
    else if (h->type == DP_MSG_GOODBYE && dp_msg_goodbye_decode(&r, &bye, NULL) == 0)
        p->bye = bye.how;
    else if (h->type == DP_MSG_EVENT && dp_msg_event_decode(&r, &event, NULL) == 0) {
        if (event.kind == DP_EV_REGROUPED)
            newest = event;
        else if (event.kind == DP_EV_SAVED)
            saved_step = event.step;
    }
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
        if (dp_msg_hello_decode(&r, &hello, NULL) < 0 || hello.rank >= N || hello.regroups != 1)
            return -1;
        first_epoch = hello.epoch;
        worker[hello.rank] = (struct player){.peer = p, .is_there = true, .bye = -1};
        fake_welcome(&worker[hello.rank].peer, DP_VERDICT_OK, "", "");
    }
    return 0;
}

/* Those of ranks below `most` that have not been lost share all layers. */
static void regroup(uint64_t epoch, bool go, uint32_t most)
{
    struct dp_msg_regroup m = {.incarnation = 1, .migration = epoch, .go = go, .epoch = epoch, .n_workers = N, .n_layers = 6};
    uint32_t n_left = most - (victim < most), n = 0;

    snprintf(m.text, sizeof m.text, "worker %u was killed", victim);
    for (uint32_t r = 0; r < N; r++) {
        m.gone[r] = r == victim || r >= most;
        n += !m.gone[r];
        m.cut[r + 1] = 6 * n / n_left;
    }
    for (uint32_t r = 0; r < N; r++)
        if (!m.gone[r])
            FAKE_SEND(&worker[r].peer, regroup, DP_MSG_REGROUP, &m);
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

static int play(struct dp_transport *t, uint32_t rank)
{
    uint64_t from = !has_checkpoints ? 0 : dies == BEFORE_COMMIT ? EVERY : KILL_AT / EVERY * EVERY;
    const uint32_t first = victim == 0, other = victim == 2 ? 1 : 2;
    char lost[32];

    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    UNTIL(worker[victim].is_closed);
    regroup(2, !ends_with, N);
    if (ends_with) {
        UNTIL(worker[first].bye == DP_BYE_FAILED && worker[other].bye == DP_BYE_FAILED);
        return 0;
    }
    UNTIL(worker[other].acked == 2);
    if (dies_again) {
        UNTIL(worker[1].is_closed);
        regroup(3, true, 1);
        UNTIL(worker[0].acked == 3 && newest.kind && worker[0].bye == DP_BYE_COMPLETED);
    } else {
        UNTIL(worker[first].acked == 2 && newest.kind && worker[first].bye == DP_BYE_COMPLETED &&
              worker[other].bye == DP_BYE_COMPLETED);
    }
    snprintf(lost, sizeof lost, "worker %u was killed", victim);
    if (newest.step == from && strstr(newest.text, lost) && !strstr(newest.text, "worker 1 leads") == !first)
        return 0;
    fprintf(stderr, "# from step %u, not %u: %s\n", (unsigned)newest.step, (unsigned)from, newest.text);
    return 3;
}

/* Nothing happens to the run. */
static int play_nothing(struct dp_transport *t, uint32_t rank)
{
    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    UNTIL(worker[0].bye == DP_BYE_COMPLETED && worker[1].bye == DP_BYE_COMPLETED && worker[2].bye == DP_BYE_COMPLETED);
    return 0;
}

static bool is_committed; /* the hand-over by which worker 0 is to leave */

/* Worker 0 leaves, with all its layers, and hears of that last: the next leader has saved by then. Or it stays. */
static int play_leaving(struct dp_transport *t, uint32_t rank)
{
    struct dp_msg_prepare m = {.incarnation = 1, .migration = 1, .n_workers = N, .n_layers = 6, .cut = {0, 0, 3, 6}, .gone = {1}};
    struct dp_msg_decision commit = {.incarnation = 1, .migration = 1, .commit = is_committed};
    struct dp_msg_finish f = {.migration = 1};

    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    m.epoch = first_epoch;
    commit.epoch = first_epoch + is_committed;
    for (uint32_t r = 0; r < N; r++)
        FAKE_SEND(&worker[r].peer, prepare, DP_MSG_PREPARE, &m);
    UNTIL(worker[0].voted && worker[1].voted && worker[2].voted);
    for (uint32_t r = is_committed; r < N; r++)
        FAKE_SEND(&worker[r].peer, decision, DP_MSG_DECISION, &commit);
    if (is_committed) {
        UNTIL(saved_step > 0);
        FAKE_SEND(&worker[0].peer, decision, DP_MSG_DECISION, &commit);
    }
    UNTIL(worker[0].n_acks && worker[1].n_acks && worker[2].n_acks);
    if (worker[0].acked != commit.epoch || worker[1].acked != commit.epoch || worker[2].acked != commit.epoch)
        return 3;
    for (uint32_t r = 0; r < N; r++)
        FAKE_SEND(&worker[r].peer, finish, DP_MSG_FINISH, &f);
    UNTIL(worker[0].bye == (is_committed ? DP_BYE_DRAINED : DP_BYE_COMPLETED) && worker[1].bye == DP_BYE_COMPLETED &&
          worker[2].bye == DP_BYE_COMPLETED);
    return 0;
}

static void prepare(uint64_t migration, uint64_t epoch, const uint32_t *cut)
{
    struct dp_msg_prepare m = {.incarnation = 1, .migration = migration, .epoch = epoch, .n_workers = N, .n_layers = 6};

    memcpy(m.cut, cut, (N + 1) * sizeof *cut);
    for (uint32_t r = 0; r < N; r++)
        FAKE_SEND(&worker[r].peer, prepare, DP_MSG_PREPARE, &m);
}

static bool is_over(void)
{
    return worker[0].bye >= 0 && worker[1].bye >= 0 && worker[2].bye >= 0;
}

static int n_committed; /* of the hand-overs of play_copying(); in its own process */

/* One hand-over after the other for as long as they train; every third is aborted, at once or when all have voted. */
static int play_copying(struct dp_transport *t, uint32_t rank)
{
    static const uint32_t cuts[][N + 1] = {{0, 1, 4, 6}, {0, 3, 5, 6}, {0, 0, 1, 6}, {0, 2, 2, 6}, {0, 2, 4, 6}};
    uint64_t epoch;

    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    epoch = first_epoch;
    for (uint64_t m = 1; !is_over(); m++) {
        struct dp_msg_decision decision = {.incarnation = 1, .migration = m, .commit = m % 3 != 0, .epoch = epoch + (m % 3 != 0)};
        struct dp_msg_finish f = {.migration = m};
        int acks[N] = {worker[0].n_acks, worker[1].n_acks, worker[2].n_acks};

        prepare(m, epoch, cuts[m % 5]);
        if (m % 6 != 3)
            UNTIL(is_over() || (worker[0].migration == m && worker[1].migration == m && worker[2].migration == m));
        decision.commit = decision.commit && worker[0].voted && worker[1].voted && worker[2].voted && !is_over();
        decision.epoch = epoch + decision.commit;
        for (uint32_t r = 0; r < N; r++)
            FAKE_SEND(&worker[r].peer, decision, DP_MSG_DECISION, &decision);
        UNTIL(is_over() || (worker[0].n_acks > acks[0] && worker[1].n_acks > acks[1] && worker[2].n_acks > acks[2]));
        for (uint32_t r = 0; r < N && decision.commit; r++)
            FAKE_SEND(&worker[r].peer, finish, DP_MSG_FINISH, &f);
        epoch += decision.commit;
        n_committed += decision.commit;
    }
    return n_committed > 0 && worker[0].bye == DP_BYE_COMPLETED && worker[1].bye == DP_BYE_COMPLETED && worker[2].bye == DP_BYE_COMPLETED
               ? 0 : 3;
}

/* As play(), and from the beginning on layers are copied for a hand-over that never comes to a vote. */
static int play_killed_while_copying(struct dp_transport *t, uint32_t rank)
{
    const uint32_t first = victim == 0, other = victim == 2 ? 1 : 2;

    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    prepare(1, first_epoch, (const uint32_t[]){0, 4, 5, 6}); /* 24 units from 1 to 0, one at a boundary */
    UNTIL(worker[victim].is_closed);
    regroup(2, true, N);
    UNTIL(worker[first].acked == 2 && worker[other].acked == 2 && newest.kind && worker[first].bye == DP_BYE_COMPLETED &&
          worker[other].bye == DP_BYE_COMPLETED);
    return worker[0].migration || worker[1].migration || worker[2].migration ? 3 : 0;
}

/* ---- tests ---- */

static void name_files(const char *name)
{
    snprintf(log_path, sizeof log_path, "%s/%s.jsonl", dir, name);
    snprintf(checkpoint_dir, sizeof checkpoint_dir, "%s/%s", dir, name);
    memset(worker, 0, sizeof worker);
}

static void run(const char *name)
{
    procs_body_fn *const bodies[] = {body, body, body, play};
    int want[] = {0, dies_again ? 256 + SIGKILL : 0, 0, 0};

    want[victim] = 256 + SIGKILL;

    name_files(name);
    procs_run(N + 1, bodies, want, false);
}

/* least: lines with a loss; those of steps that were made again count again. */
static void compare(int least)
{
    double alone[STEPS + 1], here[STEPS + 1];
    char path[96];

    name_alone(path, sizeof path);
    assert_int_equal(run_files_losses(path, STEPS, alone), STEPS);
    assert_true(run_files_losses(log_path, STEPS, here) >= least);
    for (int i = 1; i <= STEPS; i++)
        if (memcmp(&alone[i], &here[i], sizeof alone[i]) != 0)
            fail_msg("step %d: a loss of %.17g, alone it is %.17g", i, here[i], alone[i]);
}

static void the_others_go_on_from_the_checkpoint(void **state)
{
    (void)state;
    has_checkpoints = true;
    run("one");
    compare(STEPS + 1);
    has_checkpoints = false;
}

static void without_a_checkpoint_they_begin_again(void **state)
{
    (void)state;
    run("none");
    compare(STEPS + 1);
}

/* While the others make their layers anew. */
static void another_one_dies_meanwhile(void **state)
{
    (void)state;
    dies_again = true;
    run("two");
    compare(STEPS + 1);
    dies_again = false;
}

/* The next one gives the orders and has log and checkpoints, the lock of which died with the first leader. */
static void another_one_leads(void **state)
{
    (void)state;
    victim = 0;
    has_checkpoints = true;
    run("leader");
    compare(STEPS + 1);
    has_checkpoints = false;
    run("leader-none");
    compare(STEPS + 1);
    victim = 2;
}

/* Lines that it began are ended, so that none of its successor's is lost; a log that cannot be opened is no reason to end. */
static void a_leader_leaves_a_spoilt_log(void **state)
{
    char line[4096];
    FILE *f;
    int n_spoilt = 0, n_regroups = 0;

    (void)state;
    victim = 0;
    leaves_log = HALF_A_LINE;
    run("half");
    compare(STEPS + 1);
    f = fopen(log_path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL);

        n_spoilt += o == NULL;
        n_regroups += json_object_get(o, "event") && !strcmp(json_string_value(json_object_get(o, "event")), "regrouped");
        json_decref(o);
    }
    fclose(f);
    assert_int_equal(n_spoilt, 1);
    assert_int_equal(n_regroups, 1);
    leaves_log = A_FOLDER;
    run("folder");
    leaves_log = AS_IT_IS;
    victim = 2;
}

/* A checkpoint that the leader finished, and told nobody of, counts, the more as it is the only one that is left (keep = 1).
 * One that it did not finish is none, though a run before this one left one of the same step: that was another model's. */
static void a_leader_dies_in_a_checkpoint(void **state)
{
    procs_body_fn *const before[] = {body_before};

    (void)state;
    victim = 0;
    has_checkpoints = true;
    dies = AFTER_COMMIT;
    run("committed");
    compare(STEPS); /* it died behind the last step */
    dies = BEFORE_COMMIT;
    name_files("not-committed");
    procs_run(1, before, (const int[]){256 + SIGKILL}, false);
    run("not-committed");
    compare(STEPS + 1);
    dies = TRAINING;
    has_checkpoints = false;
    victim = 2;
}

static void leave(const char *name, bool leaves)
{
    procs_body_fn *const bodies[] = {body, body, body, play_leaving};
    char path[160];

    is_committed = leaves;
    name_files(name);
    procs_run(N + 1, bodies, (const int[]){0, 0, 0, 0}, false);
    compare(STEPS);
    snprintf(path, sizeof path, "%s/step-%08d", checkpoint_dir, STEPS);
    assert_int_equal(access(path, F_OK), 0);
}

/* No step is lost or made twice, and whoever leads then has log and checkpoints. */
static void a_leader_leaves(void **state)
{
    (void)state;
    has_checkpoints = true;
    dies = NEVER;
    leave("leaves", true);
    leave("stays", false);
    dies = TRAINING;
    has_checkpoints = false;
}

/* "frozen" in the line of a step of the run of one worker. */
static json_int_t frozen_at(int step)
{
    char path[96], line[4096];
    json_int_t frozen = -1;
    FILE *f;

    name_alone(path, sizeof path);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL);

        if (json_object_get(o, "loss") && json_integer_value(json_object_get(o, "step")) == step)
            frozen = json_integer_value(json_object_get(o, "frozen"));
        json_decref(o);
    }
    fclose(f);
    return frozen;
}

/* What is frozen, and what decides over it, comes back from checkpoints and goes with layers that are handed over. */
static void the_same_while_layers_freeze(void **state)
{
    static const char *const names[N_SCHEMES] = {[SCHEDULE] = "schedule", [CHANGE] = "change", [FROM_THE_START] = "start"};

    (void)state;
    for (scheme = SCHEDULE; scheme < N_SCHEMES; scheme++) {
        const int before = KILL_AT / EVERY * EVERY;
        char name[32];

        assert_true(frozen_at(STEPS) > 0);
        assert_true(scheme == FROM_THE_START || frozen_at(before) < frozen_at(STEPS));
        has_checkpoints = true;
        snprintf(name, sizeof name, "%s-other", names[scheme]);
        run(name);
        compare(STEPS + 1);
        victim = 0;
        snprintf(name, sizeof name, "%s-leader", names[scheme]);
        run(name);
        compare(STEPS + 1);
        has_checkpoints = false;
        snprintf(name, sizeof name, "%s-none", names[scheme]);
        run(name);
        compare(STEPS + 1);
        victim = 2;
        has_checkpoints = true;
        dies = NEVER;
        snprintf(name, sizeof name, "%s-leaves", names[scheme]);
        leave(name, true);
        dies = TRAINING;
        has_checkpoints = false;
    }
    scheme = PRUNING;
}

/* Of the log: hand-overs before which layers were copied. */
static int n_copied(void)
{
    FILE *f = fopen(log_path, "r");
    char line[4096];
    int n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "\"handover\"") && strstr(line, "copied during");
    fclose(f);
    return n;
}

/* Many hand-overs, some aborted, in runs that prune, that freeze, and in one whose layers stay as they are: there one at least is copied
 * before. */
static void layers_are_copied_while_they_train(void **state)
{
    static const char *const names[N_SCHEMES] = {"copy-prune", "copy-schedule", "copy-change", "copy-start"};
    procs_body_fn *const bodies[] = {body, body, body, play_copying};

    (void)state;
    background = "always";
    dies = NEVER;
    for (scheme = PRUNING; scheme < N_SCHEMES; scheme++) {
        name_files(names[scheme]);
        procs_run(N + 1, bodies, (const int[]){0, 0, 0, 0}, false);
        compare(STEPS);
        assert_true(scheme != FROM_THE_START || n_copied() > 0);
    }
    scheme = PRUNING;
    dies = TRAINING;
    background = "auto";
}

/* A source, a destination, and who is both, one unit at each boundary: nobody is through when it is killed. */
static void one_is_killed_while_layers_are_copied(void **state)
{
    procs_body_fn *const bodies[] = {body, body, body, play_killed_while_copying};
    char name[32];

    (void)state;
    background = "always";
    max_rate = "1e-9";
    scheme = FROM_THE_START;
    for (victim = 0; victim < N; victim++) {
        int want[] = {0, 0, 0, 0};

        want[victim] = 256 + SIGKILL;
        snprintf(name, sizeof name, "copy-killed-%u", victim);
        name_files(name);
        procs_run(N + 1, bodies, want, false);
        compare(STEPS + 1);
    }
    victim = 2;
    scheme = PRUNING;
    max_rate = "0";
    background = "auto";
}

/* Layers are followed by other workers, which changes no loss; and in the end whatever is a whole copy is the layer in the last
 * checkpoint, bit for bit. Where nothing is pruned or frozen on the way all of them are whole: a unit at each boundary is enough. */
static void workers_hold_copies(void **state)
{
    static const char *const names[N_SCHEMES] = {"held-prune", "held-schedule", "held-change", "held-start"};
    procs_body_fn *const bodies[] = {body, body, body, play_nothing}, *const alone[] = {body_alone};

    (void)state;
    copies = 1;
    are_compared = has_checkpoints = true;
    dies = NEVER;
    for (scheme = PRUNING; scheme < N_SCHEMES; scheme++) {
        name_files(names[scheme]);
        least_copies = scheme == FROM_THE_START ? 2 : 0;
        procs_run(N + 1, bodies, (const int[]){0, 0, 0, 0}, false);
        compare(STEPS);
    }
    least_copies = 0;
    scheme = PRUNING;
    is_tied = true;
    procs_run(1, alone, (const int[]){0}, false);
    name_files("held-tied");
    procs_run(N + 1, bodies, (const int[]){0, 0, 0, 0}, false);
    compare(STEPS);
    is_tied = false;
    dies = TRAINING;
    are_compared = has_checkpoints = false;
    copies = 0;
}

/* The same with one hand-over after the other, for which layers are copied as well. */
static void copies_and_hand_overs(void **state)
{
    static const char *const names[N_SCHEMES] = {"both-prune", "both-schedule", "both-change", "both-start"};
    procs_body_fn *const bodies[] = {body, body, body, play_copying};

    (void)state;
    copies = 1;
    are_compared = has_checkpoints = true;
    background = "always";
    dies = NEVER;
    for (scheme = PRUNING; scheme < N_SCHEMES; scheme++) {
        name_files(names[scheme]);
        procs_run(N + 1, bodies, (const int[]){0, 0, 0, 0}, false);
        compare(STEPS);
    }
    scheme = PRUNING;
    leave("both-leaves", true);
    dies = TRAINING;
    background = "auto";
    are_compared = has_checkpoints = false;
    copies = 0;
}

/* Whoever begins again before there is a checkpoint begins with the weights that the run began with; later ones do not. */
static void a_run_that_began_with_weights(void **state)
{
    procs_body_fn *const other[] = {body_other}, *const alone[] = {body_alone};

    (void)state;
    name_files("given");
    procs_run(1, other, (const int[]){0}, false);
    snprintf(weights, sizeof weights, "%s/given/step-%08d", dir, STEPS);
    scheme = FROM_THE_START;
    procs_run(1, alone, (const int[]){0}, false);
    run("given-none");
    compare(STEPS + 1);
    has_checkpoints = true;
    run("given-one");
    compare(STEPS + 1);
    has_checkpoints = false;
    scheme = PRUNING;
    weights[0] = '\0';
}

static void nobody_goes_on_where_that_is_said(void **state)
{
    (void)state;
    ends_with = "the others cannot go on: worker 2 was killed";
    run("no");
    ends_with = NULL;
}

static int set_up(void **state)
{
    procs_body_fn *const bodies[] = {body_alone};

    (void)state;
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
        cmocka_unit_test(the_others_go_on_from_the_checkpoint),
        cmocka_unit_test(without_a_checkpoint_they_begin_again),
        cmocka_unit_test(another_one_dies_meanwhile),
        cmocka_unit_test(another_one_leads),
        cmocka_unit_test(a_leader_leaves_a_spoilt_log),
        cmocka_unit_test(a_leader_dies_in_a_checkpoint),
        cmocka_unit_test(a_leader_leaves),
        cmocka_unit_test(the_same_while_layers_freeze),
        cmocka_unit_test(layers_are_copied_while_they_train),
        cmocka_unit_test(one_is_killed_while_layers_are_copied),
        cmocka_unit_test(workers_hold_copies),
        cmocka_unit_test(copies_and_hand_overs),
        cmocka_unit_test(a_run_that_began_with_weights),
        cmocka_unit_test(nobody_goes_on_where_that_is_said),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
