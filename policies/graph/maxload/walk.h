/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks from an ideal down to all ideals below it, with the load of what lies between on the way. For the
 * max-load searches (maxload.c, lean.c).
 *
 * A walk visits every ideal J below I once, depth first, and keeps the sums of I - J: one unit more or less costs as much as
 * the unit has nets. Compute, memory and "only on a CPU" never fall as J shrinks, so it turns round where neither kind
 * of device could take I - J within the bound. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_WALK_H
#define DP_POLICIES_GRAPH_MAXLOAD_WALK_H

#include "policies/graph/maxload/maxload.h"

#define DP_WALK_NEVER UINT64_MAX

struct dp_walk {
    const struct dp_maxload *q; /* borrowed */
    uint64_t bound_ns;
    uint64_t most_ns;           /* that the fastest accelerator does within the bound, or a little more */
    uint32_t *seen;             /* [ideals] number of the walk that came here last */
    uint32_t number;            /* of this walk */
    uint32_t *held;             /* [nets] units of the net in I - J */
    struct dp_ideal_step *path; /* [units] the steps from I down to J */
    uint32_t *next;             /* [units + 1] next step to try at each depth */
    uint32_t depth;
    uint64_t accel_ns, cpu_ns, bytes, kept_bytes, traffic_ns; /* of I - J */
    uint32_t n_only_on_cpu;
    uint64_t *work_ns;   /* [ideals] of what an accelerator can run, on one */
    uint64_t *spared_ns; /* [n_cpus + 1] at most so much of it can so many CPUs take within the bound */
    uint64_t steps;
};

/* Numbers of accelerators that make sense for an ideal. */
struct dp_walk_window {
    uint32_t low, high; /* low > high: none */
};

/* q: as asked, but that it must stay. returns 0, or -1 without memory; either way release it. */
int dp_walk_create(struct dp_walk *w, const struct dp_maxload *q);
void dp_walk_release(struct dp_walk *w);
/* What takes longer is of no interest from now on. returns 0, or -1 without memory. */
int dp_walk_limit(struct dp_walk *w, uint64_t bound_ns);

/* A walk over all ideals J below I = `from`, by removing one unit at a time; sums of I - J start at 0. One walk at a
 * time. */
void dp_walk_begin(struct dp_walk *w, uint32_t from);
/* On to the next ideal below `from`. returns: its number, or UINT32_MAX at the end; then all sums are 0. */
uint32_t dp_walk_next(struct dp_walk *w, uint32_t from);
/* End it where it is. */
void dp_walk_leave(struct dp_walk *w);

/* Could an accelerator take this and more, if traffic were free? */
bool dp_walk_accel_may(const struct dp_walk *w);
/* The first accelerator with few enough behind it for what it would keep; n_accel + 1: none. What accel_may() take. */
uint32_t dp_walk_first_with_room(const struct dp_walk *w);
/* On accelerator k, from 1, or on a CPU; DP_WALK_NEVER beyond the bound. Where accelerators are alike k is any. */
uint64_t dp_walk_accel_load(const struct dp_walk *w, uint32_t k);
uint64_t dp_walk_cpu_load(const struct dp_walk *w);

/* No fewer than its own work needs within the bound beside so many CPUs, and not so many that too few are left for the
 * rest. */
struct dp_walk_window dp_walk_window_at(const struct dp_walk *w, uint32_t ideal, uint32_t cpus);

#endif
