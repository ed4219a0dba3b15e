/* What a measured figure has to name: processor, cores, versions, how busy the machine was. */
#ifndef DP_KERNELS_BENCH_MACHINE_H
#define DP_KERNELS_BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_NAME_BYTES 128

struct bench_machine {
    char cpu[BENCH_NAME_BYTES];
    char gemm[BENCH_NAME_BYTES]; /* library of the dense products, with its version */
    int cores;                   /* that this process may use */
    double load;                 /* average of the last minute */
    uint64_t memory_bytes;
};

void bench_machine_read(struct bench_machine *out);

/* Largest resident set of this process so far, 0: unknown. */
uint64_t bench_peak_rss_bytes(void);
/* Count the largest resident set from here on. Kernels that cannot do it go on counting. */
void bench_peak_rss_restart(void);

#endif
