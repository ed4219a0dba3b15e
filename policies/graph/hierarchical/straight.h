/* SPDX-License-Identifier: BSD-3-Clause */
/* The best straight pipeline of an order, one device a stage, without a table: for hierarchical.c, where that of ranges.h
 * would be too large.
 *
 * Within a bound a device does so much, a link carries what crosses only some cuts, and the k-th device keeps what is under
 * way behind it, which is the less the larger k is. So let every device take units up to the last such cut that it can: no
 * other way has come farther after k devices, since what is left of a stage that begins later fits as well. The least bound
 * within which all units are placed is found by bisection over what doubles can hold. */
#ifndef DP_POLICIES_GRAPH_HIERARCHICAL_STRAIGHT_H
#define DP_POLICIES_GRAPH_HIERARCHICAL_STRAIGHT_H

#include "policies/graph/hierarchical/ranges.h"

/* Is the question one for this? n: ideals of an order. */
bool dp_straight_is_for(const struct dp_ranges *h, double n);

/* After dp_ranges_create(), for h->ideals of an order and one level.
 * end: [devices] = ideal behind each device that has work, n_stages: = how many these are.
 * returns: seconds of the slowest stage or link; INFINITY: there is no plan below h->below_s; -1: out of memory. */
double dp_straight_solve(struct dp_ranges *h, uint32_t *end, uint32_t *n_stages);

#endif
