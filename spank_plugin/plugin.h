/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the plugin share. Each file serves one Slurm context; spank_dynpipe.c holds the
 * symbols that Slurm looks for and hands each call to the file of the context it came in. */
#ifndef DP_SPANK_PLUGIN_H
#define DP_SPANK_PLUGIN_H

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "common/conf/plugin_args.h"

/* Set for the tasks of a step that the daemon knows, beside the DYNPIPE_* of the options. */
#define DP_ENV_SOCKET "DYNPIPE_SOCKET"
#define DP_ENV_JOB "DYNPIPE_JOB_ID"
#define DP_ENV_STEP "DYNPIPE_STEP_ID"
#define DP_ENV_NODE "DYNPIPE_NODE"
extern const char *const dp_task_env[]; /* all four, NULL at the end */

/* What the option callbacks collected. */
struct dp_given {
    struct dp_msg_step_start options;
    bool is_refused; /* --no-dynpipe */
    bool is_bad;     /* a value did not pass (slurmstepd only: elsewhere it ends the command) */
};

/* sbatch, salloc, srun: before options are read. */
void dp_allocator_init(void);
/* A value that does not pass is reported on the user's terminal.
 * returns: 0, or -1, which makes the command end before anything is queued. */
int dp_allocator_option(struct dp_given *given, const struct dp_option_def *def, const char *text,
                        const struct dp_plugin_args *args);
/* After all options: take in the environment, check the whole, pass it on.
 * returns: 0, or -1 when the user has to correct something (already reported). */
int dp_allocator_finish(const struct dp_given *given, const struct dp_plugin_args *args);

/* slurmstepd. None of these can fail a step, except dp_remote_task_init, nor hold up more than a task, as
 * dp_remote_task_init_privileged may do. */
void dp_remote_option(struct dp_given *given, const struct dp_option_def *def, const char *text,
                      const struct dp_plugin_args *args);
void dp_remote_start(spank_t sp, const struct dp_given *given, const struct dp_plugin_args *args);
void dp_remote_user_init(spank_t sp);
/* In the task's own process, still as root: waits until it is known whether it may start here. */
void dp_remote_task_init_privileged(void);
/* Runs in the task's own process; ends it when this node is fenced off for the run. */
void dp_remote_task_init(spank_t sp);
/* Once for each task of this node, in slurmstepd, before any of their programs starts. */
void dp_remote_task_forked(spank_t sp);
void dp_remote_task_exit(spank_t sp);
void dp_remote_end(void);

#endif
