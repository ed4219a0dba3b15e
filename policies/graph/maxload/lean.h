/* SPDX-License-Identifier: BSD-3-Clause */
/* dp_maxload_solve() without a table: for many devices and long orders. Is there an answer within a bound? Then the least
 * such bound, by bisection. For a bound let
 *
 *   least(I, c) = the smallest k so that accelerators 1 .. k and c CPUs do I, each within the bound
 *               = min over ideals J within I of  the first accelerator behind least(J, c) that takes I - J
 *                                           and  least(J, c - 1), where a CPU takes I - J
 *
 * Accelerators have a fixed order and any may stay idle, and a later one has to keep no more microbatches; so who is done
 * earlier in that order is never worse off, and the smallest k is all that there is to know of an ideal: one number for each
 * count of CPUs, where the table has one for each number of accelerators, too.
 *
 * In an order whose nets join neighbours only, on accelerators that are alike and have no limit of memory, a stage from cut i to cut j
 * fits where  C(j) + x(j) - bound <= C(i) - x(i)  (C: compute before the cut, x: traffic over it). So of all cuts with the
 * same least() one counts, that with the largest C - x, and few values of least() are in question for a cut: a
 * bound is tried in linear time, whatever the number of accelerators. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_LEAN_H
#define DP_POLICIES_GRAPH_MAXLOAD_LEAN_H

#include "policies/graph/maxload/maxload.h"

/* As dp_maxload_solve(), which calls it; but only for what is better than best_ns, where that is set, and with the best so far
 * in *out, if there is one, when it is too much or ended. */
int dp_lean_solve(const struct dp_maxload *q, struct dp_maxload_answer *out, struct dp_err *err);

/* Do all nets of an order join neighbours, and is nothing else in the way of the quick search above? */
bool dp_lean_is_plain(const struct dp_maxload *q);

#endif
