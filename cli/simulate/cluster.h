/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `dynpipe simulate --cluster` share. */
#ifndef DP_CLI_SIMULATE_CLUSTER_H
#define DP_CLI_SIMULATE_CLUSTER_H

#include <jansson.h>

#include "cli/command/command.h"
#include "policies/cluster/read/read.h"
#include "policies/cluster/stats.h"

/* A job mix under one scheduler, without and with DynPipe. */
struct dp_cluster_pair {
    enum dp_cluster_scheduler scheduler;
    struct dp_cluster_times *times[2]; /* [n_jobs] each; owned by whoever simulates */
    struct dp_cluster_stats stats[2];
    struct dp_cluster_moved moved;
};

/* `dynpipe simulate --cluster`. */
enum dp_exit dp_simulate_cluster(const struct dp_cli *cli);

/* The document (doc/json.md), without "schedulers"; and one element of these. New references; NULL: out of memory. */
json_t *dp_cluster_document(const struct dp_cluster_case *c);
json_t *dp_cluster_pair_document(const struct dp_cluster_case *c, const struct dp_cluster_pair *pair);

/* Print the whole document. returns -1: the format is wrong. */
int dp_cluster_print(const struct dp_cli *cli, const json_t *document, struct dp_err *err);

/* Write a picture of both runs: nodes over time, each node by itself where there are few, and the queue. */
int dp_cluster_svg(const struct dp_cluster_case *c, const struct dp_cluster_pair *pair, const char *title, const char *path,
                   struct dp_err *err);

#endif
