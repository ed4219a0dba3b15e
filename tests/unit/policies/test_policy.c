/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies through the registry, the check of their answers, packing, the decision, and when to use
 * the only shrink. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/decide/decide.h"
#include "policies/decide/pack.h"
#include "policies/decide/release_when.h"
#include "policies/list.h"
#include "policies/predict/answer.h"
#include "policies/predict/predict.h"
#include "tests/unit/random.h"

#define LAYERS 10
#define DEVICES 4

struct fixture {
    struct dp_layer_load layer[LAYERS];
    uint64_t opt[LAYERS];
    struct dp_layout layout;
    struct dp_device device[DEVICES];
    struct dp_policy_in in;
    struct dp_policy_out out;
    struct dp_err err;
};

/* 10 equal layers of 1 + 2 ms on 4 slots of one device each, 3/3/2/2. */
static void init(struct fixture *t)
{
    memset(t, 0, sizeof *t);
    for (uint32_t i = 0; i < LAYERS; i++) {
        t->layer[i] = (struct dp_layer_load){1000000, 1000000, 1000000, 1000, 100, 500, 500};
        t->opt[i] = 100000;
    }
    t->layout = (struct dp_layout){.n_workers = DEVICES, .n_layers = LAYERS, .cut = {0, 3, 6, 8, 10}};
    for (uint32_t d = 0; d < DEVICES; d++)
        t->device[d] = (struct dp_device){1.0, 0, d, true};
    t->in = (struct dp_policy_in){.n_layers = LAYERS, .n_devices = DEVICES, .n_slots = DEVICES,
                                  .layer = t->layer, .layer_opt_ns = t->opt, .current = &t->layout,
                                  .device = t->device, .microbatches = 8, .steps_total = 1000};
}

static const char *run(struct fixture *t, const char *policy)
{
    static char text[512];
    const struct dp_policy *p = dp_policy_find(policy, &t->err);

    if (!p || dp_policy_run(p, NULL, &t->in, &t->out, &t->err) < 0)
        return t->err.text;
    dp_layout_format(&t->out.layout, text, sizeof text);
    return text;
}

static void unknown_name_lists_the_known(void **state)
{
    (void)state;
    char want[1024] = "unknown policy 'tiem'; known: ";
    struct dp_err err;

    for (size_t i = 0; dp_policy_at(i); i++) {
        size_t n = strlen(want);

        snprintf(want + n, sizeof want - n, "%s%s", i ? ", " : "", dp_policy_at(i)->name);
    }
    assert_null(dp_policy_find("tiem", &err));
    assert_string_equal(err.text, want); /* no name is cut off */
}

static void each_policy_on_a_known_load(void **state)
{
    (void)state;
    struct fixture t;

    init(&t);
    assert_string_equal(run(&t, "keep"), "0-2|3-5|6-7|8-9");
    assert_string_equal(run(&t, "uniform"), "0-2|3-5|6-7|8-9");
    for (uint32_t i = 0; i < 6; i++)
        t.layer[i].nnz = 50;
    assert_string_equal(run(&t, "param"), "0-6|7|8|9");
    for (uint32_t i = 6; i < LAYERS; i++)
        t.layer[i].fwd_ns = t.layer[i].bwd_input_ns = t.layer[i].bwd_weight_ns = 3000000;
    /* 3, 3, 6, 6 layers' worth: no cut is better, so nothing moves */
    assert_string_equal(run(&t, "time"), "0-2|3-5|6-7|8-9");
    assert_int_equal(t.out.bottleneck_ns, 8 * 18000000 + 200000);
    t.device[2].is_allowed = t.device[3].is_allowed = false;
    assert_string_equal(run(&t, "uniform"), "0-4|5-9|-|-");
    assert_non_null(strstr(run(&t, "keep"), "worker 2 may not keep"));
}

static void speed_and_memory_count(void **state)
{
    (void)state;
    struct fixture t;

    init(&t);
    t.device[0].speed = 4.0; /* 4 of 7 parts of the work */
    assert_string_equal(run(&t, "time"), "0-6|7|8|9");
    init(&t);
    t.device[0].mem_limit_bytes = 1500; /* one layer, 4 microbatches in flight: 1400 */
    assert_string_equal(run(&t, "time"), "0|1-3|4-6|7-9");
    t.device[1].mem_limit_bytes = 1000;
    t.device[2].mem_limit_bytes = t.device[3].mem_limit_bytes = 1000;
    assert_non_null(strstr(run(&t, "time"), "do not fit into the memory of 4 devices"));
    assert_non_null(strstr(run(&t, "uniform"), "worker 0 would need"));
}

/* The time policy is never slower on its bottleneck than any other cut of a random small model. */
static void time_is_optimal(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t seed = i, best;
        struct fixture t;

        init(&t);
        for (uint32_t l = 0; l < LAYERS; l++) {
            t.layer[l].fwd_ns = random_below(&seed, 1000);
            t.opt[l] = random_below(&seed, 1000);
        }
        for (uint32_t d = 0; d < DEVICES; d++)
            t.device[d].speed = 0.5 * (1 + random_below(&seed, 4));
        assert_int_equal(dp_policy_run(&dp_policy_time, NULL, &t.in, &t.out, &t.err), 0);
        best = t.out.bottleneck_ns;
        for (uint32_t k = 0; k < 20; k++) {
            struct dp_sim_stage_out stage[DEVICES];
            struct dp_layout l = t.layout;
            uint64_t ns, worst = 0;

            l.cut[1] = random_below(&seed, LAYERS + 1);
            l.cut[2] = l.cut[1] + random_below(&seed, LAYERS - l.cut[1] + 1);
            l.cut[3] = l.cut[2] + random_below(&seed, LAYERS - l.cut[2] + 1);
            assert_int_equal(dp_predict_layout(&t.in, &l, stage, &ns, &t.err), 0);
            for (uint32_t s = 0; s < dp_layout_active(&l); s++)
                worst = stage[s].busy_ns > worst ? stage[s].busy_ns : worst;
            assert_true(best <= worst + 2 * 8); /* the simulator rounds each microbatch up */
        }
    }
}

static int bad_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                      struct dp_err *err)
{
    (void)err;
    out->layout = *in->current;
    switch (*(int *)state) {
    case 0: out->layout.cut[2] = 1; break;         /* goes back */
    case 1: out->layout.cut[4] = 9; break;         /* forgets a layer */
    case 2: out->layout.n_layers = 9; out->layout.cut[4] = 9; break;
    case 3: memset(out, 0xff, sizeof *out); break; /* rubbish */
    case 4: return -1;
    case 5: return 1;
    case 6: out->layout.gone[3] = 1; out->layout.cut[3] = 10; break; /* sends a worker away */
    case 7: out->layout.epoch++; break;
    case 8: out->layout.n_workers = 3; out->layout.cut[3] = 10; break;
    case 9: out->layout.cut[1] = 4; break; /* worker 1 may not own layers any more */
    case 10: out->layout.n_layers = UINT32_MAX; break;
    case 11: memset(out->reason, 0xfe, sizeof out->reason); break; /* no end, no UTF-8 */
    case 12: snprintf(out->reason, sizeof out->reason, "a\nb\033[31m"); break;
    case 13: return dp_err_set(err, DP_EINVAL, "no\nlayout\177");
    case 14: memset(out->layout.cut, 0, sizeof out->layout.cut); break;
    case 15: out->layout.n_workers = DP_MAX_WORKERS + 1; break;
    }
    return 0;
}

static void wrong_answers_are_refused(void **state)
{
    (void)state;
    struct dp_policy bad = {.abi = DP_POLICY_ABI, .name = "bad", .help = "", .decide = bad_decide};
    static const bool is_answer[] = {true, true, true, true, false, false, true, true,
                                     true, true, true, false, false, false, true, true};
    struct fixture t;

    for (int how = 0; how < 16; how++) {
        init(&t);
        t.device[1].is_allowed = how != 9;
        if (how == 11 || how == 12) {
            assert_int_equal(dp_policy_run(&bad, &how, &t.in, &t.out, &t.err), 0);
            continue;
        }
        assert_int_equal(dp_policy_run(&bad, &how, &t.in, &t.out, &t.err), -1);
        assert_int_equal(dp_policy_is_broken(&t.err), is_answer[how]);
        assert_int_equal(strncmp(t.err.text, "policy bad: ", 12), 0);
        assert_true(t.err.text[12] != '\0');
        assert_null(strchr(t.err.text, '\n'));
        assert_int_equal(dp_policy_run(&bad, &how, &t.in, &t.out, NULL), -1);
    }
}

static void reasons_are_printable(void **state)
{
    (void)state;
    struct dp_policy bad = {.abi = DP_POLICY_ABI, .name = "bad", .help = "", .decide = bad_decide};
    struct fixture t;
    int how = 12;

    init(&t);
    assert_int_equal(dp_policy_run(&bad, &how, &t.in, &t.out, &t.err), 0);
    assert_string_equal(t.out.reason, "a?b?[31m");
    how = 11;
    assert_int_equal(dp_policy_run(&bad, &how, &t.in, &t.out, &t.err), 0);
    assert_int_equal(strspn(t.out.reason, "?"), sizeof t.out.reason - 1);
    how = 13;
    assert_int_equal(dp_policy_run(&bad, &how, &t.in, &t.out, &t.err), -1);
    assert_string_equal(t.err.text, "policy bad: no?layout?");
}

static void another_interface_is_refused_with_both_numbers(void **state)
{
    (void)state;
    struct dp_policy bad = {.abi = 99, .name = "bad", .help = "", .decide = bad_decide};
    struct fixture t;
    char text[128];

    init(&t);
    assert_int_equal(dp_policy_run(&bad, NULL, &t.in, &t.out, &t.err), -1);
    assert_int_equal(t.err.code, DP_ENOTSUP);
    snprintf(text, sizeof text, "policy bad: it has policy interface 99, this program has %d", DP_POLICY_ABI);
    assert_string_equal(t.err.text, text);
    bad = (struct dp_policy){.abi = DP_POLICY_ABI, .name = "bad", .help = ""};
    assert_int_equal(dp_policy_run(&bad, NULL, &t.in, &t.out, &t.err), -1);
    assert_string_equal(t.err.text, "policy bad: it has no decide()");
}

/* Every way to spoil a snapshot that the rest relies on. */
static void bad_snapshots_are_refused(void **state)
{
    (void)state;
    static const double bad_speed[] = {0.0, -1.0, NAN, INFINITY};
    struct fixture t;

    init(&t);
    assert_int_equal(dp_policy_in_check(&t.in, &t.err), 0);
    for (size_t i = 0; i < sizeof bad_speed / sizeof bad_speed[0]; i++) {
        init(&t);
        t.device[2].speed = bad_speed[i];
        assert_int_equal(dp_policy_in_check(&t.in, &t.err), -1);
        init(&t);
        t.in.link_latency_s = i ? bad_speed[i] : -2.0;
        assert_int_equal(dp_policy_in_check(&t.in, &t.err), -1);
    }
    for (int how = 0; how < 10; how++) {
        init(&t);
        switch (how) {
        case 0: t.layer[3].fwd_ns = UINT64_MAX; break;
        case 1: t.opt[3] = UINT64_MAX; break;
        case 2: t.layer[0].act_bytes = UINT64_MAX / 2; break;
        case 3: t.in.microbatches = 0; break;
        case 4: t.device[1].slot = 4; break;
        case 5: t.in.batch_slot = 4; break;
        case 6: t.in.link_bytes_per_s = NAN; break;
        case 7: t.device[0].speed = 1e-18; break;
        case 8: t.in.n_layers = 0; break;
        case 9: t.in.stage_message_bytes = UINT64_MAX, t.in.link_bytes_per_s = 1e-300; break;
        }
        assert_int_equal(dp_policy_in_check(&t.in, &t.err), -1);
    }
}

static struct dp_pack *pack(struct fixture *t, struct dp_pack_rule rule)
{
    static struct dp_pack out;

    if (dp_pack_choose(&dp_policy_time, NULL, &t->in, &rule, &out, &t->err) < 0)
        fail_msg("%s", t->err.text);
    return &out;
}

static void scale(struct fixture *t, uint32_t percent)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        t->layer[i].fwd_ns = t->layer[i].bwd_input_ns = t->layer[i].bwd_weight_ns = 10000 * percent;
        t->opt[i] = 1000 * percent;
        t->layer[i].nnz = t->layer[i].params * percent / 100;
    }
}

static void packs_as_pruning_goes_on(void **state)
{
    (void)state;
    struct dp_pack_rule rule = {.limits = {.reference = DP_REF_START, .max_slowdown = 2.0, .min_devices = 1}};
    struct fixture t;
    uint32_t slots[101];

    init(&t);
    assert_int_equal(pack(&t, rule)->slots, 4); /* no reference: the fastest */
    assert_int_equal(dp_predict_layout(&t.in, &t.layout, NULL, &rule.reference_ns, &t.err), 0);
    for (uint32_t p = 100; p >= 10; p -= 10) {
        struct dp_pack *c;

        scale(&t, p);
        c = pack(&t, rule);
        slots[p] = c->slots;
        assert_true(c->best.iteration_ns <= c->limit_ns);
        assert_int_equal(c->keep_slot[0] + c->keep_slot[1] + c->keep_slot[2] + c->keep_slot[3], c->slots);
        assert_true(c->keep_slot[0]);
        for (uint32_t i = 0; i < c->n_options; i++)
            assert_false(c->option[i].slots < c->slots && c->option[i].meets);
    }
    assert_int_equal(slots[100], 4);
    assert_int_equal(slots[10], 1);
    assert_true(slots[50] == 2);
    rule.limits.min_devices = 3;
    assert_int_equal(pack(&t, rule)->slots, 3);
    rule = (struct dp_pack_rule){.limits = {.reference = DP_REF_BEST, .max_slowdown = 0.0, .min_devices = 1}};
    assert_int_equal(pack(&t, rule)->slots, 4);
    rule.limits.max_slowdown = 100.0;
    assert_int_equal(pack(&t, rule)->slots, 1);
}

/* Beyond DP_PACK_ALL devices: what is chosen meets the reference, one slot less does not. */
static void packs_a_large_run(void **state)
{
    (void)state;
    enum { N = 100, L = 200 };
    struct dp_layer_load *layer = calloc(L, sizeof *layer);
    struct dp_device *device = calloc(N, sizeof *device);
    struct dp_layout layout = {.n_workers = N, .n_layers = L};
    struct dp_policy_in in = {.n_layers = L, .n_devices = N, .n_slots = N, .layer = layer, .current = &layout,
                              .device = device, .microbatches = 100};
    struct dp_pack_rule rule = {.limits = {.max_slowdown = 1.0, .min_devices = 1}};
    struct dp_policy_out one;
    struct dp_pack *out = calloc(1, sizeof *out);

    for (uint32_t i = 0; i < L; i++)
        layer[i] = (struct dp_layer_load){100000 + i * 100, 100000, 100000, 10, 10, 10, 10};
    for (uint32_t i = 0; i < N; i++) {
        device[i] = (struct dp_device){1.0, 0, i, true};
        layout.cut[i + 1] = 2 * (i + 1);
    }
    for (uint64_t ns = 40000000; ns < 3000000000; ns = ns * 3 / 2) {
        rule.reference_ns = ns;
        assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &in, &rule, out, NULL), 0);
        if (out->best.iteration_ns > out->limit_ns || out->slots == 1)
            continue;
        for (uint32_t i = 0; i < N; i++)
            device[i].is_allowed = i + 1 < out->slots;
        assert_int_equal(dp_policy_run(&dp_policy_time, NULL, &in, &one, NULL), 0);
        assert_true(one.iteration_ns > out->limit_ns);
        for (uint32_t i = 0; i < N; i++)
            device[i].is_allowed = true;
    }
    assert_true(out->slots > 1 && out->slots < 20);
    free(out);
    free(layer);
    free(device);
}

static void packs_whole_slots_towards_the_batch_host(void **state)
{
    (void)state;
    struct dp_pack_rule rule = {.limits = {.reference = DP_REF_BEST, .max_slowdown = 70.0, .min_devices = 1}};
    struct dp_pack *c;
    struct fixture t;

    init(&t);
    t.in.n_slots = 2;
    for (uint32_t d = 0; d < DEVICES; d++)
        t.device[d].slot = d / 2;
    t.in.batch_slot = 1;
    c = pack(&t, rule);
    assert_int_equal(c->slots, 1);
    assert_int_equal(c->devices, 2); /* both devices of the slot: the faster one of one slot */
    assert_true(c->keep_slot[1] && !c->keep_slot[0]);
    assert_int_equal(c->best.layout.cut[2], 0); /* workers 0 and 1 own nothing */
    rule.limits.min_devices = 2;
    assert_int_equal(pack(&t, rule)->slots, 1);
    t.device[2].mem_limit_bytes = t.device[3].mem_limit_bytes = 5000;
    assert_int_equal(pack(&t, rule)->slots, 2); /* memory does not fit on one slot */
}

static void decision_reasons(void **state)
{
    (void)state;
    struct dp_decide_in in = {.current_ns = 100000000, .proposed_ns = 98800000, .slots_now = 4,
                              .slots_after = 4, .moved_layers = 2, .moved_bytes = 1000000,
                              .move = {.fixed_ns = 500000000, .byte_ns = 1000.0}, .steps_left = 1000,
                              .hysteresis = 5.0};
    struct dp_decide_out out;

    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_STAY);
    assert_non_null(strstr(out.reason, "stay: predicted gain 1.2 % is below the hysteresis of 5.0 %"));
    in.proposed_ns = 80000000;
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    assert_true(out.gain_s > 19.9 && out.gain_s < 20.1 && out.cost_s > 1.49 && out.cost_s < 1.51);
    in.steps_left = 50;
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_STAY);
    assert_non_null(strstr(out.reason, "do not pay"));
    in.steps_left = 1000;
    in.cooldown_left_ns = 3000000000u;
    dp_decide(&in, &out);
    assert_string_equal(out.reason, "stay: 3.0 s of the cooldown are left");
    in.cooldown_left_ns = 0;
    in.moved_layers = 0;
    dp_decide(&in, &out);
    assert_non_null(strstr(out.reason, "already the best"));
    in.slots_after = 2;
    in.proposed_ns = 104000000; /* slower, but frees two slots */
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    assert_true(out.saved_slot_s > 200.0);
    in.steps_left = 1;
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_STAY);
}

static void hand_overs_cost_what_they_did(void **state)
{
    (void)state;
    const struct dp_moved moved[] = {
        {.pause_ns = 9000000, .transfer_ns = 2000000, .bytes = 4096}, /* too little to tell what bytes cost */
        {.pause_ns = 0, .transfer_ns = 50000000, .bytes = 100 << 20}, /* not measured */
        {.pause_ns = 20000000, .transfer_ns = 5000000, .copying_ns = 95000000, .bytes = 100 << 20}, /* while others trained */
        {.pause_ns = 900000000, .transfer_ns = 800000000, .bytes = 100 << 20}, /* older */
    };
    struct dp_decide_in in = {.current_ns = 100000000, .proposed_ns = 80000000, .slots_now = 4, .slots_after = 4, .moved_layers = 2,
                              .moved_bytes = 400 << 20, .steps_left = 30, .hysteresis = 5.0};
    struct dp_decide_out out;

    in.move = dp_next_move_cost(moved, 0, 1e9);
    assert_int_equal(in.move.fixed_ns, 500000000);
    assert_true(in.move.byte_ns == 1.0);
    assert_true(dp_next_move_cost(moved, 0, 0.0).byte_ns == 0.0);
    in.move = dp_next_move_cost(moved + 3, 1, 1e9);
    assert_int_equal(in.move.fixed_ns, 100000000);
    dp_decide(&in, &out); /* 0.6 s are gained, 3.3 s lost */
    assert_int_equal(out.verdict, DP_STAY);
    in.move = dp_next_move_cost(moved, 4, 1e9);
    assert_int_equal(in.move.fixed_ns, 7000000);
    assert_true(in.move.byte_ns > 0.95 && in.move.byte_ns < 0.96);
    dp_decide(&in, &out); /* 0.41 s, now that others train meanwhile */
    assert_int_equal(out.verdict, DP_MOVE);
}

static void one_shrink_waits_where_that_returns_more(void **state)
{
    (void)state;
    struct dp_release_when_in in = {.shrinks_left = 1, .free_now = 1, .step_s = 0.1, .step = 100,
                                    .steps_total = 1000, .n_later = 2, .later = {{400, 3}, {250, 2}}};
    struct dp_release_when_out out;

    dp_release_when(&in, &out); /* 1 x 90 s against 3 x 60 s and 2 x 75 s */
    assert_false(out.now);
    assert_int_equal(out.wait_step, 400);
    assert_string_equal(out.reason, "wait: 90 node-s by freeing 1 now, 180 node-s by freeing 3 at step 400, "
                                    "and the job can shrink only once");
    in.later[0].step = 900; /* 1 x 90 s against 3 x 10 s and 2 x 75 s */
    dp_release_when(&in, &out);
    assert_false(out.now);
    assert_int_equal(out.wait_step, 250);
    in.later[1].step = 530; /* 2 x 47 s: 4 % more are not worth the risk */
    dp_release_when(&in, &out);
    assert_true(out.now);
    in.later[1].step = 250;
    in.shrinks_left = 5;
    dp_release_when(&in, &out);
    assert_true(out.now);
    in.shrinks_left = 1;
    in.n_later = 0;
    dp_release_when(&in, &out);
    assert_true(out.now);
    in.shrinks_left = 0;
    dp_release_when(&in, &out);
    assert_false(out.now);
    assert_non_null(strstr(out.reason, "lets the job shrink no further"));
    in.has_stepmgr = true;
    dp_release_when(&in, &out);
    assert_false(out.now);
    assert_non_null(strstr(out.reason, "stepmgr"));
    in.free_now = 0;
    in.shrinks_left = 1;
    dp_release_when(&in, &out);
    assert_false(out.now);
}

static void registry_is_complete(void **state)
{
    (void)state;
    size_t n = 0;

    for (; dp_policy_at(n); n++) { /* no name twice */
        assert_ptr_equal(dp_policy_find(dp_policy_at(n)->name, NULL), dp_policy_at(n));
        assert_non_null(dp_policy_chain_at(n));
    }
    assert_true(n > 0);
    assert_null(dp_policy_chain_at(n));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(registry_is_complete),
    cmocka_unit_test(unknown_name_lists_the_known),
    cmocka_unit_test(each_policy_on_a_known_load),
    cmocka_unit_test(speed_and_memory_count),
    cmocka_unit_test(time_is_optimal),
    cmocka_unit_test(wrong_answers_are_refused),
    cmocka_unit_test(reasons_are_printable),
    cmocka_unit_test(another_interface_is_refused_with_both_numbers),
    cmocka_unit_test(bad_snapshots_are_refused),
    cmocka_unit_test(packs_as_pruning_goes_on),
    cmocka_unit_test(packs_a_large_run),
    cmocka_unit_test(packs_whole_slots_towards_the_batch_host),
    cmocka_unit_test(decision_reasons),
    cmocka_unit_test(hand_overs_cost_what_they_did),
    cmocka_unit_test(one_shrink_waits_where_that_returns_more),
};
TEST_MAIN("policy", tests)
