/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel backend: memory of one device and the operations of a GPT on it.
 *
 * The CPU backend is the specification; another backend (CUDA) is a shared object that is loaded on
 * demand. Every operation takes one struct with named members, destination first. Shapes are
 * row-major, written (rows, columns); float32 unless said. "=" overwrites, "+=" accumulates.
 * Activations and their gradients, which go from token to token or from layer to layer, are void *: their elements have
 * act_bytes of struct dp_device_info, 4 (float32) or 2 (bfloat16). Weights, their gradients, moments, statistics kept for
 * backward and losses are what their type says.
 * Pointers are device memory of the backend unless they are marked [host].
 *
 * Order: a backend works off what it is told on lanes. Operations, put, get, copy, zero and the sparse calls go to the
 * computing lane and run one after the other as they were called; move goes to the lane that it names. Lanes run
 * beside each other: nothing orders two of them but after(). A call may return before its work is done, and its
 * results may be read by whatever the same lane is told next. What is marked [host] is read before the call returns.
 * The CPU does the work while it is called, so that each of its tickets is 0.
 *
 * Errors: a call that cannot begin fails. Work that goes wrong later makes a later call fail, and that error names the
 * operation that it came from; from then on every call fails alike, but for free, free_staging and close.
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

#define DP_BACKEND_ABI 7 /* changes with every operation and every struct that a backend sees */

/* DP_LANE_IN and DP_LANE_OUT carry what comes and what goes, beside the computing lane. */
enum dp_lane { DP_LANE_COMPUTE, DP_LANE_IN, DP_LANE_OUT, DP_N_LANES };

/* A point in a lane: everything that the lane was told before. 0: it has been passed. */
typedef uint64_t dp_ticket;

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
    int64_t block_rows;      /* 1 (0 means that too), 4, 32, 64 or 128 */
    int64_t *row_ptr;        /* [host] rows / block_rows + 1 */
    uint16_t *col;           /* [host] nnz / weights of a block, ascending within a row */
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

/* Elements of an activation (n, c) in a format. */
static inline int64_t dp_format_elements(enum dp_token_format format, int64_t n, int64_t c)
{
    return (format == DP_TILES ? (n + DP_TILE - 1) / DP_TILE * DP_TILE : n) * c;
}

/* y (n, c_out) = x (n, c_in) w^T + bias + residual.  w: (c_out, c_in), dense or the values of `sparse`, as
 * sparse_refresh last saw them. */
struct dp_linear {
    int64_t n, c_in, c_out;
    void *y;
    void *gelu;                     /* (n, c_out) = gelu(y), in y's format, or NULL */
    const void *x;
    const float *w;
    const float *bias;              /* (c_out) or NULL */
    const void *residual;           /* (n, c_out), in y's format, or NULL; not y */
    const struct dp_sparse *sparse; /* NULL: w is dense */
    enum dp_token_format x_format, y_format;
};

/* dx (n, c_in) = dy (n, c_out) w; where gelu_x is given, times gelu'(gelu_x) element by element. */
struct dp_linear_bwd_input {
    int64_t n, c_in, c_out;
    void *dx;
    void *gelu;         /* (n, c_in) = gelu(gelu_x), which costs little here; NULL without gelu_x */
    const void *dy;
    const float *w;
    const void *gelu_x; /* (n, c_in), what went into the GELU in front of w; or NULL */
    const struct dp_sparse *sparse;
    enum dp_token_format dy_format, dx_format; /* gelu and gelu_x: like dx */
};

/* dw += dy^T x, or = with overwrite; only at the nonzeros where sparse is given; dbias (c_out) += column
 * sums of dy. */
struct dp_linear_bwd_weight {
    int64_t n, c_in, c_out;
    float *dw;    /* (c_out, c_in), or nnz values in CSR order */
    float *dbias; /* (c_out) or NULL */
    const void *dy, *x;
    const struct dp_sparse *sparse;
    enum dp_token_format dy_format, x_format;
    bool overwrite; /* dw holds nothing yet */
};

/* y = x, (n, c) each, in other formats; the padding of tiles becomes 0. y may be x where the formats are the
 * same. */
struct dp_reorder {
    int64_t n, c;
    void *y;
    const void *x;
    enum dp_token_format y_format, x_format;
};

/* y (n, c) = wte[token] + wpe[position]; token i sits at position i % t. */
struct dp_embedding {
    int64_t n, t, c, v;
    void *y;
    const float *wte, *wpe; /* (v, c), (t, c) */
    const uint32_t *tokens; /* n, each < v */
};

/* dwte += , dwpe += ; in token order, so equal tokens add up in a fixed order. */
struct dp_embedding_bwd {
    int64_t n, t, c, v;
    float *dwte, *dwpe;
    const void *dy;
    const uint32_t *tokens;
};

/* Layer norm, eps 1e-5 (GPT-2): y = (x - mean) * rstd * gamma + beta; mean, rstd: (n), kept. */
struct dp_layernorm {
    int64_t n, c;
    void *y;
    float *mean, *rstd;
    const void *x; /* in rows */
    const float *gamma, *beta;
    enum dp_token_format y_format;
};

/* dx = (or += when add_to_dx, for the residual path); dgamma, dbeta +=. dx, dy and x in rows. */
struct dp_layernorm_bwd {
    int64_t n, c;
    void *dx;
    float *dgamma, *dbeta;
    const void *dy, *x;
    const float *gamma, *mean, *rstd;
    bool add_to_dx;
};

/* Causal attention over heads of size c / h, scale 1 / sqrt(c / h).
 * qkv: (b, t, 3c), q then k then v; y: (b, t, c); lse: (b, h, t), log-sum-exp of the scores, kept.
 * No (t, t) matrix is kept from forward to backward. */
struct dp_attention {
    int64_t b, t, c, h;
    void *y;
    float *lse;
    const void *qkv;
};
struct dp_attention_bwd {
    int64_t b, t, c, h;
    void *dqkv; /* = */
    const void *dy, *y, *qkv;
    const float *lse;
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
    double *loss; /* n */
    void *dx;     /* (n, c) */
    float *dw;    /* (v, c) */
    const void *x;  /* (n, c) */
    const float *w; /* (v, c) */
    const uint32_t *targets; /* n, each < v */
    float scale;
    bool overwrite; /* dw holds nothing yet */
};

/* *sum = x[0] + x[1] + ..., in that order, in double; with add_to_sum *sum += that, as one number. */
struct dp_sum {
    int64_t n;
    double *sum;
    const double *x;
    bool add_to_sum;
};

/* What AdamW takes from the step that it is part of: one array of one such struct in device memory, put once a step. */
struct dp_step_scalars {
    float lr, beta1, beta2, eps, decay;
    float bias1, bias2; /* 1 - beta1^t and 1 - beta2^t at step t, counted from 1 */
    float grad_scale;   /* of clipping */
};

/* Decoupled weight decay AdamW on n elements (Loshchilov & Hutter 2019, algorithm 2):
 * g' = g * grad_scale; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
 * w -= lr (m/bias1 / (sqrt(v/bias2) + eps) + decay w), without decay where not decays.  g is zeroed afterwards,
 * unless leave_g.
 * keep: NULL, or one bit per element; an element whose bit is 0 gets w = m = v = 0. */
struct dp_adamw {
    int64_t n;
    float *w, *g, *m, *v;
    const uint64_t *keep;
    const struct dp_step_scalars *step;
    bool decays;
    bool leave_g; /* what comes next overwrites it */
};

/* An order-fixed sum of squares: blocks of 4096 elements in float lanes widened to double, blocks in
 * order. keep: NULL, or one bit per element; an element whose bit is 0 does not count. *sum = . */
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
    O(sum)                \
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

/* The device, as its backend describes it. */
struct dp_device_info {
    char name[64];         /* "NVIDIA H100 80GB HBM3"; of a processor its model: same name and version, same bits */
    uint64_t total_bytes;  /* of device memory, and ... */
    uint64_t free_bytes;   /* ... what of it nobody uses at the moment; both 0: host memory, ask the operating system */
    enum dp_token_format sparse_format; /* what sparse operations like their activations in */
    uint32_t act_bytes;    /* of an element of an activation: 4 float32, 2 bfloat16; the same for the backend's life */
};

/* Memory of another worker's device, for backends that have such a thing: the worker is another process of the same user on
 * the same machine, its device the same or one that this one sees. Nothing orders the lanes of two workers: what one has
 * written the other may use once the writer has seen a ticket behind it passed, and has said so. */
#define DP_LINK_CARD 128 /* bytes that say how another process opens memory: a handle of CUDA's has 64 */
struct dp_link_card {
    uint8_t bytes[DP_LINK_CARD];
};

struct dp_backend_link {
    /* Who opens memory gets all that lies in the same unit: what is shown was asked for in whole units, of so many bytes. */
    size_t unit;
    /* *out = how others open p, which alloc gave. Before p is freed they have closed it. DP_ENOTSUP: they cannot; the
     * backend goes on. */
    int (*show)(struct dp_backend *be, void *p, struct dp_link_card *out, struct dp_err *err);
    /* *out = memory that another worker shows, for put, get and move, and for no operation. Slow. DP_ENOTSUP: it cannot be
     * opened here; the backend goes on. */
    int (*open)(struct dp_backend *be, const struct dp_link_card *card, void **out, struct dp_err *err);
    /* No lane may use it any more. NULL is fine. */
    void (*close)(struct dp_backend *be, void *p);
};

/* Memory in stock, for backends whose arrays take long to make: what alloc is asked for later is made ready beside everything else.
 * There is one stock at a time. */
struct dp_backend_stock {
    /* A new stock of so many bytes, none of which is ready; what is left of the one before goes back. DP_ENOMEM: there is none. */
    int (*begin)(struct dp_backend *be, size_t bytes, struct dp_err *err);
    /* Make some more of it ready, within some ms: for one thread, beside any other that calls what is not in this struct. returns: 1:
     * more can be done; 0: all is ready; -1 with DP_ENOMEM: there will be no more. */
    int (*fill)(struct dp_backend *be, struct dp_err *err);
    /* Bytes that are ready, and that alloc has not given away. At any time. */
    size_t (*left)(struct dp_backend *be);
    void (*end)(struct dp_backend *be); /* what alloc has not given away goes back; fill is over */
};

struct dp_backend_ops {
    uint32_t abi;
    const char *name;    /* "cpu", "cuda" */
    bool host_memory;    /* device pointers may be read and written by the host */
    int (*open)(struct dp_backend *be, int worker, int threads, struct dp_err *err);
    void (*close)(struct dp_backend *be); /* what was not freed goes with it */
    int (*info)(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err);

    /* Memory. alloc: of the device, zeroed for every lane, 64-byte aligned. alloc_staging: of the host, which reads and
     * writes it like any other, undefined at first, 64-byte aligned; move takes it without a copy in between. Both may
     * be slow: not for the inside of a step. free takes effect when the computing lane comes to it; another lane must
     * have passed its last use. NULL is fine. */
    int (*alloc)(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err);
    void (*free)(struct dp_backend *be, void *p);
    int (*alloc_staging)(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err);
    void (*free_staging)(struct dp_backend *be, void *p); /* no lane may use it any more */

    /* The computing lane. */
    int (*put)(struct dp_backend *be, void *dst, const void *host, size_t bytes, struct dp_err *err);
    int (*get)(struct dp_backend *be, void *host, const void *src, size_t bytes, struct dp_err *err); /* waits */
    int (*copy)(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err); /* within the device; may overlap */
    int (*zero)(struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err);

    /* Between device memory and staging memory, either way, or within the device, on any lane. Until a ticket that was
     * marked behind it has been passed, staging memory that is read must not be written, and one that is written not read. */
    int (*move)(struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes, struct dp_err *err);

    /* Points in time. mark: *out = the lane's end as it is now. after: what the lane is told from now on waits for t.
     * reached: 1 passed, 0 not yet; never waits. await: 1 passed, 0 not within timeout_ns. -1 and err on failure.
     * sync waits for all lanes. */
    int (*mark)(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err);
    int (*after)(struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err);
    int (*reached)(struct dp_backend *be, dp_ticket t, struct dp_err *err);
    int (*await)(struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err);
    int (*sync)(struct dp_backend *be, struct dp_err *err);

    /* Device time. time_ns: spent so far by this worker; waits for the computing lane, so only for what is measured by
     * itself. lap: the time from the lap before, on the computing lane, is added to *sum_ns, which laps_collect does at
     * the latest, or to nothing (NULL). laps_collect waits for the laps so far; sum_ns must live until then. */
    uint64_t (*time_ns)(struct dp_backend *be);
    int (*lap)(struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err);
    int (*laps_collect)(struct dp_backend *be, struct dp_err *err);

    /* Build / drop sp->plan from row_ptr and col. Called at pruning events and after a hand-over. */
    int (*sparse_prepare)(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err);
    void (*sparse_release)(struct dp_backend *be, struct dp_sparse *sp);
    /* The values changed (optimizer step, load): refresh copies that the plan keeps in other orders. */
    int (*sparse_refresh)(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err);
    /* Bytes of the plan, 0 without one. */
    size_t (*sparse_bytes)(struct dp_backend *be, const struct dp_sparse *sp);

    /* Bytes of workspace that head with gradients needs, kept from its first call on. */
    size_t (*head_bytes)(struct dp_backend *be, int64_t n, int64_t c, int64_t v);
    const struct dp_backend_link *link; /* NULL: what goes to another worker passes the host */
    const struct dp_backend_stock *stock; /* NULL: arrays are made when they are asked for */

    /* Segments; both NULL: the backend has no use for them. Between the two the computing lane is told what it is, as a rule,
     * told each time with the same key. A backend may hold it back until the end, and replay what it has recorded where it is
     * the same again; the results are the same bits, errors may come at the end. Any call may be made in between. A segment
     * that begins ends the one before; what a caller left open when a call failed ends so, too. */
    int (*segment_begin)(struct dp_backend *be, uint32_t key, struct dp_err *err);
    int (*segment_end)(struct dp_backend *be, struct dp_err *err);
    DP_BACKEND_OPS(DP_BACKEND_OP)
};

struct dp_backend {
    const struct dp_backend_ops *ops;
    void *ctx; /* the backend's own */
    struct dp_device_info info; /* as dp_backend_create found it: what may change is free_bytes */
};

/* Open backend `name` ("cpu"; "cuda" where its shared object is installed) for the worker'th worker of this machine, from 0
 * on, with `threads` compute threads. Of the devices that the process sees it takes the one of that number, and counts round
 * where there are fewer. The caller destroys it. NULL and err on failure. */
struct dp_backend *dp_backend_create(const char *name, int worker, int threads, struct dp_err *err);
void dp_backend_destroy(struct dp_backend *be);

#endif
