/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums of pieces. */
#include "common/crc32c.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

static int digest_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct dp_digest *a = arg;
    int64_t left = a->bytes - i * a->piece;

    (void)thread;
    (void)err;
    a->crc[i] = dp_crc32c(0, (const char *)a->x + i * a->piece, (size_t)(left < a->piece ? left : a->piece));
    return 0;
}

int DP_FN(digest)(struct dp_backend *be, const struct dp_digest *a, struct dp_err *err)
{
    struct dp_digest copy = *a;

    if (a->piece < 1)
        return dp_err_set(err, DP_EINVAL, "digest: pieces of %lld bytes", (long long)a->piece);
    return dp_cpu_parallel(be, (a->bytes + a->piece - 1) / a->piece, digest_task, &copy, err);
}
