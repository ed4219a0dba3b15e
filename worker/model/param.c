/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one parameter (param.h): the four arrays that go together element by element, the bitmap of
 * what is left of a matrix stored dense, the pattern of one stored sparse.
 */
#include "worker/model/param.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"

int dp_param_alloc(struct dp_backend *be, struct dp_param *p, enum dp_param_arrays n, struct dp_err *err)
{
    float **const arrays[] = {&p->w, &p->g, &p->m, &p->v};

    for (int i = 0; i < (int)n; i++) {
        void *mem = NULL;

        if (*arrays[i])
            continue;
        if (be->ops->alloc(be, (size_t)p->n * sizeof(float), &mem, err) < 0)
            return dp_err_prefix(err, "%s", p->name);
        *arrays[i] = mem;
    }
    p->g_is_void = p->is_linear;
    return 0;
}

void dp_param_freeze(struct dp_backend *be, struct dp_param *p)
{
    be->ops->free(be, p->g);
    be->ops->free(be, p->m);
    be->ops->free(be, p->v);
    p->g = p->m = p->v = NULL;
}

void dp_param_release(struct dp_backend *be, struct dp_param *p)
{
    dp_param_freeze(be, p);
    be->ops->free(be, p->w);
    be->ops->free(be, p->keep);
    dp_param_sparse_free(be, p->sparse);
    p->w = NULL;
    p->keep = NULL;
    p->sparse = NULL;
}

struct dp_sparse *dp_param_sparse_alloc(int64_t rows, int64_t cols, int64_t nnz, int64_t block_rows,
                                        struct dp_err *err)
{
    struct dp_sparse *sp = calloc(1, sizeof *sp);

    if (sp) {
        sp->rows = rows;
        sp->cols = cols;
        sp->nnz = nnz;
        sp->block_rows = block_rows;
        sp->row_ptr = calloc((size_t)(rows / block_rows) + 1, sizeof *sp->row_ptr);
        sp->col = calloc((size_t)dp_sparse_n_blocks(sp) + 1, sizeof *sp->col);
    }
    if (!sp || !sp->row_ptr || !sp->col) {
        dp_param_sparse_free(NULL, sp);
        dp_err_set(err, DP_ENOMEM, "no memory for %lld nonzeros", (long long)nnz);
        return NULL;
    }
    return sp;
}

void dp_param_sparse_free(struct dp_backend *be, struct dp_sparse *sp)
{
    if (!sp)
        return;
    if (sp->plan)
        be->ops->sparse_release(be, sp);
    free(sp->row_ptr);
    free(sp->col);
    free(sp);
}

int64_t dp_param_blocks(const struct dp_param *p, int64_t block_rows)
{
    return p->sparse ? dp_sparse_n_blocks(p->sparse) : p->rows * p->cols / dp_block_weights(block_rows);
}

int64_t dp_param_find(const struct dp_param *p, int64_t row, int64_t col)
{
    const struct dp_sparse *sp = p->sparse;
    int64_t block, width, first, m, low, high;

    if (!sp)
        return row * p->cols + col;
    block = dp_sparse_block(sp);
    width = dp_block_cols(block);
    first = low = sp->row_ptr[row / block];
    high = sp->row_ptr[row / block + 1];
    m = high - first;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (sp->col[middle] < col / width)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == first + m || sp->col[low] != col / width)
        return -1;
    if (width == 1)
        return low * block + row % block;
    return first * block * width + row % block / 4 * 4 * width * m + (low - first) * 4 * width + 4 * (col % width) + row % 4;
}

static void set_all(uint64_t *bits, int64_t n)
{
    memset(bits, 0xff, dp_bits_words(n) * sizeof *bits);
    if (n & 63)
        bits[n >> 6] = ((uint64_t)1 << (n & 63)) - 1;
}

uint64_t *dp_param_dup_kept(struct dp_backend *be, const struct dp_param *p, struct dp_err *err)
{
    int64_t n = p->rows * p->cols, width = p->sparse ? dp_block_cols(dp_sparse_block(p->sparse)) : 1;
    uint64_t *bits = calloc(dp_bits_words(n) + 1, sizeof *bits);

    if (!bits) {
        dp_err_set(err, DP_ENOMEM, "%s: no memory for a bitmap", p->name);
        return NULL;
    }
    if (p->sparse) {
        for (int64_t r = 0; r < p->rows; r++) {
            int64_t g = r / dp_sparse_block(p->sparse);

            for (int64_t k = p->sparse->row_ptr[g]; k < p->sparse->row_ptr[g + 1]; k++)
                for (int64_t c = 0; c < width; c++)
                    dp_bits_set(bits, r * p->cols + p->sparse->col[k] * width + c);
        }
    } else if (!p->keep) {
        set_all(bits, n);
    } else if (be->ops->get(be, bits, p->keep, dp_bits_words(n) * sizeof *bits, err) < 0) {
        free(bits);
        return NULL;
    }
    return bits;
}
