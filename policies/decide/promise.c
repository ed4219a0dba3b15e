/* SPDX-License-Identifier: BSD-3-Clause */
/* See promise.h. */
#include "policies/decide/promise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

#define MOST 256 /* as promise.h says; COORD_STEADY are kept */
/* Of normal noise the median's standard error is 1.2533 sigma / sqrt(n), and sigma 1.4826 times the median
 * distance from the median. */
#define THREE_ERRORS (3.0 * 1.2533 * 1.4826)
#define MS(ns) ((double)(ns) / 1e6)

void dp_measured_of(const uint64_t *ns, uint32_t n, struct dp_measured *out)
{
    uint64_t v[MOST];

    *out = (struct dp_measured){.n = n > MOST ? MOST : n};
    if (!out->n)
        return;
    memcpy(v, ns, out->n * sizeof v[0]);
    out->ns = dp_median_u64(v, out->n);
    for (uint32_t i = 0; i < out->n; i++)
        v[i] = v[i] > out->ns ? v[i] - out->ns : out->ns - v[i];
    if (out->ns)
        out->noise = THREE_ERRORS * (double)dp_median_u64(v, out->n) / sqrt(out->n) / (double)out->ns;
    if (out->noise > DP_PROMISE_NOISE_MAX)
        out->noise = DP_PROMISE_NOISE_MAX;
}

static double slack(const struct dp_measured *now)
{
    return 1.0 + DP_PROMISE_TOLERANCE + now->noise;
}

static bool is_longer(const struct dp_measured *now, uint64_t than_ns)
{
    return than_ns && (double)now->ns > (double)than_ns * slack(now);
}

static void say(const struct dp_promise_in *in, struct dp_promise_out *out)
{
    char expected[48] = "", allowed[48] = "";

    if (in->expected_ns)
        snprintf(expected, sizeof expected, ", %.1f ms were expected", MS(in->expected_ns));
    if (in->allowed_ns == UINT64_MAX)
        snprintf(allowed, sizeof allowed, ", any time is allowed");
    else if (in->allowed_ns)
        snprintf(allowed, sizeof allowed, ", %.1f ms are allowed", MS(in->allowed_ns));
    snprintf(out->text, sizeof out->text, "a step takes %.1f ms of wall time%s%s", MS(in->now.ns), expected, allowed);
}

void dp_promise_judge(const struct dp_promise_in *in, struct dp_promise_out *out)
{
    memset(out, 0, sizeof *out);
    if (in->now.n < DP_PROMISE_WINDOW) {
        snprintf(out->text, sizeof out->text, "%u of %d measurements are there", in->now.n, DP_PROMISE_WINDOW);
        return;
    }
    out->is_unexpected = is_longer(&in->now, in->expected_ns);
    out->is_too_slow = is_longer(&in->now, in->allowed_ns);
    out->verdict = out->is_unexpected || out->is_too_slow ? DP_PROMISE_MISSED : DP_PROMISE_KEPT;
    say(in, out);
}

bool dp_promise_explains(const struct dp_measured *now, uint64_t predicted_ns)
{
    return now->n >= DP_PROMISE_WINDOW && predicted_ns && !is_longer(now, predicted_ns) &&
           (double)predicted_ns <= (double)now->ns * slack(now);
}

const char *dp_promise_name(enum dp_promise_verdict verdict)
{
    switch (verdict) {
    case DP_PROMISE_OPEN:
        return "open";
    case DP_PROMISE_KEPT:
        return "kept";
    case DP_PROMISE_MISSED:
        return "missed";
    }
    return "?";
}

double dp_contention(uint64_t step_ns, uint64_t wait_ns, uint64_t lost_ns)
{
    uint64_t own = step_ns > wait_ns ? step_ns - wait_ns : 0;
    double factor;

    if (!own || !lost_ns)
        return 1.0;
    factor = lost_ns < own ? (double)own / (double)(own - lost_ns) : DP_CONTENTION_MAX;
    return factor < DP_CONTENTION_MAX ? factor : DP_CONTENTION_MAX;
}
