/* Forward and input gradient with a sparse w: only the nonzeros are touched.
 *
 * One piece of a row (plan.h) holds the 64 sums of a token tile in registers and adds one fused multiply
 * per nonzero and register; x comes straight from the tile. So a multiply needs a load of its own, and
 * loads are the limit: two a cycle. Besides, a nonzero costs a broadcast and a quarter of a load of its
 * offset (four are loaded together and taken apart by the integer units, which are idle: 6 to 10 % here),
 * and a piece its 64 sums from and to the second-level cache.
 *
 * With AVX-512 a tile is four registers, and four sums in flight are not enough where a multiply takes
 * four cycles and two begin in each: two pieces of equal count are done together. A sum adds up its row's
 * nonzeros from left to right whatever the version, the orders or the threads.
 *
 * Blocks of 4 x 1: forward, a column of x is loaded once for the sums of four rows, so the multiplies are the
 * limit; backward, four columns of dy follow each other, and one offset serves them.
 * Measured numbers: `make bench`, doc/kernels.md.
 */
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/plan.h"

/* Registers that hold sums of a piece: the tile, or as much of it as leaves registers for the operands. */
#define N_ACC (DP_TILE / VW < 8 ? DP_TILE / VW : 8)
#define SPAN (N_ACC * VW)           /* tokens in them */
#define TOGETHER (N_ACC < 8 ? 2 : 1) /* pieces at once */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "four offsets are read as one number");

/* One block of columns of one chunk of rows, for one tile. */
struct step {
    const struct dp_plan_dir *d;
    int64_t at;                /* chunk * n_blocks + block */
    const float *x;            /* (columns of the block, 64) */
    float *y;                  /* (rows of the chunk, 64) */
    bool is_first;             /* y = bias + start + the products; else y += */
    const float *bias, *start; /* (rows), and like y; NULL: 0 */
};

/* What n registers of sums of a channel begin with; at: of the first one in y. */
static inline __attribute__((always_inline)) void start_sums(vf *acc, const int n, const struct step *s,
                                                             int64_t channel, int64_t at)
{
    const float *from = s->is_first ? s->start : s->y;
    vf bias = s->is_first && s->bias ? vf_set1(s->bias[channel]) : (vf){0};

    DP_UNROLL
    for (int i = 0; i < n; i++)
        acc[i] = from ? vf_load(from + at + i * VW) : bias;
    if (!s->is_first || !from)
        return;
    DP_UNROLL
    for (int i = 0; i < n; i++)
        acc[i] += bias;
}

static inline const float *column(const float *x, uint16_t offset)
{
    return (const float *)((const char *)x + (size_t)offset * 8);
}

/* An entry of `width` neighbouring columns. */
static inline __attribute__((always_inline)) void add_entry(vf acc[N_ACC], const float *x, uint16_t offset,
                                                            const float *values, const int width)
{
    const float *in = column(x, offset);

    DP_UNROLL
    for (int c = 0; c < width; c++) {
        vf w = vf_set1(values[c]);

        DP_UNROLL
        for (int i = 0; i < N_ACC; i++)
            acc[i] += w * vf_load(in + c * DP_TILE + i * VW);
    }
}

/* `rows` pieces of equal count, one behind the other. */
static inline __attribute__((always_inline)) void add_pieces(const struct step *s, const struct dp_plan_piece *e,
                                                             const uint16_t *offset, const float *values,
                                                             const int rows, const int width)
{
    const int64_t count = e->count;

    for (int span = 0; span < DP_TILE; span += SPAN) {
        const float *x = s->x + span;
        vf acc[TOGETHER][N_ACC];
        int64_t j = 0;

        DP_UNROLL
        for (int r = 0; r < rows; r++)
            start_sums(acc[r], N_ACC, s, e[r].row, (int64_t)e[r].row * DP_TILE + span);
        for (; width == 1 && j + 4 <= count; j += 4) {
            uint64_t four[TOGETHER];

            DP_UNROLL
            for (int r = 0; r < rows; r++)
                memcpy(&four[r], offset + r * count + j, sizeof four[r]);
            DP_UNROLL
            for (int u = 0; u < 4; u++) {
                DP_UNROLL
                for (int r = 0; r < rows; r++)
                    add_entry(acc[r], x, (uint16_t)(four[r] >> 16 * u), values + r * count + j + u, 1);
            }
        }
        for (; j < count; j++) {
            DP_UNROLL
            for (int r = 0; r < rows; r++)
                add_entry(acc[r], x, offset[r * count + j], values + (r * count + j) * width, width);
        }
        DP_UNROLL
        for (int r = 0; r < rows; r++) {
            DP_UNROLL
            for (int i = 0; i < N_ACC; i++)
                vf_store(s->y + (int64_t)e[r].row * DP_TILE + span + i * VW, acc[r][i]);
        }
    }
}

static inline __attribute__((always_inline)) void run_rows(const struct step *s, const int width)
{
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];
    const float *values = s->d->values + (int64_t)s->d->first_offset[s->at] * width;
    int64_t count;

    for (; e < end; offset += count, values += count * width) {
        count = e->count;
        if (TOGETHER == 2 && e + 1 < end && e[1].count == count) {
            add_pieces(s, e, offset, values, TOGETHER, width);
            e += TOGETHER;
            count *= TOGETHER;
        } else {
            add_pieces(s, e++, offset, values, 1, width);
        }
    }
}

#define QUAD_ACC (VW == 16 ? 4 : 2) /* registers of sums for each of four rows */
#define QUAD_SPAN (QUAD_ACC * VW)

/* A piece of four rows. */
static inline __attribute__((always_inline)) void add_quad(const struct step *s, int64_t channel, int64_t count,
                                                           const uint16_t *offset, const float *values)
{
    for (int span = 0; span < DP_TILE; span += QUAD_SPAN) {
        int64_t at = channel * DP_TILE + span;
        vf acc[4][QUAD_ACC];

        DP_UNROLL
        for (int r = 0; r < 4; r++)
            start_sums(acc[r], QUAD_ACC, s, channel + r, at + r * DP_TILE);
        for (int64_t j = 0; j < count; j++) {
            const float *in = column(s->x + span, offset[j]);
            vf x[QUAD_ACC];

            DP_UNROLL
            for (int i = 0; i < QUAD_ACC; i++)
                x[i] = vf_load(in + i * VW);
            DP_UNROLL
            for (int r = 0; r < 4; r++) {
                vf w = vf_set1(values[4 * j + r]);

                DP_UNROLL
                for (int i = 0; i < QUAD_ACC; i++)
                    acc[r][i] += w * x[i];
            }
        }
        DP_UNROLL
        for (int r = 0; r < 4; r++) {
            DP_UNROLL
            for (int i = 0; i < QUAD_ACC; i++)
                vf_store(s->y + at + r * DP_TILE + i * VW, acc[r][i]);
        }
    }
}

static void run_quads(const struct step *s)
{
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];
    const float *values = s->d->values + (int64_t)s->d->first_offset[s->at] * 4;

    for (; e < end; offset += e->count, values += e->count * (int64_t)4, e++)
        add_quad(s, e->row * (int64_t)4, e->count, offset, values);
}

static void run_step(const struct step *s)
{
    if (s->d->row_width == 4)
        run_quads(s);
    else if (s->d->col_width == 4)
        run_rows(s, 4);
    else
        run_rows(s, 1);
}

#define SUMS ((int64_t)DP_PLAN_CHUNK * DP_TILE) /* of a task */

/* y (n, d->rows) = x (n, d->cols) times the matrix of d, transposed, and what comes before and after. */
struct product {
    const struct dp_plan_dir *d;
    int64_t n;
    enum dp_token_order x_order, y_order;
    const float *x;
    float *y;
    const float *bias, *start; /* start: in y's order */
    float *gelu;               /* gelu(y), or gelu(gelu_x) where that is given */
    const float *gelu_x;
    float *sums;               /* y in rows: SUMS for each thread */
    int64_t first;             /* token that x begins with */
    int64_t tokens;            /* of x */
};

static void finish(const struct product *p, int64_t at, int64_t count)
{
    if (p->gelu_x)
        dp_times_gelu_slope(p->y + at, p->gelu ? p->gelu + at : NULL, p->gelu_x + at, count);
    else if (p->gelu)
        dp_finish_row(p->y + at, NULL, NULL, p->gelu + at, count);
}

/* What follows the product of a tile whose n tokens begin with `token`; y: its sums. */
static void finish_tile(const struct product *p, int64_t token, int64_t n, int64_t row, int64_t rows, const float *y)
{
    int64_t at = token * p->d->rows + row;

    if (p->y_order == DP_TILES) {
        finish(p, token * p->d->rows + row * DP_TILE, rows * DP_TILE);
        return;
    }
    DP_FN(unpack)(p->y + at, p->d->rows, y, n, rows);
    for (int64_t r = 0; r < n; r++, at += p->d->rows)
        finish(p, at, rows);
}

/* Chunk i / tiles, tile i % tiles. */
static int product_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct product *p = arg;
    const struct dp_plan_dir *d = p->d;
    int64_t tiles = dp_tiles(p->tokens), c = i / tiles, t = i % tiles * DP_TILE, token = p->first + t;
    int64_t row = c * DP_PLAN_CHUNK, rows = d->rows - row < DP_PLAN_CHUNK ? d->rows - row : DP_PLAN_CHUNK;
    int64_t n = p->tokens - t < DP_TILE ? p->tokens - t : DP_TILE, at = token * d->rows + row * DP_TILE;
    bool is_tile = p->y_order == DP_TILES;
    struct step s = {.d = d, .y = is_tile ? p->y + at : p->sums + thread * SUMS,
                     .bias = p->bias ? p->bias + row : NULL};

    (void)err;
    if (p->start) {
        s.start = is_tile ? p->start + at : s.y;
        if (!is_tile)
            DP_FN(pack)(s.y, p->start + token * d->rows + row, d->rows, n, rows);
    }
    for (int64_t b = 0; b < d->n_blocks; b++) {
        s.at = c * d->n_blocks + b;
        s.x = p->x + (t * d->cols + b * d->block * DP_TILE);
        s.is_first = b == 0;
        run_step(&s);
    }
    finish_tile(p, token, n, row, rows, s.y);
    return 0;
}

static int run_product(struct dp_backend *be, struct product *p, struct dp_err *err)
{
    const struct dp_cpu *cpu = be->ctx;
    const struct dp_plan_dir *d = p->d;
    const float *x = p->x;
    bool packs = p->x_order == DP_ROWS;
    int64_t group = packs ? dp_pack_group(p->n, d->cols) : dp_tiles(p->n) * DP_TILE;
    int64_t sums = p->y_order == DP_ROWS ? cpu->threads * SUMS : 0;
    float *packed = dp_cpu_scratch(be, sums + (packs ? group * d->cols : 0), err);

    if (!packed)
        return -1;
    p->sums = packed;
    packed += sums;
    for (p->first = 0; p->first < p->n; p->first += group) {
        p->tokens = p->n - p->first < group ? p->n - p->first : group;
        p->x = packs ? packed : x;
        if (packs && DP_FN(pack_all)(be, packed, x + p->first * d->cols, p->tokens, d->cols, err) < 0)
            return -1;
        if (dp_cpu_parallel(be, d->n_chunks * dp_tiles(p->tokens), product_task, p, err) < 0)
            return -1;
    }
    return 0;
}

int DP_FN(spmm)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;
    struct product p = {.d = &plan->fwd, .n = a->n, .x_order = a->x_order, .y_order = a->y_order,
                        .x = a->x, .y = a->y, .bias = a->bias, .start = a->residual, .gelu = a->gelu};

    return run_product(be, &p, err);
}

int DP_FN(spmm_bwd)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;
    struct product p = {.d = &plan->bwd, .n = a->n, .x_order = a->dy_order,
                        .y_order = a->dx_order, .x = a->dy, .y = a->dx, .gelu = a->gelu, .gelu_x = a->gelu_x};

    return run_product(be, &p, err);
}
