/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock by which a node sees that no worker of a run is left: workers hold the file that WELCOME names
 * shared for their whole lives, and the daemon's fence (daemon/release/empty_slot.c) asks for it exclusively. */
#ifndef DP_LIB_DEVICE_LOCK_H
#define DP_LIB_DEVICE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct dp_device_lock {
    int fd; /* -1: not held */
    uint64_t tried_ns;
    bool has_failed;
};

/* Not held, never tried. */
void dp_device_lock_init(struct dp_device_lock *l);
/* Take it unless it is held, path is empty, or the last try was less than a second ago: a lock that is taken
 * (just then the fence tests it) is free soon. Never blocks.
 * returns: 0, or -1 with errno the first time that it fails. */
int dp_device_lock_take(struct dp_device_lock *l, const char *path);
/* Give it back; does nothing where it is not held. The end of the process does the same. */
void dp_device_lock_release(struct dp_device_lock *l);

#endif
