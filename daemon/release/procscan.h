/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of this machine that belong to (job, node): empty_slot.h says which those are. */
#ifndef DP_DAEMON_RELEASE_PROCSCAN_H
#define DP_DAEMON_RELEASE_PROCSCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/release/cgroup.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/procread.h"

#define DP_MAX_SCANNED 32768 /* the default of pid_max; with more processes a look proves nothing */

struct dp_proc_list {
    uint32_t n;         /* members, and workers that are only claimed; if there are none, holders of a device */
    char device[256];   /* that the last holder has */
    bool is_incomplete; /* there are processes that could not be looked at, or may be: no proof */
    char why[200];      /* the first reason for that */
    struct dp_cgroups groups; /* of the job; dp_cgroups_populated() says who else is in them */
    struct dp_proc proc[DP_MAX_SCANNED];
};

/* Fill *out with the members and the claimed, or else the holders, in the order of their pids. A process of which no thread
 * lives does not count: it holds nothing. */
void dp_proc_scan(const struct dp_empty_job *q, struct dp_proc_list *out);

enum dp_whose {
    DP_WHOSE_OTHERS,  /* another user's, or another job's of the owner */
    DP_WHOSE_OWNERS,  /* the owner's, and of no other job of his here */
    DP_WHOSE_ENDED,
    DP_WHOSE_UNKNOWN, /* it cannot be looked at */
};

/* Whose is a process that somebody else names? list: of the dp_proc_scan() just now for the same q; becomes incomplete where
 * something cannot be read. */
enum dp_whose dp_proc_whose(const struct dp_empty_job *q, struct dp_proc_list *list, uint32_t pid);

#endif
