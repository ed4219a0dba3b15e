/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemons of daemon_world.h have instead of a kernel: the clock, processes, who is at the other end of a socket.
 * What is called __wrap_X is called in the place of X (-Wl,--wrap in tests/fuzz/local.mk); the functions of procscan.c
 * stand here under their own names, so the linker does not take that file. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "daemon/release/procscan.h"
#include "tests/unit/daemon/daemon_world.h"

#define SEC UINT64_C(1000000000)
enum { MANY_FDS = 4096 };

bool dw_is_on;

/* ---- time ---- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Takes the place of libc's for libevent, too. The wall clock, by which nothing is decided, goes on: libFuzzer's limits
 * are told by it. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    if (!dw_is_on || (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE))
        return (int)__real_syscall(SYS_clock_gettime, id, t);
    t->tv_sec = (time_t)(dw.now_ns / SEC);
    t->tv_nsec = (long)(dw.now_ns % SEC);
    return 0;
}

int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);

/* A fence waits. */
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    if (!dw_is_on)
        return __real_nanosleep(t, left);
    dw_advance((uint64_t)t->tv_sec * SEC + (uint64_t)t->tv_nsec);
    return 0;
}

/* ---- processes ---- */

static uint32_t pid_of_fd[MANY_FDS];

struct dw_process *dw_fork(uint32_t node, uint32_t worker)
{
    struct dw_process *p = &dw.process[dw.n_processes];

    if (dw.n_processes == DW_PROCESSES)
        return NULL;
    *p = (struct dw_process){.is_alive = true, .pid = 1000 + dw.n_processes++, .node = node, .worker = worker,
                             .life = dw.slurm.restart_count,
                             .end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .lock_fd = -1};
    return p;
}

void dw_exit(struct dw_process *p)
{
    uint64_t one = 1;

    if (!p->is_alive)
        return;
    p->is_alive = false;
    if (write(p->end_fd, &one, sizeof one) < 0)
        abort();
    if (p->lock_fd >= 0)
        close(p->lock_fd);
    p->lock_fd = -1;
    if (p->worker < DW_WORKERS)
        dw_worker_cut(p->worker);
}

struct dw_process *dw_find(uint32_t pid)
{
    return pid >= 1000 && pid < 1000 + dw.n_processes ? &dw.process[pid - 1000] : NULL;
}

static long open_pidfd(uint32_t pid)
{
    const struct dw_process *p = dw_find(pid);
    int fd = p ? dup(p->end_fd) : -1;

    if (fd >= 0 && fd < MANY_FDS)
        pid_of_fd[fd] = pid;
    if (!p)
        errno = ESRCH;
    return fd;
}

static long send_signal(int fd, int sig)
{
    struct dw_process *p = fd >= 0 && fd < MANY_FDS ? dw_find(pid_of_fd[fd]) : NULL;

    if (!p || !p->is_alive) {
        errno = ESRCH;
        return -1;
    }
    if (p->life != dw.fenced_life)
        dw_broken_for_all("a fence ends another life of the job", p->life, dw.fenced_life);
    if (!p->is_stuck && (sig == SIGKILL || (sig == SIGTERM && !dw_chance(30))))
        dw_exit(p);
    return 0;
}

long __wrap_syscall(long number, ...)
{
    int n = number == SYS_pidfd_send_signal ? 4 : 2; /* that the daemon's own calls have */
    long a[4] = {0};
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < n; i++)
        a[i] = i == 2 ? (long)va_arg(ap, void *) : va_arg(ap, int);
    va_end(ap);
    if (dw_is_on && number == SYS_pidfd_open)
        return open_pidfd((uint32_t)a[0]);
    if (dw_is_on && number == SYS_pidfd_send_signal)
        return send_signal((int)a[0], (int)a[1]);
    return __real_syscall(number, a[0], a[1], a[2], a[3]);
}

bool dp_proc_read(uint32_t pid, struct dp_proc *out)
{
    const struct dw_process *p = dw_find(pid);

    memset(out, 0, sizeof *out);
    *out = (struct dp_proc){.pid = pid, .ppid = 1, .session = pid, .uid = DW_OWNER, .start_ticks = pid, .state = 'S'};
    return p && p->is_alive;
}

void dp_proc_scan(const struct dp_empty_job *q, struct dp_proc_list *out)
{
    out->n = 0;
    out->device[0] = '\0';
    out->is_incomplete = false;
    out->why[0] = '\0';
    out->groups.n = out->groups.n_scopes = 0;
    out->groups.is_incomplete = out->groups.v1.is_kept = false;
    out->groups.v1.n_frozen = 0;
    for (uint32_t i = 0; i < dw.n_processes; i++)
        if (dw.process[i].is_alive && !strcmp(dw.node[dw.process[i].node].name, q->node)) {
            (void)dp_proc_read(dw.process[i].pid, &out->proc[out->n]);
            out->proc[out->n++].is_member = true;
        }
}

enum dp_whose dp_proc_whose(const struct dp_empty_job *q, struct dp_proc_list *list, uint32_t pid)
{
    const struct dw_process *p = dw_find(pid);

    (void)q, (void)list;
    return p && p->is_alive ? DP_WHOSE_OWNERS : DP_WHOSE_ENDED;
}

/* Nobody is in a cgroup of Slurm's: test_empty_slot has them. */
uint32_t dp_cgroups_populated(const struct dp_cgroups *c, uint32_t job_id, char *which, size_t cap)
{
    (void)c, (void)job_id, (void)which, (void)cap;
    return 0;
}

uint32_t dp_cgroups_kill(const struct dp_cgroups *c, uint32_t job_id)
{
    (void)c, (void)job_id;
    return 0;
}

/* The name that a client's socket is bound to says who he is: "\0dw:pid:uid:..." */
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    char address[128] = "";
    socklen_t n = sizeof address - 1;
    struct ucred *cred = value;
    unsigned pid, uid;

    if (!dw_is_on || name != SO_PEERCRED)
        return __real_getsockopt(fd, level, name, value, len);
    if (getpeername(fd, (struct sockaddr *)address, &n) < 0 || sscanf(address + 3, "dw:%u:%u:", &pid, &uid) != 2) {
        errno = ENOTCONN;
        return -1;
    }
    *cred = (struct ucred){(pid_t)pid, uid, uid};
    return 0;
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

/* Thousands of runs a minute: a port that was used is free at once. */
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    const struct linger at_once = {1, 0};

    if (dw_is_on && name == SO_KEEPALIVE)
        __real_setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return __real_setsockopt(fd, level, name, value, len);
}

/* ---- the rest ---- */

void (*__real_signal(int sig, void (*handler)(int)))(int);
void (*__wrap_signal(int sig, void (*handler)(int)))(int);
void __wrap_dp_log(enum dp_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Children set theirs. */
void (*__wrap_signal(int sig, void (*handler)(int)))(int)
{
    return dw_is_on ? SIG_DFL : __real_signal(sig, handler);
}

void __wrap_dp_log(enum dp_log_level level, const char *fmt, ...)
{
    static int talks = -1;
    va_list ap;

    if (talks < 0)
        talks = getenv("DW_TALK") != NULL;
    if (!talks)
        return;
    fprintf(stderr, "# %8.2f %s %d: ", (double)dw.now_ns / 1e9, dw.current ? dw.current->name : "-", level);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void __real_dp_coord_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m);
void __wrap_dp_coord_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m);

void __wrap_dp_coord_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    dw.n_reports++;
    __real_dp_coord_report(c, now_ns, m);
}
