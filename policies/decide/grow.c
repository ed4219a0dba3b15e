/* SPDX-License-Identifier: BSD-3-Clause */
/* See grow.h. */
#include "policies/decide/grow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EACH 4u /* so many numbers one after the other; then twice as far each time */
#define MS(ns) ((double)(ns) / 1e6)
#define SAY(out, ...) snprintf((out)->reason, sizeof(out)->reason, __VA_ARGS__)

uint32_t dp_grow_numbers(uint32_t now, uint32_t most, uint32_t *slots)
{
    uint32_t n = 0, more = 1;

    for (; n < DP_GROW_OPTIONS && more <= (most > now ? most - now : 0); more = n < EACH ? more + 1 : 2 * more)
        slots[n++] = now + more;
    if (n && slots[n - 1] < most && n < DP_GROW_OPTIONS)
        slots[n++] = most;
    return n;
}

/* Wall time of a step whose iteration is predicted so: as much longer as a step of now is. */
static double wall_ns(const struct dp_grow_in *in, uint64_t iteration_ns)
{
    return in->current_ns ? (double)iteration_ns * (double)in->now.ns / (double)in->current_ns : 0.0;
}

/* --- is the reference missed, and moving layers does not help? --- */

static bool meets_predicted(const struct dp_grow_in *in, uint64_t iteration_ns)
{
    return !in->limit_ns || (double)iteration_ns <= (double)in->limit_ns * (1.0 + in->hysteresis / 100.0);
}

static double longest_ns(const struct dp_grow_in *in)
{
    return (double)in->allowed_ns * (1.0 + DP_PROMISE_TOLERANCE + in->now.noise);
}

static bool is_measured_slow(const struct dp_grow_in *in)
{
    return in->allowed_ns && in->now.n >= DP_PROMISE_WINDOW && (double)in->now.ns > longest_ns(in) &&
           wall_ns(in, in->best_ns) > longest_ns(in);
}

/* Only then is a wall time asked of the others, too. */
static bool meets(const struct dp_grow_in *in, bool is_slow, uint64_t iteration_ns)
{
    return meets_predicted(in, iteration_ns) && (!is_slow || wall_ns(in, iteration_ns) <= (double)in->allowed_ns);
}

static const struct dp_grow_option *fewest_that_meet(const struct dp_grow_in *in, bool is_slow)
{
    const struct dp_grow_option *fastest = NULL;

    for (uint32_t i = 0; i < in->n; i++) {
        const struct dp_grow_option *o = &in->option[i];

        if (!o->iteration_ns)
            continue;
        if (meets(in, is_slow, o->iteration_ns))
            return o;
        if (!fastest || o->iteration_ns < fastest->iteration_ns)
            fastest = o;
    }
    return fastest;
}

/* returns: why not, NULL: more are needed, and *is_slow: because of what was measured. */
static const char *why_enough(const struct dp_grow_in *in, bool *is_slow)
{
    *is_slow = is_measured_slow(in);
    if (*is_slow)
        return NULL;
    if (meets_predicted(in, in->best_ns))
        return "the reference is met";
    if (in->has_given && !in->loads_grew)
        return "loads have not grown since slots were given back, and no step that is too long was measured";
    if (!in->limit_falls && in->left_mean > 0.0 && (double)in->best_ns * in->left_mean <= (double)in->limit_ns)
        return "the reference is missed now, but not by the steps that are left";
    return NULL;
}

/* --- is it worth it? --- */

static const struct dp_grow_option *as_fast_as_pays(const struct dp_grow_in *in)
{
    const struct dp_grow_option *best = NULL;

    for (uint32_t i = 0; i < in->n; i++) {
        const struct dp_grow_option *o = &in->option[i];
        uint64_t from_ns = best ? best->iteration_ns : in->best_ns;
        uint32_t more = o->slots - (best ? best->slots : in->slots_now);
        double least = pow(1.0 - in->hysteresis / 100.0, more);

        if (o->iteration_ns && (double)o->iteration_ns <= (double)from_ns * least && o->iteration_ns < from_ns)
            best = o;
    }
    return best;
}

static double gain_s(const struct dp_grow_in *in, uint64_t iteration_ns)
{
    double step_s = (double)in->step_ns / 1e9 * (in->left_mean > 0.0 ? in->left_mean : 1.0), steps = in->steps_left;

    if (!(step_s > 0.0) || !in->best_ns || iteration_ns >= in->best_ns)
        return 0.0;
    if (in->time_left_s / step_s < steps)
        steps = in->time_left_s / step_s;
    steps -= in->begin_s / step_s;
    return steps > 0.0 ? steps * step_s * (1.0 - (double)iteration_ns / (double)in->best_ns) : 0.0;
}

static void say_why(const struct dp_grow_in *in, bool is_slow, const struct dp_grow_option *o, struct dp_grow_out *out)
{
    char why[128];

    if (out->why == DP_GROW_SPEED)
        snprintf(why, sizeof why, "speed");
    else if (is_slow)
        snprintf(why, sizeof why, "a step takes %.1f ms of wall time, %.1f ms are allowed", MS(in->now.ns), MS(in->allowed_ns));
    else
        snprintf(why, sizeof why, "%sthe reference allows %.3f ms", in->has_given ? "loads have grown since slots were given back; " : "",
                 MS(in->limit_ns));
    SAY(out, "%u instead of %u, for %.120s: at best %.3f ms a step on %u, %.3f ms on %u; gains %.1f s in what is left", o->slots,
        in->slots_now, why, MS(in->best_ns), in->slots_now, MS(o->iteration_ns), o->slots, out->gain_s);
}

void dp_grow_decide(const struct dp_grow_in *in, struct dp_grow_out *out)
{
    const struct dp_grow_option *o;
    bool is_slow = false;
    const char *enough = in->wants_speed ? NULL : why_enough(in, &is_slow);

    memset(out, 0, sizeof *out);
    out->slots = in->slots_now;
    if (!in->n || !in->best_ns || !in->step_ns) {
        SAY(out, in->n ? "stay: what a step takes is not known yet" : "stay: there is no seat for more");
        return;
    }
    if (enough) {
        SAY(out, "stay: %s", enough);
        return;
    }
    o = in->wants_speed ? as_fast_as_pays(in) : fewest_that_meet(in, is_slow);
    if (!o || (double)o->iteration_ns > (double)in->best_ns * (1.0 - in->hysteresis / 100.0)) {
        SAY(out, "stay: no number of slots up to %u is faster by the hysteresis of %.1f %% for each", in->option[in->n - 1].slots,
            in->hysteresis);
        return;
    }
    out->gain_s = gain_s(in, o->iteration_ns);
    if (!(out->gain_s > in->cost_s)) {
        SAY(out, "stay: %u instead of %u would gain %.1f s in what is left, the hand-over costs %.1f s", o->slots, in->slots_now,
            out->gain_s, in->cost_s);
        return;
    }
    out->why = in->wants_speed ? DP_GROW_SPEED : in->has_given && in->loads_grew ? DP_GROW_LOADS : DP_GROW_REFERENCE;
    out->slots = o->slots;
    say_why(in, is_slow, o, out);
}

const char *dp_grow_name(enum dp_grow_why why)
{
    static const char *const name[] = {"none", "reference", "loads", "speed"};

    return (unsigned)why < sizeof name / sizeof name[0] ? name[why] : "?";
}
