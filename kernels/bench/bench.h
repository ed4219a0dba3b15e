/* What the benchmarks share: the machine's name, medians. */
#ifndef DP_KERNELS_BENCH_BENCH_H
#define DP_KERNELS_BENCH_BENCH_H

#include <stddef.h>

#define DP_BENCH_MAX_ROUNDS 101

/* The processor as /proc/cpuinfo names it, "unknown" where it does not. */
void dp_bench_cpu_name(char *out, size_t cap);

/* Of n samples, which it sorts: the median, and (largest - smallest) / median. */
struct dp_bench_result {
    double median, spread;
};
struct dp_bench_result dp_bench_summarise(double *samples, int n);

#endif
