/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): what workers say at the start of a step and during it, what is
 * refused, and the numbers made of it: throughput, time left, savings. */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/unit/daemon/coord_check.h"

/* G13: garbage moves nothing and each piece is counted. */
static void garbage_is_dropped_and_counted(void **state)
{
    (void)state;
    struct world *w = begin(17);
    struct dp_msg_report *m = calloc(1, sizeof *m), *bad = calloc(1, sizeof *bad);
    json_t *o;
    uint32_t n = 0;

    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 4.0, false);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    n = (uint32_t)int_of(json_object_get(o, "counters"), "reports_dropped"); /* from before all were there */
    json_decref(o);
    *m = (struct dp_msg_report){.rank = 1, .epoch = 1, .step = w->worker[1].step + 8, .loss = 2.0, .grad_norm = 1.0,
                                .step_ns = 50000000, .busy_ns = 1000, .first_layer = 2, .n_layers = 2};
    for (int i = 0; i < 2; i++)
        m->layer[i] = (struct dp_layer_load){1000, 1000, 1000, 10, 10, 10000, 10000};
    for (int how = 0; how < 14; how++) {
        *bad = *m;
        switch (how) {
        case 0: bad->rank = 77; break;
        case 1: bad->epoch = 0; break;
        case 2: bad->epoch = 2; break;
        case 3: bad->step = 1; break;
        case 4: bad->step = UINT64_MAX; break;
        case 5: bad->loss = INFINITY; break;
        case 6: bad->loss = -1.0; break;
        case 7: bad->grad_norm = -INFINITY; break;
        case 8: bad->step_ns = 0; break;
        case 9: bad->layer[1].fwd_ns = UINT64_MAX; break;
        case 10: bad->layer[0].nnz = 10001; break;
        case 11: bad->layer[0].params = 1ull << 60; break;
        case 12: bad->n_layers = 1; break;
        case 13: bad->step = 90000; break; /* from the future */
        }
        dp_coord_report(w->c, w->now_ns, bad);
        n++;
    }
    dp_coord_report(w->c, w->now_ns, m);
    dp_coord_report(w->c, w->now_ns, m); /* the same once more */
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_int_equal(int_of(json_object_get(o, "counters"), "reports_dropped"), n + 1);
    json_decref(o);
    free(m);
    free(bad);
    end(w);
}

static void hello_that_contradicts_is_denied(void **state)
{
    (void)state;
    struct world *w = begin(18);
    struct dp_msg_hello m = {.job_id = 7, .rank = 1, .n_workers = 4, .n_layers = 8, .epoch = 1,
                             .steps_total = W_STEPS, .microbatches = 8, .tokens_per_microbatch = 64,
                             .cut = {0, 2, 4, 6, 8}};
    struct dp_msg_welcome v;

    world_start(w);
    world_run(w, 4.0, false);
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v); /* the same process again */
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    dp_coord_hello(w->c, w->now_ns, "n1", 999, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    dp_coord_hello(w->c, w->now_ns, "elsewhere", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    m.step_id = 5; /* a second srun while the first trains */
    dp_coord_hello(w->c, w->now_ns, "n1", 999, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    m.step_id = 0;
    m.n_layers = 9;
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    m.n_layers = 8;
    m.rank = 4;
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    end(w);
}

/* What is known to come is a word of the worker's like any other: the daemon looks ahead by it. */
static void hello_with_changes_that_none_can_be_is_denied(void **state)
{
    static const struct {
        struct dp_change change;
        const char *why;
    } say[] = {{{5, 1.5, DP_CHANGE_PRUNE}, "sparsity 1.5"}, {{5, 9, DP_CHANGE_FREEZE}, "9 frozen layers, the run has 8"},
               {{5, 0.5, 77}, "unknown kind 77"}, {{3, 0.5, DP_CHANGE_PRUNE}, "step 3 does not follow step 4"}};
    struct world *w = begin(18);
    struct dp_msg_hello m = {.job_id = 7, .rank = 1, .n_workers = 4, .n_layers = 8, .epoch = 1, .steps_total = W_STEPS,
                             .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 2, 4, 6, 8}, .n_changes = 2,
                             .change = {{4, 0.1, DP_CHANGE_PRUNE}}};
    struct dp_msg_welcome v;

    (void)state;
    world_start(w);
    world_run(w, 4.0, false);
    for (size_t i = 0; i < sizeof say / sizeof say[0]; i++) {
        m.change[1] = say[i].change;
        dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v);
        assert_int_equal(v.verdict, DP_VERDICT_DENIED);
        assert_non_null(strstr(v.text, say[i].why));
    }
    m.change[1] = (struct dp_change){5, 2, DP_CHANGE_FREEZE};
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    end(w);
}

/* A failed step can be resumed by the next one of the same job; what was given back stays so. */
static void a_new_step_goes_on_without_the_dead_slots(void **state)
{
    (void)state;
    struct world *w = begin(19);
    struct dp_msg_hello m = {.job_id = 7, .step_id = 1, .n_workers = 1, .n_layers = 8, .epoch = 1,
                             .steps_total = 100, .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 8}};
    struct dp_msg_worker_lost lost = {7, 0, 100, 1};
    struct dp_msg_welcome v;
    json_t *o;

    world_start(w);
    world_run(w, 90.0, false);
    dp_coord_worker_lost(w->c, w->now_ns, &lost);
    dp_coord_hello(w->c, w->now_ns, "n2", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_FENCED);
    dp_coord_hello(w->c, w->now_ns, "n0", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state"), "training");
    assert_string_equal(text_of(json_object_get(o, "layout"), "text"), "0-7");
    json_decref(o);
    end(w);
}

/* The next step of a job finds in the journal what the last one did to the job, and only that. */
static void a_step_after_the_end_knows_the_job(void **state)
{
    (void)state;
    struct world *w = begin(23);
    struct dp_msg_hello m = {.job_id = 7, .step_id = 1, .n_workers = 1, .n_layers = 8, .epoch = 1,
                             .steps_total = 100, .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 8}};
    struct dp_msg_welcome v;
    struct dp_err err;
    json_t *o;

    world_start(w);
    world_run(w, 90.0, false);
    dp_coord_end(w->c, w->now_ns, "the step ended");
    assert_int_equal(world_count(w, DP_REC_END), 1);
    dp_coord_destroy(w->c);
    w->job.n_nodes = 1; /* as Slurm shows it now */
    w->c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < w->n_records; i++)
        assert_int_equal(dp_coord_replay(w->c, w->record[i].type, w->record[i].payload, w->record[i].bytes, &err), 0);
    assert_true(dp_coord_is_over(w->c));
    assert_int_equal(dp_coord_begin(w->c, w->now_ns, &err), 0);
    dp_coord_hello(w->c, w->now_ns, "n2", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_FENCED);
    dp_coord_hello(w->c, w->now_ns, "n0", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state"), "training");
    assert_int_equal(int_of(json_object_get(o, "job"), "shrinks_used"), 1);
    assert_string_equal(text_of(json_array_get(json_object_get(o, "slots"), 3), "state"), "released");
    json_decref(o);
    end(w);
}

/* Steps of 3 s with a vote timeout of 5 s: the votes of a boundary may take five steps. */
static void votes_may_take_some_steps(void **state)
{
    (void)state;
    struct world *w = begin(31);
    struct dp_err err;
    json_t *o;

    w->limits.mode = DP_MODE_BALANCE;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->vote_ms = 9000;
    world_start(w);
    world_run(w, 4.0, false);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 12.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 0);
    o = report_of(w);
    assert_non_null(strstr(text_of(json_array_get(json_object_get(o, "handovers"), 0), "reason"), "within 5 s"));
    json_decref(o);
    w->step_ns = 3000000000ull;
    world_run(w, 6.0, false);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 12.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    end(w);
}

/* Before: the median of warm steps of the start layout. After: that of the last steps of the last. */
static void throughput_is_that_of_steady_steps(void **state)
{
    (void)state;
    struct world *w = begin(32);
    json_t *o;

    w->limits.mode = DP_MODE_OBSERVE;
    w->step_ns = 900000000; /* cold */
    world_start(w);
    world_run(w, 2.0, false);
    w->step_ns = 100000000;
    world_run(w, 5.0, false);
    w->step_ns = 40000000;
    world_run(w, 30.0, false);
    o = report_of(w);
    assert_int_equal(json_number_value(json_object_get(json_object_get(o, "throughput_start"), "step_ms")), 100);
    assert_int_equal(json_number_value(json_object_get(json_object_get(o, "throughput_now"), "step_ms")), 40);
    json_decref(o);
    end(w);
}

/* Each worker hears how long the job may run: at first, when that changes, and when it comes back, as worker 0 does here. */
static void workers_know_the_time_left(void **state)
{
    (void)state;
    struct world *w = begin(41);
    json_t *o;

    world_start(w);
    dp_coord_time_left(w->c, w->now_ns, 1234, 600000);
    world_run(w, 5.0, false);
    assert_int_equal(w->worker[0].n_limits, 1);
    assert_in_range(w->worker[0].left_ms, 594000, 600000);
    dp_coord_time_left(w->c, w->now_ns, 1234, 595500); /* the same end, in whole seconds */
    world_run(w, 2.0, false);
    assert_int_equal(w->worker[0].n_limits, 1);
    dp_coord_time_left(w->c, w->now_ns, 1234, 60000); /* scontrol update TimeLimit */
    o = report_of(w);
    assert_int_equal(int_of(json_object_get(o, "job"), "end_s"), 1234);
    json_decref(o);
    world_run(w, 2.0, false);
    assert_int_equal(w->worker[0].n_limits, 2);
    assert_in_range(w->worker[0].left_ms, 58000, 60000);
    w->worker[0].is_connected = false;
    w->worker[0].connect_at_ns = w->now_ns + 1000000000ull;
    world_run(w, 3.0, false);
    assert_int_equal(w->worker[0].n_limits, 3);
    assert_in_range(w->worker[0].left_ms, 53000, 57000);
    dp_coord_time_left(w->c, w->now_ns, 1234, DP_NO_TIME_LIMIT);
    world_run(w, 2.0, false);
    assert_int_equal(w->worker[0].n_limits, 4);
    assert_true(w->worker[0].left_ms == DP_NO_TIME_LIMIT);
    dp_coord_time_left(w->c, w->now_ns, 1234, 0); /* it is over, and the job still runs */
    world_run(w, 60.0, false);
    assert_int_equal(w->worker[0].n_limits, 5);
    assert_int_equal(w->worker[0].left_ms, 0);
    for (uint32_t r = 1; r < W_MAX; r++) {
        assert_int_equal(w->worker[r].n_limits, 4);
        assert_int_equal(w->worker[r].left_ms, 0);
    }
    end(w);
}

static double saving_of(json_t *o, const char *way, const char *key)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(o, "saving"), way), key));
}

/* A run of 1500 steps that packs and gives back, told step by step what it takes: what the coordinator says of the
 * layout that it started with is what that layout takes with the loads of each step. */
static void a_saving_is_that_of_a_real_fixed_run(void **state)
{
    (void)state;
    static const struct dp_layout start = {.n_workers = W_MAX, .n_layers = W_LAYERS, .cut = {0, 2, 4, 6, 8}};
    const uint32_t steps = 1500;

    for (uint32_t k = 0; k < 12; k++) {
        struct world *w = begin(200 + k);
        double fixed_s = 0.0, foreseen_s = 0.0, run_s, lent;
        json_t *o;

        for (uint32_t i = 0; i < steps; i++)
            fixed_s += (double)world_step_ns(&start, i) / 1e9;
        w->is_timed = true;
        w->steps_total = steps;
        w->limits.pack.max_slowdown = k % 2 ? 5.0 : 40.0;
        if (k >= 6)
            w->crash_at = 8 + k; /* a journal that is read again goes on from the sums in it */
        world_start(w);
        for (int i = 0; i < 600 && w->worker[0].step < steps; i++) {
            world_run(w, 1.0, false);
            if (!foreseen_s && w->c && w->worker[0].step > steps / 8) {
                o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
                foreseen_s = saving_of(o, "fixed", "time_s");
                json_decref(o);
            }
        }
        world_run(w, 2.0, false);
        assert_non_null(w->c);
        print_message("# foreseen after an eighth: %.1f s\n", foreseen_s);
        assert_true(fabs(foreseen_s - fixed_s) < 0.05 * fixed_s); /* with the loads of then it is 371 s */
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
        run_s = saving_of(o, "run", "time_s");
        print_message("# %u crashes: run %.1f s, fixed %.1f s (really %.1f s), balanced %.1f s\n", w->n_crashes, run_s,
                      saving_of(o, "fixed", "time_s"), fixed_s, saving_of(o, "balanced", "time_s"));
        assert_true(fabs(run_s - json_number_value(json_object_get(o, "now_s"))) < 1e-6);
        /* a journal that is read again has no prediction for the steps before it */
        assert_true(fabs(saving_of(o, "fixed", "time_s") - 2.0 - fixed_s) < (k < 6 ? 0.013 : 0.05) * fixed_s);
        assert_true(saving_of(o, "balanced", "time_s") <= saving_of(o, "fixed", "time_s") + 1e-6);
        assert_true(fabs(saving_of(o, "fixed", "device_s") - 4 * saving_of(o, "fixed", "time_s")) < 1e-6);
        assert_true(fabs(saving_of(o, "run", "device_s") - json_number_value(json_object_get(o, "device_seconds_held"))) < 0.01);
        lent = json_number_value(json_object_get(json_object_get(o, "saving"), "lent_device_s"));
        assert_true(lent > 0.0 && lent < 3 * fixed_s);
        assert_true(world_count(w, DP_REC_RELEASED) > 0);
        json_decref(o);
        end(w);
    }
}

/* Held to the time of the fixed layout a run ends at most so much later, whatever it gives back, and takes no more
 * device-seconds; what every number of slots would take stands in `explain`. */
static void no_later_than_promised(void **state)
{
    (void)state;
    static const double percent[] = {5.0, 40.0, 70.0};

    for (uint32_t k = 0; k < 3; k++) {
        struct world *w = begin(300 + k);
        const double overhead_s = 3.0; /* hand-overs stop this world for up to a second each */
        double fixed_s;
        uint32_t released;
        json_t *o, *trade, *last;

        w->is_timed = true;
        w->steps_total = 1500;
        w->job.shrinks_allowed = 100;
        w->limits.pack.reference = DP_REF_FIXED;
        w->limits.pack.objective = 1;
        w->limits.pack.max_slowdown = percent[k];
        world_start(w);
        for (int i = 0; i < 600 && w->worker[0].step < w->steps_total; i++)
            world_run(w, 1.0, false);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
        fixed_s = saving_of(o, "fixed", "time_s");
        released = world_count(w, DP_REC_RELEASED);
        print_message("# at most %g %% later: %.1f s for %.1f s, %.0f device-s for %.0f, %u slots given back\n", percent[k],
                      saving_of(o, "run", "time_s"), fixed_s, saving_of(o, "run", "device_s"), saving_of(o, "fixed", "device_s"),
                      released);
        assert_true(saving_of(o, "run", "time_s") <= fixed_s * (1.0 + percent[k] / 100.0) + overhead_s);
        assert_true(saving_of(o, "run", "device_s") <= saving_of(o, "fixed", "device_s") + 4 * overhead_s);
        assert_int_equal(released, k); /* of four, eight equal blocks: 36 % for the first, 64 % for the second */
        trade = json_object_get(o, "trade");
        assert_int_equal(json_array_size(trade), W_MAX - released);
        last = json_array_get(trade, json_array_size(trade) - 1);
        assert_int_equal(int_of(last, "slots"), W_MAX - released);
        assert_true(json_is_true(json_object_get(last, "chosen")) && strstr(text_of(last, "why"), "held now"));
        json_decref(o);
        end(w);
    }
}

/* What a run says of its size is not believed, and no decision may cost what it likes. Such a run trains on without a
 * coordinator: it is not ended. */
static void a_run_too_big_is_left_alone(void **state)
{
    (void)state;
    struct world *w = begin(34);
    struct dp_msg_hello m = {.job_id = 7, .step_id = 0, .n_workers = 4, .n_layers = 8, .epoch = 1, .steps_total = 100,
                             .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 2, 4, 6, 8}};
    struct dp_msg_welcome v;
    struct dp_err err = {0};

    w->job.n_tasks = 3;
    w->c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    assert_non_null(w->c);
    assert_int_equal(dp_coord_begin(w->c, w->now_ns, &err), 0);
    dp_coord_hello(w->c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_UNKNOWN);
    assert_non_null(strstr(v.text, "4 workers, but Slurm gave the job 3 tasks"));
    m.n_workers = 3;
    m.cut[3] = m.n_layers = DP_MAX_LAYERS;
    m.microbatches = DP_RUN_SIZE_MAX / 3 / DP_MAX_LAYERS + 1;
    dp_coord_hello(w->c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_UNKNOWN);
    assert_non_null(strstr(v.text, "x 1024 layers are more than"));
    m.microbatches--;
    dp_coord_hello(w->c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    end(w);
}

/* Slurm takes tasks away with the nodes: the run that is known already stays known. */
static void a_known_run_outgrows_its_job(void **state)
{
    (void)state;
    struct world *w = begin(40);
    json_t *o;

    world_start(w);
    world_run(w, 4.0, false);
    w->job.n_tasks = 1;
    w->crash_at = w->n_appends;
    world_run(w, 60.0, false);
    assert_true(w->n_crashes >= 1);
    o = report_of(w);
    assert_true(int_of(json_object_get(o, "counters"), "reports") > 0);
    json_decref(o);
    end(w);
}

/* Workers report at moments of their own, and the last steps end between two reports. */
static void the_loss_is_that_of_the_last_step(void **state)
{
    (void)state;
    struct world *w = begin(38);
    uint64_t last;
    json_t *o;

    world_start(w);
    for (int i = 0; i < 30; i++) {
        world_run(w, 0.4, false);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
        if (json_is_integer(json_object_get(o, "loss_step"))) {
            assert_int_equal(int_of(o, "loss_step"), int_of(o, "step"));
            assert_true(json_real_value(json_object_get(o, "loss")) == world_loss((uint64_t)int_of(o, "step")));
        }
        json_decref(o);
    }
    last = w->worker[0].step + 1000;
    for (uint32_t r = 0; r < W_MAX; r++) {
        struct dp_msg_goodbye bye = {.rank = r, .how = DP_BYE_COMPLETED, .step = last - r % 2, .loss = world_loss(last - r % 2)};

        dp_coord_goodbye(w->c, w->now_ns, &bye);
    }
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    assert_int_equal(int_of(o, "step"), (json_int_t)last);
    assert_int_equal(int_of(o, "loss_step"), (json_int_t)last);
    assert_true(json_real_value(json_object_get(o, "loss")) == world_loss(last));
    json_decref(o);
    end(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(garbage_is_dropped_and_counted),
    cmocka_unit_test(hello_that_contradicts_is_denied),
    cmocka_unit_test(hello_with_changes_that_none_can_be_is_denied),
    cmocka_unit_test(a_new_step_goes_on_without_the_dead_slots),
    cmocka_unit_test(a_step_after_the_end_knows_the_job),
    cmocka_unit_test(votes_may_take_some_steps),
    cmocka_unit_test(throughput_is_that_of_steady_steps),
    cmocka_unit_test(a_saving_is_that_of_a_real_fixed_run),
    cmocka_unit_test(no_later_than_promised),
    cmocka_unit_test(workers_know_the_time_left),
    cmocka_unit_test(a_run_too_big_is_left_alone),
    cmocka_unit_test(a_known_run_outgrows_its_job),
    cmocka_unit_test(the_loss_is_that_of_the_last_step),
};
TEST_MAIN("coord_steps", tests)
