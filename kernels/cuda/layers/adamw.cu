/* SPDX-License-Identifier: BSD-3-Clause */
/* One AdamW step in one pass over the four arrays: a thread per PER elements, THREADS apart, so that a warp's accesses
 * are whole lines whatever the arrays' addresses. No element depends on another. No shared memory. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define PER 4 /* elements of a thread */

static __global__ void __launch_bounds__(THREADS)
    adamw_kernel(int64_t n, float *w, float *g, float *m, float *v, const uint64_t *keep,
                 const struct dp_step_scalars *step, bool decays, bool leave_g)
{
    const struct dp_step_scalars s = *step;
    const float decay = decays ? s.decay : 0.0f;
    const int64_t first = (int64_t)blockIdx.x * (THREADS * PER) + threadIdx.x;

    DP_UNROLL
    for (int k = 0; k < PER; k++) {
        const int64_t i = first + k * THREADS;
        float scaled, wi, mi, vi;

        if (i >= n)
            break;
        scaled = g[i] * s.grad_scale;
        mi = s.beta1 * m[i] + (1.0f - s.beta1) * scaled;
        vi = s.beta2 * v[i] + (1.0f - s.beta2) * scaled * scaled;
        wi = w[i];
        wi -= s.lr * (mi / s.bias1 / (sqrtf(vi / s.bias2) + s.eps) + decay * wi);
        if (keep && !(keep[i / 64] >> (i % 64) & 1))
            wi = mi = vi = 0.0f;
        w[i] = wi;
        m[i] = mi;
        v[i] = vi;
        if (!leave_g)
            g[i] = 0.0f;
    }
}

int dp_cuda_adamw(struct dp_backend *be, const struct dp_adamw *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "adamw", err);

    if (!cu)
        return -1;
    if (a->n < 0)
        return dp_cuda_refuse(cu, err, "%lld elements", (long long)a->n);
    return DP_LAUNCH(cu, err, adamw_kernel, dp_blocks(a->n, THREADS * PER), THREADS, 0, a->n, a->w, a->g, a->m, a->v,
                     a->keep, a->step, a->decays, a->leave_g);
}
