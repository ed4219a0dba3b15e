/* SPDX-License-Identifier: BSD-3-Clause */
/* Schemes (policies/sim/scheme/): their values from texts, the costs that they make of a model against numbers worked out by
 * hand, and how they join what a case says anyway. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/saving/advice.h"
#include "policies/sim/case/read.h"
#include "policies/sim/run.h"
#include "policies/sim/scheme/scheme.h"
#include "tests/unit/random.h"

#define COSTS "\"forward_ms\": 1, \"backward_input_ms\": 1.1, \"backward_weight_ms\": 0.9, \"optimizer_ms\": 0.5, " \
              "\"state_bytes\": 1600, \"activation_bytes\": 100, \"gradient_bytes\": 200, \"output_bytes\": 10"
#define MODEL(rest)                                                                                                \
    "{\"source\": \"made up\", \"devices\": 4, \"microbatches\": 4, \"iterations\": 1000, \"kinds\": {"              \
    "\"embedding\": {\"forward_ms\": 0, \"backward_input_ms\": 0, \"backward_weight_ms\": 0.1, \"state_bytes\": 400}," \
    "\"block\": [{" COSTS "}, {\"density\": 0, \"forward_ms\": 0, \"backward_input_ms\": 0, \"backward_weight_ms\": 0}]," \
    "\"head\": {" COSTS "}}, \"layers\": [\"embedding\", {\"kind\": \"block\", \"count\": 8}, \"head\"]" rest "}"
#define MS UINT64_C(1000000)

static struct dp_sim_case case_of(const char *text)
{
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    struct dp_sim_case c = {.name = ""};
    struct dp_err err;

    assert_non_null(document);
    if (dp_sim_read_model(document, NULL, &c, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(document);
    return c;
}

/* The model above, or another one, under a scheme. */
static struct dp_sim_case under(const char *scheme, const char *text)
{
    struct dp_sim_case c = case_of(text ? text : MODEL(""));
    struct dp_sim_scheme_choice choice;
    struct dp_err err;

    if (dp_sim_scheme_parse(scheme, &choice, &err) < 0 || dp_sim_scheme_use(&choice, &c, &err) < 0 || dp_sim_case_check(&c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

/* Costs of a layer from an event on. */
static const struct dp_sim_layer *layer(const struct dp_sim_case *c, uint32_t event, uint32_t i)
{
    assert_true(event < c->n_events);
    assert_non_null(c->event[event].layer);
    return &c->event[event].layer[i];
}

static void assert_times(const struct dp_sim_layer *l, double factor)
{
    assert_int_equal(l->fwd_ns, llround(1e6 * factor));
    assert_int_equal(l->bwd_input_ns, llround(1.1e6 * factor));
    assert_int_equal(l->bwd_weight_ns, llround(0.9e6 * factor));
}

/* ---- texts ---- */

static void values_from_texts(void **state)
{
    (void)state;
    struct dp_sim_scheme_choice c;
    struct dp_err err;
    char text[256];

    assert_int_equal(dp_sim_scheme_parse("freeze", &c, &err), 0);
    dp_sim_scheme_format(&c, text, sizeof text);
    assert_string_equal(text, "freeze,schedule=linear,most=0.75,begin=0.5,end=1,a=0.333333,phases=5,input=0.25");
    assert_int_equal(dp_sim_scheme_parse("freeze,a=0.5,schedule=prefix,phases=64", &c, &err), 0);
    dp_sim_scheme_format(&c, text, sizeof text);
    assert_string_equal(text, "freeze,schedule=prefix,most=0.75,begin=0.5,end=1,a=0.5,phases=64,input=0.25");
    dp_sim_scheme_format(&c, text, 10);
    assert_string_equal(text, "freeze,sc");
}

/* Every scheme of the list can be asked for by its name, has a source, and its defaults lie within their own bounds. */
static void the_list_is_sound(void **state)
{
    (void)state;
    const struct dp_sim_scheme *s;

    for (size_t i = 0; (s = dp_sim_scheme_at(i)); i++) {
        struct dp_sim_scheme_choice c, again;
        struct dp_sim_case with;
        struct dp_err err;
        char text[256];
        uint32_t n = 0;

        assert_true(*s->help && *s->rule->source && s->rule->apply);
        while (s->rule->key[n].name)
            n++;
        assert_true(n >= 1 && n <= DP_SIM_SCHEME_KEYS);
        assert_int_equal(dp_sim_scheme_parse(s->name, &c, &err), 0);
        assert_ptr_equal(c.scheme, s);
        dp_sim_scheme_format(&c, text, sizeof text);
        if (dp_sim_scheme_parse(text, &again, &err) < 0)
            fail_msg("%s", err.text);
        assert_ptr_equal(again.scheme, s);
        with = under(s->name, NULL);
        assert_non_null(strstr(with.source, "made up; scheme "));
        assert_non_null(strstr(with.source, s->rule->source));
        dp_sim_case_release(&with);
    }
    assert_true(dp_sim_scheme_at(0) != NULL);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } table[] = {
        {"", "unknown scheme ''; known: freeze, drop, moe, mod, early-exit, sparse-attention"},
        {"frieze,a=1", "unknown scheme 'frieze'; known: freeze, "},
        {"freeze,", "scheme freeze has no ''; known: schedule, most, begin, end, a, phases, input"},
        {"freeze,x=1", "scheme freeze has no 'x'; known: schedule, "},
        {"freeze,a", "scheme freeze: a has no value; expected a=..."},
        {"freeze,a=", "a='': expected a number from 0 to 1"},
        {"freeze,a=2", "a='2': expected a number from 0 to 1"},
        {"freeze,a=nan", "a='nan': expected a number from 0 to 1"},
        {"freeze,a=0.5x", "a='0.5x': expected a number from 0 to 1"},
        {"freeze,a=0.1,a=0.2", "scheme freeze: a is given twice"},
        {"freeze,phases=1.5", "phases='1.5': expected a whole number from 1 to 64"},
        {"freeze,phases=65", "expected a whole number from 1 to 64"},
        {"freeze,schedule=lin", "schedule='lin': expected one of: linear geometric prefix"},
        {"freeze,schedule=", "schedule='': expected one of: "},
        {"freeze,schedule=linear geometric", "schedule='linear geometric': expected one of: "},
        {"freeze,a=0.0000000000000000000000000000000000000000000000000000000000000000001", "expected a number from 0 to 1"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_scheme_choice c;
        struct dp_err err = {.text = ""};

        assert_int_equal(dp_sim_scheme_parse(table[i].text, &c, &err), -1);
        if (!strstr(err.text, table[i].want))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, table[i].want, err.text);
    }
}

static void values_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        uint64_t iterations;
    } table[] = {
        {"freeze", "scheme freeze: a run of one iteration has no time to freeze in; give it more (--iterations)", 1},
        {"freeze,begin=0.5,end=0.5", "begin=0.5 is not before end=0.5", 100},
        {"drop,schedule=falling", "a run of 7 iterations in 8 parts; give it more (--iterations)", 7},
        {"moe,top=8,experts=4", "top=8 and ranks=8 are at most experts=4", 100},
        {"moe,capacity=0.5", "capacity=0.5 is less than the mean", 100},
        {"moe,every=1", "every=1 changes loads more than 64 times in 100 iterations", 100},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct dp_sim_case c = case_of(MODEL(""));
        struct dp_sim_scheme_choice choice;
        struct dp_err err = {.text = ""};

        c.iterations = table[i].iterations;
        assert_int_equal(dp_sim_scheme_parse(table[i].text, &choice, &err), 0);
        assert_int_equal(dp_sim_scheme_use(&choice, &c, &err), -1);
        if (!strstr(err.text, table[i].want))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, table[i].want, err.text);
        dp_sim_case_release(&c);
    }
}

/* ---- blocks ---- */

static void blocks_are_what_repeats(void **state)
{
    (void)state;
    static const struct {
        const char *layers;
        uint32_t first, end;
    } table[] = {
        {"[\"a\", {\"kind\": \"b\", \"count\": 8}, \"c\"]", 1, 9},
        {"[{\"kind\": \"b\", \"count\": 8}]", 0, 8},
        {"[\"a\", \"d\", \"b\", \"c\", \"b\", \"c\"]", 2, 6}, /* two kinds in turn */
        {"[\"b\", \"b\", \"a\"]", 0, 2},
        {"[\"a\", \"b\", \"c\", \"d\"]", 1, 3}, /* each its own kind */
        {"[\"a\", \"b\"]", 0, 2},
        {"[\"a\"]", 0, 1},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[1024];
        struct dp_sim_case c;
        uint32_t first, end;

        snprintf(text, sizeof text,
                 "{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"a\": {" COSTS "}, \"b\": {" COSTS "},"
                 " \"c\": {" COSTS "}, \"d\": {" COSTS "}}, \"layers\": %s}", table[i].layers);
        c = case_of(text);
        dp_sim_scheme_blocks(&c, &first, &end);
        assert_int_equal(first, table[i].first);
        assert_int_equal(end, table[i].end);
        dp_sim_case_release(&c);
    }
}

/* ---- what each makes of the costs ---- */

/* Layers from 0 on that are frozen from an event on; they cost their forward and a quarter of their state. */
static uint32_t frozen(const struct dp_sim_case *c, uint32_t event)
{
    uint32_t n = dp_sim_forward_only(c->event[event].layer, c->n_layers);

    for (uint32_t i = 0; i < n; i++) {
        const struct dp_sim_layer *l = layer(c, event, i);

        assert_int_equal(l->fwd_ns, i ? MS : 0);
        assert_int_equal(l->state_bytes, i ? 400 : 100);
        assert_int_equal(l->opt_ns + l->grad_bytes + l->wgrad_bytes, 0);
        assert_int_equal(l->output_bytes, i ? 10 : 0);
    }
    return n;
}

static void freezing_a_prefix(void **state)
{
    (void)state;
    struct dp_sim_case c = under("freeze,schedule=prefix,most=0.5", NULL);

    assert_int_equal(c.n_events, 1);
    assert_int_equal(c.event[0].iteration, 1);
    assert_int_equal(frozen(&c, 0), 5); /* the embedding, too */
    /* the first that learns has no gradient of its input: a quarter of those products */
    assert_int_equal(layer(&c, 0, 5)->bwd_input_ns, llround(1.1e6 * 0.75));
    assert_int_equal(layer(&c, 0, 5)->bwd_weight_ns, 900000);
    assert_times(layer(&c, 0, 6), 1);
    dp_sim_case_release(&c);

    c = under("freeze,schedule=prefix,most=1", NULL); /* the head learns; it is no block */
    assert_int_equal(frozen(&c, 0), 9);
    assert_times(layer(&c, 0, 9), 1);
    dp_sim_case_release(&c);
    c = under("freeze,schedule=prefix,most=0", NULL);
    assert_times(layer(&c, 0, 1), 1);
    assert_int_equal(layer(&c, 0, 0)->bwd_weight_ns, 100000);
    dp_sim_case_release(&c);
    c = under("freeze,schedule=prefix,most=1", "{\"source\": \"x\", \"devices\": 1, \"microbatches\": 1, \"kinds\": {\"b\": {" COSTS "}},"
                                               " \"layers\": [{\"kind\": \"b\", \"count\": 3}]}");
    assert_int_equal(dp_sim_forward_only(c.event[0].layer, 3), 2); /* one block learns */
    dp_sim_case_release(&c);
}

/* PipeTransformer's schedule: 8 (1 - (2/3)^e) after e of 5 phases; a block is frozen when it is due whole. */
static void freezing_geometrically(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {0, 2, 4, 5, 6};
    struct dp_sim_case c = under("freeze,schedule=geometric,most=1", NULL);

    assert_int_equal(c.n_events, 5);
    for (uint32_t e = 0; e < 5; e++) {
        assert_int_equal(c.event[e].iteration, 1 + 200 * e);
        assert_int_equal(frozen(&c, e), blocks[e] ? 1 + blocks[e] : 0);
    }
    dp_sim_case_release(&c);
}

/* From half of the run on a block at a time, three quarters at the end of 80 %. */
static void freezing_linearly(void **state)
{
    (void)state;
    struct dp_sim_case c = under("freeze,begin=0.5,end=0.8", NULL);

    assert_int_equal(c.n_events, 7);
    for (uint32_t e = 0; e < 7; e++) {
        assert_int_equal(c.event[e].iteration, e ? 501 + 50 * e : 1);
        assert_int_equal(frozen(&c, e), e ? 1 + e : 0);
    }
    dp_sim_case_release(&c);
    c = under("freeze", NULL); /* what is due at the very end does not come */
    assert_int_equal(c.n_events, 6);
    assert_int_equal(frozen(&c, 5), 1 + 5);
    dp_sim_case_release(&c);
}

static void dropping_by_depth(void **state)
{
    (void)state;
    struct dp_sim_case c = under("drop", NULL);

    assert_int_equal(c.n_events, 1);
    for (uint32_t i = 1; i <= 8; i++) {
        assert_times(layer(&c, 0, i), 1 - 0.5 * i / 8);
        assert_int_equal(layer(&c, 0, i)->act_bytes, 100);
    }
    assert_times(layer(&c, 0, 9), 1);
    dp_sim_case_release(&c);
    c = under("drop,schedule=rising,most=1,parts=4", NULL);
    assert_int_equal(c.n_events, 4);
    for (uint32_t e = 0; e < 4; e++) {
        assert_int_equal(c.event[e].iteration, 1 + 250 * e);
        assert_times(layer(&c, e, 8), 1 - (e + 0.5) / 4);
        assert_times(layer(&c, e, 4), 1 - (e + 0.5) / 8);
    }
    dp_sim_case_release(&c);
    c = under("drop,schedule=falling,most=1,parts=4", NULL);
    for (uint32_t e = 0; e < 4; e++)
        assert_times(layer(&c, e, 8), (e + 0.5) / 4);
    dp_sim_case_release(&c);
}

/* Even ranks: top times the part. Uneven ones are never below that, a capacity cuts them off, loads stay as long as asked. */
static void experts(void **state)
{
    (void)state;
    struct dp_sim_case c = under("moe,spread=0,part=0.5,experts=8,ranks=2", NULL), d;
    bool differs = false;

    for (uint32_t i = 1; i <= 8; i++)
        assert_times(layer(&c, 0, i), i % 2 ? 1 : 0.5 + 0.5 * 2);
    assert_int_equal(layer(&c, 0, 2)->state_bytes, 1600 * (0.5 + 0.5 * 4));
    assert_int_equal(layer(&c, 0, 2)->act_bytes, 150);
    assert_int_equal(layer(&c, 0, 1)->state_bytes, 1600);
    dp_sim_case_release(&c);

    c = under("moe,interval=1,part=1,top=1,every=500", NULL);
    assert_int_equal(c.n_events, 2);
    assert_int_equal(c.event[1].iteration, 501);
    d = under("moe,interval=1,part=1,top=1,every=500,capacity=1.25", NULL);
    for (uint32_t e = 0; e < 2; e++)
        for (uint32_t i = 1; i <= 8; i++) {
            uint64_t ns = layer(&c, e, i)->fwd_ns, most = 1250000;

            assert_true(ns > MS && ns < 3 * MS); /* eight ranks with a deviation of a fifth */
            assert_int_equal(layer(&d, e, i)->fwd_ns, ns < most ? ns : most);
            differs = differs || layer(&c, 0, i)->fwd_ns != layer(&c, 1, i)->fwd_ns;
        }
    assert_true(differs && layer(&c, 0, 1)->fwd_ns != layer(&c, 0, 2)->fwd_ns);
    dp_sim_case_release(&d);
    d = under("moe,interval=1,part=1,top=1,every=500", NULL); /* the same again */
    for (uint32_t e = 0; e < 2; e++)
        assert_memory_equal(c.event[e].layer, d.event[e].layer, c.n_layers * sizeof *c.event[e].layer);
    dp_sim_case_release(&c);
    dp_sim_case_release(&d);
}

static void depths(void **state)
{
    (void)state;
    struct dp_sim_case c = under("mod,capacity=0.5,attention=0.2", NULL);

    for (uint32_t i = 1; i <= 8; i++) {
        assert_times(layer(&c, 0, i), i % 2 ? 1 : 0.8 * 0.5 + 0.2 * 0.25);
        assert_int_equal(layer(&c, 0, i)->act_bytes, i % 2 ? 100 : 50);
    }
    dp_sim_case_release(&c);
}

/* A head behind blocks 2 and 4; of the tokens half leaves at each. */
static void exits(void **state)
{
    (void)state;
    struct dp_sim_case c = under("early-exit", NULL);

    for (uint32_t i = 1; i <= 9; i++) {
        bool has_exit = i == 2 || i == 4;

        assert_times(layer(&c, 0, i), has_exit ? 2 : 1);
        assert_int_equal(layer(&c, 0, i)->state_bytes, has_exit ? 3200 : 1600);
        assert_int_equal(layer(&c, 0, i)->act_bytes, has_exit ? 200 : 100);
    }
    dp_sim_case_release(&c);
    c = under("early-exit,leave=0.5", NULL);
    for (uint32_t i = 1; i <= 9; i++) {
        assert_times(layer(&c, 0, i), (i == 2 || i == 4 ? 2 : 1) * (i <= 2 ? 1 : i <= 4 ? 0.5 : 0.25));
        assert_int_equal(layer(&c, 0, i)->output_bytes, i < 2 ? 10 : i < 4 ? 5 : 3);
    }
    dp_sim_case_release(&c);
}

/* T = 12 c: attention is half of a block. */
static void attention(void **state)
{
    (void)state;
    struct dp_sim_case c = under("sparse-attention,tokens=12288,channels=1024,kept=0,last=0.7", NULL);

    for (uint32_t i = 1; i <= 8; i++)
        assert_times(layer(&c, 0, i), 0.5 + 0.5 * 0.1 * (i - 1));
    dp_sim_case_release(&c);
}

/* ---- beside what the case says anyway ---- */

/* Blocks are pruned to half, then a layout is asked for: both stay where they are, and costs are those of both. */
static void joins_the_events_of_the_case(void **state)
{
    (void)state;
    struct dp_sim_case c = under("freeze,schedule=geometric,phases=2,a=0.5",
                                 MODEL(", \"events\": [{\"iteration\": 200, \"pause_ms\": 3,"
                                       " \"density\": [1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1]},"
                                       " {\"iteration\": 501, \"layout\": [7, 1, 1, 1], \"release\": \"devices\"},"
                                       " {\"iteration\": 600, \"layout\": [6, 2, 1, 1]}]"));
    struct dp_sim_totals t;
    struct dp_err err;

    assert_int_equal(c.n_events, 4);
    assert_times(layer(&c, 0, 1), 1);
    assert_int_equal(c.event[1].iteration, 200);
    assert_int_equal(c.event[1].pause_ns, 3 * MS);
    assert_false(c.event[1].has_density);
    assert_times(layer(&c, 1, 1), 0.5);
    assert_times(layer(&c, 1, 9), 1);
    assert_int_equal(c.event[2].iteration, 501); /* both happen there */
    assert_int_equal(c.event[2].count[0], 7);
    assert_int_equal(c.event[2].release, DP_SIM_RELEASE_DEVICES);
    assert_int_equal(dp_sim_forward_only(c.event[2].layer, c.n_layers), 5);
    assert_int_equal(layer(&c, 2, 1)->fwd_ns, MS / 2);
    assert_null(c.event[3].layer);
    if (dp_sim_run(&c, NULL, NULL, &t, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(t.iterations, 1000);
    dp_sim_case_release(&c);
}

static int count_phase(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    (void)err;
    assert_true(p->out->iteration_ns > 0);
    ++*(uint32_t *)arg;
    return 0;
}

/* Whatever the values: changes come in order, within the run, and what comes out can be simulated. */
static void any_values_can_be_simulated(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 600; round++) {
        uint64_t seed = round + 3;
        struct dp_sim_case c = case_of(MODEL(""));
        struct dp_sim_scheme_choice choice;
        uint32_t n = 0, phases = 0;
        struct dp_sim_totals t;
        struct dp_err err;

        while (dp_sim_scheme_at(n))
            n++;
        assert_int_equal(dp_sim_scheme_parse(dp_sim_scheme_at(random_below(&seed, n))->name, &choice, &err), 0);
        for (uint32_t i = 0; choice.scheme->rule->key[i].name; i++) {
            const struct dp_sim_scheme_key *k = &choice.scheme->rule->key[i];
            double v = k->low + (k->high - k->low) * random_below(&seed, 101) / 100.0;

            if (k->choices)
                choice.value[i] = random_below(&seed, 3);
            else if (random_below(&seed, 3))
                choice.value[i] = k->is_whole ? floor(v) : v;
        }
        c.iterations = 1 + random_below(&seed, 300);
        if (dp_sim_scheme_use(&choice, &c, &err) < 0) { /* some do not fit together */
            assert_non_null(strstr(err.text, choice.scheme->name));
            dp_sim_case_release(&c);
            continue;
        }
        assert_true(c.n_events >= 1 && c.n_events <= 1 + DP_SIM_SCHEME_CHANGES && c.event[0].iteration == 1);
        for (uint32_t i = 1; i < c.n_events; i++)
            assert_true(c.event[i].iteration > c.event[i - 1].iteration && c.event[i].iteration <= c.iterations);
        if (dp_sim_case_check(&c, &err) < 0 || dp_sim_run(&c, count_phase, &phases, &t, &err) < 0)
            fail_msg("round %u, %s: %s", (unsigned)round, choice.scheme->name, err.text);
        assert_int_equal(phases, c.n_events);
        dp_sim_case_release(&c);
    }
}

/* ---- advice ---- */

static struct dp_advice advice_of(const struct dp_sim_case *c)
{
    struct dp_advice a = {0};
    struct dp_saving saving;
    struct dp_err err;

    if (dp_sim_saving(c, &saving, &err) < 0 || dp_sim_advise(c, &saving, &a, &err) < 0)
        fail_msg("%s", err.text);
    return a;
}

/* What advice says of a run that freezes is what each number of devices takes by itself. */
static void advice_is_what_each_number_takes(void **state)
{
    (void)state;
    struct dp_sim_case c = under("freeze,schedule=geometric,a=0.5,phases=4,most=1", NULL);
    struct dp_advice a = advice_of(&c);
    uint64_t start = a.row[3].part[0].iteration_ns;
    double time_s = 0, device_s = 0;
    uint32_t most = 0;

    assert_int_equal(a.trade.n, 4);
    assert_int_equal(a.n_parts, 4);
    assert_int_equal(a.start_ns, start);
    for (uint32_t i = 0; i < 4; i++) {
        const struct dp_advice_row *r = &a.row[i];
        uint64_t fast = 0, from = 0;
        struct dp_sim_totals t;

        assert_int_equal(r->devices, i + 1);
        assert_int_equal(dp_sim_run_by(&c, i + 1, "iteration", NULL, NULL, &t, NULL), 0);
        assert_true(fabs(t.time_s - a.trade.row[i].time_s) < 1e-9 && fabs(t.device_s - a.trade.row[i].device_s) < 1e-6);
        for (uint32_t p = 0; p < 4; p++) {
            uint32_t layers = 0;

            assert_int_equal(r->part[p].first, 1 + 250 * p);
            assert_int_equal(r->part[p].n, 250);
            for (uint32_t s = 0; s < r->part[p].n_stages; s++)
                layers += r->part[p].count[s];
            assert_int_equal(layers, c.n_layers);
            assert_true(r->part[p].n_stages <= i + 1);
            fast += r->part[p].iteration_ns <= start ? 250 : 0;
            from = r->part[p].iteration_ns > start ? 0 : from ? from : r->part[p].first;
        }
        assert_int_equal(r->fast_iterations, fast);
        assert_int_equal(r->fast_from, from);
    }
    assert_int_equal(a.row[3].fast_from, 1);
    assert_true(a.row[0].fast_iterations < a.row[2].fast_iterations);
    for (uint32_t p = 4; p-- > 0;) { /* fewest that are as fast; all at first */
        uint32_t need = 0;

        while (p == 0 ? need < 3 : a.row[need].part[p].iteration_ns > start)
            need++;
        most = need > most ? need : most;
        if (p == 3)
            assert_int_equal(a.last_devices, need + 1);
        time_s += 250e-9 * (double)a.row[most].part[p].iteration_ns;
        device_s += (most + 1) * 250e-9 * (double)a.row[most].part[p].iteration_ns;
    }
    assert_true(a.last_devices < 4);
    assert_true(fabs(a.time_s - time_s) < 1e-9 && fabs(a.device_s - device_s) < 1e-9);
    assert_true(a.chosen < 4 && a.trade.row[a.chosen].is_chosen);
    dp_advice_release(&a);
    dp_sim_case_release(&c);
}

/* Layers that get dearer again give nothing back: what a later stretch needs must still be there. */
static void what_gets_dearer_gives_nothing_back(void **state)
{
    (void)state;
    struct dp_sim_case c = under("drop,schedule=falling,most=1,parts=4", NULL);
    struct dp_advice a = advice_of(&c);

    assert_int_equal(a.last_devices, 4);
    assert_true(fabs(a.device_s - 4 * a.time_s) < 1e-9);
    assert_true(fabs(a.device_s - a.trade.row[3].device_s) < 1e-9);
    assert_int_equal(a.row[3].fast_from, 0);
    dp_advice_release(&a);
    dp_sim_case_release(&c);
}

/* One device has no room: its row says so, and counts for nothing. Where not even all have, there is no advice. */
static void advice_where_memory_is_short(void **state)
{
    (void)state;
    struct dp_sim_case c = under("mod", MODEL(", \"device\": {\"memory_bytes\": 10000}"));
    struct dp_saving saving = {.devices = 4};
    struct dp_advice a = advice_of(&c);
    struct dp_err err;

    assert_null(a.row[0].part);
    assert_non_null(strstr(a.trade.row[0].why, "policy iteration: the layers do not fit"));
    assert_int_equal(a.row[0].fast_iterations, 0);
    assert_non_null(a.row[3].part);
    dp_advice_release(&a);
    c.memory_bytes = 2000;
    assert_int_equal(dp_sim_advise(&c, &saving, &a, &err), -1);
    assert_non_null(strstr(err.text, "no layout on all 4 devices: "));
    dp_advice_release(&a);
    dp_sim_case_release(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_from_texts),
    cmocka_unit_test(the_list_is_sound),
    cmocka_unit_test(bad_texts_are_refused),
    cmocka_unit_test(values_that_do_not_fit_are_refused),
    cmocka_unit_test(blocks_are_what_repeats),
    cmocka_unit_test(freezing_a_prefix),
    cmocka_unit_test(freezing_geometrically),
    cmocka_unit_test(freezing_linearly),
    cmocka_unit_test(dropping_by_depth),
    cmocka_unit_test(experts),
    cmocka_unit_test(depths),
    cmocka_unit_test(exits),
    cmocka_unit_test(attention),
    cmocka_unit_test(joins_the_events_of_the_case),
    cmocka_unit_test(any_values_can_be_simulated),
    cmocka_unit_test(advice_is_what_each_number_takes),
    cmocka_unit_test(what_gets_dearer_gives_nothing_back),
    cmocka_unit_test(advice_where_memory_is_short),
};
TEST_MAIN("sim_scheme", tests)
