/* SPDX-License-Identifier: BSD-3-Clause */
/* See simulate.h: a simulated run as tables for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/json.h"
#include "cli/show/saving.h"
#include "cli/show/screen.h"
#include "cli/show/table.h"
#include "cli/show/text.h"
#include "cli/show/trade.h"
#include "cli/simulate/simulate.h"

enum { LOST_PERCENT = 5, MOST_ROWS = 40, MOST_STAGES = 64, MOST_LISTED = 16 };

static const char plain_format[] = "iterations,density,held,ms,bubble,tokens,perdevice,gpus,memory,layout";
static const char measured_format[] = "iterations,density,held,predicted,measured,error,lost,bubble,tokens,memory,layout";

static void iterations(const json_t *row, char *out, size_t cap)
{
    uint64_t first = dp_json_count(row, "first", 0), n = dp_json_count(row, "iterations", 0);

    if (n == 1)
        snprintf(out, cap, "%llu", (unsigned long long)first);
    else
        snprintf(out, cap, "%llu-%llu", (unsigned long long)first, (unsigned long long)(first + n - 1));
}

static void number(const json_t *row, const char *key, const char *format, char *out, size_t cap)
{
    double v = dp_json_number(row, key);

    if (isfinite(v))
        snprintf(out, cap, format, v);
    else
        snprintf(out, cap, "-");
}

#define NUMBER(name, key, format)                                                                  \
    static void name(const json_t *row, char *out, size_t cap)                                     \
    {                                                                                              \
        number(row, key, format, out, cap);                                                        \
    }
NUMBER(density, "density", "%.3f")
NUMBER(used, "devices_used", "%.0f")
NUMBER(held, "devices_held", "%.0f")
NUMBER(ms, "iteration_ms", "%.3f")
NUMBER(bound, "lower_bound_ms", "%.3f")
NUMBER(measured, "measured_ms", "%.3f")
NUMBER(error, "error_percent", "%+.1f %%")
NUMBER(lost, "lost_percent", "%.1f %%")
NUMBER(bubble, "bubble_percent", "%.1f %%")
NUMBER(moved, "moved_layers", "%.0f")
NUMBER(device, "device", "%.0f")
NUMBER(layers, "layers", "%.0f")
NUMBER(busy, "busy_ms", "%.3f")
NUMBER(in_flight, "in_flight", "%.0f")

static void pause_ms(const json_t *row, char *out, size_t cap)
{
    dp_text_seconds(out, cap, dp_json_number(row, "pause_ms") / 1e3);
}

static void tokens(const json_t *row, char *out, size_t cap)
{
    dp_text_count(out, cap, dp_json_number(row, "tokens_per_s"));
}

static void per_device(const json_t *row, char *out, size_t cap)
{
    dp_text_count(out, cap, dp_json_number(row, "tokens_per_s_per_device"));
}

static void gpu_seconds(const json_t *row, char *out, size_t cap)
{
    dp_text_count(out, cap, dp_json_number(row, "device_s"));
}

static void memory(const json_t *row, char *out, size_t cap)
{
    dp_text_bytes(out, cap, dp_json_number(row, "mem_bytes"));
}

static void append(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);

    snprintf(out + n, cap - n, "%s", text);
}

/* Elements of a list: "3 3 2", or "3 3 ... 2" of many. */
static void listed(const json_t *list, void (*element)(const json_t *, char *, size_t), char *out, size_t cap)
{
    size_t n = json_array_size(list);

    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        char text[32];

        if (n > MOST_LISTED && i == MOST_LISTED - 1) {
            append(out, cap, " ...");
            i = n - 1;
        }
        if (i)
            append(out, cap, " ");
        element(json_array_get(list, i), text, sizeof text);
        append(out, cap, text);
    }
}

static void whole(const json_t *number, char *out, size_t cap)
{
    if (json_is_string(number))
        snprintf(out, cap, "%s", json_string_value(number));
    else
        snprintf(out, cap, "%lld", (long long)json_integer_value(number));
}

static void bubble_of(const json_t *stage, char *out, size_t cap)
{
    snprintf(out, cap, "%.0f", dp_json_number(stage, "bubble_percent"));
}

/* Layers per stage, with the number of devices of those that have several: "2 4x3". */
static void layout(const json_t *row, char *out, size_t cap)
{
    const json_t *layers = dp_json_list(row, "layout"), *devices = dp_json_get(row, "stage_devices");
    json_t *both = json_array();
    size_t i;
    json_t *n;

    json_array_foreach((json_t *)layers, i, n)
    {
        json_int_t d = json_integer_value(json_array_get(devices, i)), l = json_integer_value(n);

        json_array_append_new(both, d > 1 ? json_sprintf("%lldx%lld", (long long)l, (long long)d) : json_incref(n));
    }
    listed(both, whole, out, cap);
    json_decref(both);
}

static void bubbles(const json_t *row, char *out, size_t cap)
{
    listed(dp_json_list(row, "stages"), bubble_of, out, cap);
}

static const struct dp_column phase_columns[] = {
    {"iterations", 'i', false, "ITERATIONS", iterations},
    {"density", 'd', true, "DENSITY", density},
    {"devices", 'D', true, "DEVICES", used},
    {"held", 'H', true, "HELD", held},
    {"layout", 'l', false, "LAYERS", layout},
    {"ms", 't', true, "MS", ms},
    {"predicted", 'P', true, "PREDICTED MS", ms},
    {"bound", 'b', true, "BOUND MS", bound},
    {"measured", 'm', true, "MEASURED MS", measured},
    {"error", 'e', true, "ERROR", error},
    {"lost", 'L', true, "LOST", lost},
    {"bubble", 'u', true, "BUBBLE", bubble},
    {"bubbles", 'U', false, "BUBBLES %", bubbles},
    {"tokens", 'T', true, "TOKENS/S", tokens},
    {"perdevice", 'g', true, "PER DEVICE", per_device},
    {"gpus", 'G', true, "DEVICE-S", gpu_seconds},
    {"memory", 'M', true, "MEMORY", memory},
    {"pause", 'p', true, "PAUSE", pause_ms},
    {"moved", 'v', true, "MOVED", moved},
    {0},
};

static const struct dp_column stage_columns[] = {
    {"device", 0, true, "DEVICE", device},
    {"layers", 0, true, "LAYERS", layers},
    {"busy", 0, true, "BUSY MS", busy},
    {"bubble", 0, true, "BUBBLE", bubble},
    {"inflight", 0, true, "IN FLIGHT", in_flight},
    {"memory", 0, true, "MEMORY", memory},
    {0},
};

/* Every row, or some of them evenly, the first and the last among them. New reference. */
static json_t *thinned(const json_t *rows, bool all)
{
    size_t n = json_array_size(rows);
    json_t *some = json_array();

    for (size_t i = 0; i < n; i++)
        if (all || n <= MOST_ROWS || i == 0 || i == n - 1 || i * (MOST_ROWS - 1) / (n - 1) != (i + 1) * (MOST_ROWS - 1) / (n - 1))
            json_array_append(some, json_array_get(rows, i));
    return some;
}

static int print_phases(const struct dp_cli *cli, const json_t *document, struct dp_err *err)
{
    const json_t *phases = dp_json_list(document, "phases");
    bool is_measured = dp_json_number(document, "totals.measured_phases") > 0;
    json_t *some = thinned(phases, cli->all);
    const char *format = cli->format ? cli->format : is_measured ? measured_format : plain_format;
    int rc = dp_table_print(phase_columns, format, cli->no_header, some, err);

    if (rc == 0 && json_array_size(some) < json_array_size(phases))
        printf("%zu of %zu rows; --all prints every one\n", json_array_size(some), json_array_size(phases));
    json_decref(some);
    return rc;
}

static int print_stages(const json_t *document, uint64_t iteration, bool all, struct dp_err *err)
{
    const json_t *phase;
    size_t i;

    json_array_foreach(dp_json_list(document, "phases"), i, phase)
    {
        uint64_t first = dp_json_count(phase, "first", 0), n = dp_json_count(phase, "iterations", 0);
        const json_t *stages = dp_json_list(phase, "stages");

        if (iteration < first || iteration >= first + n)
            continue;
        if (json_array_size(stages) > MOST_STAGES && !all) {
            printf("\n%zu stages in iteration %llu; --all prints them\n", json_array_size(stages), (unsigned long long)iteration);
            return 0;
        }
        printf("\niteration %llu, by device\n", (unsigned long long)iteration);
        return dp_table_print(stage_columns, "device,layers,busy,bubble,inflight,memory", false, stages, err);
    }
    return 0;
}

static void print_saving(const json_t *document)
{
    struct dp_canvas c;

    dp_canvas_init(&c, dp_screen_columns(), false, false);
    if (dp_saving_is_news(dp_json_get(document, "saving"))) {
        dp_canvas_line(&c);
        dp_saving_show(&c, dp_json_get(document, "saving"));
    }
    if (dp_json_number(document, "totals.iterations") > 1 && json_array_size(dp_json_list(document, "trade")) > 1) {
        dp_canvas_line(&c);
        dp_trade_show(&c, dp_json_list(document, "trade"), "the whole run by number of devices, balanced, compared with the fixed layout");
    }
    printf("%s\n", c.text ? c.text : "");
    dp_canvas_release(&c);
}

/* Two clocks: why a recorded step can take so much longer than its prediction. */
static void print_clocks(const json_t *document)
{
    const json_t *phase;
    double lost = 0;
    size_t i;

    json_array_foreach(dp_json_list(document, "phases"), i, phase)
        lost = fmax(lost, dp_json_number(phase, "lost_percent"));
    printf("predicted is device time, on backend cpu the CPU time of the threads; measured is wall time");
    if (lost >= LOST_PERCENT)
        printf(".\nWorkers shared cores: others had one for up to %.0f %% of a worker's step (LOST), and who waits for it lost\n"
               "that, too: no prediction knows",
               lost);
    printf("\n");
}

static void print_totals(const json_t *document)
{
    char time[32], pause[32], rate[32], each[32], device_s[32], source[1100];
    const json_t *t = dp_json_get(document, "totals");
    double iterations = dp_json_number(t, "iterations"), tokens = dp_json_number(t, "tokens_per_s");

    printf("\n%.0f iteration%s in %s, %s of %s pauses; ", iterations, iterations > 1 ? "s" : "",
           dp_text_seconds(time, sizeof time, dp_json_number(t, "time_s")),
           dp_text_seconds(pause, sizeof pause, dp_json_number(t, "pause_s")), iterations > 1 ? "them" : "it");
    if (isfinite(tokens))
        printf("%s tokens/s, %s per device; ", dp_text_count(rate, sizeof rate, tokens),
               dp_text_count(each, sizeof each, dp_json_number(t, "tokens_per_device_s")));
    printf("%s device-s\n", dp_text_count(device_s, sizeof device_s, dp_json_number(t, "device_s")));
    if (dp_json_number(t, "measured_phases") > 0) {
        printf("predicted against measured, %.0f windows: %.1f %% off in the median, %.1f %% at worst\n",
               dp_json_number(t, "measured_phases"), dp_json_number(t, "median_error_percent"),
               dp_json_number(t, "worst_error_percent"));
        print_clocks(document);
    }
    print_saving(document);
    printf("costs: %s\n", dp_json_text(source, sizeof source, document, "source", "-"));
}

int dp_simulate_print(const struct dp_cli *cli, const json_t *document, uint64_t iteration, struct dp_err *err)
{
    if (print_phases(cli, document, err) < 0)
        return -1;
    if (cli->format)
        return 0;
    if (print_stages(document, iteration, cli->all, err) < 0)
        return -1;
    print_totals(document);
    return 0;
}
