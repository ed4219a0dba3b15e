/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the card, staging memory of the host, and copies between them.
 *
 * Device memory comes from cudaMalloc, not from a pool: only such memory can be shown to another process. cudaFree
 * waits for everything on the device, so what is given back is freed later, when the computing lane is known to have
 * come past that point. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/record.h"
#include "kernels/cuda/tokens.h"

#define FIRST_BLOCKS 64 /* places at first; twice as many when they are taken */
#define BOUNCE ((size_t)256 << 10) /* bytes of one half of put's staging memory */

struct dp_cuda_block *dp_cuda_new_block(struct dp_cuda *cu, struct dp_err *err)
{
    if (cu->n_blocks == cu->max_blocks) {
        size_t n = cu->max_blocks ? 2 * cu->max_blocks : FIRST_BLOCKS;
        struct dp_cuda_block *blocks = realloc(cu->blocks, n * sizeof *blocks);

        if (!blocks) {
            dp_err_set(err, DP_ENOMEM, "cuda: %s: out of memory", cu->op);
            return NULL;
        }
        cu->blocks = blocks;
        cu->max_blocks = n;
    }
    return &cu->blocks[cu->n_blocks];
}

struct dp_cuda_block *dp_cuda_find_block(struct dp_cuda *cu, const void *p)
{
    for (size_t i = cu->n_blocks; i-- > 0;)
        if (cu->blocks[i].p == p && !cu->blocks[i].is_freed)
            return &cu->blocks[i];
    return NULL;
}

void dp_cuda_drop_block(struct dp_cuda *cu, struct dp_cuda_block *b)
{
    if (b->is_opened)
        dp_cuda_check(cu, dp_cuda_api.IpcCloseMemHandle(b->p), "IpcCloseMemHandle", NULL);
    else if (b->is_staging)
        dp_cuda_check(cu, dp_cuda_api.FreeHost(b->p), "FreeHost", NULL);
    else
        dp_cuda_check(cu, dp_cuda_api.Free(b->p), "Free", NULL);
    cu->n_freed -= b->is_freed;
    *b = cu->blocks[--cu->n_blocks];
}

void dp_cuda_collect_freed(struct dp_cuda *cu, bool all)
{
    struct dp_backend be = {.ctx = cu};

    if (!cu->n_freed)
        return;
    for (size_t i = cu->n_blocks; i-- > 0;) {
        struct dp_cuda_block *b = &cu->blocks[i];

        if (b->is_freed && (all || dp_cuda_reached(&be, b->freed, NULL) != 0))
            dp_cuda_drop_block(cu, b);
    }
}

/* cudaMalloc; when there is no room, once more without what was given back, and without graphs. */
static int device_memory(struct dp_cuda *cu, size_t bytes, void **out, struct dp_err *err)
{
    struct dp_err late = {.code = DP_OK};
    size_t left = 0, total = 0;
    cudaError_t rc;

    dp_cuda_collect_freed(cu, false);
    rc = dp_cuda_api.Malloc(out, bytes ? bytes : 1);
    if (rc == cudaErrorMemoryAllocation && (dp_cuda_drop_graphs(cu) || cu->n_freed)) {
        dp_cuda_api.GetLastError(); /* forget it */
        if (dp_cuda_flush(cu, &late) < 0 || DP_CUDA(cu, &late, StreamSynchronize, cu->lanes[DP_LANE_COMPUTE].stream) < 0) {
            if (err)
                *err = late;
            return -1;
        }
        dp_cuda_collect_freed(cu, true);
        rc = dp_cuda_api.Malloc(out, bytes ? bytes : 1);
    }
    if (rc != cudaErrorMemoryAllocation)
        return dp_cuda_check(cu, rc, "Malloc", err);
    dp_cuda_api.GetLastError();
    if (dp_cuda_api.MemGetInfo(&left, &total) != cudaSuccess)
        return dp_err_set(err, DP_ENOMEM, "cuda: %s: device %d has no memory for %zu bytes", cu->op, cu->device, bytes);
    return dp_err_set(err, DP_ENOMEM, "cuda: %s: device %d has no memory for %zu bytes: %zu of %zu are free", cu->op,
                      cu->device, bytes, left, total);
}

int dp_cuda_alloc(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    cudaStream_t stream = cu->lanes[DP_LANE_COMPUTE].stream;
    struct dp_cuda_block *b;
    void *p = NULL;

    if (dp_cuda_flush(cu, err) < 0)
        return -1;
    cu->op = "alloc";
    b = dp_cuda_new_block(cu, err);
    if (!b || device_memory(cu, bytes, &p, err) < 0)
        return -1;
    b = &cu->blocks[cu->n_blocks++];
    *b = (struct dp_cuda_block){.p = p};
    /* another lane may be told to use it at once */
    if (DP_CUDA(cu, err, MemsetAsync, p, 0, bytes ? bytes : 1, stream) < 0 ||
        DP_CUDA(cu, err, StreamSynchronize, stream) < 0)
        return -1;
    *out = p;
    return 0;
}

void dp_cuda_free(struct dp_backend *be, void *p)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_block *b = p ? dp_cuda_find_block(cu, p) : NULL;

    if (!b)
        return;
    b->is_freed = true;
    cu->n_freed++;
    if (cu->failure.code == DP_OK)
        cu->op = "free";
    if (dp_cuda_mark(be, DP_LANE_COMPUTE, &b->freed, NULL) < 0)
        dp_cuda_drop_block(cu, b); /* a device that has failed does nothing any more */
}

int dp_cuda_alloc_staging(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_block *b;
    void *p = NULL;
    cudaError_t rc;

    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    cu->op = "alloc_staging";
    b = dp_cuda_new_block(cu, err);
    if (!b)
        return -1;
    rc = dp_cuda_api.HostAlloc(&p, bytes ? bytes : 1, cudaHostAllocPortable);
    if (rc == cudaErrorMemoryAllocation) {
        dp_cuda_api.GetLastError();
        return dp_err_set(err, DP_ENOMEM, "cuda: no page-locked memory for %zu bytes", bytes);
    }
    if (dp_cuda_check(cu, rc, "HostAlloc", err) < 0)
        return -1;
    *b = (struct dp_cuda_block){.p = p, .is_staging = true};
    cu->n_blocks++;
    *out = p;
    return 0;
}

void dp_cuda_free_staging(struct dp_backend *be, void *p)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_block *b = p ? dp_cuda_find_block(cu, p) : NULL;

    if (!b)
        return;
    if (cu->failure.code == DP_OK)
        cu->op = "free_staging";
    dp_cuda_drop_block(cu, b);
}

void *dp_cuda_scratch(struct dp_cuda *cu, size_t bytes, struct dp_err *err)
{
    struct dp_backend be = {.ctx = cu};
    void *p = NULL;

    if (bytes <= cu->scratch_bytes && cu->scratch)
        return cu->scratch;
    if (!dp_cuda_new_block(cu, err))
        return NULL;
    dp_cuda_free(&be, cu->scratch); /* kernels that use it are in the lane before whatever comes now */
    cu->scratch = NULL;
    cu->scratch_bytes = 0;
    if (dp_cuda_usable(cu, err) < 0 || device_memory(cu, bytes, &p, err) < 0)
        return NULL;
    cu->blocks[cu->n_blocks++] = (struct dp_cuda_block){.p = p};
    cu->scratch = p;
    cu->scratch_bytes = bytes;
    return p;
}

/* What lies on the host is read now: into staging memory, half by half, from where the lane takes it. */
int dp_cuda_put(struct dp_backend *be, void *dst, const void *host, size_t bytes, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    char *to = dst;
    const char *from = host;

    if (dp_cuda_flush(cu, err) < 0)
        return -1;
    if (!cu->bounce && dp_cuda_alloc_staging(be, 2 * BOUNCE, &cu->bounce, err) < 0)
        return -1;
    cu->op = "put";
    while (bytes) {
        const int half = cu->next_bounce;
        const size_t n = bytes < BOUNCE ? bytes : BOUNCE;
        char *at = (char *)cu->bounce + (size_t)half * BOUNCE;

        if (dp_cuda_await(be, cu->bounced[half], UINT64_MAX, err) < 0)
            return -1;
        memcpy(at, from, n);
        if (DP_CUDA(cu, err, MemcpyAsync, to, at, n, cudaMemcpyHostToDevice, cu->lanes[DP_LANE_COMPUTE].stream) < 0 ||
            dp_cuda_mark(be, DP_LANE_COMPUTE, &cu->bounced[half], err) < 0)
            return -1;
        cu->next_bounce = !half;
        to += n;
        from += n;
        bytes -= n;
    }
    return 0;
}

int dp_cuda_get(struct dp_backend *be, void *host, const void *src, size_t bytes, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    cudaStream_t stream = cu->lanes[DP_LANE_COMPUTE].stream;

    if (dp_cuda_flush(cu, err) < 0)
        return -1;
    cu->op = "get";
    if (bytes && DP_CUDA(cu, err, MemcpyAsync, host, src, bytes, cudaMemcpyDeviceToHost, stream) < 0)
        return -1;
    if (DP_CUDA(cu, err, StreamSynchronize, stream) < 0)
        return -1;
    cu->lanes[DP_LANE_COMPUTE].passed = cu->lanes[DP_LANE_COMPUTE].marked;
    cu->done = cu->begun;
    return dp_cuda_read_note(cu, err);
}

static bool overlap(const void *a, const void *b, size_t bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y ? y - x < bytes : x - y < bytes;
}

int dp_cuda_copy(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "copy", err);
    void *between = NULL;

    if (!cu)
        return -1;
    if (!bytes || dst == src)
        return 0;
    if (overlap(dst, src, bytes)) {
        between = dp_cuda_scratch(cu, bytes, err);
        if (!between || dp_cuda_tell_copy(cu, between, src, bytes, cudaMemcpyDeviceToDevice, err) < 0)
            return -1;
    }
    return dp_cuda_tell_copy(cu, dst, between ? between : src, bytes, cudaMemcpyDeviceToDevice, err);
}

int dp_cuda_zero(struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "zero", err);

    if (!cu)
        return -1;
    return bytes ? dp_cuda_tell_zero(cu, dst, bytes, err) : 0;
}

int dp_cuda_move(struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes,
                 struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "move", err);

    if (!cu)
        return -1;
    if ((unsigned)lane >= DP_N_LANES)
        return dp_cuda_refuse(cu, err, "there is no lane %d", (int)lane);
    if (lane == DP_LANE_COMPUTE && dp_cuda_flush(cu, err) < 0)
        return -1;
    return bytes ? DP_CUDA(cu, err, MemcpyAsync, dst, src, bytes, cudaMemcpyDefault, cu->lanes[lane].stream) : 0;
}
