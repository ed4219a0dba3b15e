/* SPDX-License-Identifier: BSD-3-Clause */
/* Activations and gradients on their way between a stage and its neighbours.
 *
 * Where the backend's memory is host memory, a message is fetched and sent where the stage reads and writes it. Else it
 * lies on the device in a place that depends on what it is and on its microbatch only, so that what a stage is told for a
 * microbatch has the same addresses in every step. It gets there over a link, written by the neighbour's device
 * (device_link.h), or is fetched into staging memory and moved on a copying lane; and leaves the device the same way. The
 * computing lane is told to wait for what comes; what goes is sent once the copy is there, at the next call here, or while
 * something here waits. Memory that a lane or a neighbour still uses is not used again.
 */
#ifndef DP_WORKER_STEP_NEIGHBOURS_H
#define DP_WORKER_STEP_NEIGHBOURS_H

#include "worker/step/device_link.h"

#define DP_INBOX_AHEAD 2 /* receives: a message that comes while one is worked on finds its place */
#define DP_EVAL_INDEX 0x8000u /* validation microbatches in a tag; training ones are below */

/* A message, or the place of one on the device. */
struct dp_stage_message {
    struct dp_stage_message *next;
    void *device; /* NULL in one of staging memory */
    void *host;   /* on a backend with host memory the same as device; NULL in a place on the device */
    dp_ticket ticket; /* of one to be sent: its copy; else: its last use */
    struct dp_transport_request *request; /* in flight, or NULL */
    uint32_t to; /* where it is sent, and under which tag */
    uint64_t tag, *sent_ns;
    /* A place, by a link: */
    bool is_going;  /* in the list of those that are to be sent */
    bool is_told;   /* the copying lane has been told */
    struct dp_link_word word; /* to be sent */
    struct dp_device_link *came_by; /* the neighbour waits for it to be free; NULL: nobody does */
    uint64_t came_tag;
    bool is_owed;   /* the last use has been told, to be passed at `ticket` */
    struct dp_link_word free_word;
    struct dp_transport_request *free_request; /* the word that it is free, or NULL */
};

/* What a place on the device is for. */
enum dp_place {
    DP_PLACE_INPUT,    /* of a stage, kept until the microbatch's backward: one for each that may be in flight */
    DP_PLACE_OUTPUT,   /* two, in turns: one is written while the other is copied */
    DP_PLACE_GRADIENT, /* likewise: comes, becomes the one that goes */
    DP_N_PLACES
};

/* Messages from one neighbour, in the order of microbatches, which is the one in which every schedule takes them. */
struct dp_inbox {
    int from; /* -1: there is no neighbour */
    enum dp_channel channel;
    struct dp_stage_message *posted[DP_INBOX_AHEAD];
    struct dp_link_word word[DP_INBOX_AHEAD]; /* by a link: instead of messages */
    struct dp_transport_request *request[DP_INBOX_AHEAD];
    uint32_t n_posted, n_taken, total; /* microbatches */
};

/* The neighbours of a stage. */
enum dp_side { DP_SIDE_PREV, DP_SIDE_NEXT, DP_N_SIDES };

struct dp_neighbours {
    const struct dp_device_wait *wait; /* borrowed */
    size_t bytes; /* of a message */
    uint64_t epoch, step; /* of the pass, for its tags */
    uint32_t index_base;  /* likewise: 0, or DP_EVAL_INDEX */
    uint64_t *wait_ns; /* += time spent waiting for neighbours */
    /* += device time before a message is waited for, and while it is: laps of the computing lane. NULL: not wanted. */
    uint64_t *border_ns, *receive_ns;
    struct dp_stage_message *place[DP_N_PLACES]; /* [n_places] each, NULL where messages are host memory */
    uint32_t n_places[DP_N_PLACES];
    void *area[DP_N_PLACES]; /* the places' memory, one after the other */
    size_t area_bytes[DP_N_PLACES];
    struct dp_stage_message *spare;
    struct dp_stage_message *sending, **sending_end; /* oldest first */
    uint32_t n_unsent; /* of these: the copy was not there yet */
    uint32_t n_owed;   /* places that a neighbour waits for */
    uint32_t n_messages; /* without places */
    uint32_t rank;
    bool may_link, has_met; /* has_met: with the neighbours of the layout in force */
    struct dp_device_link link[DP_N_SIDES];
    int said_with, said_on; /* what was last said of the worker behind this one */
};

/* bytes: of a message; may_link: over links between devices, where there are such. */
void dp_neighbours_init(struct dp_neighbours *n, const struct dp_device_wait *wait, size_t bytes, uint32_t rank, bool may_link);
/* Transfers that are under way are given up. A struct of zeroes may be released, too. */
void dp_neighbours_release(struct dp_neighbours *n);
/* Bytes of all messages, on the device and beside it. */
size_t dp_neighbours_bytes(const struct dp_neighbours *n);

/* Post as many receives of an inbox as DP_INBOX_AHEAD allows. */
int dp_neighbours_post(struct dp_neighbours *n, struct dp_inbox *in, struct dp_err *err);
/* Make places for a stage that keeps in_flight microbatches, and meet its neighbours; prev, next: -1: there is none. Between
 * passes; does nothing where that has been done. */
int dp_neighbours_reserve(struct dp_neighbours *n, uint32_t in_flight, int prev, int next, struct dp_err *err);
/* They will be others, or the run ends: part from those that were met. Between passes, and all workers do it at the same
 * boundary. */
int dp_neighbours_part(struct dp_neighbours *n, struct dp_err *err);
/* The next message of an inbox, of the microbatch mb: the computing lane finds it in (*out)->device. *out NULL: no
 * neighbour. *came_ns: = when it came, 0 where it was waiting already. Give it back when the computing lane was told all
 * that uses it, or send it. */
int dp_neighbours_take(struct dp_neighbours *n, struct dp_inbox *in, enum dp_place place, uint32_t mb,
                       struct dp_stage_message **out, uint64_t *came_ns, struct dp_err *err);
/* After a failure: give up what is posted. */
void dp_neighbours_drop(struct dp_neighbours *n, struct dp_inbox *in);

/* Room for a message that the computing lane will write; give it back, or send it. NULL and err: no memory, or the device
 * failed. */
struct dp_stage_message *dp_neighbours_room(struct dp_neighbours *n, enum dp_place place, uint32_t mb, struct dp_err *err);
/* NULL is fine. returns 0, or -1 and err: the device failed. */
int dp_neighbours_give(struct dp_neighbours *n, struct dp_stage_message *m, struct dp_err *err);
/* What the computing lane was told to write into m goes to worker `to`; m is this file's again. *sent_ns: = when it was
 * sent, before dp_neighbours_settle() returns; NULL: not wanted. */
int dp_neighbours_send(struct dp_neighbours *n, uint32_t to, enum dp_channel channel, uint32_t mb,
                       struct dp_stage_message *m, uint64_t *sent_ns, struct dp_err *err);
/* Wait until all that was sent has been fetched. */
int dp_neighbours_settle(struct dp_neighbours *n, struct dp_err *err);

#endif
