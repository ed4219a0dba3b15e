/* SPDX-License-Identifier: BSD-3-Clause */
/* See trace.h. The table of operations is copied, and each member times itself around the one it stands
 * for. Two clock reads a call, below 1 us, are little beside an operation.
 */
#include "worker/bench/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define MAX_ENTRIES 256 /* operations times shapes: a stage has some thirty */

struct entry {
    const char *op;
    char shape[64];
    double calls, ns, work; /* work: FLOPs of a product, else elements */
    bool is_product;
};

static struct entry entries[MAX_ENTRIES];
static int n_entries;
static const struct dp_backend_ops *inner;
static struct dp_backend_ops traced;
static clockid_t trace_clock;

static uint64_t now(void)
{
    return dp_clock_read_ns(trace_clock);
}

/* More kinds of calls than entries: the last entry takes the rest. */
static void note(const char *op, const char *shape, double work, uint64_t ns)
{
    int i = 0;

    while (i < n_entries && (entries[i].op != op || strcmp(entries[i].shape, shape)))
        i++;
    if (i == n_entries && n_entries < MAX_ENTRIES) {
        entries[i] = (struct entry){.op = op, .is_product = shape[0] != '\0'};
        snprintf(entries[i].shape, sizeof entries[i].shape, "%s", shape);
        n_entries++;
    } else if (i == MAX_ENTRIES) {
        i--;
    }
    entries[i].calls += 1.0;
    entries[i].ns += (double)ns;
    entries[i].work += work;
}

/* ---- shape and FLOPs of each operation's arguments ---- */

static double of_matrix(char *shape, size_t cap, int64_t c_out, int64_t c_in, int64_t n,
                        const struct dp_sparse *sp)
{
    if (!sp) {
        snprintf(shape, cap, "%lldx%lld, %lld", (long long)c_out, (long long)c_in, (long long)n);
        return 2.0 * (double)c_out * (double)c_in * (double)n;
    }
    snprintf(shape, cap, "%lldx%lld, %lld, %.0f %% zeros", (long long)c_out, (long long)c_in, (long long)n,
             100.0 - 100.0 * (double)sp->nnz / ((double)c_out * (double)c_in));
    return 2.0 * (double)sp->nnz * (double)n;
}

static double of_attention(char *shape, size_t cap, int64_t b, int64_t t, int64_t c, int64_t h,
                           double products)
{
    snprintf(shape, cap, "b%lld t%lld c%lld h%lld", (long long)b, (long long)t, (long long)c, (long long)h);
    return products * (double)b * (double)t * (double)t * (double)c; /* the causal half of 2 b t t c each */
}

static double of_head(char *shape, size_t cap, const struct dp_head *a)
{
    snprintf(shape, cap, "%lldx%lld, %lld%s", (long long)a->v, (long long)a->c, (long long)a->n,
             a->dx ? "" : ", loss alone");
    return (a->dx ? 6.0 : 2.0) * (double)a->n * (double)a->c * (double)a->v;
}

/* All sizes together. */
static double of_elements(char *shape, int64_t n)
{
    shape[0] = '\0';
    return (double)n;
}

#define MATRIX(a) of_matrix(shape, sizeof shape, (a)->c_out, (a)->c_in, (a)->n, (a)->sparse)
#define ATTENTION(a, products) of_attention(shape, sizeof shape, (a)->b, (a)->t, (a)->c, (a)->h, products)
#define ELEMENTS(n) of_elements(shape, n)
#define HEAD(a) of_head(shape, sizeof shape, a)

/* Operations that take a struct of their name, and what a call of each computes. */
#define OPS(O)                                                                                               \
    O(linear, MATRIX(a))                                                                                     \
    O(linear_bwd_input, MATRIX(a))                                                                           \
    O(linear_bwd_weight, MATRIX(a))                                                                          \
    O(embedding, ELEMENTS(a->n * a->c))                                                                      \
    O(embedding_bwd, ELEMENTS(a->n * a->c))                                                                  \
    O(layernorm, ELEMENTS(a->n * a->c))                                                                      \
    O(layernorm_bwd, ELEMENTS(a->n * a->c))                                                                  \
    O(attention, ATTENTION(a, 2.0))                                                                          \
    O(attention_bwd, ATTENTION(a, 5.0)) /* with the scores computed again */                                 \
    O(reorder, ELEMENTS(a->n * a->c))                                                                        \
    O(add, ELEMENTS(a->n))                                                                                   \
    O(head, HEAD(a))                                                                                         \
    O(sum, ELEMENTS(a->n))                                                                                   \
    O(adamw, ELEMENTS(a->n))                                                                                 \
    O(sum_squares, ELEMENTS(a->n))

#define DEFINE_TRACED(name, measure)                                                                         \
    static int traced_##name(struct dp_backend *be, const struct dp_##name *a, struct dp_err *err)           \
    {                                                                                                        \
        uint64_t start_ns = now(), ns;                                                                       \
        int rc = inner->name(be, a, err);                                                                    \
        char shape[64];                                                                                      \
        double work;                                                                                         \
                                                                                                             \
        ns = now() - start_ns;                                                                               \
        work = measure;                                                                                      \
        note(#name, shape, work, ns);                                                                        \
        return rc;                                                                                           \
    }
OPS(DEFINE_TRACED)

static int traced_copy(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err)
{
    uint64_t start_ns = now();
    int rc = inner->copy(be, dst, src, bytes, err);

    note("copy", "", (double)bytes / sizeof(float), now() - start_ns);
    return rc;
}

static int traced_refresh(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err)
{
    uint64_t start_ns = now();
    int rc = inner->sparse_refresh(be, sp, w, err);

    note("sparse_refresh", "", (double)sp->nnz, now() - start_ns);
    return rc;
}

#define SET_TRACED(name, measure) traced.name = traced_##name;

void bench_trace_begin(struct dp_backend *const *be, int n, clockid_t clock)
{
    trace_clock = clock;
    inner = be[0]->ops;
    traced = *inner;
    OPS(SET_TRACED)
    traced.copy = traced_copy;
    traced.sparse_refresh = traced_refresh;
    for (int i = 0; i < n; i++)
        be[i]->ops = &traced;
}

void bench_trace_clear(void)
{
    n_entries = 0;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct entry *)a)->ns, y = ((const struct entry *)b)->ns;

    return x > y ? -1 : x < y;
}

json_t *bench_trace_json(double steps)
{
    json_t *list = json_array();

    qsort(entries, (size_t)n_entries, sizeof *entries, by_time);
    for (int i = 0; i < n_entries; i++) {
        const struct entry *e = &entries[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f}", "op", e->op, "shape", e->shape,
                                              "calls", e->calls / steps, "ns", e->ns / steps,
                                              e->is_product ? "gflops" : "elements_per_ns", e->work / e->ns));
    }
    return list;
}
