/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk fills up, or loses what it is given, at each record of a release in turn. While it is so, Slurm is asked for
 * nothing that is not journalled, and training goes on; when it takes records again, and when the daemon has died
 * meanwhile, the same nodes go back. */
#include <jansson.h>
#include <stdlib.h>

#include "tests/unit/daemon/coord_world.h"
#include "tests/unit/unit.h"

struct fault {
    enum dp_record type;
    bool is_dead, has_crash; /* in doubt instead of absent; the daemon dies before the disk is well again */
};

static void fail_at(struct world *w, const struct fault *f)
{
    w->fail_type = f->type;
    w->fails_in_doubt = f->is_dead;
    world_start(w);
    for (int i = 0; i < 400 && w->fail_type; i++)
        world_run(w, 0.5, false);
    assert_int_equal(w->fail_type, 0);
}

static bool says_why(struct world *w)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    bool is_told = json_is_string(json_object_get(o, "journal_error"));

    json_decref(o);
    return is_told;
}

static void release_through(const struct fault *f, uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    uint64_t step;
    uint32_t asked, n_records;

    world_init(w, seed);
    fail_at(w, f);
    step = w->worker[0].step;
    asked = w->n_shrinks;
    n_records = world_count(w, f->type);
    world_run(w, 20.0, false);
    assert_true(says_why(w));
    assert_true(w->worker[0].step > step + 10);
    assert_int_equal(w->n_shrinks, asked);
    if (f->type != DP_REC_RELEASED)
        assert_int_equal(asked, 0);
    for (uint32_t s = 0; s < W_MAX; s++)
        assert_true(w->held[s] || f->type == DP_REC_RELEASED);
    if (!f->is_dead) /* one in doubt may be on the disk */
        assert_int_equal(world_count(w, f->type), n_records);
    w->is_disk_full = w->is_disk_dead = false;
    if (f->has_crash)
        world_crash(w);
    world_run(w, 60.0, false);
    assert_false(says_why(w));
    assert_true(world_is_settled(w));
    assert_true(w->n_released > 0);
    assert_true(w->n_shrinks > 0);
    if (w->broken[0])
        fail_msg("record %d: %s", (int)f->type, w->broken);
    world_release(w);
    free(w);
}

static void each_record_may_fail(void **state)
{
    static const enum dp_record type[] = {DP_REC_DRAIN, DP_REC_GONE, DP_REC_RELINTENT, DP_REC_RELEASED};

    (void)state;
    for (uint32_t k = 0; k < 4 * sizeof type / sizeof type[0]; k++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct fault f = {type[k / 4], k & 1, k & 2};

            release_through(&f, 100 * k + seed);
        }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(each_record_may_fail)};

TEST_MAIN("release_journal", tests)
