/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator of a run on its batch host: its journal, and what it asks for. */
#ifndef DP_DAEMON_RUN_COORDINATE_H
#define DP_DAEMON_RUN_COORDINATE_H

#include "daemon/coord/coordinator.h"
#include "daemon/run/run.h"

enum dp_run_open {
    DP_RUN_OPEN_STEP, /* begin, or go on from the journal */
    DP_RUN_OPEN_REST, /* only to finish what the journal holds: not when the step in it is over */
};
/* returns 0 with run->coord, or NULL there when nothing is left to finish; -1 on an error. */
int dp_run_coord_open(struct dp_run *run, enum dp_run_open what, struct dp_err *err);
bool dp_run_coord_has_journal(const struct dp_run *run);
/* Slurm does not say which life of its job a run is of: that of the newest journal here. returns false: there is none. */
bool dp_run_coord_find_life(const struct dp_run *run, uint32_t *restarts);
/* Of a run of slices of which a journal is left here: those but home that trained in it, which life of each, for a question to Slurm
 * (out->asks_others, n_others, other[]). Nothing is begun, or written. */
void dp_run_coord_ask_others(struct dp_run *run, struct dp_job_request *out);
/* has_ended: the step, whose report is kept. The journal stays for the job's next step, which must know
 * the slots that are gone and the shrinks that are used. */
void dp_run_coord_close(struct dp_run *run, bool has_ended);
/* The one before is lost: a coordinator of what its workers say (dp_coord_take_over()), with a journal of its own. job: seats by rank.
 * returns 0 with run->coord, or -1. */
int dp_run_coord_take_over(struct dp_run *run, const struct dp_job_info *job, const struct dp_survivor *survivor, uint32_t n,
                           struct dp_err *err);
void dp_run_coord_time(struct dp_run *run); /* Slurm said anew how long the job may run */
void dp_run_coord_forget(const struct dp_run *run); /* the job is over: its journal goes */
void dp_run_coord_hello(struct dp_run *run, const char *from, uint32_t pid, const struct dp_msg_hello *m,
                        struct dp_msg_welcome *welcome);
int dp_run_coord_frame(struct dp_run *run, const char *from, uint32_t rank, enum dp_msg_type type,
                       const uint8_t *body, size_t bytes, struct dp_err *err);
void dp_run_coord_lost(struct dp_run *run, const char *from, const struct dp_msg_worker_lost *m);
void dp_run_coord_node_lost(struct dp_run *run, const char *node);

#endif
