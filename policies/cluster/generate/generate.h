/* SPDX-License-Identifier: BSD-3-Clause */
/* Job mixes from stated distributions. Times are whole seconds, as in workload files. */
#ifndef DP_POLICIES_CLUSTER_GENERATE_GENERATE_H
#define DP_POLICIES_CLUSTER_GENERATE_GENERATE_H

#include "policies/cluster/generate/draw.h"
#include "policies/cluster/mix.h"

#define DP_CLUSTER_MAX_CLASSES 64u /* of jobs in one model: a file written by hand */

/* What users ask for: the run time times a factor (never less than 1; Feitelson and Mu'alem Weil 1998,
 * IPPS, draw it evenly from 1 to a largest one), at most most_s, in whole minutes as Slurm counts them, and
 * never less than the run time. */
struct dp_cluster_estimate {
    struct dp_cluster_distribution factor;
    double most_s;
};

struct dp_cluster_class {
    char name[64];
    double share; /* of the jobs, relative to the other classes */
    struct dp_cluster_distribution nodes, run_s;
    struct dp_cluster_estimate estimate;
};

struct dp_cluster_model {
    uint64_t seed;
    uint32_t n_jobs, n_classes; /* no classes: the model of Lublin and Feitelson, with `estimate` */
    struct dp_cluster_distribution between_arrivals_s;
    struct dp_cluster_class class[DP_CLUSTER_MAX_CLASSES];
    struct dp_cluster_estimate estimate;
};

/* A mix for a cluster of so many nodes; sizes are rounded, and brought into 1 .. nodes. */
int dp_cluster_generate(const struct dp_cluster_model *model, uint32_t nodes, struct dp_cluster_mix *mix, struct dp_err *err);

/* Node-seconds of all jobs without DynPipe over nodes * (last submit - first submit); 0 where that is 0. */
double dp_cluster_load(const struct dp_cluster_mix *mix, uint32_t nodes);
/* Stretch the time between arrivals, so that the load becomes this one. returns -1: all arrive at once, or too far apart. */
int dp_cluster_set_load(struct dp_cluster_mix *mix, uint32_t nodes, double load, struct dp_err *err);

/* ---- for generate.c: jobs of Lublin and Feitelson, one after the other ---- */

enum { DP_LUBLIN_BUCKETS = 48 };

struct dp_lublin {
    struct dp_cluster_draw *draw;
    double log2_nodes;
    double weight[DP_LUBLIN_BUCKETS]; /* arrivals by half hours of the day, 1 on average */
    uint32_t bucket;
    double at_s, points, remainder;
};

/* The model of Lublin and Feitelson 2003 (J. Parallel Distrib. Comput. 63) for a machine of so many nodes, with the
 * constants of the authors' program. draw: borrowed, and used up by the next two. */
void dp_lublin_init(struct dp_lublin *l, uint32_t nodes, struct dp_cluster_draw *draw);
/* The next job: when it comes, in seconds from the beginning and never before the one before it; its nodes, 1..nodes;
 * its run time, 1 to e^12 seconds. There is always a next one. */
void dp_lublin_next(struct dp_lublin *l, double *submit_s, uint32_t *nodes, double *run_s);

#endif
