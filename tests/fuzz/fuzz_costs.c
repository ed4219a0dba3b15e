/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of estimated costs: coefficients and descriptions of devices; and files of classes of devices. What is taken has numbers
 * within their limits, is the same when it is written and read again, and makes times of a profile that stay within theirs, or is
 * refused with a reason. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/classes/classes.h"
#include "policies/graph/costs/costs_file.h"
#include "policies/graph/read/read.h"

const char fuzz_name[] = "fuzz_costs";

/* Two kinds of operators, one of them without a time. */
static const char profile[] =
    "node1 -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=38535168.0, parameter_size=0.0\n"
    "node2 -- Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False) -- forward_compute_time=4.0, "
    "backward_compute_time=8.0, activation_size=205520896.0, parameter_size=37632.0\n"
    "node3 -- Linear(in_features=1600, out_features=1000, bias=True) -- forward_compute_time=0.0, backward_compute_time=0.0, "
    "activation_size=256000.0, parameter_size=6404000.0\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n";

static bool is_within(double v, double low, double high)
{
    return v >= low && v <= high;
}

static void estimate(const struct dp_costs *c, const struct dp_costs_roof *roof)
{
    uint32_t node[DP_COSTS_MEASURED];

    for (int keeps = 0; keeps < 2; keeps++) {
        struct dp_err err = {.text = ""};
        struct dp_graph g;

        if (dp_graph_parse("profile", profile, sizeof profile - 1, &g, &err) < 0)
            fuzz_die("the profile is none");
        if (dp_costs_estimate(c, roof, keeps, &g, &err) < 0 && !err.text[0])
            fuzz_die("an estimate refused without a reason");
        for (uint32_t i = 0; i < g.n_nodes; i++)
            if (g.node[i].forward_ns > DP_GRAPH_MAX_NS || g.node[i].backward_ns > DP_GRAPH_MAX_NS)
                fuzz_die("an estimate beyond what a node may take");
        if (dp_costs_advise(&g, node) > DP_COSTS_MEASURED)
            fuzz_die("more to measure than was asked for");
        dp_graph_release(&g);
    }
}

static void check_types(const struct dp_costs *c)
{
    if (c->n_types < 1 || c->n_types > DP_COSTS_MAX_TYPES)
        fuzz_die("coefficients of no type, or of too many, were taken");
    for (uint32_t i = 0; i < c->n_types; i++) {
        const struct dp_costs_type *t = &c->type[i];

        if (dp_costs_find(c, t->type) != t)
            fuzz_die("a type that is not found");
        for (int k = 0; k < DP_COSTS_TERMS; k++)
            if (!is_within(t->term[k], -1e6, 1e6) || !(t->low[k] <= t->high[k]))
                fuzz_die("a coefficient that none should be");
    }
}

/* json: a new reference. */
static void read_again(json_t *json, struct dp_costs *c)
{
    char *text = json ? json_dumps(json, 0) : NULL;

    if (!text || dp_costs_parse("written", text, strlen(text), c, NULL) < 0)
        fuzz_die("what was written is not taken again");
    free(text);
    json_decref(json);
}

static void look_at_costs(const uint8_t *data, size_t bytes)
{
    static const struct dp_costs_roof roof = {1e13, 1e12, 2e-5};
    static struct dp_costs c;
    struct dp_err err = {.text = ""};
    json_t *once, *twice;

    if (dp_costs_parse("input", (const char *)data, bytes, &c, &err) < 0) {
        if (!err.text[0])
            fuzz_die("refused without a reason");
        return;
    }
    check_types(&c);
    estimate(&c, &roof);
    estimate(&c, &c.profiled);
    read_again(dp_costs_json(&c), &c); /* six digits are left of each number */
    once = dp_costs_json(&c);
    read_again(json_incref(once), &c);
    twice = dp_costs_json(&c);
    if (!json_equal(once, twice))
        fuzz_die("the same coefficients are others when they are read again");
    json_decref(once);
    json_decref(twice);
}

static void look_at_device(void *arg, const struct dp_costs_device *d)
{
    struct dp_costs_roof roof;

    (*(uint32_t *)arg)++;
    if (!d->name[0] || d->n_rates < 1 || d->n_rates > DP_COSTS_DEVICE_RATES || !is_within(d->bytes_per_s, 1, 1e18) ||
        !is_within(d->launch_s, 1e-10, 1) || !is_within(d->flops_share, 1e-3, 1) || !is_within(d->bytes_share, 1e-3, 1))
        fuzz_die("a device that should be refused");
    for (uint32_t i = 0; i < d->n_rates; i++) {
        if (!is_within(d->rate[i].flops_per_s, 1, 1e18))
            fuzz_die("a rate that should be refused");
        roof = (struct dp_costs_roof){d->rate[i].flops_per_s * d->flops_share, d->bytes_per_s * d->bytes_share, d->launch_s};
        estimate(NULL, &roof);
    }
}

static void look_at_devices(const uint8_t *data, size_t bytes)
{
    struct dp_err err = {.text = ""};
    struct dp_costs_device d;
    struct dp_costs_roof roof;
    const char *precision;
    uint32_t n = 0;
    int rc = dp_costs_device_parse("input", (const char *)data, bytes, look_at_device, &n, &err);

    if (rc < 0 && !err.text[0])
        fuzz_die("refused without a reason");
    if (rc < 0)
        return;
    if (n == 0)
        fuzz_die("a file with no device was taken");
    if (dp_costs_device_find(NULL, fuzz_file(data, bytes), &d, &precision, &roof, NULL) < 0)
        fuzz_die("the first device of a file is not found");
    if (!(roof.flops_per_s > 0 && roof.bytes_per_s > 0 && roof.launch_s > 0))
        fuzz_die("a device that attains nothing");
}

static void look_at_classes(const uint8_t *data, size_t bytes)
{
    struct dp_err err = {.text = ""};
    struct dp_classes c;

    if (dp_classes_parse("input", (const char *)data, bytes, &c, &err) < 0) {
        if (!err.text[0])
            fuzz_die("refused without a reason");
        return;
    }
    if (c.n < 1 || c.n > DP_CLASSES_MOST || dp_classes_devices(&c) > DP_CLASSES_DEVICES || !is_within(c.between_bytes_per_s, 1, 1e18))
        fuzz_die("classes that should be refused");
    for (uint32_t i = 0; i < c.n; i++)
        if (!c.of[i].name[0] || c.of[i].devices < 1 || !is_within(c.of[i].speed, 1e-6, 1e6) || !is_within(c.of[i].bytes_per_s, 1, 1e18) ||
            c.of[i].accel_bytes < 1)
            fuzz_die("a class that should be refused");
}

/* The same bytes as the text of an option. */
static void look_at_text(const uint8_t *data, size_t bytes)
{
    char *text = strndup((const char *)data, bytes);
    struct dp_classes c;

    if (text && dp_classes_parse_text(text, &c, NULL) == 0 && (c.n < 1 || c.n > DP_CLASSES_MOST))
        fuzz_die("a text of no class, or of too many, was taken");
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    look_at_costs(data, bytes);
    look_at_devices(data, bytes);
    look_at_classes(data, bytes);
    look_at_text(data, bytes);
    return 0;
}

void fuzz_make_seeds(void)
{
    fuzz_seed_text("{\"format\":\"dynpipe costs\",\"version\":1,\"source\":\"a\",\"licence\":\"b\","
                   "\"profiled\":{\"flops_per_s\":1.2e13,\"bytes_per_s\":4.1e11,\"launch_s\":0.0004},"
                   "\"held_out\":{\"questions\":6,\"roofline\":{\"mean\":5.3,\"median\":2,\"worst\":45.6},"
                   "\"estimate\":{\"mean\":3.5,\"median\":0.58,\"worst\":25.5},"
                   "\"with_measured\":{\"mean\":2.8,\"median\":0,\"worst\":40}},"
                   "\"types\":{\"Add\":{\"operators\":157,\"is_free\":true},"
                   "\"Conv2d\":{\"operators\":848,\"forward_share\":0.37,\"terms\":[0.016,-0.03,-0.6,0.15,0.14],"
                   "\"low\":[1,0.121,-3,0,0],\"high\":[1,5,4,8,4]},"
                   "\"Linear\":{\"operators\":30,\"forward_share\":0.4,\"terms\":[-0.1,0.2,-0.6,0.2,0.2],"
                   "\"low\":[1,0,0,0,0],\"high\":[1,3,2,9,0]}}}");
    fuzz_seed_text("{\"format\":\"dynpipe costs\",\"version\":1,\"source\":\"a\",\"licence\":\"b\","
                   "\"profiled\":{\"flops_per_s\":1,\"bytes_per_s\":1e18,\"launch_s\":1},"
                   "\"types\":{\"Linear\":{\"operators\":1,\"forward_share\":1,\"terms\":[1e6,1e6,1e6,1e6,1e6],"
                   "\"low\":[1,1e6,0,0,0],\"high\":[1,1e6,2,9,0]}}}");
    fuzz_seed_text("{\"format\":\"dynpipe devices\",\"version\":1,\"note\":\"peaks\",\"devices\":["
                   "{\"name\":\"a100\",\"title\":\"A100\",\"source\":\"its sheet\",\"is_measured\":false,"
                   "\"flops_per_s\":{\"fp32\":19.5e12,\"tf32\":156e12,\"bf16\":312e12},\"bytes_per_s\":2.039e12,"
                   "\"launch_s\":20e-6,\"flops_share\":0.6,\"bytes_share\":0.8},"
                   "{\"name\":\"this\",\"title\":\"this machine\",\"source\":\"measured\",\"is_measured\":true,"
                   "\"flops_per_s\":{\"fp32\":1},\"bytes_per_s\":1,\"launch_s\":1,\"flops_share\":0.001,\"bytes_share\":1}]}");
    fuzz_seed_text("{\"format\":\"dynpipe classes\",\"version\":1,\"between_bytes_per_s\":1.25e9,\"classes\":["
                   "{\"name\":\"a100\",\"devices\":8,\"speed\":1,\"bytes_per_s\":12e9,\"memory_bytes\":80e9},"
                   "{\"name\":\"t4\",\"devices\":8,\"speed\":0.4,\"bytes_per_s\":12e9}]}");
    fuzz_seed_text("8xa100,8xt4,2xh100:bf16");
}
