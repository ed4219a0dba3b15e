/* SPDX-License-Identifier: BSD-3-Clause */
/* The document of `dynpipe plan` for people: what was asked, what to expect, why, and the stages. */
#include "config.h"

#include "cli/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/canvas.h"
#include "cli/show/json.h"
#include "cli/show/screen.h"
#include "cli/show/text.h"
#include "cli/show/trade.h"

enum { LABEL = 14, NAME_LINES = 2, ALL_LINES = 100000 };

static double ns(const json_t *o, const char *key)
{
    return dp_json_number(o, key) / 1e9;
}

static char *seconds(char *out, size_t cap, const json_t *o, const char *key)
{
    double s = ns(o, key);

    if (s > 0 && s < 0.9995) /* plans are compared by their digits */
        snprintf(out, cap, "%.*f %s", s < 1e-4 || s >= 0.0995 ? 1 : 2, s < 1e-4 ? s * 1e6 : s * 1e3,
                 s < 1e-4 ? "us" : "ms");
    else if (s > 0 && s < 9.9995)
        snprintf(out, cap, "%.3f s", s);
    else
        dp_text_seconds(out, cap, s);
    return out;
}

static void label(struct dp_canvas *c, const char *text)
{
    dp_canvas_put(c, DP_DIM, "%s", text);
    dp_canvas_to(c, LABEL);
}

/* "4 machines of 4, 12 GB/s inside of a machine, ..." */
static void say_devices(char *out, size_t cap, const json_t *d)
{
    char memory[64] = "", network[96] = "", cpus[32] = "", each[48] = "", late[48] = "", classes[256] = "";
    const json_t *bandwidth = dp_json_list(d, "bandwidth_bytes_per_s"), *latency = dp_json_list(d, "latency_us");
    double accelerators = dp_json_number(d, "accelerators"), machines = dp_json_number(d, "machines");
    double n_cpus = dp_json_number(d, "cpus"), bytes = dp_json_number(d, "memory_bytes");
    double inside = json_number_value(json_array_get(bandwidth, 0)) / 1e9;
    double between = json_number_value(json_array_get(bandwidth, 1)) / 1e9;

    if (n_cpus > 0)
        snprintf(cpus, sizeof cpus, " and %.0f CPU%s", n_cpus, n_cpus > 1 ? "s" : "");
    if (isfinite(bytes))
        snprintf(memory, sizeof memory, ", %s each", dp_text_bytes(each, sizeof each, bytes));
    if (between > 0)
        snprintf(network, sizeof network, ", %.4g GB/s inside of a machine, %.4g GB/s between machines",
                 inside, between);
    else if (inside > 0)
        snprintf(network, sizeof network, ", %.4g GB/s", inside);
    inside = json_number_value(json_array_get(latency, 0));
    between = json_number_value(json_array_get(latency, 1));
    if (inside > 0 || between > 0)
        snprintf(late, sizeof late, between > 0 ? ", latency %.4g and %.4g us" : ", latency %.4g us", inside, between);
    if (json_array_size(dp_json_list(d, "classes"))) {
        dp_plan_say_classes(classes, sizeof classes, dp_json_list(d, "classes"));
        snprintf(network, sizeof network, ", %.4g GB/s between classes", dp_json_number(d, "between_bytes_per_s") / 1e9);
    } else if (machines > 1)
        snprintf(each, sizeof each, "%.0f machines of %.0f", machines, accelerators / machines);
    else
        snprintf(each, sizeof each, "%.0f accelerator%s", accelerators, accelerators > 1 ? "s" : "");
    snprintf(out, cap, "%s%s%s%s%s%s%s", *classes ? classes : each,
             json_array_size(dp_json_list(d, "speed")) ? " of unequal speed" : "", cpus, memory, network,
             dp_json_flag(d, "bandwidth_is_default", false) ? " (assumed: no --bandwidth given)" : "", late);
}

static void show_question(struct dp_canvas *c, const json_t *plan)
{
    char text[512], line[640];

    label(c, "graph");
    snprintf(line, sizeof line, "%.0f nodes, %.0f edges: %s", dp_json_number(plan, "nodes"),
             dp_json_number(plan, "edges"), dp_json_text(text, sizeof text, plan, "file", "?"));
    dp_canvas_wrap(c, LABEL, DP_PLAIN, 4, line);
    label(c, "devices");
    say_devices(line, sizeof line, dp_json_get(plan, "devices"));
    dp_canvas_wrap(c, LABEL, DP_PLAIN, 4, line);
    dp_plan_show_costs(c, LABEL, dp_json_get(plan, "costs"));
    dp_plan_show_workers(c, LABEL, dp_json_get(plan, "virtual_workers"));
}

/* "3.81 times one device (673 ms), ..." */
static void show_gains(struct dp_canvas *c, const json_t *plan)
{
    char text[32];
    double over = dp_json_number(plan, "speedup_over_data_parallel");

    label(c, "throughput");
    dp_canvas_put(c, DP_BOLD, "%.2f", dp_json_number(plan, "speedup"));
    dp_canvas_put(c, DP_PLAIN, " times one device (%s)",
                  seconds(text, sizeof text, plan, "single_device_ns"));
    if (isfinite(over))
        dp_canvas_put(c, DP_PLAIN, ", %.2f times plain data parallelism (%s)", over,
                      seconds(text, sizeof text, plan, "data_parallel_ns"));
    dp_canvas_line(c);
}

/* "160.3 ms for 16 microbatches of 1F1B, ..." */
static void show_prediction(struct dp_canvas *c, const json_t *plan)
{
    const json_t *p = dp_json_get(plan, "prediction");
    char text[32];

    if (!json_is_object(p))
        return;
    label(c, "iteration");
    dp_canvas_put(c, DP_PLAIN, "%s for %.0f microbatches of 1F1B, simulated: %.1f %% waiting",
                  seconds(text, sizeof text, p, "iteration_ns"), dp_json_number(p, "microbatches"),
                  dp_json_number(p, "bubble_percent"));
    dp_canvas_line(c);
}

/* What proves the lower bound. */
static void show_bound(struct dp_canvas *c, const json_t *plan)
{
    char node[64];

    dp_canvas_to(c, LABEL);
    if (dp_json_is(plan, "bound_by", "stage"))
        dp_canvas_put(c, DP_PLAIN, "no stage with '%s' does less, its traffic included",
                      dp_json_text(node, sizeof node, plan, "bound_node", "?"));
    else if (dp_json_is(plan, "bound_by", "count"))
        dp_canvas_put(c, DP_PLAIN, "stages with less to do, their traffic included, would be more than the devices");
    else if (dp_json_is(plan, "bound_by", "unit"))
        dp_canvas_put(c, DP_PLAIN, "the dearest piece that cannot be split, computed without traffic");
    else
        dp_canvas_put(c, DP_PLAIN, "all compute spread over the devices without loss, no traffic");
    dp_canvas_line(c);
}

static void show_answer(struct dp_canvas *c, const json_t *plan)
{
    char text[512];
    double gap = dp_json_number(plan, "gap_percent");

    label(c, "microbatch");
    dp_canvas_put(c, DP_BOLD, "%s", seconds(text, sizeof text, plan, "load_ns"));
    dp_canvas_put(c, DP_PLAIN, " on the busiest device");
    dp_canvas_line(c);
    show_gains(c, plan);
    show_prediction(c, plan);
    label(c, "lower bound");
    dp_canvas_put(c, DP_PLAIN, "%s, ", seconds(text, sizeof text, plan, "bound_ns"));
    if (gap <= 0.0)
        dp_canvas_put(c, DP_GREEN, "which this plan reaches");
    else
        dp_canvas_put(c, DP_PLAIN, "%.1f %% below", gap);
    if (gap > 0.0 && dp_json_flag(plan, "is_optimal", false))
        dp_canvas_put(c, DP_GREEN, "; yet no plan of this kind is better");
    dp_canvas_line(c);
    show_bound(c, plan);
    if (isfinite(dp_json_number(plan, "line_ns"))) {
        label(c, "few orders");
        dp_canvas_put(c, DP_PLAIN, "%s, the best of cutting a few orders of the nodes",
                      seconds(text, sizeof text, plan, "line_ns"));
        dp_canvas_line(c);
    }
    dp_plan_show_networks(c, LABEL, dp_json_get(plan, "networks"));
    label(c, "why");
    dp_canvas_wrap(c, LABEL, DP_PLAIN, 6, dp_json_text(text, sizeof text, plan, "why", ""));
}

static void show_stage(struct dp_canvas *c, const json_t *s, bool all)
{
    char text[64], device[64];
    double replicas = dp_json_number(s, "replicas"), machines = dp_json_number(s, "machines");
    double percent = dp_json_number(s, "load_percent");
    char *names = dp_plan_names(dp_json_list(s, "nodes"));

    snprintf(text, sizeof text, "%.0f", dp_json_number(s, "stage"));
    dp_canvas_right(c, 5, DP_PLAIN, text);
    if (dp_json_is(s, "device", "cpu"))
        snprintf(device, sizeof device, "CPU");
    else if (machines > 1)
        snprintf(device, sizeof device, "%.0fx%.0f", replicas / machines, machines);
    else
        snprintf(device, sizeof device, "%.0f", replicas);
    if (json_object_get(s, "class"))
        snprintf(device, sizeof device, "%.0f %s", replicas, dp_json_text(text, sizeof text, s, "class", "?"));
    if (isfinite(dp_json_number(s, "speed"))) {
        int n = snprintf(device, sizeof device, "#%.0f", dp_json_number(s, "accelerator"));

        snprintf(text, sizeof text, " x%.3g", dp_json_number(s, "speed"));
        if (n + strlen(text) < 9) /* of the column */
            memcpy(device + n, text, strlen(text) + 1);
    }
    dp_canvas_right(c, 14, DP_PLAIN, device);
    dp_canvas_right(c, 25, DP_PLAIN, seconds(text, sizeof text, s, "compute_ns"));
    dp_canvas_right(c, 36, DP_PLAIN, seconds(text, sizeof text, s, "traffic_ns"));
    dp_canvas_right(c, 47, DP_PLAIN, seconds(text, sizeof text, s, "sync_ns"));
    dp_canvas_right(c, 58, percent >= 99.95 ? DP_YELLOW : DP_PLAIN, seconds(text, sizeof text, s, "load_ns"));
    snprintf(text, sizeof text, "%.0f %%", percent);
    dp_canvas_right(c, 65, percent >= 99.95 ? DP_YELLOW : DP_PLAIN, text);
    dp_canvas_right(c, 75, DP_PLAIN, dp_text_bytes(text, sizeof text, dp_json_number(s, "memory_bytes")));
    dp_canvas_line(c);
    dp_canvas_put(c, DP_DIM, "       %zu: ", json_array_size(dp_json_list(s, "nodes")));
    if (names) {
        size_t before = c->lines, width = c->columns > LABEL + 8 ? c->columns - LABEL : 8;

        dp_canvas_wrap(c, LABEL, DP_DIM, all ? ALL_LINES : NAME_LINES, names);
        if (!all && c->lines - before == NAME_LINES && dp_text_width(names) > NAME_LINES * width) {
            dp_canvas_to(c, LABEL);
            dp_canvas_put(c, DP_DIM, "... (--all shows every name)");
            dp_canvas_line(c);
        }
    } else {
        dp_canvas_line(c);
    }
    free(names);
}

static void show_trade(struct dp_canvas *c, const json_t *plan)
{
    char title[128];

    if (json_array_size(dp_json_list(plan, "trade")) < 2)
        return;
    snprintf(title, sizeof title, "%.0f iterations of %.0f microbatches by number of devices, compared with all of them", DP_PLAN_TRADED,
             dp_json_number(plan, "trade_microbatches"));
    dp_canvas_line(c);
    dp_trade_show(c, dp_json_list(plan, "trade"), title);
}

void dp_plan_show(const struct dp_cli *cli, const json_t *plan)
{
    static const struct {
        size_t end;
        const char *text;
    } heads[] = {{5, "STAGE"}, {14, "DEVICES"}, {25, "COMPUTE"}, {36, "TRAFFIC"},
                 {47, "SYNC"}, {58, "LOAD"},    {65, "SHARE"},   {75, "MEMORY"}};
    struct dp_canvas c;
    const json_t *s;
    size_t i;

    dp_canvas_init(&c, dp_screen_columns(), cli->color, false);
    show_question(&c, plan);
    show_answer(&c, plan);
    dp_canvas_line(&c);
    for (i = 0; i < sizeof heads / sizeof *heads; i++)
        dp_canvas_right(&c, heads[i].end, DP_DIM, heads[i].text);
    dp_canvas_line(&c);
    json_array_foreach(dp_json_list(plan, "stages"), i, s) show_stage(&c, s, cli->all);
    show_trade(&c, plan);
    fputs(c.text ? c.text : "", stdout);
    dp_canvas_release(&c);
}
