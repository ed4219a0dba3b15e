/* SPDX-License-Identifier: BSD-3-Clause */
/* See prune_select.h and prune.h: three histograms narrow the threshold down from 11 to 21 to 31 bits,
 * a fourth sum shares out the weights that are equal to it. All decisions are made from sums, which are
 * the same on every worker, so all workers take the same branches and call `sum` equally often.
 */
#include "worker/model/prune_select.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"

struct level {
    unsigned shift, bits; /* of the key that this level counts by */
};
static const struct level levels[] = {{20, 11}, {10, 10}, {0, 10}};

/* Count keys by the level's bits, of weights whose higher bits are those of `prefix`. */
static void count_level(const struct dp_prune_part *part, const struct level *lv, uint32_t prefix,
                        uint64_t *bins)
{
    const uint32_t mask = (1u << lv->bits) - 1;
    const unsigned high = lv->shift + lv->bits;

    for (int64_t i = 0; i < part->n; i++) {
        uint32_t key = dp_prune_key(part->w[i]);

        if ((part->keep && !dp_bits_get(part->keep, i)) || key >> high != prefix >> high)
            continue;
        bins[key >> lv->shift & mask]++;
    }
}

/* The bin that holds the *k-th largest; *k becomes its rank within the bin. */
static uint32_t find_bin(const uint64_t *bins, uint32_t n, uint64_t *k)
{
    uint32_t b = n - 1;

    while (bins[b] < *k && b > 0)
        *k -= bins[b--];
    return b;
}

static int sum_over(dp_allreduce_fn *sum, void *arg, uint64_t *counts, uint32_t n, struct dp_err *err)
{
    return sum ? sum(arg, counts, n, err) : 0;
}

/* Of the weights equal to the threshold the first `left` in layer order survive. */
static int share_ties(const struct dp_prune_part *parts, uint32_t n_parts, uint32_t n_layers, uint64_t left,
                      dp_allreduce_fn *sum, void *arg, struct dp_prune_cut *out, struct dp_err *err)
{
    for (uint32_t p = 0; p < n_parts; p++)
        for (int64_t i = 0; i < parts[p].n; i++)
            if (dp_prune_key(parts[p].w[i]) == out->key &&
                (!parts[p].keep || dp_bits_get(parts[p].keep, i)))
                out->ties[parts[p].layer]++;
    if (sum_over(sum, arg, out->ties, n_layers, err) < 0)
        return -1;
    for (uint32_t l = 0; l < n_layers; l++) {
        if (out->ties[l] > left)
            out->ties[l] = left;
        left -= out->ties[l];
    }
    return 0;
}

static int narrow(const struct dp_prune_part *parts, uint32_t n_parts, uint64_t *k, dp_allreduce_fn *sum, void *arg,
                  uint64_t *bins, struct dp_prune_cut *out, struct dp_err *err)
{
    for (uint32_t v = 0; v < sizeof levels / sizeof levels[0]; v++) {
        const uint32_t n = 1u << levels[v].bits;

        memset(bins, 0, n * sizeof *bins);
        for (uint32_t p = 0; p < n_parts; p++)
            count_level(&parts[p], &levels[v], out->key, bins);
        if (sum_over(sum, arg, bins, n, err) < 0)
            return -1;
        if (v == 0) {
            for (uint32_t b = 0; b < n; b++)
                out->live += bins[b];
            out->kept = *k < out->live ? *k : out->live;
            out->all = *k >= out->live;
            out->none = *k == 0;
            if (out->all || out->none)
                return 0;
        }
        out->key |= find_bin(bins, n, k) << levels[v].shift;
    }
    return 0;
}

int dp_prune_select(const struct dp_prune_part *parts, uint32_t n_parts, uint32_t n_layers, uint64_t k,
                    dp_allreduce_fn *sum, void *arg, struct dp_prune_cut *out, struct dp_err *err)
{
    uint64_t *bins = calloc(DP_PRUNE_BINS, sizeof *bins);
    int rc = -1;

    memset(out, 0, sizeof *out);
    out->ties = calloc(n_layers + 1, sizeof *out->ties);
    if (!bins || !out->ties)
        dp_err_set(err, DP_ENOMEM, "pruning: no memory for histograms");
    else if (narrow(parts, n_parts, &k, sum, arg, bins, out, err) == 0)
        rc = out->all || out->none ? 0 : share_ties(parts, n_parts, n_layers, k, sum, arg, out, err);
    free(bins);
    if (rc < 0) {
        free(out->ties);
        out->ties = NULL;
    }
    return rc;
}
