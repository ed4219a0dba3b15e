/* SPDX-License-Identifier: BSD-3-Clause */
/* Companions of a job are asked of Slurm, and withdrawn, with the rights of the job's owner: jobs like it (the same script, account,
 * QOS, partition, reservation, GPUs and what else was asked for), with what is left of its time, that are slices of its run. And
 * the comments of a run's jobs are set, which squeue and sacct show. So all limits that Slurm has for the owner hold.
 *
 * Where the job is a task of an array its companions are the array's, and name that in their comments: so they are the same ones
 * whichever task is home, and are found when that is over.
 *
 * Never twice: Slurm is asked first which companions there are, by their comments (slice_comment.h), and only one process of a
 * node asks for a job at a time. A request that got no answer is left alone until the answer to a later question shows what became of it.
 */
#ifndef DP_DAEMON_RELEASE_ASK_SLICES_H
#define DP_DAEMON_RELEASE_ASK_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/slurm/job.h"

struct dp_ask_request {
    uint32_t job_id, restart_count; /* home; or, of an array, the task that others are to be like */
    uint32_t home_job;     /* whose run it is: for one of these one process of a node asks at a time */
    uint32_t wanted;       /* companions, waiting and running together: more are submitted, or waiting ones withdrawn, the newest first */
    uint32_t slices;       /* of the run, home too: as its owner asked */
    uint64_t since_s;      /* those that have ended count, too, where they were submitted at this time or later */
    uint8_t may_submit;    /* 0: only look, and withdraw */
    uint8_t is_settled;    /* whatever was asked before shows in what Slurm says; 0: not where somebody asked for this job before */
    uint8_t is_over;       /* the run is over: all that wait are withdrawn, asked again until the deadline */
};

enum dp_ask_end {
    DP_ASK_DONE,     /* numbers are as read, and changed by what was done */
    DP_ASK_REFUSED,  /* Slurm, or what the job is, forbids to submit as many: text says why */
    DP_ASK_UNSURE,   /* no answer: it may have been done or not. Or only looked at because of is_settled: text "" */
    DP_ASK_FAILED,   /* nothing was asked for: Slurm does not answer, or the job's script has not begun */
};

struct dp_ask_result {
    uint32_t end;          /* enum dp_ask_end */
    uint32_t n_waiting, n_running, n_ended, n_submitted, n_withdrawn;
    uint64_t oldest_s, read_s; /* when the oldest that waits was submitted, and the controller's clock; 0: none */
    char reason[24];       /* why one of them waits */
    char text[256];
};

/* dp_helper_work_fn. Blocks; for dp_priv_start(). */
size_t dp_ask_slices_work(const void *request, size_t bytes, uint8_t *result);

struct dp_mark_request {
    uint32_t job_id, restart_count; /* home, which is marked as that; or a companion whose mark is lost */
    uint32_t slice_of;              /* of a companion: what its comment is to name; 0: it is home */
    uint32_t n;
    uint32_t slice[DP_MAX_SLOTS];   /* jobs of the same owner, marked as its slices; companions of an array keep their comments */
};

/* dp_helper_work_fn, answered by a struct dp_shrink_result (as_owner.h). Blocks; for dp_priv_start(). */
size_t dp_mark_slices_work(const void *request, size_t bytes, uint8_t *result);

#endif
