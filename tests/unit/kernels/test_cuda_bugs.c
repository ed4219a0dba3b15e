/* SPDX-License-Identifier: BSD-3-Clause */
/* Planted faults (cuda_bugs/bugs.h): each is found with every seed, by the checker or by a result, and what has none
 * never. Prints how many seeds noticed with the checker, and from results alone: the table of doc/cuda.md, which has to
 * have a row for each. */
#include <stdbool.h>

#include "tests/unit/kernels/cuda_bugs/bugs.h"
#include "tests/unit/kernels/cuda_util.h"

#define SEEDS 6

static const struct {
    const char *where, *text;
} bugs[] = {
#define BUG_TEXT(name, where, text) {where, text},
    BUGS(BUG_TEXT)
};

/* Copies to and from the device; what fails stays in err. */
static void *up(struct dp_backend *be, const void *host, size_t bytes)
{
    void *p;

    DO(be, alloc, bytes, &p);
    DO(be, put, p, host, bytes);
    return p;
}

static float unit(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*seed >> 32) / 2147483648.0f;
}

/* y[i] is want[i], but for `tolerance`; NaN is not. */
static bool close_to(const float *y, const double *want, int n, double tolerance)
{
    for (int i = 0; i < n; i++)
        if (!((double)y[i] - want[i] <= tolerance && want[i] - (double)y[i] <= tolerance))
            return false;
    return true;
}

/* Each runs its kernel and says whether all was well. */
static bool tree_is_fine(struct dp_backend *be, enum bug bug)
{
    enum { N = 1000, SUMS = 4 };
    float x[N], y[SUMS], *d, *sums;
    double want[SUMS] = {0};
    uint64_t seed = 1;
    struct dp_err err;

    for (int i = 0; i < N; i++) {
        x[i] = unit(&seed);
        want[i / 256] += (double)x[i];
    }
    d = up(be, x, sizeof x);
    sums = up(be, x, sizeof y);
    return bugs_tree(be, bug, N, sums, d, &err) == 0 && be->ops->get(be, y, sums, sizeof y, &err) == 0 &&
           close_to(y, want, SUMS, 1e-4);
}

static bool rows_are_fine(struct dp_backend *be, enum bug bug)
{
    enum { ROWS = 5, C = 50 };
    float x[ROWS * C], y[ROWS * C], *d, *r;
    double want[ROWS * C];
    uint64_t seed = 2;
    struct dp_err err;

    for (int i = 0; i < ROWS * C; i++)
        x[i] = unit(&seed);
    for (int row = 0; row < ROWS; row++) {
        double mean = 0.0;

        for (int i = 0; i < C; i++)
            mean += (double)x[row * C + i] / C;
        for (int i = 0; i < C; i++)
            want[row * C + i] = (double)x[row * C + C - 1 - i] - mean;
    }
    d = up(be, x, sizeof x);
    r = up(be, x, sizeof y);
    return bugs_rows(be, bug, ROWS, r, d, &err) == 0 && be->ops->get(be, y, r, sizeof y, &err) == 0 &&
           close_to(y, want, ROWS * C, 1e-5);
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static bool product_is_fine(struct dp_backend *be, enum bug bug)
{
    enum { N = 100, K = 320, OUT = 64 };
    static uint16_t x[N * K], w[OUT * K];
    static float y[N * OUT];
    static double want[N * OUT];
    void *dx, *dw, *dy;
    uint64_t seed = 3;
    struct dp_err err;

    for (int i = 0; i < N * K; i++)
        x[i] = to_bf16(unit(&seed));
    for (int i = 0; i < OUT * K; i++)
        w[i] = to_bf16(unit(&seed));
    for (int i = 0; i < N; i++)
        for (int o = 0; o < OUT; o++) {
            want[i * OUT + o] = 0.0;
            for (int k = 0; k < K; k++)
                want[i * OUT + o] += from_bf16(x[i * K + k]) * from_bf16(w[o * K + k]);
        }
    dx = up(be, x, sizeof x);
    dw = up(be, w, sizeof w);
    dy = up(be, y, sizeof y);
    return bugs_product(be, bug, N, K, dy, dx, dw, &err) == 0 && be->ops->get(be, y, dy, sizeof y, &err) == 0 &&
           close_to(y, want, N * OUT, 1e-3);
}

static bool columns_are_fine(struct dp_backend *be, enum bug bug)
{
    enum { N = 90, C = 70 };
    float x[N * C], y[C], *d, *r;
    double want[C] = {0};
    uint64_t seed = 4;
    struct dp_err err;

    for (int i = 0; i < N * C; i++) {
        x[i] = unit(&seed);
        want[i % C] += (double)x[i];
    }
    d = up(be, x, sizeof x);
    r = up(be, x, sizeof y);
    return bugs_columns(be, bug, N, C, r, d, &err) == 0 && be->ops->get(be, y, r, sizeof y, &err) == 0 &&
           close_to(y, want, C, 1e-4);
}

static bool count_is_fine(struct dp_backend *be, enum bug bug)
{
    enum { N = 500 };
    uint32_t x[N], counts[16] = {0}, want[16] = {0}, *dx, *dc;
    uint64_t keep[(N + 63) / 64], *dk, seed = 5;
    struct dp_err err;

    for (int i = 0; i < (N + 63) / 64; i++) {
        unit(&seed);
        keep[i] = seed;
    }
    for (int i = 0; i < N; i++) {
        unit(&seed);
        x[i] = (uint32_t)(seed >> 40);
        want[x[i] % 16] += keep[i / 64] >> i % 64 & 1;
    }
    dx = up(be, x, sizeof x);
    dk = up(be, keep, sizeof keep);
    dc = up(be, counts, sizeof counts);
    return bugs_count(be, bug, N, dc, dx, dk, &err) == 0 && be->ops->get(be, counts, dc, sizeof counts, &err) == 0 &&
           memcmp(counts, want, sizeof want) == 0;
}

/* In on one lane, x + x on the next, out on the third; two rounds, so that everything is used again. Less than a page:
 * closed pages are tests/unit/kernels/test_cuda_backend.c's. */
static bool lanes_are_fine(struct dp_backend *be, enum bug bug)
{
    enum { N = 300 };
    const struct dp_backend_ops *ops = be->ops;
    float host[N] = {0}, *in, *out[2], *d, *r;
    const float *x;
    dp_ticket came = 0, added = 0, gone = 0;
    struct dp_err err;
    bool fine = true;

    DO(be, alloc_staging, sizeof host, (void **)&in);
    DO(be, alloc_staging, sizeof host, (void **)&out[0]);
    DO(be, alloc_staging, sizeof host, (void **)&out[1]);
    d = up(be, host, sizeof host);
    r = up(be, host, sizeof host);
    x = bug == BUG_LANES_HOST ? host : d;
    if (bug == BUG_LANES_FREED) {
        ops->free(be, r);
        DO(be, sync);
    }
    for (int round = 0; round < 2; round++) {
        if (bug != BUG_LANES_STAGING && ops->await(be, came, UINT64_MAX, &err) < 0)
            return false;
        for (int i = 0; i < N; i++)
            in[i] = host[i] = (float)(i + round);
        if ((bug != BUG_LANES_AGAIN && ops->after(be, DP_LANE_IN, added, &err) < 0) ||
            ops->move(be, DP_LANE_IN, d, in, sizeof host, &err) < 0 || ops->mark(be, DP_LANE_IN, &came, &err) < 0 ||
            (bug != BUG_LANES_IN && ops->after(be, DP_LANE_COMPUTE, came, &err) < 0) ||
            ops->after(be, DP_LANE_COMPUTE, gone, &err) < 0 ||
            ops->add(be, &(struct dp_add){.n = N, .y = r, .a = x, .b = x}, &err) < 0 ||
            ops->mark(be, DP_LANE_COMPUTE, &added, &err) < 0 ||
            (bug != BUG_LANES_OUT && ops->after(be, DP_LANE_OUT, added, &err) < 0) ||
            ops->move(be, DP_LANE_OUT, out[round], r, sizeof host, &err) < 0 ||
            ops->mark(be, DP_LANE_OUT, &gone, &err) < 0)
            return false;
    }
    if (bug != BUG_LANES_EARLY && ops->await(be, gone, UINT64_MAX, &err) < 0)
        return false;
    for (int i = 0; i < 2 * N; i++)
        fine = fine && out[i / N][i % N] == 2.0f * (float)(i % N + i / N);
    return fine && ops->sync(be, &err) == 0;
}

static bool is_fine(enum bug bug, uint64_t seed, bool checked)
{
    static const struct {
        const char *where;
        bool (*run)(struct dp_backend *be, enum bug bug);
    } runs[] = {{"tree", tree_is_fine},       {"rows", rows_are_fine},  {"product", product_is_fine},
                {"columns", columns_are_fine}, {"count", count_is_fine}, {"lanes", lanes_are_fine}};
    bool fine = true;

    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        if (bug == BUG_NONE || !strcmp(bugs[bug].where, runs[i].where)) {
            struct dp_backend *be =
                open_emulator(&(struct dp_emu_settings){.seed = seed, .unchecked = !checked}, NULL);

            fine = runs[i].run(be, bug) && fine;
            if (bug == BUG_NONE && !fine)
                fail_msg("%s, seed %d: %s", runs[i].where, (int)seed, dp_emu_finding());
            close_emulator(be);
        }
    return fine;
}

static void nothing_is_found_where_nothing_is(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3 * SEEDS; seed++)
        for (int checked = 0; checked < 2; checked++)
            assert_true(is_fine(BUG_NONE, seed, checked));
}

/* doc/cuda.md; the caller frees. */
static char *read_document(void)
{
    const char *source = getenv("DP_SRCDIR");
    char path[4096], *text = calloc(1, 1 << 20);
    FILE *f;

    snprintf(path, sizeof path, "%s/doc/cuda.md", source ? source : ".");
    f = fopen(path, "r");
    if (!f)
        fail_msg("%s cannot be read", path);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void every_fault_is_found(void **state)
{
    char *document = read_document(), row[200];

    (void)state;
    for (int b = 1; b < N_BUGS; b++) {
        int checked = 0, results = 0;

        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            checked += !is_fine((enum bug)b, seed, true);
            results += !is_fine((enum bug)b, seed, false);
        }
        snprintf(row, sizeof row, "| %s | %s | %d/%d | ", bugs[b].where, bugs[b].text, checked, SEEDS);
        print_message("# %s%d/%d |\n", row, results, SEEDS);
        assert_int_equal(checked, SEEDS);
        if (!strstr(document, row))
            fail_msg("doc/cuda.md has no row \"%s\"", row);
    }
    assert_true(N_BUGS > 20);
    free(document);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_is_found_where_nothing_is),
    cmocka_unit_test(every_fault_is_found),
};
TEST_MAIN("CUDA kernels with planted faults", tests)
