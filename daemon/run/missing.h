/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has not come yet, daemon or worker, and what those who wait are told. */
#ifndef DP_DAEMON_RUN_MISSING_H
#define DP_DAEMON_RUN_MISSING_H

#include "daemon/run/run.h"

void dp_run_joined(struct dp_run *run, const char *node);
void dp_run_missing_tick(struct dp_run *run, uint64_t now_ns);
void dp_run_why_waiting(const struct dp_run *run, char *out, size_t cap);
void dp_workers_explain(struct dp_run *run, uint64_t now_ns); /* HELLOs that have waited for long: tell why */

#endif
