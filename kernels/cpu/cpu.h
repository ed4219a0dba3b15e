/* SPDX-License-Identifier: BSD-3-Clause */
/* What the op files of the CPU backend share: the context, its workspace, the dense GEMM.
 *
 * Versions: the ops are compiled for avx512, avx2 and plain C (vec.h); each version is one
 * struct dp_backend_ops. dp_backend_create("cpu") takes the best that the processor runs,
 * "cpu:avx2" and the like name one, for tests and for clusters with nodes of several kinds.
 */
#ifndef DP_KERNELS_CPU_CPU_H
#define DP_KERNELS_CPU_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/stock.h"

#define DP_CPU_HUGE_PAGE ((size_t)2 << 20) /* x86-64's, and arm64's with pages of 4 KiB */
/* Bytes from which on a block is a mapping of its own: smaller ones would leave most of a huge page empty. */
#ifdef __SANITIZE_ADDRESS__ /* which sees what is written beyond a block of the heap only */
#define DP_CPU_LARGE SIZE_MAX
#define DP_CPU_STOCKED SIZE_MAX
#else
#define DP_CPU_LARGE (DP_CPU_HUGE_PAGE / 2)
#define DP_CPU_STOCKED ((size_t)16 << 10) /* from here on a block may come from the stock; less is not worth whole pages */
#endif

struct dp_cpu {
    int threads; /* for dp_cpu_parallel (parallel.h) */
    uint64_t lap_ns; /* when the last lap ended */
    float *scratch;
    size_t scratch_floats;
    struct dp_cpu_stock stock;
};

/* The ops of a version ("avx512", "avx2", "plain"); NULL: the best one of this processor.
 * returns: NULL and err (DP_ENOTSUP) when the processor or the build lacks it. */
const struct dp_backend_ops *dp_cpu_ops(const char *version, struct dp_err *err);

/* The workspace of the backend, at least n floats, 64-byte aligned, contents undefined. Valid until
 * the next call. NULL and err when memory is exhausted. */
float *dp_cpu_scratch(struct dp_backend *be, int64_t n, struct dp_err *err);

/* Row-major c (m, n) = alpha op(a) op(b) + beta c; op(a): (m, k), op(b): (k, n), 'N' or 'T' each.
 * Sizes that are 0 are fine. On the calling thread, whatever the backend's number of threads. */
struct dp_gemm {
    char trans_a, trans_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
};
/* returns 0, or -1 with DP_EINVAL or DP_ENOMEM and c in any state. m or n 0: c is left as it is. */
int dp_cpu_gemm(const struct dp_gemm *g, struct dp_err *err);

/* Huge pages for a mapping, where there are some: a wish, without which all is as right, only slower. errno stays. */
void dp_cpu_wish_huge(void *p, size_t bytes);

/* Members of the vtable that are the same in every version (device.c, sparse/plan.c, sparse/refresh.c). */
int dp_cpu_open(struct dp_backend *be, int worker, int threads, struct dp_err *err);
void dp_cpu_close(struct dp_backend *be);
int dp_cpu_alloc(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err);
void dp_cpu_free(struct dp_backend *be, void *p);
int dp_cpu_copy(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err);
int dp_cpu_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err);
int dp_cpu_zero(struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err);
int dp_cpu_move(struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes, struct dp_err *err);
int dp_cpu_mark(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err);
int dp_cpu_after(struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err);
int dp_cpu_reached(struct dp_backend *be, dp_ticket t, struct dp_err *err);
int dp_cpu_await(struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err);
int dp_cpu_sync(struct dp_backend *be, struct dp_err *err);
int dp_cpu_lap(struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err);
int dp_cpu_laps_collect(struct dp_backend *be, struct dp_err *err);
uint64_t dp_cpu_time_ns(struct dp_backend *be);
int dp_cpu_sparse_prepare(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err);
void dp_cpu_sparse_release(struct dp_backend *be, struct dp_sparse *sp);
int dp_cpu_sparse_refresh(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err);
size_t dp_cpu_sparse_bytes(struct dp_backend *be, const struct dp_sparse *sp);

#endif
