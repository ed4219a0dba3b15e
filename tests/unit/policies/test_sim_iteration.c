/* SPDX-License-Identifier: BSD-3-Clause */
/* One simulated iteration: against closed forms, published bubbles, lower bounds, and a slow simulation
 * written from the definitions, which looks at all devices for whatever can begin first. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "policies/sim/iteration/iteration.h"
#include "tests/unit/random.h"

#define S_MAX 16 /* stages */
#define M_MAX 12 /* microbatches */
#define R_MAX 3  /* replicas */
#define B_MAX 3  /* buckets */

struct world {
    struct dp_sim_stage stage[R_MAX * S_MAX];
    struct dp_sim_link link[R_MAX * S_MAX];
    uint64_t reduce_ns[S_MAX];
    struct dp_sim_stage_out device[R_MAX * S_MAX];
    uint32_t frozen; /* stages of random_world() */
    struct dp_sim_in in;
    struct dp_sim_out out;
    struct dp_err err;
};

static struct dp_sim_program *program_of(enum dp_schedule_kind s, uint32_t d, uint32_t v, uint32_t m)
{
    struct dp_sim_actions actions;
    struct dp_sim_program *p;
    struct dp_err err;

    if (dp_sim_actions_create(s, d, v, m, &actions, &err) < 0)
        fail_msg("%s", err.text);
    p = dp_sim_program_create(&actions, &err);
    if (!p)
        fail_msg("%s", err.text);
    return p;
}

/* Iteration time of one pipeline with what `w` holds. */
static uint64_t run(struct world *w, enum dp_schedule_kind s, uint32_t d, uint32_t v, uint32_t m)
{
    struct dp_sim_program *p = program_of(s, d, v, m);

    w->in.program = p;
    w->in.replicas = 1;
    w->in.stage = w->stage;
    w->in.link = w->link;
    w->out.device = w->device;
    if (dp_sim_iterate(&w->in, &w->out, &w->err) < 0)
        fail_msg("%s", w->err.text);
    assert_true(dp_sim_lower_bound(&w->in) <= w->out.iteration_ns);
    dp_sim_program_destroy(p);
    w->in.program = NULL;
    return w->out.iteration_ns;
}

static void all_stages(struct world *w, uint32_t n, struct dp_sim_stage g)
{
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < n; i++)
        w->stage[i] = g;
}

/* T = sum t + (m-1) max t, bubble (S-1)/(m+S-1). */
static void balanced_1f1b(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= 8; s++)
        for (uint32_t m = 1; m <= 20; m += 3) {
            struct world w;

            all_stages(&w, s, (struct dp_sim_stage){10, 12, 8, 7, 100, 5, 5});
            assert_int_equal(run(&w, DP_SCHED_1F1B, s, 1, m), (m + s - 1) * 30 + 7);
            for (uint32_t i = 0; i < s; i++) {
                uint32_t deep = s - i < m ? s - i : m;
                double idle = (double)(w.out.backward_ns - (w.device[i].busy_ns - 7)) / (double)w.out.backward_ns;

                assert_int_equal(w.device[i].in_flight, deep);
                assert_int_equal(w.device[i].mem_bytes, 100 + 5 * deep);
                assert_int_equal(w.device[i].busy_ns, m * 30 + 7);
                assert_true(idle > (s - 1.0) / (m + s - 1.0) - 1e-12 && idle < (s - 1.0) / (m + s - 1.0) + 1e-12);
            }
        }
}

/* A slow last stage is busy without a gap, and the lower bound is reached. */
static void slow_last_stage_1f1b(void **state)
{
    (void)state;
    struct world w;

    all_stages(&w, 3, (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 20});
    w.stage[2] = (struct dp_sim_stage){.fwd_ns = 40, .bwd_input_ns = 50, .bwd_weight_ns = 30};
    assert_int_equal(run(&w, DP_SCHED_1F1B, 3, 1, 16), 30 + 30 + 16 * 120);
    assert_true(w.device[2].bubble < 0.04 && w.device[0].bubble > 0.7);
    w.in.program = program_of(DP_SCHED_1F1B, 3, 1, 16);
    assert_int_equal(dp_sim_lower_bound(&w.in), w.out.iteration_ns);
    dp_sim_program_destroy(w.in.program);
}

/* GPipe is two flow shops: sum + (m-1) max, forward and backward each, exactly; all microbatches are kept. */
static void gpipe_closed_form(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t seed = i, fs = 0, fm = 0, bs = 0, bm = 0;
        uint32_t n = 1 + random_below(&seed, 6), m = 1 + random_below(&seed, 12);
        struct world w;

        memset(&w, 0, sizeof w);
        for (uint32_t s = 0; s < n; s++) {
            struct dp_sim_stage *g = &w.stage[s];
            uint64_t b;

            *g = (struct dp_sim_stage){.fwd_ns = random_below(&seed, 100), .bwd_input_ns = random_below(&seed, 100),
                                       .bwd_weight_ns = random_below(&seed, 100), .state_bytes = 1000, .act_bytes = s};
            b = g->bwd_input_ns + g->bwd_weight_ns;
            fs += g->fwd_ns;
            bs += b;
            fm = g->fwd_ns > fm ? g->fwd_ns : fm;
            bm = b > bm ? b : bm;
        }
        assert_int_equal(run(&w, DP_SCHED_GPIPE, n, 1, m), fs + bs + (m - 1) * (fm + bm));
        for (uint32_t s = 0; s < n; s++) {
            assert_int_equal(w.device[s].in_flight, m);
            assert_int_equal(w.device[s].mem_bytes, 1000 + m * s);
        }
    }
}

/* Narayanan et al. 2021, section 2.2.2: the bubble (D-1)(f+b) is divided by v, for the first device the
 * kept chunks are (v-1) D + 2 (D-1) + 1. */
static void interleaved_divides_the_bubble(void **state)
{
    (void)state;
    for (uint32_t d = 1; d <= 8; d++)
        for (uint32_t v = 1; v * d <= S_MAX; v++)
            for (uint32_t groups = 1; groups <= 4; groups++) {
                struct world w;
                uint32_t m = groups * d, kept = (v - 1) * d + 2 * (d - 1) + 1;

                all_stages(&w, d * v, (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 12, .bwd_weight_ns = 8, .act_bytes = 3});
                assert_int_equal(run(&w, DP_SCHED_INTERLEAVED, d, v, m), m * v * 30 + (d - 1) * 30);
                if (kept > v * m)
                    kept = v * m;
                assert_int_equal(w.device[0].in_flight, kept);
                assert_int_equal(w.device[0].mem_bytes, kept * 3);
            }
}

/* Qi et al. 2023 (arXiv:2401.10241), table 2: bubble (p-1)(F+B-W), a third of 1F1B's where all are equal;
 * device i (from 1) keeps (p-i+1) M_B + (i-1) M_W. */
static void zb_h1_published_bubble(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++)
        for (uint32_t m = p; m <= M_MAX; m++) {
            struct world w;

            all_stages(&w, p, (struct dp_sim_stage){10, 10, 10, 0, 0, 7, 4});
            assert_int_equal(run(&w, DP_SCHED_ZB_H1, p, 1, m), m * 30 + (p - 1) * 10);
            for (uint32_t i = 1; i <= p; i++)
                assert_int_equal(w.device[i - 1].mem_bytes, (p - i + 1) * 7 + (i - 1) * 4);
            all_stages(&w, p, (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 11, .bwd_weight_ns = 9});
            assert_int_equal(run(&w, DP_SCHED_ZB_H1, p, 1, m), m * 30 + (p - 1) * (10 + 11 - 9));
        }
}

/* One microbatch: everything in a row, 2 (S-1) messages in between. */
static void one_microbatch_pays_every_link(void **state)
{
    (void)state;
    struct world w;

    all_stages(&w, 4, (struct dp_sim_stage){0});
    for (uint32_t i = 0; i < 4; i++) {
        w.stage[i].fwd_ns = 2 * i + 1;
        w.stage[i].bwd_input_ns = 2 * i + 2;
        w.link[i] = (struct dp_sim_link){.send_ns = 1000 + i, .latency_ns = 100};
    }
    w.stage[2].opt_ns = 9;
    w.in.norm_ns = 5;
    assert_int_equal(run(&w, DP_SCHED_1F1B, 4, 1, 1), 36 + 6 * 1100 + 2 * (0 + 1 + 2) + 5 + 9);
    w.in.program = program_of(DP_SCHED_1F1B, 4, 1, 1);
    assert_int_equal(dp_sim_lower_bound(&w.in), w.out.iteration_ns);
    dp_sim_program_destroy(w.in.program);
}

/* A link slower than the stages sets the pace. */
static void slow_link_sets_the_pace(void **state)
{
    (void)state;
    struct world w;

    all_stages(&w, 2, (struct dp_sim_stage){.fwd_ns = 1, .bwd_input_ns = 1});
    w.link[0].send_ns = 100;
    assert_int_equal(run(&w, DP_SCHED_GPIPE, 2, 1, 10), 1 + 10 * 100 + 1 + 1 + 10 * 100 + 1);
}

/* Two stages, 1F1B: the last stage's gradient is ready before the first stage's, its all-reduce runs
 * beside the backward of the first; in two parts the first stage's own starts earlier, too. */
static void reduction_overlaps_with_backward(void **state)
{
    (void)state;
    struct world w;
    struct dp_sim_reduction part[4];

    all_stages(&w, 2, (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 10, .bwd_weight_ns = 10, .opt_ns = 1});
    w.reduce_ns[0] = w.reduce_ns[1] = 16;
    w.in.reduce_ns = w.reduce_ns;
    w.in.buckets = 1;
    w.out.reduction = part;
    assert_int_equal(run(&w, DP_SCHED_1F1B, 2, 1, 4), 5 * 30 + 16 + 1);
    assert_int_equal(part[1].start_ns, 5 * 30 - 20);
    w.reduce_ns[0] = w.reduce_ns[1] = 8;
    w.in.buckets = 2;
    assert_int_equal(run(&w, DP_SCHED_1F1B, 2, 1, 4), 5 * 30 + 8 + 1);
    assert_int_equal(part[0].start_ns, 5 * 30 - 10);
    assert_int_equal(part[1].end_ns, 5 * 30 + 8);
}

/* The first `frozen` of n stages only go forward. */
static void freeze(struct world *w, uint32_t frozen, uint32_t n)
{
    for (uint32_t s = 0; s < frozen && s < n; s++)
        w->stage[s] = (struct dp_sim_stage){.fwd_ns = w->stage[s].fwd_ns, .state_bytes = w->stage[s].state_bytes};
}

/* Frozen stages in front are a way to the pipeline of those that learn, which is as ever: k forwards more, nothing kept. */
static void frozen_stages_are_a_way_1f1b(void **state)
{
    (void)state;
    for (uint32_t s = 2; s <= 8; s++)
        for (uint32_t k = 1; k < s; k++)
            for (uint32_t m = 1; m <= 20; m += 3) {
                struct world w;

                all_stages(&w, s, (struct dp_sim_stage){10, 12, 8, 7, 100, 5, 5});
                freeze(&w, k, s);
                assert_int_equal(run(&w, DP_SCHED_1F1B, s, 1, m), k * 10 + (m + s - k - 1) * 30 + 7);
                assert_int_equal(w.out.n_spans, 0); /* none were asked for */
                for (uint32_t i = 0; i < s; i++) {
                    uint32_t deep = i < k ? 0 : s - i < m ? s - i : m;

                    assert_int_equal(w.device[i].in_flight, deep);
                    assert_int_equal(w.device[i].mem_bytes, 100 + 5 * deep);
                    assert_int_equal(w.device[i].busy_ns, i < k ? m * 10 : m * 30 + 7);
                    assert_true(i >= k || w.device[i].end_ns == (i + m) * 10);
                }
            }
}

/* A frozen stage that takes longer than all others together sets the pace, and each microbatch passes the others alone. */
static void slow_frozen_stage_1f1b(void **state)
{
    (void)state;
    struct world w;

    all_stages(&w, 4, (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 12, .bwd_weight_ns = 8});
    w.stage[1].fwd_ns = 500;
    freeze(&w, 2, 4);
    assert_int_equal(run(&w, DP_SCHED_1F1B, 4, 1, 6), 10 + 6 * 500 + 2 * 30);
}

/* Both flow shops as ever, the one of backward without the frozen stages. */
static void frozen_stages_gpipe(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t seed = i + 7, fs = 0, fm = 0, bs = 0, bm = 0;
        uint32_t n = 2 + random_below(&seed, 5), m = 1 + random_below(&seed, 12), k = 1 + random_below(&seed, n - 1);
        struct world w;

        memset(&w, 0, sizeof w);
        for (uint32_t s = 0; s < n; s++)
            w.stage[s] = (struct dp_sim_stage){.fwd_ns = random_below(&seed, 100), .bwd_input_ns = random_below(&seed, 100),
                                               .bwd_weight_ns = 1 + random_below(&seed, 100), .state_bytes = 1000, .act_bytes = 9};
        freeze(&w, k, n);
        for (uint32_t s = 0; s < n; s++) {
            uint64_t f = w.stage[s].fwd_ns, b = w.stage[s].bwd_input_ns + w.stage[s].bwd_weight_ns;

            fs += f;
            bs += b;
            fm = f > fm ? f : fm;
            bm = b > bm ? b : bm;
        }
        assert_int_equal(run(&w, DP_SCHED_GPIPE, n, 1, m), fs + bs + (m - 1) * (fm + bm));
        for (uint32_t s = 0; s < n; s++)
            assert_int_equal(w.device[s].mem_bytes, 1000 + (s < k ? 0 : m * 9));
    }
}

/* ZB-H1: as 1F1B, and the pipeline of those that learn has its own bubble. A device's weight gradients wait as its place
 * among all of them says. */
static void frozen_stages_zb_h1(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 8; p++)
        for (uint32_t k = 1; k < p; k++)
            for (uint32_t m = p; m <= M_MAX; m++) {
                struct world w;

                all_stages(&w, p, (struct dp_sim_stage){10, 10, 10, 0, 0, 7, 4});
                freeze(&w, k, p);
                assert_int_equal(run(&w, DP_SCHED_ZB_H1, p, 1, m), k * 10 + m * 30 + (p - k - 1) * 10);
                for (uint32_t i = 1; i <= p; i++)
                    assert_int_equal(w.device[i - 1].mem_bytes, i <= k ? 0 : (p - i + 1) * 7 + (i - 1) * 4);
            }
}

/* One device: its chunks in a row, those that are frozen only forward. They keep nothing. */
static void frozen_chunks_of_one_device(void **state)
{
    (void)state;
    for (uint32_t v = 2; v <= 6; v++)
        for (uint32_t k = 1; k < v; k++) {
            struct world w;

            all_stages(&w, v, (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 12, .bwd_weight_ns = 8, .act_bytes = 3});
            freeze(&w, k, v);
            assert_int_equal(run(&w, DP_SCHED_INTERLEAVED, 1, v, 5), 5 * (v * 10 + (v - k) * 20));
            assert_int_equal(w.device[0].mem_bytes, w.device[0].in_flight * 3);
            assert_true(w.device[0].in_flight >= 1 && w.device[0].in_flight <= v - k);
        }
}

/* One microbatch, every schedule without chunks: everything in a row, and over the links of frozen stages an activation only. */
static void no_gradients_below_the_first_that_learns(void **state)
{
    (void)state;
    for (int s = 0; s < DP_N_SCHEDULES; s++)
        for (uint32_t k = 0; k < 4; k++) {
            struct world w;

            if (dp_schedules[s].rule->has_chunks) /* as many microbatches as devices at least */
                continue;
            all_stages(&w, 4, (struct dp_sim_stage){0});
            for (uint32_t i = 0; i < 4; i++) {
                w.stage[i].fwd_ns = i == 0 ? 5 : 0;
                w.stage[i].bwd_input_ns = i == 3 ? 7 : 0;
                w.stage[i].act_bytes = 1;
                w.link[i] = (struct dp_sim_link){.latency_ns = 100};
            }
            freeze(&w, k, 4);
            assert_int_equal(run(&w, (enum dp_schedule_kind)s, 4, 1, 1), 5 + 3 * 100 + 7 + (3 - k) * 100);
            assert_int_equal(w.device[0].end_ns == w.out.backward_ns, k == 0);
        }
}

/* Where nothing learns, times of forwards stand for the whole: gradients go all the way back. */
static void without_any_that_learns_none_is_frozen(void **state)
{
    (void)state;
    struct world w;

    all_stages(&w, 3, (struct dp_sim_stage){.fwd_ns = 10});
    for (uint32_t i = 0; i < 3; i++)
        w.link[i].latency_ns = 100;
    assert_int_equal(run(&w, DP_SCHED_1F1B, 3, 1, 1), 30 + 4 * 100);
}

/* The lists, from the definitions: '1'.. forward of microbatch 1.., 'a'.. its backward, 'A'.. its weight
 * gradient, a dash before those of chunk 1. Interleaved as in figure 4 of Narayanan et al. */
static void lists_of_small_cases(void **state)
{
    (void)state;
    static const struct {
        enum dp_schedule_kind schedule;
        uint32_t d, v, m, device;
        const char *want;
    } table[] = {
        {DP_SCHED_1F1B, 4, 1, 6, 0, "1234a5b6cdef"},
        {DP_SCHED_1F1B, 4, 1, 6, 3, "1a2b3c4d5e6f"},
        {DP_SCHED_GPIPE, 2, 1, 3, 1, "123abc"},
        {DP_SCHED_ZB_H1, 4, 1, 6, 0, "1234aA5bB6cCdDeEfF"},
        {DP_SCHED_ZB_H1, 4, 1, 6, 2, "12a3b4cA5dB6eCfDEF"},
        {DP_SCHED_ZB_H1, 4, 1, 6, 3, "1a2b3c4dA5eB6fCDEF"},
        {DP_SCHED_INTERLEAVED, 4, 2, 8, 0, "1234-1-2-3-4567-a8-b-5-c-6-d-7a-8bcd-e-f-g-hefgh"},
        {DP_SCHED_INTERLEAVED, 4, 2, 8, 3, "1234-1-a-2-b-3-c-4-d5a6b7c8d-5-e-6-f-7-g-8-hefgh"},
        {DP_SCHED_INTERLEAVED, 2, 2, 2, 0, "12-1-2-a-bab"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_actions o;
        char text[128], *at = text;
        struct dp_err err;

        assert_int_equal(dp_sim_actions_create(table[i].schedule, table[i].d, table[i].v, table[i].m, &o, &err), 0);
        assert_int_equal(dp_sim_actions_check(&o, &err), 0);
        for (uint32_t k = 0; k < o.n_per_device; k++) {
            const struct dp_action *action = &o.action[table[i].device * o.n_per_device + k];

            if (action->chunk)
                *at++ = '-';
            *at++ = (char)("1aA"[action->kind] + (char)action->mb);
        }
        *at = '\0';
        assert_string_equal(text, table[i].want);
        dp_sim_actions_release(&o);
    }
}

static void incomplete_lists_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        struct dp_action action;
        const char *want;
    } table[] = {
        {7, {0, 0, DP_ACTION_BACKWARD}, "action 1 of device 1 is a backward of chunk 0, microbatch 0, too early"},
        {1, {0, 0, DP_ACTION_FORWARD}, "action 1 of device 0 is a forward of chunk 0, microbatch 0, for the second time"},
        {2, {0, 0, DP_ACTION_WEIGHT}, "action 2 of device 0 is of chunk 0, microbatch 0, kind 2"},
        {2, {3, 0, DP_ACTION_BACKWARD}, "microbatch 3, kind 1"},
        {2, {0, 1, DP_ACTION_BACKWARD}, "is of chunk 1"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_actions o;
        struct dp_err err;

        assert_int_equal(dp_sim_actions_create(DP_SCHED_GPIPE, 2, 1, 3, &o, &err), 0);
        if (table[i].at == 7)
            o.action[6].mb = 1;
        o.action[table[i].at] = table[i].action;
        assert_int_equal(dp_sim_actions_check(&o, &err), -1);
        assert_non_null(strstr(err.text, table[i].want));
        assert_null(dp_sim_program_create(&o, &err));
        assert_non_null(strstr(err.text, table[i].want));
        assert_null(o.action);
    }
}

/* Device 0 wants the gradient of microbatch 0 before it sends microbatch 1, device 1 the other way round. */
static void a_deadlock_is_found(void **state)
{
    (void)state;
    struct dp_action lists[8] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}, {0, 0, 0}, {1, 0, 0}, {0, 0, 1}, {1, 0, 1}};
    struct dp_sim_actions o;
    struct dp_err err;

    assert_int_equal(dp_sim_actions_create(DP_SCHED_1F1B, 2, 1, 2, &o, &err), 0);
    memcpy(o.action, lists, sizeof lists);
    assert_int_equal(dp_sim_actions_check(&o, &err), 0);
    assert_null(dp_sim_program_create(&o, &err));
    assert_non_null(strstr(err.text, "deadlock, device 0 waits forever at its action 1 for the gradient of chunk 0, microbatch 0"));
}

static void refuses_impossible_numbers(void **state)
{
    (void)state;
    static const struct {
        enum dp_schedule_kind schedule;
        uint32_t d, v, m;
        const char *want;
    } table[] = {
        {DP_SCHED_1F1B, 0, 1, 4, "0 stages"},
        {DP_SCHED_1F1B, 1, 1, 0, "0 microbatches"},
        {DP_SCHED_1F1B, 4, 2, 4, "schedule 1f1b: one chunk per device, not 2"},
        {DP_SCHED_INTERLEAVED, 4, 2, 6, "6 microbatches are not a multiple of 4 devices"},
        {DP_SCHED_1F1B, UINT32_MAX, 1, 1, "4294967295 stages"},
        {DP_SCHED_1F1B, 65536, 1, 65536, "8589934592 actions"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_actions o;
        struct dp_err err;

        assert_int_equal(dp_sim_actions_create(table[i].schedule, table[i].d, table[i].v, table[i].m, &o, &err), -1);
        assert_non_null(strstr(err.text, table[i].want));
        assert_null(o.action);
    }
}

static void schedules_have_names(void **state)
{
    (void)state;
    enum dp_schedule_kind s = DP_SCHED_GPIPE;
    struct dp_err err;

    for (int i = 0; i < DP_N_SCHEDULES; i++) {
        assert_int_equal(dp_schedule_find(dp_schedules[i].name, &s, &err), 0);
        assert_int_equal(s, i);
    }
    assert_int_equal(dp_schedule_find("zb", &s, &err), -1);
    assert_non_null(strstr(err.text, "known: 1f1b, gpipe, "));
    for (int i = 0; i < DP_N_SCHEDULES; i++)
        assert_non_null(strstr(err.text, dp_schedules[i].name));
}

/* --- the slow one: global time, no work list, no slots --- */

enum { NEVER = -1 };
struct slow {
    const struct dp_sim_actions *o;
    const struct dp_sim_stage *stage;
    const struct dp_sim_link *link;
    uint32_t frozen; /* stages */
    int64_t fwd_there[S_MAX][M_MAX], bwd_there[S_MAX][M_MAX]; /* arrival at a stage */
    int64_t device_free[S_MAX], sent[2][S_MAX];               /* [direction][sending device] end of its last message */
    int64_t grad_start[S_MAX], grad_end[S_MAX];
    int64_t mem[S_MAX], most[S_MAX];
    uint32_t next[S_MAX];
};

static int64_t start_of(struct slow *s, uint32_t d)
{
    const struct dp_action *action;
    uint32_t k;
    int64_t at = 0;

    while (s->next[d] < s->o->n_per_device) { /* what a frozen stage does not do */
        action = &s->o->action[d * s->o->n_per_device + s->next[d]];
        if (action->kind == DP_ACTION_FORWARD || action->chunk * s->o->n_devices + d >= s->frozen)
            break;
        s->next[d]++;
    }
    if (s->next[d] == s->o->n_per_device)
        return NEVER;
    action = &s->o->action[d * s->o->n_per_device + s->next[d]];
    k = action->chunk * s->o->n_devices + d;
    if (action->kind == DP_ACTION_FORWARD)
        at = s->fwd_there[k][action->mb];
    if (action->kind == DP_ACTION_BACKWARD)
        at = s->bwd_there[k][action->mb];
    if (at == NEVER)
        return NEVER;
    return at > s->device_free[d] ? at : s->device_free[d];
}

static int64_t send(struct slow *s, int direction, uint32_t from, uint32_t border, int64_t now)
{
    if (s->o->n_devices == 1)
        return now;
    if (s->sent[direction][from] > now)
        now = s->sent[direction][from];
    s->sent[direction][from] = now + (int64_t)s->link[border].send_ns;
    return s->sent[direction][from] + (int64_t)s->link[border].latency_ns;
}

static void execute(struct slow *s, uint32_t d, int64_t start)
{
    const struct dp_action *action = &s->o->action[d * s->o->n_per_device + s->next[d]++];
    uint32_t k = action->chunk * s->o->n_devices + d, last = s->o->n_devices * s->o->chunks - 1;
    const struct dp_sim_stage *g = &s->stage[k];
    int64_t end = start;

    switch (action->kind) {
    case DP_ACTION_FORWARD:
        end += (int64_t)g->fwd_ns;
        s->mem[d] += (int64_t)g->act_bytes;
        if (k < last)
            s->fwd_there[k + 1][action->mb] = send(s, 0, d, k, end);
        else
            s->bwd_there[k][action->mb] = end;
        break;
    case DP_ACTION_BACKWARD:
        end += (int64_t)(g->bwd_input_ns + (s->o->is_split ? 0 : g->bwd_weight_ns));
        s->grad_start[k] = start;
        s->grad_end[k] = end;
        if (k > s->frozen)
            s->bwd_there[k - 1][action->mb] = send(s, 1, d, k - 1, end);
        break;
    default:
        end += (int64_t)g->bwd_weight_ns;
        s->grad_start[k] = start;
        s->grad_end[k] = end;
    }
    if (s->mem[d] > s->most[d])
        s->most[d] = s->mem[d];
    if (action->kind == DP_ACTION_BACKWARD)
        s->mem[d] -= (int64_t)(s->o->is_split ? g->act_bytes - g->wgrad_bytes : g->act_bytes);
    if (action->kind == DP_ACTION_WEIGHT)
        s->mem[d] -= (int64_t)g->wgrad_bytes;
    s->device_free[d] = end;
}

/* Always what can begin first. */
static void slow_run(struct slow *s, const struct dp_sim_actions *o, const struct dp_sim_stage *stage, uint32_t frozen,
                     const struct dp_sim_link *link)
{
    memset(s, 0, sizeof *s);
    s->o = o;
    s->stage = stage;
    s->frozen = frozen;
    s->link = link;
    memset(s->fwd_there + 1, 0xff, sizeof s->fwd_there - sizeof s->fwd_there[0]);
    memset(s->bwd_there, 0xff, sizeof s->bwd_there);
    for (;;) {
        int64_t best = NEVER;
        uint32_t who = 0;

        for (uint32_t d = 0; d < o->n_devices; d++) {
            int64_t at = start_of(s, d);

            if (at != NEVER && (best == NEVER || at < best)) {
                best = at;
                who = d;
            }
        }
        if (best == NEVER)
            return;
        execute(s, who, best);
    }
}

/* All-reduce, norm and optimizer after the replicas s[0..n-1]. */
static int64_t slow_finish(const struct slow *s, const struct dp_sim_in *in)
{
    uint32_t d = s->o->n_devices, n = d * s->o->chunks;
    int64_t end = 0, opt = 0, busy[S_MAX] = {0};

    for (uint32_t r = 0; r < in->replicas; r++)
        for (uint32_t i = 0; i < d; i++) {
            int64_t sum = 0;

            for (uint32_t k = i; k < n; k += d)
                sum += (int64_t)in->stage[r * n + k].opt_ns;
            opt = sum > opt ? sum : opt;
            end = s[r].device_free[i] > end ? s[r].device_free[i] : end;
        }
    for (uint32_t k = n; in->reduce_ns && k-- > 0;)
        for (uint32_t b = 0; b < in->buckets; b++) {
            int64_t at = busy[k % d];

            for (uint32_t r = 0; r < in->replicas; r++) {
                int64_t part = (s[r].grad_end[k] - s[r].grad_start[k]) / in->buckets;
                int64_t ready = s[r].grad_end[k] - part * (in->buckets - 1 - b);

                at = ready > at ? ready : at;
            }
            busy[k % d] = at + (int64_t)in->reduce_ns[k];
            end = busy[k % d] > end ? busy[k % d] : end;
        }
    return end + (int64_t)in->norm_ns + opt;
}

/* Every other one has frozen stages, but never all of them. */
static void random_world(struct world *w, uint64_t *seed, uint32_t n)
{
    uint32_t replicas = 1 + random_below(seed, R_MAX), alike = random_below(seed, 2);
    uint32_t frozen = random_below(seed, 2) ? random_below(seed, n) : 0;

    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < replicas * n; i++) {
        struct dp_sim_stage *g = &w->stage[i];

        *g = (struct dp_sim_stage){random_below(seed, 60), random_below(seed, 60), random_below(seed, 60), random_below(seed, 30),
                                   random_below(seed, 1000), random_below(seed, 100), 0};
        g->wgrad_bytes = random_below(seed, (uint32_t)g->act_bytes + 1);
        if (i % n < frozen)
            g->bwd_input_ns = g->bwd_weight_ns = g->act_bytes = g->wgrad_bytes = 0;
        else if (i % n == frozen)
            g->bwd_weight_ns++; /* learns for certain */
        w->link[i] = (struct dp_sim_link){random_below(seed, 2) ? random_below(seed, 50) : 0, random_below(seed, 50)};
        if (alike && i >= n) {
            *g = w->stage[i - n];
            w->link[i] = w->link[i - n];
        }
        w->reduce_ns[i % n] = random_below(seed, 100);
    }
    w->frozen = frozen;
    w->in = (struct dp_sim_in){.replicas = replicas, .stage = w->stage, .link = w->link, .buckets = 1 + random_below(seed, B_MAX),
                               .norm_ns = random_below(seed, 10)};
    if (random_below(seed, 2))
        w->in.reduce_ns = w->reduce_ns;
    w->out.device = w->device;
}

static void equals_the_slow_simulation(void **state)
{
    (void)state;
    struct slow *s = calloc(R_MAX, sizeof *s);

    assert_non_null(s);
    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t seed = i + 99;
        enum dp_schedule_kind schedule = (enum dp_schedule_kind)random_below(&seed, DP_N_SCHEDULES);
        uint32_t d = 1 + random_below(&seed, 5), v = schedule == DP_SCHED_INTERLEAVED ? 1 + random_below(&seed, 3) : 1;
        uint32_t m = v > 1 || schedule == DP_SCHED_INTERLEAVED ? d * (1 + random_below(&seed, 2)) : 1 + random_below(&seed, M_MAX);
        struct dp_sim_program *p = program_of(schedule, d, v, m);
        struct world w;

        random_world(&w, &seed, d * v);
        w.in.program = p;
        assert_int_equal(dp_sim_iterate(&w.in, &w.out, &w.err), 0);
        for (uint32_t r = 0; r < w.in.replicas; r++) {
            slow_run(&s[r], dp_sim_program_order(p), w.stage + r * d * v, w.frozen, w.link + r * d * v);
            for (uint32_t k = 0; k < d; k++) {
                uint64_t state_bytes = 0;

                for (uint32_t c = k; c < d * v; c += d)
                    state_bytes += w.stage[r * d * v + c].state_bytes;
                assert_int_equal(w.device[r * d + k].end_ns, s[r].device_free[k]);
                assert_int_equal(w.device[r * d + k].mem_bytes - state_bytes, s[r].most[k]);
            }
        }
        assert_int_equal(w.out.iteration_ns, slow_finish(s, &w.in));
        assert_true(dp_sim_lower_bound(&w.in) <= w.out.iteration_ns);
        dp_sim_program_destroy(p);
    }
    free(s);
}

/* Spans cover every operation once and never overlap on a device. */
static void spans_do_not_overlap(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t seed = i, end[S_MAX] = {0}, busy[S_MAX] = {0};
        struct dp_sim_program *p = program_of(DP_SCHED_ZB_H1, 4, 1, 6);
        uint32_t n = dp_sim_program_ops(p);
        struct dp_sim_span *span = calloc(n, sizeof *span);
        struct world w;

        assert_non_null(span);
        random_world(&w, &seed, 4);
        w.in.program = p;
        w.out.span = span;
        assert_int_equal(dp_sim_iterate(&w.in, &w.out, &w.err), 0);
        assert_int_equal(n, 3 * 4 * 6);
        n -= w.frozen * 2 * 6;
        assert_int_equal(w.out.n_spans, n);
        for (uint32_t k = 0; k < n; k++) {
            assert_true(span[k].device < 4 && span[k].mb < 6 && span[k].start_ns >= end[span[k].device]);
            end[span[k].device] = span[k].end_ns;
            busy[span[k].device] += span[k].end_ns - span[k].start_ns;
        }
        for (uint32_t d = 0; d < 4; d++)
            assert_int_equal(busy[d] + w.stage[d].opt_ns, w.device[d].busy_ns);
        dp_sim_program_destroy(p);
        free(span);
    }
}

static int by_operation(const void *a, const void *b)
{
    const struct dp_sim_span *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->mb != y->mb)
        return x->mb < y->mb ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* A 1F1B without lists runs as the one with them: every operation begins and ends at the same time. */
static void implied_order_is_the_same(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t seed = i + 17;
        uint32_t d = 1 + random_below(&seed, S_MAX), m = 1 + random_below(&seed, M_MAX + 20), n = 2 * d * m;
        struct dp_sim_program *listed = program_of(DP_SCHED_1F1B, d, 1, m), *implied;
        struct dp_sim_span span[2][2 * S_MAX * (M_MAX + 20)];
        struct dp_sim_actions actions;
        struct world a, b;

        assert_int_equal(dp_sim_actions_create(DP_SCHED_1F1B, d, 1, m, &actions, NULL), 0);
        dp_sim_actions_imply(&actions);
        implied = dp_sim_program_create(&actions, NULL);
        assert_non_null(implied);
        random_world(&a, &seed, d);
        b = a;
        a.in.program = listed;
        a.out.span = span[0];
        a.out.device = a.device;
        b.in = a.in;
        b.in.program = implied;
        b.out.span = span[1];
        b.out.device = b.device;
        assert_int_equal(dp_sim_iterate(&a.in, &a.out, NULL), 0);
        for (int again = 0; again < 2; again++)
            assert_int_equal(dp_sim_iterate(&b.in, &b.out, NULL), 0);
        assert_int_equal(a.out.iteration_ns, b.out.iteration_ns);
        assert_memory_equal(a.device, b.device, a.in.replicas * d * sizeof *a.device);
        assert_int_equal(dp_sim_program_ops(implied), n);
        n -= a.frozen * m;
        assert_int_equal(a.out.n_spans, n);
        assert_int_equal(b.out.n_spans, n);
        for (int k = 0; k < 2; k++)
            qsort(span[k], n, sizeof *span[k], by_operation);
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(by_operation(&span[0][k], &span[1][k]), 0);
            assert_int_equal(span[0][k].start_ns, span[1][k].start_ns);
            assert_int_equal(span[0][k].end_ns, span[1][k].end_ns);
        }
        dp_sim_program_destroy(listed);
        dp_sim_program_destroy(implied);
    }
}

/* 1,000 stages x 64 microbatches in under 100 ms, the making of the schedule included. CPU time, the
 * best of three: other programs may want the machine. */
static void a_large_iteration_is_fast(void **state)
{
    (void)state;
    enum { STAGES = 1000, MICROBATCHES = 64 };
    struct dp_sim_stage *stage = calloc(STAGES, sizeof *stage);
    struct dp_sim_link *link = calloc(STAGES, sizeof *link);
    uint64_t best = UINT64_MAX;

    assert_non_null(stage);
    assert_non_null(link);
    for (uint64_t i = 0, seed = 1; i < STAGES; i++) {
        stage[i] = (struct dp_sim_stage){.fwd_ns = 1000000 + random_below(&seed, 1000), .bwd_input_ns = 2000000};
        link[i] = (struct dp_sim_link){.send_ns = 1000, .latency_ns = 100};
    }
    for (int i = 0; i < 3; i++) {
        uint64_t begin = dp_thread_cpu_ns(), took;
        struct dp_sim_program *p = program_of(DP_SCHED_1F1B, STAGES, 1, MICROBATCHES);
        struct dp_sim_in in = {.program = p, .replicas = 1, .stage = stage, .link = link};
        struct dp_sim_out out = {0};

        assert_int_equal(dp_sim_iterate(&in, &out, NULL), 0);
        took = dp_thread_cpu_ns() - begin;
        best = took < best ? took : best;
        assert_true(out.iteration_ns > (MICROBATCHES + STAGES - 1) * 3000000ull);
        dp_sim_program_destroy(p);
    }
    print_message("# %d stages x %d microbatches: %.1f ms\n", STAGES, MICROBATCHES, (double)best / 1e6);
    assert_true(best < 100000000);
    free(stage);
    free(link);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(balanced_1f1b),
    cmocka_unit_test(slow_last_stage_1f1b),
    cmocka_unit_test(gpipe_closed_form),
    cmocka_unit_test(interleaved_divides_the_bubble),
    cmocka_unit_test(zb_h1_published_bubble),
    cmocka_unit_test(one_microbatch_pays_every_link),
    cmocka_unit_test(slow_link_sets_the_pace),
    cmocka_unit_test(reduction_overlaps_with_backward),
    cmocka_unit_test(frozen_stages_are_a_way_1f1b),
    cmocka_unit_test(slow_frozen_stage_1f1b),
    cmocka_unit_test(frozen_stages_gpipe),
    cmocka_unit_test(frozen_stages_zb_h1),
    cmocka_unit_test(frozen_chunks_of_one_device),
    cmocka_unit_test(no_gradients_below_the_first_that_learns),
    cmocka_unit_test(without_any_that_learns_none_is_frozen),
    cmocka_unit_test(lists_of_small_cases),
    cmocka_unit_test(incomplete_lists_are_refused),
    cmocka_unit_test(a_deadlock_is_found),
    cmocka_unit_test(refuses_impossible_numbers),
    cmocka_unit_test(schedules_have_names),
    cmocka_unit_test(equals_the_slow_simulation),
    cmocka_unit_test(spans_do_not_overlap),
    cmocka_unit_test(implied_order_is_the_same),
    cmocka_unit_test(a_large_iteration_is_fast),
};
TEST_MAIN("sim_iteration", tests)
