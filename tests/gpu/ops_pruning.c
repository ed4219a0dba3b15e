/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes over weights: bits and orders, so compared bit by bit. Sizes around words of bits and around what a block of
 * threads takes, all shapes of blocks, ties, NaN, infinities and zeros. */
#include "kernels/reference_pruning.h"
#include "tests/gpu/ops.h"

static void *zeroed(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);

    if (!p)
        ops_die("out of memory");
    return p;
}

/* n bits, `of` 8 of which about are set. */
static uint64_t *random_bits(int64_t n, uint64_t of, uint64_t state)
{
    uint64_t *bits = zeroed((n + 63) / 64, sizeof *bits);

    for (int64_t i = 0; i < n; i++)
        if ((ops_random(&state) & 7) < of)
            dp_bits_set(bits, i);
    return bits;
}

static struct array array_bits(const uint64_t *bits, int64_t n)
{
    return array_of(bits, (int64_t)dp_bits_words(n), sizeof *bits);
}

/* Weights of which many are equal, some zero and some no numbers. The caller frees. */
static float *coarse(int64_t n)
{
    float *x = zeroed(n, sizeof *x);
    uint64_t state = 99 + ops_seed;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((int)(ops_random(&state) % 17) - 8) / 8.0f;
    if (n > 20)
        x[n / 3] = NAN, x[n / 2] = -INFINITY, x[n / 4] = 1e-42f, x[n / 5] = -0.0f;
    return x;
}

static void counts(int64_t n, const float *x, const uint64_t *left)
{
    static const uint32_t levels[][2] = {{20, 11}, {10, 10}, {0, 10}, {0, 0}}; /* shift, bits */
    struct array ax = array_of(x, n, sizeof *x), al = array_bits(left ? left : (const uint64_t[1]){0}, left ? n : 0);

    for (int i = 0; i < 4; i++) {
        const int64_t bins = 1 << levels[i][1];
        uint64_t *want = zeroed(bins, sizeof *want);
        struct dp_count_keys a = {.n = n, .x = x, .left = left, .prefix = n ? dp_ref_key(x[n / 2]) : 0, .shift = levels[i][0],
                                  .bits = levels[i][1], .bins = want};
        struct array got;

        want[0] = 7; /* it adds */
        got = array_of(want, bins, sizeof *want);
        dp_ref_count_keys(&a);
        OP(count_keys, .n = n, .x = ax.p, .left = left ? al.p : NULL, .prefix = a.prefix, .shift = a.shift, .bits = a.bits,
           .bins = got.p);
        check_bytes(&got, want, "bins");
        array_drop(&got);
        free(want);
    }
    array_drop(&ax), array_drop(&al);
}

static void chosen(int64_t n, const float *x, const uint64_t *left)
{
    struct array ax = array_of(x, n, sizeof *x), al = array_bits(left ? left : (const uint64_t[1]){0}, left ? n : 0);
    uint64_t *want = zeroed((n + 63) / 64, sizeof *want);

    for (int i = 0; i < 4; i++) {
        static const uint64_t ties[] = {0, 1, 37, UINT64_MAX};
        struct dp_choose a = {.n = n, .chosen = want, .x = x, .left = left, .key = n ? dp_ref_key(x[n / 7]) : 0, .ties = ties[i]};
        struct array got;

        memset(want, 0xff, dp_bits_words(n) * sizeof *want); /* it overwrites */
        got = array_bits(want, n);
        dp_ref_choose(&a);
        OP(choose, .n = n, .chosen = got.p, .x = ax.p, .left = left ? al.p : NULL, .key = a.key, .ties = a.ties);
        check_bytes(&got, want, "chosen");
        array_drop(&got);
    }
    array_drop(&ax), array_drop(&al);
    free(want);
}

static void masked(int64_t n, const float *x, const uint64_t *bits)
{
    struct array ax = array_of(x, n, sizeof *x), keep = array_bits(bits, n);
    float *want = zeroed(n, sizeof *want);

    memcpy(want, x, (size_t)n * sizeof *x);
    dp_ref_mask(&(struct dp_mask){.n = n, .x = want, .keep = bits});
    OP(mask, .n = n, .x = ax.p, .keep = keep.p);
    check_bytes(&ax, want, "mask");
    array_drop(&ax), array_drop(&keep);
    free(want);
}

static void elements(const void *size)
{
    const int64_t n = *(const int64_t *)size;
    float *x = coarse(n);
    uint64_t *left = random_bits(n, 3, 5);

    counts(n, x, NULL), counts(n, x, left);
    chosen(n, x, NULL), chosen(n, x, left);
    masked(n, x, left);
    free(x), free(left);
}

static void digests(const void *size)
{
    static const int64_t pieces[] = {1, 7, 1000, 65536};
    const int64_t n = *(const int64_t *)size;
    unsigned char *x = zeroed(n, 1);
    uint64_t state = 6 + ops_seed;
    struct array ax;

    for (int64_t i = 0; i < n; i++)
        x[i] = (unsigned char)ops_random(&state);
    ax = array_of(x, n, 1);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        const int64_t crcs = (n + pieces[i] - 1) / pieces[i];
        uint32_t *want = zeroed(crcs, sizeof *want);
        struct array got = array_of(want, crcs, sizeof *want);

        if (crcs < 2000) {
            dp_ref_digest(&(struct dp_digest){.bytes = n, .piece = pieces[i], .crc = want, .x = x});
            OP(digest, .bytes = n, .piece = pieces[i], .crc = got.p, .x = ax.p);
            check_bytes(&got, want, "digest");
        }
        array_drop(&got);
        free(want);
    }
    array_drop(&ax);
    free(x);
}

struct matrix {
    int64_t rows, cols, block;
};

static void matrices(const void *arg)
{
    const struct matrix m = *(const struct matrix *)arg;
    const int64_t n = m.rows * m.cols, blocks = n / dp_block_weights(m.block);
    uint64_t *bits = random_bits(blocks, 5, 8), *keep = zeroed((n + 63) / 64, sizeof *keep);
    struct array ab = array_bits(bits, blocks), ak = array_bits(keep, n), one = array_noise(n, "one"), two = array_noise(n, "two");
    uint32_t rows[3] = {(uint32_t)m.rows - 1, 0, (uint32_t)m.rows / 2};
    struct array listed = array_of(rows, m.rows > 2 ? 3 : 1, sizeof *rows);
    float *y = zeroed(n, sizeof *y), *z = zeroed(n, sizeof *z);

    OP(spread_bits, .rows = m.rows, .cols = m.cols, .block_rows = m.block, .keep = ak.p, .bits = ab.p);
    dp_ref_spread_bits(&(struct dp_spread_bits){.rows = m.rows, .cols = m.cols, .block_rows = m.block, .keep = keep, .bits = bits});
    check_bytes(&ak, keep, "spread");
    memcpy(y, one.host, (size_t)n * sizeof *y), memcpy(z, two.host, (size_t)n * sizeof *z);
    dp_ref_merge_rows(&(struct dp_merge_rows){.n = listed.n, .c = m.cols, .y = y, .x = z, .rows = rows});
    OP(merge_rows, .n = listed.n, .c = m.cols, .y = one.p, .x = two.p, .rows = listed.p);
    check_bytes(&one, y, "merged"), check_bytes(&two, z, "merged away");
    array_drop(&ab), array_drop(&ak), array_drop(&one), array_drop(&two), array_drop(&listed);
    free(bits), free(keep), free(y), free(z);
}

/* 2048 and 16384 elements are a block's of choose and count_keys; more than 1024 parts of choose take two in a thread. */
void test_pruning(void)
{
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 1000, 2049, 16400, 40000};
    static const int64_t bytes[] = {0, 1, 255, 257, 5003, 70000};
    static const struct matrix shapes[] = {{1, 1, 1}, {7, 9, 1}, {33, 65, 1}, {8, 13, 4}, {64, 96, 32}, {128, 64, 64}, {128, 256, 128}};
    static char text[96];

    ops_case = text;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(text, sizeof text, "n %lld", (long long)sizes[i]);
        ops_twice(elements, &sizes[i]);
    }
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        snprintf(text, sizeof text, "%lld bytes", (long long)bytes[i]);
        ops_twice(digests, &bytes[i]);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        snprintf(text, sizeof text, "(%lld, %lld) in blocks of %lld rows", (long long)shapes[i].rows, (long long)shapes[i].cols,
                 (long long)shapes[i].block);
        ops_twice(matrices, &shapes[i]);
    }
}
