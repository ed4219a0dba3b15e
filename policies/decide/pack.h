/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing: the fewest slots that still meet the reference (design.md, "When to move, when to pack").
 *
 * For sets of devices, the policy's layout is predicted by the simulator (bubble, links, memory). Only
 * whole slots free anything, and the batch host's never leaves, so of all sets that meet the reference
 * the one on the fewest slots wins, and among those the fastest. Where all devices and slots are alike
 * only their number counts. Else, up to DP_PACK_SETS devices every set of them is tried; for more, every
 * set of whole slots where those are few, and sets that grow device by device and slot by slot from the
 * batch host on, in the order of the slots and, where slots differ, from the strongest to the weakest. Where sets
 * of slots are many, a lower bound for each (pack_sets.h) says which to ask about next, and when none can be
 * better than the best one known.
 *
 * Where several slots share a node (slices), which ones are kept decides what others get: of sets that are as good as the best,
 * but for DP_PACK_EQUAL of its time, that one is chosen which leaves the most nodes (pack_hosts.h).
 */
#ifndef DP_POLICIES_DECIDE_PACK_H
#define DP_POLICIES_DECIDE_PACK_H

#include "common/message/msg.h"
#include "common/run/run_limits.h"
#include "policies/decide/pack_hosts.h"
#include "policies/policy.h"

#define DP_PACK_SETS 6  /* up to so many devices, or slots besides the batch host's, every set of them is tried */
#define DP_PACK_ALL 48  /* up to so many, every number of them */
#define DP_PACK_GRID 24 /* numbers tried beyond that, before the search between two of them */
#define DP_PACK_ASKS 128 /* sets of slots asked about beyond those, the ones that could be best first; of more than
                            16 devices fewer, since each takes longer */
/* the grid of an order and its search are fewer than DP_PACK_ALL; three orders */
#define DP_PACK_EQUAL 0.03 /* of predicted time: for less no layer moves (run.hysteresis), and no node is kept */
#define DP_PACK_OPTIONS ((1 << DP_PACK_SETS) + 3 * DP_PACK_ALL + DP_PACK_ASKS)

/* What counts among the options that meet the reference. */
struct dp_pack_rule {
    struct dp_pack_limits limits;
    /* START: the iteration of the run before pruning; FIXED: that of the layout that it started with, on all devices that
     * it began with, with the loads of now. 0: unknown yet. */
    uint64_t reference_ns;
    bool is_sliced; /* slots are slices, and are called so */
    const uint8_t *stays; /* [n_slots] 1: kept, and counted, whatever is packed, as the batch host's is; NULL: none but that */
};

struct dp_pack_option {
    uint32_t devices; /* that may own layers */
    uint32_t slots;   /* that hold them, and those that are always kept */
    uint32_t devices_kept; /* on those slots */
    struct dp_pack_used used; /* nodes that they are on */
    uint32_t nodes;   /* that own layers in its layout; 0: no layout */
    uint64_t iteration_ns; /* predicted; 0: no layout, see why */
    bool meets;            /* the reference, min_devices and min_nodes */
    char why[96];          /* why not, where it does not */
};

struct dp_pack {
    struct dp_policy_out best; /* layout of the choice */
    uint32_t devices, slots;   /* of the choice */
    uint32_t least_slots; /* no layout on fewer meets the reference, whatever the policy; 0: unknown */
    uint8_t keep_slot[DP_MAX_WORKERS];
    uint64_t limit_ns;   /* longest iteration that meets the reference; 0: no reference, no packing */
    uint64_t fastest_ns; /* best prediction of all */
    uint32_t n_options;
    struct dp_pack_option option[DP_PACK_OPTIONS];
    char reason[256];
};

/* in: devices with is_allowed are the ones that may be used at all. Fills *out (large: keep it on the
 * heap). Without any option that meets the reference the fastest layout is chosen.
 * returns 0, or -1 when no number of devices has a layout, or when the policy is broken
 * (dp_policy_is_broken(): then it is not asked again). */
int dp_pack_choose(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                   const struct dp_pack_rule *rule, struct dp_pack *out, struct dp_err *err);

/* Loads that are expected later in the run. */
struct dp_pack_later {
    const struct dp_layer_load *layer;
    const uint64_t *layer_opt_ns;
    uint64_t limit_ns; /* longest iteration that meets the reference then */
};

/* As dp_pack_choose(), but a set of slots is only given up when those that are kept meet the reference with each of
 * the later loads, too: what was given back does not come again. */
int dp_pack_choose_lasting(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                           const struct dp_pack_rule *rule, const struct dp_pack_later *later, uint32_t n_later,
                           struct dp_pack *out, struct dp_err *err);

/* Longest iteration that these limits allow beside one of reference_ns. */
uint64_t dp_pack_limit_ns(const struct dp_pack_limits *limits, uint64_t reference_ns);
/* The same, for people: "86.470 ms", or "any time" for UINT64_MAX. returns out. */
#define DP_PACK_ALLOWED 40
const char *dp_pack_allowed(uint64_t limit_ns, char out[DP_PACK_ALLOWED]);

#endif
