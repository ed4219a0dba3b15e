/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels, and where their faults are (bugs.h). `bug` is the same for all threads of a launch. */
#include "tests/unit/kernels/cuda_bugs/bugs.h"

#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block of trees */

static __global__ void __launch_bounds__(THREADS) tree_kernel(int bug, int n, float *sums, const float *x)
{
    DP_SHARED(float, part, [THREADS]);
    const int thread = (int)threadIdx.x;

    for (int chunk = (int)blockIdx.x; chunk * THREADS < n; chunk += (int)gridDim.x) {
        const int i = chunk * THREADS + thread, end = bug == BUG_TREE_TAIL ? n + 1 : n;

        part[bug == BUG_TREE_SHARED ? thread + 1 : thread] = i < end ? x[i] : 0.0f;
        if (bug == BUG_TREE_BRANCH) {
            if (i < n - 20)
                __syncthreads();
        } else if (bug != BUG_TREE_FILL) {
            __syncthreads();
        }
        for (int half = bug == BUG_TREE_HALF ? THREADS / 4 : THREADS / 2; half; half >>= 1) {
            if (thread < half)
                part[thread] += part[thread + half];
            if (bug != BUG_TREE_STEP)
                __syncthreads();
        }
        if (thread == THREADS - 1)
            sums[chunk] = part[0];
        if (bug != BUG_TREE_AGAIN)
            __syncthreads();
    }
}

int bugs_tree(struct dp_backend *be, enum bug bug, int n, float *sums, const float *x, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "tree", err);

    return cu ? DP_LAUNCH(cu, err, tree_kernel, 3, THREADS, 0, bug, n, sums, x) : -1;
}

#define COLUMNS 50 /* of bugs_rows */

/* A warp has a row, a block two of them. */
static __global__ void __launch_bounds__(64) rows_kernel(int bug, int rows, float *y, const float *x)
{
    DP_SHARED(float, line, [2][COLUMNS]);
    const int warp = (int)threadIdx.x / 32, thread = (int)threadIdx.x % 32, row = (int)blockIdx.x * 2 + warp;
    float sum = 0.0f;

    if (bug == BUG_ROWS_BOUND ? row > rows : row >= rows)
        return;
    for (int i = thread; i < COLUMNS; i += 32) {
        line[warp][i] = x[row * COLUMNS + i];
        sum += line[warp][i];
    }
    if (bug == BUG_ROWS_BRANCH) {
        if (thread < COLUMNS - 32)
            sum += __shfl_xor_sync(DP_ALL_THREADS, sum, 1);
    } else if (bug == BUG_ROWS_MASK) {
        sum += __shfl_xor_sync(thread < 16 ? 0xffffu : 0xffff0000u, sum, 16);
    } else {
        sum += __shfl_xor_sync(DP_ALL_THREADS, sum, bug == BUG_ROWS_DISTANCE ? 8 : 16);
    }
    for (int distance = 8; distance; distance >>= 1)
        sum += __shfl_xor_sync(DP_ALL_THREADS, sum, distance);
    if (bug != BUG_ROWS_SYNCWARP)
        __syncwarp();
    if (row < rows) /* with a bound that is off by one only reads are wrong */
        for (int i = thread; i < COLUMNS; i += 32)
            y[row * COLUMNS + i] = line[warp][COLUMNS - 1 - i] - sum / COLUMNS;
}

int bugs_rows(struct dp_backend *be, enum bug bug, int rows, float *y, const float *x, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "rows", err);

    return cu ? DP_LAUNCH(cu, err, rows_kernel, dp_blocks(rows, 2), 64, 0, bug, rows, y, x) : -1;
}

/* A block has 64 tokens, a warp 16 of them; k goes by in stages of 64. */
#define TILE 64   /* tokens, outputs, and elements of k in a stage */
#define STAGES 3  /* in shared memory */
#define HALF (TILE * TILE * 2) /* bytes of x, or of w, in a stage */

/* Eight elements of a row of a tile. Rows lie so that eight rows' same elements are in different banks. */
static __device__ __forceinline__ unsigned char *tile_at(unsigned char *tile, int row, int eight)
{
    return tile + row * TILE * 2 + ((eight ^ (row & 7)) << 4);
}

static __device__ __forceinline__ void load_stage(int bug, unsigned char *stage, int n, int k, int first, int at,
                                                  const uint16_t *x, const uint16_t *w)
{
    for (int i = (int)threadIdx.x; i < TILE * 8; i += 128) {
        const int row = i / 8, eight = i % 8;
        const bool there = first + row < n || bug == BUG_PRODUCT_READ;
        const uint16_t *from = x + (there ? (first + row) * k + at + eight * 8 : 0);

        dp_copy16(tile_at(stage, row, eight), bug == BUG_PRODUCT_ALIGN && there ? from + 1 : from, there);
        dp_copy16(tile_at(stage + HALF, row, eight), w + row * k + at + eight * 8, true);
    }
}

static __global__ void __launch_bounds__(128) product_kernel(int bug, int n, int k, float *y, const uint16_t *x,
                                                             const uint16_t *w)
{
    DP_SHARED_DYNAMIC(unsigned char, stages);
    const int thread = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, first = (int)blockIdx.x * TILE;
    const int ahead = bug == BUG_PRODUCT_STAGE ? STAGES : STAGES - 1, steps = k / TILE;
    float c[8][4];

    DP_UNROLL
    for (int j = 0; j < 8; j++)
        for (int e = 0; e < 4; e++)
            c[j][e] = 0.0f;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            load_stage(bug, stages + s * 2 * HALF, n, k, first, s * TILE, x, w);
        dp_copies_commit();
    }
    for (int s = 0; s < steps; s++) {
        unsigned char *tile = stages + s % STAGES * 2 * HALF;

        if (bug == BUG_PRODUCT_WAIT)
            dp_copies_wait<STAGES - 1>();
        else
            dp_copies_wait<STAGES - 2>();
        if (bug != BUG_PRODUCT_BARRIER)
            __syncthreads();
        if (s + STAGES - 1 < steps)
            load_stage(bug, stages + (s + ahead) % STAGES * 2 * HALF, n, k, first, (s + STAGES - 1) * TILE, x, w);
        if (bug != BUG_PRODUCT_COMMIT)
            dp_copies_commit();
        for (int kk = 0; kk < TILE / 16; kk++) {
            uint32_t a[4], b[4];

            dp_ldmatrix4(a, tile_at(tile, warp * 16 + thread % 16, kk * 2 + thread / 16));
            if (bug == BUG_PRODUCT_FRAGMENT) {
                const uint32_t other = a[0];

                a[0] = a[1];
                a[1] = other;
            }
            DP_UNROLL
            for (int j = 0; j < 8; j += 2) {
                const int which = bug == BUG_PRODUCT_HALVES ? 1 - thread / 8 % 2 : thread / 8 % 2;
                const int row = bug == BUG_PRODUCT_LANE ? thread % 16 : thread % 8 + thread / 16 * 8;

                dp_ldmatrix4(b, tile_at(tile + HALF, j * 8 + row, kk * 2 + which));
                dp_mma_bf16(c[j], a, b);
                dp_mma_bf16(c[j + 1], a, b + 2);
            }
        }
    }
    dp_copies_wait<0>();
    DP_UNROLL
    for (int j = 0; j < 8; j++)
        for (int e = 0; e < 4; e++) {
            const int row = first + warp * 16 + thread / 4 + 8 * (e / 2), column = j * 8 + thread % 4 * 2 + e % 2;

            if (row < n || bug == BUG_PRODUCT_TAIL)
                y[row * TILE + column] = c[j][e];
        }
}

int bugs_product(struct dp_backend *be, enum bug bug, int n, int k, float *y, const uint16_t *x, const uint16_t *w,
                 struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "product", err);

    return cu ? DP_LAUNCH(cu, err, product_kernel, dp_blocks(n, TILE), 128, STAGES * 2 * HALF, bug, n, k, y, x, w) : -1;
}

#define CHUNK 16 /* rows that a block sums */

/* part (chunks, c): sums of chunks of rows. With a fault: all into the first, or the first block ends the others' work. */
static __global__ void __launch_bounds__(64) columns_part_kernel(int bug, int n, int c, float *part, const float *x)
{
    const int column = (int)(blockIdx.x * 64 + threadIdx.x), chunk = (int)blockIdx.y;
    float sum = 0.0f;

    if (column >= c)
        return;
    for (int row = chunk * CHUNK; row < n && row < (chunk + 1) * CHUNK; row++)
        sum += x[row * c + column];
    if (bug == BUG_COLUMNS_BLOCKS) {
        if (chunk == 0)
            part[column] = sum;
        else
            part[column] += sum;
        return;
    }
    part[chunk * c + column] = sum;
    if (bug == BUG_COLUMNS_ORDER && chunk)
        part[chunk * c + column] += part[(chunk - 1) * c + column];
}

static __global__ void __launch_bounds__(64) columns_sum_kernel(int bug, int chunks, int c, float *y, const float *part)
{
    const int column = (int)(blockIdx.x * 64 + threadIdx.x);
    const int from = bug == BUG_COLUMNS_ORDER ? chunks - 1 : 0, last = bug == BUG_COLUMNS_PART ? chunks : chunks - 1;
    float sum = 0.0f;

    if (column >= c)
        return;
    for (int chunk = from; chunk <= (bug == BUG_COLUMNS_BLOCKS ? 0 : last); chunk++)
        sum += part[chunk * c + column];
    y[column] = sum;
}

int bugs_columns(struct dp_backend *be, enum bug bug, int n, int c, float *y, const float *x, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "columns", err);
    const int chunks = (n + CHUNK - 1) / CHUNK;
    float *part;

    if (!cu)
        return -1;
    part = static_cast<float *>(dp_cuda_scratch(cu, static_cast<size_t>(chunks + 1) * c * sizeof *part, err));
    if (!part ||
        DP_LAUNCH(cu, err, columns_part_kernel, dim3(dp_blocks(c, 64), chunks), 64, 0, bug, n, c, part, x) < 0)
        return -1;
    return DP_LAUNCH(cu, err, columns_sum_kernel, dp_blocks(c, 64), 64, 0, bug, chunks, c, y, part);
}

static __global__ void __launch_bounds__(64) count_kernel(int bug, int n, uint32_t *counts, const uint32_t *x,
                                                          const uint64_t *keep)
{
    const int i = (int)(blockIdx.x * 64 + threadIdx.x);

    if (i >= n || !(keep[bug == BUG_COUNT_WORD ? i / 32 : i / 64] >> i % 64 & 1))
        return;
    if (bug == BUG_COUNT_PLAIN)
        counts[x[i] % 16]++;
    else
        atomicAdd(&counts[x[i] % 16], 1u);
}

int bugs_count(struct dp_backend *be, enum bug bug, int n, uint32_t *counts, const uint32_t *x, const uint64_t *keep,
               struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "count", err);

    return cu ? DP_LAUNCH(cu, err, count_kernel, dp_blocks(n, 64), 64, 0, bug, n, counts, x, keep) : -1;
}
