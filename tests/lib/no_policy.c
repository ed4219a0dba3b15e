/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object that is no policy: one without decide(), or with NO_SYMBOL one that exports another name. */
#include "policies/policy.h"

#ifdef NO_SYMBOL
#define dp_policy_v1 something_else
#endif

extern const struct dp_policy dp_policy_v1;
const struct dp_policy dp_policy_v1 = {.abi = DP_POLICY_ABI, .name = "no policy", .help = "decides nothing"};
