/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands in front of a layer's arrays, in a stream (layer_io.c) and in a hand-over (layer_parts.c): the layer's header
 * and a head for each of its tensors. layer_io.c says what the bytes are. */
#ifndef DP_WORKER_MODEL_LAYER_HEAD_H
#define DP_WORKER_MODEL_LAYER_HEAD_H

#include "worker/model/param.h"

#define DP_LAYER_HEADER_MAX 116 /* bytes, of version 2 with its checksum */
#define DP_TENSOR_HEAD_BYTES 72 /* name, shape and format; without the checksum that follows in a stream */

enum dp_tensor_format {
    DP_FORMAT_DENSE,
    DP_FORMAT_BITMAP,
    DP_FORMAT_CSR,
    DP_FORMAT_BLOCKS,
    DP_FORMAT_32,
    DP_FORMAT_64,
    DP_FORMAT_128,
    DP_N_FORMATS
};

/* Of one tensor, as in the bytes, behind its name. */
struct dp_tensor_head {
    int64_t rows, cols, n, nnz;
    uint32_t format, has_moments;
};

/* DP_ECORRUPT: the bytes are no layer, and why. returns -1. */
int dp_layer_is_corrupt(struct dp_err *err, const char *what);

/* With its checksum. returns: bytes written. */
size_t dp_layer_header_encode(const struct dp_layer *l, uint8_t out[DP_LAYER_HEADER_MAX]);
/* A blank layer (dp_layer_blank) as the header at *at says, which is moved behind it. DP_ECORRUPT, or DP_EINVAL for another
 * model's; NULL then. */
struct dp_layer *dp_layer_header_decode(const uint8_t **at, const uint8_t *end, const struct dp_train_config *config,
                                        struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err);

/* Of a param as it is stored now, and the same with its name as bytes. */
struct dp_tensor_head dp_tensor_head_of(const struct dp_param *p);
void dp_tensor_head_encode(const struct dp_param *p, uint8_t out[DP_TENSOR_HEAD_BYTES]);
/* Is it one of p's shape, which has moments or not? DP_ECORRUPT. Of p name, shape and what may be pruned are read. */
int dp_tensor_head_decode(const uint8_t in[DP_TENSOR_HEAD_BYTES], const struct dp_param *p, bool has_moments,
                          struct dp_tensor_head *out, struct dp_err *err);

/* Rows of a block where the format is sparse, else 0. */
int64_t dp_tensor_block(const struct dp_tensor_head *h);
/* Of a sparse one: bytes of its row pointers, columns in its pattern. */
size_t dp_tensor_row_ptr_bytes(const struct dp_tensor_head *h);
int64_t dp_tensor_cols(const struct dp_tensor_head *h);
/* Is what was read a pattern of that shape? DP_ECORRUPT. */
int dp_tensor_check_pattern(const struct dp_sparse *sp, struct dp_err *err);

#endif
