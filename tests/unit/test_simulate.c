/* The simulator against closed forms, and against a longest path over the whole graph of operations. */
#include "tests/unit/unit.h"

#include "policies/simulate.h"
#include "tests/unit/random.h"

static uint64_t run(const struct dp_sim_in *in, struct dp_sim_stage_out *out)
{
    uint64_t t = 0;
    struct dp_err err;

    if (dp_simulate(in, out, &t, &err) < 0)
        fail_msg("%s", err.text);
    return t;
}

static void balanced_1f1b(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= 8; s++)
        for (uint32_t m = 1; m <= 20; m += 3) {
            struct dp_sim_stage stage[8];
            struct dp_sim_stage_out out[8];
            struct dp_sim_in in = {DP_SCHED_1F1B, s, m, stage, 0, 0};

            for (uint32_t i = 0; i < s; i++)
                stage[i] = (struct dp_sim_stage){10, 20, 7, 100, 5};
            assert_int_equal(run(&in, out), (m + s - 1) * 30 + 7);
            for (uint32_t i = 0; i < s; i++) {
                uint32_t deep = s - i < m ? s - i : m;

                assert_int_equal(out[i].in_flight, deep);
                assert_int_equal(out[i].mem_bytes, 100 + 5 * deep);
                assert_int_equal(out[i].busy_ns, m * 30 + 7);
            }
        }
}

/* T = sum t_s + (m-1) max t_s for any one slow stage when forward and backward have the same length
 * everywhere else: here with the slow one last, where 1F1B keeps it busy without a gap. */
static void slow_last_stage_1f1b(void **state)
{
    (void)state;
    struct dp_sim_stage stage[3] = {{10, 20, 0, 0, 0}, {10, 20, 0, 0, 0}, {40, 80, 0, 0, 0}};
    struct dp_sim_stage_out out[3];
    struct dp_sim_in in = {DP_SCHED_1F1B, 3, 16, stage, 0, 0};

    assert_int_equal(run(&in, out), 30 + 30 + 16 * 120);
    assert_true(out[2].bubble < 0.04 && out[0].bubble > 0.7);
}

/* GPipe is two flow shops: sum + (m-1) max, forward and backward each, exactly. */
static void gpipe_closed_form(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t seed = i, fs = 0, fm = 0, bs = 0, bm = 0;
        struct dp_sim_stage stage[6] = {0};
        struct dp_sim_stage_out out[6];
        struct dp_sim_in in = {DP_SCHED_GPIPE, 1 + random_below(&seed, 6), 1 + random_below(&seed, 12), stage,
                               0, 0};

        for (uint32_t s = 0; s < in.n_stages; s++) {
            stage[s].fwd_ns = random_below(&seed, 100);
            stage[s].bwd_ns = random_below(&seed, 200);
            fs += stage[s].fwd_ns;
            bs += stage[s].bwd_ns;
            fm = stage[s].fwd_ns > fm ? stage[s].fwd_ns : fm;
            bm = stage[s].bwd_ns > bm ? stage[s].bwd_ns : bm;
        }
        assert_int_equal(run(&in, out), fs + bs + (in.microbatches - 1) * (fm + bm));
        assert_int_equal(out[0].in_flight, in.microbatches);
    }
}

/* One microbatch: everything in a row, 2 (S-1) messages in between. */
static void one_microbatch_pays_every_link(void **state)
{
    (void)state;
    struct dp_sim_stage stage[4] = {{1, 2, 0, 0, 0}, {3, 4, 0, 0, 0}, {5, 6, 9, 0, 0}, {7, 8, 0, 0, 0}};
    struct dp_sim_in in = {DP_SCHED_1F1B, 4, 1, stage, 100, 1000};

    assert_int_equal(run(&in, NULL), 36 + 6 * 1100 + 9);
}

/* A link slower than the stages sets the pace. */
static void slow_link_sets_the_pace(void **state)
{
    (void)state;
    struct dp_sim_stage stage[2] = {{1, 1, 0, 0, 0}, {1, 1, 0, 0, 0}};
    struct dp_sim_in in = {DP_SCHED_GPIPE, 2, 10, stage, 0, 100};

    assert_int_equal(run(&in, NULL), 1 + 10 * 100 + 1 + 1 + 10 * 100 + 1);
}

/* --- longest path, by relaxing all constraints until nothing changes --- */

#define S_MAX 4
#define M_MAX 6
struct graph {
    uint64_t end[S_MAX][2 * M_MAX], sent_f[S_MAX][M_MAX], sent_b[S_MAX][M_MAX];
};

/* i-th operation of a stage: +j+1 forward of j, -(j+1) backward of j. Written from the definition:
 * the first min(S-s, m) operations are forwards, then backward and forward take turns. */
static int operation(const struct dp_sim_in *in, uint32_t s, uint32_t i)
{
    uint32_t m = in->microbatches, warm = in->n_stages - s < m ? in->n_stages - s : m;

    if (in->schedule == DP_SCHED_GPIPE)
        warm = m;
    if (i < warm)
        return (int)i + 1;
    i -= warm;
    if (i < 2 * (m - warm))
        return i % 2 ? (int)(warm + i / 2) + 1 : -(int)(i / 2) - 1;
    return -(int)(i - (m - warm)) - 1;
}

static bool relax(const struct dp_sim_in *in, struct graph *g)
{
    bool changed = false;

    for (uint32_t s = 0; s < in->n_stages; s++)
        for (uint32_t i = 0; i < 2 * in->microbatches; i++) {
            int op = operation(in, s, i);
            uint32_t j = (uint32_t)(op > 0 ? op - 1 : -op - 1);
            uint64_t at = i ? g->end[s][i - 1] : 0, end, *sent;

            if (op > 0 && s > 0 && g->sent_f[s - 1][j] + in->latency_ns > at)
                at = g->sent_f[s - 1][j] + in->latency_ns;
            if (op < 0 && s + 1 < in->n_stages && g->sent_b[s + 1][j] + in->latency_ns > at)
                at = g->sent_b[s + 1][j] + in->latency_ns;
            end = at + (op > 0 ? in->stage[s].fwd_ns : in->stage[s].bwd_ns);
            changed |= end != g->end[s][i];
            g->end[s][i] = end;
            sent = op > 0 ? g->sent_f[s] : g->sent_b[s];
            if (j && sent[j - 1] > end)
                end = sent[j - 1];
            changed |= sent[j] != end + in->boundary_ns;
            sent[j] = end + in->boundary_ns;
        }
    return changed;
}

static void equals_longest_path(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i + 99, want = 0, opt = 0;
        struct dp_sim_stage stage[S_MAX] = {0};
        struct graph g = {0};
        struct dp_sim_in in = {random_below(&seed, 2) ? DP_SCHED_1F1B : DP_SCHED_GPIPE,
                               1 + random_below(&seed, S_MAX), 1 + random_below(&seed, M_MAX), stage,
                               random_below(&seed, 2) ? random_below(&seed, 50) : 0,
                               random_below(&seed, 2) ? random_below(&seed, 50) : 0};

        for (uint32_t s = 0; s < in.n_stages; s++)
            stage[s] = (struct dp_sim_stage){random_below(&seed, 60), random_below(&seed, 120),
                                             random_below(&seed, 30), 0, 0};
        while (relax(&in, &g))
            ;
        for (uint32_t s = 0; s < in.n_stages; s++) {
            want = g.end[s][2 * in.microbatches - 1] > want ? g.end[s][2 * in.microbatches - 1] : want;
            opt = stage[s].opt_ns > opt ? stage[s].opt_ns : opt;
        }
        assert_int_equal(run(&in, NULL), want + opt);
    }
}

static void refuses_nothing_to_do(void **state)
{
    (void)state;
    struct dp_sim_stage stage = {1, 1, 1, 1, 1};
    struct dp_sim_in in = {DP_SCHED_1F1B, 0, 4, &stage, 0, 0};
    uint64_t t;
    struct dp_err err;

    assert_int_equal(dp_simulate(&in, NULL, &t, &err), -1);
    in.n_stages = 1;
    in.microbatches = 0;
    assert_int_equal(dp_simulate(&in, NULL, &t, &err), -1);
    assert_non_null(strstr(err.text, "0 microbatches"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(balanced_1f1b),         cmocka_unit_test(slow_last_stage_1f1b),
    cmocka_unit_test(gpipe_closed_form),     cmocka_unit_test(one_microbatch_pays_every_link),
    cmocka_unit_test(slow_link_sets_the_pace), cmocka_unit_test(equals_longest_path),
    cmocka_unit_test(refuses_nothing_to_do),
};
TEST_MAIN("simulate", tests)
