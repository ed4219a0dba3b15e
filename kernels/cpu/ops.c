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
    .alloc = dp_cpu_alloc,
    .free = dp_cpu_free,
    .put = dp_cpu_copy,
    .get = dp_cpu_copy,
    .copy = dp_cpu_copy,
    .sync = dp_cpu_sync,
    .time_ns = dp_cpu_time_ns,
    .sparse_prepare = dp_cpu_sparse_prepare,
    .sparse_release = dp_cpu_sparse_release,
    .sparse_refresh = dp_cpu_sparse_refresh,
    .sparse_bytes = dp_cpu_sparse_bytes,
    .head_bytes = DP_FN(head_bytes),
    DP_BACKEND_OPS(DP_OP_MEMBER)
};
