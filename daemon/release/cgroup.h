/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's cgroups (version 2) of a job on this node: who is in them, and the end of all that is.
 *
 * A process of the job can clear its environment, leave its session and change its uid within a user name space; it
 * cannot leave the cgroup that slurmstepd put it in. Below the root of the hierarchy Slurm has
 *
 *   [.../]system.slice/[NODE_]slurmstepd.scope/job_J/step_S/user/...     tasks and all that they start
 *                                                   step_S/slurm         slurmstepd itself
 *
 * and from 26.05 on an id that changes with every shrink in the place of job_J (unless CgroupJobIdPaths=yes). So the
 * folders of a job are those in which root's own slurmstepds of its steps sit, and job_J where one is. Nothing of it
 * comes from a message. Version 1 is cgroup_v1.h's. Where Slurm keeps no such folders (proctrack/linuxproc, an ordinary
 * user's Slurm) there is nothing to find, and the proof rests on the processes alone.
 */
#ifndef DP_DAEMON_RELEASE_CGROUP_H
#define DP_DAEMON_RELEASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/release/cgroup_v1.h"
#include "daemon/release/empty_slot.h"

#define DP_CGROUP_STEPS 256 /* of one job on one node; with more there is no proof by cgroups */
#define DP_CGROUP_SCOPES 4 /* of slurmd's: one, or one for each slurmd of a test machine */
#define DP_CGROUP_PATH 512 /* of a step's group; a longer one is none of Slurm's */

struct dp_cgroup_step {
    uint32_t job_id;
    char path[DP_CGROUP_PATH]; /* .../step_S, as /proc/PID/cgroup shows it */
};

struct dp_cgroups {
    uint32_t n_scopes; /* of Slurm on this node; 0: it keeps none */
    char scope[DP_CGROUP_SCOPES][DP_CGROUP_PATH];
    uint32_t n;        /* steps of the job, and of its owner's others on this node */
    struct dp_cgroup_step step[DP_CGROUP_STEPS];
    bool is_incomplete; /* more than we can look at */
    struct dp_cgroup_v1 v1;
};

/* Find the folders of q's job and of q's other jobs. */
void dp_cgroups_read(const struct dp_empty_job *q, struct dp_cgroups *out);

/* Does a step of this job have it? text: what /proc/PID/cgroup says of a process. */
bool dp_cgroups_have(const struct dp_cgroups *c, uint32_t job_id, const char *text);

/* How many steps of the job still have processes beside Slurm's own; one that cannot be looked at counts. which: = the
 * last of them. The step of sshd's guests (extern) is not among them: Slurm keeps a process of its own in there. */
uint32_t dp_cgroups_populated(const struct dp_cgroups *c, uint32_t job_id, char *which, size_t cap);

/* End all processes in these at once (cgroup.kill, Linux 5.14), whoever's they are. slurmstepd is in none of them.
 * returns: in how many of them. */
uint32_t dp_cgroups_kill(const struct dp_cgroups *c, uint32_t job_id);

#endif
