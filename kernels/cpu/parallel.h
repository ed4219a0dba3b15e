/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of one operation on the threads of a backend.
 *
 * Results must not depend on the number of threads. So an operation is cut into tasks by its shapes
 * alone, a task writes what no other task reads or writes, and which thread runs it means nothing.
 */
#ifndef DP_KERNELS_CPU_PARALLEL_H
#define DP_KERNELS_CPU_PARALLEL_H

#include "kernels/cpu/cpu.h"

/* Task i of an operation. thread: 0 ... the backend's threads - 1, no other task runs with the same
 * number meanwhile: an index for workspaces. returns: 0, or -1 and err. */
typedef int dp_cpu_task(void *arg, int64_t i, int thread, struct dp_err *err);

/* Run tasks 0 ... n_tasks - 1, each once, in any order; back when all are done. returns: 0, or -1 and
 * the error of a task that failed (the others are run all the same). */
int dp_cpu_parallel(struct dp_backend *be, int64_t n_tasks, dp_cpu_task *task, void *arg, struct dp_err *err);

/* How many threads the tasks may run on: each needs its own workspace. */
static inline int64_t dp_cpu_threads(const struct dp_backend *be)
{
    return ((const struct dp_cpu *)be->ctx)->threads;
}

/* Elements of a task when `total` are cut into parts of about `target`: an even number of parts where
 * there are two or more, whole multiples of 64 but for the last. */
static inline int64_t dp_cpu_part(int64_t total, int64_t target)
{
    int64_t parts = (total + target / 2) / target;

    if (parts < 2)
        parts = total > target / 2 ? 2 : 1;
    parts += parts & 1 & (parts > 1);
    return ((total + parts - 1) / parts + 63) / 64 * 64;
}

#endif
