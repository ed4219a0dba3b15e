/* SPDX-License-Identifier: BSD-3-Clause */
/* See signals.h. The signals are blocked in every thread, and one thread of their own waits for them.
 *
 * No handler may ever run on a thread that computes: oneDNN's SGEMM kernels use a workspace from the
 * heap as their stack (they load rsp with it), so the kernel would write the signal's frame, some 3 KiB
 * with AVX-512, over whatever lies in front of that workspace. An alternate stack is no way out, since
 * it belongs to one thread and OpenMP's threads run those kernels too. */
#define _GNU_SOURCE /* sigset_t */
#include "worker/train/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "worker/step/step_order.h"

#define STACK_BYTES (256 * 1024) /* thread-local storage of all libraries comes out of it */

static _Atomic uint32_t requests;
static _Atomic bool has_begun;

static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGUSR1);
}

/* What the signal does to a process that does not catch it. */
static void end_by(int signal_number)
{
    sigset_t set;

    signal(signal_number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(signal_number);
}

/* A second SIGTERM says no more than the first: at the end of its time Slurm sends a job two within 0.1 s,
 * and to a preempted one others when its GraceTime is over; after KillWait comes SIGKILL, which needs no help.
 * Two SIGINTs are a person at a terminal who does not want to wait. */
static void *wait_for_signals(void *arg)
{
    bool was_interrupted = false;
    sigset_t set;
    int n;

    (void)arg;
    fill_set(&set);
    for (;;) {
        if (sigwait(&set, &n) != 0)
            continue;
        if (n == SIGUSR1) {
            atomic_fetch_or(&requests, DP_REQUEST_SAVE);
            continue;
        }
        if (!atomic_load(&has_begun) || (n == SIGINT && was_interrupted))
            end_by(n);
        was_interrupted |= n == SIGINT;
        atomic_fetch_or(&requests, DP_REQUEST_STOP);
    }
    return NULL;
}

int dp_signals_catch(struct dp_err *err)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t set;
    int rc;

    fill_set(&set);
    signal(SIGPIPE, SIG_IGN);
    rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (rc == 0)
        rc = pthread_attr_init(&attr);
    if (rc == 0) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        rc = pthread_create(&thread, &attr, wait_for_signals, NULL);
        pthread_attr_destroy(&attr);
    }
    return rc ? dp_err_set(err, DP_EIO, "signals: %s", strerror(rc)) : 0;
}

void dp_signals_begin(void)
{
    atomic_store(&has_begun, true);
}

uint32_t dp_signals_take(void)
{
    return atomic_exchange(&requests, 0);
}
