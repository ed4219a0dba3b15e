/* SPDX-License-Identifier: BSD-3-Clause */
/* See cluster.h: a simulated cluster as tables for people, one a scheduler: without and with DynPipe, side
 * by side. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/json.h"
#include "cli/show/table.h"
#include "cli/show/text.h"
#include "cli/simulate/cluster.h"

enum unit { TIME, RATIO, HOURS, PERCENT };

static const struct {
    const char *key, *label;
    enum unit unit;
} metrics[] = {
    {"wait_mean_s", "waiting time, mean", TIME},
    {"wait_median_s", "waiting time, median", TIME},
    {"wait_p95_s", "waiting time, 95 % below", TIME},
    {"wait_max_s", "waiting time, longest", TIME},
    {"wait_dynpipe_mean_s", "waiting time, DynPipe jobs", TIME},
    {"wait_others_mean_s", "waiting time, other jobs", TIME},
    {"turnaround_dynpipe_mean_s", "submit to end, DynPipe jobs", TIME},
    {"slowdown_mean", "bounded slowdown, mean", RATIO},
    {"slowdown_median", "bounded slowdown, median", RATIO},
    {"slowdown_p95", "bounded slowdown, 95 % below", RATIO},
    {"makespan_s", "makespan", TIME},
    {"held_node_h", "node-hours held", HOURS},
    {"needed_node_h", "node-hours needed", HOURS},
    {"held_device_h", "device-hours held", HOURS},
    {"needed_device_h", "device-hours needed", HOURS},
    {"held_percent", "nodes held", PERCENT},
    {"needed_percent", "nodes needed", PERCENT},
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

/* With its sign where is_signed; two days and more as days. */
static void quantity(double v, enum unit unit, bool is_signed, char *out, size_t cap)
{
    char text[32];

    if (unit == TIME && fabs(v) >= 2 * 86400)
        snprintf(text, sizeof text, "%.1f d", fabs(v) / 86400);
    else if (unit == TIME)
        dp_text_seconds(text, sizeof text, fabs(v));
    else if (unit == PERCENT)
        snprintf(text, sizeof text, "%.1f %%", fabs(v));
    else
        dp_text_count(text, sizeof text, unit == HOURS && fabs(v) >= 99.95 ? round(fabs(v)) : fabs(v));
    if (unit == PERCENT && is_signed && isfinite(v))
        snprintf(text, sizeof text, "%.1f points", fabs(v));
    is_signed &= isfinite(v) && strcspn(text, "123456789") < strlen(text); /* a zero has no sign */
    snprintf(out, cap, "%s%s", !is_signed ? "" : v < 0 ? "-" : "+", text);
}

/* row: {"scheduler", "label", "unit", "without", "with"} */
static void scheduler(const json_t *row, char *out, size_t cap)
{
    dp_json_text(out, cap, row, "scheduler", "-");
}

static void metric(const json_t *row, char *out, size_t cap)
{
    dp_json_text(out, cap, row, "label", "-");
}

static enum unit unit_of(const json_t *row)
{
    return (enum unit)dp_json_count(row, "unit", 0);
}

static void without(const json_t *row, char *out, size_t cap)
{
    quantity(dp_json_number(row, "without"), unit_of(row), false, out, cap);
}

static void with(const json_t *row, char *out, size_t cap)
{
    quantity(dp_json_number(row, "with"), unit_of(row), false, out, cap);
}

static void difference(const json_t *row, char *out, size_t cap)
{
    quantity(dp_json_number(row, "with") - dp_json_number(row, "without"), unit_of(row), true, out, cap);
}

static void change(const json_t *row, char *out, size_t cap)
{
    double before = dp_json_number(row, "without"), after = dp_json_number(row, "with");

    if (before > 0 && isfinite(after) && unit_of(row) != PERCENT)
        snprintf(out, cap, "%+.1f %%", 100 * (after / before - 1));
    else
        snprintf(out, cap, "-");
}

static const struct dp_column columns[] = {
    {"scheduler", 's', false, "SCHEDULER", scheduler},
    {"metric", 'm', false, "METRIC", metric},
    {"without", 'w', true, "WITHOUT", without},
    {"with", 'W', true, "WITH", with},
    {"difference", 'd', true, "DIFFERENCE", difference},
    {"change", 'c', true, "CHANGE", change},
    {0},
};

static void add_rows(json_t *rows, const json_t *pair, bool has_devices)
{
    for (size_t i = 0; i < N_METRICS; i++) {
        json_t *row;

        if (strstr(metrics[i].key, "device") && !has_devices)
            continue;
        row = json_object();
        json_object_set(row, "scheduler", json_object_get(pair, "scheduler"));
        json_object_set_new(row, "label", json_string(metrics[i].label));
        json_object_set_new(row, "unit", json_integer(metrics[i].unit));
        json_object_set(row, "without", json_object_get(json_object_get(pair, "without"), metrics[i].key));
        json_object_set(row, "with", json_object_get(json_object_get(pair, "with"), metrics[i].key));
        json_array_append_new(rows, row);
    }
}

/* "left out: parts of jobs (3), ..."; nothing where there is nothing to say. */
static void print_records(const json_t *document)
{
    static const struct {
        const char *key, *text;
        bool is_left_out;
    } kinds[] = {
        {"records.parts", "parts of jobs", true},
        {"records.never_ran", "never ran", true},
        {"records.no_size", "without a size", true},
        {"records.too_large", "larger than the cluster", true},
        {"records.no_limit", "without a limit, run time counts", false},
        {"records.above_limit", "ran past the limit, likewise", false},
        {"records.out_of_order", "out of order, sorted", false},
    };
    const char *before[2] = {"left out: ", "taken: "};

    for (int is_left_out = 1; is_left_out >= 0; is_left_out--) {
        int n = 0;

        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            uint64_t count = dp_json_count(document, kinds[i].key, 0);

            if (count && kinds[i].is_left_out == is_left_out)
                printf("%s%s (%llu)", n++ ? ", " : before[!is_left_out], kinds[i].text, (unsigned long long)count);
        }
        if (n)
            putchar('\n');
    }
}

static void print_head(const json_t *document)
{
    char jobs[32], shrinking[32], name[256], text[1100];
    const json_t *group;
    size_t i;

    dp_json_text(name, sizeof name, document, "name", "");
    printf("%s%s%s jobs on %.0f nodes, %s of them DynPipe jobs; load %.2f\n",
           name, *name ? ": " : "",
           dp_text_count(jobs, sizeof jobs, dp_json_number(document, "jobs")), dp_json_number(document, "nodes"),
           dp_text_count(shrinking, sizeof shrinking, dp_json_number(document, "dynpipe_jobs")), dp_json_number(document, "load"));
    printf("jobs: %s\n", dp_json_text(text, sizeof text, document, "workload", "-"));
    print_records(document);
    json_array_foreach(dp_json_list(document, "groups"), i, group)
    {
        const json_t *step;
        size_t k;

        printf("need of %s DynPipe jobs:", dp_text_count(jobs, sizeof jobs, dp_json_number(group, "jobs")));
        json_array_foreach(dp_json_list(group, "needs"), k, step)
        {
            printf("%s %.4g %% of the nodes from %.4g %% on", k ? "," : "", 100 * dp_json_number(step, "share"),
                   100 * dp_json_number(step, "at"));
        }
        printf("%s; run time x %.4g\n", k ? "" : " all nodes to the end", dp_json_number(group, "run_time_factor"));
    }
    printf("source: %s\n", dp_json_text(text, sizeof text, document, "source", "-"));
}

static int print_pair(const struct dp_cli *cli, const json_t *pair, bool has_devices, struct dp_err *err)
{
    enum dp_cluster_scheduler k = DP_CLUSTER_FIFO;
    json_t *rows = json_array();
    char text[512];
    int rc;

    dp_cluster_scheduler_find(dp_json_text(text, sizeof text, pair, "scheduler", ""), &k, NULL);
    printf("\n%s: %s\n", dp_cluster_schedulers[k].name, dp_cluster_schedulers[k].help);
    add_rows(rows, pair, has_devices);
    rc = dp_table_print(columns, "metric,without,with,difference,change", cli->no_header, rows, err);
    json_decref(rows);
    if (rc == 0)
        printf("%s\n", dp_json_text(text, sizeof text, pair, "verdict", "-"));
    return rc;
}

int dp_cluster_print(const struct dp_cli *cli, const json_t *document, struct dp_err *err)
{
    bool has_devices = dp_json_number(document, "devices_per_node") > 1;
    json_t *rows = json_array();
    const json_t *pair;
    size_t i;
    int rc = 0;

    if (!cli->format)
        print_head(document);
    json_array_foreach(dp_json_list(document, "schedulers"), i, pair)
    {
        if (cli->format)
            add_rows(rows, pair, has_devices);
        else if (rc == 0)
            rc = print_pair(cli, pair, has_devices, err);
    }
    if (cli->format)
        rc = dp_table_print(columns, cli->format, cli->no_header, rows, err);
    json_decref(rows);
    return rc;
}
