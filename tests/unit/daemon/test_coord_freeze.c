/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator and runs that freeze layers (coord_world.h): what is given back when, and what must not be taken for something
 * else: a frozen stage for a fast device, a frozen run for the reference, a change for noise. And noise for a change. */
#include "tests/unit/unit.h"

#include "daemon/coord/internal.h"
#include "tests/unit/daemon/coord_check.h"

#define FIRST 140u  /* 7 s */
#define SECOND 280u /* 14 s */

static struct world *freezing(uint64_t seed)
{
    struct world *w = begin(seed);

    w->freeze[0] = (struct dp_change){FIRST, W_LAYERS / 2, DP_CHANGE_FREEZE};
    w->n_freezes = 1;
    return w;
}

static void speeds_are_equal(const struct world *w)
{
    for (uint32_t r = 0; r < W_MAX; r++)
        assert_float_equal(w->c->worker[r].speed, 1.0, 0.0);
}

static bool was_said(const struct world *w, const char *text)
{
    const struct dp_coord *c = w->c;

    for (uint32_t i = 0; i < c->history.n_decisions && i < COORD_DECISIONS; i++)
        if (strstr(c->history.decision[i].release_reason, text))
            return true;
    return false;
}

/* Half of the layers without backward: 16 of 24 parts of the work are left, which three devices do in the time of four. */
static void a_frozen_half_gives_a_node_back(void **state)
{
    struct world *w = freezing(1);
    uint64_t reference_ns;
    json_t *o;

    (void)state;
    world_start(w);
    world_run(w, 6.5, false);
    reference_ns = w->c->reference.ns;
    assert_true(reference_ns > 0 && w->c->train.n_frozen == 0);
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_int_equal(world_count(w, DP_REC_RELEASED), 1);
    assert_true(w->c->reference.is_final && w->c->reference.ns == reference_ns);
    assert_true(w->c->trend.n == 1 && w->c->trend.level[0].nnz > 0.0);
    speeds_are_equal(w);
    o = report_of(w);
    assert_int_equal(int_of(o, "frozen_layers"), W_LAYERS / 2);
    assert_true(json_is_true(json_object_get(json_array_get(json_object_get(o, "layers"), 0), "frozen")));
    assert_true(json_is_false(json_object_get(json_array_get(json_object_get(o, "layers"), W_LAYERS - 1), "frozen")));
    json_decref(o);
    end(w);
}

/* Nobody says before when it comes: it is acted on when it is seen. A frozen stage is no fast device, whoever measures it first. */
static void what_a_rule_freezes_is_seen(void **state)
{
    struct world *w = freezing(2);
    uint64_t reference_ns;

    (void)state;
    w->freezes_by_rule = true;
    w->freeze[0].step = 60; /* while the reference is still taken anew */
    world_start(w);
    world_run(w, 2.8, false);
    reference_ns = w->c->reference.ns;
    assert_true(reference_ns > 0 && w->c->reference.n_snapshots < 10);
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_int_equal(w->c->train.n_changes, 0);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 1);
    assert_true(w->c->reference.is_final && w->c->reference.ns == reference_ns);
    speeds_are_equal(w);
    end(w);
}

/* What is learnt of a run beside its loads: the dense time of pruning, who has the optimizer's, and that a pause of balancing is over
 * where loads change by themselves. */
static void a_change_is_told_from_what_it_looks_like(void **state)
{
    struct coord_plan plan = {.is_as_decided = true};
    struct world *w = freezing(7);
    double dense_ns;

    (void)state;
    w->freeze[0].value = 3; /* of the second stage one */
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 6.5, false);
    dense_ns = w->c->trend.level[0].ns;
    assert_true(dense_ns > 0.0 && w->c->layer[2].opt_ns == 500 && w->c->layer[3].opt_ns == 500);
    coord_balance_keep(w->c);
    w->c->balance.now = w->c->balance.next;
    w->c->balance.until_ns = UINT64_MAX;
    assert_true(coord_balance_pause_ns(w->c, w->now_ns, &plan) > 0);
    world_run(w, 10.0, false);
    assert_int_equal(w->c->train.n_frozen, 3);
    assert_float_equal(w->c->trend.level[0].ns, dense_ns, 0.0);
    assert_true(w->c->layer[2].opt_ns == 0 && w->c->layer[3].opt_ns == 1000);
    assert_int_equal(coord_balance_pause_ns(w->c, w->now_ns, &plan), 0);
    end(w);
}

/* The first report of a frozen layer counts by itself: what it took before is no second opinion. */
static void a_frozen_layer_has_its_load_at_once(void **state)
{
    struct world *w = freezing(8);

    (void)state;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    world_start(w);
    world_run(w, 6.5, false);
    while (!w->c->train.n_frozen && w->now_ns < 20 * DP_SECOND_NS)
        world_run(w, 0.05, false);
    assert_true(w->c->train.n_frozen >= 2);
    assert_int_equal(w->c->layer[0].n_samples, 1);
    end(w);
}

/* The report says when layers froze, not only how many are frozen at its end. */
static void the_report_tells_when_layers_froze(void **state)
{
    struct world *w = freezing(9);
    json_t *o, *samples, *sample;
    json_int_t before = 0, now, last_live = 0;
    size_t i;

    (void)state;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    world_start(w);
    world_run(w, 12.0, false);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    samples = json_object_get(o, "samples");
    assert_true(json_array_size(samples) > 10);
    json_array_foreach(samples, i, sample) {
        now = json_integer_value(json_object_get(sample, "frozen_layers"));
        assert_true(json_is_integer(json_object_get(sample, "frozen_layers")) && now >= before);
        before = now;
        if (!now)
            last_live = json_integer_value(json_object_get(sample, "step"));
    }
    assert_int_equal(before, W_LAYERS / 2);
    assert_int_equal(before, json_integer_value(json_object_get(o, "frozen_layers")));
    assert_true(last_live >= 1 && (uint64_t)last_live <= w->freeze[0].step + 10);
    json_decref(o);
    end(w);
}

/* A job that can shrink once waits for the second freezing, which frees two nodes. */
static void the_only_shrink_waits_for_what_frees_more(void **state)
{
    struct world *w = freezing(3);

    (void)state;
    w->freeze[1] = (struct dp_change){SECOND, 6, DP_CHANGE_FREEZE};
    w->n_freezes = 2;
    world_start(w);
    world_run(w, 12.0, false);
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 0);
    assert_true(was_said(w, "wait:") && was_said(w, "by freeing 2 at step 280"));
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 1);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 2);
    end(w);
}

/* Where it may shrink as often as it wants, each goes as soon as it is not needed. */
static void each_freezing_gives_back_what_it_frees(void **state)
{
    struct world *w = freezing(4);

    (void)state;
    w->job.shrinks_allowed = 1000;
    w->freeze[1] = (struct dp_change){2 * SECOND, 6, DP_CHANGE_FREEZE};
    w->n_freezes = 2;
    world_start(w);
    world_run(w, 25.0, false);
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 1);
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_int_equal(world_count(w, DP_REC_RELEASED), 2);
    end(w);
}

/* The last layers are fine-tuned: what is frozen before the first step is the run, and its reference. */
static void a_prefix_frozen_from_the_start_is_the_reference(void **state)
{
    struct world *w = freezing(5);

    (void)state;
    w->freeze[0].step = 0;
    world_start(w);
    world_run(w, 60.0, false);
    assert_int_equal(w->c->train.n_frozen, W_LAYERS / 2);
    assert_false(coord_is_changed(w->c));
    assert_true(coord_first_change(w->c) == UINT64_MAX);
    assert_true(w->c->reference.ns > 0 && w->c->reference.early.is_set);
    speeds_are_equal(w);
    end(w);
}

/* Speeds as learnt where the blocks of worker 1 take three times as long, of a run with a frozen prefix from the start. */
static void learn_speeds(bool differ, double speed[W_MAX])
{
    struct world *w = freezing(6);

    w->freeze[0].step = 0;
    w->blocks_differ = differ;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    world_start(w);
    world_run(w, 4.0, false);
    for (uint32_t l = w->c->layout.cut[1]; l < w->c->layout.cut[2]; l++)
        w->c->reference.early.load[l].fwd_ns *= 3;
    for (uint32_t r = 0; r < W_MAX; r++)
        speed[r] = 1.0;
    coord_snapshot_speeds(w->c, speed);
    end(w);
}

/* A slow device is told by forward passes. Where workers say that blocks do not cost alike, it may be the blocks. */
static void a_slow_device_is_told_among_frozen_layers(void **state)
{
    double speed[W_MAX];

    (void)state;
    learn_speeds(false, speed);
    assert_float_equal(speed[0], 1.0, 0.0);
    assert_true(speed[1] > 0.25 && speed[1] < 0.45);
    assert_float_equal(speed[3], 1.0, 0.0);
    learn_speeds(true, speed);
    assert_float_equal(speed[1], 1.0, 0.0);
}

/* Half of the layers cost half: less than a tenth is to be won, and loads scatter by more than a third of it. */
static struct world *scattering(uint64_t seed)
{
    struct world *w = begin(seed);

    for (uint32_t l = 0; l < W_LAYERS; l++)
        w->density[l] = l < W_LAYERS / 2 ? 0.5 : 1.0;
    w->limits.mode = DP_MODE_BALANCE;
    w->limits.warmup_reports = DP_NOISE_LEAST;
    w->scatter = 0.3;
    return w;
}

static bool has_reason(const struct world *w, const char *text)
{
    const struct dp_coord *c = w->c;

    for (uint32_t i = 0; i < c->history.n_decisions && i < COORD_DECISIONS; i++)
        if (strstr(c->history.decision[i].out.reason, text))
            return true;
    return false;
}

/* What is less than the noise is believed when it was found three times. */
static void a_gain_within_the_noise_must_come_again(void **state)
{
    struct world *w = scattering(20);
    json_t *o;

    (void)state;
    world_start(w);
    while (!w->n_commits && w->now_ns < 400 * DP_SECOND_NS)
        world_run(w, 0.5, false);
    assert_true(w->n_commits > 0);
    assert_true(has_reason(w, "loads scatter by") && has_reason(w, "found 2 of 3 times"));
    assert_true(w->c->noise.scatter > 0.01 && w->c->noise.scatter < 0.3);
    o = report_of(w);
    assert_true(json_is_real(json_object_get(json_array_get(json_object_get(o, "decisions"), 0), "gain_percent")));
    json_decref(o);
    end(w);
}

/* Where loads are steady, nobody waits. */
static void a_gain_of_steady_loads_is_taken_at_once(void **state)
{
    struct world *w = scattering(21);

    (void)state;
    w->scatter = 0.0;
    world_start(w);
    while (!w->n_commits && w->now_ns < 400 * DP_SECOND_NS)
        world_run(w, 0.5, false);
    assert_true(w->n_commits > 0);
    assert_false(has_reason(w, "loads scatter by"));
    end(w);
}

/* A change that is seen is not noise: what loads did before counts no more, and a node is given back as if they had been steady. */
static void a_change_is_no_noise(void **state)
{
    struct world *w = freezing(22);

    (void)state;
    w->scatter = 0.1;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    world_start(w);
    world_run(w, 6.5, false);
    assert_true(w->c->noise.scatter > 0.0 && w->c->worker[0].n_windows > DP_NOISE_WINDOWS && w->c->layer[0].n_totals > DP_NOISE_WINDOWS);
    assert_true(coord_noise_of_layer(w->c, 0) > 0.01);
    while (!w->c->train.n_frozen && w->now_ns < 20 * DP_SECOND_NS)
        world_run(w, 0.05, false);
    assert_true(w->c->worker[W_MAX - 1].n_windows <= 1 && w->c->noise.scatter == 0.0);
    assert_true(w->c->layer[0].n_totals == 1 && w->c->layer[W_LAYERS - 1].n_totals > DP_NOISE_WINDOWS);
    assert_float_equal(coord_noise_of_layer(w->c, 0), 0.0, 0.0);
    world_run(w, 30.0, false);
    assert_float_equal(w->c->noise.wander, 0.0, 0.0); /* the step down is none */
    end(w);
}

/* Crashes, losses and a Slurm that forgets change nothing of it. */
static void faults_do_not_hurt(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 10 + DP_INSTANCES(12); seed++) {
        struct world *w = freezing(seed);

        w->freezes_by_rule = seed % 2;
        w->freeze[1] = (struct dp_change){SECOND, 6, DP_CHANGE_FREEZE};
        w->n_freezes = 2;
        world_start(w);
        world_run(w, 40.0, true);
        world_settle(w);
        end(w);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_frozen_half_gives_a_node_back),
    cmocka_unit_test(what_a_rule_freezes_is_seen),
    cmocka_unit_test(a_change_is_told_from_what_it_looks_like),
    cmocka_unit_test(a_frozen_layer_has_its_load_at_once),
    cmocka_unit_test(the_report_tells_when_layers_froze),
    cmocka_unit_test(the_only_shrink_waits_for_what_frees_more),
    cmocka_unit_test(each_freezing_gives_back_what_it_frees),
    cmocka_unit_test(a_prefix_frozen_from_the_start_is_the_reference),
    cmocka_unit_test(a_slow_device_is_told_among_frozen_layers),
    cmocka_unit_test(a_gain_within_the_noise_must_come_again),
    cmocka_unit_test(a_gain_of_steady_loads_is_taken_at_once),
    cmocka_unit_test(a_change_is_no_noise),
    cmocka_unit_test(faults_do_not_hurt),
};
TEST_MAIN("coord_freeze", tests)
