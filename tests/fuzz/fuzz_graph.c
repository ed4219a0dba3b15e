/* SPDX-License-Identifier: BSD-3-Clause */
/* Graph files, which come from anywhere: all three formats. What is accepted has costs within their limits, edges
 * between its nodes, no cycle, and a plan that passes the check. */
#include "tests/fuzz/fuzz.h"

#include "policies/graph/check.h"
#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/papers/papers.h"
#include "policies/graph/read/read.h"
#include "policies/learn/place.h"

const char fuzz_name[] = "fuzz_graph";

static void check_graph(const struct dp_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *n = &g->node[i];

        if (n->forward_ns > DP_GRAPH_MAX_NS || n->backward_ns > DP_GRAPH_MAX_NS ||
            n->cpu_ns > DP_GRAPH_MAX_NS || n->send_ns > DP_GRAPH_MAX_NS ||
            n->output_bytes > DP_GRAPH_MAX_BYTES || n->param_bytes > DP_GRAPH_MAX_BYTES ||
            n->colour >= g->n_colours || !n->name)
            fuzz_die("a node that no reader should let pass");
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (g->edge[e].from >= g->n_nodes || g->edge[e].to >= g->n_nodes || g->edge[e].from == g->edge[e].to)
            fuzz_die("an edge that leads nowhere");
    }
}

static void check_plan(const struct dp_graph *g, const struct dp_graph_plan *p)
{
    struct dp_err err;

    if (dp_graph_check(g, p->stage_of, p->n_stages, &err) < 0)
        fuzz_die("a plan that does not pass the check");
    if (p->load_ns + 1 < p->bound_ns) /* hierarchical times are rounded */
        fuzz_die("better than the lower bound");
}

/* Planners of papers, of whom each has a dynamic program of its own. */
static void plan_as_papers(const struct dp_graph *g)
{
    static const enum dp_plan_algorithm planners[] = {DP_PLAN_2BW, DP_PLAN_ALPA, DP_PLAN_DAPPLE, DP_PLAN_PIPER};
    const struct dp_plan_hierarchical net = {
        .n_levels = 1, .devices = {3}, .bytes_per_s = {1e9}, .accel_bytes = g->accel_bytes, .microbatches = 4};
    const struct dp_paper_ask ask = {.net = &net, .latency_ns = 1000};

    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
        struct dp_err err = {.text = ""};
        struct dp_graph_plan p;

        if (dp_paper_find(g, planners[i], &ask, &p, &err) == 0)
            check_plan(g, &p);
        else if (!err.text[0] || err.code == DP_EINVAL) /* a good question: at most nothing fits */
            fuzz_die("a paper's planner that does not answer");
        dp_graph_plan_release(&p);
    }
}

/* A network that has learned nothing: what it makes of the units is as good as by chance. */
static void plan_by_network(const struct dp_graph *g)
{
    static struct dp_cutter cutter;
    static bool is_made;
    const struct dp_weights weights = {.kind = DP_WEIGHTS_PARTS, .n = 1, .cutter = &cutter};
    const struct dp_place_source placer = dp_weights_placer(&weights);
    const struct dp_plan_maxload ask = {
        .algorithm = DP_PLAN_DRL_PP, .n_accel = 3, .accel_bytes = g->accel_bytes, .search_steps = 5000, .placer = &placer};
    struct dp_graph_plan p;

    if (!is_made)
        dp_cutter_init(&cutter, 1);
    is_made = true;
    if (dp_plan_maxload_find(g, &ask, &p, NULL) == 0)
        check_plan(g, &p);
    dp_graph_plan_release(&p);
}

static void plan(struct dp_graph *g)
{
    struct dp_plan_maxload ask = {
        .n_accel = 3, .accel_bytes = g->accel_bytes, .max_ideals = 200, .max_steps = 20000};
    struct dp_plan_hierarchical h = {.n_levels = 2,
                                     .devices = {2, 2},
                                     .bytes_per_s = {2e9, 1e9},
                                     .accel_bytes = UINT64_MAX,
                                     .max_ideals = 60};
    struct dp_graph_plan p;

    if (g->n_nodes > 40)
        return; /* so that nothing takes long */
    ask.n_cpus = g->kind == DP_GRAPH_COSTS;
    if (g->kind == DP_GRAPH_COSTS || dp_graph_set_bandwidth(g, 1e9, NULL) == 0) {
        if (dp_plan_maxload_find(g, &ask, &p, NULL) == 0)
            check_plan(g, &p);
        dp_graph_plan_release(&p);
        plan_by_network(g);
    }
    if (g->kind == DP_GRAPH_PROFILE) {
        if (dp_plan_hierarchical_find(g, &h, &p, NULL) == 0) {
            check_plan(g, &p);
            plan_as_papers(g);
        }
        dp_graph_plan_release(&p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct dp_graph g;
    struct dp_err err = {.text = ""};

    if (dp_graph_parse("input", (const char *)data, bytes, &g, &err) == 0) {
        check_graph(&g);
        plan(&g);
    } else if (!err.text[0]) {
        fuzz_die("refused without a reason");
    }
    dp_graph_release(&g);
    return 0;
}

void fuzz_make_seeds(void)
{
    fuzz_seed_text(
        "node1 -- Input -- forward_compute_time=6, backward_compute_time=0, activation_size=10, "
        "parameter_size=0\n"
        "node2 -- A -- forward_compute_time=1.5, backward_compute_time=3, activation_size=[1.0; 2], "
        "parameter_size=40\n"
        "node3 -- B -- forward_compute_time=2, backward_compute_time=1, activation_size=3, parameter_size=4 "
        "-- "
        "stage_id=1\n"
        "node4 -- C -- forward_compute_time=2, backward_compute_time=1, activation_size=3, parameter_size=4\n"
        "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n");
    fuzz_seed_text("{\"maxSizePerFPGA\":90,\"maxFPGAs\":2,\"maxCPUs\":1,\"nodes\":["
                   "{\"id\":1,\"fpgaLatency\":1,\"cpuLatency\":9,\"supportedOnFpga\":1,\"isBackwardNode\":0,"
                   "\"colorClass\":1,"
                   "\"size\":30},"
                   "{\"id\":2,\"fpgaLatency\":2,\"cpuLatency\":9,\"supportedOnFpga\":1,\"isBackwardNode\":0,"
                   "\"size\":30},"
                   "{\"id\":3,\"fpgaLatency\":3,\"cpuLatency\":9,\"supportedOnFpga\":0,\"isBackwardNode\":1,"
                   "\"colorClass\":1}],"
                   "\"edges\":[{\"sourceId\":1,\"destId\":2,\"cost\":0.5},{\"sourceId\":2,\"destId\":3,"
                   "\"cost\":0.25}]}");
    fuzz_seed_text("{\"maxDevices\":3,\"maxMemoryPerDevice\":100,\"bandwidth\":1e3,\"mbsInBatch\":8,\"nodes\":["
                   "{\"id\":1,\"name\":\"a\",\"TMPCs\":{\"1\":[{\"id\":\"x\",\"timePerSample\":0.03,\"parameterSize\":10,"
                   "\"memoryUsageA\":9,\"memoryUsageB\":20},{\"id\":\"r\",\"timePerSample\":0.04,\"parameterSize\":10,"
                   "\"memoryUsageA\":2,\"memoryUsageB\":20}]}},"
                   "{\"id\":2,\"TMPCs\":{\"1\":[{\"timePerSample\":0.02,\"parameterSize\":5,\"memoryUsageA\":3,"
                   "\"memoryUsageB\":10,\"syncTimeFw\":{},\"syncTimeBw\":{\"1\":0}}],\"2\":[]}},"
                   "{\"id\":3,\"TMPCs\":{\"1\":[{\"timePerSample\":0.05,\"parameterSize\":5,\"memoryUsageA\":3,"
                   "\"memoryUsageB\":10}]}}],\"edges\":[{\"sourceId\":1,\"destId\":2,\"communicationCost\":8},"
                   "{\"sourceId\":1,\"destId\":3,\"communicationCost\":8},"
                   "{\"sourceId\":2,\"destId\":3,\"communicationCost\":2}]}");
}
