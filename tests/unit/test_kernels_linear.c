/* The linear ops, dense and sparse, every version, against the double reference.
 *
 * Patterns: random at several densities, none, all, empty rows and columns, and rows whose number of
 * nonzeros is log-normal. Shapes: 1, primes, around the tile of 64 tokens, the vector widths, the
 * column blocks (96 to 384), the row chunk (512) and the group of packed tokens (256 or more), and the
 * blocks of dense.c (512 tokens, 512 columns). Another address and other threads: the same bits. */
#include "tests/unit/kernels_util.h"

struct shape {
    int64_t n, c_in, c_out;
};
static const struct shape shapes[] = {{1, 1, 1},       {1, 7, 3},      {2, 16, 16},    {63, 15, 17},
                                      {64, 64, 16},    {65, 33, 31},   {128, 127, 129}, {3, 513, 511},
                                      {5, 1100, 1030}, {70, 400, 520}, {129, 256, 64},
                                      {300, 530, 40},  {300, 40, 530},  {600, 70, 790}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

enum pattern { DENSE_0, HALF, NINETY, NINETYNINE, NONE, HOLES, LOGNORMAL, N_PATTERNS };

static bool is_kept(enum pattern kind, int64_t r, int64_t c, double row_density, uint64_t *seed)
{
    double u = (rnd_unit(seed) + 1.0) / 2.0;

    switch (kind) {
    case DENSE_0:
        return true;
    case HALF:
        return u < 0.5;
    case NINETY:
        return u < 0.1;
    case NINETYNINE:
        return u < 0.01;
    case NONE:
        return false;
    case HOLES:
        return r % 3 != 1 && c % 5 != 2 && u < 0.3;
    default:
        return u < row_density;
    }
}

/* w: the dense matrix, zeroed outside the pattern; *values: the others in CSR order. */
static struct dp_sparse make_pattern(enum pattern kind, struct buf w, int64_t rows, int64_t cols,
                                     float **values)
{
    struct dp_sparse sp = {.rows = rows, .cols = cols};
    uint64_t seed = 4711 + (uint64_t)kind;

    sp.row_ptr = calloc((size_t)rows + 1, sizeof *sp.row_ptr);
    sp.col = calloc((size_t)(rows * cols), sizeof *sp.col);
    *values = calloc((size_t)(rows * cols), sizeof **values);
    for (int64_t r = 0; r < rows; r++) {
        double density = 0.1 * exp(rnd_normal(&seed) - 0.5);

        for (int64_t c = 0; c < cols; c++) {
            if (!is_kept(kind, r, c, density, &seed)) {
                w.p[r * cols + c] = 0.0f;
                continue;
            }
            (*values)[sp.nnz] = w.p[r * cols + c];
            sp.col[sp.nnz++] = (uint32_t)c;
        }
        sp.row_ptr[r + 1] = sp.nnz;
    }
    return sp;
}

/* Inputs and what the reference makes of them. */
struct expected {
    struct shape s;
    struct buf w, x, dy, bias, residual, gelu_x;
    struct dp_sparse sp;
    float *values;
    double *y, *gelu, *gelu_back, *dx, *dw, *dbias; /* dw, dbias: without what was there before */
};

static struct expected expect(struct shape s, enum pattern kind)
{
    struct expected e = {.s = s, .w = buf_noise(s.c_in * s.c_out, 1, 31), .x = buf_noise(s.n * s.c_in, 1, 32),
                         .dy = buf_noise(s.n * s.c_out, 3, 33), .bias = buf_noise(s.c_out, 2, 34),
                         .residual = buf_noise(s.n * s.c_out, 1, 35), .gelu_x = buf_noise(s.n * s.c_in, 2, 36)};
    double *w, *x = buf_double(e.x), *dy = buf_double(e.dy), *bias = buf_double(e.bias);
    double *residual = buf_double(e.residual), *gelu_x = buf_double(e.gelu_x), *dh;

    e.sp = make_pattern(kind, e.w, s.c_out, s.c_in, &e.values);
    w = buf_double(e.w);
    e.y = malloc((size_t)(s.n * s.c_out) * sizeof(double));
    e.gelu = malloc((size_t)(s.n * s.c_out) * sizeof(double));
    e.gelu_back = malloc((size_t)(s.n * s.c_in) * sizeof(double));
    e.dx = malloc((size_t)(s.n * s.c_in) * sizeof(double));
    dh = malloc((size_t)(s.n * s.c_in) * sizeof(double));
    e.dw = calloc((size_t)(s.c_out * s.c_in), sizeof(double));
    e.dbias = calloc((size_t)s.c_out, sizeof(double));
    dp_ref_linear_f64(s.n, s.c_in, s.c_out, e.y, x, w, bias);
    for (int64_t i = 0; i < s.n * s.c_out; i++)
        e.y[i] += residual[i];
    dp_ref_gelu_f64(s.n * s.c_out, e.gelu, e.y);
    dp_ref_linear_bwd_input_f64(s.n, s.c_in, s.c_out, dh, dy, w);
    dp_ref_gelu_bwd_f64(s.n * s.c_in, e.dx, dh, gelu_x);
    dp_ref_gelu_f64(s.n * s.c_in, e.gelu_back, gelu_x);
    dp_ref_linear_bwd_weight_f64(s.n, s.c_in, s.c_out, e.dw, e.dbias, dy, x);
    free(w), free(x), free(dy), free(bias), free(residual), free(gelu_x), free(dh);
    return e;
}

static void expected_free(struct expected *e)
{
    buf_free(e->w, "w"), buf_free(e->x, "x"), buf_free(e->dy, "dy"), buf_free(e->bias, "bias");
    buf_free(e->residual, "residual"), buf_free(e->gelu_x, "gelu_x");
    free(e->sp.row_ptr), free(e->sp.col), free(e->values);
    free(e->y), free(e->gelu), free(e->gelu_back), free(e->dx), free(e->dw), free(e->dbias);
}

/* dw and dbias start as noise: want = noise + gradient. gather: CSR positions of dw, or NULL. */
static void check_gradient(struct buf got, struct buf before, const double *gradient, double tol,
                           const struct dp_sparse *sp, const char *what)
{
    double *want = malloc((size_t)(got.n ? got.n : 1) * sizeof *want);
    int64_t p = 0;

    for (int64_t i = 0; !sp && i < got.n; i++)
        want[i] = (double)before.p[i] + gradient[i];
    for (int64_t r = 0; sp && r < sp->rows; r++)
        for (; p < sp->row_ptr[r + 1]; p++)
            want[p] = (double)before.p[p] + gradient[r * sp->cols + sp->col[p]];
    check_close(got.p, want, got.n, tol, what);
    free(want);
}

/* All three ops once; `shift` moves every buffer. */
struct result {
    struct buf y, gelu, gelu_back, dx, dw, dbias, w;
};

static struct result run_ops(struct dp_backend *be, const struct expected *e, bool sparse, int shift)
{
    struct shape s = e->s;
    int64_t nw = sparse ? e->sp.nnz : s.c_in * s.c_out;
    const struct dp_sparse *sp = sparse ? &e->sp : NULL;
    struct buf x = buf_copy(e->x, shift), dy = buf_copy(e->dy, shift), bias = buf_copy(e->bias, shift);
    struct buf residual = buf_copy(e->residual, shift), gelu_x = buf_copy(e->gelu_x, shift);
    struct result r = {.y = buf_noise(s.n * s.c_out, shift, 41), .gelu = buf_noise(s.n * s.c_out, shift, 46),
                       .gelu_back = buf_noise(s.n * s.c_in, shift, 47), .dx = buf_noise(s.n * s.c_in, shift, 42),
                       .dw = buf_noise(nw, shift, 43), .dbias = buf_noise(s.c_out, shift, 44),
                       .w = buf_noise(nw, shift, 45)};

    memcpy(r.w.p, sparse ? e->values : e->w.p, (size_t)nw * sizeof(float));
    CHECK_OP(be, linear, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .y = r.y.p, .x = x.p, .w = r.w.p,
             .bias = bias.p, .residual = residual.p, .gelu = r.gelu.p, .sparse = sp);
    CHECK_OP(be, linear_bwd_input, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .dx = r.dx.p, .dy = dy.p,
             .w = r.w.p, .gelu_x = gelu_x.p, .gelu = r.gelu_back.p, .sparse = sp);
    CHECK_OP(be, linear_bwd_weight, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .dw = r.dw.p,
             .dbias = r.dbias.p, .dy = dy.p, .x = x.p, .sparse = sp);
    buf_free(x, "x"), buf_free(dy, "dy"), buf_free(bias, "bias");
    buf_free(residual, "residual"), buf_free(gelu_x, "gelu_x");
    return r;
}

static void check_result(const struct result *r, const struct expected *e, bool sparse, const char *what)
{
    struct shape s = e->s;
    struct buf dw = buf_noise(r->dw.n, 0, 43), dbias = buf_noise(s.c_out, 0, 44);

    check_close(r->y.p, e->y, s.n * s.c_out, tolerance(s.c_in), what);
    check_close(r->gelu.p, e->gelu, s.n * s.c_out, tolerance(s.c_in), what);
    check_close(r->gelu_back.p, e->gelu_back, s.n * s.c_in, tolerance(1), what);
    check_close(r->dx.p, e->dx, s.n * s.c_in, tolerance(s.c_out), what);
    check_gradient(r->dw, dw, e->dw, tolerance(s.n), sparse ? &e->sp : NULL, what);
    check_gradient(r->dbias, dbias, e->dbias, tolerance(s.n), NULL, what);
    buf_free(dw, what), buf_free(dbias, what);
}

static void result_free(struct result *r, const char *what)
{
    buf_free(r->y, what), buf_free(r->gelu, what), buf_free(r->gelu_back, what), buf_free(r->dx, what), buf_free(r->dw, what), buf_free(r->dbias, what);
    buf_free(r->w, what);
}

/* threads: the same version with N_THREADS threads. */
#define N_THREADS 3

static void check_version(struct dp_backend *be, struct dp_backend *threads, struct expected *e, bool sparse,
                          const char *what)
{
    struct result r[3];
    struct dp_err err = {0};

    if (sparse) {
        if (be->ops->sparse_prepare(be, &e->sp, &err) < 0)
            fail_msg("%s: %s", what, err.text);
        assert_true(be->ops->sparse_bytes(be, &e->sp) > (size_t)e->sp.nnz * 8);
        assert_int_equal(be->ops->sparse_refresh(be, &e->sp, e->values, &err), 0);
    }
    r[0] = run_ops(be, e, sparse, 0);
    check_result(&r[0], e, sparse, what);
    r[1] = run_ops(be, e, sparse, 5);
    r[2] = run_ops(threads, e, sparse, 0);
    for (int i = 1; i < 3; i++) {
        check_same(r[0].y, r[i].y, what), check_same(r[0].dx, r[i].dx, what);
        check_same(r[0].gelu, r[i].gelu, what);
        check_same(r[0].dw, r[i].dw, what), check_same(r[0].dbias, r[i].dbias, what);
        result_free(&r[i], what);
    }
    result_free(&r[0], what);
    if (sparse)
        be->ops->sparse_release(be, &e->sp);
    assert_null(e->sp.plan);
}

static void check_versions(struct expected *e, bool sparse, int kind)
{
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v), *threads;
        char what[96];

        if (!be)
            continue;
        threads = dp_backend_create(version_names[v], 0, N_THREADS, NULL);
        assert_non_null(threads);
        snprintf(what, sizeof what, "%s linear n %d c_in %d c_out %d pattern %d", version_names[v], (int)e->s.n,
                 (int)e->s.c_in, (int)e->s.c_out, sparse ? kind : -1);
        check_version(be, threads, e, sparse, what);
        dp_backend_destroy(be);
        dp_backend_destroy(threads);
    }
}

static void check_shapes(bool sparse)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int kind = 0; kind < (sparse ? N_PATTERNS : 1); kind++) {
            struct expected e = expect(shapes[i], (enum pattern)kind);

            check_versions(&e, sparse, kind);
            expected_free(&e);
        }
}

static void dense_ops(void **state)
{
    (void)state;
    check_shapes(false);
}

static void sparse_ops(void **state)
{
    (void)state;
    check_shapes(true);
}

/* A real layer: 768 channels, 90 % zeros, and dense. */
static void real_shape(void **state)
{
    struct expected e = expect((struct shape){64, 768, 256}, NINETY);

    (void)state;
    check_versions(&e, true, NINETY);
    check_versions(&e, false, NINETY);
    expected_free(&e);
}

/* The optional members: no bias, no dbias; zero tokens change nothing. */
static void optional_members(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct expected e = expect((struct shape){7, 20, 9}, HALF);
    float y[63], dw[180] = {0};
    double *want = malloc(63 * sizeof *want), gathered[180];

    (void)state;
    assert_int_equal(be->ops->sparse_prepare(be, &e.sp, NULL), 0);
    for (int64_t r = 0; r < 9; r++)
        for (int64_t k = e.sp.row_ptr[r]; k < e.sp.row_ptr[r + 1]; k++)
            gathered[k] = e.dw[r * 20 + e.sp.col[k]];
    for (int i = 0; i < 63; i++)
        want[i] = e.y[i] - (double)e.bias.p[i % 9] - (double)e.residual.p[i];
    for (int sparse = 0; sparse < 2; sparse++) {
        CHECK_OP(be, linear, .n = 7, .c_in = 20, .c_out = 9, .y = y, .x = e.x.p,
                 .w = sparse ? e.values : e.w.p, .sparse = sparse ? &e.sp : NULL);
        check_close(y, want, 63, tolerance(20), "no bias");
        CHECK_OP(be, linear_bwd_weight, .n = 7, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.sp : NULL);
        memset(dw, 0, sizeof dw);
        CHECK_OP(be, linear_bwd_weight, .n = 0, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.sp : NULL);
        for (int i = 0; i < 180; i++)
            assert_true(dw[i] == 0.0f);
        for (int i = 0; i < 180; i++)
            dw[i] = NAN;
        CHECK_OP(be, linear_bwd_weight, .n = 7, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.sp : NULL, .overwrite = true);
        check_close(dw, sparse ? gathered : e.dw, sparse ? e.sp.nnz : 180, tolerance(7), "overwrite");
        CHECK_OP(be, linear_bwd_weight, .n = 0, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.sp : NULL, .overwrite = true);
        for (int i = 0; i < (sparse ? e.sp.nnz : 180); i++)
            assert_true(dw[i] == 0.0f);
        CHECK_OP(be, linear, .n = 0, .c_in = 20, .c_out = 9, .y = y, .x = e.x.p,
                 .w = sparse ? e.values : e.w.p, .sparse = sparse ? &e.sp : NULL);
    }
    be->ops->sparse_release(be, &e.sp);
    expected_free(&e);
    free(want);
    dp_backend_destroy(be);
}

static void expect_refusal(struct dp_backend *be, struct dp_sparse sp, const char *word)
{
    struct dp_err err = {0};

    assert_int_equal(be->ops->sparse_prepare(be, &sp, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, word));
    assert_null(sp.plan);
}

static void bad_patterns(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    int64_t good[3] = {0, 1, 3}, falls[3] = {0, 4, 3}, short_[3] = {0, 1, 2};
    uint32_t col[3] = {2, 0, 1}, order[3] = {2, 1, 1}, far[3] = {5, 0, 1};
    struct dp_sparse sp = {.rows = 2, .cols = 5, .nnz = 3, .row_ptr = good, .col = col};
    struct dp_err err = {0};
    float f[10] = {0};

    (void)state;
    assert_int_equal(be->ops->linear(be, &(struct dp_linear){.n = 1, .c_in = 5, .c_out = 2, .y = f, .x = f,
                                                             .w = f, .sparse = &sp}, &err), -1);
    assert_non_null(strstr(err.text, "sparse_prepare"));
    assert_int_equal(be->ops->sparse_refresh(be, &sp, f, &err), -1);
    assert_true(be->ops->sparse_bytes(be, &sp) == 0);
    sp.row_ptr = falls;
    expect_refusal(be, sp, "row pointer");
    sp.row_ptr = short_;
    expect_refusal(be, sp, "row pointers");
    sp.row_ptr = good;
    sp.col = order;
    expect_refusal(be, sp, "out of order");
    sp.col = far;
    expect_refusal(be, sp, "column 5");
    sp.rows = 0;
    expect_refusal(be, sp, "out of range");
    dp_backend_destroy(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(dense_ops),        cmocka_unit_test(sparse_ops),   cmocka_unit_test(real_shape),
    cmocka_unit_test(optional_members), cmocka_unit_test(bad_patterns),
};
TEST_MAIN("kernel linear", tests)
