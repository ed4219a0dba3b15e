/* SPDX-License-Identifier: BSD-3-Clause */
/* Published graphs, and what others found for them: the optima of dnn-partitioning's program (msr-fiddle/
 * dnn-partitioning, throughput-dp, run) and the figures of PipeDream's optimizer with activations counted
 * (--activation_compression_ratio 1, run), to the printed digits. The files are other projects': where
 * $DP_SHARED_DATA, or ../shared/data beside the source, does not hold them, the tests are skipped. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#include "policies/graph/check.h"
#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/read/read.h"

/* A file of the shared data, or NULL. */
static const char *find(const char *name)
{
    static char path[4096];
    const char *folder = getenv("DP_SHARED_DATA"), *source = getenv("DP_SRCDIR");

    if (folder && *folder)
        snprintf(path, sizeof path, "%s/%s", folder, name);
    else
        snprintf(path, sizeof path, "%s/../shared/data/%s", source ? source : ".", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

static void skip_without(void)
{
    print_message("# the published graphs are not here: DP_SHARED_DATA names their folder\n");
    skip();
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Is ms what was printed with four digits? Times are rounded to ns on reading: half of one for each node. */
static bool is_printed(double ms, double printed, const struct dp_graph *g)
{
    return fabs(ms - printed) <= 0.5e-4 + 0.5e-6 * g->n_nodes;
}

struct optimum {
    const char *file;
    uint32_t n_ideals;
    double exact_ms, line_ms; /* 0: the released program did not end */
};

static const struct optimum optima[] = {
    {"LayerGraphs-bert24_inference", 30, 17.7899, 17.7899},
    {"LayerGraphs-bert24_training", 30, 41.7458, 41.7458},
    {"LayerGraphs-gnmt_inference", 17914, 32.9107, 33.033},
    {"LayerGraphs-gnmt_training", 17914, 107.0044, 107.0044},
    {"LayerGraphs-resnet50_inference", 242, 33.7747, 33.7747},
    {"LayerGraphs-resnet50_training", 242, 78.6318, 78.6498},
    {"OperatorGraphs-bert_l-3_inference", 1428, 27.9186, 27.9186},
    {"OperatorGraphs-bert_l-3_training", 2774, 65.3031, 65.3031},
    {"OperatorGraphs-resnet50_inference", 0, 124.3488, 124.3488},
    {"LayerGraphs-inceptionv3_training", 36596, 0.0, 123.9301},
};

static void plan_optimum(const struct optimum *o, const char *path)
{
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_err err = {.text = ""};
    struct dp_plan_maxload ask = {0};
    double t = cpu_seconds(), exact_ms, line_ms;

    if (dp_graph_read(path, &g, &err) < 0)
        fail_msg("%s", err.text);
    ask.n_accel = g.n_accel;
    ask.n_cpus = g.n_cpus;
    ask.accel_bytes = g.accel_bytes;
    if (dp_plan_maxload_find(&g, &ask, &p, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    t = cpu_seconds() - t;
    exact_ms = (double)p.load_ns / 1e6;
    line_ms = (double)p.line_ns / 1e6;
    print_message("# %-33s %9.4f ms exact, %9.4f on one order (published %.4f, %.4f), bound %.4f, %.2f s\n",
                  o->file, exact_ms, line_ms, o->exact_ms, o->line_ms, (double)p.bound_ns / 1e6, t);
    assert_true(p.is_optimal);
    assert_true(o->exact_ms == 0.0 || is_printed(exact_ms, o->exact_ms, &g));
    assert_true(line_ms >= exact_ms);
    assert_true(line_ms <= o->line_ms || is_printed(line_ms, o->line_ms, &g)); /* more orders: never worse */
    assert_true(p.bound_ns <= p.load_ns);
    assert_true(o->n_ideals == 0 || p.n_ideals == o->n_ideals);
    assert_int_equal(dp_graph_check(&g, p.stage_of, p.n_stages, &err), 0);
    assert_true(t < 60.0);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

static void known_optima(void **state)
{
    (void)state;
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof optima / sizeof *optima; i++) {
        char name[128];
        const char *path;

        snprintf(name, sizeof name, "dnn-partitioning/%s.json", optima[i].file);
        path = find(name);
        if (!path)
            continue;
        plan_optimum(&optima[i], path);
        n++;
    }
    if (n == 0)
        skip_without();
    assert_int_equal(n, sizeof optima / sizeof *optima);
}

struct figure {
    const char *file;
    uint32_t devices, machines;
    double gb_per_s, gb_per_s_between;
    double over_single, over_data_parallel;
    bool is_straight;
};

static const struct figure figures[] = {
    {"vgg16", 4, 1, 1.25, 0, 3.81, 2.84, false},      {"vgg16", 4, 1, 12, 0, 3.95, 1.19, false},
    {"vgg16", 4, 4, 12, 1.25, 10.05, 2.00, false},    {"alexnet", 4, 1, 1.25, 0, 2.63, 5.17, false},
    {"alexnet", 4, 1, 12, 0, 3.85, 1.65, false},      {"alexnet", 4, 4, 12, 1.25, 5.65, 3.03, false},
    {"resnet50", 4, 1, 1.25, 0, 2.92, 1.13, false},   {"resnet50", 4, 1, 12, 0, 3.98, 1.05, false},
    {"resnet50", 4, 4, 12, 1.25, 10.26, 1.03, false}, {"gnmt", 4, 1, 12, 0, 3.46, 2.74, false},
    {"gnmt", 4, 1, 12, 0, 3.46, 2.74, true},
};

static void plan_figure(const struct figure *f, const char *path)
{
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_err err = {.text = ""};
    struct dp_plan_hierarchical ask = {.n_levels = f->machines > 1 ? 2 : 1,
                                       .devices = {f->devices, f->machines},
                                       .bytes_per_s = {f->gb_per_s * 1e9, f->gb_per_s_between * 1e9},
                                       .accel_bytes = UINT64_MAX,
                                       .is_straight = f->is_straight};
    double single, data_parallel, t = cpu_seconds();

    if (dp_graph_read(path, &g, &err) < 0)
        fail_msg("%s", err.text);
    if (dp_plan_hierarchical_find(&g, &ask, &p, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    t = cpu_seconds() - t;
    single = (double)p.single_ns / (double)p.load_ns;
    data_parallel = (double)p.data_parallel_ns / (double)p.load_ns;
    print_message("# %-9s %ux%u, %5.2f GB/s: %6.3f times one device, %5.3f times data parallel (published "
                  "%.2f, %.2f), %.2f s\n",
                  f->file, f->devices, f->machines, f->gb_per_s, single, data_parallel, f->over_single,
                  f->over_data_parallel, t);
    assert_true(fabs(single - f->over_single) <= 0.005);
    assert_true(fabs(data_parallel - f->over_data_parallel) <= 0.005);
    assert_true(p.bound_ns <= p.load_ns);
    assert_int_equal(dp_graph_check(&g, p.stage_of, p.n_stages, &err), 0);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

static void pipedream_figures(void **state)
{
    (void)state;
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char name[128];
        const char *path;

        snprintf(name, sizeof name, "pipedream/%s.txt", figures[i].file);
        path = find(name);
        if (!path)
            continue;
        plan_figure(&figures[i], path);
        n++;
    }
    if (n == 0)
        skip_without();
    assert_int_equal(n, sizeof figures / sizeof *figures);
}

/* The plan that the figure rests on: VGG16 with three devices for what is convolution, one for the rest. */
static void vgg16_is_cut_at_17(void **state)
{
    (void)state;
    const char *path = find("pipedream/vgg16.txt");
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_err err;
    struct dp_plan_hierarchical ask = {
        .n_levels = 1, .devices = {4}, .bytes_per_s = {1.25e9}, .accel_bytes = UINT64_MAX};
    uint32_t n_first = 0;

    if (!path) {
        skip_without();
        return;
    }
    assert_int_equal(dp_graph_read(path, &g, &err), 0);
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), 0);
    assert_int_equal(p.n_stages, 2);
    assert_int_equal(p.stage[0].replicas, 3);
    assert_int_equal(p.stage[1].replicas, 1);
    for (uint32_t i = 0; i < g.n_nodes; i++)
        n_first += p.stage_of[i] == 0 && !g.node[i].is_input;
    assert_int_equal(n_first, 17);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_optima),
    cmocka_unit_test(pipedream_figures),
    cmocka_unit_test(vgg16_is_cut_at_17),
};
TEST_MAIN("graph_published", tests)
