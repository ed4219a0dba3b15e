/* SPDX-License-Identifier: BSD-3-Clause */
/* HetPipe (Park et al., "HetPipe: Enabling Large DNN Training on (Whimpy) Heterogeneous GPU Clusters through Integration of Pipelined
 * Model Parallelism and Data Parallelism", USENIX ATC'20): devices of several classes are parted into N virtual workers of equally
 * many devices; each is a pipeline of its own, one device a stage, and all train the same network side by side.
 *
 *   node partition (np)         a virtual worker has devices of one class
 *   equal distribution (ed)     each has the same number of every class
 *   hybrid distribution (hd)    the fastest class goes together with the slowest, the second with the second slowest, and so on; each
 *                               pair is parted equally among its virtual workers
 *
 * Its workers push what they learned to parameter servers beside their compute, and none runs ahead of the slowest one by more than
 * a bound: in the long run all go at its pace, so N of them take
 *
 *   (time of a microbatch of the slowest) / N
 *
 * As in the paper: the three rules, one device a stage, the slowest stage counts, transfers included, memory by what is under way in
 * a stage. Not as there: a class stands for what is a node of the paper; the order of the classes along a pipeline is searched, too
 * (classes.h's program); what goes to parameter servers is not counted. */
#ifndef DP_POLICIES_GRAPH_PAPERS_HETPIPE_H
#define DP_POLICIES_GRAPH_PAPERS_HETPIPE_H

#include "policies/graph/papers/papers.h"

/* The rules, a line each; ANY is the best of them. */
#define DP_HETPIPE_RULES(R) R(ANY, "any") R(NP, "np") R(ED, "ed") R(HD, "hd")
#define DP_HETPIPE_ENUM(ID, name) DP_HETPIPE_##ID,
enum dp_hetpipe_rule { DP_HETPIPE_RULES(DP_HETPIPE_ENUM) DP_HETPIPE_N };
#undef DP_HETPIPE_ENUM

/* Virtual workers with the same devices. */
struct dp_hetpipe_kind {
    uint32_t n;                /* of them */
    struct dp_classes devices; /* of one; the plan's device_class counts these */
    struct dp_graph_plan plan; /* of one */
};

struct dp_hetpipe {
    enum dp_hetpipe_rule rule; /* never ANY */
    uint32_t n, n_kinds;       /* virtual workers; their kinds */
    struct dp_hetpipe_kind kind[DP_CLASSES_MOST];
    uint32_t slowest;          /* kind */
    uint64_t load_ns;          /* between two microbatches of all of them */
};

/* "ed", "ed:4" or "4". *rule: ANY where it is not said, *n: 0 likewise. returns 0 or -1 (DP_EINVAL). */
int dp_hetpipe_parse(const char *text, enum dp_hetpipe_rule *rule, uint32_t *n, struct dp_err *err);
const char *dp_hetpipe_rule_name(enum dp_hetpipe_rule rule);

/* The kinds of n virtual workers by a rule (not ANY), without plans. returns 0, or -1 (DP_EINVAL): devices cannot be parted so. */
int dp_hetpipe_part(const struct dp_classes *c, enum dp_hetpipe_rule rule, uint32_t n, struct dp_hetpipe *out, struct dp_err *err);

/* n 0: as many virtual workers as there are classes. ask: its classes are parted, its net's microbatches (>= 1) and watch count. *out is
 * the caller's to release, whatever comes back. returns 0, or -1: what dp_hetpipe_part() and dp_paper_find() say; of ANY, of the last
 * rule. */
int dp_hetpipe_find(const struct dp_graph *g, const struct dp_paper_ask *ask, enum dp_hetpipe_rule rule, uint32_t n,
                    struct dp_hetpipe *out, struct dp_err *err);
void dp_hetpipe_release(struct dp_hetpipe *h);

#endif
