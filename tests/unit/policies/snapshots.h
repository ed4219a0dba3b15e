/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs to ask policies about: pruned models, and models and devices of every shape. */
#ifndef DP_TESTS_SNAPSHOTS_H
#define DP_TESTS_SNAPSHOTS_H

#include "policies/policy.h"
#include "policies/solve/chain.h"
#include "tests/unit/random.h"

#define MAX_N 56
#define MAX_P 16

struct snapshot {
    struct dp_layer_load layer[MAX_N];
    uint64_t opt[MAX_N];
    struct dp_layout layout;
    struct dp_device device[MAX_P];
    struct dp_policy_in in;
};

/* A pruned model on equal devices, cut evenly: blocks between full and a tenth of the work. */
static inline void make(struct snapshot *t, uint64_t *seed)
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
                                  .microbatches = 16, .stage_message_bytes = 1000000, .link_latency_s = 1e-5,
                                  .link_bytes_per_s = 1e9, .steps_total = 1000};
}

enum { SHAPES = 9, OF_SHAPE = 100 };

static inline uint64_t shaped(uint64_t *seed, uint32_t shape, uint32_t i, uint32_t n, uint32_t big)
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
static inline void make_shape(struct snapshot *t, uint64_t *seed, uint32_t shape, bool is_unequal, bool has_limits)
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

#endif
