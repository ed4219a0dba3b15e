/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a decision that takes time: what the simulator predicts for the layouts that there are, what
 * the policy proposes for every number of devices, what is predicted for it, and when to use the only
 * shrink. Runs in a child process (dp_coord_ops.plan) on a copy of the coordinator, so that neither 512
 * workers nor a policy that never answers can hold up the daemon. Changes nothing but its own result.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/list.h"
#include "policies/predict/answer.h"

#define MANY_WORKERS 32 /* with more there are three looks ahead: each packs anew */

/* Room to work in. */
struct planner {
    const struct dp_coord *c;
    const struct coord_planning *q;
    struct coord_snapshot now, early;
    struct dp_device all[DP_MAX_WORKERS];
    struct dp_sim_stage_out stage[DP_MAX_WORKERS];
    struct dp_site_policy site; /* its own budget of time */
    const struct dp_policy *policy;
    void *state; /* of the policy */
    struct dp_pack_rule rule;
    uint8_t stays[DP_MAX_SLOTS]; /* of the rule */
    struct dp_policy_in in; /* that policies and packing are asked with: plain, or corrected */
    struct dp_device device[DP_MAX_WORKERS]; /* corrected */
    struct dp_pack pack, later_pack;
    struct coord_ahead ahead;
    struct coord_known known; /* what is to come */
    struct dp_layer_load later_layer[DP_MAX_LAYERS];
    uint64_t later_opt[DP_MAX_LAYERS];
    struct coord_plan t;
};

/* Loads, speeds and what is learnt from them. */
static int look(struct planner *k, struct dp_err *err)
{
    const struct dp_coord *c = k->c;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        k->t.speed[r] = c->worker[r].speed;
    if (k->q->wants_reference && c->reference.early.is_set && c->reference.early.is_unmoved)
        coord_snapshot_speeds(c, k->t.speed);
    coord_snapshot_fill(c, k->t.speed, &k->now);
    k->t.trend = c->trend;
    if (dp_policy_in_check(&k->now.in, err) < 0)
        return -1;
    dp_prune_learn(&k->t.trend, k->now.layer, c->train.n_layers);
    coord_foresight(c, k->t.speed, dp_prune_slope(&k->t.trend), &k->known);
    return 0;
}

static void predict_reference(struct planner *k)
{
    struct dp_err err;

    coord_snapshot_fill_early(k->c, k->t.speed, &k->early);
    if (dp_policy_in_check(&k->early.in, &err) < 0 ||
        dp_predict_layout(&k->early.in, &k->c->start_layout, NULL, &k->t.reference_ns, &err) < 0)
        k->t.reference_ns = 0;
}

static void keep_faster(uint64_t *best, uint64_t ns)
{
    if (ns && (!*best || ns < *best))
        *best = ns;
}

/* The best layout on all devices that the run began with, also on those that left, and on no seat that was empty then: the
 * fastest of the start layout, that of policy `time`, that of the run's own policy, and the one in force while nobody has left. */
static uint64_t predict_balanced(struct planner *k)
{
    const struct dp_policy *policy[] = {&dp_policy_time, k->state ? NULL : k->policy};
    struct dp_policy_in in = k->now.in;
    uint64_t best = k->t.start_ns;
    bool has_all = true;

    for (uint32_t r = 0; r < k->c->train.n_workers; r++) {
        has_all = has_all && k->now.device[r].is_allowed != k->c->start_layout.gone[r];
        k->all[r] = k->now.device[r];
        k->all[r].is_allowed = !k->c->start_layout.gone[r];
    }
    in.current = &k->c->start_layout;
    in.device = k->all;
    for (size_t i = 0; i < sizeof policy / sizeof policy[0]; i++)
        if (policy[i] && dp_policy_run(policy[i], NULL, &in, &k->later_pack.best, NULL) == 0)
            keep_faster(&best, k->later_pack.best.iteration_ns);
    if (has_all)
        keep_faster(&best, k->t.current_ns);
    return best;
}

/* Iterations of the layouts that there are, and what each worker computes in one. */
static int predict(struct planner *k, struct dp_err *err)
{
    const struct dp_coord *c = k->c;
    uint32_t n = 0;

    if (dp_predict_layout(&k->now.in, &c->start_layout, NULL, &k->t.start_ns, err) < 0)
        k->t.start_ns = 0;
    if (k->q->wants_reference && c->reference.early.is_set)
        predict_reference(k);
    else if (k->q->wants_reference)
        k->t.reference_ns = k->t.start_ns; /* the run was taken up later than that */
    if (dp_predict_layout(&k->now.in, &c->layout, k->stage, &k->t.current_ns, err) < 0) {
        k->t.current_ns = 0;
        return -1;
    }
    k->t.balanced_ns = predict_balanced(k);
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->layout.cut[r + 1] > c->layout.cut[r])
            k->t.stage_ns[r] = k->stage[n++].busy_ns;
    return 0;
}

uint32_t coord_shrinks_left(const struct dp_coord *c)
{
    if (coord_is_sliced(c))
        return DP_MAX_SLOTS; /* nothing is asked of Slurm */
    return c->job.shrinks_allowed > c->rel.shrinks_used ? c->job.shrinks_allowed - c->rel.shrinks_used : 0;
}

/* Slots that packing is predicted to free at a step to come; none when it cannot be told. */
static uint32_t free_at(struct planner *k, uint64_t step)
{
    struct dp_policy_in in = k->in;
    struct dp_pack_rule rule = k->rule;

    dp_foresee(&k->known.f, step, k->now.layer, k->now.opt, k->c->train.n_layers, k->later_layer, k->later_opt);
    in.layer = k->later_layer;
    in.layer_opt_ns = k->later_opt;
    if (rule.limits.reference == DP_REF_FIXED)
        rule.reference_ns = coord_fixed_ns(k->c, &in);
    if (dp_policy_in_check(&in, NULL) < 0 || dp_pack_choose(k->policy, k->state, &in, &rule, &k->later_pack, NULL) < 0 ||
        k->later_pack.slots >= k->q->d.slots_now)
        return 0;
    return k->q->d.slots_now - k->later_pack.slots;
}

/* Steps at which more may be free, and how much: the last change that is known to come first, and when that is no more
 * than now, nothing else. A prediction for many workers takes long: those look at few steps. */
static void look_ahead(struct planner *k, struct dp_release_when_in *in)
{
    struct dp_look look[DP_RELEASE_LATER];
    uint32_t n = dp_foresee_looks(&k->known.f, in->step, in->steps_total,
                                  k->c->train.n_workers > MANY_WORKERS ? 3 : DP_RELEASE_LATER, look);

    while (n-- > 0) {
        struct dp_release_later *later = &in->later[in->n_later];

        later->step = look[n].step;
        later->free = free_at(k, later->step);
        if (later->free <= in->free_now)
            return; /* nor does an earlier step free more */
        in->n_later++;
    }
}

/* May slots be freed now? Fills in the reason either way. Of a run that would have to begin again nothing is asked of Slurm. */
static bool may_release(struct planner *k)
{
    const struct dp_coord *c = k->c;
    struct dp_release_when_in in = {.shrinks_left = coord_shrinks_left(c),
                                    .has_stepmgr = c->job.has_stepmgr,
                                    .step = c->train.step,
                                    .step_s = (double)coord_recent_step_ns(c) / 1e9,
                                    .steps_total = c->train.steps_total};
    struct dp_release_when_out out;

    in.free_now = k->pack.slots < k->q->d.slots_now ? k->q->d.slots_now - k->pack.slots : 0;
    if (c->train.is_fixed) {
        snprintf(k->t.release_reason, sizeof k->t.release_reason, "%ss that a restart would not need: %u", coord_slot_word(c), in.free_now);
        return in.free_now;
    }
    if (in.free_now && in.shrinks_left == 1)
        look_ahead(k, &in);
    dp_release_when(&in, &out);
    snprintf(k->t.release_reason, sizeof k->t.release_reason, "%s", out.reason);
    return out.now;
}

static void leave_slots(struct planner *k)
{
    for (uint32_t r = 0; r < k->c->train.n_workers; r++)
        if (!k->pack.keep_slot[k->c->worker[r].slot])
            k->t.out.layout.gone[r] = 1;
}

static void set_rule(struct planner *k)
{
    const struct dp_pack_limits *l = &k->c->limits.pack;

    k->rule = (struct dp_pack_rule){*l, l->reference == DP_REF_FIXED ? k->t.start_ns
                                        : k->t.reference_ns          ? k->t.reference_ns
                                                                     : k->c->reference.ns,
                                    coord_is_sliced(k->c), k->stays};
    if (coord_copies(k->c) && !coord_only_node(k->c))
        k->rule.limits.min_nodes = 2; /* a layer here, its copy there */
    for (uint32_t s = 0; s < k->c->n_slots; s++)
        k->stays[s] = coord_slot_stays(k->c, s);
}

/* From here on predictions are corrected, and so is what they are held against. */
static int use_correction(struct planner *k, struct dp_err *err)
{
    const struct dp_correction *model = coord_correct_model(k->c, &k->t);

    dp_correction_apply(model, &k->now.in, k->device, &k->in);
    k->t.basis_start_ns = coord_fixed_ns(k->c, &k->in);
    if (k->rule.limits.reference == DP_REF_FIXED) {
        k->rule.reference_ns = k->t.basis_start_ns;
    } else if (k->c->reference.step_ns && k->rule.reference_ns) {
        k->rule.reference_ns = dp_correction_iteration_ns(model, k->c->reference.step_ns);
        k->rule.reference_ns += !k->rule.reference_ns; /* 0 would be none */
    }
    k->t.is_corrected = true;
    return dp_predict_layout(&k->in, &k->c->layout, NULL, &k->t.basis_ns, err);
}

/* While balancing pauses: predictions differ from those that the layout in force was decided with by the loads alone. */
static int use_decided(struct planner *k, struct dp_err *err)
{
    const struct coord_basis *b = &k->c->balance.now;

    k->in = k->now.in;
    if (b->is_corrected)
        dp_correction_apply(&b->correction, &k->now.in, k->device, &k->in);
    k->t.is_corrected = b->is_corrected;
    k->t.is_as_decided = true;
    return dp_predict_layout(&k->in, &k->c->layout, NULL, &k->t.basis_ns, err);
}

/* Wall time of a step under the proposal, and what the reference allows. What no prediction knows of the step
 * (the rest) may stay as it is or grow with it: a promise is missed when it is neither. */
static int foresee(struct planner *k, const struct dp_layout *next, struct dp_err *err)
{
    const struct dp_correction *model = coord_correct_model(k->c, &k->t);
    uint64_t rest_ns = model->rest_ns, now_ns = k->t.measured.ns;

    if (!k->t.measured.n)
        return 0;
    if (dp_correction_predict(model, &k->now.in, next, &k->t.then_ns, err) < 0)
        return -1;
    k->t.most_ns = k->t.then_ns;
    if (now_ns > rest_ns && k->t.then_ns > now_ns)
        k->t.most_ns = (uint64_t)((double)(k->t.then_ns - rest_ns) / (double)(now_ns - rest_ns) * (double)now_ns);
    return 0;
}

/* The fewest slots, or device-seconds, that meet the reference now and for good, the trade that this is, the reason, and
 * whether they may be freed now. returns 1 or 0, or -1. */
static int pack(struct planner *k, const char *before, struct dp_err *err)
{
    int n;

    coord_look_ahead(k->c, &k->now, &k->in, &k->known.f, &k->ahead);
    if (dp_pack_choose_lasting(k->policy, k->state, &k->in, &k->rule, k->ahead.later, k->ahead.n, &k->pack, err) < 0)
        return dp_policy_is_broken(err) ? -1 : 0;
    coord_trade_fill(k->c, &k->t, &k->pack, k->q->d.slots_now, &k->t.trade);
    k->t.limit_ns = k->pack.limit_ns;
    k->t.fastest_ns = k->pack.fastest_ns;
    n = snprintf(k->t.pack_reason, sizeof k->t.pack_reason, "%s%s time: ", before, k->t.is_corrected ? "corrected" : "device");
    snprintf(k->t.pack_reason + n, sizeof k->t.pack_reason - (size_t)n, "%s", k->pack.reason);
    k->t.allowed_ns = coord_correct_allowed_ns(k->c, &k->now.in, &k->t);
    return may_release(k) ? foresee(k, &k->pack.best.layout, err) < 0 ? -1 : 1 : 0;
}

/* Would slots be given up that the measured times say are needed? */
static bool is_too_slow(const struct planner *k)
{
    return k->pack.slots < k->q->d.slots_now && k->t.allowed_ns &&
           (double)k->t.then_ns > (double)k->t.allowed_ns * (1.0 + DP_PROMISE_TOLERANCE + k->t.measured.noise);
}

static int pack_as_measured(struct planner *k, struct dp_err *err)
{
    char before[256] = "";
    int rc;

    if (!k->c->train.is_fixed && coord_has_outdated(k->c, before, sizeof before)) {
        snprintf(k->t.pack_reason, sizeof k->t.pack_reason, "packing waits: %s", before);
        return foresee(k, &k->c->layout, err);
    }
    if (k->c->promise.is_stopped) {
        snprintf(k->t.pack_reason, sizeof k->t.pack_reason, "packing is stopped: %.200s", k->c->promise.why);
        return foresee(k, &k->c->layout, err);
    }
    rc = pack(k, before, err);
    if (rc <= 0 || !is_too_slow(k))
        return rc;
    snprintf(before, sizeof before, "%u %ss by device time, but a step would take %.1f ms of wall time, %.1f ms are allowed; ",
             k->pack.slots, coord_slot_word(k->c), (double)k->t.then_ns / 1e6, (double)k->t.allowed_ns / 1e6);
    if (!k->t.is_corrected && use_correction(k, err) < 0)
        return -1;
    rc = pack(k, before, err);
    return rc > 0 && is_too_slow(k) ? 0 : rc;
}

/* The layout to move to, packed where slots may be given back, else the fastest one. */
static int propose(struct planner *k, struct dp_err *err)
{
    static const struct dp_pack_rule fastest = {.limits.reference = DP_REF_START};
    uint8_t mode = k->c->limits.mode; /* what was asked for: where it is observed only, what would be done is to be seen */
    int rc = 0;

    k->t.slots_after = k->q->d.slots_now;
    if (mode == DP_MODE_RELEASE || mode == DP_MODE_OBSERVE)
        rc = pack_as_measured(k, err);
    if (rc < 0)
        return -1;
    if (rc) {
        k->t.out = k->pack.best;
        k->t.slots_after = k->pack.slots;
        leave_slots(k);
        return 0;
    }
    if (coord_balance_is_paused(k->c, k->q->d.first_ns) && use_decided(k, err) < 0)
        return -1;
    if (dp_pack_choose(k->policy, k->state, &k->in, &fastest, &k->pack, err) < 0)
        return -1;
    if (!k->t.trade.n)
        coord_trade_fill(k->c, &k->t, &k->pack, k->q->d.slots_now, &k->t.trade);
    k->t.fastest_ns = k->pack.fastest_ns;
    k->t.out = k->pack.best;
    return foresee(k, &k->t.out.layout, err);
}

/* Of the layers that have as many parameters as most have the first one, and the one behind the last. */
static void find_blocks(struct planner *k)
{
    uint64_t params = dp_most_common_params(k->now.layer, k->c->train.n_layers);

    k->t.end_block = 0;
    for (uint32_t l = k->c->train.n_layers; l-- > 0;)
        if (k->now.layer[l].params == params) {
            k->t.first_block = l;
            if (!k->t.end_block)
                k->t.end_block = l + 1;
        }
}

static int make_plan(struct planner *k, struct dp_err *err)
{
    if (look(k, err) < 0 || predict(k, err) < 0 || coord_correct_learn(k->c, &k->now.in, &k->t, err) < 0)
        return -1;
    find_blocks(k);
    k->t.left_mean = coord_steps_left_mean(k->c, &k->now, &k->known.f, k->later_layer, k->later_opt);
    coord_noise_look(k->c, &k->t.noise);
    set_rule(k);
    k->in = k->now.in;
    k->t.basis_ns = k->t.current_ns;
    k->t.basis_start_ns = k->t.start_ns;
    if (k->c->promise.is_corrected && use_correction(k, err) < 0)
        return -1;
    if (propose(k, err) < 0)
        return -1;
    coord_trade_choose(&k->t.trade, k->t.slots_after, k->t.slots_after == k->q->d.slots_now ? "chosen"
                       : k->rule.is_sliced                       ? "chosen: gives slices back"
                                                                 : "chosen: gives nodes back");
    if (k->t.slots_after >= k->q->d.slots_now && coord_grow_may_now(k->c, k->q->d.first_ns))
        coord_grow_predict(k->c, k->state ? NULL : k->policy, &k->in, k->q->d.slots_now, &k->t);
    k->t.moved_layers = dp_moved_layers(&k->now.in, &k->t.out.layout, &k->t.moved_bytes);
    return 0;
}

size_t dp_coord_plan(const struct dp_coord *c, uint8_t *result)
{
    struct planner *k = calloc(1, sizeof *k);
    struct dp_err err = {.code = DP_EINVAL};

    if (!k || !c->planning) {
        free(k);
        return 0;
    }
    k->c = c;
    k->q = c->planning;
    k->policy = c->policy;
    if (c->site) {
        k->site = *c->site;
        k->state = &k->site;
    }
    k->t.rc = make_plan(k, &err);
    if (k->t.rc < 0) {
        k->t.code = err.code;
        snprintf(k->t.why, sizeof k->t.why, "%.*s", (int)sizeof k->t.why - 1, err.text);
    }
    memcpy(result, &k->t, sizeof k->t);
    free(k);
    return sizeof(struct coord_plan);
}
