/* SPDX-License-Identifier: BSD-3-Clause */
/* --costs of `dynpipe plan`: the times of the file, or estimates; and what the answer then says of them. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/canvas.h"
#include "cli/show/json.h"
#include "policies/graph/costs/costs_file.h"

enum mode { MEASURED, ESTIMATE, COMPLETE, N_MODES };

static const struct {
    const char *name, *help;
} modes[N_MODES] = {{"measured", "the times of the file (default)"},
                    {"estimate", "of a profile: estimates for --device from what its operators are; its times are not looked at"},
                    {"complete", "likewise, but times above 0 are measured, and scale the estimates of the others"}};

void dp_plan_costs_help(void)
{
    for (int m = 0; m < N_MODES; m++)
        printf("%-21s %s\n", modes[m].name, modes[m].help);
}

static void print_device(void *arg, const struct dp_costs_device *d)
{
    (void)arg;
    printf("%-21s %s: ", d->name, d->title);
    for (uint32_t i = 0; i < d->n_rates; i++)
        printf("%s%s %.4g", i ? ", " : "", d->rate[i].precision, d->rate[i].flops_per_s / 1e12);
    printf(" TFLOP/s, %.4g GB/s (%s)\n", d->bytes_per_s / 1e9, d->is_measured ? "measured" : d->source);
}

void dp_plan_data_file(const char *name, char *out, size_t cap)
{
    const char *folder = getenv("DYNPIPE_DATA");

    snprintf(out, cap, "%s/%s", folder && *folder ? folder : DP_DATA_DIR, name);
}

int dp_plan_devices_help(struct dp_err *err)
{
    char path[4096];

    dp_plan_data_file("graph-devices.json", path, sizeof path);
    return dp_costs_device_each(path, print_device, NULL, err);
}

static int find_mode(const char *name, enum mode *out, struct dp_err *err)
{
    *out = MEASURED;
    while (name && *out < N_MODES && strcmp(modes[*out].name, name) != 0)
        (*out)++;
    if (*out == N_MODES)
        return dp_err_set(err, DP_EINVAL, "--costs=%s: expected %s, %s or %s", name, modes[MEASURED].name, modes[ESTIMATE].name,
                          modes[COMPLETE].name);
    return 0;
}

int dp_plan_costs_check(const struct dp_cli *cli, struct dp_err *err)
{
    enum mode mode;

    if (find_mode(cli->costs, &mode, err) < 0)
        return -1;
    if (mode == MEASURED && (cli->device || cli->coefficients))
        return dp_err_set(err, DP_EINVAL, "--%s: only with --costs=%s or %s%s", cli->device ? "device" : "coefficients",
                          modes[ESTIMATE].name, modes[COMPLETE].name, cli->device ? "; --devices=N is how many there are" : "");
    if (mode != MEASURED && !cli->device)
        return dp_err_set(err, DP_EINVAL, "--costs=%s: for which device? Use --device=NAME (help: list them)", cli->costs);
    return 0;
}

static json_t *error_json(const struct dp_costs_error *e)
{
    return json_pack("{s:f, s:f, s:f}", "mean", e->mean, "median", e->median, "worst", e->worst);
}

/* Names of the types that nothing was learned of, each once. */
static json_t *unknown_types(const struct dp_costs *c, const struct dp_graph *g, struct dp_err *err)
{
    json_t *list = json_array(), *seen = json_object();
    struct dp_operator *op;
    int rc = dp_operators_of(g, &op, err);
    const char *type;
    json_t *v;

    for (uint32_t i = 0; rc == 0 && i < g->n_nodes; i++)
        if (!g->node[i].is_input && *op[i].type && !dp_costs_find(c, op[i].type))
            json_object_set_new(seen, op[i].type, json_true());
    json_object_foreach(seen, type, v) json_array_append_new(list, json_string(type));
    json_decref(seen);
    free(op);
    return list;
}

/* What to measure: names of nodes. */
static json_t *advice(const struct dp_graph *g)
{
    uint32_t node[DP_COSTS_MEASURED], n = dp_costs_advise(g, node);
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++) {
        json_t *name = json_string(g->node[node[i]].name); /* NULL where it is no UTF-8 */

        json_array_append_new(list, name ? name : json_sprintf("#%u", node[i]));
    }
    return list;
}

static int estimate(const struct dp_cli *cli, enum mode mode, struct dp_costs *c, struct dp_graph *g, json_t **said, struct dp_err *err)
{
    char path[4096], devices[4096];
    struct dp_costs_roof roof;
    struct dp_costs_device d;
    const char *precision, *file = cli->coefficients ? cli->coefficients : path;

    dp_plan_data_file("graph-costs.json", path, sizeof path);
    dp_plan_data_file("graph-devices.json", devices, sizeof devices);
    if (dp_costs_device_find(devices, cli->device, &d, &precision, &roof, err) < 0)
        return dp_err_prefix(err, "--device");
    if (dp_costs_read(file, c, err) < 0 || dp_costs_estimate(c, &roof, mode == COMPLETE, g, err) < 0)
        return -1;
    *said = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:o, s:o}", "from", modes[mode].name, "device", d.name, "device_title", d.title,
                      "precision", precision, "is_device_measured", d.is_measured, "device_source", d.source, "source", c->source,
                      "unknown_types", unknown_types(c, g, err), "measure", advice(g));
    if (!*said)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    json_object_set_new(*said, "questions", json_integer(c->n_questions));
    json_object_set_new(*said, "error_percent", c->n_questions ? error_json(&c->estimate) : json_null());
    json_object_set_new(*said, "roofline_error_percent", c->n_questions ? error_json(&c->roofline) : json_null());
    json_object_set_new(*said, "complete_error_percent", c->n_questions ? error_json(&c->with_measured) : json_null());
    return 0;
}

int dp_plan_costs(const struct dp_cli *cli, struct dp_graph *g, json_t **said, struct dp_err *err)
{
    struct dp_costs *c;
    enum mode mode;
    int rc;

    *said = NULL;
    if (find_mode(cli->costs, &mode, err) < 0 || mode == MEASURED)
        return mode == MEASURED ? 0 : -1;
    c = malloc(sizeof *c);
    rc = c ? estimate(cli, mode, c, g, said, err) : dp_err_set(err, DP_ENOMEM, "out of memory");
    free(c);
    return rc;
}

/* ---- for people ---- */

static void say_error(char *out, size_t cap, const json_t *e)
{
    snprintf(out, cap, "%.1f %% slower in the mean, %.1f %% in the median, %.0f %% at worst", dp_json_number(e, "mean"),
             dp_json_number(e, "median"), dp_json_number(e, "worst"));
}

static void put(struct dp_canvas *c, size_t indent, const char *label, const char *text)
{
    dp_canvas_put(c, DP_DIM, "%s", label);
    dp_canvas_to(c, indent);
    dp_canvas_wrap(c, indent, DP_PLAIN, 8, text);
}

/* "a, b": of a list of strings. */
static void join(char *out, size_t cap, const json_t *list)
{
    const json_t *v;
    size_t i, n = 0;

    *out = '\0';
    json_array_foreach((json_t *)list, i, v)
    {
        snprintf(out + n, cap - n, "%s%s", i ? ", " : "", json_string_value(v));
        n = strlen(out);
    }
}

void dp_plan_show_costs(struct dp_canvas *c, size_t indent, const json_t *costs)
{
    char line[2048], list[1024], error[128], title[256], from[32];
    double questions = dp_json_number(costs, "questions");
    bool is_complete = dp_json_is(costs, "from", modes[COMPLETE].name);

    if (!costs || json_is_null(costs))
        return;
    snprintf(line, sizeof line, "%s for %s at %s, %s", is_complete ? "measured where the file has times, else estimated" : "estimated",
             dp_json_text(title, sizeof title, costs, "device_title", "?"), dp_json_text(from, sizeof from, costs, "precision", "?"),
             dp_json_flag(costs, "is_device_measured", false) ? "as it was measured" : "by its vendor's figures");
    put(c, indent, "costs", line);
    if (questions > 0) {
        say_error(error, sizeof error, dp_json_get(costs, is_complete ? "complete_error_percent" : "error_percent"));
        snprintf(line, sizeof line, "%s than by measured times, over %.0f plans of networks of other families", error, questions);
    } else {
        snprintf(line, sizeof line, "not known: these coefficients have not been tried on a family of networks left out");
    }
    put(c, indent, "error", line);
    join(list, sizeof list, dp_json_list(costs, "unknown_types"));
    if (*list) {
        snprintf(line, sizeof line, "by the roofline alone, since nothing was learned of it: %s", list);
        put(c, indent, "", line);
    }
    join(list, sizeof list, dp_json_list(costs, "measure"));
    if (*list && !is_complete) {
        say_error(error, sizeof error, dp_json_get(costs, "complete_error_percent"));
        snprintf(line, sizeof line, "%s; with their times in the file --costs=complete makes plans that are %s%s", list,
                 questions > 0 ? "" : "better informed", questions > 0 ? error : "");
        put(c, indent, "to measure", line);
    }
}
