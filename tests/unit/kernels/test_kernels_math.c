/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions on vectors (vmath.h, vec.h), compiled for one version: exp and 2^x against the C library over
 * every 512th float of their ranges, GELU and its slope against the reference over all magnitudes, and what
 * lanes do among each other. */
#include "kernels/cpu/vmath.h"
#include "kernels/reference.h"
#include "tests/unit/unit.h"

#include <math.h>

static float bits_float(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static float exp_one(float x)
{
    return vf_exp(vf_set1(x))[0];
}

/* Error in units of the last place of the right answer. */
static double ulps(float got, double want)
{
    return fabs((double)got - want) / ldexp(1.0, ilogb(want) - 23);
}

static void exp_error(void **state)
{
    double worst = 0.0;

    (void)state;
    for (uint32_t magnitude = 0; bits_float(magnitude) < 88.3f; magnitude += 64 * 8) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x = bits_float(magnitude | sign << 31);

            if (x > DP_EXP_MIN && !(ulps(exp_one(x), exp((double)x)) <= worst))
                worst = ulps(exp_one(x), exp((double)x));
        }
    }
    print_message("# largest error of exp: %.3f ulp\n", worst);
    assert_true(worst < 2.0);
}

static float exp2_one(float x)
{
    return vf_exp2(vf_set1(x))[0];
}

static void exp2_error(void **state)
{
    double worst = 0.0;

    (void)state;
    for (uint32_t magnitude = 0; bits_float(magnitude) < 126.0f; magnitude += 64 * 8) {
        float x = -bits_float(magnitude);

        if (!(ulps(exp2_one(x), exp2((double)x)) <= worst))
            worst = ulps(exp2_one(x), exp2((double)x));
    }
    print_message("# largest error of exp2: %.3f ulp\n", worst);
    assert_true(worst < 2.0);
}

static void exp2_edges(void **state)
{
    (void)state;
    assert_true(exp2_one(0.0f) == 1.0f && exp2_one(-0.0f) == 1.0f && exp2_one(1.0f) == 2.0f);
    assert_true(exp2_one(-126.0f) == 0x1p-126f);
    assert_true(exp2_one(-126.5f) == 0.0f && exp2_one(-1e30f) == 0.0f && exp2_one(-INFINITY) == 0.0f);
    assert_true(isnan(exp2_one(NAN)));
}

static void exp_edges(void **state)
{
    (void)state;
    assert_true(exp_one(0.0f) == 1.0f);
    assert_true(exp_one(-0.0f) == 1.0f);
    assert_true(exp_one(-88.0f) == 0.0f);
    assert_true(exp_one(-INFINITY) == 0.0f);
    assert_true(exp_one(INFINITY) > 2e38f && isfinite(exp_one(INFINITY)));
    assert_true(isnan(exp_one(NAN)));
}

static void logistic_edges(void **state)
{
    vf rest;

    (void)state;
    assert_true(vf_logistic(vf_set1(0.0f), &rest)[0] == 0.5f && rest[0] == 0.5f);
    assert_true(vf_logistic(vf_set1(100.0f), &rest)[0] == 1.0f && rest[0] == 0.0f);
    assert_true(vf_logistic(vf_set1(-200.0f), &rest)[0] == 0.0f && fabsf(rest[0] - 1.0f) < 1e-6f);
    assert_true(isnan(vf_logistic(vf_set1(NAN), &rest)[0]));
    for (float x = -20.0f; x < 20.0f; x += 0.37f) {
        assert_true(ulps(vf_logistic(vf_set1(x), &rest)[0], 1.0 / (1.0 + exp(-(double)x))) < 4.0);
        assert_true(ulps(rest[0], 1.0 / (1.0 + exp((double)x))) < 4.0);
    }
}

static float gelu_one(float x)
{
    return vf_gelu(vf_set1(x))[0];
}

/* gelu'(x); the other result must be gelu(x). */
static float slope_one(float x)
{
    vf y, slope = vf_gelu_slope(vf_set1(x), &y);

    assert_true(y[0] == gelu_one(x) || isnan(x));
    return slope[0];
}

static void gelu_range(void **state)
{
    (void)state;
    for (int step = -4000; step < 4000; step++) {
        float x = (float)step / 400.0f;
        double xd = (double)x, one = 1.0, y, slope;

        dp_ref_gelu_f64(1, &y, &xd);
        dp_ref_gelu_bwd_f64(1, &slope, &one, &xd);
        /* the exponent 2u reaches -88: an ulp of it is 8e-6 of the result */
        if (!(fabs((double)gelu_one(x) - y) <= 2e-5 * fabs(y) + 1e-37))
            fail_msg("gelu(%g) = %.9g, want %.9g", xd, (double)gelu_one(x), y);
        if (!(fabs((double)slope_one(x) - slope) <= 5e-7))
            fail_msg("gelu'(%g) = %.9g, want %.9g", xd, (double)slope_one(x), slope);
    }
}

/* Far out exactly x or 0. */
static void gelu_edges(void **state)
{
    (void)state;
    assert_true(gelu_one(0.0f) == 0.0f && gelu_one(-0.0f) == 0.0f && gelu_one(1e30f) == 1e30f);
    assert_true(gelu_one(-1e30f) == 0.0f && gelu_one(88.0f) == 88.0f && gelu_one(-88.0f) == 0.0f);
    assert_true(slope_one(0.0f) == 0.5f && slope_one(1e30f) == 1.0f && slope_one(-1e30f) == 0.0f);
    assert_true(slope_one(88.0f) == 1.0f && slope_one(-88.0f) == 0.0f);
    assert_true(isnan(gelu_one(NAN)) && isnan(slope_one(NAN)));
}

static void across_lanes(void **state)
{
    vf powers;

    (void)state;
    for (int i = 0; i < VW; i++)
        powers[i] = (float)(1 << i);
    assert_true(vf_sum(powers) == (float)((1 << VW) - 1));
    for (int at = 0; at < VW; at++) {
        vf v = vf_set1(-3.0f);
        float row[2 * VW + 1];

        v[at] = -2.0f;
        assert_true(vf_max(v) == -2.0f);
        for (int i = 0; i < 2 * VW + 1; i++)
            row[i] = i == 2 * at ? 5.0f : i == 1 ? NAN : 4.0f;
        assert_true(row_max(row, 2 * VW + 1) == 5.0f);
    }
}

static void transpose(void **state)
{
    vf row[VW];

    (void)state;
    for (int i = 0; i < VW; i++)
        for (int j = 0; j < VW; j++)
            row[i][j] = (float)(i * VW + j);
    vf_transpose(row);
    for (int i = 0; i < VW; i++)
        for (int j = 0; j < VW; j++)
            assert_true(row[i][j] == (float)(j * VW + i));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(exp_error),
    cmocka_unit_test(exp_edges),
    cmocka_unit_test(exp2_error),
    cmocka_unit_test(exp2_edges),
    cmocka_unit_test(logistic_edges),
    cmocka_unit_test(gelu_range),
    cmocka_unit_test(gelu_edges),
    cmocka_unit_test(across_lanes),
    cmocka_unit_test(transpose),
};

int main(void)
{
#if VW > 4
    __builtin_cpu_init();
    if (!(VW == 16 ? __builtin_cpu_supports("avx512dq") : __builtin_cpu_supports("avx2"))) {
        puts("1..0 # SKIP this processor does not run this version");
        return 0;
    }
#endif
    return cmocka_run_group_tests_name("kernel math", tests, NULL, NULL);
}
