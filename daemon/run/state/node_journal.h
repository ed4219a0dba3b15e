/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of a node: which jobs are registered here, and which must never run here again.
 * It is what a daemon that was killed remembers its runs by.
 */
#ifndef DP_DAEMON_RUN_NODE_JOURNAL_H
#define DP_DAEMON_RUN_NODE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/message/msg.h"

struct dp_node_journal;

/* What is known of one job. */
struct dp_node_job {
    struct dp_node_job *next;
    uint32_t job_id;
    struct dp_msg_step_start start;     /* as the plugin registered it last */
    bool is_fenced;
    uint32_t fence_restart;             /* restart count of the job that was fenced */
    uint32_t fence_incarnation;         /* of the coordinator that asked for it */
};

/* Read what is there, or begin a new file (0600). NULL with the error: another daemon has it open, it is damaged
 * (DP_ECORRUPT), or it cannot be written. */
struct dp_node_journal *dp_node_journal_open(const char *path, struct dp_err *err);
/* Close the file, free what is known; NULL is fine. The file stays. */
void dp_node_journal_destroy(struct dp_node_journal *l);

/* Without a file, to be fed records: what opening makes of them (tests). */
struct dp_node_journal *dp_node_journal_create(struct dp_err *err);
int dp_node_journal_replay(struct dp_node_journal *l, uint8_t type, const void *payload, size_t bytes, struct dp_err *err);

/* Each is durable when it returns 0. When adopt or fence returns -1, nothing is known of it here, though a
 * restart may know it. end forgets the job in any case: a restart that finds it asks Slurm again. */
int dp_node_journal_adopt(struct dp_node_journal *l, const struct dp_msg_step_start *start, struct dp_err *err);
int dp_node_journal_fence(struct dp_node_journal *l, uint32_t job_id, uint32_t restart, uint32_t incarnation,
                      struct dp_err *err);
int dp_node_journal_end(struct dp_node_journal *l, uint32_t job_id, struct dp_err *err);

/* Why its newest record could not be written; NULL when it could. Valid until the next record. */
const char *dp_node_journal_trouble(const struct dp_node_journal *l);

/* The jobs that are known, by `next`, in no order; NULL: none (of that id). Borrowed until the next adopt, fence or
 * end. */
const struct dp_node_job *dp_node_journal_first(const struct dp_node_journal *l);
const struct dp_node_job *dp_node_journal_find(const struct dp_node_journal *l, uint32_t job_id);

#endif
