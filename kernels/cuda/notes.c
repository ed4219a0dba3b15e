/* SPDX-License-Identifier: BSD-3-Clause */
/* Late errors of tokens: the host's side of kernels/cuda/tokens.h. */
#include "kernels/cuda/tokens.h"

#include <string.h>

static const char *const who[] = {
    [DP_CUDA_EMBEDDING] = "embedding: token",
    [DP_CUDA_EMBEDDING_BWD] = "embedding_bwd: token",
    [DP_CUDA_HEAD] = "head: target",
};

int dp_cuda_open_notes(struct dp_cuda *cu, struct dp_err *err)
{
    struct dp_backend be = {.ctx = cu};
    const char *op = cu->op;
    void *host = NULL, *device = NULL;

    if (cu->note)
        return 0;
    if (dp_cuda_alloc_staging(&be, sizeof *cu->noted, &host, err) < 0)
        return -1;
    memset(host, 0, sizeof *cu->noted);
    if (dp_cuda_alloc(&be, sizeof *cu->note, &device, err) < 0) {
        dp_cuda_free_staging(&be, host);
        return -1;
    }
    cu->noted = host;
    cu->note = device;
    cu->op = op;
    return 0;
}

int dp_cuda_read_note(struct dp_cuda *cu, struct dp_err *err)
{
    const struct dp_cuda_note *n = cu->noted;

    if (n && n->op && n->op < sizeof who / sizeof who[0] && cu->failure.code == DP_OK)
        dp_err_set(&cu->failure, DP_EINVAL, "cuda: %s %llu at %llu, the vocabulary has %llu", who[n->op],
                   (unsigned long long)n->token, (unsigned long long)n->place, (unsigned long long)n->limit);
    return dp_cuda_usable(cu, err);
}
