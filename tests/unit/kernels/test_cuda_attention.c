/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of a device, forward and backward, against the reference in double: contexts around the tiles of 64, odd head
 * sizes, heads of more than one tile of channels, several sequences and heads; the same bits again, also where nothing is
 * aligned; what cannot be is refused. */
#include "tests/unit/kernels/device_ops.h"

static const struct shape {
    int64_t b, t, c, h;
} shapes[] = {{1, 1, 1, 1},   {2, 2, 6, 2},   {1, 17, 21, 3},  {1, 63, 16, 1},  {1, 64, 32, 2}, {2, 65, 34, 2},
              {1, 127, 5, 1}, {1, 129, 8, 2}, {2, 64, 128, 2}, {1, 70, 130, 1}, {1, 67, 128, 1}, {1, 193, 4, 1},
              {3, 5, 195, 1}, {1, 9, 64, 16}};

static void run_shape(struct dp_backend *be, struct shape s)
{
    const int64_t n = s.b * s.t * s.c, rows = s.b * s.h * s.t;
    float *qkv = noise(3 * n, 1), *dy = noise(n, 2), *first[3] = {0};
    double *qkv_d, *dy_d = doubles(n, dy), *y_d = doubles(n, NULL), *lse_d = doubles(rows, NULL);
    double *dqkv_d = doubles(3 * n, NULL);

    for (int64_t i = 0; i < 2 * n; i++) /* scores that differ */
        qkv[i / s.c * 3 * s.c / 2 + i % s.c] *= 3.0f;
    qkv_d = doubles(3 * n, qkv);
    dp_ref_attention_f64(s.b, s.t, s.c, s.h, y_d, lse_d, qkv_d);
    dp_ref_attention_bwd_f64(s.b, s.t, s.c, s.h, dqkv_d, dy_d, y_d, qkv_d, lse_d);
    for (int time = 0; time < 2; time++) {
        const int shift = time;
        struct array in = array_of(be, 3 * n, shift, qkv), grad = array_of(be, n, shift, dy);
        struct array y = array_of(be, n, shift, NULL), lse = array_of(be, rows, shift, NULL);
        struct array dqkv = array_of(be, 3 * n, shift, NULL);
        float *got[3];

        OP(be, attention, .b = s.b, .t = s.t, .c = s.c, .h = s.h, .y = y.p, .lse = lse.p, .qkv = in.p);
        OP(be, attention_bwd, .b = s.b, .t = s.t, .c = s.c, .h = s.h, .dqkv = dqkv.p, .dy = grad.p, .y = y.p, .qkv = in.p,
           .lse = lse.p);
        drop(be, &in), drop(be, &grad);
        got[0] = take(be, &y, "y"), got[1] = take(be, &lse, "lse"), got[2] = take(be, &dqkv, "dqkv");
        if (time == 0) {
            check_near(n, got[0], y_d, "y");
            check_near(rows, got[1], lse_d, "lse");
            check_near(3 * n, got[2], dqkv_d, "dqkv");
            memcpy(first, got, sizeof first);
        } else {
            check_again(n, first[0], got[0], "y");
            check_again(rows, first[1], got[1], "lse");
            check_again(3 * n, first[2], got[2], "dqkv");
        }
    }
    free(qkv), free(dy), free(first[0]), free(first[1]), free(first[2]);
    free(qkv_d), free(dy_d), free(y_d), free(lse_d), free(dqkv_d);
}

/* Scores so large that most probabilities are 0, and exponents would overflow without the running maximum. */
static void run_large(struct dp_backend *be)
{
    const int64_t t = 130, c = 16, n = t * c;
    float *qkv = noise(3 * n, 3), *got;
    double *qkv_d, *y_d = doubles(n, NULL), *lse_d = doubles(t, NULL);
    struct array in, y = array_of(be, n, 0, NULL), lse = array_of(be, t, 0, NULL);

    for (int64_t i = 0; i < 3 * n; i++)
        qkv[i] *= 16.0f;
    for (int64_t i = 0; i < t; i++) /* and v as it was */
        for (int64_t j = 2 * c; j < 3 * c; j++)
            qkv[i * 3 * c + j] /= 16.0f;
    in = array_of(be, 3 * n, 0, qkv);
    qkv_d = doubles(3 * n, qkv);
    dp_ref_attention_f64(1, t, c, 1, y_d, lse_d, qkv_d);
    OP(be, attention, .b = 1, .t = t, .c = c, .h = 1, .y = y.p, .lse = lse.p, .qkv = in.p);
    drop(be, &in);
    got = take(be, &lse, "lse");
    check_near(t, got, lse_d, "lse");
    free(got);
    got = take(be, &y, "y");
    for (int64_t i = 0; i < n; i++) /* a score of some hundred has an error of 1e-5 in itself */
        if (!(fabs((double)got[i] - y_d[i]) <= 2e-4))
            wrong("y: element %lld is %.9g, want %.9g", (long long)i, (double)got[i], y_d[i]);
    free(got), free(qkv), free(qkv_d), free(y_d), free(lse_d);
}

static void refusals(struct dp_backend *be)
{
    struct array x = array_of(be, 64, 0, NULL);

    REFUSED(be, "7 channels in 2 heads", attention, .b = 1, .t = 1, .c = 7, .h = 2, .y = x.p, .lse = x.p, .qkv = x.p);
    REFUSED(be, "context 0", attention, .b = 1, .t = 0, .c = 8, .h = 2, .y = x.p, .lse = x.p, .qkv = x.p);
    REFUSED(be, "-1 sequences", attention_bwd, .b = -1, .t = 1, .c = 8, .h = 2, .dqkv = x.p, .dy = x.p, .y = x.p,
            .qkv = x.p, .lse = x.p);
    REFUSED(be, "too many", attention, .b = INT64_MAX / 2, .t = 1, .c = 8, .h = 2, .y = x.p, .lse = x.p, .qkv = x.p);
    REFUSED(be, "too many", attention, .b = 1 << 20, .t = 1 << 20, .c = 8, .h = 2, .y = x.p, .lse = x.p, .qkv = x.p);
    REFUSED(be, "too many", attention_bwd, .b = 1, .t = INT64_MAX, .c = 8, .h = 2, .dqkv = x.p, .dy = x.p, .y = x.p,
            .qkv = x.p, .lse = x.p);
    REFUSED(be, "too many", attention, .b = 1, .t = 1, .c = INT64_MAX, .h = 1, .y = x.p, .lse = x.p, .qkv = x.p);
    OP(be, attention, .b = 0, .t = 4, .c = 8, .h = 2, .y = x.p, .lse = x.p, .qkv = x.p);
    OP(be, attention_bwd, .b = 0, .t = 4, .c = 8, .h = 2, .dqkv = x.p, .dy = x.p, .y = x.p, .qkv = x.p, .lse = x.p);
    drop(be, &x);
}

static void test(struct dp_backend *be)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        now("%lld sequences of %lld tokens, %lld channels, %lld heads", (long long)shapes[i].b, (long long)shapes[i].t,
            (long long)shapes[i].c, (long long)shapes[i].h);
        run_shape(be, shapes[i]);
    }
    now("large scores");
    run_large(be);
    now("refusals");
    refusals(be);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv, 4, test);
}
