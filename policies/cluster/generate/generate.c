/* SPDX-License-Identifier: BSD-3-Clause */
/* See generate.h. */
#include "policies/cluster/generate/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define MAX_SUBMIT_S ((double)DP_CLUSTER_MAX_SUBMIT_NS * 1e-9) /* the same in seconds */
#define MAX_RUN_S ((double)DP_CLUSTER_MAX_NS * 1e-9) /* likewise */

static double within(double low, double value, double high)
{
    return value < low ? low : value > high ? high : value;
}

static uint64_t limit_ns(struct dp_cluster_draw *draw, const struct dp_cluster_estimate *e, uint64_t run_s)
{
    double asked = (double)run_s * within(1, dp_cluster_draw_from(draw, &e->factor), 1e6);

    asked = ceil(within(0, asked, e->most_s > 0 ? e->most_s : MAX_RUN_S) / 60) * 60;
    return (uint64_t)within((double)run_s, asked, MAX_RUN_S) * DP_SECOND_NS;
}

static uint32_t draw_class(struct dp_cluster_draw *draw, const struct dp_cluster_model *model)
{
    double all = 0, at;
    uint32_t i = 0;

    for (uint32_t k = 0; k < model->n_classes; k++)
        all += model->class[k].share;
    at = dp_cluster_draw_next(draw) * all;
    for (; i + 1 < model->n_classes && at >= model->class[i].share; i++)
        at -= model->class[i].share;
    return i;
}

/* Numbers that a file does not tell are unknown, as in a workload file. */
static const struct dp_cluster_owner nobody = {-1, -1, -1, -1, -1};

static void generate_job(const struct dp_cluster_model *model, uint32_t nodes, struct dp_cluster_draw *draw, struct dp_lublin *lublin,
                         double *at_s, struct dp_cluster_job *out)
{
    const struct dp_cluster_estimate *estimate = &model->estimate;
    double run_s, size;
    uint32_t n;

    if (model->n_classes) {
        const struct dp_cluster_class *c = &model->class[out->class_id = draw_class(draw, model)];

        *at_s += within(0, dp_cluster_draw_from(draw, &model->between_arrivals_s), MAX_SUBMIT_S);
        size = dp_cluster_draw_from(draw, &c->nodes);
        run_s = dp_cluster_draw_from(draw, &c->run_s);
        estimate = &c->estimate;
    } else {
        dp_lublin_next(lublin, at_s, &n, &run_s);
        size = n;
    }
    out->owner = nobody;
    out->submit_ns = (uint64_t)*at_s * DP_SECOND_NS;
    out->nodes = (uint32_t)within(1, floor(size + 0.5), nodes);
    out->run_ns = (uint64_t)within(1, floor(run_s + 0.5), MAX_RUN_S) * DP_SECOND_NS;
    out->limit_ns = limit_ns(draw, estimate, out->run_ns / DP_SECOND_NS);
}

int dp_cluster_generate(const struct dp_cluster_model *model, uint32_t nodes, struct dp_cluster_mix *mix, struct dp_err *err)
{
    struct dp_cluster_draw draw = {model->seed};
    struct dp_lublin lublin;
    double at_s = 0;

    memset(mix, 0, sizeof *mix);
    mix->job = calloc((size_t)model->n_jobs + 1, sizeof *mix->job);
    if (!mix->job)
        return dp_err_set(err, DP_ENOMEM, "%u jobs: out of memory", model->n_jobs);
    dp_lublin_init(&lublin, nodes, &draw);
    for (uint32_t i = 0; i < model->n_jobs; i++) {
        mix->job[i].number = i + 1;
        generate_job(model, nodes, &draw, &lublin, &at_s, &mix->job[i]);
        if (!(at_s <= MAX_SUBMIT_S)) {
            dp_cluster_mix_release(mix);
            return dp_err_set(err, DP_EINVAL, "job %u would arrive after %g s; expected at most %g s", i + 1, at_s, MAX_SUBMIT_S);
        }
        mix->n_jobs++;
    }
    return 0;
}

double dp_cluster_load(const struct dp_cluster_mix *mix, uint32_t nodes)
{
    double node_s = 0, span_s;

    for (uint32_t i = 0; i < mix->n_jobs; i++)
        node_s += (double)mix->job[i].run_ns * 1e-9 * mix->job[i].nodes;
    span_s = mix->n_jobs ? (double)(mix->job[mix->n_jobs - 1].submit_ns - mix->job[0].submit_ns) * 1e-9 : 0;
    return span_s > 0 ? node_s / (span_s * nodes) : 0;
}

int dp_cluster_set_load(struct dp_cluster_mix *mix, uint32_t nodes, double load, struct dp_err *err)
{
    double now = dp_cluster_load(mix, nodes), factor = now / load;
    uint64_t first_ns = mix->n_jobs ? mix->job[0].submit_ns : 0;
    double last_s = mix->n_jobs ? (double)(mix->job[mix->n_jobs - 1].submit_ns - first_ns) * 1e-9 * factor : 0;

    if (!(now > 0) || !(last_s + (double)first_ns * 1e-9 <= MAX_SUBMIT_S))
        return dp_err_set(err, DP_EINVAL, "a load of %g cannot be reached: it is %g, and the last job would arrive after %g s", load, now,
                          last_s);
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        struct dp_cluster_job *j = &mix->job[i];

        j->submit_ns = first_ns + (uint64_t)((double)(j->submit_ns - first_ns) * 1e-9 * factor) * DP_SECOND_NS;
    }
    return 0;
}
