/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers that go from worker 0 to worker 1 again and again, and what their bytes cost otherwise (bench_handover.c). */
#ifndef DP_WORKER_BENCH_LAYERS_H
#define DP_WORKER_BENCH_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "worker/net/transport.h"

/* One end of it. Both ranks make the same calls but for bench_layers_parts, in the same order; each returns 0, or -1 and err.
 * Times are in ns, and mean something on rank 0. */
struct bench_layers;

/* Three layers on rank 0 that have about mib MiB while they are dense, of whose matrices the share `sparsity` is then zero;
 * none on rank 1. t is borrowed. */
struct bench_layers *bench_layers_create(struct dp_transport *t, uint32_t rank, int mib, double sparsity, struct dp_err *err);
void bench_layers_destroy(struct bench_layers *b);

int64_t bench_layers_channels(const struct bench_layers *b); /* of the model whose blocks they are */
size_t bench_layers_bytes(const struct bench_layers *b); /* that a hand-over moves; after the first one */

/* All layers, until rank 1 has said that it could vote for them, and until its kernels could begin with them; there they are
 * destroyed again. is_stocked: there memory for them was made ready before. */
int bench_layers_hand_over(struct bench_layers *b, bool is_stocked, double *ns, double *complete_ns, struct dp_err *err);
/* As many bytes as messages, from and into memory that was written before. */
int bench_layers_messages(struct bench_layers *b, double *ns, struct dp_err *err);
/* Rank 0 alone: CRC-32C of the bytes; memory like the layers' allocated and freed; their plans built again. */
int bench_layers_parts(struct bench_layers *b, double *checksum_ns, double *memory_ns, double *plans_ns, struct dp_err *err);

#endif
