/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer is its byte stream: what is written reads back bit for bit, in every storage format, and what
 * is damaged, cut or of another model is refused. */
#include "common/bits.h"
#include "tests/unit/worker/engine.h"
#include "worker/model/model.h"
#include "worker/model/param.h"

static struct dp_backend *be;

static int setup(void **state)
{
    (void)state;
    be = cpu();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dp_backend_destroy(be);
    return 0;
}

/* Keep a part of one matrix: every element whose hash is below `part`. */
static void thin(struct dp_layer *l, int param, double part, uint32_t salt)
{
    struct dp_param *p = &l->param[param];
    int64_t n = p->rows * p->cols;
    uint64_t *keep = calloc(dp_bits_words(n) + 1, sizeof *keep);
    struct dp_err err = {0};

    for (int64_t r = 0; r < p->rows; r++) {
        int64_t k = p->sparse ? p->sparse->row_ptr[r] : r * p->cols;
        int64_t end = p->sparse ? p->sparse->row_ptr[r + 1] : (r + 1) * p->cols;

        for (; k < end; k++) {
            int64_t e = p->sparse ? r * p->cols + p->sparse->col[k] : k;
            uint64_t h = ((uint64_t)e + salt) * 0x9e3779b97f4a7c15u;

            if ((double)(h >> 40) / 16777216.0 < part && (!p->keep || dp_bits_get(p->keep, e)))
                dp_bits_set(keep, e);
        }
    }
    if (dp_param_prune(l, p, keep, &err) < 0)
        fail_msg("%s", err.text);
    free(keep);
}

static void assert_same_layer(const struct dp_layer *a, const struct dp_layer *b)
{
    uint8_t *x, *y;
    size_t n, m;

    assert_int_equal(dp_layer_write(a, &x, &n, NULL), 0);
    assert_int_equal(dp_layer_write(b, &y, &m, NULL), 0);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    assert_int_equal(a->n_params, b->n_params);
    for (uint32_t i = 0; i < a->n_params; i++) {
        const struct dp_param *p = &a->param[i], *q = &b->param[i];
        size_t bytes = (size_t)p->n * sizeof(float);

        assert_int_equal(p->n, q->n);
        assert_int_equal(p->nnz, q->nnz);
        assert_true(p->first_global == q->first_global);
        assert_memory_equal(p->w, q->w, bytes);
        assert_int_equal(!p->m, !q->m);
        if (p->m) {
            assert_memory_equal(p->m, q->m, bytes);
            assert_memory_equal(p->v, q->v, bytes);
        }
        assert_int_equal(!p->sparse, !q->sparse);
        assert_int_equal(!p->keep, !q->keep);
    }
    assert_int_equal(dp_layer_state_bytes(a), dp_layer_state_bytes(b));
}

/* A block with one dense, one bitmap and two sparse matrices. */
static struct dp_layer *mixed_block(const struct dp_train_config *c, const struct dp_tune *tune)
{
    struct dp_layer *l = layer_at(c, 1, be, tune);

    shake(l, 7);
    l->rng_counter = 99;
    thin(l, DP_PROJ_W, 0.8, 1); /* stays dense: 20 % gone */
    thin(l, DP_FC_W, 0.2, 2);   /* sparse */
    thin(l, DP_MLP_W, 0.3, 3);
    thin(l, DP_MLP_W, 0.5, 4);  /* sparse, then sparser */
    assert_non_null(l->param[DP_PROJ_W].keep);
    assert_non_null(l->param[DP_FC_W].sparse);
    assert_non_null(l->param[DP_MLP_W].sparse);
    return l;
}

static void every_kind_reads_back(void **state)
{
    struct dp_train_config c = tiny_config();
    struct dp_tune tune = tune_at(&c, 0.5);

    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        c.model.tied_head = tied;
        for (uint32_t i = 0; i < dp_model_layers(&c) + 1; i++) {
            struct dp_layer *l = i < dp_model_layers(&c) ? layer_at(&c, i, be, &tune) : mixed_block(&c, &tune);
            struct dp_layer *back;
            struct dp_err err = {0};
            uint8_t *data;
            size_t n;

            assert_int_equal(dp_layer_write(l, &data, &n, &err), 0);
            back = dp_layer_read(&c, be, &tune, data, n, &err);
            if (!back)
                fail_msg("%s", err.text);
            assert_same_layer(l, back);
            assert_true(back->rng_counter == l->rng_counter);
            free(data);
            dp_layer_destroy(back);
            dp_layer_destroy(l);
        }
    }
}

static void damage_is_refused(void **state)
{
    struct dp_train_config c = tiny_config();
    struct dp_tune tune = tune_at(&c, 0.5);
    struct dp_layer *l = mixed_block(&c, &tune);
    uint8_t *data;
    size_t n;

    (void)state;
    assert_int_equal(dp_layer_write(l, &data, &n, NULL), 0);
    for (size_t i = 0; i < n; i += i < 2000 ? 1 : 13) { /* all of the headers, samples of the rest */
        struct dp_err err = {0};

        data[i] ^= (uint8_t)(1u << (i % 8));
        assert_null(dp_layer_read(&c, be, &tune, data, n, &err));
        assert_int_equal(err.code, DP_ECORRUPT);
        data[i] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t i = 0; i < n; i += i < 500 ? 1 : 97) {
        struct dp_err err = {0};

        assert_null(dp_layer_read(&c, be, &tune, data, i, &err));
        assert_int_equal(err.code, DP_ECORRUPT);
    }
    data = realloc(data, n + 1);
    assert_non_null(data);
    data[n] = 0;
    assert_null(dp_layer_read(&c, be, &tune, data, n + 1, NULL));
    c.model.heads = 4;
    struct dp_err err = {0};
    assert_null(dp_layer_read(&c, be, &tune, data, n, &err));
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "another model"));
    free(data);
    dp_layer_destroy(l);
}

static void pruned_weights_are_gone(void **state)
{
    struct dp_train_config c = tiny_config();
    struct dp_tune tune = tune_at(&c, 0.5);
    struct dp_layer *l = layer_at(&c, 1, be, &tune);
    struct dp_param *p = &l->param[DP_QKV_W];
    int64_t n = p->rows * p->cols;
    size_t before = dp_layer_state_bytes(l);
    float *dense = malloc((size_t)n * sizeof *dense);
    uint64_t *keep = calloc(dp_bits_words(n) + 1, sizeof *keep);
    struct dp_err err = {0};

    (void)state;
    shake(l, 3);
    memcpy(dense, p->w, (size_t)n * sizeof *dense);
    for (int64_t e = 0; e < n; e += 20)
        dp_bits_set(keep, e);
    assert_int_equal(dp_param_prune(l, p, keep, &err), 0);
    assert_non_null(p->sparse);
    assert_int_equal(p->n, (n + 19) / 20);
    assert_int_equal(p->nnz, p->n);
    for (int64_t r = 0, k = 0; r < p->rows; r++)
        for (; k < p->sparse->row_ptr[r + 1]; k++) {
            float w = dense[r * p->cols + p->sparse->col[k]], m = w * 0.25f, v = w * w;

            assert_int_equal((r * p->cols + p->sparse->col[k]) % 20, 0);
            assert_true(p->w[k] == w && p->m[k] == m && p->v[k] == v && p->g[k] == 0.0f);
        }
    assert_true(dp_layer_state_bytes(l) < before);
    dp_bits_set(keep, 1); /* gone: it cannot come back */
    assert_int_equal(dp_param_prune(l, p, keep, &err), -1);
    assert_non_null(strstr(err.text, "element 1"));
    memset(keep, 0, dp_bits_words(n) * sizeof *keep);
    if (dp_param_prune(l, p, keep, &err) < 0) /* nothing left is legal */
        fail_msg("%s", err.text);
    assert_int_equal(p->nnz, 0);
    assert_int_equal(dp_param_prune(l, &l->param[DP_LN1_W], keep, &err), -1);
    free(keep);
    free(dense);
    dp_layer_destroy(l);
}

/* Blocks of 4 x 1: four weights of a column follow each other; the stream reads back; half a block is refused. */
static void blocks_of_rows(void **state)
{
    struct dp_train_config blocks = tiny_config();
    struct dp_tune at = {0};
    struct dp_layer *l, *back;
    struct dp_param *p;
    struct dp_err err = {0};
    uint64_t *keep;
    float *dense;
    uint8_t *data;
    size_t bytes;
    int64_t n;

    (void)state;
    snprintf(blocks.prune.granularity, sizeof blocks.prune.granularity, "4x1");
    at = tune_at(&blocks, 0.5);
    l = layer_at(&blocks, 1, be, &at);
    shake(l, 9);
    p = &l->param[DP_FC_W];
    n = p->rows * p->cols;
    dense = malloc((size_t)n * sizeof *dense);
    memcpy(dense, p->w, (size_t)n * sizeof *dense);
    keep = calloc(dp_bits_words(n) + 1, sizeof *keep);
    for (int64_t b = 0; b < n / 4; b += 3)
        for (int64_t r = 0; r < 4; r++)
            dp_bits_set(keep, (b / p->cols * 4 + r) * p->cols + b % p->cols);
    if (dp_param_prune(l, p, keep, &err) < 0)
        fail_msg("%s", err.text);
    assert_non_null(p->sparse);
    assert_int_equal(p->sparse->block_rows, 4);
    for (int64_t e = 0, left = 0; e < n; e++) {
        int64_t k = dp_param_find(p, e / p->cols, e % p->cols);

        assert_int_equal(k >= 0, dp_bits_get(keep, e));
        if (k < 0)
            continue;
        assert_true(p->w[k] == dense[e] && p->m[k] == dense[e] * 0.25f);
        assert_true(++left <= p->n);
        if (e / p->cols % 4) /* below the weight of the row above */
            assert_int_equal(k, dp_param_find(p, e / p->cols - 1, e % p->cols) + 1);
    }
    assert_int_equal(dp_layer_write(l, &data, &bytes, &err), 0);
    back = dp_layer_read(&blocks, be, &at, data, bytes, &err);
    if (!back)
        fail_msg("%s", err.text);
    assert_same_layer(l, back);
    dp_layer_destroy(back);
    free(data);
    keep[0] &= ~(uint64_t)1; /* the first weight of the first block alone */
    assert_int_equal(dp_param_prune(l, p, keep, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "3 of 4 weights"));
    assert_int_equal(p->nnz, (n / 4 + 2) / 3 * 4);
    free(keep), free(dense);
    dp_layer_destroy(l);
}

/* Blocks of 32 x 32: each weight is where struct dp_sparse says; the stream reads back and is refused where its blocks do not
 * fit; a part of a block is refused. */
static void square_blocks(void **state)
{
    struct dp_train_config c = tiny_config();
    const int64_t edge = 32;
    struct dp_layer *l, *back;
    struct dp_tune at;
    struct dp_param *p;
    struct dp_err err = {0};
    uint64_t *keep;
    float *dense;
    uint8_t *data;
    size_t bytes;
    int64_t n;

    (void)state;
    c.model.channels = 96;
    snprintf(c.prune.granularity, sizeof c.prune.granularity, "32x32");
    at = tune_at(&c, 0.3);
    l = layer_at(&c, 1, be, &at);
    shake(l, 9);
    p = &l->param[DP_FC_W]; /* 12 x 3 blocks */
    n = p->rows * p->cols;
    dense = malloc((size_t)n * sizeof *dense);
    keep = calloc(dp_bits_words(n) + 1, sizeof *keep);
    memcpy(dense, p->w, (size_t)n * sizeof *dense);
    for (int round = 0; round < 2; round++) { /* from dense, then from sparse */
        memset(keep, 0, dp_bits_words(n) * sizeof *keep);
        for (int64_t e = 0; e < n; e++) {
            int64_t block = e / p->cols / edge * 3 + e % p->cols / edge;

            if (block % 5 == 1 || (round == 0 && block % 4 == 2))
                dp_bits_set(keep, e);
        }
        if (dp_param_prune(l, p, keep, &err) < 0)
            fail_msg("%s", err.text);
        assert_non_null(p->sparse);
        assert_int_equal(p->sparse->block_rows, edge);
        assert_int_equal(p->nnz, dp_bits_count(keep, n));
        for (int64_t e = 0; e < n; e++) {
            int64_t row = e / p->cols, col = e % p->cols, k = dp_param_find(p, row, col), *ptr, in_row, m;

            assert_int_equal(k >= 0, dp_bits_get(keep, e));
            if (k < 0)
                continue;
            ptr = p->sparse->row_ptr + row / edge;
            m = ptr[1] - ptr[0];
            for (in_row = 0; p->sparse->col[ptr[0] + in_row] != col / edge; in_row++)
                ;
            assert_int_equal(k, ptr[0] * edge * edge + row % edge / 4 * 4 * edge * m + in_row * 4 * edge + 4 * (col % edge) +
                                    row % 4);
            assert_true(p->w[k] == dense[e] && p->m[k] == dense[e] * 0.25f && p->v[k] == dense[e] * dense[e]);
        }
    }
    assert_int_equal(dp_layer_write(l, &data, &bytes, &err), 0);
    back = dp_layer_read(&c, be, &at, data, bytes, &err);
    if (!back)
        fail_msg("%s", err.text);
    assert_same_layer(l, back);
    dp_layer_destroy(back);
    c.model.blocks = 3; /* of another model */
    assert_null(dp_layer_read(&c, be, &at, data, bytes, &err));
    c.model.blocks = 2;
    for (size_t i = 0; i < bytes; i += i < 200 ? 1 : 997) {
        data[i] ^= (uint8_t)(1u << (i % 8));
        assert_null(dp_layer_read(&c, be, &at, data, bytes, &err));
        assert_int_equal(err.code, DP_ECORRUPT);
        data[i] ^= (uint8_t)(1u << (i % 8));
    }
    free(data);
    keep[(edge + 5) / 64] &= ~((uint64_t)1 << (edge + 5) % 64); /* one weight of block 1 */
    assert_int_equal(dp_param_prune(l, p, keep, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "1023 of 1024 weights"));
    free(keep), free(dense);
    dp_layer_destroy(l);
}

static void a_bitmap_holds_zeros(void **state)
{
    struct dp_train_config c = tiny_config();
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_layer *l = layer_at(&c, 1, be, &tune);
    struct dp_param *p = &l->param[DP_FC_W];

    (void)state;
    shake(l, 5);
    thin(l, DP_FC_W, 0.1, 9);
    assert_null(p->sparse);
    assert_non_null(p->keep);
    assert_int_equal(p->n, p->rows * p->cols);
    assert_int_equal(dp_bits_count(p->keep, p->n), p->nnz);
    for (int64_t e = 0; e < p->n; e++)
        if (!dp_bits_get(p->keep, e))
            assert_true(p->w[e] == 0.0f && p->m[e] == 0.0f && p->v[e] == 0.0f);
    dp_layer_destroy(l);
}

/* Initial weights: GPT-2's spread, from seed and index alone. */
static void initial_weights(void **state)
{
    struct dp_train_config c = tiny_config();
    struct dp_tune tune = {0};
    double sum[2] = {0}, squares[2] = {0};
    struct dp_layer *l;

    (void)state;
    c.model.channels = 96;
    c.model.blocks = 8;
    l = layer_at(&c, 3, be, &tune);
    for (int i = 0; i < 2; i++) {
        const struct dp_param *p = &l->param[i ? DP_MLP_W : DP_FC_W];

        for (int64_t k = 0; k < p->n; k++) {
            sum[i] += p->w[k];
            squares[i] += (double)p->w[k] * p->w[k];
        }
        sum[i] /= (double)p->n;
        squares[i] /= (double)p->n;
    }
    assert_true(sum[0] > -0.0005 && sum[0] < 0.0005);
    assert_true(squares[0] > 0.0004 * 0.97 && squares[0] < 0.0004 * 1.03);
    assert_true(squares[1] > 0.0004 / 16 * 0.97 && squares[1] < 0.0004 / 16 * 1.03);
    assert_true(l->param[DP_LN1_W].w[5] == 1.0f && l->param[DP_LN1_B].w[5] == 0.0f);
    dp_layer_destroy(l);
    c.model.tied_head = true;
    l = layer_at(&c, 9, be, &tune);
    struct dp_layer *first = layer_at(&c, 0, be, &tune);
    assert_memory_equal(l->param[DP_HEAD_W].w, first->param[DP_WTE].w,
                        (size_t)dp_layer_tied_count(&c) * sizeof(float));
    dp_layer_destroy(l);
    dp_layer_destroy(first);
    assert_null(dp_layer_create(&c, 10, be, &tune, NULL));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind_reads_back), cmocka_unit_test(damage_is_refused),
    cmocka_unit_test(pruned_weights_are_gone), cmocka_unit_test(a_bitmap_holds_zeros),
    cmocka_unit_test(blocks_of_rows), cmocka_unit_test(square_blocks),
    cmocka_unit_test(initial_weights),
};

int main(void)
{
    return cmocka_run_group_tests_name("layer", tests, setup, teardown);
}
