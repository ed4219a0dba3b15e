/* SPDX-License-Identifier: BSD-3-Clause */
/* Job mixes on a cluster: cases worked out by hand for every scheduler, a second simulation that counts
 * seconds and tries everything, and what must hold of any mix. */
#include "tests/unit/unit.h"

#include "policies/cluster/stats.h"
#include "tests/unit/random.h"

#define S 1000000000ull
#define N(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

static const struct dp_cluster_machine plain = {.nodes = 10, .interval_ns = 30 * S, .window_ns = 86400 * S, .depth = 500};

static struct dp_cluster_job job_of(uint64_t submit_s, uint64_t run_s, uint64_t limit_s, uint32_t nodes)
{
    return (struct dp_cluster_job){.submit_ns = submit_s * S, .run_ns = run_s * S, .limit_ns = limit_s * S, .nodes = nodes};
}

static void run_mix(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *m, enum dp_cluster_scheduler scheduler,
                    bool is_shrinking, struct dp_cluster_times *out)
{
    struct dp_err err;

    if (dp_cluster_mix_check(mix, m->nodes, &err) < 0 || dp_cluster_run(mix, m, scheduler, is_shrinking, out, &err) < 0)
        fail_msg("%s", err.text);
}

/* Starts, in seconds. */
static void starts_are(struct dp_cluster_job *job, uint32_t n, const struct dp_cluster_machine *m,
                       enum dp_cluster_scheduler scheduler, const uint64_t *want_s)
{
    struct dp_cluster_mix mix = {.n_jobs = n, .job = job};
    struct dp_cluster_times t[16];

    run_mix(&mix, m, scheduler, false, t);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].start_ns != want_s[i] * S || t[i].end_ns != t[i].start_ns + job[i].run_ns)
            fail_msg("%s: job %u starts at %.9g s, not %llu", dp_cluster_schedulers[scheduler].name, i,
                     (double)t[i].start_ns / (double)S, (unsigned long long)want_s[i]);
    }
}

/* ---- by hand ---- */

static void nobody_waits_in_an_empty_cluster(void **state)
{
    struct dp_cluster_job job[] = {job_of(0, 10, 20, 4), job_of(3, 10, 20, 6), job_of(20, 0, 1, 10), job_of(20, 5, 5, 10)};
    const uint64_t want[] = {0, 3, 20, 20};

    (void)state;
    for (int k = 0; k < DP_CLUSTER_SCHEDULERS; k++)
        starts_are(job, N(job), &plain, (enum dp_cluster_scheduler)k, want);
}

/* 8 of 10 nodes are taken for 10 s, the head wants 9. What may overtake it? */
static void backfill_does_not_delay_the_head(void **state)
{
    struct dp_cluster_job job[] = {
        job_of(0, 10, 10, 8), job_of(1, 5, 5, 9),
        job_of(1, 9, 10, 2),  /* would end at 11, after the promise, and only one node is left over then */
        job_of(1, 3, 9, 2),   /* ends by 10 */
        job_of(4, 50, 99, 1), /* the one that is left over */
        job_of(4, 50, 99, 1), /* it is gone */
    };
    const uint64_t fifo[] = {0, 10, 15, 15, 15, 15}, easy[] = {0, 10, 15, 1, 4, 15};

    (void)state;
    starts_are(job, N(job), &plain, DP_CLUSTER_FIFO, fifo);
    starts_are(job, N(job), &plain, DP_CLUSTER_EASY, easy);
}

/* A job that ends long before its limit makes room at once, and the head starts before its promise. */
static void an_early_end_is_used(void **state)
{
    struct dp_cluster_job job[] = {job_of(0, 10, 100, 8), job_of(1, 5, 5, 10), job_of(2, 20, 20, 2)};
    const uint64_t easy[] = {0, 22, 2}, fifo[] = {0, 10, 15};
    struct dp_cluster_mix mix = {.n_jobs = N(job), .job = job};
    struct dp_cluster_times t[N(job)];

    (void)state;
    starts_are(job, N(job), &plain, DP_CLUSTER_FIFO, fifo);
    starts_are(job, N(job), &plain, DP_CLUSTER_EASY, easy);
    run_mix(&mix, &plain, DP_CLUSTER_EASY, false, t);
    assert_int_equal(t[1].promised_ns, 100 * S);
    assert_int_equal(t[0].promised_ns, UINT64_MAX);
}

/* EASY protects the head only; Slurm's backfill also the job behind it (conservative). */
static void slurm_reserves_for_every_job(void **state)
{
    struct dp_cluster_job job[] = {job_of(0, 10, 10, 5), job_of(0, 10, 10, 6), job_of(0, 20, 20, 7), job_of(0, 25, 25, 4)};
    const uint64_t easy[] = {0, 10, 25, 0}, slurm[] = {0, 10, 20, 40};
    struct dp_cluster_machine m = plain;

    (void)state;
    starts_are(job, N(job), &plain, DP_CLUSTER_EASY, easy);
    starts_are(job, N(job), &plain, DP_CLUSTER_SLURM, slurm);
    m.window_ns = 15 * S; /* nothing is reserved for job 2, which would start at 20 */
    starts_are(job, N(job), &m, DP_CLUSTER_SLURM, easy);
}

/* A round at 0, when the first job has come; then none before 30. */
static void slurm_fills_in_rounds(void **state)
{
    struct dp_cluster_job job[] = {job_of(0, 100, 100, 8), job_of(1, 5, 5, 9), job_of(2, 20, 20, 2), job_of(40, 20, 20, 2)};
    const uint64_t easy[] = {0, 100, 2, 40}, slurm[] = {0, 100, 30, 60}, deep[] = {0, 100, 105, 105};
    struct dp_cluster_machine m = plain;

    (void)state;
    starts_are(job, N(job), &plain, DP_CLUSTER_EASY, easy);
    starts_are(job, N(job), &plain, DP_CLUSTER_SLURM, slurm);
    m.depth = 1; /* the head only */
    starts_are(job, N(job), &m, DP_CLUSTER_SLURM, deep);
}

/* After a quiet time a round follows at once; the next one an interval later. */
static void slurm_does_not_wait_without_need(void **state)
{
    struct dp_cluster_job job[] = {job_of(0, 200, 200, 8), job_of(1, 5, 5, 9), job_of(61, 20, 20, 1), job_of(64, 20, 20, 1)};
    const uint64_t slurm[] = {0, 200, 61, 91};

    (void)state;
    starts_are(job, N(job), &plain, DP_CLUSTER_SLURM, slurm);
}

/* ---- nodes that come back ---- */

static struct dp_cluster_curve curve_of(uint32_t n, const struct dp_cluster_step *step)
{
    struct dp_cluster_curve c = {.n_steps = n, .stretch = 1, .min_nodes = 1};

    memcpy(c.step, step, n * sizeof *step);
    return c;
}

static void the_next_job_starts_on_nodes_given_back(void **state)
{
    struct dp_cluster_curve curve = curve_of(1, (const struct dp_cluster_step[]){{0.25, 0.5}});
    struct dp_cluster_job job[] = {job_of(0, 100, 200, 10), job_of(5, 10, 10, 5), job_of(5, 10, 10, 5)};
    struct dp_cluster_mix mix = {.n_jobs = N(job), .n_curves = 1, .job = job, .curve = &curve};
    struct dp_cluster_machine m = plain;
    struct dp_cluster_times without[N(job)], with[N(job)];
    struct dp_cluster_stats a, b;
    struct dp_cluster_moved moved;

    (void)state;
    job[0].curve = 1;
    m.latency_ns = 2 * S;
    for (int k = 0; k < DP_CLUSTER_SCHEDULERS; k++) {
        run_mix(&mix, &m, (enum dp_cluster_scheduler)k, false, without);
        run_mix(&mix, &m, (enum dp_cluster_scheduler)k, true, with);
        assert_int_equal(without[1].start_ns, 100 * S);
        assert_int_equal(without[2].start_ns, 100 * S);
        assert_int_equal(with[1].start_ns, 27 * S); /* 25 s, and 2 s until Slurm uses them */
        assert_int_equal(with[2].start_ns, 37 * S);
        assert_int_equal(with[0].end_ns, 100 * S);
    }
    dp_cluster_compare(&mix, without, with, &moved);
    assert_int_equal(moved.earlier, 2);
    assert_int_equal(moved.later, 0);
    assert_true(moved.earlier_s == 68);
    assert_int_equal(dp_cluster_stats_fill(&mix, 10, false, without, &a, NULL), 0);
    assert_int_equal(dp_cluster_stats_fill(&mix, 10, true, with, &b, NULL), 0);
    assert_true(a.held_node_s == 10 * 100 + 100 && a.needed_node_s == 10 * 25 + 5 * 75 + 100 && a.makespan_s == 110);
    assert_true(b.held_node_s == a.needed_node_s && b.needed_node_s == a.needed_node_s && b.makespan_s == 100);
    assert_true(a.wait_s.mean == 190.0 / 3 && a.wait_s.median == 95 && a.wait_s.max == 95 && a.wait_s.p95 == 95);
    assert_true(b.wait_s.mean == 54.0 / 3 && b.wait_s.median == 22 && b.wait_s.max == 32);
    assert_true(a.wait_shrinking_s.mean == 0 && a.wait_others_s.mean == 95 && b.wait_others_s.mean == 27);
    assert_true(a.held_share == 1 && b.needed_share == 725.0 / 1000);
    assert_true(b.slowdown.max == 42.0 / 10 && b.slowdown.median == 32.0 / 10);
    assert_int_equal(a.n_shrinking, 1);
}

static void holds_are(const struct dp_cluster_mix *mix, bool is_shrinking, uint32_t n, const uint64_t (*want)[2])
{
    struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];

    assert_int_equal(dp_cluster_job_holds(mix, mix->job, is_shrinking, hold), n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(hold[i].after_ns, want[i][0] * S);
        assert_int_equal(hold[i].nodes, want[i][1]);
    }
}

static void whole_nodes_are_given_back(void **state)
{
    struct dp_cluster_curve curve = curve_of(3, (const struct dp_cluster_step[]){{0.25, 0.8}, {0.5, 0.7}, {0.75, 0.01}});
    struct dp_cluster_job job = job_of(0, 100, 200, 4);
    struct dp_cluster_mix mix = {.n_jobs = 1, .n_curves = 1, .job = &job, .curve = &curve};

    (void)state;
    job.curve = 1;
    holds_are(&mix, false, 1, (const uint64_t[][2]){{0, 4}});
    /* 3.2 nodes are 4, 2.8 are 3, and the node of the batch script stays */
    holds_are(&mix, true, 3, (const uint64_t[][2]){{0, 4}, {50, 3}, {75, 1}});
    curve.min_nodes = 2;
    holds_are(&mix, true, 3, (const uint64_t[][2]){{0, 4}, {50, 3}, {75, 2}});
    curve.is_single = true; /* 1 node for 50 s, or 2 for 25 s: equal, so the first; 3 for 25 s: more */
    holds_are(&mix, true, 2, (const uint64_t[][2]){{0, 4}, {50, 3}});
    curve.min_nodes = 1;
    holds_are(&mix, true, 2, (const uint64_t[][2]){{0, 4}, {75, 1}});
    curve.is_single = false;
    curve.stretch = 2;
    holds_are(&mix, true, 3, (const uint64_t[][2]){{0, 4}, {100, 3}, {150, 1}});
    assert_int_equal(dp_cluster_job_run_ns(&mix, &job, true), 200 * S);
    assert_int_equal(dp_cluster_job_run_ns(&mix, &job, false), 100 * S);
    curve.stretch = 3;
    assert_int_equal(dp_cluster_job_limit_ns(&mix, &job, true), 300 * S);
    assert_int_equal(dp_cluster_job_limit_ns(&mix, &job, false), 200 * S);
    job.nodes = 1;
    holds_are(&mix, true, 1, (const uint64_t[][2]){{0, 1}});
}

/* What would come back after the end comes with the end. */
static void a_release_may_be_too_late(void **state)
{
    struct dp_cluster_curve curve = curve_of(1, (const struct dp_cluster_step[]){{0.75, 0.5}});
    struct dp_cluster_job job[] = {job_of(0, 8, 8, 10), job_of(0, 10, 10, 5)};
    struct dp_cluster_mix mix = {.n_jobs = N(job), .n_curves = 1, .job = job, .curve = &curve};
    struct dp_cluster_machine m = plain;
    struct dp_cluster_times t[N(job)];

    (void)state;
    job[0].curve = 1;
    for (uint64_t latency_s = 0; latency_s < 5; latency_s++) {
        m.latency_ns = latency_s * S;
        run_mix(&mix, &m, DP_CLUSTER_FIFO, true, t);
        assert_int_equal(t[1].start_ns, (6 + (latency_s < 2 ? latency_s : 2)) * S);
    }
}

static void wrong_mixes_are_refused(void **state)
{
    struct dp_cluster_job job[2] = {job_of(0, 10, 10, 1), job_of(1, 10, 10, 1)};
    struct dp_cluster_curve curve = curve_of(2, (const struct dp_cluster_step[]){{0.25, 0.5}, {0.5, 0.25}}), good = curve;
    struct dp_cluster_mix mix = {.n_jobs = 2, .n_curves = 1, .job = job, .curve = &curve};
    struct dp_cluster_job *const j = &job[1], right = *j;

    (void)state;
    assert_int_equal(dp_cluster_mix_check(&mix, 10, NULL), 0);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        change;                                                                                    \
        assert_int_equal(dp_cluster_mix_check(&mix, 10, NULL), -1);                                \
        *j = right;                                                                                \
        curve = good;                                                                              \
    } while (0)
    REFUSED(j->nodes = 0);
    REFUSED(j->nodes = 11);
    REFUSED(j->limit_ns = j->run_ns - 1);
    REFUSED(j->limit_ns = DP_CLUSTER_MAX_NS + 1);
    REFUSED(job[0].submit_ns = 2 * S);
    job[0].submit_ns = 0;
    REFUSED(j->curve = 2);
    REFUSED(curve.step[1].at = 0.25);
    REFUSED(curve.step[1].hold = 0.5);
    REFUSED(curve.step[0].at = __builtin_nan(""));
    REFUSED(curve.step[0].hold = __builtin_nan(""));
    REFUSED(curve.step[1].hold = 0);
    REFUSED(curve.step[1].at = 1);
    REFUSED(curve.stretch = __builtin_nan(""));
    REFUSED(curve.stretch = 11);
    REFUSED(curve.min_nodes = 0);
    REFUSED(curve.n_steps = DP_CLUSTER_MAX_STEPS + 1);
    assert_int_equal(dp_cluster_mix_check(&mix, 0, NULL), -1);
    assert_int_equal(dp_cluster_mix_check(&mix, DP_CLUSTER_MAX_NODES + 1, NULL), -1);
#undef REFUSED
}

/* ---- a second simulation: second by second, every question answered by trying ---- */

enum { MOST_JOBS = 14, HORIZON = 1500 };

struct slow {
    const struct dp_cluster_mix *mix;
    const struct dp_cluster_machine *m;
    enum dp_cluster_scheduler scheduler;
    bool is_shrinking, has_changed;
    int64_t start[MOST_JOBS], end[MOST_JOBS], limit[MOST_JOBS], submit[MOST_JOBS]; /* s; start -1: not yet */
    uint32_t held[MOST_JOBS][HORIZON];                                            /* by seconds after the start, for the scheduler */
    int64_t now, next_round;
};

static void slow_prepare(struct slow *w)
{
    for (uint32_t i = 0; i < w->mix->n_jobs; i++) {
        const struct dp_cluster_job *j = &w->mix->job[i];
        struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];
        uint32_t n = dp_cluster_job_holds(w->mix, j, w->is_shrinking, hold);

        w->start[i] = -1;
        w->submit[i] = (int64_t)(j->submit_ns / S);
        w->end[i] = (int64_t)(dp_cluster_job_run_ns(w->mix, j, w->is_shrinking) / S); /* of its run, until it starts */
        w->limit[i] = (int64_t)(dp_cluster_job_limit_ns(w->mix, j, w->is_shrinking) / S);
        for (uint32_t k = 0; k < n; k++)
            for (uint64_t s = hold[k].after_ns / S + (k ? w->m->latency_ns / S : 0); s < HORIZON; s++)
                w->held[i][s] = hold[k].nodes;
    }
}

static bool is_waiting(const struct slow *w, uint32_t i)
{
    return w->start[i] < 0 && w->submit[i] <= w->now;
}

static bool is_running(const struct slow *w, uint32_t i)
{
    return w->start[i] >= 0 && w->now < w->end[i];
}

static void slow_start(struct slow *w, uint32_t i)
{
    w->start[i] = w->now;
    w->end[i] += w->now;
}

/* Nodes that are taken `ahead` seconds from now, when all who run now go on to their limit. */
static uint32_t taken(const struct slow *w, int64_t ahead)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < w->mix->n_jobs; i++)
        if (is_running(w, i) && w->now + ahead < (ahead ? w->start[i] + w->limit[i] : w->end[i]))
            sum += w->held[i][w->now - w->start[i]];
    return sum;
}

static bool fits(const struct slow *w, uint32_t i, int64_t ahead)
{
    return taken(w, ahead) + w->mix->job[i].nodes <= w->m->nodes;
}

static int64_t promise(const struct slow *w, uint32_t i)
{
    int64_t ahead = 0;

    while (!fits(w, i, ahead))
        ahead++;
    return ahead;
}

static uint32_t slow_in_order(struct slow *w)
{
    for (uint32_t i = 0; i < w->mix->n_jobs; i++) {
        if (!is_waiting(w, i))
            continue;
        if (!fits(w, i, 0))
            return i;
        slow_start(w, i);
    }
    return w->mix->n_jobs;
}

static void slow_easy(struct slow *w)
{
    uint32_t head = slow_in_order(w);
    int64_t then = head < w->mix->n_jobs ? promise(w, head) : 0;

    for (uint32_t i = head + 1; i < w->mix->n_jobs; i++) {
        int64_t run = w->end[i];

        if (!is_waiting(w, i) || !fits(w, i, 0))
            continue;
        slow_start(w, i);
        if (promise(w, head) > then) { /* no: take it back */
            w->start[i] = -1;
            w->end[i] = run;
        }
    }
}

/* returns: has a job started? */
static bool slow_round(struct slow *w)
{
    static uint32_t busy[HORIZON];
    uint32_t n = 0;
    bool has_started = false;

    for (int64_t s = 0; s < HORIZON; s++)
        busy[s] = taken(w, s);
    for (uint32_t i = 0; i < w->mix->n_jobs && n < w->m->depth; i++) {
        int64_t at = 0;

        if (!is_waiting(w, i))
            continue;
        n++;
        for (int64_t s = 0; s < at + w->limit[i]; s++)
            if (busy[s] + w->mix->job[i].nodes > w->m->nodes)
                at = s + 1;
        if (at == 0)
            slow_start(w, i);
        has_started |= at == 0;
        if ((uint64_t)at * S <= w->m->window_ns)
            for (int64_t s = at; s < at + w->limit[i]; s++)
                busy[s] += w->mix->job[i].nodes;
    }
    return has_started;
}

static void slow_second(struct slow *w)
{
    for (uint32_t i = 0; i < w->mix->n_jobs; i++) {
        int64_t age = w->now - w->start[i];

        w->has_changed |= w->submit[i] == w->now || (w->start[i] >= 0 && w->end[i] == w->now) ||
                          (is_running(w, i) && age > 0 && w->held[i][age] != w->held[i][age - 1]);
    }
    if (w->scheduler == DP_CLUSTER_EASY)
        slow_easy(w);
    else
        slow_in_order(w);
    if (w->scheduler == DP_CLUSTER_SLURM && w->has_changed && w->now >= w->next_round) {
        w->has_changed = slow_round(w);
        w->next_round = w->now + (int64_t)(w->m->interval_ns / S);
    }
}

/* Sizes are small, so that jobs wait for one another; all times are whole seconds, steps at quarters. */
static void draw_mix(uint64_t *seed, struct dp_cluster_mix *mix, struct dp_cluster_machine *m)
{
    static const struct dp_cluster_step steps[3] = {{0.25, 0.7}, {0.5, 0.5}, {0.75, 0.2}};
    uint64_t at = 0;

    m->nodes = 1 + random_below(seed, 12);
    m->latency_ns = random_below(seed, 4) * S;
    m->interval_ns = (1 + random_below(seed, 12)) * S;
    m->depth = 1 + random_below(seed, random_below(seed, 2) ? 4 : 20);
    m->window_ns = random_below(seed, 2) ? DP_CLUSTER_MAX_NS : random_below(seed, 60) * S;
    mix->n_jobs = 1 + random_below(seed, MOST_JOBS);
    mix->n_curves = 1;
    *mix->curve = curve_of(1 + random_below(seed, 3), steps);
    mix->curve->stretch = 1 + random_below(seed, 2);
    mix->curve->is_single = random_below(seed, 2);
    mix->curve->min_nodes = 1 + random_below(seed, 3);
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        uint64_t run_s = 4 * (1 + random_below(seed, 8));

        at += random_below(seed, 3) ? random_below(seed, 8) : 0;
        mix->job[i] = job_of(at, run_s, run_s + random_below(seed, 3) * random_below(seed, 20), 1 + random_below(seed, m->nodes));
        mix->job[i].curve = random_below(seed, 2);
    }
}

static void equals_the_second_simulation(void **state)
{
    static struct slow w;
    struct dp_cluster_job job[MOST_JOBS];
    struct dp_cluster_curve curve;
    struct dp_cluster_mix mix = {.job = job, .curve = &curve};
    struct dp_cluster_machine m;
    struct dp_cluster_times t[MOST_JOBS];
    uint64_t seed = 7;

    (void)state;
    for (int instance = 0; instance < 6000; instance++) {
        draw_mix(&seed, &mix, &m);
        w = (struct slow){.mix = &mix, .m = &m, .scheduler = (enum dp_cluster_scheduler)(instance % 3), .is_shrinking = instance / 3 % 2};
        slow_prepare(&w);
        run_mix(&mix, &m, w.scheduler, w.is_shrinking, t);
        for (bool is_over = false; !is_over; w.now++) {
            slow_second(&w);
            is_over = true;
            for (uint32_t i = 0; i < mix.n_jobs; i++)
                is_over &= w.start[i] >= 0;
        }
        for (uint32_t i = 0; i < mix.n_jobs; i++)
            if (t[i].start_ns != (uint64_t)w.start[i] * S || t[i].end_ns != (uint64_t)w.end[i] * S)
                fail_msg("instance %d, %s%s: job %u starts at %.9g s, the other simulation says %lld", instance,
                         dp_cluster_schedulers[w.scheduler].name, w.is_shrinking ? ", shrinking" : "", i,
                         (double)t[i].start_ns / (double)S, (long long)w.start[i]);
    }
}

/* ---- what holds of any mix ---- */

struct change {
    uint64_t at_ns;
    int64_t nodes;
    uint32_t arrives; /* job + 1 */
};

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* Nodes in use after every change of them, the head of the queue, and the node-seconds in all. */
static void check_times(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *m, bool is_shrinking,
                        const struct dp_cluster_times *t)
{
    struct change *c = calloc((size_t)mix->n_jobs * 8, sizeof *c);
    struct dp_cluster_stats stats;
    uint32_t n = 0, head = 0;
    int64_t used = 0;
    double node_s = 0;

    assert_non_null(c);
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        const struct dp_cluster_job *j = &mix->job[i];
        struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];
        uint32_t k = 1, steps = dp_cluster_job_holds(mix, j, is_shrinking, hold);

        assert_true(t[i].start_ns >= j->submit_ns && t[i].start_ns != UINT64_MAX);
        assert_int_equal(t[i].end_ns, t[i].start_ns + dp_cluster_job_run_ns(mix, j, is_shrinking));
        c[n++] = (struct change){j->submit_ns, 0, i + 1};
        c[n++] = (struct change){t[i].start_ns, j->nodes, 0};
        for (; k < steps; k++) {
            uint64_t at = t[i].start_ns + hold[k].after_ns + m->latency_ns;

            c[n++] = (struct change){at < t[i].end_ns ? at : t[i].end_ns, -(int64_t)(hold[k - 1].nodes - hold[k].nodes), 0};
        }
        c[n++] = (struct change){t[i].end_ns, -(int64_t)hold[steps - 1].nodes, 0};
    }
    qsort(c, n, sizeof *c, by_time);
    for (uint32_t i = 0; i < n; i++) {
        used += c[i].nodes;
        if (i + 1 < n && c[i + 1].at_ns == c[i].at_ns)
            continue;
        assert_true(used >= 0 && used <= m->nodes);
        node_s += i + 1 < n ? (double)used * (double)(c[i + 1].at_ns - c[i].at_ns) / (double)S : 0;
        while (head < mix->n_jobs && t[head].start_ns <= c[i].at_ns)
            head++;
        /* work is conserved: whoever is first and has arrived does not fit */
        if (head < mix->n_jobs && mix->job[head].submit_ns <= c[i].at_ns)
            assert_true(used + mix->job[head].nodes > m->nodes);
    }
    assert_int_equal(used, 0);
    free(c);
    assert_int_equal(dp_cluster_stats_fill(mix, m->nodes, is_shrinking, t, &stats, NULL), 0);
    if (!m->latency_ns && !(node_s >= stats.held_node_s * 0.999999 && node_s <= stats.held_node_s * 1.000001))
        fail_msg("%.9g node-seconds are used, %.9g were held", node_s, stats.held_node_s);
    assert_true(stats.held_node_s >= stats.needed_node_s * 0.999999);
    assert_true(stats.wait_s.median <= stats.wait_s.p95 && stats.wait_s.p95 <= stats.wait_s.max && stats.slowdown.mean >= 1);
}

static void draw_large_mix(uint64_t *seed, struct dp_cluster_mix *mix, uint32_t nodes)
{
    uint64_t at_ns = 0;

    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        uint64_t run_ns = random_u64(seed) % (1 + (600 * S >> random_below(seed, 8)));
        uint32_t size = 1u << random_below(seed, 7);

        at_ns += random_u64(seed) % (50 * S);
        mix->job[i] = (struct dp_cluster_job){.submit_ns = at_ns, .run_ns = run_ns, .nodes = size < nodes ? size : nodes,
                                              .limit_ns = run_ns + random_u64(seed) % (1 + run_ns), .curve = random_below(seed, 3)};
    }
}

static void invariants_hold(void **state)
{
    enum { JOBS = 2000 };
    static struct dp_cluster_job job[JOBS];
    static struct dp_cluster_times t[JOBS], again[JOBS];
    struct dp_cluster_curve curve[2] = {curve_of(2, (const struct dp_cluster_step[]){{0.1, 0.6}, {0.9, 0.3}}),
                                        curve_of(1, (const struct dp_cluster_step[]){{1e-9, 1e-9}})};
    struct dp_cluster_mix mix = {.n_jobs = JOBS, .n_curves = 2, .job = job, .curve = curve};
    struct dp_cluster_machine m = plain;
    uint64_t seed = 3;

    (void)state;
    curve[1].stretch = 0.9;
    for (int round = 0; round < 24; round++) {
        enum dp_cluster_scheduler scheduler = (enum dp_cluster_scheduler)(round % 3);

        m.nodes = 70 + random_below(&seed, 200);
        m.latency_ns = round % 4 ? 0 : 3 * S;
        m.depth = 20;
        draw_large_mix(&seed, &mix, m.nodes);
        for (int is_shrinking = 0; is_shrinking < 2; is_shrinking++) {
            run_mix(&mix, &m, scheduler, is_shrinking, t);
            run_mix(&mix, &m, scheduler, is_shrinking, again);
            assert_memory_equal(t, again, sizeof t);
            check_times(&mix, &m, is_shrinking, t);
            for (uint32_t i = 0; i < JOBS; i++) {
                if (scheduler == DP_CLUSTER_FIFO && i)
                    assert_true(t[i].start_ns >= t[i - 1].start_ns);
                if (scheduler == DP_CLUSTER_EASY) /* no promise is broken */
                    assert_true(t[i].start_ns <= t[i].promised_ns);
            }
        }
    }
}

static void sorting_keeps_the_order_of_equals(void **state)
{
    struct dp_cluster_mix mix = {.n_jobs = 5, .job = calloc(5, sizeof *mix.job)};
    static const uint64_t submit_s[] = {5, 3, 5, 3, 0};
    static const uint32_t want[] = {4, 1, 3, 0, 2};
    uint32_t n_wrong;

    (void)state;
    assert_non_null(mix.job);
    for (uint32_t i = 0; i < 5; i++) {
        mix.job[i] = job_of(submit_s[i], 1, 1, 1);
        mix.job[i].number = i;
    }
    assert_int_equal(dp_cluster_mix_sort(&mix, &n_wrong, NULL), 0);
    assert_int_equal(n_wrong, 3);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(mix.job[i].number, want[i]);
    dp_cluster_mix_release(&mix);
}

/* Jobs one after the other, for longer than times can be counted. */
static void an_endless_mix_ends_with_an_error(void **state)
{
    enum { JOBS = 45 };
    struct dp_cluster_job job[JOBS];
    struct dp_cluster_mix mix = {.n_jobs = JOBS, .job = job};
    struct dp_cluster_times t[JOBS];
    struct dp_err err;

    (void)state;
    for (uint32_t i = 0; i < JOBS; i++)
        job[i] = (struct dp_cluster_job){.run_ns = DP_CLUSTER_MAX_NS, .limit_ns = DP_CLUSTER_MAX_NS, .nodes = 10};
    assert_int_equal(dp_cluster_mix_check(&mix, 10, NULL), 0);
    for (int k = 0; k < DP_CLUSTER_SCHEDULERS; k++) {
        assert_int_equal(dp_cluster_run(&mix, &plain, (enum dp_cluster_scheduler)k, false, t, &err), -1);
        assert_non_null(strstr(err.text, "jobs still wait"));
    }
}

static void no_jobs(void **state)
{
    struct dp_cluster_mix mix = {0};
    struct dp_cluster_stats stats;
    struct dp_cluster_times t[1];

    (void)state;
    for (int k = 0; k < DP_CLUSTER_SCHEDULERS; k++)
        assert_int_equal(dp_cluster_run(&mix, &plain, (enum dp_cluster_scheduler)k, true, t, NULL), 0);
    assert_int_equal(dp_cluster_stats_fill(&mix, 10, true, t, &stats, NULL), 0);
    assert_true(stats.wait_s.mean == 0 && stats.held_share == 0 && stats.makespan_s == 0);
}

static void schedulers_have_names(void **state)
{
    enum dp_cluster_scheduler k;
    struct dp_err err;

    (void)state;
    for (int i = 0; i < DP_CLUSTER_SCHEDULERS; i++) {
        assert_int_equal(dp_cluster_scheduler_find(dp_cluster_schedulers[i].name, &k, NULL), 0);
        assert_int_equal(k, i);
    }
    assert_int_equal(dp_cluster_scheduler_find("esay", &k, &err), -1);
    assert_non_null(strstr(err.text, "known: fifo, easy, slurm"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nobody_waits_in_an_empty_cluster),
    cmocka_unit_test(backfill_does_not_delay_the_head),
    cmocka_unit_test(an_early_end_is_used),
    cmocka_unit_test(slurm_reserves_for_every_job),
    cmocka_unit_test(slurm_fills_in_rounds), cmocka_unit_test(slurm_does_not_wait_without_need),
    cmocka_unit_test(the_next_job_starts_on_nodes_given_back),
    cmocka_unit_test(whole_nodes_are_given_back),
    cmocka_unit_test(a_release_may_be_too_late),
    cmocka_unit_test(wrong_mixes_are_refused),
    cmocka_unit_test(equals_the_second_simulation),
    cmocka_unit_test(invariants_hold),
    cmocka_unit_test(sorting_keeps_the_order_of_equals),
    cmocka_unit_test(an_endless_mix_ends_with_an_error),
    cmocka_unit_test(no_jobs),
    cmocka_unit_test(schedulers_have_names),
};
TEST_MAIN("cluster run", tests)
