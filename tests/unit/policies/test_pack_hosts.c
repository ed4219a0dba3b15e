/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices that share nodes: of sets that cost the same packing keeps the one that leaves the most nodes, by brute force over all sets
 * of slots of random runs, with ranks in any order over the nodes; and never pays for it with more slots or time. */
#include "tests/unit/unit.h"

#include "policies/decide/pack.h"
#include "policies/list.h"
#include "tests/unit/random.h"

#define MAX_S 12
#define LAYERS 24

struct run {
    struct dp_layer_load layer[LAYERS];
    struct dp_layout current;
    struct dp_device device[MAX_S];
    uint32_t host[MAX_S];
    struct dp_policy_in in;
    struct dp_pack_rule rule;
    struct dp_pack pack;
};

/* One device a slot, all equal. */
static void init(struct run *t, uint32_t slots)
{
    memset(t, 0, sizeof *t);
    t->in = (struct dp_policy_in){.n_layers = LAYERS, .n_devices = slots, .n_slots = slots, .layer = t->layer, .current = &t->current,
                                  .device = t->device, .slot_host = t->host, .microbatches = 8, .steps_total = 100};
    for (uint32_t l = 0; l < LAYERS; l++)
        t->layer[l] = (struct dp_layer_load){1000000, 1000000, 1000000, 100, 100, 1, 1};
    t->current = (struct dp_layout){.n_workers = slots, .n_layers = LAYERS};
    for (uint32_t d = 0; d < slots; d++) {
        t->device[d] = (struct dp_device){1.0, 0, d, true};
        t->current.cut[d + 1] = LAYERS * (d + 1) / slots;
    }
    t->rule = (struct dp_pack_rule){.limits = {.reference = DP_REF_FIXED, .max_slowdown = 1e6, .min_devices = 1},
                                    .reference_ns = 1000000000, .is_sliced = true};
}

static void pack(struct run *t)
{
    struct dp_err err = {0};

    if (dp_policy_in_check(&t->in, &err) < 0 || dp_pack_choose(&dp_policy_time, NULL, &t->in, &t->rule, &t->pack, &err) < 0)
        fail_msg("%s", err.text);
}

static const char *kept(const struct run *t)
{
    static char text[MAX_S + 1];

    for (uint32_t s = 0; s < t->in.n_slots; s++)
        text[s] = t->pack.keep_slot[s] ? '1' : '-';
    text[t->in.n_slots] = '\0';
    return text;
}

/* hosts: a digit for each slot; home is slot 0. */
static const char *keep(struct run *t, const char *hosts, uint32_t n)
{
    init(t, (uint32_t)strlen(hosts));
    for (uint32_t s = 0; s < t->in.n_slots; s++)
        t->host[s] = (uint32_t)(hosts[s] - '0');
    t->rule.limits.min_devices = n;
    pack(t);
    return kept(t);
}

static void examples(void **state)
{
    struct run *t = calloc(1, sizeof *t);

    (void)state;
    assert_string_equal(keep(t, "0101", 2), "1-1-"); /* ranks in turns over two nodes */
    assert_non_null(strstr(t->pack.reason, "2 of 4 slices are enough (bound: 2), on 1 of 2 nodes: "));
    assert_string_equal(keep(t, "0101", 3), "111-"); /* no node can be left */
    assert_string_equal(keep(t, "01220", 3), "11--1"); /* home's node, and the smaller one of the others */
    assert_string_equal(keep(t, "0122", 3), "1-11"); /* the node between goes */
    assert_string_equal(keep(t, "011122", 3), "1---11"); /* the rest fits on the smaller one */
    assert_string_equal(keep(t, "100100", 2), "1--1--"); /* home's node has the fewest */
    t->in.batch_slot = 4; /* and the last one of its node, of which few are kept */
    t->rule.limits.min_devices = 1;
    pack(t);
    assert_string_equal(kept(t), "----1-");
    assert_string_equal(keep(t, "0000", 2), "11--");
    assert_null(strstr(t->pack.reason, "nodes"));
    assert_string_equal(keep(t, "0123", 2), "11--"); /* a slot is a node */
    assert_null(strstr(t->pack.reason, "of 4 nodes"));
    t->in.slot_host = NULL;
    pack(t);
    assert_string_equal(kept(t), "11--");
    free(t);
}

/* A slot that went before is no device of its node's, and one in the middle of a pipeline is not kept for its place. */
static void what_is_gone_does_not_count(void **state)
{
    struct run *t = calloc(1, sizeof *t);

    (void)state;
    keep(t, "011122", 3);
    t->current.gone[1] = t->current.gone[2] = 1;
    for (uint32_t d = 1; d <= 2; d++) /* theirs went to slot 0 */
        t->current.cut[d] = t->current.cut[3];
    pack(t);
    assert_string_equal(kept(t), "1---11");
    t->rule.limits.min_devices = 2;
    pack(t);
    assert_string_equal(kept(t), "1--1--");
    free(t);
}

/* Fewest nodes of all sets of n slots with home's. */
static uint32_t least_nodes(const struct run *t, uint32_t n)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t set = 1; set < 1u << t->in.n_slots; set++) {
        uint32_t nodes = 0;

        if (!(set >> t->in.batch_slot & 1) || (uint32_t)__builtin_popcount(set) != n)
            continue;
        for (uint32_t s = 0; s < t->in.n_slots; s++)
            if (set >> s & 1)
                nodes |= 1u << t->host[s];
        if ((uint32_t)__builtin_popcount(nodes) < least)
            least = (uint32_t)__builtin_popcount(nodes);
    }
    return least;
}

static uint32_t nodes_kept(const struct run *t)
{
    uint32_t nodes = 0;

    for (uint32_t s = 0; s < t->in.n_slots; s++)
        if (t->pack.keep_slot[s])
            nodes |= 1u << t->host[s];
    return (uint32_t)__builtin_popcount(nodes);
}

static void random_run(struct run *t, uint64_t *seed, bool is_alike)
{
    uint32_t nodes;

    init(t, 2 + random_below(seed, MAX_S - 1));
    nodes = 1 + random_below(seed, t->in.n_slots < 5 ? t->in.n_slots : 5);
    for (uint32_t s = 0; s < t->in.n_slots; s++) {
        t->host[s] = random_below(seed, nodes);
        if (!is_alike)
            t->device[s].speed = random_below(seed, 2) ? 1.0 : 2.0;
    }
    t->in.batch_slot = random_below(seed, t->in.n_slots);
    t->rule.limits.objective = random_below(seed, 2) ? DP_OBJ_DEVICES : DP_OBJ_EFFICIENCY;
    t->rule.limits.min_devices = 1 + random_below(seed, t->in.n_slots);
    t->rule.limits.max_slowdown = 10.0 * random_below(seed, 100);
    t->rule.reference_ns = 30000000 + 1000000 * random_below(seed, 300);
}

/* The same question without hosts: never fewer slots or less time, but for DP_PACK_EQUAL of it. */
static void it_costs_nothing(void **state)
{
    struct run *t = calloc(1, sizeof *t);
    uint32_t n_better = 0, n_left = 0, n_least = 0, n_all = 0;

    (void)state;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i * 71 + 5, plain_ns;
        uint32_t slots, nodes;
        bool is_alike = i % 3, is_met;

        random_run(t, &seed, is_alike);
        t->in.slot_host = NULL;
        pack(t);
        slots = t->pack.slots;
        plain_ns = t->pack.best.iteration_ns;
        is_met = t->pack.limit_ns && plain_ns <= t->pack.limit_ns;
        nodes = nodes_kept(t);
        t->in.slot_host = t->host;
        pack(t);
        assert_int_equal(t->pack.keep_slot[t->in.batch_slot], 1);
        if (is_alike || t->in.n_slots <= DP_PACK_SETS) {
            assert_true(!is_met || t->rule.limits.objective == DP_OBJ_EFFICIENCY || t->pack.slots <= slots);
            assert_true(t->pack.slots != slots || (double)t->pack.best.iteration_ns <= (double)plain_ns * (1.0 + DP_PACK_EQUAL));
            assert_true(t->pack.slots != slots || nodes_kept(t) <= nodes);
            n_least += nodes_kept(t) == least_nodes(t, t->pack.slots);
            n_all++;
        }
        if (is_met && t->rule.limits.objective == DP_OBJ_EFFICIENCY)
            assert_true((double)t->pack.best.iteration_ns * t->pack.slots <= (double)plain_ns * slots * (1.0 + DP_PACK_EQUAL));
        assert_true(!is_met || t->pack.best.iteration_ns <= t->pack.limit_ns);
        n_better += nodes_kept(t) < nodes;
        n_left += slots < t->in.n_slots;
    }
    printf("# of %u runs %u are on the fewest nodes that so many slots can be on\n", n_all, n_least);
    printf("# of 3000 runs %u give slots up, %u of them leave more nodes than by the order of ranks\n", n_left, n_better);
    assert_true(n_left > 500 && n_better > 100);
    free(t);
}

/* More than are tried one by one: what is asked about stays bounded, and 512 slots in turns over 64 nodes are packed at once. */
static void many_nodes(void **state)
{
    static struct dp_device device[DP_MAX_WORKERS];
    static uint32_t host[DP_MAX_WORKERS];
    static struct dp_layout current;
    static struct dp_layer_load layer[DP_MAX_WORKERS];
    struct run *t = calloc(1, sizeof *t);
    uint8_t is_used[64] = {0};
    uint32_t n = 0;

    (void)state;
    init(t, 4);
    t->in.n_slots = t->in.n_devices = t->in.n_layers = DP_MAX_WORKERS;
    t->in.device = device;
    t->in.slot_host = host;
    t->in.layer = layer;
    t->in.current = &current;
    current = (struct dp_layout){.n_workers = DP_MAX_WORKERS, .n_layers = DP_MAX_WORKERS};
    for (uint32_t d = 0; d < DP_MAX_WORKERS; d++) {
        device[d] = (struct dp_device){1.0, 0, d, true};
        host[d] = d % 64;
        layer[d] = t->layer[0];
        current.cut[d + 1] = d + 1;
    }
    t->rule.limits.min_devices = 20;
    t->rule.reference_ns = UINT64_C(1) << 40;
    pack(t);
    assert_in_range(t->pack.slots, 20, 40); /* as near as the grid comes to it */
    assert_true(t->pack.n_options < 80);
    for (uint32_t s = 0; s < DP_MAX_WORKERS; s++)
        if (t->pack.keep_slot[s] && !is_used[host[s]]++)
            n++;
    assert_int_equal(n, (t->pack.slots + 7) / 8);
    free(t);
}

static void a_wrong_host_is_refused(void **state)
{
    struct run *t = calloc(1, sizeof *t);
    struct dp_err err = {0};

    (void)state;
    init(t, 4);
    t->host[2] = 4;
    assert_int_equal(dp_policy_in_check(&t->in, &err), -1);
    assert_string_equal(err.text, "snapshot: slot 2 of 4 on node 4");
    free(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(examples),
    cmocka_unit_test(what_is_gone_does_not_count),
    cmocka_unit_test(it_costs_nothing),
    cmocka_unit_test(many_nodes),
    cmocka_unit_test(a_wrong_host_is_refused),
};
TEST_MAIN("pack_hosts", tests)
