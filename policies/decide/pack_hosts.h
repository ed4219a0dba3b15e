/* SPDX-License-Identifier: BSD-3-Clause */
/* Which nodes slots are on, where several share one (slices): of sets that cost the same those are packed onto that leave the most
 * nodes wholly to others, since jobs that want whole nodes, or several GPUs of one, wait longest.
 *
 * A node is empty when no device of the run's is kept there; home's node, the batch slot's, never is. So for a number of devices:
 * those of home's node first, then the nodes with the most of them, until the rest fits on one; of these the smallest. No set of as
 * many devices is on fewer nodes.
 */
#ifndef DP_POLICIES_DECIDE_PACK_HOSTS_H
#define DP_POLICIES_DECIDE_PACK_HOSTS_H

#include "policies/policy.h"

struct dp_pack_hosts {
    uint32_t n; /* nodes with usable devices; 0: which slots share one is not known, or none do */
    uint32_t n_slots, batch_slot;
    uint32_t node[DP_MAX_WORKERS];  /* [n_slots] of a slot: 0 is home's; DP_NO_NODE: nothing usable on it */
    uint32_t size[DP_MAX_WORKERS];  /* [n] usable devices */
    uint32_t slot_size[DP_MAX_WORKERS]; /* [n_slots] of a slot */
};
#define DP_NO_NODE UINT32_MAX

/* in is not kept. */
void dp_pack_hosts_init(struct dp_pack_hosts *h, const struct dp_policy_in *in);

/* The slots with usable devices, those to keep first when n_devices are to be kept. slot: = [n_slots]. returns how many; 0 where
 * h->n is 0. The batch slot is the first; within a node they are in order. */
uint32_t dp_pack_hosts_order(const struct dp_pack_hosts *h, uint32_t n_devices, uint32_t slot[DP_MAX_WORKERS]);

struct dp_pack_used {
    uint32_t nodes, devices; /* devices: usable ones on these nodes */
};

/* Of the slots with keep[] (n_slots of them): on how many nodes are they, and how many usable devices do these have? Fewer nodes are
 * better, then fewer devices: the others are wholly given back. 0 and 0 where h->n is 0. */
struct dp_pack_used dp_pack_hosts_used(const struct dp_pack_hosts *h, const uint8_t *keep);
/* -1: a leaves more to others than b, 1: b than a, 0: neither. */
int dp_pack_hosts_compare(struct dp_pack_used a, struct dp_pack_used b);

#endif
