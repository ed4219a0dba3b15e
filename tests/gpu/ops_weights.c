/* SPDX-License-Identifier: BSD-3-Clause */
/* What passes over weights: AdamW, sums. */
#include "kernels/reference.h"
#include "tests/gpu/ops.h"

static const int64_t sizes[] = {0, 1, 3, 64, 255, 1023, 1025, 4096, 4097, 20000};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

struct given {
    int64_t n;
    int with;
};

static void each(void (*body)(const void *given), int n_with)
{
    for (size_t i = 0; i < N_SIZES; i++)
        for (int with = 0; with < n_with; with++) {
            const struct given g = {sizes[i], with};
            static char text[64];

            snprintf(text, sizeof text, "n %lld, with %d", (long long)g.n, with);
            ops_case = text;
            ops_twice(body, &g);
        }
}

static uint64_t *random_bits(int64_t n)
{
    uint64_t *bits = calloc((size_t)n / 64 + 1, sizeof *bits), state = 5 + ops_seed;

    if (!bits)
        ops_die("out of memory");
    for (int64_t i = 0; i < n; i++)
        bits[i / 64] |= (ops_random(&state) & 1) << (i % 64);
    return bits;
}

static void adamw(const void *arg)
{
    const struct given *given = arg;
    const int64_t n = given->n;
    const bool decays = given->with & 1, leave = given->with & 2, some = given->with & 4;
    const struct dp_step_scalars step = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.3f, 0.2f, 0.5f};
    const struct dp_ref_adamw_step_f64 s = {(double)step.lr, (double)step.beta1, (double)step.beta2, (double)step.eps,
                                            decays ? (double)step.decay : 0.0, (double)step.bias1, (double)step.bias2,
                                            (double)step.grad_scale};
    uint64_t *bits = random_bits(n);
    struct array scalars = array_of(&step, 1, sizeof step), keep = array_of(bits, (n + 63) / 64, sizeof *bits);
    struct array w = array_noise(n, "w"), g = array_noise(n, "g"), m = array_noise(n, "m"), noise = array_noise(n, "v"), v;
    double *wd = array_double(&w), *gd = array_double(&g), *md = array_double(&m), *vd, *kept = array_double(&g);

    for (int64_t i = 0; i < n; i++)
        ((float *)noise.host)[i] = fabsf(on_host(&noise)[i]);
    v = array_of(noise.host, n, sizeof(float)), vd = array_double(&v);
    OP(adamw, .n = n, .w = w.p, .g = g.p, .m = m.p, .v = v.p, .keep = some ? keep.p : NULL, .step = scalars.p,
       .decays = decays, .leave_g = leave);
    dp_ref_adamw_f64(n, wd, gd, md, vd, some ? bits : NULL, &s);
    check_floats(&w, wd, TOLERANCE, "w");
    check_floats(&g, leave ? kept : gd, 0.0, "g");
    check_floats(&m, md, TOLERANCE, "m");
    check_floats(&v, vd, TOLERANCE, "v");
    for (int64_t i = 0; some && i < n; i++)
        if (!(bits[i / 64] >> (i % 64) & 1) && (on_host(&w)[i] != 0.0f || on_host(&m)[i] != 0.0f || on_host(&v)[i] != 0.0f))
            ops_fail("%s: element %lld is pruned and not 0", ops_case, (long long)i);
    array_drop(&scalars), array_drop(&keep), array_drop(&w), array_drop(&g), array_drop(&m), array_drop(&noise), array_drop(&v);
    free(bits), free(wd), free(gd), free(md), free(vd), free(kept);
}

void test_adamw(void)
{
    each(adamw, 8);
}

static void sums(const void *arg)
{
    const struct given *given = arg;
    const int64_t n = given->n;
    const bool some = given->with & 1;
    uint64_t *bits = random_bits(n);
    struct array x = array_noise(n, "x"), keep = array_of(bits, (n + 63) / 64, sizeof *bits), xs, y = array_nan(n);
    struct array squares = array_of(&(double){NAN}, 1, sizeof(double)), sum = array_of(&(double){some ? 2.5 : NAN}, 1, sizeof(double));
    double *xd = array_double(&x), want = 0.0, square = dp_ref_sum_squares_f64(n, xd, some ? bits : NULL);
    double *twice = new_doubles(n);

    xs = array_of(xd, n, sizeof *xd);
    for (int64_t i = 0; i < n; i++) {
        want += xd[i];
        twice[i] = 2.0 * xd[i];
    }
    want = some ? 2.5 + want : want;
    OP(add, .n = n, .y = y.p, .a = x.p, .b = x.p);
    OP(sum_squares, .n = n, .x = x.p, .keep = some ? keep.p : NULL, .sum = squares.p);
    OP(sum, .n = n, .sum = sum.p, .x = xs.p, .add_to_sum = some);
    check_floats(&y, twice, 0.0, "add");
    check_doubles(&squares, &square, 1e-12, "sum of squares");
    check_bytes(&sum, &want, "sum");
    array_drop(&x), array_drop(&keep), array_drop(&xs), array_drop(&y), array_drop(&squares), array_drop(&sum);
    free(bits), free(xd), free(twice);
}

void test_sums(void)
{
    each(sums, 2);
}
