/* SPDX-License-Identifier: BSD-3-Clause */
/* What the walk of a network (net.c) has of its encoder. */
#ifndef DP_POLICIES_LEARN_ENCODER_H
#define DP_POLICIES_LEARN_ENCODER_H

#include "policies/learn/net/net.h"

/* [WIDTH] a unit after the last round. */
static inline const float *dp_net_unit(const struct dp_net_code *c, uint32_t unit)
{
    return c->x + ((size_t)DP_NET_ROUNDS * c->n + unit) * DP_NET_WIDTH;
}

/* dx: [units][WIDTH] of the loss by what dp_net_unit() gave; overwritten. grad: += the encoder's part.
 * returns 0 or -1 (DP_ENOMEM). */
int dp_net_encode_back(const struct dp_net *net, const struct dp_net_graph *g, const struct dp_net_code *c, float *dx, struct dp_net *grad,
                       struct dp_err *err);

#endif
