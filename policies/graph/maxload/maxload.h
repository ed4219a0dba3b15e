/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact max-load dynamic program over ideals (Tarnawski et al., NeurIPS'20, section 5): the units of a
 * graph over k accelerators and c CPUs, every device a stage, so that the busiest one has least to do.
 * An accelerator's load is its compute and its traffic (units.h), a CPU's its compute alone; what lies
 * on one accelerator must fit into its memory and be able to run there: the k-th of them keeps what its nodes
 * keep of a microbatch as often as there are accelerators from it to the end.
 *
 * Where accelerators differ in speed the k-th takes 1 / speed of the time to compute; any may stay idle.
 *
 *   best(I, k, c) = min over ideals J within I of  max(best(J, k - 1, c), load of I - J on an accelerator)
 *                                             and  max(best(J, k, c - 1), load of I - J on a CPU)
 */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_MAXLOAD_H
#define DP_POLICIES_GRAPH_MAXLOAD_MAXLOAD_H

#include "policies/graph/ideals.h"
#include "policies/graph/plan.h"

struct dp_maxload {
    const struct dp_units *units;
    const struct dp_ideals *ideals;
    uint32_t n_accel, n_cpus;
    const double *speed;  /* [n_accel] along the pipeline; NULL: all 1 */
    uint64_t accel_bytes; /* UINT64_MAX: no limit */
    uint64_t bound_ns;    /* answers above it are not looked for; the closer, the less work */
    uint64_t max_steps;   /* pairs of ideals looked at; 0: no limit */
    const struct dp_plan_watch *watch; /* NULL: nobody; asked with best_ns and lower_ns */
    uint64_t best_ns, lower_ns;
    bool is_lean; /* in the least memory, whatever the size (lean.h); the same load */
};

enum dp_maxload_verdict {
    DP_MAXLOAD_FOUND,
    DP_MAXLOAD_NONE,     /* nothing fits, or nothing within bound_ns */
    DP_MAXLOAD_TOO_MUCH, /* of work: max_steps */
    DP_MAXLOAD_ENDED,    /* by the watch */
};

struct dp_maxload_answer {
    uint64_t load_ns;  /* of the busiest device: the least that there is, when found */
    uint32_t n_stages; /* devices with work; no answer with this load needs fewer accelerators */
    uint32_t *stage;   /* [units->n] numbered along the pipeline */
    bool *is_cpu;      /* [n_stages] */
    uint32_t *accelerator; /* [n_stages] which, from 0, where speeds differ; else 0 */
    uint64_t steps;
};

/* *out is the caller's to release, whatever comes back.
 * returns: an enum dp_maxload_verdict, or -1 (DP_ENOMEM). Of several best answers always the same one:
 * going backwards, each stage is the one with the least traffic. Where the table of best(I, k, c) would take more than 1 GiB,
 * or 32 MiB for the ideals of an order, the answer is found without one (lean.h); it is as good. */
int dp_maxload_solve(const struct dp_maxload *q, struct dp_maxload_answer *out, struct dp_err *err);
void dp_maxload_release(struct dp_maxload_answer *a);

#endif
