/* SPDX-License-Identifier: BSD-3-Clause */
/* Snapshots of any numbers: what passes dp_policy_in_check() gets from every policy a layout that stands
 * the check, or an error that says why not. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "policies/list.h"
#include "policies/policy.h"
#include "policies/predict/answer.h"

const char fuzz_name[] = "fuzz_balance";

enum { MAX_LAYERS = 24, MAX_DEVICES = 8 };

struct snapshot {
    struct dp_layer_load layer[MAX_LAYERS];
    uint64_t opt[MAX_LAYERS];
    struct dp_device device[MAX_DEVICES];
    struct dp_layout layout;
    struct dp_policy_in in;
};

/* The input, byte by byte; zeros after its end. */
struct bytes {
    const uint8_t *at, *end;
};

static uint64_t take(struct bytes *b, size_t n)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n && b->at < b->end; i++)
        v = v << 8 | *b->at++;
    return v;
}

static double take_double(struct bytes *b)
{
    uint64_t bits = take(b, 8);
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

/* A count takes one byte, a quantity its length and so many bytes. */
static uint64_t take_number(struct bytes *b)
{
    return take(b, take(b, 1) % 9);
}

static void fill(struct snapshot *t, struct bytes *b)
{
    uint8_t flags = (uint8_t)take(b, 1);

    t->in = (struct dp_policy_in){.n_layers = (uint32_t)take(b, 1) % (MAX_LAYERS + 1),
                                  .n_devices = (uint32_t)take(b, 1) % (MAX_DEVICES + 1), .n_slots = MAX_DEVICES,
                                  .layer = t->layer, .layer_opt_ns = flags & 1 ? t->opt : NULL,
                                  .current = &t->layout, .device = t->device,
                                  .schedule = flags & 2 ? DP_SCHED_GPIPE : DP_SCHED_1F1B,
                                  .microbatches = (uint32_t)take(b, 1) % 17, .stage_message_bytes = take_number(b),
                                  .link_latency_s = flags & 4 ? take_double(b) : 0.0,
                                  .link_bytes_per_s = flags & 8 ? take_double(b) : 1e9};
    t->layout.n_workers = t->in.n_devices;
    t->layout.n_layers = t->in.n_layers;
    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        uint8_t kind = (uint8_t)take(b, 1);

        t->device[d] = (struct dp_device){kind & 1 ? take_double(b) : 1.0, kind & 2 ? take_number(b) : 0, d % MAX_DEVICES,
                                          !(kind & 4)};
        t->layout.gone[d] = (kind & 24) == 24;
        t->layout.cut[d + 1] = (uint32_t)take(b, 1);
    }
    t->layout.cut[t->in.n_devices] = t->in.n_layers;
    for (uint32_t l = 0; l < t->in.n_layers; l++) {
        t->layer[l] = (struct dp_layer_load){take_number(b), take_number(b), take_number(b), take_number(b),
                                             take_number(b), take_number(b), take_number(b)};
        t->opt[l] = flags & 1 ? take_number(b) : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct bytes b = {data, data + bytes};
    struct snapshot t = {0};

    fill(&t, &b);
    if (dp_policy_in_check(&t.in, NULL) < 0)
        return 0;
    for (size_t i = 0; dp_policy_at(i); i++) {
        struct dp_policy_out out;
        struct dp_err err = {0};

        if (dp_policy_run(dp_policy_at(i), NULL, &t.in, &out, &err) == 0) {
            if (!*out.reason)
                fuzz_die("a layout without a reason");
        } else if (!*err.text) {
            fuzz_die("an error without a text");
        } else if (dp_policy_is_broken(&err)) {
            fuzz_die(err.text);
        }
    }
    return 0;
}

/* 12 layers of two-byte numbers on 4 devices. */
static void seed(uint8_t flags, uint8_t kind)
{
    uint8_t data[2048] = {flags, 12, 4, 8, 2, 1, 0}, *p = data + 7;

    for (uint8_t d = 0; d < 4; d++) {
        *p++ = kind;
        if (kind & 1) {
            double speed = 0.5 + d;
            uint64_t bits;

            memcpy(&bits, &speed, sizeof bits);
            for (int i = 56; i >= 0; i -= 8)
                *p++ = (uint8_t)(bits >> i);
        }
        if (kind & 2) {
            memcpy(p, ((uint8_t[]){3, 2, 0, 0}), 4);
            p += 4;
        }
        *p++ = (uint8_t)(3 * (d + 1));
    }
    for (uint8_t l = 0; l < 12; l++)
        for (uint8_t k = 0; k < (flags & 1 ? 8 : 7); k++) {
            *p++ = 2;
            *p++ = (uint8_t)(17 * l + 5 * k);
            *p++ = (uint8_t)(91 * l + k);
        }
    fuzz_seed(data, (size_t)(p - data));
}

void fuzz_make_seeds(void)
{
    seed(0, 0);
    seed(1, 1);
    seed(3, 2);
    seed(2, 3);
}
