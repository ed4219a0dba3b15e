/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator and trainers that are not ours (coord_world.h): what they cannot is not asked of them, whatever the mode says, and
 * people are told why. */
#include "tests/unit/unit.h"

#include <math.h>

#include "daemon/coord/internal.h"
#include "tests/unit/daemon/coord_check.h"

static bool was_noted(const struct world *w, const char *text)
{
    const struct dp_coord *c = w->c;

    for (uint32_t i = 0; i < c->history.n_events && i < COORD_EVENTS; i++)
        if (strstr(c->history.event[i].text, text))
            return true;
    return false;
}

static uint32_t times_noted(const struct world *w, const char *text)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->c->history.n_events && i < COORD_EVENTS; i++)
        n += strstr(w->c->history.event[i].text, text) != NULL;
    return n;
}

static json_t *status_of(const struct world *w)
{
    return dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
}

/* Packing would give three nodes back (test_coord_packing.c). One worker of four is enough. */
static void who_cannot_move_is_observed(void **state)
{
    struct world *w = begin(1);
    struct dp_err err;
    json_t *o, *k;

    (void)state;
    w->worker[2].is_fixed = true;
    w->trainer = "PyTorch 2.1, \x1b[31mmine.py";
    world_start(w);
    world_run(w, 30.0, false);
    world_crash(w); /* none of it is journalled: it is said again */
    world_run(w, 60.0, false);
    assert_true(w->n_crashes == 1 && world_is_settled(w));
    assert_int_equal(world_count(w, DP_REC_INTENT) + world_count(w, DP_REC_DRAIN), 0);
    assert_int_equal(times_noted(w, "observed: its trainer cannot move layers"), 1);
    o = status_of(w);
    assert_string_equal(text_of(o, "mode"), "observe");
    assert_string_equal(text_of(o, "state_text"), "training; observed: its trainer cannot move layers");
    k = json_object_get(o, "trainer");
    assert_string_equal(text_of(k, "name"), w->trainer); /* JSON escapes it */
    assert_string_equal(text_of(k, "mode_asked"), "release");
    assert_string_equal(text_of(k, "observed"), "its trainer cannot move layers");
    assert_true(json_is_false(json_object_get(k, "moves_layers")) && json_is_true(json_object_get(k, "leaves")));
    json_decref(o);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "3,1,2,2", &err), -1);
    assert_non_null(strstr(err.text, "its trainer cannot move layers"));
    end(w);
}

/* It is emptied like the others, and kept: of three nodes that could go two do. */
static void who_stays_is_emptied_and_kept(void **state)
{
    struct world *w = begin(1);
    struct dp_layout next;
    struct dp_err err;

    (void)state;
    w->worker[2].stays = true;
    world_start(w);
    world_run(w, 30.0, false);
    world_crash(w);
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_true(w->held[0] && !w->held[1] && w->held[2] && !w->held[3]);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 2);
    assert_true(w->worker[2].is_alive && !w->c->layout.gone[2] && coord_mode(w->c) == DP_MODE_RELEASE);
    next = w->c->layout; /* whoever wants it */
    next.cut[2] = next.cut[1] = W_LAYERS;
    next.cut[3] = W_LAYERS;
    next.gone[2] = 1;
    assert_int_equal(coord_migrate_begin(w->c, w->now_ns, &next, "test", &err), -1);
    assert_string_equal(err.text, "worker 2 does not leave before the run ends");
    end(w);
}

/* Its node drains: our workers would leave it. */
static void who_stays_stays_on_a_node_that_drains(void **state)
{
    struct world *w = begin(3);

    (void)state;
    w->worker[2].stays = true;
    train_unmoved(w);
    dp_coord_event(w->c, w->now_ns, 2, &(struct dp_msg_event){.kind = DP_EV_LEAVE, .value = DP_LEAVE_DRAINED});
    world_run(w, 10.0, false);
    assert_true(was_noted(w, "Slurm drains n2, and its workers stay there"));
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    end(w);
}

/* Layers that cost four times as much on one worker look like a slow device, unless they may differ: one of four says so. */
static void speeds_are_measured_only_where_all_promise(void **state)
{
    (void)state;
    for (int says = 0; says < 2; says++) {
        struct world *w = begin(5);

        w->density[0] = w->density[1] = w->density[2] = w->density[3] = w->density[4] = w->density[5] = 1.0;
        w->density[6] = w->density[7] = 0.2;
        w->n_freezes = 1; /* no pruning, and none of this before the run ends */
        w->freeze[0] = (struct dp_change){W_STEPS, 1, DP_CHANGE_FREEZE};
        w->all_params_left = true;
        w->worker[1].has_own_costs = says;
        train_unmoved(w);
        world_run(w, 6.0, false);
        assert_true(w->c->reference.n_snapshots > 0);
        assert_float_equal(w->c->worker[0].speed, 1.0, 0.0);
        if (says)
            assert_float_equal(w->c->worker[3].speed, 1.0, 0.0);
        else
            assert_true(w->c->worker[3].speed > 2.0);
        end(w);
    }
}

/* It does not go on without one that is lost: the run ends, and says why. */
static void a_lost_worker_of_a_foreign_trainer_ends_the_run(void **state)
{
    struct world *w = begin(7);
    json_t *o;

    (void)state;
    w->trainer = "mine";
    for (uint32_t r = 0; r < W_MAX; r++)
        w->worker[r].is_alone = true;
    train_unmoved(w);
    world_kill(w, 1);
    world_run(w, 5.0, false);
    o = status_of(w);
    assert_string_equal(text_of(o, "state"), "failed");
    assert_string_equal(text_of(o, "state_text"), "failed: worker 1 on n1 was lost (process 101); the run ends: its trainer does not go on "
                                                  "without a worker that is lost");
    json_decref(o);
    assert_int_equal(world_count(w, (enum dp_record)DP_REC_REGROUP), 0);
    for (uint32_t r = 0; r < W_MAX; r++)
        if (r != 1)
            dp_coord_goodbye(w->c, w->now_ns, &(struct dp_msg_goodbye){.rank = r, .how = DP_BYE_FAILED, .loss = NAN});
    assert_true(dp_coord_all_left(w->c));
    end(w);
}

/* Ten a second and 64 at once, of all workers together; how many were left out is said in one line, and those that Slurm's signal
 * makes are not counted. */
static void events_of_a_run_are_limited(void **state)
{
    struct dp_msg_event e = {.kind = DP_EV_EVAL, .value = 1.5}, leave = {.kind = DP_EV_LEAVE};
    struct world *w = begin(9);
    uint32_t before;
    json_t *o;

    (void)state;
    train_unmoved(w);
    before = w->c->history.n_events;
    for (uint32_t i = 0; i < 1000; i++) {
        dp_coord_event(w->c, w->now_ns, i % W_MAX, &e);
        dp_coord_event(w->c, w->now_ns, i % W_MAX, &leave);
    }
    assert_int_equal(w->c->history.n_events - before, 64);
    for (uint32_t i = 0; i < 30; i++) { /* 3 s */
        dp_coord_event(w->c, w->now_ns + i * 100000000ull, 1, &e);
        dp_coord_event(w->c, w->now_ns + i * 100000000ull, 2, &e);
    }
    assert_int_equal(w->c->history.n_events - before, 64 + 29);
    world_run(w, 15.0, false);
    assert_int_equal(times_noted(w, "events were not taken"), 1);
    assert_true(was_noted(w, "967 events were not taken: a run may send ten a second"));
    for (uint32_t i = 0; i < 70; i++)
        dp_coord_event(w->c, w->now_ns, 1, &e);
    dp_coord_end(w->c, w->now_ns, "test");
    assert_true(was_noted(w, "6 events were not taken"));
    o = status_of(w);
    assert_int_equal(int_of(json_object_get(o, "counters"), "events_not_taken"), 973);
    json_decref(o);
    end(w);
}

/* One process that says to be step after step: each is journalled, so they are limited. It may come back. */
static void steps_of_a_job_are_limited(void **state)
{
    struct dp_msg_hello *m = calloc(1, sizeof *m);
    uint32_t n_ok = 0, n_later = 0;
    struct dp_msg_welcome welcome;
    struct world *w = begin(11);

    (void)state;
    *m = (struct dp_msg_hello){.job_id = w->job.job_id, .n_workers = 1, .n_layers = 2, .steps_total = 9, .microbatches = 1,
                               .tokens_per_microbatch = 1, .cut = {0, 2}};
    w->c = dp_coord_create(&w->job, &w->limits, &w->ops, w, NULL);
    assert_int_equal(dp_coord_begin(w->c, w->now_ns, NULL), 0);
    for (uint32_t i = 0; i < 100; i++) {
        m->step_id = i + 1;
        dp_coord_hello(w->c, w->now_ns, "n0", 100, m, &welcome);
        n_ok += welcome.verdict == DP_VERDICT_OK;
        n_later += welcome.verdict == DP_VERDICT_UNKNOWN && !strcmp(welcome.text, "steps of this job begin too fast");
        dp_coord_goodbye(w->c, w->now_ns, &(struct dp_msg_goodbye){.how = DP_BYE_FAILED, .loss = NAN});
    }
    assert_int_equal(n_ok, 17); /* the first one, and a burst */
    assert_int_equal(n_later, 83);
    dp_coord_hello(w->c, w->now_ns + 1000000000ull, "n0", 100, m, &welcome);
    assert_int_equal(welcome.verdict, DP_VERDICT_OK);
    free(m);
    end(w);
}

/* --- what it should begin again with --- */

static struct world *fixed(uint64_t seed, enum dp_mode mode)
{
    struct world *w = begin(seed);

    w->limits.mode = mode;
    for (uint32_t r = 0; r < W_MAX; r++)
        w->worker[r].is_fixed = true;
    return w;
}

static json_t *proposal_of(struct world *w)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN), *p = json_incref(json_object_get(o, "proposal"));

    json_decref(o);
    return p;
}

static uint32_t n_gone(const struct dp_msg_proposal *p)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < W_MAX; r++)
        n += p->gone[r];
    return n;
}

static void all_have(const struct world *w, const char *what, uint32_t gone)
{
    struct dp_layout l = {.n_workers = W_MAX, .n_layers = W_LAYERS};
    char text[64];

    for (uint32_t r = 0; r < W_MAX; r++) {
        const struct dp_msg_proposal *p = &w->worker[r].proposal;

        assert_true(p->number == w->c->proposal.number && p->incarnation == w->c->life.incarnation);
        assert_true(p->n_workers == W_MAX && p->n_layers == W_LAYERS && p->now_ns > 0.0 && p->then_ns > 0.0);
        memcpy(l.cut, p->cut, sizeof l.cut);
        memcpy(l.gone, p->gone, sizeof l.gone);
        dp_layout_format(&l, text, sizeof text);
        assert_string_equal(text, what);
        assert_int_equal(n_gone(p), gone);
    }
}

/* The same run packs onto one node where its layers move (test_coord_packing.c), and there it needs the only shrink of its job. */
static void who_cannot_move_hears_what_to_begin_again_with(void **state)
{
    struct world *w = fixed(1, DP_MODE_RELEASE);
    uint32_t n[W_MAX];
    json_t *p;

    (void)state;
    w->job.shrinks_allowed = 0;
    world_start(w);
    world_run(w, 4.0, false);
    all_have(w, "0-1|2-3|4-5|6-7", 0); /* the first word, after a restart of the daemon, too: a former one is taken back */
    p = proposal_of(w);
    assert_true(json_is_null(p));
    json_decref(p);
    world_run(w, 60.0, false);
    all_have(w, "0-7|x|x|x", 3);
    assert_true(w->worker[0].n_proposals == w->worker[0].proposal.number && w->worker[0].n_proposals < 12);
    p = proposal_of(w);
    assert_string_equal(text_of(p, "text"), "0-7|x|x|x");
    assert_int_equal(int_of(p, "workers"), 1);
    assert_string_equal(text_of(p, "megatron_layout"), "Et*8L"); /* all layers are alike: Megatron's ends come besides */
    assert_string_equal(text_of(p, "deepspeed_parts"), "[0, 8]");
    assert_true(json_real_value(json_object_get(p, "then_ms")) > 0.0);
    json_decref(p);
    assert_int_equal(world_count(w, DP_REC_INTENT) + world_count(w, DP_REC_DRAIN), 0);
    for (uint32_t r = 0; r < W_MAX; r++)
        n[r] = w->worker[r].n_proposals;
    w->worker[2].is_connected = false; /* and comes back */
    world_run(w, 5.0, false);
    assert_true(w->worker[2].n_proposals == n[2] + 1 && w->worker[1].n_proposals == n[1]);
    world_crash(w);
    world_run(w, 20.0, false);
    assert_int_equal(w->c->life.incarnation, 2);
    all_have(w, "0-7|x|x|x", 3);
    end(w);
}

static void a_proposal_keeps_to_mode_and_traits(void **state)
{
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        struct world *w = fixed(1, stays ? DP_MODE_RELEASE : DP_MODE_BALANCE);

        for (uint32_t r = 0; r < W_MAX; r++)
            w->worker[r].stays = stays;
        w->density[0] = w->density[1] = 1.0; /* and the rest is pruned: 3 layers of the others for each of them */
        world_start(w);
        world_run(w, 60.0, false);
        assert_true(w->worker[0].proposal.number > 1);
        assert_int_equal(w->worker[0].proposal.cut[1], 1);
        assert_int_equal(n_gone(&w->worker[0].proposal), 0);
        end(w);
    }
}

/* Layers change back: what was proposed is better no more. */
static void a_proposal_is_taken_back(void **state)
{
    struct world *w = fixed(3, DP_MODE_BALANCE);
    uint64_t number;
    json_t *p;

    (void)state;
    w->n_freezes = 1; /* none before the end */
    w->freeze[0] = (struct dp_change){W_STEPS, 1, DP_CHANGE_FREEZE};
    w->all_params_left = w->blocks_differ = true;
    for (uint32_t l = 2; l < W_LAYERS; l++)
        w->density[l] = 0.2;
    world_start(w);
    world_run(w, 10.0, false);
    number = w->worker[3].proposal.number;
    assert_true(number > 0 && w->worker[3].proposal.cut[1] == 1);
    for (uint32_t l = 0; l < W_LAYERS; l++)
        w->density[l] = 1.0;
    world_run(w, 10.0, false);
    assert_true(w->worker[3].proposal.number > number);
    all_have(w, "0-1|2-3|4-5|6-7", 0);
    p = proposal_of(w);
    assert_true(json_is_null(p));
    json_decref(p);
    end(w);
}

/* It could move, but is to be looked at only: people see the same, and no worker is told. */
static void an_observed_run_shows_what_would_be_done(void **state)
{
    struct world *w = begin(1);
    json_t *p;

    (void)state;
    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 60.0, false);
    p = proposal_of(w);
    assert_string_equal(text_of(p, "text"), "0-7|x|x|x");
    json_decref(p);
    for (uint32_t r = 0; r < W_MAX; r++)
        assert_int_equal(w->worker[r].n_proposals, 0);
    end(w);
}

/* --- what it expects --- */

#define FIRST 140u  /* as in test_coord_freeze.c */
#define SECOND 280u

/* Of worker 1: layers 0 to n - 1 will be frozen, as the world's are then. */
static void expect_frozen(struct world *w, uint64_t step, uint32_t n)
{
    struct dp_msg_expect *m = calloc(1, sizeof *m);

    m->rank = 1;
    m->step = step;
    m->n_layers = n;
    for (uint32_t l = 0; l < n; l++)
        m->layer[l] = (struct dp_layer_load){(uint64_t)(1e6 * (1.0 + 0.1 * (l % 3))), 0, 0, 25000, 0, 10000, 10000};
    dp_coord_expect(w->c, w->now_ns, m);
    free(m);
}

static struct world *freezing(uint64_t seed, bool is_told)
{
    struct world *w = begin(seed);

    w->freeze[0] = (struct dp_change){FIRST, W_LAYERS / 2, DP_CHANGE_FREEZE};
    w->freeze[1] = (struct dp_change){SECOND, 6, DP_CHANGE_FREEZE};
    w->n_freezes = 2;
    w->freezes_by_rule = !is_told; /* HELLO has no list */
    w->blocks_differ = true; /* else a prefix that costs less looks like a fast device in one of the two, for a moment */
    return w;
}

static bool was_reason(const struct world *w, const char *text)
{
    const struct dp_coord *c = w->c;

    for (uint32_t i = 0; i < c->history.n_decisions && i < COORD_DECISIONS; i++)
        if (strstr(c->history.decision[i].release_reason, text))
            return true;
    return false;
}

/* As the list of changes does (test_coord_freeze.c), what is expected makes the only shrink wait. */
static void the_only_shrink_waits_for_what_is_expected(void **state)
{
    struct world *w = freezing(3, false);
    json_t *o, *list;

    (void)state;
    world_start(w);
    world_run(w, 4.0, false);
    expect_frozen(w, SECOND, 6);
    expect_frozen(w, FIRST, 4);
    assert_true(coord_first_change(w->c) == FIRST);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN);
    list = json_object_get(o, "expected");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(int_of(json_array_get(list, 0), "step"), FIRST);
    assert_int_equal(int_of(json_array_get(list, 1), "layers"), 6);
    assert_float_equal(json_real_value(json_object_get(json_array_get(list, 1), "microbatch_ms")), 6.6, 1e-9);
    json_decref(o);
    world_run(w, 8.0, false);
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 0);
    assert_true(was_reason(w, "wait:") && was_reason(w, "by freeing 2 at step 280"));
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 1);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 2);
    end(w);
}

/* What the steps that are left take, beside one of now: exactly as by the list. */
static void what_is_left_is_told_as_by_the_list(void **state)
{
    double mean[2];

    (void)state;
    for (int is_told = 0; is_told < 2; is_told++) {
        struct world *w = freezing(4, is_told);

        w->steps_total = 1000;
        w->limits.mode = DP_MODE_OBSERVE;
        snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
        world_start(w);
        world_run(w, 2.0, false);
        if (!is_told) {
            expect_frozen(w, FIRST, 4);
            expect_frozen(w, SECOND, 6);
        }
        world_run(w, 3.0, false);
        mean[is_told] = w->c->predicted.left_mean;
        end(w);
    }
    assert_true(mean[0] > 0.1 && mean[0] < 0.95);
    assert_float_equal(mean[0], mean[1], 1e-12);
}

/* Of a slow device: its time is worth less on one of speed 1. */
static void what_is_expected_is_in_the_time_of_its_owner(void **state)
{
    struct coord_known *known = calloc(1, sizeof *known);
    struct world *w = freezing(5, false);
    double speed[W_MAX] = {1.0, 0.5, 1.0, 2.0};

    (void)state;
    train_unmoved(w);
    expect_frozen(w, FIRST, 4);
    coord_foresight(w->c, speed, 0.0, known);
    assert_true(known->f.n_expected == 1 && known->f.expected[0].step == FIRST);
    assert_true(known->f.speed[1] == 1.0 && known->f.speed[2] == 0.5 && known->f.speed[7] == 2.0);
    w->c->train.step = FIRST; /* it is not to come any more: reports show it */
    coord_foresight(w->c, speed, 0.0, known);
    assert_int_equal(known->f.n_expected, 0);
    free(known);
    end(w);
}

static void is_refused(struct world *w, const struct dp_msg_expect *m, const char *why)
{
    uint64_t n = w->c->reports.n_ignored;
    uint32_t kept = w->c->expect.n;

    dp_coord_expect(w->c, w->now_ns, m);
    assert_true(w->c->reports.n_ignored == n + 1 && w->c->expect.n == kept);
    assert_non_null(strstr(w->c->reports.dropped_why, why));
}

static void nonsense_is_not_expected(void **state)
{
    static struct dp_msg_expect good, m;
    struct world *w = freezing(6, false);

    (void)state;
    train_unmoved(w);
    good = (struct dp_msg_expect){.rank = 2, .step = 500, .first_layer = 6, .n_layers = 2};
    good.layer[0] = good.layer[1] = (struct dp_layer_load){5, 5, 5, 100, 10, 10000, 10};
    m = good, m.first_layer = 7;
    is_refused(w, &m, "layers that there are not");
    m = good, m.first_layer = UINT32_MAX;
    is_refused(w, &m, "layers that there are not");
    m = good, m.step = W_STEPS + 1;
    is_refused(w, &m, "beyond the end");
    m = good, m.rank = 77;
    is_refused(w, &m, "unknown worker");
    m = good, m.layer[1].bwd_weight_ns = UINT64_MAX;
    is_refused(w, &m, "out of range");
    m = good, m.layer[1].params = 9999;
    is_refused(w, &m, "parameters of a layer do not fit");
    m = good, m.layer[1].nnz = 10001;
    is_refused(w, &m, "parameters of a layer do not fit");
    for (uint32_t i = 0; i < DP_EXPECTED_MAX; i++) {
        good.step = 1000 - i;
        dp_coord_expect(w->c, w->now_ns, &good);
        dp_coord_expect(w->c, w->now_ns, &good); /* again: the same one */
    }
    assert_true(w->c->expect.n == DP_EXPECTED_MAX && w->c->expect.at[0]->said_ns == 30);
    for (uint32_t i = 1; i < DP_EXPECTED_MAX; i++)
        assert_true(w->c->expect.at[i - 1]->step < w->c->expect.at[i]->step);
    m = good, m.step = 2000;
    is_refused(w, &m, "too many steps");
    w->c->train.step = 940; /* the oldest have come, and make room */
    dp_coord_expect(w->c, w->now_ns, &m);
    assert_true(w->c->expect.n == DP_EXPECTED_MAX && w->c->expect.at[DP_EXPECTED_MAX - 1]->step == 2000);
    m.n_layers = 0; /* taken back */
    dp_coord_expect(w->c, w->now_ns, &m);
    dp_coord_expect(w->c, w->now_ns, &m);
    assert_true(w->c->expect.n == DP_EXPECTED_MAX - 1 && w->c->expect.at[w->c->expect.n - 1]->step == 1000);
    coord_step_reset(w->c);
    assert_int_equal(w->c->expect.n, 0);
    end(w);
}

/* No time at all, and more than 64 bits hold: the run is decided for as without. */
static void extremes_hurt_nobody(void **state)
{
    (void)state;
    for (int is_huge = 0; is_huge < 2; is_huge++) {
        static struct dp_msg_expect m;
        struct world *w = begin(1);
        uint32_t n = 0;

        w->limits.pack.reference = is_huge ? DP_REF_START : DP_REF_FIXED;
        world_start(w);
        world_run(w, 4.0, false);
        m = (struct dp_msg_expect){.rank = 0, .step = 5000, .n_layers = W_LAYERS};
        for (uint32_t l = 0; l < W_LAYERS; l++)
            m.layer[l] = is_huge ? (struct dp_layer_load){3600 * DP_SECOND_NS, 3600 * DP_SECOND_NS, 3600 * DP_SECOND_NS, 1ull << 50,
                                                          1ull << 50, 10000, 10000}
                                 : (struct dp_layer_load){.params = 10000};
        dp_coord_expect(w->c, w->now_ns, &m);
        assert_int_equal(w->c->expect.n, 1);
        world_run(w, 60.0, false);
        for (uint32_t i = 0; i < w->c->history.n_decisions; i++)
            n += w->c->history.decision[i].count;
        assert_true(n > 20 && !w->c->n_policy_failures && !w->c->life.failed[0]);
        end(w);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(who_cannot_move_is_observed),
    cmocka_unit_test(who_stays_is_emptied_and_kept),
    cmocka_unit_test(who_stays_stays_on_a_node_that_drains),
    cmocka_unit_test(speeds_are_measured_only_where_all_promise),
    cmocka_unit_test(a_lost_worker_of_a_foreign_trainer_ends_the_run),
    cmocka_unit_test(events_of_a_run_are_limited),
    cmocka_unit_test(steps_of_a_job_are_limited),
    cmocka_unit_test(who_cannot_move_hears_what_to_begin_again_with),
    cmocka_unit_test(a_proposal_keeps_to_mode_and_traits),
    cmocka_unit_test(a_proposal_is_taken_back),
    cmocka_unit_test(an_observed_run_shows_what_would_be_done),
    cmocka_unit_test(the_only_shrink_waits_for_what_is_expected),
    cmocka_unit_test(what_is_left_is_told_as_by_the_list),
    cmocka_unit_test(what_is_expected_is_in_the_time_of_its_owner),
    cmocka_unit_test(nonsense_is_not_expected),
    cmocka_unit_test(extremes_hurt_nobody),
};
TEST_MAIN("coord_trainer", tests)
