/* SPDX-License-Identifier: BSD-3-Clause */
/* See layout.h. Everything that reads a layout from a wire, a file, a person or a policy passes it
 * through dp_layout_check() before it indexes anything with it. */
#include "common/run/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/run/megatron.h"

int dp_layout_check(const struct dp_layout *l, struct dp_err *err)
{
    if (l->n_workers < 1 || l->n_workers > DP_MAX_WORKERS)
        return dp_err_set(err, DP_EINVAL, "layout: %u workers; allowed: 1 to %d", l->n_workers,
                          DP_MAX_WORKERS);
    if (l->n_layers < 1 || l->n_layers > DP_MAX_LAYERS)
        return dp_err_set(err, DP_EINVAL, "layout: %u layers; allowed: 1 to %d", l->n_layers,
                          DP_MAX_LAYERS);
    if (l->cut[0] != 0)
        return dp_err_set(err, DP_EINVAL, "layout: starts at layer %u, not 0", l->cut[0]);
    for (uint32_t s = 0; s < l->n_workers; s++) {
        if (l->cut[s + 1] < l->cut[s])
            return dp_err_set(err, DP_EINVAL, "layout: worker %u ends at layer %u before it starts at %u",
                              s, l->cut[s + 1], l->cut[s]);
        if (l->gone[s] && l->cut[s + 1] != l->cut[s])
            return dp_err_set(err, DP_EINVAL, "layout: gives layers %u-%u to worker %u, which left the run",
                              l->cut[s], l->cut[s + 1] - 1, s);
    }
    if (l->cut[l->n_workers] != l->n_layers)
        return dp_err_set(err, DP_EINVAL, "layout: ends at layer %u of %u", l->cut[l->n_workers],
                          l->n_layers);
    return 0;
}

uint32_t dp_layout_owner(const struct dp_layout *l, uint32_t layer)
{
    uint32_t s = 0;

    while (l->cut[s + 1] <= layer)
        s++;
    return s;
}

int dp_layout_next(const struct dp_layout *l, uint32_t worker)
{
    for (uint32_t s = worker + 1; s < l->n_workers; s++)
        if (l->cut[s + 1] > l->cut[s])
            return (int)s;
    return -1;
}

int dp_layout_prev(const struct dp_layout *l, uint32_t worker)
{
    for (uint32_t s = worker; s-- > 0;)
        if (l->cut[s + 1] > l->cut[s])
            return (int)s;
    return -1;
}

uint32_t dp_layout_stage(const struct dp_layout *l, uint32_t worker)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < worker; w++)
        n += l->cut[w + 1] > l->cut[w];
    return n;
}

uint32_t dp_layout_leader(const struct dp_layout *l)
{
    for (uint32_t w = 0; w < l->n_workers; w++)
        if (!l->gone[w])
            return w;
    return 0;
}

uint32_t dp_layout_members(const struct dp_layout *l)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < l->n_workers; s++)
        n += !l->gone[s];
    return n;
}

uint32_t dp_layout_active(const struct dp_layout *l)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < l->n_workers; s++)
        n += l->cut[s + 1] > l->cut[s];
    return n;
}

uint32_t dp_layout_moves(const struct dp_layout *old, const struct dp_layout *next, struct dp_moves *out)
{
    uint32_t from = 0, to = 0, n = 0;

    for (uint32_t layer = 0; layer < old->n_layers; layer++) {
        while (layer >= old->cut[from + 1])
            from++;
        while (layer >= next->cut[to + 1])
            to++;
        if (from == to)
            continue;
        if (out)
            out->move[n] = (struct dp_move){.layer = layer, .from = from, .to = to};
        n++;
    }
    if (out)
        out->n = n;
    return n;
}

void dp_layout_format(const struct dp_layout *l, char *out, size_t cap)
{
    size_t n = 0;

    if (cap)
        out[0] = '\0';
    for (uint32_t s = 0; s < l->n_workers && n < cap; s++) {
        const char *bar = s ? "|" : "";

        if (l->gone[s])
            n += (size_t)snprintf(out + n, cap - n, "%sx", bar);
        else if (l->cut[s + 1] == l->cut[s])
            n += (size_t)snprintf(out + n, cap - n, "%s-", bar);
        else if (l->cut[s + 1] == l->cut[s] + 1)
            n += (size_t)snprintf(out + n, cap - n, "%s%u", bar, l->cut[s]);
        else
            n += (size_t)snprintf(out + n, cap - n, "%s%u-%u", bar, l->cut[s], l->cut[s + 1] - 1);
    }
}

/* One field of the text: "a-b", "a", "-" or "x". returns: 0, or -1. */
static int parse_field(const char *field, uint32_t start, uint32_t *end)
{
    char *rest;
    unsigned long a, b;

    *end = start;
    if (!strcmp(field, "-") || !strcmp(field, "x"))
        return 0;
    if (*field < '0' || *field > '9')
        return -1;
    a = b = strtoul(field, &rest, 10);
    if (*rest == '-') {
        if (rest[1] < '0' || rest[1] > '9')
            return -1;
        b = strtoul(rest + 1, &rest, 10);
    }
    if (*rest || a != start || b < a || b >= DP_MAX_LAYERS)
        return -1;
    *end = (uint32_t)b + 1;
    return 0;
}

static int parse_megatron(const char *text, struct dp_layout *l, struct dp_err *err)
{
    struct dp_megatron m;

    if (dp_megatron_parse(text, &m, err) < 0)
        return -1;
    if (m.first_mtp)
        return dp_err_set(err, DP_EINVAL, "Megatron layout, position %u: the model has no layer m", m.first_mtp);
    if (m.n_stages != l->n_workers || m.n_layers != l->n_layers)
        return dp_err_set(err, DP_EINVAL, "Megatron layout: %u layers in %u stages, the run has %u on %u workers%s",
                          m.n_layers, m.n_stages, l->n_layers, l->n_workers,
                          m.n_stages > l->n_workers ? " (a worker cannot have several stages)" : "");
    for (uint32_t s = 0; s < l->n_workers; s++)
        l->cut[s + 1] = l->cut[s] + m.layers[s];
    return 0;
}

static int parse_fields(const char *text, struct dp_layout *l, struct dp_err *err)
{
    const char *p = text;

    for (uint32_t s = 0; s < l->n_workers; s++) {
        char field[32];
        size_t n = strcspn(p, "|");

        if (n == 0 || n >= sizeof field)
            return dp_err_set(err, DP_EINVAL, "layout '%s': no field for worker %u of %u", text, s,
                              l->n_workers);
        memcpy(field, p, n);
        field[n] = '\0';
        if (parse_field(field, l->cut[s], &l->cut[s + 1]) < 0)
            return dp_err_set(err, DP_EINVAL,
                              "layout '%s': field '%s' of worker %u does not continue at layer %u", text,
                              field, s, l->cut[s]);
        p += n;
        if (*p == '|' && s + 1 < l->n_workers)
            p++;
    }
    if (*p)
        return dp_err_set(err, DP_EINVAL, "layout '%s': more fields than the %u workers", text,
                          l->n_workers);
    return 0;
}

int dp_layout_parse(const char *text, const struct dp_layout *current, struct dp_layout *out,
                    struct dp_err *err)
{
    struct dp_layout l = *current;

    if ((dp_megatron_looks_like(text) ? parse_megatron : parse_fields)(text, &l, err) < 0)
        return -1;
    if (dp_layout_check(&l, err) < 0)
        return -1;
    *out = l;
    return 0;
}
