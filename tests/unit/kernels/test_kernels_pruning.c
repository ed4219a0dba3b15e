/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes over weights of the CPU backend, every version with one thread and with three, against plain C: sizes around
 * words of bits and around tasks, every shape of block, dense and sparse, ties, NaN, infinities and zeros. What they give is
 * bits, so it is compared bit by bit. */
#include "kernels/cpu/sparse/plan.h"
#include "kernels/granularity.h"
#include "kernels/reference_pruning.h"
#include "tests/unit/kernels/kernels_util.h"

static const int64_t sizes[] = {0, 1, 3, 15, 16, 17, 63, 64, 65, 127, 129, 1000, 65536, 65537, 200003};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

/* Every version, with one thread and with three. */
static void each_backend(void (*test)(struct dp_backend *be))
{
    for (int i = 0; i < 2 * N_VERSIONS; i++) {
        struct dp_backend *be = open_threads(i / 2, i % 2 ? 3 : 1);

        if (be)
            test(be);
        dp_backend_destroy(be);
    }
}

/* n bits, of which about `part` are set; a word more than it needs stays 0. The caller frees. */
static uint64_t *random_bits(int64_t n, double part, uint64_t seed)
{
    uint64_t *bits = calloc(dp_bits_words(n) + 1, sizeof *bits);

    assert_non_null(bits);
    for (int64_t i = 0; i < n; i++)
        if ((rnd_unit(&seed) + 1.0) / 2.0 < part)
            dp_bits_set(bits, i);
    return bits;
}

/* Weights of which many are equal, some zero and some no numbers. */
static struct buf coarse(int64_t n, uint64_t seed)
{
    struct buf b = buf_noise(n, 1, seed);

    for (int64_t i = 0; i < n; i++)
        b.p[i] = roundf(b.p[i] * 8.0f) / 8.0f;
    if (n > 20) {
        b.p[n / 3] = NAN, b.p[n / 2] = -INFINITY, b.p[n / 4] = 1e-42f, b.p[n / 5] = -0.0f;
    }
    return b;
}

static void counts(struct dp_backend *be)
{
    static const uint32_t levels[][2] = {{20, 11}, {10, 10}, {0, 10}, {0, 0}}; /* shift, bits */

    for (size_t s = 0; s < N_SIZES; s++)
        for (int which = 0; which < 4; which++) { /* noise or coarse, all left or some */
            int64_t n = sizes[s];
            struct buf x = which % 2 ? coarse(n, 3) : buf_noise(n, 1, 3);
            uint64_t *left = which / 2 ? random_bits(n, 0.3, 4) : NULL;
            uint32_t prefix = n ? dp_ref_key(x.p[n / 2]) : 0;

            for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
                static uint64_t got[2049], want[2049];
                struct dp_count_keys a = {.n = n, .x = x.p, .left = left, .prefix = prefix, .shift = levels[l][0],
                                          .bits = levels[l][1], .bins = want};

                for (int b = 0; b < 2049; b++)
                    got[b] = want[b] = (uint64_t)b; /* they are added to */
                dp_ref_count_keys(&a);
                CHECK_OP(be, count_keys, .n = n, .x = x.p, .left = left, .prefix = prefix, .shift = levels[l][0],
                         .bits = levels[l][1], .bins = got);
                assert_memory_equal(got, want, sizeof got);
            }
            buf_free(x, "count_keys");
            free(left);
        }
}

static void count_every(void **state)
{
    (void)state;
    each_backend(counts);
}

static void choices(struct dp_backend *be)
{
    static const uint64_t ties[] = {0, 1, 7, 70000, UINT64_MAX};

    for (size_t s = 0; s < N_SIZES; s++)
        for (int which = 0; which < 4; which++) {
            int64_t n = sizes[s];
            struct buf x = which % 2 ? coarse(n, 3) : buf_noise(n, 1, 3);
            uint64_t *left = which / 2 ? random_bits(n, 0.3, 4) : NULL;
            size_t words = dp_bits_words(n) + 1;
            uint64_t *got = malloc(words * sizeof *got), *want = malloc(words * sizeof *want);
            const uint32_t keys[] = {0, n ? dp_ref_key(x.p[n - 1]) : 0, dp_ref_key(0.5f), 0x7fffffff};

            for (int k = 0; k < 4; k++)
                for (size_t t = 0; t < sizeof ties / sizeof ties[0]; t++) {
                    struct dp_choose a = {.n = n, .chosen = want, .x = x.p, .left = left, .key = keys[k], .ties = ties[t]};

                    memset(got, 0xa5, words * sizeof *got), memset(want, 0xa5, words * sizeof *want);
                    dp_ref_choose(&a);
                    CHECK_OP(be, choose, .n = n, .chosen = got, .x = x.p, .left = left, .key = keys[k], .ties = ties[t]);
                    assert_memory_equal(got, want, words * sizeof *got);
                }
            buf_free(x, "choose");
            free(left), free(got), free(want);
        }
}

static void choose_every(void **state)
{
    (void)state;
    each_backend(choices);
}

/* ---- matrices ---- */

/* The blocks of a (rows, cols) matrix whose bits are set, as an unprepared pattern. */
static struct dp_sparse pattern_of(int64_t rows, int64_t cols, int64_t block, const uint64_t *bits)
{
    int64_t width = dp_block_cols(block), m = cols / width, n = rows / block * m, k = 0;
    struct dp_sparse sp = {.rows = rows, .cols = cols, .block_rows = block};

    sp.row_ptr = calloc((size_t)(rows / block) + 1, sizeof *sp.row_ptr);
    sp.col = calloc((size_t)n + 1, sizeof *sp.col);
    assert_true(sp.row_ptr && sp.col);
    for (int64_t i = 0; i < n; i++) {
        if (dp_bits_get(bits, i))
            sp.col[k++] = (uint16_t)(i % m);
        sp.row_ptr[i / m + 1] = k;
    }
    sp.nnz = k * dp_block_weights(block);
    return sp;
}

static void pattern_free(struct dp_sparse sp)
{
    free(sp.row_ptr);
    free(sp.col);
}

/* Shapes that have whole blocks and, where blocks are narrow, rows of bits that end within a word. */
struct shape {
    int64_t rows, cols;
};

static void each_shape(struct dp_backend *be, void (*test)(struct dp_backend *be, struct shape s, int64_t block))
{
    for (int g = 0; g < DP_N_GRANULARITIES; g++) {
        int64_t block = dp_granularity_at(g), width = dp_block_cols(block);
        const struct shape shapes[] = {{block, width},         {block, 3 * width},      {4 * block, width},
                                       {3 * block, 5 * width}, {12 * block, 17 * width}, {4 * block, 97 * width},
                                       {52 * block, width == 1 ? 401 : 2 * width}};

        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            if (!is_left_out(shapes[s].rows * shapes[s].cols * block))
                test(be, shapes[s], block);
    }
}

static void norms_case(struct dp_backend *be, struct shape s, int64_t block)
{
    int64_t n = s.rows / block * (s.cols / dp_block_cols(block)), weights = s.rows * s.cols;

    for (int which = 0; which < 3; which++) { /* dense, with bits, sparse */
        uint64_t *bits = random_bits(n, 0.4, 7), *keep = calloc(dp_bits_words(weights) + 1, sizeof *keep);
        uint64_t *left = calloc(dp_bits_words(n) + 1, sizeof *left), *want = calloc(dp_bits_words(n) + 1, sizeof *want);
        uint64_t mixed = 5, want_mixed = 5;
        struct dp_sparse sp = pattern_of(s.rows, s.cols, block, bits);
        struct buf w = buf_noise(which == 2 ? sp.nnz : weights, 3, 8);
        struct buf norm = buf_noise(which == 2 ? dp_sparse_n_blocks(&sp) : n, 1, 9);

        if (weights > 2 && which == 0)
            w.p[weights / 2] = NAN;
        dp_ref_spread_bits(&(struct dp_spread_bits){.rows = s.rows, .cols = s.cols, .block_rows = block, .keep = keep,
                                                    .bits = bits});
        memcpy(want, bits, dp_bits_words(n) * sizeof *want);
        if (block > 1 && dp_bits_get(bits, n - 1)) { /* the last block loses its last weight */
            keep[(weights - 1) / 64] ^= (uint64_t)1 << ((weights - 1) % 64);
            want[(n - 1) / 64] ^= (uint64_t)1 << ((n - 1) % 64);
            want_mixed++;
        }
        CHECK_OP(be, block_norms, .rows = s.rows, .cols = s.cols, .block_rows = block, .norm = norm.p,
                 .left = which == 1 ? left : NULL, .mixed = which == 1 ? &mixed : NULL, .w = w.p,
                 .sparse = which == 2 ? &sp : NULL, .keep = which == 1 ? keep : NULL);
        for (int64_t i = 0, k = 0; i < n; i++) {
            bool is_there;
            float x = dp_ref_norm(w.p, which == 2 ? &sp : NULL, s.cols, block, i, &is_there);

            if (!is_there)
                continue;
            if (!(isnan(x) && isnan(norm.p[k])) && memcmp(&x, &norm.p[k], sizeof x))
                fail_msg("(%lld, %lld), block of %lld rows: norm %lld is %.9g, want %.9g", (long long)s.rows,
                         (long long)s.cols, (long long)block, (long long)i, (double)norm.p[k], (double)x);
            k++;
        }
        if (which == 1) {
            assert_memory_equal(left, want, dp_bits_words(n) * sizeof *left);
            assert_true(mixed == want_mixed);
        }
        buf_free(w, "block_norms"), buf_free(norm, "block_norms");
        free(bits), free(keep), free(left), free(want);
        pattern_free(sp);
    }
}

static void norms(struct dp_backend *be)
{
    struct dp_err err = {0};
    float x[32] = {0};

    each_shape(be, norms_case);
    assert_int_equal(be->ops->block_norms(be, &(struct dp_block_norms){.rows = 6, .cols = 2, .block_rows = 4, .norm = x, .w = x},
                                          &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
}

static void norms_every(void **state)
{
    (void)state;
    each_backend(norms);
}

static void spread_case(struct dp_backend *be, struct shape s, int64_t block)
{
    int64_t n = s.rows / block * (s.cols / dp_block_cols(block)), words = (int64_t)dp_bits_words(s.rows * s.cols) + 1;
    uint64_t *bits = random_bits(n, 0.4, 7), *got = malloc((size_t)words * sizeof *got);
    uint64_t *want = malloc((size_t)words * sizeof *want);
    struct buf x = buf_noise(s.rows * s.cols, 1, 5), y = buf_copy(x, 2);

    memset(got, 0xa5, (size_t)words * sizeof *got), memset(want, 0xa5, (size_t)words * sizeof *want);
    dp_ref_spread_bits(&(struct dp_spread_bits){.rows = s.rows, .cols = s.cols, .block_rows = block, .keep = want,
                                                .bits = bits});
    CHECK_OP(be, spread_bits, .rows = s.rows, .cols = s.cols, .block_rows = block, .keep = got, .bits = bits);
    assert_memory_equal(got, want, (size_t)words * sizeof *got);
    x.p[0] = y.p[0] = NAN; /* a choice and no product */
    dp_ref_mask(&(struct dp_mask){.n = x.n, .x = x.p, .keep = want});
    CHECK_OP(be, mask, .n = y.n, .x = y.p, .keep = want);
    check_same(x, y, "mask");
    buf_free(x, "mask"), buf_free(y, "mask");
    free(bits), free(got), free(want);
}

static void spreads(struct dp_backend *be)
{
    each_shape(be, spread_case);
}

static void spread_and_mask_every(void **state)
{
    (void)state;
    each_backend(spreads);
}

static void gather_case(struct dp_backend *be, struct shape s, int64_t block)
{
    int64_t n = s.rows / block * (s.cols / dp_block_cols(block));

    for (int which = 0; which < 4; which++) { /* dense or sparse; much is left, or nothing */
        uint64_t *old = random_bits(n, 0.6, 7), *new = random_bits(n, which / 2 ? 0.0 : 0.5, 11);
        struct dp_sparse from = pattern_of(s.rows, s.cols, block, old), to;
        struct buf x[2], y[2], want[2];
        struct dp_gather a = {.n_arrays = 2, .to = &to, .from = which % 2 ? &from : NULL};

        for (size_t i = 0; which % 2 && i < dp_bits_words(n); i++)
            new[i] &= old[i];
        to = pattern_of(s.rows, s.cols, block, new);
        for (int i = 0; i < 2; i++) {
            x[i] = buf_noise(which % 2 ? from.nnz : s.rows * s.cols, i, (uint64_t)i + 3);
            y[i] = buf_noise(to.nnz, 1, 9);
            want[i] = buf_noise(to.nnz, 0, 10);
            a.x[i] = x[i].p;
            a.y[i] = want[i].p;
        }
        dp_ref_gather(&a);
        CHECK_OP(be, gather, .n_arrays = 2, .y = {y[0].p, y[1].p}, .x = {x[0].p, x[1].p}, .to = &to, .from = a.from);
        for (int i = 0; i < 2; i++) {
            check_same(want[i], y[i], "gather");
            buf_free(x[i], "gather"), buf_free(y[i], "gather"), buf_free(want[i], "gather");
        }
        pattern_free(from), pattern_free(to);
        free(old), free(new);
    }
}

static void gathers(struct dp_backend *be)
{
    uint64_t both = 3, second = 2;
    struct dp_sparse to = pattern_of(4, 2, 4, &both), from = pattern_of(4, 2, 4, &second);
    struct dp_err err = {0};
    float x[8] = {0}, y[8];

    each_shape(be, gather_case);
    assert_int_equal(be->ops->gather(be, &(struct dp_gather){.n_arrays = 1, .y = {y}, .x = {x}, .to = &to, .from = &from},
                                     &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    pattern_free(to), pattern_free(from);
}

static void gather_every(void **state)
{
    (void)state;
    each_backend(gathers);
}

static void merges(struct dp_backend *be)
{
    const uint32_t rows[] = {7, 0, 19, 3, 4, 11};

    for (int64_t n = 0; n <= 6; n++)
        for (int64_t c = 1; c < 140; c += c < 40 ? 1 : 33) {
            struct buf x = buf_noise(20 * c, 1, 5), y = buf_noise(20 * c, 2, 6), x2 = buf_copy(x, 0), y2 = buf_copy(y, 0);

            dp_ref_merge_rows(&(struct dp_merge_rows){.n = n, .c = c, .y = y.p, .x = x.p, .rows = rows});
            CHECK_OP(be, merge_rows, .n = n, .c = c, .y = y2.p, .x = x2.p, .rows = rows);
            check_same(x, x2, "merge_rows"), check_same(y, y2, "merge_rows");
            buf_free(x, "merge_rows"), buf_free(y, "merge_rows"), buf_free(x2, "merge_rows"), buf_free(y2, "merge_rows");
        }
}

static void merge_every(void **state)
{
    (void)state;
    each_backend(merges);
}

static void digests(struct dp_backend *be)
{
    static const int64_t pieces[] = {1, 4, 1000, 4096, 65536};
    struct dp_err err = {0};
    struct buf x = buf_noise(30000, 1, 5);

    for (size_t s = 0; s < N_SIZES && sizes[s] <= 30000 * 4; s++)
        for (size_t p = 0; p < 5; p++) {
            int64_t n = (sizes[s] + pieces[p] - 1) / pieces[p];
            struct buf got = buf_noise(n, 0, 1), want = buf_noise(n, 0, 1); /* uint32_t each */

            dp_ref_digest(&(struct dp_digest){.bytes = sizes[s], .piece = pieces[p], .crc = (void *)want.p, .x = x.p});
            CHECK_OP(be, digest, .bytes = sizes[s], .piece = pieces[p], .crc = (void *)got.p, .x = x.p);
            check_same(got, want, "digest");
            assert_int_equal(dp_crc32c_join(9, (void *)got.p, (size_t)pieces[p], (size_t)sizes[s]),
                             dp_crc32c(9, x.p, (size_t)sizes[s]));
            buf_free(got, "digest"), buf_free(want, "digest");
        }
    assert_int_equal(be->ops->digest(be, &(struct dp_digest){.bytes = 4, .x = x.p}, &err), -1);
    buf_free(x, "digest");
}

static void digest_every(void **state)
{
    (void)state;
    each_backend(digests);
}

/* ---- plans ---- */

static void same_dir(const struct dp_plan_dir *a, const struct dp_plan_dir *b, int64_t entries)
{
    size_t n = (size_t)(a->n_chunks * a->n_blocks) + 1;

    assert_true(a->rows == b->rows && a->cols == b->cols && a->chunk == b->chunk && a->block == b->block && a->row_width == b->row_width);
    assert_true(a->n_chunks == b->n_chunks && a->n_blocks == b->n_blocks && a->bytes == b->bytes);
    assert_memory_equal(a->first, b->first, n * sizeof *a->first);
    assert_memory_equal(a->first_offset, b->first_offset, n * sizeof *a->first_offset);
    assert_memory_equal(a->piece, b->piece, (a->first[n - 1] + DP_PLAN_SPARE) * sizeof *a->piece);
    assert_memory_equal(a->offset, b->offset, (size_t)entries * sizeof *a->offset);
    assert_int_equal(!a->values, !b->values);
}

/* Byte for byte, whatever the number of threads. */
static void plans_of_every_thread(void **state)
{
    struct dp_backend *one = dp_backend_create("cpu", 0, 1, NULL), *three = dp_backend_create("cpu", 0, 3, NULL);

    (void)state;
    for (int g = 0; g < DP_N_GRANULARITIES; g++)
        for (int density = 0; density < 3; density++) {
            const int64_t block = dp_granularity_at(g), rows = 1536, cols = 640, n = rows / block * (cols / dp_block_cols(block));
            uint64_t *bits = random_bits(n, density == 0 ? 0.02 : density == 1 ? 0.2 : 0.9, 21);
            struct dp_sparse a = pattern_of(rows, cols, block, bits), b = a;
            const struct dp_plan *p, *q;

            assert_int_equal(one->ops->sparse_prepare(one, &a, NULL), 0);
            assert_int_equal(three->ops->sparse_prepare(three, &b, NULL), 0);
            p = a.plan;
            q = b.plan;
            assert_int_equal(one->ops->sparse_bytes(one, &a), three->ops->sparse_bytes(three, &b));
            same_dir(&p->fwd, &q->fwd, a.nnz / (block == 1 ? 1 : 4));
            same_dir(&p->bwd, &q->bwd, a.nnz / (block == 1 ? 1 : 4));
            one->ops->sparse_release(one, &a);
            three->ops->sparse_release(three, &b);
            pattern_free(a);
            free(bits);
        }
    dp_backend_destroy(one);
    dp_backend_destroy(three);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(count_every),           cmocka_unit_test(choose_every), cmocka_unit_test(norms_every),
    cmocka_unit_test(spread_and_mask_every), cmocka_unit_test(gather_every), cmocka_unit_test(merge_every),
    cmocka_unit_test(digest_every),          cmocka_unit_test(plans_of_every_thread),
};
TEST_MAIN("kernel passes over weights", tests)
