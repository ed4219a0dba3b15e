/* SPDX-License-Identifier: BSD-3-Clause */
/* See history.h. */
#include "cli/ask/history.h"

#include <math.h>

#include "cli/ask/run.h"
#include "cli/show/json.h"

static void push(struct dp_history *h, struct dp_sample s)
{
    if (!isfinite(s.step) || (h->n && s.step <= h->sample[h->n - 1].step))
        return;
    if (h->n == DP_HISTORY_CAP) {
        for (size_t i = 0; 2 * i < h->n; i++)
            h->sample[i] = h->sample[2 * i];
        h->n /= 2;
    }
    h->sample[h->n++] = s;
}

static struct dp_sample sample_of(const json_t *o)
{
    return (struct dp_sample){dp_json_number(o, "step"), dp_json_number(o, "loss"), dp_json_number(o, "tokens_per_s"),
                              dp_json_number(o, "sparsity")};
}

void dp_history_add(struct dp_history *h, const json_t *run)
{
    json_t *past = dp_json_list(run, "samples");
    size_t i;
    json_t *p;

    if (h->n == 0) {
        json_array_foreach(past, i, p)
            push(h, sample_of(p));
    }
    push(h, sample_of(run));
}

void dp_history_loss(const struct dp_history *h, double *out, size_t columns)
{
    double first = h->n ? h->sample[0].step : 0, last = h->n ? h->sample[h->n - 1].step : 0;
    size_t k = 0;

    for (size_t i = 0; i < columns; i++) {
        double end = first + (last - first) * (double)(i + 1) / (double)columns, sum = 0;
        size_t n = 0;

        for (; k < h->n && (h->sample[k].step <= end || i + 1 == columns); k++) {
            if (isfinite(h->sample[k].loss)) {
                sum += h->sample[k].loss;
                n++;
            }
        }
        out[i] = n ? sum / (double)n : i ? out[i - 1] : (double)NAN;
    }
}

double dp_history_now(const json_t *run)
{
    double now = dp_json_number(run, "now_s|t_s"), held, last = NAN;
    size_t n = dp_run_held_count(run);

    if (!isfinite(now) && n)
        dp_run_held(run, n - 1, &last, &held);
    return isfinite(now) ? now : last;
}

void dp_history_held(const json_t *run, double *out, size_t columns)
{
    double now = dp_history_now(run), first = NAN, held = NAN, t_s, next;
    size_t k = 0, n = dp_run_held_count(run);

    if (n)
        dp_run_held(run, 0, &first, &held);
    for (size_t i = 0; i < columns; i++) {
        double t = first + (now - first) * (double)(i + 1) / (double)columns;

        for (; k < n; k++) {
            dp_run_held(run, k, &t_s, &next);
            if (!(t_s <= t) && k > 0)
                break;
            held = next;
        }
        out[i] = held;
    }
}
