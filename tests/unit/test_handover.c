/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-overs between forked workers with the real transport, control line and layers; another process
 * plays the daemons and the coordinator over a real socket. Every layer that a worker holds afterwards
 * is compared byte for byte with the one that its index and the seed define: weights, both moments,
 * sparse patterns, random state. */
#define _GNU_SOURCE /* struct ucred */
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/fakedaemon.h"
#include "tests/unit/procs.h"
#include "tests/unit/unit.h"
#include "worker/handover/handover.h"

#define MAX_PROCS 4
#define EPOCH 7
#define MS UINT64_C(1000000)
#define MIGRATION 3

enum ending { COMMITTED, ABORTED, FATAL };

/* What a test is: filled before the fork, the same in every process. */
static struct scenario {
    uint32_t n_workers;
    uint32_t old_cut[MAX_PROCS + 1], new_cut[MAX_PROCS + 1];
    uint8_t gone[MAX_PROCS];
    enum ending ending[MAX_PROCS];
    int want[MAX_PROCS];          /* exit status, 256 + signal */
    enum dp_errcode fatal_code;   /* of FATAL */
    const char *why;              /* part of the text of an abort */
    bool waits_for_decision;      /* an abort is acknowledged before the worker ends */
    bool commits_later;           /* finish_poll must refuse a commit that nobody voted for */
    uint64_t mem_limit_bytes;     /* of every worker */
    int corrupts, dies, stalls;   /* rank whose first chunk is damaged; that is killed at its first chunk;
                                     that waits with its first chunk until its line is down */
    int stops;                    /* rank that is stopped (SIGSTOP) at its first chunk */
    int waits;                    /* rank that waits with its first chunk for a byte from the script */
    int back[2];                  /* pipe: for `waits` */
    int pipe[2];                  /* a byte from the worker that stalls, and one from each that returned
                                     from its hand-over */
    struct dp_handover_times times;
    void (*script)(void);         /* the daemons */
    procs_body_fn *body;          /* of the workers, NULL: one hand-over, then the checks of its ending */
    int64_t channels;
} sc;

static struct fake_daemon d;
static struct fake_peer peer[MAX_PROCS];
static uint64_t migration = MIGRATION, epoch = EPOCH; /* of the script; only the long run changes them */

/* ---- the model ---- */

static struct dp_train_config config;
static struct dp_tune tune;

static void set_model(int64_t channels)
{
    const int64_t c = channels;
    const int64_t shape[][2] = {{3 * c, c}, {c, c}, {4 * c, c}, {c, 4 * c}};

    memset(&config, 0, sizeof config);
    config.model.blocks = 6;
    config.model.channels = c;
    config.model.heads = 4;
    config.model.context = 16;
    config.model.vocabulary = 64;
    config.train.steps = 100;
    config.train.batch = 2;
    config.train.microbatches = 2;
    config.train.lr = config.train.min_lr = 1e-3;
    config.train.beta1 = 0.9;
    config.train.beta2 = 0.95;
    config.train.eps = 1e-8;
    config.train.seed = 42;
    tune.n_entries = 4;
    for (uint32_t i = 0; i < 4; i++)
        tune.entry[i] = (struct dp_tune_entry){.c_out = shape[i][0], .c_in = shape[i][1], .n = 32, .crossover = 0.6};
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int prune_param(struct dp_layer *l, struct dp_param *p, uint32_t keep_of_16)
{
    size_t words = (size_t)(p->rows * p->cols + 63) / 64;
    uint64_t *keep = calloc(words, sizeof *keep);
    struct dp_err err;
    int rc;

    if (!keep)
        return -1;
    for (int64_t i = 0; i < p->rows * p->cols; i++)
        if ((mix((uint64_t)i + l->index) & 15) < keep_of_16)
            keep[i / 64] |= (uint64_t)1 << (i % 64);
    rc = dp_param_prune(l, p, keep, &err);
    free(keep);
    return rc;
}

/* Layer `index` as it would be in the middle of a pruned run: one matrix sparse, one pruned but dense,
 * moments of all elements that are left, random state moved on. */
static struct dp_layer *make_layer(struct dp_backend *be, uint32_t index)
{
    struct dp_err err = {0};
    struct dp_layer *l = dp_layer_create(&config, index, be, &tune, &err);
    uint32_t pruned = 0;

    if (!l) {
        fprintf(stderr, "# layer %u: %s\n", index, err.text);
        return NULL;
    }
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];

        if (p->prunable && pruned < 2 && prune_param(l, p, pruned++ == 0 ? 2 : 12) < 0)
            return NULL;
        for (int64_t k = 0; p->m && k < p->n; k++) {
            bool left = !p->keep || (p->keep[k / 64] >> (k % 64) & 1);

            p->m[k] = left ? (float)(mix((uint64_t)k * 31 + index) >> 40) * 1e-8f : 0;
            p->v[k] = left ? (float)(mix((uint64_t)k * 37 + index) >> 40) * 1e-9f : 0;
        }
    }
    l->rng_counter = 1000 + index;
    return l;
}

static bool is_intact(struct dp_backend *be, const struct dp_layer *l)
{
    struct dp_layer *want = make_layer(be, l->index);
    uint8_t *a = NULL, *b = NULL;
    size_t na = 0, nb = 1;
    bool same;

    if (!want || dp_layer_write(l, &a, &na, NULL) < 0 || dp_layer_write(want, &b, &nb, NULL) < 0)
        return false;
    same = na == nb && memcmp(a, b, na) == 0;
    for (uint32_t i = 0; same && i < l->n_params; i++)
        same = !l->param[i].sparse == !want->param[i].sparse && l->param[i].nnz == want->param[i].nnz;
    free(a);
    free(b);
    dp_layer_destroy(want);
    return same;
}

/* ---- a worker ---- */

struct worker {
    struct dp_transport *t;
    uint32_t rank;
    struct dp_backend *be;
    struct dp_stage *stage;
    struct dp_control *control;
    struct dp_handover *h;
    struct dp_layout layout;
};

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "# worker %u, line %d: not true: %s\n", w->rank, __LINE__, #cond);     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static void set_layout(struct dp_layout *l, const uint32_t *cut)
{
    memset(l, 0, sizeof *l);
    l->epoch = EPOCH;
    l->n_workers = sc.n_workers;
    l->n_layers = 8;
    memcpy(l->cut, cut, (sc.n_workers + 1) * sizeof *cut);
}

static int set_up(struct worker *w)
{
    struct dp_layer *layers[8];
    struct dp_msg_hello hello = {.job_id = 1, .rank = w->rank, .n_workers = sc.n_workers, .n_layers = 8, .epoch = EPOCH};
    struct dp_err err = {0};
    uint32_t first, n;

    set_layout(&w->layout, sc.old_cut);
    memcpy(hello.cut, w->layout.cut, sizeof hello.cut);
    first = w->layout.cut[w->rank];
    n = w->layout.cut[w->rank + 1] - first;
    w->be = dp_backend_create("cpu", 0, 1, &err);
    CHECK(w->be);
    for (uint32_t i = 0; i < n; i++)
        CHECK((layers[i] = make_layer(w->be, first + i)));
    w->stage = dp_stage_create(&config, w->be, layers, n, &err);
    CHECK(w->stage);
    w->control = dp_control_create(d.path, &hello, 20000, &err);
    CHECK(w->control && dp_control_is_connected(w->control));
    w->h = dp_handover_create(&sc.times, &err);
    CHECK(w->h);
    return 0;
}

static void disturb(void *arg, uint32_t layer, uint64_t offset, uint8_t *payload, size_t bytes)
{
    const struct worker *w = arg;

    (void)layer;
    if ((int)w->rank == sc.dies)
        raise(SIGKILL);
    if ((int)w->rank == sc.stops) {
        sc.stops = -1;
        raise(SIGSTOP);
    }
    if ((int)w->rank == sc.waits) {
        char byte;

        sc.waits = -1;
        if (write(sc.pipe[1], "", 1) != 1 || read(sc.back[0], &byte, 1) != 1)
            abort();
    }
    if ((int)w->rank == sc.stalls) {
        if (write(sc.pipe[1], "", 1) != 1) /* now the daemons may die */
            abort();
        while (dp_control_is_connected(w->control))
            dp_control_wait(w->control, 5);
        sc.stalls = -1;
    }
    if ((int)w->rank == sc.corrupts && offset == 0)
        payload[bytes / 2] ^= 4;
}

/* Every layer of the layout's part is here, in order, unharmed. */
static int check_stage(struct worker *w)
{
    uint32_t first = w->layout.cut[w->rank], n = w->layout.cut[w->rank + 1] - first;

    CHECK(dp_stage_n_layers(w->stage) == n);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(dp_stage_layer(w->stage, i)->index == first + i);
        CHECK(is_intact(w->be, dp_stage_layer(w->stage, i)));
    }
    return 0;
}

static bool gave_layers(const struct worker *w)
{
    for (uint32_t l = sc.old_cut[w->rank]; l < sc.old_cut[w->rank + 1]; l++)
        if (l < sc.new_cut[w->rank] || l >= sc.new_cut[w->rank + 1])
            return true;
    return false;
}

static int poll_until(struct worker *w, int state, struct dp_err *err)
{
    uint64_t end = dp_now_ns() + 20000 * MS;
    int got;

    while ((got = dp_handover_finish_poll(w->h, w->control, w->rank, &w->layout, err)) != state &&
           dp_now_ns() < end)
        dp_control_wait(w->control, 20);
    return got;
}

static int after_commit(struct worker *w, const struct dp_handover_outcome *out)
{
    bool leaves = sc.gone[w->rank];
    struct dp_err err = {0};
    int state = dp_handover_finish_poll(w->h, w->control, w->rank, &w->layout, &err);

    CHECK(w->layout.epoch == EPOCH + 1);
    CHECK(memcmp(w->layout.cut, sc.new_cut, (sc.n_workers + 1) * sizeof sc.new_cut[0]) == 0);
    CHECK(memcmp(w->layout.gone, sc.gone, sc.n_workers) == 0);
    CHECK(out->is_leaving == leaves);
    CHECK(check_stage(w) == 0);
    /* the script sends FINISH only after a goodbye-less event from each: copies are still here */
    CHECK((dp_handover_retired_bytes(w->h) > 0) == gave_layers(w));
    CHECK(state == (leaves ? DP_HANDOVER_LEAVING : gave_layers(w) ? DP_HANDOVER_KEEPING : DP_HANDOVER_IDLE));
    CHECK(dp_control_event(w->control, &(struct dp_msg_event){.step = 1, .text = "checked"}));
    CHECK(poll_until(w, leaves ? DP_HANDOVER_LEAVE : DP_HANDOVER_IDLE, &err) ==
          (leaves ? DP_HANDOVER_LEAVE : DP_HANDOVER_IDLE));
    CHECK(leaves || !gave_layers(w) || dp_control_is_finished(w->control, MIGRATION));
    CHECK(dp_handover_retired_bytes(w->h) == 0 || leaves);
    return 0;
}

static int after_abort(struct worker *w, const struct dp_handover_outcome *out)
{
    uint64_t end = dp_now_ns() + 20000 * MS;
    struct dp_err err = {0};
    int state = 0;

    CHECK(w->layout.epoch == EPOCH);
    CHECK(memcmp(w->layout.cut, sc.old_cut, (sc.n_workers + 1) * sizeof sc.old_cut[0]) == 0);
    if (sc.why && !strstr(out->text, sc.why))
        fprintf(stderr, "# worker %u: \"%s\" does not say \"%s\"\n", w->rank, out->text, sc.why);
    CHECK(!sc.why || strstr(out->text, sc.why));
    CHECK(check_stage(w) == 0);
    CHECK(dp_handover_retired_bytes(w->h) == 0);
    while (sc.waits_for_decision && dp_now_ns() < end &&
           (state = dp_handover_finish_poll(w->h, w->control, w->rank, &w->layout, &err)) >= 0 &&
           !dp_control_decision(w->control, MIGRATION))
        dp_control_wait(w->control, 20);
    if (sc.waits_for_decision)
        state = dp_handover_finish_poll(w->h, w->control, w->rank, &w->layout, &err);
    CHECK(!sc.waits_for_decision || dp_control_decision(w->control, MIGRATION));
    CHECK(state == (sc.commits_later ? -1 : DP_HANDOVER_IDLE));
    return 0;
}

static int run_worker(struct worker *w)
{
    struct dp_handover_args args = {
        .transport = w->t, .control = w->control, .rank = w->rank, .layout = &w->layout, .stage = &w->stage,
        .config = &config, .backend = w->be, .tune = &tune, .step = 40, .mem_limit_bytes = sc.mem_limit_bytes,
        .chunk_hook = disturb, .chunk_hook_arg = w,
    };
    struct dp_handover_outcome out;
    struct dp_err err = {0};
    int rc = dp_handover_run(w->h, &args, MIGRATION, &out, &err);

    CHECK(write(sc.pipe[1], "", 1) == 1);
    if (sc.ending[w->rank] == FATAL) {
        if (rc == 0 || err.code != sc.fatal_code)
            fprintf(stderr, "# worker %u: rc %d, code %d: %s\n", w->rank, rc, (int)err.code, err.text);
        CHECK(rc < 0 && err.code == sc.fatal_code);
        return 0;
    }
    if (rc < 0)
        fprintf(stderr, "# worker %u: %s\n", w->rank, err.text);
    CHECK(rc == 0);
    if (out.is_committed != (sc.ending[w->rank] == COMMITTED))
        fprintf(stderr, "# worker %u: %s\n", w->rank, out.text);
    CHECK(out.is_committed == (sc.ending[w->rank] == COMMITTED));
    if (w->rank == 0 && out.sent_bytes + out.received_bytes > 0)
        printf("# %s: pause %.1f ms, transfer %.1f ms, %.2f MB through worker 0\n",
               out.is_committed ? "commit" : "abort", (double)out.pause_ns / 1e6, (double)out.transfer_ns / 1e6,
               (double)(out.sent_bytes + out.received_bytes) / 1e6);
    fflush(stdout);
    return out.is_committed ? after_commit(w, &out) : after_abort(w, &out);
}

static void tear_down(struct worker *w)
{
    dp_control_destroy(w->control);
    dp_stage_destroy(w->stage);
    dp_handover_destroy(w->h);
    dp_backend_destroy(w->be);
}

/* Nobody goes before all are done, as in a run; the dead are not waited for. */
static void meet(struct dp_transport *t, uint32_t rank)
{
    uint64_t tag = dp_tag(DP_CH_COLLECTIVE, 1, 1, 1);
    struct dp_xfer *in[MAX_PROCS] = {0}, *out[MAX_PROCS] = {0};
    uint8_t got[MAX_PROCS], say = 1;

    for (uint32_t i = 0; i < sc.n_workers; i++)
        if (i != rank) {
            in[i] = dp_transport_recv(t, i, tag, &got[i], 1, NULL);
            out[i] = dp_transport_send(t, i, tag, &say, 1, NULL);
        }
    for (uint32_t i = 0; i < sc.n_workers; i++) {
        if (out[i])
            dp_transport_wait(t, out[i], 0, NULL, NULL);
        if (in[i])
            dp_transport_wait(t, in[i], 0, NULL, NULL);
    }
}

static int worker(struct dp_transport *t, uint32_t rank)
{
    struct worker *w = &(struct worker){.t = t, .rank = rank};
    int rc = set_up(w);

    if (rc == 0)
        rc = run_worker(w);
    meet(t, rank);
    tear_down(w);
    return rc;
}

/* ---- the daemons ---- */

static void must(int ok, int line)
{
    if (ok)
        return;
    fprintf(stderr, "# coordinator: failed at line %d\n", line);
    _exit(1);
}
#define MUST(cond) must((cond), __LINE__)

/* All workers connect; which one is which is in its HELLO. */
static void accept_all(uint64_t doubt)
{
    for (uint32_t i = 0; i < sc.n_workers; i++) {
        static struct fake_peer p;
        struct dp_msg_hello hello;
        struct dp_header h;
        struct dp_reader r;
        const uint8_t *body;

        MUST(fake_accept(&d, &p, 20000) == 0);
        MUST(fake_next(&p, 20000, &h, &body) == 1 && h.type == DP_MSG_HELLO);
        dp_reader_init(&r, body, h.body_len);
        MUST(dp_msg_hello_decode(&r, &hello, NULL) == 0);
        MUST(hello.doubt == doubt);
        MUST(hello.epoch == EPOCH);
        peer[hello.rank] = p;
        fake_welcome(&peer[hello.rank], DP_VERDICT_OK, "", "");
    }
}

static void all_die(void)
{
    for (uint32_t i = 0; i < sc.n_workers; i++)
        fake_close(&peer[i]);
    fake_daemon_close(&d);
}

static struct dp_msg_prepare prepare(void)
{
    struct dp_msg_prepare m = {.incarnation = 1, .migration = migration, .epoch = epoch, .n_workers = sc.n_workers,
                               .n_layers = 8};

    memcpy(m.cut, sc.new_cut, sizeof sc.new_cut);
    memcpy(m.gone, sc.gone, sizeof sc.gone);
    return m;
}

static void prepare_all(void)
{
    struct dp_msg_prepare m = prepare();

    for (uint32_t i = 0; i < sc.n_workers; i++)
        FAKE_SEND(&peer[i], prepare, DP_MSG_PREPARE, &m);
}

static void decide_all(uint32_t incarnation, bool commits)
{
    struct dp_msg_decision m = {.incarnation = incarnation, .migration = migration, .commit = commits,
                                .epoch = epoch + commits, .text = "test"};

    for (uint32_t i = 0; i < sc.n_workers; i++)
        if (peer[i].fd >= 0)
            FAKE_SEND(&peer[i], decision, DP_MSG_DECISION, &m);
}

static void finish_all(void)
{
    struct dp_msg_finish m = {.migration = migration};

    for (uint32_t i = 0; i < sc.n_workers; i++)
        FAKE_SEND(&peer[i], finish, DP_MSG_FINISH, &m);
}

static struct dp_msg_vote vote_of(uint32_t rank)
{
    struct dp_msg_vote v;
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;

    MUST(fake_next(&peer[rank], 20000, &h, &body) == 1 && h.type == DP_MSG_VOTE);
    dp_reader_init(&r, body, h.body_len);
    MUST(dp_msg_vote_decode(&r, &v, NULL) == 0);
    MUST(v.migration == migration && v.rank == rank && v.incarnation == 1);
    return v;
}

static void all_vote_yes(void)
{
    struct dp_msg_vote first = vote_of(0);
    uint64_t sent = first.sent_bytes, received = first.received_bytes;

    MUST(first.yes == 1 && first.boundary == 40);
    for (uint32_t i = 1; i < sc.n_workers; i++) {
        struct dp_msg_vote v = vote_of(i);

        MUST(v.yes == 1 && v.boundary == 40);
        MUST(memcmp(v.digest, first.digest, sizeof v.digest) == 0);
        sent += v.sent_bytes;
        received += v.received_bytes;
    }
    MUST(sent == received);
}

static void votes_no(uint32_t rank)
{
    struct dp_msg_vote v = vote_of(rank);

    MUST(v.yes == 0 && v.text[0]);
    MUST(!sc.why || strstr(v.text, sc.why));
}

static void all_acknowledge(uint64_t in_force)
{
    for (uint32_t i = 0; i < sc.n_workers; i++) {
        struct dp_msg_decision_ack a;
        struct dp_header h;
        struct dp_reader r;
        const uint8_t *body;

        if (peer[i].fd < 0)
            continue;
        MUST(fake_next(&peer[i], 20000, &h, &body) == 1 && h.type == DP_MSG_DECISION_ACK);
        dp_reader_init(&r, body, h.body_len);
        MUST(dp_msg_decision_ack_decode(&r, &a, NULL) == 0);
        MUST(a.migration == migration && a.rank == i && a.epoch == in_force);
    }
}

static void all_checked(void)
{
    struct dp_header h;
    const uint8_t *body;

    for (uint32_t i = 0; i < sc.n_workers; i++)
        MUST(fake_next(&peer[i], 20000, &h, &body) == 1 && h.type == DP_MSG_EVENT);
}

/* The workers end by themselves: stay until the last line is closed. */
static void stay(void)
{
    struct dp_header h;
    const uint8_t *body;

    for (uint32_t i = 0; i < sc.n_workers; i++)
        while (peer[i].fd >= 0 && fake_next(&peer[i], 20000, &h, &body) > 0)
            ;
}

/* ---- scenarios ---- */

static void run(void)
{
    procs_body_fn *body = sc.body ? sc.body : worker;
    procs_body_fn *bodies[MAX_PROCS] = {body, body, body, body};
    pid_t pid;
    int status;

    set_model(sc.channels ? sc.channels : 32);
    fake_daemon_start(&d);
    assert_int_equal(pipe(sc.pipe), 0);
    assert_int_equal(pipe(sc.back), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        sc.script();
        stay();
        _exit(0);
    }
    procs_run(sc.n_workers, bodies, sc.want, false);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(sc.pipe[0]);
    close(sc.pipe[1]);
    close(sc.back[0]);
    close(sc.back[1]);
    fake_daemon_stop(&d);
}

/* Three workers, eight layers; layers 2 and 3 go from 0 to 1, 5 from 1 to 2. */
static void begin(void (*script)(void), enum ending ending)
{
    sc = (struct scenario){
        .n_workers = 3,
        .old_cut = {0, 4, 6, 8},
        .new_cut = {0, 2, 5, 8},
        .ending = {ending, ending, ending, ending},
        .corrupts = -1,
        .dies = -1,
        .stalls = -1,
        .stops = -1,
        .waits = -1,
        .times = {.prepare_ns = 10000 * MS, .stall_ns = 5000 * MS, .poll_ns = 20000 * MS, .doubt_ns = 20000 * MS,
                  .leave_ns = 20000 * MS},
        .script = script,
    };
}

static void script_commit(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    decide_all(1, true);
    all_acknowledge(EPOCH + 1);
    all_checked();
    finish_all();
}

static void commit_moves_layers(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    run();
}

/* Every layer but the first moves, some over three workers, against the pipeline's direction too. */
static void long_shifts_do_not_deadlock(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    sc.n_workers = 4;
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 6, 7, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 1, 2, 3, 8}, sizeof sc.new_cut);
    run();
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 1, 2, 3, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 6, 7, 8}, sizeof sc.new_cut);
    run();
}

/* Layers of several chunks each. */
static void big_layers_move(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    sc.channels = 256;
    run();
}

static void a_worker_is_emptied_and_leaves(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 8, 8}, sizeof sc.new_cut);
    sc.gone[2] = 1;
    run();
}

static void an_empty_worker_leaves(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 5, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, sc.old_cut, sizeof sc.new_cut);
    sc.gone[1] = 1;
    run();
}

/* The daemons die for good right after the commit: a leaver does not stay for ever. */
static void script_commit_and_die(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    decide_all(1, true);
    all_acknowledge(EPOCH + 1);
    all_checked();
    all_die();
}

static void a_leaver_leaves_without_daemons(void **state)
{
    (void)state;
    begin(script_commit_and_die, COMMITTED);
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 5, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, sc.old_cut, sizeof sc.new_cut);
    sc.gone[1] = 1;
    sc.times.leave_ns = 200 * MS;
    run();
}

static void script_abort(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void abort_restores(void **state)
{
    (void)state;
    begin(script_abort, ABORTED);
    sc.why = "test";
    run();
}

static void script_all_no(void)
{
    accept_all(0);
    prepare_all();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_damaged_chunk_is_refused(void **state)
{
    (void)state;
    begin(script_all_no, ABORTED);
    sc.waits_for_decision = true;
    sc.corrupts = 0;
    sc.why = "CRC-32C";
    run();
    sc.corrupts = 1;
    sc.channels = 256; /* with more chunks of the same layer in flight */
    run();
}

static void a_destination_without_memory_refuses(void **state)
{
    (void)state;
    begin(script_all_no, ABORTED);
    sc.waits_for_decision = true;
    sc.mem_limit_bytes = 100000;
    sc.why = "layer";
    run();
}

static void script_worker_dies(void)
{
    accept_all(0);
    prepare_all();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        if ((int)i != sc.dies)
            votes_no(i);
    fake_close(&peer[sc.dies]);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_worker_that_dies_aborts(void **state)
{
    (void)state;
    begin(script_worker_dies, ABORTED);
    sc.waits_for_decision = true;
    sc.dies = 1;
    sc.want[1] = 256 + SIGKILL;
    run();
}

static pid_t pid_of(uint32_t rank)
{
    struct ucred u;
    socklen_t n = sizeof u;

    MUST(getsockopt(peer[rank].fd, SOL_SOCKET, SO_PEERCRED, &u, &n) == 0);
    return u.pid;
}

static void wait_until_stopped(pid_t pid)
{
    char path[64], text[256] = "";
    uint64_t end = dp_now_ns() + 20000 * MS;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    do {
        FILE *f = fopen(path, "r");

        MUST(f != NULL);
        MUST(fgets(text, sizeof text, f) != NULL);
        fclose(f);
        poll(NULL, 0, 1);
    } while (!strstr(text, ") T ") && dp_now_ns() < end);
    MUST(strstr(text, ") T ") != NULL);
}

/* A source hangs in the middle: the others abort without it, and it follows when it runs again. */
static void script_source_hangs(void)
{
    accept_all(0);
    prepare_all();
    votes_no(0);
    votes_no(2);
    wait_until_stopped(pid_of(1));
    MUST(kill(pid_of(1), SIGCONT) == 0);
    MUST(vote_of(1).yes == 0);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_source_that_hangs_aborts(void **state)
{
    (void)state;
    begin(script_source_hangs, ABORTED);
    sc.waits_for_decision = true;
    sc.times.stall_ns = 300 * MS;
    sc.stops = 1;
    sc.why = "no byte moved";
    run();
}

/* A destination hangs: the source gives up, and its chunks stay where the destination may read them. */
static void script_destination_hangs(void)
{
    char byte;

    accept_all(0);
    prepare_all();
    MUST(read(sc.pipe[0], &byte, 1) == 1);
    MUST(kill(pid_of(2), SIGSTOP) == 0);
    wait_until_stopped(pid_of(2));
    MUST(write(sc.back[1], "", 1) == 1);
    votes_no(0);
    votes_no(1);
    MUST(kill(pid_of(2), SIGCONT) == 0);
    MUST(vote_of(2).yes == 0);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_destination_that_hangs_aborts(void **state)
{
    (void)state;
    begin(script_destination_hangs, ABORTED);
    sc.waits_for_decision = true;
    sc.times.stall_ns = 300 * MS;
    sc.waits = 1;
    sc.channels = 256;
    sc.why = "no byte moved";
    run();
}

static void script_leader_dies(void)
{
    accept_all(0);
    prepare_all();
    votes_no(1);
    votes_no(2);
}

static void without_the_leader_the_run_ends(void **state)
{
    (void)state;
    begin(script_leader_dies, FATAL);
    sc.fatal_code = DP_EGONE;
    sc.dies = 0;
    sc.want[0] = 256 + SIGKILL;
    run();
}

/* The line breaks before any vote: all abort alone, at once, and say so when the daemons are back. */
static void script_dies_before_votes(void)
{
    char byte;

    accept_all(0);
    prepare_all();
    MUST(read(sc.pipe[0], &byte, 1) == 1);
    all_die();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        MUST(read(sc.pipe[0], &byte, 1) == 1);
    fake_daemon_relisten(&d);
    accept_all(0);
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(2, false);
    all_acknowledge(EPOCH);
}

static void daemons_that_die_before_the_votes_abort(void **state)
{
    (void)state;
    begin(script_dies_before_votes, ABORTED);
    sc.waits_for_decision = true;
    sc.stalls = 0;
    sc.why = "line";
    run();
}

static void die_after_votes(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    all_die();
    fake_daemon_relisten(&d);
    accept_all(MIGRATION); /* all say that they are in doubt, and vote again */
    all_vote_yes();
}

static void script_back_with_commit(void)
{
    die_after_votes();
    decide_all(2, true);
    all_acknowledge(EPOCH + 1);
    all_checked();
    finish_all();
}

static void script_back_with_abort(void)
{
    die_after_votes();
    decide_all(2, false);
    all_acknowledge(EPOCH);
}

static void workers_in_doubt_follow_the_decision(void **state)
{
    (void)state;
    begin(script_back_with_commit, COMMITTED);
    run();
    begin(script_back_with_abort, ABORTED);
    run();
}

static void script_votes_only(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
}

static void doubt_ends_the_run_at_last(void **state)
{
    (void)state;
    begin(script_votes_only, FATAL);
    sc.fatal_code = DP_ETIMEOUT;
    sc.times.doubt_ns = 300 * MS;
    run();
}

static void script_one_without_prepare(void)
{
    struct dp_msg_prepare m = prepare();

    accept_all(0);
    FAKE_SEND(&peer[0], prepare, DP_MSG_PREPARE, &m);
    FAKE_SEND(&peer[1], prepare, DP_MSG_PREPARE, &m);
    MUST(vote_of(0).yes == 0);
    MUST(vote_of(1).yes == 0);
    FAKE_SEND(&peer[2], prepare, DP_MSG_PREPARE, &m);
    MUST(vote_of(2).yes == 0); /* too late */
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void everybody_needs_prepare(void **state)
{
    (void)state;
    begin(script_one_without_prepare, ABORTED);
    sc.waits_for_decision = true;
    sc.times.prepare_ns = 300 * MS;
    sc.why = "no PREPARE";
    run();
}

static void script_different_prepares(void)
{
    struct dp_msg_prepare m = prepare();

    accept_all(0);
    FAKE_SEND(&peer[0], prepare, DP_MSG_PREPARE, &m);
    FAKE_SEND(&peer[1], prepare, DP_MSG_PREPARE, &m);
    m.cut[1]++;
    FAKE_SEND(&peer[2], prepare, DP_MSG_PREPARE, &m);
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void everybody_needs_the_same_prepare(void **state)
{
    (void)state;
    begin(script_different_prepares, ABORTED);
    sc.waits_for_decision = true;
    sc.why = "another PREPARE";
    run();
}

static void script_stale_epoch(void)
{
    struct dp_msg_prepare m = prepare();

    accept_all(0);
    m.epoch = EPOCH - 1;
    for (uint32_t i = 0; i < sc.n_workers; i++)
        FAKE_SEND(&peer[i], prepare, DP_MSG_PREPARE, &m);
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_stale_epoch_is_refused(void **state)
{
    (void)state;
    begin(script_stale_epoch, ABORTED);
    sc.waits_for_decision = true;
    sc.why = "epoch";
    run();
}

/* The coordinator aborts before anybody voted: nobody votes any more. */
static void script_aborts_first(void)
{
    accept_all(0);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void an_early_abort_needs_no_vote(void **state)
{
    (void)state;
    begin(script_aborts_first, ABORTED);
    sc.waits_for_decision = true;
    sc.why = "coordinator aborted";
    run();
}

/* A commit that contradicts the votes must stop the run, never be followed or ignored. */
static void script_commits_after_no(void)
{
    accept_all(0);
    prepare_all();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, true);
}

static void a_commit_without_votes_stops_the_run(void **state)
{
    (void)state;
    begin(script_commits_after_no, ABORTED);
    sc.waits_for_decision = true;
    sc.commits_later = true;
    sc.corrupts = 0;
    run();
}

/* Many hand-overs in a row between random layouts, some of them aborted: nothing of one is left over
 * for the next, whether at the same boundary or a later one. */
#define MANY 24

static bool is_aborted(uint64_t m)
{
    return mix(m) % 4 == 0;
}

static void random_cuts(uint64_t m, uint32_t *cut)
{
    cut[0] = 0;
    for (uint32_t i = 1; i < sc.n_workers; i++) {
        uint32_t at = (uint32_t)(mix(m * 8 + i) % 9), k = i;

        for (; k > 1 && cut[k - 1] > at; k--)
            cut[k] = cut[k - 1];
        cut[k] = at;
    }
    cut[sc.n_workers] = 8;
}

static int one_of_many(struct worker *w, uint64_t m)
{
    struct dp_handover_args args = {
        .transport = w->t, .control = w->control, .rank = w->rank, .layout = &w->layout, .stage = &w->stage,
        .config = &config, .backend = w->be, .tune = &tune, .step = 40 + m / 3,
    };
    struct dp_handover_outcome out;
    struct dp_err err = {0};
    uint64_t before = w->layout.epoch;

    if (dp_handover_run(w->h, &args, m, &out, &err) < 0)
        fprintf(stderr, "# worker %u: hand-over %llu: %s\n", w->rank, (unsigned long long)m, err.text);
    CHECK(err.code == DP_OK);
    CHECK(out.is_committed == !is_aborted(m));
    CHECK(w->layout.epoch == before + out.is_committed);
    CHECK(check_stage(w) == 0);
    CHECK(poll_until(w, DP_HANDOVER_IDLE, &err) == DP_HANDOVER_IDLE);
    CHECK(dp_handover_retired_bytes(w->h) == 0);
    return 0;
}

static int worker_of_many(struct dp_transport *t, uint32_t rank)
{
    struct worker *w = &(struct worker){.t = t, .rank = rank};
    int rc = set_up(w);

    for (uint64_t m = 1; rc == 0 && m <= MANY; m++)
        rc = one_of_many(w, m);
    meet(t, rank);
    tear_down(w);
    return rc;
}

static void script_many(void)
{
    accept_all(0);
    for (migration = 1; migration <= MANY; migration++) {
        bool commits = !is_aborted(migration);

        random_cuts(migration, sc.new_cut);
        prepare_all();
        for (uint32_t i = 0; i < sc.n_workers; i++)
            MUST(vote_of(i).yes);
        decide_all(1, commits);
        epoch += commits;
        all_acknowledge(epoch);
        if (commits)
            finish_all();
    }
}

static void many_handovers_in_a_row(void **state)
{
    (void)state;
    begin(script_many, COMMITTED);
    sc.n_workers = 4;
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 2, 4, 6, 8}, sizeof sc.old_cut);
    sc.body = worker_of_many;
    run();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(commit_moves_layers),
    cmocka_unit_test(long_shifts_do_not_deadlock),
    cmocka_unit_test(big_layers_move),
    cmocka_unit_test(a_worker_is_emptied_and_leaves),
    cmocka_unit_test(an_empty_worker_leaves),
    cmocka_unit_test(a_leaver_leaves_without_daemons),
    cmocka_unit_test(abort_restores),
    cmocka_unit_test(a_damaged_chunk_is_refused),
    cmocka_unit_test(a_destination_without_memory_refuses),
    cmocka_unit_test(a_worker_that_dies_aborts),
    cmocka_unit_test(a_source_that_hangs_aborts),
    cmocka_unit_test(a_destination_that_hangs_aborts),
    cmocka_unit_test(without_the_leader_the_run_ends),
    cmocka_unit_test(daemons_that_die_before_the_votes_abort),
    cmocka_unit_test(workers_in_doubt_follow_the_decision),
    cmocka_unit_test(doubt_ends_the_run_at_last),
    cmocka_unit_test(everybody_needs_prepare),
    cmocka_unit_test(everybody_needs_the_same_prepare),
    cmocka_unit_test(a_stale_epoch_is_refused),
    cmocka_unit_test(an_early_abort_needs_no_vote),
    cmocka_unit_test(a_commit_without_votes_stops_the_run),
    cmocka_unit_test(many_handovers_in_a_row),
};
TEST_MAIN("handover", tests)
