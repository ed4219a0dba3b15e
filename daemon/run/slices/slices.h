/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices: the tasks of a job array that are one run (--dynpipe-slices), each a job of its own with one worker on one node.
 *
 * The run has the name of one of them, home (group.h): home's job, on home's node, is the run, with its coordinator. On other
 * nodes a run of that name passes on, as on any node that is not the batch host. What a worker says it says as of its own job;
 * here it is found out which rank of which run that is, and all goes on as for the workers of one job.
 *
 * Who is a slice of what, Slurm says: here, that a job is a task of an array; on home's node, that a job runs as a task of home's
 * own array, with home's owner, on the node whose daemon speaks for it.
 */
#ifndef DP_DAEMON_RUN_SLICES_H
#define DP_DAEMON_RUN_SLICES_H

#include "daemon/child/slurm_job.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/group.h"

/* Why a run of companions stops: said where home's daemon hears of it, and where another one coordinates. */
#define DP_STOP_REQUEUED "the job that asked for the slices was requeued, and goes on from their checkpoint"

/* Is this run's job a slice, as its owner asked? The run of that name may be home at the same time. */
bool dp_slice_is(const struct dp_run *run);

/* The process of a worker of this slice speaks, in a step of its job. returns the run that it is a worker of, here, or NULL:
 * *text says why not (yet), valid until the next call; *is_refused: it never will be. */
struct dp_run *dp_slice_run(struct dp_run *slice, uint32_t step_id, uint32_t pid, const char **text, bool *is_refused);
/* Where the worker of a slice is in its run. */
struct dp_place {
    uint32_t rank, n_workers, n_there; /* n_workers: seats; n_there: that were taken when the run began */
    uint32_t step_id;                  /* under which the run's workers are known: home's */
    bool joins;                        /* it comes later */
};
/* Of a slice that dp_slice_run() has answered. */
struct dp_place dp_slice_place(const struct dp_run *slice);

/* For people. Of a slice that is not home: which run it is of, or for what it waits. returns false: it is none, or nobody of it
 * has come. Does it have its rank in the run of another job? */
bool dp_slice_tell(const struct dp_run *run, char *out, size_t cap);
bool dp_slice_is_of_other(const struct dp_run *run);

/* Of home. Does it have slices with their ranks? Is this rank that of a slice on this node (of this job; 0: of any)? */
bool dp_slices_are(const struct dp_run *home);
bool dp_slices_have(const struct dp_run *home, uint32_t rank, const char *node, uint32_t slice);
/* Is nobody in this seat of a run of slices? */
bool dp_slices_is_empty(const struct dp_run *home, uint32_t rank);
/* What the run's job is, after Slurm said what home's is: changed to that of the run where there are slices. */
void dp_slices_job(const struct dp_run *run, struct dp_job_info *job);
/* Home's job was read for the coordinator: Slurm is asked about the slices, too, and the coordinator told. job NULL: home's job is
 * over, and nobody waits: does any slice of its run still run? Else the run ends, in a later turn of the loop. */
void dp_slices_read_job(struct dp_run *home, const struct dp_job_info *job);
bool dp_slices_are_over(const struct dp_run *home); /* so it was */
/* The run's job is over: are there slices, here or, where this daemon coordinates, anywhere, that train on in its name? */
bool dp_slices_outlive(const struct dp_run *run);
bool dp_slice_lives(const struct dp_run *slice); /* does the process that has its rank still live? */
/* The same after a restart of this daemon, or on a node that hears of the run first when its job is over, or runs again: from the
 * journal, or what another daemon said of it. r: Slurm's answer, rc 0 or 1; of a job that runs, only in a life behind the run's, and
 * from a journal only where others still train (r->others). returns true with run->job filled in, as of the life that the run is of,
 * and run->coord where this daemon coordinates. */
bool dp_slices_find_run(struct dp_run *run, const struct dp_job_result *r);
/* The coordinator was opened from its journal: the slices are those that it has. */
void dp_slices_restore(struct dp_run *home);

/* For a coordinator that is lost (take_over.h). The slices here that have their rank in the run of this name: the first one, or the next
 * behind `after`; NULL: none. */
struct dp_run *dp_slices_here(const struct dp_run *home, const struct dp_run *after);
/* What Slurm said of a slice and the others of its run, when it was asked at since_ns or later; NULL: it is asked, look again. */
const struct dp_slices_result *dp_slices_seen(struct dp_run *slice, uint64_t since_ns);
void dp_slices_move(struct dp_run *home, const char *node); /* those here look there for the run from now on */
int dp_slices_adopt(struct dp_run *home, const struct dp_group *g); /* of a run that is coordinated here from now on; -1: no memory */
enum dp_slice_part {
    DP_PART_UNKNOWN, /* nothing was heard of its worker since this daemon began, or it waits to be let in again */
    DP_PART_NONE,    /* it is in no layout: it waits for its rank, or for being taken in, or was refused */
    DP_PART_OF_RUN,
};
enum dp_slice_part dp_slice_part_in(const struct dp_run *slice); /* a run, as this daemon knows */
void dp_slice_is_back(struct dp_run *slice, const struct dp_msg_hello *m); /* its worker said that, as one that is in a run */

/* Frames between daemons. */
void dp_slice_asked(struct dp_conn *c, const struct dp_msg_slice *m);
void dp_slice_answered(struct dp_conn *c, const struct dp_msg_slice_rank *m);

void dp_slices_tick(struct dp_run *run, uint64_t now_ns); /* about every 100 ms */
/* The run ends: forget what it is a slice or the home of. The run of home's name that passed on for it alone ends, too. */
void dp_slices_destroy(struct dp_run *run);

#endif
