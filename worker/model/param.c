/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one parameter (param.h): the four arrays that go together element by element, the bitmap of
 * what is left of a matrix stored dense, the pattern of one stored sparse.
 */
#include "worker/model/param.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"

int dp_param_alloc(struct dp_backend *be, struct dp_param *p, bool has_moments, struct dp_err *err)
{
    float **const arrays[] = {&p->w, &p->g, &p->m, &p->v};

    for (int i = 0; i < (has_moments ? 4 : 2); i++) {
        void *mem = NULL;

        if (be->ops->alloc(be, (size_t)p->n * sizeof(float), &mem, err) < 0)
            return dp_err_prefix(err, "%s", p->name);
        *arrays[i] = mem;
    }
    p->g_is_void = p->is_linear;
    return 0;
}

void dp_param_release(struct dp_backend *be, struct dp_param *p)
{
    be->ops->free(be, p->w);
    be->ops->free(be, p->g);
    be->ops->free(be, p->m);
    be->ops->free(be, p->v);
    be->ops->free(be, p->keep);
    dp_param_sparse_free(be, p->sparse);
    p->w = p->g = p->m = p->v = NULL;
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
        sp->col = calloc((size_t)(nnz / block_rows) + 1, sizeof *sp->col);
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

int64_t dp_param_find(const struct dp_param *p, int64_t row, int64_t col)
{
    const struct dp_sparse *sp = p->sparse;
    int64_t block, low, high;

    if (!sp)
        return row * p->cols + col;
    block = dp_sparse_block(sp);
    low = sp->row_ptr[row / block];
    high = sp->row_ptr[row / block + 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (sp->col[middle] < col)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sp->row_ptr[row / block + 1] && sp->col[low] == col ? low * block + row % block : -1;
}

static void set_all(uint64_t *bits, int64_t n)
{
    memset(bits, 0xff, dp_bits_words(n) * sizeof *bits);
    if (n & 63)
        bits[n >> 6] = ((uint64_t)1 << (n & 63)) - 1;
}

uint64_t *dp_param_dup_kept(struct dp_backend *be, const struct dp_param *p, struct dp_err *err)
{
    int64_t n = p->rows * p->cols;
    uint64_t *bits = calloc(dp_bits_words(n) + 1, sizeof *bits);

    if (!bits) {
        dp_err_set(err, DP_ENOMEM, "%s: no memory for a bitmap", p->name);
        return NULL;
    }
    if (p->sparse) {
        for (int64_t r = 0; r < p->rows; r++) {
            int64_t g = r / dp_sparse_block(p->sparse);

            for (int64_t k = p->sparse->row_ptr[g]; k < p->sparse->row_ptr[g + 1]; k++)
                dp_bits_set(bits, r * p->cols + p->sparse->col[k]);
        }
    } else if (!p->keep) {
        set_all(bits, n);
    } else if (be->ops->get(be, bits, p->keep, dp_bits_words(n) * sizeof *bits, err) < 0) {
        free(bits);
        return NULL;
    }
    return bits;
}

int dp_device_zero(struct dp_backend *be, void *p, size_t bytes, struct dp_err *err)
{
    static const char zeros[1 << 16];

    if (be->ops->host_memory) {
        memset(p, 0, bytes);
        return 0;
    }
    for (size_t at = 0; at < bytes; at += sizeof zeros) {
        size_t n = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;

        if (be->ops->put(be, (char *)p + at, zeros, n, err) < 0)
            return -1;
    }
    return 0;
}
