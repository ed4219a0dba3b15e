/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking weights out of a matrix (dp_param_prune and dp_param_keep_chosen in layer.h).
 *
 * Above the crossover of the tune table the matrix stays dense with a bitmap of what is left (the
 * optimizer holds the rest at zero); below it the four arrays shrink to the nonzeros in CSR order and
 * the dense memory is gone. A sparse matrix never becomes dense again: pruning only takes away.
 * The host sees bits, never weights: from them it makes the new pattern, which the backend turns into the new arrays.
 */
#include <stdlib.h>

#include "common/bits.h"
#include "worker/model/layer.h"
#include "worker/model/param.h"

static bool should_be_sparse(const struct dp_layer *l, const struct dp_param *p, int64_t nnz)
{
    const struct dp_train_config *c = l->config;

    if (p->sparse)
        return true;
    return p->rows <= DP_SPARSE_MAX && p->cols <= DP_SPARSE_MAX &&
           dp_tune_is_sparse(l->tune, p->rows, p->cols, c->train.batch * c->model.context, dp_train_block_rows(c), nnz);
}

/* Stay dense: the bitmap `keep` [device], which becomes the param's, and zeros where it has none. */
static int become_dense(struct dp_layer *l, struct dp_param *p, uint64_t *keep, int64_t nnz, struct dp_err *err)
{
    float *const arrays[] = {p->w, p->m, p->v};
    struct dp_backend *be = l->be;

    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (be->ops->mask(be, &(struct dp_mask){.n = p->n, .x = arrays[i], .keep = keep}, err) < 0)
            return -1;
    be->ops->free(be, p->keep);
    p->keep = keep;
    p->nnz = nnz;
    p->g_is_void = true;
    return 0;
}

/* The arrays of `to`, whose pattern is set, from p's. */
static int fill_sparse(struct dp_layer *l, struct dp_param *to, const struct dp_param *p, struct dp_err *err)
{
    struct dp_gather gather = {.n_arrays = 3, .x = {p->w, p->m, p->v}, .to = to->sparse, .from = p->sparse};
    struct dp_backend *be = l->be;

    if (dp_param_alloc(be, to, DP_PARAM_ALL, err) < 0 || be->ops->sparse_prepare(be, to->sparse, err) < 0)
        return -1;
    gather.y[0] = to->w;
    gather.y[1] = to->m;
    gather.y[2] = to->v;
    if (be->ops->gather(be, &gather, err) < 0)
        return -1;
    return be->ops->sparse_refresh(be, to->sparse, to->w, err);
}

/* The new state is built beside the old one and swapped in when it is complete. pattern: ours from here on. */
static int become_sparse(struct dp_layer *l, struct dp_param *p, struct dp_sparse *pattern, struct dp_err *err)
{
    struct dp_param to = *p;

    to.w = to.g = to.m = to.v = NULL;
    to.keep = NULL;
    to.sparse = pattern;
    to.n = to.nnz = pattern->nnz;
    if (fill_sparse(l, &to, p, err) < 0) {
        dp_param_release(l->be, &to);
        return -1;
    }
    dp_param_release(l->be, p);
    *p = to;
    return 0;
}

/* ---- from bits of the blocks that the matrix has ---- */

/* Those of p's blocks whose bit is set. */
static struct dp_sparse *chosen_blocks(const struct dp_param *p, int64_t block, const uint64_t *bits, int64_t nnz,
                                       struct dp_err *err)
{
    struct dp_sparse *sp = dp_param_sparse_alloc(p->rows, p->cols, nnz, block, err);
    int64_t m = p->cols / dp_block_cols(block), at = 0;

    for (int64_t g = 0; sp && g < p->rows / block; g++) {
        int64_t end = p->sparse ? p->sparse->row_ptr[g + 1] : (g + 1) * m;

        for (int64_t i = p->sparse ? p->sparse->row_ptr[g] : g * m; i < end; i++)
            if (dp_bits_get(bits, i))
                sp->col[at++] = p->sparse ? p->sparse->col[i] : (uint16_t)(i - g * m);
        sp->row_ptr[g + 1] = at;
    }
    return sp;
}

/* A bit per weight from those of blocks, which become ours. */
static uint64_t *spread(struct dp_backend *be, const struct dp_param *p, int64_t block, uint64_t *bits, struct dp_err *err)
{
    struct dp_spread_bits a = {.rows = p->rows, .cols = p->cols, .block_rows = block, .bits = bits};
    void *keep = NULL;

    if (block == 1)
        return bits;
    if (be->ops->alloc(be, dp_bits_words(p->rows * p->cols) * sizeof *bits, &keep, err) == 0) {
        a.keep = keep;
        if (be->ops->spread_bits(be, &a, err) < 0) {
            be->ops->free(be, keep);
            keep = NULL;
        }
    }
    be->ops->free(be, bits);
    return keep;
}

static int keep_chosen(struct dp_layer *l, struct dp_param *p, int64_t n_blocks, uint64_t *chosen, const uint64_t *host,
                       struct dp_err *err)
{
    int64_t block = dp_train_block_rows(l->config), nnz = dp_bits_count(host, n_blocks) * dp_block_weights(block);
    bool sparse = should_be_sparse(l, p, nnz);
    int rc;

    if (nnz == p->nnz && (nnz == p->rows * p->cols || sparse == (p->sparse != NULL))) {
        l->be->ops->free(l->be, chosen);
        return 0; /* nothing goes */
    }
    if (sparse) {
        struct dp_sparse *pattern = chosen_blocks(p, block, host, nnz, err);

        l->be->ops->free(l->be, chosen);
        return pattern ? become_sparse(l, p, pattern, err) : -1;
    }
    chosen = spread(l->be, p, block, chosen, err);
    rc = chosen ? become_dense(l, p, chosen, nnz, err) : -1;
    if (rc < 0)
        l->be->ops->free(l->be, chosen);
    return rc;
}

int dp_param_keep_chosen(struct dp_layer *layer, struct dp_param *param, uint64_t *chosen, struct dp_err *err)
{
    struct dp_backend *be = layer->be;
    int64_t block = dp_train_block_rows(layer->config), n = dp_param_blocks(param, block);
    size_t bytes = dp_bits_words(n) * sizeof *chosen;
    uint64_t *host = malloc(bytes + 1);
    int rc;

    if (!host || be->ops->get(be, host, chosen, bytes, err) < 0) {
        if (!host)
            dp_err_set(err, DP_ENOMEM, "%s: no memory to prune", param->name);
        be->ops->free(be, chosen);
        rc = -1;
    } else {
        rc = keep_chosen(layer, param, n, chosen, host, err);
    }
    free(host);
    return rc < 0 ? dp_err_prefix(err, "layer %u", layer->index) : 0;
}

/* ---- from bits of weights ---- */

/* How many weights of the block whose first one is (row, col) are kept. */
static int64_t count_kept(const uint64_t *keep, int64_t row, int64_t cols, int64_t col, int64_t block)
{
    int64_t n = 0;

    for (int64_t r = row; r < row + block; r++)
        for (int64_t c = col; c < col + dp_block_cols(block); c++)
            n += dp_bits_get(keep, r * cols + c);
    return n;
}

static int list_blocks(struct dp_sparse *sp, const struct dp_param *p, const uint64_t *keep, struct dp_err *err)
{
    int64_t block = dp_sparse_block(sp), width = dp_block_cols(block), weights = dp_block_weights(block), at = 0;

    for (int64_t row = 0; row < p->rows; row += block) {
        for (int64_t col = 0; col < p->cols; col += width) {
            int64_t n = count_kept(keep, row, p->cols, col, block);

            if (n == 0)
                continue;
            if (n != weights)
                return dp_err_set(err, DP_EINVAL, "%s: %lld of %lld weights of the block at (%lld, %lld) are to be kept",
                                  p->name, (long long)n, (long long)weights, (long long)row, (long long)col);
            sp->col[at++] = (uint16_t)(col / width);
        }
        sp->row_ptr[row / block + 1] = at;
    }
    return 0;
}

static int check_keep(struct dp_backend *be, const struct dp_param *p, const uint64_t *keep,
                      struct dp_err *err)
{
    int64_t n = p->rows * p->cols;
    uint64_t *old = dp_param_dup_kept(be, p, err);
    int rc = 0;

    if (!old)
        return -1;
    for (int64_t e = 0; e < n && rc == 0; e++)
        if (dp_bits_get(keep, e) && !dp_bits_get(old, e))
            rc = dp_err_set(err, DP_EINVAL, "%s: element %lld is to be kept, but was pruned before", p->name,
                            (long long)e);
    free(old);
    return rc;
}

static int keep_weights(struct dp_layer *l, struct dp_param *p, const uint64_t *keep, int64_t nnz, struct dp_err *err)
{
    size_t bytes = dp_bits_words(p->rows * p->cols) * sizeof *keep;
    struct dp_backend *be = l->be;
    void *mem = NULL;

    if (should_be_sparse(l, p, nnz)) {
        int64_t block = p->sparse ? dp_sparse_block(p->sparse) : dp_train_block_rows(l->config);
        struct dp_sparse *pattern = dp_param_sparse_alloc(p->rows, p->cols, nnz, block, err);

        if (!pattern || list_blocks(pattern, p, keep, err) < 0) {
            dp_param_sparse_free(be, pattern);
            return -1;
        }
        return become_sparse(l, p, pattern, err);
    }
    if (be->ops->alloc(be, bytes, &mem, err) == 0 && be->ops->put(be, mem, keep, bytes, err) == 0 &&
        become_dense(l, p, mem, nnz, err) == 0)
        return 0;
    be->ops->free(be, mem);
    return -1;
}

int dp_param_prune(struct dp_layer *layer, struct dp_param *param, const uint64_t *keep, struct dp_err *err)
{
    int64_t nnz = dp_bits_count(keep, param->rows * param->cols);

    if (!param->prunable)
        return dp_err_set(err, DP_EINVAL, "layer %u: %s cannot be pruned", layer->index, param->name);
    if (nnz == param->nnz && nnz == param->rows * param->cols)
        return 0; /* nothing goes */
    if (check_keep(layer->be, param, keep, err) < 0 || keep_weights(layer, param, keep, nnz, err) < 0)
        return dp_err_prefix(err, "layer %u", layer->index);
    return 0;
}
