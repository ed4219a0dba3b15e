/* SPDX-License-Identifier: BSD-3-Clause */
/* What a daemon is told of the tasks of a job array, or of a job's companions, as this user.
 *
 *   slices_probe ARRAY-JOB-ID UID    prints "rc=N n=N TEXT", a line "JOB NODE running|ending RESTARTS" for each task, sorted
 *                                    by job, and "home JOB" or "home none"
 *   slices_probe of ID UID           the same of a job and its companions, or of an array and its; "home none: WHY"
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/child/slurm_job.h"
#include "daemon/run/slices/group.h"

static int by_job(const void *a, const void *b)
{
    const struct dp_slice *x = a, *y = b;

    return (x->job_id > y->job_id) - (x->job_id < y->job_id);
}

int main(int argc, char **argv)
{
    static struct dp_slices_result r;
    struct dp_slices_request q = {0};
    int home;

    if (argc == 4 && !strcmp(argv[1], "of")) {
        q.uid = (uint32_t)strtoul(argv[3], NULL, 10);
        q.home_job = (uint32_t)strtoul(argv[2], NULL, 10);
    } else if (argc == 3) {
        q.array_job_id = (uint32_t)strtoul(argv[1], NULL, 10);
        q.uid = (uint32_t)strtoul(argv[2], NULL, 10);
    } else {
        fprintf(stderr, "usage: slices_probe ARRAY-JOB-ID|of JOB-ID UID\n");
        return 2;
    }
    dp_slurm_enter();
    dp_slices_read(&q, &r);
    qsort(r.slice, r.n, sizeof r.slice[0], by_job);
    home = dp_group_home(r.slice, r.n, r.read_s);
    printf("rc=%d n=%u %s%s%s\n", r.rc, r.n, r.has_waiting ? "others wait" : "", r.is_cut ? " cut" : "", r.text);
    for (uint32_t i = 0; i < r.n; i++)
        printf("%u %s %s %u\n", r.slice[i].job_id, r.slice[i].node, r.slice[i].is_running ? "running" : "ending",
               r.slice[i].restart_count);
    if (!r.array_job_id && r.has_home)
        printf("home %u\n", q.home_job);
    else if (!r.has_home && !q.array_job_id)
        printf("home none: %s\n", r.home_why);
    else if (home < 0)
        puts("home none");
    else
        printf("home %u\n", r.slice[home].job_id);
    return 0;
}
