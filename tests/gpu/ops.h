/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the CUDA backend's operations share. The program needs a C compiler and nothing else of the tree's
 * tests: it runs on the emulator and, the same program, on a card.
 *
 * An operation runs twice, the second time on copies at other addresses, and must give the same bits; these also go into a
 * sum that is printed at the end, for runs with other seeds to be compared. All arrays lie between guards. What an
 * operation overwrites holds NaN before.
 */
#ifndef DP_TESTS_GPU_OPS_H
#define DP_TESTS_GPU_OPS_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"

#define TOLERANCE 1e-5 /* of a result in float, relative to the largest wanted one */

extern struct dp_backend ops_be;
extern uint64_t ops_seed;    /* of the numbers */
extern int ops_shift;        /* elements by which arrays lie off the border that alloc gives them */
extern const char *ops_case; /* for messages */

/* Count a failure and say why; the first few of a test are printed. */
void ops_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The program cannot go on. */
void ops_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* n elements of `size` bytes on the device, between guards. */
struct array {
    int64_t n;
    size_t size;
    void *raw, *p; /* device */
    void *host;    /* what fetch brought, or what it was made of */
};

/* Numbers in [-1, 1), or NaN everywhere; the same for the same name and ops_seed. */
struct array array_noise(int64_t n, const char *name);
struct array array_nan(int64_t n);
struct array array_of(const void *host, int64_t n, size_t size);
/* To the host; the guards must be as they were. */
void array_fetch(struct array *a, const char *what);
void array_drop(struct array *a);
static inline float *floats(const struct array *a)
{
    return a->p;
}
static inline const float *on_host(const struct array *a)
{
    return a->host;
}
/* Its numbers in double; before fetch those that it was made of. The caller frees. */
double *array_double(const struct array *a);
double *new_doubles(int64_t n);

/* Fetch, compare with the double that the reference makes (want), and with the run before (or be remembered). */
void check_floats(struct array *a, const double *want, double tolerance, const char *what);
void check_doubles(struct array *a, const double *want, double tolerance, const char *what);
/* Fetch; bit for bit. */
void check_bytes(struct array *a, const void *want, const char *what);

/* With other addresses `body` must give the same. */
void ops_twice(void (*body)(const void *arg), const void *arg);

#define OP(op, ...)                                                                          \
    do {                                                                                     \
        struct dp_err op_err = {.code = DP_OK};                                              \
        if (ops_be.ops->op(&ops_be, &(struct dp_##op){__VA_ARGS__}, &op_err) < 0)            \
            ops_die(#op ": %s: %s", ops_case, op_err.text);                                  \
    } while (0)

/* Pseudo-random, of the name and ops_seed. */
uint64_t ops_random(uint64_t *state);

/* The tests, each in the file of its kind. */
void test_linear(void);
void test_linear_bwd_input(void);
void test_linear_bwd_weight(void);
void test_embedding(void);
void test_layernorm(void);
void test_head(void);
void test_adamw(void);
void test_sums(void);
void test_pruning(void);
void test_patterns(void);
void test_sparse_csr(void);
void test_sparse_blocks(void);
void test_bad_patterns(void);
void test_late_errors(void);

#endif
