/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse matrices: linear layers with every shape of blocks, in every format of activations, which must give the same bits;
 * what passes over weights where a pattern says where they lie; and patterns that are none. Sizes around tiles of 64 tokens,
 * slices of 64 channels and what a block of threads takes; empty rows and columns, empty and full matrices. */
#include "kernels/reference.h"
#include "kernels/reference_pruning.h"
#include "tests/gpu/ops.h"

enum kind { SOME, NONE, ALL, FEW };

struct given {
    int64_t n, rows, cols, block;
    enum kind kind;
};

static void *zeroed(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);

    if (!p)
        ops_die("out of memory");
    return p;
}

/* ---- patterns ---- */

static bool is_there(enum kind kind, int64_t row, int64_t col, uint64_t *state)
{
    const uint64_t roll = ops_random(state) & 15;

    if (kind == NONE || kind == ALL)
        return kind == ALL;
    return row % 5 != 3 && col % 7 != 2 && roll < (kind == FEW ? 2 : 7); /* whole rows and columns are empty */
}

/* Of those blocks whose bits in `within` are set, where it is given. The caller frees. */
static struct dp_sparse pattern(const struct given *g, uint64_t seed, const uint64_t *within)
{
    const int64_t rows = g->rows / g->block, cols = g->cols / dp_block_cols(g->block);
    struct dp_sparse sp = {.rows = g->rows, .cols = g->cols, .block_rows = g->block,
                           .row_ptr = zeroed(rows + 1, sizeof *sp.row_ptr), .col = zeroed(rows * cols, sizeof *sp.col)};
    uint64_t state = seed + ops_seed;
    int64_t k = 0;

    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            if (is_there(g->kind, r, c, &state) && (!within || dp_bits_get(within, r * cols + c)))
                sp.col[k++] = (uint16_t)c;
        sp.row_ptr[r + 1] = k;
    }
    sp.nnz = k * dp_block_weights(g->block);
    return sp;
}

static void prepare(struct dp_sparse *sp)
{
    struct dp_err err;

    if (ops_be.ops->sparse_prepare(&ops_be, sp, &err) < 0)
        ops_die("%s: %s", ops_case, err.text);
    if (!sp->plan || ops_be.ops->sparse_bytes(&ops_be, sp) <= (size_t)dp_sparse_n_blocks(sp))
        ops_fail("%s: a plan of %zu bytes", ops_case, ops_be.ops->sparse_bytes(&ops_be, sp));
}

static void drop(struct dp_sparse *sp)
{
    ops_be.ops->sparse_release(&ops_be, sp);
    if (sp->plan || ops_be.ops->sparse_bytes(&ops_be, sp))
        ops_fail("%s: a plan that was released", ops_case);
    free(sp->row_ptr), free(sp->col);
}

/* ---- activations ---- */

/* Numbers of `rows`, (n, c), in a format; padding is 0 in gradients and noise elsewhere. */
static struct array act(const struct array *rows, enum dp_token_format format, int64_t n, int64_t c, bool is_gradient)
{
    const int64_t elements = dp_format_elements(format, n, c);
    float *x = zeroed(elements, sizeof *x);
    struct array a;

    for (int64_t t = 0; t < (c ? elements / c : 0); t++)
        for (int64_t j = 0; j < c; j++)
            x[format == DP_TILES ? (t / DP_TILE * c + j) * DP_TILE + t % DP_TILE : t * c + j] =
                t < n ? on_host(rows)[t * c + j] : is_gradient ? 0.0f : 7.5f;
    a = array_of(x, elements, sizeof *x);
    free(x);
    return a;
}

/* Against want (n, c) and, bit by bit, against `first` (n, c), which is filled where *first is NULL. */
static void check_act(struct array *a, const double *want, enum dp_token_format format, int64_t n, int64_t c, bool is_gradient,
                      float **first, const char *what)
{
    double *wanted = new_doubles(a->n);
    float *rows = zeroed(n * c, sizeof *rows);

    array_fetch(a, what);
    for (int64_t t = 0; t < (c ? a->n / c : 0); t++)
        for (int64_t j = 0; j < c; j++) {
            const int64_t at = format == DP_TILES ? (t / DP_TILE * c + j) * DP_TILE + t % DP_TILE : t * c + j;
            const float got = on_host(a)[at];

            wanted[at] = t < n ? want[t * c + j] : is_gradient || !isfinite(got) ? 0.0 : (double)got;
            if (t < n)
                rows[t * c + j] = got;
        }
    check_floats(a, wanted, TOLERANCE, what);
    if (*first && memcmp(*first, rows, (size_t)(n * c) * sizeof *rows))
        ops_fail("%s: %s: other bits in another format", ops_case, what);
    if (*first)
        free(rows);
    else
        *first = rows;
    free(wanted);
}

/* ---- linear layers ---- */

struct layer {
    const struct given *g;
    struct dp_sparse sp;
    struct array w, x, dy, bias, residual, gelu_x, dw, dbias; /* dw: what is added to */
    double *wd, *xd, *dyd, *bd, *rd, *gd;                     /* in rows; w dense */
    float *y, *gelu, *dx, *gelu_back, *dw_bits;               /* of the first run; NULL until then */
};

static void forward(struct layer *l, enum dp_token_format in, enum dp_token_format out, bool all)
{
    const int64_t n = l->g->n, c_in = l->g->cols, c_out = l->g->rows, elements = dp_format_elements(out, n, c_out);
    struct array x = act(&l->x, in, n, c_in, false), r = act(&l->residual, out, n, c_out, false);
    struct array y = array_nan(elements), gelu = array_nan(all ? elements : 0);
    double *yd = new_doubles(n * c_out), *ad = new_doubles(n * c_out);
    float *none = NULL, *no_gelu = NULL;

    OP(linear, .n = n, .c_in = c_in, .c_out = c_out, .y = y.p, .gelu = all ? gelu.p : NULL, .x = x.p, .w = l->w.p,
       .bias = all ? l->bias.p : NULL, .residual = all ? r.p : NULL, .sparse = &l->sp, .x_format = in, .y_format = out);
    dp_ref_linear_f64(n, c_in, c_out, yd, l->xd, l->wd, all ? l->bd : NULL);
    for (int64_t i = 0; all && i < n * c_out; i++)
        yd[i] += l->rd[i];
    dp_ref_gelu_f64(n * c_out, ad, yd);
    check_act(&y, yd, out, n, c_out, false, all ? &l->y : &none, "y");
    if (all)
        check_act(&gelu, ad, out, n, c_out, false, &l->gelu, "gelu");
    array_drop(&x), array_drop(&r), array_drop(&y), array_drop(&gelu);
    free(yd), free(ad), free(none), free(no_gelu);
}

static void backward(struct layer *l, enum dp_token_format in, enum dp_token_format out, bool all)
{
    const int64_t n = l->g->n, c_in = l->g->cols, c_out = l->g->rows, elements = dp_format_elements(in, n, c_in);
    struct array dy = act(&l->dy, out, n, c_out, true), gelu_x = act(&l->gelu_x, in, n, c_in, false);
    struct array dx = array_nan(elements), gelu = array_nan(all ? elements : 0);
    double *dxd = new_doubles(n * c_in), *ad = new_doubles(n * c_in);
    float *none = NULL;

    OP(linear_bwd_input, .n = n, .c_in = c_in, .c_out = c_out, .dx = dx.p, .gelu = all ? gelu.p : NULL, .dy = dy.p,
       .w = l->w.p, .gelu_x = all ? gelu_x.p : NULL, .sparse = &l->sp, .dy_format = out, .dx_format = in);
    dp_ref_linear_bwd_input_f64(n, c_in, c_out, dxd, l->dyd, l->wd);
    if (all)
        dp_ref_gelu_bwd_f64(n * c_in, dxd, dxd, l->gd);
    dp_ref_gelu_f64(n * c_in, ad, l->gd);
    check_act(&dx, dxd, in, n, c_in, true, all ? &l->dx : &none, "dx");
    if (all)
        check_act(&gelu, ad, in, n, c_in, false, &l->gelu_back, "gelu back");
    array_drop(&dy), array_drop(&gelu_x), array_drop(&dx), array_drop(&gelu);
    free(dxd), free(ad), free(none);
}

static void gradient(struct layer *l, enum dp_token_format in, enum dp_token_format out, bool all)
{
    const int64_t n = l->g->n, c_in = l->g->cols, c_out = l->g->rows;
    struct array dy = act(&l->dy, out, n, c_out, true), x = act(&l->x, in, n, c_in, false);
    struct array dw = all ? array_of(l->dw.host, l->sp.nnz, sizeof(float)) : array_nan(l->sp.nnz);
    struct array dbias = array_of(l->dbias.host, c_out, sizeof(float));
    double *dense = new_doubles(c_in * c_out), *dwd = new_doubles(l->sp.nnz), *bd = array_double(&l->dbias);

    OP(linear_bwd_weight, .n = n, .c_in = c_in, .c_out = c_out, .dw = dw.p, .dbias = all ? dbias.p : NULL, .dy = dy.p, .x = x.p,
       .sparse = &l->sp, .dy_format = out, .x_format = in, .overwrite = !all);
    dp_ref_linear_bwd_weight_f64(n, c_in, c_out, dense, all ? bd : NULL, l->dyd, l->xd);
    for (int64_t e = 0; e < c_in * c_out; e++) {
        const int64_t at = dp_ref_place(&l->sp, c_in, e / c_in, e % c_in);

        if (at >= 0)
            dwd[at] = dense[e] + (all ? (double)on_host(&l->dw)[at] : 0.0);
    }
    check_floats(&dw, dwd, TOLERANCE, "dw");
    check_floats(&dbias, bd, TOLERANCE, "dbias");
    if (all && l->dw_bits && memcmp(l->dw_bits, dw.host, (size_t)l->sp.nnz * sizeof(float)))
        ops_fail("%s: dw: other bits in another format", ops_case);
    if (all && !l->dw_bits) {
        l->dw_bits = zeroed(l->sp.nnz, sizeof(float));
        memcpy(l->dw_bits, dw.host, (size_t)l->sp.nnz * sizeof(float));
    }
    array_drop(&dy), array_drop(&x), array_drop(&dw), array_drop(&dbias);
    free(dense), free(dwd), free(bd);
}

static void one_layer(const void *arg)
{
    const struct given *g = arg;
    struct layer l = {.g = g, .sp = pattern(g, 3, NULL), .x = array_noise(g->n * g->cols, "x"),
                      .dy = array_noise(g->n * g->rows, "dy"), .bias = array_noise(g->rows, "bias"),
                      .residual = array_noise(g->n * g->rows, "residual"), .gelu_x = array_noise(g->n * g->cols, "gelu_x"),
                      .dbias = array_noise(g->rows, "dbias")};
    struct dp_err err;

    l.w = array_noise(l.sp.nnz, "w"), l.dw = array_noise(l.sp.nnz, "dw");
    l.wd = new_doubles(g->rows * g->cols);
    l.xd = array_double(&l.x), l.dyd = array_double(&l.dy), l.bd = array_double(&l.bias), l.rd = array_double(&l.residual);
    l.gd = array_double(&l.gelu_x);
    for (int64_t e = 0; e < g->rows * g->cols; e++) {
        const int64_t at = dp_ref_place(&l.sp, g->cols, e / g->cols, e % g->cols);

        l.wd[e] = at >= 0 ? (double)on_host(&l.w)[at] : 0.0;
    }
    prepare(&l.sp);
    prepare(&l.sp); /* it replaces its plan */
    if (ops_be.ops->sparse_refresh(&ops_be, &l.sp, l.w.p, &err) < 0)
        ops_die("%s: %s", ops_case, err.text);
    for (int i = 0; i < 5; i++) { /* all formats, and once with nothing besides */
        const enum dp_token_format in = i & 1 ? DP_TILES : DP_ROWS, out = i & 2 ? DP_TILES : DP_ROWS;

        forward(&l, in, out, i < 4);
        backward(&l, in, out, i < 4);
        gradient(&l, in, out, i < 4);
    }
    drop(&l.sp);
    array_drop(&l.w), array_drop(&l.x), array_drop(&l.dy), array_drop(&l.bias), array_drop(&l.residual);
    array_drop(&l.gelu_x), array_drop(&l.dw), array_drop(&l.dbias);
    free(l.wd), free(l.xd), free(l.dyd), free(l.bd), free(l.rd), free(l.gd);
    free(l.y), free(l.gelu), free(l.dx), free(l.gelu_back), free(l.dw_bits);
}

static void each(void (*body)(const void *given), const struct given *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        static char text[96];

        snprintf(text, sizeof text, "n %lld, (%lld, %lld), %s of blocks of %lld rows", (long long)cases[i].n,
                 (long long)cases[i].rows, (long long)cases[i].cols,
                 (const char *const[]){"some", "none", "all", "few"}[cases[i].kind], (long long)cases[i].block);
        ops_case = text;
        ops_twice(body, &cases[i]);
    }
}

/* 128 outputs are a block's of csr.cu; 128 rows by 256 columns csr_gradient.cu's, which takes 2048 weights, or 1024 blocks of
 * 4 x 1, of them at a time. From 1024 tokens on these are cut into parts. */
void test_sparse_csr(void)
{
    static const struct given cases[] = {
        {1, 1, 1, 1, ALL},    {3, 5, 7, 1, SOME},    {65, 130, 70, 1, FEW},  {17, 3, 300, 1, SOME},   {0, 4, 5, 1, SOME},
        {9, 70, 64, 1, ALL},  {5, 33, 65, 1, NONE},  {1030, 4, 5, 1, SOME},  {1, 4, 1, 4, ALL},       {66, 132, 67, 4, SOME},
        {5, 20, 300, 4, SOME}, {7, 64, 130, 4, ALL}, {3, 4, 9, 4, NONE},     {1030, 8, 3, 4, SOME},   {64, 8, 64, 4, FEW},
    };

    each(one_layer, cases, sizeof cases / sizeof cases[0]);
}

void test_sparse_blocks(void)
{
    static const struct given cases[] = {
        {1, 32, 32, 32, ALL},     {65, 96, 64, 32, SOME}, {3, 32, 160, 32, SOME}, {1030, 32, 32, 32, ALL},
        {0, 64, 32, 32, SOME},    {5, 64, 64, 64, ALL},   {66, 128, 192, 64, SOME}, {2, 64, 128, 64, NONE},
        {67, 128, 256, 128, ALL}, {1, 256, 128, 128, SOME},
    };

    each(one_layer, cases, sizeof cases / sizeof cases[0]);
}

/* ---- what passes over weights ---- */

static uint64_t *bits_of(const struct dp_sparse *sp)
{
    const int64_t block = dp_sparse_block(sp), per_row = sp->cols / dp_block_cols(block);
    uint64_t *bits = zeroed(sp->rows / block * per_row / 64 + 1, sizeof *bits);

    for (int64_t r = 0; r < sp->rows / block; r++)
        for (int64_t k = sp->row_ptr[r]; k < sp->row_ptr[r + 1]; k++)
            dp_bits_set(bits, r * per_row + sp->col[k]);
    return bits;
}

/* sp: as prepared, or NULL; keep: with bits of weights, the last of which is lost. */
static void norms(const struct given *g, const struct dp_sparse *sp, const uint64_t *bits)
{
    const int64_t weights = g->rows * g->cols, blocks = weights / dp_block_weights(g->block);
    struct array w = array_noise(sp ? sp->nnz : weights, "norms"), norm = array_nan(sp ? dp_sparse_n_blocks(sp) : blocks);
    uint64_t *keep = zeroed(weights / 64 + 1, sizeof *keep), *left = zeroed(blocks / 64 + 1, sizeof *left), mixed = 5;
    struct array k, l, m = array_of(&mixed, 1, sizeof mixed);
    float *want = zeroed(norm.n, sizeof *want);

    memset(left, 0xff, dp_bits_words(blocks) * sizeof *left); /* it overwrites */
    l = array_of(left, (int64_t)dp_bits_words(blocks), sizeof *left);
    memset(left, 0, dp_bits_words(blocks) * sizeof *left);
    if (bits) {
        dp_ref_spread_bits(&(struct dp_spread_bits){.rows = g->rows, .cols = g->cols, .block_rows = g->block, .keep = keep, .bits = bits});
        memcpy(left, bits, dp_bits_words(blocks) * sizeof *left);
        if (g->block > 1 && dp_bits_get(bits, blocks - 1)) {
            keep[(weights - 1) / 64] ^= (uint64_t)1 << ((weights - 1) % 64);
            left[(blocks - 1) / 64] ^= (uint64_t)1 << ((blocks - 1) % 64);
            mixed++;
        }
    }
    k = array_of(keep, (int64_t)dp_bits_words(weights), sizeof *keep);
    OP(block_norms, .rows = g->rows, .cols = g->cols, .block_rows = g->block, .norm = norm.p, .left = bits ? l.p : NULL,
       .mixed = bits ? m.p : NULL, .w = w.p, .sparse = sp, .keep = bits ? k.p : NULL);
    for (int64_t i = 0, at = 0; i < blocks; i++) {
        bool there;
        const float x = dp_ref_norm(on_host(&w), sp, g->cols, g->block, i, &there);

        if (there)
            want[at++] = x;
    }
    check_bytes(&norm, want, "norms");
    if (bits)
        check_bytes(&l, left, "left"), check_bytes(&m, &mixed, "mixed");
    array_drop(&w), array_drop(&norm), array_drop(&k), array_drop(&l), array_drop(&m);
    free(keep), free(left), free(want);
}

static void gathered(const struct given *g, const struct dp_sparse *to, const struct dp_sparse *from)
{
    const int64_t elements = from ? from->nnz : g->rows * g->cols;
    struct array x[2] = {array_noise(elements, "x0"), array_noise(elements, "x1")}, y[2] = {array_nan(to->nnz), array_nan(to->nnz)};
    float *want[2] = {zeroed(to->nnz, sizeof(float)), zeroed(to->nnz, sizeof(float))};

    dp_ref_gather(&(struct dp_gather){.n_arrays = 2, .y = {want[0], want[1]}, .x = {x[0].host, x[1].host}, .to = to, .from = from});
    OP(gather, .n_arrays = 2, .y = {y[0].p, y[1].p}, .x = {x[0].p, x[1].p}, .to = to, .from = from);
    for (int i = 0; i < 2; i++) {
        check_bytes(&y[i], want[i], "gather");
        array_drop(&x[i]), array_drop(&y[i]);
        free(want[i]);
    }
}

static void passes(const void *arg)
{
    const struct given *g = arg;
    const struct given fewer = {0, g->rows, g->cols, g->block, SOME};
    struct dp_sparse sp = pattern(g, 5, NULL), less;
    uint64_t *bits = bits_of(&sp);

    less = pattern(&fewer, 9, bits);
    prepare(&sp), prepare(&less);
    norms(g, NULL, NULL);
    norms(g, NULL, bits);
    norms(g, &sp, NULL);
    gathered(g, &sp, NULL);
    gathered(g, &less, &sp);
    drop(&sp), drop(&less);
    free(bits);
}

static void reorder(const void *arg)
{
    const struct given *g = arg;
    const int64_t n = g->n, c = g->cols;
    struct array rows = array_noise(n * c, "rows");
    double *want = array_double(&rows);

    for (int i = 0; i < 6; i++) { /* the last two in place */
        const enum dp_token_format from = i & 1 ? DP_TILES : DP_ROWS, to = i >= 4 ? from : i & 2 ? DP_TILES : DP_ROWS;
        struct array x = act(&rows, from, n, c, false), y = i >= 4 ? x : array_nan(dp_format_elements(to, n, c));
        float *none = NULL;

        OP(reorder, .n = n, .c = c, .y = y.p, .x = x.p, .y_format = to, .x_format = from);
        check_act(&y, want, to, n, c, true, &none, "reorder");
        if (i < 4)
            array_drop(&y);
        array_drop(&x);
        free(none);
    }
    array_drop(&rows);
    free(want);
}

void test_patterns(void)
{
    static const struct given matrices[] = {{0, 1, 1, 1, ALL},   {0, 13, 37, 1, SOME},  {0, 4, 1, 4, ALL},    {0, 52, 67, 4, SOME},
                                            {0, 8, 5, 4, NONE},  {0, 96, 160, 32, SOME}, {0, 192, 64, 64, SOME}, {0, 256, 256, 128, ALL}};
    static const struct given sizes[] = {{1, 1, 1, 1, ALL},  {63, 1, 17, 1, ALL}, {64, 1, 16, 1, ALL},
                                         {65, 1, 33, 1, ALL}, {0, 1, 3, 1, ALL}};

    each(passes, matrices, sizeof matrices / sizeof matrices[0]);
    each(reorder, sizes, sizeof sizes / sizeof sizes[0]);
}

/* ---- what is refused ---- */

static void expect_refusal(int rc, const struct dp_err *err, const char *word)
{
    if (rc != -1 || err->code != DP_EINVAL || !strstr(err->text, word))
        ops_fail("returned %d and \"%s\", want \"%s\"", rc, rc ? err->text : "", word);
}

static void bad_pattern(struct dp_sparse sp, const char *word)
{
    struct dp_err err = {.code = DP_OK};

    expect_refusal(ops_be.ops->sparse_prepare(&ops_be, &sp, &err), &err, word);
    if (sp.plan)
        ops_fail("\"%s\" and a plan", word);
}

static void bad_patterns(struct dp_sparse sp)
{
    int64_t falls[3] = {0, 4, 3}, short_[3] = {0, 1, 2}, begins[3] = {1, 1, 3}, *good = sp.row_ptr;
    uint16_t order[3] = {2, 1, 1}, far[3] = {5, 0, 1}, *col = sp.col;

    sp.row_ptr = falls, bad_pattern(sp, "row pointer");
    sp.row_ptr = short_, bad_pattern(sp, "row pointers");
    sp.row_ptr = begins, bad_pattern(sp, "row pointers");
    sp.row_ptr = good;
    sp.col = order, bad_pattern(sp, "out of order");
    sp.col = far, bad_pattern(sp, "column 5");
    sp.col = col;
    sp.rows = 0, bad_pattern(sp, "out of range");
    sp.rows = 2, sp.nnz = -1, bad_pattern(sp, "out of range");
    sp.nnz = (int64_t)1 << 40, bad_pattern(sp, "out of range");
    sp.nnz = 3, sp.cols = DP_SPARSE_MAX + 1, bad_pattern(sp, "out of range");
    sp.cols = 5, sp.block_rows = 4, bad_pattern(sp, "not whole blocks of 4");
    sp.block_rows = 3, bad_pattern(sp, "blocks of 3 rows");
    sp.rows = 64, sp.nnz = 3 * 32 * 32, sp.block_rows = 32, bad_pattern(sp, "not whole blocks of 32x32");
    sp.cols = 64, sp.col = far, bad_pattern(sp, "column 5");
}

#define REFUSED(op, word, ...)                                                                                       \
    do {                                                                                                             \
        struct dp_err op_err = {.code = DP_OK};                                                                      \
        expect_refusal(ops_be.ops->op(&ops_be, &(struct dp_##op){__VA_ARGS__}, &op_err), &op_err, word);             \
    } while (0)

void test_bad_patterns(void)
{
    int64_t row_ptr[3] = {0, 1, 3}, wider_ptr[3] = {0, 2, 4};
    uint16_t col[3] = {2, 0, 1}, wider_col[4] = {1, 2, 0, 1};
    struct dp_sparse sp = {.rows = 2, .cols = 5, .nnz = 3, .row_ptr = row_ptr, .col = col};
    struct dp_sparse wider = {.rows = 2, .cols = 5, .nnz = 4, .row_ptr = wider_ptr, .col = wider_col}, grown;
    struct array a = array_noise(64, "a"), b = array_noise(64, "b");
    struct dp_err err = {.code = DP_OK};

    ops_case = "bad patterns";
    bad_patterns(sp);
    REFUSED(linear, "sparse_prepare", .n = 1, .c_in = 5, .c_out = 2, .y = a.p, .x = b.p, .w = b.p, .sparse = &sp);
    REFUSED(block_norms, "sparse_prepare", .rows = 2, .cols = 5, .block_rows = 1, .norm = a.p, .w = b.p, .sparse = &sp);
    expect_refusal(ops_be.ops->sparse_refresh(&ops_be, &sp, b.p, &err), &err, "sparse_prepare");
    prepare(&sp), prepare(&wider);
    REFUSED(linear, "the shapes say (3, 5)", .n = 1, .c_in = 5, .c_out = 3, .y = a.p, .x = b.p, .w = b.p, .sparse = &sp);
    REFUSED(linear_bwd_input, "the shapes say (2, 4)", .n = 1, .c_in = 4, .c_out = 2, .dx = a.p, .dy = b.p, .w = b.p, .sparse = &sp);
    REFUSED(linear_bwd_weight, "-1 tokens", .n = -1, .c_in = 5, .c_out = 2, .dw = a.p, .dy = b.p, .x = b.p, .sparse = &sp);
    grown = sp, grown.nnz = 4;
    REFUSED(linear, "prepared as", .n = 1, .c_in = 5, .c_out = 2, .y = a.p, .x = b.p, .w = b.p, .sparse = &grown);
    REFUSED(gather, "column 1, which was not there", .n_arrays = 1, .y = {a.p}, .x = {b.p}, .to = &wider, .from = &sp);
    REFUSED(gather, "5 arrays", .n_arrays = 5, .to = &sp);
    REFUSED(block_norms, "blocks of 4 rows", .rows = 6, .cols = 2, .block_rows = 4, .norm = a.p, .w = b.p);
    ops_be.ops->sparse_release(&ops_be, &sp), ops_be.ops->sparse_release(&ops_be, &wider);
    array_drop(&a), array_drop(&b);
}
