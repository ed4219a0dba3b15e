/* SPDX-License-Identifier: BSD-3-Clause */
/* Token and position embedding.
 *
 * Forward: a block per token. Backward: the places are sorted by token (kernels/cuda/layers/sort.h), so that equal tokens are
 * neighbours in the order of their places; where a row of neighbours begins, a block adds their gradients in that order
 * and the sum to dwte. dwpe: a block per position, tokens in order. No two blocks write the same row. No shared memory.
 */
#include "kernels/cuda/cu.h"
#include "kernels/cuda/layers/sort.h"
#include "kernels/cuda/tokens.h"

#define THREADS 128 /* of a block */
#define AHEAD 8 /* gradients that are read before they are added */

/* A token that there is not gives NaN: whoever reads it before the error knows. */
static __global__ void __launch_bounds__(THREADS)
    embedding_kernel(int64_t t, int64_t c, int64_t v, float *y, const float *wte, const float *wpe,
                     const uint32_t *tokens)
{
    const int64_t i = blockIdx.x;
    const uint32_t token = tokens[i];

    y += i * c;
    wte += (int64_t)token * c;
    wpe += i % t * c;
    for (int64_t j = threadIdx.x; j < c; j += THREADS)
        y[j] = token < v ? wte[j] + wpe[j] : NAN;
}

static int check(struct dp_cuda *cu, int64_t n, int64_t t, int64_t c, int64_t v, struct dp_err *err)
{
    if (n < 0 || n > DP_CUDA_SORT_MOST || t < 1 || c < 1 || v < 1 || v > UINT32_MAX)
        return dp_cuda_refuse(cu, err, "%lld tokens, context of %lld, %lld channels, vocabulary of %lld", (long long)n,
                              (long long)t, (long long)c, (long long)v);
    return 0;
}

int dp_cuda_embedding(struct dp_backend *be, const struct dp_embedding *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "embedding", err);

    if (!cu)
        return -1;
    if (check(cu, a->n, a->t, a->c, a->v, err) < 0 || dp_cuda_check_tokens(cu, a->tokens, a->n, a->v, DP_CUDA_EMBEDDING, err) < 0)
        return -1;
    return DP_LAUNCH(cu, err, embedding_kernel, (unsigned)a->n, THREADS, 0, a->t, a->c, a->v, a->y, a->wte, a->wpe,
                     a->tokens);
}

/* Blocks: x the place in sorted, y a part of the channels, one a thread. */
static __global__ void __launch_bounds__(THREADS)
    tokens_kernel(int64_t n, int64_t c, int64_t v, float *dwte, const float *dy, const uint64_t *sorted)
{
    const int64_t at = blockIdx.x, j = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    const uint64_t token = sorted[at] >> 32;
    float sum = 0.0f;

    if ((int64_t)token >= v || j >= c || (at && sorted[at - 1] >> 32 == token))
        return;
    for (int64_t i = at; i < n;) {
        float d[AHEAD];
        int there = 0;

        DP_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            const uint64_t key = i + k < n ? sorted[i + k] : UINT64_MAX;

            d[k] = key >> 32 == token ? dy[(int64_t)(uint32_t)key * c + j] : 0.0f;
            there += key >> 32 == token;
        }
        DP_UNROLL
        for (int k = 0; k < AHEAD; k++)
            if (k < there)
                sum += d[k];
        if (there < AHEAD)
            break;
        i += AHEAD;
    }
    dwte[(int64_t)token * c + j] += sum;
}

static __global__ void __launch_bounds__(THREADS)
    positions_kernel(int64_t n, int64_t t, int64_t c, float *dwpe, const float *dy)
{
    const int64_t position = blockIdx.x, j = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    float sum = 0.0f;

    if (j >= c)
        return;
    for (int64_t i = position; i < n; i += t)
        sum += dy[i * c + j];
    dwpe[position * c + j] += sum;
}

int dp_cuda_embedding_bwd(struct dp_backend *be, const struct dp_embedding_bwd *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "embedding_bwd", err);
    const unsigned positions = (unsigned)(a->n < a->t ? a->n : a->t);
    uint64_t *sorted;

    if (!cu)
        return -1;
    if (check(cu, a->n, a->t, a->c, a->v, err) < 0)
        return -1;
    if (!a->n)
        return 0;
    sorted = static_cast<uint64_t *>(dp_cuda_scratch(cu, dp_cuda_sort_bytes(a->n), err));
    if (!sorted || dp_cuda_check_tokens(cu, a->tokens, a->n, a->v, DP_CUDA_EMBEDDING_BWD, err) < 0 ||
        dp_cuda_sort(cu, sorted, a->tokens, a->n, err) < 0)
        return -1;
    if (DP_LAUNCH(cu, err, tokens_kernel, dim3((unsigned)a->n, dp_blocks(a->c, THREADS)), THREADS, 0, a->n, a->c, a->v,
                  a->dwte, a->dy, sorted) < 0)
        return -1;
    return DP_LAUNCH(cu, err, positions_kernel, dim3(positions, dp_blocks(a->c, THREADS)), THREADS, 0, a->n, a->t, a->c,
                     a->dwpe, a->dy);
}
