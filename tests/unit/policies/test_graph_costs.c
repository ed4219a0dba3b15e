/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimated costs: what is read from an operator's text, times of known operators, coefficients from profiles, and files that are
 * damaged. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "policies/graph/costs/costs_file.h"
#include "policies/graph/costs/fit.h"
#include "policies/graph/read/read.h"
#include "tests/unit/random.h"

static const struct dp_costs_roof roof = {1e12, 1e11, 1e-5};

static void is_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want)))
        fail_msg("%.12g instead of %.12g", got, want);
}

static struct dp_operator read_text(const char *text, double in, double out, double param)
{
    struct dp_operator op;

    dp_operator_read(text, in, out, param, 4, &op);
    return op;
}

static void reads_operators(void **state)
{
    (void)state;
    struct dp_operator op = read_text("Conv2d(64, 128, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)", 4e6, 8e6, 294912);

    assert_string_equal(op.type, "Conv2d");
    is_near(op.flops, 2 * 2e6 * 64 * 9);
    is_near(op.depth, 576);
    is_near(op.area, 9);
    is_near(op.width, 128);
    is_near(op.in_bytes, 4e6);
    op = read_text("Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2))", 0, 64e6, 37632);
    is_near(op.in_bytes, 12e6); /* of data, which has no size: four places for each that comes out */
    op = read_text("Conv2d(64, 64, kernel_size=3, groups=64)", 4e6, 4e6, 2304);
    is_near(op.flops, 2 * 1e6 * 9);
    op = read_text("ConvTranspose2d(16, 8, kernel_size=(2, 2), stride=(2, 2))", 4e6, 8e6, 2048);
    is_near(op.flops, 2 * 1e6 * 8 * 4);
    op = read_text("Linear(in_features=100, out_features=10, bias=True)", 0, 4000, 4040);
    is_near(op.flops, 2 * 1000 * 100);
    is_near(op.in_bytes, 40000);
    op = read_text("Classifier(  (classifier): Linear(in_features=100, out_features=10, bias=True))", 40000, 4000, 4040);
    assert_string_equal(op.type, "Linear");
    is_near(op.flops, 2 * 1000 * 100);
    op = read_text("LSTM(100, 50)", 1e4, 2e4, 1e6);
    is_near(op.flops, 2 * 0.25e6 * 100); /* a hundred rows */
    op = read_text("LSTM(100, 50, bidirectional=True)", 1e4, 2e4, 1e6);
    is_near(op.flops, 2 * 0.25e6 * 50);
    op = read_text("Two(  (a): LSTM(100, 100)  (b): LSTM(100, 100))", 4e4, 8e4, 1e6);
    assert_string_equal(op.type, "Two");
    is_near(op.flops, 2 * 0.25e6 * 100);
    op = read_text("Embedding(32320, 1024, padding_idx=0)", 0, 4096, 132382720);
    is_near(op.read_bytes, 4096);
    is_near(op.param_bytes, 132382720);
    op = read_text("MaxPool2d(kernel_size=2, stride=2)", 4e6, 1e6, 0);
    is_near(op.area, 4);
}

/* Whatever a text says, numbers stay finite and what cannot be read counts as not there. */
static void reads_odd_texts(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "", "(", "()", "Conv2d", "Conv2d(", "Conv2d(,,,)", "Conv2d(0, 0, kernel_size=(0, 0), groups=0)", "Conv2d(-3, nan)",
        "Conv2d(inf, 1e300)",
        "Conv2d(1e9, 1e9, kernel_size=(1e9, 1e9), stride=(1e9, 1e9), groups=1e9)", "Conv2d(3, 4, kernel_size=(1, 2, 3, 4, 5",
        "Linear(in_features=)", "LSTM(", "LSTM(0)", "X(  (y): ", "X(  (y): LSTM(", "MaxPool2d(kernel_size=())", "Linear((((((((",
        "Linear))))", "\xff\xfe"};

    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct dp_operator op = read_text(odd[i], 1e13, 1e13, 1e13);
        double feature[DP_COSTS_TERMS];

        dp_costs_features(&op, &roof, feature);
        for (int k = 0; k < DP_COSTS_TERMS; k++)
            if (!isfinite(feature[k]))
                fail_msg("%s: feature %d", odd[i], k);
        if (!isfinite(dp_costs_time_s(NULL, &op, &roof)) || op.depth < 1 || op.area < 1)
            fail_msg("%s", odd[i]);
    }
}

/* ---- estimates ---- */

#define NODE(id, text, fw, bw, out, param)                                                                       \
    id " -- " text " -- forward_compute_time=" fw ", backward_compute_time=" bw ", activation_size=" out ", parameter_size=" param "\n"

static const char profile[] =
    NODE("node1", "Input", "5", "0", "4000", "0")
    NODE("node2", "Linear(in_features=100, out_features=100, bias=False)", "0", "0", "4e6", "40000")
    NODE("node3", "ReLU(inplace)", "0", "0", "4e6", "0") NODE("node4", "View(-1)", "0", "0", "4e6", "0")
    NODE("node5", "Linear(in_features=100, out_features=100, bias=False)", "0", "0", "4e6", "40000")
    NODE("node6", "Linear(in_features=100, out_features=100, bias=False)", "0", "0", "4e6", "40000")
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n\tnode4 -- node5\n\tnode5 -- node6\n";

static void parse(const char *text, struct dp_graph *g)
{
    struct dp_err err = {.text = ""};

    if (dp_graph_parse("file", text, strlen(text), g, &err) < 0)
        fail_msg("%s", err.text);
}

/* Linear takes twice its roof, a third of it forward; a view is free. */
static struct dp_costs *make_costs(void)
{
    struct dp_costs *c = calloc(1, sizeof *c);

    assert_non_null(c);
    c->n_types = 2;
    c->type[0] = (struct dp_costs_type){.type = "Linear", .forward_share = 0.25, .term = {log(2)}, .low = {1}, .high = {1}};
    c->type[1] = (struct dp_costs_type){.type = "View", .is_free = true};
    return c;
}

static void estimates_known_operators(void **state)
{
    (void)state;
    struct dp_costs *c = make_costs();
    struct dp_graph g;
    /* A million sums of a hundred terms, three times: more than the traffic of 20 MB. */
    double linear = 1e-5 + 3 * 2e8 / 1e12, relu = 1e-5 + 5 * 4e6 / 1e11;

    parse(profile, &g);
    assert_int_equal(dp_costs_estimate(c, &roof, false, &g, NULL), 0);
    assert_int_equal(dp_graph_accel_ns(&g.node[0]), 0);
    is_near((double)g.node[1].forward_ns, round(0.25 * 2 * linear * 1e9));
    is_near((double)g.node[1].backward_ns, round(0.75 * 2 * linear * 1e9));
    assert_in_range(dp_graph_accel_ns(&g.node[2]), (uint64_t)(relu * 1e9) - 1, (uint64_t)(relu * 1e9) + 1); /* not learned: the roof */
    assert_int_equal(dp_graph_accel_ns(&g.node[3]), 0);
    assert_int_equal(dp_costs_estimate(NULL, &roof, false, &g, NULL), 0);
    assert_in_range(dp_graph_accel_ns(&g.node[1]), (uint64_t)(linear * 1e9) - 1, (uint64_t)(linear * 1e9) + 1);
    dp_graph_release(&g);
    free(c);
}

/* One of two equal operators was measured, at three times its estimate: the other takes its time, and a third that differs is
 * scaled. */
static void keeps_what_was_measured(void **state)
{
    (void)state;
    struct dp_costs *c = make_costs();
    struct dp_graph g;
    uint32_t node[DP_COSTS_MEASURED];
    uint64_t estimated;

    parse(profile, &g);
    assert_int_equal(dp_costs_estimate(c, &roof, false, &g, NULL), 0);
    assert_int_equal(dp_costs_advise(&g, node), 2); /* two kinds take time; nodes 5 and 6 are one */
    assert_true(g.node[node[0]].text[0] == 'L');
    estimated = dp_graph_accel_ns(&g.node[2]);
    dp_graph_release(&g);
    parse(profile, &g);
    g.node[4].forward_ns = 1000000;
    g.node[4].backward_ns = 2000000;
    assert_int_equal(dp_costs_estimate(c, &roof, true, &g, NULL), 0);
    assert_int_equal(g.node[4].forward_ns, 1000000);
    assert_int_equal(g.node[5].forward_ns, 1000000);
    assert_int_equal(g.node[5].backward_ns, 2000000);
    assert_true(dp_graph_accel_ns(&g.node[2]) > estimated);
    dp_graph_release(&g);
    free(c);
}

static void refuses_what_it_cannot_estimate(void **state)
{
    (void)state;
    static const char nameless[] = "a --  -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n";
    static const char huge[] = NODE("a", "ReLU", "1", "1", "3e13", "0");
    struct dp_costs_roof slow = {1e12, 1, 1e-5};
    struct dp_err err = {.text = ""};
    struct dp_graph g;

    parse(nameless, &g);
    assert_int_equal(dp_costs_estimate(NULL, &roof, false, &g, &err), -1);
    assert_non_null(strstr(err.text, "no node of the profile says"));
    dp_graph_release(&g);
    dp_graph_init(&g, DP_GRAPH_COSTS);
    assert_int_equal(dp_costs_estimate(NULL, &roof, false, &g, &err), -1);
    assert_non_null(strstr(err.text, "only PipeDream"));
    dp_graph_release(&g);
    parse(huge, &g);
    assert_int_equal(dp_costs_estimate(NULL, &slow, false, &g, &err), -1);
    assert_non_null(strstr(err.text, "node 'a' would take"));
    dp_graph_release(&g);
}

/* ---- coefficients ---- */

/* Operators whose times follow a roofline and a residual: products take three times it, activations 0.3 times. */
static void make_profile(struct dp_graph *g, uint64_t seed)
{
    dp_graph_init(g, DP_GRAPH_PROFILE);
    for (uint32_t i = 0; i < 60; i++) {
        char name[16], text[64];
        double in = (double)(16 << random_below(&seed, 7)), out = (double)(16 << random_below(&seed, 7));
        double rows = (double)(64 << random_below(&seed, 12));
        bool is_linear = i % 2;
        struct dp_graph_node node = {.name = name, .text = text, .colour = i};
        struct dp_operator op;
        double s;

        snprintf(name, sizeof name, "n%u", i);
        snprintf(text, sizeof text, is_linear ? "Linear(in_features=%.0f, out_features=%.0f, bias=False)" : "ReLU()", in, out);
        node.output_bytes = (uint64_t)(4 * rows * out);
        node.param_bytes = is_linear ? (uint64_t)(4 * in * out) : 0;
        dp_operator_read(text, 0, (double)node.output_bytes, (double)node.param_bytes, 4, &op);
        s = dp_costs_roof_s(&op, &roof) * (is_linear ? 3 : 0.3);
        node.forward_ns = (uint64_t)(s * 1e9 / 4);
        node.backward_ns = (uint64_t)(s * 1e9) - node.forward_ns;
        assert_true(dp_graph_add_node(g, &node, NULL) >= 0);
    }
    assert_int_equal(dp_graph_finish(g, NULL, NULL), 0);
}

static void learns_from_profiles(void **state)
{
    (void)state;
    static struct dp_costs c, again;
    struct dp_graph g[3], copy;
    double error = 0, roofline = 0;
    const bool use[3] = {true, true, false};
    struct dp_err err = {.text = ""};

    for (uint32_t i = 0; i < 3; i++)
        make_profile(&g[i], i + 1);
    assert_int_equal(dp_costs_fit(g, 3, use, &c, NULL), 0);
    assert_int_equal(dp_costs_fit(g, 3, use, &again, NULL), 0);
    assert_memory_equal(&c, &again, sizeof c);
    assert_int_equal(c.n_types, 2);
    assert_string_equal(c.type[0].type, "Linear");
    assert_int_equal(c.type[0].operators, 60);
    assert_true(fabs(c.type[0].forward_share - 0.25) < 0.01);
    make_profile(&copy, 3);
    for (int way = 0; way < 2; way++) {
        assert_int_equal(dp_costs_estimate(way ? &c : NULL, &c.profiled, false, &copy, NULL), 0);
        for (uint32_t i = 0; i < copy.n_nodes; i++) {
            double e = fabs(log((double)dp_graph_accel_ns(&copy.node[i]) / (double)dp_graph_accel_ns(&g[2].node[i])));

            *(way ? &error : &roofline) += e / copy.n_nodes;
        }
    }
    if (error > 0.3 || roofline < 1.4 * error)
        fail_msg("a network that was left out: off by %.3f, the roofline alone by %.3f", error, roofline);
    dp_graph_release(&copy);
    for (uint32_t i = 0; i < g[0].n_nodes; i++)
        g[0].node[i].forward_ns = g[0].node[i].backward_ns = 0;
    assert_int_equal(dp_costs_fit(g, 1, NULL, &c, &err), -1);
    assert_non_null(strstr(err.text, "a text and a time"));
    for (uint32_t i = 0; i < 3; i++)
        dp_graph_release(&g[i]);
}

/* ---- files ---- */

static const char good[] =
    "{\"format\": \"dynpipe costs\", \"version\": 1, \"source\": \"s\", \"licence\": \"l\", "
    "\"profiled\": {\"flops_per_s\": 1e12, \"bytes_per_s\": 1e11, \"launch_s\": 1e-5}, "
    "\"types\": {\"View\": {\"operators\": 3, \"is_free\": true}, "
    "\"ReLU\": {\"operators\": 2, \"forward_share\": 0.5, \"terms\": [1, 2, 3, 4, 5], "
    "\"low\": [0, 0, 0, 0, 0], \"high\": [1, 1, 1, 1, 1]}}, "
    "\"held_out\": {\"questions\": 6, \"roofline\": {\"mean\": 3, \"median\": 2, \"worst\": 9}, "
    "\"estimate\": {\"mean\": 2, \"median\": 1, \"worst\": 5}, \"with_measured\": {\"mean\": 1, \"median\": 0.5, \"worst\": 4}}}";

static void reads_its_own_files(void **state)
{
    (void)state;
    static struct dp_costs c, again;
    json_t *doc;
    char *text;

    assert_int_equal(dp_costs_parse("f", good, strlen(good), &c, NULL), 0);
    assert_int_equal(c.n_types, 2);
    assert_string_equal(c.type[0].type, "ReLU"); /* sorted */
    assert_ptr_equal(dp_costs_find(&c, "View"), &c.type[1]);
    assert_null(dp_costs_find(&c, "GELU"));
    is_near(c.type[0].term[4], 5);
    assert_int_equal(c.n_questions, 6);
    is_near(c.with_measured.worst, 4);
    doc = dp_costs_json(&c);
    text = json_dumps(doc, 0);
    json_decref(doc);
    assert_int_equal(dp_costs_parse("f", text, strlen(text), &again, NULL), 0);
    free(text);
    assert_memory_equal(&c, &again, sizeof c);
    assert_int_equal(dp_costs_read("/nonexistent/costs", &c, NULL), -1);
}

/* Replace the first `what` of a good file. */
static char *replace(const char *file, const char *what, const char *with)
{
    const char *at = strstr(file, what);
    size_t bytes = strlen(file) + strlen(with) + 1;
    char *text = malloc(bytes);

    assert_non_null(at);
    assert_non_null(text);
    snprintf(text, bytes, "%.*s%s%s", (int)(at - file), file, with, at + strlen(what));
    return text;
}

struct damage {
    const char *what, *with, *error;
};

static void refuses_damaged_costs(void **state)
{
    (void)state;
    static const struct damage bad[] = {
        {"{", "", "f:1: "},
        {"dynpipe costs", "dynpipe devices", "format: expected 'dynpipe costs'"},
        {"\"version\": 1", "\"version\": 2", "version: expected a number from 1 to 1"},
        {"\"source\": \"s\"", "\"source\": \"\"", "source: expected a text"},
        {"\"licence\": \"l\", ", "", "licence: expected a text"},
        {"\"licence\"", "\"license\"", "'license' is not known here"},
        {"1e12", "0", "profiled.flops_per_s: expected a number from 1"},
        {"1e11", "\"1e11\"", "profiled.bytes_per_s: expected a number"},
        {"1e-5", "-1", "profiled.launch_s: expected"},
        {"{\"View\"", "[], \"more\": {\"View\"", "'more' is not known here"},
        {"\"operators\": 3", "\"operators\": -3", "types.View.operators: expected"},
        {"true", "false", "types.View.forward_share: expected"},
        {"0.5", "1.5", "types.ReLU.forward_share: expected a number from 0 to 1"},
        {"[1, 2, 3, 4, 5]", "[1, 2, 3, 4]", "types.ReLU.terms: expected 5 numbers"},
        {"[1, 2, 3, 4, 5]", "[1, 2, 3, 4, 5, 6]", "types.ReLU.terms: expected 5 numbers"},
        {"[1, 2, 3, 4, 5]", "[1, 2, 3, 4, 5e300]", "types.ReLU.terms: expected 5 numbers"},
        {"[0, 0, 0, 0, 0]", "[0, 0, 2, 0, 0]", "types.ReLU.low: above high"},
        {"\"ReLU\"", "\"\"", "types: '' is not the name of a type"},
        {"\"ReLU\"", "\"ReLUReLUReLUReLUReLUReLUReLUReLU\"", "is not the name of a type"},
        {"\"View\"", "\"ReLU\"", "duplicate"},
        {"\"questions\": 6", "\"questions\": 0", "held_out.questions: expected"},
        {"\"median\": 2", "\"median\": -2", "held_out.roofline.median: expected"},
        {"\"with_measured\"", "\"measured\"", "'measured' is not known here"},
    };
    static struct dp_costs c;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = replace(good, bad[i].what, bad[i].with);
        struct dp_err err = {.text = ""};

        if (dp_costs_parse("f", text, strlen(text), &c, &err) == 0)
            fail_msg("taken: %s", text);
        if (strncmp(err.text, "f:", 2) != 0 || !strstr(err.text, bad[i].error))
            fail_msg("'%s' instead of '%s'", err.text, bad[i].error);
        free(text);
    }
    for (size_t n = 0; n < strlen(good); n++)
        assert_int_equal(dp_costs_parse("f", good, n, &c, NULL), -1);
}

static const char devices[] =
    "{\"format\": \"dynpipe devices\", \"version\": 1, \"devices\": [{\"name\": \"a\", \"title\": \"A\", \"source\": \"s\", "
    "\"is_measured\": false, \"flops_per_s\": {\"fp32\": 2e12, \"bf16\": 8e12}, \"bytes_per_s\": 1e11, "
    "\"launch_s\": 1e-5, \"flops_share\": 0.5, \"bytes_share\": 0.8}]}";

static void count(void *arg, const struct dp_costs_device *d)
{
    assert_string_equal(d->name, "a");
    ++*(int *)arg;
}

static void refuses_damaged_devices(void **state)
{
    (void)state;
    static const struct damage bad[] = {
        {"[{", "{", "f:1: "},
        {"dynpipe devices", "x", "format: expected 'dynpipe devices'"},
        {"\"name\": \"a\"", "\"name\": \"a:b\"", "devices[0].name: without"},
        {"\"title\": \"A\"", "\"title\": 3", "devices[0].title: expected a text"},
        {"false", "0", "devices[0].is_measured: expected true or false"},
        {"2e12", "0", "devices[0].fp32: expected a number"},
        {"\"fp32\": 2e12, \"bf16\": 8e12", "", "an object with 1 to 8 rates"},
        {"\"fp32\"", "\"a precision of many words\"", "is not a precision"},
        {"0.5", "1.5", "devices[0].flops_share: expected a number from 0.001 to 1"},
        {"0.8", "null", "devices[0].bytes_share: expected"},
        {"\"launch_s\": 1e-5, ", "", "devices[0].launch_s: expected"},
        {"\"source\"", "\"sauce\"", "'sauce' is not known here"},
    };
    int n = 0;

    assert_int_equal(dp_costs_device_parse("f", devices, strlen(devices), count, &n, NULL), 0);
    assert_int_equal(n, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = replace(devices, bad[i].what, bad[i].with);
        struct dp_err err = {.text = ""};

        if (dp_costs_device_parse("f", text, strlen(text), count, &n, &err) == 0)
            fail_msg("taken: %s", text);
        if (strncmp(err.text, "f:", 2) != 0 || !strstr(err.text, bad[i].error))
            fail_msg("'%s' instead of '%s'", err.text, bad[i].error);
        free(text);
    }
    assert_int_equal(n, 1);
}

/* The files that are installed. */
static void reads_what_is_shipped(void **state)
{
    (void)state;
    const char *source = getenv("DP_SRCDIR"), *precision;
    static struct dp_costs c;
    struct dp_costs_roof r;
    struct dp_costs_device d;
    char costs[4096], path[4096];
    struct dp_err err = {.text = ""};

    snprintf(costs, sizeof costs, "%s/etc/graph-costs.json", source ? source : ".");
    snprintf(path, sizeof path, "%s/etc/graph-devices.json", source ? source : ".");
    if (dp_costs_read(costs, &c, &err) < 0 || dp_costs_device_find(path, "h100:bf16", &d, &precision, &r, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(precision, "bf16");
    is_near(r.flops_per_s, 989e12 * d.flops_share);
    is_near(r.bytes_per_s, 3.35e12 * d.bytes_share);
    assert_false(d.is_measured);
    assert_true(c.n_questions > 0 && c.estimate.mean < c.roofline.mean && c.estimate.mean <= 6 && c.estimate.median <= 3);
    assert_non_null(dp_costs_find(&c, "Conv2d"));
    assert_int_equal(dp_costs_device_find(path, "h100", &d, &precision, &r, &err), 0);
    assert_string_equal(precision, "fp32");
    assert_int_equal(dp_costs_device_find(path, "h99", &d, &precision, &r, &err), -1);
    assert_non_null(strstr(err.text, "unknown device 'h99'; known: a100-40gb, a100"));
    assert_int_equal(dp_costs_device_find(path, "h100:int3", &d, &precision, &r, &err), -1);
    assert_non_null(strstr(err.text, "h100 has no rate 'int3'; it has fp32, tf32, bf16"));
    assert_int_equal(dp_costs_device_find("nowhere", path, &d, &precision, &r, &err), 0); /* a file of one's own: its first device */
    assert_string_equal(d.name, "a100-40gb");
    assert_int_equal(dp_costs_device_find(path, "./none.json", &d, &precision, &r, &err), -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_operators),
    cmocka_unit_test(reads_odd_texts),
    cmocka_unit_test(estimates_known_operators),
    cmocka_unit_test(keeps_what_was_measured),
    cmocka_unit_test(refuses_what_it_cannot_estimate),
    cmocka_unit_test(learns_from_profiles),
    cmocka_unit_test(reads_its_own_files),
    cmocka_unit_test(refuses_damaged_costs),
    cmocka_unit_test(refuses_damaged_devices),
    cmocka_unit_test(reads_what_is_shipped),
};

TEST_MAIN("graph_costs", tests)
