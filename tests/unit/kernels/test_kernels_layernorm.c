/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer norm forward and backward, every version, against the double reference: tokens around a tile,
 * channels around every vector width, outputs in rows and in tiles, padding, and the same bits at another
 * address with three threads. */
#include "tests/unit/kernels/kernels_util.h"

static const struct {
    int64_t n, c;
} shapes[] = {{1, 1}, {130, 1}, {5, 3}, {63, 8}, {64, 15}, {65, 16}, {130, 17}, {7, 33}, {129, 100}, {66, 768}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* A shape, its inputs in rows, and what the reference makes of them. */
struct problem {
    int64_t n, c;
    struct buf x, dy, gamma, beta, dx, dgamma, dbeta; /* the last three: before backward */
    double *y, *mean, *rstd, *dxd, *dgd, *dbd;        /* dx where it is = */
};

static double *zeros(int64_t n)
{
    double *d = calloc((size_t)n, sizeof *d);

    assert_non_null(d);
    return d;
}

static struct problem make_problem(int64_t n, int64_t c)
{
    struct problem p = {.n = n, .c = c, .x = buf_noise(n * c, 0, 1), .dy = buf_noise(n * c, 0, 2),
                        .gamma = buf_noise(c, 1, 3), .beta = buf_noise(c, 2, 4), .dx = buf_noise(n * c, 0, 5),
                        .dgamma = buf_noise(c, 0, 6), .dbeta = buf_noise(c, 0, 7), .y = zeros(n * c),
                        .mean = zeros(n), .rstd = zeros(n), .dxd = zeros(n * c)};
    double *x, *gamma = buf_double(p.gamma), *beta = buf_double(p.beta), *dy = buf_double(p.dy);

    for (int64_t i = 0; i < c; i++)
        p.x.p[i] = 3.0f + 0.1f * p.x.p[i]; /* a mean far from zero in row 0 */
    x = buf_double(p.x);
    p.dgd = buf_double(p.dgamma), p.dbd = buf_double(p.dbeta);
    dp_ref_layernorm_f64(n, c, p.y, p.mean, p.rstd, x, gamma, beta);
    dp_ref_layernorm_bwd_f64(n, c, p.dxd, p.dgd, p.dbd, dy, x, gamma, p.mean, p.rstd, false);
    free(x), free(gamma), free(beta), free(dy);
    return p;
}

static void free_problem(struct problem *p)
{
    buf_free(p->x, "x"), buf_free(p->dy, "dy"), buf_free(p->gamma, "gamma"), buf_free(p->beta, "beta");
    buf_free(p->dx, "dx"), buf_free(p->dgamma, "dgamma"), buf_free(p->dbeta, "dbeta");
    free(p->y), free(p->mean), free(p->rstd), free(p->dxd), free(p->dgd), free(p->dbd);
}

/* Where token i, channel j lies. */
static int64_t at(const struct problem *p, enum dp_token_format format, int64_t i, int64_t j)
{
    return format == DP_ROWS ? i * p->c + j : (i / DP_TILE * p->c + j) * DP_TILE + i % DP_TILE;
}

/* The buffer back in rows; what pads it must be finite. */
static struct buf in_rows(const struct problem *p, struct buf b, enum dp_token_format format, const char *what)
{
    struct buf rows = buf_noise(p->n * p->c, 0, 1);

    for (int64_t i = 0; i < (format == DP_ROWS ? p->n : b.n / p->c); i++)
        for (int64_t j = 0; j < p->c; j++) {
            float v = b.p[at(p, format, i, j)];

            if (i < p->n)
                rows.p[i * p->c + j] = v;
            else if (!isfinite(v))
                fail_msg("%s: padding of token %lld is %g", what, (long long)i, (double)v);
        }
    return rows;
}

/* rstd reaches 316 where a row has one channel: the error of the mean grows with it. */
#define ALLOWED 3e-5

static void check_forward(struct dp_backend *const be[2], const struct problem *p, enum dp_token_format y_format,
                          const char *what)
{
    struct buf y[2], mean[2], rstd[2], rows;

    for (int i = 0; i < 2; i++) {
        struct buf x = buf_copy(p->x, i);

        y[i] = buf_noise(dp_format_elements(y_format, p->n, p->c), 2 * i, 9);
        mean[i] = buf_noise(p->n, i, 10), rstd[i] = buf_noise(p->n, 3 * i, 11);
        CHECK_OP(be[i], layernorm, .n = p->n, .c = p->c, .y = y[i].p, .mean = mean[i].p, .rstd = rstd[i].p,
                 .x = x.p, .gamma = p->gamma.p, .beta = p->beta.p, .y_format = y_format);
        buf_free(x, what);
    }
    rows = in_rows(p, y[0], y_format, what);
    check_close(mean[0].p, p->mean, p->n, 1e-6, what);
    check_close(rstd[0].p, p->rstd, p->n, ALLOWED, what);
    check_close(rows.p, p->y, p->n * p->c, ALLOWED, what);
    check_same(y[0], y[1], what), check_same(mean[0], mean[1], what), check_same(rstd[0], rstd[1], what);
    for (int i = 0; i < 2; i++)
        buf_free(y[i], what), buf_free(mean[i], what), buf_free(rstd[i], what);
    buf_free(rows, what);
}

static void check_backward(struct dp_backend *const be[2], const struct problem *p, bool add, const char *what)
{
    struct buf dx[2], dgamma[2], dbeta[2], mean = buf_noise(p->n, 0, 1), rstd = buf_noise(p->n, 0, 1);
    double *want = zeros(p->n * p->c);

    for (int64_t i = 0; i < p->n; i++)
        mean.p[i] = (float)p->mean[i], rstd.p[i] = (float)p->rstd[i];
    for (int64_t i = 0; i < p->n * p->c; i++)
        want[i] = p->dxd[i] + (add ? (double)p->dx.p[i] : 0.0);
    for (int i = 0; i < 2; i++) {
        struct buf x = buf_copy(p->x, i), dy = buf_copy(p->dy, 2 * i);

        dx[i] = buf_copy(p->dx, 3 * i);
        for (int64_t j = 0; !add && j < dx[i].n; j++)
            dx[i].p[j] = NAN;
        dgamma[i] = buf_copy(p->dgamma, i), dbeta[i] = buf_copy(p->dbeta, 2 * i);
        CHECK_OP(be[i], layernorm_bwd, .n = p->n, .c = p->c, .dx = dx[i].p, .dgamma = dgamma[i].p,
                 .dbeta = dbeta[i].p, .dy = dy.p, .x = x.p, .gamma = p->gamma.p, .mean = mean.p, .rstd = rstd.p,
                 .add_to_dx = add);
        buf_free(x, what), buf_free(dy, what);
    }
    check_close(dx[0].p, want, p->n * p->c, ALLOWED, what);
    check_close(dgamma[0].p, p->dgd, p->c, ALLOWED, what);
    check_close(dbeta[0].p, p->dbd, p->c, tolerance(p->n), what);
    check_same(dx[0], dx[1], what), check_same(dgamma[0], dgamma[1], what), check_same(dbeta[0], dbeta[1], what);
    for (int i = 0; i < 2; i++)
        buf_free(dx[i], what), buf_free(dgamma[i], what), buf_free(dbeta[i], what);
    buf_free(mean, what), buf_free(rstd, what);
    free(want);
}

static void check_problem(struct dp_backend *const be[2], const struct problem *p, const char *version)
{
    for (int second = 0; second < 2; second++) {
        char what[96];

        snprintf(what, sizeof what, "%s layernorm (%lld, %lld), y in format %d, += dx %d", version, (long long)p->n,
                 (long long)p->c, second, second);
        check_forward(be, p, second, what);
        check_backward(be, p, second, what);
    }
}

static void all_shapes(void **state)
{
    struct dp_backend *be[N_VERSIONS][2];

    (void)state;
    for (int v = 0; v < N_VERSIONS; v++)
        be[v][0] = open_version(v), be[v][1] = be[v][0] ? open_threads(v, 3) : NULL;
    for (size_t i = 0; i < N_SHAPES; i++) {
        struct problem p = make_problem(shapes[i].n, shapes[i].c);

        for (int v = 0; v < N_VERSIONS; v++)
            if (be[v][0])
                check_problem(be[v], &p, version_names[v]);
        free_problem(&p);
    }
    for (int v = 0; v < N_VERSIONS; v++)
        dp_backend_destroy(be[v][0]), dp_backend_destroy(be[v][1]);
}

/* NaN in a token is seen in that token, and in no other. */
static void nan_stays(void **state)
{
    (void)state;
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v);

        for (enum dp_token_format format = DP_ROWS; be && format <= DP_TILES; format++) {
            const struct problem p = {.n = 11, .c = 3};
            const float one[3] = {1, 1, 1};
            float x[11 * 3] = {0}, y[DP_TILE * 3], mean[11], rstd[11];

            x[4 * 3 + 2] = NAN;
            CHECK_OP(be, layernorm, .n = p.n, .c = p.c, .y = y, .mean = mean, .rstd = rstd, .x = x, .gamma = one,
                     .beta = one, .y_format = format);
            for (int64_t i = 0; i < p.n * p.c; i++)
                assert_int_equal(isnan(y[at(&p, format, i / p.c, i % p.c)]) != 0, i / p.c == 4);
        }
        dp_backend_destroy(be);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_shapes),
    cmocka_unit_test(nan_stays),
};
TEST_MAIN("kernel layernorm", tests)
