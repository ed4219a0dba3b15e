/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the CUDA backend share: the context, and how an operation begins, launches and fails.
 *
 * An operation of kernels/backend.h is a function dp_cuda_OP in a .cu file. It begins (dp_cuda_begin), refuses
 * arguments that cannot be (dp_cuda_refuse), takes workspace (dp_cuda_scratch) and launches kernels (DP_LAUNCH in
 * cu.h); nothing in it waits for the device. The backend is used by one thread at a time.
 */
#ifndef DP_KERNELS_CUDA_CUDA_H
#define DP_KERNELS_CUDA_CUDA_H

#ifndef __cplusplus
#include <stdbool.h>
#endif
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/api.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/backend.h"

/* Points of a lane that somebody holds tickets of, oldest first. */
struct dp_cuda_point {
    cudaEvent_t event; /* made when the place is first used, kept for whoever uses it next */
    uint64_t op;       /* operations that had begun */
};

struct dp_cuda_lane {
    cudaStream_t stream;
    uint64_t marked, passed;    /* the last point that was marked, the last that is known to have been passed */
    struct dp_cuda_point *marks; /* of point i in place i % n_marks; those in (passed, marked] are in use */
    uint64_t n_marks;
};

struct dp_cuda_time {
    cudaEvent_t event;
    uint64_t *sum_ns; /* [host] NULL: the lap counts for nothing */
};

/* Memory that was given out. Freed by the user, it waits for the computing lane to come past `freed`. */
struct dp_cuda_block {
    void *p;
    bool is_staging, is_freed;
    bool is_opened; /* it is another process's */
    dp_ticket freed;
};

#define DP_CUDA_RECENT 64 /* operations whose names are remembered */

/* A kernel that was told that it may have so much dynamic shared memory. */
#define DP_CUDA_ASKED 32
struct dp_cuda_asked {
    const void *kernel;
    size_t bytes;
};

struct dp_cuda {
    int device;
    struct dp_cuda_lane lanes[DP_N_LANES];
    struct dp_err failure; /* code DP_OK: none yet; every call fails with it */

    const char *op;                      /* that has begun last */
    const char *recent[DP_CUDA_RECENT];  /* operation i in place i % DP_CUDA_RECENT */
    uint64_t begun, done;                /* operations; done: known to have ended */

    struct dp_cuda_block *blocks;
    size_t n_blocks, max_blocks, n_freed;

    void *scratch; /* device */
    size_t scratch_bytes;
    void *bounce; /* [host] staging memory of put, two halves */
    dp_ticket bounced[2];
    int next_bounce;

    struct dp_cuda_note *note, *noted; /* of tokens out of range (tokens.h); noted: [host] as the lane brought it */
    struct dp_cuda_blas *blas;         /* cuBLASLt (blas.h), or NULL: products of our own */

    struct dp_cuda_record *record;     /* segments (record.h); NULL: none has begun */
    struct dp_cuda_asked asked[DP_CUDA_ASKED]; /* those without a kernel are free */

    struct dp_cuda_time *laps;
    size_t n_laps, max_laps; /* events are made for max_laps; laps[0]: the one that was collected last */
};

static inline struct dp_cuda *dp_cuda_of(struct dp_backend *be)
{
    return (struct dp_cuda *)be->ctx;
}

/* `op` (a string that stays) begins. returns: the context, or NULL and err when something has failed before. */
struct dp_cuda *dp_cuda_begin(struct dp_backend *be, const char *op, struct dp_err *err);
/* DP_EINVAL with the operation's name in front. returns: always -1. Nothing else changes: the backend goes on. */
int dp_cuda_refuse(struct dp_cuda *cu, struct dp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* At least `bytes` of device memory, 256-byte aligned, contents undefined, for kernels of the operation that has begun;
 * it is the next one's, too. NULL and err (DP_ENOMEM) when memory is exhausted. */
void *dp_cuda_scratch(struct dp_cuda *cu, size_t bytes, struct dp_err *err);
/* Start a kernel on the computing lane, now or when the segment ends (record.h); DP_LAUNCH (cu.h) calls it. sizes: of the
 * arguments, up to a 0; they stay. A grid of 0 blocks is fine: nothing is to be done. returns: 0, or -1 and err; from then
 * on the backend has failed. */
int dp_cuda_launch(struct dp_cuda *cu, struct dp_err *err, const void *kernel, dim3 grid, dim3 block, void **args,
                   const size_t *sizes, size_t shared);
/* (record.c) Whoever uses the computing lane's stream by himself, or marks a point in it, comes behind all that the lane was
 * told: what is held back is told now. returns: 0, or -1 and err. */
int dp_cuda_flush(struct dp_cuda *cu, struct dp_err *err);

/* May this error come from work that was started before the call that returned it? */
bool dp_cuda_is_late(cudaError_t rc);
/* What a runtime call returned. 0: returns 0. Else the backend has failed, with an error that names the operation that
 * it came from, or those that it may have come from; returns -1. call: "EventQuery". */
int dp_cuda_check(struct dp_cuda *cu, cudaError_t rc, const char *call, struct dp_err *err);
/* -1 and err when the backend has failed. */
int dp_cuda_usable(struct dp_cuda *cu, struct dp_err *err);
/* Call a function of the table. returns: like dp_cuda_check. */
#define DP_CUDA(cu, err, name, ...) dp_cuda_check(cu, dp_cuda_api.name(__VA_ARGS__), #name, err)

/* Free device memory that was given back and that the computing lane has come past; all of it, and without asking the
 * lane, with `all`. */
void dp_cuda_collect_freed(struct dp_cuda *cu, bool all);

/* A kernel of the plugin, to ask the runtime whether there is code for the device (probe.cu). */
const void *dp_cuda_probe(void);

/* Members of the table: the device (device.c), ... */
int dp_cuda_open(struct dp_backend *be, int worker, int threads, struct dp_err *err);
void dp_cuda_close(struct dp_backend *be);
int dp_cuda_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err);

/* ... memory (memory.c), ... */
int dp_cuda_alloc(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err);
void dp_cuda_free(struct dp_backend *be, void *p);
int dp_cuda_alloc_staging(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err);
void dp_cuda_free_staging(struct dp_backend *be, void *p);
int dp_cuda_put(struct dp_backend *be, void *dst, const void *host, size_t bytes, struct dp_err *err);
int dp_cuda_get(struct dp_backend *be, void *host, const void *src, size_t bytes, struct dp_err *err);
int dp_cuda_copy(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err);
int dp_cuda_zero(struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err);
int dp_cuda_move(struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes,
                 struct dp_err *err);

/* A place for one more block, which becomes one when n_blocks is counted up. NULL and err: no memory. */
struct dp_cuda_block *dp_cuda_new_block(struct dp_cuda *cu, struct dp_err *err);
/* The block at p that was not freed, or NULL. */
struct dp_cuda_block *dp_cuda_find_block(struct dp_cuda *cu, const void *p);
/* Give it back to the runtime at once, and forget it. */
void dp_cuda_drop_block(struct dp_cuda *cu, struct dp_cuda_block *b);

/* ... memory of other workers' devices (link.c), ... */
extern const struct dp_backend_link dp_cuda_link;

/* ... lanes, tickets and laps (queue.c), ... */
int dp_cuda_mark(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err);
int dp_cuda_after(struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err);
int dp_cuda_reached(struct dp_backend *be, dp_ticket t, struct dp_err *err);
int dp_cuda_await(struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err);
int dp_cuda_sync(struct dp_backend *be, struct dp_err *err);
uint64_t dp_cuda_time_ns(struct dp_backend *be);
int dp_cuda_lap(struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err);
int dp_cuda_laps_collect(struct dp_backend *be, struct dp_err *err);

/* ... sparse patterns, and the operations, each in its .cu file. */
int dp_cuda_sparse_prepare(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err);
void dp_cuda_sparse_release(struct dp_backend *be, struct dp_sparse *sp);
int dp_cuda_sparse_refresh(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err);
size_t dp_cuda_sparse_bytes(struct dp_backend *be, const struct dp_sparse *sp);
size_t dp_cuda_head_bytes(struct dp_backend *be, int64_t n, int64_t c, int64_t v);
#define DP_CUDA_OP_DECL(op) int dp_cuda_##op(struct dp_backend *be, const struct dp_##op *a, struct dp_err *err);
DP_BACKEND_OPS(DP_CUDA_OP_DECL)

#ifdef __cplusplus
}
#endif
#endif
