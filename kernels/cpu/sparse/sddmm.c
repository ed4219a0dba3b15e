/* SPDX-License-Identifier: BSD-3-Clause */
/* Weight gradient with a sparse w (SDDMM): dw += dy^T x at the nonzeros only.
 *
 * A piece of a row (plan.h) keeps the dy of its row in registers, 64 tokens, or with AVX-512 128 tokens of
 * two tiles; each nonzero is their product with one column of x, summed over the lanes. Summing lanes goes
 * to the ports that multiply, so two tiles are multiplied before it and eight nonzeros (AVX-512) are summed
 * together: 2.9 instructions beside 8 multiplies.
 * Blocks of 4 x 1: two columns of x meet the dy of four rows, so that 8 multiplies take 6 loads, and dy needs
 * no registers of its own.
 * Each element of dw adds up its tiles in order, by twos from token 0 on, whatever the formats and threads.
 */
#include "common/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sparse/fetch.h"
#include "kernels/cpu/sparse/plan.h"

#define AHEAD DP_PLAN_SPARE
#define FETCHES 4 /* at a time: x and dy of two tiles */

#define N_DY (DP_TILE / VW < 8 ? DP_TILE / VW : 8) /* registers of dy from a tile */
#define SPAN (N_DY * VW)                           /* tokens in them */
#define MAX_TILES (N_DY < 8 ? 2 : 1)               /* at once */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_any __attribute__((vector_size(16), aligned(4), may_alias));

#if VW == 16
/* Of four vectors: in each 128 bits, a quarter of their four sums. */
static inline __attribute__((always_inline)) __m512 sum_quarters(const vf s[4])
{
    __m512 a = (__m512)s[0], b = (__m512)s[1], c = (__m512)s[2], d = (__m512)s[3];
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));

    return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
}

/* g[0..8) += the sums of the lanes of eight vectors. */
static inline __attribute__((always_inline)) void add_sum8(float *g, const vf s[8])
{
    __m512 lo = sum_quarters(s), hi = sum_quarters(s + 4);
    __m512 half = _mm512_add_ps(_mm512_shuffle_f32x4(lo, hi, 0x88), _mm512_shuffle_f32x4(lo, hi, 0xdd));

    half = _mm512_shuffle_f32x4(half, half, 0xd8); /* lo hi lo hi */
    _mm256_storeu_ps(g, _mm256_add_ps(_mm256_loadu_ps(g), _mm256_add_ps(_mm512_castps512_ps256(half),
                                                                        _mm512_extractf32x8_ps(half, 1))));
}
#endif

/* The sums of the lanes of four vectors, one per lane of the result. */
static inline __attribute__((always_inline)) v4 sum4(const vf s[4])
{
#if VW == 4
    v4 ab = (v4)VF_ZIP_LO(s[0], s[1]) + (v4)VF_ZIP_HI(s[0], s[1]);
    v4 cd = (v4)VF_ZIP_LO(s[2], s[3]) + (v4)VF_ZIP_HI(s[2], s[3]);

    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#else
#if VW == 8
    __m256 ab = _mm256_hadd_ps((__m256)s[0], (__m256)s[1]), cd = _mm256_hadd_ps((__m256)s[2], (__m256)s[3]);
    __m256 half = _mm256_hadd_ps(ab, cd);
#else
    __m512 sum = sum_quarters(s);
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
#endif

    return (v4)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#endif
}

/* g[0..k) += the first k (1 to 3) numbers of sum. */
static inline __attribute__((always_inline)) void add_first(float *g, v4 sum, int64_t k)
{
#if VW == 16
    __mmask8 mask = (__mmask8)((1u << k) - 1);

    _mm_mask_storeu_ps(g, mask, _mm_add_ps(_mm_maskz_loadu_ps(mask, g), (__m128)sum));
#else
    for (int64_t u = 0; u < k; u++)
        g[u] += sum[u];
#endif
}

/* Keep the compiler from writing a pointer as another one plus a distance in yet another register: it would
 * move half of the loop's pointers to the stack. */
#define HIDE(pointer) __asm__("" : "+r"(pointer))

/* One block of columns of one chunk of rows, for one tile or two. */
struct step {
    const struct dp_plan_dir *d;
    int64_t at;                     /* chunk * n_blocks + block */
    const float *dy, *x;            /* (rows of the chunk, 64), (columns of the block, 64) */
    int64_t next_dy, next_x;        /* from a tile to the next one */
    float *dw;
    struct dp_fetch fetch[FETCHES]; /* at the start of the walk */
};

/* s[u] = lanes of (dy in registers) * (column of x at offset[u]), for n columns. */
static inline __attribute__((always_inline)) void multiply(vf *s, const vf *dy, const float *x, int64_t next_x,
                                                           const uint16_t *offset, const int n, const int tiles)
{
    const float *in[8];

    DP_UNROLL
    for (int u = 0; u < n; u++) {
        in[u] = (const float *)((const char *)x + (size_t)offset[u] * 8);
        s[u] = dy[0] * vf_load(in[u]);
    }
    DP_UNROLL
    for (int i = 1; i < tiles * N_DY; i++) {
        DP_UNROLL
        for (int u = 0; u < n; u++) {
            if (i == N_DY) {
                in[u] += next_x;
                HIDE(in[u]);
            }
            s[u] += dy[i] * vf_load(in[u] + i % N_DY * VW);
        }
    }
}

/* A piece of `count` nonzeros: g += for tokens span .. span + SPAN of each tile. */
static inline __attribute__((always_inline)) void add_piece(const struct step *s, float *g, int64_t row,
                                                            int64_t count, const uint16_t *offset, int span,
                                                            const int tiles)
{
    const float *x = s->x + span, *from = s->dy + row * DP_TILE + span;
    vf dy[MAX_TILES * N_DY], lanes[8];
    int64_t j = 0;

    DP_UNROLL
    for (int i = 0; i < tiles * N_DY; i++)
        dy[i] = vf_load(from + i / N_DY * s->next_dy + i % N_DY * VW);
#if VW == 16
    for (; j + 8 <= count; j += 8) {
        multiply(lanes, dy, x, s->next_x, offset + j, 8, tiles);
        add_sum8(g + j, lanes);
    }
#endif
    for (; j + 4 <= count; j += 4) {
        multiply(lanes, dy, x, s->next_x, offset + j, 4, tiles);
        *(v4_any *)(g + j) += sum4(lanes);
    }
    if (j == count)
        return;
    lanes[1] = lanes[2] = lanes[3] = (vf){0};
    if (count - j == 1)
        multiply(lanes, dy, x, s->next_x, offset + j, 1, tiles);
    else if (count - j == 2)
        multiply(lanes, dy, x, s->next_x, offset + j, 2, tiles);
    else
        multiply(lanes, dy, x, s->next_x, offset + j, 3, tiles);
    add_first(g + j, sum4(lanes), count - j);
}

#define BLOCK_TILES (VW == 16 ? 2 : 1) /* of a piece of four rows at once */

/* s[4 c + r] = lanes of dy row r * column c of x, for n columns and four rows. */
static inline __attribute__((always_inline)) void multiply_quads(vf *s, const float *dy, int64_t next_dy,
                                                                 const float *const x[], int64_t next_x,
                                                                 const int n, const int tiles)
{
    const int per_tile = DP_TILE / VW;

    DP_UNROLL
    for (int i = 0; i < tiles * per_tile; i++) {
        const float *rows = dy + i / per_tile * next_dy + i % per_tile * VW;
        vf in[2];

        DP_UNROLL
        for (int c = 0; c < n; c++)
            in[c] = vf_load(x[c] + i / per_tile * next_x + i % per_tile * VW);
        DP_UNROLL
        for (int r = 0; r < 4; r++) {
            vf d = vf_load(rows + r * DP_TILE);

            DP_UNROLL
            for (int c = 0; c < n; c++)
                s[4 * c + r] = i == 0 ? d * in[c] : s[4 * c + r] + d * in[c];
        }
    }
}

/* A piece of four rows with `count` blocks: g += */
static inline __attribute__((always_inline)) void add_quads(const struct step *s, float *g, int64_t channel,
                                                            int64_t count, const uint16_t *offset, const int tiles)
{
    const float *dy = s->dy + channel * DP_TILE;
    const float *x[2];
    vf lanes[8];
    int64_t j = 0;

    for (; j + 2 <= count; j += 2) {
        x[0] = (const float *)((const char *)s->x + (size_t)offset[j] * 8);
        x[1] = (const float *)((const char *)s->x + (size_t)offset[j + 1] * 8);
        multiply_quads(lanes, dy, s->next_dy, x, s->next_x, 2, tiles);
#if VW == 16
        add_sum8(g + 4 * j, lanes);
#else
        *(v4_any *)(g + 4 * j) += sum4(lanes);
        *(v4_any *)(g + 4 * j + 4) += sum4(lanes + 4);
#endif
    }
    if (j < count) {
        x[0] = (const float *)((const char *)s->x + (size_t)offset[j] * 8);
        multiply_quads(lanes, dy, s->next_dy, x, s->next_x, 1, tiles);
        *(v4_any *)(g + 4 * j) += sum4(lanes);
    }
}

static inline __attribute__((always_inline)) void walk_blocks(const struct step *s, const int tiles)
{
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];
    struct dp_fetch soon[FETCHES];

    memcpy(soon, s->fetch, sizeof soon);
    for (; e < end; offset += e->count, e++) {
        DP_UNROLL
        for (int i = 0; i < FETCHES; i++)
            dp_fetch_some(&soon[i]);
        __builtin_prefetch(s->dw + e[AHEAD].start * (int64_t)4, 1);
        add_quads(s, s->dw + e->start * (int64_t)4, e->row * (int64_t)4, e->count, offset, tiles);
    }
}

static inline __attribute__((always_inline)) void walk_single(const struct step *s, const int tiles)
{
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];
    struct dp_fetch soon[FETCHES];

    memcpy(soon, s->fetch, sizeof soon);
    for (; e < end; offset += e->count, e++) {
        DP_UNROLL
        for (int i = 0; i < FETCHES; i++)
            dp_fetch_some(&soon[i]);
        __builtin_prefetch(s->dw + e[AHEAD].start, 1);
        __builtin_prefetch(s->dw + e[AHEAD].start + 16, 1);
        for (int span = 0; span < DP_TILE; span += SPAN)
            add_piece(s, s->dw + e->start, e->row, e->count, offset, span, tiles);
    }
}

/* One function for each walk, so that each has the registers for itself. */
typedef void walk_fn(const struct step *s);

static __attribute__((noinline)) void walk_single_1(const struct step *s)
{
    walk_single(s, 1);
}

static __attribute__((noinline)) void walk_single_2(const struct step *s)
{
    walk_single(s, MAX_TILES);
}

static __attribute__((noinline)) void walk_blocks_1(const struct step *s)
{
    walk_blocks(s, 1);
}

static __attribute__((noinline)) void walk_blocks_2(const struct step *s)
{
    walk_blocks(s, BLOCK_TILES);
}

/* dw += for tokens that lie packed. */
struct gradient {
    const struct dp_plan_dir *d;
    int64_t tiles;
    int64_t group, n_groups; /* blocks of columns in a task, groups of them */
    const float *dy, *x;     /* (tiles, d->rows, 64), (tiles, d->cols, 64) */
    float *dw;
};

/* A step of a task: block b of [b0, b1), tile t and perhaps the one behind it. */
struct turn {
    int64_t chunk, b0, b1, b, t, tiles;
};

/* What is fetched meanwhile: x of the next turn, and a share of the next tiles' dy. */
static void set_fetch(const struct gradient *f, struct step *s, const struct turn *now)
{
    const struct dp_plan_dir *d = f->d;
    int64_t pieces = (int64_t)d->first[s->at + 1] - d->first[s->at];
    int64_t dy_t = now->t + now->tiles, row0 = now->chunk * d->chunk;
    int64_t rows = dp_least_i64(d->rows - row0, d->chunk), share = (rows + now->b1 - now->b0 - 1) / (now->b1 - now->b0);
    int64_t row = (now->b - now->b0) * share;
    bool is_last = now->b + 1 == now->b1;
    int64_t x_t = is_last ? dy_t : now->t, col = (is_last ? now->b0 : now->b + 1) * d->block;

    for (int64_t i = 0; i < 2; i++) {
        const float *x = f->x + (x_t + i) * s->next_x + col * DP_TILE;
        const float *dy = f->dy + (dy_t + i) * s->next_dy + (row0 + row) * DP_TILE;

        s->fetch[i] = dp_fetch_tile(i < now->tiles && x_t + i < f->tiles ? x : NULL, dp_least_i64(d->cols - col, d->block), pieces);
        s->fetch[2 + i] = dp_fetch_tile(i < now->tiles && dy_t + i < f->tiles ? dy : NULL, dp_least_i64(rows - row, share),
                                        pieces);
    }
}

/* A group of blocks of a chunk: elements of dw that no other task adds to. Its blocks take turns with the same
 * tiles, so that dy of the chunk is fetched once for all of them. */
static int gradient_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct gradient *f = arg;
    const struct dp_plan_dir *d = f->d;
    struct turn now = {.chunk = i / f->n_groups, .b0 = i % f->n_groups * f->group};
    struct step s = {.d = d, .next_dy = d->rows * DP_TILE, .next_x = d->cols * DP_TILE, .dw = f->dw};
    const bool is_single = d->row_width == 1;
    walk_fn *const walk_1 = is_single ? walk_single_1 : walk_blocks_1;
    walk_fn *const walk_2 = is_single ? walk_single_2 : walk_blocks_2;
    const int64_t most = is_single ? MAX_TILES : BLOCK_TILES;

    (void)thread;
    (void)err;
    now.b1 = dp_least_i64(now.b0 + f->group, d->n_blocks);
    for (; now.t < f->tiles; now.t += now.tiles) {
        now.tiles = f->tiles - now.t >= most ? most : 1;
        s.dy = f->dy + now.t * s.next_dy + now.chunk * d->chunk * DP_TILE;
        for (now.b = now.b0; now.b < now.b1; now.b++) {
            s.at = now.chunk * d->n_blocks + now.b;
            s.x = f->x + now.t * s.next_x + now.b * d->block * DP_TILE;
            set_fetch(f, &s, &now);
            (now.tiles == 2 ? walk_2 : walk_1)(&s);
        }
    }
    return 0;
}

/* Blocks of a task. 768 columns, with dy and x of two tiles and dw somewhat more than a mebibyte, fetch dy half as
 * often as 384 (3 to 8 % less time with 1024 tokens), but may be too few tasks to share, or an odd number of them, which
 * two threads share badly. No block of plan.c that this walks is wider than 384. */
static int64_t choose_group(const struct dp_plan_dir *d)
{
    int64_t most = 768 / d->block, tasks = d->n_chunks * ((d->n_blocks + most - 1) / most);

    return tasks >= 4 && tasks % 2 == 0 ? most : (most + 1) / 2;
}

int DP_FN(sddmm)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;
    const struct dp_plan_dir *d = dp_sparse_block(a->sparse) > 1 ? &plan->bwd : &plan->fwd; /* many tasks */
    int64_t x_packs = a->x_format == DP_ROWS ? d->cols : 0, dy_packs = a->dy_format == DP_ROWS ? d->rows : 0;
    int64_t group = x_packs + dy_packs ? dp_pack_group(a->n, x_packs + dy_packs) : dp_tiles(a->n) * DP_TILE;
    const int64_t group_blocks = choose_group(d);
    const float *x = a->x, *dy = a->dy;
    float *packed = dp_cpu_scratch(be, group * (x_packs + dy_packs), err);

    if (!packed)
        return -1;
    for (int64_t g = 0; g < a->n; g += group) {
        int64_t tokens = a->n - g < group ? a->n - g : group;
        struct gradient f = {.d = d, .tiles = dp_tiles(tokens), .group = group_blocks, .dw = a->dw,
                             .n_groups = (d->n_blocks + group_blocks - 1) / group_blocks,
                             .x = x + g * d->cols, .dy = dy + g * d->rows};

        if (x_packs) {
            if (DP_FN(pack_all)(be, packed, f.x, tokens, d->cols, err) < 0)
                return -1;
            f.x = packed;
        }
        if (dy_packs) {
            if (DP_FN(pack_all)(be, packed + group * x_packs, f.dy, tokens, d->rows, err) < 0)
                return -1;
            f.dy = packed + group * x_packs;
        }
        if (dp_cpu_parallel(be, d->n_chunks * f.n_groups, gradient_task, &f, err) < 0)
            return -1;
    }
    return 0;
}

#define SUM_CHANNELS 256 /* of dbias in a task */

struct tile_sums {
    float *dbias;
    const float *dy;
    int64_t tiles, c;
};

static int tile_sums_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct tile_sums *f = arg;
    int64_t end = (task + 1) * SUM_CHANNELS < f->c ? (task + 1) * SUM_CHANNELS : f->c;

    (void)thread;
    (void)err;
    for (int64_t r = task * SUM_CHANNELS; r < end; r += 4) {
        int64_t k = end - r < 4 ? end - r : 4;
        vf sum[4] = {{0}, {0}, {0}, {0}};

        for (int64_t t = 0; t < f->tiles; t++)
            for (int64_t u = 0; u < k; u++)
                for (int i = 0; i < DP_TILE; i += VW)
                    sum[u] += vf_load(f->dy + (t * f->c + r + u) * DP_TILE + i);
        if (k == 4)
            *(v4_any *)(f->dbias + r) += sum4(sum);
        else
            add_first(f->dbias + r, sum4(sum), k);
    }
    return 0;
}

int DP_FN(tile_sums)(struct dp_backend *be, float *dbias, const float *dy, int64_t n, int64_t c,
                     struct dp_err *err)
{
    struct tile_sums f = {.dbias = dbias, .dy = dy, .tiles = dp_tiles(n), .c = c};

    return dp_cpu_parallel(be, (c + SUM_CHANNELS - 1) / SUM_CHANNELS, tile_sums_task, &f, err);
}
