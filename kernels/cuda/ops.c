/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the CUDA backend, the only symbol that the plugin shows. */
#include "kernels/cuda/record.h"

extern const struct dp_backend_ops dp_backend_v1;

#define DP_OP_MEMBER(op) .op = dp_cuda_##op,

__attribute__((visibility("default"))) const struct dp_backend_ops dp_backend_v1 = {
    .abi = DP_BACKEND_ABI,
    .name = "cuda",
    .host_memory = false,
    .open = dp_cuda_open,
    .close = dp_cuda_close,
    .info = dp_cuda_info,
    .alloc = dp_cuda_alloc,
    .free = dp_cuda_free,
    .alloc_staging = dp_cuda_alloc_staging,
    .free_staging = dp_cuda_free_staging,
    .put = dp_cuda_put,
    .get = dp_cuda_get,
    .copy = dp_cuda_copy,
    .zero = dp_cuda_zero,
    .move = dp_cuda_move,
    .mark = dp_cuda_mark,
    .after = dp_cuda_after,
    .reached = dp_cuda_reached,
    .await = dp_cuda_await,
    .sync = dp_cuda_sync,
    .time_ns = dp_cuda_time_ns,
    .lap = dp_cuda_lap,
    .laps_collect = dp_cuda_laps_collect,
    .sparse_prepare = dp_cuda_sparse_prepare,
    .sparse_release = dp_cuda_sparse_release,
    .sparse_refresh = dp_cuda_sparse_refresh,
    .sparse_bytes = dp_cuda_sparse_bytes,
    .head_bytes = dp_cuda_head_bytes,
    .link = &dp_cuda_link,
    .segment_begin = dp_cuda_segment_begin,
    .segment_end = dp_cuda_segment_end,
    DP_BACKEND_OPS(DP_OP_MEMBER)
};
