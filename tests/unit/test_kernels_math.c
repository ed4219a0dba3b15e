/* vf_exp and vf_exp2 against the C library over every 512th float of their ranges: the error that vmath.h
 * promises.
 * Compiled like the plain version; the fused versions go through the op tests. */
#include "kernels/cpu/vmath.h"
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
    cmocka_unit_test(transpose),
};
TEST_MAIN("kernel math", tests)
