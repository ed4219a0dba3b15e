/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has open: /proc/pid/fd of a thread of it that lives. */
#ifndef DP_DAEMON_RELEASE_PROCFD_H
#define DP_DAEMON_RELEASE_PROCFD_H

#include <stdbool.h>
#include <stdint.h>

struct dp_open_file {
    char path[256];          /* as the process sees it; cut */
    uint64_t inode;
    uint32_t device[2];      /* that it lies on: major, minor */
    uint32_t is_device[2];   /* that it is, if it is one: major, minor; else 0, 0 */
};

/* Ask fn about every file that the thread tid of the process has open, until it says true. Network file systems are not
 * asked: what hangs there does not hang us. returns 1: fn said true; 0: it never did; -1: it has ended, or we may
 * not look at one of them at least, and errno. */
int dp_procfd_find(uint32_t pid, uint32_t tid, bool (*fn)(void *arg, const struct dp_open_file *f), void *arg);

#endif
