/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel backend: memory of one device and the operations of a GPT on it.
 *
 * The CPU backend is the specification; another backend (CUDA) is a shared object that is loaded on
 * demand. Every operation takes one struct with named members, destination first. Shapes are
 * row-major, written (rows, columns); float32 unless said. "=" overwrites, "+=" accumulates.
 * Pointers are device memory of the backend unless they are marked [host].
 *
 * Determinism: with the same inputs and shapes an operation gives the same bits in every process on the
 * same kind of processor, whatever the number of threads. Nothing depends on addresses.
 *
 * Symbols: n tokens of a microbatch (n = b * t), b rows, t context length, c channels, h heads,
 * v vocabulary.
 */
#ifndef DP_KERNELS_BACKEND_H
#define DP_KERNELS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_BACKEND_ABI 3

/* Pattern of a sparse matrix w (rows, cols) in CSR order, weight by weight or in blocks, whose weights are there or not,
 * together: 4 x 1 (four rows 4g ... 4g + 3 of one column), or b x b with b 32, 64 or 128. rows and cols are multiples of a
 * block's. row_ptr and col count blocks: row_ptr of the rows of blocks, col[k] the block's first column divided by its
 * columns.
 * Arrays that belong to the matrix element by element (values, gradient, both AdamW moments) are flat arrays of nnz floats,
 * so optimizer and clipping need not know about sparsity. Their order: of single weights CSR; of blocks of 4 x 1 the four
 * weights of a block follow each other; of b x b as if they were blocks of 4 x 1, so that the four rows 4g ... 4g + 3 of all
 * blocks in a row of blocks lie together. Weight (r, c) of block k, with R = r / b and m = row_ptr[R + 1] - row_ptr[R] blocks
 * in its row of blocks, is element
 *   row_ptr[R] b b + (r % b / 4) 4 b m + (k - row_ptr[R]) 4 b + 4 (c % b) + r % 4. */
#define DP_SPARSE_MAX 65536 /* rows, and columns */

struct dp_sparse {
    int64_t rows, cols, nnz; /* nnz: weights */
    int64_t block_rows;      /* 1 (0 means that too) or 4 */
    int64_t *row_ptr;        /* [host] rows / block_rows + 1 */
    uint16_t *col;           /* [host] nnz / block_rows, ascending within a row */
    void *plan;              /* whatever the backend built from the pattern; made by sparse_prepare */
};

/* Columns of a block that has so many rows: those of 32 rows and more are square. */
static inline int64_t dp_block_cols(int64_t block_rows)
{
    return block_rows >= 32 ? block_rows : 1;
}

static inline int64_t dp_block_weights(int64_t block_rows)
{
    return block_rows * dp_block_cols(block_rows);
}

/* Rows of a block. */
static inline int64_t dp_sparse_block(const struct dp_sparse *sp)
{
    return sp->block_rows > 1 ? sp->block_rows : 1;
}

/* Blocks of the pattern. */
static inline int64_t dp_sparse_n_blocks(const struct dp_sparse *sp)
{
    return sp->nnz / dp_block_weights(dp_sparse_block(sp));
}

/* How an activation (n, c) lies in memory. DP_ROWS: row-major. DP_TILES: (ceil(n / 64), c, 64), 64 tokens of
 * one channel are neighbours, as the sparse kernels want them. Tokens that the last tile lacks ("padding")
 * are there: finite and otherwise undefined in activations, 0 in gradients, so that they add nothing to a
 * weight gradient. A dense w takes rows only; with a sparse w every combination gives the same
 * bits (dbias apart). */
enum dp_token_format { DP_ROWS, DP_TILES };
#define DP_TILE 64

/* Floats of an activation (n, c) in an format. */
static inline int64_t dp_format_floats(enum dp_token_format format, int64_t n, int64_t c)
{
    return (format == DP_TILES ? (n + DP_TILE - 1) / DP_TILE * DP_TILE : n) * c;
}

/* y (n, c_out) = x (n, c_in) w^T + bias + residual.  w: (c_out, c_in), dense or the values of `sparse`, as
 * sparse_refresh last saw them. */
struct dp_linear {
    int64_t n, c_in, c_out;
    float *y;
    float *gelu;                    /* (n, c_out) = gelu(y), in y's format, or NULL */
    const float *x, *w;
    const float *bias;              /* (c_out) or NULL */
    const float *residual;          /* (n, c_out), in y's format, or NULL; not y */
    const struct dp_sparse *sparse; /* NULL: w is dense */
    enum dp_token_format x_format, y_format;
};

/* dx (n, c_in) = dy (n, c_out) w; where gelu_x is given, times gelu'(gelu_x) element by element. */
struct dp_linear_bwd_input {
    int64_t n, c_in, c_out;
    float *dx;
    float *gelu;         /* (n, c_in) = gelu(gelu_x), which costs little here; NULL without gelu_x */
    const float *dy, *w;
    const float *gelu_x; /* (n, c_in), what went into the GELU in front of w; or NULL */
    const struct dp_sparse *sparse;
    enum dp_token_format dy_format, dx_format; /* gelu and gelu_x: like dx */
};

/* dw += dy^T x, or = with overwrite; only at the nonzeros where sparse is given; dbias (c_out) += column
 * sums of dy. */
struct dp_linear_bwd_weight {
    int64_t n, c_in, c_out;
    float *dw;    /* (c_out, c_in), or nnz values in CSR order */
    float *dbias; /* (c_out) or NULL */
    const float *dy, *x;
    const struct dp_sparse *sparse;
    enum dp_token_format dy_format, x_format;
    bool overwrite; /* dw holds nothing yet */
};

/* y = x, (n, c) each, in other formats; the padding of tiles becomes 0. y may be x where the formats are the
 * same. */
struct dp_reorder {
    int64_t n, c;
    float *y;
    const float *x;
    enum dp_token_format y_format, x_format;
};

/* y (n, c) = wte[token] + wpe[position]; token i sits at position i % t. */
struct dp_embedding {
    int64_t n, t, c, v;
    float *y;
    const float *wte, *wpe; /* (v, c), (t, c) */
    const uint32_t *tokens; /* [host] n, each < v */
};

/* dwte += , dwpe += ; in token order, so equal tokens add up in a fixed order. */
struct dp_embedding_bwd {
    int64_t n, t, c, v;
    float *dwte, *dwpe;
    const float *dy;
    const uint32_t *tokens; /* [host] */
};

/* Layer norm, eps 1e-5 (GPT-2): y = (x - mean) * rstd * gamma + beta; mean, rstd: (n), kept. */
struct dp_layernorm {
    int64_t n, c;
    float *y, *mean, *rstd;
    const float *x, *gamma, *beta; /* x in rows */
    enum dp_token_format y_format;
};

/* dx = (or += when add_to_dx, for the residual path); dgamma, dbeta +=. dx, dy and x in rows. */
struct dp_layernorm_bwd {
    int64_t n, c;
    float *dx, *dgamma, *dbeta;
    const float *dy, *x, *gamma, *mean, *rstd;
    bool add_to_dx;
};

/* Causal attention over heads of size c / h, scale 1 / sqrt(c / h).
 * qkv: (b, t, 3c), q then k then v; y: (b, t, c); lse: (b, h, t), log-sum-exp of the scores, kept.
 * No (t, t) matrix is kept from forward to backward. */
struct dp_attention {
    int64_t b, t, c, h;
    float *y, *lse;
    const float *qkv;
};
struct dp_attention_bwd {
    int64_t b, t, c, h;
    float *dqkv; /* = */
    const float *dy, *y, *qkv, *lse;
};

/* y = a + b; y may be a or b. */
struct dp_add {
    int64_t n;
    float *y;
    const float *a, *b;
};

/* The head and its loss: logits (n, v) = x w^T, of which no more than the backend wants at a time exist.
 * loss[i] = logsumexp(logits[i]) - logits[i][target[i]], nats. With dlogits = (softmax - onehot) * scale:
 * dx = dlogits w; dw += dlogits^T x, or = with overwrite. dx and dw NULL: only the loss. */
struct dp_head {
    int64_t n, c, v;
    double *loss; /* [host] n */
    float *dx;    /* (n, c) */
    float *dw;    /* (v, c) */
    const float *x, *w;      /* (n, c), (v, c) */
    const uint32_t *targets; /* [host] n, each < v */
    float scale;
    bool overwrite; /* dw holds nothing yet */
};

/* Decoupled weight decay AdamW on n elements (Loshchilov & Hutter 2019, algorithm 2):
 * g' = g * grad_scale; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
 * w -= lr (m/bias1 / (sqrt(v/bias2) + eps) + decay w).  g is zeroed afterwards, unless leave_g.
 * keep: NULL, or one bit per element; an element whose bit is 0 gets w = m = v = 0. */
struct dp_adamw {
    int64_t n;
    float *w, *g, *m, *v;
    const uint64_t *keep;
    float lr, beta1, beta2, eps, decay, bias1, bias2, grad_scale;
    bool leave_g; /* what comes next overwrites it */
};

/* An order-fixed sum of squares: blocks of 4096 elements in float lanes widened to double, blocks in
 * order. keep: NULL, or one bit per element; an element whose bit is 0 does not count. *sum [host] = . */
struct dp_sum_squares {
    int64_t n;
    const float *x;
    const uint64_t *keep;
    double *sum;
};

/* ---- pruning, and what else passes over weights ----
 *
 * A matrix (rows, cols) is kept or pruned weight by weight or in blocks: block_rows as in struct dp_sparse. Its blocks are
 * numbered as they lie, one row of blocks after the other; with a sparse one only those of its pattern are, in the same
 * order. With block_rows 1 a block is a weight.
 * Bits: one per weight or block, i being bit i % 64 of word i / 64; what lies behind the last one in its word is 0.
 * The key of a float is its bits without the sign: keys order like magnitudes, NaN above everything. */

/* norm[i] = L2 norm of block i: in double the sum over each of its columns in the order of rows, then the columns
 * s[0 ... c - 1] as s[j] += s[j + c / 2] for j < c / 2, and so on with c / 4 ... 1; the root of s[0], as a float. A square of
 * a float is exact in double, so that these are the same bits everywhere.
 * With keep: left = a bit for each block whose weights are all kept; *mixed += blocks of which some are and some are not. */
struct dp_block_norms {
    int64_t rows, cols, block_rows;
    float *norm;
    uint64_t *left, *mixed;         /* NULL without keep */
    const float *w;                 /* (rows, cols), or the values of `sparse` */
    const struct dp_sparse *sparse; /* of the same block_rows, prepared; NULL: w is dense */
    const uint64_t *keep;           /* of weights; dense only; NULL: all are */
};

/* bins[b] += how many x[i] have keys with the number b in the `bits` (0 to 11) bits from bit `shift` on and those of `prefix`
 * above. left: NULL, or bits; what has none does not count. bits 0, shift 0: bins[0] += how many keys are `prefix`. */
struct dp_count_keys {
    int64_t n;
    const float *x;
    const uint64_t *left;
    uint32_t prefix, shift, bits;
    uint64_t *bins; /* 1 << bits */
};

/* chosen = bits of those x[i] whose key is greater than `key`, or is `key` and among the first `ties` such, in the order of
 * i. left: NULL, or bits; what has none is not looked at. */
struct dp_choose {
    int64_t n;
    uint64_t *chosen;
    const float *x;
    const uint64_t *left;
    uint32_t key;
    uint64_t ties;
};

/* keep (a bit per weight) = the bit of the weight's block. */
struct dp_spread_bits {
    int64_t rows, cols, block_rows;
    uint64_t *keep;
    const uint64_t *bits;
};

/* x[i] = 0 where the bit of i is 0. */
struct dp_mask {
    int64_t n;
    float *x;
    const uint64_t *keep;
};

/* What is left of the arrays of a matrix: y[j], in to's order, = the elements of x[j], (rows, cols) or in from's order, at the same
 * places. Every block of `to` is one of `from`. Both are prepared. */
#define DP_GATHER_MAX 4
struct dp_gather {
    int64_t n_arrays; /* at most DP_GATHER_MAX */
    float *y[DP_GATHER_MAX];
    const float *x[DP_GATHER_MAX];
    const struct dp_sparse *to;
    const struct dp_sparse *from; /* of to's rows, cols and block_rows; NULL: x is dense */
};

/* y[r] += x[r], then x[r] = 0, for the rows r that are listed; c columns. */
struct dp_merge_rows {
    int64_t n, c;
    float *y, *x;
    const uint32_t *rows; /* n, no two alike */
};

/* crc[i] = dp_crc32c(0, ...) (common/crc32c.h) of the i-th piece of x: `piece` bytes, the last one what is left. */
struct dp_digest {
    int64_t bytes, piece;
    uint32_t *crc;
    const void *x;
};

struct dp_backend;

/* The operations, in the order of the table below: `op` takes a struct dp_<op>, whose comment says what it computes. A new
 * one is a line here and, for each backend, a function of that name. */
#define DP_BACKEND_OPS(O) \
    O(linear)             \
    O(linear_bwd_input)   \
    O(linear_bwd_weight)  \
    O(reorder)            \
    O(embedding)          \
    O(embedding_bwd)      \
    O(layernorm)          \
    O(layernorm_bwd)      \
    O(attention)          \
    O(attention_bwd)      \
    O(add)                \
    O(head)               \
    O(adamw)              \
    O(sum_squares)        \
    O(block_norms)        \
    O(count_keys)         \
    O(choose)             \
    O(spread_bits)        \
    O(mask)               \
    O(gather)             \
    O(merge_rows)         \
    O(digest)
#define DP_BACKEND_OP(op) int (*op)(struct dp_backend *be, const struct dp_##op *a, struct dp_err *err);

struct dp_backend_ops {
    uint32_t abi;
    const char *name;    /* "cpu", "cuda" */
    bool host_memory;    /* device pointers may be read and written by the host */
    int (*open)(struct dp_backend *be, int device, int threads, struct dp_err *err);
    void (*close)(struct dp_backend *be);
    int (*alloc)(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err); /* zeroed, 64-byte aligned */
    void (*free)(struct dp_backend *be, void *p); /* NULL is fine */
    int (*put)(struct dp_backend *be, void *dst, const void *host, size_t bytes, struct dp_err *err);
    int (*get)(struct dp_backend *be, void *host, const void *src, size_t bytes, struct dp_err *err); /* waits */
    int (*copy)(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err); /* within the device */
    int (*sync)(struct dp_backend *be, struct dp_err *err);
    uint64_t (*time_ns)(struct dp_backend *be); /* device time spent so far by this worker */

    /* Build / drop sp->plan from row_ptr and col. Called at pruning events and after a hand-over. */
    int (*sparse_prepare)(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err);
    void (*sparse_release)(struct dp_backend *be, struct dp_sparse *sp);
    /* The values changed (optimizer step, load): refresh copies that the plan keeps in other orders. */
    int (*sparse_refresh)(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err);
    /* Bytes of the plan, 0 without one. */
    size_t (*sparse_bytes)(struct dp_backend *be, const struct dp_sparse *sp);

    /* Bytes of workspace that head with gradients needs, kept from its first call on. */
    size_t (*head_bytes)(struct dp_backend *be, int64_t n, int64_t c, int64_t v);
    DP_BACKEND_OPS(DP_BACKEND_OP)
};

struct dp_backend {
    const struct dp_backend_ops *ops;
    void *ctx; /* the backend's own */
};

/* Open backend `name` ("cpu"; "cuda" where its shared object is installed) on `device` with
 * `threads` compute threads. The caller destroys it. NULL and err on failure. */
struct dp_backend *dp_backend_create(const char *name, int device, int threads, struct dp_err *err);
void dp_backend_destroy(struct dp_backend *be);

#endif
