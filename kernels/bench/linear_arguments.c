/* SPDX-License-Identifier: BSD-3-Clause */
/* See linear_arguments.h. */
#include "kernels/bench/linear_arguments.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "kernels/bench/bench.h"
#include "kernels/bench/limits.h"
#include "kernels/bench/options.h"

static const char usage[] =
    "usage: bench_linear [options]\n"
    "\n"
    "  --shape OUTxINxTOKENS  of a weight matrix and its input; may be repeated; default: seven of them\n"
    "  --mask FILE            a portable bitmap, a pixel per weight, 1 where it is kept, OUT high, IN wide:\n"
    "                         this mask, and a random one of its density; may be repeated; -: stdin\n"
    "  --tokens LIST          with each mask, default 256\n"
    "  --sparsity LIST        fractions of random zeros, default 0,0.5,0.7,0.8,0.9,0.95\n"
    "  --granularity LIST     of random zeros: weight, 4x1, 32x32, 64x64, 128x128; default weight,4x1 (or: both)\n"
    "  --threads LIST         default 1; 1,2: each of them, in alternation\n"
    "  --rounds N             measured rounds, default 7\n"
    "  --format FORMAT         of the activations of sparse operations: tiles (default), rows\n"
    "  --backend NAME         cpu, cpu:avx512, cpu:avx2, cpu:plain; default cpu\n"
    "  --clock CLOCK          wall (default), or cpu: with one thread, on a machine that is busy\n"
    "  --best                 compare the fastest rounds, not the medians: with several threads, on such a\n"
    "                         machine\n"
    "  --json                 for machines\n";

#define MAX_FLOATS ((int64_t)1 << 28) /* of one array */

static const int64_t default_shapes[][3] = {{768, 3072, 256},  {768, 3072, 1024}, {3072, 768, 256},
                                            {3072, 768, 1024}, {768, 768, 256},   {1024, 256, 512},
                                            {512, 128, 512}};
#define N_DEFAULTS ((int)(sizeof default_shapes / sizeof default_shapes[0]))

static int add_case(struct linear_arguments *a, int64_t c_out, int64_t c_in, int64_t tokens,
                    const struct bench_mask *mask, const char *name, struct dp_err *err)
{
    if (a->n_cases == LINEAR_MAX_CASES)
        return dp_err_set(err, DP_EINVAL, "%.200s: more than %d shapes and masks", name, LINEAR_MAX_CASES);
    if (c_out > DP_SPARSE_MAX || c_in > DP_SPARSE_MAX || c_out * c_in > MAX_FLOATS ||
        (c_out > c_in ? c_out : c_in) * tokens > MAX_FLOATS)
        return dp_err_set(err, DP_EINVAL,
                          "%.200s: at most %d rows and columns, and %lld weights, inputs, outputs", name,
                          DP_SPARSE_MAX, (long long)MAX_FLOATS);
    a->c[a->n_cases++] = (struct linear_case){c_out, c_in, tokens, mask, mask ? name : NULL};
    return 0;
}

static int parse_shape(const char *text, struct linear_arguments *a, struct dp_err *err)
{
    int64_t v[3];

    return bench_parse_shape(text, 3, v, err) < 0 ? -1 : add_case(a, v[0], v[1], v[2], NULL, text, err);
}

static int parse_mask(const char *path, struct linear_arguments *a, struct dp_err *err)
{
    if (a->n_paths == LINEAR_MAX_MASKS)
        return dp_err_set(err, DP_EINVAL, "more than %d masks", LINEAR_MAX_MASKS);
    a->path[a->n_paths++] = path;
    return 0;
}

static int parse_format(const char *name, enum dp_token_format *out, struct dp_err *err)
{
    *out = strcmp(name, "rows") ? DP_TILES : DP_ROWS;
    if (!strcmp(name, "rows") || !strcmp(name, "tiles"))
        return 0;
    return dp_err_set(err, DP_EINVAL, "--format takes tiles and rows, not '%.60s'", name);
}

static int parse_option(int c, struct linear_arguments *a, struct dp_err *err)
{
    struct linear_options *o = &a->options;

    switch (c) {
    case 's':
        return parse_shape(optarg, a, err);
    case 'm':
        return parse_mask(optarg, a, err);
    case 'n':
        return bench_parse_counts(optarg, BENCH_MAX_SIDE, sizeof a->tokens / sizeof a->tokens[0], a->tokens,
                                  &a->n_tokens, err);
    case 'z':
        return bench_parse_fractions(optarg, BENCH_MAX_SPARSITIES, o->sparsity, &o->n_sparsities, err);
    case 'g':
        return bench_parse_granularity(optarg, o->granularity, &o->n_granularities, err);
    case 't':
        return bench_parse_counts(optarg, DP_LIMIT_MAX_THREADS, BENCH_MAX_THREADS, o->threads, &o->n_threads,
                                  err);
    case 'r':
        return bench_parse_count(optarg, DP_BENCH_MAX_ROUNDS, &o->rounds, err);
    case 'o':
        return parse_format(optarg, &o->format, err);
    case 'w':
        return bench_parse_clock(optarg, &o->clock, err);
    case 'f':
        o->is_best = true;
        return 0;
    case 'b':
        o->backend = optarg;
        return 0;
    default: /* 'j' */
        a->is_json = true;
        return 0;
    }
}

static int add_defaults(struct linear_arguments *a, struct dp_err *err)
{
    int rc = 0;

    for (int i = 0; i < N_DEFAULTS && rc == 0; i++)
        rc = add_case(a, default_shapes[i][0], default_shapes[i][1], default_shapes[i][2], NULL, "default",
                      err);
    return rc;
}

int linear_arguments_parse(int argc, char **argv, struct linear_arguments *a)
{
    static const struct option longs[] = {{"shape", 1, NULL, 's'},       {"mask", 1, NULL, 'm'},
                                          {"tokens", 1, NULL, 'n'},      {"sparsity", 1, NULL, 'z'},
                                          {"granularity", 1, NULL, 'g'}, {"threads", 1, NULL, 't'},
                                          {"rounds", 1, NULL, 'r'},      {"format", 1, NULL, 'o'},
                                          {"clock", 1, NULL, 'w'},       {"backend", 1, NULL, 'b'},
                                          {"best", 0, NULL, 'f'},        {"json", 0, NULL, 'j'},
                                          {"help", 0, NULL, 'h'},        {0}};
    struct dp_err err = {0};
    int c, rc = 0;

    *a = (struct linear_arguments){.options = {.backend = "cpu",
                                               .rounds = 7,
                                               .n_threads = 1,
                                               .threads = {1},
                                               .clock = CLOCK_MONOTONIC,
                                               .format = DP_TILES,
                                               .n_sparsities = 6,
                                               .sparsity = {0.0, 0.5, 0.7, 0.8, 0.9, 0.95},
                                               .n_granularities = 2,
                                               .granularity = {1, 4}},
                                   .n_tokens = 1,
                                   .tokens = {256}};
    while (rc == 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?') /* getopt_long has said why */
            return 2;
        rc = parse_option(c, a, &err);
    }
    if (rc == 0 && optind < argc)
        rc = dp_err_set(&err, DP_EINVAL, "unknown option '%.60s'", argv[optind]);
    if (rc == 0)
        rc = bench_check_clock(a->options.clock, a->options.threads, a->options.n_threads, &err);
    if (rc == 0 && a->n_cases == 0 && a->n_paths == 0)
        rc = add_defaults(a, &err);
    if (rc < 0)
        fprintf(stderr, "bench_linear: %s\n", err.text);
    return rc < 0 ? 2 : -1;
}

int linear_arguments_load(struct linear_arguments *a, struct dp_err *err)
{
    for (int i = 0; i < a->n_paths; i++) {
        struct bench_mask *m = &a->mask[i];

        if (bench_mask_read(a->path[i], m, err) < 0)
            return -1;
        for (int k = 0; k < a->n_tokens; k++)
            if (add_case(a, m->rows, m->cols, a->tokens[k], m, a->path[i], err) < 0)
                return -1;
    }
    return 0;
}

void linear_arguments_release(struct linear_arguments *a)
{
    for (int i = 0; i < a->n_paths; i++)
        bench_mask_release(&a->mask[i]);
}
