/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job's batch script was given: its environment and its arguments, as the process of the script has them on the batch
 * host. Slurm keeps neither. Read with the rights of the job's owner, whose they are, and handed to nobody else.
 */
#ifndef DP_DAEMON_RELEASE_BATCH_ENV_H
#define DP_DAEMON_RELEASE_BATCH_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_BATCH_ADDED 11 /* variables at most that the script's process shows in another way */

struct dp_batch_env {
    char **env, **argv; /* NULL at the end; env: what another job like this may have; argv: the script's name and arguments */
    void *owned[2 + DP_BATCH_ADDED];
};

/* node: of the job's slurmd, where several share the machine. command: the script and its arguments in one line, for where the
 * process does not show them. conf: of this process's Slurm, NULL: not known; private Slurms of tests count jobs alike. least: 2
 * where only a process will do that is known to be of that Slurm, else 1 (dp_batch_env_is()). Names that are of the old job alone
 * (dp_batch_env_keeps()) are left out. returns 0, or -1 and why: the script's process was not found, or may not be read. */
int dp_batch_env_read(uint32_t job_id, const char *node, const char *conf, int least, const char *command, struct dp_batch_env *out,
                      struct dp_err *err);
void dp_batch_env_release(struct dp_batch_env *e); /* takes a struct of zeroes, too */

/* Does a variable, NAME=VALUE, belong to whoever submitted the job, so that another one like it shall have it? Slurm's own do where
 * sbatch made them of its options (srun reads them, and SPANK options travel in them); those that name the job, its nodes or
 * devices are made anew for each. */
bool dp_batch_env_keeps(const char *variable);

/* The i-th of the variables that slurmd takes out of the environment (DP_BATCH_ADDED of them), NAME=VALUE, as text, a file of
 * /proc/pid of that name, shows it. The caller frees it; NULL: it does not, or there is no memory. */
char *dp_batch_env_shown(unsigned i, const char *file, const char *text);

/* Of an environment or command line as /proc has it, NUL behind each: is this one of the script of this job, on that node?
 * returns 0: no; 1: yes; 2: yes, and of the same Slurm. */
int dp_batch_env_is(const char *env, size_t bytes, uint32_t job_id, const char *node, const char *conf);
/* The first of the script's arguments in a command line; NULL: it does not show the script (which began another program). */
const char *dp_batch_env_arguments(const char *line, size_t bytes);

#endif
