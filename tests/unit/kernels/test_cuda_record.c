/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of the computing lane that the CUDA backend records and replays (kernels/cuda/record.h), on the emulator, with
 * several seeds: the same results as without, one call of the runtime in place of many, and whatever is different is told
 * call by call. Every call of the runtime fails in turn. And the emulator's captures forbid what CUDA's forbid. */
#include "kernels/cuda/api.h"
#include "tests/unit/kernels/cuda_util.h"

#define SEEDS 6
#define N 300 /* floats */

struct subject {
    struct dp_backend *be;
    float *a, *b, *c, *d;
    double *squares;
    uint64_t lap_ns[4]; /* of the segment's laps */
};

static int new_floats(struct dp_backend *be, float **out, float first, struct dp_err *err)
{
    float host[N];
    void *p = NULL;

    if (be->ops->alloc(be, sizeof host, &p, err) < 0)
        return -1;
    for (int i = 0; i < N; i++)
        host[i] = first + (float)i;
    *out = p;
    return be->ops->put(be, p, host, sizeof host, err);
}

static int begin(struct subject *s, struct dp_err *err)
{
    void *p = NULL;

    if (new_floats(s->be, &s->a, 0, err) < 0 || new_floats(s->be, &s->b, 1, err) < 0 || new_floats(s->be, &s->c, 2, err) < 0 ||
        new_floats(s->be, &s->d, 3, err) < 0 || s->be->ops->alloc(s->be, sizeof *s->squares, &p, err) < 0)
        return -1;
    s->squares = p;
    return 0;
}

static void end(struct subject *s)
{
    s->be->ops->free(s->be, s->a);
    s->be->ops->free(s->be, s->b);
    s->be->ops->free(s->be, s->c);
    s->be->ops->free(s->be, s->d);
    s->be->ops->free(s->be, s->squares);
}

static int add(struct subject *s, float *y, const float *a, const float *b, struct dp_err *err)
{
    return s->be->ops->add(s->be, &(struct dp_add){.n = N, .y = y, .a = a, .b = b}, err);
}

/* a += b; c = a; c += d; d = 0; a block of ones and zeroes of padding: b's squares; with two laps. */
static int tell(struct subject *s, const float *from, struct dp_err *err)
{
    const struct dp_sum_squares squares = {.n = N, .x = s->b, .sum = s->squares};

    if (add(s, s->a, s->a, s->b, err) < 0 || s->be->ops->copy(s->be, s->c, from, N * sizeof *from, err) < 0 ||
        s->be->ops->lap(s->be, &s->lap_ns[0], err) < 0 || add(s, s->c, s->c, s->d, err) < 0 ||
        s->be->ops->zero(s->be, s->d, 8 * sizeof *s->d, err) < 0)
        return -1;
    return s->be->ops->sum_squares(s->be, &squares, err) < 0 || s->be->ops->lap(s->be, &s->lap_ns[1], err) < 0 ? -1 : 0;
}

static int segment(struct subject *s, uint32_t key, const float *from, struct dp_err *err)
{
    if (s->be->ops->segment_begin(s->be, key, err) < 0 || tell(s, from, err) < 0)
        return -1;
    return s->be->ops->segment_end(s->be, err);
}

/* As in a step: the last lap, whose event takes the first one's place, belongs to no segment. */
static int step(struct subject *s, uint32_t key, const float *from, struct dp_err *err)
{
    if (segment(s, key, from, err) < 0 || s->be->ops->lap(s->be, NULL, err) < 0)
        return -1;
    return s->be->ops->laps_collect(s->be, err);
}

#define MUST(call)                       \
    do {                                 \
        struct dp_err err = {0};         \
        if ((call) < 0)                  \
            fail_msg("%s", err.text);    \
    } while (0)

/* All that the arrays hold. */
static void results(struct subject *s, float out[4 * N + 1])
{
    double squares;

    DO(s->be, get, out, s->a, N * sizeof *out);
    DO(s->be, get, out + N, s->b, N * sizeof *out);
    DO(s->be, get, out + 2 * N, s->c, N * sizeof *out);
    DO(s->be, get, out + 3 * N, s->d, N * sizeof *out);
    DO(s->be, get, &squares, s->squares, sizeof squares);
    out[4 * N] = (float)squares;
}

/* Eight rounds, of which the fifth is another one; returns what the arrays hold then. */
static void rounds(uint64_t seed, bool is_recorded, float out[4 * N + 1], long calls[8])
{
    struct subject s = {.be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL)};
    long replays = dp_emu_count().replays;

    assert_non_null(s.be);
    MUST(begin(&s, &err));
    DO(s.be, lap, NULL);
    for (int i = 0; i < 8; i++) {
        const float *from = i == 4 ? s.b : s.a;
        long before = dp_emu_count().calls;

        if (is_recorded)
            MUST(segment(&s, 7, from, &err));
        else
            MUST(tell(&s, from, &err));
        calls[i] = dp_emu_count().calls - before;
        DO(s.be, lap, NULL);
        DO(s.be, laps_collect);
    }
    results(&s, out);
    assert_true(s.lap_ns[0] > 0 && s.lap_ns[1] > 0);
    /* rounds 0, 4 and 5 are told call by call and noted, 1 and 6 make a graph, and launch it as 2, 3 and 7 do */
    assert_int_equal(dp_emu_count().replays - replays, is_recorded ? 5 : 0);
    end(&s);
    close_emulator(s.be);
    check_nothing_lives("rounds");
}

static void replayed(void **state)
{
    static float want[4 * N + 1], got[4 * N + 1];
    long plain[8], recorded[8];

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rounds(seed, false, want, plain);
        rounds(seed, true, got, recorded);
        assert_memory_equal(got, want, sizeof got);
        assert_int_equal(recorded[2], 1);
        assert_int_equal(recorded[3], 1);
        assert_int_equal(recorded[7], 1);
        assert_int_equal(recorded[4], plain[4] + 1); /* the graph of what it was goes */
    }
    printf("# %ld calls of the runtime become %ld\n", plain[3], recorded[3]);
}

/* What is held back comes before whatever else is asked of the lane, and other lanes' work where it was asked for. */
static void others_come_between(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct subject s = {.be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL)};
        float *host, x[2];
        void *staging = NULL;
        dp_ticket t, in;

        MUST(begin(&s, &err));
        DO(s.be, alloc_staging, N * sizeof *host, &staging);
        host = staging;
        for (int round = 1; round <= 4; round++) {
            DO(s.be, segment_begin, 1);
            MUST(add(&s, s.a, s.a, s.b, &err));
            MUST(add(&s, s.a, s.a, s.b, &err));
            DO(s.be, get, x, s.a, sizeof x);
            assert_true(x[0] == (float)(4 * round - 2) && x[1] == (float)(8 * round - 4 + 1));
            MUST(add(&s, s.a, s.a, s.b, &err));
            MUST(add(&s, s.a, s.a, s.b, &err));
            DO(s.be, mark, DP_LANE_COMPUTE, &t);
            DO(s.be, after, DP_LANE_OUT, t);
            DO(s.be, move, DP_LANE_OUT, host, s.a, N * sizeof *host);
            DO(s.be, mark, DP_LANE_OUT, &t);
            MUST(add(&s, s.c, s.a, s.b, &err)); /* only reads a */
            for (int i = 0; i < 4; i++)
                MUST(add(&s, s.d, s.c, s.b, &err));
            assert_int_equal(s.be->ops->await(s.be, t, UINT64_MAX, NULL), 1);
            assert_true(host[0] == (float)(4 * round) && host[1] == (float)(8 * round + 1));
            host[0] = (float)round;
            DO(s.be, mark, DP_LANE_COMPUTE, &t);
            DO(s.be, after, DP_LANE_IN, t);
            DO(s.be, move, DP_LANE_IN, s.c, host, sizeof *host);
            DO(s.be, mark, DP_LANE_IN, &in);
            DO(s.be, after, DP_LANE_COMPUTE, in);
            DO(s.be, segment_end);
            assert_int_equal(s.be->ops->await(s.be, in, UINT64_MAX, NULL), 1);
        }
        s.be->ops->free_staging(s.be, staging);
        end(&s);
        close_emulator(s.be);
        check_nothing_lives("others");
    }
}

/* Arguments that are no longer what they were, memory that moved, a key for something else, and more keys than are known. */
static void whatever_differs_is_told(void **state)
{
    struct subject s = {.be = open_emulator(&(struct dp_emu_settings){.seed = 2}, NULL)};
    long before;
    float x;

    (void)state;
    MUST(begin(&s, &err));
    DO(s.be, lap, NULL);
    for (int i = 0; i < 3; i++)
        MUST(step(&s, 0, s.a, &err));
    DO(s.be, sync);
    s.be->ops->free(s.be, s.a); /* another one, at another address or at the same */
    MUST(new_floats(s.be, &s.a, 100, &err));
    for (int i = 0; i < 3; i++)
        MUST(step(&s, 0, s.a, &err));
    DO(s.be, get, &x, s.a, sizeof x);
    assert_true(x == 103.0f);
    for (uint32_t key = 0; key < 1000; key++)
        for (int i = 0; i < 2; i++)
            MUST(step(&s, key, s.a, &err));
    assert_int_equal(dp_emu_count().graphs, 512); /* no more than that, whatever is asked */
    before = dp_emu_count().calls;
    MUST(step(&s, 999, s.a, &err));
    assert_true(dp_emu_count().calls - before > 5);
    end(&s);
    close_emulator(s.be);
    check_nothing_lives("differs");
}

/* A few calls are not worth a graph; a segment that was left open ends where the next one begins. */
static void ends_of_segments(void **state)
{
    struct subject s = {.be = open_emulator(&(struct dp_emu_settings){.seed = 3}, NULL)};
    long replays = dp_emu_count().replays;
    float x;

    (void)state;
    MUST(begin(&s, &err));
    for (int i = 0; i < 4; i++) {
        DO(s.be, segment_begin, 1);
        MUST(add(&s, s.a, s.a, s.b, &err));
        DO(s.be, segment_begin, 2);
        DO(s.be, segment_end);
        DO(s.be, segment_end);
    }
    DO(s.be, get, &x, s.a, sizeof x);
    assert_true(x == 4.0f);
    assert_int_equal(dp_emu_count().replays, replays);
    end(&s);
    close_emulator(s.be);
    check_nothing_lives("ends");
}

/* No memory for a graph: calls, one by one. And graphs go where memory is needed for something else. */
static void without_memory(void **state)
{
    struct subject s = {.be = open_emulator(&(struct dp_emu_settings){.seed = 1, .memory = 2 << 20}, NULL)};
    long replays = dp_emu_count().replays;
    struct dp_err no_memory = {0};
    void *p = NULL;
    float x;

    (void)state;
    MUST(begin(&s, &err));
    DO(s.be, lap, NULL);
    MUST(step(&s, 0, s.a, &err));
    MUST(step(&s, 0, s.a, &err));
    assert_int_equal(dp_emu_count().replays, ++replays);
    assert_int_equal(s.be->ops->alloc(s.be, 4 << 20, &p, &no_memory), -1);
    assert_int_equal(no_memory.code, DP_ENOMEM);
    assert_int_equal(dp_emu_count().graphs, 0);
    MUST(step(&s, 0, s.a, &err)); /* made again */
    assert_int_equal(dp_emu_count().replays, ++replays);
    DO(s.be, get, &x, s.a, sizeof x);
    assert_true(x == 3.0f);
    MUST(step(&s, 1, s.a, &err));
    dp_emu_configure(&(struct dp_emu_settings){.seed = 1, .fail = 11}); /* its beginning, 8 calls, its end; then this one */
    MUST(step(&s, 1, s.a, &err));
    assert_int_equal(dp_emu_count().replays, replays);
    MUST(step(&s, 1, s.a, &err));
    assert_int_equal(dp_emu_count().replays, replays);
    DO(s.be, get, &x, s.a, sizeof x);
    assert_true(x == 6.0f);
    end(&s);
    close_emulator(s.be);
    check_nothing_lives("memory");
}

static int some_of_it(struct subject *s, struct dp_err *err)
{
    double squares;

    if (begin(s, err) < 0 || s->be->ops->lap(s->be, NULL, err) < 0)
        return -1;
    for (int i = 0; i < 4; i++)
        if (step(s, 3, i == 2 ? s->b : s->a, err) < 0)
            return -1;
    for (int i = 0; i < 3; i++)
        if (step(s, 4, s->a, err) < 0)
            return -1;
    return s->be->ops->get(s->be, &squares, s->squares, sizeof squares, err);
}

static void every_call_fails(void **state)
{
    long n = 0, survived = 0;
    bool is_over = false;

    (void)state;
    while (!is_over) {
        struct dp_err err = {0};
        struct dp_emu_settings failing = {.seed = (uint64_t)n % 3, .fail = n + 1};
        struct subject s = {.be = open_emulator(&failing, &err)};
        int rc = s.be ? some_of_it(&s, &err) : -1;

        n++;
        is_over = rc == 0 && dp_emu_count().calls < n;
        survived += rc == 0 && !is_over;
        if (rc < 0 && strncmp(err.text, "cuda: ", 6))
            fail_msg("call %ld failed: \"%s\"", n, err.text);
        close_emulator(s.be);
        check_nothing_lives("a failure");
    }
    printf("# %ld calls, %ld of which no graph was made for\n", n - 1, survived);
    assert_true(n > 60);
}

/* What a capture forbids makes it worthless; what it took was not done. */
static void captures(void **state)
{
    const struct dp_cuda_api *api = &dp_cuda_api;
    cudaStream_t s, other;
    cudaEvent_t e, outside;
    cudaGraph_t g;
    cudaGraphExec_t x;
    float *d, *p, host = 0;

    (void)state;
    dp_emu_configure(&(struct dp_emu_settings){.seed = 1});
    assert_int_equal(api->StreamCreateWithFlags(&s, cudaStreamNonBlocking), 0);
    assert_int_equal(api->StreamCreateWithFlags(&other, cudaStreamNonBlocking), 0);
    assert_int_equal(api->EventCreateWithFlags(&e, 0), 0);
    assert_int_equal(api->EventCreateWithFlags(&outside, 0), 0);
    assert_int_equal(api->Malloc((void **)&d, sizeof *d), 0);
    assert_int_equal(api->MemsetAsync(d, 0, sizeof *d, s), 0);
    assert_int_equal(api->EventRecord(outside, other), 0);
    assert_int_equal(api->EventRecordWithFlags(e, s, cudaEventRecordExternal), cudaErrorInvalidValue);
    assert_int_equal(api->StreamEndCapture(s, &g), cudaErrorIllegalState);
    for (int i = 0; i < 7; i++) {
        cudaError_t want = cudaErrorStreamCaptureUnsupported, rc = cudaSuccess;

        assert_int_equal(api->StreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), 0);
        if (i == 0)
            rc = api->Malloc((void **)&p, 64);
        else if (i == 1)
            rc = api->Free(d);
        else if (i == 2)
            rc = api->StreamSynchronize(other);
        else if (i == 3)
            rc = api->EventQuery(outside);
        else if (i == 4)
            rc = api->EventSynchronize(outside);
        else if (i == 5)
            rc = api->MemcpyAsync(d, &host, sizeof host, cudaMemcpyHostToDevice, s);
        else if (i == 6)
            rc = api->StreamWaitEvent(s, outside, 0), want = cudaErrorStreamCaptureIsolation;
        assert_int_equal(rc, want);
        assert_int_equal(api->StreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
        assert_null(g);
    }
    assert_int_equal(api->StreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), 0);
    assert_int_equal(api->StreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
    assert_int_equal(api->MemsetAsync(d, 1, sizeof *d, s), 0);
    assert_int_equal(api->EventRecordWithFlags(e, s, cudaEventRecordExternal), 0);
    assert_int_equal(api->EventRecord(outside, s), 0);
    assert_int_equal(api->StreamEndCapture(s, &g), 0);
    assert_int_equal(api->EventQuery(outside), cudaErrorCapturedEvent);
    assert_int_equal(api->GraphInstantiate(&x, g, 0), 0);
    assert_int_equal(api->GraphDestroy(g), 0);
    assert_int_equal(api->MemcpyAsync(&host, d, sizeof host, cudaMemcpyDeviceToHost, s), 0);
    assert_true(host == 0.0f);
    assert_int_equal(api->GraphLaunch(x, s), 0);
    assert_int_equal(api->EventSynchronize(e), 0);
    assert_int_equal(api->MemcpyAsync(&host, d, sizeof host, cudaMemcpyDeviceToHost, s), 0);
    assert_true(host != 0.0f);
    assert_int_equal(api->GraphExecDestroy(x), 0);
    assert_int_equal(api->EventDestroy(e), 0);
    assert_int_equal(api->EventDestroy(outside), 0);
    assert_int_equal(api->StreamSynchronize(s), 0);
    assert_int_equal(api->Free(d), 0);
    assert_int_equal(api->StreamDestroy(s), 0);
    assert_int_equal(api->StreamDestroy(other), 0);
    check_nothing_lives("captures");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(replayed),         cmocka_unit_test(others_come_between), cmocka_unit_test(whatever_differs_is_told),
    cmocka_unit_test(ends_of_segments), cmocka_unit_test(without_memory),      cmocka_unit_test(every_call_fails),
    cmocka_unit_test(captures),
};
TEST_MAIN("CUDA segments", tests)
