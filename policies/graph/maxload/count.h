/* SPDX-License-Identifier: BSD-3-Clause */
/* A lower bound by counting stages: all compute has to be in stages that hold no more of it than their traffic leaves time for.
 *
 * Let phi(u, e) be the least of e * compute + nets cut over all sets with unit u that a stage can be (flow.h). A stage with u and
 * a load of T = compute + nets has e * compute + nets >= phi(u, e), so that its compute is at most
 *
 *   most(u, T) = min over e of (T - phi(u, e)) / (1 - e)          (e = 0: T itself)
 *
 * Each unit has at least compute(u) / most(u, T) of its stage, and all units of a stage have 1 of it together: where these
 * shares add up to more than there are accelerators, no plan has a load of T or less.
 *
 * Sets that phi looks at hold nothing that is too far from u: two units between which so much compute lies that a stage with both
 * is no faster than a plan that is known already. Else phi would be that of the whole network, which has no nets to pay for. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_COUNT_H
#define DP_POLICIES_GRAPH_MAXLOAD_COUNT_H

#include "policies/graph/units.h"

/* For n_accel equal accelerators, one stage each, no CPUs; memory is left out, which makes a bound lower, never wrong.
 * known_ns: load of some plan. max_steps: arcs that may be looked at, after which units count as without traffic; 0: a part of a tenth
 * of a second. bound_ns: a lower bound; = this one where it is higher, at most known_ns.
 * returns 1: it is higher, 0, or -1 (DP_ENOMEM). */
int dp_bound_count(const struct dp_units *u, uint32_t n_accel, uint64_t known_ns, uint64_t max_steps, uint64_t *bound_ns,
                   struct dp_err *err);

#endif
