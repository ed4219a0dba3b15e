/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of this machine that belong to (job, node): empty_slot.h says which those are. */
#ifndef DP_DAEMON_RELEASE_PROCSCAN_H
#define DP_DAEMON_RELEASE_PROCSCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/release/cgroup.h"
#include "daemon/release/empty_slot.h"

#define DP_MAX_SCANNED 32768 /* the default of pid_max; with more processes a look proves nothing */

struct dp_proc {
    uint32_t pid, ppid, session;
    uint32_t uid;      /* of its files: effective */
    uint64_t start_ticks;
    char state, comm[64];
    bool is_member;    /* shown to be the job's */
    bool is_claimed;   /* registered as its worker: said, not shown */
    bool is_holder;    /* has a device open */
    uint32_t env_job;  /* that its environment names, 0: none */
};

struct dp_proc_list {
    uint32_t n;         /* members, and workers that are only claimed; if there are none, holders of a device */
    char device[256];   /* that the last holder has */
    bool is_incomplete; /* more processes than we can look at, or /proc cannot be read */
    struct dp_cgroups groups; /* of the job; dp_cgroups_populated() says who else is in them */
    struct dp_proc proc[DP_MAX_SCANNED];
};

/* Read a small file of /proc/pid into out, NUL-terminated. returns bytes, -1 when it cannot be. */
ssize_t dp_proc_text(uint32_t pid, const char *name, char *out, size_t cap);

/* Is it a slurmstepd (or slurmd) of root's? */
bool dp_proc_is_slurms(uint32_t pid);

/* Read /proc/pid/stat. returns false when there is no such process, or only a zombie of it. */
bool dp_proc_read(uint32_t pid, struct dp_proc *out);

/* Fill *out with the members and the claimed, or else the holders. Zombies do not count: they hold nothing. */
void dp_proc_scan(const struct dp_empty_job *q, struct dp_proc_list *out);

#endif
