/* SPDX-License-Identifier: BSD-3-Clause */
/* Dense single-precision GEMM: oneDNN where the build has it, else OpenBLAS; on the calling thread.
 *
 * Threads come from outside (parallel.h): how a library cuts a product among its own threads, and so
 * the order of its sums, depends on how many there are. The number is set again before every call,
 * because OpenMP keeps it per calling thread. oneDNN brings its OpenMP along, so the setter is looked
 * up instead of linked: a oneDNN built without OpenMP then still works.
 *
 * oneDNN's kernels may use their workspace on the heap as stack: no signal handler may run on a thread
 * that calls them (worker/train/signals.c).
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#ifdef HAVE_ONEDNN
#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <string.h>

typedef void set_threads_fn(int n);

static set_threads_fn *set_threads;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void find_set_threads(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");

    memcpy(&set_threads, &symbol, sizeof set_threads);
}

int dp_cpu_gemm(const struct dp_gemm *g, struct dp_err *err)
{
    dnnl_status_t status;

    if (g->m == 0 || g->n == 0)
        return 0;
    pthread_once(&looked, find_set_threads);
    if (set_threads)
        set_threads(1);
    status = dnnl_sgemm(g->trans_a, g->trans_b, g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b, g->ldb,
                        g->beta, g->c, g->ldc);
    if (status != dnnl_success)
        return dp_err_set(err, status == dnnl_out_of_memory ? DP_ENOMEM : DP_EINVAL,
                          "dnnl_sgemm (%lld, %lld, %lld): status %d", (long long)g->m, (long long)g->n,
                          (long long)g->k, (int)status);
    return 0;
}

#else
#include <cblas.h>
#include <limits.h>
#include <pthread.h>

static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void use_one_thread(void)
{
    openblas_set_num_threads(1);
}

int dp_cpu_gemm(const struct dp_gemm *g, struct dp_err *err)
{
    if (g->m == 0 || g->n == 0)
        return 0;
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX || g->lda > INT_MAX || g->ldb > INT_MAX ||
        g->ldc > INT_MAX)
        return dp_err_set(err, DP_EINVAL, "cblas_sgemm: a size above %d", INT_MAX);
    pthread_once(&looked, use_one_thread);
    cblas_sgemm(CblasRowMajor, g->trans_a == 'T' ? CblasTrans : CblasNoTrans,
                g->trans_b == 'T' ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k, g->alpha,
                g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
    return 0;
}
#endif
