/* SPDX-License-Identifier: BSD-3-Clause */
/* See mix.h. */
#include "policies/cluster/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void dp_cluster_mix_release(struct dp_cluster_mix *mix)
{
    free(mix->job);
    free(mix->curve);
    free(mix->log.text);
    memset(mix, 0, sizeof *mix);
}

/* qsort() is not stable: where a job stood decides among equals. */
struct place {
    uint64_t submit_ns;
    uint32_t at;
};

static int by_submit(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->submit_ns != y->submit_ns)
        return x->submit_ns < y->submit_ns ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

int dp_cluster_mix_sort(struct dp_cluster_mix *mix, uint32_t *n_wrong, struct dp_err *err)
{
    struct place *place;
    struct dp_cluster_job *sorted;

    *n_wrong = 0;
    for (uint32_t i = 1; i < mix->n_jobs; i++)
        *n_wrong += mix->job[i].submit_ns < mix->job[i - 1].submit_ns;
    if (!*n_wrong)
        return 0;
    place = calloc(mix->n_jobs, sizeof *place);
    sorted = calloc(mix->n_jobs, sizeof *sorted);
    if (!place || !sorted) {
        free(place);
        free(sorted);
        return dp_err_set(err, DP_ENOMEM, "%u jobs: out of memory", mix->n_jobs);
    }
    for (uint32_t i = 0; i < mix->n_jobs; i++)
        place[i] = (struct place){mix->job[i].submit_ns, i};
    qsort(place, mix->n_jobs, sizeof *place, by_submit);
    for (uint32_t i = 0; i < mix->n_jobs; i++)
        sorted[i] = mix->job[place[i].at];
    free(place);
    free(mix->job);
    mix->job = sorted;
    return 0;
}

static int check_curve(const struct dp_cluster_curve *c, uint32_t i, struct dp_err *err)
{
    double at = 0, hold = 1;

    if (c->n_steps > DP_CLUSTER_MAX_STEPS)
        return dp_err_set(err, DP_EINVAL, "curve %u: %u steps; at most %u are allowed", i, c->n_steps, DP_CLUSTER_MAX_STEPS);
    for (uint32_t k = 0; k < c->n_steps; k++) {
        if (!(c->step[k].at > at && c->step[k].at < 1) || !(c->step[k].hold > 0 && c->step[k].hold < hold))
            return dp_err_set(err, DP_EINVAL, "curve %u, step %u: at %g hold %g; expected rising times and falling shares within (0, 1)",
                              i, k, c->step[k].at, c->step[k].hold);
        at = c->step[k].at;
        hold = c->step[k].hold;
    }
    if (!(c->stretch >= 0.01 && c->stretch <= DP_CLUSTER_MAX_STRETCH) || c->min_nodes < 1)
        return dp_err_set(err, DP_EINVAL, "curve %u: stretch %g, at least %u nodes", i, c->stretch, c->min_nodes);
    return 0;
}

int dp_cluster_mix_check(const struct dp_cluster_mix *mix, uint32_t nodes, struct dp_err *err)
{
    if (nodes < 1 || nodes > DP_CLUSTER_MAX_NODES || mix->n_jobs > DP_CLUSTER_MAX_JOBS || mix->n_curves > DP_CLUSTER_MAX_GROUPS)
        return dp_err_set(err, DP_EINVAL, "%u nodes, %u jobs, %u curves: at most %u, %u and %u are allowed", nodes, mix->n_jobs,
                          mix->n_curves, DP_CLUSTER_MAX_NODES, DP_CLUSTER_MAX_JOBS, DP_CLUSTER_MAX_GROUPS);
    for (uint32_t i = 0; i < mix->n_curves; i++)
        if (check_curve(&mix->curve[i], i, err) < 0)
            return -1;
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        const struct dp_cluster_job *j = &mix->job[i];

        if (j->nodes < 1 || j->nodes > nodes || j->limit_ns < j->run_ns || j->limit_ns > DP_CLUSTER_MAX_NS ||
            j->submit_ns > DP_CLUSTER_MAX_SUBMIT_NS || j->curve > mix->n_curves || (i && j->submit_ns < j[-1].submit_ns))
            return dp_err_set(err, DP_EINVAL, "job %u: submit %.9g s, run %.9g s, limit %.9g s, %u of %u nodes, curve %u", j->number,
                              (double)j->submit_ns * 1e-9, (double)j->run_ns * 1e-9, (double)j->limit_ns * 1e-9, j->nodes, nodes,
                              j->curve);
    }
    return 0;
}

static const struct dp_cluster_curve *curve_of(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job)
{
    return job->curve ? &mix->curve[job->curve - 1] : NULL;
}

uint64_t dp_cluster_job_run_ns(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job, bool is_shrinking)
{
    const struct dp_cluster_curve *c = curve_of(mix, job);

    return c && is_shrinking ? (uint64_t)((double)job->run_ns * c->stretch) : job->run_ns;
}

uint64_t dp_cluster_job_limit_ns(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job, bool is_shrinking)
{
    uint64_t run = dp_cluster_job_run_ns(mix, job, is_shrinking);

    return job->limit_ns > run ? job->limit_ns : run;
}

/* hold of n nodes as whole ones; a share that is a whole number but for rounding stays that number. */
static uint32_t whole_nodes(const struct dp_cluster_curve *c, double hold, uint32_t n)
{
    double nodes = ceil(hold * n - 1e-9);
    uint32_t least = c->min_nodes < n ? c->min_nodes : n;

    if (nodes >= n)
        return n;
    return nodes > least ? (uint32_t)nodes : least;
}

/* Of several releases only the one that returns the most node-time; the first of equals. */
static uint32_t keep_best(struct dp_cluster_hold *hold, uint32_t n, uint64_t run_ns)
{
    uint32_t best = 1;

    for (uint32_t k = 2; k < n; k++)
        if ((double)(hold[0].nodes - hold[k].nodes) * (double)(run_ns - hold[k].after_ns) >
            (double)(hold[0].nodes - hold[best].nodes) * (double)(run_ns - hold[best].after_ns))
            best = k;
    hold[1] = hold[best];
    return 2;
}

uint32_t dp_cluster_job_needs(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job,
                              struct dp_cluster_hold out[DP_CLUSTER_MAX_STEPS + 1])
{
    const struct dp_cluster_curve *c = curve_of(mix, job);
    uint64_t run_ns = dp_cluster_job_run_ns(mix, job, true);
    uint32_t n = 1;

    out[0] = (struct dp_cluster_hold){0, job->nodes};
    for (uint32_t k = 0; c && k < c->n_steps; k++) {
        uint32_t nodes = whole_nodes(c, c->step[k].hold, job->nodes);

        if (nodes < out[n - 1].nodes)
            out[n++] = (struct dp_cluster_hold){(uint64_t)(c->step[k].at * (double)run_ns), nodes};
    }
    return n;
}

uint32_t dp_cluster_job_holds(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job, bool is_shrinking,
                              struct dp_cluster_hold out[DP_CLUSTER_MAX_STEPS + 1])
{
    const struct dp_cluster_curve *c = curve_of(mix, job);
    uint32_t n = dp_cluster_job_needs(mix, job, out);

    if (!is_shrinking)
        return 1;
    return c && c->is_single && n > 2 ? keep_best(out, n, dp_cluster_job_run_ns(mix, job, true)) : n;
}

double dp_cluster_node_s(const struct dp_cluster_hold *hold, uint32_t n, uint64_t run_ns)
{
    double sum = 0;

    for (uint32_t k = 0; k < n; k++)
        sum += (double)hold[k].nodes * (double)((k + 1 < n ? hold[k + 1].after_ns : run_ns) - hold[k].after_ns) * 1e-9;
    return sum;
}
