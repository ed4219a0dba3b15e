/* SPDX-License-Identifier: BSD-3-Clause */
/* See change.h. */
#include "common/run/change.h"

#include <inttypes.h>
#include <stddef.h>

static int check_value(const struct dp_change *c, uint32_t i, uint32_t n_layers, struct dp_err *err)
{
    switch (c->kind) {
    case DP_CHANGE_PRUNE:
        if (!(c->value >= 0.0 && c->value < 1.0))
            return dp_err_set(err, DP_EINVAL, "change %u: sparsity %g is not from 0 to less than 1", i, c->value);
        return 0;
    case DP_CHANGE_FREEZE:
        if (!(c->value >= 0.0 && c->value <= n_layers) || (double)(uint32_t)c->value != c->value)
            return dp_err_set(err, DP_EINVAL, "change %u: %g frozen layers, the run has %u", i, c->value, n_layers);
        return 0;
    }
    return dp_err_set(err, DP_EINVAL, "change %u: unknown kind %u", i, c->kind);
}

/* The newest one of its kind before c[i]; NULL: there is none. */
static const struct dp_change *earlier(const struct dp_change *c, uint32_t i)
{
    for (uint32_t k = i; k-- > 0;)
        if (c[k].kind == c[i].kind)
            return &c[k];
    return NULL;
}

int dp_changes_check(const struct dp_change *c, uint32_t n, uint32_t n_layers, struct dp_err *err)
{
    if (n > DP_CHANGES_MAX)
        return dp_err_set(err, DP_EINVAL, "%u changes, at most %u can be", n, DP_CHANGES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const struct dp_change *before = earlier(c, i);

        if (check_value(&c[i], i, n_layers, err) < 0)
            return -1;
        if ((i && c[i].step < c[i - 1].step) || (before && c[i].step == before->step))
            return dp_err_set(err, DP_EINVAL, "change %u: step %" PRIu64 " does not follow step %" PRIu64, i, c[i].step,
                              c[i - 1].step);
        if (before && c[i].value < before->value)
            return dp_err_set(err, DP_EINVAL, "change %u: value %g is less than the one before it, %g", i, c[i].value,
                              before->value);
    }
    return 0;
}

double dp_changes_value(const struct dp_change *c, uint32_t n, enum dp_change_kind kind, uint64_t step)
{
    double value = 0.0;

    for (uint32_t i = 0; i < n && c[i].step <= step; i++)
        if (c[i].kind == kind)
            value = c[i].value;
    return value;
}

uint32_t dp_changes_next(const struct dp_change *c, uint32_t n, uint64_t step)
{
    uint32_t i = 0;

    while (i < n && c[i].step <= step)
        i++;
    return i;
}

uint32_t dp_changes_of_pruning(uint64_t begin, uint64_t every, uint64_t end, double initial, double final,
                               struct dp_change out[DP_CHANGES_MAX])
{
    const uint64_t last = (end - begin) / every + ((end - begin) % every != 0); /* number of the event at `end`, from 0 */
    const uint64_t parts = last < DP_CHANGES_MAX - 1 ? last : DP_CHANGES_MAX - 1;

    if (!end)
        return 0;
    for (uint64_t k = 0; k <= parts; k++) {
        uint64_t i = parts ? last / parts * k + last % parts * k / parts : 0;
        double rest = last ? 1.0 - (double)i / (double)last : 0.0;
        double value = final + (initial - final) * rest * rest * rest;

        out[k] = (struct dp_change){.step = i == last ? end : begin + i * every, .value = value, .kind = DP_CHANGE_PRUNE};
        if (k && out[k].value < out[k - 1].value)
            out[k].value = out[k - 1].value; /* by rounding */
    }
    return (uint32_t)parts + 1;
}
