/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA backend without its operations: opening and its errors, memory, lanes, tickets, laps, errors that come late,
 * and every call of the runtime failing in turn. On the emulator, with several seeds. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/kernels/cuda_util.h"

#define SEEDS 12

/* What the driver and the card are like when opening fails, and what is said. */
static void opening(void **state)
{
    static const struct {
        struct dp_emu_settings settings;
        enum dp_errcode code;
        const char *text;
    } cases[] = {
        {{.driver = -1}, DP_ENOTSUP, "no NVIDIA driver"},
        {{.driver = 12080}, DP_ENOTSUP, "too old: it knows CUDA 12.8"},
        {{.count = -1}, DP_ENOTSUP, "sees no device"},
        {{.cc_major = 7}, DP_ENOTSUP, "capability 7.0; 8.0 or later"},
        {{.no_code = true}, DP_ENOTSUP, "has no code for device 0"},
    };
    struct dp_backend be = {.ops = &dp_backend_v1};
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err = (struct dp_err){.code = DP_OK};
        assert_null(open_emulator(&cases[i].settings, &err));
        assert_int_equal(err.code, cases[i].code);
        if (!strstr(err.text, cases[i].text))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].text);
        check_nothing_lives(cases[i].text);
    }
    dp_emu_configure(&(struct dp_emu_settings){.count = 2});
    assert_int_equal(be.ops->open(&be, -1, 1, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "no device -1"));
    /* The emulator refuses what is behind its last device: workers beyond share the first ones. */
    for (int worker = 0; worker < 5; worker++) {
        assert_int_equal(be.ops->open(&be, worker, 1, &err), 0);
        be.ops->close(&be);
    }
}

static float *new_floats(struct dp_backend *be, int64_t n, const float *from)
{
    void *p = NULL;

    DO(be, alloc, (size_t)n * sizeof(float), &p);
    if (from)
        DO(be, put, p, from, (size_t)n * sizeof(float));
    return p;
}

static void memory_case(uint64_t seed)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL);
    enum { N = 200000 }; /* more than one half of put's staging memory */
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *d, *e;
    struct dp_device_info info, later;

    assert_non_null(be);
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    d = new_floats(be, N, NULL);
    e = new_floats(be, N, x);
    DO(be, get, y, d, N * sizeof *y);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 0.0f);
    memset(x, 0xff, N * sizeof *x); /* put has read it */
    DO(be, copy, d, e, N * sizeof *y);
    DO(be, copy, d, d + 10, (N - 10) * sizeof *y); /* overlaps, forwards and ... */
    DO(be, copy, d + 20, d, (N - 20) * sizeof *y);
    DO(be, zero, d, 7 * sizeof *y);
    DO(be, zero, d, 0);
    DO(be, get, y, d, N * sizeof *y);
    for (int i = 0; i < N; i++) {
        int was = i < 20 ? i + 10 : i - 10;

        assert_true(y[i] == (i < 7 ? 0.0f : (float)was));
    }
    DO(be, info, &info);
    assert_string_equal(info.name, "emulator");
    be->ops->free(be, d);
    be->ops->free(be, NULL);
    DO(be, sync);
    DO(be, info, &later);
    assert_true(later.free_bytes >= info.free_bytes + N * sizeof *y && later.total_bytes == info.total_bytes);
    close_emulator(be); /* with e */
    check_nothing_lives("memory");
    free(x);
    free(y);
}

static void memory(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        memory_case(seed);
}

static void no_memory(void **state)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.memory = 1 << 20}, NULL);
    struct dp_err err;
    void *p, *q;

    (void)state;
    assert_int_equal(be->ops->alloc(be, SIZE_MAX - 5, &p, &err), -1);
    assert_int_equal(err.code, DP_ENOMEM);
    assert_non_null(strstr(err.text, "1048576 are free"));
    DO(be, alloc, 700 << 10, &p);
    assert_int_equal(be->ops->alloc(be, 700 << 10, &q, &err), -1);
    assert_int_equal(err.code, DP_ENOMEM);
    be->ops->free(be, p); /* not freed at once, but for whoever needs it */
    DO(be, alloc, 700 << 10, &q);
    assert_int_equal(be->ops->alloc_staging(be, SIZE_MAX / 2, &p, &err), -1);
    assert_int_equal(err.code, DP_ENOMEM);
    close_emulator(be);
    check_nothing_lives("no memory");
}

/* A double buffer between three lanes: in, add, out. */
static void lanes_case(uint64_t seed)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL);
    enum { N = 3000, ROUNDS = 6 };
    float *in[2], *out[2], *d[2], *r[2];
    dp_ticket came[2] = {0}, added[2] = {0}, gone[2] = {0};

    assert_non_null(be);
    for (int k = 0; k < 2; k++) {
        DO(be, alloc_staging, N * sizeof(float), (void **)&in[k]);
        DO(be, alloc_staging, N * sizeof(float), (void **)&out[k]);
        assert_true((uintptr_t)in[k] % 64 == 0);
        d[k] = new_floats(be, N, NULL);
        r[k] = new_floats(be, N, NULL);
    }
    for (int round = 0; round < ROUNDS + 2; round++) {
        int k = round % 2;

        if (round >= 2) {
            DO(be, await, gone[k], UINT64_MAX);
            for (int i = 0; i < N; i++)
                assert_true(out[k][i] == 2.0f * (float)(i + round - 2));
        }
        if (round >= ROUNDS)
            continue;
        DO(be, await, came[k], UINT64_MAX);
        for (int i = 0; i < N; i++)
            in[k][i] = (float)(i + round);
        DO(be, after, DP_LANE_IN, added[k]);
        DO(be, move, DP_LANE_IN, d[k], in[k], N * sizeof(float));
        DO(be, mark, DP_LANE_IN, &came[k]);
        DO(be, after, DP_LANE_COMPUTE, came[k]);
        DO(be, after, DP_LANE_COMPUTE, gone[k]);
        DO(be, add, &(struct dp_add){.n = N, .y = r[k], .a = d[k], .b = d[k]});
        DO(be, mark, DP_LANE_COMPUTE, &added[k]);
        DO(be, after, DP_LANE_OUT, added[k]);
        DO(be, move, DP_LANE_OUT, out[k], r[k], N * sizeof(float));
        DO(be, mark, DP_LANE_OUT, &gone[k]);
    }
    be->ops->free_staging(be, in[0]);
    close_emulator(be);
    check_nothing_lives("lanes");
}

static void lanes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        lanes_case(seed);
}

static void tickets(void **state)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL); /* late */
    enum { N = 100 };
    dp_ticket t[N];
    struct dp_err err;
    float *d = new_floats(be, N, NULL);
    int rc = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        DO(be, add, &(struct dp_add){.n = N, .y = d, .a = d, .b = d});
        DO(be, mark, DP_LANE_COMPUTE, &t[i]);
        assert_true(t[i] != 0);
    }
    assert_int_equal(be->ops->reached(be, 0, &err), 1);
    assert_int_equal(be->ops->await(be, t[N - 1], 0, &err), 0);
    assert_int_equal(be->ops->await(be, t[N / 2], UINT64_MAX, &err), 1);
    assert_int_equal(be->ops->reached(be, t[0], &err), 1);
    for (int i = 0; rc == 0 && i < 100000; i++)
        rc = be->ops->reached(be, t[N - 1], &err);
    assert_int_equal(rc, 1);
    assert_int_equal(be->ops->reached(be, t[N - 1] + 4, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_int_equal(be->ops->await(be, 3, 0, &err), -1);
    assert_int_equal(be->ops->after(be, DP_LANE_IN, 7, &err), -1);
    assert_int_equal(be->ops->mark(be, (enum dp_lane)3, &t[0], &err), -1);
    assert_int_equal(be->ops->move(be, (enum dp_lane)-1, d, d, 4, &err), -1);
    assert_int_equal(be->ops->add(be, &(struct dp_add){.n = -1}, &err), -1);
    assert_string_equal(err.text, "cuda: add: -1 elements");
    DO(be, sync); /* none of that was its end */
    close_emulator(be);
    check_nothing_lives("tickets");
}

/* Tickets that nobody asks for do not pile up. */
static void forgotten_tickets(void **state)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = 0}, NULL); /* at once */
    float *d = new_floats(be, 100, NULL), *e = new_floats(be, 100, NULL);

    (void)state;
    for (int i = 0; i < 5000; i++) {
        dp_ticket t;

        DO(be, move, DP_LANE_IN, e, d, 100 * sizeof(float));
        DO(be, mark, DP_LANE_IN, &t);
        DO(be, after, DP_LANE_COMPUTE, t);
        DO(be, mark, DP_LANE_COMPUTE, &t);
        DO(be, after, DP_LANE_IN, t);
    }
    if (dp_emu_count().events > 100)
        fail_msg("%ld events", dp_emu_count().events);
    close_emulator(be);
    check_nothing_lives("forgotten tickets");
}

static void laps(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL);
        uint64_t add_ns = 0, other_ns = 0, before = be->ops->time_ns(be);
        float *d = new_floats(be, 5000, NULL);

        DO(be, laps_collect);
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < 50; i++) {
                DO(be, lap, i ? &other_ns : NULL);
                DO(be, add, &(struct dp_add){.n = 5000, .y = d, .a = d, .b = d});
                DO(be, lap, &add_ns);
            }
            DO(be, laps_collect);
        }
        assert_true(add_ns > 0 && add_ns > other_ns && add_ns < be->ops->time_ns(be) - before);
        close_emulator(be);
    }
    check_nothing_lives("laps");
}

static void sums(void **state)
{
    const double x[] = {1e16, 1.0, 1.0, -1e16, 0.5};
    double got, *many = malloc(1000 * sizeof *many), want = 0.0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        many[i] = 1.0 / (i + 1);
        want += many[i];
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL);
        double *d, *sum;

        DO(be, alloc, 1000 * sizeof *d, (void **)&d);
        DO(be, alloc, sizeof *sum, (void **)&sum);
        DO(be, put, d, x, sizeof x);
        DO(be, sum, &(struct dp_sum){.n = 5, .sum = sum, .x = d});
        DO(be, get, &got, sum, sizeof got);
        assert_true(got == 0.5);
        DO(be, sum, &(struct dp_sum){.n = 2, .sum = sum, .x = d + 1, .add_to_sum = true});
        DO(be, get, &got, sum, sizeof got);
        assert_true(got == 2.5);
        DO(be, put, d, many, 1000 * sizeof *many);
        DO(be, sum, &(struct dp_sum){.n = 1000, .sum = sum, .x = d});
        DO(be, get, &got, sum, sizeof got);
        assert_true(got == want);
        DO(be, sum, &(struct dp_sum){.n = 0, .sum = sum, .x = d});
        DO(be, get, &got, sum, sizeof got);
        assert_true(got == 0.0);
        close_emulator(be);
    }
    free(many);
}

/* An array that is too short: the kernel runs over its end, sooner or later somebody is told, and from then on
 * everybody. */
static void late_errors(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = seed}, NULL);
        float *d = new_floats(be, 100, NULL), *e = new_floats(be, 200, NULL);
        struct dp_err err = {.code = DP_OK}, again;
        dp_ticket t;
        void *staging;

        DO(be, alloc_staging, 100, &staging);
        if (be->ops->add(be, &(struct dp_add){.n = 101, .y = e, .a = d, .b = e}, &err) == 0)
            assert_int_equal(be->ops->sync(be, &err), -1);
        assert_int_equal(err.code, DP_EIO);
        if (!strstr(err.text, "cuda: add: kernel add_kernel") || !strstr(err.text, "400"))
            fail_msg("seed %d: %s", (int)seed, err.text);
        assert_int_equal(be->ops->add(be, &(struct dp_add){.n = 1, .y = e, .a = e, .b = e}, &again), -1);
        assert_string_equal(again.text, err.text);
        assert_int_equal(be->ops->mark(be, DP_LANE_OUT, &t, &again), -1);
        assert_string_equal(again.text, err.text);
        assert_int_equal(be->ops->get(be, &t, e, 8, &again), -1);
        assert_string_equal(again.text, err.text);
        be->ops->free(be, d);
        be->ops->free_staging(be, staging);
        close_emulator(be);
        check_nothing_lives("late errors");
    }
}

/* Several operations were under way: each of them is named. */
static void late_error_of_several(void **state)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL);
    float *d = new_floats(be, 100, NULL);
    struct dp_err err;

    (void)state;
    DO(be, add, &(struct dp_add){.n = 101, .y = d, .a = d, .b = d});
    DO(be, zero, d, 4);
    DO(be, add, &(struct dp_add){.n = 10, .y = d, .a = d, .b = d});
    assert_int_equal(be->ops->sync(be, &err), -1);
    assert_non_null(strstr(err.text, "cuda: add or zero: "));
    assert_non_null(strstr(err.text, "CUDA_LAUNCH_BLOCKING"));
    close_emulator(be);
    /* twice the same one: there is nothing to tell apart */
    be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL);
    d = new_floats(be, 100, NULL);
    DO(be, add, &(struct dp_add){.n = 101, .y = d, .a = d, .b = d});
    DO(be, add, &(struct dp_add){.n = 10, .y = d, .a = d, .b = d});
    assert_int_equal(be->ops->sync(be, &err), -1);
    assert_non_null(strstr(err.text, "cuda: add: kernel add_kernel"));
    assert_null(strstr(err.text, "CUDA_LAUNCH_BLOCKING"));
    close_emulator(be);
}

/* A sparse matrix, w and what it makes in d (64 floats): a plan that is not made leaves nothing. returns: 0, -1 and err. */
static int sparse_calls(struct dp_backend *be, float *d, struct dp_err *err)
{
    const struct dp_backend_ops *ops = be->ops;
    int64_t row_ptr[3] = {0, 1, 3};
    uint16_t col[3] = {2, 0, 1};
    struct dp_sparse sp = {.rows = 2, .cols = 5, .nnz = 3, .row_ptr = row_ptr, .col = col};
    int rc = ops->sparse_prepare(be, &sp, err);

    if ((rc == 0) != (sp.plan != NULL) || (rc == 0) != (ops->sparse_bytes(be, &sp) > 0))
        fail_msg("sparse_prepare returned %d and made %zu bytes", rc, ops->sparse_bytes(be, &sp));
    if (rc == 0)
        rc = ops->sparse_refresh(be, &sp, d, err) < 0 ||
                     ops->linear(be, &(struct dp_linear){.n = 1, .c_in = 5, .c_out = 2, .y = d + 8, .x = d, .w = d, .sparse = &sp},
                                 err) < 0 ||
                     ops->linear_bwd_weight(be, &(struct dp_linear_bwd_weight){.n = 1, .c_in = 5, .c_out = 2, .dw = d + 16,
                                                                              .dbias = d + 24, .dy = d, .x = d, .sparse = &sp},
                                            err) < 0 ||
                     ops->gather(be, &(struct dp_gather){.n_arrays = 1, .y = {d + 32}, .x = {d}, .to = &sp}, err) < 0
                 ? -1
                 : 0;
    ops->sparse_release(be, &sp);
    return rc;
}

/* Everything that the backend does, some of it, until something fails. returns: 0, -1 and err. */
static int all_calls(struct dp_backend *be, struct dp_err *err)
{
    const struct dp_backend_ops *ops = be->ops;
    float host[64] = {1.0f}, *d = NULL, *e = NULL, *staging = NULL;
    struct dp_device_info info;
    uint64_t ns = 0;
    dp_ticket t, u;

    if (ops->alloc(be, sizeof host, (void **)&d, err) < 0 || ops->alloc(be, sizeof host, (void **)&e, err) < 0 ||
        ops->alloc_staging(be, sizeof host, (void **)&staging, err) < 0)
        return -1;
    memset(staging, 0, sizeof host);
    if (ops->put(be, d, host, sizeof host, err) < 0 || ops->lap(be, NULL, err) < 0 ||
        ops->add(be, &(struct dp_add){.n = 64, .y = e, .a = d, .b = d}, err) < 0 || ops->lap(be, &ns, err) < 0 ||
        ops->copy(be, d, d + 8, 100, err) < 0 || ops->zero(be, d, 16, err) < 0 ||
        ops->mark(be, DP_LANE_COMPUTE, &t, err) < 0 || ops->after(be, DP_LANE_OUT, t, err) < 0 ||
        ops->move(be, DP_LANE_OUT, staging, e, sizeof host, err) < 0 || ops->mark(be, DP_LANE_OUT, &u, err) < 0 ||
        ops->reached(be, t, err) < 0 || ops->await(be, u, UINT64_MAX, err) < 0 ||
        ops->await(be, t, 1000000000, err) < 0 || ops->laps_collect(be, err) < 0 ||
        ops->get(be, host, e, sizeof host, err) < 0)
        return -1;
    if (host[0] != 2.0f || staging[0] != 2.0f)
        return dp_err_set(err, DP_ECORRUPT, "wrong result");
    if (ops->zero(be, d, sizeof host, err) < 0 || sparse_calls(be, d, err) < 0)
        return -1;
    ops->free(be, d);
    ops->free_staging(be, staging);
    return ops->info(be, &info, err) < 0 || ops->sync(be, err) < 0 ? -1 : 0;
}

/* The n-th call of the runtime fails, and, with `on`, every later one. returns: false when there are fewer calls. */
static bool fail_one(long n, bool on, uint64_t seed)
{
    struct dp_err err = {.code = DP_OK};
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = seed, .fail = n, .fail_on = on}, &err);
    int rc = be ? all_calls(be, &err) : -1;

    if (rc < 0 && (err.code == DP_OK || err.code == DP_ECORRUPT || strlen(err.text) < 10))
        fail_msg("call %ld failed, and what is said is %d \"%s\"", n, (int)err.code, err.text);
    if (rc < 0 && strncmp(err.text, "cuda: ", 6))
        fail_msg("call %ld failed: \"%s\" does not begin with the backend's name", n, err.text);
    close_emulator(be);
    check_nothing_lives("after a failure");
    return dp_emu_count().calls >= n;
}

static void every_call_fails(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++)
        for (int on = 0; on < 2; on++) {
            long n = 1;

            while (fail_one(n, on, seed))
                n++;
            if (n < 60)
                fail_msg("only %ld calls were made", n);
        }
}

/* The host's accesses to memory that it must not touch now end it, with a word why. */
static void killed(void (*access)(struct dp_backend *be), const char *want)
{
    int ends[2], status;
    char text[200] = "";
    pid_t pid;
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct dp_backend *be;

        signal(SIGSEGV, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL);
        access(be);
        _exit(0);
    }
    close(ends[1]);
    n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV || !strstr(text, want))
        fail_msg("status %x, \"%s\"; wanted \"%s\"", (unsigned)status, text, want);
}

enum { PAGES = 4 * 65536 };

static void read_device(struct dp_backend *be)
{
    volatile float *d = new_floats(be, 10, NULL);

    (void)d[0];
}

static void read_too_early(struct dp_backend *be)
{
    float *d = new_floats(be, PAGES / 4, NULL);
    volatile float *s;

    DO(be, alloc_staging, PAGES, (void **)&s);
    DO(be, move, DP_LANE_OUT, (void *)(uintptr_t)s, d, PAGES);
    (void)s[0];
}

static void write_too_early(struct dp_backend *be)
{
    float *d = new_floats(be, PAGES / 4, NULL);
    volatile float *s;

    DO(be, alloc_staging, PAGES, (void **)&s);
    s[0] = 1.0f;
    DO(be, move, DP_LANE_IN, d, (const void *)(uintptr_t)s, PAGES);
    (void)s[0]; /* reading is fine */
    s[0] = 2.0f;
}

static void forbidden_accesses(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__ /* its own handler ends the process before ours speaks */
    return;
#endif
    killed(read_device, "touches device memory");
    killed(read_too_early, "staging memory that a copy uses");
    killed(write_too_early, "staging memory that a copy uses");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(opening),       cmocka_unit_test(memory),
    cmocka_unit_test(no_memory),     cmocka_unit_test(lanes),
    cmocka_unit_test(tickets),       cmocka_unit_test(forgotten_tickets), cmocka_unit_test(laps),
    cmocka_unit_test(sums),          cmocka_unit_test(late_errors),
    cmocka_unit_test(late_error_of_several), cmocka_unit_test(every_call_fails),
    cmocka_unit_test(forbidden_accesses),
};
TEST_MAIN("CUDA backend", tests)
