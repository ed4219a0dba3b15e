/* SPDX-License-Identifier: BSD-3-Clause */
/* Schemes: what makes layers cheaper, or dearer, while a model trains, as a change of a case's cost table. A scheme is a file
 * of this folder and a line in list.h.
 *
 * A rule is a pure function of its values, of the model's blocks and of the iteration. It gets the costs that the case
 * has at that iteration without it, and says what they are with it. Costs are those of a mean microbatch: what differs
 * from one microbatch to the next is in no layout's reach, and is not simulated.
 *
 * Blocks are the layers that repeat: all but those at either end whose kind there is only once (embedding, head). Where the
 * case has no kinds (a recorded run, a graph), or every layer is of its own kind, all but the first and the last.
 */
#ifndef DP_POLICIES_SIM_SCHEME_SCHEME_H
#define DP_POLICIES_SIM_SCHEME_SCHEME_H

#include "policies/sim/case/case.h"
#include "policies/sim/scheme/list.h"

#define DP_SIM_SCHEME_KEYS 8u      /* of one scheme */
#define DP_SIM_SCHEME_CHANGES 64u  /* of costs in a run: each is simulated, on every number of devices for --advise */

/* A value that a scheme takes. */
struct dp_sim_scheme_key {
    const char *name, *help;
    double low, high, fallback;
    bool is_whole;       /* a number without a fraction */
    const char *choices; /* words between blanks, of which the value is the index; NULL: it is a number */
};

/* What a rule is asked about; borrowed for the call. */
struct dp_sim_scheme_in {
    const double *value;           /* [keys of the rule] within their bounds */
    uint32_t n_layers, first, end; /* blocks are layers first .. end - 1: at least one */
    uint64_t iterations;           /* of the run */
};

struct dp_sim_scheme_rule {
    const char *source;                  /* of its costs, for people */
    const struct dp_sim_scheme_key *key; /* the one behind the last has no name; at most DP_SIM_SCHEME_KEYS */
    /* Optional: values that do not fit together, or not to the run. returns 0 or -1. */
    int (*check)(const struct dp_sim_scheme_in *in, struct dp_err *err);
    /* Optional: the iterations, from 2 on and rising, before which costs change; NULL: never. at: [DP_SIM_SCHEME_CHANGES] =
     * returns: how many. */
    uint32_t (*changes)(const struct dp_sim_scheme_in *in, uint64_t *at);
    /* layer: [n_layers] costs at an iteration, in: without the scheme, out: with it. */
    void (*apply)(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer);
};

#define DP_SIM_SCHEME_DECLARE(id, name, help) extern const struct dp_sim_scheme_rule dp_sim_scheme_##id;
DP_SIM_SCHEMES(DP_SIM_SCHEME_DECLARE)

struct dp_sim_scheme {
    const char *name, *help;
    const struct dp_sim_scheme_rule *rule;
};

/* The i-th scheme of the list, NULL after the last. */
const struct dp_sim_scheme *dp_sim_scheme_at(size_t i);

/* A scheme with its values. */
struct dp_sim_scheme_choice {
    const struct dp_sim_scheme *scheme;
    double value[DP_SIM_SCHEME_KEYS];
};

/* "NAME" or "NAME,KEY=VALUE,...": keys that are not given have their defaults. returns 0, or -1: a name that is unknown, with
 * those that there are, a value out of bounds, or a key that is given twice. */
int dp_sim_scheme_parse(const char *text, struct dp_sim_scheme_choice *out, struct dp_err *err);

/* The values as parse() takes them, every key of them: "freeze,schedule=linear,..." */
void dp_sim_scheme_format(const struct dp_sim_scheme_choice *choice, char *out, size_t cap);

/* Layers first .. end - 1 are the case's blocks: at least one. */
void dp_sim_scheme_blocks(const struct dp_sim_case *c, uint32_t *first, uint32_t *end);

/* Put a scheme into a case: its costs stand in events from iteration 1 on, at each change of the scheme's, and in those of the
 * case's that change costs. What was measured of the run counts no more. Its source is added to the case's.
 * c: passes dp_sim_case_check(), one device a stage. returns 0 or -1. */
int dp_sim_scheme_use(const struct dp_sim_scheme_choice *choice, struct dp_sim_case *c, struct dp_err *err);

/* For rules: the times of a layer, forward and both backward, times a factor >= 0. */
void dp_sim_scheme_scale_times(struct dp_sim_layer *layer, double factor);
/* A number of bytes times a factor >= 0. */
uint64_t dp_sim_scheme_scale(uint64_t bytes, double factor);
/* The iteration, from 2 on, before which a share of the run is over; 0: none of the run. */
uint64_t dp_sim_scheme_iteration(const struct dp_sim_scheme_in *in, double share);

#endif
