/* SPDX-License-Identifier: BSD-3-Clause */
/* The head and its loss, a part of the tokens at a time: of each part all logits exist (up to LOGITS_BYTES), then the loss
 * and dlogits in their place, then what they give to dx and dw. The parts follow from n and v alone; dw gets them in
 * order.
 *
 * A block per token goes over its logits once for the loss: thread t takes logits t, t + 256, ..., and keeps the largest
 * so far and, in double, the sum of e^(logit - largest); the threads are joined in a tree whose lower half takes the
 * upper one (3 KiB of shared memory). A second time for dlogits. */
#include "kernels/cuda/cu.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/tokens.h"

#include <float.h>

#define THREADS 256 /* of a block */
#define LOGITS_BYTES ((int64_t)256 << 20) /* 1280 tokens of GPT-2: ten rows of tiles of a product */
#define ROUND 64 /* tokens of a part are a multiple of this */

/* exponentials so far: all of sum is relative to e^largest */
struct exponentials {
    double sum;
    float largest;
};

static __device__ __forceinline__ struct exponentials join(struct exponentials a, struct exponentials b)
{
    struct exponentials r;

    r.largest = a.largest > b.largest ? a.largest : b.largest;
    r.sum = a.sum * (double)expf(a.largest - r.largest) + b.sum * (double)expf(b.largest - r.largest);
    return r;
}

/* targets, loss: of the part. NaN and infinity among the logits make the loss NaN: x - x is NaN for both. */
static __global__ void __launch_bounds__(THREADS)
    loss_kernel(int64_t v, float *logits, double *loss, const uint32_t *targets, float scale, bool wants_gradient)
{
    DP_SHARED(double, sums, [THREADS]);
    DP_SHARED(float, largest, [THREADS]);
    const int thread = (int)threadIdx.x;
    const uint32_t target = targets[blockIdx.x];
    struct exponentials e = {0.0, -FLT_MAX};
    float factor, wanted;

    logits += blockIdx.x * v;
    wanted = target < v ? logits[target] : NAN;
    for (int64_t j = thread; j < v; j += THREADS) {
        const float x = logits[j];

        if (x > e.largest) {
            e.sum = e.sum * (double)expf(e.largest - x) + (double)(1.0f + (x - x));
            e.largest = x;
        } else {
            e.sum += (double)expf(x - e.largest);
        }
    }
    sums[thread] = e.sum;
    largest[thread] = e.largest;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half) {
            e = join(e, {sums[thread + half], largest[thread + half]});
            sums[thread] = e.sum;
            largest[thread] = e.largest;
        }
    }
    __syncthreads(); /* everybody has read the target's logit, too */
    e = {sums[0], largest[0]};
    if (thread == 0)
        loss[blockIdx.x] = log(e.sum) + ((double)e.largest - (double)wanted);
    if (!wants_gradient)
        return;
    factor = (float)((double)scale / e.sum);
    for (int64_t j = thread; j < v; j += THREADS) {
        const float p = expf(logits[j] - e.largest) * factor;

        logits[j] = j == (int64_t)target ? p - scale : p;
    }
}

/* How the work is cut: tokens of a part, and where the products' workspace begins behind the part's logits. */
struct cut {
    int64_t rows;
    size_t logits_bytes, bytes;
};

static size_t up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The products of a part of n tokens. */
static struct dp_cuda_product logits_product(const struct dp_head *a, int64_t n, int64_t first, float *logits)
{
    struct dp_cuda_product p = {};

    p.m = n, p.n = a->v, p.k = a->c;
    p.c = logits, p.a = static_cast<const float *>(a->x) + first * a->c, p.b = a->w;
    return p;
}

static struct dp_cuda_product dx_product(const struct dp_head *a, int64_t n, int64_t first, const float *dlogits)
{
    struct dp_cuda_product p = {};

    p.m = n, p.n = a->c, p.k = a->v;
    p.c = static_cast<float *>(a->dx) + first * a->c, p.a = dlogits, p.b = a->w, p.b_across = true;
    return p;
}

static struct dp_cuda_product dw_product(const struct dp_head *a, int64_t n, int64_t first, const float *dlogits)
{
    struct dp_cuda_product p = {};

    p.m = a->v, p.n = a->c, p.k = n;
    p.c = a->dw, p.a = dlogits, p.b = static_cast<const float *>(a->x) + first * a->c, p.a_across = p.b_across = true;
    p.add = first > 0 || !a->overwrite;
    return p;
}

static size_t products_bytes(const struct dp_cuda *cu, const struct dp_head *a, int64_t n)
{
    const struct dp_cuda_product p[3] = {logits_product(a, n, 0, nullptr), dx_product(a, n, 0, nullptr),
                                         dw_product(a, n, 0, nullptr)};
    size_t most = 0;

    for (int i = 0; i < 3; i++) {
        const size_t bytes = dp_cuda_product_bytes(cu, &p[i]);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* All parts are as large as the first one, but for the last. */
static struct cut cut_work(const struct dp_cuda *cu, const struct dp_head *a)
{
    int64_t most = LOGITS_BYTES / (int64_t)sizeof(float) / a->v / ROUND * ROUND, parts, last;
    struct cut s;
    size_t all, rest;

    most = most < ROUND ? ROUND : most;
    parts = (a->n + most - 1) / most;
    s.rows = parts > 1 ? ((a->n + parts - 1) / parts + ROUND - 1) / ROUND * ROUND : a->n;
    s.logits_bytes = up((size_t)s.rows * (size_t)a->v * sizeof(float));
    last = s.rows ? a->n % s.rows : 0;
    all = products_bytes(cu, a, s.rows);
    rest = products_bytes(cu, a, last);
    s.bytes = s.logits_bytes + (all > rest ? all : rest);
    return s;
}

static int run_part(struct dp_cuda *cu, const struct dp_head *a, int64_t first, int64_t n, float *logits,
                    void *workspace, struct dp_err *err)
{
    const struct dp_cuda_product scores = logits_product(a, n, first, logits);
    struct dp_cuda_product p;

    if (dp_cuda_multiply(cu, &scores, workspace, err) < 0 ||
        DP_LAUNCH(cu, err, loss_kernel, (unsigned)n, THREADS, 0, a->v, logits, a->loss + first, a->targets + first,
                  a->scale, a->dx != nullptr) < 0)
        return -1;
    if (!a->dx)
        return 0;
    p = dx_product(a, n, first, logits);
    if (dp_cuda_multiply(cu, &p, workspace, err) < 0)
        return -1;
    p = dw_product(a, n, first, logits);
    return dp_cuda_multiply(cu, &p, workspace, err);
}

/* Without tokens dw is still overwritten. */
int dp_cuda_head(struct dp_backend *be, const struct dp_head *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "head", err);
    struct cut s;
    char *space;

    if (!cu)
        return -1;
    if (a->n < 0 || a->n > INT32_MAX || a->c < 1 || a->v < 1 || a->v > INT32_MAX || !a->dx != !a->dw)
        return dp_cuda_refuse(cu, err, "%lld tokens of %lld channels, vocabulary of %lld%s", (long long)a->n,
                              (long long)a->c, (long long)a->v,
                              !a->dx != !a->dw ? ", dx without dw or dw without dx" : "");
    if (!a->n && !(a->dw && a->overwrite))
        return 0;
    s = cut_work(cu, a);
    space = static_cast<char *>(dp_cuda_scratch(cu, s.bytes ? s.bytes : 1, err));
    if (!space || dp_cuda_check_tokens(cu, a->targets, a->n, a->v, DP_CUDA_HEAD, err) < 0)
        return -1;
    if (!a->n) {
        const struct dp_cuda_product none = dw_product(a, 0, 0, nullptr);

        return dp_cuda_multiply(cu, &none, space, err);
    }
    for (int64_t first = 0; first < a->n; first += s.rows)
        if (run_part(cu, a, first, a->n - first < s.rows ? a->n - first : s.rows, reinterpret_cast<float *>(space),
                     space + s.logits_bytes, err) < 0)
            return -1;
    return 0;
}

size_t dp_cuda_head_bytes(struct dp_backend *be, int64_t n, int64_t c, int64_t v)
{
    struct dp_head a = {};

    a.n = n, a.c = c, a.v = v;
    return n > 0 && c > 0 && v > 0 ? cut_work(dp_cuda_of(be), &a).bytes : 0;
}
