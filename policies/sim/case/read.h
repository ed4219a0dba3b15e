/* SPDX-License-Identifier: BSD-3-Clause */
/* Files into cases: a model description with a cost table, the traces of a recorded run, or a graph
 * (doc/simulator.md describes them). */
#ifndef DP_POLICIES_SIM_CASE_READ_H
#define DP_POLICIES_SIM_CASE_READ_H

#include <jansson.h>

#include "policies/sim/case/case.h"

#define DP_SIM_MAX_FILE_BYTES (256u << 20) /* of one file; read_trace.c bounds what it becomes */

/* Numbers of the command line that take the place of the file's. */
struct dp_sim_override {
    const char *schedule; /* NULL: the file's */
    const char *policy;   /* NULL: the file's layouts; else find every layout with it, at each event too */
    const struct dp_policy *own; /* with policy DP_SIM_OWN_POLICY: which it is, and what it is asked with; borrowed */
    void *own_state;
    uint32_t devices, chunks, microbatches, replicas, buckets; /* 0: the file's */
    uint32_t devices_per_node;                                  /* 0: the file's */
    uint64_t iterations;                                        /* 0: the file's; later events are left out */
    /* Changes the case before policies are asked, such as a scheme does (../scheme/); with change_arg. NULL: nothing does. */
    int (*change)(const void *arg, struct dp_sim_case *c, struct dp_err *err);
    const void *change_arg;
    double bytes_per_s; /* of a profile's transfers, 0: a default */
    bool is_straight;   /* plan a profile without replicas of stages */
};

/* Read one model description or graph, or the traces of all workers of a run. with: NULL: nothing is changed.
 * out: passes dp_sim_case_check(); release it. On failure the text names file and line, or file and member. */
int dp_sim_read(uint32_t n_files, char *const path[], const struct dp_sim_override *with, struct dp_sim_case *out,
                struct dp_err *err);

/* Devices, chunks, microbatches, replicas and buckets that are given. */
void dp_sim_override_shape(const struct dp_sim_override *with, struct dp_sim_case *c);

/* --- the two formats; out is empty before, and on failure the caller releases it --- */

/* A model description or a graph as a document (doc/simulator.md, "Model description"). returns 0, or -1 and the
 * member that is wrong. */
int dp_sim_read_model(const json_t *document, const struct dp_sim_override *with, struct dp_sim_case *out, struct dp_err *err);

/* The text of one trace file. */
struct dp_sim_trace_text {
    const char *path, *text;
    size_t bytes;
};
/* The traces of all workers of one run, in any order (doc/simulator.md, "Trace of a run"). returns 0, or -1 with file
 * and line. */
int dp_sim_read_trace(uint32_t n, const struct dp_sim_trace_text *file, const struct dp_sim_override *with,
                      struct dp_sim_case *out, struct dp_err *err);

#endif
