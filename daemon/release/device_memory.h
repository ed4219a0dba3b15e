/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the memory of a node's cards back to what it was before a run (doc/protocol.md, "Device memory")?
 *
 * The driver is asked by a process of its own, the looker: it was made before its maker took a user's rights, and is given up
 * when it does not answer.
 */
#ifndef DP_DAEMON_RELEASE_DEVICE_MEMORY_H
#define DP_DAEMON_RELEASE_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/release/nvml.h"

/* More than was in use before, and still back: a card without processes differs by a few MiB from look to look, and the
 * least that a process takes, its context, is more. */
#define DP_CARDS_TOLERANCE (UINT64_C(64) << 20)

/* What was in use before the run began; a card that had a process on it then is not in it. */
struct dp_cards_before {
    bool is_shut; /* the library could not be begun then: a node on which that is so stays one that is not looked at */
    uint32_t n;
    struct {
        uint32_t minor;
        uint64_t used;
    } card[DP_CARDS_MAX];
};

/* A looker that was given up and may hang in the driver for ever; pid 0: none. */
struct dp_hung {
    uint32_t pid;
    uint64_t start_ticks;
};

struct dp_looker {
    int fd;            /* of our end; -1: there is none */
    pid_t pid;
    struct dp_hung hung; /* it, or one before it */
    char why[160];     /* there is none: why memory is not looked at */
};

/* What a look was worth; read beside dp_empty_job. */
struct dp_cards_proof {
    bool is_back;
    uint32_t n_back;      /* cards whose memory is what it was */
    uint32_t n_processes; /* that have no process of the owner's; with others on them, or not known before */
    uint32_t n_unseen;    /* in parts (MIG), or kept to itself by the driver */
    char word[48];        /* is_back: what was looked at, for the text of the proof */
    char text[200];       /* why it is not back, or was not looked at; "": neither */
};

struct dp_empty_job;
struct dp_proc_list;

/* Make a looker that lives deadline_s at most. It is not made where files has no card of NVIDIA's, library is "" (nvml.h), or
 * hung still lives: no second process is to hang where one does. */
void dp_looker_start(struct dp_looker *l, const char *library, const struct dp_device_files *files, struct dp_hung hung,
                     double deadline_s);
void dp_looker_end(struct dp_looker *l);

/* Have it look; blocks up to timeout_ms. Who does not answer by then is given up (hung). */
void dp_looker_look(struct dp_looker *l, unsigned timeout_ms, struct dp_cards *out);

/* Keep the least that was in use of each card without processes. */
void dp_cards_keep(struct dp_cards_before *before, const struct dp_cards *cards);

/* Is it back? list: of the dp_proc_scan() just now, which found nobody. May block up to timeout_ms. */
void dp_cards_prove(const struct dp_empty_job *q, struct dp_proc_list *list, unsigned timeout_ms, struct dp_cards_proof *out);

struct dp_cards_request {
    struct dp_hung hung;
};

struct dp_cards_result {
    struct dp_cards_before before;
    struct dp_hung hung;
    char text[160]; /* why it is empty */
};

/* dp_helper_work_fn for dp_priv_start(): what is in use now, before a run. Blocks. */
size_t dp_cards_work(const void *request, size_t bytes, uint8_t *result);

#endif
