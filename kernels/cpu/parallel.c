/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks on OpenMP's threads: the pool that oneDNN brings along, so that no second one contends with it.
 *
 * Without OpenMP (a compiler that lacks it; the thread sanitizer, which does not know its barriers) the
 * tasks run one after the other, with the same results.
 */
#include "kernels/cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>

static int run_threads(int threads, int64_t n_tasks, dp_cpu_task *task, void *arg, struct dp_err *err)
{
    int rc = 0;

#pragma omp parallel num_threads(threads)
    {
        struct dp_err mine = {0};
        int bad = 0;

#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < n_tasks; i++)
            if (task(arg, i, omp_get_thread_num(), &mine) < 0)
                bad = 1;
        if (bad) {
#pragma omp critical(dp_cpu_parallel)
            {
                rc = -1;
                if (err)
                    *err = mine;
            }
        }
    }
    return rc;
}
#endif

int dp_cpu_parallel(struct dp_backend *be, int64_t n_tasks, dp_cpu_task *task, void *arg, struct dp_err *err)
{
    int rc = 0;

#ifdef _OPENMP
    const struct dp_cpu *cpu = be->ctx;

    if (cpu->threads > 1 && n_tasks > 1)
        return run_threads(cpu->threads < n_tasks ? cpu->threads : (int)n_tasks, n_tasks, task, arg, err);
#else
    (void)be;
#endif
    for (int64_t i = 0; i < n_tasks; i++)
        if (task(arg, i, 0, err) < 0)
            rc = -1;
    return rc;
}
