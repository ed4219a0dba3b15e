/* SPDX-License-Identifier: BSD-3-Clause */
/* See stats.h. Sums run in the order of the jobs, so equal inputs give equal bits. */
#include "policies/cluster/stats.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/numbers.h"

/* value: [n], sorted here. */
static struct dp_cluster_spread spread(double *value, uint32_t n)
{
    struct dp_cluster_spread s = {0};

    if (!n)
        return s;
    for (uint32_t i = 0; i < n; i++)
        s.mean += value[i];
    s.mean /= n;
    qsort(value, n, sizeof *value, dp_by_double);
    s.median = value[(n - 1) / 2];
    s.p95 = value[(uint32_t)(((uint64_t)n * 95 + 99) / 100) - 1];
    s.max = value[n - 1];
    return s;
}

static double wait_s(const struct dp_cluster_job *j, const struct dp_cluster_times *t)
{
    return (double)(t->start_ns - j->submit_ns) * 1e-9;
}

static double slowdown(const struct dp_cluster_job *j, const struct dp_cluster_times *t)
{
    double run = (double)(j->run_ns > DP_CLUSTER_SHORT_NS ? j->run_ns : DP_CLUSTER_SHORT_NS);
    double s = (double)(t->end_ns - j->submit_ns) / run;

    return s > 1 ? s : 1;
}

enum which { ALL, SHRINKING, OTHERS };

/* Waiting times of some of the jobs. returns: how many. */
static uint32_t waits(const struct dp_cluster_mix *mix, const struct dp_cluster_times *times, enum which which, double *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < mix->n_jobs; i++)
        if (which == ALL || (which == SHRINKING) == (mix->job[i].curve != 0))
            out[n++] = wait_s(&mix->job[i], &times[i]);
    return n;
}

static void add_up(const struct dp_cluster_mix *mix, bool is_shrinking, const struct dp_cluster_times *times,
                   struct dp_cluster_stats *out)
{
    struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];
    uint64_t last_ns = 0;

    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        const struct dp_cluster_job *j = &mix->job[i];
        uint64_t run_ns = dp_cluster_job_run_ns(mix, j, is_shrinking);

        out->n_shrinking += j->curve != 0;
        out->turnaround_shrinking_s += j->curve ? (double)(times[i].end_ns - j->submit_ns) * 1e-9 : 0;
        out->needed_node_s += dp_cluster_node_s(hold, dp_cluster_job_needs(mix, j, hold), dp_cluster_job_run_ns(mix, j, true));
        out->held_node_s += dp_cluster_node_s(hold, dp_cluster_job_holds(mix, j, is_shrinking, hold), run_ns);
        last_ns = times[i].end_ns > last_ns ? times[i].end_ns : last_ns;
    }
    out->turnaround_shrinking_s /= out->n_shrinking ? out->n_shrinking : 1;
    out->makespan_s = mix->n_jobs ? (double)(last_ns - mix->job[0].submit_ns) * 1e-9 : 0;
}

int dp_cluster_stats_fill(const struct dp_cluster_mix *mix, uint32_t nodes, bool is_shrinking, const struct dp_cluster_times *times,
                          struct dp_cluster_stats *out, struct dp_err *err)
{
    double *value = calloc((size_t)mix->n_jobs + 1, sizeof *value);

    *out = (struct dp_cluster_stats){.n_jobs = mix->n_jobs};
    if (!value)
        return dp_err_set(err, DP_ENOMEM, "%u jobs: out of memory", mix->n_jobs);
    out->wait_s = spread(value, waits(mix, times, ALL, value));
    out->wait_shrinking_s = spread(value, waits(mix, times, SHRINKING, value));
    out->wait_others_s = spread(value, waits(mix, times, OTHERS, value));
    for (uint32_t i = 0; i < mix->n_jobs; i++)
        value[i] = slowdown(&mix->job[i], &times[i]);
    out->slowdown = spread(value, mix->n_jobs);
    free(value);
    add_up(mix, is_shrinking, times, out);
    if (out->makespan_s > 0) {
        out->held_share = out->held_node_s / (nodes * out->makespan_s);
        out->needed_share = out->needed_node_s / (nodes * out->makespan_s);
    }
    return 0;
}

void dp_cluster_compare(const struct dp_cluster_mix *mix, const struct dp_cluster_times *a, const struct dp_cluster_times *b,
                        struct dp_cluster_moved *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        if (a[i].start_ns > b[i].start_ns + DP_SECOND_NS) {
            out->earlier++;
            out->earlier_s += (double)(a[i].start_ns - b[i].start_ns) * 1e-9;
        } else if (b[i].start_ns > a[i].start_ns + DP_SECOND_NS) {
            out->later++;
            out->later_s += (double)(b[i].start_ns - a[i].start_ns) * 1e-9;
        }
    }
    out->earlier_s /= out->earlier ? out->earlier : 1;
    out->later_s /= out->later ? out->later : 1;
}
