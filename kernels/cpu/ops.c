/* SPDX-License-Identifier: BSD-3-Clause */
/* The vtable of one version of the CPU backend. */
#include "kernels/cpu/ops.h"

extern const struct dp_backend_ops DP_FN(ops);

#define DP_OP_MEMBER(op) .op = DP_FN(op),

const struct dp_backend_ops DP_FN(ops) = {
    .abi = DP_BACKEND_ABI,
    .name = "cpu",
    .host_memory = true,
    .open = dp_cpu_open,
    .close = dp_cpu_close,
    .info = dp_cpu_info,
    .alloc = dp_cpu_alloc,
    .free = dp_cpu_free,
    .alloc_staging = dp_cpu_alloc, /* zeroed, too: a message meets no page for the first time */
    .free_staging = dp_cpu_free,
    .put = dp_cpu_copy,
    .get = dp_cpu_copy,
    .copy = dp_cpu_copy,
    .zero = dp_cpu_zero,
    .move = dp_cpu_move,
    .mark = dp_cpu_mark,
    .after = dp_cpu_after,
    .reached = dp_cpu_reached,
    .await = dp_cpu_await,
    .sync = dp_cpu_sync,
    .time_ns = dp_cpu_time_ns,
    .lap = dp_cpu_lap,
    .laps_collect = dp_cpu_laps_collect,
    .sparse_prepare = dp_cpu_sparse_prepare,
    .sparse_release = dp_cpu_sparse_release,
    .sparse_refresh = dp_cpu_sparse_refresh,
    .sparse_bytes = dp_cpu_sparse_bytes,
    .head_bytes = DP_FN(head_bytes),
    .stock = &dp_cpu_stock,
    DP_BACKEND_OPS(DP_OP_MEMBER)
};
