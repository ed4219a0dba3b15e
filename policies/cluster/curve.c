/* SPDX-License-Identifier: BSD-3-Clause */
/* See curve.h. */
#include "policies/cluster/curve.h"

#include <stdlib.h>

#include "policies/sim/run.h"

struct observer {
    uint32_t all, held;
    double at_s;
    struct dp_cluster_curve *curve;
};

static int observe(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    struct observer *o = arg;
    struct dp_cluster_curve *c = o->curve;

    if (p->held > o->held)
        return dp_err_set(err, DP_EINVAL, "iteration %llu: the run holds %u devices after %u; a job never grows",
                          (unsigned long long)p->first, p->held, o->held);
    if (p->held < o->held) {
        if (c->n_steps == DP_CLUSTER_MAX_STEPS)
            return dp_err_set(err, DP_EINVAL, "the run gives devices back more than %u times", DP_CLUSTER_MAX_STEPS);
        c->step[c->n_steps++] = (struct dp_cluster_step){o->at_s + (double)p->pause_ns * 1e-9, (double)p->held / o->all};
    }
    o->held = p->held;
    o->at_s += p->device_s / p->held;
    return 0;
}

/* Nobody moves layers or gives devices back. The first event of a recorded run brings its layout. */
static void stand_still(struct dp_sim_case *c)
{
    for (uint32_t i = 0; i < c->n_events; i++) {
        struct dp_sim_event *e = &c->event[i];

        if (e->iteration == 1 && e->count)
            continue;
        if (e->count || e->policy[0] || e->release != DP_SIM_RELEASE_NONE)
            e->pause_ns = 0;
        free(e->count);
        e->count = NULL;
        e->n_count = 0;
        e->policy[0] = '\0';
        e->devices = 0;
        e->release = DP_SIM_RELEASE_NONE;
    }
}

int dp_cluster_curve_simulate(struct dp_sim_case *c, struct dp_cluster_curve *out, struct dp_err *err)
{
    struct observer o = {.all = c->replicas * c->devices, .held = c->replicas * c->devices, .curve = out};
    struct dp_sim_totals with, without;
    uint32_t n = 0;

    out->n_steps = 0;
    if (dp_sim_run(c, observe, &o, &with, err) < 0)
        return dp_err_prefix(err, "with DynPipe");
    stand_still(c);
    if (dp_sim_run(c, NULL, NULL, &without, err) < 0)
        return dp_err_prefix(err, "without DynPipe");
    if (!(with.time_s > 0) || !(without.time_s > 0))
        return dp_err_set(err, DP_EINVAL, "the run takes no time");
    out->stretch = with.time_s / without.time_s;
    for (uint32_t k = 0; k < out->n_steps; k++) {
        struct dp_cluster_step s = {out->step[k].at / with.time_s, out->step[k].hold};

        /* what comes at once with another step, or at either end */
        if (!(s.at > 0) || !(s.at < 1))
            continue;
        if (n && !(s.at > out->step[n - 1].at))
            n--;
        out->step[n++] = s;
    }
    out->n_steps = n;
    return 0;
}
