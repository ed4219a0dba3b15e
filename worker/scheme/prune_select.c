/* SPDX-License-Identifier: BSD-3-Clause */
/* See prune_select.h and prune_run.h: three histograms narrow the threshold down from 11 to 21 to 31 bits,
 * a fourth sum shares out the weights that are equal to it. All decisions are made from sums, which are
 * the same on every worker, so all workers take the same branches and call `sum` equally often.
 */
#include "worker/scheme/prune_select.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

struct level {
    uint32_t shift, bits; /* of the key that this level counts by */
};
static const struct level levels[] = {{20, 11}, {10, 10}, {0, 10}};

#define NO_KEY 0x7fffffffu /* the largest: with no ties nothing survives */

/* A selection under way. */
struct selection {
    struct dp_backend *be;
    struct dp_prune_part *parts;
    uint32_t n_parts, n_copies, n_layers;
    dp_allreduce_fn *sum;
    void *arg;
    uint64_t *device; /* of the backend: bins, or the ties of each part */
    uint64_t *host;   /* the same, read */
};

static int sum_over(const struct selection *s, uint64_t *counts, uint32_t n, struct dp_err *err)
{
    return s->sum ? s->sum(s->arg, counts, n, err) : 0;
}

/* Counts of all parts with bits `prefix` above the level's: in the same `1 << bits` bins, or with `apart`, and of copies, too, each in
 * its own. They are in s->host afterwards, n of them. */
static int count(const struct selection *s, struct level level, uint32_t prefix, bool apart, uint32_t n, struct dp_err *err)
{
    const size_t bytes = n * sizeof *s->host;
    const uint32_t n_parts = s->n_parts + (apart ? s->n_copies : 0);

    memset(s->host, 0, bytes);
    if (n_parts == 0)
        return 0;
    if (s->be->ops->zero(s->be, s->device, bytes, err) < 0)
        return -1;
    for (uint32_t p = 0; p < n_parts; p++) {
        const struct dp_count_keys a = {.n = s->parts[p].n, .x = s->parts[p].x, .left = s->parts[p].left, .prefix = prefix,
                                        .shift = level.shift, .bits = level.bits, .bins = s->device + (apart ? p : 0)};

        if (s->be->ops->count_keys(s->be, &a, err) < 0)
            return -1;
    }
    return s->be->ops->get(s->be, s->host, s->device, bytes, err);
}

/* The bin that holds the *k-th largest; *k becomes its rank within the bin. */
static uint32_t find_bin(const uint64_t *bins, uint32_t n, uint64_t *k)
{
    uint32_t b = n - 1;

    while (bins[b] < *k && b > 0)
        *k -= bins[b--];
    return b;
}

/* Of the weights equal to the threshold the first `left` in layer order survive. */
static int share_ties(const struct selection *s, uint32_t key, uint64_t left, struct dp_err *err)
{
    uint64_t *ties = calloc(s->n_layers + 1, sizeof *ties);
    int rc = -1;

    if (!ties)
        return dp_err_set(err, DP_ENOMEM, "pruning: no memory for the ties of %u layers", s->n_layers);
    if (count(s, (struct level){0}, key, true, s->n_parts + s->n_copies, err) < 0)
        goto out;
    for (uint32_t p = 0; p < s->n_parts; p++)
        ties[s->parts[p].layer] += s->host[p];
    if (sum_over(s, ties, s->n_layers, err) < 0)
        goto out;
    for (uint32_t l = 0; l < s->n_layers; l++) {
        ties[l] = dp_least_u64(ties[l], left);
        left -= ties[l];
    }
    for (uint32_t p = 0; p < s->n_parts + s->n_copies; p++) {
        s->parts[p].ties = dp_least_u64(s->host[p], ties[s->parts[p].layer]);
        ties[s->parts[p].layer] -= s->parts[p].ties;
    }
    rc = 0;
out:
    free(ties);
    return rc;
}

static int narrow(const struct selection *s, uint64_t k, struct dp_prune_cut *out, struct dp_err *err)
{
    for (uint32_t v = 0; v < sizeof levels / sizeof levels[0]; v++) {
        const uint32_t n = 1u << levels[v].bits;

        if (count(s, levels[v], out->key, false, n, err) < 0 || sum_over(s, s->host, n, err) < 0)
            return -1;
        for (uint32_t b = 0; b < n && v == 0; b++)
            out->live += s->host[b];
        if (v == 0) {
            out->kept = dp_least_u64(k, out->live);
            out->all = k >= out->live;
            if (k == 0)
                out->key = NO_KEY;
            if (out->all || k == 0)
                return 0;
        }
        out->key |= find_bin(s->host, n, &k) << levels[v].shift;
    }
    return share_ties(s, out->key, k, err);
}

int dp_prune_select(struct dp_backend *be, struct dp_prune_part *parts, uint32_t n_parts, uint32_t n_copies, uint32_t n_layers, uint64_t k,
                    dp_allreduce_fn *sum, void *arg, struct dp_prune_cut *out, struct dp_err *err)
{
    const uint32_t n_all = n_parts + n_copies;
    const size_t bytes = (DP_PRUNE_BINS > n_all ? DP_PRUNE_BINS : n_all) * sizeof(uint64_t);
    struct selection s = {.be = be, .parts = parts, .n_parts = n_parts, .n_copies = n_copies, .n_layers = n_layers, .sum = sum, .arg = arg,
                          .host = malloc(bytes)};
    void *device = NULL;
    int rc = -1;

    memset(out, 0, sizeof *out);
    for (uint32_t p = 0; p < n_all; p++)
        parts[p].ties = 0;
    if (!s.host)
        dp_err_set(err, DP_ENOMEM, "pruning: no memory for histograms");
    else if (n_all == 0 || be->ops->alloc(be, bytes, &device, err) == 0) {
        s.device = device;
        rc = narrow(&s, k, out, err);
    }
    if (device)
        be->ops->free(be, device);
    free(s.host);
    return rc;
}
