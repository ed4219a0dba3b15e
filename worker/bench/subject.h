/* SPDX-License-Identifier: BSD-3-Clause */
/* What bench_train times: a GPT, or a stage of its blocks, on one worker, stepped as worker/train/trainer.c
 * does it, without pipeline, daemon and files.
 *
 * Tokens are random and stay the same, so the loss must fall. A stage alone gets random activations and
 * gradients at its borders.
 */
#ifndef DP_WORKER_BENCH_SUBJECT_H
#define DP_WORKER_BENCH_SUBJECT_H

#include <time.h>

#include "worker/bench/masks.h"
#include "worker/model/stage.h"

struct bench_shape {
    char name[64];
    bool is_stage; /* blocks alone: no embedding, no head */
    int64_t blocks, channels, heads, vocabulary, batch, context;
};

/* Parts of a step by the subject's clock, then device time of the kinds of layers (forward and backward). */
enum bench_part {
    BENCH_FORWARD,
    BENCH_BACKWARD,
    BENCH_TIED,      /* head's gradient to the embedding, new weights back */
    BENCH_CLIP,      /* squares of all gradients */
    BENCH_OPTIMIZER, /* AdamW, and the sparse copies */
    BENCH_EMBEDDING,
    BENCH_BLOCKS,
    BENCH_HEAD,
    BENCH_N_PARTS
};
extern const char *const bench_part_names[BENCH_N_PARTS];

struct bench_step {
    double ns;     /* by the subject's clock */
    double cpu_ns; /* of all threads */
    double part_ns[BENCH_N_PARTS];
    double faults; /* minor page faults */
    double loss;   /* mean, nats; 0 for a stage */
};

/* The engine's own figures, bytes. */
struct bench_memory {
    double weights, gradients, optimizer; /* moments */
    double indexes;                       /* patterns, plans, copies of weights in other orders, bitmaps */
    double activations;                   /* of one microbatch, and workspace */
};

struct bench_subject {
    struct bench_shape shape;
    struct dp_train_config config;
    struct dp_tune tune;
    struct dp_backend *be; /* borrowed */
    clockid_t clock;
    struct dp_stage *stage;
    uint64_t step; /* optimizer steps done */
    uint32_t *tokens, *targets;
    float *in, *out, *dout, *din; /* [device] borders of a stage */
    double *squares;
    double density;                /* of all prunable weights together */
    uint32_t n_sparse, n_prunable; /* matrices: stored sparse, in all */
    struct bench_spread spread;
};

/* Where the zeros are. */
struct bench_zeros {
    double sparsity;                 /* random, the same in every matrix; ignored with masks */
    int64_t block_rows;              /* of what is zero together (kernels/granularity.h); ignored with masks */
    const struct bench_masks *masks; /* of a checkpoint, NULL: random */
    bool is_shuffled;                /* random, with the densities of `masks` matrix by matrix */
};

/* NULL and err on failure. be: borrowed for the life of the subject. clock: CLOCK_MONOTONIC, or with one
 * thread CLOCK_PROCESS_CPUTIME_ID, which leaves out what other programs take on a busy machine. */
struct bench_subject *bench_subject_create(const struct bench_shape *shape, const struct bench_zeros *zeros,
                                           struct dp_backend *be, clockid_t clock, struct dp_err *err);
void bench_subject_destroy(struct bench_subject *s);

/* One optimizer step on one microbatch. clip: as train.clip does by default. */
int bench_subject_step(struct bench_subject *s, bool clip, struct bench_step *out, struct dp_err *err);

uint64_t bench_subject_parameters(const struct bench_subject *s); /* a tied matrix counts once, zeros count */
void bench_subject_memory(const struct bench_subject *s, struct bench_memory *out);

/* FLOPs of a token, forward and backward: 6 (12 L C^2 density + V C) + 6 L C T; 12 L C^2 are the weights
 * of the blocks' matrices, V C those of the head (a stage has none), 6 L C T the attention: the causal
 * half of its two products, three times. Everything else is left out. */
double bench_flops_per_token(const struct bench_shape *shape, double density);

#endif
