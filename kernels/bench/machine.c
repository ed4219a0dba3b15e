/* SPDX-License-Identifier: BSD-3-Clause */
/* See machine.h. Linux: /proc says most of it. */
#include <config.h>

#include "kernels/bench/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_ONEDNN
#include <dnnl.h>
#else
#include <cblas.h>
#endif

#define NAME_BYTES 128 /* CPUID's brand string, which /proc/cpuinfo has, has 48 */

/* The value of the line of `path` that begins with `key`, after its colon. */
static void read_value(const char *path, const char *key, char *out, size_t cap)
{
    FILE *f = fopen(path, "re");
    char line[256];

    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, cap, "%s", value);
        break;
    }
    if (f)
        fclose(f);
}

static void read_gemm(char *out, size_t cap)
{
#ifdef HAVE_ONEDNN
    const dnnl_version_t *v = dnnl_version();

    snprintf(out, cap, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
#else
    snprintf(out, cap, "%s", openblas_get_config());
#endif
}

json_t *bench_machine_json(void)
{
    char cpu[NAME_BYTES] = "unknown", gemm[NAME_BYTES];
    double load, memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    cpu_set_t allowed;
    int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;

    read_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    read_gemm(gemm, sizeof gemm);
    if (getloadavg(&load, 1) != 1)
        load = 0.0;
    return json_pack("{s:{s:s, s:i, s:f, s:f}, s:s, s:s, s:s}", "machine", "cpu", cpu, "cores", cores, "load", load,
                     "memory_bytes", memory_bytes, "dynpipe", PACKAGE_VERSION, "gemm", gemm, "compiler", __VERSION__);
}

void bench_machine_print(json_t *root)
{
    json_t *m = json_object_get(root, "machine");

    printf("machine: %s, %.0f cores, %.1f GB, load average %.1f\n", json_string_value(json_object_get(m, "cpu")),
           json_number_value(json_object_get(m, "cores")),
           json_number_value(json_object_get(m, "memory_bytes")) * 1e-9, json_number_value(json_object_get(m, "load")));
    printf("dynpipe %s, %s, compiler %s\n", json_string_value(json_object_get(root, "dynpipe")),
           json_string_value(json_object_get(root, "gemm")), json_string_value(json_object_get(root, "compiler")));
}

uint64_t bench_peak_rss_bytes(void)
{
    char text[64] = "0";

    read_value("/proc/self/status", "VmHWM", text, sizeof text);
    return strtoull(text, NULL, 10) * 1024;
}

void bench_peak_rss_restart(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, "5", 1) != 1) /* proc(5): resets VmHWM */
        fprintf(stderr, "bench: the largest resident set counts from the start of the process\n");
    close(fd);
}
