/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages between the workers of one node cost, measured over the real transport between real
 * processes. */
#ifndef DP_WORKER_BENCH_MESSAGES_H
#define DP_WORKER_BENCH_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "worker/net/transport.h"

#define BENCH_MESSAGES 40 /* per sample */
#define BENCH_LAYERS 26   /* of the model whose sums are exchanged */
#define BENCH_MICROBATCHES 8 /* as the demo has */

/* Nanoseconds, `rounds` of them in *samples: the caller's array. All but bench_step_sync are for ranks 0 and 1.
 * returns: 0 or -1. */

/* A message of `bytes` from rank 0 to rank 1, two in flight as in a pipeline, BENCH_MESSAGES per sample. */
int bench_one_way(struct dp_transport *t, uint32_t rank, size_t bytes, int rounds, double *samples,
                  struct dp_err *err);
/* `bytes` there and as many back, one after the other. */
int bench_and_back(struct dp_transport *t, uint32_t rank, size_t bytes, int rounds, double *samples,
                   struct dp_err *err);
/* The exchange that ends every step (worker/step/step_sync.h), with nothing to compute between, one after
 * the other; *cpu_ns: what a round takes of this process's CPU. */
int bench_step_sync(struct dp_transport *t, uint32_t rank, uint32_t n_workers, int rounds, double *samples,
                    double *cpu_ns, struct dp_err *err);

#endif
