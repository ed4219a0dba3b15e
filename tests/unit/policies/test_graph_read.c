/* SPDX-License-Identifier: BSD-3-Clause */
/* The readers of graph files: what they take from good ones, and what they say about bad ones. */
#include "tests/unit/unit.h"

#include "policies/graph/read/read.h"

static const char profile[] = "node1 -- Input -- forward_compute_time=635.902, backward_compute_time=0.000, "
                              "activation_size=1000.0, parameter_size=0.000\n"
                              "node3 -- ReLU -- forward_compute_time=0.5, backward_compute_time=0.25, "
                              "activation_size=300, parameter_size=0 -- stage_id=7\n"
                              "node2 -- A(x -- y) -- forward_compute_time=1.5, backward_compute_time=3, "
                              "activation_size=[100.0; 20.0; 3.0], parameter_size=40.0\r\n"
                              "\tnode2 -- node3\n"
                              "\tnode1 -- node2\n"
                              "\tnode1 -- node2\n";

static int parse(const char *text, struct dp_graph *g, struct dp_err *err)
{
    return dp_graph_parse("file", text, strlen(text), g, err);
}

static void reads_a_profile(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_err err;

    assert_int_equal(parse(profile, &g, &err), 0);
    assert_int_equal(g.kind, DP_GRAPH_PROFILE);
    assert_int_equal(g.n_nodes, 3);
    assert_int_equal(g.n_edges, 2); /* one of the three appears twice */
    assert_true(g.node[0].is_input);
    assert_int_equal(g.node[0].forward_ns, 0); /* the time of loading data is nobody's */
    assert_int_equal(g.node[0].output_bytes, 0);
    assert_string_equal(g.node[1].name, "node3");
    assert_string_equal(g.node[2].text, "A(x -- y)");
    assert_int_equal(g.node[1].backward_ns, 250000);
    assert_int_equal(g.node[2].forward_ns, 1500000);
    assert_int_equal(g.node[2].output_bytes, 123);
    assert_int_equal(g.node[2].param_bytes, 40);
    assert_int_equal(dp_graph_set_bandwidth(&g, 1e6, &err), 0);
    assert_int_equal(g.node[2].send_ns, 246000);
    assert_int_equal(dp_graph_set_bandwidth(&g, 1e-9, &err), -1);
    assert_int_equal(dp_graph_set_bandwidth(&g, 0, &err), -1);
    dp_graph_release(&g);
}

static void reads_costs(void **state)
{
    (void)state;
    static const char text[] =
        "{\"maxSizePerFPGA\": 1e30, \"maxFPGAs\": 2, \"maxCPUs\": 1, \"nodes\": ["
        "{\"id\": 7, \"fpgaLatency\": 1.5, \"cpuLatency\": 15, \"supportedOnFpga\": true, "
        "\"isBackwardNode\": 0, \"colorClass\": 9, \"size\": 12.0, \"name\": \"a\"},"
        "{\"id\": 5, \"fpgaLatency\": 2, \"cpuLatency\": 0, \"supportedOnFpga\": 0, "
        "\"isBackwardNode\": false},"
        "{\"id\": 6, \"fpgaLatency\": 3, \"cpuLatency\": 0, \"supportedOnFpga\": 1, "
        "\"isBackwardNode\": true, \"colorClass\": 9}],"
        "\"edges\": [{\"sourceId\": 7, \"destId\": 5, \"cost\": 0.25}, "
        "{\"sourceId\": 7, \"destId\": 6, \"cost\": 0.25}]}";
    struct dp_graph g;
    struct dp_err err = {.text = ""};

    assert_int_equal(parse(text, &g, &err), 0);
    assert_int_equal(g.kind, DP_GRAPH_COSTS);
    assert_int_equal(g.n_accel, 2);
    assert_int_equal(g.n_cpus, 1);
    assert_true(g.accel_bytes == UINT64_MAX);
    assert_int_equal(g.node[0].forward_ns, 1500000);
    assert_int_equal(g.node[0].send_ns, 250000);
    assert_int_equal(g.node[0].bytes, 12);
    assert_int_equal(g.node[0].colour, g.node[2].colour);
    assert_int_not_equal(g.node[0].colour, g.node[1].colour);
    assert_int_equal(g.n_colours, 2);
    assert_true(g.node[1].only_on_cpu);
    assert_string_equal(g.node[1].name, "5");
    assert_int_equal(g.node[2].backward_ns, 3000000);
    assert_int_equal(g.node[2].forward_ns, 0);
    dp_graph_release(&g);
}

#define WAY(id, s, w, a, b)                                                                                  \
    "{\"id\": \"" id "\", \"timePerSample\": " s ", \"parameterSize\": " w ", \"memoryUsageA\": " a               \
    ", \"memoryUsageB\": " b ", \"syncTimeFw\": {}, \"syncTimeBw\": {\"5\": 0.0}}"
#define LAYER(id, more, ways) "{\"id\": " id more ", \"TMPCs\": {\"2\": 0, \"1\": [" ways "]}}"
#define PIPER(setting, nodes, edges) "{" setting ", \"nodes\": [" nodes "], \"edges\": [" edges "]}"
#define SETTING "\"maxDevices\": 8, \"maxMemoryPerDevice\": 8e10, \"bandwidth\": 25e9, \"mbsInBatch\": 64"
#define ONE LAYER("1", "", WAY("v", "3e-3", "1", "1", "1"))
#define PASS(a, b, bytes) "{\"sourceId\": " a ", \"destId\": " b ", \"communicationCost\": " bytes "}"

static void reads_piper(void **state)
{
    (void)state;
    static const char text[] =
        PIPER(SETTING,
              LAYER("7", ", \"name\": \"block\"", WAY("r", "4e-3", "10", "20", "90") "," WAY("v", "3.00001e-3", "10", "50.4", "60"))
              "," LAYER("5.0", ", \"name\": \"block\"", WAY("v", "1", "0", "0", "0"))
              "," LAYER("6", ", \"name\": \"head\"", WAY("v", "0", "0", "0", "0")) "," LAYER("-3", "", WAY("v", "0", "0", "0", "0")),
              PASS("7", "5", "100") "," PASS("7", "6", "300.0") "," PASS("7", "-3", "200") "," PASS("5", "6", "0"));
    static const char *const names[] = {"block#7", "block#5", "head", "-3"};
    struct dp_graph g;
    struct dp_err err = {.text = ""};

    assert_int_equal(parse(text, &g, &err), 0);
    assert_int_equal(g.kind, DP_GRAPH_PROFILE);
    assert_true(g.is_piper && g.bytes_per_s == 25e9);
    assert_int_equal(g.n_accel, 8);
    assert_int_equal(g.n_cpus, 0);
    assert_int_equal(g.accel_bytes, UINT64_C(80000000000));
    assert_int_equal(g.microbatches, 64);
    assert_int_equal(g.n_nodes, 4);
    assert_int_equal(g.n_colours, 4);
    assert_int_equal(g.n_edges, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_string_equal(g.node[i].name, names[i]);
    assert_int_equal(dp_graph_accel_ns(&g.node[0]), 3000010); /* the faster of two ways */
    assert_int_equal(g.node[0].forward_ns, 1000003);
    assert_int_equal(g.node[0].n_ways, 2); /* the other one is kept, too */
    assert_int_equal(g.node[0].way[0].forward_ns + g.node[0].way[0].backward_ns, 4000000);
    assert_int_equal(g.node[0].way[0].kept_bytes, 20);
    assert_int_equal(g.node[0].way[0].bytes, 90);
    assert_int_equal(g.node[0].param_bytes, 10);
    assert_int_equal(g.node[0].kept_bytes, 50);
    assert_int_equal(g.node[0].bytes, 60);
    assert_int_equal(g.node[0].output_bytes, 300); /* the largest of its edges */
    assert_int_equal(g.node[1].output_bytes, 0);
    assert_int_equal(dp_graph_accel_ns(&g.node[1]), 1000000000);
    assert_int_equal(dp_graph_set_bandwidth(&g, g.bytes_per_s, &err), 0);
    assert_int_equal(g.node[0].send_ns, 24);
    dp_graph_release(&g);
}

#define NODE(id)                                                                                             \
    "{\"id\": " id ", \"fpgaLatency\": 1, \"cpuLatency\": 1, \"supportedOnFpga\": 1, \"isBackwardNode\": 0}"
#define BACK(id)                                                                                             \
    "{\"id\": " id ", \"fpgaLatency\": 1, \"cpuLatency\": 1, \"supportedOnFpga\": 1, \"isBackwardNode\": 1}"
#define EDGE(a, b, cost) "{\"sourceId\": " a ", \"destId\": " b ", \"cost\": " cost "}"
#define DOC(nodes, edges)                                                                                    \
    "{\"maxSizePerFPGA\": 1, \"maxFPGAs\": 2, \"maxCPUs\": 1, \"nodes\": [" nodes "], \"edges\": [" edges "]}"
#define LINE(id, f, b, a, p)                                                                                 \
    id " -- X -- forward_compute_time=" f ", backward_compute_time=" b ", activation_size=" a                \
       ", parameter_size=" p "\n"

static const struct {
    const char *text, *want; /* want: in the message */
} bad[] = {
    {"", "file: the file is empty"},
    {" \n\t\n", "the file is empty"},
    {"hello", "file:1: neither a node"},
    {LINE("a", "1", "1", "1", "1") "b -- X\n", "file:2: a node without ' -- forward"},
    {LINE("a", "1", "1", "1", "1") "b -- X -- forward_compute_time=1, backward_compute_time=1",
     "file:2: 'activation_size='"},
    {LINE("a", "nan", "1", "1", "1"), "file:1: forward_compute_time='nan' is not a number"},
    {LINE("a", "-1", "1", "1", "1"), "file:1: forward_compute_time = -1"},
    {LINE("a", "1", "1e30", "1", "1"), "file:1: backward_compute_time = 1e+30"},
    {LINE("a", "1", "1e999", "1", "1"), "file:1: backward_compute_time = inf"},
    {LINE("a", "1", "1", "0x10", "1"), "file:1: activation_size='0x10' is not a number"},
    {LINE("a", "1", "1", "[1; 2", "1"), "file:1: activation_size='[1; 2' is not a number"},
    {LINE("a", "1", "1", "[1; -2]", "1"), "is not a number"},
    {LINE("a", "1", "1", "[]", "1"), "is not a number"},
    {LINE("a", "1", "1", "1e20", "1"), "file:1: activation_size = 1e+20"},
    {LINE("a", "1", "1", "1", "1, more=2"), "file:1: something follows"},
    {LINE("a", "1", "1", "1", "1 -- stage_id=x"), "file:1: what follows the costs"},
    {LINE("", "1", "1", "1", "1"), "file:1: a node without an id"},
    {LINE("a", "1", "1", "1", "1") LINE("b", "1", "1", "1", "1") LINE("a", "2", "2", "2", "2"),
     "file:3: the id 'a' is that of line 1"},
    {LINE("a", "1", "1", "1", "1") "\ta -- b\n", "file:2: there is no node 'b'"},
    {LINE("a", "1", "1", "1", "1") "\ta\n", "file:2: an edge is"},
    {LINE("a", "1", "1", "1", "1") "\ta -- \n", "file:2: an edge is"},
    {LINE("a", "1", "1", "1", "1") "\ta -- a\n", "file:2: the edge from 'a' to 'a' closes a cycle"},
    {LINE("a", "1", "1", "1", "1") LINE("b", "1", "1", "1", "1")
         LINE("c", "1", "1", "1", "1") "\ta -- b\n\tb -- c\n\tc -- b\n",
     "closes a cycle"},
    {"{", "file:1:"},
    {"{\"nodes\": [NaN]}", "not valid JSON"},
    {"{\"a\": 1, \"a\": 2}", "not valid JSON: duplicate"},
    {"{\"a\": 1e999}", "not valid JSON: real number overflow"},
    {"{}", "file: maxFPGAs: missing"},
    {"{\"maxSizePerFPGA\": 1, \"maxFPGAs\": -2, \"maxCPUs\": 1}", "maxFPGAs: not a number that"},
    {"{\"maxSizePerFPGA\": 1, \"maxFPGAs\": 2, \"maxCPUs\": 1}", "nodes: missing"},
    {DOC("", ""), "nodes: 0 of them"},
    {DOC("7", ""), "nodes[0]: is not an object"},
    {DOC("{}", ""), "nodes[0].id: missing"},
    {DOC("{\"id\": \"x\"}", ""), "nodes[0].id: is not a whole number"},
    {DOC("{\"id\": 1.5}", ""), "nodes[0].id: is not a whole number"},
    {DOC("{\"id\": 1, \"fpgaLatency\": -1}", ""), "nodes[0]: fpgaLatency = -1"},
    {DOC("{\"id\": 1, \"fpgaLatency\": 1e300}", ""), "nodes[0]: fpgaLatency = 1e+300"},
    {DOC("{\"id\": 1, \"fpgaLatency\": null}", ""), "nodes[0].fpgaLatency: is not a number"},
    {DOC(NODE("1") ", {\"id\": 2, \"fpgaLatency\": 1, \"cpuLatency\": 1, \"supportedOnFpga\": 2}", ""),
     "nodes[1].supportedOnFpga: is neither 0 nor 1"},
    {DOC(NODE("1") "," NODE("2") "," NODE("1"), ""), "nodes[2].id: 1 is the id of nodes[0], too"},
    {DOC(NODE("1"), EDGE("1", "3", "0")), "edges[0].destId: there is no node with id 3"},
    {DOC(NODE("1") "," NODE("2"), EDGE("1", "2", "-1")), "edges[0]: cost = -1"},
    {DOC(NODE("1") "," NODE("2") "," NODE("3"), EDGE("1", "2", "1") "," EDGE("1", "3", "2")),
     "edges[1].cost: 2, but 1 on another edge"},
    {DOC(NODE("1") "," NODE("2"), EDGE("1", "2", "1") "," EDGE("2", "1", "1")), "closes a cycle"},
    {DOC(BACK("1") "," NODE("2"), EDGE("1", "2", "1")), "edges[0]: leads from a backward node"},
    {"{\"nodes\": [{\"TMPCs\": 0}]}", "file: maxDevices: missing"},
    {"{\"maxDevices\": 0}", "file: maxDevices: expected a whole number from 1 to 65535"},
    {"{\"maxDevices\": 2.5}", "maxDevices: expected a whole number"},
    {"{\"maxDevices\": \"2\"}", "maxDevices: expected a whole number"},
    {"{\"maxDevices\": 2}", "maxMemoryPerDevice: missing"},
    {"{\"maxDevices\": 2, \"maxMemoryPerDevice\": 0}", "maxMemoryPerDevice: expected a number from 1 to"},
    {"{\"maxDevices\": 2, \"maxMemoryPerDevice\": 1, \"bandwidth\": -1}", "bandwidth: expected a number from 1"},
    {"{\"maxDevices\": 2, \"maxMemoryPerDevice\": 1, \"bandwidth\": 1}", "mbsInBatch: missing"},
    {"{\"maxDevices\": 2, \"maxMemoryPerDevice\": 1, \"bandwidth\": 1, \"maxBatchSize\": 0}", "maxBatchSize: expected a whole"},
    {"{" SETTING "}", "nodes: missing"},
    {"{" SETTING ", \"nodes\": [1]}", "edges: missing"},
    {PIPER(SETTING, "", ""), "nodes: 0 of them"},
    {PIPER(SETTING, "[]", ""), "nodes[0]: is not an object"},
    {PIPER(SETTING, "{\"id\": 1}", ""), "nodes[0].TMPCs.1: missing, or not a list"},
    {PIPER(SETTING, "{\"id\": 1, \"TMPCs\": {\"2\": [1]}}", ""), "nodes[0].TMPCs.1: missing"},
    {PIPER(SETTING, "{\"id\": 1, \"TMPCs\": {\"1\": {}}}", ""), "nodes[0].TMPCs.1: missing, or not a list"},
    {PIPER(SETTING, ONE "," LAYER("2", "", "7"), ""), "nodes[1].TMPCs.1[0]: is not an object"},
    {PIPER(SETTING, LAYER("1", "", WAY("v", "-1", "1", "1", "1")), ""), "nodes[0].TMPCs.1[0]: timePerSample = -1"},
    {PIPER(SETTING, LAYER("1", "", WAY("v", "1e5", "1", "1", "1")), ""), "nodes[0].TMPCs.1[0]: timePerSample = 100000: expected a time"},
    {PIPER(SETTING, LAYER("1", "", WAY("v", "1", "1e99", "1", "1")), ""), "nodes[0].TMPCs.1[0]: parameterSize = 1e+99"},
    {PIPER(SETTING, LAYER("1", "", WAY("v", "1", "1", "true", "1")), ""), "nodes[0].TMPCs.1[0].memoryUsageA: is not a number"},
    {PIPER(SETTING, LAYER("1", "", WAY("v", "1", "1", "1", "-1")), ""), "nodes[0].TMPCs.1[0]: memoryUsageB = -1"},
    {PIPER(SETTING, LAYER("1", "", WAY("v", "1", "1", "1", "1, \"syncTimeFw\": {\"1\": 5}") ""), ""), "not valid JSON: duplicate"},
    {PIPER(SETTING, "{\"id\": 1, \"TMPCs\": {\"1\": [{\"timePerSample\": 1, \"parameterSize\": 1, \"memoryUsageA\": 1, "
                    "\"memoryUsageB\": 1, \"syncTimeFw\": {\"3\": 5}}]}}", ""),
     "nodes[0].TMPCs.1[0].syncTimeFw: is not 0 throughout"},
    {PIPER(SETTING, ONE "," ONE, ""), "nodes[1].id: 1 is the id of nodes[0], too"},
    {PIPER(SETTING, ONE, "0"), "edges[0]: is not an object"},
    {PIPER(SETTING, ONE, PASS("1", "2", "1")), "edges[0].destId: there is no node with id 2"},
    {PIPER(SETTING, ONE "," LAYER("2", "", WAY("v", "1", "1", "1", "1")), PASS("1", "2", "-1")), "edges[0]: communicationCost = -1"},
    {PIPER(SETTING, ONE, PASS("1", "1", "1")), "edges[0]: the edge from '1' to '1' closes a cycle"},
};

static void names_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dp_graph g;
        struct dp_err err = {.text = ""};

        assert_int_equal(parse(bad[i].text, &g, &err), -1);
        if (!strstr(err.text, bad[i].want))
            print_message("# case %zu: \"%s\", wanted \"%s\"\n", i, err.text, bad[i].want);
        assert_non_null(strstr(err.text, bad[i].want));
        assert_int_equal(err.code, DP_EINVAL);
        assert_memory_equal(err.text, "file", 4);
        dp_graph_release(&g);
    }
}

static void refuses_what_is_no_text(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_err err;

    assert_int_equal(dp_graph_parse("file", "a\0b", 3, &g, &err), -1);
    assert_non_null(strstr(err.text, "not a text file"));
    dp_graph_release(&g);
    assert_int_equal(dp_graph_read("/nonexistent/graph.txt", &g, &err), -1);
    assert_int_equal(err.code, DP_EIO);
    dp_graph_release(&g);
}

/* Which way the backward edges run is seen from the forward ones. */
static void sees_the_way_back(void **state)
{
    (void)state;
#define COLOURED(id, c, back)                                                                                \
    "{\"id\": " id ", \"fpgaLatency\": 1, \"cpuLatency\": 1, \"supportedOnFpga\": 1, \"colorClass\": " c     \
    ", \"isBackwardNode\": " back "}"
#define FOUR                                                                                                 \
    COLOURED("1", "1", "0")                                                                                  \
    "," COLOURED("2", "2", "0") "," COLOURED("3", "1", "1") "," COLOURED("4", "2", "1")
    struct dp_graph g;
    uint32_t before = 9, after = 9;

    assert_int_equal(parse(DOC(FOUR, EDGE("1", "2", "1") "," EDGE("4", "3", "1")), &g, NULL), 0);
    assert_false(g.is_backward_along);
    assert_true(dp_graph_edge_order(&g, 1, &before, &after));
    assert_int_equal(before, 2); /* the node with id 3 */
    assert_int_equal(after, 3);
    dp_graph_release(&g);
    assert_int_equal(
        parse(DOC(FOUR, EDGE("1", "2", "1") "," EDGE("3", "4", "1") "," EDGE("2", "4", "1")), &g, NULL), 0);
    assert_true(g.is_backward_along);
    assert_false(dp_graph_edge_order(&g, 1, &before, &after)); /* from 2 to 4 */
    assert_true(dp_graph_edge_order(&g, 2, &before, &after));
    assert_int_equal(before, 2);
    dp_graph_release(&g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_a_profile),     cmocka_unit_test(reads_costs),
    cmocka_unit_test(reads_piper),
    cmocka_unit_test(names_what_is_wrong), cmocka_unit_test(refuses_what_is_no_text),
    cmocka_unit_test(sees_the_way_back),
};
TEST_MAIN("graph_read", tests)
