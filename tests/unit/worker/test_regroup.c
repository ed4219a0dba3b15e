/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole runs of three workers, one of which is killed while it trains: the others hear REGROUP of a daemon that is played
 * here, begin again at the newest checkpoint without new processes, and have the losses of a run that nothing happened to. */
#define _GNU_SOURCE /* nftw */
#include "tests/unit/unit.h"

#include <ftw.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/fakedaemon.h"
#include "tests/unit/worker/procs.h"
#include "worker/checkpoint/distributed.h"
#include "worker/train/metrics.h"
#include "worker/train/trainer.h"

#define N 3        /* workers; the process after them plays the daemon */
#define STEPS 60
#define EVERY 8    /* steps between two checkpoints */
#define KILL_AT 20 /* steps: worker 2 ends there, and makes no other one */
#define WAIT_MS 20
#define HANG_NS (50 * DP_SECOND_NS) /* only a fault takes so long */

struct player {
    struct fake_peer peer;
    bool is_there, is_closed;
    uint64_t acked; /* epoch */
    int bye;        /* enum dp_goodbye, -1: not said */
};

static struct fake_daemon d;
static struct player worker[N];
static struct dp_msg_event newest;  /* REGROUPED of worker 0; kind 0: none */
static char dir[64], log_path[96];
static bool has_checkpoints;
static bool dies_again;             /* worker 1, when it makes its layers anew */
static const char *ends_with;       /* NULL: the run completes; part of the error that it ends with */

/* ---- workers ---- */

static int load(struct dp_train_config *c, const char *log, const char *checkpoints, struct dp_err *err)
{
    static char text[7][160];
    char *over[] = {(char *)"model.blocks=4", (char *)"model.channels=12", (char *)"model.heads=3", (char *)"model.context=8",
                    (char *)"train.batch=2", (char *)"train.microbatches=2", (char *)"train.seed=42", (char *)"data.eval_every=0",
                    (char *)"prune.begin=4", (char *)"prune.end=24", (char *)"prune.every=4", (char *)"pipeline.threads=1",
                    text[0], text[1], text[2], text[3], text[4], text[5]};

    snprintf(text[0], sizeof text[0], "data.path=%s/text", dir);
    snprintf(text[1], sizeof text[1], "output.log=%s", log);
    snprintf(text[2], sizeof text[2], "output.tune=%s/tune.json", dir);
    snprintf(text[3], sizeof text[3], "train.steps=%d", STEPS);
    snprintf(text[4], sizeof text[4], "checkpoint.dir=%s", checkpoints);
    snprintf(text[5], sizeof text[5], "checkpoint.every=%d", checkpoints[0] ? EVERY : 0);
    return dp_train_config_load(NULL, sizeof over / sizeof over[0], over, c, err);
}

static uint32_t my_rank;

void __real_dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage);
void __wrap_dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage);
void __wrap_dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage)
{
    if (my_rank == 2 && s->step == KILL_AT)
        raise(SIGKILL);
    __real_dp_metrics_step(m, s, stage);
}

int __real_dp_start_again(struct dp_collectives *c, const struct dp_train_config *config, const char *saved_path,
                          struct dp_start *out, struct dp_err *err);
int __wrap_dp_start_again(struct dp_collectives *c, const struct dp_train_config *config, const char *saved_path,
                          struct dp_start *out, struct dp_err *err);
int __wrap_dp_start_again(struct dp_collectives *c, const struct dp_train_config *config, const char *saved_path,
                          struct dp_start *out, struct dp_err *err)
{
    int rc = __real_dp_start_again(c, config, saved_path, out, err);

    if (my_rank == 1 && dies_again)
        raise(SIGKILL);
    return rc;
}

/* To `log` alone: what is printed would be taken for results of the test. */
static int run_worker(struct dp_transport *t, uint32_t rank, uint32_t n, const char *log, const char *checkpoints)
{
    static struct dp_train_config config;
    struct dp_wireup w = {.rank = rank, .n_workers = n, .local_rank = rank,
                          .way = n > 1 ? DP_WIREUP_BY_DAEMON : DP_WIREUP_ALONE};
    struct dp_trainer_args args = {.config = &config, .wireup = &w, .transport = n > 1 ? t : NULL,
                                   .socket = n > 1 ? d.path : NULL};
    enum dp_run_outcome end;
    struct dp_err err = {0};

    my_rank = rank;
    if (!freopen("/dev/null", "w", stdout))
        return 9;
    if (load(&config, log, checkpoints, &err) == 0 && dp_trainer_run(&args, &end, &err) == 0)
        return ends_with ? 8 : 0;
    if (ends_with && strstr(err.text, ends_with))
        return 0;
    fprintf(stderr, "# worker %u: %s\n", rank, err.text);
    return 1;
}

static int body(struct dp_transport *t, uint32_t rank)
{
    char checkpoints[96];

    snprintf(checkpoints, sizeof checkpoints, "%s/saved", dir);
    return run_worker(t, rank, N, log_path, has_checkpoints ? checkpoints : "");
}

static int body_alone(struct dp_transport *t, uint32_t rank)
{
    char log[96];

    snprintf(log, sizeof log, "%s/alone.jsonl", dir);
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
        if (dp_msg_hello_decode(&r, &hello, NULL) < 0 || hello.rank >= N || hello.regroups != 1)
            return -1;
        worker[hello.rank] = (struct player){.peer = p, .is_there = true, .bye = -1};
        fake_welcome(&worker[hello.rank].peer, DP_VERDICT_OK, "", "");
    }
    return 0;
}

static void regroup(uint64_t epoch, bool go, uint32_t n_left)
{
    struct dp_msg_regroup m = {.incarnation = 1, .migration = epoch, .go = go, .epoch = epoch, .n_workers = N, .n_layers = 6,
                               .text = "worker 2 was killed", .cut = {0, n_left == 1 ? 6 : 3, 6, 6},
                               .gone = {0, n_left == 1, 1}};

    for (uint32_t r = 0; r < n_left; r++)
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
    uint64_t from = has_checkpoints ? KILL_AT / EVERY * EVERY : 0;

    (void)t;
    (void)rank;
    if (meet() < 0)
        return 2;
    UNTIL(worker[2].is_closed);
    regroup(2, !ends_with, 2);
    if (ends_with) {
        UNTIL(worker[0].bye == DP_BYE_FAILED && worker[1].bye == DP_BYE_FAILED);
        return 0;
    }
    UNTIL(worker[1].acked == 2);
    if (dies_again) {
        UNTIL(worker[1].is_closed);
        regroup(3, true, 1);
        UNTIL(worker[0].acked == 3 && newest.kind && worker[0].bye == DP_BYE_COMPLETED);
    } else {
        UNTIL(worker[0].acked == 2 && newest.kind && worker[0].bye == DP_BYE_COMPLETED && worker[1].bye == DP_BYE_COMPLETED);
    }
    if (newest.step != from || !strstr(newest.text, "worker 2 was killed"))
        return 3;
    return 0;
}

/* ---- tests ---- */

static void write_text(void)
{
    char path[96];
    uint32_t x = 1;
    FILE *f;

    snprintf(path, sizeof path, "%s/text", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 20000; i++) {
        x = x * 1664525u + 1013904223u;
        fputc("etaoin shrdlu"[(x >> 16) % 13], f);
    }
    assert_int_equal(fclose(f), 0);
}

/* loss[step] of a log, where a step that is there twice must have the same one. returns how many lines have a loss. */
static int losses(const char *path, double loss[STEPS + 1])
{
    FILE *f = fopen(path, "r");
    char line[4096];
    int n = 0;

    assert_non_null(f);
    for (int i = 0; i <= STEPS; i++)
        loss[i] = -1;
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, 0, NULL), *l = json_object_get(o, "loss");
        json_int_t i = json_integer_value(json_object_get(o, "step"));

        if (l) {
            assert_in_range(i, 1, STEPS);
            if (loss[i] >= 0)
                assert_true(memcmp(&loss[i], &(double){json_real_value(l)}, sizeof(double)) == 0);
            loss[i] = json_real_value(l);
            n++;
        }
        json_decref(o);
    }
    fclose(f);
    return n;
}

static void run(const char *name)
{
    procs_body_fn *const bodies[] = {body, body, body, play};
    const int want[] = {0, dies_again ? 256 + SIGKILL : 0, 256 + SIGKILL, 0};

    snprintf(log_path, sizeof log_path, "%s/%s.jsonl", dir, name);
    memset(worker, 0, sizeof worker);
    procs_run(N + 1, bodies, want, false);
}

static void compare(void)
{
    double alone[STEPS + 1], here[STEPS + 1];
    char path[96];

    snprintf(path, sizeof path, "%s/alone.jsonl", dir);
    assert_int_equal(losses(path, alone), STEPS);
    assert_true(losses(log_path, here) > STEPS);
    for (int i = 1; i <= STEPS; i++)
        if (memcmp(&alone[i], &here[i], sizeof alone[i]) != 0)
            fail_msg("step %d: a loss of %.17g, alone it is %.17g", i, here[i], alone[i]);
}

static void the_others_go_on_from_the_checkpoint(void **state)
{
    (void)state;
    has_checkpoints = true;
    run("one");
    compare();
    has_checkpoints = false;
}

static void without_a_checkpoint_they_begin_again(void **state)
{
    (void)state;
    run("none");
    compare();
}

/* While the others make their layers anew. */
static void another_one_dies_meanwhile(void **state)
{
    (void)state;
    dies_again = true;
    run("two");
    compare();
    dies_again = false;
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
    write_text();
    procs_run(1, bodies, (const int[]){0}, false);
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
        cmocka_unit_test(nobody_goes_on_where_that_is_said),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
