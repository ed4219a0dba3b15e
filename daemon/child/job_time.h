/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's times on this node's clocks that nobody sets. Slurm says when a job began and when its time is over, by the clock
 * of its controller, and what that clock is: the spans between these count, and the node's own time of day does not.
 */
#ifndef DP_DAEMON_CHILD_JOB_TIME_H
#define DP_DAEMON_CHILD_JOB_TIME_H

#include <stdint.h>

#include "common/slurm/job.h"

#define DP_JOB_BEGAN_MARGIN_S 60 /* the controller's clock may have been set back a little since the job began */

/* Milliseconds until the job's time is over, at most a second too few; UINT64_MAX: it has no limit. now_ns: dp_now_ns();
 * wall_ns: dp_wall_ns(), which counts only where the controller's clock is not known. */
uint64_t dp_job_left_ms(const struct dp_job_info *job, uint64_t now_ns, uint64_t wall_ns);

/* Nanoseconds from the node's boot until shortly before the job began, 0: not known. boot_ns: since boot, when the job was
 * asked about or before that. */
uint64_t dp_job_began_ns(const struct dp_job_info *job, uint64_t boot_ns);

#endif
