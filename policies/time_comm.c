/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy time-comm: as policy time, for workers that compute nothing while they send: a device that holds
 * layers also pays for the messages over its borders, an activation and a gradient of every
 * microbatch. Inner devices have two borders and so get less to compute; which ones are inner follows from
 * who holds layers, and where messages are dear it can be better to leave a device empty. */
#include "policies/balancer.h"

DP_BALANCER_POLICY(time_comm, "time-comm", DP_BY_TIME_COMM, dp_balancer_minmax,
                   "as time, messages that stop computing included");
