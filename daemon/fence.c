/* See fence.h. The sequence: wait for a polite exit, TERM, KILL, then look twice, 200 ms apart, with
 * nothing found and the device lock free. Signals go through a pidfd that was opened before the
 * process was looked at again, so a pid that was given away meanwhile is not hit.
 */
#include "config.h"

#include "daemon/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/procscan.h"

#define POLL_MS 20      /* at first; later a hundredth of the time that has passed, since a look reads all of /proc */
#define POLL_MAX_MS 250 /* of a slot that is held, one attempt follows the other */
#define CONFIRM_MS 200
#define TERM_MS 2000 /* from TERM to KILL */

static void wait_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

uint64_t dp_process_start(uint32_t pid)
{
    struct dp_proc p;

    return dp_proc_read(pid, &p) ? p.start_ticks : 0;
}

/* Send a signal to a process that was found, if it is still that process. */
static bool signal_process(const struct dp_proc *found, int sig)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)found->pid, 0);
    struct dp_proc now;
    bool sent = false;

    if (fd < 0)
        return false;
    if (dp_proc_read(found->pid, &now) && now.start_ticks == found->start_ticks)
        sent = syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0;
    close(fd);
    return sent;
}

static uint32_t signal_all(const struct dp_proc_list *list, int sig)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < list->n; i++)
        n += signal_process(&list->proc[i], sig);
    return n;
}

/* Nobody holds the slot's device: on a build without GPUs the lock stands for its memory. */
static bool is_lock_free(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_free;

    if (fd < 0)
        return errno == ENOENT;
    is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_free;
}

struct fence {
    const struct dp_fence_request *q;
    struct dp_fence_result *r;
    struct dp_proc_list list;
    uint64_t start_ns;
};

static uint64_t elapsed_ms(const struct fence *f)
{
    return (dp_now_ns() - f->start_ns) / 1000000u;
}

static unsigned pause_ms(const struct fence *f)
{
    uint64_t ms = elapsed_ms(f) / 100;

    return ms < POLL_MS ? POLL_MS : ms > POLL_MAX_MS ? POLL_MAX_MS : (unsigned)ms;
}

/* Look; until nothing is left or the time since the start has reached end_ms. */
static bool wait_until_empty(struct fence *f, uint64_t end_ms, int sig, uint32_t *n_signalled)
{
    for (;;) {
        dp_proc_scan(f->q, &f->list);
        if (f->list.n == 0 && !f->list.is_incomplete && is_lock_free(f->q->lock_path))
            return true;
        if (sig)
            *n_signalled += signal_all(&f->list, sig);
        if (elapsed_ms(f) >= end_ms)
            return false;
        wait_ms(pause_ms(f));
    }
}

static bool is_confirmed(struct fence *f)
{
    wait_ms(CONFIRM_MS);
    dp_proc_scan(f->q, &f->list);
    return f->list.n == 0 && !f->list.is_incomplete && is_lock_free(f->q->lock_path);
}

static void describe_failure(const struct fence *f, struct dp_fence_result *r)
{
    size_t n = (size_t)snprintf(r->text, sizeof r->text, "not proved within %u ms: %u processes left",
                                f->q->timeout_ms, f->list.n);

    for (uint32_t i = 0; i < f->list.n && i < 8 && n < sizeof r->text - 64; i++)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", pid %u (%s, state %c)", f->list.proc[i].pid,
                              f->list.proc[i].comm, f->list.proc[i].state);
    if (f->list.is_incomplete)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", /proc could not be read in full");
    if (!is_lock_free(f->q->lock_path) && n < sizeof r->text)
        snprintf(r->text + n, sizeof r->text - n, ", device lock still held");
}

static void run_fence(struct fence *f)
{
    const struct dp_fence_request *q = f->q;
    struct dp_fence_result *r = f->r;
    uint64_t grace = q->grace_ms < q->timeout_ms ? q->grace_ms : q->timeout_ms;
    uint64_t term = grace + TERM_MS < q->timeout_ms ? grace + TERM_MS : q->timeout_ms;

    dp_proc_scan(q, &f->list);
    r->n_polite = f->list.n;
    do {
        if (!wait_until_empty(f, grace, 0, NULL)) {
            r->n_term += signal_all(&f->list, SIGTERM);
            if (!wait_until_empty(f, term, 0, NULL))
                wait_until_empty(f, q->timeout_ms, SIGKILL, &r->n_kill);
        }
        r->gone = is_confirmed(f);
    } while (!r->gone && elapsed_ms(f) < q->timeout_ms);
}

size_t dp_fence_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_fence_request q;
    static struct fence f;
    struct dp_fence_result r;

    (void)bytes;
    memset(&r, 0, sizeof r);
    memcpy(&q, request, sizeof q);
    q.node[sizeof q.node - 1] = q.lock_path[sizeof q.lock_path - 1] = q.boot_id[sizeof q.boot_id - 1] = '\0';
    if (q.n_pids > DP_FENCE_MAX_PIDS)
        q.n_pids = DP_FENCE_MAX_PIDS;
    f.q = &q;
    f.r = &r;
    f.start_ns = dp_now_ns();
    run_fence(&f);
    r.took_ns = dp_now_ns() - f.start_ns;
    if (r.gone)
        snprintf(r.text, sizeof r.text,
                 "node=%s job=%u empty twice %d ms apart: processes=0 (first seen %u, TERM %u, KILL %u) "
                 "device_lock=free took_ms=%llu boot_id=%s",
                 q.node, q.job_id, CONFIRM_MS, r.n_polite, r.n_term, r.n_kill,
                 (unsigned long long)(r.took_ns / 1000000), q.boot_id);
    else
        describe_failure(&f, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
