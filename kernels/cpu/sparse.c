/* The linear ops with an unstructured sparse w: only the nonzeros are touched.
 *
 * One piece of a row (plan.h) holds the 64 sums of a token tile in registers and adds one fused
 * multiply per nonzero and register: the x operand comes straight from the packed tile, so the limit
 * is one vector load per multiply. The weight gradient (SDDMM) keeps the 64 dy of a row in registers
 * and reduces four nonzeros together.  Measured numbers: `make bench`, doc/kernels.md.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/plan.h"

/* Pieces ahead that a walk prefetches; d->piece ends with as many spare ones. */
#define AHEAD DP_PLAN_SPARE

#define GROUP_BYTES (512 * 1024)
#define GROUP_MIN_TILES 4

/* Registers that hold sums: the tile, or as much of it as leaves registers for the operands. */
#define N_ACC (DP_TILE / VW < 8 ? DP_TILE / VW : 8)
#define SPAN (N_ACC * VW) /* tokens in them */

static inline const float *tile_row(const float *x, uint16_t offset)
{
    return (const float *)((const char *)x + (size_t)offset * 8);
}

/* y (chunk rows, 64) = or += values times one block of a token tile. The first block overwrites. */
static void spmm_block(const struct dp_plan_dir *d, int64_t at, bool first, const float *values,
                       const float *x, float *y)
{
    const struct dp_plan_piece *e = d->piece + d->first[at], *end = d->piece + d->first[at + 1];
    const uint16_t *offset = d->offset + d->first_offset[at];

    for (; e < end; offset += e->count, e++) {
        const float *v = values + e->start;
        int64_t count = e->count;

        __builtin_prefetch(values + e[AHEAD].start);
        __builtin_prefetch(values + e[AHEAD].start + 16);
        for (int span = 0; span < DP_TILE; span += SPAN) {
            float *out = y + (int64_t)e->row * DP_TILE + span;
            vf acc[N_ACC];

            DP_UNROLL
            for (int i = 0; i < N_ACC; i++)
                acc[i] = first ? (vf){0} : vf_load(out + i * VW);
            for (int64_t j = 0; j < count; j++) {
                const float *in = tile_row(x + span, offset[j]);
                vf w = vf_set1(v[j]);

                DP_UNROLL
                for (int i = 0; i < N_ACC; i++)
                    acc[i] += w * vf_load(in + i * VW);
            }
            DP_UNROLL
            for (int i = 0; i < N_ACC; i++)
                vf_store(out + i * VW, acc[i]);
        }
    }
}

/* Tokens that are packed and multiplied before the next ones: as many tiles as keep `channels` of them
 * in the second-level cache, but enough that the index is not read from memory for too few. */
static int64_t group_tokens(int64_t n, int64_t channels)
{
    int64_t tiles = GROUP_BYTES / (DP_TILE * (int64_t)sizeof(float) * channels);

    tiles = tiles < GROUP_MIN_TILES ? GROUP_MIN_TILES : tiles;
    return tiles < dp_tiles(n) ? tiles * DP_TILE : dp_tiles(n) * DP_TILE;
}

/* Chunk c for n packed tokens x; y: room for one tile of a chunk. */
static void spmm_chunk(const struct dp_plan_dir *d, int64_t c, const float *values, int64_t n, const float *x,
                       float *y, float *out, const float *bias)
{
    int64_t row = c * DP_PLAN_CHUNK;
    int64_t rows = d->rows - row < DP_PLAN_CHUNK ? d->rows - row : DP_PLAN_CHUNK;

    for (int64_t t = 0; t < n; t += DP_TILE) {
        for (int64_t b = 0; b < d->n_blocks; b++)
            spmm_block(d, c * d->n_blocks + b, b == 0, values, x + (t * d->cols + b * d->block * DP_TILE), y);
        DP_FN(unpack)(out + t * d->rows + row, d->rows, y, n - t < DP_TILE ? n - t : DP_TILE, rows,
                      bias ? bias + row : NULL);
    }
}

/* out (n, d->rows) = in (n, d->cols) times the matrix of d with these values, transposed; + bias. */
static int spmm(struct dp_backend *be, const struct dp_plan_dir *d, const float *values, int64_t n,
                const float *in, float *out, const float *bias, struct dp_err *err)
{
    int64_t group = group_tokens(n, d->cols);
    float *y = dp_cpu_scratch(be, DP_PLAN_CHUNK * DP_TILE + group * d->cols, err), *x;

    if (!y)
        return -1;
    x = y + DP_PLAN_CHUNK * DP_TILE;
    for (int64_t g = 0; g < n; g += group) {
        int64_t tokens = n - g < group ? n - g : group;

        DP_FN(pack)(x, in + g * d->cols, d->cols, tokens, d->cols);
        for (int64_t c = 0; c < d->n_chunks; c++)
            spmm_chunk(d, c, values, tokens, x, y, out + g * d->rows, bias);
    }
    return 0;
}

int DP_FN(spmm)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;

    return spmm(be, &plan->fwd, a->w, a->n, a->x, a->y, a->bias, err);
}

int DP_FN(spmm_bwd)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;

    return spmm(be, &plan->bwd, plan->bwd_values, a->n, a->dy, a->dx, NULL, err);
}

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_any __attribute__((vector_size(16), aligned(4), may_alias));

/* The sums of the lanes of four vectors, one per lane of the result. */
static inline __attribute__((always_inline)) v4 sum4(vf a, vf b, vf c, vf d)
{
#if VW == 4
    v4 ab = (v4)VF_ZIP_LO(a, b) + (v4)VF_ZIP_HI(a, b), cd = (v4)VF_ZIP_LO(c, d) + (v4)VF_ZIP_HI(c, d);

    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#elif VW == 8
    __m256 ab = _mm256_hadd_ps((__m256)a, (__m256)b), cd = _mm256_hadd_ps((__m256)c, (__m256)d);
    __m256 s = _mm256_hadd_ps(ab, cd);

    return (v4)_mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
#else
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b),
                              _mm512_unpackhi_ps((__m512)a, (__m512)b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d),
                              _mm512_unpackhi_ps((__m512)c, (__m512)d));
    __m512 s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));

    return (v4)_mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
#endif
}

/* dw += dy of a chunk's rows times one block of x, at the nonzeros, over the 64 tokens of a tile. */
static void sddmm_block(const struct dp_plan_dir *d, int64_t at, const float *dy, const float *x, float *dw)
{
    const struct dp_plan_piece *e = d->piece + d->first[at], *end = d->piece + d->first[at + 1];
    const uint16_t *offset = d->offset + d->first_offset[at];

    for (; e < end; offset += e->count, e++) {
        float *g = dw + e->start;
        int64_t count = e->count;

        __builtin_prefetch(dw + e[AHEAD].start, 1);
        __builtin_prefetch(dw + e[AHEAD].start + 16, 1);

        for (int span = 0; span < DP_TILE; span += SPAN) {
            const float *row = dy + (int64_t)e->row * DP_TILE + span;
            vf r[N_ACC], s[4];

            DP_UNROLL
            for (int i = 0; i < N_ACC; i++)
                r[i] = vf_load(row + i * VW);
            for (int64_t j = 0; j < count; j += 4) {
                int64_t left = count - j;
                v4 sum;

                DP_UNROLL
                for (int u = 0; u < 4; u++) {
                    /* the offset after the last one belongs to another block: repeat the first */
                    const float *in = tile_row(x + span, offset[u < left ? j + u : j]);

                    s[u] = r[0] * vf_load(in);
                    DP_UNROLL
                    for (int i = 1; i < N_ACC; i++)
                        s[u] += r[i] * vf_load(in + i * VW);
                }
                sum = sum4(s[0], s[1], s[2], s[3]);
                if (left >= 4) {
                    *(v4_any *)(g + j) += sum;
                } else {
                    for (int64_t u = 0; u < left; u++)
                        g[j + u] += sum[u];
                }
            }
        }
    }
}

/* All chunks for n packed tokens; each element of dw adds up its tiles in order. */
static void sddmm_group(const struct dp_plan_dir *d, int64_t n, const float *dy, const float *x, float *dw)
{
    for (int64_t c = 0; c < d->n_chunks; c++)
        for (int64_t t = 0; t < n; t += DP_TILE)
            for (int64_t b = 0; b < d->n_blocks; b++)
                sddmm_block(d, c * d->n_blocks + b, dy + (t * d->rows + c * DP_PLAN_CHUNK * DP_TILE),
                            x + (t * d->cols + b * d->block * DP_TILE), dw);
}

int DP_FN(sddmm)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    const struct dp_plan_dir *d = &((const struct dp_plan *)a->sparse->plan)->fwd;
    int64_t group = group_tokens(a->n, d->cols + d->rows);
    float *x = dp_cpu_scratch(be, group * (d->cols + d->rows), err), *dy;

    if (!x)
        return -1;
    dy = x + group * d->cols;
    for (int64_t g = 0; g < a->n; g += group) {
        int64_t tokens = a->n - g < group ? a->n - g : group;

        DP_FN(pack)(x, a->x + g * d->cols, d->cols, tokens, d->cols);
        DP_FN(pack)(dy, a->dy + g * d->rows, d->rows, tokens, d->rows);
        sddmm_group(d, tokens, dy, x, a->dw);
    }
    return 0;
}
