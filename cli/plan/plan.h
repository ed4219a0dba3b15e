/* SPDX-License-Identifier: BSD-3-Clause */
/* The pieces of `dynpipe plan`: what was asked, and the document that answers. */
#ifndef DP_CLI_PLAN_PLAN_H
#define DP_CLI_PLAN_PLAN_H

#include <jansson.h>

#include "cli/command/command.h"
#include "cli/command/policy.h"
#include "cli/show/canvas.h"
#include "policies/graph/papers/hetpipe.h"
#include "policies/learn/place.h"
#include "policies/learn/propose.h"
#include "policies/saving/trade.h"

struct dp_plan_problem {
    enum dp_plan_algorithm algorithm;
    uint32_t n_levels;                /* 0: --devices was not given */
    uint32_t devices[DP_PLAN_LEVELS]; /* of a machine, machines; or just devices */
    bool has_bandwidth, has_memory, has_cpus, has_weights;
    double bytes_per_s[DP_PLAN_LEVELS];
    uint64_t latency_ns[DP_PLAN_LEVELS];
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    uint32_t n_cpus;
    double *speed; /* [devices[0]], or NULL: all alike; of the question, to be freed */
    struct dp_classes classes; /* of devices; n 0: all alike, as they are above */
    bool is_described;         /* links of classes, by a file */
    enum dp_hetpipe_rule workers_rule;
    uint32_t n_workers;        /* virtual ones; 0: as many as classes */
    struct dp_hetpipe *hetpipe; /* where dp_plan_search() leaves them; to be freed by dp_plan_workers_release(); NULL: none asked for */
    bool is_straight;
    bool for_iteration; /* the least simulated iteration is looked for, not the least load */
    double time_limit_s; /* 0: none */
    uint64_t seed;         /* of the search for orders */
    uint32_t microbatches; /* of an iteration; 0: dp_plan_microbatches() */
    struct dp_plan_networks *networks; /* that propose orders; NULL: none. Of the question, to be released */
    struct dp_cli_policy policy; /* that cuts the order of the plan anew, if any */
};

/* From the command line, and what it leaves open from the graph or from defaults. *q must stay where it is.
 * returns 0, or -1: the command line is wrong. Free q->speed, whatever comes back. */
int dp_plan_ask(const struct dp_cli *cli, const struct dp_graph *g, struct dp_plan_problem *q,
                struct dp_err *err);

/* A file of networks that learned to make orders, or of one that places units, and what became of reading it. */
struct dp_plan_networks {
    char path[4096];
    struct dp_weights weights;
    struct dp_order_source source; /* of the weights, where there are some */
    struct dp_place_source placer;
    struct dp_err err;             /* why there are none */
};

/* q->networks = what --weights names, or with --algorithm=learned or drl-pp the file that is installed; where neither is asked for, NULL.
 * returns 0, or -1: these have no networks, or no memory. Other algorithms go
 * on without. */
int dp_plan_networks_read(const struct dp_cli *cli, struct dp_plan_problem *q, struct dp_err *err);
void dp_plan_networks_release(struct dp_plan_problem *q);
/* For a search, and for drl-pp; NULL: no networks. */
const struct dp_place_source *dp_plan_placer(const struct dp_plan_problem *q);
const struct dp_order_source *dp_plan_source(const struct dp_plan_problem *q);
/* What the answer tells of them; new reference. */
json_t *dp_plan_networks_json(const struct dp_plan_problem *q, const struct dp_graph_plan *p);
/* That for people, behind a label; null: nothing. */
void dp_plan_show_networks(struct dp_canvas *c, size_t indent, const json_t *networks);
/* A file that was installed, or one in $DYNPIPE_DATA. */
void dp_plan_data_file(const char *name, char *out, size_t cap);

/* --costs=help and --device=help: names first, for shell completion, too. returns 0, or -1: the file of devices. */
void dp_plan_costs_help(void);
int dp_plan_devices_help(struct dp_err *err);
/* Do --costs, --device and --coefficients go together? returns 0, or -1: the command line is wrong. */
int dp_plan_costs_check(const struct dp_cli *cli, struct dp_err *err);
/* Overwrite the times of g as --costs asks. *said: = what the answer tells of them, new reference; NULL: they are those of the
 * file. returns 0, or -1: a file, or a graph that says too little. */
int dp_plan_costs(const struct dp_cli *cli, struct dp_graph *g, json_t **said, struct dp_err *err);
/* That for people, behind labels; NULL: nothing. indent: column of the text. */
void dp_plan_show_costs(struct dp_canvas *c, size_t indent, const json_t *costs);

/* --devices=8xa100,8xt4, or a file of classes: speeds for the graph's operators, links and memory. Sets classes and devices of *q.
 * returns 0, or -1: the command line is wrong, or a file. */
int dp_plan_classes(const struct dp_cli *cli, const struct dp_graph *g, struct dp_plan_problem *q, struct dp_err *err);
/* What the document says of them; new reference. */
json_t *dp_plan_classes_json(const struct dp_classes *c);
/* "8 a100, 8 t4 of speed 0.42" for people. */
void dp_plan_say_classes(char *out, size_t cap, const json_t *classes);

/* --virtual-workers, and room for them. returns 0 or -1. */
int dp_plan_workers_take(const struct dp_cli *cli, struct dp_plan_problem *q, struct dp_err *err);
void dp_plan_workers_release(struct dp_plan_problem *q);
/* Plans of virtual workers into *q->hetpipe. *p: that of the slowest one, whose times are those between two microbatches of all; the
 * caller's to release. returns 0 or -1. */
int dp_plan_workers_find(const struct dp_plan_problem *q, const struct dp_graph *g, const struct dp_plan_watch *watch,
                         struct dp_graph_plan *p, struct dp_err *err);
/* What the document says of them; new reference, null: none. */
json_t *dp_plan_workers_json(const struct dp_graph *g, const struct dp_plan_problem *q);
/* That for people, behind a label. */
void dp_plan_show_workers(struct dp_canvas *c, size_t indent, const json_t *workers);
/* Stages of a plan for the document; new reference. classes: that its device_class counts. */
json_t *dp_plan_stages_json(const struct dp_graph *g, const struct dp_plan_problem *q, const struct dp_graph_plan *p,
                            const struct dp_classes *classes);

/* Watches a search: says on stderr how far it is when it takes long, and ends it after the time limit. */
struct dp_plan_patience {
    struct dp_plan_watch watch;
    uint64_t begin_ns, said_ns, limit_ns; /* limit_ns 0: none */
};
/* The clock starts now. limit_s 0: no limit. p->watch is for the search and points to *p, which must stay where it
 * is. */
void dp_plan_patience_init(struct dp_plan_patience *p, double limit_s);

/* The network of a question, as dp_plan_hierarchical_find() is asked. */
struct dp_plan_hierarchical dp_plan_network(const struct dp_plan_problem *q);
bool dp_plan_has_latency(const struct dp_plan_problem *q);
/* Microbatches of an iteration: some for each device that there is. */
uint32_t dp_plan_microbatches(const struct dp_plan_problem *q);
/* The least time of a microbatch on the busiest device, whatever the latency. returns 0, or -1: no plan. *p: the caller's to
 * release. */
int dp_plan_search(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_graph_plan *p, struct dp_err *err);
/* The least simulated iteration of a number of plans. Likewise; is_optimal: of all cuts of the
 * graph's only order this has the shortest one. */
int dp_plan_for_iteration(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_graph_plan *p, struct dp_err *err);
/* What the question asks for: one of the two, and the policy's cuts. Likewise. */
int dp_plan_solve(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_graph_plan *p, struct dp_err *err);
/* One simulated iteration of 1F1B with the question's microbatches; 0: too large to simulate. */
uint64_t dp_plan_iteration_ns(const struct dp_graph *g, const struct dp_plan_problem *q, const struct dp_graph_plan *p);

/* Plan for every number of devices, of machines where there are several, or for some evenly; all with the microbatches
 * of the question, DP_PLAN_TRADED iterations of them. */
#define DP_PLAN_TRADED 1000.0
/* out: overwritten, owns nothing; rows in ascending numbers of devices, the last one (all devices) is what the others
 * are compared with. A number for which there is no plan has a row that says so. */
void dp_plan_trade(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_trade *out);

/* The answer as a document; new reference. trade: NULL: not asked for. costs: of dp_plan_costs(), borrowed. */
json_t *dp_plan_document(const struct dp_cli *cli, const struct dp_graph *g, const struct dp_plan_problem *q,
                         const struct dp_graph_plan *p, const struct dp_trade *trade, json_t *costs);

/* Print such a document for people. */
void dp_plan_show(const struct dp_cli *cli, const json_t *plan);

/* "node1-7, node9, node1-7grad": the names of a list of strings with runs of numbers drawn together, made
 * harmless for a terminal. returns: a string to free, or NULL without memory. */
char *dp_plan_names(const json_t *names);

#endif
