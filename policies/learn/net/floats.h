/* SPDX-License-Identifier: BSD-3-Clause */
/* exp, tanh and log in float32, of sums, products and quotients alone, which IEEE 754 rounds the same way everywhere: what
 * is learned must not depend on a machine's libm. So this folder is compiled without contraction (policies/learn/local.mk),
 * and every sum here has one order. */
#ifndef DP_POLICIES_LEARN_FLOATS_H
#define DP_POLICIES_LEARN_FLOATS_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "floats are computed with more digits here: weights would differ from other machines'"
#endif

#define DP_F_MOST_EXP 80.0f /* beyond it, both ways, exp() stays where it is */

/* 2^k, k in -126..127. */
static inline float dp_f_two_to(int k)
{
    uint32_t bits = (uint32_t)(k + 127) << 23;
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Relative error below 1e-6 (tests/unit/policies/test_learn_net.c). */
static inline float dp_f_exp(float x)
{
    float k, r, p;

    x = x > DP_F_MOST_EXP ? DP_F_MOST_EXP : x < -DP_F_MOST_EXP ? -DP_F_MOST_EXP : x;
    k = (float)(int)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
    r = x - k * 0.693359375f;    /* ln 2 in two pieces, the first of few bits */
    r = r + k * 2.12194440e-4f;
    p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * dp_f_two_to((int)k);
}

/* Absolute error below 1e-6. */
static inline float dp_f_tanh(float x)
{
    return 1.0f - 2.0f / (dp_f_exp(2.0f * x) + 1.0f);
}

static inline float dp_f_sigmoid(float x)
{
    return 1.0f / (dp_f_exp(-x) + 1.0f);
}

/* x > 0, normal. Absolute error below 1e-6 for x near 1. */
static inline float dp_f_log(float x)
{
    uint32_t bits;
    float m, s, z, e;

    memcpy(&bits, &x, sizeof bits);
    e = (float)((int)(bits >> 23) - 127);
    bits = (bits & 0x7fffffu) | 0x3f800000u;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.41421356f) {
        m *= 0.5f;
        e += 1.0f;
    }
    s = (m - 1.0f) / (m + 1.0f);
    z = s * s;
    return e * 0.693147181f + 2.0f * s * (1.0f + z * (1.0f / 3 + z * (0.2f + z * (1.0f / 7 + z * (1.0f / 9)))));
}

#endif
