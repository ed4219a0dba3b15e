/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of layers on other workers (worker/copies/): three workers with made-up gradients, and each of them has the whole model beside, as
 * if it were alone. After each step whatever is a whole copy is, byte for byte, the layer of the model that is alone: dense, pruned and
 * frozen on the way, handed over, and when a worker is lost at any step. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/engine.h"
#include "tests/unit/worker/procs.h"
#include "worker/copies/copies.h"
#include "worker/handover/transfer.h"
#include "worker/model/layer_parts.h"
#include "worker/net/collectives.h"

#define N 3
#define EPOCH 3
#define FIRST 40 /* step at which copying begins */
#define STEP_NS (1000 * DP_SECOND_NS) /* that a step is said to take: the pace is what max_rate says, however slow this machine is */
#define FOUND 4 /* steps in which that is found at the latest: one layer is checked in each, and its owner has 3 */
#define VICTIM 1 /* its layer is copied by worker 2 */

static struct {
    struct dp_train_config config;
    struct dp_tune tune;
    uint32_t n_steps;
    uint64_t room;     /* of worker 2 */
    double prune[64];  /* after so many steps; 0: no event */
    bool freezes;      /* at events of the configuration */
    uint32_t hands_over_at; /* 0: never */
    bool is_joined;    /* what is handed over: layers of one worker to another one of the same holder */
    uint32_t opens_every; /* so many boundaries, though nothing has changed; 0: never */
    uint32_t dies_at;  /* 0: never */
    enum { BEFORE_GRADIENTS, BEFORE_SUM, BEFORE_STEP } dies;
    uint32_t rots_at;  /* worker 1's copy of layer 2 is spoilt in memory after so many steps, and nobody knows. 0: never */
    bool spoils;       /* worker 2's first whole copies, in an event */
    enum { NOT_MOVED, MOVED, NOT_COMMITTED, MOVED_SPOILT, MOVED_WITHOUT_ROOM } moves; /* hand-over by a transfer, to holders of copies */
} sc;

static volatile int *lost; /* shared by all: the victim says so, as REGROUP does */

static const uint32_t old_cut[] = {0, 3, 4, 6}, new_cut[] = {0, 2, 5, 6}, lost_cut[] = {0, 3, 3, 6}, joined_cut[] = {0, 1, 4, 6},
                      followed_cut[] = {0, 2, 3, 6}; /* layer 2 goes to worker 1, 3 to 2: to those who have copies of them */
static const uint32_t node[] = {1, 2, 3}; /* worker r's layers are copied by r + 1 */
static const uint32_t shared_node[] = {1, 1, 2}; /* workers 0 and 1 are copied by 2, and 2 by 0 */

struct world {
    struct dp_transport *transport;
    uint32_t rank;
    struct dp_layout layout;
    struct dp_collectives sums;
    struct dp_backend *be;
    struct dp_stage *stage, *model;
    struct dp_reached reached, model_reached;
    struct dp_copies *copies;
    uint64_t step;
    int rc; /* the first that was wrong: a line of this file */
};

#define CHECK(w, cond)                                                                                                                     \
    do {                                                                                                                                   \
        if (!(cond) && !(w)->rc) {                                                                                                         \
            fprintf(stderr, "# worker %u, step %u, line %d: not so: %s\n", (w)->rank, (unsigned)(w)->step, __LINE__, #cond);               \
            (w)->rc = 99;                                                                                                                  \
        }                                                                                                                                  \
    } while (0)

static float gradient(uint64_t step, const struct dp_layer *l, uint32_t param, int64_t i)
{
    uint64_t h = (step * 1000003 + l->index * 8191 + param * 131 + (uint64_t)i) * 0x9e3779b97f4a7c15u;

    return (float)((double)(h >> 40) / 16777216.0 - 0.5);
}

static void fill_gradients(struct dp_stage *s, uint64_t step)
{
    for (uint32_t k = 0; k < dp_stage_n_layers(s); k++) {
        struct dp_layer *l = dp_stage_layer(s, k);

        for (uint32_t j = 0; j < l->n_params; j++) {
            for (int64_t i = 0; l->param[j].g && i < l->param[j].n; i++)
                l->param[j].g[i] = gradient(step, l, j, i);
            l->param[j].g_is_void = false;
        }
    }
}

/* As it is after FIRST steps, somehow. */
static struct dp_layer *begun(struct dp_backend *be, uint32_t index)
{
    struct dp_layer *l = layer_at(&sc.config, index, be, &sc.tune);

    shake(l, index + 1);
    return l;
}

static struct dp_stage *stage_with(struct dp_backend *be, struct dp_layer **layers, uint32_t n)
{
    struct dp_stage *s = dp_stage_create(&sc.config, be, layers, n, 1, NULL);

    if (!s)
        abort();
    return s;
}

static struct dp_stage *stage_from(struct dp_backend *be, uint32_t first, uint32_t end)
{
    struct dp_layer *layers[8];

    for (uint32_t i = first; i < end; i++)
        layers[i - first] = begun(be, i);
    return stage_with(be, layers, end - first);
}

/* Another one of the same bytes. */
static struct dp_layer *same_as(const struct world *w, const struct dp_layer *l)
{
    struct dp_layer *other;
    uint8_t *bytes = NULL;
    size_t n;

    if (dp_layer_write(l, &bytes, &n, NULL) < 0)
        abort();
    other = dp_layer_read(&sc.config, w->be, &sc.tune, bytes, n, NULL);
    free(bytes);
    if (!other)
        abort();
    return other;
}

static bool are_equal(const struct dp_layer *a, const struct dp_layer *b)
{
    uint8_t *x = NULL, *y = NULL;
    size_t nx = 0, ny = 1;
    bool same = dp_layer_write(a, &x, &nx, NULL) == 0 && dp_layer_write(b, &y, &ny, NULL) == 0 && nx == ny && memcmp(x, y, nx) == 0;

    free(x);
    free(y);
    return same;
}

static double scale_at(uint64_t step)
{
    return 1.0 / (1.0 + (double)(step % 7));
}

static void open_streams(struct world *w, bool are_changed)
{
    struct dp_copies_opening at = {.layout = &w->layout, .stage = w->stage, .step = w->step, .are_changed = are_changed,
                                   .room_bytes = w->rank == 2 ? sc.room : UINT64_MAX};
    struct dp_copy_place place;
    struct dp_err err = {0};

    dp_copies_place(&w->layout, sc.is_joined ? shared_node : node, &place);
    at.place = &place;
    CHECK(w, dp_copies_open(w->copies, &at, &err) == 0);
}

static bool is_rotten(const struct world *w, uint32_t layer)
{
    return sc.rots_at && w->rank == 1 && layer == 2 && w->step >= FIRST + sc.rots_at && w->step < FIRST + sc.rots_at + FOUND;
}

/* All that is whole is as it should be. */
static void compare(struct world *w)
{
    struct dp_layer **list;
    uint32_t n = dp_copies_list(w->copies, &list);

    CHECK(w, dp_copies_step(w->copies) == w->step);
    for (uint32_t i = 0; i < n; i++)
        if (!is_rotten(w, list[i]->index))
            CHECK(w, are_equal(list[i], dp_stage_find(w->model, list[i]->index)));
}

static void train_stage(struct dp_stage *stage, uint64_t step, double *squares)
{
    fill_gradients(stage, step);
    if (dp_stage_sum_squares(stage, NULL) < 0 || dp_stage_grad_squares(stage, squares, NULL) < 0)
        abort();
}

static void step_stage(struct dp_stage *stage, uint64_t step, const double *squares)
{
    dp_schemes_observe(stage, &sc.config, step + 1, squares, scale_at(step));
    if (dp_stage_step(stage, step, scale_at(step), NULL) < 0)
        abort();
}

/* What follows the order of the step. */
static void do_step(struct world *w, const double *squares)
{
    struct dp_err err = {0};
    double all[8];

    step_stage(w->stage, w->step, squares);
    CHECK(w, dp_copies_step_again(w->copies, w->step, scale_at(w->step), &err) == 0);
    CHECK(w, dp_copies_step_again(w->copies, w->step, scale_at(w->step), NULL) < 0);
    train_stage(w->model, w->step, all);
    step_stage(w->model, w->step, all);
    w->step++;
    compare(w);
}

/* Stage and copies, and the model that is alone. returns: was there anything? */
static bool apply_schemes(struct world *w, uint32_t k)
{
    static struct dp_layer *none[1];
    struct dp_scheme_site site = {.config = &sc.config, .stage = w->stage, .copies = {.layer = none}, .sum = dp_collectives_allreduce,
                                  .arg = &w->sums, .reached = &w->reached};
    struct dp_scheme_site alone = {.config = &sc.config, .stage = w->model, .reached = &w->model_reached};
    const struct dp_scheme *prune = dp_scheme_at(DP_SCHEME_PRUNE), *freeze = dp_scheme_at(DP_SCHEME_FREEZE);
    struct dp_scheme_order o = {0};
    const struct dp_scheme_in in = {.step = w->step, .n_layers = 6, .reached = w->reached};
    struct dp_err err = {0};

    if (sc.freezes)
        freeze->decide(&sc.config, &in, &o);
    if (sc.prune[k] <= 0 && !o.is_due)
        return false;
    CHECK(w, dp_copies_settle(w->copies, &err) == 0);
    site.copies.n = dp_copies_list(w->copies, &site.copies.layer);
    if (sc.prune[k] > 0) {
        CHECK(w, prune->apply(&site, sc.prune[k], &err) == 0 && prune->apply(&alone, sc.prune[k], &err) == 0);
        CHECK(w, w->reached.sparsity == w->model_reached.sparsity);
    } else {
        CHECK(w, freeze->apply(&site, o.target, &err) == 0 && freeze->apply(&alone, o.target, &err) == 0);
    }
    compare(w);
    for (uint32_t i = 0; i < site.copies.n && sc.spoils && w->rank == 2; i++)
        site.copies.layer[i] = NULL;
    if (sc.spoils && w->rank == 2)
        CHECK(w, site.copies.n > 0 && dp_copies_list(w->copies, &site.copies.layer) == 0 && !dp_copies_has(w->copies, 3));
    return true;
}

static void take_stage(struct world *w, const uint32_t *cut, struct dp_layer **got, uint32_t n_got)
{
    struct dp_layer *layers[8];
    uint32_t n = 0;

    memcpy(w->layout.cut, cut, sizeof old_cut);
    w->layout.epoch++;
    for (uint32_t i = cut[w->rank]; i < cut[w->rank + 1]; i++) {
        layers[n] = NULL;
        for (uint32_t k = 0; k < n_got; k++)
            if (got[k] && got[k]->index == i)
                layers[n] = got[k];
        if (!layers[n])
            layers[n] = same_as(w, dp_stage_find(w->model, i));
        n++;
    }
    dp_stage_destroy(w->stage);
    w->stage = stage_with(w->be, layers, n);
}

static void spoil(struct world *w, uint32_t layer)
{
    struct dp_layer **list;
    uint32_t n = dp_copies_list(w->copies, &list);

    for (uint32_t i = 0; i < n; i++)
        if (list[i]->index == layer)
            list[i]->param[0].w[0] += 1;
}

/* Layers come to those who have copies of them, and come only where a copy is not the layer. */
static void take_from_copies(struct world *w)
{
    const bool has_room = sc.moves != MOVED_WITHOUT_ROOM || w->rank != 1;
    const uint32_t *cut = sc.moves == MOVED_WITHOUT_ROOM ? new_cut : followed_cut;
    struct dp_handover_args args = {.transport = w->transport, .rank = w->rank, .layout = &w->layout, .stage = &w->stage,
                                    .config = &sc.config, .backend = w->be, .tune = &sc.tune, .step = w->step, .copies = w->copies};
    struct dp_layout next = w->layout;
    struct dp_layer *got[2] = {NULL};
    struct dp_chunk *stuck = NULL;
    struct dp_transfer *s;
    struct dp_moves moves;
    struct dp_err err = {0};
    uint32_t n = 0, layer;
    int rc = 0;

    memcpy(next.cut, cut, sizeof followed_cut);
    dp_layout_moves(&w->layout, &next, &moves);
    if (!has_room)
        args.mem_limit_bytes = dp_stage_bytes(w->stage, NULL) +
                               dp_stage_activation_growth(&sc.config, w->be, &w->layout, &next, w->rank, 0);
    if (sc.moves == MOVED_SPOILT && w->rank == 1)
        spoil(w, 2);
    s = dp_transfer_create(&args, 1, &moves, &next, &err);
    while (s && (rc = dp_transfer_step(s, &err)) == 0)
        dp_transport_idle(w->transport, s->is_busy ? 0 : DP_MS_NS);
    CHECK(w, rc == 1);
    for (uint32_t i = 0; rc == 1 && i < s->n_layers; i++) {
        struct dp_transfer_layer *c = &s->layer[i];
        bool is_spoilt = sc.moves == MOVED_SPOILT && c->move.layer == 2, comes = is_spoilt || c->move.layer == 4;

        if (c->move.to != w->rank)
            continue;
        CHECK(w, c->is_copy == !comes && are_equal(c->shadow, dp_stage_find(w->model, c->move.layer)));
        CHECK(w, dp_copies_has(w->copies, c->move.layer) == !comes && dp_copies_want_opening(w->copies) == is_spoilt);
        CHECK(w, (dp_copies_take_trouble(w->copies, &layer) != NULL) == is_spoilt);
        if (sc.moves == NOT_COMMITTED)
            continue;
        if (c->is_copy)
            dp_copies_give(w->copies, c->move.layer);
        CHECK(w, dp_layer_complete(c->shadow, &err) == 0);
        got[n++] = c->shadow;
        c->shadow = NULL;
    }
    dp_transfer_destroy(s, &stuck);
    dp_chunks_free(stuck);
    CHECK(w, has_room || (!dp_copies_has(w->copies, 1) && !dp_copies_info(w->copies).n_own_whole)); /* the last one first */
    if (sc.moves != NOT_COMMITTED)
        take_stage(w, cut, got, n);
}

/* It is found, and said; who goes on from copies then does not go on from this one. */
static void rot(struct world *w, uint32_t k)
{
    uint32_t layer = 0;

    if (k + 1 == sc.rots_at && w->rank == 1) {
        CHECK(w, dp_copies_has(w->copies, 2));
        spoil(w, 2);
    }
    if (k + 1 != sc.rots_at + FOUND)
        return;
    CHECK(w, dp_copies_want_opening(w->copies) == (w->rank == 1) && (w->rank != 1 || !dp_copies_has(w->copies, 2)));
    CHECK(w, (dp_copies_take_trouble(w->copies, &layer) != NULL) == (w->rank == 1) && layer == (w->rank == 1 ? 2 : 0));
}

/* At the end of the boundary behind step k. returns false: a worker is lost. */
static bool boundary(struct world *w, uint32_t k)
{
    bool are_changed = apply_schemes(w, k), hands_over = k && k == sc.hands_over_at, opens = sc.opens_every && k % sc.opens_every == 0;
    struct dp_err err = {0};

    if (sc.rots_at)
        rot(w, k);
    if (hands_over || opens)
        CHECK(w, dp_copies_settle(w->copies, &err) == 0);
    if (hands_over && sc.moves)
        take_from_copies(w);
    else if (hands_over)
        take_stage(w, sc.is_joined ? joined_cut : new_cut, NULL, 0);
    if (!are_changed && !hands_over && !opens && sc.room == UINT64_MAX)
        return dp_copies_send_states(w->copies, &err) == 0;
    open_streams(w, are_changed);
    if (hands_over && sc.moves == NOT_COMMITTED)
        CHECK(w, dp_copies_info(w->copies).n_held_whole == dp_copies_info(w->copies).n_held); /* nothing of them was lost */
    return true;
}

static bool gives_up(void *arg)
{
    (void)arg;
    return *lost;
}

/* A wait that sleeps looks now and then, as with a control connection. */
static void look(void *arg)
{
    (void)arg;
}

static void die(const struct world *w, uint32_t k, int where)
{
    if (w->rank != VICTIM || !sc.dies_at || k != sc.dies_at || where != (int)sc.dies)
        return;
    *lost = 1;
    _exit(7);
}

/* returns false: a worker is lost. */
static bool one_step(struct world *w, uint32_t k, double *squares)
{
    struct dp_err err = {0};

    die(w, k, BEFORE_GRADIENTS);
    train_stage(w->stage, w->step, squares);
    if (dp_copies_gradients(w->copies, w->step, STEP_NS, squares, &err) < 0)
        return false;
    CHECK(w, dp_copies_can_step(w->copies, w->step) && !dp_copies_can_step(w->copies, w->step + 1));
    die(w, k, BEFORE_SUM);
    if (dp_collectives_barrier(&w->sums, &err) < 0)
        return false;
    die(w, k, BEFORE_STEP);
    do_step(w, squares);
    return true;
}

/* Those who are left agree what step they are at, and go on in another layout. */
static void regroup(struct world *w, const double *squares)
{
    struct dp_layer *got[1] = {NULL};
    uint64_t steps[N] = {0}, most;
    struct dp_err err = {0};

    dp_copies_break_off(w->copies);
    dp_transport_give_up_when(w->transport, NULL, NULL);
    dp_transport_lose(w->transport, VICTIM);
    w->layout.gone[VICTIM] = 1;
    w->sums.epoch = w->layout.epoch + 1;
    w->sums.round = 0;
    steps[w->rank] = w->step;
    CHECK(w, dp_collectives_allreduce(&w->sums, steps, N, &err) == 0);
    most = steps[0] > steps[2] ? steps[0] : steps[2];
    if (w->step < most) { /* an order was heard by the other one alone */
        CHECK(w, w->step + 1 == most && dp_copies_can_step(w->copies, w->step));
        do_step(w, squares);
    }
    compare(w);
    if (w->rank == 2 && dp_copies_has(w->copies, 3)) {
        got[0] = dp_copies_take(w->copies, 3, &err);
        CHECK(w, got[0] && are_equal(got[0], dp_stage_find(w->model, 3)));
        for (uint32_t j = 0; got[0] && j < got[0]->n_params; j++)
            for (int64_t i = 0; got[0]->param[j].g && i < got[0]->param[j].n; i++)
                CHECK(w, got[0]->param[j].g[i] == 0);
        CHECK(w, !dp_copies_take(w->copies, 3, NULL));
    }
    take_stage(w, lost_cut, got, 1);
    open_streams(w, false);
}

static void end(struct world *w)
{
    struct dp_copies_cost info = dp_copies_info(w->copies);
    struct dp_err err = {0};
    uint32_t layer;

    if (sc.room == UINT64_MAX) {
        CHECK(w, info.n_own == dp_stage_n_layers(w->stage) && info.n_own_whole == info.n_own);
        CHECK(w, (info.n_held > 0 || sc.is_joined) && info.n_held_whole == info.n_held && info.held_bytes > 0 && info.coming_bytes == 0);
        CHECK(w, !dp_copies_want_opening(w->copies) && (info.step_bytes > 0 || sc.freezes)); /* frozen layers have no gradients */
        if (!sc.spoils)
            CHECK(w, !dp_copies_take_trouble(w->copies, &layer));
    } else {
        CHECK(w, w->rank != 2 || (info.n_held == 0 && info.n_own_whole == 0));
        CHECK(w, w->rank != 1 || (info.n_own_whole == 0 && info.n_held_whole == info.n_held));
        CHECK(w, w->rank != 2 || (dp_copies_take_trouble(w->copies, &layer) != NULL));
        CHECK(w, !dp_copies_take_trouble(w->copies, &layer)); /* said once */
    }
    CHECK(w, dp_collectives_barrier(&w->sums, &err) == 0);
    CHECK(w, dp_copies_settle(w->copies, &err) == 0);
    CHECK(w, dp_collectives_barrier(&w->sums, &err) == 0);
}

static int body(struct dp_transport *t, uint32_t rank)
{
    static struct world w;
    struct dp_err err = {0};
    double squares[8];

    w = (struct world){.transport = t, .rank = rank, .be = cpu(), .step = FIRST,
                       .layout = {.epoch = EPOCH, .n_workers = N, .n_layers = 6}};
    memcpy(w.layout.cut, old_cut, sizeof old_cut);
    dp_collectives_init(&w.sums, t, &w.layout, rank);
    dp_transport_watch(t, -1, look, NULL);
    dp_transport_give_up_when(t, gives_up, NULL);
    w.stage = stage_from(w.be, old_cut[rank], old_cut[rank + 1]);
    w.model = stage_from(w.be, 0, 6);
    w.copies = dp_copies_create(&(struct dp_copies_args){.transport = t, .rank = rank, .config = &sc.config, .backend = w.be,
                                                         .tune = &sc.tune}, &err);
    if (!w.copies)
        return 10;
    open_streams(&w, false);
    while (w.step < FIRST + sc.n_steps && !w.rc) {
        uint32_t k = (uint32_t)(w.step - FIRST);

        if (one_step(&w, k, squares) && boundary(&w, k))
            continue;
        if (*lost && !w.layout.gone[VICTIM])
            regroup(&w, squares);
        else
            CHECK(&w, false && "a step failed");
    }
    if (!w.rc)
        end(&w);
    dp_copies_destroy(w.copies);
    dp_stage_destroy(w.stage);
    dp_stage_destroy(w.model);
    dp_backend_destroy(w.be);
    return w.rc;
}

static void begin(void)
{
    memset(&sc, 0, sizeof sc);
    sc.config = tiny_config();
    sc.config.model.blocks = 4;
    sc.config.train.steps = 100;
    sc.config.train.weight_decay = 0.1;
    sc.config.handover.max_rate = 2e-6; /* MB/s, 2 KB in a step: one unit at a time */
    sc.tune = tune_at(&sc.config, 0.6);
    sc.room = UINT64_MAX;
    sc.n_steps = 50;
    *lost = 0;
}

static void go(void)
{
    procs_body_fn *const bodies[] = {body, body, body};

    procs_run(N, bodies, sc.dies_at ? (const int[]){0, 7, 0} : (const int[]){0, 0, 0}, false);
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
    sc.config.handover.max_rate = 12e-3;
    sc.n_steps = 8;
    sc.tune = tune_at(&sc.config, 0.6);
    go();
}

/* Dense ones get a bitmap, then become sparse; at first few are whole, then all. */
static void pruned_on_the_way(void **state)
{
    (void)state;
    begin();
    sc.config.handover.max_rate = 1e-5;
    sc.config.prune.end = 90; /* on; when and how far is here */
    sc.prune[3] = 0.1;
    sc.prune[20] = 0.3;
    sc.prune[30] = 0.8;
    sc.prune[31] = 0.85;
    sc.n_steps = 60;
    go();
}

/* By a schedule, and by what layers remember of their gradients. */
static void frozen_on_the_way(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        begin();
        sc.config.handover.max_rate = 1e-5;
        sc.config.freeze.begin = FIRST + 5;
        sc.config.freeze.end = FIRST + 35;
        sc.config.freeze.every = 10;
        sc.config.freeze.layers = 4;
        snprintf(sc.config.freeze.rule, sizeof sc.config.freeze.rule, "%s", turn ? "change" : "linear");
        sc.freezes = turn == 0;
        go();
    }
}

/* What is not whole yet goes on: would it begin anew each time, it would never be whole. */
static void opened_again_and_again(void **state)
{
    (void)state;
    begin();
    sc.config.handover.max_rate = 1e-5;
    sc.opens_every = 3;
    sc.n_steps = 60;
    go();
}

/* Whose holder stays the same go on, whole or not. */
static void handed_over(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 30; at += 3) {
        begin();
        sc.config.handover.max_rate = 1e-5;
        sc.hands_over_at = at;
        go();
    }
}

/* Of two copies that are not whole, in what is one stream now, one goes on. */
static void joined_with_others(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 12; at++) {
        begin();
        sc.config.handover.max_rate = 1e-5;
        sc.hands_over_at = at;
        sc.is_joined = true;
        go();
    }
}

/* To those who have copies of them: dense, with bitmaps, sparse and frozen. */
static void moved_to_their_copies(void **state)
{
    (void)state;
    for (int what = MOVED; what <= MOVED_SPOILT; what++)
        for (int scheme = 0; scheme < 4; scheme++) {
            begin();
            sc.config.handover.max_rate = 1e-5;
            sc.moves = what;
            sc.hands_over_at = 30;
            sc.n_steps = 60;
            if (scheme && scheme < 3) {
                sc.config.prune.end = 90;
                sc.prune[25] = scheme == 1 ? 0.3 : 0.8;
                sc.prune[40] = 0.85;
            } else if (scheme) {
                sc.config.freeze.begin = FIRST + 5;
                sc.config.freeze.end = FIRST + 15;
                sc.config.freeze.every = 10;
                sc.config.freeze.layers = 3;
                snprintf(sc.config.freeze.rule, sizeof sc.config.freeze.rule, "linear");
                sc.freezes = true;
            }
            go();
        }
}

/* A copy that is not its layer any more is found, with one bit or many that are wrong, and made anew. */
static void rotten(void **state)
{
    (void)state;
    for (int is_pruned = 0; is_pruned < 2; is_pruned++) {
        begin();
        sc.config.handover.max_rate = 1e-5;
        sc.rots_at = 24;
        sc.opens_every = sc.rots_at + FOUND - 1;
        sc.n_steps = 60;
        sc.config.prune.end = is_pruned ? 90 : 0;
        sc.prune[15] = is_pruned ? 0.8 : 0;
        go();
    }
}

/* Copies make room for a layer that comes and of which there is none, and are made again. */
static void moved_without_room(void **state)
{
    (void)state;
    begin();
    sc.config.handover.max_rate = 1e-5;
    sc.moves = MOVED_WITHOUT_ROOM;
    sc.hands_over_at = 30;
    sc.n_steps = 60;
    go();
}

/* What could not be pruned begins anew. */
static void spoilt(void **state)
{
    (void)state;
    begin();
    sc.config.handover.max_rate = 1e-5;
    sc.config.prune.end = 90;
    sc.prune[20] = 0.3;
    sc.spoils = true;
    go();
}

/* A holder without room says so once, and training goes on. */
static void no_room(void **state)
{
    (void)state;
    begin();
    sc.room = 1000;
    sc.n_steps = 6;
    go();
}

/* At any step, at each of its moments. What was whole is taken; the rest would come from a checkpoint, here from the model. */
static void a_worker_is_lost(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 30; at += 4)
        for (int where = BEFORE_GRADIENTS; where <= BEFORE_STEP; where++) {
            begin();
            sc.config.handover.max_rate = 1e-5;
            sc.dies_at = at;
            sc.dies = where;
            go();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers), cmocka_unit_test(large_layers), cmocka_unit_test(pruned_on_the_way),
        cmocka_unit_test(frozen_on_the_way), cmocka_unit_test(opened_again_and_again), cmocka_unit_test(handed_over),
        cmocka_unit_test(joined_with_others), cmocka_unit_test(moved_to_their_copies), cmocka_unit_test(moved_without_room),
        cmocka_unit_test(spoilt), cmocka_unit_test(rotten),
        cmocka_unit_test(no_room), cmocka_unit_test(a_worker_is_lost),
    };

    lost = mmap(NULL, sizeof *lost, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lost == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
