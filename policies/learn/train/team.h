/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that share out whole tasks. What comes out does not depend on how many they are. */
#ifndef DP_POLICIES_LEARN_TEAM_H
#define DP_POLICIES_LEARN_TEAM_H

#include <stdint.h>

#include "common/err.h"

#define DP_TEAM_MOST 64u /* threads */

/* Task `which`; nothing that another task writes may be read. returns 0, or -1 with an error. */
typedef int dp_team_fn(void *arg, uint32_t which, struct dp_err *err);

/* fn(arg, i) for all i below n, each once, on at most n_threads >= 1 threads, this one among them; where no thread can be
 * started those that there are do it. returns 0, or -1 with the error of the lowest task that failed. */
int dp_team_run(uint32_t n_threads, uint32_t n, dp_team_fn *fn, void *arg, struct dp_err *err);

#endif
