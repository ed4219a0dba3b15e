/* SPDX-License-Identifier: BSD-3-Clause */
/* The local rule of policies/solve/diffuse.h, run by workers that have nothing but their own state and
 * mailboxes at their two borders: it ends, every worker knows it, and the answer is what the header promises. */
#include "tests/unit/unit.h"

#include "policies/balancer.h"
#include "policies/solve/diffuse.h"
#include "tests/unit/random.h"

#define MAX_P 12
#define MAX_N 40
#define INSTANCES 20000

/* One worker: its layers are its own, numbered only so that the test can see where they went. */
struct worker {
    struct dp_diffuse_worker rule;
    struct dp_diffuse_layer layer[MAX_N];
    uint32_t name[MAX_N], n;
    struct dp_diffuse_note in[2]; /* what the neighbours sent this round */
    bool has_in[2], has_told[2];
    bool is_asked[2], has_ask[2], has_asked[2]; /* did a neighbour ask; has it said so; have we */
    struct dp_diffuse_layer box[2];             /* a layer that came over the left, the right border */
    uint32_t box_name[2];
    bool has_box[2];
};

struct world {
    struct dp_partition q;
    uint64_t weight[MAX_N], fixed[MAX_N], multi[MAX_N], cap[MAX_P];
    uint32_t copies[MAX_P], start[MAX_P + 1], cut[MAX_P + 1];
    double speed[MAX_P];
    struct worker worker[MAX_P];
    uint32_t order[MAX_P]; /* in which the workers happen to run */
    uint32_t rounds, moves;
};

static void add(struct worker *w, uint32_t at, struct dp_diffuse_layer layer, uint32_t name)
{
    memmove(w->layer + at + 1, w->layer + at, (w->n - at) * sizeof *w->layer);
    memmove(w->name + at + 1, w->name + at, (w->n - at) * sizeof *w->name);
    w->layer[at] = layer;
    w->name[at] = name;
    w->n++;
    dp_diffuse_moved(&w->rule, &layer, true);
}

static void begin(struct world *t)
{
    for (uint32_t b = 0; b < t->q.p; b++) {
        struct worker *w = &t->worker[b];

        memset(w, 0, sizeof *w);
        w->rule.speed = t->q.speed ? t->speed[b] : 1.0;
        w->rule.cap_bytes = t->q.cap_bytes ? t->cap[b] : 0;
        w->rule.copies = t->q.copies ? t->copies[b] : 1;
        for (uint32_t i = t->start[b]; i < t->start[b + 1]; i++)
            add(w, w->n, (struct dp_diffuse_layer){t->weight[i], t->fixed[i], t->multi[i]}, i);
        t->order[b] = b;
    }
    t->rounds = t->moves = 0;
}

static void shuffle(struct world *t, uint64_t *seed)
{
    for (uint32_t i = t->q.p; i > 1; i--) {
        uint32_t k = random_below(seed, i), other = t->order[k];

        t->order[k] = t->order[i - 1];
        t->order[i - 1] = other;
    }
}

static struct worker *neighbour(struct world *t, uint32_t b, int side)
{
    if (side == DP_DIFFUSE_LEFT)
        return b ? &t->worker[b - 1] : NULL;
    return b + 1 < t->q.p ? &t->worker[b + 1] : NULL;
}

/* A worker sends what it can: who has no layers waits for the other side first. returns: was there anything? */
static bool try_tell(struct world *t, uint32_t b)
{
    struct worker *w = &t->worker[b];
    bool did = false;

    for (int to = 0; to < 2; to++) {
        struct worker *next = neighbour(t, b, to), *other = neighbour(t, b, !to);

        if (w->has_told[to] || !next || (!w->n && other && !w->has_in[!to]))
            continue;
        dp_diffuse_tell(&w->rule, (enum dp_diffuse_side)to, w->n ? &w->layer[to ? w->n - 1 : 0] : NULL,
                        other ? &w->in[!to] : NULL, &next->in[!to]);
        next->has_in[!to] = w->has_told[to] = did = true;
    }
    return did;
}

/* The same for asks: who has no layers, and does not ask itself, waits for the other side. */
static bool try_ask(struct world *t, uint32_t b)
{
    struct worker *w = &t->worker[b];
    bool did = false;

    for (int side = 0; side < 2; side++) {
        struct worker *next = neighbour(t, b, side), *other = neighbour(t, b, !side);

        if (w->has_asked[side] || !next || (!w->n && w->rule.asks == DP_DIFFUSE_NONE && other && !w->has_ask[!side]))
            continue;
        next->is_asked[!side] = dp_diffuse_wants(&w->rule, (enum dp_diffuse_side)side, w->is_asked[!side]);
        next->has_ask[!side] = w->has_asked[side] = did = true;
    }
    return did;
}

/* Put the layer at a border, when it is given, into the neighbour's box. */
static void give(struct world *t, uint32_t b, int side)
{
    struct worker *w = &t->worker[b], *next = neighbour(t, b, side);
    uint32_t at = side == DP_DIFFUSE_LEFT ? 0 : w->n - 1;

    assert_true(w->n > 0 && next && !next->has_box[!side]);
    next->box[!side] = w->layer[at];
    next->box_name[!side] = w->name[at];
    next->has_box[!side] = true;
    w->n--;
    memmove(w->layer + at, w->layer + at + 1, (w->n - at) * sizeof *w->layer);
    memmove(w->name + at, w->name + at + 1, (w->n - at) * sizeof *w->name);
    dp_diffuse_moved(&w->rule, &next->box[!side], false);
}

/* What came is for who asked, or goes on. returns: was there anything? */
static bool try_receive(struct world *t, uint32_t b)
{
    struct worker *w = &t->worker[b], *next;
    bool did = false;

    for (int side = 0; side < 2; side++) {
        if (!w->has_box[side])
            continue;
        did = true;
        if ((int)w->rule.asks == side) {
            add(w, side == DP_DIFFUSE_LEFT ? 0 : w->n, w->box[side], w->box_name[side]);
            t->moves++;
        } else {
            next = neighbour(t, b, !side);
            assert_true(next && !w->n && !next->has_box[side]);
            next->box[side] = w->box[side];
            next->box_name[side] = w->box_name[side];
            next->has_box[side] = true;
        }
        w->has_box[side] = false;
    }
    return did;
}

/* Messages until none is under way, in whatever order the workers run. */
static void until_quiet(struct world *t, uint64_t *seed, bool (*step)(struct world *t, uint32_t b))
{
    bool did = true;

    while (did) {
        did = false;
        shuffle(t, seed);
        for (uint32_t i = 0; i < t->q.p; i++)
            did = step(t, t->order[i]) || did;
    }
}

static void one_round(struct world *t, uint64_t *seed)
{
    bool gives[MAX_P][2];

    for (uint32_t b = 0; b < t->q.p; b++)
        for (int side = 0; side < 2; side++) {
            struct worker *w = &t->worker[b];

            w->has_in[side] = w->has_told[side] = w->is_asked[side] = w->has_ask[side] = w->has_asked[side] = false;
        }
    until_quiet(t, seed, try_tell);
    for (uint32_t b = 0; b < t->q.p; b++)
        for (int side = 0; side < 2; side++)
            assert_int_equal(t->worker[b].has_in[side], neighbour(t, b, side) != NULL);
    for (uint32_t b = 0; b < t->q.p; b++) {
        struct worker *w = &t->worker[b];

        dp_diffuse_ask(&w->rule, w->has_in[0] ? &w->in[0] : NULL, w->has_in[1] ? &w->in[1] : NULL);
    }
    until_quiet(t, seed, try_ask);
    for (uint32_t b = 0; b < t->q.p; b++)
        for (int side = 0; side < 2; side++) {
            struct worker *w = &t->worker[b];

            assert_int_equal(w->has_ask[side], neighbour(t, b, side) != NULL);
            gives[b][side] = dp_diffuse_grant(&w->rule, (enum dp_diffuse_side)side, w->is_asked[0], w->is_asked[1]);
        }
    for (uint32_t b = 0; b < t->q.p; b++)
        for (int side = 0; side < 2; side++)
            if (gives[b][side])
                give(t, b, side);
    until_quiet(t, seed, try_receive);
    t->rounds++;
}

static uint64_t highest(const struct world *t, bool and_heard)
{
    uint64_t most = 0;

    for (uint32_t b = 0; b < t->q.p; b++) {
        const struct dp_diffuse_worker *w = &t->worker[b].rule;
        uint64_t here = dp_diffuse_load(w);

        for (int side = 0; and_heard && side < 2; side++)
            here = w->highest[side] > here ? w->highest[side] : here;
        most = here > most ? here : most;
    }
    return most;
}

static uint64_t lowest(const struct world *t)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t b = 0; b < t->q.p; b++)
        if (dp_diffuse_load(&t->worker[b].rule) < least)
            least = dp_diffuse_load(&t->worker[b].rule);
    return least;
}

static uint32_t n_over(const struct world *t)
{
    uint32_t n = 0;

    for (uint32_t b = 0; b < t->q.p; b++)
        n += dp_diffuse_is_over(&t->worker[b].rule, t->q.p);
    return n;
}

/* Every layer once, in its order. */
static void check_order(const struct world *t)
{
    uint32_t next = 0;

    for (uint32_t b = 0; b < t->q.p; b++)
        for (uint32_t i = 0; i < t->worker[b].n; i++)
            assert_int_equal(t->worker[b].name[i], next++);
    assert_int_equal(next, t->q.n);
}

/* Until all know that it is over; nothing may move after the first one said so. */
static void run(struct world *t, uint64_t *seed)
{
    uint64_t most = highest(t, true), now;
    uint32_t moves = 0, first = 0;

    while (n_over(t) < t->q.p) {
        one_round(t, seed);
        now = highest(t, true);
        assert_true(now <= most);
        most = now;
        if (!first && n_over(t)) {
            first = t->rounds;
            moves = t->moves;
        }
        assert_true(t->rounds < 1000000);
    }
    assert_int_equal(t->moves, moves);
    assert_true(t->rounds - first <= t->q.p);
    check_order(t);
}

static void weights(struct world *t, uint64_t *seed)
{
    uint32_t kind = random_below(seed, 8), big = random_below(seed, t->q.n);

    for (uint32_t i = 0; i < t->q.n; i++) {
        uint64_t w = 1 + random_below(seed, 1000);

        switch (kind) {
        case 0: w = 7; break;
        case 1: w = i == big ? 100000 : w; break;
        case 2: w = random_below(seed, 2); break;
        case 3: w = UINT64_C(1) << (i % 30); break;
        case 4: w = i + 1; break;
        case 5: w = i % 2 ? 1000 : 1; break;
        case 6: w = t->q.n - i; break;
        }
        t->weight[i] = w;
        t->fixed[i] = random_below(seed, 50);
        t->multi[i] = random_below(seed, 10);
    }
}

static void starts(struct world *t, uint64_t *seed)
{
    uint32_t kind = random_below(seed, 4), p = t->q.p;

    t->start[0] = 0;
    t->start[p] = t->q.n;
    for (uint32_t b = 1; b < p; b++)
        t->start[b] = kind == 0 ? t->q.n : kind == 1 ? 0 : kind == 2 ? t->q.n * b / p : random_below(seed, t->q.n + 1);
    for (uint32_t b = 1; b < p; b++) /* only the random ones do not rise */
        if (t->start[b] < t->start[b - 1])
            t->start[b] = t->start[b - 1];
}

static void make(struct world *t, uint64_t *seed)
{
    t->q = (struct dp_partition){.n = 1 + random_below(seed, MAX_N), .p = 1 + random_below(seed, MAX_P),
                                 .weight = t->weight, .prefer = t->start};
    weights(t, seed);
    starts(t, seed);
    for (uint32_t b = 0; b < t->q.p; b++) {
        t->speed[b] = 0.25 * (1 + random_below(seed, 8)) * (random_below(seed, 3) ? 1.0 : 0.7);
        t->cap[b] = random_below(seed, 4) ? 50 + random_below(seed, 1500) : 0;
        t->copies[b] = t->q.p - b;
    }
}

/* What the policy makes of the same start. */
static void same_as_policy(const struct world *t, const uint32_t *cut)
{
    uint32_t at = 0;

    for (uint32_t b = 0; b < t->q.p; b++) {
        assert_int_equal(cut[b], at);
        at += t->worker[b].n;
    }
    assert_int_equal(cut[t->q.p], t->q.n);
}

static void ends_within_one_layer_and_at_the_optimum(void **state)
{
    (void)state;
    static struct world t;
    uint64_t rounds = 0, most_rounds = 0, moves = 0;

    for (uint64_t i = 0; i < INSTANCES; i++) {
        uint64_t seed = i, best, heaviest = 0;
        struct dp_balancer_note note;
        uint32_t cut[MAX_P + 1];

        make(&t, &seed);
        begin(&t);
        run(&t, &seed);
        for (uint32_t k = 0; k < t.q.n; k++)
            heaviest = t.weight[k] > heaviest ? t.weight[k] : heaviest;
        assert_true(highest(&t, false) - lowest(&t) <= heaviest);
        assert_int_equal(dp_partition_minmax(&t.q, cut, &best, NULL), 0);
        assert_int_equal(highest(&t, false), best);
        assert_int_equal(dp_balancer_diffusion(&t.q, cut, &note, NULL), 0);
        same_as_policy(&t, cut);
        rounds += t.rounds;
        moves += t.moves;
        most_rounds = t.rounds > most_rounds ? t.rounds : most_rounds;
    }
    print_message("# %d instances of at most %d layers on %d workers: %.1f rounds (at most %llu), %.1f moves\n", INSTANCES,
                  MAX_N, MAX_P, (double)rounds / INSTANCES, (unsigned long long)most_rounds, (double)moves / INSTANCES);
}

static bool has_an_empty_worker(const struct world *t)
{
    for (uint32_t b = 0; b < t->q.p; b++)
        if (!t->worker[b].n)
            return true;
    return false;
}

static void unequal_speeds(void **state)
{
    (void)state;
    static struct world t;
    uint32_t with_empty = 0;

    for (uint64_t i = 0; i < INSTANCES; i++) {
        struct dp_balancer_note note;
        uint64_t seed = i, best, longest = 0;
        uint32_t cut[MAX_P + 1];

        make(&t, &seed);
        t.q.speed = t.speed;
        begin(&t);
        run(&t, &seed);
        for (uint32_t b = 0; b < t.q.p; b++)
            for (uint32_t k = 0; k < t.q.n; k++)
                if (dp_partition_time(t.speed[b], t.weight[k]) > longest)
                    longest = dp_partition_time(t.speed[b], t.weight[k]);
        assert_true(highest(&t, false) - lowest(&t) <= longest + 1);
        assert_int_equal(dp_partition_minmax(&t.q, cut, &best, NULL), 0);
        assert_int_equal(highest(&t, false), best);
        assert_int_equal(dp_balancer_diffusion(&t.q, cut, &note, NULL), 0);
        same_as_policy(&t, cut);
        with_empty += has_an_empty_worker(&t);
    }
    print_message("# unequal speeds: all %d at the optimum, %u with a worker that has no layers\n", INSTANCES, with_empty);
    assert_true(with_empty > INSTANCES / 3);
}

static void memory_limits(void **state)
{
    (void)state;
    static struct world t;
    const uint64_t overfull = UINT64_C(1) << 63;
    uint32_t with_empty = 0, possible = 0;

    for (uint64_t i = 0; i < INSTANCES; i++) {
        struct dp_balancer_note note;
        bool fitted[MAX_P];
        uint64_t seed = i, best;
        uint32_t cut[MAX_P + 1];

        make(&t, &seed);
        t.q.speed = random_below(&seed, 2) ? t.speed : NULL;
        t.q.fixed_bytes = t.fixed;
        t.q.multi_bytes = t.multi;
        t.q.copies = t.copies;
        t.q.cap_bytes = t.cap;
        begin(&t);
        for (uint32_t b = 0; b < t.q.p; b++)
            fitted[b] = dp_diffuse_load(&t.worker[b].rule) < overfull;
        run(&t, &seed);
        for (uint32_t b = 0; b < t.q.p; b++)
            assert_true(!fitted[b] || dp_diffuse_load(&t.worker[b].rule) < overfull);
        assert_int_equal(dp_balancer_diffusion(&t.q, cut, &note, NULL), 0);
        same_as_policy(&t, cut);
        if (dp_partition_minmax(&t.q, cut, &best, NULL) < 0) {
            assert_true(highest(&t, false) >= overfull);
            continue;
        }
        possible++;
        assert_int_equal(highest(&t, false), best);
        with_empty += has_an_empty_worker(&t);
    }
    print_message("# limits of memory: all %u that fit at all at the optimum, %u with a worker that has no layers\n",
                  possible, with_empty);
    assert_true(possible > INSTANCES / 2 && with_empty > possible / 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ends_within_one_layer_and_at_the_optimum),
    cmocka_unit_test(unequal_speeds),
    cmocka_unit_test(memory_limits),
};
TEST_MAIN("diffusion", tests)
