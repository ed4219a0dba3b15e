/* SPDX-License-Identifier: BSD-3-Clause */
/* A network that places the units of a graph without any dynamic program, to compare with: what is known of DRL-PP (doc/graphs.md
 * says what is, and what had to be made up).
 *
 *   encoder      facts of each unit -> WIDTH numbers; then ROUNDS times the mean of a unit and its neighbours, whatever the
 *                direction of the edge (a graph convolution over the symmetric adjacency)
 *   partitioner  an LSTM visits every unit, in their order, and gives it one of so many subgraphs as there are devices
 *   scheduler    a hidden layer over a subgraph (the mean of its units), a device's own numbers and what lies on it already, gives
 *                each subgraph a device
 *
 * Nothing holds it to a balance, to different devices or to a quotient without a cycle: policies/graph/maxload/parts.h makes a
 * pipeline of what comes out. All is float32 with one order of every sum (floats.h). */
#ifndef DP_POLICIES_LEARN_CUTTER_H
#define DP_POLICIES_LEARN_CUTTER_H

#include "policies/learn/net/net.h"

#define DP_CUTTER_WIDTH 16 /* numbers of a unit, of the memory and of the hidden layer, as in net.h */
#define DP_CUTTER_ROUNDS 3 /* how many edges far a unit sees */
#define DP_CUTTER_PARTS 16u /* devices, and so subgraphs, at most: as many as there are in training */
#define DP_CUTTER_GATES (4 * DP_CUTTER_WIDTH) /* input, forget, output, fresh: WIDTH numbers each */

/* Floats only, without holes, like struct dp_net. Matrices are [in][out]. */
struct dp_cutter {
    float in[DP_NET_FACTS][DP_CUTTER_WIDTH], in_bias[DP_CUTTER_WIDTH];
    struct dp_cutter_round {
        float of_mean[DP_CUTTER_WIDTH][DP_CUTTER_WIDTH], bias[DP_CUTTER_WIDTH];
    } round[DP_CUTTER_ROUNDS];
    float of_unit[DP_CUTTER_WIDTH][DP_CUTTER_GATES], of_memory[DP_CUTTER_WIDTH][DP_CUTTER_GATES];
    float of_part[DP_CUTTER_PARTS + 1][DP_CUTTER_GATES]; /* where the last unit went; the last row: there was none */
    float of_number[DP_CUTTER_GATES];                    /* of devices, in PARTS */
    float bias[DP_CUTTER_GATES];
    float out[DP_CUTTER_WIDTH][DP_CUTTER_PARTS], out_bias[DP_CUTTER_PARTS];
    float stay, next; /* where the last unit went, and behind it */
    float of_sub[DP_CUTTER_WIDTH][DP_CUTTER_WIDTH], device[DP_CUTTER_PARTS][DP_CUTTER_WIDTH], of_load[DP_CUTTER_WIDTH];
    float hidden_bias[DP_CUTTER_WIDTH], score[DP_CUTTER_WIDTH], full; /* full: a device's load, directly */
};
#define DP_CUTTER_SIZE (sizeof(struct dp_cutter) / sizeof(float))

/* All of them, one after the other. */
static inline float *dp_cutter_numbers(struct dp_cutter *c)
{
    return (float *)(void *)c;
}

/* What the encoder makes of a graph. */
struct dp_cutter_code {
    uint32_t n; /* units */
    float *x;   /* [ROUNDS + 1][units][WIDTH] after each round */
};

/* A unit's choice, and all that its gradient needs. */
struct dp_cutter_visit {
    float memory[DP_CUTTER_WIDTH], cell[DP_CUTTER_WIDTH]; /* before it */
    float gate[DP_CUTTER_GATES], new_cell[DP_CUTTER_WIDTH], new_memory[DP_CUTTER_WIDTH];
    float share[DP_CUTTER_PARTS];
    uint32_t last, part; /* where the unit before went (PARTS: none), and this one */
};
/* A subgraph's choice. */
struct dp_cutter_placing {
    uint32_t n_units; /* 0: none, and no choice */
    float mean[DP_CUTTER_WIDTH], hidden[DP_CUTTER_PARTS][DP_CUTTER_WIDTH], load[DP_CUTTER_PARTS], share[DP_CUTTER_PARTS];
    uint32_t device;
};

/* What was placed where. Zeroes: empty. */
struct dp_cutter_tape {
    uint32_t n, n_devices;         /* n: units */
    struct dp_cutter_visit *visit; /* [n] */
    struct dp_cutter_placing placing[DP_CUTTER_PARTS]; /* [n_devices] */
    float *log_share; /* [n + n_devices] log probability of each choice: units, then subgraphs */
    float *slope;     /* [n + n_devices] the caller's for dp_cutter_learn(): of the loss, by log_share */
};

/* Small orthogonal matrices. To begin with it stays in a subgraph for some units and goes on to the next one, and prefers devices
 * without load: else almost all first drafts have cycles everywhere, are worth the same, and teach nothing. */
void dp_cutter_init(struct dp_cutter *c, uint64_t seed);
/* As dp_net_check(). */
bool dp_cutter_check(const struct dp_cutter *c);

/* returns 0 or -1 (DP_ENOMEM); either way release it. */
int dp_cutter_encode(struct dp_cutter_code *code, const struct dp_cutter *c, const struct dp_net_graph *g, struct dp_err *err);
void dp_cutter_code_release(struct dp_cutter_code *code);
/* Room for graphs of n units on n_devices (1..PARTS). Likewise. */
int dp_cutter_tape_create(struct dp_cutter_tape *t, uint32_t n, uint32_t n_devices, struct dp_err *err);
void dp_cutter_tape_release(struct dp_cutter_tape *t);

/* Place all units, by one of: */
enum dp_cutter_way {
    DP_CUTTER_BEST,   /* the likeliest choice each time */
    DP_CUTTER_DRAWN,  /* drawn by their probabilities, from a seed and the choice's number */
    DP_CUTTER_FOLLOW, /* what the tape has: its visits' parts and its placings' devices */
};
/* t: = the choices; code is of the same weights. */
void dp_cutter_place(const struct dp_cutter *c, const struct dp_net_graph *g, const struct dp_cutter_code *code, enum dp_cutter_way way,
                     uint64_t seed, struct dp_cutter_tape *t);
/* device: [units] = what the tape says. */
void dp_cutter_devices(const struct dp_cutter_tape *t, uint32_t *device);

/* grad: += of the sum over choices of slope * log_share - entropy_worth * entropy of the shares. c, code and tape belong together.
 * returns 0 or -1 (DP_ENOMEM). */
int dp_cutter_learn(const struct dp_cutter *c, const struct dp_net_graph *g, const struct dp_cutter_code *code,
                    const struct dp_cutter_tape *t, float entropy_worth, struct dp_cutter *grad, struct dp_err *err);

#endif
