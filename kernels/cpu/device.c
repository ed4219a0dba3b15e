/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU as a device: its memory, its clock, and which version of the ops it runs.
 *
 * Large blocks ask for huge pages: packing walks memory with large strides, and 4 KiB pages cost it
 * a TLB miss per row. Each is a mapping of its own, so that the kernel has it back at once when pruning frees it: in the
 * heap the smaller arrays that come after it land in the hole, and where malloc gives the rest back, the kernel fills what
 * is left of a huge page again (khugepaged: 5 MiB of 57 within half a minute).
 */
#include "kernels/cpu/cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"

extern const struct dp_backend_ops dp_cpu_ops_plain;
#ifdef HAVE_X86_VERSIONS
extern const struct dp_backend_ops dp_cpu_ops_avx2, dp_cpu_ops_avx512;
#endif

struct version {
    const char *name;
    const struct dp_backend_ops *ops;
    bool runs; /* on this processor */
};

#define N_VERSIONS 3 /* of list_versions() */

/* Best first. */
static void list_versions(struct version v[N_VERSIONS])
{
    v[0] = (struct version){.name = "avx512"};
    v[1] = (struct version){.name = "avx2"};
    v[2] = (struct version){.name = "plain", .ops = &dp_cpu_ops_plain, .runs = true};
#ifdef HAVE_X86_VERSIONS
    __builtin_cpu_init();
    v[0].ops = &dp_cpu_ops_avx512;
    v[1].ops = &dp_cpu_ops_avx2;
    v[1].runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    v[0].runs = v[1].runs && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#endif
}

const struct dp_backend_ops *dp_cpu_ops(const char *version, struct dp_err *err)
{
    struct version v[N_VERSIONS];

    list_versions(v);
    for (int i = 0; i < N_VERSIONS; i++) {
        if (version && strcmp(version, v[i].name))
            continue;
        if (v[i].runs)
            return v[i].ops;
        if (version) {
            dp_err_set(err, DP_ENOTSUP, "cpu:%s: this processor or this build does not have it", version);
            return NULL;
        }
    }
    dp_err_set(err, DP_EINVAL, "cpu:%s: unknown instruction set; known: avx512, avx2, plain", version);
    return NULL;
}

/* In front of every block. */
struct head {
    void *base;    /* what was allocated */
    size_t mapped; /* bytes of a mapping of its own; 0: from the heap */
};

#define HEAD 64 /* keeps blocks aligned to a cache line */

static struct head *head_of(void *p)
{
    return (struct head *)(void *)((char *)p - HEAD);
}

static void *from_heap(size_t bytes)
{
    void *base = NULL;

    if (bytes > SIZE_MAX - HEAD || posix_memalign(&base, 64, bytes + HEAD))
        return NULL;
    *(struct head *)base = (struct head){.base = base};
    return (char *)base + HEAD;
}

void dp_cpu_wish_huge(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    int saved = errno;

    madvise(p, bytes, MADV_HUGEPAGE);
    errno = saved;
#else
    (void)p;
    (void)bytes;
#endif
}

/* On a border of huge pages, a page with the head before it. */
static void *map(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page, before;
    char *at, *p;

    if (bytes > SIZE_MAX / 2)
        return NULL;
    at = mmap(NULL, whole + page + DP_CPU_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    p = (char *)(((uintptr_t)at + page + DP_CPU_HUGE_PAGE - 1) / DP_CPU_HUGE_PAGE * DP_CPU_HUGE_PAGE);
    before = (size_t)(p - page - at);
    if (before)
        munmap(at, before);
    if (DP_CPU_HUGE_PAGE - before)
        munmap(p + whole, DP_CPU_HUGE_PAGE - before);
    dp_cpu_wish_huge(p, bytes);
    *head_of(p) = (struct head){.base = p - page, .mapped = page + whole};
    return p;
}

static void *alloc_aligned(size_t bytes)
{
    return bytes >= DP_CPU_LARGE ? map(bytes) : from_heap(bytes);
}

/* The head is in front of the array, in the same piece. NULL: there is not so much. */
static void *from_stock(struct dp_cpu *cpu, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
    struct head *h;

    if (bytes < DP_CPU_STOCKED || bytes > SIZE_MAX / 2)
        return NULL;
    whole = (bytes + HEAD + page - 1) / page * page;
    h = dp_cpu_stock_take(&cpu->stock, whole);
    if (!h)
        return NULL;
    *h = (struct head){.base = h, .mapped = whole};
    return (char *)h + HEAD;
}

static void free_aligned(void *p)
{
    struct head h;

    if (!p)
        return;
    h = *head_of(p);
    if (h.mapped)
        munmap(h.base, h.mapped);
    else
        free(h.base);
}

int dp_cpu_open(struct dp_backend *be, int worker, int threads, struct dp_err *err)
{
    struct dp_cpu *cpu;

    (void)worker;
    if (threads < 1)
        return dp_err_set(err, DP_EINVAL, "cpu: %d threads, at least 1 is needed", threads);
    cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return dp_err_set(err, DP_ENOMEM, "cpu: no memory for the context");
    cpu->threads = threads;
    cpu->lap_ns = dp_thread_cpu_ns();
    dp_cpu_stock_open(&cpu->stock);
    be->ctx = cpu;
    return 0;
}

void dp_cpu_close(struct dp_backend *be)
{
    struct dp_cpu *cpu = be->ctx;

    if (!cpu)
        return;
    free_aligned(cpu->scratch);
    dp_cpu_stock_close(&cpu->stock);
    free(cpu);
    be->ctx = NULL;
}

int dp_cpu_alloc(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err)
{
    void *p = from_stock(be->ctx, bytes);

    if (!p) {
        p = alloc_aligned(bytes);
        if (!p)
            return dp_err_set(err, DP_ENOMEM, "cpu: no memory for %zu bytes", bytes);
        memset(p, 0, bytes); /* of a mapping, too: steps meet no page for the first time */
    }
    *out = p;
    return 0;
}

void dp_cpu_free(struct dp_backend *be, void *p)
{
    (void)be;
    free_aligned(p);
}

int dp_cpu_copy(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err)
{
    (void)be;
    (void)err;
    if (bytes)
        memmove(dst, src, bytes);
    return 0;
}

int dp_cpu_zero(struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err)
{
    (void)be;
    (void)err;
    if (bytes)
        memset(dst, 0, bytes);
    return 0;
}

/* ---- lanes: everything is done while it is called ---- */

int dp_cpu_move(struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes, struct dp_err *err)
{
    (void)lane;
    return dp_cpu_copy(be, dst, src, bytes, err);
}

int dp_cpu_mark(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err)
{
    (void)be;
    (void)lane;
    (void)err;
    *out = 0;
    return 0;
}

int dp_cpu_after(struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err)
{
    (void)be;
    (void)lane;
    (void)t;
    (void)err;
    return 0;
}

int dp_cpu_reached(struct dp_backend *be, dp_ticket t, struct dp_err *err)
{
    (void)be;
    (void)t;
    (void)err;
    return 1;
}

int dp_cpu_await(struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err)
{
    (void)timeout_ns;
    return dp_cpu_reached(be, t, err);
}

int dp_cpu_sync(struct dp_backend *be, struct dp_err *err)
{
    (void)be;
    (void)err;
    return 0;
}

/* ---- time, and what the device is ---- */

uint64_t dp_cpu_time_ns(struct dp_backend *be)
{
    (void)be;
    return dp_thread_cpu_ns();
}

int dp_cpu_lap(struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err)
{
    struct dp_cpu *cpu = be->ctx;
    uint64_t now_ns = dp_thread_cpu_ns();

    (void)err;
    if (sum_ns)
        *sum_ns += now_ns - cpu->lap_ns;
    cpu->lap_ns = now_ns;
    return 0;
}

int dp_cpu_laps_collect(struct dp_backend *be, struct dp_err *err)
{
    (void)be;
    (void)err;
    return 0;
}

/* The processor's model as the kernel names it, "cpu" where it names none. */
int dp_cpu_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256], *value = NULL;

    (void)be;
    (void)err;
    *out = (struct dp_device_info){.name = "cpu", .sparse_format = DP_TILES, .act_bytes = sizeof(float)};
    while (f && !value && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10))
            value = strchr(line, ':');
    if (value) {
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        if (value[0])
            snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, value);
    }
    if (f)
        fclose(f);
    return 0;
}

float *dp_cpu_scratch(struct dp_backend *be, int64_t n, struct dp_err *err)
{
    struct dp_cpu *cpu = be->ctx;
    size_t floats = n > 0 ? (size_t)n : 1;

    if (floats <= cpu->scratch_floats)
        return cpu->scratch;
    free_aligned(cpu->scratch);
    cpu->scratch_floats = 0;
    cpu->scratch = floats <= SIZE_MAX / sizeof(float) ? alloc_aligned(floats * sizeof(float)) : NULL;
    if (!cpu->scratch) {
        dp_err_set(err, DP_ENOMEM, "cpu: no memory for a workspace of %zu floats", floats);
        return NULL;
    }
    cpu->scratch_floats = floats;
    return cpu->scratch;
}
