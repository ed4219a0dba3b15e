/* SPDX-License-Identifier: BSD-3-Clause */
/* Causal attention in tiles (Dao et al. 2022, arXiv:2205.14135; its backward pass of 2023, arXiv:2307.08691): no matrix of
 * queries by keys is in memory. In float throughout.
 *
 * A tile is 64 queries or keys by 64 channels, row by row in shared memory, rows 68 floats apart so that the 16-byte reads
 * of a quarter of a warp meet no bank twice. A block has 256 threads in a square of 16 x 16, (down, across), and 64 rows of
 * output by 64 channels of one head of one sequence; of 64 x 64 scores thread (down, across) has rows down, down + 16, ...
 * and columns across, across + 16, ...; of 64 x 64 outputs the same rows and channels 4 across ... 4 across + 3.
 * Heads of more than 64 channels have a block for each 64 of them. Each makes all scores anew, from tiles of 64 channels
 * that follow each other in shared memory.
 *
 * forward_kernel   y of 64 queries. Keys 64 at a time: scores, their running maximum and sum, y is scaled where the
 *                  maximum grows, probabilities times values. Four tiles.
 * dots_kernel      dy y of 64 tokens of a head, a warp for each.
 * keys_kernel      dk and dv of 64 keys, from queries 64 at a time. Five tiles.
 * queries_kernel   dq of 64 queries, from keys 64 at a time. Five tiles.
 * The last two form probabilities again, from the log-sum-exp that forward kept.
 *
 * Order of sums: over channels ascending, over keys and queries ascending, each in one register. The sum of a softmax:
 * the keys of a tile that a thread has ascending, 16 threads in a tree, tiles ascending; dots: every 32nd channel
 * ascending, then a tree. Nothing depends on how many blocks run at a time. Scores are in units of ln 2, so that
 * probabilities are powers of 2. Blocks with the longest way begin first. */
#include "kernels/cuda/cu.h"

#define TILE 64   /* queries, keys, channels */
#define ACROSS 16 /* threads, also down */
#define THREADS (ACROSS * ACROSS)
#define PER (TILE / ACROSS)
#define LD (TILE + 4) /* floats from row to row; the beginning says why 4 */
#define TILE_FLOATS (TILE * LD)
#define TILE_BYTES (TILE_FLOATS * sizeof(float))
#define LOG2_E 1.44269504088896341f /* e^x = 2^(x log2 e) */
#define LN_2 0.693147180559945309f  /* and back */

/* What all kernels are told. */
struct shape {
    int64_t b, t, c, h;
    int size;         /* channels of a head */
    int tiles;        /* of a sequence */
    int slices;       /* of 64 channels, of a head */
    int64_t blocks;   /* of a kernel */
    float scale;      /* 1 / sqrt(size) */
    bool is_aligned;  /* whatever is read or written by tiles begins at multiples of 16 bytes */
};

/* What a block is for. The first slices x heads x sequences blocks have tile 0. */
struct part {
    int tile, slice;
    int64_t sequence, head;
};

static __device__ __forceinline__ struct part part_of(const struct shape &s)
{
    const int64_t heads = s.b * s.h * s.slices, i = (int64_t)blockIdx.x % heads;

    return {(int)(blockIdx.x / heads), (int)(i % s.slices), i / s.slices / s.h, i / s.slices % s.h};
}

static __device__ __forceinline__ int down(void)
{
    return (int)threadIdx.x / ACROSS;
}

static __device__ __forceinline__ int across(void)
{
    return (int)threadIdx.x % ACROSS;
}

/* A tile begins to arrive: channels of slice `slice` of rows row0 ... of a tensor whose first row of this sequence and head
 * is `from` and whose rows are ld apart. What is not there becomes 0, so that it adds nothing. */
static __device__ __forceinline__ void fetch(float *to, const float *from, int64_t ld, const struct shape &s, int tile,
                                             int slice)
{
    const int rows = s.t - (int64_t)tile * TILE < TILE ? (int)(s.t - (int64_t)tile * TILE) : TILE;
    const int columns = s.size - slice * TILE < TILE ? s.size - slice * TILE : TILE;
    const float *x = from + (int64_t)tile * TILE * ld + slice * TILE;

    if (s.is_aligned) {
        for (int i = (int)threadIdx.x; i < TILE * TILE / 4; i += THREADS) {
            const int row = i / (TILE / 4), column = i % (TILE / 4) * 4;
            const bool there = row < rows && column < columns;

            dp_copy16(to + row * LD + column, there ? x + row * ld + column : from, there);
        }
    } else {
        for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
            const int row = i / TILE, column = i % TILE;
            const bool there = row < rows && column < columns;

            dp_copy4(to + row * LD + column, there ? x + row * ld + column : from, there);
        }
    }
}

/* All that was fetched is there, for all threads. */
static __device__ __forceinline__ void arrive(void)
{
    dp_copies_commit();
    dp_copies_wait<0>();
    __syncthreads();
}

static __device__ __forceinline__ void clear(float x[PER][PER])
{
    DP_UNROLL
    for (int i = 0; i < PER; i++)
        DP_UNROLL
        for (int j = 0; j < PER; j++)
            x[i][j] = 0.0f;
}

/* sum (64, 64 as scores are spread) += a b^T over the first `channels` of two tiles, rounded up to whole fours. */
static __device__ __forceinline__ void add_scores(float sum[PER][PER], const float *a, const float *b, int channels)
{
    a += down() * LD;
    b += across() * LD;
    DP_NO_UNROLL
    for (int k = 0; k < channels; k += 4) {
        float4 x[PER], y[PER];

        DP_UNROLL
        for (int i = 0; i < PER; i++) {
            x[i] = *reinterpret_cast<const float4 *>(a + i * ACROSS * LD + k);
            y[i] = *reinterpret_cast<const float4 *>(b + i * ACROSS * LD + k);
        }
        DP_UNROLL
        for (int i = 0; i < PER; i++)
            DP_UNROLL
            for (int j = 0; j < PER; j++) {
                sum[i][j] += x[i].x * y[j].x;
                sum[i][j] += x[i].y * y[j].y;
                sum[i][j] += x[i].z * y[j].z;
                sum[i][j] += x[i].w * y[j].w;
            }
    }
}

/* sum (64, 64 as outputs are spread) += p x over the first `rows` of x, rounded up to whole fours; p: (64, 64). */
static __device__ __forceinline__ void add_rows(float sum[PER][PER], const float *p, const float *x, int rows)
{
    p += down() * LD;
    x += across() * 4;
    DP_NO_UNROLL
    for (int k = 0; k < rows; k += 4) {
        float4 w[PER], v[4];

        DP_UNROLL
        for (int i = 0; i < PER; i++) {
            w[i] = *reinterpret_cast<const float4 *>(p + i * ACROSS * LD + k);
            v[i] = *reinterpret_cast<const float4 *>(x + (k + i) * LD);
        }
        DP_UNROLL
        for (int i = 0; i < PER; i++) {
            const float each[4] = {w[i].x, w[i].y, w[i].z, w[i].w};

            DP_UNROLL
            for (int e = 0; e < 4; e++) {
                sum[i][0] += each[e] * v[e].x;
                sum[i][1] += each[e] * v[e].y;
                sum[i][2] += each[e] * v[e].z;
                sum[i][3] += each[e] * v[e].w;
            }
        }
    }
}

/* x, spread as scores are, becomes a tile. */
static __device__ __forceinline__ void put_scores(float *to, const float x[PER][PER])
{
    DP_UNROLL
    for (int i = 0; i < PER; i++)
        DP_UNROLL
        for (int j = 0; j < PER; j++)
            to[(down() + i * ACROSS) * LD + across() + j * ACROSS] = x[i][j];
}

/* x, spread as outputs are, times the factor of its row, goes to those rows and channels that are there. */
static __device__ __forceinline__ void put_outputs(float *to, int64_t ld, const struct shape &s, int tile, int slice,
                                                   const float x[PER][PER], const float factor[PER])
{
    const int column = slice * TILE + across() * 4;

    DP_UNROLL
    for (int i = 0; i < PER; i++) {
        const int64_t row = (int64_t)tile * TILE + down() + i * ACROSS;

        if (row >= s.t)
            continue;
        if (s.is_aligned && column < s.size) {
            *reinterpret_cast<float4 *>(to + row * ld + column) =
                make_float4(x[i][0] * factor[i], x[i][1] * factor[i], x[i][2] * factor[i], x[i][3] * factor[i]);
        } else {
            DP_UNROLL
            for (int j = 0; j < 4; j++)
                if (column + j < s.size)
                    to[row * ld + column + j] = x[i][j] * factor[i];
        }
    }
}

/* Channels of a slice. */
static __device__ __forceinline__ int channels_of(const struct shape &s, int slice)
{
    return s.size - slice * TILE < TILE ? s.size - slice * TILE : TILE;
}

/* Over the 16 threads of a row. */
static __device__ __forceinline__ float row_max(float v)
{
    for (int distance = ACROSS / 2; distance; distance >>= 1)
        v = fmaxf(v, __shfl_xor_sync(DP_ALL_THREADS, v, distance));
    return v;
}

static __device__ __forceinline__ float row_sum(float v)
{
    for (int distance = ACROSS / 2; distance; distance >>= 1)
        v += __shfl_xor_sync(DP_ALL_THREADS, v, distance);
    return v;
}

/* Shared memory: queries, keys, values, probabilities. */
static __global__ void __launch_bounds__(THREADS, 2)
    forward_kernel(struct shape s, float *y, float *lse, const float *qkv)
{
    DP_SHARED_DYNAMIC(float, queries);
    float *const keys = queries + TILE_FLOATS, *const values = keys + TILE_FLOATS, *const p = values + TILE_FLOATS;
    struct part part = part_of(s);
    const int64_t ld = 3 * s.c;
    const float *q = qkv + part.sequence * s.t * ld + part.head * s.size, unit = s.scale * LOG2_E;
    float out[PER][PER], largest[PER], total[PER], scores[PER][PER];

    part.tile = s.tiles - 1 - part.tile; /* the last one has the most keys */
    clear(out);
    DP_UNROLL
    for (int i = 0; i < PER; i++) {
        largest[i] = -INFINITY;
        total[i] = 0.0f;
    }
    for (int tile = 0; tile <= part.tile; tile++) {
        clear(scores);
        for (int slice = 0; slice < s.slices; slice++) {
            if (tile == 0 || s.slices > 1)
                fetch(queries, q, ld, s, part.tile, slice);
            fetch(keys, q + s.c, ld, s, tile, slice);
            if (slice == 0)
                fetch(values, q + 2 * s.c, ld, s, tile, part.slice);
            arrive();
            add_scores(scores, queries, keys, channels_of(s, slice));
            if (slice + 1 < s.slices)
                __syncthreads(); /* before the next slice comes */
        }
        DP_UNROLL
        for (int i = 0; i < PER; i++) {
            const int row = down() + i * ACROSS;
            float best = -INFINITY, sum = 0.0f, shrink;

            DP_UNROLL
            for (int j = 0; j < PER; j++) {
                scores[i][j] = tile == part.tile && across() + j * ACROSS > row ? -INFINITY : scores[i][j] * unit;
                best = fmaxf(best, scores[i][j]);
            }
            best = fmaxf(largest[i], row_max(best));
            shrink = exp2f(largest[i] - best);
            largest[i] = best;
            DP_UNROLL
            for (int j = 0; j < PER; j++) {
                scores[i][j] = exp2f(scores[i][j] - best);
                sum += scores[i][j];
                out[i][j] *= shrink;
            }
            total[i] = total[i] * shrink + row_sum(sum);
        }
        put_scores(p, scores);
        __syncthreads();
        add_rows(out, p, values, TILE);
        __syncthreads(); /* before the next tile comes */
    }
    if (part.slice == 0 && across() == 0) {
        DP_UNROLL
        for (int i = 0; i < PER; i++) {
            const int64_t row = (int64_t)part.tile * TILE + down() + i * ACROSS;

            if (row < s.t)
                lse[(part.sequence * s.h + part.head) * s.t + row] = LN_2 * largest[i] + logf(total[i]);
        }
    }
    DP_UNROLL
    for (int i = 0; i < PER; i++)
        total[i] = 1.0f / total[i];
    put_outputs(y + part.sequence * s.t * s.c + part.head * s.size, s.c, s, part.tile, part.slice, out, total);
}

/* dots (b, h, t). A warp has every eighth token of a tile; slices is 1. No shared memory. */
static __global__ void __launch_bounds__(THREADS) dots_kernel(struct shape s, float *dots, const float *dy, const float *y)
{
    const struct part part = part_of(s);
    const int64_t end = s.t - (int64_t)part.tile * TILE < TILE ? s.t : (int64_t)(part.tile + 1) * TILE;

    for (int64_t i = (int64_t)part.tile * TILE + threadIdx.x / 32; i < end; i += THREADS / 32) {
        const int64_t at = (part.sequence * s.t + i) * s.c + part.head * s.size;
        float sum = 0.0f;

        for (int j = (int)threadIdx.x % 32; j < s.size; j += 32)
            sum += dy[at + j] * y[at + j];
        sum = dp_warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            dots[(part.sequence * s.h + part.head) * s.t + i] = sum;
    }
}

/* Where the tensors of one head of one sequence begin. */
struct tensors {
    const float *q, *dy, *lse, *dots; /* k and v: s.c and 2 s.c further on than q */
    float *dq;
};

static __device__ __forceinline__ struct tensors tensors_of(const struct shape &s, const struct part &part, float *dqkv,
                                                            const float *dy, const float *qkv, const float *lse,
                                                            const float *dots)
{
    const int64_t at = part.sequence * s.t * 3 * s.c + part.head * s.size;
    const int64_t of_row = (part.sequence * s.h + part.head) * s.t;

    return {qkv + at, dy + part.sequence * s.t * s.c + part.head * s.size, lse + of_row, dots + of_row, dqkv + at};
}

/* Shared memory: keys, queries, values, gradients of y, and probabilities or what becomes of them; rows are keys and
 * columns are queries there. */
static __global__ void __launch_bounds__(THREADS, 2)
    keys_kernel(struct shape s, float *dqkv, const float *dy, const float *qkv, const float *lse, const float *dots)
{
    DP_SHARED_DYNAMIC(float, keys);
    float *const queries = keys + TILE_FLOATS, *const values = queries + TILE_FLOATS;
    float *const grads = values + TILE_FLOATS, *const p = grads + TILE_FLOATS;
    const struct part part = part_of(s); /* the first one has the most queries */
    const struct tensors x = tensors_of(s, part, dqkv, dy, qkv, lse, dots);
    const int64_t ld = 3 * s.c;
    const float unit = s.scale * LOG2_E, one[PER] = {1.0f, 1.0f, 1.0f, 1.0f};
    const float scales[PER] = {s.scale, s.scale, s.scale, s.scale};
    float dk[PER][PER], dv[PER][PER], scores[PER][PER], dp[PER][PER];

    clear(dk);
    clear(dv);
    for (int tile = part.tile; tile < s.tiles; tile++) {
        clear(scores);
        clear(dp);
        for (int slice = 0; slice < s.slices; slice++) {
            if (tile == part.tile || s.slices > 1) {
                fetch(keys, x.q + s.c, ld, s, part.tile, slice);
                fetch(values, x.q + 2 * s.c, ld, s, part.tile, slice);
            }
            fetch(queries, x.q, ld, s, tile, slice);
            fetch(grads, x.dy, s.c, s, tile, slice);
            arrive();
            add_scores(scores, keys, queries, channels_of(s, slice));
            add_scores(dp, values, grads, channels_of(s, slice));
            if (s.slices > 1)
                __syncthreads(); /* before the next slice comes */
        }
        if (s.slices > 1) {
            fetch(queries, x.q, ld, s, tile, part.slice);
            fetch(grads, x.dy, s.c, s, tile, part.slice);
        }
        DP_UNROLL
        for (int j = 0; j < PER; j++) {
            const int64_t query = (int64_t)tile * TILE + across() + j * ACROSS;
            const bool there = query < s.t;
            const float shift = there ? x.lse[query] * LOG2_E : 0.0f, dot = there ? x.dots[query] : 0.0f;

            DP_UNROLL
            for (int i = 0; i < PER; i++) {
                const bool seen = there && (tile > part.tile || down() + i * ACROSS <= across() + j * ACROSS);

                scores[i][j] = seen ? exp2f(scores[i][j] * unit - shift) : 0.0f;
                dp[i][j] = scores[i][j] * (dp[i][j] - dot);
            }
        }
        put_scores(p, scores);
        arrive();
        add_rows(dv, p, grads, TILE);
        __syncthreads();
        put_scores(p, dp);
        __syncthreads();
        add_rows(dk, p, queries, TILE);
        __syncthreads(); /* before the next tile comes */
    }
    put_outputs(x.dq + s.c, ld, s, part.tile, part.slice, dk, scales);
    put_outputs(x.dq + 2 * s.c, ld, s, part.tile, part.slice, dv, one);
}

/* Shared memory: queries, keys, values, gradients of y, gradients of scores. */
static __global__ void __launch_bounds__(THREADS, 2)
    queries_kernel(struct shape s, float *dqkv, const float *dy, const float *qkv, const float *lse, const float *dots)
{
    DP_SHARED_DYNAMIC(float, queries);
    float *const keys = queries + TILE_FLOATS, *const values = keys + TILE_FLOATS;
    float *const grads = values + TILE_FLOATS, *const p = grads + TILE_FLOATS;
    struct part part = part_of(s);
    const struct tensors x = tensors_of(s, part, dqkv, dy, qkv, lse, dots);
    const int64_t ld = 3 * s.c;
    const float unit = s.scale * LOG2_E, scales[PER] = {s.scale, s.scale, s.scale, s.scale};
    float dq[PER][PER], scores[PER][PER], dp[PER][PER], shift[PER], dot[PER];

    part.tile = s.tiles - 1 - part.tile; /* the last one has the most keys */
    clear(dq);
    DP_UNROLL
    for (int i = 0; i < PER; i++) {
        const int64_t query = (int64_t)part.tile * TILE + down() + i * ACROSS;

        shift[i] = query < s.t ? x.lse[query] * LOG2_E : 0.0f;
        dot[i] = query < s.t ? x.dots[query] : 0.0f;
    }
    for (int tile = 0; tile <= part.tile; tile++) {
        clear(scores);
        clear(dp);
        for (int slice = 0; slice < s.slices; slice++) {
            if (tile == 0 || s.slices > 1) {
                fetch(queries, x.q, ld, s, part.tile, slice);
                fetch(grads, x.dy, s.c, s, part.tile, slice);
            }
            fetch(keys, x.q + s.c, ld, s, tile, slice);
            fetch(values, x.q + 2 * s.c, ld, s, tile, slice);
            arrive();
            add_scores(scores, queries, keys, channels_of(s, slice));
            add_scores(dp, grads, values, channels_of(s, slice));
            if (s.slices > 1)
                __syncthreads(); /* before the next slice comes */
        }
        if (s.slices > 1)
            fetch(keys, x.q + s.c, ld, s, tile, part.slice);
        DP_UNROLL
        for (int i = 0; i < PER; i++)
            DP_UNROLL
            for (int j = 0; j < PER; j++) {
                const bool seen = tile < part.tile || across() + j * ACROSS <= down() + i * ACROSS;

                dp[i][j] = seen ? exp2f(scores[i][j] * unit - shift[i]) * (dp[i][j] - dot[i]) : 0.0f;
            }
        put_scores(p, dp);
        arrive();
        add_rows(dq, p, keys, TILE);
        __syncthreads(); /* before the next tile comes */
    }
    put_outputs(x.dq, ld, s, part.tile, part.slice, dq, scales);
}

/* The shape of a call; blocks is -1 when it is refused. */
static struct shape shape_of(struct dp_cuda *cu, int64_t b, int64_t t, int64_t c, int64_t h, struct dp_err *err)
{
    struct shape s = {b, t, c, h, 0, 0, 0, -1, 0.0f, false};

    if (b < 0 || t < 1 || c < 1 || h < 1 || c % h) {
        dp_cuda_refuse(cu, err, "%lld sequences, %lld channels in %lld heads, context %lld", (long long)b, (long long)c,
                       (long long)h, (long long)t);
        return s;
    }
    if (t <= INT32_MAX && c / h <= INT32_MAX) {
        s.size = (int)(c / h);
        s.tiles = (int)((t + TILE - 1) / TILE);
        s.slices = (s.size + TILE - 1) / TILE;
        s.scale = 1.0f / sqrtf((float)s.size);
    }
    if (!s.tiles || b > INT32_MAX || h > INT32_MAX / s.slices || (b && h * s.slices > INT32_MAX / b / s.tiles))
        dp_cuda_refuse(cu, err, "%lld sequences of %lld tokens, %lld heads of %lld channels: too many", (long long)b,
                       (long long)t, (long long)h, (long long)(c / h));
    else
        s.blocks = b * h * s.slices * s.tiles;
    return s;
}

/* Can what is read or written by tiles be taken 16 bytes at a time? */
static bool can_align(const struct shape &s, const void *p1, const void *p2, const void *p3)
{
    const uintptr_t all = reinterpret_cast<uintptr_t>(p1) | reinterpret_cast<uintptr_t>(p2) | reinterpret_cast<uintptr_t>(p3);

    return all % 16 == 0 && s.c % 4 == 0 && s.size % 4 == 0;
}

int dp_cuda_attention(struct dp_backend *be, const struct dp_attention *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "attention", err);
    struct shape s;

    if (!cu)
        return -1;
    s = shape_of(cu, a->b, a->t, a->c, a->h, err);
    if (s.blocks < 0)
        return -1;
    s.is_aligned = can_align(s, a->y, a->qkv, nullptr);
    return DP_LAUNCH(cu, err, forward_kernel, (unsigned)s.blocks, THREADS, 4 * TILE_BYTES, s,
                     static_cast<float *>(a->y), a->lse, static_cast<const float *>(a->qkv));
}

int dp_cuda_attention_bwd(struct dp_backend *be, const struct dp_attention_bwd *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "attention_bwd", err);
    const float *dy = static_cast<const float *>(a->dy), *y = static_cast<const float *>(a->y);
    const float *qkv = static_cast<const float *>(a->qkv);
    float *dqkv = static_cast<float *>(a->dqkv), *dots;
    struct shape s, whole_heads;

    if (!cu)
        return -1;
    s = shape_of(cu, a->b, a->t, a->c, a->h, err);
    if (s.blocks <= 0)
        return (int)s.blocks;
    s.is_aligned = can_align(s, dqkv, dy, qkv);
    whole_heads = s;
    whole_heads.slices = 1;
    dots = static_cast<float *>(dp_cuda_scratch(cu, (size_t)(s.b * s.h * s.t) * sizeof *dots, err));
    if (!dots ||
        DP_LAUNCH(cu, err, dots_kernel, (unsigned)(s.blocks / s.slices), THREADS, 0, whole_heads, dots, dy, y) < 0 ||
        DP_LAUNCH(cu, err, keys_kernel, (unsigned)s.blocks, THREADS, 5 * TILE_BYTES, s, dqkv, dy, qkv, a->lse, dots) < 0)
        return -1;
    return DP_LAUNCH(cu, err, queries_kernel, (unsigned)s.blocks, THREADS, 5 * TILE_BYTES, s, dqkv, dy, qkv, a->lse,
                     dots);
}
