/* SPDX-License-Identifier: BSD-3-Clause */
/* See limits.h. A figure is the best of some runs: what disturbs a run only makes it slower. */
#include "kernels/bench/limits.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define RUNS 5 /* the fastest one counts: a limit is what can be reached */
#define SHORTEST_NS 2000000u /* of a run: what the start of threads takes must not count */

typedef void pass_fn(float *x, int64_t n);

struct version {
    pass_fn *pass[DP_LIMIT_N];
};

#if defined(__clang__)
#define UNROLL "unroll"
#else
#define UNROLL "GCC unroll 16"
#endif

#define TARGET
#define FLOATS 4 /* of a vector */
#define LIMIT(name) plain_##name
#include "kernels/bench/limits.inc"

#ifdef HAVE_X86_VERSIONS
#define TARGET __attribute__((target("avx2,fma")))
#define FLOATS 8 /* of a vector */
#define LIMIT(name) avx2_##name
#include "kernels/bench/limits.inc"

#define TARGET __attribute__((target("avx512f")))
#define FLOATS 16 /* of a vector */
#define LIMIT(name) avx512_##name
#include "kernels/bench/limits.inc"
#endif

/* What "cpu", "cpu:avx2" ... runs: kernels/cpu/device.c chooses likewise. */
static const struct version *find_version(const char *backend)
{
#ifdef HAVE_X86_VERSIONS
    bool any = !strcmp(backend, "cpu");

    __builtin_cpu_init();
    if (!strcmp(backend, "cpu:avx512") || (any && __builtin_cpu_supports("avx512dq")))
        return &avx512_version;
    if (!strcmp(backend, "cpu:avx2") || (any && __builtin_cpu_supports("avx2")))
        return &avx2_version;
#else
    (void)backend;
#endif
    return &plain_version;
}

/* One thread's part of a run. */
struct part {
    pass_fn *pass;
    float *x;
    int64_t n;
    int repeats;
};

static void *run_part(void *arg)
{
    const struct part *p = arg;

    for (int i = 0; i < p->repeats; i++)
        p->pass(p->x, p->n);
    return NULL;
}

static uint64_t run_parts(struct part *part, int threads)
{
    pthread_t id[DP_LIMIT_MAX_THREADS];
    uint64_t start = dp_now_ns();
    int started = 1;

    while (started < threads && !pthread_create(&id[started], NULL, run_part, &part[started]))
        started++;
    run_part(&part[0]);
    for (int i = 1; i < started; i++)
        pthread_join(id[i], NULL);
    return started == threads ? dp_now_ns() - start : UINT64_MAX;
}

double dp_limit_measure(enum dp_limit limit, const char *backend, int threads, int64_t floats)
{
    static const double per_float[DP_LIMIT_N] = {24.0, 4.0, 4.0, 8.0}; /* operations or bytes of a pass */
    struct part part[DP_LIMIT_MAX_THREADS];
    int64_t each = (floats / threads + 255) / 256 * 256;
    uint64_t best = UINT64_MAX;
    void *x = NULL;

    if (threads > DP_LIMIT_MAX_THREADS || posix_memalign(&x, 64, (size_t)(each * threads) * sizeof(float)))
        return 0.0;
    for (int64_t i = 0; i < each * threads; i++)
        ((float *)x)[i] = 0.5f;
    for (int i = 0; i < threads; i++)
        part[i] = (struct part){find_version(backend)->pass[limit], (float *)x + i * each, each, 1};
    for (int run = 0; run < RUNS; run++) {
        uint64_t ns = run_parts(part, threads);

        while (ns < SHORTEST_NS) {
            for (int i = 0; i < threads; i++)
                part[i].repeats *= 2;
            ns = run_parts(part, threads);
            run = 0;
            best = UINT64_MAX;
        }
        best = ns < best ? ns : best;
    }
    free(x);
    return per_float[limit] * (double)each * threads * part[0].repeats / (double)best;
}
