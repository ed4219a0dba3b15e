/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be done with a run: what the administrator allows, narrowed by what its user asked for. */
#ifndef DP_COMMON_RUN_RUN_LIMITS_H
#define DP_COMMON_RUN_RUN_LIMITS_H

#include <stdint.h>

#define DP_COPIES_MAX 1u /* of a layer: one copy outlives one lost node, and each one more takes as much memory again */

enum dp_objective {
    DP_OBJ_DEVICES = 0,    /* fewest slots, then the fastest */
    DP_OBJ_EFFICIENCY = 1, /* most throughput for each device that is kept, then fewest slots */
};

enum dp_packing {
    DP_PACKING_BEST = 0,
    DP_PACKING_FIRST_FIT = 1, /* DynMo's, for comparison: policies/baselines/first_fit.h */
};

/* How far a run may be packed: what a step is held to, and what counts among the layouts that keep to it. */
struct dp_pack_limits {
    uint8_t reference; /* enum dp_reference */
    uint8_t objective; /* enum dp_objective */
    uint8_t packing;   /* enum dp_packing */
    uint32_t min_nodes;   /* that own layers, below which nobody packs; 0: one, if that is enough */
    uint32_t min_devices; /* on the slots that are kept; FIRST_FIT: the number to reach */
    double max_slowdown; /* percent, 0..100: of START and BEST throughput that may be lost, of FIXED time that may be added */
};

/* Of a run of slices: how it may grow. */
struct dp_growth_limits {
    uint32_t slices;     /* that it is to begin with; 0: it is no run of slices */
    uint32_t max_gpus;   /* it may ask for more until it has so many, at least `slices`; 0: it asks for none */
    double wait_s;       /* what the queue does not start for so long is withdrawn */
    double cooldown_s;   /* between two requests, and after a slice was given back; twice as long after each in vain */
};

/* What the administrator allows (etc/dynpipe.conf, partition overrides applied) narrowed by what the
 * user asked for (STEP_START). */
struct dp_run_limits {
    uint8_t mode; /* enum dp_mode */
    struct dp_pack_limits pack;
    struct dp_growth_limits growth;
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
    uint32_t copies;          /* of each layer that other workers hold: 0 or 1 */
    uint32_t memory_margin;   /* give host memory back, but so many percent more than is needed; 0: do not */
    double link_latency_s, link_bytes_per_s; /* cost of a stage's messages and of moving layers */
};

#endif
