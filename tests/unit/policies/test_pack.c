/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing against brute force over every contiguous layout of thousands of random small runs, with unequal
 * devices, memory limits, slots of several devices, links and both schedules; the objective efficiency;
 * and DynMo's first-fit merges beside it. */
#include "tests/unit/unit.h"

#include "policies/baselines/first_fit.h"
#include "policies/decide/pack.h"
#include "policies/decide/pack_sets.h"
#include "policies/list.h"
#include "policies/predict/answer.h"
#include "policies/predict/predict.h"
#include "tests/unit/random.h"

#define MAX_L 8
#define MAX_D 7

struct run {
    struct dp_layer_load layer[MAX_L];
    uint64_t opt[MAX_L];
    struct dp_layout current;
    struct dp_device device[MAX_D];
    uint8_t stays[MAX_D]; /* slots that are never given back, besides the batch host's */
    struct dp_policy_in in;
    struct dp_err err;
};

enum kind { ALIKE, ANY }; /* equal devices, one ratio of forward to backward and no links; anything */

static void random_layout(struct run *t, uint64_t *seed)
{
    t->current = (struct dp_layout){.epoch = 3, .n_workers = t->in.n_devices, .n_layers = t->in.n_layers};
    for (uint32_t d = 1; d < t->in.n_devices; d++)
        t->current.cut[d] = t->in.n_layers * d / t->in.n_devices;
    t->current.cut[t->in.n_devices] = t->in.n_layers;
    if (t->in.n_devices > 2 && random_below(seed, 3) == 0) { /* a device left before */
        uint32_t d = random_below(seed, t->in.n_devices);

        if (d)
            t->current.cut[d] = t->current.cut[d + 1];
        else
            t->current.cut[1] = 0;
        t->current.gone[d] = t->device[d].slot != t->in.batch_slot;
    }
}

static void init(struct run *t, uint64_t *seed, enum kind kind, uint32_t layers, uint32_t devices)
{
    uint32_t per_slot = 1 + random_below(seed, 2);
    bool has_limits = random_below(seed, 2);

    memset(t, 0, sizeof *t);
    t->in = (struct dp_policy_in){.n_layers = layers,
                                  .n_devices = devices,
                                  .layer = t->layer,
                                  .layer_opt_ns = t->opt,
                                  .current = &t->current,
                                  .device = t->device,
                                  .microbatches = 1 + random_below(seed, 9),
                                  .steps_total = 100};
    t->in.schedule = random_below(seed, 3) ? DP_SCHED_1F1B : DP_SCHED_GPIPE;
    for (uint32_t l = 0; l < layers; l++) {
        uint64_t ns = 1000 + random_below(seed, 9000);

        t->layer[l] =
            (struct dp_layer_load){ns, ns, ns, 100 + random_below(seed, 900), random_below(seed, 200), 1, 1};
        if (kind == ANY) {
            t->layer[l].bwd_weight_ns = random_below(seed, 10000);
            t->opt[l] = random_below(seed, 5000);
        }
    }
    for (uint32_t d = 0; d < devices; d++) {
        t->device[d] =
            (struct dp_device){1.0, has_limits ? 1500 + random_below(seed, 4000) : 0, d / per_slot, true};
        if (kind == ANY) {
            t->device[d].speed = 0.5 * (1 + random_below(seed, 4));
            t->device[d].slot = random_below(seed, 3) ? t->device[d].slot : (d ? t->device[d - 1].slot : 0);
            t->device[d].is_allowed = random_below(seed, 10) != 0;
        }
        if (t->device[d].slot >= t->in.n_slots)
            t->in.n_slots = t->device[d].slot + 1;
    }
    t->in.batch_slot = kind == ANY ? t->device[random_below(seed, devices)].slot : 0;
    if (kind == ANY && random_below(seed, 2)) {
        t->in.stage_message_bytes = 1000;
        t->in.link_latency_s = 1e-6;
        t->in.link_bytes_per_s = 1e9;
    }
    random_layout(t, seed);
}

/* --- brute force: every way to cut, by code that knows neither policies nor packing --- */

struct brute {
    const struct run *t;
    const struct dp_pack_rule *rule;
    uint64_t limit_ns, fastest_ns; /* limit 0: find the fastest only */
    bool is_found;
    uint32_t slots; /* of the best that meets the reference */
    uint64_t iteration_ns;
    double device_time; /* least one */
    struct dp_layout l;
};

static bool fits(struct brute *b, uint64_t *ns)
{
    struct dp_sim_stage_out stage[MAX_D];
    uint32_t s = 0;

    for (uint32_t d = 0; d < b->l.n_workers; d++)
        if (b->l.cut[d + 1] > b->l.cut[d] && (!b->t->device[d].is_allowed || b->l.gone[d]))
            return false;
    if (dp_predict_layout(&b->t->in, &b->l, stage, ns, NULL) < 0)
        fail_msg("the simulator refuses a layout");
    for (uint32_t d = 0; d < b->l.n_workers; d++)
        if (b->l.cut[d + 1] > b->l.cut[d] && b->t->device[d].mem_limit_bytes &&
            stage[s++].mem_bytes > b->t->device[d].mem_limit_bytes)
            return false;
    return true;
}

/* A layout with a set of slots to keep, which holds all that own layers. */
static void weigh_slots(struct brute *b, uint32_t set, uint64_t ns)
{
    uint32_t slots = 0, kept = 0;

    for (uint32_t s = 0; s < b->t->in.n_slots; s++)
        slots += set >> s & 1;
    for (uint32_t d = 0; d < b->l.n_workers; d++)
        kept += set >> b->t->device[d].slot & 1 && b->t->device[d].is_allowed && !b->l.gone[d];
    if (kept < b->rule->limits.min_devices)
        return;
    if (!b->is_found || (double)ns * kept < b->device_time)
        b->device_time = (double)ns * kept;
    if (!b->is_found || slots < b->slots || (slots == b->slots && ns < b->iteration_ns)) {
        b->slots = slots;
        b->iteration_ns = ns;
    }
    b->is_found = true;
}

static void weigh(struct brute *b)
{
    uint32_t used = 1u << b->t->in.batch_slot;
    uint64_t ns;

    if (!fits(b, &ns))
        return;
    if (!b->fastest_ns || ns < b->fastest_ns)
        b->fastest_ns = ns;
    if (!b->limit_ns || ns > b->limit_ns)
        return;
    for (uint32_t d = 0; d < b->l.n_workers; d++)
        if (b->l.cut[d + 1] > b->l.cut[d])
            used |= 1u << b->t->device[d].slot;
    for (uint32_t s = 0; s < b->t->in.n_slots; s++)
        used |= (uint32_t)b->t->stays[s] << s;
    for (uint32_t set = 0; set < 1u << b->t->in.n_slots; set++)
        if ((set & used) == used)
            weigh_slots(b, set, ns);
}

static void every_layout(struct brute *b, uint32_t device)
{
    if (device == b->l.n_workers) {
        weigh(b);
        return;
    }
    for (uint32_t cut = b->l.cut[device - 1]; cut <= b->l.n_layers; cut++) {
        b->l.cut[device] = cut;
        every_layout(b, device + 1);
    }
}

static void search(struct brute *b, const struct run *t, const struct dp_pack_rule *rule, uint64_t limit_ns)
{
    *b = (struct brute){.t = t, .rule = rule, .limit_ns = limit_ns, .l = t->current};
    b->l.cut[t->in.n_devices] = t->in.n_layers;
    every_layout(b, 1);
}

/* --- what is compared --- */

static struct dp_pack *new_pack(void)
{
    struct dp_pack *p = calloc(1, sizeof *p);

    assert_non_null(p);
    return p;
}

/* The slots that a pack keeps really hold its layout; the batch host's is one of them, and so are those that stay. */
static void check_plan(const struct run *t, const struct dp_pack *p)
{
    uint32_t n = 0;

    assert_int_equal(p->keep_slot[t->in.batch_slot], 1);
    for (uint32_t s = 0; s < t->in.n_slots; s++) {
        n += p->keep_slot[s];
        assert_true(p->keep_slot[s] || !t->stays[s]);
    }
    assert_int_equal(n, p->slots);
    for (uint32_t d = 0; d < t->in.n_devices; d++)
        if (!p->keep_slot[t->device[d].slot])
            assert_int_equal(p->best.layout.cut[d], p->best.layout.cut[d + 1]);
}

static struct dp_pack_rule random_rule(uint64_t *seed, const struct run *t)
{
    struct dp_pack_rule rule = {.limits = {.max_slowdown = random_below(seed, 60), .min_devices = 1}};

    if (random_below(seed, 4) == 0)
        rule.limits.min_devices = 1 + random_below(seed, t->in.n_devices);
    rule.limits.reference = (enum dp_reference)random_below(seed, 3);
    return rule;
}

/* Of a throughput all of which may be lost: a number of 20 digits of milliseconds is no help to anybody. */
static void what_is_allowed_is_said(void **state)
{
    char text[DP_PACK_ALLOWED];

    struct dp_pack_limits limits = {.reference = DP_REF_START, .max_slowdown = 100.0};

    (void)state;
    assert_string_equal(dp_pack_allowed(dp_pack_limit_ns(&limits, 50000000), text), "any time");
    limits.max_slowdown = 50.0; /* of the throughput */
    assert_string_equal(dp_pack_allowed(dp_pack_limit_ns(&limits, 50000000), text), "100.000 ms");
    limits.reference = DP_REF_FIXED; /* of the time */
    assert_string_equal(dp_pack_allowed(dp_pack_limit_ns(&limits, 50000000), text), "75.000 ms");
    limits.max_slowdown = 100.0;
    assert_string_equal(dp_pack_allowed(dp_pack_limit_ns(&limits, 50000000), text), "100.000 ms");
    assert_string_equal(dp_pack_allowed(UINT64_MAX - 1, text), "18446744073709.551 ms");
}

static uint64_t limit_of(const struct dp_pack_rule *rule, uint64_t fastest_ns)
{
    return dp_pack_limit_ns(&rule->limits, rule->limits.reference == DP_REF_BEST ? fastest_ns : rule->reference_ns);
}

static uint32_t n_none, n_missed,
    n_slots_freed; /* for people to see that the instances are worth something */

/* policy: answers with the layout of least predicted time. */
static void compare(const struct dp_policy *policy, struct run *t, uint64_t *seed, uint64_t instance)
{
    struct dp_pack_rule rule = random_rule(seed, t);
    uint64_t stay_seed = instance;
    struct dp_pack *p = new_pack();
    struct brute b;

    for (uint32_t s = 0; instance % 3 == 0 && s < t->in.n_slots; s++)
        t->stays[s] = random_below(&stay_seed, 3) == 0;
    rule.stays = instance % 3 == 0 ? t->stays : NULL;

    search(&b, t, &rule, 0);
    rule.reference_ns = b.fastest_ns * (50 + random_below(seed, 300)) / 100;
    if (dp_policy_in_check(&t->in, &t->err) < 0)
        fail_msg("instance %u: %s", (unsigned)instance, t->err.text);
    if (!b.fastest_ns) { /* nothing fits */
        assert_int_equal(dp_pack_choose(policy, NULL, &t->in, &rule, p, &t->err), -1);
        n_none++;
        free(p);
        return;
    }
    search(&b, t, &rule, limit_of(&rule, b.fastest_ns));
    if (dp_pack_choose(policy, NULL, &t->in, &rule, p, &t->err) < 0)
        fail_msg("instance %u: %s", (unsigned)instance, t->err.text);
    check_plan(t, p);
    assert_int_equal(p->limit_ns, b.limit_ns);
    assert_true(dp_pack_bound_ns(&t->in) <= b.fastest_ns);
    assert_true(!b.is_found || p->least_slots <= b.slots);
    if (!b.is_found) {
        assert_int_equal(p->best.iteration_ns, b.fastest_ns);
        n_missed++;
    } else if (p->slots != b.slots || p->best.iteration_ns != b.iteration_ns) {
        fail_msg("instance %u: %u slots at %u ns, brute force finds %u at %u ns", (unsigned)instance,
                 p->slots, (unsigned)p->best.iteration_ns, b.slots, (unsigned)b.iteration_ns);
    }
    n_slots_freed += t->in.n_slots - p->slots;
    if (b.is_found) {
        uint32_t kept = 0;

        rule.limits.objective = DP_OBJ_EFFICIENCY;
        assert_int_equal(dp_pack_choose(policy, NULL, &t->in, &rule, p, &t->err), 0);
        check_plan(t, p);
        assert_true(p->best.iteration_ns <= b.limit_ns);
        for (uint32_t d = 0; d < t->in.n_devices; d++)
            kept += p->keep_slot[t->device[d].slot] && t->device[d].is_allowed && !t->current.gone[d];
        if ((double)p->best.iteration_ns * kept != b.device_time)
            fail_msg("instance %u: %g device-ns, brute force finds %g", (unsigned)instance,
                     (double)p->best.iteration_ns * kept, b.device_time);
    }
    free(p);
}

static void equals_brute_force(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t seed = i * 77 + 5;
        uint32_t devices = 1 + random_below(&seed, 4);
        struct run t;

        init(&t, &seed, i % 4 ? ANY : ALIKE, 1 + random_below(&seed, 7), devices);
        for (uint32_t d = 1; i % 8 == 0 && d < devices; d++)
            t.device[d].mem_limit_bytes = t.device[0].mem_limit_bytes;
        compare(&dp_policy_iteration, &t, &seed, i);
    }
    printf("# 4000 instances: nothing fits in %u, nothing meets the reference in %u, %u slots freed\n",
           n_none, n_missed, n_slots_freed);
    assert_true(n_none > 20 && n_missed > 100 && n_slots_freed > 500);
}

/* More devices than those of which every set is tried: sets of whole slots are, and the policy leaves
 * devices empty where that is better. */
static void whole_slots_of_many_devices(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t seed = i * 131 + 9;
        struct run t;

        init(&t, &seed, i % 2 ? ANY : ALIKE, 2 + random_below(&seed, 3), 7);
        compare(&dp_policy_iteration, &t, &seed, i);
    }
}

/* --- more slots than those of which every set is asked about --- */

#define WIDE_S 10
#define WIDE_D 24
#define WIDE_L 32

struct wide {
    struct dp_layer_load layer[WIDE_L];
    struct dp_layout current;
    struct dp_device device[WIDE_D];
    struct dp_policy_in in;
    struct dp_err err;
};

static void init_wide(struct wide *t, uint64_t *seed)
{
    uint32_t kind = random_below(seed, 4), n = 0;

    memset(t, 0, sizeof *t);
    t->in = (struct dp_policy_in){.n_slots = 8 + random_below(seed, WIDE_S - 7), .layer = t->layer, .current = &t->current,
                                  .device = t->device, .microbatches = 4 + random_below(seed, 20), .steps_total = 100,
                                  .stage_message_bytes = random_below(seed, 2) * 100000, .link_latency_s = 1e-6,
                                  .link_bytes_per_s = 1e9};
    for (uint32_t s = 0; s < t->in.n_slots; s++) {
        uint32_t devices = kind == 1 ? 1 : 1 + random_below(seed, 3);
        struct dp_device d = {0.5 * (1 + random_below(seed, 4)), 0, s, true};

        if (kind == 2)
            d.mem_limit_bytes = 4000 + random_below(seed, 12000);
        else if (kind == 3) /* what is fast has little memory */
            d.mem_limit_bytes = d.speed > 1.0 ? 3000 + random_below(seed, 3000) : 20000;
        while (devices-- && n + t->in.n_slots - s - 1 < WIDE_D)
            t->device[n++] = d;
    }
    t->in.n_devices = n;
    t->in.n_layers = n + random_below(seed, WIDE_L - n + 1);
    t->in.batch_slot = random_below(seed, t->in.n_slots);
    for (uint32_t l = 0; l < t->in.n_layers; l++) {
        uint64_t ns = 100000 + random_below(seed, 900000);

        t->layer[l] = (struct dp_layer_load){ns, ns, ns, 100 + random_below(seed, 900), random_below(seed, 200), 1, 1};
    }
    t->current = (struct dp_layout){.n_workers = n, .n_layers = t->in.n_layers};
    for (uint32_t d = 1; d <= n; d++)
        t->current.cut[d] = t->in.n_layers * d / n;
}

/* The policy's prediction on each set of slots, 0: none. */
static void ask_all_sets(struct wide *t, uint64_t *ns)
{
    for (uint32_t set = 0; set < 1u << t->in.n_slots; set++) {
        struct dp_policy_out out;

        ns[set] = 0;
        if (!(set >> t->in.batch_slot & 1))
            continue;
        for (uint32_t d = 0; d < t->in.n_devices; d++)
            t->device[d].is_allowed = set >> t->device[d].slot & 1;
        if (dp_policy_run(&dp_policy_time, NULL, &t->in, &out, NULL) == 0) {
            ns[set] = out.iteration_ns;
            assert_true(dp_pack_bound_ns(&t->in) <= ns[set]);
        }
    }
    for (uint32_t d = 0; d < t->in.n_devices; d++)
        t->device[d].is_allowed = true;
}

static uint32_t devices_on(const struct wide *t, uint32_t set)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < t->in.n_devices; d++)
        n += set >> t->device[d].slot & 1;
    return n;
}

static double device_time_of(const struct wide *t, const struct dp_pack *p)
{
    uint32_t set = 0;

    for (uint32_t s = 0; s < t->in.n_slots; s++)
        set |= (uint32_t)p->keep_slot[s] << s;
    return (double)p->best.iteration_ns * devices_on(t, set);
}

/* Not all sets are asked about, and yet the best one is nearly always found. */
static void many_unequal_slots(void **state)
{
    (void)state;
    enum { RUNS = 120 };
    static uint64_t ns[1u << WIDE_S];
    uint32_t n = 0, more_slots = 0, slower = 0, less_efficient = 0, asked = 0;
    struct dp_pack *p = new_pack();

    for (uint64_t i = 0; i < RUNS; i++) {
        uint64_t seed = i * 257 + 3, fastest = 0, best_ns = 0;
        struct dp_pack_rule rule = {.limits = {.max_slowdown = 5.0, .min_devices = 1 + random_below(&seed, 3)}};
        uint32_t best_slots = UINT32_MAX;
        double best_time = 0.0;
        struct wide t;

        init_wide(&t, &seed);
        ask_all_sets(&t, ns);
        for (uint32_t set = 0; set < 1u << t.in.n_slots; set++)
            fastest = ns[set] && (!fastest || ns[set] < fastest) ? ns[set] : fastest;
        if (!fastest)
            continue;
        rule.reference_ns = fastest * (105 + random_below(&seed, 150)) / 100;
        for (uint32_t set = 0; set < 1u << t.in.n_slots; set++) {
            uint32_t slots = (uint32_t)__builtin_popcount(set), devices = devices_on(&t, set);
            double time = (double)ns[set] * devices;

            if (!ns[set] || ns[set] > dp_pack_limit_ns(&rule.limits, rule.reference_ns) || devices < rule.limits.min_devices)
                continue;
            best_time = best_time == 0.0 || time < best_time ? time : best_time;
            if (slots < best_slots || (slots == best_slots && ns[set] < best_ns)) {
                best_slots = slots;
                best_ns = ns[set];
            }
        }
        n++;
        assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &t.in, &rule, p, &t.err), 0);
        assert_true(p->best.iteration_ns <= p->limit_ns && p->least_slots >= 1 && p->least_slots <= best_slots);
        asked += p->n_options;
        more_slots += p->slots > best_slots;
        slower += p->slots == best_slots && p->best.iteration_ns > best_ns;
        rule.limits.objective = DP_OBJ_EFFICIENCY;
        assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &t.in, &rule, p, &t.err), 0);
        less_efficient += device_time_of(&t, p) > best_time * (1.0 + 1e-9);
    }
    printf("# 8 to %d unequal slots, all sets of them against %u asked about on average: of %u runs %u need more slots, %u "
           "are slower, %u less efficient\n", WIDE_S, asked / n, n, more_slots, slower, less_efficient);
    assert_true(n > RUNS * 3 / 4 && more_slots <= n / 100 && slower <= n / 50 && less_efficient <= n / 50);
    free(p);
}

/* Slots of two kinds, too many of them for all sets: as many of each kind is what counts. */
static void slots_of_two_kinds(void **state)
{
    (void)state;
    enum { S = 40 };
    struct dp_layer_load layer[S];
    struct dp_device device[S];
    struct dp_layout current = {.n_workers = S, .n_layers = S};
    struct dp_policy_in in = {.n_layers = S, .n_devices = S, .n_slots = S, .layer = layer, .current = &current,
                              .device = device, .microbatches = 80, .steps_total = 1};
    struct dp_pack_rule rule = {.reference_ns = 80 * 10 * 3000 * 11 / 10, .limits.min_devices = 1};
    struct dp_pack *p = new_pack();

    /* every fourth one is four times as fast; ten layers in each stage are about what is allowed */
    for (uint32_t i = 0; i < S; i++) {
        layer[i] = (struct dp_layer_load){1000, 1000, 1000, 1, 1, 1, 1};
        device[i] = (struct dp_device){i % 4 == 3 ? 4.0 : 1.0, 0, i, true};
        current.cut[i + 1] = i + 1;
    }
    assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &in, &rule, p, NULL), 0);
    assert_int_equal(p->slots, p->least_slots);
    assert_int_equal(p->slots, 2); /* the batch host, and one of the fast ones with nearly all layers */
    assert_int_equal(p->keep_slot[0], 1);
    free(p);
}

/* A policy that only balances may need more than brute force, never less, and what it says is true. */
static void other_policies_are_never_better(void **state)
{
    (void)state;
    static const struct dp_policy *const policy[] = {&dp_policy_time, &dp_policy_param, &dp_policy_uniform};
    uint32_t same = 0, all = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        const struct dp_policy *asked = policy[i % 3];
        uint64_t seed = i * 191 + 3;
        struct dp_pack_rule rule = {.limits = {.max_slowdown = 10.0, .min_devices = 1}};
        struct dp_pack *p = new_pack();
        struct brute b;
        struct run t;

        init(&t, &seed, ANY, 1 + random_below(&seed, 7), 1 + random_below(&seed, 4));
        search(&b, &t, &rule, 0);
        rule.reference_ns = b.fastest_ns * (100 + random_below(&seed, 200)) / 100;
        search(&b, &t, &rule, dp_pack_limit_ns(&rule.limits, rule.reference_ns));
        if (b.fastest_ns && dp_pack_choose(asked, NULL, &t.in, &rule, p, &t.err) == 0) {
            check_plan(&t, p);
            assert_true(p->best.iteration_ns >= b.fastest_ns);
            if (p->best.iteration_ns <= b.limit_ns)
                assert_true(p->slots >= b.slots);
            if (asked == &dp_policy_time) {
                all++;
                same += p->best.iteration_ns <= b.limit_ns && p->slots == b.slots;
            }
        }
        free(p);
    }
    printf("# policy time, which balances only, needs no more slots than brute force in %u of %u instances\n",
           same, all);
    assert_true(all > 500 && same * 10 > all * 8);
}

/* Beyond the number of layouts that it simulates all of, policy iteration starts from time's. */
static void climbing_never_makes_it_slower(void **state)
{
    (void)state;
    enum { D = 12, L = 40 };
    struct dp_layer_load layer[L];
    struct dp_layout current = {.n_workers = D, .n_layers = L};
    struct dp_device device[D];
    struct dp_policy_in in = {.n_layers = L,
                              .n_devices = D,
                              .n_slots = D,
                              .layer = layer,
                              .current = &current,
                              .device = device,
                              .link_latency_s = 1e-5,
                              .link_bytes_per_s = 1e9};
    struct dp_policy_out a, b;
    struct dp_err err;
    uint32_t faster = 0;

    for (uint64_t i = 0; i < 100; i++) {
        uint64_t seed = i * 41 + 1;

        in.microbatches = 1 + random_below(&seed, 30);
        in.stage_message_bytes = random_below(&seed, 100000);
        for (uint32_t l = 0; l < L; l++)
            layer[l] = (struct dp_layer_load){random_below(&seed, 100000),
                                              random_below(&seed, 100000),
                                              random_below(&seed, 100000),
                                              100,
                                              10,
                                              1,
                                              1};
        for (uint32_t d = 0; d < D; d++) {
            device[d] = (struct dp_device){0.5 * (1 + random_below(&seed, 4)), 0, d, true};
            current.cut[d + 1] = L * (d + 1) / D;
        }
        if (dp_policy_run(&dp_policy_time, NULL, &in, &a, &err) < 0 ||
            dp_policy_run(&dp_policy_iteration, NULL, &in, &b, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(b.iteration_ns <= a.iteration_ns);
        faster += b.iteration_ns < a.iteration_ns;
    }
    printf("# 12 unequal devices, 40 layers, links: policy iteration is faster than time in %u of 100\n",
           faster);
    assert_true(faster > 30);
}

/* --- DynMo's first-fit --- */

static void first_fit_as_published(void **state)
{
    (void)state;
    struct dp_layer_load layer[8];
    struct dp_layout current = {.n_workers = 4, .n_layers = 8, .cut = {0, 2, 4, 6, 8}};
    struct dp_device device[4];
    struct dp_policy_in in = {.n_layers = 8,
                              .n_devices = 4,
                              .n_slots = 4,
                              .layer = layer,
                              .current = &current,
                              .device = device,
                              .microbatches = 4};
    struct dp_first_fit *f = calloc(1, sizeof *f);
    char text[128];

    for (uint32_t l = 0; l < 8; l++)
        layer[l] = (struct dp_layer_load){1000, 1000, 1000, 100, 0, 1, 1};
    for (uint32_t d = 0; d < 4; d++)
        device[d] = (struct dp_device){1.0, 1000, d, true};
    /* 0 -> 1 -> 2 -> 3: two of three merges carry layers that have moved before */
    assert_int_equal(dp_first_fit_pack(&in, 1, f, NULL), 0);
    assert_true(f->is_reached && f->is_contiguous && f->is_possible);
    dp_layout_format(&f->out.layout, text, sizeof text);
    assert_string_equal(text, "-|-|-|0-7");
    assert_int_equal(f->sent_bytes, 200 + 400 + 600);
    assert_int_equal(f->moved_bytes, 600);
    assert_int_equal(f->out.iteration_ns, 4 * 8 * 3000);
    assert_int_equal(dp_first_fit_pack(&in, 3, f, NULL), 0);
    dp_layout_format(&f->out.layout, text, sizeof text);
    assert_string_equal(text, "-|0-3|4-5|6-7");
    /* the test is "less than the limit" */
    for (uint32_t d = 0; d < 4; d++)
        device[d].mem_limit_bytes = 400;
    assert_int_equal(dp_first_fit_pack(&in, 2, f, NULL), 0);
    assert_false(f->is_reached);
    assert_string_equal(f->reason, "first-fit: cannot pack onto 2 devices, 4 are left of 4");
    /* a full device in between: its stage is jumped over, and the order of the layers is lost */
    for (uint32_t d = 0; d < 4; d++)
        device[d].mem_limit_bytes = 401;
    layer[2].state_bytes = 201;
    layer[3].state_bytes = 200;
    assert_int_equal(dp_first_fit_pack(&in, 3, f, NULL), 0);
    assert_true(f->is_reached && !f->is_contiguous && !f->is_possible);
    assert_int_equal(f->owner[0], 2);
    assert_string_equal(f->reason, "first-fit: on 3 devices the layers would not be in order");
    free(f);
}

/* Slots of the devices that own layers, and the batch host's. */
static uint32_t slots_of(const struct run *t, const struct dp_first_fit *f)
{
    uint8_t is_kept[MAX_D] = {0};
    uint32_t n = 0;

    is_kept[t->in.batch_slot] = 1;
    for (uint32_t l = 0; l < t->in.n_layers; l++)
        is_kept[t->device[f->owner[l]].slot] = 1;
    for (uint32_t s = 0; s < t->in.n_slots; s++)
        n += is_kept[s];
    return n;
}

static uint32_t fewest_slots(const struct run *t, const struct dp_pack_rule *rule, struct dp_pack *p)
{
    return dp_pack_choose(&dp_policy_iteration, NULL, &t->in, rule, p, NULL) < 0 ? UINT32_MAX : p->slots;
}

static bool meets_with(struct run *t, const struct dp_pack *p, const struct dp_pack_later *later)
{
    struct dp_device device[DP_MAX_WORKERS];
    struct dp_policy_in in = t->in;
    struct dp_policy_out *out = malloc(sizeof *out);
    bool meets;

    assert_non_null(out);
    memcpy(device, t->device, t->in.n_devices * sizeof device[0]);
    for (uint32_t d = 0; d < t->in.n_devices; d++)
        device[d].is_allowed &= p->keep_slot[device[d].slot] && !t->current.gone[d];
    in.device = device;
    in.layer = later->layer;
    in.layer_opt_ns = later->layer_opt_ns;
    meets = dp_policy_run(&dp_policy_time, NULL, &in, out, &t->err) == 0 && out->iteration_ns <= later->limit_ns;
    free(out);
    return meets;
}

static uint32_t slots_allowed(const struct run *t)
{
    uint8_t has[DP_MAX_WORKERS] = {0};
    uint32_t n = 0;

    has[t->in.batch_slot] = 1;
    for (uint32_t d = 0; d < t->in.n_devices; d++)
        has[t->device[d].slot] |= t->device[d].is_allowed && !t->current.gone[d];
    for (uint32_t s = 0; s < t->in.n_slots; s++)
        n += has[s];
    return n;
}

/* What is given up is not missed later: the slots that stay meet the reference with the later loads, or all stay.
 * Without later loads it is the plain choice. */
static void what_is_given_up_is_not_missed_later(void **state)
{
    (void)state;
    uint32_t n_kept = 0, n_less = 0;

    for (uint64_t i = 0; i < 1500; i++) {
        uint64_t seed = i * 97 + 5, ns;
        struct dp_pack_rule rule = {.limits = {.reference = DP_REF_FIXED, .max_slowdown = random_below(&seed, 80), .min_devices = 1,
                                               .objective = DP_OBJ_EFFICIENCY}};
        struct dp_pack *plain = new_pack(), *lasting = new_pack();
        struct dp_layer_load layer[DP_MAX_LAYERS];
        struct dp_pack_later later = {.layer = layer};
        struct run t;

        init(&t, &seed, ANY, 3 + random_below(&seed, 6), 2 + random_below(&seed, 4));
        assert_int_equal(dp_predict_layout(&t.in, &t.current, NULL, &rule.reference_ns, NULL), 0);
        for (uint32_t l = 0; l < t.in.n_layers; l++) { /* some stay as they are, others become cheap */
            uint64_t less = random_below(&seed, 2) ? 1 : 30;

            layer[l] = t.in.layer[l];
            layer[l].fwd_ns /= less;
            layer[l].bwd_input_ns /= less;
            layer[l].bwd_weight_ns /= less;
        }
        later.layer_opt_ns = t.in.layer_opt_ns;
        t.in.layer = layer;
        assert_int_equal(dp_predict_layout(&t.in, &t.current, NULL, &ns, NULL), 0);
        t.in.layer = t.layer;
        later.limit_ns = dp_pack_limit_ns(&rule.limits, ns);
        if (dp_pack_choose(&dp_policy_time, NULL, &t.in, &rule, plain, &t.err) == 0) {
            assert_int_equal(dp_pack_choose_lasting(&dp_policy_time, NULL, &t.in, &rule, NULL, 0, lasting, &t.err), 0);
            assert_int_equal(lasting->slots, plain->slots);
            assert_int_equal(lasting->best.iteration_ns, plain->best.iteration_ns);
            assert_int_equal(dp_pack_choose_lasting(&dp_policy_time, NULL, &t.in, &rule, &later, 1, lasting, &t.err), 0);
            assert_true(lasting->slots == slots_allowed(&t) || meets_with(&t, lasting, &later));
            for (uint32_t d = 0; d < t.in.n_devices; d++)
                if (lasting->best.layout.cut[d + 1] > lasting->best.layout.cut[d])
                    assert_true(lasting->keep_slot[t.device[d].slot]);
            n_kept += lasting->slots > plain->slots;
            n_less += lasting->slots < slots_allowed(&t);
        }
        free(plain);
        free(lasting);
    }
    printf("# packed for good in %u runs, less than now in %u\n", n_less, n_kept);
    assert_true(n_kept > 10 && n_less > 100);
}

/* Onto as few devices as first-fit reaches in any way that can be carried out, we always come, too: memory
 * only, no limit of time. Whole slots, of which first-fit knows nothing, are what is counted. */
static void never_worse_than_first_fit(void **state)
{
    (void)state;
    uint32_t possible = 0, out_of_order = 0, does_not_fit = 0, better = 0, batch_left = 0, unreal = 0;
    uint64_t sent = 0, moved = 0;
    struct dp_first_fit *f = calloc(1, sizeof *f);

    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i * 211 + 17, start_ns;
        struct dp_pack_rule rule = {.limits = {.max_slowdown = 100.0, .min_devices = 1}};
        struct dp_pack *p = new_pack();
        struct run t;

        init(&t, &seed, ANY, 4 + random_below(&seed, 4), 2 + random_below(&seed, 3));
        assert_int_equal(dp_predict_layout(&t.in, &t.current, NULL, &start_ns, NULL), 0);
        rule.reference_ns = start_ns;
        for (uint32_t target = 1; target < t.in.n_devices; target++) {
            uint32_t slots;
            bool is_batch_used = false;

            assert_int_equal(dp_first_fit_pack(&t.in, target, f, NULL), 0);
            if (!f->is_reached)
                continue;
            out_of_order += !f->is_contiguous;
            if (!f->is_contiguous) /* merges that no network of layers in order can run, and yet rarely fewer
                                      slots */
                unreal += slots_of(&t, f) < fewest_slots(&t, &rule, p);
            does_not_fit += f->is_contiguous && !f->is_possible;
            if (!f->is_possible)
                continue;
            possible++;
            sent += f->sent_bytes;
            moved += f->moved_bytes;
            for (uint32_t l = 0; l < t.in.n_layers; l++)
                is_batch_used |= t.device[f->owner[l]].slot == t.in.batch_slot;
            batch_left += !is_batch_used;
            slots = slots_of(&t, f);
            assert_int_equal(dp_pack_choose(&dp_policy_iteration, NULL, &t.in, &rule, p, &t.err), 0);
            assert_true(p->slots <= slots);
            if (p->slots == slots) /* then we are as fast at least */
                assert_true(p->best.iteration_ns <= f->out.iteration_ns);
            assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &t.in, &rule, p, &t.err), 0);
            assert_true(p->slots <= slots);
            better += p->slots < slots;
        }
        free(p);
    }
    printf("# first-fit reached its target: %u can be carried out (we need fewer slots in %u, it empties the "
           "batch host in %u, "
           "sends %.2f times what moves); layers out of order in %u (in %u on fewer slots than any layout in "
           "order), "
           "memory does not fit in %u\n",
           possible, better, batch_left, (double)sent / (double)moved, out_of_order, unreal, does_not_fit);
    assert_true(possible > 1000 && better > 100 && out_of_order > 20);
    free(f);
}

/* In a run: chosen by the rule; where it cannot be carried out, the policy's layout on all devices. */
static void first_fit_as_a_rule(void **state)
{
    (void)state;
    struct dp_pack_rule rule = {.limits = {.min_devices = 2, .packing = DP_PACKING_FIRST_FIT}, .reference_ns = 1};
    struct dp_pack *p = new_pack();
    uint64_t seed = 1;
    struct run t;

    init(&t, &seed, ALIKE, 8, 4);
    for (uint32_t d = 0; d < 4; d++)
        t.device[d] = (struct dp_device){1.0, 0, d, true};
    t.in.n_slots = 4;
    memset(t.current.gone, 0, sizeof t.current.gone);
    for (uint32_t d = 0; d < 5; d++)
        t.current.cut[d] = 2 * d;
    assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &t.in, &rule, p, &t.err), 0);
    assert_int_equal(p->slots, 3); /* two devices, and the batch host, which it emptied */
    assert_int_equal(p->best.layout.cut[2], 0);
    assert_non_null(strstr(p->reason, "first-fit: 2 devices"));
    check_plan(&t, p);
    for (uint32_t d = 0; d < 4; d++)
        t.device[d].mem_limit_bytes = 4000; /* two layers' state at most, in the middle of 1F1B */
    for (uint32_t l = 0; l < 8; l++)
        t.layer[l].state_bytes = 1500;
    assert_int_equal(dp_pack_choose(&dp_policy_time, NULL, &t.in, &rule, p, &t.err), 0);
    assert_int_equal(p->slots, 4);
    assert_non_null(strstr(p->reason, "first-fit: cannot pack onto 2 devices"));
    check_plan(&t, p);
    free(p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(equals_brute_force),
    cmocka_unit_test(whole_slots_of_many_devices),
    cmocka_unit_test(many_unequal_slots),
    cmocka_unit_test(slots_of_two_kinds),
    cmocka_unit_test(other_policies_are_never_better),
    cmocka_unit_test(climbing_never_makes_it_slower),
    cmocka_unit_test(first_fit_as_published),
    cmocka_unit_test(never_worse_than_first_fit),
    cmocka_unit_test(what_is_given_up_is_not_missed_later),
    cmocka_unit_test(what_is_allowed_is_said),
    cmocka_unit_test(first_fit_as_a_rule),
};
TEST_MAIN("pack", tests)
