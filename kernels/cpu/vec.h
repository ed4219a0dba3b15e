/* SPDX-License-Identifier: BSD-3-Clause */
/* One vector of floats, whatever the processor, and the names of the version being compiled.
 *
 * Every op file of this folder is compiled once per version (kernels/local.mk) with DP_VEC, the
 * version's name, and DP_VEC_FLOATS, the floats of a register: avx512 16, avx2 8, plain 4. GCC's
 * vector types give the arithmetic; a * b + c becomes one fused operation where the version has it.
 * Tails are computed as a whole vector padded with zeros, so an element's bits never depend on
 * whether it stands in a tail.
 */
#ifndef DP_KERNELS_CPU_VEC_H
#define DP_KERNELS_CPU_VEC_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <math.h>
#endif

#ifndef DP_VEC
#error "compile with -DDP_VEC=name -DDP_VEC_FLOATS=n, see kernels/local.mk"
#endif

#define DP_FN_JOIN(name, version) dp_cpu_##name##_##version
#define DP_FN_EXPAND(name, version) DP_FN_JOIN(name, version)
/* The function `name` of this version: dp_cpu_adamw_avx2. */
#define DP_FN(name) DP_FN_EXPAND(name, DP_VEC)

#if defined(__clang__)
#define DP_UNROLL _Pragma("clang loop unroll(full)") /* "unroll" leaves accumulators in memory */
#else
#define DP_UNROLL _Pragma("GCC unroll 16")
#endif

#define VW DP_VEC_FLOATS

typedef float vf __attribute__((vector_size(4 * VW)));
typedef int32_t vi __attribute__((vector_size(4 * VW)));
/* The same, anywhere in memory. */
typedef float vf_any __attribute__((vector_size(4 * VW), aligned(4), may_alias));

static inline vf vf_load(const float *p)
{
    return *(const vf_any *)p;
}

static inline void vf_store(float *p, vf v)
{
    *(vf_any *)p = v;
}

/* The first k (0 < k < VW) elements; the others are 0. */
static inline vf vf_load_n(const float *p, int64_t k)
{
    vf v = {0};

    memcpy(&v, p, (size_t)k * sizeof *p);
    return v;
}

static inline void vf_store_n(float *p, vf v, int64_t k)
{
    memcpy(p, &v, (size_t)k * sizeof *p);
}

static inline vf vf_set1(float s)
{
    return s - (vf){0}; /* - keeps the sign of a zero */
}

static inline vi vi_set1(int32_t s)
{
    return s - (vi){0};
}

/* Lane by lane: mask (all ones or zero) ? a : b. */
static inline vf vf_select(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* Lane by lane a > b ? a : b; b where either is NaN. */
static inline vf vf_larger(vf a, vf b)
{
#if VW == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif VW == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vf_select((vi)(a > b), a, b);
#endif
}

/* Lane by lane a < b ? a : b; b where either is NaN. */
static inline vf vf_smaller(vf a, vf b)
{
#if VW == 16
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif VW == 8
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vf_select((vi)(a < b), a, b);
#endif
}

/* Lane by lane x < limit ? 0 : v. GCC turns a comparison under AVX-512 into a vector before it uses it. */
static inline vf vf_zero_below(vf v, vf x, vf limit)
{
#if VW == 16
    return (vf)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)limit, _CMP_NLT_UQ), (__m512)v);
#else
    return (vf)(~(vi)(x < limit) & (vi)v);
#endif
}

/* 1 / x to 1 ulp, for x whose reciprocal is normal. */
static inline vf vf_reciprocal(vf x)
{
#if VW == 16
    vf r = (vf)_mm512_rcp14_ps((__m512)x); /* to 14 bits; one step of Newton's method doubles them */

    return r + r * (1.0f - x * r);
#else
    return 1.0f / x;
#endif
}

/* All ones in the first k lanes. */
static inline vi vi_first(int64_t k)
{
    vi lane;

    for (int i = 0; i < VW; i++)
        lane[i] = i;
    return (vi)(lane < vi_set1(k < VW ? (int32_t)k : VW));
}

/* All ones where the element's bit is set: lanes i ... i + VW - 1 of a bitmap; i is a multiple of VW,
 * so its bits lie in one word. */
static inline vi vf_kept(const uint64_t *keep, int64_t i)
{
    uint32_t bits = (uint32_t)(keep[i / 64] >> (i % 64));
    vi bit;

    for (int j = 0; j < VW; j++)
        bit[j] = 1 << j;
    return (vi)((vi_set1((int32_t)(bits & ((1u << VW) - 1))) & bit) != (vi){0});
}

/* x, 0 where the mask is 0: a choice and no product, so NaN goes too. */
static inline vf vf_masked(vf x, vi mask)
{
    return (vf)((vi)x & mask);
}

/* Bit j: the sign of lane j, of a mask whether it is set. */
static inline uint32_t vi_bits(vi mask)
{
#if VW == 16
    return _mm512_movepi32_mask((__m512i)mask);
#elif VW == 8
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#elif defined(__x86_64__)
    return (uint32_t)_mm_movemask_ps((__m128)mask);
#else
    uint32_t bits = 0;

    for (int j = 0; j < VW; j++)
        bits |= (uint32_t)(mask[j] < 0) << j;
    return bits;
#endif
}

static inline vf vf_sqrt(vf x)
{
#if VW == 16
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif VW == 8
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < VW; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* Lane i of v goes to lane i ^ w, for w a power of two below VW. */
#if VW == 16
#define VF_SWAP8(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define VF_SWAP4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define VF_SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define VF_SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif VW == 8
#define VF_SWAP4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define VF_SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define VF_SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define VF_SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define VF_SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#endif

/* Sum of the lanes, as a tree of halves. */
static inline float vf_sum(vf v)
{
#if VW == 16
    v += VF_SWAP8(v);
#endif
#if VW >= 8
    v += VF_SWAP4(v);
#endif
    v += VF_SWAP2(v);
    v += VF_SWAP1(v);
    return v[0];
}

/* Largest lane; none may be NaN. */
static inline float vf_max(vf v)
{
#if VW == 16
    v = vf_larger(v, VF_SWAP8(v));
#endif
#if VW >= 8
    v = vf_larger(v, VF_SWAP4(v));
#endif
    v = vf_larger(v, VF_SWAP2(v));
    v = vf_larger(v, VF_SWAP1(v));
    return v[0];
}

/* a0 b0 a1 b1 ... of the lower and of the upper halves. */
#if VW == 16
#define VF_ZIP_LO(a, b)                                                                            \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VF_ZIP_HI(a, b)                                                                            \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VW == 8
#define VF_ZIP_LO(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VF_ZIP_HI(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define VF_ZIP_LO(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VF_ZIP_HI(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Transpose a VW x VW square in registers: log2(VW) rounds that zip row i with row i + VW / 2. */
static inline __attribute__((always_inline)) void vf_transpose(vf row[VW])
{
    vf other[VW];

    DP_UNROLL
    for (int w = 1; w < VW; w *= 2) {
        DP_UNROLL
        for (int i = 0; i < VW / 2; i++) {
            other[2 * i] = VF_ZIP_LO(row[i], row[i + VW / 2]);
            other[2 * i + 1] = VF_ZIP_HI(row[i], row[i + VW / 2]);
        }
        DP_UNROLL
        for (int i = 0; i < VW; i++)
            row[i] = other[i];
    }
}

#endif
