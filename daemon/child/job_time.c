/* SPDX-License-Identifier: BSD-3-Clause */
/* See job_time.h. Slurm's times are whole seconds, so a span between two of them may be a second too long. */
#include "config.h"

#include "daemon/child/job_time.h"

#include "common/clock.h"

uint64_t dp_job_left_ms(const struct dp_job_info *job, uint64_t now_ns, uint64_t wall_ns)
{
    uint64_t from_ms, since_ms;

    if (!job->end_s)
        return UINT64_MAX;
    if (!job->now_s) {
        from_ms = wall_ns / DP_MS_NS;
        since_ms = 0;
    } else {
        from_ms = (job->now_s + 1) * 1000;
        since_ms = now_ns > job->read_ns ? (now_ns - job->read_ns) / DP_MS_NS : 0;
    }
    return job->end_s * 1000 > from_ms + since_ms ? job->end_s * 1000 - from_ms - since_ms : 0;
}

uint64_t dp_job_began_ns(const struct dp_job_info *job, uint64_t boot_ns)
{
    uint64_t age_s;

    if (!job->start_s || job->now_s < job->start_s)
        return 0;
    age_s = job->now_s - job->start_s + DP_JOB_BEGAN_MARGIN_S;
    return boot_ns / DP_SECOND_NS > age_s ? boot_ns - age_s * DP_SECOND_NS : 0;
}
