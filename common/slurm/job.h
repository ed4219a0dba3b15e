/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of a job: for the coordinator of its run, and for those who read and shrink jobs for it. */
#ifndef DP_COMMON_SLURM_JOB_H
#define DP_COMMON_SLURM_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg.h"

#define DP_MAX_SLOTS DP_MAX_WORKERS
/* Most workers x microbatches x layers of a run that a daemon decides about: some 100 MB and seconds for its child. */
#define DP_RUN_SIZE_MAX (1u << 27)

/* What Slurm says about a job; also what a release needs to know. */
struct dp_job_info {
    uint32_t job_id, uid, gid;
    uint32_t restart_count;
    uint32_t array_job_id;       /* of the array that it is a task of, 0: of none */
    uint32_t slice_of;           /* the job that its comment names as home, where it is of no array; 0: none */
    bool is_running;             /* false: pending, completing or gone */
    bool is_completing;          /* over, and Slurm waits for its processes: KillWait, then SIGKILL */
    bool is_queued;              /* not begun, or put back into the queue */
    uint32_t n_nodes;
    char node[DP_MAX_SLOTS][64]; /* names, in the job's order */
    /* Of a run of slices, jobs of one worker each: the job of every slot. node[] names where it is, and so a node maybe more than
     * once; of several on the batch host the first is the one that work is packed towards. 0, and no node: an empty seat, but never the
     * first. All 0: the slots are one job's nodes. */
    uint32_t slice[DP_MAX_SLOTS];
    uint32_t slice_restarts[DP_MAX_SLOTS]; /* and how often that was requeued: which of its lives is in the run */
    bool is_companion[DP_MAX_SLOTS]; /* of an array's run, as read last: no task of it, but a job that was asked for beside */
    uint32_t n_seats;            /* of a run of slices: so many may be in it at a time, at least n_nodes; else 0 */
    char batch_host[64];
    char partition[64];
    char name[64];               /* of the job, as squeue shows it; cut where longer */
    uint32_t n_tasks;            /* most workers that a new run may have: tasks or processors, the more; 0: not known */
    uint32_t gpus_per_node;      /* 0: none asked for; then one slot counts as one device */
    uint64_t start_s, end_s;     /* wall clock, seconds since 1970; end_s 0: unlimited */
    uint64_t now_s;              /* the controller's clock when it said so; 0: not known */
    uint64_t read_ns;            /* dp_now_ns() of this node when the answer came; 0: none did */
    uint64_t boot_s;             /* boot time of the controller: changes when it restarts */
    uint32_t shrinks_allowed;    /* how many size changes this Slurm lets a job make (slurm.md F7) */
    bool has_stepmgr;            /* Slurm's stepmgr keeps the job's steps: then none are allowed */
    bool may_requeue;            /* Slurm may put it back into the queue */
    bool is_preempted;           /* it is to end, or has ended, for a job of higher priority */
    bool is_cancelled;           /* it has ended by scancel */
    uint32_t mem_mb;             /* MiB that it has on each node, 0: not known */
    bool is_mem_resizing;        /* not all of its nodes have confirmed a change of that */
    char mem_why[160];           /* why none of it can be given back, "": it can */
};

/* A task of a job array, or a companion of a job, that has one node now. */
struct dp_slice {
    uint32_t job_id, restart_count;
    uint32_t task;               /* which one of the array */
    uint64_t start_s;            /* by the controller's clock */
    bool is_running;             /* false: it is over, and Slurm waits for its processes and its epilog */
    bool is_companion;           /* beside tasks of an array: none itself, but a companion of that array */
    bool is_older;               /* of a job's companions: submitted before that job's present life */
    uint32_t slice_of;           /* the job, or array, that its comment names; 0: none */
    char node[64];
};

#endif
