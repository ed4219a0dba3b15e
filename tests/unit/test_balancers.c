/* The balancers side by side: baselines against what the programs that they stand for answer, our own
 * never worse than any of them, and every policy on snapshots of all kinds. */
#include "tests/unit/unit.h"

#include "policies/balancer.h"
#include "policies/chain.h"
#include "policies/nicol.h"
#include "tests/unit/random.h"

#define MAX_N 56
#define MAX_P 16

/* What DeepSpeed's, and torchgpipe's, own functions answer to these weights. */
static void baselines_answer_as_the_originals(void **state)
{
    (void)state;
    static const struct {
        dp_balancer_fn *fn;
        uint32_t n, p;
        uint64_t weight[10];
        uint32_t cut[5];
    } known[] = {
        {dp_balancer_deepspeed, 6, 2, {1, 2, 3, 4, 5, 6}, {0, 4, 6}},
        {dp_balancer_deepspeed, 9, 3, {5, 5, 5, 5, 1, 1, 1, 1, 9}, {0, 2, 6, 9}},
        {dp_balancer_deepspeed, 10, 4, {9, 1, 1, 1, 9, 1, 1, 2, 3, 8}, {0, 3, 6, 9, 10}},
        {dp_balancer_deepspeed, 3, 2, {10, 1, 1}, {0, 0, 3}}, /* its defect: all of it on the second */
        {dp_balancer_deepspeed, 2, 4, {10, 1}, {0, 1, 2, 2, 2}},
        {dp_balancer_deepspeed_range, 9, 3, {5, 5, 5, 5, 1, 1, 1, 1, 9}, {0, 2, 6, 9}},
        {dp_balancer_deepspeed_range, 10, 4, {9, 1, 1, 1, 9, 1, 1, 2, 3, 8}, {0, 3, 5, 9, 10}},
        {dp_balancer_torchgpipe, 6, 2, {1, 2, 3, 4, 5, 6}, {0, 4, 6}},
        {dp_balancer_torchgpipe, 9, 3, {5, 5, 5, 5, 1, 1, 1, 1, 9}, {0, 3, 6, 9}},
        {dp_balancer_torchgpipe, 10, 4, {9, 1, 1, 1, 9, 1, 1, 2, 3, 8}, {0, 2, 5, 8, 10}},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct dp_partition q = {.n = known[i].n, .p = known[i].p, .weight = known[i].weight};
        struct dp_balancer_note note = {""};
        uint32_t cut[5] = {0};

        assert_int_equal(known[i].fn(&q, cut, &note, NULL), 0);
        assert_memory_equal(cut, known[i].cut, (q.p + 1) * sizeof *cut);
    }
}

static void dynmo_keeps_the_order(void **state)
{
    (void)state;
    uint64_t weight[8] = {9, 9, 1, 1, 1, 1, 1, 1}, bytes[8] = {1, 1, 1, 1, 1, 1, 1, 1}, cap[3] = {9, 9, 3};
    uint32_t cut[4], now[4] = {0, 4, 6, 8};
    struct dp_partition q = {.n = 8, .p = 3, .weight = weight, .prefer = now};
    struct dp_balancer_note note = {""};

    assert_int_equal(dp_balancer_dynmo(&q, cut, &note, NULL), 0);
    assert_memory_equal(cut, ((uint32_t[]){0, 1, 2, 8}), sizeof cut);
    q.fixed_bytes = bytes;
    q.cap_bytes = cap;
    assert_int_equal(dp_balancer_dynmo(&q, cut, &note, NULL), 0);
    assert_memory_equal(cut, now, sizeof cut); /* no room on the last one for a second layer more */
    assert_string_equal(note.text, "no room to move layer 3: stays");
    q.cap_bytes = NULL;
    assert_int_equal(dp_balancer_dynmo_diffusion(&q, cut, &note, NULL), 0);
    assert_memory_equal(cut, ((uint32_t[]){0, 1, 2, 8}), sizeof cut);
    assert_string_equal(note.text, "6 moves");
}

struct snapshot {
    struct dp_layer_load layer[MAX_N];
    uint64_t opt[MAX_N];
    struct dp_layout layout;
    struct dp_device device[MAX_P];
    struct dp_policy_in in;
};

/* A pruned model on equal devices, cut evenly: blocks between full and a tenth of the work. */
static void make(struct snapshot *t, uint64_t *seed)
{
    uint32_t n = 24 + random_below(seed, MAX_N - 24 + 1), p = 4 + random_below(seed, MAX_P - 4 + 1);

    memset(t, 0, sizeof *t);
    for (uint32_t l = 0; l < n; l++) {
        uint64_t ns = 1000000 + random_below(seed, 9000000);

        t->layer[l] = (struct dp_layer_load){ns, ns, ns / 2 + random_below(seed, 1000000), 1000, 100, 1000, ns / 10000};
        t->opt[l] = ns / 20;
    }
    t->layout.n_workers = p;
    t->layout.n_layers = n;
    dp_chain_uniform(n, p, t->layout.cut);
    for (uint32_t d = 0; d < p; d++)
        t->device[d] = (struct dp_device){1.0, 0, d, true};
    t->in = (struct dp_policy_in){.n_layers = n, .n_devices = p, .n_slots = p, .layer = t->layer,
                                  .layer_opt_ns = t->opt, .current = &t->layout, .device = t->device,
                                  .microbatches = 16, .boundary_bytes = 1000000, .link_latency_s = 1e-5,
                                  .link_bytes_per_s = 1e9, .steps_total = 1000};
}

/* No pipeline is faster than its heaviest layer, or than all work spread evenly. */
static uint64_t lower_bound(const struct snapshot *t)
{
    uint64_t sum = 0, heaviest = 0;

    for (uint32_t l = 0; l < t->in.n_layers; l++) {
        uint64_t w = dp_policy_layer_work_ns(&t->in, l);

        sum += w;
        heaviest = w > heaviest ? w : heaviest;
    }
    sum = (sum + t->in.n_devices - 1) / t->in.n_devices;
    return sum > heaviest ? sum : heaviest;
}

static uint64_t run(const struct dp_policy *policy, const struct snapshot *t)
{
    static struct dp_policy_out out;
    struct dp_err err;

    if (dp_policy_run(policy, NULL, &t->in, &out, &err) < 0)
        fail_msg("%s: %s", policy->name, err.text);
    return out.bottleneck_ns;
}

static void never_worse_than_a_baseline(void **state)
{
    (void)state;
    enum { INSTANCES = 1000, MOST = 64 };
    double ratio[MOST] = {0}, worst[MOST] = {0};
    size_t n = 0;

    for (uint64_t i = 0; i < INSTANCES; i++) {
        struct snapshot t;
        uint64_t seed = i, best, bound;

        make(&t, &seed);
        best = run(&dp_policy_time, &t);
        bound = lower_bound(&t);
        assert_true(best >= bound);
        assert_int_equal(run(&dp_policy_nicol, &t), best);
        assert_int_equal(run(&dp_policy_diffusion_time, &t), best);
        for (n = 0; dp_policy_at(n); n++) {
            uint64_t ns = run(dp_policy_at(n), &t);

            assert_true(best <= ns);
            ratio[n] += (double)ns / (double)bound;
            worst[n] = (double)ns / (double)bound > worst[n] ? (double)ns / (double)bound : worst[n];
        }
    }
    print_message("# slowest device over the lower bound, %d pruned models of 24 to %d layers on 4 to %d devices:\n",
                  INSTANCES, MAX_N, MAX_P);
    for (size_t k = 0; k < n; k++)
        print_message("# %-22s mean %.3f, at most %.3f\n", dp_policy_at(k)->name, ratio[k] / INSTANCES, worst[k]);
}

/* --- models and devices of every shape, each objective on its own --- */

enum { SHAPES = 9, OF_SHAPE = 100 };

static uint64_t shaped(uint64_t *seed, uint32_t shape, uint32_t i, uint32_t n, uint32_t big)
{
    uint64_t any = 1000000 + random_below(seed, 9000000);

    switch (shape) {
    case 0: return 5000000;                            /* all alike */
    case 1: return i == big ? 400000000 : any;         /* one outweighs all */
    case 2: return UINT64_C(1000) << (i % 20);         /* doubling */
    case 3: return 100000 * (i + 1);                   /* rising */
    case 4: return 100000 * (n - i);                   /* falling */
    case 5: return i % 2 ? 9000000 : 1000;             /* every second one light */
    case 6: return random_below(seed, 4) ? 0 : any;    /* mostly nothing */
    case 7: return i < n / 2 ? any : any / 10;         /* half pruned */
    }
    return any;
}

/* is_unequal: speeds from 1/4 to 2; has_limits: of memory, some of them too small for anything. */
static void make_shape(struct snapshot *t, uint64_t *seed, uint32_t shape, bool is_unequal, bool has_limits)
{
    uint32_t n = 1 + random_below(seed, MAX_N), p = 1 + random_below(seed, MAX_P), big = random_below(seed, n);

    make(t, seed);
    for (uint32_t l = 0; l < n; l++) {
        uint64_t ns = shaped(seed, shape, l, n, big);

        t->layer[l] = (struct dp_layer_load){ns, ns, ns / 2, 1000 + random_below(seed, 1000),
                                             100 + random_below(seed, 100), ns / 1000, ns / 1000};
        t->opt[l] = ns / 20;
    }
    for (uint32_t d = 0; d < p; d++) {
        t->device[d].slot = d;
        t->device[d].is_allowed = true;
        t->device[d].speed = is_unequal ? 0.25 * (1 + random_below(seed, 8)) : 1.0;
        t->device[d].mem_limit_bytes = has_limits && random_below(seed, 2) ? 3000ull * n / p + random_below(seed, 20000) : 0;
    }
    t->layout.n_workers = t->in.n_devices = t->in.n_slots = p;
    t->layout.n_layers = t->in.n_layers = n;
    dp_chain_uniform(n, p, t->layout.cut);
    t->in.microbatches = 1 + random_below(seed, 32);
    t->in.schedule = random_below(seed, 3) ? DP_SCHED_1F1B : DP_SCHED_GPIPE;
    t->in.link_bytes_per_s = random_below(seed, 2) ? 1e8 * (1 + random_below(seed, 100)) : 0.0;
}

/* What a policy is after: the objective in which nobody may beat it. */
enum aim { AIM_SLOWEST, AIM_ITERATION, AIM_PARAMETERS, N_AIMS };

static uint64_t fullest(const struct snapshot *t, const struct dp_layout *l)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        uint64_t sum = 0;

        for (uint32_t i = l->cut[d]; i < l->cut[d + 1]; i++)
            sum += t->layer[i].nnz;
        most = sum > most ? sum : most;
    }
    return most;
}

/* value: = [N_AIMS]. returns: is there a layout at all? */
static bool ask(const struct dp_policy *policy, const struct snapshot *t, uint64_t *value)
{
    static struct dp_policy_out out;

    if (dp_policy_run(policy, NULL, &t->in, &out, NULL) < 0)
        return false;
    value[AIM_SLOWEST] = out.bottleneck_ns;
    value[AIM_ITERATION] = out.iteration_ns;
    value[AIM_PARAMETERS] = fullest(t, &out.layout);
    return true;
}

static double bound_of(const struct snapshot *t)
{
    double sum = 0.0, heaviest = 0.0, speed = 0.0, fastest = 0.0;

    for (uint32_t l = 0; l < t->in.n_layers; l++) {
        double w = (double)dp_policy_layer_work_ns(&t->in, l);

        sum += w;
        heaviest = w > heaviest ? w : heaviest;
    }
    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        speed += t->device[d].speed;
        fastest = t->device[d].speed > fastest ? t->device[d].speed : fastest;
    }
    return sum / speed > heaviest / fastest ? sum / speed : heaviest / fastest;
}

/* how: 1 unequal speeds, 2 limits of memory, 3 both */
static void compare_shapes(uint32_t how)
{
    static const struct {
        const struct dp_policy *policy;
        enum aim aim;
        bool knows_depth; /* that empty devices keep fewer activations before them */
    } ours[] = {{&dp_policy_time, AIM_SLOWEST, true},
                {&dp_policy_param, AIM_PARAMETERS, true},
                {&dp_policy_iteration, AIM_ITERATION, true},
                {&dp_policy_nicol, AIM_SLOWEST, false},
                {&dp_policy_diffusion_time, AIM_SLOWEST, false},
                {&dp_policy_diffusion_param, AIM_PARAMETERS, false}};
    uint32_t n = 0, compared = 0;
    double ratio = 0.0;

    for (uint32_t i = 0; i < SHAPES * OF_SHAPE; i++) {
        uint64_t seed = i * 4 + how, best[N_AIMS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, value[N_AIMS], slack;
        struct snapshot t;
        bool is_possible = false;

        make_shape(&t, &seed, i % SHAPES, how & 1, how & 2);
        /* the simulator rounds forward and backward up to whole ns on a device of another speed */
        slack = how & 1 ? 2 * t.in.microbatches + 1 : 0;
        for (size_t k = 0; dp_policy_at(k); k++) {
            if (!ask(dp_policy_at(k), &t, value))
                continue;
            is_possible = true;
            compared++;
            for (int a = 0; a < N_AIMS; a++)
                best[a] = value[a] < best[a] ? value[a] : best[a];
        }
        for (size_t k = 0; is_possible && k < sizeof ours / sizeof *ours; k++) {
            if ((how & 2) && !ours[k].knows_depth)
                continue;
            if (!ask(ours[k].policy, &t, value))
                fail_msg("instance %u of %u: %s finds no layout", i, how, ours[k].policy->name);
            if (value[ours[k].aim] > best[ours[k].aim] + (ours[k].aim == AIM_SLOWEST ? slack : 0))
                fail_msg("instance %u of %u: %s is beaten: %llu, %llu", i, how, ours[k].policy->name,
                         (unsigned long long)value[ours[k].aim], (unsigned long long)best[ours[k].aim]);
            if (ours[k].policy == &dp_policy_time && bound_of(&t) > 0.0) {
                ratio += (double)value[AIM_SLOWEST] / bound_of(&t);
                n++;
            }
        }
    }
    print_message("# %s devices%s: slowest device of policy time over the lower bound: mean %.3f of %u models of %d shapes\n",
                  how & 1 ? "unequal" : "equal", how & 2 ? ", limits of memory" : "", ratio / n, n, SHAPES);
    assert_true(n > SHAPES * OF_SHAPE / 2 && compared > 5 * n);
}

static void never_worse_on_any_shape(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 4; how++)
        compare_shapes(how);
}

static uint64_t largest(const struct dp_chain *c, const uint32_t *cut, bool *fits)
{
    uint64_t most = 0;

    *fits = true;
    for (uint32_t b = 0; b < c->q->p; b++) {
        uint64_t load = dp_chain_load(c, b, cut[b], cut[b + 1]);

        assert_true(cut[b] <= cut[b + 1]);
        most = load > most ? load : most;
        *fits = *fits && dp_chain_fits(c, b, cut[b], cut[b + 1]);
    }
    assert_true(cut[0] == 0 && cut[c->q->p] == c->q->n);
    return most;
}

/* Unequal devices with limits of memory and costs: whatever fits is not better than ours. */
static void never_worse_on_unequal_devices(void **state)
{
    (void)state;
    static dp_balancer_fn *const fn[] = {dp_balancer_deepspeed, dp_balancer_deepspeed_range, dp_balancer_torchgpipe,
                                         dp_balancer_dynmo, dp_balancer_dynmo_diffusion, dp_balancer_diffusion};
    uint32_t compared = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i, best, weight[MAX_N], fixed[MAX_N], cap[MAX_P], cost[MAX_P];
        uint32_t cut[MAX_P + 1], start[MAX_P + 1] = {0};
        double speed[MAX_P];
        struct dp_partition q = {.p = 1 + random_below(&seed, MAX_P), .weight = weight, .speed = speed, .cost = cost,
                                 .fixed_bytes = fixed, .cap_bytes = cap, .prefer = start};
        struct dp_chain c;
        bool fits;

        q.n = q.p + random_below(&seed, MAX_N - q.p + 1);
        for (uint32_t k = 0; k < q.n; k++) {
            weight[k] = random_below(&seed, 1000);
            fixed[k] = random_below(&seed, 10);
        }
        for (uint32_t b = 0; b < q.p; b++) {
            speed[b] = 0.5 + random_below(&seed, 8) * 0.25;
            cap[b] = random_below(&seed, 2) ? 0 : 20 + 10 * q.n / q.p;
            cost[b] = random_below(&seed, 100);
            start[b + 1] = b + 1 < q.p ? start[b] + random_below(&seed, q.n - start[b] + 1) : q.n;
        }
        if (dp_partition_minmax(&q, cut, &best, NULL) < 0)
            continue;
        assert_int_equal(dp_chain_init(&c, &q, NULL), 0);
        assert_int_equal(largest(&c, cut, &fits), best);
        assert_true(fits);
        for (size_t k = 0; k < sizeof fn / sizeof *fn; k++) {
            struct dp_balancer_note note = {""};

            assert_int_equal(fn[k](&q, cut, &note, NULL), 0);
            assert_true(largest(&c, cut, &fits) >= best || !fits);
            compared += fits;
            if (fn[k] == dp_balancer_diffusion) { /* it knows no costs; without them it is exact */
                struct dp_partition free_of_cost = q;
                struct dp_chain f;
                uint32_t other[MAX_P + 1];
                uint64_t least;

                free_of_cost.cost = NULL;
                assert_int_equal(dp_partition_minmax(&free_of_cost, other, &least, NULL), 0);
                assert_int_equal(dp_chain_init(&f, &free_of_cost, NULL), 0);
                assert_int_equal(largest(&f, cut, &fits), least);
                dp_chain_release(&f);
            }
        }
        dp_chain_release(&c);
    }
    assert_true(compared > 3000);
}

/* Messages that stop computing: where they are dear, only both ends, with one boundary each, hold layers. */
static void messages_count(void **state)
{
    (void)state;
    struct snapshot t;
    struct dp_policy_out out;
    uint64_t seed = 1;

    make(&t, &seed);
    assert_int_equal(dp_policy_run(&dp_policy_time_comm, NULL, &t.in, &out, NULL), 0);
    assert_int_equal(dp_layout_active(&out.layout), t.in.n_devices);
    t.in.link_bytes_per_s = 1e3;
    assert_int_equal(dp_policy_run(&dp_policy_time_comm, NULL, &t.in, &out, NULL), 0);
    assert_int_equal(dp_layout_active(&out.layout), 1); /* any boundary costs more than all work */
}

/* --- what time and time-comm promise, against every layout --- */

/* The slowest device of a layout: its work and, where messages stop computing, both ends of each boundary. */
static uint64_t slowest_of(const struct snapshot *t, const struct dp_layout *l, bool pays_messages)
{
    uint64_t slowest = 0, boundary = pays_messages ? (uint64_t)dp_policy_boundary_ns(&t->in) : 0;

    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        uint64_t work = 0, ns = 0;

        if (l->cut[d + 1] == l->cut[d])
            continue;
        for (uint32_t i = l->cut[d]; i < l->cut[d + 1]; i++)
            work += dp_policy_layer_work_ns(&t->in, i);
        ns = dp_partition_time(t->device[d].speed, work);
        ns += boundary * ((dp_layout_prev(l, d) >= 0) + (dp_layout_next(l, d) >= 0));
        slowest = ns > slowest ? ns : slowest;
    }
    return slowest;
}

static uint64_t moved_cuts(const struct snapshot *t, const struct dp_layout *l)
{
    uint64_t sum = 0;

    for (uint32_t d = 1; d < t->in.n_devices; d++)
        sum += l->cut[d] > t->layout.cut[d] ? l->cut[d] - t->layout.cut[d] : t->layout.cut[d] - l->cut[d];
    return sum;
}

struct every {
    const struct snapshot *t;
    bool pays_messages;
    uint64_t slowest, moved; /* the best so far, and of those the nearest */
};

/* Every layout on the allowed devices from d on that the simulator finds room for. */
static void try_every(struct every *e, struct dp_policy_out *out, uint32_t d)
{
    uint32_t n = e->t->in.n_layers;
    uint64_t ns, moved;

    if (d < e->t->in.n_devices) {
        uint32_t least = d + 1 == e->t->in.n_devices ? n : out->layout.cut[d];

        for (uint32_t to = least; to <= (e->t->device[d].is_allowed ? n : out->layout.cut[d]); to++) {
            out->layout.cut[d + 1] = to;
            try_every(e, out, d + 1);
        }
        return;
    }
    if (dp_policy_weigh(&e->t->in, out, NULL) < 0)
        return;
    ns = slowest_of(e->t, &out->layout, e->pays_messages);
    moved = moved_cuts(e->t, &out->layout);
    if (ns < e->slowest || (ns == e->slowest && moved < e->moved)) {
        e->slowest = ns;
        e->moved = moved;
    }
}

/* A small run in any state: devices of several speeds and sizes, some of them not allowed, cuts anywhere. */
static void make_small(struct snapshot *t, uint64_t *seed)
{
    uint32_t n = 2 + random_below(seed, 7), p = 2 + random_below(seed, 3);

    make_shape(t, seed, random_below(seed, SHAPES), random_below(seed, 2), false);
    t->in.n_layers = t->layout.n_layers = n;
    t->in.n_devices = t->layout.n_workers = t->in.n_slots = p;
    for (uint32_t d = 0; d < p; d++) {
        t->device[d] = (struct dp_device){.speed = random_below(seed, 2) ? 1.0 : 0.25 * (1 + random_below(seed, 8)),
                                          .slot = d, .is_allowed = random_below(seed, 4) > 0};
        t->device[d].mem_limit_bytes = random_below(seed, 2) ? 0 : 1000 + random_below(seed, 16000);
        t->layout.cut[d + 1] = t->layout.cut[d] + random_below(seed, n - t->layout.cut[d] + 1);
    }
    t->layout.cut[p] = n;
    t->in.link_bytes_per_s = random_below(seed, 3) ? 1e8 * (1 + random_below(seed, 100)) : 0.0;
}

static void best_and_nearest_of_all_layouts(void **state)
{
    (void)state;
    static const struct dp_policy *const ours[] = {&dp_policy_time, &dp_policy_time_comm};
    uint32_t answers = 0, none = 0;

    for (uint64_t i = 0; i < 6000; i++) {
        struct every e = {.pays_messages = i % 2, .slowest = UINT64_MAX};
        static struct dp_policy_out out;
        struct snapshot t;
        uint64_t seed = i;
        int rc;

        make_small(&t, &seed);
        e.t = &t;
        out.layout = t.layout;
        out.layout.cut[0] = 0;
        try_every(&e, &out, 0);
        rc = dp_policy_run(ours[i % 2], NULL, &t.in, &out, NULL);
        if ((rc < 0) != (e.slowest == UINT64_MAX) ||
            (rc == 0 && (slowest_of(&t, &out.layout, i % 2) != e.slowest || moved_cuts(&t, &out.layout) != e.moved)))
            fail_msg("instance %llu: %s has %llu ns and moves cuts by %llu, possible are %llu and %llu",
                     (unsigned long long)i, ours[i % 2]->name,
                     rc < 0 ? 0ULL : (unsigned long long)slowest_of(&t, &out.layout, i % 2),
                     (unsigned long long)moved_cuts(&t, &out.layout), (unsigned long long)e.slowest,
                     (unsigned long long)e.moved);
        answers += rc == 0;
        none += rc < 0;
    }
    print_message("# %u answers are the best and of those the nearest; %u times there is no layout\n", answers, none);
    assert_true(answers > 4000 && none > 100);
}

/* Anything that passes dp_policy_in_check(): each policy answers or says why not. */
static void any_snapshot(void **state)
{
    (void)state;
    uint32_t answers = 0, errors = 0;

    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t seed = i;
        struct snapshot t;

        make(&t, &seed);
        if (random_below(&seed, 2))
            t.in.n_layers = t.layout.n_layers = 1 + random_below(&seed, MAX_N);
        for (uint32_t d = 0; d < t.in.n_devices; d++) {
            t.device[d].is_allowed = random_below(&seed, 4) > 0;
            t.device[d].speed = random_below(&seed, 20) ? 0.1 + random_below(&seed, 50) : 1e-6;
            t.device[d].mem_limit_bytes = random_below(&seed, 3) ? 0 : random_below(&seed, 20000);
            t.layout.cut[d + 1] = d + 1 < t.in.n_devices ? random_below(&seed, t.in.n_layers + 1) : t.in.n_layers;
            if (t.layout.cut[d + 1] < t.layout.cut[d])
                t.layout.cut[d + 1] = t.layout.cut[d];
        }
        for (uint32_t l = 0; l < t.in.n_layers; l++) {
            uint64_t huge = random_below(&seed, 50) ? 1 : 1 + (random_u64(&seed) >> random_below(&seed, 64)) % 1000000000;

            t.layer[l].fwd_ns = random_below(&seed, 5) * huge;
            t.layer[l].nnz = random_below(&seed, 3) * huge;
            t.layer[l].state_bytes *= huge;
        }
        if (dp_policy_in_check(&t.in, NULL) < 0)
            continue;
        for (size_t k = 0; dp_policy_at(k); k++) {
            struct dp_policy_out out;
            struct dp_err err = {0};

            if (dp_policy_run(dp_policy_at(k), NULL, &t.in, &out, &err) == 0) {
                assert_true(*out.reason);
                answers++;
            } else {
                assert_true(*err.text);
                assert_false(dp_policy_is_broken(&err));
                errors++;
            }
        }
    }
    assert_true(answers > 1000 && errors > 1000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(baselines_answer_as_the_originals),
    cmocka_unit_test(dynmo_keeps_the_order),
    cmocka_unit_test(never_worse_than_a_baseline),
    cmocka_unit_test(never_worse_on_any_shape),
    cmocka_unit_test(never_worse_on_unequal_devices),
    cmocka_unit_test(messages_count),
    cmocka_unit_test(best_and_nearest_of_all_layouts),
    cmocka_unit_test(any_snapshot),
};
TEST_MAIN("balancers", tests)
