/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout from one of the policies of the running system, asked as its coordinator asks. */
#ifndef DP_POLICIES_SIM_BALANCE_H
#define DP_POLICIES_SIM_BALANCE_H

#include "policies/sim/stages.h"

/* Layout of layer[n_layers] over the first `devices` devices, by the named policy (DP_SIM_OWN_POLICY: c->own); *layout holds the
 * one in force, or none (n_used = 0), and becomes the new one. With several chunks a device each chunk
 * is a device to the policy, and device memory is no limit. Speeds are those of replica 0.
 * Beyond DP_MAX_LAYERS layers or DP_MAX_WORKERS stages policies are asked as balance_chain.h has it. */
int dp_sim_balance(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const char *policy, uint32_t devices,
                   struct dp_sim_layout *layout, struct dp_err *err);

#endif
