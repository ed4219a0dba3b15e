/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer in parts, for a hand-over: a head of at most 980 bytes that says what arrays it has, and these arrays where they lie.
 * The destination makes a layer of the head, fills its arrays and has them checked; it is then, bit for bit, the one that left.
 * Both ends are the same release: the head is that of a stream (layer_head.h), and arrays are as they lie in memory. */
#ifndef DP_WORKER_MODEL_LAYER_PARTS_H
#define DP_WORKER_MODEL_LAYER_PARTS_H

#include "worker/model/layer.h"
#include "worker/model/layer_head.h"

#define DP_LAYER_HEAD_MAX (DP_LAYER_HEADER_MAX + DP_LAYER_MAX_PARAMS * DP_TENSOR_HEAD_BYTES)
#define DP_LAYER_MAX_PARTS (5 * DP_LAYER_MAX_PARAMS) /* two of a pattern, or a bitmap; weights and two moments */

struct dp_layer_part {
    void *data;     /* borrowed from the layer; 64-byte aligned where it is the backend's */
    size_t bytes;   /* not 0 */
    bool is_device; /* the backend's memory; false: the host's */
    bool is_replayed; /* between two prunings the optimizer's steps alone change it, or nothing; false: a tied copy of weights */
};

/* returns: bytes written. */
size_t dp_layer_head_write(const struct dp_layer *layer, uint8_t out[DP_LAYER_HEAD_MAX]);
/* A layer with room for everything that the head says, and whose arrays have no content yet. It may be destroyed, and asked for
 * its parts, and nothing else. most_bytes: what it may take at most, plans not counted. NULL with DP_ECORRUPT or DP_EINVAL (no
 * head, or of another model), DP_EPROTO (more than most_bytes) or DP_ENOMEM. */
struct dp_layer *dp_layer_from_head(const struct dp_train_config *config, struct dp_backend *be, const struct dp_tune *tune,
                                    const uint8_t *head, size_t bytes, uint64_t most_bytes, struct dp_err *err);
/* The arrays, in the same order at both ends. returns: how many. */
uint32_t dp_layer_parts(const struct dp_layer *layer, struct dp_layer_part out[DP_LAYER_MAX_PARTS]);

/* CRC-32C of all parts where they lie, a number for each `piece` bytes of a part and for what is left, part after part. piece:
 * a multiple of 64 KiB. crc: the caller's, as many as there are. Waits for the device. */
int dp_layer_parts_check(const struct dp_layer *layer, const struct dp_layer_part *part, uint32_t n, size_t piece, uint32_t *crc,
                         struct dp_err *err);
/* Patterns and bitmaps have arrived: look at them. DP_ECORRUPT: they are none. */
int dp_layer_patterns_arrived(struct dp_layer *layer, struct dp_err *err);
/* Patterns were looked at: build the plans that kernels need of them. */
int dp_layer_plan(struct dp_layer *layer, struct dp_err *err);
/* All parts have arrived, and there are plans: kernels have what they need of the weights. */
int dp_layer_weights_arrived(struct dp_layer *layer, struct dp_err *err);
/* Both, for matrices that have no plan yet; of the others kernels have what they need. All parts have arrived, and patterns were
 * looked at. Before the first operation on a layer that came. */
int dp_layer_complete(struct dp_layer *layer, struct dp_err *err);
/* The layer has another head now, of the same arrays: what stands in it beside them (its random key, what schemes remember) is the
 * layer's. DP_ECORRUPT: of other arrays, or no head; the layer is as it was. */
int dp_layer_take_head(struct dp_layer *layer, const uint8_t *head, size_t bytes, struct dp_err *err);

#endif
