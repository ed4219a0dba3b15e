/* SPDX-License-Identifier: BSD-3-Clause */
/* The Standard Workload Format, version 2.2, of the Parallel Workloads Archive (Feitelson, Tsafrir, Krakov
 * 2014, J. Parallel Distrib. Comput. 74; https://www.cs.huji.ac.il/labs/parallel/workload/swf.html): lines
 * of 18 numbers, -1 for unknown, and comments that begin with ';'.
 *
 * A line that is no such line is an error. What archives do contain, though no job to replay comes of it,
 * is counted: parts of jobs (status 2, 3 or 4: the whole job has a line of its own), jobs that never ran,
 * jobs without a size, or larger than the cluster.
 */
#ifndef DP_POLICIES_CLUSTER_READ_SWF_H
#define DP_POLICIES_CLUSTER_READ_SWF_H

#include <stdio.h>

#include "policies/cluster/read/swf_comment.h"
#include "policies/cluster/run.h"

/* Records of a file, and what became of them. */
struct dp_cluster_counts {
    uint32_t records;
    uint32_t parts, never_ran, no_size, too_large; /* left out */
    uint32_t no_limit;     /* limit = run time */
    uint32_t above_limit;  /* ran for longer than was asked for: limit = run time */
    uint32_t out_of_order; /* sorted */
};

struct dp_cluster_swf {
    uint32_t nodes;               /* of the cluster; 0: the file's MaxNodes, else MaxProcs; then overwritten */
    uint32_t processors_per_node; /* 0: MaxProcs / MaxNodes rounded up, else 1; then overwritten */
    char computer[128];           /* = Computer of the file, or "" */
};

/* name: of the file, for messages. swf: in and out. mix: = jobs, each of as many whole nodes as hold its
 * allocated processors, or the requested ones where these are unknown; release it. */
int dp_cluster_swf_parse(const char *name, const char *text, size_t bytes, struct dp_cluster_swf *swf, struct dp_cluster_mix *mix,
                         struct dp_cluster_counts *counts, struct dp_err *err);

/* Write a mix so that parse() gives it back (but for classes and curves). Jobs that came from such a file keep
 * its fields, and the file its comments; else a node counts as one processor.
 * times: [n_jobs] of a run, for the waiting times, and the scheduler that played it; or both NULL: they are those of
 * the file, or unknown. nodes: of the cluster. title: one line, of printable characters, where the file names no
 * computer. The caller looks at ferror(). */
void dp_cluster_swf_write(const struct dp_cluster_mix *mix, const struct dp_cluster_times *times, const char *scheduler, uint32_t nodes,
                          const char *title, FILE *out);

#endif
