/* SPDX-License-Identifier: BSD-3-Clause */
/* Graph files, which come from anywhere: both formats. What is accepted has costs within their limits, edges
 * between its nodes, no cycle, and a plan that passes the check. */
#include "tests/fuzz/fuzz.h"

#include "policies/graph/check.h"
#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/read/read.h"

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
    }
    if (g->kind == DP_GRAPH_PROFILE) {
        if (dp_plan_hierarchical_find(g, &h, &p, NULL) == 0)
            check_plan(g, &p);
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
}
