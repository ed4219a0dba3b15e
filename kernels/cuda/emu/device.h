/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA C++ for a C++ compiler: what kernels use beside the language itself. Included by cu.h. */
#ifndef DP_KERNELS_CUDA_EMU_DEVICE_H
#define DP_KERNELS_CUDA_EMU_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "kernels/cuda/emu/kernel.h"
#include "kernels/cuda/emu/types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))

struct dp_emu_index {
    unsigned x, y, z;
};

extern "C" {
/* Where the thread is. The same from a kernel's begin to its end, so that the compiler need not ask twice. */
struct dp_emu_index dp_emu_thread_index(void) __attribute__((const));
struct dp_emu_index dp_emu_block_index(void) __attribute__((const));
struct dp_emu_index dp_emu_block_size(void) __attribute__((const));
struct dp_emu_index dp_emu_grid_size(void) __attribute__((const));
unsigned dp_emu_warp_thread(void) __attribute__((const)); /* 0 ... 31 */

/* Where a launch waits for others; `line` tells calls apart. */
void dp_emu_barrier(int line);
void dp_emu_sync_warp(unsigned mask, int line);
/* value, of `bytes` (up to 16), becomes that of thread `from` of the warp. */
void dp_emu_shuffle(unsigned mask, void *value, size_t bytes, unsigned from, int line);
/* Bit i: `yes` of thread i of the warp. */
unsigned dp_emu_vote(unsigned mask, int yes, int line);

/* The block's array of the declaration at `site`. */
void *dp_emu_shared(const void *site, const char *name, size_t bytes);
void *dp_emu_shared_dynamic(void);

/* cp.async, ldmatrix and mma.sync as cu.h and the PTX manual describe them. */
void dp_emu_copy_async(void *shared, const void *global, int bytes, bool there);
void dp_emu_copies_commit(void);
void dp_emu_copies_wait(int pending);
void dp_emu_ldmatrix4(uint32_t r[4], const void *row, bool transposed, int line);
void dp_emu_mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2], int line);

/* An atomic operation on 4 or 8 bytes is under way: counts as one, not as a read and a write. */
void dp_emu_atomic(void *p, size_t bytes);
/* The kernel says that something is wrong. */
void dp_emu_trap(void);
}

/* Arguments lie where the emulator keeps them: nothing to look at. */
template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) static void dp_emu_call_with(void (*kernel)(P...), void **args, std::index_sequence<I...>)
{
    (void)args;
    kernel(*static_cast<P *>(args[I])...);
}

template <class... P>
__attribute__((no_sanitize("thread"))) static void dp_emu_call(void (*kernel)(void), void **args)
{
    dp_emu_call_with(reinterpret_cast<void (*)(P...)>(kernel), args, std::index_sequence_for<P...>());
}

template <class... P>
static const struct dp_emu_kernel *dp_emu_describe(const char *name, void (*kernel)(P...), const size_t *sizes)
{
    const struct dp_emu_kernel k = {name, reinterpret_cast<void (*)(void)>(kernel), dp_emu_call<P...>, sizes};

    return dp_emu_kernel_at(&k);
}

#define threadIdx (dp_emu_thread_index())
#define blockIdx (dp_emu_block_index())
#define blockDim (dp_emu_block_size())
#define gridDim (dp_emu_grid_size())
#define warpSize 32 /* threads */

#define __syncthreads() dp_emu_barrier(__LINE__)
static inline void dp_emu_sync_some(int line, unsigned mask = 0xffffffffu)
{
    dp_emu_sync_warp(mask, line);
}
#define __syncwarp(...) dp_emu_sync_some(__LINE__, ##__VA_ARGS__)

template <class T> static inline T dp_emu_shuffled(int line, unsigned mask, T v, unsigned from)
{
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "numbers of up to 8 bytes");
    dp_emu_shuffle(mask, &v, sizeof v, from, line);
    return v;
}

/* The thread to read from, as CUDA's manual counts within parts of `width` threads. */
static inline unsigned dp_emu_from(unsigned from, unsigned width)
{
    return (dp_emu_warp_thread() & ~(width - 1)) | (from & (width - 1));
}
static inline unsigned dp_emu_from_up(unsigned delta, unsigned width)
{
    const unsigned me = dp_emu_warp_thread();

    return (me & (width - 1)) >= delta ? me - delta : me;
}
static inline unsigned dp_emu_from_down(unsigned delta, unsigned width)
{
    const unsigned me = dp_emu_warp_thread();

    return (me & (width - 1)) + delta < width ? me + delta : me;
}
static inline unsigned dp_emu_from_xor(unsigned bits, unsigned width)
{
    const unsigned me = dp_emu_warp_thread(), end = (me | (width - 1)) + 1;

    return (me ^ bits) < end ? me ^ bits : me;
}
template <class T> static inline T dp_emu_shfl(int line, unsigned m, T v, int from, unsigned width = 32)
{
    return dp_emu_shuffled(line, m, v, dp_emu_from((unsigned)from, width));
}
template <class T> static inline T dp_emu_shfl_up(int line, unsigned m, T v, unsigned delta, unsigned width = 32)
{
    return dp_emu_shuffled(line, m, v, dp_emu_from_up(delta, width));
}
template <class T> static inline T dp_emu_shfl_down(int line, unsigned m, T v, unsigned delta, unsigned width = 32)
{
    return dp_emu_shuffled(line, m, v, dp_emu_from_down(delta, width));
}
template <class T> static inline T dp_emu_shfl_xor(int line, unsigned m, T v, int bits, unsigned width = 32)
{
    return dp_emu_shuffled(line, m, v, dp_emu_from_xor((unsigned)bits, width));
}
#define __shfl_sync(...) dp_emu_shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) dp_emu_shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) dp_emu_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) dp_emu_shfl_xor(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, yes) dp_emu_vote(mask, (yes) != 0, __LINE__)
#define __any_sync(mask, yes) (dp_emu_vote(mask, (yes) != 0, __LINE__) != 0)
#define __all_sync(mask, yes) (dp_emu_vote(mask, (yes) == 0, __LINE__) == 0)

#define DP_SHARED(type, name, size)        \
    static const char dp_site_##name = 0;  \
    typedef type dp_type_##name size;      \
    dp_type_##name &name = *static_cast<dp_type_##name *>(dp_emu_shared(&dp_site_##name, #name, sizeof(dp_type_##name)))
#define DP_SHARED_DYNAMIC(type, name) type *const name = static_cast<type *>(dp_emu_shared_dynamic())

static inline void dp_copy16(void *shared, const void *global, bool there)
{
    dp_emu_copy_async(shared, global, 16, there);
}
static inline void dp_copy4(void *shared, const void *global, bool there)
{
    dp_emu_copy_async(shared, global, 4, there);
}
static inline void dp_copies_commit(void)
{
    dp_emu_copies_commit();
}
template <int PENDING> static inline void dp_copies_wait(void)
{
    dp_emu_copies_wait(PENDING);
}
#define dp_ldmatrix4(r, row) dp_emu_ldmatrix4(r, row, false, __LINE__)
#define dp_ldmatrix4_t(r, row) dp_emu_ldmatrix4(r, row, true, __LINE__)
#define dp_mma_bf16(c, a, b) dp_emu_mma_bf16(c, a, b, __LINE__)

template <class T> static inline T atomicAdd(T *p, T v)
{
    static_assert(std::is_integral<T>::value, "sums of floats need a fixed order");
    dp_emu_atomic(p, sizeof *p);
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicOr(T *p, T v)
{
    dp_emu_atomic(p, sizeof *p);
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicMax(T *p, T v)
{
    static_assert(std::is_integral<T>::value, "integers only, like CUDA's");
    T old = atomicOr(p, (T)0);

    if (v > old)
        __atomic_store_n(p, v, __ATOMIC_RELAXED);
    return old;
}

template <class To, class From> static inline To dp_emu_as(From v)
{
    To to;

    static_assert(sizeof to == sizeof v, "bits as they are");
    memcpy(&to, &v, sizeof to);
    return to;
}
static inline uint32_t __float_as_uint(float v) { return dp_emu_as<uint32_t>(v); }
static inline int __float_as_int(float v) { return dp_emu_as<int>(v); }
static inline float __uint_as_float(uint32_t v) { return dp_emu_as<float>(v); }
static inline float __int_as_float(int v) { return dp_emu_as<float>(v); }
static inline long long __double_as_longlong(double v) { return dp_emu_as<long long>(v); }
static inline double __longlong_as_double(long long v) { return dp_emu_as<double>(v); }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
#define __expf(v) expf(v) /* glibc has these names for itself */
#define __logf(v) logf(v)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float v) { return sqrtf(v); }
static inline float __frcp_rn(float v) { return 1.0f / v; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
template <class T> static inline T __ldg(const T *p) { return *p; }
static inline void __trap(void) { dp_emu_trap(); }
template <class A, class B> static inline typename std::common_type<A, B>::type min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline typename std::common_type<A, B>::type max(A a, B b) { return a > b ? a : b; }

#define DP_EMU_VECTOR(name, type, align, ...)             \
    struct __attribute__((aligned(align))) name {         \
        type __VA_ARGS__;                                 \
    };
DP_EMU_VECTOR(float2, float, 8, x, y)
DP_EMU_VECTOR(float4, float, 16, x, y, z, w)
DP_EMU_VECTOR(int2, int, 8, x, y)
DP_EMU_VECTOR(int4, int, 16, x, y, z, w)
DP_EMU_VECTOR(uint2, unsigned, 8, x, y)
DP_EMU_VECTOR(uint4, unsigned, 16, x, y, z, w)
DP_EMU_VECTOR(double2, double, 16, x, y)
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

#endif
