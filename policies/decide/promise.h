/* SPDX-License-Identifier: BSD-3-Clause */
/* Was a promise kept? The measured time of a step against the one that was expected of a layout and the one
 * that the reference allows. Wall time throughout. Numbers in, verdict with all its numbers out. */
#ifndef DP_POLICIES_DECIDE_PROMISE_H
#define DP_POLICIES_DECIDE_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

#define DP_PROMISE_WINDOW 8        /* measurements that a verdict rests on */
#define DP_PROMISE_TOLERANCE 0.10  /* of a time: what a prediction may be off */
#define DP_PROMISE_NOISE_MAX 0.50  /* more than this is no noise, whatever the measurements scatter */
#define DP_CONTENTION_MAX 64.0 /* where next to all was lost; more processes that compute hardly share a core */
#define DP_CONTENTION_LEAST 1.15   /* closer to 1 is no sharing, but interrupts and the clock */

struct dp_measured {
    uint64_t ns;  /* median */
    double noise; /* three standard errors of the median over it, 0..DP_PROMISE_NOISE_MAX */
    uint32_t n;   /* measurements; 0: nothing is known */
};

/* ns: [n] times of steps, each a median of its own; they stay as they are. At most 256 of them count. */
void dp_measured_of(const uint64_t *ns, uint32_t n, struct dp_measured *out);

enum dp_promise_verdict { DP_PROMISE_OPEN = 0, DP_PROMISE_KEPT = 1, DP_PROMISE_MISSED = 2 };

struct dp_promise_in {
    struct dp_measured now;
    uint64_t expected_ns; /* of the layout; 0: nobody knew */
    uint64_t allowed_ns;  /* by the reference; 0: there is none */
};

struct dp_promise_out {
    enum dp_promise_verdict verdict; /* open: too few measurements */
    bool is_unexpected;              /* longer than expected */
    bool is_too_slow;                /* longer than the reference allows */
    char text[200];                  /* "a step takes 49.0 ms, 25.2 ms were expected, 26.3 ms are allowed" */
};

/* Open until DP_PROMISE_WINDOW measurements are there. Then missed, where the time is longer than what was expected,
 * or than what is allowed, by more than DP_PROMISE_TOLERANCE and the noise of the measurements; else kept. Times of 0
 * are nobody's promise. */
void dp_promise_judge(const struct dp_promise_in *in, struct dp_promise_out *out);

/* Are two times the same but for tolerance and noise? */
bool dp_promise_explains(const struct dp_measured *now, uint64_t predicted_ns);
const char *dp_promise_name(enum dp_promise_verdict verdict);

/* How many times as long as its device time a worker's own work takes: step less waiting, over that less what
 * others had its core for. 1..DP_CONTENTION_MAX; 1 where that cannot be told. */
double dp_contention(uint64_t step_ns, uint64_t wait_ns, uint64_t lost_ns);

#endif
