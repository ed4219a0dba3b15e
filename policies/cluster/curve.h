/* SPDX-License-Identifier: BSD-3-Clause */
/* The need of a training run over time, as a simulated run has it (policies/sim/): what `dynpipe simulate`
 * says of devices held, turned into a curve for jobs of a mix. */
#ifndef DP_POLICIES_CLUSTER_CURVE_H
#define DP_POLICIES_CLUSTER_CURVE_H

#include "policies/cluster/mix.h"
#include "policies/sim/case/case.h"

/* c passes dp_sim_case_check(), and is changed. out: steps and stretch are set.
 *
 * A step lies where the pause ends in which layers moved. The run without DynPipe is the same case with the
 * layout that it begins with: costs change, layers and devices stay, and nothing pauses for them. */
int dp_cluster_curve_simulate(struct dp_sim_case *c, struct dp_cluster_curve *out, struct dp_err *err);

#endif
