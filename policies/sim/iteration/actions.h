/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of a schedule (common/schedule/) for all devices of a pipeline. Everything else here works on them and knows no
 * schedule.
 *
 * With v chunks a device the model is cut into V = v * D stages in order, and stage k lives on device
 * k % D as its chunk k / D (v = 1: stage k on device k).
 *
 * With v = 1 a stage may instead have several devices, which take the microbatches in turn (PipeDream's
 * replicated stages, 1F1B-RR; Narayanan et al. 2019, SOSP, section 3.2).
 */
#ifndef DP_POLICIES_SIM_ITERATION_ACTIONS_H
#define DP_POLICIES_SIM_ITERATION_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/schedule/schedule.h"

#define DP_SIM_MAX_DEVICES 65536u /* more than there are in one pipeline anywhere */
#define DP_SIM_MAX_CHUNKS 1024u /* of a device */
#define DP_SIM_MAX_MICROBATCHES 65536u /* sixteen times what train.microbatches may be */
#define DP_SIM_MAX_LINKS (1u << 22) /* pairs of devices that speak */
#define DP_SIM_MAX_ACTIONS (1u << 26) /* of one pipeline in one iteration, in lists */
#define DP_SIM_MAX_IMPLIED_ACTIONS (1u << 31) /* likewise where no list is needed; counted in 32 bits */

struct dp_sim_actions {
    uint32_t n_devices, chunks, microbatches;
    bool is_split;
    uint32_t n_per_device; /* actions of one device: (2 or 3) * chunks * microbatches */
    struct dp_action *action;  /* [n_devices][n_per_device]; where stages have several devices see dp_sim_actions_list() */
    bool is_implied;       /* 1F1B of so many actions that they are not listed: action is NULL */
    /* Only where stages have several devices; else n_wide is 0 and the others NULL. */
    uint32_t n_wide;    /* stages */
    uint32_t *begin;    /* [n_wide + 1] stage s is on devices begin[s] .. begin[s+1] - 1 */
    uint32_t *stage_of; /* [n_devices] */
    uint32_t *list;     /* [n_devices] where the actions of a device begin in action */
};

/* The lists of a schedule, complete; of a 1F1B of more than a million actions none (is_implied), which a program runs
 * all the same. On failure *out is empty. */
int dp_sim_actions_create(enum dp_schedule_kind schedule, uint32_t n_devices, uint32_t chunks, uint32_t microbatches,
                        struct dp_sim_actions *out, struct dp_err *err);
/* Stage s of n_stages has width[s] >= 1 devices; microbatch j is on the (j mod width[s])-th of them. The schedule has shares. */
int dp_sim_actions_create_wide(enum dp_schedule_kind schedule, uint32_t n_stages, const uint32_t *width, uint32_t microbatches,
                             struct dp_sim_actions *out, struct dp_err *err);
void dp_sim_actions_release(struct dp_sim_actions *actions);
/* Forget the lists of a 1F1B whose stages have one device each. */
void dp_sim_actions_imply(struct dp_sim_actions *actions);

/* Which microbatches this device of its stage works on; all of them where a stage has one device. */
struct dp_schedule_share dp_sim_actions_share(const struct dp_sim_actions *actions, uint32_t device);
/* The actions of a device, and how many there are. */
struct dp_action *dp_sim_actions_list(const struct dp_sim_actions *actions, uint32_t device);
uint32_t dp_sim_actions_count(const struct dp_sim_actions *actions, uint32_t device);
uint32_t dp_sim_actions_behind(const struct dp_sim_actions *actions, uint32_t device); /* devices of all later stages */

/* Does every device run each action of each of its chunks and microbatches once, forward before
 * backward before weight gradient? returns 0, or -1 and the first offence. Deadlocks show when the
 * lists are made a program (program.h). */
int dp_sim_actions_check(const struct dp_sim_actions *actions, struct dp_err *err);

#endif
