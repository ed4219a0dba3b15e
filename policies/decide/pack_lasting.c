/* SPDX-License-Identifier: BSD-3-Clause */
/* See pack.h, dp_pack_choose_lasting(). Where a choice does not last, more devices than it kept are asked for, until
 * one lasts or all are kept. */
#include "policies/decide/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "policies/predict/answer.h"

struct lasting {
    const struct dp_policy *policy;
    void *state;
    const struct dp_policy_in *in;
    uint32_t n_usable;
    struct dp_device device[DP_MAX_WORKERS]; /* on the slots that are kept */
    struct dp_policy_out then;
};

static bool is_usable(const struct dp_policy_in *in, uint32_t d)
{
    return in->device[d].is_allowed && !in->current->gone[d];
}

static uint32_t allow_kept(struct lasting *t, const struct dp_pack *p)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < t->in->n_devices; d++) {
        t->device[d] = t->in->device[d];
        t->device[d].is_allowed = is_usable(t->in, d) && p->keep_slot[t->device[d].slot];
        n += t->device[d].is_allowed;
    }
    return n;
}

/* Iteration of the kept devices with the later loads; 0: they have no layout then. */
static uint64_t iteration_then(struct lasting *t, const struct dp_pack_later *later)
{
    struct dp_policy_in in = *t->in;

    in.device = t->device;
    in.layer = later->layer;
    in.layer_opt_ns = later->layer_opt_ns;
    return dp_policy_run(t->policy, t->state, &in, &t->then, NULL) < 0 ? 0 : t->then.iteration_ns;
}

/* The first of the later loads with which the choice is too slow, NULL: it lasts. */
static const struct dp_pack_later *find_too_slow(struct lasting *t, const struct dp_pack_later *later, uint32_t n,
                                                 uint64_t *ns)
{
    for (uint32_t i = 0; i < n; i++) {
        *ns = iteration_then(t, &later[i]);
        if (!*ns || *ns > later[i].limit_ns)
            return &later[i];
    }
    return NULL;
}

static void keep_all(const struct lasting *t, struct dp_pack *out)
{
    out->slots = 0;
    for (uint32_t d = 0; d < t->in->n_devices; d++)
        if (is_usable(t->in, d))
            out->keep_slot[t->in->device[d].slot] = 1;
    for (uint32_t s = 0; s < t->in->n_slots; s++)
        out->slots += out->keep_slot[s];
}

static void add_reason(struct dp_pack *out, uint32_t devices, uint64_t ns, const struct dp_pack_later *later)
{
    size_t n = strlen(out->reason);
    char allowed[DP_PACK_ALLOWED];

    snprintf(out->reason + n, sizeof out->reason - n, "; %u device%s would take %.3f ms a step later, %s allowed then",
             devices, dp_plural(devices), (double)ns / 1e6, dp_pack_allowed(later->limit_ns, allowed));
}

static int choose(struct lasting *t, const struct dp_pack_rule *rule, const struct dp_pack_later *later, uint32_t n_later,
                  struct dp_pack *out, struct dp_err *err)
{
    const struct dp_pack_later *slow, *last = NULL;
    struct dp_pack_rule more = *rule;
    uint32_t devices = 0, kept;
    uint64_t ns = 0, last_ns = 0;

    for (;;) {
        if (dp_pack_choose(t->policy, t->state, t->in, &more, out, err) < 0)
            return -1;
        kept = allow_kept(t, out);
        slow = out->limit_ns && kept < t->n_usable ? find_too_slow(t, later, n_later, &ns) : NULL;
        if (!slow)
            break;
        last = slow;
        last_ns = ns;
        devices = kept;
        if (kept < more.limits.min_devices) { /* nothing meets: the fastest layout, which leaves some idle */
            keep_all(t, out);
            break;
        }
        more.limits.min_devices = kept + 1;
    }
    if (last)
        add_reason(out, devices, last_ns, last);
    return 0;
}

int dp_pack_choose_lasting(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                           const struct dp_pack_rule *rule, const struct dp_pack_later *later, uint32_t n_later,
                           struct dp_pack *out, struct dp_err *err)
{
    struct lasting *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return dp_err_set(err, DP_ENOMEM, "packing: out of memory");
    t->policy = policy;
    t->state = state;
    t->in = in;
    for (uint32_t d = 0; d < in->n_devices; d++)
        t->n_usable += is_usable(in, d);
    rc = choose(t, rule, later, n_later, out, err);
    free(t);
    return rc;
}
