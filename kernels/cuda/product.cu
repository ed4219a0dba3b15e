/* SPDX-License-Identifier: BSD-3-Clause */
/* A dense product of our own that needs no library and takes any sizes.
 *
 * A block of 256 threads computes a tile of c, TILE x TILE, where TILE is 128 or 64: each thread 8 x 8 (or 4 x 4)
 * elements in registers, from slices of a and b of DEPTH k's in shared memory, two of each: while one is multiplied,
 * the next one arrives by asynchronous copies of 4 bytes, which any size and address allows and which turn the slices
 * so that k is their slow index. Shared memory: 4 * DEPTH * (TILE + 4) floats, 33 or 17 KiB, where at the end the tile
 * passes through on its way out, so that global memory is read and written a row at a time.
 *
 * Order of sums: k ascending, one product after the other in one register, whatever the tile. Where c has so few
 * tiles that most of a card would idle, k is cut into parts, each summed like that; a second pass adds the parts in
 * order. Tiles and parts follow from m, n and k alone.
 */
#include "kernels/cuda/cu.h"

#include "kernels/cuda/blas.h"
#include "kernels/cuda/finish.h"
#include "kernels/cuda/product.h"

#define THREADS 256 /* of a block */
#define DEPTH 16 /* k's of a slice */
#define PAD 4 /* floats behind a row of a slice: fewer threads meet in a bank, and rows of 16 bytes stay whole */
#define MANY_TILES 128    /* of 128 x 128 keep a card busy; with fewer they are 64 x 64 */
#define WANTED_BLOCKS 256 /* when k is cut into parts ... */
#define LEAST_PART 512    /* ... of no fewer k's than this */
#define MOST_PARTS 32 /* the second pass reads that many */
#define MOST ((int64_t)1 << 23) /* of m, n and k */

/* A slice: DEPTH k's of TILE rows of a matrix begin to arrive in to[k][row]; what is not there becomes 0. ACROSS: the
 * matrix is (k, rows) in memory, else (rows, k), ld apart. from: of the slice's first row and k; rows, ks: that there are
 * from there on. */
template <int TILE, bool ACROSS>
static __device__ __forceinline__ void fetch(float *to, const float *from, int ld, int rows, int ks)
{
    constexpr int STEP = ACROSS ? THREADS / TILE : THREADS / DEPTH; /* k's, or rows, from one copy to the next one */
    const int row = ACROSS ? (int)threadIdx.x % TILE : (int)threadIdx.x / DEPTH;
    const int k = ACROSS ? (int)threadIdx.x / TILE : (int)threadIdx.x % DEPTH;
    int at = ACROSS ? k * ld + row : row * ld + k; /* at most 128 * MOST */

    DP_UNROLL
    for (int i = 0; i < TILE * DEPTH / THREADS; i++) {
        const bool there = ACROSS ? row < rows && k + i * STEP < ks : row + i * STEP < rows && k < ks;

        dp_copy4(to + (ACROSS ? (k + i * STEP) * (TILE + PAD) + row : k * (TILE + PAD) + row + i * STEP),
                 from + (there ? at : 0), there);
        at += STEP * ld;
    }
}

static __device__ __forceinline__ int least(int64_t a, int b)
{
    return a < b ? (int)a : b;
}

/* part: where k is cut into parts, (parts, m, n) of them; else NULL, and f says what becomes of the elements. */
template <int TILE, bool A_ACROSS, bool B_ACROSS>
static __global__ void __launch_bounds__(THREADS, TILE == 64 ? 3 : 2)
    product_kernel(int64_t m, int64_t n, int64_t k, int64_t part_k, const float *a, const float *b, float *part,
                   struct dp_finish f)
{
    constexpr int PER = TILE / 16;    /* elements of a thread in each direction: ... */
    constexpr int GROUPS = PER / 4;   /* ... groups of 4 neighbours, ... */
    constexpr int APART = TILE / GROUPS; /* ... so far apart */
    constexpr int LD = TILE + PAD, SLICE = DEPTH * LD;
    DP_SHARED(float, shared, [4 * SLICE]);
    const int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    const int64_t row0 = (int64_t)blockIdx.x * TILE, column0 = (int64_t)blockIdx.y * TILE;
    const int rows = least(m - row0, TILE), columns = least(n - column0, TILE);
    const int64_t from_k = (int64_t)blockIdx.z * part_k;
    const int a_ld = (int)(A_ACROSS ? m : k), b_ld = (int)(B_ACROSS ? n : k);
    int ks = least(k - from_k, (int)part_k);
    float sum[PER][PER];
    int turn = 0;

    a += A_ACROSS ? from_k * a_ld + row0 : row0 * a_ld + from_k;
    b += B_ACROSS ? from_k * b_ld + column0 : column0 * b_ld + from_k;
    DP_UNROLL
    for (int i = 0; i < PER; i++)
        DP_UNROLL
        for (int j = 0; j < PER; j++)
            sum[i][j] = 0.0f;
    if (ks > 0) {
        fetch<TILE, A_ACROSS>(shared, a, a_ld, rows, least(ks, DEPTH));
        fetch<TILE, B_ACROSS>(shared + SLICE, b, b_ld, columns, least(ks, DEPTH));
    }
    dp_copies_commit();
    for (; ks > 0; ks -= DEPTH, turn ^= 1) {
        const float *as = shared + turn * 2 * SLICE, *bs = as + SLICE;

        dp_copies_wait<0>();
        __syncthreads(); /* all have what came, and none reads the other two slices any more */
        if (ks > DEPTH) {
            float *next = shared + (turn ^ 1) * 2 * SLICE;

            a += A_ACROSS ? DEPTH * a_ld : DEPTH;
            b += B_ACROSS ? DEPTH * b_ld : DEPTH;
            fetch<TILE, A_ACROSS>(next, a, a_ld, rows, least(ks - DEPTH, DEPTH));
            fetch<TILE, B_ACROSS>(next + SLICE, b, b_ld, columns, least(ks - DEPTH, DEPTH));
        }
        dp_copies_commit();
        DP_UNROLL
        for (int kk = 0; kk < DEPTH; kk++) {
            float4 x[GROUPS], y[GROUPS];

            DP_UNROLL
            for (int g = 0; g < GROUPS; g++) {
                x[g] = *reinterpret_cast<const float4 *>(as + kk * LD + g * APART + 4 * ty);
                y[g] = *reinterpret_cast<const float4 *>(bs + kk * LD + g * APART + 4 * tx);
            }
            DP_UNROLL
            for (int i = 0; i < PER; i++) {
                const float xi = i % 4 == 0 ? x[i / 4].x : i % 4 == 1 ? x[i / 4].y : i % 4 == 2 ? x[i / 4].z : x[i / 4].w;

                DP_UNROLL
                for (int g = 0; g < GROUPS; g++) {
                    sum[i][4 * g] += xi * y[g].x;
                    sum[i][4 * g + 1] += xi * y[g].y;
                    sum[i][4 * g + 2] += xi * y[g].z;
                    sum[i][4 * g + 3] += xi * y[g].w;
                }
            }
        }
    }
    if (part)
        part += (int64_t)blockIdx.z * m * n;
    DP_UNROLL
    for (int g = 0; g < GROUPS; g++) {
        __syncthreads(); /* nobody reads slices, or the group before, any more */
        DP_UNROLL
        for (int i = 0; i < 4; i++)
            DP_UNROLL
            for (int h = 0; h < GROUPS; h++)
                *reinterpret_cast<float4 *>(shared + (4 * ty + i) * LD + h * APART + 4 * tx) =
                    make_float4(sum[4 * g + i][4 * h], sum[4 * g + i][4 * h + 1], sum[4 * g + i][4 * h + 2],
                                sum[4 * g + i][4 * h + 3]);
        __syncthreads();
        for (int e = (int)threadIdx.x; e < APART * TILE; e += THREADS) {
            const int row = g * APART + e / TILE, column = e % TILE;
            const int64_t at = (row0 + row) * n + column0 + column;
            const float s = shared[e / TILE * LD + column];

            if (row >= rows || column >= columns)
                continue;
            if (part)
                part[at] = s;
            else
                dp_finish_element(f, at, column0 + column, s);
        }
    }
}

/* The parts' sum, in order, and what follows; a thread per element. One part may be c itself. */
static __global__ void __launch_bounds__(THREADS)
    finish_kernel(int64_t m, int64_t n, int parts, const float *part, struct dp_finish f)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float s;

    if (at >= m * n)
        return;
    s = part[at];
    for (int i = 1; i < parts; i++)
        s += part[i * m * n + at];
    dp_finish_element(f, at, at % n, s);
}

/* How c is cut. */
struct cut {
    int tile, parts;
    int64_t part_k;
};

static int64_t up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit;
}

static struct cut cut_product(const struct dp_cuda_product *p)
{
    struct cut s = {128, 1, p->k > 0 ? p->k : 1};
    int64_t tiles = up(p->m, 128) * up(p->n, 128), parts;

    if (tiles < MANY_TILES) {
        s.tile = 64;
        tiles = up(p->m, 64) * up(p->n, 64);
    }
    if (tiles < 1)
        return s;
    parts = WANTED_BLOCKS / tiles;
    parts = parts > p->k / LEAST_PART ? p->k / LEAST_PART : parts;
    parts = parts > MOST_PARTS ? MOST_PARTS : parts;
    if (parts < 2)
        return s;
    s.part_k = up(up(p->k, parts), DEPTH) * DEPTH;
    s.parts = (int)up(p->k, s.part_k);
    return s;
}

static bool has_more(const struct dp_cuda_product *p)
{
    return p->bias || p->residual || p->gelu_x || p->gelu;
}

static struct dp_finish finish_of(const struct dp_cuda_product *p)
{
    return {p->c, p->gelu, p->bias, p->residual, p->gelu_x, p->add};
}

static int launch_finish(struct dp_cuda *cu, const struct dp_cuda_product *p, int parts, const float *part,
                         struct dp_err *err)
{
    return DP_LAUNCH(cu, err, finish_kernel, dp_blocks(p->m * p->n, THREADS), THREADS, 0, p->m, p->n, parts, part,
                     finish_of(p));
}

template <int TILE>
static int launch_product(struct dp_cuda *cu, const struct dp_cuda_product *p, const struct cut *s, float *part,
                          struct dp_err *err)
{
    const dim3 grid((unsigned)up(p->m, TILE), (unsigned)up(p->n, TILE), (unsigned)s->parts);

    if (p->a_across)
        return DP_LAUNCH(cu, err, (product_kernel<TILE, true, true>), grid, THREADS, 0, p->m, p->n, p->k, s->part_k,
                         p->a, p->b, part, finish_of(p));
    if (p->b_across)
        return DP_LAUNCH(cu, err, (product_kernel<TILE, false, true>), grid, THREADS, 0, p->m, p->n, p->k, s->part_k,
                         p->a, p->b, part, finish_of(p));
    return DP_LAUNCH(cu, err, (product_kernel<TILE, false, false>), grid, THREADS, 0, p->m, p->n, p->k, s->part_k, p->a,
                     p->b, part, finish_of(p));
}

static int own_product(struct dp_cuda *cu, const struct dp_cuda_product *p, void *workspace, struct dp_err *err)
{
    const struct cut s = cut_product(p);
    float *part = s.parts > 1 ? static_cast<float *>(workspace) : nullptr;

    if ((s.tile == 64 ? launch_product<64>(cu, p, &s, part, err) : launch_product<128>(cu, p, &s, part, err)) < 0)
        return -1;
    return part ? launch_finish(cu, p, s.parts, part, err) : 0;
}

size_t dp_cuda_product_bytes(const struct dp_cuda *cu, const struct dp_cuda_product *p)
{
    const struct cut s = cut_product(p);
    const size_t own = s.parts > 1 ? (size_t)up(s.parts * p->m * p->n * (int64_t)sizeof(float), 256) * 256 : 0;

    return cu->blas && own < DP_CUDA_BLAS_BYTES ? DP_CUDA_BLAS_BYTES : own;
}

int dp_cuda_multiply(struct dp_cuda *cu, const struct dp_cuda_product *p, void *workspace, struct dp_err *err)
{
    if (p->m < 0 || p->n < 0 || p->k < 0 || p->m > MOST || p->n > 65535 * 64 || p->k > MOST)
        return dp_cuda_refuse(cu, err, "a product of (%lld, %lld) and (%lld, %lld)", (long long)p->m, (long long)p->k,
                              (long long)p->k, (long long)p->n);
    if (!p->m || !p->n)
        return 0;
    if (cu->blas && p->k) {
        const int rc = dp_cuda_blas_product(cu, p, workspace, err);

        if (rc <= 0)
            return rc < 0 ? -1 : has_more(p) ? launch_finish(cu, p, 1, p->c, err) : 0;
    }
    return own_product(cu, p, workspace, err);
}
