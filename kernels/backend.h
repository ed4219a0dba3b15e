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

#define DP_BACKEND_ABI 2

/* Pattern of a sparse matrix w (rows, cols) in CSR order, weight by weight or, with block_rows 4, in blocks of
 * 4 x 1: four rows 4g ... 4g + 3 of one column are there or not, together (rows is a multiple of 4). Then
 * row_ptr and col count blocks, of the rows' groups g, and the four weights of a block follow each other.
 * Arrays that belong to the matrix element by element (values, gradient, both AdamW moments) are flat arrays
 * of nnz floats in this order, so optimizer and clipping need not know about sparsity. */
#define DP_SPARSE_MAX 65536 /* rows, and columns */

struct dp_sparse {
    int64_t rows, cols, nnz; /* nnz: weights */
    int64_t block_rows;      /* 1 (0 means that too) or 4 */
    int64_t *row_ptr;        /* [host] rows / block_rows + 1 */
    uint16_t *col;           /* [host] nnz / block_rows, ascending within a row */
    void *plan;              /* whatever the backend built from the pattern; made by sparse_prepare */
};

static inline int64_t dp_sparse_block(const struct dp_sparse *sp)
{
    return sp->block_rows > 1 ? sp->block_rows : 1;
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
    O(sum_squares)
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
