/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking weights out of a matrix (dp_param_prune in layer.h).
 *
 * Above the crossover of the tune table the matrix stays dense with a bitmap of what is left (the
 * optimizer holds the rest at zero); below it the four arrays shrink to the nonzeros in CSR order and
 * the dense memory is gone. A sparse matrix never becomes dense again: pruning only takes away.
 * The new state is built beside the old one and swapped in when it is complete.
 */
#include <stdlib.h>

#include "common/bits.h"
#include "worker/model/layer.h"
#include "worker/model/param.h"

/* old and new elements: element k of the new arrays is element from[k] of the old ones, -1: zero. */
static int move_array(struct dp_backend *be, float *dst, int64_t n_dst, const float *src, int64_t n_src,
                      const int64_t *from, float *host, struct dp_err *err)
{
    float *gathered = host + n_src;

    if (be->ops->get(be, host, src, (size_t)n_src * sizeof *host, err) < 0)
        return -1;
    for (int64_t k = 0; k < n_dst; k++)
        gathered[k] = from[k] < 0 ? 0.0f : host[from[k]];
    return be->ops->put(be, dst, gathered, (size_t)n_dst * sizeof *host, err);
}

static int move_arrays(struct dp_backend *be, struct dp_param *to, const struct dp_param *p,
                       const int64_t *from, struct dp_err *err)
{
    float *host = malloc((size_t)(p->n + to->n + 1) * sizeof *host);
    int rc = -1;

    if (!host)
        return dp_err_set(err, DP_ENOMEM, "%s: no memory to prune", p->name);
    if (move_array(be, to->w, to->n, p->w, p->n, from, host, err) == 0 &&
        move_array(be, to->m, to->n, p->m, p->n, from, host, err) == 0 &&
        move_array(be, to->v, to->n, p->v, p->n, from, host, err) == 0)
        rc = 0;
    free(host);
    return rc;
}

/* Stay dense: a bitmap, and zeros where it has none. */
static int make_dense(struct dp_backend *be, struct dp_param *to, const uint64_t *keep, int64_t *from,
                      struct dp_err *err)
{
    size_t bytes = dp_bits_words(to->n) * sizeof *keep;
    void *mem = NULL;

    for (int64_t e = 0; e < to->n; e++)
        from[e] = dp_bits_get(keep, e) ? e : -1;
    if (be->ops->alloc(be, bytes, &mem, err) < 0)
        return -1;
    to->keep = mem;
    return be->ops->put(be, to->keep, keep, bytes, err);
}

/* How many of the block's weights are kept. */
static int64_t count_kept(const uint64_t *keep, int64_t row, int64_t cols, int64_t col, int64_t block)
{
    int64_t n = 0;

    for (int64_t r = row; r < row + block; r++)
        n += dp_bits_get(keep, r * cols + col);
    return n;
}

/* The pattern of what is left; from[k]: where its k-th element lies in p's arrays. */
static int make_sparse(struct dp_param *to, const struct dp_param *p, const uint64_t *keep, int64_t block,
                       int64_t *from, struct dp_err *err)
{
    struct dp_sparse *sp = to->sparse = dp_param_sparse_alloc(p->rows, p->cols, to->nnz, block, err);
    int64_t at = 0;

    if (!sp)
        return -1;
    to->n = to->nnz;
    for (int64_t row = 0; row < p->rows; row += block) {
        for (int64_t col = 0; col < p->cols; col++) {
            int64_t n = count_kept(keep, row, p->cols, col, block);

            if (n == 0)
                continue;
            if (n != block)
                return dp_err_set(err, DP_EINVAL, "%s: %lld of %lld weights of the block at (%lld, %lld) are to be kept",
                                  p->name, (long long)n, (long long)block, (long long)row, (long long)col);
            sp->col[at / block] = (uint16_t)col;
            for (int64_t r = row; r < row + block; r++)
                from[at++] = dp_param_find(p, r, col);
        }
        sp->row_ptr[row / block + 1] = at / block;
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

static int build(struct dp_layer *layer, struct dp_param *to, const struct dp_param *p, const uint64_t *keep,
                 struct dp_err *err)
{
    struct dp_backend *be = layer->be;
    const struct dp_train_config *c = layer->config;
    int64_t *from = malloc((size_t)(p->n + 1) * sizeof *from);
    int64_t block = dp_train_block_rows(c);
    bool fits = p->rows <= DP_SPARSE_MAX && p->cols <= DP_SPARSE_MAX;
    bool sparse = p->sparse || (fits && dp_tune_is_sparse(layer->tune, p->rows, p->cols,
                                                          c->train.batch * c->model.context, block, to->nnz));
    int rc = -1;

    if (!from)
        return dp_err_set(err, DP_ENOMEM, "%s: no memory to prune", p->name);
    if ((sparse ? make_sparse(to, p, keep, block, from, err) : make_dense(be, to, keep, from, err)) == 0 &&
        dp_param_alloc(be, to, true, err) == 0 && move_arrays(be, to, p, from, err) == 0)
        rc = 0;
    if (rc == 0 && sparse &&
        (be->ops->sparse_prepare(be, to->sparse, err) < 0 ||
         be->ops->sparse_refresh(be, to->sparse, to->w, err) < 0))
        rc = -1;
    free(from);
    return rc;
}

int dp_param_prune(struct dp_layer *layer, struct dp_param *param, const uint64_t *keep, struct dp_err *err)
{
    struct dp_param to = *param;

    if (!param->prunable)
        return dp_err_set(err, DP_EINVAL, "layer %u: %s cannot be pruned", layer->index, param->name);
    to.w = to.g = to.m = to.v = NULL;
    to.keep = NULL;
    to.sparse = NULL;
    to.nnz = dp_bits_count(keep, param->rows * param->cols);
    if (to.nnz == param->nnz && to.nnz == param->rows * param->cols)
        return 0; /* nothing goes */
    if (check_keep(layer->be, param, keep, err) < 0 || build(layer, &to, param, keep, err) < 0) {
        dp_param_release(layer->be, &to);
        return dp_err_prefix(err, "layer %u", layer->index);
    }
    dp_param_release(layer->be, param);
    *param = to;
    return 0;
}
