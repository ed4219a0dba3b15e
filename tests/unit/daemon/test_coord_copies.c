/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator and runs whose layers have copies on other workers (coord_world.h): what its workers are asked for, what people
 * see of it, and that nonsense about it changes nothing. */
#include "tests/unit/unit.h"

#include "daemon/coord/internal.h"
#include "tests/unit/daemon/coord_check.h"

static struct world *copying(uint64_t seed)
{
    struct world *w = begin(seed);

    w->limits.copies = 1;
    return w;
}

static json_t *copies_of(json_t *o)
{
    return json_object_get(o, "copies");
}

static void status_shows_each_workers_copies(void **state)
{
    struct world *w = copying(1);
    json_t *o, *k;

    (void)state;
    w->copies_missing = 1;
    train_unmoved(w);
    o = report_of(w);
    k = copies_of(o);
    assert_int_equal(int_of(k, "of_each"), 1);
    assert_int_equal(int_of(k, "layers"), W_LAYERS);
    assert_int_equal(int_of(k, "whole"), W_LAYERS - W_MAX);
    assert_int_equal(int_of(k, "bytes"), W_LAYERS << 20);
    assert_int_equal(int_of(k, "step_bytes"), W_LAYERS << 18);
    assert_non_null(strstr(text_of(k, "text"), "4 being copied"));
    k = copies_of(json_array_get(json_object_get(o, "workers"), 3));
    assert_true(int_of(k, "layers") == 2 && int_of(k, "whole") == 1 && int_of(k, "holder") == 0);
    assert_true(int_of(k, "held_layers") == 2 && int_of(k, "held_bytes") == 2 << 20);
    assert_true(json_is_null(json_object_get(k, "lag_steps")));
    json_decref(o);
    w->copies_missing = 0;
    world_run(w, 2.0, false);
    o = report_of(w);
    assert_int_equal(int_of(copies_of(o), "whole"), W_LAYERS);
    assert_string_equal(text_of(copies_of(o), "text"), "");
    k = copies_of(json_array_get(json_object_get(o, "workers"), 1));
    assert_true(json_is_integer(json_object_get(k, "lag_steps")) && int_of(k, "lag_steps") == 0);
    json_decref(o);
    dp_coord_end(w->c, w->now_ns, "its end");
    o = report_of(w);
    assert_int_equal(int_of(copies_of(o), "whole"), W_LAYERS); /* for those who look later */
    json_decref(o);
    end(w);
}

/* Who has none and asked for none is told nothing of them; who asked for them is told why there are none. */
static void nothing_is_said_without_need(void **state)
{
    (void)state;
    for (uint32_t copies = 0; copies < 2; copies++) {
        struct world *w = begin(2);
        json_t *o;

        w->limits.copies = copies;
        w->limits.mode = copies ? DP_MODE_OBSERVE : DP_MODE_RELEASE;
        train_unmoved(w);
        assert_int_equal(coord_copies(w->c), 0); /* in mode observe nobody goes on without a lost worker */
        w->limits.copies = 0;
        o = report_of(w);
        assert_true(!copies_of(o) == !copies); /* but what workers hold all the same is shown */
        json_decref(o);
        end(w);
    }
}

/* In each mode, and again when they come back. */
static void workers_are_told(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        bool is_asked = i & 1, is_observed = i & 2;
        struct world *w = begin(3);

        w->limits.copies = is_asked;
        w->limits.mode = is_observed ? DP_MODE_OBSERVE : DP_MODE_BALANCE;
        train_unmoved(w);
        for (uint32_t r = 0; r < W_MAX; r++)
            assert_int_equal(w->worker[r].copies, is_asked && !is_observed);
        world_crash(w);
        for (uint32_t r = 0; r < W_MAX; r++)
            w->worker[r].copies = 7;
        world_run(w, 10.0, false);
        for (uint32_t r = 0; r < W_MAX; r++)
            assert_int_equal(w->worker[r].copies, is_asked && !is_observed);
        end(w);
    }
}

/* Cheap as layers get, one node is not enough for a layer and its copy: of whole nodes, and of slices two of which share one. */
static void two_nodes_stay(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        bool is_sliced = i & 1, has_copies = i & 2;
        struct world *w = begin(4);
        uint32_t n_held = 0, nodes = 0;

        w->limits.copies = has_copies;
        if (is_sliced)
            world_slice(w);
        world_start(w);
        world_run(w, 120.0, false);
        for (uint32_t r = 0; r < W_MAX; r++)
            n_held += w->held[r];
        for (uint32_t r = 0; r < W_MAX; r++) {
            bool is_first = w->c->layout.cut[r + 1] > w->c->layout.cut[r];

            for (uint32_t k = 0; k < r; k++)
                is_first &= w->c->layout.cut[k + 1] == w->c->layout.cut[k] || strcmp(w->job.node[k], w->job.node[r]) != 0;
            nodes += is_first;
        }
        if (nodes != (has_copies ? 2 : 1))
            fail_msg("%s, copies %u: layers on %u nodes, %u slots are held", is_sliced ? "slices" : "nodes", has_copies, nodes, n_held);
        assert_true(world_is_settled(w));
        end(w);
    }
}

/* Half as many layers fit on a worker as without copies; where not even now all copies fit, they do not count. */
static void memory_counts_copies(void **state)
{
    static const struct { uint32_t copies; uint64_t limit; json_int_t stages; } of[] = {
        {0, 450000, 2}, {1, 450000, 4}, {1, 650000, 3}, {1, 350000, 3}, {0, 350000, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct world *w = begin(34);
        json_t *o;

        w->limits.copies = of[i].copies;
        w->mem_limit_bytes = of[i].limit;
        world_start(w);
        world_run(w, 90.0, false);
        o = report_of(w);
        if (int_of(json_object_get(o, "layout"), "stages") != of[i].stages)
            fail_msg("case %zu: %d stages", i, (int)int_of(json_object_get(o, "layout"), "stages"));
        json_decref(o);
        end(w);
    }
}

/* A regroup comes before copies: where those who are left have no room for all of them they go on all the same. */
static void a_regroup_needs_no_room_for_copies(void **state)
{
    struct world *w = copying(54);

    (void)state;
    w->mem_limit_bytes = 450000;
    train_unmoved(w);
    world_kill(w, 2);
    world_run(w, 10.0, false);
    for (uint32_t r = 0; r < W_MAX; r++)
        assert_int_equal(w->worker[r].n_regroups, r != 2);
    end(w);
}

/* Reports that cannot be are dropped whole, with kills, lost messages and restarts on the way. */
static void nonsense_is_dropped(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct world *w = copying(seed);
        json_t *o;

        w->kill_percent = 1;
        world_start(w);
        world_run(w, 60.0, true);
        o = report_of(w);
        if (copies_of(o))
            assert_true(int_of(copies_of(o), "layers") <= W_LAYERS && int_of(copies_of(o), "whole") <= W_LAYERS &&
                        int_of(copies_of(o), "bytes") <= 4 * W_LAYERS << 20);
        json_decref(o);
        end(w);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(status_shows_each_workers_copies),
    cmocka_unit_test(nothing_is_said_without_need),
    cmocka_unit_test(workers_are_told),
    cmocka_unit_test(two_nodes_stay),
    cmocka_unit_test(memory_counts_copies),
    cmocka_unit_test(a_regroup_needs_no_room_for_copies),
    cmocka_unit_test(nonsense_is_dropped),
};
TEST_MAIN("coord_copies", tests)
