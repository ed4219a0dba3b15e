/* SPDX-License-Identifier: BSD-3-Clause */
/* Making the plan: on the host, in one piece of memory that goes to the device as it is. Time O(nnz + rows of blocks times
 * slices), at pruning events and after a hand-over. */
#include "kernels/cuda/sparse/sparse_plan.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/pattern.h"

#define ALIGN 256 /* bytes that an array in the plan's memory begins at a multiple of */

/* Where an array of the plan lies in its memory. */
struct part {
    size_t at, bytes;
};

/* The arrays of a direction, on the host: the pattern of one. */
struct side {
    int64_t groups, units, per_slice, slices;
    uint32_t *cut, *place; /* place: of the columns only */
    uint16_t *index;
    struct part cuts, indexes, places;
};

static struct part add_part(size_t *total, size_t n, size_t size)
{
    const struct part p = {*total, n * size};

    *total += (p.bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

/* groups: rows or columns of blocks. units: of the other direction, each of `channels` channels. n: blocks. */
static struct side plan_side(int64_t groups, int64_t units, int64_t channels, bool is_square, int64_t n, bool has_places,
                             size_t *total)
{
    struct side s = {.groups = groups, .units = units, .per_slice = is_square ? units : DP_CUDA_SLICE / channels};

    s.slices = (units + s.per_slice - 1) / s.per_slice;
    s.cuts = add_part(total, (size_t)((s.slices + 1) * groups), sizeof *s.cut);
    s.indexes = add_part(total, (size_t)n, sizeof *s.index);
    s.places = add_part(total, has_places ? (size_t)n : 0, sizeof *s.place);
    return s;
}

static void lay_out(struct side *s, char *memory)
{
    s->cut = (uint32_t *)(void *)(memory + s->cuts.at);
    s->index = (uint16_t *)(void *)(memory + s->indexes.at);
    s->place = (uint32_t *)(void *)(memory + s->places.at);
}

/* Where the slices begin; first: of each group, its first entry, and behind the last one. */
static void cut_slices(struct side *s, const uint32_t *first)
{
    for (int64_t g = 0; g < s->groups; g++) {
        uint32_t e = first[g];

        for (int64_t slice = 0; slice <= s->slices; slice++) {
            while (e < first[g + 1] && s->index[e] < slice * s->per_slice)
                e++;
            s->cut[slice * s->groups + g] = e;
        }
    }
}

/* first (groups + 1): of the columns' entries. cursor: room for `groups` numbers. */
static void turn(struct side *s, const struct dp_sparse *sp, int64_t rows, uint32_t *first, uint32_t *cursor)
{
    const int64_t n = dp_sparse_n_blocks(sp);

    memset(first, 0, ((size_t)s->groups + 1) * sizeof *first);
    for (int64_t e = 0; e < n; e++)
        first[sp->col[e] + 1]++;
    for (int64_t c = 0; c < s->groups; c++)
        first[c + 1] += first[c];
    memcpy(cursor, first, (size_t)s->groups * sizeof *cursor);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t e = sp->row_ptr[r]; e < sp->row_ptr[r + 1]; e++) {
            const uint32_t to = cursor[sp->col[e]]++;

            s->index[to] = (uint16_t)r;
            s->place[to] = (uint32_t)e;
        }
}

/* Both directions into `memory`, which they know their places in. returns: 0, or -1 without memory. */
static int fill_in(struct side *by_row, struct side *by_column, const struct dp_sparse *sp, char *memory)
{
    const int64_t most = by_row->groups > by_column->groups ? by_row->groups : by_column->groups;
    uint32_t *first = malloc(((size_t)most + 1) * sizeof *first), *cursor = malloc((size_t)most * sizeof *cursor);
    const bool there = first && cursor;

    if (there) {
        lay_out(by_row, memory);
        lay_out(by_column, memory);
        memcpy(by_row->index, sp->col, (size_t)dp_sparse_n_blocks(sp) * sizeof *sp->col);
        for (int64_t r = 0; r <= by_row->groups; r++)
            first[r] = (uint32_t)sp->row_ptr[r];
        cut_slices(by_row, first);
        turn(by_column, sp, by_row->groups, first, cursor);
        cut_slices(by_column, first);
    }
    free(first);
    free(cursor);
    return there ? 0 : -1;
}

static struct dp_cuda_walk walk_of(const struct side *s, bool has_places, const char *device)
{
    return (struct dp_cuda_walk){
        .groups = s->groups,
        .slices = s->slices,
        .cut = (const uint32_t *)(const void *)(device + s->cuts.at),
        .index = (const uint16_t *)(const void *)(device + s->indexes.at),
        .place = has_places ? (const uint32_t *)(const void *)(device + s->places.at) : NULL,
    };
}

static void plan_destroy(struct dp_backend *be, struct dp_cuda_plan *plan)
{
    if (!plan)
        return;
    dp_cuda_free(be, plan->memory);
    free(plan);
}

int dp_cuda_sparse_prepare(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "sparse_prepare", err);
    struct dp_cuda_plan *plan = NULL;
    struct side by_row, by_column;
    int64_t block, width, n;
    size_t total = 0;
    char *host = NULL;
    int rc = -1;

    if (!cu || dp_sparse_check(sp, err) < 0)
        return -1;
    block = dp_sparse_block(sp), width = dp_block_cols(block), n = dp_sparse_n_blocks(sp);
    by_row = plan_side(sp->rows / block, sp->cols / width, width, width > 1, n, false, &total);
    by_column = plan_side(sp->cols / width, sp->rows / block, block, width > 1, n, true, &total);
    plan = calloc(1, sizeof *plan);
    host = calloc(1, total);
    if (!plan || !host || fill_in(&by_row, &by_column, sp, host) < 0) {
        dp_err_set(err, DP_ENOMEM, "cuda: sparse_prepare: no memory for the index of %lld nonzeros", (long long)sp->nnz);
        goto out;
    }
    *plan = (struct dp_cuda_plan){.rows = sp->rows, .cols = sp->cols, .nnz = sp->nnz, .block = block,
                                  .bytes = total + sizeof *plan};
    if (dp_cuda_alloc(be, total, &plan->memory, err) < 0 || dp_cuda_put(be, plan->memory, host, total, err) < 0)
        goto out;
    plan->by_row = walk_of(&by_row, false, plan->memory);
    plan->by_column = walk_of(&by_column, true, plan->memory);
    dp_cuda_sparse_release(be, sp);
    sp->plan = plan;
    plan = NULL;
    rc = 0;
out:
    plan_destroy(be, plan);
    free(host);
    return rc;
}

void dp_cuda_sparse_release(struct dp_backend *be, struct dp_sparse *sp)
{
    plan_destroy(be, sp->plan);
    sp->plan = NULL;
}

int dp_cuda_sparse_refresh(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "sparse_refresh", err);

    (void)w;
    if (!cu)
        return -1;
    return sp->plan ? 0 : dp_cuda_refuse(cu, err, "before sparse_prepare");
}

size_t dp_cuda_sparse_bytes(struct dp_backend *be, const struct dp_sparse *sp)
{
    const struct dp_cuda_plan *plan = sp->plan;

    (void)be;
    return plan ? plan->bytes : 0;
}

const struct dp_cuda_plan *dp_cuda_plan_of(struct dp_cuda *cu, const struct dp_sparse *sp, int64_t rows, int64_t cols,
                                           struct dp_err *err)
{
    const struct dp_cuda_plan *plan = sp->plan;

    if (!plan) {
        dp_cuda_refuse(cu, err, "sparse matrix without a plan, call sparse_prepare");
        return NULL;
    }
    if (plan->rows != sp->rows || plan->cols != sp->cols || plan->nnz != sp->nnz || plan->block != dp_sparse_block(sp)) {
        dp_cuda_refuse(cu, err, "sparse matrix (%lld, %lld) with %lld nonzeros, prepared as (%lld, %lld) with %lld",
                       (long long)sp->rows, (long long)sp->cols, (long long)sp->nnz, (long long)plan->rows,
                       (long long)plan->cols, (long long)plan->nnz);
        return NULL;
    }
    if (plan->rows != rows || plan->cols != cols) {
        dp_cuda_refuse(cu, err, "sparse matrix (%lld, %lld), the shapes say (%lld, %lld)", (long long)plan->rows,
                       (long long)plan->cols, (long long)rows, (long long)cols);
        return NULL;
    }
    return plan;
}
