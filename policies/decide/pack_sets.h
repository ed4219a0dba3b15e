/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of whole slots to pack onto: what each could be at best, so that a policy is asked about few of them.
 *
 * The bound, for any layout on given devices. Let stage s, in the order of the pipeline, take t(s) for a microbatch
 * forward and back on a device of speed v(s); W = sum of v(s) t(s) is the work of all layers. In any schedule of
 * m microbatches a stage begins when the first one has come through the stages before it, and after its last
 * backward the gradient passes those:
 *     T >= sum of t(j), j < s,  +  m t(s)        for every s, and for a device without layers, too
 * Weights a(s) >= 0 with  m a(s) + sum of a(j), j > s, >= v(s)  give, added up,  T sum(a) >= W. The least such a
 * are found from the last device back. Also T >= W / fastest (one microbatch passes all layers), and m times the
 * heaviest layer on the fastest device. The optimizer follows: at least all of it spread evenly. Messages and
 * whole layers only make it longer.
 */
#ifndef DP_POLICIES_DECIDE_PACK_SETS_H
#define DP_POLICIES_DECIDE_PACK_SETS_H

#include "policies/decide/pack_hosts.h"
#include "policies/policy.h"

#define DP_SLOT_SETS 16384 /* at most so many sets are looked at: 14 slots that all differ */

/* A set is a number below n. In it are the slots that are always kept, the batch host's and those that stay, and of each
 * kind of other slots the first few. Slots are
 * of one kind where their devices are alike; each is a kind of its own while that makes no more than
 * DP_SLOT_SETS sets, since even among alike slots the place in the pipeline counts. */
struct dp_slot_sets {
    uint32_t n; /* 0: too many */
    uint32_t n_slots, n_kinds;
    bool is_kept[DP_MAX_WORKERS]; /* a slot is in every set */
    uint32_t size[DP_MAX_WORKERS];                       /* [n_kinds] slots */
    uint32_t kind[DP_MAX_WORKERS], place[DP_MAX_WORKERS]; /* of a slot; kind DP_NO_KIND: nothing usable on it */
};
#define DP_NO_KIND UINT32_MAX

/* The sets of in's slots; in is not kept. stays: [n_slots] as in struct dp_pack_rule, or NULL. Of a kind
 * the first ones are those of nodes with many slots. n 0: more
 * than DP_SLOT_SETS even by kinds, then only whole slots are packed. */
void dp_slot_sets_init(struct dp_slot_sets *sets, const struct dp_policy_in *in, const struct dp_pack_hosts *hosts, const uint8_t *stays);
/* has: = [n_slots] is the slot in the set? */
void dp_slot_sets_expand(const struct dp_slot_sets *sets, uint32_t set, bool *has);

struct dp_slot_set {
    uint32_t set, slots, devices; /* usable ones */
    uint64_t bound_ns;            /* no layout on it is faster */
    struct dp_pack_used used;     /* nodes that they are on */
};

/* The sets with at least min_devices on which limit_ns is not out of reach: those on few slots first, and among those
 * the ones with a low bound; by_efficiency: the least bound times devices first. Of equal ones those that leave the most nodes.
 * list: = malloc()ed, the caller's; NULL with *n 0 where there is none. returns 0 or -1 (DP_ENOMEM). */
int dp_slot_sets_rank(const struct dp_slot_sets *sets, const struct dp_policy_in *in, const struct dp_pack_hosts *hosts,
                      uint32_t min_devices, uint64_t limit_ns, bool by_efficiency, struct dp_slot_set **list, uint32_t *n,
                      struct dp_err *err);

/* No layout over the allowed devices of in takes less; UINT64_MAX: their memory is too small together. */
uint64_t dp_pack_bound_ns(const struct dp_policy_in *in);

#endif
