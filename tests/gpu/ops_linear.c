/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with a dense matrix: sizes around tiles of 64 and 128 and slices of 16, k cut into parts, so many tiles that
 * they are the larger ones; everything that may follow a product, alone and together; no tokens at all. */
#include "kernels/reference.h"
#include "tests/gpu/ops.h"

struct shape {
    int64_t n, c_in, c_out;
};

static const struct shape shapes[] = {{1, 1, 1},   {3, 5, 7},     {64, 16, 64}, {65, 33, 130}, {17, 48, 3},    {130, 20, 129},
                                      {0, 7, 9},   {5, 1100, 70}, {3, 9, 517},  {515, 5, 6},  {8133, 3, 130}, {8133, 130, 3}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])
#define N_LARGE 2 /* at the end; one for y and dw, one for dx */

struct given {
    struct shape s;
    int with; /* bits: what else there is */
};

/* Each shape with nothing besides, with all of it, and with one of the n_with - 2 sets between; the large ones with all. */
static void each(void (*body)(const void *given), int n_with)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int with = i + N_LARGE >= N_SHAPES ? n_with - 1 : 0; with < n_with; with++) {
            const struct given g = {shapes[i], with};
            static char text[96];

            if (with != 0 && with != n_with - 1 && with != (int)i % (n_with - 2) + 1)
                continue;
            snprintf(text, sizeof text, "n %lld, %lld in, %lld out, with %d", (long long)g.s.n, (long long)g.s.c_in,
                     (long long)g.s.c_out, with);
            ops_case = text;
            ops_twice(body, &g);
        }
}

static void linear(const void *arg)
{
    const struct given *g = arg;
    const struct shape s = g->s;
    const bool bias = g->with & 1, residual = g->with & 2, gelu = g->with & 4;
    struct array x = array_noise(s.n * s.c_in, "x"), w = array_noise(s.c_out * s.c_in, "w"), b = array_noise(s.c_out, "bias");
    struct array r = array_noise(s.n * s.c_out, "residual"), y = array_nan(s.n * s.c_out), a = array_nan(s.n * s.c_out);
    double *xd = array_double(&x), *wd = array_double(&w), *bd = array_double(&b), *rd = array_double(&r);
    double *yd = new_doubles(s.n * s.c_out), *ad = new_doubles(s.n * s.c_out);

    OP(linear, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .y = y.p, .gelu = gelu ? a.p : NULL, .x = x.p, .w = w.p,
       .bias = bias ? b.p : NULL, .residual = residual ? r.p : NULL);
    dp_ref_linear_f64(s.n, s.c_in, s.c_out, yd, xd, wd, bias ? bd : NULL);
    for (int64_t i = 0; residual && i < y.n; i++)
        yd[i] += rd[i];
    dp_ref_gelu_f64(y.n, ad, yd);
    check_floats(&y, yd, TOLERANCE, "y");
    for (int64_t i = 0; !gelu && i < a.n; i++)
        ad[i] = NAN;
    check_floats(&a, ad, TOLERANCE, "gelu");
    array_drop(&x), array_drop(&w), array_drop(&b), array_drop(&r), array_drop(&y), array_drop(&a);
    free(xd), free(wd), free(bd), free(rd), free(yd), free(ad);
}

void test_linear(void)
{
    each(linear, 8);
}

static void bwd_input(const void *arg)
{
    const struct given *g = arg;
    const struct shape s = g->s;
    const bool slope = g->with > 0, gelu = g->with > 1;
    struct array dy = array_noise(s.n * s.c_out, "dy"), w = array_noise(s.c_out * s.c_in, "w");
    struct array x = array_noise(s.n * s.c_in, "gelu_x"), dx = array_nan(s.n * s.c_in), a = array_nan(s.n * s.c_in);
    double *dyd = array_double(&dy), *wd = array_double(&w), *xd = array_double(&x);
    double *dxd = new_doubles(dx.n), *ad = new_doubles(a.n);

    OP(linear_bwd_input, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .dx = dx.p, .gelu = gelu ? a.p : NULL, .dy = dy.p,
       .w = w.p, .gelu_x = slope ? x.p : NULL);
    dp_ref_linear_bwd_input_f64(s.n, s.c_in, s.c_out, dxd, dyd, wd);
    if (slope)
        dp_ref_gelu_bwd_f64(dx.n, dxd, dxd, xd);
    dp_ref_gelu_f64(a.n, ad, xd);
    for (int64_t i = 0; !gelu && i < a.n; i++)
        ad[i] = NAN;
    check_floats(&dx, dxd, TOLERANCE, "dx");
    check_floats(&a, ad, TOLERANCE, "gelu");
    array_drop(&dy), array_drop(&w), array_drop(&x), array_drop(&dx), array_drop(&a);
    free(dyd), free(wd), free(xd), free(dxd), free(ad);
}

void test_linear_bwd_input(void)
{
    each(bwd_input, 3);
}

static void bwd_weight(const void *arg)
{
    const struct given *g = arg;
    const struct shape s = {g->s.c_in, g->s.n ? g->s.n : 9, g->s.c_out}; /* the tokens are what is summed here */
    const int64_t n = g->s.n ? s.n : 0;
    const bool overwrite = g->with & 1, bias = g->with & 2;
    struct array dy = array_noise(n * s.c_out, "dy"), x = array_noise(n * s.c_in, "x"), b = array_noise(s.c_out, "dbias");
    struct array dw = overwrite ? array_nan(s.c_out * s.c_in) : array_noise(s.c_out * s.c_in, "dw");
    double *dyd = array_double(&dy), *xd = array_double(&x), *bd = array_double(&b), *dwd = array_double(&dw);

    for (int64_t i = 0; overwrite && i < dw.n; i++)
        dwd[i] = 0.0;
    OP(linear_bwd_weight, .n = n, .c_in = s.c_in, .c_out = s.c_out, .dw = dw.p, .dbias = bias ? b.p : NULL, .dy = dy.p,
       .x = x.p, .overwrite = overwrite);
    dp_ref_linear_bwd_weight_f64(n, s.c_in, s.c_out, dwd, bias ? bd : NULL, dyd, xd);
    check_floats(&dw, dwd, TOLERANCE, "dw");
    check_floats(&b, bd, TOLERANCE, "dbias");
    array_drop(&dy), array_drop(&x), array_drop(&b), array_drop(&dw);
    free(dyd), free(xd), free(bd), free(dwd);
}

void test_linear_bwd_weight(void)
{
    each(bwd_weight, 4);
}
