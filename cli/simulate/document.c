/* SPDX-License-Identifier: BSD-3-Clause */
/* See simulate.h: the numbers of a simulated run as JSON; doc/json.md tells the members. */
#include <math.h>
#include <stdlib.h>

#include "cli/simulate/simulate.h"
#include "common/numbers.h"
#include "policies/saving/saving_json.h"

static void put(json_t *o, const char *key, double value)
{
    json_object_set_new(o, key, isfinite(value) ? json_real(value) : json_null());
}

static void put_count(json_t *o, const char *key, uint64_t value)
{
    json_object_set_new(o, key, json_integer((json_int_t)value));
}

static double ms(uint64_t ns)
{
    return (double)ns * 1e-6;
}

/* Device i of the pipeline over all replicas: busy time and bubble on average, memory at most. */
static json_t *stage_document(const struct dp_sim_case *c, const struct dp_sim_phase *p, uint32_t i)
{
    uint32_t n = p->layout->n_used, layers = 0;
    double busy_ns = 0, bubble = 0;
    uint64_t bytes = 0;
    json_t *o = json_object();

    for (uint32_t r = 0; r < c->replicas; r++) {
        const struct dp_sim_stage_out *d = &p->out->device[(size_t)r * n + i];

        busy_ns += (double)d->busy_ns / c->replicas;
        bubble += d->bubble / c->replicas;
        bytes = d->mem_bytes > bytes ? d->mem_bytes : bytes;
    }
    for (uint32_t k = i; k < n * c->chunks; k += n) {
        const uint32_t *cut = &p->layout->cut[p->layout->stage_of[k]];

        layers += cut[1] - cut[0];
    }
    put_count(o, "device", p->layout->used[i]);
    put_count(o, "layers", layers);
    put(o, "busy_ms", busy_ns * 1e-6);
    put(o, "bubble_percent", 100 * bubble);
    put_count(o, "in_flight", p->out->device[i].in_flight);
    put_count(o, "mem_bytes", bytes);
    return o;
}

static json_t *stages_document(const struct dp_sim_case *c, const struct dp_sim_phase *p)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->layout->n_used; i++)
        json_array_append_new(list, stage_document(c, p, i));
    return list;
}

/* As a description takes it: where a stage is a device's only one, its place in the list says which device that is. */
static json_t *layout_document(const struct dp_sim_case *c, const struct dp_sim_phase *p)
{
    const struct dp_sim_layout *l = p->layout;
    bool has_gaps = c->chunks == 1 && !c->width;
    json_t *list = json_array();

    for (uint32_t s = 0; s < l->n_stages; s++) {
        while (has_gaps && json_array_size(list) < l->used[s])
            json_array_append_new(list, json_integer(0));
        json_array_append_new(list, json_integer(l->cut[s + 1] - l->cut[s]));
    }
    return list;
}

/* Devices of each stage; NULL: one each. */
static json_t *widths_document(const struct dp_sim_case *c)
{
    json_t *list = c->width ? json_array() : NULL;

    for (uint32_t s = 0; list && s < c->n_count; s++)
        json_array_append_new(list, json_integer(c->width[s]));
    return list;
}

json_t *dp_simulate_phase(const struct dp_sim_case *c, const struct dp_sim_phase *p, bool with_stages)
{
    double bubble = 0, iteration_ms = ms(p->out->iteration_ns), measured_ms = p->measured_ns ? ms(p->measured_ns) : NAN;
    size_t all = (size_t)c->replicas * p->layout->n_used;
    uint64_t bytes = 0;
    json_t *o = json_object();

    for (size_t i = 0; i < all; i++) {
        bubble += p->out->device[i].bubble / (double)all;
        bytes = p->out->device[i].mem_bytes > bytes ? p->out->device[i].mem_bytes : bytes;
    }
    put_count(o, "first", p->first);
    put_count(o, "iterations", p->n);
    put(o, "density", p->density);
    json_object_set_new(o, "layout", layout_document(c, p));
    if (c->width)
        json_object_set_new(o, "stage_devices", widths_document(c));
    put_count(o, "devices_used", (uint64_t)p->layout->n_used * c->replicas);
    put_count(o, "devices_held", p->held);
    put(o, "iteration_ms", iteration_ms);
    put(o, "lower_bound_ms", ms(dp_sim_lower_bound(p->in)));
    put(o, "measured_ms", measured_ms);
    put(o, "error_percent", 100 * (iteration_ms / measured_ms - 1));
    put(o, "lost_percent", p->measured_ns ? 100 * p->lost : NAN);
    put(o, "bubble_percent", 100 * bubble);
    put(o, "tokens_per_s", c->tokens ? p->tokens_per_s : NAN);
    put(o, "tokens_per_s_per_device", c->tokens ? p->tokens_per_s / p->held : NAN);
    put(o, "pause_ms", ms(p->pause_ns));
    put_count(o, "moved_layers", p->moved_layers);
    put_count(o, "moved_bytes", p->moved_bytes);
    put(o, "device_s", p->device_s);
    put_count(o, "mem_bytes", bytes);
    if (with_stages)
        json_object_set_new(o, "stages", stages_document(c, p));
    return o;
}

/* |predicted / measured - 1| over the phases of a recorded run: lower median and worst. */
static void put_errors(json_t *o, const json_t *phases)
{
    size_t n = 0, i;
    double *error = calloc(json_array_size(phases) + 1, sizeof *error);
    json_t *p;

    json_array_foreach((json_t *)phases, i, p)
    {
        const json_t *e = json_object_get(p, "error_percent");

        if (error && json_is_number(e))
            error[n++] = fabs(json_number_value(e));
    }
    if (n)
        qsort(error, n, sizeof *error, dp_by_double);
    put_count(o, "measured_phases", n);
    put(o, "median_error_percent", n ? error[(n - 1) / 2] : NAN);
    put(o, "worst_error_percent", n ? error[n - 1] : NAN);
    free(error);
}

json_t *dp_simulate_document(const struct dp_sim_case *c, const struct dp_sim_totals *t, const struct dp_saving *saving,
                             const struct dp_trade *trade, json_t *phases)
{
    json_t *o = json_object(), *totals = json_object();

    json_object_set_new(o, "name", json_string(c->name));
    json_object_set_new(o, "source", json_string(c->source));
    json_object_set_new(o, "schedule", json_string(dp_schedules[c->schedule].name));
    put_count(o, "devices", c->devices);
    put_count(o, "chunks", c->chunks);
    put_count(o, "microbatches", c->microbatches);
    put_count(o, "replicas", c->replicas);
    put_count(o, "layers", c->n_layers);
    put_count(o, "tokens_per_iteration", c->tokens * c->microbatches * c->replicas);
    put_count(totals, "iterations", t->iterations);
    put_count(totals, "simulated", t->simulated);
    put(totals, "time_s", t->time_s);
    put(totals, "pause_s", t->pause_s);
    put(totals, "tokens", t->tokens);
    put(totals, "tokens_per_s", c->tokens && t->time_s > 0 ? t->tokens / t->time_s : NAN);
    put(totals, "tokens_per_device_s", c->tokens && t->device_s > 0 ? t->tokens / t->device_s : NAN);
    put(totals, "device_s", t->device_s);
    put(totals, "device_s_fixed", saving ? saving->device_s[DP_WAY_FIXED] : NAN);
    put_errors(totals, phases);
    json_object_set_new(o, "totals", totals);
    json_object_set_new(o, "trade", trade ? dp_trade_json(trade) : json_null());
    json_object_set_new(o, "saving", saving ? dp_saving_json(saving, t->iterations, t->tokens) : json_null());
    json_object_set_new(o, "phases", phases);
    return o;
}
