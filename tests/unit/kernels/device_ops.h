/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of a device's operations share. Such a test is a program
 *     test_cuda_NAME [PLUGIN [SEEDS]]
 * that loads the shared object PLUGIN (default: the emulator's of this build) and compares each operation with the
 * reference in double. It needs neither cmocka nor a library of this tree, so that it can be compiled where a card is. On
 * the emulator all of it runs once per seed, each in a process of its own.
 *
 * Arrays on the device lie between guards, which must stay. Outputs are NaN before, unless they are added to. The first
 * thing that is wrong ends the test.
 */
#ifndef DP_TESTS_UNIT_DEVICE_OPS_H
#define DP_TESTS_UNIT_DEVICE_OPS_H

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "kernels/reference.h"

#define NEAR 1e-5 /* allowed error, in units of the largest value that is wanted */

static char test_case[256] = "the beginning"; /* what is under way */

static inline _Noreturn void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline _Noreturn void wrong(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("not ok 1 - %s: ", test_case);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(1);
}

/* What is under way from now on. */
static inline void now(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline void now(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(test_case, sizeof test_case, fmt, args);
    va_end(args);
}

static inline void *must(void *p)
{
    if (!p)
        wrong("out of memory");
    return p;
}

/* A call of the table that must succeed: CALL(be, put, dst, src, bytes). An operation: OP(be, add, .n = 3, ...). */
#define CALL(be, name, ...)                                         \
    do {                                                            \
        struct dp_err call_err = {0};                               \
        if ((be)->ops->name((be), ##__VA_ARGS__, &call_err) < 0)    \
            wrong(#name ": %s", call_err.text);                     \
    } while (0)
#define OP(be, name, ...) CALL(be, name, &(struct dp_##name){__VA_ARGS__})
/* An operation that must be refused, with this in the text; the backend goes on. */
#define REFUSED(be, said, name, ...)                                                                \
    do {                                                                                            \
        struct dp_err call_err = {0};                                                               \
        if ((be)->ops->name((be), &(struct dp_##name){__VA_ARGS__}, &call_err) == 0)                \
            wrong(#name " is not refused");                                                         \
        if (call_err.code != DP_EINVAL || !strstr(call_err.text, said))                             \
            wrong(#name ": \"%s\" (%d) does not say \"%s\"", call_err.text, (int)call_err.code, said); \
    } while (0)

static inline uint64_t rnd(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s >> 11;
}

/* Uniform in [-1, 1). */
static inline double rnd_unit(uint64_t *s)
{
    return (double)(rnd(s) & 0xffffff) / 8388608.0 - 1.0;
}

/* n floats on the host, uniform in [-1, 1). */
static inline float *noise(int64_t n, uint64_t seed)
{
    float *x = must(malloc((size_t)(n + 1) * sizeof *x));

    seed = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rnd_unit(&seed);
    return x;
}

static inline double *doubles(int64_t n, const float *x)
{
    double *d = must(malloc((size_t)(n + 1) * sizeof *d));

    for (int64_t i = 0; i < n; i++)
        d[i] = x ? (double)x[i] : 0.0;
    return d;
}

#define GUARD 64 /* floats on each side */
#define GUARD_VALUE 12345.678f

/* n floats on the device, `shift` floats away from the best address. p: the first one. */
struct array {
    void *block;
    float *p;
    int64_t n, front;
};

/* from: NULL makes them NaN. */
static inline struct array array_of(struct dp_backend *be, int64_t n, int shift, const float *from)
{
    struct array a = {.n = n, .front = GUARD + shift};
    int64_t all = a.front + n + GUARD;
    float *host = must(malloc((size_t)all * sizeof *host));

    for (int64_t i = 0; i < all; i++)
        host[i] = i < a.front || i >= a.front + n ? GUARD_VALUE : from ? from[i - a.front] : NAN;
    CALL(be, alloc, (size_t)all * sizeof(float), &a.block);
    CALL(be, put, a.block, host, (size_t)all * sizeof(float));
    free(host);
    a.p = (float *)a.block + a.front;
    return a;
}

/* The array is freed, its numbers are returned; the caller frees these. */
static inline float *take(struct dp_backend *be, struct array *a, const char *what)
{
    int64_t all = a->front + a->n + GUARD;
    float *host = must(malloc((size_t)all * sizeof *host));

    CALL(be, get, host, a->block, (size_t)all * sizeof(float));
    for (int64_t i = 0; i < all; i++)
        if ((i < a->front || i >= a->front + a->n) && host[i] != GUARD_VALUE)
            wrong("%s: wrote element %lld of %lld", what, (long long)(i - a->front), (long long)a->n);
    memmove(host, host + a->front, (size_t)a->n * sizeof *host);
    be->ops->free(be, a->block);
    *a = (struct array){0};
    return host;
}

static inline void drop(struct dp_backend *be, struct array *a)
{
    free(take(be, a, "an input"));
}

/* |got - want| <= NEAR x the largest |want|, everywhere. */
static inline void check_near(int64_t n, const float *got, const double *want, const char *what)
{
    double largest = 0.0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= NEAR * largest))
            wrong("%s: element %lld of %lld is %.9g, want %.9g, the largest is %.3g", what, (long long)i, (long long)n,
                  (double)got[i], want[i], largest);
}

static inline void check_bits(int64_t n, const float *a, const float *b, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a))
            wrong("%s: element %lld of %lld is %.9g, and then %.9g", what, (long long)i, (long long)n, (double)a[i],
                  (double)b[i]);
}

/* Same bits, and gone. */
static inline void check_again(int64_t n, float *a, float *b, const char *what)
{
    check_bits(n, a, b, what);
    free(b);
}

/* The backend of a shared object, and what `test` finds wrong with it. */
static inline void test_plugin(const char *path, void (*test)(struct dp_backend *be))
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct dp_backend be = {0};
    struct dp_err err = {0};

    if (!library)
        wrong("%s", dlerror());
    be.ops = dlsym(library, "dp_backend_v1");
    if (!be.ops)
        wrong("%s", dlerror());
    if (be.ops->abi != DP_BACKEND_ABI)
        wrong("%s has interface %u, this test %u", path, be.ops->abi, DP_BACKEND_ABI);
    if (be.ops->open(&be, 0, 1, &err) < 0 || be.ops->info(&be, &be.info, &err) < 0)
        wrong("%s", err.text);
    test(&be);
    CALL(&be, sync);
    be.ops->close(&be);
}

#ifndef DEFAULT_PLUGIN
#define DEFAULT_PLUGIN "kernels/cuda/emu/libdynpipe-cuda-emu.so"
#endif

/* main() of a test. seeds: so many on the emulator. */
static inline int test_main(int argc, char **argv, int seeds, void (*test)(struct dp_backend *be))
{
    const char *path = argc > 1 ? argv[1] : DEFAULT_PLUGIN;

    if (argc > 2)
        seeds = (int)strtol(argv[2], NULL, 10);
    if (argc > 3 || seeds < 1) {
        fprintf(stderr, "usage: %s [PLUGIN [SEEDS]]\n", argv[0]);
        return 2;
    }
    printf("1..1\n");
    if (argc == 2) { /* a card: no seeds */
        test_plugin(path, test);
        printf("ok 1 - %s\n", path);
        return 0;
    }
    for (int seed = 1; seed <= seeds; seed++) {
        char text[32];
        int status = 0;
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0) {
            snprintf(text, sizeof text, "seed=%d", seed);
            setenv("DYNPIPE_EMU", text, 1);
            test_plugin(path, test);
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            printf(WIFEXITED(status) ? "# with seed %d\n" : "not ok 1 - seed %d: killed by signal %d\n", seed,
                   WTERMSIG(status));
            return 1;
        }
    }
    printf("ok 1 - %d seeds\n", seeds);
    return 0;
}

#endif
