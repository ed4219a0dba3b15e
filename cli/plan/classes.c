/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that are not alike: classes by the names of the installed descriptions, or a file of them. Times of the graph are those of
 * the first class, or of --device; what another one takes is found by the roofline over all operators of the graph, and where it
 * does not say what they are by the rates of arithmetic alone. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/json.h"
#include "policies/graph/costs/costs_file.h"

/* Seconds of the whole network on a device, of any unit where the graph says nothing of its operators. */
static double network_s(const struct dp_graph *g, const struct dp_operator *op, const struct dp_costs_roof *roof)
{
    double s = 0;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!g->node[i].is_input && *op[i].type)
            s += dp_costs_roof_s(&op[i], roof);
    return s > 0 ? s : 1 / roof->flops_per_s;
}

/* A device as its description says, and how long it takes. */
static int look_up(const char *name, const struct dp_graph *g, const struct dp_operator *op, struct dp_costs_device *d, double *s,
                   struct dp_err *err)
{
    char path[4096];
    struct dp_costs_roof roof;
    const char *precision;

    dp_plan_data_file("graph-devices.json", path, sizeof path);
    if (dp_costs_device_find(path, name, d, &precision, &roof, err) < 0)
        return -1;
    *s = network_s(g, op, &roof);
    return 0;
}

static int describe(const struct dp_cli *cli, const struct dp_graph *g, const struct dp_operator *op, struct dp_classes *c,
                    struct dp_err *err)
{
    struct dp_costs_device d;
    double first_s;

    if (look_up(cli->device ? cli->device : c->of[0].name, g, op, &d, &first_s, err) < 0)
        return -1;
    for (uint32_t i = 0; i < c->n; i++) {
        double s;

        if (look_up(c->of[i].name, g, op, &d, &s, err) < 0)
            return -1;
        c->of[i].speed = first_s / s;
        if (!(c->of[i].speed >= 1e-6 && c->of[i].speed <= 1e6))
            return dp_err_set(err, DP_EINVAL, "class %s would be %g times as fast as the times of the graph", c->of[i].name,
                              c->of[i].speed);
        c->of[i].accel_bytes = d.memory_bytes ? d.memory_bytes : UINT64_MAX;
    }
    return 0;
}

static int by_names(const struct dp_cli *cli, const struct dp_graph *g, struct dp_classes *c, struct dp_err *err)
{
    struct dp_operator *op;
    int rc = dp_operators_of(g, &op, err);

    if (rc == 0)
        rc = describe(cli, g, op, c, err);
    free(op);
    return rc;
}

int dp_plan_classes(const struct dp_cli *cli, const struct dp_graph *g, struct dp_plan_problem *q, struct dp_err *err)
{
    bool is_file = strchr(cli->devices, '/');
    struct dp_classes *c = &q->classes;

    if (g->kind != DP_GRAPH_PROFILE)
        return dp_err_set(err, DP_EINVAL, "--devices: classes of devices need the sizes of parameters, which this file does not have");
    if ((is_file ? dp_classes_read(cli->devices, c, err) : dp_classes_parse_text(cli->devices, c, err)) < 0 ||
        (!is_file && by_names(cli, g, c, err) < 0))
        return dp_err_prefix(err, "--devices");
    if (is_file && (cli->bandwidth || cli->memory))
        return dp_err_set(err, DP_EINVAL, "--%s: the file of classes says that", cli->bandwidth ? "bandwidth" : "memory");
    q->is_described = is_file;
    q->n_levels = 1;
    q->devices[0] = dp_classes_devices(c);
    return 0;
}

json_t *dp_plan_classes_json(const struct dp_classes *c)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < c->n; i++) {
        const struct dp_device_class *d = &c->of[i];
        json_t *o = json_pack("{s:s, s:I, s:f, s:f}", "name", d->name, "devices", (json_int_t)d->devices, "speed", d->speed,
                              "bandwidth_bytes_per_s", d->bytes_per_s);

        json_object_set_new(o, "memory_bytes", d->accel_bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)d->accel_bytes));
        json_array_append_new(list, o);
    }
    return list;
}

void dp_plan_say_classes(char *out, size_t cap, const json_t *classes)
{
    const json_t *o;
    char name[64];
    size_t i, n = 0;

    *out = '\0';
    json_array_foreach((json_t *)classes, i, o)
    {
        snprintf(out + n, cap - n, "%s%.0f %s of speed %.3g", i ? ", " : "", dp_json_number(o, "devices"),
                 dp_json_text(name, sizeof name, o, "name", "?"), dp_json_number(o, "speed"));
        n += strlen(out + n);
    }
}
