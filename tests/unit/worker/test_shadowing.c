/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers that are copied while training goes on (worker/shadow/): three workers with made-up gradients, from both ends of the pipeline
 * into its middle. What the destination has in the end is, byte for byte, the layer that was trained where it was. */
#include <unistd.h>

#include "common/bits.h"
#include "kernels/granularity.h"
#include "tests/unit/worker/engine.h"
#include "tests/unit/worker/procs.h"
#include "worker/model/layer_parts.h"
#include "worker/model/param.h"
#include "worker/shadow/pace.h"
#include "worker/shadow/shadowing.h"

#define EPOCH 3
#define FIRST 40 /* step at which copying begins */
#define STEP_NS 1000000000000u /* of a step, for the pace: so long that max_rate alone says how much is copied, however slow this is */

static struct {
    struct dp_train_config config;
    struct dp_tune tune;
    bool is_pruned, has_frozen;
    uint64_t room; /* at the destination */
    bool dies;     /* a source, in the middle of it */
    uint32_t n_drop; /* steps after which all drop it; 0: they go through */
    uint64_t change[4]; /* steps behind which layers are pruned, 0: none; */
    uint64_t freeze;    /* and the first two are frozen */
    bool is_tight;      /* the destination has room for the layers, and not to change them */
} sc;

static const uint32_t old_cut[] = {0, 3, 4, 6}, new_cut[] = {0, 1, 5, 6}; /* 1, 2 come from 0; 4 from 2 */

static float gradient(uint64_t step, const struct dp_layer *l, uint32_t param, int64_t i)
{
    uint64_t h = (step * 1000003 + l->index * 8191 + param * 131 + (uint64_t)i) * 0x9e3779b97f4a7c15u;

    return (float)((double)(h >> 40) / 16777216.0 - 0.5);
}

static void fill_gradients(struct dp_layer *l, uint64_t step)
{
    for (uint32_t j = 0; j < l->n_params; j++)
        for (int64_t i = 0; l->param[j].g && i < l->param[j].n; i++)
            l->param[j].g[i] = gradient(step, l, j, i);
}

static void prune_layer(struct dp_layer *l)
{
    for (uint32_t j = 0; j < l->n_params; j++) {
        struct dp_param *p = &l->param[j];
        const int64_t n = p->rows * p->cols;
        uint64_t *keep;

        if (!p->prunable)
            continue;
        keep = calloc((size_t)(n + 63) / 64, sizeof *keep);
        for (int64_t i = 0; i < n; i++)
            if ((uint64_t)(i * 2654435761u + j) % 16 < (j % 4 < 2 ? 2u : 12u)) /* stored sparse, or dense with a bitmap */
                keep[i / 64] |= (uint64_t)1 << (i % 64);
        if (dp_param_prune(l, p, keep, NULL) < 0)
            abort();
        free(keep);
    }
}

/* The layer as it is after FIRST steps, somehow. */
static struct dp_layer *begun(struct dp_backend *be, uint32_t index)
{
    struct dp_layer *l = layer_at(&sc.config, index, be, &sc.tune);

    shake(l, index + 1);
    if (sc.is_pruned)
        prune_layer(l);
    if (sc.has_frozen && index < 2 && dp_layer_freeze(l, NULL) < 0)
        abort();
    return l;
}

static struct dp_stage *stage_from(struct dp_backend *be, uint32_t first, uint32_t end)
{
    struct dp_layer *layers[8];
    struct dp_stage *s;

    for (uint32_t i = first; i < end; i++)
        layers[i - first] = begun(be, i);
    s = dp_stage_create(&sc.config, be, layers, end - first, 1, NULL);
    if (!s)
        abort();
    return s;
}

/* Less and less: some matrices stay dense with a bitmap, others become sparse and lose more then. */
static bool is_left(int64_t block, uint32_t param, uint32_t event)
{
    static const uint32_t left[2][4] = {{9, 8, 5, 3}, {14, 13, 12, 11}};

    return (uint64_t)(block * 2654435761u + param) % 16 < left[param % 4 >= 2][event];
}

static void change_param(struct dp_shadowing *s, struct dp_layer *l, uint32_t param, uint32_t event)
{
    struct dp_param *p = &l->param[param];
    const int64_t rows = dp_train_block_rows(&sc.config), m = p->cols / dp_block_cols(rows), n = dp_param_blocks(p, rows);
    uint64_t *bits;
    void *mem = NULL;
    int64_t at = 0;

    if (l->be->ops->alloc(l->be, dp_bits_words(n) * sizeof *bits, &mem, NULL) < 0)
        abort();
    bits = mem;
    for (int64_t g = 0; g < p->rows / rows; g++) {
        int64_t here = p->sparse ? p->sparse->row_ptr[g + 1] - p->sparse->row_ptr[g] : m;

        for (int64_t i = 0; i < here; i++, at++)
            if (is_left(g * m + (p->sparse ? p->sparse->col[at] : i), param, event))
                dp_bits_set(bits, at);
    }
    if ((s && dp_shadowing_chosen(s, l, p, bits, n, NULL) < 0) || dp_param_keep_chosen(l, p, bits, NULL) < 0)
        abort();
}

static bool changes_at(uint64_t step)
{
    bool is = sc.freeze == step;

    for (uint32_t e = 0; e < 4; e++)
        is |= sc.change[e] == step;
    return is;
}

/* What schemes do behind that step. s: of a worker that has some; NULL: it is alone. */
static int change_layers(struct dp_stage *stage, uint64_t step, struct dp_shadowing *s)
{
    if (!changes_at(step))
        return 0;
    if (s && dp_shadowing_before_change(s, NULL) < 0)
        return -1;
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);

        for (uint32_t e = 0; e < 4; e++)
            for (uint32_t j = 0; j < l->n_params && sc.change[e] == step; j++)
                if (l->param[j].prunable)
                    change_param(s, l, j, e);
        if (sc.freeze == step && l->index < 2 && dp_layer_freeze(l, NULL) < 0)
            abort();
    }
    return s ? dp_shadowing_changed(s, step + 1, NULL) : 0;
}

static double scale_at(uint64_t step)
{
    return 1.0 / (1.0 + (double)(step % 7));
}

static int train(struct dp_stage *stage, uint64_t step, struct dp_shadowing *s, bool is_clean)
{
    struct dp_err err = {0};

    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++)
        fill_gradients(dp_stage_layer(stage, i), step);
    if (s && dp_shadowing_gradients(s, step, STEP_NS, &err) < 0)
        return -1;
    if (dp_stage_step(stage, step, scale_at(step), &err) < 0)
        abort();
    for (uint32_t i = 0; i < dp_stage_n_layers(stage) && is_clean; i++)
        dp_stage_layer(stage, i)->rng_counter = step; /* changes from step to step, as in training */
    return 0;
}

/* Both as streams of bytes. */
static bool are_equal(const struct dp_layer *a, const struct dp_layer *b)
{
    uint8_t *x = NULL, *y = NULL;
    size_t nx = 0, ny = 1;
    bool same = dp_layer_write(a, &x, &nx, NULL) == 0 && dp_layer_write(b, &y, &ny, NULL) == 0 && nx == ny && memcmp(x, y, nx) == 0;

    free(x);
    free(y);
    return same;
}

static bool is_zero(const struct dp_layer *l)
{
    for (uint32_t j = 0; j < l->n_params; j++)
        for (int64_t i = 0; l->param[j].g && i < l->param[j].n; i++)
            if (l->param[j].g[i] != 0)
                return false;
    return true;
}

/* At the destination: the layer as if it had been trained here from the beginning. */
static int check_layer(struct dp_backend *be, struct dp_shadowing *s, uint32_t index, uint64_t n_steps)
{
    struct dp_stage *alone = stage_from(be, index, index + 1);
    struct dp_layer *want = dp_stage_layer(alone, 0), *got;
    uint8_t head[DP_LAYER_HEAD_MAX];
    struct dp_err err = {0};
    size_t n;

    for (uint64_t k = FIRST; k < FIRST + n_steps; k++) {
        train(alone, k, NULL, true);
        change_layers(alone, k, NULL);
    }
    n = dp_layer_head_write(want, head);
    if (!dp_shadowing_has(s, index))
        return 20;
    got = dp_shadowing_take(s, index, head, n, &err);
    if (!got || dp_layer_weights_arrived(got, &err) < 0)
        return 21;
    if (!are_equal(got, want))
        return 22;
    if (!is_zero(got)) /* as in a layer that was made of a stream */
        return 23;
    if (dp_shadowing_take(s, index, head, n, &err))
        return 24;
    dp_layer_destroy(got);
    dp_stage_destroy(alone);
    return 0;
}

/* All workers do as many steps as the slowest needs: nobody talks here but those who copy, so each counts on its own. */
static uint64_t steps_needed(void)
{
    return sc.n_drop ? sc.n_drop : 30;
}

static uint64_t room_at(struct dp_backend *be, uint32_t rank)
{
    uint64_t n = 0;

    if (!sc.is_tight || rank != 1)
        return rank == 1 ? sc.room : UINT64_MAX;
    for (uint32_t i = 1; i < 5; i++) {
        struct dp_layer *l = begun(be, i);

        n += i == 3 ? 0 : dp_layer_state_bytes(l);
        dp_layer_destroy(l);
    }
    return n;
}

static int body(struct dp_transport *t, uint32_t rank)
{
    struct dp_layout layout = {.epoch = EPOCH, .n_workers = 3, .n_layers = 6}, next;
    struct dp_backend *be = cpu();
    struct dp_stage *stage = stage_from(be, old_cut[rank], old_cut[rank + 1]);
    const uint64_t n = steps_needed();
    struct dp_shadowing_sums sums;
    struct dp_shadowing *s;
    struct dp_err err = {0};
    int rc = 0;

    memcpy(layout.cut, old_cut, sizeof old_cut);
    next = layout;
    next.epoch++;
    memcpy(next.cut, new_cut, sizeof new_cut);
    s = dp_shadowing_create(&(struct dp_shadowing_args){.transport = t, .rank = rank, .layout = &layout, .next = &next, .stage = stage,
                                                        .config = &sc.config, .backend = be, .tune = &sc.tune, .migration = 5,
                                                        .step = FIRST, .room_bytes = room_at(be, rank)}, &err);
    if (!s)
        return 10;
    for (uint64_t k = 0; k < n; k++) {
        bool goes_on = k + 1 < n && !dp_shadowing_failure(s) && !changes_at(FIRST + k);

        if (sc.dies && rank == 2 && k == 4)
            _exit(7);
        if (train(stage, FIRST + k, s, true) < 0)
            return sc.dies ? 8 : 11;
        if (dp_shadowing_boundary(s, FIRST + k, scale_at(FIRST + k), goes_on && !(sc.room != UINT64_MAX), &err) < 0)
            return sc.dies ? 8 : 12;
        if (sc.room != UINT64_MAX) { /* the leader would have all drop it at once */
            if (rank == 1 && (!dp_shadowing_failure(s) || !strstr(dp_shadowing_failure(s), "room")))
                rc = 13;
            break;
        }
        if (change_layers(stage, FIRST + k, s) < 0 || (k + 1 == n && dp_shadowing_follow(s, &err) < 0))
            return 17;
        if (sc.is_tight && FIRST + k == sc.change[0] + 1) {
            const char *why = dp_shadowing_failure(s); /* both ends know it in the step behind the change */

            rc = why && strstr(why, rank == 1 ? "no room to prune" : "could not change") ? 0 : 18;
            break;
        }
        if (k == 2 && !sc.change[0] && dp_shadowing_is_complete(s))
            rc = 14; /* the rate is limited: it takes longer */
    }
    sums = dp_shadowing_total(s);
    if (!sc.n_drop && sc.room == UINT64_MAX && !sc.is_tight) {
        if (!dp_shadowing_is_complete(s))
            rc = 15;
        if (rank == 1)
            for (uint32_t i = 1; i < 5 && rc == 0; i++)
                rc = i == 3 ? 0 : check_layer(be, s, i, n);
        if (rank == 1 ? !sums.received_bytes || sums.sent_bytes : !sums.sent_bytes || sums.received_bytes)
            rc = 16;
    }
    dp_shadowing_destroy(s, true);
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
    return rc;
}

static void begin(void)
{
    memset(&sc, 0, sizeof sc);
    sc.config = tiny_config();
    sc.config.model.blocks = 4;
    sc.config.train.steps = 100;
    sc.config.train.weight_decay = 0.1;
    sc.config.handover.max_rate = 0.000002; /* MB/s, and a step is said to take long: one unit at a time */
    sc.tune = tune_at(&sc.config, 0.6);
    sc.room = UINT64_MAX;
}

/* With as few units as there are, a step for each. */
static void go(void)
{
    procs_body_fn *const bodies[] = {body, body, body};

    procs_run(3, bodies, sc.dies ? (const int[]){8, 8, 7} : (const int[]){0, 0, 0}, false);
}

static void dense_layers(void **state)
{
    (void)state;
    begin();
    go();
}

/* Params of several units each; more than one unit at a boundary. */
static void large_layers(void **state)
{
    (void)state;
    begin();
    sc.config.model.channels = 288;
    sc.config.model.heads = 4;
    sc.config.handover.max_rate = 0.003;
    sc.tune = tune_at(&sc.config, 0.6);
    go();
}

/* Sparse matrices, and dense ones with a bitmap. */
static void pruned_layers(void **state)
{
    (void)state;
    begin();
    sc.is_pruned = true;
    sc.config.handover.max_rate = 0.000004;
    go();
}

/* Pruned at boundaries early and late, one after the other, and at that of the hand-over: of single weights, and of blocks. */
static void pruned_meanwhile(void **state)
{
    static const char *const granularity[] = {"weight", "4x1", "32x32"};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        begin();
        sc.config.model.channels = i == 0 ? 448 : 64;
        sc.config.model.heads = 4;
        sc.config.handover.max_rate = i == 0 ? 0.022 : 0.0005; /* params of several units, of which a part is there; or whole ones */
        snprintf(sc.config.prune.granularity, sizeof sc.config.prune.granularity, "%s", granularity[i]);
        sc.tune = tune_at(&sc.config, 0.6);
        memcpy(sc.change, (const uint64_t[]){FIRST + 3, FIRST + 4, FIRST + 7, FIRST + 29}, sizeof sc.change);
        go();
    }
}

/* Frozen while it is copied, and when it is. */
static void frozen_meanwhile(void **state)
{
    (void)state;
    for (uint64_t at = 2; at < 30; at += 9) {
        begin();
        sc.freeze = FIRST + at;
        sc.change[0] = FIRST + 1;
        sc.change[1] = sc.freeze;
        sc.config.handover.max_rate = 0.000004;
        go();
    }
}

/* The destination cannot do what a change needs: both ends hear of it, and nothing is left under way. */
static void no_room_to_change(void **state)
{
    (void)state;
    begin();
    sc.is_tight = true;
    sc.change[0] = FIRST + 12;
    sc.config.handover.max_rate = 0.000004;
    go();
}

static void frozen_layers(void **state)
{
    (void)state;
    begin();
    sc.has_frozen = true;
    go();
}

/* The destination has no room: it says so, takes what comes, and nobody waits. */
static void no_room(void **state)
{
    (void)state;
    begin();
    sc.room = 1000;
    go();
}

/* Dropped in the middle by all, at any step. */
static void dropped(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 9; n += 2) {
        begin();
        sc.n_drop = n;
        go();
    }
}

/* A source dies: the others hear of it and end with an error, as any step does then. */
static void a_source_dies(void **state)
{
    (void)state;
    begin();
    sc.dies = true;
    go();
}

static void pace(void **state)
{
    struct dp_pace p = {0};

    (void)state;
    assert_int_equal(dp_pace_budget(&p, 1000000000, 0), (uint64_t)(DP_PACE_SHARE * 1e9 * DP_PACE_FIRST_BYTES_NS));
    dp_pace_measured(&p, 0, 1000);
    dp_pace_measured(&p, 1000, 0);
    assert_true(p.bytes_ns == 0);
    dp_pace_measured(&p, 2000, 1000);
    assert_true(p.bytes_ns == 2.0);
    assert_int_equal(dp_pace_budget(&p, 1000000000, 0), 100000000);
    assert_int_equal(dp_pace_budget(&p, 1000000000, 40000000), 60000000);
    assert_int_equal(dp_pace_budget(&p, 1000000000, 100000001), 0);
    dp_pace_measured(&p, 4000, 1000); /* the newest is a quarter of it */
    assert_true(p.bytes_ns == 2.5);
    p.max_bytes_ns = 0.01;
    assert_int_equal(dp_pace_budget(&p, 1000000000, 0), 10000000);
    assert_false(dp_pace_is_worth(1000000, 1000000));         /* 2 ms */
    assert_true(dp_pace_is_worth(100000000, 1000000000));     /* 200 ms of a second */
    assert_false(dp_pace_is_worth(100000000, 10000000000ull)); /* of ten */
    assert_false(dp_pace_is_worth(0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers), cmocka_unit_test(large_layers), cmocka_unit_test(pruned_layers),
        cmocka_unit_test(pruned_meanwhile), cmocka_unit_test(frozen_meanwhile), cmocka_unit_test(no_room_to_change),
        cmocka_unit_test(frozen_layers), cmocka_unit_test(no_room), cmocka_unit_test(dropped),
        cmocka_unit_test(a_source_dies), cmocka_unit_test(pace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
