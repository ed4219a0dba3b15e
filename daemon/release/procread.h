/* SPDX-License-Identifier: BSD-3-Clause */
/* One process, as /proc shows it. What cannot be read is told from what is not there: only ENOENT and ESRCH say that a
 * process has ended.
 */
#ifndef DP_DAEMON_RELEASE_PROCREAD_H
#define DP_DAEMON_RELEASE_PROCREAD_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_proc {
    uint32_t pid, ppid, session;
    uint32_t tid;      /* a thread of it that lives, = pid where the first one does: the others are read as nothing */
    uint32_t uid;      /* of its files: effective */
    uint64_t start_ticks;
    char state, comm[64];
    bool is_kernels;   /* a thread of the kernel's */
    bool is_member;    /* shown to be the job's */
    bool is_claimed;   /* registered as its worker: said, not shown */
    bool is_holder;    /* has a device open */
    uint32_t env_job;  /* that its environment names, 0: none */
};

enum dp_proc_life {
    DP_PROC_GONE,    /* there is none, or no thread of it lives: out->state is 'Z' or 'X' then, else 0 */
    DP_PROC_LIVES,
    DP_PROC_UNKNOWN, /* it cannot be told; errno says why */
};

/* Read a small file of /proc/pid into out, NUL-terminated. returns bytes, -1 when it cannot be, and errno. */
ssize_t dp_proc_text(uint32_t pid, const char *name, char *out, size_t cap);

/* Does this errno say that a process is not there any more? */
static inline bool dp_proc_has_ended(int error)
{
    return error == ENOENT || error == ESRCH;
}

/* Read /proc/pid/stat. A process whose first thread has ended lives as long as another one does. */
enum dp_proc_life dp_proc_look(uint32_t pid, struct dp_proc *out);

/* The same, where it matters only whether it is known to live. */
bool dp_proc_read(uint32_t pid, struct dp_proc *out);

/* A file of the thread by which p is read. returns as dp_proc_text(). */
ssize_t dp_proc_live_text(const struct dp_proc *p, const char *name, char *out, size_t cap);

/* Where the memory of a process says that its environment lies (0, 0: it has none: it is beginning a program, or ending).
 * returns -1 when that cannot be read, and errno. */
int dp_proc_env_range(const struct dp_proc *p, uint64_t *start, uint64_t *end);

/* The real and effective uid; the owner of /proc/pid turns to root when a process is not dumpable. returns -1 when they
 * cannot be read, and errno. */
int dp_proc_uids(const struct dp_proc *p, unsigned *real, unsigned *effective);

/* Does a process run Slurm's own slurmstepd or slurmd, root's file that nobody else may write? */
bool dp_proc_runs_slurms_program(uint32_t pid);

/* Is it a slurmstepd (or slurmd) of root's? */
bool dp_proc_is_slurms(uint32_t pid);

/* How /proc is mounted. hidepid: = the value of that option, "" where there is none. returns: processes of others may be
 * missing from it, for this process with the rights that it has now; also where that cannot be found out. */
bool dp_proc_hides(char *hidepid, size_t cap);

#endif
