/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/learn/cutter and maxload/parts, which `dynpipe plan --algorithm=drl-pp` is made of: gradients are what differences say; a
 * pipeline comes of any placement, without an edge that leads back, and its load is what a slow count says. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "policies/graph/maxload/parts.h"
#include "policies/graph/search/draw.h"
#include "policies/learn/net/cutter.h"
#include "policies/learn/train/family.h"

#define DEVICES 4

struct world {
    struct dp_graph g;
    struct dp_units u;
    struct dp_net_graph seen;
};

static void build(struct world *w, enum dp_family f, uint32_t n, uint64_t seed)
{
    assert_int_equal(dp_family_make(&w->g, f, n, seed, NULL), 0);
    assert_int_equal(dp_graph_set_bandwidth(&w->g, 1.25e9, NULL), 0);
    assert_int_equal(dp_units_create(&w->u, &w->g, NULL), 0);
    assert_int_equal(dp_net_graph_create(&w->seen, &w->u, DEVICES, NULL), 0);
}

static void tear_down(struct world *w)
{
    dp_net_graph_release(&w->seen);
    dp_units_release(&w->u);
    dp_graph_release(&w->g);
}

/* ---- the network ---- */

static void place(const struct dp_cutter *c, const struct world *w, enum dp_cutter_way way, uint64_t seed, struct dp_cutter_tape *t)
{
    struct dp_cutter_code code;

    assert_int_equal(dp_cutter_encode(&code, c, &w->seen, NULL), 0);
    dp_cutter_place(c, &w->seen, &code, way, seed, t);
    dp_cutter_code_release(&code);
}

static double entropy_of(const float *share)
{
    double sum = 0;

    for (uint32_t k = 0; k < DEVICES; k++)
        sum -= share[k] > 0 ? (double)share[k] * log((double)share[k]) : 0;
    return sum;
}

/* What dp_cutter_learn() says that it differentiates, of the choices on the tape. */
static double loss(const struct dp_cutter *c, const struct world *w, struct dp_cutter_tape *t)
{
    double sum = 0;

    place(c, w, DP_CUTTER_FOLLOW, 0, t);
    for (uint32_t i = 0; i < t->n + DEVICES; i++) {
        t->slope[i] = (float)(i % 3) - 0.7f;
        sum += (double)t->slope[i] * (double)t->log_share[i];
    }
    for (uint32_t v = 0; v < t->n; v++)
        sum -= 0.5 * entropy_of(t->visit[v].share);
    for (uint32_t i = 0; i < DEVICES; i++)
        sum -= t->placing[i].n_units ? 0.5 * entropy_of(t->placing[i].share) : 0;
    return sum;
}

/* As in test_learn_net.c. Weights of a size at which all choices are open. */
static void gradients(void **state)
{
    (void)state;
    static struct dp_cutter net, grad, moved;
    const float *g = dp_cutter_numbers(&grad);
    struct dp_cutter_tape tape;
    struct dp_cutter_code code;
    struct world w;
    uint64_t draws = 5;
    uint32_t n_large = 0;

    build(&w, DP_FAMILY_CELLS, 24, 2);
    dp_cutter_init(&net, 9);
    net.stay = 1;
    net.next = 0.5f;
    net.full = -0.5f;
    for (int k = 0; k < DP_CUTTER_WIDTH; k++) {
        net.of_load[k] = 0.2f;
        net.score[k] *= 4;
    }
    assert_int_equal(dp_cutter_tape_create(&tape, w.u.n, DEVICES, NULL), 0);
    place(&net, &w, DP_CUTTER_DRAWN, 4, &tape);
    loss(&net, &w, &tape);
    assert_int_equal(dp_cutter_encode(&code, &net, &w.seen, NULL), 0);
    assert_int_equal(dp_cutter_learn(&net, &w.seen, &code, &tape, 0.5f, &grad, NULL), 0);
    dp_cutter_code_release(&code);
    for (uint32_t i = 0; i < 1500; i++) { /* the last 900 numbers are those after the LSTM, and few: half of all looks */
        uint32_t k = i % 2 ? DP_CUTTER_SIZE - 900 + dp_draw_below(&draws, 900) : dp_draw_below(&draws, DP_CUTTER_SIZE);
        double up, down, difference;

        moved = net;
        dp_cutter_numbers(&moved)[k] += 0.01f;
        up = loss(&moved, &w, &tape);
        dp_cutter_numbers(&moved)[k] -= 0.02f;
        down = loss(&moved, &w, &tape);
        difference = (up - down) / 0.02;
        n_large += fabs(difference) > 0.1;
        if (!(fabs(difference - (double)g[k]) < 0.01 + 0.02 * fabs(difference)))
            fail_msg("weight %u: gradient %g, by differences %g", k, (double)g[k], difference);
    }
    if (n_large < 100)
        fail_msg("%u gradients only are large enough to be seen", n_large);
    dp_cutter_tape_release(&tape);
    tear_down(&w);
}

/* The same seed places the same; a device is always one of those that there are. */
static void placements(void **state)
{
    (void)state;
    for (int f = 0; f < DP_N_FAMILIES; f++) {
        struct dp_cutter net;
        struct dp_cutter_tape tape;
        struct world w;
        uint32_t *device, *again;

        build(&w, (enum dp_family)f, 60, 3);
        dp_cutter_init(&net, (uint64_t)f);
        assert_int_equal(dp_cutter_tape_create(&tape, w.u.n, DEVICES, NULL), 0);
        assert_non_null(device = calloc(w.u.n, sizeof *device));
        assert_non_null(again = calloc(w.u.n, sizeof *again));
        for (uint64_t seed = 0; seed < 10; seed++) {
            place(&net, &w, seed ? DP_CUTTER_DRAWN : DP_CUTTER_BEST, seed, &tape);
            dp_cutter_devices(&tape, device);
            place(&net, &w, seed ? DP_CUTTER_DRAWN : DP_CUTTER_BEST, seed, &tape);
            dp_cutter_devices(&tape, again);
            assert_memory_equal(device, again, w.u.n * sizeof *device);
            for (uint32_t v = 0; v < w.u.n; v++)
                assert_in_range(device[v], 0, DEVICES - 1);
        }
        free(device);
        free(again);
        dp_cutter_tape_release(&tape);
        tear_down(&w);
    }
}

/* ---- pipelines ---- */

/* By every net and every stage. */
static uint64_t slow_load(const struct dp_units *u, const uint32_t *stage, uint32_t n_stages)
{
    uint64_t most = 0;

    for (uint32_t s = 0; s < n_stages; s++) {
        uint64_t load = 0;

        for (uint32_t v = 0; v < u->n; v++)
            load += stage[v] == s ? u->accel_ns[v] : 0;
        for (uint32_t net = 0; net < u->n_nets; net++) {
            uint32_t here = 0, elsewhere = 0;

            for (uint32_t v = 0; v < u->n; v++)
                for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++)
                    if (u->net_of[i] == net)
                        *(stage[v] == s ? &here : &elsewhere) += 1;
            load += here && elsewhere ? u->net_ns[net] : 0;
        }
        most = load > most ? load : most;
    }
    return most;
}

static void pipelines(void **state)
{
    (void)state;
    uint32_t n_many = 0;

    for (uint64_t i = 0; i < 40; i++) {
        uint64_t draws = dp_draw_stream(11, i), load;
        uint32_t n_stages, n_devices = 1 + dp_draw_below(&draws, DP_PARTS_MOST), seen = 0;
        uint32_t *device, *stage;
        struct world w;

        build(&w, (enum dp_family)(i % DP_N_FAMILIES), 40, i);
        assert_non_null(device = calloc(w.u.n, sizeof *device));
        assert_non_null(stage = calloc(w.u.n, sizeof *stage));
        for (uint32_t v = 0; v < w.u.n; v++) /* from all by chance to nearly in order */
            device[v] = i % 4 == 0 ? dp_draw_below(&draws, n_devices)
                                   : (uint32_t)((uint64_t)v * n_devices / w.u.n + dp_draw_below(&draws, (uint32_t)(i % 4))) % n_devices;
        dp_parts_pipeline(&w.u, device, n_devices, stage, &n_stages);
        assert_in_range(n_stages, 1, n_devices);
        n_many += n_stages > 2;
        for (uint32_t s = 0; s < n_stages; s++)
            for (uint32_t v = 0; v < w.u.n; v++)
                if (stage[v] == s) {
                    seen++;
                    break;
                }
        assert_int_equal(seen, n_stages);
        for (uint32_t v = 0; v < w.u.n; v++)
            for (uint32_t k = 0; k < w.u.n; k++)
                assert_true(device[v] != device[k] || stage[v] == stage[k]);
        for (uint32_t v = 0; v < w.u.n; v++)
            for (uint32_t k = w.u.pred_at[v]; k < w.u.pred_at[v + 1]; k++)
                assert_true(stage[w.u.pred[k]] <= stage[v]);
        assert_int_equal(dp_parts_load(&w.u, stage, n_stages, UINT64_MAX, &load, NULL), 0);
        assert_true(load == slow_load(&w.u, stage, n_stages));
        assert_int_equal(dp_parts_load(&w.u, stage, n_stages, 0, &load, NULL), 0);
        assert_true(load == UINT64_MAX);
        free(device);
        free(stage);
        tear_down(&w);
    }
    if (n_many < 10)
        fail_msg("%u pipelines only had more than two stages", n_many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients), cmocka_unit_test(placements), cmocka_unit_test(pipelines)};

    return cmocka_run_group_tests_name("learn_cutter", tests, NULL, NULL);
}
