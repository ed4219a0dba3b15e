/* make bench: dense against sparse linear layers on this machine.
 *
 *   bench_linear [--json] [--backend NAME] [--threads N] [--rounds N] [--order tiles|rows]
 *                [--shape OUTxINxTOKENS]...
 *
 * For each shape: forward, input gradient and weight gradient, dense and at several sparsities, all in
 * alternation inside one process (dense, 0 %, 50 %, ..., dense, ...), device time of the calling thread.
 * Activations of the sparse ops lie in tiles, as between the operations of a block; with --order rows
 * their times include packing and unpacking.
 * Printed: median of the rounds; speed-up over dense; spread = (max - min) / median of the worst row.
 */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bench/bench.h"
#include "kernels/probe.h"

#define N_PATTERNS 9
#define N_SINGLE 6 /* of them, single weights */
static const struct dp_probe_pattern patterns[N_PATTERNS] = {{0.0, 1}, {0.5, 1},  {0.7, 1},
                                                             {0.8, 1}, {0.9, 1},  {0.95, 1},
                                                             {0.5, 4}, {0.9, 4},  {0.95, 4}};
static const char *const op_names[DP_PROBE_N_OPS] = {"forward", "dx", "dw"};

#define MAX_SHAPES 16

struct shape {
    int64_t c_out, c_in, n;
};
static const struct shape default_shapes[] = {{768, 3072, 256}, {768, 3072, 1024}, {3072, 768, 256},
                                              {3072, 768, 1024}, {768, 768, 256}, {1024, 256, 512},
                                              {512, 128, 512}};

struct options {
    bool json;
    const char *backend;
    int rounds, threads, n_shapes;
    enum dp_token_order order;
    struct shape shape[MAX_SHAPES];
};

/* Medians and spreads of one shape; row 0 is dense, row 1 + i patterns[i]. */
struct result {
    double ns[N_PATTERNS + 1][DP_PROBE_N_OPS], spread;
    double density[N_PATTERNS], plan_bytes[N_PATTERNS];
    int n_rows; /* blocks of four rows do not fit every shape */
};

static double summarise(double *samples, int rounds, double *spread)
{
    struct dp_bench_result r = dp_bench_summarise(samples, rounds);

    if (r.spread > *spread)
        *spread = r.spread;
    return r.median;
}

static int measure(struct dp_backend *be, const struct shape *s, const struct options *o, struct result *r,
                   struct dp_err *err)
{
    static double samples[N_PATTERNS + 1][DP_PROBE_N_OPS][DP_BENCH_MAX_ROUNDS];
    struct dp_probe *p;
    int rc = -1;

    r->n_rows = 1 + (s->c_out % 4 ? N_SINGLE : N_PATTERNS);
    p = dp_probe_create(be, s->c_out, s->c_in, s->n, patterns, r->n_rows - 1, o->order, err);
    if (!p)
        return -1;
    for (int round = -1; round < o->rounds; round++) /* round -1 warms up */
        for (int row = 0; row < r->n_rows; row++) {
            double ns[DP_PROBE_N_OPS];

            if (dp_probe_time(p, row - 1, ns, err) < 0)
                goto out;
            for (int op = 0; round >= 0 && op < DP_PROBE_N_OPS; op++)
                samples[row][op][round] = ns[op];
        }
    r->spread = 0.0;
    for (int row = 0; row < r->n_rows; row++)
        for (int op = 0; op < DP_PROBE_N_OPS; op++)
            r->ns[row][op] = summarise(samples[row][op], o->rounds, &r->spread);
    for (int i = 0; i < r->n_rows - 1; i++) {
        r->density[i] = (double)dp_probe_nnz(p, i) / ((double)s->c_out * (double)s->c_in);
        r->plan_bytes[i] = (double)dp_probe_plan_bytes(p, i);
    }
    rc = 0;
out:
    dp_probe_destroy(p);
    return rc;
}

static double total(const double ns[DP_PROBE_N_OPS])
{
    return ns[0] + ns[1] + ns[2];
}

static void print_table(const struct shape *s, const struct result *r, int rounds)
{
    double gflop = 2e-9 * (double)s->c_out * (double)s->c_in * (double)s->n;

    printf("\nw (%lld, %lld), %lld tokens; dense %.0f GFLOP/s; median of %d, spread up to %.0f %%\n",
           (long long)s->c_out, (long long)s->c_in, (long long)s->n, 3.0 * gflop / (total(r->ns[0]) * 1e-9),
           rounds, r->spread * 100.0);
    printf("    zeros   forward ms (x)      dx ms (x)       dw ms (x)      all x   plan MB\n");
    printf("    dense  %8.3f        %8.3f        %8.3f\n", r->ns[0][0] * 1e-6, r->ns[0][1] * 1e-6,
           r->ns[0][2] * 1e-6);
    for (int i = 0; i < r->n_rows - 1; i++) {
        printf("%s %3.0f %%", patterns[i].block_rows > 1 ? "4x1" : "   ", patterns[i].sparsity * 100.0);
        for (int op = 0; op < DP_PROBE_N_OPS; op++)
            printf("  %8.3f (%5.2f)", r->ns[i + 1][op] * 1e-6, r->ns[0][op] / r->ns[i + 1][op]);
        printf("  %6.2f  %7.2f\n", total(r->ns[0]) / total(r->ns[i + 1]), r->plan_bytes[i] * 1e-6);
    }
}

static json_t *shape_json(const struct shape *s, const struct result *r)
{
    json_t *rows = json_array();

    for (int row = 0; row < r->n_rows; row++) {
        json_t *line = json_object();

        if (row == 0)
            json_object_set_new(line, "kind", json_string("dense"));
        else
            json_object_set_new(line, "kind", json_string("sparse"));
        if (row > 0) {
            json_object_set_new(line, "sparsity", json_real(patterns[row - 1].sparsity));
            json_object_set_new(line, "block_rows", json_integer(patterns[row - 1].block_rows));
            json_object_set_new(line, "density", json_real(r->density[row - 1]));
            json_object_set_new(line, "plan_bytes", json_real(r->plan_bytes[row - 1]));
            json_object_set_new(line, "speedup", json_real(total(r->ns[0]) / total(r->ns[row])));
        }
        for (int op = 0; op < DP_PROBE_N_OPS; op++) {
            char key[32];

            snprintf(key, sizeof key, "%s_ns", op_names[op]);
            json_object_set_new(line, key, json_real(r->ns[row][op]));
        }
        json_array_append_new(rows, line);
    }
    return json_pack("{s:I, s:I, s:I, s:f, s:o}", "c_out", (json_int_t)s->c_out, "c_in", (json_int_t)s->c_in,
                     "tokens", (json_int_t)s->n, "spread", r->spread, "rows", rows);
}

static int parse_shape(const char *text, struct shape *out)
{
    long long v[3];
    char *end = NULL;

    for (int i = 0; i < 3; i++) {
        v[i] = strtoll(text, &end, 10);
        if (end == text || v[i] < 1 || v[i] > 1 << 20 || *end != (i < 2 ? 'x' : '\0'))
            return -1;
        text = end + 1;
    }
    *out = (struct shape){v[0], v[1], v[2]};
    return 0;
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {{"json", no_argument, NULL, 'j'},
                                          {"backend", required_argument, NULL, 'b'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"order", required_argument, NULL, 'o'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"shape", required_argument, NULL, 's'},
                                          {0}};
    int c;

    *o = (struct options){.backend = "cpu", .rounds = 7, .threads = 1, .order = DP_TILES};
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'j')
            o->json = true;
        else if (c == 'b')
            o->backend = optarg;
        else if (c == 'r')
            o->rounds = (int)strtol(optarg, NULL, 10);
        else if (c == 't')
            o->threads = (int)strtol(optarg, NULL, 10);
        else if (c == 'o' && (!strcmp(optarg, "rows") || !strcmp(optarg, "tiles")))
            o->order = strcmp(optarg, "rows") ? DP_TILES : DP_ROWS;
        else if (c != 's' || o->n_shapes == MAX_SHAPES || parse_shape(optarg, &o->shape[o->n_shapes++]) < 0)
            return -1;
    }
    if (optind != argc || o->rounds < 1 || o->rounds > DP_BENCH_MAX_ROUNDS)
        return -1;
    if (o->n_shapes == 0) {
        o->n_shapes = sizeof default_shapes / sizeof default_shapes[0];
        memcpy(o->shape, default_shapes, sizeof default_shapes);
    }
    return 0;
}

static int run(struct dp_backend *be, const struct options *o, struct dp_err *err)
{
    json_t *shapes = json_array();
    char cpu[128];

    dp_bench_cpu_name(cpu, sizeof cpu);
    if (!o->json)
        printf("machine: %s; backend %s, threads %d, device time of the calling one; activations of sparse ops in %s\n",
               cpu, o->backend, o->threads, o->order == DP_TILES ? "tiles" : "rows");
    for (int i = 0; i < o->n_shapes; i++) {
        struct result r;

        if (measure(be, &o->shape[i], o, &r, err) < 0) {
            json_decref(shapes);
            return -1;
        }
        if (o->json)
            json_array_append_new(shapes, shape_json(&o->shape[i], &r));
        else
            print_table(&o->shape[i], &r, o->rounds);
        fflush(stdout);
    }
    if (o->json) {
        json_t *root = json_pack("{s:s, s:s, s:i, s:s, s:i, s:O}", "machine", cpu, "backend", o->backend, "threads",
                                 o->threads, "order", o->order == DP_TILES ? "tiles" : "rows", "rounds", o->rounds,
                                 "shapes", shapes);

        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(root);
    }
    json_decref(shapes);
    return 0;
}

int main(int argc, char **argv)
{
    struct dp_err err = {0};
    struct options o;
    struct dp_backend *be;
    int rc;

    if (parse_options(argc, argv, &o) < 0) {
        fprintf(stderr, "usage: bench_linear [--json] [--backend NAME] [--threads N] [--rounds 1..%d] "
                        "[--order tiles|rows] [--shape OUTxINxTOKENS]...\n", DP_BENCH_MAX_ROUNDS);
        return 2;
    }
    be = dp_backend_create(o.backend, 0, o.threads, &err);
    rc = be ? run(be, &o, &err) : -1;
    if (rc < 0)
        fprintf(stderr, "bench_linear: %s\n", err.text);
    dp_backend_destroy(be);
    return rc < 0;
}
