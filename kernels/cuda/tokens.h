/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens lie in device memory, so that one that is out of range is seen when the device comes to it: a late error. The
 * kernel that finds one leaves a note, which is brought to the host behind it; the call that next waits for the computing
 * lane reads it, fails, and so does every call after that. The operations' own kernels pass over such tokens.
 */
#ifndef DP_KERNELS_CUDA_TOKENS_H
#define DP_KERNELS_CUDA_TOKENS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who may find one. */
enum dp_cuda_token_op { DP_CUDA_EMBEDDING = 1, DP_CUDA_EMBEDDING_BWD, DP_CUDA_HEAD };

/* In device memory, and a copy in staging memory. op: enum dp_cuda_token_op, 0 when there is none. */
struct dp_cuda_note {
    uint64_t op, token, place, limit;
};

/* Note the first of n tokens that is not below v, when nothing was noted before. */
int dp_cuda_check_tokens(struct dp_cuda *cu, const uint32_t *tokens, int64_t n, int64_t v, enum dp_cuda_token_op op,
                         struct dp_err *err);

/* Memory for the note, once. returns: 0, or -1 and err. */
int dp_cuda_open_notes(struct dp_cuda *cu, struct dp_err *err);
/* The computing lane has passed a point: was something noted before it? returns: 0, or -1 and err; then the backend has
 * failed. */
int dp_cuda_read_note(struct dp_cuda *cu, struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
