/* SPDX-License-Identifier: BSD-3-Clause */
/* Every backward of the reference (kernels/reference.inc, in double) against central finite
 * differences of its forward: dL/dx_i ~ (L(x + h e_i) - L(x - h e_i)) / 2h with L = sum of outputs
 * times fixed random factors. Steps of 1e-5 leave errors near 1e-9; 1e-7 is allowed. */
#include "tests/unit/kernels/kernels_util.h"

#define STEP 1e-5
#define ALLOWED 1e-7
#define MAX_INPUTS 4

/* One op with its inputs and their analytic gradients. */
struct problem {
    const char *name;
    int64_t n, c, k, h; /* whatever the op makes of them */
    double *in[MAX_INPUTS], *grad[MAX_INPUTS];
    int64_t len[MAX_INPUTS];
    double *out, *factor; /* dy */
    int64_t out_len;
    double *extra[2];
    uint32_t index[64];
    void (*forward)(struct problem *p);
    void (*backward)(struct problem *p);
};

static double *numbers(int64_t n, uint64_t *seed)
{
    double *d = malloc((size_t)n * sizeof *d);

    assert_non_null(d);
    for (int64_t i = 0; i < n; i++)
        d[i] = rnd_unit(seed);
    return d;
}

static double weighted_loss(struct problem *p)
{
    double sum = 0;

    p->forward(p);
    for (int64_t i = 0; i < p->out_len; i++)
        sum += p->out[i] * p->factor[i];
    return sum;
}

/* Gradients accumulate on top of noise where the op says +=; the caller says which by adds. */
static void check_problem(struct problem *p, unsigned adds)
{
    uint64_t seed = 12345;
    double *before[MAX_INPUTS] = {NULL};

    p->out = numbers(p->out_len, &seed);
    p->factor = numbers(p->out_len, &seed);
    for (int a = 0; a < MAX_INPUTS && p->len[a]; a++) {
        if (!p->in[a])
            p->in[a] = numbers(p->len[a], &seed);
        p->grad[a] = numbers(p->len[a], &seed);
        before[a] = malloc((size_t)p->len[a] * sizeof(double));
        assert_non_null(before[a]);
        memcpy(before[a], p->grad[a], (size_t)p->len[a] * sizeof(double));
    }
    p->forward(p);
    p->backward(p);
    for (int a = 0; a < MAX_INPUTS && p->len[a]; a++)
        for (int64_t i = 0; i < p->len[a]; i++) {
            double x = p->in[a][i], up, down, want, got;

            p->in[a][i] = x + STEP;
            up = weighted_loss(p);
            p->in[a][i] = x - STEP;
            down = weighted_loss(p);
            p->in[a][i] = x;
            want = (up - down) / (2 * STEP);
            got = p->grad[a][i] - (adds >> a & 1 ? before[a][i] : 0.0);
            if (!(fabs(got - want) <= ALLOWED * (1.0 + fabs(want))))
                fail_msg("%s: input %d element %lld: gradient %.12g, finite difference %.12g", p->name, a,
                         (long long)i, got, want);
        }
    for (int a = 0; a < MAX_INPUTS; a++) {
        free(p->in[a]);
        free(p->grad[a]);
        free(before[a]);
    }
    free(p->out);
    free(p->factor);
    free(p->extra[0]);
    free(p->extra[1]);
}

static void linear_forward(struct problem *p)
{
    dp_ref_linear_f64(p->n, p->c, p->k, p->out, p->in[0], p->in[1], p->in[2]);
}

static void linear_backward(struct problem *p)
{
    dp_ref_linear_bwd_input_f64(p->n, p->c, p->k, p->grad[0], p->factor, p->in[1]);
    dp_ref_linear_bwd_weight_f64(p->n, p->c, p->k, p->grad[1], p->grad[2], p->factor, p->in[0]);
}

static void linear(void **state)
{
    struct problem p = {.name = "linear", .n = 5, .c = 7, .k = 3, .len = {35, 21, 3}, .out_len = 15,
                        .forward = linear_forward, .backward = linear_backward};

    (void)state;
    check_problem(&p, 6);
}

static void embedding_forward(struct problem *p)
{
    dp_ref_embedding_f64(p->n, p->k, p->c, p->out, p->in[0], p->in[1], p->index);
}

static void embedding_backward(struct problem *p)
{
    dp_ref_embedding_bwd_f64(p->n, p->k, p->c, p->grad[0], p->grad[1], p->factor, p->index);
}

static void embedding(void **state)
{
    struct problem p = {.name = "embedding", .n = 8, .c = 3, .k = 4, .len = {15, 12}, .out_len = 24,
                        .index = {0, 4, 4, 1, 2, 4, 0, 0}, .forward = embedding_forward,
                        .backward = embedding_backward};

    (void)state;
    check_problem(&p, 3);
}

static void layernorm_forward(struct problem *p)
{
    dp_ref_layernorm_f64(p->n, p->c, p->out, p->extra[0], p->extra[1], p->in[0], p->in[1], p->in[2]);
}

static void layernorm_backward(struct problem *p)
{
    dp_ref_layernorm_bwd_f64(p->n, p->c, p->grad[0], p->grad[1], p->grad[2], p->factor, p->in[0], p->in[1],
                             p->extra[0], p->extra[1], p->k != 0);
}

static void layernorm(void **state)
{
    (void)state;
    for (int add = 0; add < 2; add++) {
        uint64_t seed = 9;
        struct problem p = {.name = "layernorm", .n = 4, .c = 11, .k = add, .len = {44, 11, 11}, .out_len = 44,
                            .forward = layernorm_forward, .backward = layernorm_backward};

        p.extra[0] = numbers(4, &seed);
        p.extra[1] = numbers(4, &seed);
        check_problem(&p, add ? 7 : 6);
    }
}

static void attention_forward(struct problem *p)
{
    dp_ref_attention_f64(p->n, p->k, p->c, p->h, p->out, p->extra[0], p->in[0]);
}

static void attention_backward(struct problem *p)
{
    dp_ref_attention_bwd_f64(p->n, p->k, p->c, p->h, p->grad[0], p->factor, p->out, p->in[0], p->extra[0]);
}

static void attention(void **state)
{
    uint64_t seed = 10;
    struct problem p = {.name = "attention", .n = 2, .k = 7, .c = 6, .h = 2, .len = {2 * 7 * 18},
                        .out_len = 2 * 7 * 6, .forward = attention_forward, .backward = attention_backward};

    (void)state;
    p.extra[0] = numbers(2 * 2 * 7, &seed);
    check_problem(&p, 0);
}

static void gelu_forward(struct problem *p)
{
    for (int64_t i = 0; i < p->n; i++) /* the interesting range is a few units wide */
        p->extra[0][i] = 4.0 * p->in[0][i];
    dp_ref_gelu_f64(p->n, p->out, p->extra[0]);
}

static void gelu_backward(struct problem *p)
{
    dp_ref_gelu_bwd_f64(p->n, p->grad[0], p->factor, p->extra[0]);
    for (int64_t i = 0; i < p->n; i++)
        p->grad[0][i] *= 4.0;
}

static void gelu(void **state)
{
    uint64_t seed = 11;
    struct problem p = {.name = "gelu", .n = 200, .len = {200}, .out_len = 200, .forward = gelu_forward,
                        .backward = gelu_backward};

    (void)state;
    p.extra[0] = numbers(200, &seed);
    check_problem(&p, 0);
}

static void add_forward(struct problem *p)
{
    dp_ref_add_f64(p->n, p->out, p->in[0], p->in[1]);
}

static void add_backward(struct problem *p)
{
    memcpy(p->grad[0], p->factor, (size_t)p->n * sizeof(double));
    memcpy(p->grad[1], p->factor, (size_t)p->n * sizeof(double));
}

static void add(void **state)
{
    struct problem p = {.name = "add", .n = 9, .len = {9, 9}, .out_len = 9, .forward = add_forward,
                        .backward = add_backward};

    (void)state;
    check_problem(&p, 0);
}

/* The loss has a factor of its own per row; the op knows one scale, so rows are weighted alike. */
static void head_forward(struct problem *p)
{
    assert_true(dp_ref_head_f64(p->n, p->c, p->k, p->out, NULL, NULL, p->in[0], p->in[1], p->index, 1.0));
    for (int64_t i = 0; i < p->n; i++)
        p->factor[i] = 0.37;
}

static void head_backward(struct problem *p)
{
    assert_true(dp_ref_head_f64(p->n, p->c, p->k, p->extra[0], p->grad[0], p->grad[1], p->in[0], p->in[1], p->index,
                                0.37));
}

static void head(void **state)
{
    uint64_t seed = 12;
    struct problem p = {.name = "head", .n = 3, .c = 4, .k = 13, .len = {12, 52}, .out_len = 3,
                        .index = {0, 12, 5}, .forward = head_forward, .backward = head_backward};

    (void)state;
    p.extra[0] = numbers(3, &seed);
    check_problem(&p, 2);
}

/* AdamW has no gradient of its own; two steps on one weight, worked out by hand from algorithm 2:
 * step 1: m/bias1 = g, v/bias2 = g^2, so w' = 1 - lr (sign(g) + decay) up to eps. */
static void adamw_by_hand(void **state)
{
    double w = 1, g = 0.5, m = 0, v = 0;
    struct dp_ref_adamw_step_f64 s = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 0, .decay = 0.01,
                                      .bias1 = 0.1, .bias2 = 0.01, .grad_scale = 2};

    (void)state;
    dp_ref_adamw_f64(1, &w, &g, &m, &v, NULL, &s);
    assert_true(fabs(w - 0.899) < 1e-12 && fabs(m - 0.1) < 1e-12 && fabs(v - 0.01) < 1e-12 && g == 0);
    g = -0.5;
    s.bias1 = 1 - 0.9 * 0.9;
    s.bias2 = 1 - 0.99 * 0.99;
    dp_ref_adamw_f64(1, &w, &g, &m, &v, NULL, &s);
    /* m = 0.09 - 0.1 = -0.01, m/0.19 = -0.0526316; v = 0.0099 + 0.01 = 0.0199, v/0.0199 = 1 */
    assert_true(fabs(m + 0.01) < 1e-12 && fabs(v - 0.0199) < 1e-12);
    assert_true(fabs(w - (0.899 - 0.1 * (-0.01 / 0.19 + 0.01 * 0.899))) < 1e-12);
}

/* The float instance is the same code; one op shows that it is there and close. */
static void float_instance(void **state)
{
    float x[3] = {-1, 0.25f, 2}, y[3];
    double xd[3] = {-1, 0.25, 2}, yd[3];

    (void)state;
    dp_ref_gelu_f32(3, y, x);
    dp_ref_gelu_f64(3, yd, xd);
    check_close(y, yd, 3, 1e-7, "gelu in float");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(linear),        cmocka_unit_test(embedding),     cmocka_unit_test(layernorm),
    cmocka_unit_test(attention),     cmocka_unit_test(gelu),          cmocka_unit_test(add),
    cmocka_unit_test(head), cmocka_unit_test(adamw_by_hand), cmocka_unit_test(float_instance),
};
TEST_MAIN("kernel gradients", tests)
