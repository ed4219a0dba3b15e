/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-ops: every operation but the linear layers, at the sizes of GPT-2 124M.
 *
 *   bench_ops [options]      (--help lists them)
 *
 * An operation is compared with what limits it (limits.h, measured on as many threads, by vectors of the
 * same width): its floating-point operations with the peak of fused multiply-adds, or the bytes that it
 * must read and write at least once with a plain loop over as many bytes, so in the same cache.
 * Printed: the median of the rounds; spread = (max - min) / median. Time: of the thread's CPU with one
 * thread, else of the wall.
 */
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/stdout.h"
#include "kernels/backend.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/limits.h"
#include "kernels/bench/machine.h"
#include "kernels/bench/options.h"
#include "kernels/waiting.h"

static const char usage[] = "usage: bench_ops [options]\n"
                            "\n"
                            "  --op PREFIX      operations whose names begin so; default: all\n"
                            "  --threads N      default 1\n"
                            "  --rounds N       measured rounds, default 7\n"
                            "  --backend NAME   cpu, cpu:avx512, cpu:avx2, cpu:plain; default cpu\n"
                            "  --json           for machines\n";

#define C 768 /* GPT-2 124M: channels, */
#define HEADS 12 /* heads, */
#define V 50304 /* and its 50257 tokens as llm.c pads them, to a multiple of 128 */
#define MAX_ARRAYS 5 /* of a test: layernorm_bwd and attention_bwd have so many */
#define SHORTEST_NS 200000.0 /* of a round; shorter operations are repeated */

/* n: tokens, or elements; t: context. Arrays: the most floats that one of a call's arrays has. */
struct test {
    const char *name;
    int64_t n, t, floats;
    int n_arrays;
    enum dp_limit limit;
    double work; /* operations, or bytes */
    int (*run)(struct dp_backend *be, const struct test *x, float *const a[MAX_ARRAYS], struct dp_err *err);
};

static uint32_t tokens[1024];
static double loss[1024];

static int run_embedding(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->embedding(be, &(struct dp_embedding){x->n, x->t, C, V, a[0], a[1], a[2], tokens}, err);
}

static int run_embedding_bwd(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->embedding_bwd(be, &(struct dp_embedding_bwd){x->n, x->t, C, V, a[0], a[1], a[2], tokens}, err);
}

static int layernorm(struct dp_backend *be, const struct test *x, float *const a[], enum dp_token_format format,
                     struct dp_err *err)
{
    return be->ops->layernorm(be, &(struct dp_layernorm){.n = x->n, .c = C, .y = a[0], .mean = a[2],
                                                         .rstd = a[2] + x->n, .x = a[1], .gamma = a[3],
                                                         .beta = a[3] + C, .y_format = format}, err);
}

static int run_layernorm(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return layernorm(be, x, a, DP_ROWS, err);
}

static int run_layernorm_tiles(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return layernorm(be, x, a, DP_TILES, err);
}

static int run_layernorm_bwd(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->layernorm_bwd(be, &(struct dp_layernorm_bwd){.n = x->n, .c = C, .dx = a[0], .dgamma = a[3],
                                                                 .dbeta = a[3] + C, .dy = a[1], .x = a[2],
                                                                 .gamma = a[3] + 2 * C, .mean = a[4],
                                                                 .rstd = a[4] + x->n, .add_to_dx = true}, err);
}

static int run_attention(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->attention(be, &(struct dp_attention){x->n / x->t, x->t, C, HEADS, a[0], a[1], a[2]}, err);
}

/* y and lse must be those of the forward pass: the probabilities would overflow else. */
static int run_attention_bwd(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->attention_bwd(be, &(struct dp_attention_bwd){x->n / x->t, x->t, C, HEADS, a[3], a[4], a[0],
                                                                 a[2], a[1]}, err);
}

static int run_add(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->add(be, &(struct dp_add){x->n * C, a[0], a[1], a[2]}, err);
}

static int run_head(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->head(be, &(struct dp_head){.n = x->n, .c = C, .v = V, .loss = loss, .dx = a[0], .dw = a[1],
                                               .x = a[2], .w = a[3], .targets = tokens, .scale = 0.01f,
                                               .overwrite = true}, err);
}

static int run_loss(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->head(be, &(struct dp_head){.n = x->n, .c = C, .v = V, .loss = loss, .x = a[0], .w = a[1],
                                               .targets = tokens}, err);
}

static int run_adamw(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    static const struct dp_step_scalars step = {.lr = 1e-4f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .decay = 0.1f,
                                                .bias1 = 0.5f, .bias2 = 0.5f, .grad_scale = 1.0f};

    return be->ops->adamw(be, &(struct dp_adamw){.n = x->n, .w = a[0], .g = a[1], .m = a[2], .v = a[3], .step = &step,
                                                 .decays = true}, err);
}

static int run_sum_squares(struct dp_backend *be, const struct test *x, float *const a[], struct dp_err *err)
{
    return be->ops->sum_squares(be, &(struct dp_sum_squares){.n = x->n, .x = a[0], .sum = loss}, err);
}

/* Attention backward runs behind the forward pass, in the same arrays. Causal: half of the scores. */
#define OF_TOKENS(n, t)                                                                            \
    {"embedding", n, t, (int64_t)V * C, 3, DP_LIMIT_TRIAD, 12.0 * n * C, run_embedding},           \
    {"embedding_bwd", n, t, (int64_t)V * C, 3, DP_LIMIT_TRIAD, 20.0 * n * C, run_embedding_bwd},   \
    {"layernorm", n, t, n * C, 4, DP_LIMIT_TRIAD, 8.0 * n * C, run_layernorm},                     \
    {"layernorm_bwd", n, t, n * C, 5, DP_LIMIT_TRIAD, 16.0 * n * C, run_layernorm_bwd},            \
    {"layernorm tiles", n, t, n * C, 4, DP_LIMIT_TRIAD, 8.0 * n * C, run_layernorm_tiles},         \
    {"attention", n, t, 3 * n * C, 3, DP_LIMIT_FMA, 2.0 * n * (t + 1) * C, run_attention},         \
    {"attention_bwd", n, t, 3 * n * C, 5, DP_LIMIT_FMA, 5.0 * n * (t + 1) * C, run_attention_bwd}, \
    {"add", n, t, n * C, 3, DP_LIMIT_TRIAD, 12.0 * n * C, run_add},                                \
    {"head", n, t, (int64_t)V * C, 4, DP_LIMIT_FMA, 6.0 * n * C * V, run_head},                    \
    {"head, loss only", n, t, (int64_t)V * C, 2, DP_LIMIT_FMA, 2.0 * n * C * V, run_loss}
#define OF_WEIGHTS(n)                                                                              \
    {"adamw", n, 1, n, 4, DP_LIMIT_UPDATE, 32.0 * n, run_adamw},                                   \
    {"sum_squares", n, 1, n, 1, DP_LIMIT_READ, 4.0 * n, run_sum_squares}

/* The embedding matrix, and the weights of a block. */
static const struct test tests[] = {OF_TOKENS(256, 64), OF_TOKENS(1024, 1024), OF_WEIGHTS(V * C), OF_WEIGHTS(12 * C * C)};
#define N_TESTS ((int)(sizeof tests / sizeof tests[0]))

struct options {
    bool json;
    const char *backend, *op;
    int threads, rounds;
};

struct result {
    struct dp_bench_result ns;
    double limit; /* GFLOP/s or GB/s */
};

static double now(struct dp_backend *be, int threads)
{
    return (double)(threads == 1 ? be->ops->time_ns(be) : dp_now_ns());
}

/* Numbers of the size that activations have. */
static int make_arrays(struct dp_backend *be, const struct test *x, float *a[MAX_ARRAYS], struct dp_err *err)
{
    uint32_t seed = 1;

    for (int i = 0; i < x->n_arrays; i++) {
        void *p;

        if (be->ops->alloc(be, (size_t)(x->floats + 4 * C) * sizeof(float), &p, err) < 0)
            return -1;
        a[i] = p;
        for (int64_t j = 0; j < x->floats + 4 * C; j++) {
            seed = seed * 1664525u + 1013904223u;
            a[i][j] = 0.25f + (float)(seed >> 8) / 16777216.0f;
        }
    }
    return 0;
}

static int time_op(struct dp_backend *be, const struct test *x, const struct options *o, double *samples,
                   struct dp_err *err)
{
    float *a[MAX_ARRAYS] = {NULL};
    int repeats = 1, rc = -1;

    if (make_arrays(be, x, a, err) < 0 ||
        (x->run == run_attention_bwd && run_attention(be, x, a, err) < 0))
        goto out;
    for (int round = -2; round < o->rounds; round++) { /* -2 warms up, -1 says how often to repeat */
        double start = now(be, o->threads), ns;

        for (int i = 0; i < repeats; i++)
            if (x->run(be, x, a, err) < 0)
                goto out;
        if (be->ops->sync(be, err) < 0)
            goto out;
        ns = (now(be, o->threads) - start) / repeats;
        if (round >= 0)
            samples[round] = ns;
        else if (round == -1 && ns < SHORTEST_NS)
            repeats = (int)(SHORTEST_NS / (ns + 1.0)) + 1;
    }
    rc = 0;
out:
    for (int i = 0; i < MAX_ARRAYS; i++)
        be->ops->free(be, a[i]);
    return rc;
}

static int measure(struct dp_backend *be, const struct test *x, const struct options *o, struct result *r,
                   struct dp_err *err)
{
    double samples[DP_BENCH_MAX_ROUNDS] = {0};
    int64_t floats = x->limit == DP_LIMIT_FMA ? 1 << 16 : (int64_t)(x->work / (x->limit == DP_LIMIT_UPDATE ? 8 : 4));

    if (time_op(be, x, o, samples, err) < 0)
        return dp_err_prefix(err, "%s", x->name);
    r->ns = dp_bench_summarise(samples, o->rounds);
    r->limit = dp_limit_measure(x->limit, o->backend, o->threads, floats);
    return 0;
}

static void print_result(const struct test *x, const struct result *r)
{
    double rate = x->work / r->ns.median;

    printf("%-15s %9lld %5lld  %9.3f  %7.1f %-7s  %7.1f  %5.1f %%  %4.0f %%\n", x->name, (long long)x->n,
           (long long)x->t, r->ns.median * 1e-6, rate, x->limit == DP_LIMIT_FMA ? "GFLOP/s" : "GB/s", r->limit,
           100.0 * rate / r->limit, 100.0 * r->ns.spread);
    fflush(stdout);
}

static json_t *result_json(const struct test *x, const struct result *r)
{
    static const char *const limits[DP_LIMIT_N] = {"fma", "read", "triad", "update"};

    return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:s, s:f}", "op", x->name, "n", (json_int_t)x->n, "context",
                     (json_int_t)x->t, "ns", r->ns.median, "spread", r->ns.spread,
                     x->limit == DP_LIMIT_FMA ? "gflops" : "gbytes_per_s", x->work / r->ns.median, "limit",
                     limits[x->limit], "limit_value", r->limit);
}

static json_t *head_json(const struct options *o)
{
    json_t *root = bench_machine_json();

    json_object_set_new(root, "backend", json_string(o->backend));
    json_object_set_new(root, "threads", json_integer(o->threads));
    json_object_set_new(root, "rounds", json_integer(o->rounds));
    json_object_set_new(root, "clock", json_string(o->threads == 1 ? "cpu" : "wall"));
    return root;
}

static int run(struct dp_backend *be, const struct options *o, json_t *root, struct dp_err *err)
{
    json_t *rows = json_array();

    json_object_set_new(root, "ops", rows);
    if (!o->json) {
        bench_machine_print(root);
        printf("backend %s, threads %d, median of %d; %s\n"
               "operation               n     t         ms          rate             limit     of it  spread\n",
               o->backend, o->threads, o->rounds, o->threads == 1 ? "CPU time of the thread" : "wall time");
    }
    for (int i = 0; i < N_TESTS; i++) {
        struct result r = {{0}, 0};

        if (o->op && strncmp(tests[i].name, o->op, strlen(o->op)))
            continue;
        if (measure(be, &tests[i], o, &r, err) < 0)
            return -1;
        if (o->json)
            json_array_append_new(rows, result_json(&tests[i], &r));
        else
            print_result(&tests[i], &r);
    }
    if (o->json) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    return 0;
}

static int parse_option(int c, struct options *o, struct dp_err *err)
{
    switch (c) {
    case 't':
        return bench_parse_count(optarg, DP_LIMIT_MAX_THREADS, &o->threads, err);
    case 'r':
        return bench_parse_count(optarg, DP_BENCH_MAX_ROUNDS, &o->rounds, err);
    case 'b':
        o->backend = optarg;
        return 0;
    case 'o':
        o->op = optarg;
        return 0;
    default: /* 'j' */
        o->json = true;
        return 0;
    }
}

/* returns: -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {{"json", no_argument, NULL, 'j'},
                                          {"backend", required_argument, NULL, 'b'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"op", required_argument, NULL, 'o'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct dp_err err = {0};
    int c, rc = 0;

    *o = (struct options){.backend = "cpu", .threads = 1, .rounds = 7};
    while (rc == 0 && (c = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?') /* getopt_long has said why */
            return 2;
        rc = parse_option(c, o, &err);
    }
    if (rc == 0 && optind < argc)
        rc = dp_err_set(&err, DP_EINVAL, "unknown option '%.60s'", argv[optind]);
    if (rc < 0)
        fprintf(stderr, "bench_ops: %s\n", err.text);
    return rc < 0 ? 2 : -1;
}

int main(int argc, char **argv)
{
    struct dp_err err = {0};
    struct options o;
    struct dp_backend *be;
    json_t *root;
    int rc = parse(argc, argv, &o);

    if (rc >= 0) {
        if (rc == 2)
            fputs("Try bench_ops --help.\n", stderr);
        return rc;
    }
    dp_wait_briefly(o.threads, argv);
    for (int i = 0; i < 1024; i++)
        tokens[i] = (uint32_t)(i * 7919 % V);
    be = dp_backend_create(o.backend, 0, o.threads, &err);
    root = head_json(&o);
    rc = be ? run(be, &o, root, &err) : -1;
    if (rc == 0)
        rc = dp_stdout_flush(&err);
    if (rc < 0)
        fprintf(stderr, "bench_ops: %s\n", err.text);
    json_decref(root);
    dp_backend_destroy(be);
    return rc < 0;
}
