/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): a run asks for slices, and a queue starts them, or does not. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

#define GROW 27 /* record, coord/internal.h */

/* What Slurm's queue, and home's daemon, make of what the coordinator wants. */
struct queue {
    bool is_full;       /* nothing begins */
    const char *refusal; /* NULL: whatever is asked for is taken in */
    bool fails;         /* what begins ends at once */
    uint32_t number;    /* of the request that is served */
    uint32_t n_waiting, n_ended, n_submitted, n_withdrawn;
    uint32_t job;       /* the next one's id */
};

static bool is_there(const struct world *w, uint32_t r)
{
    return w->held[r] && w->job.slice[r];
}

static uint32_t n_there(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < W_MAX; r++)
        n += is_there(w, r);
    return n;
}

static uint32_t n_in(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < W_MAX; r++)
        n += w->worker[r].is_alive && !w->worker[r].layout.gone[r] && !w->worker[r].is_newcomer;
    return n;
}

/* One that began, and has no seat yet. */
static uint32_t n_begun(struct world *w)
{
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof w->comer / sizeof w->comer[0]; i++) {
        if (w->comer[i].is_seated || w->comer[i].is_refused)
            memset(&w->comer[i], 0, sizeof w->comer[i]);
        n += w->comer[i].slice != 0;
    }
    return n;
}

/* As slicing_follow_companions() of daemon/run/slices/want.c: as many as are wanted, waiting and running together. */
static void serve(struct world *w, struct queue *q)
{
    struct dp_coord_growth g;
    struct dp_coord_growth_news news = {.refusal = ""};
    uint32_t wanted, missing, begun = n_begun(w), running = n_there(w) - 1 + begun;

    if (!w->c || w->has_crashed)
        return;
    wanted = dp_coord_slices_wanted(w->c, &missing);
    if (!wanted)
        return;
    if (running + q->n_waiting + 1 > wanted && q->n_waiting) {
        uint32_t keep = wanted > running + 1 ? wanted - running - 1 : 0;

        q->n_withdrawn += q->n_waiting - keep;
        q->n_waiting = keep;
    }
    dp_coord_grows(w->c, &g);
    if (g.is_asked && g.number != q->number) {
        q->number = g.number;
        q->n_ended = 0;
    }
    if (g.is_asked && !q->refusal)
        for (; running + q->n_waiting + q->n_ended + 1 < wanted; q->n_waiting++)
            q->n_submitted++;
    else if (!g.is_asked && missing && !q->n_waiting && !begun && !q->refusal) /* one that was lost, or taken */
        q->n_waiting = missing;
    if (q->n_waiting && !q->is_full && begun < 4) {
        q->n_waiting--;
        if (q->fails)
            q->n_ended++;
        else
            (void)world_come(w, "n1", q->job++, 0);
    }
    news = (struct dp_coord_growth_news){q->n_waiting, n_there(w) - 1 + n_begun(w), q->n_ended, q->refusal ? q->refusal : ""};
    if (g.is_asked)
        dp_coord_growth_told(w->c, w->now_ns, &news);
}

static void go_on(struct world *w, struct queue *q, double seconds, bool with_faults)
{
    for (double t = 0.0; t < seconds && !w->broken[0]; t += 0.5) {
        world_run(w, 0.5, with_faults);
        serve(w, q);
        if (w->limits.growth.max_gpus && n_there(w) > w->limits.growth.max_gpus)
            fail_msg("%u slices are there, %u may be", n_there(w), w->limits.growth.max_gpus);
    }
}

static void loads(struct world *w, double density)
{
    for (uint32_t l = 0; l < W_LAYERS; l++)
        w->density[l] = density;
}

static json_t *growth_of(struct world *w)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS), *g = json_incref(json_object_get(o, "growth"));

    json_decref(o);
    return g;
}

static void is_growth(struct world *w, const char *state, uint32_t wanted, uint32_t n)
{
    json_t *g = growth_of(w);

    assert_non_null(g);
    if (strcmp(text_of(g, "state"), state) != 0 || int_of(g, "wanted") != wanted || int_of(g, "requests") != n)
        fail_msg("%s: %s: %u wanted, %u requests; not %s, %u, %u: %s; %s", text_of(g, "state"), text_of(g, "text"),
                 (unsigned)int_of(g, "wanted"), (unsigned)int_of(g, "requests"), state, wanted, n, text_of(g, "reason"),
                 text_of(g, "decision"));
    json_decref(g);
}

static struct world *begin_growing(uint64_t seed, uint32_t n_there, uint8_t mode)
{
    struct world *w = begin(seed);

    if (n_there < W_MAX)
        world_slice_few(w, n_there);
    else
        world_slice(w);
    w->limits.mode = mode;
    w->limits.pack.reference = DP_REF_START;
    w->limits.growth = (struct dp_growth_limits){.slices = n_there, .max_gpus = W_MAX, .wait_s = 20.0, .cooldown_s = 2.0};
    loads(w, 1.0);
    world_start(w);
    return w;
}

/* Given back while layers are cheap, asked for again when they are not, as often as that changes. */
static void release_and_growth_take_turns(void **state)
{
    struct queue q = {.job = 301};
    struct world *w = begin_growing(61, W_MAX, DP_MODE_RELEASE);

    (void)state;
    go_on(w, &q, 10.0, false);
    for (uint32_t turn = 1; turn <= 3; turn++) {
        loads(w, 0.1);
        go_on(w, &q, 60.0, false);
        assert_true(n_in(w) < W_MAX);
        assert_int_equal(q.n_waiting, 0);
        go_on(w, &q, 60.0, false);
        is_growth(w, turn > 1 ? "joined" : "none", n_in(w), turn - 1); /* they are not asked for again as long as nothing changes */
        loads(w, 1.0);
        for (int i = 0; i < 20 && n_in(w) < W_MAX; i++)
            go_on(w, &q, 10.0, false);
        is_growth(w, "joined", W_MAX, turn);
        assert_int_equal(n_in(w), W_MAX);
        if (turn == 2)
            world_crash(w);
        go_on(w, &q, 20.0, false);
    }
    assert_int_equal(n_there(w), W_MAX);
    end(w);
}

/* In mode balance more of them are faster, and they are idle. */
static void speed_is_wanted(void **state)
{
    struct queue q = {.job = 301};
    struct world *w = begin_growing(62, 2, DP_MODE_BALANCE);

    (void)state;
    go_on(w, &q, 40.0, false);
    is_growth(w, "joined", W_MAX, 1);
    assert_int_equal(n_in(w), W_MAX);
    assert_int_equal(q.n_submitted, 2);
    go_on(w, &q, 60.0, false);
    is_growth(w, "joined", W_MAX, 1);
    end(w);
}

/* Layers that become dear move, and more slices are asked for at once: noise may move some as soon as a layout has been measured. */
static void layers_that_move_do_not_keep_it_waiting(void **state)
{
    struct queue q = {.job = 301};
    struct world *w = begin_growing(67, 2, DP_MODE_RELEASE);
    uint64_t epoch;

    (void)state;
    loads(w, 0.1);
    go_on(w, &q, 20.0, false);
    is_growth(w, "none", 2, 0);
    epoch = w->worker[0].layout.epoch;
    for (uint32_t l = 0; l < W_LAYERS / 2; l++)
        w->density[l] = 1.0;
    for (int i = 0; i < 200 && w->worker[0].layout.epoch == epoch; i++)
        go_on(w, &q, 0.1, false);
    assert_int_not_equal(w->worker[0].layout.epoch, epoch);
    assert_int_equal(n_in(w), 2);
    assert_true(q.n_submitted);
    end(w);
}

/* Who may not grow does not, and a journal of his has no word of it. */
static void nobody_grows_unasked(void **state)
{
    struct queue q = {.job = 301};
    struct world *w;

    (void)state;
    for (int i = 0; i < 2; i++) {
        w = begin_growing(63, 2, i ? DP_MODE_BALANCE : DP_MODE_OBSERVE);
        dp_coord_destroy(w->c);
        w->c = NULL;
        w->n_records = 0;
        w->limits.growth = (struct dp_growth_limits){.slices = 2, .max_gpus = i ? 0 : W_MAX, .wait_s = 20.0, .cooldown_s = 2.0};
        world_start(w);
        go_on(w, &q, 40.0, false);
        assert_int_equal(n_in(w), 2);
        assert_int_equal(q.n_submitted, 0);
        assert_int_equal(world_count(w, (enum dp_record)GROW), 0);
        end(w);
    }
}

/* No GPU is idle: what waits too long is withdrawn, and asked for less and less often. */
static void a_queue_that_is_full(void **state)
{
    struct queue q = {.job = 301, .is_full = true};
    struct world *w = begin_growing(64, 2, DP_MODE_BALANCE);
    uint32_t n_asked;
    json_t *g;

    (void)state;
    go_on(w, &q, 12.0, false);
    is_growth(w, "asked", W_MAX, 1);
    assert_int_equal(q.n_waiting, 2);
    world_crash(w); /* the time goes on, and nothing is asked for twice */
    go_on(w, &q, 4.0, false);
    is_growth(w, "asked", W_MAX, 1);
    go_on(w, &q, 20.0, false);
    assert_int_equal(q.n_withdrawn, 2);
    assert_int_equal(n_in(w), 2);
    g = growth_of(w);
    n_asked = (uint32_t)int_of(g, "requests");
    assert_true(n_asked <= 2);
    assert_non_null(strstr(text_of(g, "text"), n_asked == 1 ? "not all of them have come in" : ""));
    json_decref(g);
    go_on(w, &q, 600.0, false);
    g = growth_of(w);
    n_asked = (uint32_t)int_of(g, "requests");
    json_decref(g);
    assert_in_range(n_asked, 5, 10); /* 20 s each, and pauses of 2, 4, 8 ... 128 s */
    q.is_full = false;
    go_on(w, &q, 200.0, false);
    is_growth(w, "joined", W_MAX, q.number);
    assert_int_equal(n_in(w), W_MAX);
    end(w);
}

static void slurm_refuses(void **state)
{
    struct queue q = {.job = 301, .refusal = "Job violates accounting/QOS policy"};
    struct world *w = begin_growing(65, 2, DP_MODE_BALANCE);
    json_t *g;

    (void)state;
    go_on(w, &q, 9.0, false);
    g = growth_of(w);
    assert_string_equal(text_of(g, "state"), "refused");
    assert_string_equal(text_of(g, "text"), "Job violates accounting/QOS policy");
    assert_true(json_number_value(json_object_get(g, "pause_s")) >= 0.0);
    json_decref(g);
    go_on(w, &q, 300.0, false);
    assert_int_equal(n_in(w), 2);
    g = growth_of(w);
    assert_in_range(int_of(g, "requests"), 3, 9);
    json_decref(g);
    end(w);
}

/* The jobs end before they join, whatever it is. */
static void jobs_that_end(void **state)
{
    struct queue q = {.job = 301, .fails = true};
    struct world *w = begin_growing(66, 2, DP_MODE_BALANCE);
    json_t *g;

    (void)state;
    go_on(w, &q, 11.0, false);
    g = growth_of(w);
    assert_string_equal(text_of(g, "state"), "ended");
    json_decref(g);
    go_on(w, &q, 120.0, false);
    assert_true(q.n_submitted <= 14);
    q.fails = false;
    go_on(w, &q, 200.0, false);
    assert_int_equal(n_in(w), W_MAX);
    end(w);
}

/* The disk takes no record: nothing is asked for before it does. */
static void not_journalled_not_asked(void **state)
{
    struct queue q = {.job = 301};
    struct world *w = begin_growing(67, 2, DP_MODE_BALANCE);

    (void)state;
    w->fail_type = (enum dp_record)GROW;
    go_on(w, &q, 30.0, false);
    assert_int_equal(q.n_submitted, 0);
    assert_int_equal(world_count(w, (enum dp_record)GROW), 0);
    w->is_disk_full = false;
    go_on(w, &q, 30.0, false);
    assert_int_equal(n_in(w), W_MAX);
    end(w);
}

/* The run ends soon: it would not pay. */
static void too_late_to_pay(void **state)
{
    struct queue q = {.job = 301};
    struct world *w = begin_growing(68, 2, DP_MODE_BALANCE);

    (void)state;
    dp_coord_time_left(w->c, w->now_ns, 100, 14000);
    go_on(w, &q, 13.0, false);
    is_growth(w, "none", 2, 0);
    dp_coord_time_left(w->c, w->now_ns, 0, DP_NO_TIME_LIMIT);
    go_on(w, &q, 30.0, false);
    assert_int_equal(n_in(w), W_MAX);
    end(w);
}

/* Killed before or after every record on the way from a request to its end: it is neither made twice nor forgotten. */
static void killed_at_any_record(void **state)
{
    uint32_t n = 0;

    (void)state;
    for (uint32_t k = 0; k < 40; k++)
        for (int before = 0; before < 2; before++) {
            struct queue q = {.job = 301};
            struct world *w = begin_growing(69, 2, DP_MODE_BALANCE);

            w->crash_at = w->n_appends + k;
            w->crash_before = before;
            go_on(w, &q, 60.0, false);
            n += w->n_crashes;
            is_growth(w, "joined", W_MAX, 1);
            assert_int_equal(q.n_submitted, 2);
            assert_int_equal(n_in(w), W_MAX);
            end(w);
        }
    assert_true(n > 20);
}

/* The same of one that is given up: what waits is withdrawn, and nothing is left of it. */
static void killed_while_it_is_given_up(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 12; k++)
        for (int before = 0; before < 2; before++) {
            struct queue q = {.job = 301, .is_full = true};
            struct world *w = begin_growing(70, 2, DP_MODE_BALANCE);

            w->limits.growth.cooldown_s = 1000.0;
            dp_coord_destroy(w->c);
            w->c = NULL;
            w->n_records = 0;
            world_start(w);
            w->crash_at = w->n_appends + k;
            w->crash_before = before;
            go_on(w, &q, 70.0, false);
            is_growth(w, "withdrawn", 2, 1);
            assert_int_equal(q.n_submitted, 2);
            assert_int_equal(q.n_withdrawn, 2);
            assert_int_equal(q.n_waiting, 0);
            end(w);
        }
}

/* A journal that would index beyond what there is, or asks for more than there are seats, is none. */
static void a_damaged_request(void **state)
{
    struct queue q = {.job = 301};
    struct world *w = begin_growing(71, 2, DP_MODE_BALANCE);
    struct dp_err err;

    (void)state;
    go_on(w, &q, 30.0, false);
    is_growth(w, "joined", W_MAX, 1);
    for (uint32_t i = 0; i < w->n_records; i++) {
        struct world_record *r = &w->record[i], bad = *r;

        if (r->type != (enum dp_record)GROW)
            continue;
        assert_int_equal(dp_coord_replay(w->c, r->type, r->payload, r->bytes, &err), 0);
        for (uint32_t at = 0; at < 14; at++) { /* state, why, and the upper halves of the counts */
            bad = *r;
            bad.payload[at] ^= at < 2 ? 0x40 : at % 4 == 2 ? 0x01 : 0;
            if (memcmp(&bad, r, sizeof bad) != 0)
                assert_int_equal(dp_coord_replay(w->c, bad.type, bad.payload, bad.bytes, &err), -1);
        }
        for (uint32_t n = 0; n < r->bytes; n++)
            assert_int_equal(dp_coord_replay(w->c, r->type, r->payload, n, &err), -1);
    }
    end(w);
}

/* Slices are lost, taken and given back while others are asked for; daemons and disks fail. It never has more than it may, and in the
 * end as many as are worth it. */
static void random_faults(void **state)
{
    uint32_t n_joined = 0, n_runs = 100;

    (void)state;
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct queue q = {.job = 301};
        struct world *w = begin_growing(seed + 600, seed % 2 ? W_MAX : 2, seed % 4 < 3 ? DP_MODE_RELEASE : DP_MODE_BALANCE);
        uint32_t victim, enough = seed % 4 < 3 && seed % 2 == 0 ? 2 : W_MAX; /* as fast as at the start, or as can be */

        w->crash_percent = 1;
        w->loss_percent = 5;
        w->fault_percent = 2;
        w->full_percent = seed % 3 ? 0 : 2;
        w->renew_percent = 5;
        go_on(w, &q, 10.0, false);
        for (uint32_t i = 0; i < 6 && !w->broken[0] && !w->has_failed_run; i++) {
            q.is_full = world_draw(w, 4) == 0;
            q.refusal = world_draw(w, 6) == 0 ? "no" : NULL;
            q.fails = world_draw(w, 6) == 0;
            loads(w, i % 2 ? 1.0 : 0.1);
            go_on(w, &q, 20.0, true);
            victim = 1 + world_draw(w, W_MAX - 1); /* not home's: with it a run of slices ends */
            if (seed % 5 == 0 && w->worker[victim].is_alive && !w->has_crashed)
                world_kill(w, victim);
            go_on(w, &q, 20.0, true);
        }
        w->crash_percent = w->loss_percent = w->fault_percent = w->full_percent = 0;
        q.is_full = q.fails = false;
        q.refusal = NULL;
        loads(w, 1.0);
        world_settle(w);
        for (int i = 0; i < 40 && n_in(w) < enough && !w->broken[0] && !w->has_failed_run; i++)
            go_on(w, &q, 10.0, false);
        if (w->broken[0])
            fail_msg("seed %u: %s", (unsigned)seed, w->broken);
        if (!w->has_failed_run && n_in(w) < enough)
            fail_msg("seed %u: %u of %u train: %s", (unsigned)seed, n_in(w), enough, json_dumps(growth_of(w), 0));
        n_joined += n_in(w) >= enough;
        end(w);
    }
    assert_true(n_joined > n_runs / 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(release_and_growth_take_turns), cmocka_unit_test(speed_is_wanted),
    cmocka_unit_test(layers_that_move_do_not_keep_it_waiting), cmocka_unit_test(nobody_grows_unasked),
    cmocka_unit_test(a_queue_that_is_full),          cmocka_unit_test(slurm_refuses),    cmocka_unit_test(jobs_that_end),
    cmocka_unit_test(not_journalled_not_asked),      cmocka_unit_test(too_late_to_pay),  cmocka_unit_test(killed_at_any_record),
    cmocka_unit_test(killed_while_it_is_given_up),   cmocka_unit_test(a_damaged_request), cmocka_unit_test(random_faults),
};
TEST_MAIN("coord_grow", tests)
