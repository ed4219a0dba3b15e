/* SPDX-License-Identifier: BSD-3-Clause */
/* What a measured figure has to name: processor, cores, versions, how busy the machine was. */
#ifndef DP_KERNELS_BENCH_MACHINE_H
#define DP_KERNELS_BENCH_MACHINE_H

#include <jansson.h>
#include <stdint.h>

/* {"machine": {cpu, cores that this process may use, load: average of the last minute, memory_bytes}, "dynpipe" and
 * "gemm": version, and library of the dense products with its version, "compiler"}. The caller frees it. */
json_t *bench_machine_json(void);
/* The same for people, two lines. */
void bench_machine_print(json_t *root);

/* Largest resident set of this process so far, 0: unknown. */
uint64_t bench_peak_rss_bytes(void);
/* Count the largest resident set from here on. Kernels that cannot do it go on counting. */
void bench_peak_rss_restart(void);

#endif
