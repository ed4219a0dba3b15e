/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of finished runs: one file each in state_dir/history, and an index of them in memory, so that nobody's
 * question reads the folder. The index is made by a child at start and kept up to date; files are written and read by
 * children.
 */
#ifndef DP_DAEMON_RUN_HISTORY_H
#define DP_DAEMON_RUN_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct dp_daemon;
struct dp_run;

struct dp_past {
    uint32_t job_id, restart_count, uid;
    bool is_writing; /* its file is on its way */
    uint64_t end_ms; /* wall clock */
};

/* The folder must be there. returns -1 when no child could be made. */
int dp_history_open(struct dp_daemon *d, struct dp_err *err);
void dp_history_close(struct dp_daemon *d);
bool dp_history_is_ready(const struct dp_daemon *d); /* the index is complete, or it never will be */

/* Keep the report of a run that is over; of one user the newest DP_HISTORY_OF_USER are kept. */
#define DP_HISTORY_OF_USER 1000u
/* Written by a child that sees the run as it is now; *run may go at once. A failure is logged, and the report lost. */
void dp_history_save(const struct dp_run *run);
/* The newest of a job; NULL: none. Borrowed until the next call of anything here. */
const struct dp_past *dp_history_find(const struct dp_daemon *d, uint32_t job_id);
/* About every 100 ms: what is older than history_hours by keep_clock.h goes, some at a time. */
void dp_history_tick(struct dp_daemon *d);
/* Journals of jobs that nobody knows any more (Slurm had forgotten the job when we came back), likewise. Before
 * the index is complete nothing goes. */
void dp_history_prune_journals(const struct dp_daemon *d);

/* For children, new references: the document (waits for one that is being written; NULL: it cannot be read), and one
 * line for each run of a user, root's for all. */
json_t *dp_history_load(const struct dp_daemon *d, const struct dp_past *past);
json_t *dp_history_list(const struct dp_daemon *d, uid_t uid);

#endif
