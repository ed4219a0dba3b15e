/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipeline schedules as data: for each device the list of its actions, in the order in which it runs them. What a
 * schedule is stands in one small file of this folder each and in a line of list.h; workers and the simulator run the same
 * lists and know no schedule.
 *
 * Backward runs over the microbatches in the order 0..m-1 in every schedule and on every stage, so gradients add up in
 * the same order whatever the schedule and the number of stages.
 */
#ifndef DP_COMMON_SCHEDULE_SCHEDULE_H
#define DP_COMMON_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/schedule/list.h"

enum dp_action_kind {
    DP_ACTION_FORWARD,
    DP_ACTION_BACKWARD, /* all of it; where the schedule is split, only the gradient of the input */
    DP_ACTION_WEIGHT,   /* gradient of the weights, only where the schedule is split */
};
#define DP_ACTION_KINDS (DP_ACTION_WEIGHT + 1) /* how many there are */

struct dp_action {
    uint32_t mb;
    uint16_t chunk;
    uint8_t kind; /* enum dp_action_kind */
};

/* Microbatches of a device: first, first + step, ..., `count` of them. */
struct dp_schedule_share {
    uint32_t first, step, count;
};

/* Where a device is. Its stage has `step` devices, which take the microbatches in turn; mostly one, and all of them. */
struct dp_schedule_place {
    uint32_t device, n_devices, chunks, microbatches;
    uint32_t behind; /* devices of all later stages */
    struct dp_schedule_share share;
};

/* What the file of a schedule provides. */
struct dp_schedule_rule {
    bool is_split;   /* backward has two parts */
    bool has_chunks; /* a device may have several parts of the model */
    bool has_shares; /* a stage may have several devices */
    bool keeps_all;  /* every microbatch is kept for its backward; else as many as with 1F1B, at most */
    /* Optional: what of the numbers this schedule cannot do. returns 0 or -1. */
    int (*check)(uint32_t n_devices, uint32_t chunks, uint32_t microbatches, struct dp_err *err);
    /* Write all actions of one device: each microbatch of its share, of each chunk, in two or three parts. */
    void (*fill)(const struct dp_schedule_place *place, struct dp_action *out);
};
#define DP_SCHEDULE_RULE(ID, id, name, help) extern const struct dp_schedule_rule dp_schedule_##id;
DP_SCHEDULES(DP_SCHEDULE_RULE)

struct dp_schedule {
    const char *name, *help;
    bool is_trained; /* workers know it, not only the simulator */
    const struct dp_schedule_rule *rule;
};
extern const struct dp_schedule dp_schedules[DP_N_SCHEDULES];

/* By name; of them all, or of those that workers know. returns 0, or -1 and an error that lists the known names. */
int dp_schedule_find(const char *name, enum dp_schedule_kind *out, struct dp_err *err);
int dp_schedule_find_trained(const char *name, enum dp_schedule_kind *out, struct dp_err *err);

/* Of a number that came from elsewhere: "?" where there is none; and whether workers know it. */
const char *dp_schedule_name(unsigned kind);
bool dp_schedule_is_trained(unsigned kind);

/* The actions of a stage that has one device and all microbatches, of a schedule that workers know.
 * out: room for 2 * microbatches actions, all of them written. stage: 0..n_stages-1. */
void dp_schedule_fill(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t microbatches, struct dp_action *out);

/* Most microbatches that wait for their backward at once in a stage: all, or one for itself and each stage after it. */
uint32_t dp_schedule_in_flight(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t microbatches);
/* More than which no stage keeps where what it keeps depends on the stages after it; 0: it does not. */
uint32_t dp_schedule_depth(enum dp_schedule_kind kind, uint32_t microbatches);

#endif
