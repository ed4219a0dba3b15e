/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel tests share: random numbers, buffers between guard bytes, a comparison that NaN
 * fails, and the versions of the CPU backend that this machine runs. */
#ifndef DP_TESTS_UNIT_KERNELS_UTIL_H
#define DP_TESTS_UNIT_KERNELS_UTIL_H

#include <math.h>

#include "kernels/backend.h"
#include "kernels/reference.h"
#include "tests/unit/unit.h"

#define N_VERSIONS 3
static const char *const version_names[N_VERSIONS] = {"cpu:avx512", "cpu:avx2", "cpu:plain"};

/* Backend of version i, or NULL where this processor does not have it. */
static inline struct dp_backend *open_threads(int i, int threads)
{
    struct dp_err err = {0};
    struct dp_backend *be = dp_backend_create(version_names[i], 0, threads, &err);

    if (!be) {
        assert_int_equal(err.code, DP_ENOTSUP);
        print_message("# %s is not tested: %s\n", version_names[i], err.text);
    }
    return be;
}

static inline struct dp_backend *open_version(int i)
{
    return open_threads(i, 1);
}

/* valgrind (tests/lib/valgrind.sh sets DP_VALGRIND) makes a test some 50 times slower: it leaves out a case
 * of more than so many multiply-adds. */
static inline bool is_left_out(int64_t multiply_adds)
{
    return multiply_adds > 200000 && getenv("DP_VALGRIND");
}

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

/* Standard normal (Box & Muller). */
static inline double rnd_normal(uint64_t *s)
{
    double u = ((double)(rnd(s) & 0xffffff) + 1.0) / 16777217.0;

    return sqrt(-2.0 * log(u)) * cos(M_PI * rnd_unit(s));
}

#define GUARD_BYTES 64
#define GUARD_BYTE 0xa5

/* n floats between guards; `shift` floats away from a 64-byte border. */
struct buf {
    unsigned char *raw;
    float *p;
    int64_t n;
};

static inline struct buf buf_noise(int64_t n, int shift, uint64_t seed)
{
    struct buf b = {.n = n};
    size_t front = GUARD_BYTES + (size_t)shift * sizeof(float), bytes = (size_t)n * sizeof(float);
    void *raw = NULL;

    assert_int_equal(posix_memalign(&raw, 64, front + bytes + GUARD_BYTES), 0);
    b.raw = raw;
    memset(b.raw, GUARD_BYTE, front + bytes + GUARD_BYTES);
    b.p = (float *)(void *)(b.raw + front);
    for (int64_t i = 0; i < n; i++)
        b.p[i] = (float)rnd_unit(&seed);
    return b;
}

/* The same numbers at another address. */
static inline struct buf buf_copy(struct buf from, int shift)
{
    struct buf b = buf_noise(from.n, shift, 1);

    memcpy(b.p, from.p, (size_t)from.n * sizeof *b.p);
    return b;
}

static inline void buf_check(struct buf b, const char *what)
{
    const unsigned char *data = (const unsigned char *)b.p;

    for (const unsigned char *g = b.raw; g < data; g++)
        if (*g != GUARD_BYTE)
            fail_msg("%s: wrote %td bytes before its buffer", what, data - g);
    for (int i = 0; i < GUARD_BYTES; i++)
        if (data[(size_t)b.n * sizeof(float) + (size_t)i] != GUARD_BYTE)
            fail_msg("%s: wrote %d bytes behind its buffer", what, i);
}

static inline void buf_free(struct buf b, const char *what)
{
    buf_check(b, what);
    free(b.raw);
}

/* The buffer in double; the caller frees. */
static inline double *buf_double(struct buf b)
{
    double *d = malloc((size_t)(b.n ? b.n : 1) * sizeof *d);

    assert_non_null(d);
    for (int64_t i = 0; i < b.n; i++)
        d[i] = (double)b.p[i];
    return d;
}

/* Allowed error of a float sum of `terms` products against the same in double: rounding errors of
 * half an ulp that add up like a random walk, with a factor for the worst of many outputs. */
static inline double tolerance(int64_t terms)
{
    return 1.2e-7 * (4.0 + 2.0 * sqrt((double)terms));
}

/* |got - want| <= tol * (1 + largest |want|) everywhere. */
static inline void check_close(const float *got, const double *want, int64_t n, double tol, const char *what)
{
    double largest = 1.0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, 1.0 + fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tol * largest))
            fail_msg("%s: element %lld of %lld is %.9g, want %.9g +- %.3g", what, (long long)i, (long long)n,
                     (double)got[i], want[i], tol * largest);
}

/* Bit for bit. */
static inline void check_same(struct buf a, struct buf b, const char *what)
{
    for (int64_t i = 0; i < a.n; i++)
        if (memcmp(&a.p[i], &b.p[i], sizeof(float)))
            fail_msg("%s: element %lld is %.9g, and %.9g at another address or with other threads", what, (long long)i,
                     (double)a.p[i], (double)b.p[i]);
}

/* An op must succeed. */
#define CHECK_OP(be, op, ...)                                                                      \
    do {                                                                                           \
        struct dp_err op_err = {0};                                                                \
        if ((be)->ops->op((be), &(struct dp_##op){__VA_ARGS__}, &op_err) != 0)                     \
            fail_msg(#op ": %s", op_err.text);                                                     \
    } while (0)

#endif
