/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-device: this machine's processor as a file of devices, for `dynpipe plan --costs=estimate --device=./FILE`: what its
 * vectors can do at best and what its memory passes on, both measured. Products attain 0.8 of that (doc/benchmarks.md); what a
 * launch takes is assumed. */
#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/stdout.h"
#include "kernels/bench/limits.h"
#include "kernels/bench/machine.h"

#define FMA_FLOATS 4096          /* of a pass: in the nearest cache */
#define TRIAD_FLOATS (3 << 26)   /* 768 MiB: in no cache */
#define PRODUCT_SHARE 0.8        /* of what vectors can do, by oneDNN */
#define LAUNCH_S 20e-6           /* of an operator, forward and backward */

/* "--threads=N", or the processors that there are. returns: 0: wrong. */
static int read_threads(int argc, char **argv)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    char *end = NULL;

    if (argc > 2 || (argc == 2 && strncmp(argv[1], "--threads=", 10) != 0))
        return 0;
    if (argc == 2)
        n = strtol(argv[1] + 10, &end, 10);
    else if (n > DP_LIMIT_MAX_THREADS)
        n = DP_LIMIT_MAX_THREADS;
    return (end && *end) || n < 1 || n > DP_LIMIT_MAX_THREADS ? 0 : (int)n;
}

int main(int argc, char *argv[])
{
    int threads = read_threads(argc, argv);
    json_t *machine, *doc;
    const char *cpu;
    double gflops, gbytes;
    struct dp_err err;

    if (!threads) {
        printf("usage: bench_device [--threads=N]\nN: 1 to %d (default: all processors). Prints a file of devices with this one.\n",
               DP_LIMIT_MAX_THREADS);
        return argc == 2 && !strcmp(argv[1], "--help") ? 0 : 2;
    }
    gflops = dp_limit_measure(DP_LIMIT_FMA, "cpu", threads, FMA_FLOATS);
    gbytes = dp_limit_measure(DP_LIMIT_TRIAD, "cpu", threads, TRIAD_FLOATS);
    if (!(gflops > 0 && gbytes > 0)) {
        fprintf(stderr, "bench_device: no memory, or no thread, to measure with\n");
        return 1;
    }
    machine = bench_machine_json();
    cpu = json_string_value(json_object_get(json_object_get(machine, "machine"), "cpu"));
    doc = json_pack("{s:s, s:i, s:[{s:s, s:o, s:s, s:b, s:{s:f}, s:f, s:f, s:f, s:f}]}", "format", "dynpipe devices", "version", 1,
                    "devices", "name", "cpu", "title", json_sprintf("%.120s, %d threads", cpu ? cpu : "CPU", threads), "source",
                    "measured: fused multiply-adds and STREAM's triad; shares and launch assumed", "is_measured", 1, "flops_per_s", "fp32",
                    gflops * 1e9, "bytes_per_s", gbytes * 1e9, "launch_s", LAUNCH_S, "flops_share", PRODUCT_SHARE, "bytes_share", 1.0);
    json_dumpf(doc, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(4));
    printf("\n");
    json_decref(doc);
    json_decref(machine);
    return dp_stdout_flush(&err) == 0 ? 0 : 1;
}
