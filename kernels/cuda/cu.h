/* SPDX-License-Identifier: BSD-3-Clause */
/* For .cu files: one source for nvcc and, as plain C++, for the emulator. What differs between them stands here.
 *
 * A kernel is a `static __global__ void` function (templates are fine) with __launch_bounds__. Beside plain CUDA C++
 * and what this header has, it may use
 *     threadIdx blockIdx blockDim gridDim, __syncthreads() (never in a branch), __syncwarp(), __shfl_sync and its
 *     kin, __ballot_sync, __any_sync, __all_sync, __popc, __ffs, __clz, __ldg, fmaf, rsqrtf, __float_as_uint and its
 *     kin, atomicAdd, atomicMax and atomicOr on integers (never on floats: their order would show in the sum).
 * Shared memory is declared with DP_SHARED or DP_SHARED_DYNAMIC, never with __shared__. Sums have a fixed order.
 *
 * A kernel that reads what another block of the same launch wrote, or needs blocks to wait for each other, is wrong
 * here: cut it in two launches.
 */
#ifndef DP_KERNELS_CUDA_CU_H
#define DP_KERNELS_CUDA_CU_H

#ifndef __cplusplus
#error "for .cu files"
#endif

#ifdef DP_CUDA_EMU
#include "kernels/cuda/emu/device.h"
#else
#include <cuda_runtime.h>
#endif

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <utility>

#include "kernels/cuda/cuda.h"

#ifdef DP_CUDA_EMU
#define DP_UNROLL _Pragma("GCC unroll 8")
#define DP_NO_UNROLL
#else
#define DP_UNROLL _Pragma("unroll")
#define DP_NO_UNROLL _Pragma("unroll 1") /* more of a loop would take registers that it does not repay */

/* DP_SHARED(float, tile, [32][33]): an array of the block, of a size that the compiler knows, 16-byte aligned,
 * undefined at first. At most 48 KiB a kernel. */
#define DP_SHARED(type, name, size) __shared__ __align__(16) type name size
/* DP_SHARED_DYNAMIC(float, tile): the block's memory whose bytes DP_LAUNCH was told; one a kernel, 128-byte aligned. */
#define DP_SHARED_DYNAMIC(type, name)                            \
    extern __shared__ __align__(128) unsigned char dp_dynamic[]; \
    type *const name = reinterpret_cast<type *>(dp_dynamic)

/* 16 bytes from global to shared memory, beside what the thread goes on with; zeroes where not `there`. They are in
 * place for this thread when dp_copies_wait says so, and for others behind a barrier after that. Both addresses are
 * multiples of 16. */
static __device__ __forceinline__ void dp_copy16(void *shared, const void *global, bool there)
{
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(there ? 16 : 0)
                 : "memory");
}

/* The same for 4 bytes, addresses multiples of 4. */
static __device__ __forceinline__ void dp_copy4(void *shared, const void *global, bool there)
{
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(global), "r"(there ? 4 : 0)
                 : "memory");
}

/* The thread's copies since the last call are a group. */
static __device__ __forceinline__ void dp_copies_commit(void)
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/* Wait until at most PENDING of the thread's groups, the latest, are under way. */
template <int PENDING> static __device__ __forceinline__ void dp_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

/* Four 8 x 8 matrices of 16-bit elements from shared memory, as mma wants them: `row` is the address of 16 bytes, row
 * (thread % 8) of matrix (thread / 8); r[i] gets elements 2 (thread % 4) and the next of row (thread / 4) of matrix i.
 * All threads of the warp take part. */
static __device__ __forceinline__ void dp_ldmatrix4(uint32_t r[4], const void *row)
{
    unsigned from = (unsigned)__cvta_generic_to_shared(row);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* The same, each matrix transposed. */
static __device__ __forceinline__ void dp_ldmatrix4_t(uint32_t r[4], const void *row)
{
    unsigned from = (unsigned)__cvta_generic_to_shared(row);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* c (16, 8) += a (16, 16) b (16, 8) on tensor cores: bfloat16, sums in float, in an order that the hardware chooses.
 * Fragments as in the PTX manual, mma.m16n8k16. All threads of the warp take part. */
static __device__ __forceinline__ void dp_mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#define DP_ALL_THREADS 0xffffffffu /* of a warp */

/* Sum over the warp, the same bits in every thread: halves, quarters and so on, in this order. */
template <class T> static __device__ __forceinline__ T dp_warp_sum(T v)
{
    for (int distance = 16; distance; distance >>= 1)
        v += __shfl_xor_sync(DP_ALL_THREADS, v, distance);
    return v;
}

template <class T> static __device__ __forceinline__ T dp_warp_max(T v)
{
    for (int distance = 16; distance; distance >>= 1) {
        T other = __shfl_xor_sync(DP_ALL_THREADS, v, distance);

        v = v > other ? v : other;
    }
    return v;
}

/* Blocks that n elements take, `each` a block. */
static inline unsigned dp_blocks(int64_t n, int64_t each)
{
    int64_t blocks = n > 0 ? (n + each - 1) / each : 0;

    return blocks < UINT32_MAX ? (unsigned)blocks : UINT32_MAX; /* so many are refused when they are launched */
}

/* Bytes between members are 0, so that the same arguments are the same bytes (record.h). Where the compiler has no such
 * thing, segments may be told call by call that could be replayed. */
#ifdef __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define DP_CLEAR_PADDING(values) (__builtin_clear_padding(&values), ...)
#endif
#endif
#ifndef DP_CLEAR_PADDING
#define DP_CLEAR_PADDING(values) (void)0
#endif

/* DP_LAUNCH(cu, err, kernel, grid, block, shared, arguments...): start the kernel on the computing lane. shared: bytes
 * for DP_SHARED_DYNAMIC. Arguments become the kernel's parameter types. returns: 0, or -1 and err. */
#define DP_LAUNCH(cu, err, kernel, grid, block, shared, ...) \
    dp_launch(cu, err, #kernel, kernel, grid, block, shared, __VA_ARGS__)

template <class... P>
static int dp_launch_values(struct dp_cuda *cu, struct dp_err *err, const char *name, void (*kernel)(P...), dim3 grid,
                            dim3 block, size_t shared, P... values)
{
    static const size_t sizes[] = {sizeof(P)..., 0};
    void *args[] = {const_cast<void *>(static_cast<const void *>(&values))..., nullptr};

    DP_CLEAR_PADDING(values);
#ifdef DP_CUDA_EMU
    return dp_cuda_launch(cu, err, dp_emu_describe(name, kernel, sizes), grid, block, args, sizes, shared);
#else
    (void)name;
    return dp_cuda_launch(cu, err, reinterpret_cast<const void *>(kernel), grid, block, args, sizes, shared);
#endif
}

template <class... P, class... A>
static int dp_launch(struct dp_cuda *cu, struct dp_err *err, const char *name, void (*kernel)(P...), dim3 grid,
                     dim3 block, size_t shared, A... args)
{
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
    return dp_launch_values<P...>(cu, err, name, kernel, grid, block, shared, static_cast<P>(args)...);
}

#endif
