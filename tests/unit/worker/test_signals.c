/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals become requests, and the heap survives them: oneDNN's kernels run with their stack in the heap,
 * so a handler on the computing thread would destroy what lies in front of it. */
#include "worker/train/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "kernels/backend.h"
#include "tests/unit/unit.h"
#include "worker/step/step_order.h"

#define S UINT64_C(1000000000)
#define N_BLOCKS 512

static uint32_t wait_for_request(void)
{
    uint64_t end = dp_now_ns() + 10 * S;
    uint32_t got = 0;

    while (!got && dp_now_ns() < end)
        got = dp_signals_take();
    return got;
}

static void usr1_saves(void **state)
{
    struct dp_err err = {0};

    (void)state;
    if (dp_signals_catch(&err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(dp_signals_take(), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(wait_for_request(), DP_REQUEST_SAVE);
    assert_int_equal(dp_signals_take(), 0);
}

/* In a child: a stop is wished for, and wished for again, and again by SIGINT. Then what ends it. */
static void wish_again_and_again(int last)
{
    static const int requests[] = {SIGTERM, SIGTERM, SIGINT, SIGTERM};

    if (dp_signals_catch(NULL) < 0)
        _exit(1);
    dp_signals_begin();
    for (unsigned i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (kill(getpid(), requests[i]) < 0 || wait_for_request() != DP_REQUEST_STOP)
            _exit(2 + (int)i);
    kill(getpid(), last);
    for (;;)
        pause();
}

/* returns: the signal that ended a child; its exit status is no signal. */
static int end_of(pid_t pid)
{
    int status;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        fail_msg("the child ended with status %d", WEXITSTATUS(status));
    return WTERMSIG(status);
}

static void only_a_second_int_ends(void **state)
{
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        wish_again_and_again(SIGINT);
    assert_int_equal(end_of(pid), SIGINT);
}

static void a_worker_that_has_not_begun_ends(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            if (dp_signals_catch(NULL) < 0 || kill(getpid(), SIGUSR1) < 0 || wait_for_request() != DP_REQUEST_SAVE)
                _exit(1);
            kill(getpid(), signals[i]);
            for (;;)
                pause();
        }
        assert_int_equal(end_of(pid), signals[i]);
    }
}

/* SIGUSR1 to the parent, again and again, until it is told to end. */
static pid_t start_storm(void)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0)
        while (getppid() == parent && kill(parent, SIGUSR1) == 0)
            usleep(20);
    return pid;
}

static void fill(unsigned char *block, size_t bytes, unsigned i)
{
    memset(block, (int)(i % 251 + 1), bytes);
}

static bool is_whole(const unsigned char *block, size_t bytes, unsigned i)
{
    for (size_t k = 0; k < bytes; k++)
        if (block[k] != i % 251 + 1)
            return false;
    return true;
}

static size_t block_bytes(unsigned i)
{
    return 64 + i * 37 % 9000;
}

/* Blocks of known bytes all around the kernels' workspaces. This shape is one whose kernel has its stack
 * in the heap (AVX-512, oneDNN 2.6: 83 of 88 signals found it there). */
static void heap_survives(void **state)
{
    enum { N = 128, C = 32 };
    struct dp_err err = {0};
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, &err);
    float *x = calloc(N * C, sizeof *x), *dw = calloc(C * C, sizeof *dw), *dy = calloc(N * C, sizeof *dy);
    const struct dp_linear_bwd_weight a = {.n = N, .c_in = C, .c_out = C, .dw = dw, .dy = dy, .x = x};
    unsigned char *block[N_BLOCKS];
    uint64_t end;
    pid_t storm;
    int status;

    (void)state;
    assert_non_null(be);
    assert_true(x && dw && dy);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        block[i] = malloc(block_bytes(i));
        assert_non_null(block[i]);
        fill(block[i], block_bytes(i), i);
    }
    storm = start_storm();
    assert_true(storm > 0);
    end = dp_now_ns() + 2 * S;
    for (unsigned round = 0; dp_now_ns() < end; round++) {
        unsigned i = round % N_BLOCKS;

        for (int k = 0; k < 8; k++)
            assert_int_equal(be->ops->linear_bwd_weight(be, &a, &err), 0);
        assert_true(is_whole(block[i], block_bytes(i), i));
        free(block[i]);
        block[i] = malloc(block_bytes(i));
        assert_non_null(block[i]);
        fill(block[i], block_bytes(i), i);
    }
    kill(storm, SIGKILL);
    assert_int_equal(waitpid(storm, &status, 0), storm);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        assert_true(is_whole(block[i], block_bytes(i), i));
        free(block[i]);
    }
    free(x);
    free(dw);
    free(dy);
    dp_backend_destroy(be);
    assert_int_equal(dp_signals_take(), DP_REQUEST_SAVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_second_int_ends), /* first: these fork, and TSan wants no threads then */
        cmocka_unit_test(a_worker_that_has_not_begun_ends),
        cmocka_unit_test(usr1_saves),
        cmocka_unit_test(heap_survives),
    };

    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
