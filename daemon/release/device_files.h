/* SPDX-License-Identifier: BSD-3-Clause */
/* The device files of a node's GPUs, by the names that gres.conf gives them, and who has one open. */
#ifndef DP_DAEMON_RELEASE_DEVICE_FILES_H
#define DP_DAEMON_RELEASE_DEVICE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#define DP_DEVICES_MAX 64 /* a file or two for each GPU of a node */

struct dp_device_files {
    char patterns[256];             /* glob(7), separated by commas; empty: none */
    uint32_t n;                     /* devices that match now */
    uint32_t number[DP_DEVICES_MAX][2]; /* major, minor */
};

/* Set *d to the device files that match patterns (cut at 255 bytes) now; "" finds none. What is no device file does
 * not count; beyond DP_DEVICES_MAX the rest is left out. */
void dp_device_files_find(struct dp_device_files *d, const char *patterns);

/* Has the process one of them open (tid: a thread of it that lives)? path: = under which name. returns 1, 0, -1: it has
 * ended, or we may not look, and errno. */
int dp_device_files_are_open(const struct dp_device_files *d, uint32_t pid, uint32_t tid, char path[256]);

#endif
