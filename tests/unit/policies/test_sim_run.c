/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole simulated runs, and the readers of model descriptions and traces: events, layouts, pauses,
 * releases and totals against numbers worked out by hand; what is wrong in a file is named. */
#include <config.h>

#include "tests/unit/unit.h"

#include <math.h>
#include <unistd.h>

#include "common/clock.h"
#include "policies/saving/ways.h"
#include "policies/sim/case/read.h"
#include "policies/sim/run.h"
#include "tests/unit/random.h"

/* --- files --- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dp-simXXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[128];

    (void)state;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        unlink(path);
    }
    return rmdir(folder);
}

/* Read texts as files 0, 1, ... of the folder. */
static int read_texts(int n, const char *const *text, const struct dp_sim_override *with, struct dp_sim_case *c, struct dp_err *err)
{
    char path[4][128], *list[4];

    for (int i = 0; i < n; i++) {
        FILE *f;

        snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
        list[i] = path[i];
        f = fopen(path[i], "we");
        assert_non_null(f);
        fputs(text[i], f);
        fclose(f);
    }
    return dp_sim_read((uint32_t)n, list, with, c, err);
}

static struct dp_sim_case case_of(const char *text, const struct dp_sim_override *with)
{
    struct dp_sim_case c;
    struct dp_err err;

    if (read_texts(1, &text, with, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

/* --- phases --- */

struct seen {
    uint32_t n;
    struct {
        uint64_t first, n, iteration_ns, pause_ns, measured_ns, moved_bytes, mem_bytes;
        uint32_t held, used, moved_layers, cut[16];
        double density, tokens_per_s, lost;
    } phase[16];
};

static int see(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    struct seen *s = arg;

    (void)err;
    assert_true(s->n < 16);
    s->phase[s->n].first = p->first;
    s->phase[s->n].n = p->n;
    s->phase[s->n].iteration_ns = p->out->iteration_ns;
    s->phase[s->n].pause_ns = p->pause_ns;
    s->phase[s->n].measured_ns = p->measured_ns;
    s->phase[s->n].held = p->held;
    s->phase[s->n].used = p->layout->n_used;
    s->phase[s->n].moved_layers = p->moved_layers;
    s->phase[s->n].moved_bytes = p->moved_bytes;
    s->phase[s->n].mem_bytes = p->out->device[0].mem_bytes;
    s->phase[s->n].density = p->density;
    s->phase[s->n].lost = p->lost;
    s->phase[s->n].tokens_per_s = p->tokens_per_s;
    memcpy(s->phase[s->n].cut, p->layout->cut, (p->layout->n_used + 1) * sizeof *p->layout->cut);
    s->n++;
    return 0;
}

static struct dp_sim_totals run(const struct dp_sim_case *c, struct seen *s)
{
    struct dp_sim_totals t;
    struct dp_err err;

    memset(s, 0, sizeof *s);
    if (dp_sim_run(c, see, s, &t, &err) < 0)
        fail_msg("%s", err.text);
    return t;
}

#define MODEL(rest)                                                                                \
    "{\"source\": \"made up\", \"devices\": 4, \"microbatches\": 4, \"tokens_per_microbatch\": 100,"   \
    " \"kinds\": {\"a\": [{\"density\": 1, \"forward_ms\": 1, \"backward_input_ms\": 1,"               \
    " \"backward_weight_ms\": 1, \"optimizer_ms\": 0.5, \"state_bytes\": 1000000, \"activation_bytes\": 10,"  \
    " \"parameters\": 100}, {\"density\": 0, \"forward_ms\": 0, \"backward_input_ms\": 0,"             \
    " \"backward_weight_ms\": 0, \"parameters\": 100}]}, \"layers\": [{\"kind\": \"a\", \"count\": 8}]" rest "}"

/* 8 equal layers on 4 devices: (m + S - 1) (f + b) + optimizer, then half of it, then on two devices. */
static void a_run_with_events(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of(
        MODEL(", \"iterations\": 100, \"network\": {\"inside\": {\"gb_per_s\": 1}},"
              " \"events\": [{\"iteration\": 11, \"density\": 0.5, \"pause_ms\": 30},"
              " {\"iteration\": 21, \"balance\": \"time\", \"devices\": 2, \"release\": \"devices\", \"overhead_ms\": 3}]"),
        NULL);
    struct seen s;
    struct dp_sim_totals t = run(&c, &s);

    assert_int_equal(s.n, 3);
    assert_int_equal(s.phase[0].first, 1);
    assert_int_equal(s.phase[0].n, 10);
    assert_int_equal(s.phase[0].iteration_ns, 7 * 6000000 + 1000000);
    assert_int_equal(s.phase[0].mem_bytes, 2 * (1000000 + 4 * 10));
    assert_int_equal(s.phase[1].iteration_ns, 7 * 3000000 + 500000);
    assert_int_equal(s.phase[1].pause_ns, 30000000);
    assert_true(s.phase[1].density == 0.5 && s.phase[1].held == 4);
    /* layers 2, 3 go to device 0, layers 4..7 to device 1: it receives 4 and gives 2, of 0.5 MB each at 1 GB/s */
    assert_int_equal(s.phase[2].moved_layers, 6);
    assert_int_equal(s.phase[2].moved_bytes, 6 * 500000);
    assert_int_equal(s.phase[2].pause_ns, 4 * 500000 + 3000000);
    assert_int_equal(s.phase[2].held, 2);
    assert_int_equal(s.phase[2].used, 2);
    assert_int_equal(s.phase[2].cut[1], 4);
    assert_int_equal(s.phase[2].iteration_ns, 5 * 6000000 + 1000000);
    assert_int_equal(s.phase[2].n, 80);
    assert_true(fabs(s.phase[2].tokens_per_s - 400 / 0.031) < 1e-6);
    assert_int_equal(t.iterations, 100);
    assert_true(fabs(t.time_s - (10 * 0.043 + 0.030 + 10 * 0.0215 + 0.005 + 80 * 0.031)) < 1e-9);
    assert_true(fabs(t.pause_s - 0.035) < 1e-12);
    assert_true(fabs(t.device_s - (4 * (10 * 0.043 + 0.030 + 10 * 0.0215) + 2 * (0.005 + 80 * 0.031))) < 1e-9);
    assert_true(t.tokens == 40000);
    dp_sim_case_release(&c);
}

/* Three frozen layers and five that learn, two a device, GPipe: the frozen ones have no backward, keep nothing, reduce
 * nothing and handle no gradients; device 1 has one layer of either sort. */
static void frozen_layers_only_go_forward(void **state)
{
    (void)state;
    static const char model[] =
        "{\"source\": \"made up\", \"devices\": 4, \"microbatches\": 3, \"schedule\": \"gpipe\", \"replicas\": %d,"
        " \"network\": {\"inside\": {\"gb_per_s\": 1}}, \"kinds\": {"
        "\"frozen\": {\"forward_ms\": 1, \"backward_input_ms\": 0, \"backward_weight_ms\": 0, \"message_ms\": 0.1,"
        " \"gradient_bytes\": 9000000, \"state_bytes\": 100},"
        "\"learns\": {\"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1, \"message_ms\": 0.1,"
        " \"gradient_bytes\": 1000000, \"state_bytes\": 400, \"activation_bytes\": 10}},"
        " \"layers\": [{\"kind\": \"frozen\", \"count\": 3}, {\"kind\": \"learns\", \"count\": 5}]}";

    for (int replicas = 1; replicas <= 2; replicas++) {
        char text[2048];
        struct dp_sim_case c;
        struct seen s;

        snprintf(text, sizeof text, model, replicas);
        c = case_of(text, NULL);
        run(&c, &s);
        /* forwards 2.1 2.2 2.2 2.1, backwards - 2.1 4.2 4.1; then the one gradient of device 1, a ring of two: 2 halves */
        assert_int_equal(s.phase[0].iteration_ns, 8600000 + 2 * 2200000 + 10400000 + 2 * 4200000 + (replicas - 1) * 1000000);
        assert_int_equal(s.phase[0].mem_bytes, 2 * 100);
        dp_sim_case_release(&c);
    }
}

static struct dp_saving saving_of(const struct dp_sim_case *c)
{
    struct dp_saving s;
    struct dp_err err;

    if (dp_sim_saving(c, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* The same run: its fixed way is as fast as the weights that are left, pauses for the costs and none for the move;
 * others can use two devices from the move to the fixed end. */
static void a_run_beside_its_fixed_way(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of(
        MODEL(", \"iterations\": 100, \"network\": {\"inside\": {\"gb_per_s\": 1}},"
              " \"events\": [{\"iteration\": 11, \"density\": 0.5, \"pause_ms\": 30},"
              " {\"iteration\": 21, \"balance\": \"time\", \"devices\": 2, \"release\": \"devices\", \"overhead_ms\": 3}]"),
        NULL);
    struct dp_saving s = saving_of(&c);
    double moved_s = 10 * 0.043 + 0.030 + 10 * 0.0215, run_s = moved_s + 0.005 + 80 * 0.031;
    double fixed_s = 10 * 0.043 + 0.030 + 90 * 0.0215;

    assert_int_equal(s.devices, 4);
    assert_true(fabs(s.time_s[DP_WAY_RUN] - run_s) < 1e-9);
    assert_true(fabs(s.device_s[DP_WAY_RUN] - (4 * moved_s + 2 * (run_s - moved_s))) < 1e-9);
    assert_true(fabs(s.time_s[DP_WAY_FIXED] - fixed_s) < 1e-9 && fabs(s.device_s[DP_WAY_FIXED] - 4 * fixed_s) < 1e-9);
    assert_true(fabs(s.time_s[DP_WAY_BALANCED] - fixed_s) < 1e-9); /* equal layers: nothing to balance */
    assert_true(fabs(s.lent_device_s - 2 * (fixed_s - moved_s)) < 1e-9);
    assert_true(fabs(s.later - (run_s / fixed_s - 1)) < 1e-12);
    assert_true(fabs(s.packing - (4 * fixed_s / (4 * moved_s + 2 * (run_s - moved_s)) - 1)) < 1e-12);
    assert_true(fabs(s.pruning - (100 * 0.043 / (10 * 0.043 + 90 * 0.0215) - 1)) < 1e-12);
    dp_sim_case_release(&c);
}

/* Most layers become cheap: the fixed way waits for the others, the balanced one is what a run that balances
 * at that event and pays nothing for it would be. */
static void a_run_beside_its_balanced_way(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of(MODEL(", \"iterations\": 50, \"events\": [{\"iteration\": 11, \"density\":"
                                         " [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 1, 1]}]"), NULL);
    struct dp_sim_case moving = case_of(MODEL(", \"iterations\": 50, \"events\": [{\"iteration\": 11, \"balance\": \"time\","
                                              " \"pause_ms\": 0, \"density\": [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 1, 1]}]"), NULL);
    struct dp_saving s = saving_of(&c), m = saving_of(&moving);
    struct dp_sim_totals t;
    struct dp_trade trade;
    struct dp_err err;
    struct seen seen;
    uint64_t last;

    assert_true(s.later == 0 && s.packing == 0 && s.lent_device_s == 0);
    assert_true(s.time_s[DP_WAY_BALANCED] < 0.9 * s.time_s[DP_WAY_FIXED]);
    assert_true(fabs(s.time_s[DP_WAY_BALANCED] - m.time_s[DP_WAY_RUN]) < 1e-9);
    assert_true(fabs(s.time_s[DP_WAY_FIXED] - m.time_s[DP_WAY_FIXED]) < 1e-9);
    assert_true(fabs(m.time_s[DP_WAY_BALANCED] - m.time_s[DP_WAY_RUN]) < 1e-9 && m.later < -0.1);
    t = run(&moving, &seen);
    assert_true(fabs(m.time_s[DP_WAY_RUN] - t.time_s) < 1e-9);
    /* on all devices the balanced way; on one device work does not wait */
    assert_int_equal(dp_sim_run_on(&c, 4, &t, &last, &err), 0);
    assert_true(fabs(t.time_s - s.time_s[DP_WAY_BALANCED]) < 1e-9);
    assert_int_equal(last, seen.phase[1].iteration_ns);
    assert_int_equal(dp_sim_run_on(&c, 1, &t, &last, &err), 0);
    assert_true(fabs(t.time_s - (10 * (8 * 0.012 + 0.004) + 40 * (3.5 * 0.012 + 0.00175))) < 1e-9 && t.device_s == t.time_s);
    dp_sim_trade(&c, &s, &trade);
    assert_int_equal(trade.n, 4);
    assert_true(fabs(trade.row[0].time_s - t.time_s) < 1e-9 && fabs(trade.row[3].time_s - s.time_s[DP_WAY_BALANCED]) < 1e-9);
    assert_string_equal(trade.row[0].why, "fewest device-s");
    dp_sim_case_release(&c);
    dp_sim_case_release(&moving);
}

/* Costs that do not change are not simulated again. */
static void equal_stretches_are_computed_once(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of(MODEL(", \"iterations\": 9, \"events\": [{\"iteration\": 2, \"density\": 1},"
                                         " {\"iteration\": 4, \"pause_ms\": 1}, {\"iteration\": 6, \"density\": 0.5}]"),
                                   NULL);
    struct seen s;
    struct dp_sim_totals t = run(&c, &s);

    assert_int_equal(s.n, 4);
    assert_int_equal(t.simulated, 2);
    dp_sim_case_release(&c);
}

/* 2 replicas of 4 devices on nodes of 4: stages beside each other put every all-reduce between nodes,
 * replicas beside each other inside of one. 2 steps of bytes / R. */
static void reductions_use_the_right_tier(void **state)
{
    (void)state;
    static const char *const neighbours[] = {"stages", "replicas"};
    static const uint64_t reduce_ns[] = {2 * (2000000 / 2 * 10 + 7000), 2 * (2000000 / 2 + 5000)};

    for (int i = 0; i < 2; i++) {
        char text[2048];
        struct dp_sim_case c;
        struct seen s;

        snprintf(text, sizeof text,
                 "{\"source\": \"made up\", \"devices\": 4, \"replicas\": 2, \"microbatches\": 1, \"kinds\": {\"a\": {\"forward_ms\": 1,"
                 " \"backward_input_ms\": 1, \"backward_weight_ms\": 1, \"gradient_bytes\": 1000000}}, \"layers\": [{\"kind\": \"a\","
                 " \"count\": 8}], \"network\": {\"devices_per_node\": 4, \"neighbours\": \"%s\", \"inside\": {\"gb_per_s\": 1,"
                 " \"latency_us\": 5}, \"between\": {\"gb_per_s\": 0.1, \"latency_us\": 7}}}",
                 neighbours[i]);
        c = case_of(text, NULL);
        run(&c, &s);
        /* one microbatch there and back: messages of no size, inside of a node but for the middle one of
         * the second case; norm: 2 log2(8) messages */
        assert_int_equal(s.phase[0].iteration_ns,
                         4 * 6000000 + (i ? 4 * 5000 + 2 * 7000 : 6 * 5000) + reduce_ns[i] + 6 * 7000);
        dp_sim_case_release(&c);
    }
}

/* Devices of a node go back together. */
static void nodes_are_released_whole(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of(
        MODEL(", \"iterations\": 3, \"network\": {\"devices_per_node\": 2}, \"events\": [{\"iteration\": 2, \"layout\": [4, 2, 2, 0],"
              " \"release\": \"nodes\"}, {\"iteration\": 3, \"layout\": [4, 4, 0, 0], \"release\": \"nodes\"}]"),
        NULL);
    struct dp_sim_totals t;
    struct dp_err err;
    struct seen s;

    run(&c, &s);
    assert_int_equal(s.phase[0].held, 4);
    assert_int_equal(s.phase[1].held, 4);
    assert_int_equal(s.phase[2].held, 2);
    c.event[0].release = DP_SIM_RELEASE_DEVICES;
    run(&c, &s);
    assert_int_equal(s.phase[1].held, 3);
    c.event[1].count[1] = 3;
    c.event[1].count[3] = 1;
    assert_int_equal(dp_sim_run(&c, NULL, NULL, &t, &err), -1);
    assert_non_null(strstr(err.text, "event 1: the layout uses device 3, which was given back"));
    dp_sim_case_release(&c);
}

static void options_change_the_shape(void **state)
{
    (void)state;
    struct dp_sim_override with = {.schedule = "interleaved", .devices = 2, .chunks = 2, .microbatches = 8, .replicas = 3,
                                   .iterations = 5, .policy = "time"};
    struct dp_sim_case c = case_of(MODEL(", \"iterations\": 100, \"layout\": [2, 2, 2, 2], \"events\": [{\"iteration\": 9,"
                                         " \"density\": 0.5}]"),
                                   &with);
    struct seen s;
    struct dp_sim_totals t = run(&c, &s);

    assert_int_equal(s.n, 1);
    assert_int_equal(s.phase[0].held, 6);
    /* v m (f + b) + (D - 1) (f + b) of a chunk of 2 layers, 4 layers in the optimizer */
    assert_int_equal(s.phase[0].iteration_ns, 2 * 8 * 6000000 + 6000000 + 4 * 500000);
    assert_true(t.tokens == 5 * 3 * 8 * 100);
    dp_sim_case_release(&c);
}

static void memory_is_a_limit(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of(MODEL(", \"device\": {\"memory_bytes\": 2000050}"), NULL);
    struct dp_sim_totals t;
    struct dp_err err;

    assert_int_equal(dp_sim_run(&c, NULL, NULL, &t, &err), -1);
    assert_non_null(strstr(err.text, "iteration 1: device 0 would need"));
    dp_sim_case_release(&c);
}

/* Layers that are twice as slow on a device of half the speed; two thirds of the layers go to the fast one. */
static void speeds_count(void **state)
{
    (void)state;
    struct dp_sim_override with = {.devices = 2};
    struct dp_sim_case c = case_of(MODEL(", \"balance\": \"time\", \"device\": {\"speed\": [1, 0.6]}"), &with);
    struct seen s;

    run(&c, &s);
    assert_int_equal(s.phase[0].cut[1], 5);
    dp_sim_case_release(&c);
}

/* --- what is wrong is named --- */

static void bad_models_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } table[] = {
        {"", "/0:"},
        {"{\"source\": \"x\",\n\"devices\": }", "/0:2: "},
        {"[]", "/0: the document: expected an object"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
        {MODEL(", \"iteratoins\": 3"), "/0: iteratoins: unknown; known: name source"},
        {MODEL(", \"source\": \"\""), "/0:1: duplicate"},
        {"{\"devices\": 1}", "/0: source: is missing"},
        {"{\"source\": \"\", \"devices\": 1, \"microbatches\": 1}", "/0: source: is empty"},
        {"{\"source\": \"x\", \"devices\": 0, \"microbatches\": 1}", "devices: expected a number from 1 to 65536"},
        {"{\"source\": \"x\", \"devices\": -1, \"microbatches\": 1}", "devices: expected"},
        {"{\"source\": \"x\", \"devices\": 1.5, \"microbatches\": 1}", "devices: expected a whole number, not 1.5"},
        {"{\"source\": \"x\", \"devices\": 1e300, \"microbatches\": 1}", "devices: expected"},
        {"{\"source\": \"x\", \"devices\": 1e999, \"microbatches\": 1}", "/0:1: "},
        {"{\"source\": \"x\", \"devices\": NaN, \"microbatches\": 1}", "/0:1: "},
        {"{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"schedule\": \"zb\"}", "schedule: unknown schedule 'zb'"},
        {"{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1}", "kinds: expected an object"},
        {"{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"a\": {}}}", "kinds.a.forward_ms: is missing"},
        {"{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"a\": [{\"forward_ms\": -1}]}}",
         "kinds.a[0].forward_ms: expected a number from 0"},
        {"{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"a\": []}}", "kinds.a: 0 points"},
        {"{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"a\": {\"forward_ms\": 1, \"backward_input_ms\": 1,"
         " \"backward_weight_ms\": 1}}, \"layers\": []}",
         "layers: there are none"},
        {MODEL(", \"layout\": [4, 4]"), NULL},
        {MODEL(", \"layout\": [4, 3]"), "layout of 7 layers; the model has 8"},
        {MODEL(", \"layout\": [2, 2, 2, 1, 1]"), "layout: expected an array"},
        {MODEL(", \"layout\": [8, 0.5]"), "layout[1]: expected a number of layers"},
        {MODEL(", \"layout\": [8], \"balance\": \"time\""), "layout: cannot be combined with balance"},
        {MODEL(", \"balance\": \"tmie\""), "unknown policy 'tmie'"},
        {"{\"source\": \"x\", \"devices\": 65536, \"replicas\": 65536, \"microbatches\": 1}", "65536 replicas of 65536 stages"},
        {MODEL(", \"chunks\": 2"), "schedule 1f1b: one chunk per device"},
        {MODEL(", \"events\": [{\"iteration\": 2}]"), "events[0].iteration: expected a number from 1 to 1"},
        {MODEL(", \"iterations\": 9, \"events\": [{\"iteration\": 5}, {\"iteration\": 4}]"), "events[1].iteration: 4 comes after 5"},
        {MODEL(", \"events\": [{\"iteration\": 1, \"density\": [1, 1]}]"), "events[0].density: 2 numbers for 8 layers"},
        {MODEL(", \"events\": [{\"iteration\": 1, \"density\": 1.1}]"), "events[0].density: expected numbers from 0 to 1"},
        {MODEL(", \"events\": [{\"iteration\": 1, \"devices\": 2}]"), "events[0].devices: says how many"},
        {MODEL(", \"events\": [{\"iteration\": 1, \"release\": \"all\"}]"), "events[0].release: expected"},
        {MODEL(", \"events\": [{\"iteration\": 1, \"layout\": [1]}]"), "event 0: layout of 1 layers"},
        {MODEL(", \"network\": {\"inside\": {\"gb_per_s\": 0}}"), "network.inside.gb_per_s: expected a number from"},
        {MODEL(", \"network\": {\"neighbours\": \"replicas\"}"), "neighbours are replicas, but there is one replica"},
        {MODEL(", \"device\": {\"speed\": [1, 2]}"), "device.speed: 2 numbers; expected 1, 4 (a pipeline's) or 4 (all)"},
        {MODEL(", \"device\": {\"speed\": 0}"), "device.speed: expected numbers"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_totals t;
        struct dp_sim_case c;
        struct dp_err err = {.text = ""};
        int rc = read_texts(1, &table[i].text, NULL, &c, &err);

        if (rc == 0) {
            rc = dp_sim_run(&c, NULL, NULL, &t, &err);
            dp_sim_case_release(&c);
        }
        if (table[i].want && (rc == 0 || !strstr(err.text, table[i].want)))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, table[i].want, err.text);
        assert_int_equal(rc, table[i].want ? -1 : 0);
    }
}

static void outside_of_the_table_is_an_error(void **state)
{
    (void)state;
    struct dp_sim_case c = case_of("{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"a\": [{\"density\": 0.5,"
                                   " \"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1}, {\"density\": 0.2,"
                                   " \"forward_ms\": 1, \"backward_input_ms\": 1, \"backward_weight_ms\": 1}]}, \"layers\": [\"a\"]}",
                                   NULL);
    struct dp_sim_totals t;
    struct dp_err err;

    assert_int_equal(dp_sim_run(&c, NULL, NULL, &t, &err), -1);
    assert_non_null(strstr(err.text, "layer 0: layers 'a': density 1 is outside of the table's 0.2 to 0.5"));
    dp_sim_case_release(&c);
}

/* --- graphs --- */

/* A chain a - b - c with a skip from a to c, in ms and bytes: on two devices [a, b | c], whatever is cut passes 300 bytes
 * of a and 200 of b. */
#define CHAIN                                                                                      \
    "node1 -- a -- forward_compute_time=1, backward_compute_time=2, activation_size=300, parameter_size=40\n"           \
    "node2 -- b -- forward_compute_time=2, backward_compute_time=4, activation_size=200, parameter_size=80\n"           \
    "node3 -- c -- forward_compute_time=3, backward_compute_time=6, activation_size=100, parameter_size=120\n"          \
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode1 -- node3\n"

static void a_profile_is_planned(void **state)
{
    (void)state;
    const char *const texts[] = {CHAIN};
    struct dp_sim_override with = {.devices = 2, .microbatches = 1, .bytes_per_s = 1e6};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    if (read_texts(1, texts, &with, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(c.n_layers, 3);
    assert_int_equal(s.phase[0].used, 2);
    assert_int_equal(s.phase[0].cut[1], 2); /* a and b: 9 ms, c: 9 ms */
    /* one microbatch forward and back, and 500 bytes at 1 MB/s each way */
    assert_int_equal(s.phase[0].iteration_ns, 18000000 + 2 * 500000);
    assert_int_equal(s.phase[0].mem_bytes, 4 * 120 + 500); /* of device 0: parameters of a and b, their outputs */
    dp_sim_case_release(&c);
}

/* Two layers with a forward and a backward node each; a transfer takes 3 ms of both devices forward, 5 ms back. */
#define COST_NODE(id, ns, back, colour)                                                            \
    "{\"id\": " id ", \"supportedOnFpga\": 1, \"cpuLatency\": 99, \"fpgaLatency\": " ns ", \"isBackwardNode\": " back          \
    ", \"colorClass\": " colour ", \"size\": 10}"
static const char costs[] =
    "{\"maxSizePerFPGA\": 100, \"maxFPGAs\": 2, \"maxCPUs\": 0, \"nodes\": [" COST_NODE("0", "100", "0", "0") ", "
    COST_NODE("1", "110", "0", "1") ", " COST_NODE("2", "200", "1", "1") ", " COST_NODE("3", "220", "1", "0") "], \"edges\": ["
    "{\"sourceId\": 0, \"destId\": 1, \"cost\": 3, \"size\": 1}, {\"sourceId\": 1, \"destId\": 2, \"cost\": 0, \"size\": 1},"
    " {\"sourceId\": 2, \"destId\": 3, \"cost\": 5, \"size\": 1}]}";

static void a_file_of_costs_is_planned(void **state)
{
    (void)state;
    const char *const texts[] = {costs};
    struct dp_sim_override with = {.microbatches = 1, .iterations = 7};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    if (read_texts(1, texts, &with, &c, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(run(&c, &s).iterations, 7);
    assert_int_equal(s.phase[0].used, 2);
    /* 630 ms in a row, and both ends of both transfers: 2 (3 + 5) */
    assert_int_equal(s.phase[0].iteration_ns, UINT64_C(646000000));
    dp_sim_case_release(&c);
}

#define NODE(time) "node1 -- a -- forward_compute_time=" time ", backward_compute_time=2, activation_size=3, parameter_size=4\n"

static void bad_graphs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        struct dp_sim_override with;
    } table[] = {
        {CHAIN, "/0: the graph does not say how many devices there are", {0}},
        {CHAIN, "/0: ", {.devices = 65536, .replicas = 65536}},
        {CHAIN, "/0: unknown schedule 'pipe'", {.devices = 2, .schedule = "pipe"}},
        {CHAIN "\tnode3 -- node1\n", "/0:4: ", {.devices = 2}}, /* a cycle */
        {CHAIN "\tnode3 -- node9\n", "/0:7: ", {.devices = 2}},
        {NODE("nan"), "/0:1: ", {.devices = 1}},
        {NODE("-1"), "/0:1: ", {.devices = 1}},
        {NODE("1e300"), "/0:1: ", {.devices = 1}},
        {"{\"nodes\": []}", "/0: ", {.devices = 1}},
        {CHAIN, "the plan has 2 stages for 4 devices of 2 chunks", {.devices = 4, .chunks = 2, .schedule = "interleaved"}},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_case c;
        struct dp_err err = {.text = ""};

        assert_int_equal(read_texts(1, &table[i].text, &table[i].with, &c, &err), -1);
        if (!strstr(err.text, table[i].want))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, table[i].want, err.text);
    }
}

/* --- traces --- */

#define HEADER(rank)                                                                               \
    "{\"trace\": 1, \"source\": \"a test\", \"rank\": " rank ", \"workers\": 2, \"layers\": 3, \"schedule\": \"1f1b\","  \
    " \"microbatches\": 2, \"tokens_per_microbatch\": 10, \"boundary_bytes\": 8}\n"
#define LAYER(ns)                                                                                  \
    "{\"forward_ns\": " ns ", \"backward_input_ns\": " ns ", \"backward_weight_ns\": " ns ", \"state_bytes\": 100,"      \
    " \"activation_bytes\": 1, \"parameters\": 50, \"nonzeros\": 50}"
#define RECORD(step, steps, layout, held, first, layers)                                           \
    "{\"step\": " step ", \"steps\": " steps ", \"layout\": " layout ", \"held\": " held ", \"step_ns\": 1000, \"wait_ns\": 1,"  \
    " \"busy_ns\": 1, \"optimizer_ns\": 7, \"overhead_ns\": 1, \"boundary_ns\": 5, \"mem_bytes\": 1, \"first_layer\": " first   \
    ", \"layers\": [" layers "]}\n"

static const char trace_0[] = HEADER("0") RECORD("10", "10", "[2, 1]", "2", "0", LAYER("10") ", " LAYER("20"))
    RECORD("20", "5", "[2, 1]", "2", "0", LAYER("11") ", " LAYER("21"))
    RECORD("30", "10", "[3, 0]", "1", "0", LAYER("12") ", " LAYER("22") ", " LAYER("32"));
static const char trace_1[] = HEADER("1") RECORD("8", "8", "[2, 1]", "2", "2", LAYER("30"))
    RECORD("19", "9", "[2, 1]", "2", "2", LAYER("31"));

static void a_trace_is_played_again(void **state)
{
    (void)state;
    const char *const texts[] = {trace_0, trace_1};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    if (read_texts(2, texts, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.n, 3);
    /* stages of 90 and 90 ns, 2 microbatches, 7 ns optimizer, no network: (m + S - 1) * 90 */
    assert_int_equal(s.phase[0].iteration_ns, 3 * 90 + 7);
    assert_int_equal(s.phase[0].measured_ns, 1000);
    assert_int_equal(s.phase[1].first, 11);
    /* 96 and 93: forwards 32, 31; backwards 64, 62: the first stage is busy but for waiting for the first gradient */
    assert_int_equal(s.phase[1].iteration_ns, 32 + 31 + 62 + 64 + 96 - 3 + 7);
    assert_int_equal(s.phase[1].pause_ns, 5);
    assert_int_equal(s.phase[2].first, 21);
    assert_int_equal(s.phase[2].n, 10);
    assert_int_equal(s.phase[2].iteration_ns, 2 * 3 * (12 + 22 + 32) + 6); /* 7 ns over three equal layers: 2 each */
    assert_int_equal(s.phase[2].held, 1);
    assert_int_equal(s.phase[2].used, 1);
    assert_true(s.phase[0].density == 1.0);
    dp_sim_case_release(&c);
}

/* Messages: 2 ns for the device at each end, 5 ns of latency, 4 ns for 8 bytes. Worker 0 measured 6 ns and
 * worker 1 2 ns for the two ends that each has of a microbatch's messages forward and back. */
static void messages_of_a_trace(void **state)
{
    (void)state;
    static const char header[] = "{\"trace\": 1, \"source\": \"a test\", \"rank\": %d, \"workers\": 2, \"layers\": 2,"
                                 " \"schedule\": \"gpipe\", \"microbatches\": 2, \"tokens_per_microbatch\": 10,"
                                 " \"boundary_bytes\": 8, \"link_latency_ns\": %d, \"link_transfer_ns\": %d}\n"
                                 "{\"step\": 9, \"steps\": 9, \"layout\": [1, 1], \"held\": 2, \"step_ns\": 500, \"optimizer_ns\": 7,"
                                 " \"rest_ns\": 11, \"message_ns\": %d, \"lost_ns\": %d, \"boundary_ns\": 0, \"first_layer\": %d,"
                                 " \"layers\": [" LAYER("30") "]}\n";
    char text[2][1024];
    const char *const texts[] = {text[0], text[1]};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    snprintf(text[0], sizeof text[0], header, 0, 5, 4, 6, 5, 0);
    snprintf(text[1], sizeof text[1], header, 1, 0, 0, 2, 10, 1);
    if (read_texts(2, texts, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.n, 1);
    /* GPipe: forwards of 32, backwards of 62, two messages of 9 in a row; the norm there and back; optimizer and rest */
    assert_int_equal(s.phase[0].iteration_ns, 3 * 32 + 3 * 62 + 2 * 9 + 2 * 5 + 18);
    assert_true(s.phase[0].lost == 0.02); /* 10 of 500 */
    dp_sim_case_release(&c);
}

/* A frozen layer on worker 0, and one that learns: an activation goes, no gradient comes, so each worker's message_ns is
 * that of one end. */
static void messages_of_a_frozen_trace(void **state)
{
    (void)state;
    static const char head[] = "{\"trace\": 1, \"source\": \"a test\", \"rank\": %d, \"workers\": 2, \"layers\": 2,"
                               " \"schedule\": \"1f1b\", \"microbatches\": 2, \"tokens_per_microbatch\": 10, \"boundary_bytes\": 8,"
                               " \"link_latency_ns\": 5, \"link_transfer_ns\": 4}\n"
                               "{\"step\": 9, \"steps\": 9, \"layout\": [1, 1], \"held\": 2, \"step_ns\": 500, \"optimizer_ns\": 7,"
                               " \"message_ns\": %d, \"boundary_ns\": 0, \"first_layer\": %d, \"layers\": [%s]}\n";
    static const char frozen[] = "{\"forward_ns\": 30, \"backward_input_ns\": 0, \"backward_weight_ns\": 0, \"state_bytes\": 25,"
                                 " \"activation_bytes\": 0, \"parameters\": 50, \"nonzeros\": 50}";
    char text[2][1024];
    const char *const texts[] = {text[0], text[1]};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    snprintf(text[0], sizeof text[0], head, 0, 4, 0, frozen);
    snprintf(text[1], sizeof text[1], head, 1, 2, 1, LAYER("30"));
    if (read_texts(2, texts, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    /* 3 ns at each end: forwards of 33, a message of 9, two microbatches of 33 + 60; the norm there and back; optimizer */
    assert_int_equal(s.phase[0].iteration_ns, 33 + 9 + 2 * (33 + 60) + 2 * 5 + 7);
    dp_sim_case_release(&c);
}

/* Three workers, whose links differ: 5 ns and 4 ns for 8 bytes, then 50 and 40. The norm goes at the pace of the slower. */
static void links_of_a_trace_differ(void **state)
{
    (void)state;
    static const char line[] = "{\"trace\": 1, \"source\": \"a test\", \"rank\": %d, \"workers\": 3, \"layers\": 3,"
                               " \"schedule\": \"1f1b\", \"microbatches\": 1, \"tokens_per_microbatch\": 10,"
                               " \"boundary_bytes\": 8, \"link_latency_ns\": %d, \"link_transfer_ns\": %d}\n"
                               "{\"step\": 9, \"steps\": 9, \"layout\": [%s], \"held\": 3, \"step_ns\": 500, \"optimizer_ns\": 7,"
                               " \"boundary_ns\": 0, \"first_layer\": %d, \"layers\": [%s]}\n";
    struct dp_sim_override with = {.devices = 2};
    char text[3][2048];
    const char *const texts[] = {text[0], text[1], text[2]};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof text[i], line, i, i ? i == 1 ? 50 : 0 : 5, i ? i == 1 ? 40 : 0 : 4, "1, 1, 1", i, LAYER("30"));
    if (read_texts(3, texts, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.phase[0].iteration_ns, 3 * 90 + 2 * (5 + 4) + 2 * (50 + 40) + 4 * 50 + 7);
    dp_sim_case_release(&c);
    /* at another scale: all as the slowest */
    if (read_texts(3, texts, &with, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.phase[0].iteration_ns, 3 * 90 + 2 * (50 + 40) + 2 * 50 + 14);
    dp_sim_case_release(&c);
    /* worker 1 owns nothing: between 0 and 2 nothing was measured */
    snprintf(text[0], sizeof text[0], line, 0, 5, 4, "2, 0, 1", 0, LAYER("30") ", " LAYER("30"));
    snprintf(text[2], sizeof text[2], line, 2, 0, 0, "2, 0, 1", 2, LAYER("30"));
    *strchr(text[1], '\n') = '\0';
    if (read_texts(3, texts, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.phase[0].iteration_ns, 3 * 90 + 2 * (50 + 40) + 2 * 50 + 7);
    dp_sim_case_release(&c);
}

static void a_trace_at_another_scale(void **state)
{
    (void)state;
    const char *const texts[] = {trace_1, trace_0};
    struct dp_sim_override with = {.devices = 3, .microbatches = 4};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    if (read_texts(2, texts, &with, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.phase[2].used, 3);
    assert_int_equal(s.phase[2].measured_ns, 0);
    dp_sim_case_release(&c);
}

/* Steps that were made again after a resume count as they were the last time. */
static void a_resumed_trace(void **state)
{
    (void)state;
    static const char text[] = HEADER("0") RECORD("10", "10", "[3, 0]", "2", "0", LAYER("1") ", " LAYER("1") ", " LAYER("1"))
        RECORD("20", "10", "[3, 0]", "2", "0", LAYER("2") ", " LAYER("2") ", " LAYER("2")) HEADER("0")
            RECORD("16", "6", "[3, 0]", "2", "0", LAYER("3") ", " LAYER("3") ", " LAYER("3"));
    const char *const texts[] = {text};
    struct dp_sim_case c;
    struct dp_err err;
    struct seen s;

    if (read_texts(1, texts, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    run(&c, &s);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.phase[1].first, 11);
    assert_int_equal(s.phase[1].n, 6);
    assert_int_equal(s.phase[1].iteration_ns, 2 * 27 + 6);
    dp_sim_case_release(&c);
}

/* A run that came back with fewer or more workers: its newest start is played, whatever files are left. */
static void a_trace_of_other_workers_before(void **state)
{
    (void)state;
#define ALONE                                                                                                             \
    "{\"trace\": 1, \"source\": \"a test\", \"rank\": 0, \"workers\": 1, \"layers\": 3, \"schedule\": \"1f1b\","                  \
    " \"microbatches\": 2, \"tokens_per_microbatch\": 10, \"boundary_bytes\": 8}\n"                                     \
    RECORD("40", "10", "[3]", "1", "0", LAYER("1") ", " LAYER("1") ", " LAYER("1"))
    static const char two_0[] = HEADER("0") RECORD("10", "10", "[2, 1]", "2", "0", LAYER("10") ", " LAYER("20"));
    static const char one_0[] = HEADER("0") RECORD("10", "10", "[2, 1]", "2", "0", LAYER("10") ", " LAYER("20")) ALONE;
    static const char again_0[] = HEADER("0") RECORD("10", "10", "[2, 1]", "2", "0", LAYER("10") ", " LAYER("20")) ALONE
        HEADER("0") RECORD("60", "10", "[2, 1]", "2", "0", LAYER("2") ", " LAYER("2"));
    static const char two_1[] = HEADER("1") RECORD("10", "10", "[2, 1]", "2", "2", LAYER("30"));
    static const char again_1[] = HEADER("1") RECORD("10", "10", "[2, 1]", "2", "2", LAYER("30"))
        HEADER("1") RECORD("58", "9", "[2, 1]", "2", "2", LAYER("3"));
    static const struct {
        const char *text[2], *name;
        uint32_t devices;
        uint64_t head_ns; /* of layer 2's forward in the last window */
    } table[] = {
        {{two_0, two_1}, "recorded run of 2 workers", 2, 30},
        {{one_0, two_1}, "recorded run of 1 workers, its newest start, from step 31 on", 1, 1},
        {{two_1, one_0}, "recorded run of 1 workers, its newest start, from step 31 on", 1, 1},
        {{again_0, again_1}, "recorded run of 2 workers, its newest start, from step 51 on", 2, 3},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_case c;
        struct dp_err err;

        if (read_texts(2, table[i].text, NULL, &c, &err) < 0)
            fail_msg("case %zu: %s", i, err.text);
        assert_string_equal(c.name, table[i].name);
        assert_int_equal(c.devices, table[i].devices);
        assert_int_equal(c.n_events, 1);
        assert_int_equal(c.event[0].layer[2].fwd_ns, table[i].head_ns);
        dp_sim_case_release(&c);
    }
}

static void bad_traces_are_refused(void **state)
{
    (void)state;
    static const struct {
        int n;
        const char *text[2], *want;
    } table[] = {
        {1, {trace_1}, "/0: the trace of worker 0 is missing"},
        {1, {HEADER("0") RECORD("10", "10", "[2, 1]", "2", "0", LAYER("10") ", " LAYER("20"))}, "/0: no trace has costs of layer 2"},
        {2, {trace_0, trace_0}, "/1:1: rank: worker 0 is in another file, too"},
        {1, {HEADER("0")}, "/0: worker 0 measured nothing"},
        {1, {HEADER("2")}, "/0:1: rank: expected a number from 0 to 1"},
        {1, {HEADER("0") "{\"step\": 1"}, "/0:2: "},
        {1, {HEADER("0") "{\"step\": 1}\n"}, "/0:2: steps: is missing"},
        {1, {HEADER("0") RECORD("1", "2", "[3, 0]", "2", "0", "")}, "/0:2: steps: expected a number from 1 to 1"},
        {1, {HEADER("0") RECORD("1", "1", "[3]", "2", "0", "")}, "layout: expected the numbers of layers of 2 workers"},
        {1, {HEADER("0") RECORD("1", "1", "[3, 1]", "2", "0", "")}, "layout: has 4 layers, the model 3"},
        {1, {HEADER("0") RECORD("1", "1", "[3, 0]", "2", "2", LAYER("1") ", " LAYER("1"))}, "layers: expected an array"},
        {1, {HEADER("0") RECORD("1", "1", "[3, 0]", "2", "0", LAYER("-1"))}, "/0:2: layers[0].forward_ns: expected"},
        {1, {HEADER("0") RECORD("1", "1", "[3, 0]", "2", "0", LAYER("1e30"))}, "/0:2: layers[0].forward_ns: expected"},
        {2, {trace_0, "{\"step\": 1}\n"}, "/1:1: is not a trace"},
        {2, {trace_0, "{\"trace\": 2}\n"}, "/1:1: trace: expected a number from 1 to 1"},
        {2, {MODEL(""), trace_0}, "/0: is not a trace, and only traces can be given together"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_case c;
        struct dp_err err = {.text = ""};

        assert_int_equal(read_texts(table[i].n, table[i].text, NULL, &c, &err), -1);
        if (!strstr(err.text, table[i].want))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, table[i].want, err.text);
    }
}

static void missing_files_are_named(void **state)
{
    (void)state;
    char path[] = "/nowhere/at/all", *list[] = {path};
    struct dp_sim_case c;
    struct dp_err err;

    assert_int_equal(dp_sim_read(1, list, NULL, &c, &err), -1);
    assert_string_equal(err.text, "/nowhere/at/all: No such file or directory");
}

/* 720 devices x 10,000 pruning steps, each with other costs, in under 10 s of CPU time: 90 replicas of 8
 * stages on devices of 720 different speeds, so that no two replicas are alike, 64 microbatches. */
static void a_large_run_is_fast(void **state)
{
    (void)state;
    enum { STEPS = 10000, DEVICES = 8, REPLICAS = 90, LAYERS = 26 };
    struct dp_sim_case c = case_of(MODEL(", \"network\": {\"devices_per_node\": 8, \"inside\": {\"gb_per_s\": 150},"
                                         " \"between\": {\"gb_per_s\": 25, \"latency_us\": 10}}"),
                                   &(struct dp_sim_override){.devices = DEVICES, .replicas = REPLICAS, .microbatches = 64});
    struct dp_sim_totals t;
    uint64_t begin, took, seed = 5;
    struct dp_err err;

    c.iterations = STEPS;
    c.event = calloc(STEPS, sizeof *c.event);
    c.speed = calloc(DEVICES * REPLICAS, sizeof *c.speed);
    free(c.kind_of);
    c.kind_of = calloc(LAYERS, sizeof *c.kind_of);
    c.n_layers = LAYERS;
    assert_true(c.event && c.speed && c.kind_of);
    for (uint32_t i = 0; i < DEVICES * REPLICAS; i++)
        c.speed[i] = 1.0 + random_below(&seed, 1000000) * 1e-7;
    for (uint32_t i = 0; i < STEPS; i++) {
        c.event[i].iteration = i + 1;
        c.event[i].has_density = true;
        c.event[i].densities = calloc(LAYERS, sizeof *c.event[i].densities);
        assert_non_null(c.event[i].densities);
        for (uint32_t k = 0; k < LAYERS; k++)
            c.event[i].densities[k] = 1.0 - 0.9 * (i + 1) / STEPS - 0.05 * random_below(&seed, 100) / 100;
        c.n_events++;
    }
    begin = dp_thread_cpu_ns();
    assert_int_equal(dp_sim_run(&c, NULL, NULL, &t, &err), 0);
    took = dp_thread_cpu_ns() - begin;
    print_message("# %d devices x %d pruning steps: %.2f s\n", DEVICES * REPLICAS, STEPS, (double)took * 1e-9);
    assert_int_equal(t.simulated, STEPS);
#ifndef DP_SANITIZED
    assert_true(took < 10000000000u);
#endif
    dp_sim_case_release(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_with_events),
    cmocka_unit_test(frozen_layers_only_go_forward),
    cmocka_unit_test(a_run_beside_its_fixed_way),
    cmocka_unit_test(a_run_beside_its_balanced_way),
    cmocka_unit_test(equal_stretches_are_computed_once),
    cmocka_unit_test(reductions_use_the_right_tier),
    cmocka_unit_test(nodes_are_released_whole),
    cmocka_unit_test(options_change_the_shape),
    cmocka_unit_test(memory_is_a_limit),
    cmocka_unit_test(speeds_count),
    cmocka_unit_test(bad_models_are_refused),
    cmocka_unit_test(outside_of_the_table_is_an_error),
    cmocka_unit_test(a_profile_is_planned),
    cmocka_unit_test(a_file_of_costs_is_planned),
    cmocka_unit_test(bad_graphs_are_refused),
    cmocka_unit_test(a_trace_is_played_again),
    cmocka_unit_test(messages_of_a_trace),
    cmocka_unit_test(messages_of_a_frozen_trace),
    cmocka_unit_test(links_of_a_trace_differ),
    cmocka_unit_test(a_trace_at_another_scale),
    cmocka_unit_test(a_resumed_trace),
    cmocka_unit_test(a_trace_of_other_workers_before),
    cmocka_unit_test(bad_traces_are_refused),
    cmocka_unit_test(missing_files_are_named),
    cmocka_unit_test(a_large_run_is_fast),
};

int main(void)
{
    return cmocka_run_group_tests_name("sim_run", tests, make_folder, remove_folder);
}
