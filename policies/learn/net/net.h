/* SPDX-License-Identifier: BSD-3-Clause */
/* A network that chooses among ready units, and so makes an order in which no edge leads backwards.
 *
 *   encoder   facts of each unit -> WIDTH numbers; then ROUNDS times, with weights of its own each time, a unit's numbers from
 *             its own, the mean of those before it and, apart, the mean of those behind it
 *   memory    a GRU over the units that were chosen, in their order
 *   score     of a ready unit: a hidden layer over its numbers, the memory and what the walk knows of it (search/ready.h), and
 *             these features directly, with one set of weights within a device's share of the work and one near its end. With
 *             all other weights zero it is a rule (search/rule.h).
 *
 * The order's cuts are the dynamic program's, as ever. Gradients are of the log probability of choices, softmax over
 * scores. All is float32 with one order of every sum (floats.h). */
#ifndef DP_POLICIES_LEARN_NET_H
#define DP_POLICIES_LEARN_NET_H

#include "policies/graph/search/rule.h"

#define DP_NET_WIDTH 16 /* numbers of a unit, of the memory and of the hidden layer */
#define DP_NET_ROUNDS 4 /* how many edges far a unit sees */
#define DP_NET_FACTS 8  /* of a unit, before any walk (encoder.c) */
#define DP_NET_LOOKS DP_RULE_FEATURES

/* Floats only, without holes: also a gradient, and an array of DP_NET_SIZE numbers in files. Matrices are [in][out]. */
struct dp_net {
    float in[DP_NET_FACTS][DP_NET_WIDTH], in_bias[DP_NET_WIDTH];
    struct dp_net_round {
        float own[DP_NET_WIDTH][DP_NET_WIDTH], before[DP_NET_WIDTH][DP_NET_WIDTH], behind[DP_NET_WIDTH][DP_NET_WIDTH];
        float bias[DP_NET_WIDTH];
    } round[DP_NET_ROUNDS];
    struct dp_net_gate {
        float of_unit[DP_NET_WIDTH][DP_NET_WIDTH], of_memory[DP_NET_WIDTH][DP_NET_WIDTH], bias[DP_NET_WIDTH];
    } reset, update, fresh;
    float of_unit[DP_NET_WIDTH][DP_NET_WIDTH], of_memory[DP_NET_WIDTH][DP_NET_WIDTH], of_look[DP_NET_LOOKS][DP_NET_WIDTH];
    float bias[DP_NET_WIDTH], out[DP_NET_WIDTH];
    float direct[2][DP_NET_LOOKS];
};
#define DP_NET_SIZE (sizeof(struct dp_net) / sizeof(float))

/* All of them, one after the other. */
static inline float *dp_net_numbers(struct dp_net *net)
{
    return (float *)(void *)net;
}

/* A graph as the network sees it. */
struct dp_net_graph {
    struct dp_rule_facts facts;
    float *fact; /* [units][FACTS] */
};

/* What the encoder makes of a graph. */
struct dp_net_code {
    uint32_t n;  /* units */
    float *x;    /* [ROUNDS + 1][units][WIDTH] after each round */
    float *part; /* [units][WIDTH] what a unit brings to the hidden layer of its score */
};

/* A choice, and all that its gradient needs. */
struct dp_net_choice {
    uint32_t first, n; /* which candidates: the ready units, [first, first + n) */
    uint32_t chosen;   /* of them */
    bool is_late;
    float memory[DP_NET_WIDTH], reset[DP_NET_WIDTH], update[DP_NET_WIDTH], fresh[DP_NET_WIDTH], recalled[DP_NET_WIDTH];
    /* The caller's for dp_net_learn(): of the loss, by the choice's log probability, and what an entropy of 1 is worth. */
    float slope, entropy_worth;
};
struct dp_net_candidate {
    uint32_t unit;
    float look[DP_NET_LOOKS], hidden[DP_NET_WIDTH], share; /* share: its probability */
};

/* A walk that was recorded. Zeroes: empty. */
struct dp_net_tape {
    struct dp_net_choice *choice; /* [units] */
    struct dp_net_candidate *candidate;
    uint32_t n_choices, n_candidates, room_choices, room_candidates;
};

struct dp_net_walk {
    uint64_t key_seed; /* of the feature DP_RULE_KEY */
    bool is_drawn;     /* units are drawn by their probabilities, from draw_seed and their place in the order; else the best */
    uint64_t draw_seed;
    const uint32_t *follow;   /* [units] this order, whatever the scores; NULL: as above */
    /* [units] no edge leads to a lower one: of the ready units with the lowest stage the best is chosen, so that the order is one
     * whose cuts are these stages; shares are those of all ready units. NULL: as above */
    const uint32_t *stage;
    uint64_t max_steps;       /* looks at a ready unit */
    float *log_share;         /* [units] = log probability of each choice; NULL: not asked for */
    struct dp_net_tape *tape; /* = the walk; NULL: not recorded */
};

/* Small orthogonal matrices, the direct weights those of "the least traffic, then what is new". */
void dp_net_init(struct dp_net *net, uint64_t seed);
/* Scores like the rule, whose features are cut off at 8 here. */
void dp_net_of_rule(struct dp_net *net, const struct dp_rule *rule);
/* Is none of its numbers infinite, larger than DP_NET_MOST, or no number? */
#define DP_NET_MOST 1e6f
bool dp_net_check(const struct dp_net *net);

/* u must outlive it; n_devices >= 1. returns 0 or -1 (DP_ENOMEM); either way release it. */
int dp_net_graph_create(struct dp_net_graph *g, const struct dp_units *u, uint32_t n_devices, struct dp_err *err);
void dp_net_graph_release(struct dp_net_graph *g);
/* Likewise. */
int dp_net_encode(struct dp_net_code *c, const struct dp_net *net, const struct dp_net_graph *g, struct dp_err *err);
void dp_net_code_release(struct dp_net_code *c);
void dp_net_tape_release(struct dp_net_tape *t);

/* order: [units] =, where there is one within the steps. steps: += those made; with `follow` it is order (which may be the same
 * memory). returns: 1: there is; 0: it would take more steps; -1: DP_ENOMEM, or DP_EINVAL: `follow` is no order of the graph. */
int dp_net_order(const struct dp_net *net, const struct dp_net_graph *g, const struct dp_net_code *c, const struct dp_net_walk *walk,
                 uint32_t *order, uint64_t *steps, struct dp_err *err);

/* grad: += of the sum over choices of slope * log(share of the chosen) - entropy_worth * entropy of the shares.
 * c and tape: of the same weights. returns 0 or -1 (DP_ENOMEM). */
int dp_net_learn(const struct dp_net *net, const struct dp_net_graph *g, const struct dp_net_code *c, const struct dp_net_tape *tape,
                 struct dp_net *grad, struct dp_err *err);

#endif
