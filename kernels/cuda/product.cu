/* SPDX-License-Identifier: BSD-3-Clause */
/* A dense product of our own that needs no library and takes any sizes.
 *
 * A block of 256 threads computes a tile of c, TILE x TILE, where TILE is 128 or 64: each thread 8 x 8 (or 4 x 4)
 * elements in registers, from slices of a and b of DEPTH k's in shared memory, two of each: while one is multiplied,
 * the next one arrives by asynchronous copies: of 4 bytes, which any size and address allows and which turn the slices
 * so that k is their slow index, or of 16 where k is that already and sizes and addresses are multiples of 16. Shared
 * memory: 4 * DEPTH * (TILE + 4) floats, 33 or 17 KiB, where at the end the tile passes through on its way out, so that
 * global memory is read and written a row at a time.
 *
 * Order of sums: k ascending, one product after the other in one register, whatever the tile. Where c's tiles would leave
 * much of a card idle, k is cut into parts, each summed like that; a second pass adds the parts in order. Tiles and
 * parts follow from m, n and k alone.
 */
#include "kernels/cuda/cu.h"

#include "kernels/cuda/blas.h"
#include "kernels/cuda/finish.h"
#include "kernels/cuda/product.h"

#define THREADS 256 /* of a block */
#define DEPTH 16 /* k's of a slice */
#define PAD 4 /* floats behind a row of a slice: fewer threads meet in a bank, and rows of 16 bytes stay whole */
#define LEAST_PART 256 /* k's of a part, where k is cut */
#define MOST_PARTS 32  /* the second pass reads that many */
#define MOST_PART_BYTES ((int64_t)64 << 20) /* of all parts */
#define MOST ((int64_t)1 << 23) /* of m, n and k */

/* A slice: DEPTH k's of TILE rows of a matrix begin to arrive in to[k][row]; what is not there becomes 0. ACROSS: the
 * matrix is (k, rows) in memory, else (rows, k), ld apart. from: of the slice's first row and k; rows, ks: that there are
 * from there on. FOURS: of a matrix that is ACROSS four neighbours come at a time. */
template <int TILE, bool ACROSS, bool FOURS>
static __device__ __forceinline__ void fetch(float *to, const float *from, int ld, int rows, int ks)
{
    constexpr int WIDTH = ACROSS && FOURS ? 4 : 1, PER_K = TILE / WIDTH; /* of a copy; copies of a k */
    constexpr int STEP = ACROSS ? THREADS / PER_K : THREADS / DEPTH; /* k's, or rows, from one copy to the next one */
    const int row = ACROSS ? (int)threadIdx.x % PER_K * WIDTH : (int)threadIdx.x / DEPTH;
    const int k = ACROSS ? (int)threadIdx.x / PER_K : (int)threadIdx.x % DEPTH;
    int at = ACROSS ? k * ld + row : row * ld + k; /* at most 128 * MOST */

    DP_UNROLL
    for (int i = 0; i < PER_K * DEPTH / THREADS; i++) {
        const bool there = ACROSS ? row < rows && k + i * STEP < ks : i * STEP < (k < ks ? rows - row : 0);
        float *const place = to + (ACROSS ? (k + i * STEP) * (TILE + PAD) + row : k * (TILE + PAD) + row + i * STEP);

        if (WIDTH == 4)
            dp_copy16(place, from + (there ? at : 0), there);
        else
            dp_copy4(place, from + (there ? at : 0), there);
        at += STEP * ld;
    }
}

static __device__ __forceinline__ int least(int64_t a, int b)
{
    return a < b ? (int)a : b;
}

/* part: where k is cut into parts, (parts, m, n) of them; else NULL, and f says what becomes of the elements. FOURS: where a
 * matrix is ACROSS, each of its k's begins at a multiple of 16 bytes and ends at one. */
template <int TILE, bool A_ACROSS, bool B_ACROSS, bool FOURS>
static __global__ void __launch_bounds__(THREADS, TILE == 64 ? 3 : 2)
    product_kernel(int64_t m, int64_t n, int64_t k, int64_t part_k, const float *a, const float *b, float *part,
                   struct dp_finish f)
{
    constexpr int PER = TILE / 16;    /* elements of a thread in each direction: ... */
    constexpr int GROUPS = PER / 4;   /* ... groups of 4 neighbours, ... */
    constexpr int APART = TILE / GROUPS; /* ... so far apart */
    constexpr int LD = TILE + PAD, SLICE = DEPTH * LD;
    DP_SHARED(float, shared, [4 * SLICE]);
    /* A warp has 8 x 4 threads: what its loads from shared memory have in common is read once. */
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int tx = warp % 2 * 8 + lane % 8, ty = warp / 2 * 4 + lane / 8;
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
        fetch<TILE, A_ACROSS, FOURS>(shared, a, a_ld, rows, ks);
        fetch<TILE, B_ACROSS, FOURS>(shared + SLICE, b, b_ld, columns, ks);
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
            fetch<TILE, A_ACROSS, FOURS>(next, a, a_ld, rows, ks - DEPTH);
            fetch<TILE, B_ACROSS, FOURS>(next + SLICE, b, b_ld, columns, ks - DEPTH);
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

/* How c is cut, and k. */
struct cut {
    int tile, parts;
    int64_t part_k;
};

static int64_t up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit;
}

/* About how many cycles a card of 132 multiprocessors takes: its blocks come in waves, of which the last one may leave most of
 * the card idle; the parts are written and read once, 440 floats a cycle, by one launch more. The constants are those of an
 * H200 (doc/results/gpu.md); on another card the cut may be another one than the best, and the sums are the same. */
static int64_t cycles(const struct dp_cuda_product *p, int tile, int64_t parts)
{
    const int64_t slots = tile == 128 ? 2 * 132 : 3 * 132, per_k = tile == 128 ? 400 : 190;
    const int64_t waves = up(up(p->m, tile) * up(p->n, tile) * parts, slots);

    return waves * up(p->k, parts) * per_k + (parts > 1 ? p->m * p->n * (2 * parts + 1) / 440 + 4000 : 0);
}

/* From m, n and k alone, so that a product has the same bits on any card. */
static struct cut cut_product(const struct dp_cuda_product *p)
{
    struct cut s = {128, 1, 1};
    int64_t least = INT64_MAX;

    if (p->k <= 0)
        return s;
    for (int tile = 128; tile >= 64; tile -= 64)
        for (int64_t parts = 1; parts <= MOST_PARTS; parts++) {
            const int64_t part_k = up(up(p->k, parts), DEPTH) * DEPTH;

            if (parts > 1 && (part_k < LEAST_PART || p->m * p->n > MOST_PART_BYTES / (parts * (int64_t)sizeof(float))))
                break;
            const int64_t takes = cycles(p, tile, parts);
            if (up(p->k, part_k) < parts || takes >= least)
                continue;
            least = takes;
            s = {tile, (int)parts, parts > 1 ? part_k : p->k};
        }
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

static bool comes_by_fours(const float *p, int64_t ld)
{
    return (uintptr_t)p % 16 == 0 && ld % 4 == 0;
}

template <int TILE, bool A_ACROSS, bool B_ACROSS, bool FOURS>
static int launch_tiles(struct dp_cuda *cu, const struct dp_cuda_product *p, const struct cut *s, float *part,
                        struct dp_err *err)
{
    return DP_LAUNCH(cu, err, (product_kernel<TILE, A_ACROSS, B_ACROSS, FOURS>),
                     dim3((unsigned)up(p->m, TILE), (unsigned)up(p->n, TILE), (unsigned)s->parts), THREADS, 0, p->m, p->n,
                     p->k, s->part_k, p->a, p->b, part, finish_of(p));
}

template <int TILE>
static int launch_product(struct dp_cuda *cu, const struct dp_cuda_product *p, const struct cut *s, float *part,
                          struct dp_err *err)
{
    const bool fours = (!p->a_across || comes_by_fours(p->a, p->m)) && comes_by_fours(p->b, p->n);

    if (!p->b_across)
        return launch_tiles<TILE, false, false, false>(cu, p, s, part, err);
    if (p->a_across)
        return fours ? launch_tiles<TILE, true, true, true>(cu, p, s, part, err)
                     : launch_tiles<TILE, true, true, false>(cu, p, s, part, err);
    return fours ? launch_tiles<TILE, false, true, true>(cu, p, s, part, err)
                 : launch_tiles<TILE, false, true, false>(cu, p, s, part, err);
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
