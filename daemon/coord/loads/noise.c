/* SPDX-License-Identifier: BSD-3-Clause */
/* How sure the loads of a run are (policies/decide/noise.h), from the reports since a layer was changed or moved last: a change of a
 * scheme's is no noise, and what a stage took with other layers says nothing of it.
 */
#include "daemon/coord/internal.h"

#include <string.h>

#include "common/numbers.h"

void coord_noise_reset(struct dp_coord *c)
{
    c->n_wins = 0;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        c->worker[r].n_windows = 0;
    for (uint32_t l = 0; l < c->train.n_layers; l++)
        c->layer[l].n_totals = 0;
}

/* As when it was reported last, if ever, in whichever layout? */
static bool is_unchanged(const struct dp_layer_load *before, const struct dp_layer_load *now)
{
    return !before->params || (before->nnz == now->nnz && dp_load_is_frozen(before) == dp_load_is_frozen(now));
}

void coord_noise_report(struct dp_coord *c, const struct dp_msg_report *m)
{
    struct coord_worker *w = &c->worker[m->rank];
    bool is_same = true;
    uint64_t ns = 0;

    if (!m->n_layers)
        return;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const struct dp_layer_load *now = &m->layer[i];
        struct coord_layer *k = &c->layer[m->first_layer + i];
        uint64_t total = now->fwd_ns + now->bwd_input_ns + now->bwd_weight_ns;

        if (!is_unchanged(&k->load, now)) {
            k->n_totals = 0;
            is_same = false;
        }
        k->total_ns[k->n_totals++ % DP_NOISE_WINDOWS] = total;
        ns += total;
    }
    if (!is_same) { /* of the others, too: their parts of all work are others now */
        for (uint32_t r = 0; r < c->train.n_workers; r++)
            c->worker[r].n_windows = 0;
        memset(&c->noise, 0, sizeof c->noise);
        c->n_changed++;
    }
    w->window[w->n_windows++ % DP_NOISE_WINDOWS] = (struct dp_window){m->step, ns};
}

double coord_noise_of_layer(const struct dp_coord *c, uint32_t layer)
{
    const struct coord_layer *k = &c->layer[layer];

    return dp_scatter_of(k->total_ns, dp_least_u32(k->n_totals, DP_NOISE_WINDOWS));
}

/* The newest n reports of a worker, the oldest first. */
static void take_newest(const struct coord_worker *w, uint32_t n, struct dp_window *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = w->window[(w->n_windows - n + i) % DP_NOISE_WINDOWS];
}

void coord_noise_look(const struct dp_coord *c, struct dp_noise *out)
{
    static struct dp_window window[DP_MAX_WORKERS * DP_NOISE_WINDOWS];
    uint32_t n = DP_NOISE_WINDOWS, stages = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->layout.cut[r + 1] > c->layout.cut[r])
            n = dp_least_u32(n, c->worker[r].n_windows);
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->layout.cut[r + 1] > c->layout.cut[r])
            take_newest(&c->worker[r], n, &window[stages++ * n]);
    dp_noise_of(window, stages, n, out);
    if (n < DP_NOISE_LEAST)
        *out = c->noise; /* as it was before layers moved */
}
