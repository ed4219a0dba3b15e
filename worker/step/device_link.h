/* SPDX-License-Identifier: BSD-3-Clause */
/* The way from one worker's device to its neighbour's, beside the host: struct dp_backend_link.
 *
 * Neighbours of a layout show each other the memory that the other one's messages go to, and try it: a word that was put
 * there is read by the other side, which writes the answer there. Only where both see what they ought to, messages go this
 * way; whatever is in the way of that is no failure, and they go through staging memory.
 *
 * A message is copied into its place by the device that sends it, and no device ever waits for another one, for that might
 * have died: the sender's host sees the copy done and says so with a word (struct dp_link_word) instead of the message,
 * under its tag. When the receiver's device has come past the last use of the place, its host sends the word back, and only
 * then the place is written again.
 */
#ifndef DP_WORKER_STEP_DEVICE_LINK_H
#define DP_WORKER_STEP_DEVICE_LINK_H

#include "worker/step/device_wait.h"

/* "It is there", and the other way "it may be written again". */
struct dp_link_word {
    uint64_t nonce; /* of the memory that the place is in */
    uint32_t place, reserved;
};

/* Memory for messages, in places of `stride` bytes. */
struct dp_link_area {
    void *memory;
    uint32_t n_places;
    size_t stride;
};

/* A place of the neighbour's: the word that it is free again. */
struct dp_link_place {
    struct dp_transport_request *request; /* NULL: it is free */
    struct dp_link_word word;
};

/* Both ways with one neighbour. */
struct dp_device_link {
    int with;                  /* -1: nobody */
    bool is_on;                /* else through staging memory */
    struct dp_link_area mine;  /* which the neighbour writes to */
    struct dp_link_area other; /* which this worker writes to; memory NULL: not open */
    uint64_t my_nonce, other_nonce;
    struct dp_link_place *place; /* [other.n_places] */
    uint64_t epoch, step; /* of the tags that they met with */
    char why[200]; /* not */
};

/* Where `with` and `mine` of each are set, and nothing else: meet. Both neighbours do so before the same step's pass.
 * message_bytes: of a message; allowed: whether this worker wants links. returns 0, or -1 and err: the device failed or a
 * neighbour is gone. */
int dp_device_links_meet(struct dp_device_link link[2], const struct dp_device_wait *wait, size_t message_bytes, bool allowed,
                         uint64_t epoch, uint64_t step, struct dp_err *err);
/* The end of it, for all neighbours at the same boundary: nobody has the other's memory open afterwards. What was sent has
 * been fetched, and the words that places are free are on their way. */
int dp_device_links_part(struct dp_device_link link[2], const struct dp_device_wait *wait, struct dp_err *err);
/* After a failure: give up. is_idle: no lane uses the neighbour's memory any more; else it stays open. */
void dp_device_link_drop(struct dp_device_link *link, const struct dp_device_wait *wait, bool is_idle);

/* May the neighbour's place be written? 1, 0: not yet, or -1 and err. */
int dp_device_link_is_free(struct dp_device_link *link, const struct dp_device_wait *wait, uint32_t place, struct dp_err *err);
void *dp_device_link_at(const struct dp_device_link *link, uint32_t place);
/* The word under `tag` says that it was written: expect the one that it is free. */
int dp_device_link_expect(struct dp_device_link *link, const struct dp_device_wait *wait, uint32_t place, uint64_t tag,
                          struct dp_err *err);
/* The words of a place: of the neighbour's memory, and of this worker's. */
struct dp_link_word dp_device_link_other_word(const struct dp_device_link *link, uint32_t place);
struct dp_link_word dp_device_link_my_word(const struct dp_device_link *link, uint32_t place);
/* Is it the word that was to come? returns 0, or -1 and err. */
int dp_device_link_check(const struct dp_device_link *link, const struct dp_link_word *got, const struct dp_link_word *want,
                         struct dp_err *err);

#endif
