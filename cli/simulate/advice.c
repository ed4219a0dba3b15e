/* SPDX-License-Identifier: BSD-3-Clause */
/* See advice.h. */
#include "cli/simulate/advice.h"

#include <math.h>
#include <stdio.h>

#include "cli/show/json.h"
#include "cli/show/table.h"
#include "cli/show/text.h"
#include "policies/saving/notation.h"
#include "policies/saving/saving_json.h"
#include "policies/sim/scheme/scheme.h"

/* ---- the document ---- */

static void put_count(json_t *o, const char *key, uint64_t value)
{
    json_object_set_new(o, key, json_integer((json_int_t)value));
}

static json_t *counts_json(const struct dp_advice_part *p)
{
    json_t *list = json_array();

    for (uint32_t s = 0; s < p->n_stages; s++)
        json_array_append_new(list, json_integer(p->count[s]));
    return list;
}

static json_t *part_json(const struct dp_sim_case *c, const struct dp_advice_part *p)
{
    struct dp_notation n = {.count = p->count, .n_stages = p->n_stages, .chunks = c->chunks, .n_layers = c->n_layers};
    json_t *o;

    dp_sim_scheme_blocks(c, &n.first, &n.end);
    o = dp_notation_json(&n);
    put_count(o, "first", p->first);
    put_count(o, "iterations", p->n);
    json_object_set_new(o, "iteration_ms", json_real((double)p->iteration_ns * 1e-6));
    put_count(o, "mem_bytes", p->mem_bytes);
    json_object_set_new(o, "layout", counts_json(p));
    return o;
}

/* A row of the trade, and what is known besides. */
static void add_row(const struct dp_sim_case *c, const struct dp_advice *a, uint32_t i, json_t *row)
{
    const struct dp_advice_row *r = &a->row[i];
    json_t *parts = json_array();

    for (uint32_t p = 0; r->part && p < a->n_parts; p++)
        json_array_append_new(parts, part_json(c, &r->part[p]));
    put_count(row, "fast_iterations", r->fast_iterations);
    json_object_set_new(row, "fast_from", r->fast_from ? json_integer((json_int_t)r->fast_from) : json_null());
    json_object_set_new(row, "parts", parts);
}

json_t *dp_advice_json(const struct dp_sim_case *c, const struct dp_advice *a)
{
    json_t *o = json_object(), *rows = dp_trade_json(&a->trade), *kept = json_object();

    for (uint32_t i = 0; i < a->trade.n; i++)
        add_row(c, a, i, json_array_get(rows, i));
    json_object_set_new(o, "start_ms", json_real((double)a->start_ns * 1e-6));
    put_count(o, "iterations", c->iterations);
    put_count(o, "replicas", c->replicas);
    json_object_set_new(o, "request", a->chosen < a->trade.n ? json_integer(a->trade.row[a->chosen].devices) : json_null());
    json_object_set_new(o, "rows", rows);
    put_count(kept, "first_devices", (uint64_t)c->devices * c->replicas);
    put_count(kept, "last_devices", (uint64_t)a->last_devices * c->replicas);
    json_object_set_new(kept, "time_s", json_real(a->time_s));
    json_object_set_new(kept, "device_s", json_real(a->device_s));
    json_object_set_new(o, "giving_back", kept);
    return o;
}

/* ---- for people ---- */

static void devices(const json_t *row, char *out, size_t cap)
{
    snprintf(out, cap, "%llu", (unsigned long long)dp_json_count(row, "devices", 0));
}

/* Of the first part, or the last one. */
static void ms_of(const json_t *row, bool is_last, char *out, size_t cap)
{
    const json_t *parts = dp_json_list(row, "parts");
    size_t n = json_array_size(parts);

    if (n)
        snprintf(out, cap, "%.3f", dp_json_number(json_array_get(parts, is_last ? n - 1 : 0), "iteration_ms"));
    else
        snprintf(out, cap, "-");
}

static void first_ms(const json_t *row, char *out, size_t cap)
{
    ms_of(row, false, out, cap);
}

static void last_ms(const json_t *row, char *out, size_t cap)
{
    ms_of(row, true, out, cap);
}

static void seconds(const json_t *row, char *out, size_t cap)
{
    dp_text_seconds(out, cap, dp_json_number(row, "time_s"));
}

static void percent(const json_t *row, const char *key, char *out, size_t cap)
{
    double v = dp_json_number(row, key);

    snprintf(out, cap, isfinite(v) ? "%+.1f %%" : "-", v);
}

static void later(const json_t *row, char *out, size_t cap)
{
    percent(row, "later_percent", out, cap);
}

static void more(const json_t *row, char *out, size_t cap)
{
    percent(row, "device_s_percent", out, cap);
}

static void device_s(const json_t *row, char *out, size_t cap)
{
    dp_text_count(out, cap, dp_json_number(row, "device_s"));
}

static void fast(const json_t *row, char *out, size_t cap)
{
    snprintf(out, cap, "%llu", (unsigned long long)dp_json_count(row, "fast_iterations", 0));
}

static void fast_from(const json_t *row, char *out, size_t cap)
{
    uint64_t from = dp_json_count(row, "fast_from", 0);

    snprintf(out, cap, from ? "%llu" : "-", (unsigned long long)from);
}

static void why(const json_t *row, char *out, size_t cap)
{
    dp_json_text(out, cap, row, "why", "");
}

static const struct dp_column advice_columns[] = {
    {"devices", 'D', true, "DEVICES", devices},
    {"first", 'f', true, "FIRST MS", first_ms},
    {"last", 'l', true, "LAST MS", last_ms},
    {"time", 't', true, "TIME", seconds},
    {"later", 'L', true, "LATER", later},
    {"gpus", 'G', true, "DEVICE-S", device_s},
    {"more", 'M', true, "MORE", more},
    {"fast", 'F', true, "AS FAST", fast},
    {"from", 'r', true, "FROM", fast_from},
    {"why", 'w', false, "", why},
    {0},
};

static void print_notation(const json_t *part, const char *key, const char *label)
{
    char text[4096];

    if (*dp_json_text(text, sizeof text, part, key, ""))
        printf("  %-10s %s\n", label, text);
}

/* A layout for other programs. */
static void print_layout(const json_t *part, uint64_t iterations)
{
    uint64_t first = dp_json_count(part, "first", 0), n = dp_json_count(part, "iterations", 0);
    char memory[32];

    dp_text_bytes(memory, sizeof memory, dp_json_number(part, "mem_bytes"));
    if (iterations == 1)
        printf("layout, %.3f ms, at most %s a device:\n", dp_json_number(part, "iteration_ms"), memory);
    else
        printf("layout of iterations %llu to %llu, %.3f ms each, at most %s a device:\n", (unsigned long long)first,
               (unsigned long long)(first + n - 1), dp_json_number(part, "iteration_ms"), memory);
    print_notation(part, "megatron_layout", "Megatron");
    print_notation(part, "megatron_options", "or");
    print_notation(part, "deepspeed_parts", "DeepSpeed");
    print_notation(part, "torch_split_points", "PyTorch");
}

/* The row with so many devices. */
static const json_t *row_of(const json_t *advice, uint64_t n)
{
    const json_t *row;
    size_t i;

    json_array_foreach(dp_json_list(advice, "rows"), i, row)
        if (dp_json_count(row, "devices", 0) == n)
            return row;
    return NULL;
}

static void print_request(const json_t *advice)
{
    uint64_t request = dp_json_count(advice, "request", 0), iterations = dp_json_count(advice, "iterations", 1);
    const json_t *rows = dp_json_list(advice, "rows"), *row = row_of(advice, request), *parts;
    char text[32], time[32];

    if (!row) {
        row = json_array_get(rows, json_array_size(rows) - 1);
        printf("\nno number of devices ends in time; all of them, with the best layouts:\n");
    } else {
        printf("\nrequest %llu device%s: the fewest device-seconds of those that end at most %g %% later than the file's layout on all\n",
               (unsigned long long)request, request == 1 ? "" : "s", DP_TRADE_LATER);
    }
    if (iterations > 1)
        printf("or %llu that give back what they do not need to stay as fast as their start: %llu at the end, %s, %s device-s\n",
               (unsigned long long)dp_json_count(advice, "giving_back.first_devices", 0),
               (unsigned long long)dp_json_count(advice, "giving_back.last_devices", 0),
               dp_text_seconds(time, sizeof time, dp_json_number(advice, "giving_back.time_s")),
               dp_text_count(text, sizeof text, dp_json_number(advice, "giving_back.device_s")));
    parts = dp_json_list(row, "parts");
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (i == 0 || (i + 1 == json_array_size(parts) &&
                       !json_equal(dp_json_list(json_array_get(parts, 0), "layout"), dp_json_list(json_array_get(parts, i), "layout"))))
            print_layout(json_array_get(parts, i), iterations);
}

int dp_advice_print(const struct dp_cli *cli, const json_t *document, struct dp_err *err)
{
    const json_t *advice = json_object_get(document, "advice");
    static const char one[] = "devices,first,gpus,more,fast,why", many[] = "devices,first,last,time,later,gpus,more,fast,from,why";
    const char *usual = dp_json_count(advice, "iterations", 1) > 1 ? many : one;
    char source[1100];

    if (dp_table_print(advice_columns, cli->format ? cli->format : usual, cli->no_header, dp_json_list(advice, "rows"), err) < 0)
        return -1;
    if (cli->format)
        return 0;
    print_request(advice);
    printf("\ncosts: %s\n", dp_json_text(source, sizeof source, document, "source", "-"));
    return 0;
}
