/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours whose devices write into each other's memory: forked workers, each with an emulated device of its own
 * (kernels/cuda/emu), pass activations and gradients through a pipeline as stages do. Every number has to arrive, over links
 * and through staging memory; workers end, and say why, when calls of the runtime fail, when one of them is killed, and
 * when what one says is not true. */
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "common/log.h"
#include "common/schedule/schedule.h"
#include "tests/unit/worker/procs.h"
#include "worker/step/neighbours.h"

enum { N = 600, MICROBATCHES = 5, MAX_WORKERS = 3 }; /* N: floats of a message */
enum { FINE, DEVICE = 10, GONE = 11, CORRUPT = 12, WRONG = 13, OTHER = 14, KILLED = 256 + SIGKILL };
enum { NOBODY = -1 };
#define CALLS 300 /* of the runtime: a worker makes at least so many before its last pass ends */
#define STRIDE 13 /* calls between two that are tried: of each kind some are */

static struct {
    uint32_t n_workers;
    enum dp_schedule_kind schedule;
    uint64_t seed;
    int without;         /* worker that wants no links */
    bool is_on;          /* all links are to be */
    int fails; long fails_at; /* worker whose call of that number fails */
    int dies; uint32_t dies_at; /* worker that is killed in the second pass, at this action */
    int lies; long lies_at; /* worker whose word of that number (0: every one) names another place, ... */
    size_t lie_bytes;       /* ... which is a message of so many bytes */
} sc;

static uint32_t me;

/* ---- lies ---- */

struct dp_transport_request *__real_dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *data,
                                                      size_t bytes, struct dp_err *err);
struct dp_transport_request *__wrap_dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *data,
                                                      size_t bytes, struct dp_err *err);

/* A word's place is in byte 8, a card's number in memory, too. */
struct dp_transport_request *__wrap_dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *data,
                                                      size_t bytes, struct dp_err *err)
{
    static char lie[4096];
    static long n;

    if (sc.lies != (int)me || bytes != sc.lie_bytes || (++n != sc.lies_at && sc.lies_at))
        return __real_dp_transport_send(t, to, tag, data, bytes, err);
    memcpy(lie, data, bytes);
    lie[8]++;
    return __real_dp_transport_send(t, to, tag, lie, bytes, err);
}

/* ---- a stage that adds 1 to what passes ---- */

struct stage {
    struct dp_backend *be;
    struct dp_neighbours n;
    struct dp_inbox in, back;
    int prev, next;
    uint32_t in_flight;
    struct dp_stage_message *input[MICROBATCHES];
    float *ones, *came, *came_back; /* [device] came: copies of all messages of a pass */
    uint64_t wait_ns;
};

static float number(uint32_t pass, uint32_t mb, int i)
{
    return (float)(pass * 100000 + mb * 10000 + (uint32_t)i);
}

static int add_one(struct stage *s, void *y, const void *x, struct dp_err *err)
{
    return s->be->ops->add(s->be, &(struct dp_add){.n = N, .y = y, .a = x, .b = s->ones}, err);
}

static int keep(struct stage *s, float *where, uint32_t mb, const struct dp_stage_message *m, struct dp_err *err)
{
    return s->be->ops->copy(s->be, where + (size_t)mb * N, m->device, N * sizeof(float), err);
}

static int put_numbers(struct stage *s, void *at, uint32_t pass, uint32_t mb, struct dp_err *err)
{
    float host[N];

    for (int i = 0; i < N; i++)
        host[i] = number(pass, mb, i);
    return s->be->ops->put(s->be, at, host, sizeof host, err);
}

static int forward(struct stage *s, uint32_t pass, uint32_t mb, bool is_eval, struct dp_err *err)
{
    struct dp_stage_message *in, *out = NULL;
    uint64_t came_ns;

    if (dp_neighbours_take(&s->n, &s->in, DP_PLACE_INPUT, mb, &in, &came_ns, err) < 0 || (in && keep(s, s->came, mb, in, err) < 0))
        return -1;
    s->input[mb] = in;
    if (s->next >= 0 && !(out = dp_neighbours_room(&s->n, DP_PLACE_OUTPUT, mb, err)))
        return -1;
    if (out && (in ? add_one(s, out->device, in->device, err) : put_numbers(s, out->device, pass, mb, err)) < 0)
        return -1;
    if (is_eval && dp_neighbours_give(&s->n, in, err) < 0)
        return -1;
    return out ? dp_neighbours_send(&s->n, (uint32_t)s->next, DP_CH_ACTIVATION, mb, out, NULL, err) : 0;
}

static int backward(struct stage *s, uint32_t mb, struct dp_err *err)
{
    struct dp_stage_message *d;
    uint64_t came_ns;

    if (dp_neighbours_take(&s->n, &s->back, DP_PLACE_GRADIENT, mb, &d, &came_ns, err) < 0 ||
        (d && keep(s, s->came_back, mb, d, err) < 0))
        return -1;
    if (!d && s->prev >= 0 && !(d = dp_neighbours_room(&s->n, DP_PLACE_GRADIENT, mb, err)))
        return -1;
    if (s->input[mb] && add_one(s, d->device, s->next >= 0 ? d->device : s->input[mb]->device, err) < 0)
        return -1;
    if (dp_neighbours_give(&s->n, s->input[mb], err) < 0)
        return -1;
    if (s->prev < 0)
        return dp_neighbours_give(&s->n, d, err);
    return dp_neighbours_send(&s->n, (uint32_t)s->prev, DP_CH_GRADIENT, mb, d, NULL, err);
}

static int check_numbers(struct stage *s, const float *where, uint32_t pass, float more, struct dp_err *err)
{
    static float host[MICROBATCHES * N];

    if (s->be->ops->get(s->be, host, where, sizeof host, err) < 0)
        return -1;
    for (uint32_t mb = 0; mb < MICROBATCHES; mb++)
        for (int i = 0; i < N; i++)
            if (host[mb * N + (uint32_t)i] != number(pass, mb, i) + more)
                return dp_err_set(err, DP_EINVAL, "worker %u, pass %u, microbatch %u: %g at %d, not %g", me, pass, mb,
                                  (double)host[mb * N + (uint32_t)i], i, (double)(number(pass, mb, i) + more));
    return 0;
}

static int run_pass(struct stage *s, uint32_t pass, uint64_t epoch, bool is_eval, struct dp_err *err)
{
    struct dp_action actions[2 * MICROBATCHES];
    const float last = (float)sc.n_workers - 1;

    s->n.epoch = epoch;
    s->n.step = pass;
    s->n.index_base = is_eval ? DP_EVAL_INDEX : 0;
    s->n.wait_ns = &s->wait_ns;
    s->in = (struct dp_inbox){.from = s->prev, .channel = DP_CH_ACTIVATION, .total = MICROBATCHES};
    s->back = (struct dp_inbox){.from = is_eval ? -1 : s->next, .channel = DP_CH_GRADIENT, .total = MICROBATCHES};
    if (dp_neighbours_reserve(&s->n, s->in_flight, s->prev, s->next, err) < 0)
        return -1;
    for (int side = 0; side < DP_N_SIDES; side++)
        if (s->n.link[side].with >= 0 && s->n.link[side].is_on != sc.is_on)
            return dp_err_set(err, DP_EINVAL, "the link of worker %u to worker %d is %s: %s", me, s->n.link[side].with,
                              sc.is_on ? "off" : "on", s->n.link[side].why);
    dp_schedule_fill(sc.schedule, me, sc.n_workers, MICROBATCHES, actions);
    for (uint32_t i = 0; i < 2 * MICROBATCHES; i++) {
        if (sc.dies == (int)me && pass == 1 && i == sc.dies_at)
            raise(SIGKILL);
        if (actions[i].kind == DP_ACTION_FORWARD && forward(s, pass, actions[i].mb, is_eval, err) < 0)
            return -1;
        if (actions[i].kind == DP_ACTION_BACKWARD && !is_eval && backward(s, actions[i].mb, err) < 0)
            return -1;
    }
    if (dp_neighbours_settle(&s->n, err) < 0)
        return -1;
    if (s->prev >= 0 && check_numbers(s, s->came, pass, (float)me - 1, err) < 0)
        return -1;
    /* there and back: every stage adds 1, the first one puts, the last one adds where it turns */
    return s->next < 0 || is_eval ? 0 : check_numbers(s, s->came_back, pass, last - 1 + last - (float)me, err);
}

static int make_stage(struct stage *s, struct dp_err *err)
{
    float ones[N];

    for (int i = 0; i < N; i++)
        ones[i] = 1;
    if (s->be->ops->alloc(s->be, sizeof ones, (void **)&s->ones, err) < 0 ||
        s->be->ops->alloc(s->be, MICROBATCHES * sizeof ones, (void **)&s->came, err) < 0 ||
        s->be->ops->alloc(s->be, MICROBATCHES * sizeof ones, (void **)&s->came_back, err) < 0)
        return -1;
    return s->be->ops->put(s->be, s->ones, ones, sizeof ones, err);
}

/* Two passes and an evaluation; then other neighbours' memory, as after a hand-over, and two more. */
static int run_stage(struct stage *s, struct dp_err *err)
{
    s->prev = (int)me - 1;
    s->next = me + 1 < sc.n_workers ? (int)me + 1 : -1;
    s->in_flight = dp_schedule_in_flight(sc.schedule, me, sc.n_workers, MICROBATCHES);
    if (make_stage(s, err) < 0)
        return -1;
    for (uint32_t pass = 0; pass < 3; pass++)
        if (run_pass(s, pass, 1, pass == 1, err) < 0)
            return -1;
    if (dp_neighbours_part(&s->n, err) < 0)
        return -1;
    s->in_flight++;
    for (uint32_t pass = 3; pass < 5; pass++)
        if (run_pass(s, pass, 2, false, err) < 0)
            return -1;
    return dp_neighbours_part(&s->n, err);
}

static int end_of(int rc, const struct dp_err *err)
{
    if (rc == 0)
        return FINE;
    /* UCX says the other thing of a peer that has closed its transport and not yet ended */
    if (err->code == DP_EGONE || (err->code == DP_EIO && strstr(err->text, "Shared memory error")))
        return GONE;
    if (strstr(err->text, "cuda: ") && sc.fails == (int)me)
        return DEVICE;
    fprintf(stderr, "# worker %u: %s\n", me, err->text);
    return err->code == DP_ECORRUPT ? CORRUPT : err->code == DP_EINVAL ? WRONG : OTHER;
}

/* As in a run, workers have spoken to each other before anything else can fail. */
static int greet(struct dp_transport *t, uint32_t rank, struct dp_err *err)
{
    for (uint32_t r = 0; r < sc.n_workers; r++) {
        const uint64_t tag = dp_tag(DP_CH_COLLECTIVE, 0, 0, 0);
        struct dp_transport_request *in, *out;
        uint8_t word = 0;

        if (r == rank)
            continue;
        in = dp_transport_recv(t, r, tag, &word, 1, err);
        out = dp_transport_send(t, r, tag, &word, 1, err);
        if (!in || !out || dp_transport_wait(t, in, 0, NULL, err) < 0 || dp_transport_wait(t, out, 0, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int worker(struct dp_transport *t, uint32_t rank)
{
    struct stage s = {.prev = -1};
    struct dp_device_wait wait = {.transport = t};
    struct dp_err err = {0};
    char emu[64];
    int rc;

    me = rank;
    snprintf(emu, sizeof emu, "seed=%d fail=%ld", (int)(sc.seed + rank), sc.fails == (int)rank ? sc.fails_at : 0);
    setenv("DYNPIPE_EMU", emu, 1);
    if (greet(t, rank, &err) == 0)
        s.be = wait.be = dp_backend_create("cuda", 0, 1, &err);
    if (!s.be)
        return end_of(-1, &err);
    dp_neighbours_init(&s.n, &wait, N * sizeof(float), rank, sc.without != (int)rank);
    rc = run_stage(&s, &err);
    dp_neighbours_release(&s.n);
    dp_backend_destroy(s.be);
    return end_of(rc, &err);
}

/* ---- cases ---- */

static void begin(uint32_t n_workers)
{
    const char *build = getenv("DP_BUILDDIR");
    char path[PATH_MAX + 64], at[PATH_MAX];

    assert_non_null(realpath(build ? build : ".", at));
    snprintf(path, sizeof path, "%s/kernels/cuda/emu/libdynpipe-cuda-emu.so", at);
    assert_int_equal(setenv("DYNPIPE_CUDA_PLUGIN", path, 1), 0);
    dp_log_setup("test", DP_LOG_WARN);
    memset(&sc, 0, sizeof sc);
    sc.n_workers = n_workers;
    sc.schedule = DP_SCHED_1F1B;
    sc.without = sc.fails = sc.dies = sc.lies = NOBODY;
    sc.is_on = true;
}

static void run(const int want[MAX_WORKERS])
{
    procs_run(sc.n_workers, (procs_body_fn *[]){worker, worker, worker}, want, false);
}

static void all_fine(void)
{
    run((const int[MAX_WORKERS]){FINE, FINE, FINE});
}

static void numbers_arrive(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MAX_WORKERS; n++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            begin(n);
            sc.seed = seed;
            sc.schedule = seed % 2 ? DP_SCHED_GPIPE : DP_SCHED_1F1B;
            all_fine();
        }
}

static void staging_where_one_wants_no_link(void **state)
{
    (void)state;
    for (int without = 0; without < 6; without++) {
        begin(2);
        sc.seed = (uint64_t)without;
        sc.without = without % 2;
        sc.is_on = false;
        all_fine();
    }
}

/* The number in a card, the verdict that memory was opened: no link, and nothing else. */
static void staging_where_a_card_is_not_true(void **state)
{
    (void)state;
    begin(2);
    sc.lies = 1;
    sc.lie_bytes = 368; /* struct card of worker/step/device_link.c */
    sc.is_on = false;
    all_fine();
}

static void wrong_words(void **state)
{
    static const long at[] = {1, 2, 5};

    (void)state;
    for (int lies = 0; lies < 2; lies++)
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            begin(2);
            sc.lies = lies;
            sc.lies_at = at[i];
            sc.lie_bytes = sizeof(struct dp_link_word);
            run(lies ? (const int[MAX_WORKERS]){CORRUPT, GONE} : (const int[MAX_WORKERS]){GONE, CORRUPT});
        }
}

static void killed(void **state)
{
    (void)state;
    for (int dies = 0; dies < 3; dies++)
        for (uint32_t at = 0; at < 2 * MICROBATCHES; at += 3) {
            int want[] = {GONE, GONE, GONE};

            begin(3);
            sc.dies = dies;
            sc.dies_at = at;
            want[dies] = KILLED;
            run(want);
        }
}

/* Calls of the runtime fail in one of two workers, which says so; the other one ends, too. The calls of a run are some
 * hundreds, so that each run tries another part of them. */
static void calls_fail(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++)
        for (long at = 1 + fails; at < CALLS; at += STRIDE) {
            int want[MAX_WORKERS];

            begin(2);
            sc.seed = (uint64_t)at % 6;
            sc.fails = fails;
            sc.fails_at = at;
            want[fails] = DEVICE;
            want[!fails] = GONE;
            run(want);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_arrive), cmocka_unit_test(staging_where_one_wants_no_link),
    cmocka_unit_test(staging_where_a_card_is_not_true), cmocka_unit_test(wrong_words), cmocka_unit_test(killed),
    cmocka_unit_test(calls_fail),
};
TEST_MAIN("links between devices", tests)
