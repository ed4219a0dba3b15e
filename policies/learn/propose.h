/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks as a source of orders for a search (policies/graph/source.h): of each one its best order, then orders drawn from all of
 * them in turn. */
#ifndef DP_POLICIES_LEARN_PROPOSE_H
#define DP_POLICIES_LEARN_PROPOSE_H

#include "policies/graph/source.h"
#include "policies/learn/net/weights.h"

/* w: at least one network; must outlive what comes back, and may serve several searches at a time. */
struct dp_order_source dp_weights_source(const struct dp_weights *w);

#endif
