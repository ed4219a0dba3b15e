/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA's management library (NVML), looked up when it is wanted: how much memory of a card is in use, and by whom. Of its
 * binary interface only what is used here is declared, from the public documentation (doc/protocol.md, "Device memory").
 *
 * Every call may take seconds, or never return (a driver that is being reset): for processes that can be given up.
 */
#ifndef DP_DAEMON_RELEASE_NVML_H
#define DP_DAEMON_RELEASE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/release/device_files.h"

#define DP_CARDS_MAX DP_DEVICES_MAX
#define DP_CARD_PIDS 64 /* with more processes on a card a look fails */

struct dp_gpu {
    uint32_t minor;     /* /dev/nvidiaMINOR */
    bool is_unseen;     /* cut into parts (MIG), or the driver does not say who is on it: nothing else is known */
    bool is_hosts;      /* its memory is a NUMA node of the host's, which keeps pages of who has ended: used says nothing */
    uint64_t used;      /* bytes of its memory in use, what the driver reserves included */
    uint32_t n_pids, pid[DP_CARD_PIDS]; /* on it before or after that was read */
};

enum dp_cards_state {
    DP_CARDS_NONE,   /* nothing can be looked at here: no library, or one that lacks a function */
    DP_CARDS_SHUT,   /* the library cannot be begun: the driver does not let us in, or does not fit */
    DP_CARDS_FAILED, /* it could not be looked at now */
    DP_CARDS_SEEN,
};

struct dp_cards {
    enum dp_cards_state state;
    char text[160]; /* why not */
    uint32_t n;
    struct dp_gpu card[DP_CARDS_MAX];
};

/* The number of an NVIDIA card's file /dev/nvidiaN: does files have it? */
bool dp_nvml_has_card(const struct dp_device_files *files, uint32_t minor);

/* Is any of the files a card of NVIDIA's? */
bool dp_nvml_has_any(const struct dp_device_files *files);

/* The library's name for dp_nvml_look(): the loader finds it in the system's folders. "": an environment variable of this
 * process would say where (LD_LIBRARY_PATH), so it is not looked for. */
const char *dp_nvml_library(void);

/* Look at the cards among files. library: a name for the loader, or a path (tests). Opened by the first call; what went
 * wrong is begun anew by the next one. Not for several threads. */
void dp_nvml_look(const char *library, const struct dp_device_files *files, struct dp_cards *out);

#endif
