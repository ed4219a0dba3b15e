/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/learn: the same seed gives the same file whatever the number of threads, by every method, and each gets better
 * at the lessons that it learns from; a training ends where it is told to, and a team does every task once. */
#include "config.h"

#include "tests/unit/unit.h"

#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define ITERATIONS DP_INSTANCES(4)
#define AGAIN 8u /* iterations of the same lessons */

struct file {
    char *data;
    size_t bytes;
    uint32_t n;
    float first, last; /* rewards */
};

static bool note(void *arg, uint32_t iteration, float reward)
{
    struct file *f = arg;

    f->first = iteration == 0 ? reward : f->first;
    f->last = reward;
    return true;
}

static struct file learn(enum dp_learn_method method, uint64_t seed, uint32_t iterations, uint32_t threads)
{
    struct file f = {0};
    const struct dp_learn ask = {
        .method = method, .seed = seed, .iterations = iterations, .threads = threads, .on_iteration = note, .arg = &f};
    struct dp_weights w;
    struct dp_err err = {.text = ""};

    if (dp_learn_run(&ask, &w, &err) < 0)
        fail_msg("%s", err.text);
    f.n = w.n;
    assert_int_equal(dp_weights_encode(&w, &f.data, &f.bytes, NULL), 0);
    dp_weights_release(&w);
    return f;
}

/* Ten seconds of a core, or less: in iterations, since seconds are another machine's affair. */
static void same_file(void **state)
{
    (void)state;
    for (int m = 0; m < DP_LEARN_N; m++) {
        struct file a = learn((enum dp_learn_method)m, 7, ITERATIONS, 1), b = learn((enum dp_learn_method)m, 7, ITERATIONS, 3),
                    c = learn((enum dp_learn_method)m, 8, ITERATIONS, 2);

        assert_in_range(a.n, 1, DP_WEIGHTS_MOST);
        assert_int_equal(a.bytes, b.bytes);
        assert_memory_equal(a.data, b.data, a.bytes);
        assert_true(a.first <= b.first && a.first >= b.first && a.last <= b.last && a.last >= b.last);
        assert_true(c.bytes != a.bytes || memcmp(a.data, c.data, a.bytes) != 0);
        free(a.data);
        free(b.data);
        free(c.data);
    }
}

static void open_lessons(struct dp_learner *l, uint32_t first)
{
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++)
        assert_int_equal(dp_lesson_create(&l->lesson[i], l->ask->seed, first + i, l->ask->method == DP_LEARN_IMITATION, NULL), 0);
}

static void close_lessons(struct dp_learner *l)
{
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++)
        dp_lesson_release(&l->lesson[i]);
}

/* A few iterations of one network. */
static void train_one(struct dp_learner *l, const struct dp_learn *ask)
{
    float reward;

    dp_learner_begin(l, ask);
    for (; l->iteration < ask->iterations; l->iteration++) {
        open_lessons(l, l->iteration * DP_LEARN_LESSONS);
        assert_int_equal(dp_learner_once(l, &reward, NULL), 0);
        close_lessons(l);
    }
}

/* A file may hold random rules alone, which know nothing of a training: what was trained is the same, too, and is not what it began as. */
static void same_network(void **state)
{
    static struct dp_learner one, two, begin;

    (void)state;
    for (int m = 0; m < DP_LEARN_N; m++) {
        struct dp_learn ask = {.method = (enum dp_learn_method)m, .seed = 5, .iterations = 3, .threads = 1};

        train_one(&one, &ask);
        ask.threads = 3;
        train_one(&two, &ask);
        dp_learner_begin(&begin, &ask);
        assert_memory_equal(&one.net, &two.net, sizeof one.net);
        assert_memory_equal(&one.cutter, &two.cutter, sizeof one.cutter);
        assert_int_equal(memcmp(&one.net, &begin.net, sizeof one.net) != 0, m != DP_LEARN_DRL_PP);
        assert_int_equal(memcmp(&one.cutter, &begin.cutter, sizeof one.cutter) != 0, m == DP_LEARN_DRL_PP);
    }
}

/* Of drawn placements: the likeliest one is one device for all at first. returns: what they are worth, in the mean. */
static float try_placements(const struct dp_lesson *l, const struct dp_cutter *c)
{
    float sum = 0;
    uint64_t load;
    struct dp_cutter_code code;
    struct dp_cutter_tape tape;

    assert_int_equal(dp_cutter_encode(&code, c, &l->seen, NULL), 0);
    assert_int_equal(dp_cutter_tape_create(&tape, l->units.n, l->n_devices, NULL), 0);
    for (uint64_t seed = 0; seed < 16; seed++) {
        dp_cutter_place(c, &l->seen, &code, DP_CUTTER_DRAWN, seed, &tape);
        assert_int_equal(dp_learn_drl_pp_load(l, &tape, &load, NULL), 0);
        sum += dp_lesson_reward(l, load) / 16;
    }
    dp_cutter_tape_release(&tape);
    dp_cutter_code_release(&code);
    return sum;
}

/* What the network's own orders, or placements, are worth, in the mean of the lessons. */
static float worth(const struct dp_learner *l)
{
    float sum = 0;

    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        uint64_t load;

        if (l->ask->method == DP_LEARN_DRL_PP) {
            sum += try_placements(&l->lesson[i], &l->cutter) / DP_LEARN_LESSONS;
            continue;
        }
        assert_int_equal(dp_lesson_try(&l->lesson[i], &l->net, 1, &load, NULL), 0);
        sum += dp_lesson_reward(&l->lesson[i], load) / DP_LEARN_LESSONS;
    }
    return sum;
}

/* The same four lessons again and again: after some iterations orders are worth more there. Nothing here is by chance but for
 * the seed, so it is so on every machine. */
static void gets_better(void **state)
{
    (void)state;
    static const uint64_t seeds[DP_LEARN_N] = {4, 4, 2, 4}; /* of lessons in which there is something to gain */
    static struct dp_learner l;

    for (int m = 0; m < DP_LEARN_N; m++) {
        const struct dp_learn ask = {.method = (enum dp_learn_method)m, .seed = seeds[m], .iterations = AGAIN, .threads = 2};
        float before, reward;

        dp_learner_begin(&l, &ask);
        open_lessons(&l, 0);
        before = worth(&l);
        for (; l.iteration < ask.iterations; l.iteration++)
            assert_int_equal(dp_learner_once(&l, &reward, NULL), 0);
        if (!(worth(&l) > before + 0.005f))
            fail_msg("%s: %g before, %g after %u iterations", dp_learn_method_name(ask.method), (double)before, (double)worth(&l), AGAIN);
        close_lessons(&l);
    }
}

static bool end_it(void *arg, uint32_t iteration, float reward)
{
    (void)reward;
    *(uint32_t *)arg = iteration;
    return iteration < 2;
}

static void ended(void **state)
{
    (void)state;
    uint32_t last = 0;
    const struct dp_learn ask = {.seed = 1, .iterations = 100, .threads = 1, .on_iteration = end_it, .arg = &last};
    struct dp_weights w;
    struct dp_err err;

    assert_int_equal(dp_learn_run(&ask, &w, &err), -1);
    assert_int_equal(last, 2);
    assert_non_null(strstr(err.text, "ended after 3 iterations"));
    dp_weights_release(&w);
}

static int count(void *arg, uint32_t which, struct dp_err *err)
{
    ((uint32_t *)arg)[which]++;
    return which == 40 || which == 17 ? dp_err_set(err, DP_EINVAL, "task %u", which) : 0;
}

static void team(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads < 6; threads++) {
        uint32_t times[100] = {0};
        struct dp_err err;

        assert_int_equal(dp_team_run(threads, 17, count, times, NULL), 0);
        for (uint32_t i = 0; i < 17; i++)
            assert_int_equal(times[i], 1);
        assert_int_equal(dp_team_run(threads, 0, count, times, NULL), 0);
        assert_int_equal(dp_team_run(threads, 100, count, times, &err), -1);
        assert_string_equal(err.text, "task 17");
    }
}

static void methods(void **state)
{
    (void)state;
    enum dp_learn_method m;
    struct dp_err err;

    assert_int_equal(dp_learn_method_find("es", &m, NULL), 0);
    assert_int_equal(m, DP_LEARN_ES);
    assert_string_equal(dp_learn_method_name(DP_LEARN_PPO), "ppo");
    assert_int_equal(dp_learn_method_find("reinforce", &m, &err), -1);
    assert_string_equal(err.text, "unknown method 'reinforce'; expected one of ppo, es, imitation, drl-pp");
}

/* What is worth 1 % less than the few orders; and a lesson is the same each time. */
static void lessons(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        struct dp_lesson a, b;

        assert_int_equal(dp_lesson_create(&a, 3, i, false, NULL), 0);
        assert_int_equal(dp_lesson_create(&b, 3, i, false, NULL), 0);
        assert_true(a.line_ns > 0 && a.line_ns < UINT64_MAX);
        assert_true(a.line_ns == b.line_ns);
        assert_true(a.seen.facts.share_ns <= a.line_ns + 1);
        assert_true(dp_lesson_reward(&a, a.line_ns) <= 0 && dp_lesson_reward(&a, a.line_ns) >= 0);
        assert_true(dp_lesson_reward(&a, a.line_ns + a.line_ns / 100) < -0.009f);
        assert_true(dp_lesson_reward(&a, a.line_ns + a.line_ns / 100) > -0.011f);
        dp_lesson_release(&a);
        dp_lesson_release(&b);
    }
}

/* Stages of exact plans: no edge leads back, and an order that keeps to them is worth at least what the few orders are. */
static void exact_plans(void **state)
{
    (void)state;
    uint32_t n_exact = 0;

    for (uint64_t i = 0; i < 12; i++) {
        struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1};
        struct dp_net_code code;
        struct dp_lesson l;
        struct dp_net net;
        uint32_t *stage, *order;
        uint64_t load, steps = 0;
        int rc;

        assert_int_equal(dp_lesson_create(&l, 3, i, true, NULL), 0);
        assert_non_null(stage = calloc(l.units.n, sizeof *stage));
        assert_non_null(order = calloc(l.units.n, sizeof *order));
        rc = dp_lesson_exact(&l, stage, NULL);
        assert_true(rc >= 0);
        if (rc > 0) {
            n_exact++;
            for (uint32_t v = 0; v < l.units.n; v++)
                for (uint32_t k = l.units.pred_at[v]; k < l.units.pred_at[v + 1]; k++)
                    assert_true(stage[l.units.pred[k]] <= stage[v]);
            dp_net_init(&net, i);
            ask.stage = stage;
            assert_int_equal(dp_net_encode(&code, &net, &l.seen, NULL), 0);
            assert_int_equal(dp_net_order(&net, &l.seen, &code, &ask, order, &steps, NULL), 1);
            for (uint32_t k = 1; k < l.units.n; k++)
                assert_true(stage[order[k - 1]] <= stage[order[k]]);
            assert_int_equal(dp_lesson_load(&l, order, &load, NULL), 0);
            assert_true(load <= l.line_ns);
            dp_net_code_release(&code);
        }
        free(stage);
        free(order);
        dp_lesson_release(&l);
    }
    assert_in_range(n_exact, 4, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_file), cmocka_unit_test(same_network), cmocka_unit_test(gets_better),
        cmocka_unit_test(ended), cmocka_unit_test(team), cmocka_unit_test(methods),
        cmocka_unit_test(lessons), cmocka_unit_test(exact_plans),
    };

    return cmocka_run_group_tests_name("learn_train", tests, NULL, NULL);
}
