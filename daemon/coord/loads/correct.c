/* SPDX-License-Identifier: BSD-3-Clause */
/* What the simulator does not know of this run, from the measured step: how much others have of the workers'
 * cores, links that are slower than configured, time that belongs to no layer (policies/decide/correction.h).
 *
 * The sharing of cores and the rest are measured all along, so what a proposal will take is judged with them
 * before anybody moves. Decisions themselves are made with plain device time, in which noise does not show,
 * until a promise was missed: from then on with the correction, for as long as it says anything.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

/* --- how much others have of a slot's cores --- */

void coord_correct_report(struct dp_coord *c, const struct dp_msg_report *m)
{
    struct coord_worker *w = &c->worker[m->rank];

    if (m->n_layers && w->n_reports > c->limits.warmup_reports)
        w->shared[w->n_shared++ % COORD_SHARED] = dp_contention(m->step_ns, m->wait_ns, m->lost_ns);
}

static double median(const double *v, uint32_t n)
{
    double sorted[DP_MAX_WORKERS];

    memcpy(sorted, v, n * sizeof v[0]);
    return dp_median_double(sorted, n);
}

double coord_correct_sharing(const struct dp_coord *c, uint32_t slot)
{
    double each[DP_MAX_WORKERS], factor;
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const struct coord_worker *w = &c->worker[r];

        if (w->slot == slot && w->n_shared >= COORD_MEDIAN)
            each[n++] = median(w->shared, w->n_shared < COORD_SHARED ? w->n_shared : COORD_SHARED);
    }
    factor = n ? median(each, n) : 1.0;
    return factor < DP_CONTENTION_LEAST ? 1.0 : factor;
}

/* --- corrections --- */

static bool is_believed(const struct dp_coord *c, const struct coord_plan *t)
{
    return c->promise.is_corrected && (t->measured.n < DP_PROMISE_WINDOW || dp_promise_explains(&t->measured, t->believed_ns));
}

int coord_correct_learn(const struct dp_coord *c, const struct dp_policy_in *now, struct coord_plan *t,
                        struct dp_err *err)
{
    const struct coord_promise *p = &c->promise;
    bool is_doubted;

    coord_measured(c, &t->measured);
    if (p->is_corrected && dp_correction_predict(&p->correction, now, &c->layout, &t->believed_ns, err) < 0)
        return -1;
    for (uint32_t s = 0; s < c->n_slots; s++)
        t->learned.slot[s] = coord_correct_sharing(c, s);
    coord_link_fill(c, t->measured.ns, &t->learned.links);
    if (!t->measured.n)
        return 0;
    is_doubted = (p->is_stopped || p->is_corrected) && !is_believed(c, t);
    if (is_doubted && t->measured.n >= DP_PROMISE_WINDOW)
        return dp_correction_learn(&t->learned, now, &c->layout, t->measured.ns, p->has_usual ? p->usual.rest_ns : 0, err);
    t->learned.link_ns = p->is_corrected ? p->correction.link_ns : 0;
    return dp_correction_settle(&t->learned, now, &c->layout, t->measured.ns, err);
}

const struct dp_correction *coord_correct_model(const struct dp_coord *c, const struct coord_plan *t)
{
    return is_believed(c, t) ? &c->promise.correction : &t->learned;
}

/* With reference `start` the measured step of the start is what the user saw. Nobody has measured what `fixed` and
 * `best` compare with: the start layout with the loads of now, and the best one. They take what is predicted of them,
 * as much longer as the layout in force took while all was well. */
uint64_t coord_correct_allowed_ns(const struct dp_coord *c, const struct dp_policy_in *now, const struct coord_plan *t)
{
    const struct dp_correction *usual = c->promise.has_usual ? &c->promise.usual : &t->learned;
    bool is_fixed = c->limits.pack.reference == DP_REF_FIXED;
    uint64_t base_ns = is_fixed ? t->basis_start_ns : t->basis_ns, reference_ns = is_fixed ? base_ns : t->fastest_ns, wall_ns;
    double reference_wall;
    struct dp_err err;

    if (!t->limit_ns || c->limits.pack.packing == DP_PACKING_FIRST_FIT)
        return 0;
    if (c->limits.pack.reference == DP_REF_START)
        return dp_pack_limit_ns(&c->limits.pack, c->reference.step_ns);
    if (!t->measured.n || !base_ns || !reference_ns ||
        dp_correction_predict(usual, now, is_fixed ? &c->start_layout : &c->layout, &wall_ns, &err) < 0)
        return 0;
    reference_wall = (double)usual->rest_ns + (double)reference_ns / (double)base_ns * (double)(wall_ns - usual->rest_ns);
    return (uint64_t)(reference_wall * (double)t->limit_ns / (double)reference_ns);
}
