/* SPDX-License-Identifier: BSD-3-Clause */
/* What learned orders are worth: beside searches that know nothing of networks, in the same CPU time, and beside the same
 * networks with their weights shuffled. */
#ifndef DP_POLICIES_LEARN_EVALUATE_H
#define DP_POLICIES_LEARN_EVALUATE_H

#include "policies/graph/graph.h"
#include "policies/learn/net/weights.h"

/* All that are compared, a line each; the first is what is judged. */
#define DP_RIVALS(R)                                                                       \
    R(NETWORKS, "learned", "orders of the networks, and moves in the best plans")          \
    R(RULES, "rules", "orders by random rules, and the same moves: `line`")                \
    R(MOVES, "moves", "the same moves in the plan of the few orders alone")                \
    R(ANNEAL, "anneal", "moves that cool down, likewise")                                  \
    R(GENETIC, "genetic", "orders that are bred")                                          \
    R(SHUFFLED, "shuffled", "orders of networks with shuffled weights, and the same moves")
#define DP_RIVAL_ENUM(ID, name, help) DP_RIVAL_##ID,
enum dp_rival { DP_RIVALS(DP_RIVAL_ENUM) DP_N_RIVALS };
#undef DP_RIVAL_ENUM

/* As tables have it; and in a few words. */
const char *dp_rival_name(enum dp_rival r);
const char *dp_rival_help(enum dp_rival r);

/* One question: a graph, and a number of devices. */
struct dp_evaluation {
    uint64_t load_ns[DP_N_RIVALS]; /* of the plan that each found, one device a stage */
    double cpu_s[DP_N_RIVALS];     /* CPU time of this thread that it took */
    uint64_t best_ns;              /* exact where the graph has few ideals, else the best of all, and of a longer search */
};

/* shuffled: of dp_weights_shuffle(). steps: of each search, and then all but cpu_s is the same on every machine; 0: each has the same
 * CPU time, DP_EVALUATE_NODE_NS a node. looks_longer: for best_ns, beyond what the compared searches found, which takes as long as
 * some of them. g: finished, with its bandwidth set where it is a profile. returns 0, or -1 with an error. */
#define DP_EVALUATE_NODE_NS UINT64_C(300000)    /* a little more than the default search of `dynpipe plan` takes */
#define DP_EVALUATE_MOST_NS UINT64_C(360000000) /* likewise, for large graphs */
int dp_evaluate(const struct dp_graph *g, uint32_t n_devices, const struct dp_weights *w, const struct dp_weights *shuffled,
                uint64_t seed, uint64_t steps, bool looks_longer, struct dp_evaluation *out, struct dp_err *err);

/* out: = the same networks, the numbers of each matrix in an order by chance; the caller's to release, whatever comes back.
 * returns 0 or -1 (DP_ENOMEM). */
int dp_weights_shuffle(const struct dp_weights *w, uint64_t seed, struct dp_weights *out, struct dp_err *err);

/* Over many questions; begin with zeroes. */
struct dp_evaluation_sums {
    uint32_t n;
    double gap[DP_N_RIVALS], worst[DP_N_RIVALS]; /* percent above the best known load: sum, most */
    double cpu_s[DP_N_RIVALS];
    uint32_t wins[DP_N_RIVALS], losses[DP_N_RIVALS]; /* questions for which the networks' plan is better, or worse */
};

/* A question more. */
void dp_evaluation_add(struct dp_evaluation_sums *s, const struct dp_evaluation *e);

/* Percent above the best known. */
double dp_evaluation_gap(const struct dp_evaluation *e, enum dp_rival r);

/* How likely as many wins, or as many losses, or more would be if both were equally likely (two-sided sign test; ties do not
 * count): 1 where there is neither. */
double dp_sign_test(uint32_t wins, uint32_t losses);

/* Do the networks win against this rival more often than they lose, with less than 5 % by chance? */
bool dp_evaluation_wins(const struct dp_evaluation_sums *s, enum dp_rival r);
/* Against all. */
bool dp_evaluation_wins_all(const struct dp_evaluation_sums *s);

#endif
