/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of a job and what may be done with its run: for the coordinator, and for those who read, configure
 * and shrink jobs for it.
 */
#ifndef DP_DAEMON_COORD_JOB_H
#define DP_DAEMON_COORD_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/msg.h"

#define DP_MAX_SLOTS DP_MAX_WORKERS
/* Most workers x microbatches x layers of a run that a daemon decides about: some 100 MB and seconds for its child. */
#define DP_RUN_SIZE_MAX (1u << 27)

/* What Slurm says about a job; also what a release needs to know. */
struct dp_job_info {
    uint32_t job_id, uid, gid;
    uint32_t restart_count;
    bool is_running;             /* false: pending, completing or gone */
    bool is_completing;          /* over, and Slurm waits for its processes: KillWait, then SIGKILL */
    bool is_queued;              /* not begun, or put back into the queue */
    uint32_t n_nodes;
    char node[DP_MAX_SLOTS][64]; /* names, in the job's order */
    char batch_host[64];
    char partition[64];
    char name[64];               /* of the job, as squeue shows it; cut where longer */
    uint32_t n_tasks;            /* most workers that a new run may have: tasks or processors, the more; 0: not known */
    uint32_t gpus_per_node;      /* 0: none asked for; then one slot counts as one device */
    uint64_t start_s, end_s;     /* wall clock, seconds since 1970; end_s 0: unlimited */
    uint64_t boot_s;             /* boot time of the controller: changes when it restarts */
    uint32_t shrinks_allowed;    /* how many size changes this Slurm lets a job make (slurm.md F7) */
    bool has_stepmgr;            /* Slurm's stepmgr keeps the job's steps: then none are allowed */
    bool may_requeue;            /* Slurm may put it back into the queue */
    uint32_t mem_mb;             /* MiB that it has on each node, 0: not known */
    bool is_mem_resizing;        /* not all of its nodes have confirmed a change of that */
    char mem_why[160];           /* why none of it can be given back, "": it can */
};

/* What the administrator allows (etc/dynpipe.conf, partition overrides applied) narrowed by what the
 * user asked for (STEP_START). */
struct dp_run_limits {
    uint8_t mode;      /* enum dp_mode */
    uint8_t reference; /* enum dp_reference */
    uint8_t objective; /* enum dp_objective of policies/decide/pack.h */
    uint8_t packing;   /* enum dp_packing */
    uint32_t min_devices;
    double max_slowdown; /* percent */
    char policy[64];
    char policy_file[256];      /* of a site policy, empty: built in */
    char policy_arguments[256]; /* of a site policy */
    double policy_timeout_s;    /* for all answers of a site policy to one decision */
    double hysteresis;        /* percent of predicted iteration time that a move must gain */
    double cooldown_s;        /* least time between two hand-overs */
    uint32_t warmup_reports;  /* reports per worker before the first decision and after each change */
    double vote_timeout_s;    /* PREPARE until all votes, 5 steps at least; then ABORT */
    double stall_s;           /* nothing heard of the run, 5 steps at least; then it is stalled */
    double stall_end_s;       /* stalled for so long: the job is ended and requeued; 0: never */
    double gone_timeout_s;    /* STOP_SLOT until the proof; then HELD */
    double grace_s;           /* time for a drained worker to leave by itself */
    double confirm_s;         /* between the two reads that confirm a release */
    uint32_t memory_margin;   /* give host memory back, but so many percent more than is needed; 0: do not */
    double link_latency_s, link_bytes_per_s; /* cost of a boundary and of moving layers */
};

#endif
