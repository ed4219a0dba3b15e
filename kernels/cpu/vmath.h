/* SPDX-License-Identifier: BSD-3-Clause */
/* exp, 2^x, the logistic function and GELU on vectors.
 *
 * exp: x = k ln 2 + r with |r| <= ln 2 / 2 (ln 2 split in two parts, Cody & Waite), a polynomial of
 * degree 6 for e^r (1 + r + r^2 q(r), q by least maximum error: 4e-9 with coefficients in float), times
 * 2^k put together from bits. Largest error seen over all floats in [-87.33, 88.37]: below 2 ulp
 * (tests/unit/kernels/test_kernels_math). Below -87.33, where the result would be subnormal, the answer is 0;
 * above 88.37 it stays at e^88.37 (2.4e38), so that no infinity enters a sum. NaN stays NaN.
 */
#ifndef DP_KERNELS_CPU_VMATH_H
#define DP_KERNELS_CPU_VMATH_H

#include "kernels/cpu/vec.h"

#define DP_EXP_MIN (-87.33f) /* see above */
#define DP_EXP_MAX 88.37f /* likewise */

static inline __attribute__((always_inline)) vf vf_exp(vf x)
{
    /* 1.5 * 2^23 + 127: adding it rounds to an integer, whose lowest bits are the exponent of 2^k */
    const vf magic = vf_set1(12582912.0f + 127.0f);
    vf near = vf_smaller(vf_set1(DP_EXP_MAX), vf_larger(vf_set1(DP_EXP_MIN), x)); /* NaN passes both */
    vf t = near * vf_set1(1.44269504088896341f) + magic;
    vf k = t - magic;
    vf r = near - k * vf_set1(0.693359375f), p;

    r = r - k * vf_set1(-2.12194440e-4f);
    p = vf_set1(1.3814599e-3f);
    p = p * r + vf_set1(8.368717e-3f);
    p = p * r + vf_set1(4.166839e-2f);
    p = p * r + vf_set1(1.6666521e-1f);
    p = p * r + vf_set1(4.9999994e-1f);
    p = p * (r * r) + r + vf_set1(1.0f);
    return vf_zero_below(p * (vf)((vi)t << 23), x, vf_set1(DP_EXP_MIN));
}

/* 2^x for x <= 0 (and up to 127): for a softmax whose scores are in units of ln 2, three instructions
 * less. x = k + r with |r| <= 1/2, a polynomial of degree 6. Below -126 the answer is 0; NaN stays NaN.
 * Largest error seen over [-126, 0]: below 2 ulp (tests/unit/kernels/test_kernels_math). */
static inline __attribute__((always_inline)) vf vf_exp2(vf x)
{
    const vf magic = vf_set1(12582912.0f + 127.0f); /* as in vf_exp */
    vf near = vf_larger(vf_set1(-126.0f), x), t = near + magic, r = near - (t - magic), p;

    p = vf_set1(1.5353342e-4f);
    p = p * r + vf_set1(1.3398901e-3f);
    p = p * r + vf_set1(9.618438e-3f);
    p = p * r + vf_set1(5.5503324e-2f);
    p = p * r + vf_set1(2.4022648e-1f);
    p = p * r + vf_set1(6.931472e-1f);
    p = p * r + vf_set1(1.0f);
    return vf_zero_below(p * (vf)((vi)t << 23), x, vf_set1(-126.0f));
}

/* 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, exactly 0 below -87.33; *rest = 1 minus that, without
 * cancellation. Both to 4 ulp of themselves. */
static inline __attribute__((always_inline)) vf vf_logistic(vf x, vf *rest)
{
    vf e = vf_exp(-x);
    vf s = vf_reciprocal(vf_set1(1.0f) + e);

    *rest = e * s;
    return vf_zero_below(s, x, vf_set1(DP_EXP_MIN));
}

/* GELU, tanh form, and its gradient.
 *
 * 0.5 (1 + tanh(u)) is the logistic function of 2u, so one exp and one division do, and the result
 * stays accurate relative to itself where x is very negative.
 * With s = logistic(2u), u = k0 (x + k1 x^3):  y = x s,  y' = s + 2 x s (1 - s) k0 (1 + 3 k1 x^2).
 */
#define DP_GELU_K0 0.7978845608028654f /* sqrt(2 / pi) */
#define DP_GELU_K1 0.044715f

static inline __attribute__((always_inline)) vf vf_gelu_gate(vf x, vf *rest)
{
    vf u2 = x * (vf_set1(2.0f * DP_GELU_K0) + vf_set1(2.0f * DP_GELU_K0 * DP_GELU_K1) * (x * x));

    return vf_logistic(u2, rest);
}

static inline __attribute__((always_inline)) vf vf_gelu(vf x)
{
    vf rest;

    return x * vf_gelu_gate(x, &rest);
}

/* gelu'(x), and gelu(x) itself. */
static inline __attribute__((always_inline)) vf vf_gelu_slope(vf x, vf *y)
{
    vf rest, s = vf_gelu_gate(x, &rest);
    vf slope = vf_set1(2.0f * DP_GELU_K0) + vf_set1(6.0f * DP_GELU_K0 * DP_GELU_K1) * (x * x);

    slope = vf_smaller(slope, vf_set1(1e30f)); /* far out s (1 - s) is 0: 0 times slope must stay 0 */
    *y = x * s;
    return s + x * (s * rest) * slope;
}

/* Largest of n >= 1 values; NaN never wins, a caller that must see it sums as well. */
static inline float row_max(const float *x, int64_t n)
{
    vf m = vf_set1(-__builtin_inff());
    float best;
    int64_t j = 0;

    for (; j + VW <= n; j += VW)
        m = vf_larger(vf_load(x + j), m);
    best = vf_max(m);
    for (; j < n; j++)
        best = x[j] > best ? x[j] : best;
    return best;
}

#endif
