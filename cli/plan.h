/* The pieces of `dynpipe plan`: what was asked, and the document that answers. */
#ifndef DP_CLI_PLAN_H
#define DP_CLI_PLAN_H

#include <jansson.h>

#include "cli/command.h"
#include "policies/graph/hierarchical.h"

struct dp_plan_question {
    enum dp_plan_algorithm algorithm;
    uint32_t n_levels;                /* 0: --devices was not given */
    uint32_t devices[DP_PLAN_LEVELS]; /* of a machine, machines; or just devices */
    bool has_bandwidth, has_memory, has_cpus;
    double bytes_per_s[DP_PLAN_LEVELS];
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    uint32_t n_cpus;
    bool is_straight;
    double time_limit_s; /* 0: none */
};

/* From the command line, and what it leaves open from the graph or from defaults.
 * returns 0, or -1: the command line is wrong. */
int dp_plan_ask(const struct dp_cli *cli, const struct dp_graph *g, struct dp_plan_question *q,
                struct dp_err *err);

/* Watches a search: says on stderr how far it is when it takes long, and ends it after the time limit. */
struct dp_plan_patience {
    struct dp_plan_watch watch;
    uint64_t begin_ns, said_ns, limit_ns; /* limit_ns 0: none */
};
void dp_plan_patience_init(struct dp_plan_patience *p, double limit_s);

/* The answer as a document; new reference. */
json_t *dp_plan_document(const struct dp_cli *cli, const struct dp_graph *g, const struct dp_plan_question *q,
                         const struct dp_graph_plan *p);

/* Print such a document for people. */
void dp_plan_show(const struct dp_cli *cli, const json_t *plan);

/* "node1-7, node9, node1-7grad": the names of a list of strings with runs of numbers drawn together, made
 * harmless for a terminal. returns: a string to free, or NULL without memory. */
char *dp_plan_names(const json_t *names);

#endif
