/* See machine.h. Linux: /proc says most of it. */
#include <config.h>

#include "kernels/bench/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/bench/bench.h"

#ifdef HAVE_ONEDNN
#include <dnnl.h>
#else
#include <cblas.h>
#endif

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

void bench_machine_read(struct bench_machine *out)
{
    cpu_set_t allowed;

    memset(out, 0, sizeof *out);
    dp_bench_cpu_name(out->cpu, sizeof out->cpu);
    read_gemm(out->gemm, sizeof out->gemm);
    out->cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    if (getloadavg(&out->load, 1) != 1)
        out->load = 0.0;
    out->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
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
