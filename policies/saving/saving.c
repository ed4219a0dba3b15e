/* SPDX-License-Identifier: BSD-3-Clause */
/* See saving.h. */
#include "policies/saving/saving.h"

#include <math.h>
#include <string.h>

#define LATELY 10 /* windows: what is missed is a mean of so many, the newest counts most */

double dp_saving_step_s(const struct dp_saving_sums *sums, const struct dp_saving_window *w, enum dp_way way)
{
    double run_s = w->predicted_s[DP_WAY_RUN], way_s = w->predicted_s[way];
    double sparser = w->measured_s > 0.0 ? w->step_s / w->measured_s : 1.0; /* than where loads were measured */

    if (way == DP_WAY_RUN || !(run_s > 0.0) || !(way_s > 0.0))
        return w->step_s;
    return !w->is_whole && sums->miss > 0.0 ? way_s * sums->miss * sparser : way_s * (w->step_s / run_s);
}

/* While layers get sparse, a step of this window is shorter than one of the loads that were predicted with. */
static void learn(struct dp_saving_sums *sums, const struct dp_saving_window *w)
{
    double measured_s = w->measured_s > 0.0 ? w->measured_s : w->step_s;

    if (!w->is_whole || !w->steps || !(w->predicted_s[DP_WAY_RUN] > 0.0))
        return;
    sums->n_miss += sums->n_miss < LATELY;
    sums->miss += (measured_s / w->predicted_s[DP_WAY_RUN] - sums->miss) / sums->n_miss;
}

void dp_saving_add(struct dp_saving_sums *sums, const struct dp_saving_window *w)
{
    double steps = (double)w->steps;

    learn(sums, w);
    sums->steps += w->steps;
    if (!(w->predicted_s[DP_WAY_FIXED] > 0.0))
        sums->unknown_steps += w->steps;
    for (int way = 0; way < DP_N_WAYS; way++)
        sums->time_s[way] += steps * dp_saving_step_s(sums, w, way) + w->besides_s;
    sums->time_s[DP_WAY_RUN] += w->pause_s;
    if (w->dense_s > 0.0) {
        sums->dense_s += steps * w->dense_s;
        sums->pruned_s += steps * dp_saving_step_s(sums, w, DP_WAY_FIXED);
    }
}

void dp_saving_close(const struct dp_saving_sums *sums, const struct dp_saving_held *held, uint32_t n,
                     struct dp_saving *out)
{
    double end_s = sums->time_s[DP_WAY_RUN], fixed_s = sums->time_s[DP_WAY_FIXED];

    memset(out, 0, sizeof *out);
    out->devices = held[0].devices;
    memcpy(out->time_s, sums->time_s, sizeof out->time_s);
    for (int way = DP_WAY_RUN + 1; way < DP_N_WAYS; way++)
        out->device_s[way] = out->time_s[way] * out->devices;
    for (uint32_t i = 0; i < n; i++) {
        double from = held[i].from_s, to = i + 1 < n ? fmin(held[i + 1].from_s, end_s) : end_s;
        double lent = fmin(i + 1 < n ? held[i + 1].from_s : fixed_s, fixed_s) - from;

        out->device_s[DP_WAY_RUN] += to > from ? held[i].devices * (to - from) : 0.0;
        if (lent > 0.0 && held[i].devices < out->devices)
            out->lent_device_s += (out->devices - held[i].devices) * lent;
    }
    out->later = fixed_s > 0.0 ? end_s / fixed_s - 1.0 : 0.0;
    out->pruning = sums->pruned_s > 0.0 ? sums->dense_s / sums->pruned_s - 1.0 : NAN;
    out->packing = out->device_s[DP_WAY_RUN] > 0.0 ? out->device_s[DP_WAY_FIXED] / out->device_s[DP_WAY_RUN] - 1.0 : 0.0;
}
