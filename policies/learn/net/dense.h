/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of the small matrices of net.h. A matrix lies by inputs, [in][out]: then the innermost loop is over numbers that do
 * not wait for each other, and a compiler may take several at a time without another order of any sum. */
#ifndef DP_POLICIES_LEARN_DENSE_H
#define DP_POLICIES_LEARN_DENSE_H

#include <stdint.h>

/* y [out] += W x */
static inline void dp_dense_add(float *y, const float *w, const float *x, uint32_t in, uint32_t out)
{
    for (uint32_t k = 0; k < in; k++)
        for (uint32_t i = 0; i < out; i++)
            y[i] += w[k * out + i] * x[k];
}

/* dx [in] += W^T dy */
static inline void dp_dense_back(float *dx, const float *w, const float *dy, uint32_t in, uint32_t out)
{
    for (uint32_t k = 0; k < in; k++) {
        float sum = 0;

        for (uint32_t i = 0; i < out; i++)
            sum += w[k * out + i] * dy[i];
        dx[k] += sum;
    }
}

/* dW += dy x^T */
static inline void dp_dense_grad(float *dw, const float *dy, const float *x, uint32_t in, uint32_t out)
{
    for (uint32_t k = 0; k < in; k++)
        for (uint32_t i = 0; i < out; i++)
            dw[k * out + i] += dy[i] * x[k];
}

/* to += from * by */
static inline void dp_dense_add_row(float *to, const float *from, float by, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        to[k] += from[k] * by;
}

#endif
