/* SPDX-License-Identifier: BSD-3-Clause */
/* One block looks at all tokens of an operation: thread t at tokens t, t + 512, ..., and the first of those that are out of
 * range is found in a tree (4 KiB of shared memory). Nothing is written when all is well. */
#include "kernels/cuda/tokens.h"

#include "kernels/cuda/cu.h"
#include "kernels/cuda/record.h"

#define THREADS 512 /* of a block */

static __global__ void __launch_bounds__(THREADS)
    check_kernel(int64_t n, int64_t v, const uint32_t *tokens, struct dp_cuda_note *note, uint64_t op)
{
    DP_SHARED(int64_t, first, [THREADS]);
    const int thread = (int)threadIdx.x;
    int64_t found = n;

    for (int64_t i = thread; i < n; i += THREADS)
        if (tokens[i] >= v) {
            found = i;
            break;
        }
    first[thread] = found;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half && first[thread + half] < first[thread])
            first[thread] = first[thread + half];
    }
    if (thread == 0 && first[0] < n && !note->op) {
        note->token = tokens[first[0]];
        note->place = (uint64_t)first[0];
        note->limit = (uint64_t)v;
        note->op = op;
    }
}

int dp_cuda_check_tokens(struct dp_cuda *cu, const uint32_t *tokens, int64_t n, int64_t v, enum dp_cuda_token_op op,
                         struct dp_err *err)
{
    if (dp_cuda_open_notes(cu, err) < 0)
        return -1;
    if (!n)
        return 0;
    if (DP_LAUNCH(cu, err, check_kernel, 1, THREADS, 0, n, v, tokens, cu->note, (uint64_t)op) < 0)
        return -1;
    return dp_cuda_tell_copy(cu, cu->noted, cu->note, sizeof *cu->note, cudaMemcpyDeviceToHost, err);
}
