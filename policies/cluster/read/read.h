/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of a cluster and its job mix (doc/cluster.md), into a case to simulate. */
#ifndef DP_POLICIES_CLUSTER_READ_READ_H
#define DP_POLICIES_CLUSTER_READ_READ_H

#include "policies/cluster/generate/generate.h"
#include "policies/cluster/read/swf.h"
#include "policies/cluster/run.h"

#define DP_CLUSTER_MAX_FILE_BYTES (1u << 30) /* DP_CLUSTER_MAX_JOBS lines of 107 */

/* Which jobs are DynPipe jobs. */
struct dp_cluster_group {
    double share;      /* of those that match */
    char class[64];    /* "": any */
    struct dp_cluster_owner owner; /* -1: any */
    uint32_t min_nodes, max_nodes;
    double min_run_s;
    char run[128];     /* file of the simulated run that its curve comes from, or "" */
    uint32_t n_jobs;   /* = jobs that it has got */
};

struct dp_cluster_case {
    char name[128], source[1024];
    struct dp_cluster_machine machine;
    uint32_t devices_per_node;
    uint32_t n_schedulers;
    enum dp_cluster_scheduler scheduler[DP_CLUSTER_SCHEDULERS]; /* in the order of the file */
    char workload[192];              /* where the jobs come from, in words */
    struct dp_cluster_counts counts; /* of a workload file, else zeros */
    uint32_t n_classes;
    char class[DP_CLUSTER_MAX_CLASSES][64];
    double load_before, load;        /* load_before: 0 where the times between arrivals were not changed */
    struct dp_cluster_mix mix;
    uint32_t n_groups; /* as many as mix.n_curves */
    struct dp_cluster_group group[DP_CLUSTER_MAX_GROUPS];
};

/* path: the description. swf: a workload file instead of that of the description, or NULL. seed: instead of
 * that of its model, which there must be; 0: do not. Files that a
 * description names lie beside it. out: passes dp_cluster_mix_check(); release it. On failure the text names
 * file and line, or file and member. */
int dp_cluster_read(const char *path, const char *swf, uint64_t seed, struct dp_cluster_case *out, struct dp_err *err);
void dp_cluster_case_release(struct dp_cluster_case *c);

/* ---- of read.c, for its parts ---- */

struct dp_fields;
/* A member that holds a distribution: {"exponential": mean}, {"uniform": [a, b]}, {"log_uniform": [a, b]},
 * {"choices": [[value, weight], ...]}, or a number. Values lie within [low, high]. An error sticks to f.
 * fallback NAN: must be there. */
void dp_cluster_read_distribution(struct dp_fields *f, const char *name, double low, double high, double fallback,
                                  struct dp_cluster_distribution *out);
/* The member "workload"; path: of the description. Sets nodes where the description does not. */
int dp_cluster_read_workload(struct dp_fields *document, const char *path, const char *swf, uint64_t seed,
                             struct dp_cluster_case *out, struct dp_err *err);
/* name, beside the description. */
void dp_cluster_beside(const char *path, const char *name, char out[4096]);

#endif
