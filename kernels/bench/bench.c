/* See bench.h. */
#include "kernels/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "kernels/probe.h"

void dp_bench_cpu_name(char *out, size_t cap)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(out, cap, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strstr(line, ": ");

        if (strncmp(line, "model name", 10) || !value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, cap, "%s", value + 2);
        break;
    }
    if (f)
        fclose(f);
}

struct dp_bench_result dp_bench_summarise(double *samples, int n)
{
    struct dp_bench_result r = {.median = dp_probe_median(samples, n)}; /* sorts them */

    r.spread = (samples[n - 1] - samples[0]) / r.median;
    return r;
}
