/* SPDX-License-Identifier: BSD-3-Clause */
/* The network of parts.dpw as a source of placements (policies/graph/source.h): its likeliest one first, then drawn ones. */
#ifndef DP_POLICIES_LEARN_PLACE_H
#define DP_POLICIES_LEARN_PLACE_H

#include "policies/graph/source.h"
#include "policies/learn/net/weights.h"

/* w: PARTS; must outlive what comes back, and may serve several searches at a time. */
struct dp_place_source dp_weights_placer(const struct dp_weights *w);

#endif
