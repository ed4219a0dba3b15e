/* SPDX-License-Identifier: BSD-3-Clause */
/* What the computing lane is told, and how a segment of it is replayed (segment_begin of kernels/backend.h).
 *
 * Every call that tells that lane a launch, a copy, a fill or the record of a lap comes through here. Outside of a segment
 * it goes to the runtime at once. Inside, it is written down, with all of its arguments, until the segment ends or something
 * else is asked of the lane (dp_cuda_flush): then the list is compared with that of the last time. Where both are the same,
 * byte for byte, the second time makes a graph of them, by stream capture, and from then on one launch of that graph stands
 * for them all; where they differ, the calls are made as they came, and the list is the one to compare with. So nothing has
 * to be told when a layout, a pattern or an address changes, and a capture sees nothing but launches, copies, fills and
 * records: no allocation, no question, no wait. */
#ifndef DP_KERNELS_CUDA_RECORD_H
#define DP_KERNELS_CUDA_RECORD_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To the end of the computing lane, now or when the segment ends. returns: 0, or -1 and err; what is held back fails later,
 * with the name of the operation that it is part of. */
int dp_cuda_tell_copy(struct dp_cuda *cu, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                      struct dp_err *err);
int dp_cuda_tell_zero(struct dp_cuda *cu, void *dst, size_t bytes, struct dp_err *err);
int dp_cuda_tell_record(struct dp_cuda *cu, cudaEvent_t event, struct dp_err *err);

/* Members of the table. */
int dp_cuda_segment_begin(struct dp_backend *be, uint32_t key, struct dp_err *err);
int dp_cuda_segment_end(struct dp_backend *be, struct dp_err *err);

/* Free the graphs, for there is no memory; the lists stay. returns: were there any? */
bool dp_cuda_drop_graphs(struct dp_cuda *cu);
void dp_cuda_close_record(struct dp_cuda *cu);

#ifdef __cplusplus
}
#endif
#endif
