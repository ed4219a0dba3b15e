/* SPDX-License-Identifier: BSD-3-Clause */
/* Stages of several devices that take the microbatches in turn: against pipelines of single devices, closed forms,
 * and times that are looked up one from the other, as the definitions have them. */
#include "tests/unit/unit.h"

#include "policies/sim/iteration/iteration.h"
#include "tests/unit/random.h"

#define STAGES 5
#define WIDTH 4
#define DEVICES (STAGES * WIDTH)
#define LINKS (STAGES * WIDTH * WIDTH + 1)
#define MBS 17
#define UNKNOWN UINT64_MAX

struct world {
    enum dp_schedule_kind schedule;
    uint32_t n_stages, width[STAGES], mbs;
    uint32_t frozen; /* stages that only go forward */
    struct dp_sim_stage cost[DEVICES]; /* by place */
    struct dp_sim_link link[LINKS];
    uint64_t reduce_ns[DEVICES];
    struct dp_sim_in in;
    struct dp_sim_stage_out device[DEVICES];
    struct dp_sim_span span[2 * STAGES * MBS];
    struct dp_sim_reduction reduction[DEVICES];
    struct dp_sim_out out;
};

/* Simulate; the program is the caller's to destroy. */
static struct dp_sim_program *simulate(struct world *w)
{
    struct dp_sim_actions actions;
    struct dp_err err;

    if (dp_sim_actions_create_wide(w->schedule, w->n_stages, w->width, w->mbs, &actions, &err) < 0)
        fail_msg("%s", err.text);
    w->in.program = dp_sim_program_create(&actions, &err);
    if (!w->in.program)
        fail_msg("%s", err.text);
    w->in.replicas = w->in.buckets = 1;
    w->in.stage = w->cost;
    w->in.link = w->link;
    w->out = (struct dp_sim_out){.device = w->device, .span = w->span, .reduction = w->reduction};
    if (dp_sim_iterate(&w->in, &w->out, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(dp_sim_lower_bound(&w->in) <= w->out.iteration_ns);
    return w->in.program;
}

static void random_world(struct world *w, uint64_t *seed)
{
    memset(w, 0, sizeof *w);
    w->schedule = random_below(seed, 3) ? DP_SCHED_1F1B : DP_SCHED_GPIPE;
    w->n_stages = 1 + random_below(seed, STAGES);
    w->mbs = 1 + random_below(seed, MBS);
    for (uint32_t s = 0; s < w->n_stages; s++)
        w->width[s] = 1 + random_below(seed, WIDTH);
    for (uint32_t d = 0; d < DEVICES; d++)
        w->cost[d] = (struct dp_sim_stage){.fwd_ns = random_below(seed, 30), .bwd_input_ns = random_below(seed, 30),
                                           .bwd_weight_ns = random_below(seed, 30), .act_bytes = 7};
    for (uint32_t i = 0; i < LINKS; i++)
        w->link[i] = (struct dp_sim_link){random_below(seed, 20), random_below(seed, 20)};
    w->frozen = random_below(seed, 2) ? random_below(seed, w->n_stages) : 0;
    for (uint32_t d = 0, s = 0; s < w->frozen; d += w->width[s++])
        for (uint32_t i = 0; i < w->width[s]; i++)
            w->cost[d + i].bwd_input_ns = w->cost[d + i].bwd_weight_ns = w->cost[d + i].act_bytes = 0;
}

/* ---- the definitions ---- */

struct slow {
    const struct world *w;
    const struct dp_sim_actions *o;
    uint64_t end[DEVICES][2 * MBS], sent[DEVICES][2 * MBS], came[DEVICES][2 * MBS];
};

static const struct dp_action *op_at(const struct slow *s, uint32_t d, uint32_t i)
{
    return &dp_sim_actions_list(s->o, d)[i];
}

/* The operation of device d before the i-th that goes the same way; UINT32_MAX: it is the first. */
static uint32_t before(const struct slow *s, uint32_t d, uint32_t i)
{
    for (uint32_t k = i; k-- > 0;)
        if (op_at(s, d, k)->kind == op_at(s, d, i)->kind)
            return k;
    return UINT32_MAX;
}

static uint32_t find(const struct slow *s, uint32_t d, const struct dp_action *action)
{
    uint32_t i = 0;

    while (op_at(s, d, i)->kind != action->kind || op_at(s, d, i)->mb != action->mb)
        i++;
    return i;
}

/* Device of stage `stage` that has a microbatch. */
static uint32_t owner(const struct world *w, uint32_t stage, uint32_t mb)
{
    uint32_t d = mb % w->width[stage];

    for (uint32_t s = 0; s < stage; s++)
        d += w->width[s];
    return d;
}

static uint32_t stage_of(const struct world *w, uint32_t d)
{
    uint32_t s = 0;

    for (; d >= w->width[s]; s++)
        d -= w->width[s];
    return s;
}

/* Does device d carry out its operation i? A frozen stage has no backward. */
static bool is_done(const struct slow *s, uint32_t d, uint32_t i)
{
    return op_at(s, d, i)->kind == DP_ACTION_FORWARD || stage_of(s->w, d) >= s->w->frozen;
}

/* The device at the other end of what operation i of device d sends (or awaits); UINT32_MAX: none. */
static uint32_t other_end(const struct slow *s, uint32_t d, uint32_t i, bool sends)
{
    const struct dp_action *action = op_at(s, d, i);
    uint32_t stage = stage_of(s->w, d);
    bool is_up = (action->kind == DP_ACTION_FORWARD) == sends;

    if (is_up ? stage + 1 == s->w->n_stages : stage == (action->kind == DP_ACTION_FORWARD ? 0 : s->w->frozen))
        return UINT32_MAX;
    return owner(s->w, is_up ? stage + 1 : stage - 1, action->mb);
}

/* Between devices a and b for a microbatch. */
static const struct dp_sim_link *link_between(const struct slow *s, uint32_t a, uint32_t b, uint32_t mb)
{
    return &s->w->link[dp_sim_program_link(s->w->in.program, stage_of(s->w, a < b ? a : b), mb)];
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t end_of(struct slow *s, uint32_t d, uint32_t i);

static uint64_t sent(struct slow *s, uint32_t d, uint32_t i)
{
    uint32_t last = before(s, d, i);

    if (s->sent[d][i] == UNKNOWN)
        s->sent[d][i] = latest(end_of(s, d, i), last == UINT32_MAX ? 0 : sent(s, d, last)) +
                        link_between(s, d, other_end(s, d, i, true), op_at(s, d, i)->mb)->send_ns;
    return s->sent[d][i];
}

static uint64_t came(struct slow *s, uint32_t d, uint32_t i)
{
    uint32_t from = other_end(s, d, i, false), last = before(s, d, i);

    if (s->came[d][i] == UNKNOWN)
        s->came[d][i] = latest(sent(s, from, find(s, from, op_at(s, d, i))),
                               (last == UINT32_MAX ? 0 : came(s, d, last)) + link_between(s, from, d, op_at(s, d, i)->mb)->send_ns);
    return s->came[d][i];
}

static uint64_t end_of(struct slow *s, uint32_t d, uint32_t i)
{
    const struct dp_sim_stage *g = &s->w->cost[d];
    uint32_t from;

    if (!is_done(s, d, i))
        return i ? end_of(s, d, i - 1) : 0;
    from = other_end(s, d, i, false);
    if (s->end[d][i] == UNKNOWN)
        s->end[d][i] = latest(i ? end_of(s, d, i - 1) : 0,
                              from == UINT32_MAX ? 0 : came(s, d, i) + link_between(s, from, d, op_at(s, d, i)->mb)->latency_ns) +
                       (op_at(s, d, i)->kind == DP_ACTION_FORWARD ? g->fwd_ns : g->bwd_input_ns + g->bwd_weight_ns);
    return s->end[d][i];
}

static void equals_the_definitions(void **state)
{
    static struct world w;
    static struct slow s;
    uint64_t seed = 11;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct dp_sim_program *p;
        uint64_t end = 0;
        uint32_t n = 0;

        random_world(&w, &seed);
        p = simulate(&w);
        memset(&s, 0xff, sizeof s);
        s.w = &w;
        s.o = dp_sim_program_order(p);
        for (uint32_t d = 0; d < s.o->n_devices; d++)
            for (uint32_t i = 0; i < dp_sim_actions_count(s.o, d); n += is_done(&s, d, i), i++)
                end = latest(end, end_of(&s, d, i));
        assert_int_equal(n, (2 * w.n_stages - w.frozen) * w.mbs); /* every stage has every microbatch, forward and back */
        assert_int_equal(dp_sim_program_ops(p), 2 * w.n_stages * w.mbs);
        assert_int_equal(w.out.n_spans, n);
        assert_int_equal(w.out.iteration_ns, end);
        for (uint32_t i = 0; i < n; i++) {
            const struct dp_action action = {.mb = w.span[i].mb, .kind = (uint8_t)w.span[i].kind};

            assert_int_equal(w.span[i].place, w.span[i].device);
            assert_int_equal(w.span[i].end_ns, s.end[w.span[i].device][find(&s, w.span[i].device, &action)]);
        }
        dp_sim_program_destroy(p);
    }
}

/* Stages of one device each are a pipeline as ever. */
static void width_one_is_a_pipeline(void **state)
{
    static struct world w;
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 1000; round++) {
        struct dp_sim_actions actions;
        struct dp_sim_program *narrow;
        uint64_t wide_ns;
        struct dp_err err;

        random_world(&w, &seed);
        for (uint32_t s = 0; s < w.n_stages; s++)
            w.width[s] = 1;
        dp_sim_program_destroy(simulate(&w));
        wide_ns = w.out.iteration_ns;
        assert_int_equal(dp_sim_actions_create(w.schedule, w.n_stages, 1, w.mbs, &actions, &err), 0);
        narrow = dp_sim_program_create(&actions, &err);
        assert_non_null(narrow);
        w.in.program = narrow;
        assert_int_equal(dp_sim_iterate(&w.in, &w.out, &err), 0);
        assert_int_equal(w.out.iteration_ns, wide_ns);
        dp_sim_program_destroy(narrow);
    }
}

/* One stage of r devices is data parallelism: the busiest has ceil(m / r) microbatches; then gradients are reduced. */
static void one_stage_is_data_parallel(void **state)
{
    static struct world w;

    (void)state;
    for (uint32_t r = 1; r <= WIDTH; r++)
        for (uint32_t m = 1; m <= MBS; m++) {
            memset(&w, 0, sizeof w);
            w.n_stages = 1;
            w.width[0] = r;
            w.mbs = m;
            for (uint32_t d = 0; d < r; d++) {
                w.cost[d] = (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 12, .bwd_weight_ns = 8, .opt_ns = 5};
                w.reduce_ns[d] = 100;
            }
            w.in = (struct dp_sim_in){.reduce_ns = w.reduce_ns};
            dp_sim_program_destroy(simulate(&w));
            assert_int_equal(w.out.iteration_ns, (m + r - 1) / r * 30 + 100 + 5);
            for (uint32_t d = 0; d < r; d++) {
                assert_int_equal(w.device[d].busy_ns, (m > d ? (m - d - 1) / r + 1 : 0) * 30 + 5);
                assert_int_equal(w.reduction[d].start_ns, (m + r - 1) / r * 30); /* nobody before the last */
            }
        }
}

/* r devices that take r times as long as the one behind them keep it busy from its first microbatch to its last. */
static void a_wide_stage_keeps_up(void **state)
{
    static struct world w;

    (void)state;
    for (uint32_t r = 1; r <= WIDTH; r++) {
        memset(&w, 0, sizeof w);
        w.n_stages = 2;
        w.width[0] = r;
        w.width[1] = 1;
        w.mbs = 4 * r;
        for (uint32_t d = 0; d < r; d++)
            w.cost[d] = (struct dp_sim_stage){.fwd_ns = 10 * r, .bwd_input_ns = 20 * r, .act_bytes = 3};
        w.cost[r] = (struct dp_sim_stage){.fwd_ns = 10, .bwd_input_ns = 20, .act_bytes = 3};
        dp_sim_program_destroy(simulate(&w));
        assert_int_equal(w.out.iteration_ns, 10 * r + 4 * r * 30 + 20 * r);
        for (uint32_t d = 0; d < r; d++) {
            assert_int_equal(w.device[d].in_flight, 2);
            assert_int_equal(w.device[d].mem_bytes, 6);
        }
        assert_int_equal(w.device[r].in_flight, 1);
    }
}

/* What r senders send to one device comes in one after the other. */
static void the_way_in_is_shared(void **state)
{
    static struct world w;

    (void)state;
    memset(&w, 0, sizeof w);
    w.n_stages = 2;
    w.width[0] = 4;
    w.width[1] = 1;
    w.mbs = 4;
    for (uint32_t d = 0; d < 5; d++)
        w.cost[d] = (struct dp_sim_stage){.fwd_ns = 1};
    for (uint32_t i = 0; i < 4; i++)
        w.link[i] = (struct dp_sim_link){.send_ns = 100, .latency_ns = 7};
    dp_sim_program_destroy(simulate(&w));
    /* four messages in one after the other, each passed on at once; the last gradient goes back on its own */
    assert_int_equal(w.out.iteration_ns, 1 + 4 * 100 + 7 + 1 + 100 + 7);
}

/* PipeDream: no device keeps more than one for each device behind it, shared by its stage, and its own. */
static void few_are_kept(void **state)
{
    static struct world w;
    uint64_t seed = 3;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct dp_sim_program *p;
        const struct dp_sim_actions *o;

        random_world(&w, &seed);
        w.schedule = DP_SCHED_1F1B;
        p = simulate(&w);
        o = dp_sim_program_order(p);
        for (uint32_t d = 0; d < o->n_devices; d++) {
            uint32_t r = w.width[stage_of(&w, d)], most = (dp_sim_actions_behind(o, d) + r - 1) / r + 1;
            uint32_t own = dp_sim_actions_share(o, d).count;

            assert_int_equal(w.device[d].in_flight, stage_of(&w, d) < w.frozen ? 0 : most < own ? most : own);
        }
        dp_sim_program_destroy(p);
    }
}

static void refuses(void **state)
{
    static const uint32_t width[] = {1, 0, 1}, large[] = {65000, 65000};
    struct dp_sim_actions actions;
    struct dp_sim_program *p;
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_sim_actions_create_wide(DP_SCHED_1F1B, 3, width, 4, &actions, &err), -1);
    assert_string_equal(err.text, "stage 1 has no device");
    assert_int_equal(dp_sim_actions_create_wide(DP_SCHED_ZB_H1, 1, width, 4, &actions, &err), -1);
    assert_non_null(strstr(err.text, "zb-h1: stages have one device each"));
    assert_int_equal(dp_sim_actions_create_wide(DP_SCHED_1F1B, 2, large, 4, &actions, &err), -1);
    assert_int_equal(dp_sim_actions_create_wide(DP_SCHED_1F1B, 0, NULL, 4, &actions, &err), -1);
    assert_int_equal(dp_sim_actions_create_wide(DP_SCHED_1F1B, 2, (uint32_t[]){30000, 30000}, 4, &actions, &err), 0);
    p = dp_sim_program_create(&actions, &err); /* of 900 million pairs of devices four meet */
    assert_non_null(p);
    assert_int_equal(dp_sim_program_links(p), 4 + 1);
    dp_sim_program_destroy(p);
    /* a microbatch on another device than its own */
    assert_int_equal(dp_sim_actions_create_wide(DP_SCHED_GPIPE, 1, (uint32_t[]){2}, 4, &actions, &err), 0);
    actions.action[0].mb = 1;
    assert_null(dp_sim_program_create(&actions, &err));
    assert_non_null(strstr(err.text, "action 0 of device 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_definitions),
        cmocka_unit_test(width_one_is_a_pipeline),
        cmocka_unit_test(one_stage_is_data_parallel),
        cmocka_unit_test(a_wide_stage_keeps_up),
        cmocka_unit_test(the_way_in_is_shared),
        cmocka_unit_test(few_are_kept),
        cmocka_unit_test(refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
