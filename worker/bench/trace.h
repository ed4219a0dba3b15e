/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the time of a step goes: a backend whose operations are timed one by one. */
#ifndef DP_WORKER_BENCH_TRACE_H
#define DP_WORKER_BENCH_TRACE_H

#include <jansson.h>
#include <time.h>

#include "kernels/backend.h"

/* From here on every operation of these n backends, which have the same version, is timed by that clock. */
void bench_trace_begin(struct dp_backend *const *be, int n, clockid_t clock);
void bench_trace_clear(void);
/* What ran since the last clear, most expensive first: a list of {op, shape, calls, ns} per step, for
 * products of matrices with their gflops, for the rest, whose shape is empty, with elements_per_ns. A shape
 * is "out x in, tokens, zeros of a sparse matrix". The caller frees it. */
json_t *bench_trace_json(double steps);

#endif
