/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's cgroups of version 1 of a job on this node: who is in them, and the end of a freeze.
 *
 * Below the root of each hierarchy that Slurm uses (freezer with proctrack/cgroup, and those of task/cgroup) it has
 *
 *   slurm[_NODE]/uid_U/job_J/step_S[/task_T]
 *
 * In some of them slurmstepd sits itself, and in step_extern a process of Slurm's. A frozen process dies of a signal only
 * when it is thawed; there is no cgroup.kill.
 */
#ifndef DP_DAEMON_RELEASE_CGROUP_V1_H
#define DP_DAEMON_RELEASE_CGROUP_V1_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/release/empty_slot.h"

#define DP_CGROUP_V1_PIDS 65536 /* of one job, once for each hierarchy; with more there is no proof */

struct dp_cgroup_v1 {
    uint32_t n, pid[DP_CGROUP_V1_PIDS]; /* in the job's folders, ascending, each once; but for those in step_extern */
    uint32_t n_frozen;                  /* folders of it */
    bool is_kept;                       /* Slurm has folders of this version on this node */
    bool is_incomplete;                 /* some could not be looked at */
};

/* Read the folders of q's job. Root's folders only, and without following a link. */
void dp_cgroup_v1_read(const struct dp_empty_job *q, struct dp_cgroup_v1 *out);

/* Is this process in one of them? */
bool dp_cgroup_v1_has(const struct dp_cgroup_v1 *c, uint32_t pid);

/* Thaw the job's folders. One above them, which other jobs share, stays as it is. returns: how many. */
uint32_t dp_cgroup_v1_thaw(const struct dp_empty_job *q);

#endif
