/* SPDX-License-Identifier: BSD-3-Clause */
/* Building the index of plan.h from a CSR pattern; time O(nnz + pieces), done at pruning events and when a layer has come. The two
 * directions know nothing of each other: each is a task. */
#include "kernels/cpu/sparse/plan.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "kernels/pattern.h"

static double density_of(int64_t rows, int64_t cols, int64_t nnz)
{
    return (double)nnz / ((double)rows * (double)cols + 1.0);
}

/* Columns per block for the mean density: a piece wants some ten nonzeros or more, a block of a tile (256
 * bytes per column) wants to stay in the first-level cache, for the weight gradient one of two tiles.
 * Measured on Zen 4 and Emerald Rapids with 48 to 384 columns, shapes 3072x768 and 768x3072; neighbours of
 * the best choice cost 1-3 %. Never from the machine's caches: the cut decides the order of sums. */
static int64_t choose_block(double density)
{
    if (density >= 0.35)
        return 64;
    if (density >= 0.15)
        return 96;
    if (density >= 0.075)
        return 128;
    return density >= 0.035 ? 192 : 384;
}

/* The same for w^T, which only the input gradient walks, one tile at a time: 3-5 % faster than with the above. */
static int64_t choose_bwd_block(double density)
{
    if (density >= 0.15)
        return 128;
    return density >= 0.075 ? 160 : choose_block(density);
}

/* With blocks of 4 x 1, forward: as few blocks as fit the second-level cache beside the sums, a quarter of a
 * mebibyte of a tile each. */
static int64_t choose_wide_block(int64_t cols)
{
    int64_t n = (cols + 1023) / 1024;

    return (cols + n - 1) / n;
}

/* Rows of a chunk. In small ones a tile of the input serves few rows; in large ones dy of two tiles, 512 bytes a
 * row, leaves the weight gradient no room in the second-level cache. Measured with 256, 384, 512 and 1024 of 768
 * and 3072 rows. */
static int64_t choose_chunk(int64_t rows)
{
    return rows <= DP_PLAN_MAX_CHUNK ? DP_PLAN_MAX_CHUNK : 512;
}

/* In units of pieces: rows of d, rows of a chunk. */
static int64_t piece_rows(const struct dp_plan_dir *d)
{
    return d->rows / d->row_width;
}

static int64_t chunk_rows(const struct dp_plan_dir *d)
{
    return d->chunk / d->row_width;
}

/* calloc that counts. */
static void *dir_alloc(struct dp_plan_dir *d, size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (p)
        d->bytes += n * size;
    return p;
}

static void dir_release(struct dp_plan_dir *d)
{
    free(d->first);
    free(d->first_offset);
    free(d->piece);
    free(d->values);
    free(d->offset);
}

static void plan_destroy(struct dp_plan *plan)
{
    if (!plan)
        return;
    dir_release(&plan->fwd);
    dir_release(&plan->bwd);
    free(plan);
}

/* Working arrays of dir_build. */
struct build {
    const uint32_t *ptr;   /* [rows + 1] */
    const uint16_t *index; /* [entries] */
    bool starts_in_walk;   /* pieces start in the order of the walk, not in that of index */
    uint32_t *next;        /* [rows] first nonzero not yet listed */
    uint32_t count[DP_PLAN_MAX_CHUNK];
    uint32_t slot[2048]; /* by count; a block has fewer columns than that */
};

/* Count the nonzeros of each row of a chunk in columns below c1; b->slot counts the rows by that. */
static void count_rows(struct build *b, int64_t r0, int64_t n_rows, int64_t c1)
{
    memset(b->slot, 0, sizeof b->slot);
    for (int64_t i = 0; i < n_rows; i++) {
        uint32_t start = b->next[r0 + i], p = start;

        while (p < b->ptr[r0 + i + 1] && b->index[p] < c1)
            p++;
        b->count[i] = p - start;
        b->slot[b->count[i]]++;
    }
}

/* Append the pieces of one (chunk, block), fewest nonzeros first; returns how many there are now. */
static uint32_t list_pieces(struct dp_plan_dir *d, struct build *b, int64_t chunk, int64_t block,
                            uint32_t n_pieces)
{
    int64_t r0 = chunk * chunk_rows(d);
    int64_t n_rows = piece_rows(d) - r0 < chunk_rows(d) ? piece_rows(d) - r0 : chunk_rows(d);
    bool skip_empty = block > 0;
    uint32_t at = n_pieces;

    count_rows(b, r0, n_rows, (block + 1) * d->block);
    if (skip_empty)
        b->slot[0] = 0;
    for (int64_t k = 0; k <= d->block; k++) {
        uint32_t n = b->slot[k];

        b->slot[k] = at;
        at += n;
    }
    for (int64_t i = 0; i < n_rows; i++) {
        uint32_t start = b->next[r0 + i], count = b->count[i];

        if (count || !skip_empty)
            d->piece[b->slot[count]++] = (struct dp_plan_piece){start, (uint16_t)i, (uint16_t)count};
        b->next[r0 + i] += count;
    }
    return at;
}

/* Offsets of pieces [from, to), whose block starts at entry c0 of a row, from entry `at` of the walk on. */
static uint32_t write_offsets(struct dp_plan_dir *d, const struct build *b, uint32_t from, uint32_t to,
                              int64_t c0, uint32_t at)
{
    for (uint32_t e = from; e < to; e++) {
        uint32_t start = d->piece[e].start;

        if (b->starts_in_walk)
            d->piece[e].start = at;
        for (uint32_t j = 0; j < d->piece[e].count; j++)
            d->offset[at++] = (uint16_t)((b->index[start + j] - c0) * 32);
    }
    return at;
}

/* An upper bound of the number of pieces. */
static size_t max_pieces(const struct dp_plan_dir *d, int64_t entries)
{
    size_t all = (size_t)piece_rows(d) * (size_t)d->n_blocks;
    size_t filled = (size_t)piece_rows(d) + (size_t)entries;

    return all < filled ? all : filled;
}

/* d: rows, cols, row_width and block are set. */
static int dir_build(struct dp_plan_dir *d, const uint32_t *ptr, const uint16_t *index, int64_t entries, bool starts_in_walk)
{
    struct build *b = calloc(1, sizeof *b);
    uint32_t n_pieces = 0, n_offsets = 0;
    struct dp_plan_piece *fit;
    size_t cap;
    int rc = -1;

    d->chunk = choose_chunk(d->rows);
    d->n_blocks = (d->cols + d->block - 1) / d->block;
    d->n_chunks = (d->rows + d->chunk - 1) / d->chunk;
    cap = max_pieces(d, entries);
    d->first = dir_alloc(d, (size_t)(d->n_chunks * d->n_blocks + 1), sizeof *d->first);
    d->first_offset = dir_alloc(d, (size_t)(d->n_chunks * d->n_blocks + 1), sizeof *d->first_offset);
    if (d->row_width == 1)
        d->values = dir_alloc(d, (size_t)entries, sizeof *d->values);
    d->offset = dir_alloc(d, (size_t)entries, sizeof *d->offset);
    d->piece = calloc(cap + DP_PLAN_SPARE, sizeof *d->piece);
    if (!b || !d->first || !d->first_offset || (d->row_width == 1 && !d->values) || !d->offset || !d->piece)
        goto out;
    b->ptr = ptr;
    b->index = index;
    b->starts_in_walk = starts_in_walk;
    b->next = calloc((size_t)piece_rows(d), sizeof *b->next);
    if (!b->next)
        goto out;
    memcpy(b->next, ptr, (size_t)piece_rows(d) * sizeof *b->next);
    for (int64_t c = 0; c < d->n_chunks; c++)
        for (int64_t k = 0; k < d->n_blocks; k++) {
            uint32_t from = n_pieces;

            d->first[c * d->n_blocks + k] = from;
            d->first_offset[c * d->n_blocks + k] = n_offsets;
            n_pieces = list_pieces(d, b, c, k, from);
            n_offsets = write_offsets(d, b, from, n_pieces, k * d->block, n_offsets);
        }
    d->first[d->n_chunks * d->n_blocks] = n_pieces;
    d->first_offset[d->n_chunks * d->n_blocks] = n_offsets;
    fit = realloc(d->piece, (n_pieces + DP_PLAN_SPARE) * sizeof *fit);
    if (fit)
        d->piece = fit;
    d->bytes += (n_pieces + DP_PLAN_SPARE) * sizeof *fit;
    rc = 0;
out:
    if (b)
        free(b->next);
    free(b);
    return rc;
}

/* Rows of sp's CSR. */
static int64_t groups(const struct dp_sparse *sp)
{
    return sp->rows / dp_sparse_block(sp);
}

/* The pattern of w^T of single weights in CSR: ptr [cols + 1], zeroed, is filled; returns the column indexes (the caller
 * frees), NULL when memory is exhausted. */
static uint16_t *transpose(const struct dp_sparse *sp, uint32_t *ptr)
{
    int64_t n = sp->nnz;
    uint16_t *row_of = calloc(n ? (size_t)n : 1, sizeof *row_of);
    uint32_t *cursor = calloc((size_t)sp->cols, sizeof *cursor);

    if (!row_of || !cursor) {
        free(row_of);
        free(cursor);
        return NULL;
    }
    for (int64_t p = 0; p < n; p++)
        ptr[sp->col[p] + 1]++;
    for (int64_t c = 0; c < sp->cols; c++)
        ptr[c + 1] += ptr[c];
    memcpy(cursor, ptr, (size_t)sp->cols * sizeof *cursor);
    for (int64_t r = 0; r < groups(sp); r++)
        for (int64_t p = sp->row_ptr[r]; p < sp->row_ptr[r + 1]; p++)
            row_of[cursor[sp->col[p]]++] = (uint16_t)r;
    free(cursor);
    return row_of;
}

/* A plan to be: its directions have shapes and blocks. */
struct unbuilt {
    struct dp_plan *plan;
    const struct dp_sparse *sp;
    const uint32_t *ptr; /* sp's row pointers */
};

static int build_transposed(const struct unbuilt *u)
{
    uint32_t *col_ptr = calloc((size_t)u->sp->cols + 1, sizeof *col_ptr);
    uint16_t *row_of = col_ptr ? transpose(u->sp, col_ptr) : NULL;
    int rc = row_of ? dir_build(&u->plan->bwd, col_ptr, row_of, u->sp->nnz, true) : -1;

    free(col_ptr);
    free(row_of);
    return rc;
}

/* Task 0: backward, which takes longer where it has to be transposed; 1: forward. -1: no memory, without a text. */
static int build_dir(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct unbuilt *u = arg;
    const struct dp_sparse *sp = u->sp;

    (void)thread;
    (void)err;
    if (i == 0 && dp_sparse_block(sp) == 1)
        return build_transposed(u);
    return dir_build(i == 0 ? &u->plan->bwd : &u->plan->fwd, u->ptr, sp->col, dp_sparse_n_blocks(sp), false);
}

/* sp: single weights, or blocks of 4 x 1. */
static struct dp_plan *plan_create(struct dp_backend *be, const struct dp_sparse *sp)
{
    struct dp_plan *plan = calloc(1, sizeof *plan);
    uint32_t *ptr = calloc((size_t)groups(sp) + 1, sizeof *ptr);
    struct unbuilt u = {.plan = plan, .sp = sp, .ptr = ptr};
    int64_t rows = sp->rows, cols = sp->cols, block = dp_sparse_block(sp);
    double density = density_of(rows, cols, sp->nnz);
    bool built = false;

    if (!plan || !ptr)
        goto out;
    for (int64_t r = 0; r <= groups(sp); r++)
        ptr[r] = (uint32_t)sp->row_ptr[r];
    plan->fwd = (struct dp_plan_dir){.rows = rows, .cols = cols, .row_width = block,
                                     .block = choose_block(density)};
    if (block == 1) {
        plan->bwd = (struct dp_plan_dir){.rows = cols, .cols = rows, .row_width = 1, .block = choose_bwd_block(density)};
    } else {
        plan->bwd = plan->fwd;
        plan->fwd.block = choose_wide_block(cols);
    }
    built = dp_cpu_parallel(be, 2, build_dir, &u, NULL) == 0;
out:
    free(ptr);
    if (!built) {
        plan_destroy(plan);
        return NULL;
    }
    return plan;
}

/* Square blocks as blocks of 4 x 1, whose weights lie in the same order (struct dp_sparse). */
static struct dp_plan *plan_create_square(struct dp_backend *be, const struct dp_sparse *sp)
{
    const int64_t edge = sp->block_rows, groups_of = edge / 4;
    struct dp_sparse narrow = {.rows = sp->rows, .cols = sp->cols, .nnz = sp->nnz, .block_rows = 4};
    struct dp_plan *plan = NULL;
    int64_t at = 0;

    narrow.row_ptr = calloc((size_t)(sp->rows / 4) + 1, sizeof *narrow.row_ptr);
    narrow.col = calloc((size_t)(sp->nnz / 4) + 1, sizeof *narrow.col);
    for (int64_t g = 0; narrow.row_ptr && narrow.col && g < sp->rows / 4; g++) {
        for (int64_t k = sp->row_ptr[g / groups_of]; k < sp->row_ptr[g / groups_of + 1]; k++)
            for (int64_t c = 0; c < edge; c++)
                narrow.col[at++] = (uint16_t)(sp->col[k] * edge + c);
        narrow.row_ptr[g + 1] = at;
    }
    if (narrow.row_ptr && narrow.col)
        plan = plan_create(be, &narrow);
    free(narrow.row_ptr);
    free(narrow.col);
    return plan;
}

int dp_cpu_sparse_prepare(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err)
{
    struct dp_plan *plan;

    if (dp_sparse_check(sp, err) < 0)
        return -1;
    plan = dp_block_cols(dp_sparse_block(sp)) > 1 ? plan_create_square(be, sp) : plan_create(be, sp);
    if (!plan)
        return dp_err_set(err, DP_ENOMEM, "no memory for the index of %lld nonzeros", (long long)sp->nnz);
    dp_cpu_sparse_release(be, sp);
    sp->plan = plan;
    return 0;
}

void dp_cpu_sparse_release(struct dp_backend *be, struct dp_sparse *sp)
{
    (void)be;
    plan_destroy(sp->plan);
    sp->plan = NULL;
}

size_t dp_cpu_sparse_bytes(struct dp_backend *be, const struct dp_sparse *sp)
{
    const struct dp_plan *plan = sp->plan;

    (void)be;
    return plan ? sizeof *plan + plan->fwd.bytes + plan->bwd.bytes : 0;
}
