/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of two processes on the emulator: one shows it, the other one writes there from its device, and they tell each
 * other what is done. Then the same with a fault in it, with every call of the runtime failing in turn, and with memory that
 * cannot be opened. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/api.h"
#include "tests/unit/kernels/cuda_util.h"

#define SEEDS 6
enum { N = 2000, ROUNDS = 4, AREA = 1 << 16 }; /* floats; AREA: bytes of two places */

/* What is wrong in a case. */
enum fault { NONE, TOLD_EARLY, FREED_EARLY, NOT_WAITED, FREED_OPEN };
/* How a process ends: FEWER: the call that was to fail never came; LEFT: the other one has ended. */
enum { FINE, WRONG = 3, FAILED = 4, LEFT = 5, BAD_ERROR = 6, FEWER = 7 };

static struct {
    enum fault fault;
    struct dp_emu_settings settings[2];
} sc;

static int line; /* to the other process */

static void tell(char what)
{
    if (write(line, &what, 1) != 1)
        _exit(LEFT);
}

static void hear(char want)
{
    char got = 0;

    if (read(line, &got, 1) != 1 || got != want)
        _exit(LEFT);
}

static float value(int round, int i)
{
    return (float)(i + 10 * round);
}

/* The place of a round. */
static float *place_of(void *area, int round)
{
    return (float *)area + round % 2 * (AREA / 8);
}

/* Writes from its device into what the other one shows. returns: 0, -1 and err. */
static int writer(struct dp_backend *be, struct dp_err *err)
{
    const struct dp_backend_ops *ops = be->ops;
    struct dp_link_card card;
    float host[N], *src[2];
    dp_ticket copied[2] = {0};
    void *area;

    if (read(line, &card, sizeof card) != sizeof card)
        _exit(LEFT);
    for (int k = 0; k < 2; k++)
        if (ops->alloc(be, sizeof host, (void **)&src[k], err) < 0)
            return -1;
    if (ops->link->open(be, &card, &area, err) < 0)
        return -1;
    for (int round = 0; round < ROUNDS; round++) {
        float *from = src[round % 2];
        dp_ticket t;

        for (int i = 0; i < N; i++)
            host[i] = value(round, i);
        if (round >= 2 && sc.fault != NOT_WAITED)
            hear('f');
        if (ops->after(be, DP_LANE_COMPUTE, copied[round % 2], err) < 0 || ops->put(be, from, host, sizeof host, err) < 0 ||
            ops->mark(be, DP_LANE_COMPUTE, &t, err) < 0 || ops->after(be, DP_LANE_OUT, t, err) < 0 ||
            ops->move(be, DP_LANE_OUT, place_of(area, round), from, sizeof host, err) < 0 ||
            ops->mark(be, DP_LANE_OUT, &t, err) < 0)
            return -1;
        copied[round % 2] = t;
        if (sc.fault == TOLD_EARLY) {
            tell('w');
            hear('r');
        }
        if (ops->await(be, t, UINT64_MAX, err) < 0)
            return -1;
        if (sc.fault != TOLD_EARLY)
            tell('w');
    }
    for (int round = 0; round < 2; round++)
        hear('f');
    if (sc.fault == FREED_OPEN)
        hear('x');
    ops->link->close(be, area);
    tell('c');
    for (int k = 0; k < 2; k++)
        ops->free(be, src[k]);
    return ops->sync(be, err);
}

/* Shows memory and computes with what comes. */
static int owner(struct dp_backend *be, struct dp_err *err)
{
    const struct dp_backend_ops *ops = be->ops;
    struct dp_link_card card;
    float host[N], *sum;
    void *area;

    if (ops->alloc(be, sizeof host, (void **)&sum, err) < 0 || ops->alloc(be, AREA, &area, err) < 0 ||
        ops->link->show(be, area, &card, err) < 0)
        return -1;
    if (write(line, &card, sizeof card) != sizeof card)
        _exit(LEFT);
    for (int round = 0; round < ROUNDS; round++) {
        const float *came = place_of(area, round);
        dp_ticket t;

        hear('w');
        if (sc.fault == FREED_EARLY || sc.fault == NOT_WAITED)
            hear('w'); /* of round 1 */
        if (sc.fault == NOT_WAITED)
            hear('w'); /* of round 2, which is in the same place */
        if (ops->add(be, &(struct dp_add){.n = N, .y = sum, .a = came, .b = came}, err) < 0 ||
            ops->mark(be, DP_LANE_COMPUTE, &t, err) < 0)
            return -1;
        if (sc.fault == TOLD_EARLY) {
            if (ops->await(be, t, UINT64_MAX, err) < 0)
                return -1;
            tell('r');
        }
        if (sc.fault == FREED_EARLY) {
            tell('f');
            hear('w'); /* of round 2 */
        }
        if (ops->await(be, t, UINT64_MAX, err) < 0 || ops->get(be, host, sum, sizeof host, err) < 0)
            return -1;
        for (int i = 0; i < N; i++)
            if (host[i] != 2.0f * value(round, i))
                return dp_err_set(err, DP_ECORRUPT, "round %d: %g at %d, not %g", round, (double)host[i], i,
                                  2.0 * (double)value(round, i));
        if (sc.fault == FREED_EARLY || sc.fault == NOT_WAITED)
            _exit(FINE); /* it has not noticed */
        tell('f');
    }
    if (sc.fault == FREED_OPEN) {
        ops->free(be, area);
        if (ops->sync(be, err) < 0)
            return -1;
        tell('x');
    }
    hear('c');
    if (sc.fault != FREED_OPEN)
        ops->free(be, area);
    ops->free(be, sum);
    return ops->sync(be, err);
}

/* One process. */
static int process(int side)
{
    struct dp_err err = {.code = DP_OK};
    struct dp_backend *be = open_emulator(&sc.settings[side], &err);
    int rc = be ? (side ? writer : owner)(be, &err) : -1;
    struct dp_emu_counts c;

    close_emulator(be);
    c = dp_emu_count();
    if (c.blocks || c.staging || c.streams || c.events || c.opened)
        return BAD_ERROR;
    if (rc == 0)
        return sc.settings[side].fail && c.calls < sc.settings[side].fail ? FEWER : FINE;
    if (sc.fault == NONE && !sc.settings[side].fail)
        fprintf(stderr, "# process %d: %s\n", side, err.text);
    if (err.code == DP_ECORRUPT)
        return WRONG;
    return err.code != DP_OK && !strncmp(err.text, "cuda: ", 6) ? FAILED : BAD_ERROR;
}

/* Both, and how they ended. */
static void run_both(int code[2])
{
    pid_t pid[2];
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int side = 0; side < 2; side++) {
        pid[side] = fork();
        assert_true(pid[side] >= 0);
        if (pid[side] == 0) {
            signal(SIGPIPE, SIG_IGN);
            alarm(60);
            line = ends[side];
            close(ends[!side]);
            _exit(process(side));
        }
    }
    close(ends[0]);
    close(ends[1]);
    for (int side = 0; side < 2; side++) {
        int status;

        assert_int_equal(waitpid(pid[side], &status, 0), pid[side]);
        code[side] = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    }
}

static void seed_both(uint64_t seed)
{
    for (int side = 0; side < 2; side++)
        sc.settings[side] = (struct dp_emu_settings){.seed = seed + (uint64_t)side};
}

static void messages(void **state)
{
    (void)state;
    sc.fault = NONE;
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        int code[2];

        seed_both(seed);
        run_both(code);
        if (code[0] != FINE || code[1] != FINE)
            fail_msg("seed %d: %d and %d", (int)seed, code[0], code[1]);
    }
}

static void faults(void **state)
{
    static const char *const name[] = {[TOLD_EARLY] = "the writer tells before its copy is done",
                                       [FREED_EARLY] = "the owner frees a place before it has read it",
                                       [NOT_WAITED] = "the writer does not wait for a place to be free",
                                       [FREED_OPEN] = "memory is freed that the writer has open"};

    (void)state;
    for (sc.fault = TOLD_EARLY; sc.fault <= FREED_OPEN; sc.fault++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            int code[2];

            seed_both(seed);
            run_both(code);
            if (code[0] != FAILED && code[1] != FAILED && code[0] != WRONG)
                fail_msg("seed %d: nobody noticed that %s: %d and %d", (int)seed, name[sc.fault], code[0], code[1]);
        }
}

/* The n-th call of one process fails: it says so and gives everything back, and the other one ends, too. */
static void every_call_fails(void **state)
{
    (void)state;
    sc.fault = NONE;
    for (int side = 0; side < 2; side++)
        for (long n = 1;; n++) {
            int code[2];

            seed_both((uint64_t)n % SEEDS);
            sc.settings[side].fail = n;
            run_both(code);
            if (code[side] == FEWER) {
                if (n < 40)
                    fail_msg("process %d makes only %ld calls", side, n);
                break;
            }
            if ((code[side] != FAILED && code[side] != FINE) || (code[!side] != LEFT && code[!side] != FINE))
                fail_msg("call %ld of process %d fails: %d and %d", n, side, code[0], code[1]);
        }
}

/* ---- what cannot be opened ---- */

static void must_not_open(struct dp_backend *be, const struct dp_link_card *card, const char *want)
{
    struct dp_err err = {.code = DP_OK};
    void *p = NULL;

    assert_int_equal(be->ops->link->open(be, card, &p, &err), -1);
    assert_int_equal(err.code, DP_ENOTSUP);
    if (!strstr(err.text, want))
        fail_msg("\"%s\" does not say \"%s\"", err.text, want);
    DO(be, sync); /* it goes on */
}

/* The card of a process that has ended. */
static void card_of_the_dead(struct dp_link_card *card)
{
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL);
        struct dp_link_card mine;
        void *p;

        DO(be, alloc, AREA, &p);
        if (be->ops->link->show(be, p, &mine, NULL) < 0 || write(ends[1], &mine, sizeof mine) != sizeof mine)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(read(ends[0], card, sizeof *card), sizeof *card);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

static void refusals(void **state)
{
    struct dp_link_card card, dead;
    struct dp_err err = {.code = DP_OK};
    struct dp_backend *be;
    void *p;

    (void)state;
    card_of_the_dead(&dead);
    be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL);
    assert_non_null(be);
    DO(be, alloc, AREA, &p);
    assert_int_equal(be->ops->link->show(be, p, &card, &err), 0);
    must_not_open(be, &dead, "cannot be opened: ");
    must_not_open(be, &card, "cannot be opened: "); /* its own */
    card.bytes[70]++; /* within CUDA's handle */
    memset(card.bytes + 8, 0x5a, 16);
    must_not_open(be, &card, "cannot be opened: ");
    memset(&card, 0, sizeof card);
    must_not_open(be, &card, "not memory of this backend");
    assert_int_equal(be->ops->link->show(be, (char *)p + 256, &card, &err), -1); /* no array begins there */
    assert_int_equal(err.code, DP_ENOTSUP);
    be->ops->link->close(be, NULL);
    close_emulator(be);

    be = open_emulator(&(struct dp_emu_settings){.seed = 1, .no_ipc = true}, NULL);
    DO(be, alloc, AREA, &p);
    assert_int_equal(be->ops->link->show(be, p, &card, &err), -1);
    assert_int_equal(err.code, DP_ENOTSUP);
    must_not_open(be, &dead, "cudaErrorPeerAccessUnsupported");
    close_emulator(be);
    check_nothing_lives("refusals");
}

/* ---- what another process has written is written, and nothing else ---- */

static int half_written(int side)
{
    struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = 1}, NULL);
    float *y = NULL, *x = NULL;
    struct dp_link_card card;
    struct dp_err err = {.code = DP_OK};
    void *p = NULL;

    DO(be, alloc, N * sizeof(float), (void **)&y);
    if (side) {
        if (read(line, &card, sizeof card) != sizeof card || be->ops->link->open(be, &card, &p, &err) < 0)
            return 1;
        DO(be, move, DP_LANE_COMPUTE, p, y, N / 2 * sizeof(float));
        DO(be, sync);
        tell('w');
        hear('c');
        return 0;
    }
    /* not zeroed, as the backend's own memory is */
    if (dp_cuda_api.Malloc((void **)&x, N * sizeof(float)) != cudaSuccess || be->ops->link->show(be, x, &card, &err) < 0 ||
        write(line, &card, sizeof card) != sizeof card)
        return 2;
    hear('w');
    DO(be, add, &(struct dp_add){.n = N / 2, .y = y, .a = x, .b = x});
    if (be->ops->sync(be, &err) < 0)
        return 3;
    DO(be, add, &(struct dp_add){.n = N / 2 + 1, .y = y, .a = x, .b = x});
    if (be->ops->sync(be, &err) == 0 || !strstr(err.text, "nobody has written"))
        return 4;
    tell('c');
    return 0;
}

static void written(void **state)
{
    int ends[2], status[2];
    pid_t pid[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int side = 0; side < 2; side++) {
        pid[side] = fork();
        assert_true(pid[side] >= 0);
        if (pid[side] == 0) {
            alarm(60);
            line = ends[side];
            _exit(half_written(side));
        }
    }
    for (int side = 0; side < 2; side++)
        assert_int_equal(waitpid(pid[side], &status[side], 0), pid[side]);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(status[0], 0);
    assert_int_equal(status[1], 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(messages), cmocka_unit_test(faults),  cmocka_unit_test(every_call_fails),
    cmocka_unit_test(refusals), cmocka_unit_test(written),
};
TEST_MAIN("memory of two processes", tests)
