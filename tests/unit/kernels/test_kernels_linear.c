/* SPDX-License-Identifier: BSD-3-Clause */
/* The linear ops, dense and sparse, every version, against the double reference.
 *
 * Patterns: random at several densities, none, all, empty rows and columns, and rows whose number of
 * nonzeros is log-normal. Shapes: 1, primes, around the tile of 64 tokens, the vector widths, the
 * column blocks (64 to 384), the row chunk (512, 1024) and the group of packed tokens (256 or more), and the
 * blocks of dense.c (512 tokens, 512 columns). Another address, other threads, and with a sparse w other
 * formats of the activations: the same bits. */
#include "tests/unit/kernels/kernels_util.h"

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

/* A pattern with its values. element[k]: where the k-th one lies in the dense matrix. */
struct sparse {
    struct dp_sparse sp;
    float *values;
    int64_t *element;
};

/* The order of the weights of one row of blocks, rows r0 ... r0 + block - 1: of each four rows (or one) all columns of its m
 * blocks, which are p->sp.col[first ...], the weights of a column one after the other. */
static void add_values(struct sparse *p, struct buf w, int64_t r0, int64_t block, int64_t first, int64_t m)
{
    int64_t width = dp_block_cols(block), high = block < 4 ? block : 4;

    for (int64_t group = r0; group < r0 + block; group += high)
        for (int64_t c = 0; c < m * width; c++)
            for (int64_t r = group; r < group + high; r++) {
                int64_t e = r * p->sp.cols + p->sp.col[first + c / width] * width + c % width;

                p->element[p->sp.nnz] = e;
                p->values[p->sp.nnz++] = w.p[e];
            }
}

/* w: the dense matrix, is zeroed outside the pattern. The first weight of a block decides. */
static struct sparse make_pattern(enum pattern kind, struct buf w, int64_t rows, int64_t cols, int64_t block)
{
    struct sparse s = {.sp = {.rows = rows, .cols = cols, .block_rows = block}};
    int64_t width = dp_block_cols(block), n = 0;
    uint64_t seed = 4711 + (uint64_t)kind;

    s.sp.row_ptr = calloc((size_t)(rows / block) + 1, sizeof *s.sp.row_ptr);
    s.sp.col = calloc((size_t)(rows / block * (cols / width)), sizeof *s.sp.col);
    s.values = calloc((size_t)(rows * cols), sizeof *s.values);
    s.element = calloc((size_t)(rows * cols), sizeof *s.element);
    for (int64_t g = 0; g < rows / block; g++) {
        double density = 0.1 * exp(rnd_normal(&seed) - 0.5);

        for (int64_t c = 0; c < cols / width; c++) {
            bool kept = is_kept(kind, g * block, c, density, &seed);

            if (kept)
                s.sp.col[n++] = (uint16_t)c;
            for (int64_t r = g * block; r < (g + 1) * block && !kept; r++)
                memset(w.p + r * cols + c * width, 0, (size_t)width * sizeof *w.p);
        }
        s.sp.row_ptr[g + 1] = n;
        add_values(&s, w, g * block, block, s.sp.row_ptr[g], n - s.sp.row_ptr[g]);
    }
    return s;
}

/* Inputs and what the reference makes of them. */
struct expected {
    struct shape s;
    struct buf w, x, dy, bias, residual, gelu_x;
    struct sparse pattern;
    double *y, *gelu, *gelu_back, *dx, *dw, *dbias; /* dw, dbias: without what was there before */
};

static struct expected expect(struct shape s, enum pattern kind, int64_t block)
{
    struct expected e = {.s = s, .w = buf_noise(s.c_in * s.c_out, 1, 31), .x = buf_noise(s.n * s.c_in, 1, 32),
                         .dy = buf_noise(s.n * s.c_out, 3, 33), .bias = buf_noise(s.c_out, 2, 34),
                         .residual = buf_noise(s.n * s.c_out, 1, 35), .gelu_x = buf_noise(s.n * s.c_in, 2, 36)};
    double *w, *x = buf_double(e.x), *dy = buf_double(e.dy), *bias = buf_double(e.bias);
    double *residual = buf_double(e.residual), *gelu_x = buf_double(e.gelu_x), *dh;

    e.pattern = make_pattern(kind, e.w, s.c_out, s.c_in, block);
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
    free(e->pattern.sp.row_ptr), free(e->pattern.sp.col), free(e->pattern.values), free(e->pattern.element);
    free(e->y), free(e->gelu), free(e->gelu_back), free(e->dx), free(e->dw), free(e->dbias);
}

/* dw and dbias start as noise: want = noise + gradient. element: of the gradient, or NULL. */
static void check_gradient(struct buf got, struct buf before, const double *gradient, double tol,
                           const int64_t *element, const char *what)
{
    double *want = malloc((size_t)(got.n ? got.n : 1) * sizeof *want);

    for (int64_t i = 0; i < got.n; i++)
        want[i] = (double)before.p[i] + gradient[element ? element[i] : i];
    check_close(got.p, want, got.n, tol, what);
    free(want);
}

/* All three ops once; `shift` moves every buffer. */
struct result {
    struct buf y, gelu, gelu_back, dx, dw, dbias, w;
};

/* Which activations lie in tiles. */
struct formats {
    enum dp_token_format in, out; /* x and dx; y and dy */
};

/* An activation of (n, c) numbers in a format; the padding of tiles is noise, or 0 where it is a gradient. */
static struct buf in_format(struct buf rows, enum dp_token_format format, int64_t n, int64_t c, int shift, bool is_gradient)
{
    struct buf b;

    if (format == DP_ROWS)
        return buf_copy(rows, shift);
    b = buf_noise(dp_format_elements(format, n, c), shift, 77);
    for (int64_t t = 0; t < b.n / c; t++)
        for (int64_t j = 0; j < c; j++) {
            float *at = &b.p[(t / DP_TILE * c + j) * DP_TILE + t % DP_TILE];

            *at = t < n ? rows.p[t * c + j] : is_gradient ? 0.0f : *at;
        }
    return b;
}

/* The same in rows, which replaces it; the padding must be finite, of gradients 0. */
static void to_rows(struct buf *b, enum dp_token_format format, int64_t n, int64_t c, bool is_gradient, const char *what)
{
    struct buf rows = buf_noise(n * c, 0, 1);

    for (int64_t t = 0; format == DP_TILES && t < b->n / c; t++)
        for (int64_t j = 0; j < c; j++) {
            float v = b->p[(t / DP_TILE * c + j) * DP_TILE + t % DP_TILE];

            if (t < n)
                rows.p[t * c + j] = v;
            else if (!(is_gradient ? v == 0.0f : isfinite(v)))
                fail_msg("%s: padding is %g", what, (double)v);
        }
    if (format == DP_ROWS)
        memcpy(rows.p, b->p, (size_t)(n * c) * sizeof(float));
    buf_free(*b, what);
    *b = rows;
}

static struct result run_ops(struct dp_backend *be, const struct expected *e, bool sparse, int shift,
                             struct formats o)
{
    struct shape s = e->s;
    int64_t nw = sparse ? e->pattern.sp.nnz : s.c_in * s.c_out;
    int64_t n_in = dp_format_elements(o.in, s.n, s.c_in), n_out = dp_format_elements(o.out, s.n, s.c_out);
    const struct dp_sparse *sp = sparse ? &e->pattern.sp : NULL;
    struct buf x = in_format(e->x, o.in, s.n, s.c_in, shift, false), bias = buf_copy(e->bias, shift);
    struct buf dy = in_format(e->dy, o.out, s.n, s.c_out, shift, true);
    struct buf residual = in_format(e->residual, o.out, s.n, s.c_out, shift, false);
    struct buf gelu_x = in_format(e->gelu_x, o.in, s.n, s.c_in, shift, false);
    struct result r = {.y = buf_noise(n_out, shift, 41), .gelu = buf_noise(n_out, shift, 46),
                       .gelu_back = buf_noise(n_in, shift, 47), .dx = buf_noise(n_in, shift, 42),
                       .dw = buf_noise(nw, shift, 43), .dbias = buf_noise(s.c_out, shift, 44),
                       .w = buf_noise(nw, shift, 45)};

    memcpy(r.w.p, sparse ? e->pattern.values : e->w.p, (size_t)nw * sizeof(float));
    CHECK_OP(be, linear, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .y = r.y.p, .x = x.p, .w = r.w.p,
             .bias = bias.p, .residual = residual.p, .gelu = r.gelu.p, .sparse = sp, .x_format = o.in,
             .y_format = o.out);
    CHECK_OP(be, linear_bwd_input, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .dx = r.dx.p, .dy = dy.p,
             .w = r.w.p, .gelu_x = gelu_x.p, .gelu = r.gelu_back.p, .sparse = sp, .dy_format = o.out,
             .dx_format = o.in);
    CHECK_OP(be, linear_bwd_weight, .n = s.n, .c_in = s.c_in, .c_out = s.c_out, .dw = r.dw.p,
             .dbias = r.dbias.p, .dy = dy.p, .x = x.p, .sparse = sp, .dy_format = o.out, .x_format = o.in);
    buf_free(x, "x"), buf_free(dy, "dy"), buf_free(bias, "bias");
    buf_free(residual, "residual"), buf_free(gelu_x, "gelu_x");
    to_rows(&r.y, o.out, s.n, s.c_out, false, "y"), to_rows(&r.gelu, o.out, s.n, s.c_out, false, "gelu");
    to_rows(&r.dx, o.in, s.n, s.c_in, true, "dx"), to_rows(&r.gelu_back, o.in, s.n, s.c_in, false, "gelu back");
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
    check_gradient(r->dw, dw, e->dw, tolerance(s.n), sparse ? e->pattern.element : NULL, what);
    check_gradient(r->dbias, dbias, e->dbias, tolerance(s.n), NULL, what);
    buf_free(dw, what), buf_free(dbias, what);
}

static void result_free(struct result *r, const char *what)
{
    buf_free(r->y, what), buf_free(r->gelu, what), buf_free(r->gelu_back, what), buf_free(r->dx, what);
    buf_free(r->dw, what), buf_free(r->dbias, what), buf_free(r->w, what);
}

#define N_THREADS 3

static void check_same_results(const struct result *a, const struct result *b, const char *what)
{
    check_same(a->y, b->y, what), check_same(a->gelu, b->gelu, what);
    check_same(a->dx, b->dx, what), check_same(a->gelu_back, b->gelu_back, what);
    check_same(a->dw, b->dw, what);
}

/* Tiles for one side or both: the bits of rows, but for dbias. */
static void check_formats(struct dp_backend *be, struct dp_backend *threads, const struct expected *e,
                          const struct result *rows, const char *what)
{
    for (int i = 1; i < 4; i++) {
        struct formats o = {i & 1 ? DP_TILES : DP_ROWS, i & 2 ? DP_TILES : DP_ROWS};
        struct result r = run_ops(i == 3 ? threads : be, e, true, 3, o);

        check_result(&r, e, true, what);
        check_same_results(rows, &r, what);
        result_free(&r, what);
    }
}

/* Other values and then the old ones again. */
static void refresh_anew(struct dp_backend *be, struct expected *e)
{
    float *other = calloc((size_t)e->pattern.sp.nnz + 1, sizeof *other);

    assert_non_null(other);
    assert_int_equal(be->ops->sparse_refresh(be, &e->pattern.sp, other, NULL), 0);
    assert_int_equal(be->ops->sparse_refresh(be, &e->pattern.sp, e->pattern.values, NULL), 0);
    free(other);
}

/* threads: the same version with N_THREADS threads. */
static void check_version(struct dp_backend *be, struct dp_backend *threads, struct expected *e, bool sparse,
                          const char *what)
{
    struct formats rows = {DP_ROWS, DP_ROWS};
    struct result r[3];
    struct dp_err err = {0};

    if (sparse) {
        if (be->ops->sparse_prepare(be, &e->pattern.sp, &err) < 0)
            fail_msg("%s: %s", what, err.text);
        assert_true(be->ops->sparse_bytes(be, &e->pattern.sp) > (size_t)e->pattern.sp.nnz);
        assert_int_equal(be->ops->sparse_refresh(be, &e->pattern.sp, e->pattern.values, &err), 0);
    }
    r[0] = run_ops(be, e, sparse, 0, rows);
    check_result(&r[0], e, sparse, what);
    r[1] = run_ops(be, e, sparse, 5, rows);
    if (sparse)
        refresh_anew(threads, e);
    r[2] = run_ops(threads, e, sparse, 0, rows);
    for (int i = 1; i < 3; i++) {
        check_same_results(&r[0], &r[i], what);
        check_same(r[0].dbias, r[i].dbias, what);
        result_free(&r[i], what);
    }
    if (sparse) {
        check_formats(be, threads, e, &r[0], what);
        be->ops->sparse_release(be, &e->pattern.sp);
    }
    result_free(&r[0], what);
    assert_null(e->pattern.sp.plan);
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

static int64_t work_of(struct shape s)
{
    return s.n * s.c_in * s.c_out;
}

static void check_shapes(bool sparse)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int kind = 0; kind < (sparse ? N_PATTERNS : 1) && !is_left_out(work_of(shapes[i])); kind++) {
            struct expected e = expect(shapes[i], (enum pattern)kind, 1);

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

/* Blocks of 4 x 1. */
static void block_ops(void **state)
{
    static const struct shape sizes[] = {{1, 1, 4},     {1, 7, 8},      {63, 15, 16},  {64, 64, 64},
                                         {65, 33, 32},  {128, 127, 132}, {5, 1100, 1032}, {130, 400, 520},
                                         {300, 530, 40}, {300, 40, 532}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int kind = 0; kind < N_PATTERNS && !is_left_out(work_of(sizes[i])); kind++) {
            struct expected e = expect(sizes[i], (enum pattern)kind, 4);

            check_versions(&e, true, kind + 100);
            expected_free(&e);
        }
}

/* Blocks of b x b: a row and a column of them, few and many, more than a chunk of rows. */
static void square_ops(void **state)
{
    static const int64_t edges[] = {32, 64, 128};
    static const struct shape sizes[] = {{1, 1, 1}, {63, 1, 3}, {65, 5, 1}, {130, 3, 5}, {70, 9, 7}, {5, 4, 35}};

    (void)state;
    for (size_t b = 0; b < 3; b++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int kind = 0; kind < N_PATTERNS; kind++) {
                struct shape s = {sizes[i].n, sizes[i].c_in * edges[b], sizes[i].c_out * edges[b]};
                struct expected e;

                if (is_left_out(work_of(s)) || (work_of(s) > 10000000 && kind != NINETY))
                    continue;
                e = expect(s, (enum pattern)kind, edges[b]);
                check_versions(&e, true, kind + (int)edges[b] * 100);
                expected_free(&e);
            }
}

/* A real layer: 768 channels, 90 % zeros, and dense. */
static void real_shape(void **state)
{
    const struct shape real = {64, 768, 256};
    struct expected e;

    (void)state;
    if (is_left_out(work_of(real)))
        skip();
    e = expect(real, NINETY, 1);
    check_versions(&e, true, NINETY);
    check_versions(&e, false, NINETY);
    expected_free(&e);
}

/* The optional members: no bias, no dbias; zero tokens change nothing. */
static void optional_members(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct expected e = expect((struct shape){7, 20, 9}, HALF, 1);
    float y[63], dw[180] = {0};
    double *want = malloc(63 * sizeof *want), gathered[180];

    (void)state;
    assert_int_equal(be->ops->sparse_prepare(be, &e.pattern.sp, NULL), 0);
    assert_int_equal(be->ops->sparse_refresh(be, &e.pattern.sp, e.pattern.values, NULL), 0);
    for (int64_t k = 0; k < e.pattern.sp.nnz; k++)
        gathered[k] = e.dw[e.pattern.element[k]];
    for (int i = 0; i < 63; i++)
        want[i] = e.y[i] - (double)e.bias.p[i % 9] - (double)e.residual.p[i];
    for (int sparse = 0; sparse < 2; sparse++) {
        CHECK_OP(be, linear, .n = 7, .c_in = 20, .c_out = 9, .y = y, .x = e.x.p,
                 .w = sparse ? e.pattern.values : e.w.p, .sparse = sparse ? &e.pattern.sp : NULL);
        check_close(y, want, 63, tolerance(20), "no bias");
        CHECK_OP(be, linear_bwd_weight, .n = 7, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.pattern.sp : NULL);
        memset(dw, 0, sizeof dw);
        CHECK_OP(be, linear_bwd_weight, .n = 0, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.pattern.sp : NULL);
        for (int i = 0; i < 180; i++)
            assert_true(dw[i] == 0.0f);
        for (int i = 0; i < 180; i++)
            dw[i] = NAN;
        CHECK_OP(be, linear_bwd_weight, .n = 7, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.pattern.sp : NULL, .overwrite = true);
        check_close(dw, sparse ? gathered : e.dw, sparse ? e.pattern.sp.nnz : 180, tolerance(7), "overwrite");
        CHECK_OP(be, linear_bwd_weight, .n = 0, .c_in = 20, .c_out = 9, .dw = dw, .dy = e.dy.p, .x = e.x.p,
                 .sparse = sparse ? &e.pattern.sp : NULL, .overwrite = true);
        for (int i = 0; i < (sparse ? e.pattern.sp.nnz : 180); i++)
            assert_true(dw[i] == 0.0f);
        CHECK_OP(be, linear, .n = 0, .c_in = 20, .c_out = 9, .y = y, .x = e.x.p,
                 .w = sparse ? e.pattern.values : e.w.p, .sparse = sparse ? &e.pattern.sp : NULL);
    }
    be->ops->sparse_release(be, &e.pattern.sp);
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
    uint16_t col[3] = {2, 0, 1}, order[3] = {2, 1, 1}, far[3] = {5, 0, 1};
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
    sp.rows = 2;
    sp.block_rows = 4;
    expect_refusal(be, sp, "not whole blocks of 4");
    sp.block_rows = 3;
    expect_refusal(be, sp, "blocks of 3 rows");
    sp.rows = 64; /* square: columns count, too */
    sp.nnz = 3 * 32 * 32;
    sp.block_rows = 32;
    expect_refusal(be, sp, "not whole blocks of 32x32");
    sp.cols = 64; /* two blocks */
    expect_refusal(be, sp, "column 5");
    dp_backend_destroy(be);
}

/* A dense w says what it needs. */
static void dense_takes_rows(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    float f[64] = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        enum dp_token_format tiles[2] = {i == 1 ? DP_ROWS : DP_TILES, i == 0 ? DP_ROWS : DP_TILES};
        struct dp_err err[3] = {{0}};

        assert_int_equal(be->ops->linear(be, &(struct dp_linear){.n = 1, .c_in = 1, .c_out = 1, .y = f, .x = f, .w = f,
                                                                 .x_format = tiles[0], .y_format = tiles[1]}, &err[0]), -1);
        assert_int_equal(be->ops->linear_bwd_input(be, &(struct dp_linear_bwd_input){.n = 1, .c_in = 1, .c_out = 1,
                             .dx = f, .dy = f, .w = f, .dy_format = tiles[0], .dx_format = tiles[1]}, &err[1]), -1);
        assert_int_equal(be->ops->linear_bwd_weight(be, &(struct dp_linear_bwd_weight){.n = 1, .c_in = 1, .c_out = 1,
                             .dw = f, .dy = f, .x = f, .dy_format = tiles[0], .x_format = tiles[1]}, &err[2]), -1);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(err[k].code, DP_EINVAL);
            assert_non_null(strstr(err[k].text, "tiles need a sparse w"));
        }
    }
    dp_backend_destroy(be);
}

/* The op reorder: every pair of formats, shapes around a tile and around its task of 512 channels. */
static void reorder(void **state)
{
    const struct {
        int64_t n, c;
    } sizes[] = {{1, 1}, {63, 17}, {64, 16}, {65, 33}, {128, 512}, {130, 515}, {7, 1030}};

    (void)state;
    for (int v = 0; v < 2 * N_VERSIONS; v++) {
        struct dp_backend *one = open_version(v / 2), *be;

        if (!one)
            continue;
        be = dp_backend_create(version_names[v / 2], 0, v % 2 ? N_THREADS : 1, NULL);
        for (int i = 0; i < 7 * 4; i++) {
            int64_t n = sizes[i / 4].n, c = sizes[i / 4].c;
            enum dp_token_format from = i & 1 ? DP_TILES : DP_ROWS, to = i & 2 ? DP_TILES : DP_ROWS;
            struct buf rows = buf_noise(n * c, 0, 5), x = in_format(rows, from, n, c, 1, false);
            struct buf y = buf_noise(dp_format_elements(to, n, c), 2, 6);

            CHECK_OP(be, reorder, .n = n, .c = c, .y = y.p, .x = x.p, .y_format = to, .x_format = from);
            to_rows(&y, to, n, c, true, "reorder");
            check_same(rows, y, "reorder");
            if (from == to) {
                CHECK_OP(be, reorder, .n = n, .c = c, .y = x.p, .x = x.p, .y_format = to, .x_format = from);
                to_rows(&x, to, n, c, true, "reorder in place");
                check_same(rows, x, "reorder in place");
            }
            buf_free(rows, "rows"), buf_free(x, "x"), buf_free(y, "y");
        }
        dp_backend_destroy(be), dp_backend_destroy(one);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(dense_ops),        cmocka_unit_test(sparse_ops),   cmocka_unit_test(block_ops), cmocka_unit_test(real_shape),
    cmocka_unit_test(square_ops),
    cmocka_unit_test(optional_members), cmocka_unit_test(bad_patterns),
    cmocka_unit_test(dense_takes_rows), cmocka_unit_test(reorder),
};
TEST_MAIN("kernel linear", tests)
