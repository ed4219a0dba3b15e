/* SPDX-License-Identifier: BSD-3-Clause */
/* See hetpipe.h. */
#include "config.h"

#include "policies/graph/papers/hetpipe.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME(ID, name) name,
static const char *const rules[DP_HETPIPE_N] = {DP_HETPIPE_RULES(NAME)};

const char *dp_hetpipe_rule_name(enum dp_hetpipe_rule rule)
{
    return rule < DP_HETPIPE_N ? rules[rule] : "?";
}

int dp_hetpipe_parse(const char *text, enum dp_hetpipe_rule *rule, uint32_t *n, struct dp_err *err)
{
    size_t length = isdigit((unsigned char)*text) ? 0 : strcspn(text, ":");
    const char *number = length == 0 ? text : text[length] ? text + length + 1 : NULL;
    char *end;
    int r = DP_HETPIPE_ANY;

    while (length && r < DP_HETPIPE_N && (strlen(rules[r]) != length || strncmp(rules[r], text, length) != 0))
        r++;
    *rule = (enum dp_hetpipe_rule)r;
    *n = 0;
    if (number) {
        unsigned long v = isdigit((unsigned char)*number) ? strtoul(number, &end, 10) : 0;

        if (v < 1 || v > DP_CLASSES_DEVICES || *end)
            r = DP_HETPIPE_N;
        *n = (uint32_t)v;
    }
    return r < DP_HETPIPE_N ? 0 : dp_err_set(err, DP_EINVAL, "expected np, ed, hd or any, with a number like ed:4, or a number");
}

/* ---- parting ---- */

/* n virtual workers share all devices of classes a and b (b == a: of one class) equally. returns: can they? */
static bool share(const struct dp_classes *c, uint32_t a, uint32_t b, uint32_t n, struct dp_hetpipe *out)
{
    struct dp_hetpipe_kind *k = &out->kind[out->n_kinds++];

    *k = (struct dp_hetpipe_kind){.n = n, .devices = {.between_bytes_per_s = c->between_bytes_per_s}};
    for (uint32_t i = a;; i = b) {
        struct dp_device_class *d = &k->devices.of[k->devices.n++];

        *d = c->of[i];
        d->devices /= n;
        if (d->devices * n != c->of[i].devices)
            return false;
        if (i == b)
            return true;
    }
}

static bool part_equal(const struct dp_classes *c, struct dp_hetpipe *out)
{
    struct dp_hetpipe_kind *k = &out->kind[out->n_kinds++];

    *k = (struct dp_hetpipe_kind){.n = out->n, .devices = *c};
    for (uint32_t i = 0; i < c->n; i++) {
        k->devices.of[i].devices /= out->n;
        if (k->devices.of[i].devices * out->n != c->of[i].devices)
            return false;
    }
    return true;
}

/* Classes, the fastest first; of equally fast ones as they come. */
static void sort_by_speed(const struct dp_classes *c, uint32_t order[DP_CLASSES_MOST])
{
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t at = i;

        for (; at > 0 && c->of[order[at - 1]].speed < c->of[i].speed; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Pairs from both ends (hybrid), or every class alone. each: devices of a virtual worker. */
static bool part_pairs(const struct dp_classes *c, bool is_hybrid, uint32_t each, struct dp_hetpipe *out)
{
    uint32_t order[DP_CLASSES_MOST];

    sort_by_speed(c, order);
    for (uint32_t i = 0; i < (is_hybrid ? (c->n + 1) / 2 : c->n); i++) {
        uint32_t a = order[i], b = is_hybrid ? order[c->n - 1 - i] : a;
        uint32_t devices = c->of[a].devices + (a == b ? 0 : c->of[b].devices);

        if (devices % each || !share(c, a, b, devices / each, out))
            return false;
    }
    return true;
}

int dp_hetpipe_part(const struct dp_classes *c, enum dp_hetpipe_rule rule, uint32_t n, struct dp_hetpipe *out, struct dp_err *err)
{
    uint32_t devices = dp_classes_devices(c);
    bool is_parted = n >= 1 && devices % n == 0;

    *out = (struct dp_hetpipe){.rule = rule, .n = n};
    if (is_parted)
        is_parted = rule == DP_HETPIPE_ED ? part_equal(c, out) : part_pairs(c, rule == DP_HETPIPE_HD, devices / n, out);
    return is_parted ? 0
                     : dp_err_set(err, DP_EINVAL, "rule %s does not part these %u devices into %u equally large virtual workers",
                                  dp_hetpipe_rule_name(rule), devices, n);
}

/* ---- plans ---- */

void dp_hetpipe_release(struct dp_hetpipe *h)
{
    for (uint32_t i = 0; i < h->n_kinds; i++)
        dp_graph_plan_release(&h->kind[i].plan);
    *h = (struct dp_hetpipe){.rule = DP_HETPIPE_ANY};
}

static int plan_kinds(const struct dp_graph *g, const struct dp_paper_ask *ask, struct dp_hetpipe *h, struct dp_err *err)
{
    const struct dp_plan_hierarchical net = {.microbatches = ask->net->microbatches, .is_straight = true, .watch = ask->net->watch};

    for (uint32_t i = 0; i < h->n_kinds; i++) {
        struct dp_hetpipe_kind *k = &h->kind[i];
        const struct dp_paper_ask one = {.net = &net, .classes = &k->devices};

        if (dp_paper_find(g, DP_PLAN_CLASSES, &one, &k->plan, err) < 0)
            return -1;
        if (k->plan.load_ns > h->kind[h->slowest].plan.load_ns)
            h->slowest = i;
    }
    h->load_ns = (h->kind[h->slowest].plan.load_ns + h->n - 1) / h->n;
    return 0;
}

int dp_hetpipe_find(const struct dp_graph *g, const struct dp_paper_ask *ask, enum dp_hetpipe_rule rule, uint32_t n,
                    struct dp_hetpipe *out, struct dp_err *err)
{
    bool is_any = rule == DP_HETPIPE_ANY;

    *out = (struct dp_hetpipe){.rule = DP_HETPIPE_ANY};
    n = n ? n : ask->classes->n;
    for (int r = is_any ? DP_HETPIPE_NP : (int)rule; r <= (is_any ? DP_HETPIPE_HD : (int)rule); r++) {
        struct dp_hetpipe h;

        if (dp_hetpipe_part(ask->classes, (enum dp_hetpipe_rule)r, n, &h, err) == 0 && plan_kinds(g, ask, &h, err) == 0 &&
            (!out->n || h.load_ns < out->load_ns)) {
            dp_hetpipe_release(out);
            *out = h;
        } else {
            dp_hetpipe_release(&h);
        }
    }
    return out->n ? 0 : -1;
}
