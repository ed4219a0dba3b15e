/* SPDX-License-Identifier: BSD-3-Clause */
/* What spmm.c (the ops) and the files with its inner loops share: one block of columns of one chunk of rows
 * (plan.h), for one token tile. */
#ifndef DP_KERNELS_CPU_SPARSE_SPMM_H
#define DP_KERNELS_CPU_SPARSE_SPMM_H

#include "kernels/cpu/ops.h"
#include "kernels/cpu/sparse/fetch.h"
#include "kernels/cpu/sparse/plan.h"

struct dp_spmm_step {
    const struct dp_plan_dir *d;
    int64_t at;                /* chunk * n_blocks + block */
    const float *w;            /* values in CSR order, for blocks of 4 x 1 */
    const float *x;            /* (columns of the block, 64) */
    float *y;                  /* (rows of the chunk, 64) */
    bool is_first;             /* y = bias + start + the products; else y += */
    const float *bias, *start; /* (rows), and like y; NULL: 0 */
    struct dp_fetch fetch[2];  /* at the start of the step */
};

/* Single weights; either direction, which is the same on an index of w or of w^T (spmm_single.c). */
void DP_FN(spmm_single)(const struct dp_spmm_step *s);
/* Blocks of 4 x 1, forward; backward, where x is (rows of the chunk, 64) and y (columns of the block, 64) and
 * the rest of the struct but d, at and w says nothing: y += (spmm_blocks.c). */
void DP_FN(spmm_blocks)(const struct dp_spmm_step *s);
void DP_FN(spmm_blocks_bwd)(const struct dp_spmm_step *s);

/* What n registers of sums of a channel begin with; at: of the first one in y. */
static inline __attribute__((always_inline)) void dp_start_sums(vf *acc, const int n, const struct dp_spmm_step *s,
                                                                int64_t channel, int64_t at)
{
    const float *from = s->is_first ? s->start : s->y;
    vf bias = s->is_first && s->bias ? vf_set1(s->bias[channel]) : (vf){0};

    DP_UNROLL
    for (int i = 0; i < n; i++)
        acc[i] = from ? vf_load(from + at + i * VW) : bias;
    if (!s->is_first || !from)
        return;
    DP_UNROLL
    for (int i = 0; i < n; i++)
        acc[i] += bias;
}

/* The channel of a tile that an offset of the plan means. */
static inline float *dp_tile_channel(const float *tile, uint16_t offset)
{
    return (float *)((uintptr_t)tile + (size_t)offset * 8);
}

#endif
