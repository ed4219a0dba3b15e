/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker writes about its costs over time, for `dynpipe simulate` (doc/simulator.md, "Trace of a
 * run"): JSON lines in the file <output.trace>.<rank>, a header and then one line a window of
 * metrics.h. A line is written and flushed whole. */
#ifndef DP_WORKER_TRAIN_LOG_TRACELOG_H
#define DP_WORKER_TRAIN_LOG_TRACELOG_H

#include <stdbool.h>

#include "common/message/msg.h"
#include "common/run/layout.h"
#include "worker/model/train_config.h"
#include "worker/net/link_times.h"
#include "worker/train/log/metrics.h"

struct dp_tracelog;

/* Where output.trace is empty, nothing is ever written. append: a resumed run goes on in its file. */
struct dp_tracelog *dp_tracelog_open(const struct dp_train_config *config, uint32_t rank, bool append, struct dp_err *err);
void dp_tracelog_close(struct dp_tracelog *log);
/* Before the first window. link: to the next worker. */
void dp_tracelog_header(struct dp_tracelog *log, const struct dp_train_config *config, const struct dp_backend *be, uint32_t rank,
                        uint32_t n_workers, const struct dp_link_times *link);
bool dp_tracelog_is_on(const struct dp_tracelog *log);

/* window: what the steps of a window cost. layout: the one they ran in. boundary_ns: time between steps
 * (pruning, hand-overs, evaluation, checkpoints) since the window before. */
void dp_tracelog_window(struct dp_tracelog *log, const struct dp_msg_report *window, const struct dp_metrics_rest *rest,
                        const struct dp_layout *layout, uint64_t boundary_ns);

#endif
