/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration of one training run (a libconfig file, etc/gpt-*.conf). Read with common/conf/conf.h:
 * an unknown key, a wrong type or a number out of range is an error with file and line. */
#ifndef DP_WORKER_MODEL_TRAIN_CONFIG_H
#define DP_WORKER_MODEL_TRAIN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct dp_train_config {
    struct {
        int64_t blocks;   /* transformer blocks; the run has blocks + 2 layers */
        int64_t channels; /* c, a multiple of heads */
        int64_t heads;
        int64_t context;    /* t */
        int64_t vocabulary; /* v; 256 for text, 50257 for GPT-2 tokens */
        bool tied_head;     /* head uses wte */
    } model;
    struct {
        int64_t steps;
        int64_t batch;        /* rows per microbatch, b */
        int64_t microbatches; /* per step */
        double lr, min_lr;    /* peak and end of the cosine */
        int64_t warmup;       /* steps of linear warm-up */
        double beta1, beta2, eps, weight_decay;
        double clip; /* global norm, 0: no clipping */
        uint64_t seed;
    } train;
    struct {
        char path[1024];   /* a text file, or llm.c .bin (16-bit tokens, 1024-byte header) */
        char format[16];   /* "text", "tokens", "auto" (by the header's magic number) */
        double validation; /* fraction at the end of the file, 0..0.5 */
        int64_t eval_every, eval_batches; /* steps (0: only at the end), microbatches */
    } data;
    struct {
        int64_t begin, end, every; /* steps; begin = end = 0: no pruning */
        double initial, final;     /* sparsity of all prunable matrices together */
        char pattern[16];          /* "global" */
        char granularity[16];      /* a name of kernels/granularity.h */
    } prune;
    struct {
        int64_t layers;            /* from the embedding on that are frozen in the end, 0: no freezing */
        int64_t begin, end, every; /* steps; begin = end = 0: before the first one */
        char rule[16];             /* "linear", "geometric", "change", "noise": worker/scheme/freeze.c */
        double share;              /* geometric */
        double noise;              /* threshold of that rule */
    } freeze;
    struct {
        double rate; /* of the last block, 0: nothing is left out: worker/scheme/drop.c */
    } drop;
    struct {
        char schedule[16]; /* a name of DP_SCHEDULES_TRAINED */
        char backend[16];  /* "cpu", "cuda" */
        int64_t threads;
        int64_t memory_mb; /* MiB for a worker's layers, 0: see worker/train/start/memory_limit.h */
        char layout[4096]; /* to begin with, as dp_layout_format() writes it; empty: see worker/train/start/initial_layout.h */
        bool pin; /* bind the worker to cores */
        char wireup[16]; /* "auto", "daemon", "pmix" */
        char link[16]; /* "auto", "off": between devices of a node */
        char record[16]; /* "off", "on": segments of a step, for backends that replay them */
    } pipeline;
    struct {
        char background[16]; /* "auto", "always", "off": layers are copied while training goes on (worker/shadow/) */
        double max_rate;     /* of that, MB in a second for each pair of workers, 0: as much as costs a twentieth of a step */
        int64_t copies;      /* of each layer, in memory of other workers (worker/copies/): 0, unless its daemon says so, or 1 */
    } handover;
    struct {
        char dir[1024]; /* empty: no checkpoints */
        int64_t every;  /* steps, 0: none by their number */
        double every_s; /* seconds, 0: none by the clock */
        double before_limit_s; /* reserve before the job's time is over; 0: only Slurm's signal counts */
        int64_t keep;   /* newest ones that stay */
        char weights[1024]; /* a checkpoint, or a folder of them, that a run begins with which does not resume, empty: none */
        char resume[1024]; /* "auto" (newest valid one in dir), "none", or a path */
    } checkpoint;
    struct {
        char log[1024];  /* JSON lines, one per step, written by the worker with the head; empty: none */
        int64_t every;   /* steps between two lines on the terminal */
        char trace[1024]; /* costs of the layers over time, in <trace>.<rank> (tracelog.h), empty: none */
        char tune[1024]; /* file of kernels/autotune.h, empty: the default */
    } output;
};

/* Defaults, then the file, then "section.key=value" overrides from the command line. */
int dp_train_config_load(const char *path, int n_overrides, char *const overrides[],
                         struct dp_train_config *out, struct dp_err *err);

/* Rows of what pruning takes or leaves together (kernels/granularity.h): 1 for single weights. */
int64_t dp_train_block_rows(const struct dp_train_config *config);

/* Bytes of what a stage sends the next one for a microbatch: [batch, context, channels] activations, of act_bytes
 * each (struct dp_device_info). */
size_t dp_stage_message_bytes(const struct dp_train_config *config, uint32_t act_bytes);

/* The table of keys, for --help and tests; ends with an entry whose name is NULL. */
struct dp_conf_key;
/* Static, of the library. */
const struct dp_conf_key *dp_train_config_keys(void);

/* What no single key can tell: heads divide channels, learning rates fall, ... The load does it; what concerns schemes alone is
 * dp_schemes_check()'s (worker/scheme/scheme.h); whoever fills the struct in another way calls it. */
int dp_train_config_check(const struct dp_train_config *config, struct dp_err *err);

#endif
