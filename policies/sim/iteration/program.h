/* SPDX-License-Identifier: BSD-3-Clause */
/* A schedule made ready to run: the actions of one pipeline in an order in which each comes after
 * everything that it waits for.
 *
 * Who waits for whom depends on the schedule alone. A device runs its list in order; a link (one per
 * pair of neighbours and direction) sends in the order in which its one sender finishes. So no event
 * can overtake another whatever the times are, the order of events is worked out once, and one
 * iteration with other times is one pass over the actions: start = max(device free, message there).
 *
 * A place is what has costs of its own: a stage, or one of the devices of a stage that has several. Such devices send
 * to several others and hear from several: then every device has one way out and one way in for each direction, messages
 * go out in the order of the sender's actions and come in, buffered by the network, in that of the receiver's.
 */
#ifndef DP_POLICIES_SIM_ITERATION_PROGRAM_H
#define DP_POLICIES_SIM_ITERATION_PROGRAM_H

#include "policies/sim/iteration/actions.h"

struct dp_sim_program;

/* One message over a border: it leaves when its sender has finished and the link is free, occupies
 * the link for send_ns and arrives latency_ns later. Devices compute meanwhile. */
struct dp_sim_link {
    uint64_t send_ns, latency_ns;
};

/* One operation as it ran. */
struct dp_sim_span {
    uint32_t device, place, mb;
    enum dp_action_kind kind;
    uint64_t start_ns, end_ns;
};

/* Takes the lists over (also on failure: *actions is empty then). A list that is not complete, or in
 * which devices wait for each other in a circle, is an error that says where. */
struct dp_sim_program *dp_sim_program_create(struct dp_sim_actions *actions, struct dp_err *err);
void dp_sim_program_destroy(struct dp_sim_program *program);

const struct dp_sim_actions *dp_sim_program_order(const struct dp_sim_program *program); /* borrowed */
uint32_t dp_sim_program_places(const struct dp_sim_program *program);                 /* V; with several devices a stage D */
uint32_t dp_sim_program_links(const struct dp_sim_program *program);                  /* L, see dp_sim_program_run() */
/* Where stages have several devices: microbatch mb goes from one of a stage to one of the next over link
 * dp_sim_program_link(). Pairs of devices that meet have one link; there are `pairs` of them behind a stage, those of
 * microbatches 0, 1, ... pairs - 1. */
uint32_t dp_sim_program_pairs(const struct dp_sim_program *program, uint32_t stage);
uint32_t dp_sim_program_link(const struct dp_sim_program *program, uint32_t stage, uint32_t mb);
/* The device that a stage has for a microbatch there. */
uint32_t dp_sim_program_device(const struct dp_sim_program *program, uint32_t stage, uint32_t mb);
uint32_t dp_sim_program_ops(const struct dp_sim_program *program);
/* Most microbatches of chunks that device waits to finish at once: from forward to the last gradient. Stages below
 * first_live keep none. */
uint32_t dp_sim_program_in_flight(const struct dp_sim_program *program, uint32_t device, uint32_t first_live);

/* Run one iteration from time 0. The program keeps the memory for it: one run at a time.
 * first_live: stages below it only go forward. Their other operations are left out of the devices' lists, and no gradient
 *           goes below it. Less than the number of stages; 0: all learn.
 * cost:     [3][V] ns of FORWARD, BACKWARD, WEIGHT of each place.
 * link:     [L] both directions alike, and the last one is ignored. L = V, link k is behind stage k; one inside of a
 *           device (D = 1) costs nothing. Where stages have several devices: one for each pair of devices of
 *           neighbouring stages that meet, by dp_sim_program_link(), and one.
 * done:     [3][V] = when the last operation of that kind and place ended.
 * span:     [dp_sim_program_ops()] = what ran when, or NULL.
 * returns: how many operations ran, which is how many spans are set. */
uint32_t dp_sim_program_run(struct dp_sim_program *program, uint32_t first_live, const uint64_t *cost, const struct dp_sim_link *link,
                            uint64_t *done, struct dp_sim_span *span);

#endif
