/* SPDX-License-Identifier: BSD-3-Clause */
/* When the clock asks for a checkpoint: every so often, and before the time of the job is over.
 *
 * Rank 0 alone has one; what it finds due is a request (step_order.h) like a signal's, so all save and stop
 * together, and no clock changes a bit of the training. Times are monotonic.
 */
#ifndef DP_WORKER_TRAIN_SAVE_CLOCK_H
#define DP_WORKER_TRAIN_SAVE_CLOCK_H

#include <stdint.h>

#include "worker/model/train_config.h"

struct dp_save_clock {
    const struct dp_train_config *config; /* borrowed */
    uint64_t start_ns, tried_ns;          /* of the run; end of the newest attempt to save, or the start */
    uint64_t end_ns;                      /* of the job's time, 0: not known, or without end */
    uint64_t mark_ns, step_ns, save_ns;   /* newest boundary; what a step and a save take */
    uint64_t eval_ns;                     /* what an evaluation takes, 0: there was none yet */
};

/* What a boundary spent on them, 0: there was none. */
struct dp_save_clock_took {
    uint64_t save_ns, eval_ns;
};

/* The run begins now; config is borrowed. */
void dp_save_clock_start(struct dp_save_clock *c, const struct dp_train_config *config, uint64_t now_ns);
/* When the job's time is over; it may change while the run lasts. 0: not known, or without end. */
void dp_save_clock_end_at(struct dp_save_clock *c, uint64_t end_ns);
/* `step` steps are done (before the boundary). returns: enum dp_step_request bits, 0 where checkpoint.dir is empty. */
uint32_t dp_save_clock_requests(struct dp_save_clock *c, uint64_t now_ns, uint64_t step);
/* The boundary is done. */
void dp_save_clock_boundary(struct dp_save_clock *c, uint64_t now_ns, const struct dp_save_clock_took *took);
/* When Slurm said that this job ends, by the variable that newer ones set; 0: not said. */
uint64_t dp_save_clock_env_end(uint64_t now_ns, uint64_t wall_ns);

#endif
