/* SPDX-License-Identifier: BSD-3-Clause */
/* A scheme: what makes layers cheaper while they train. Each is a file of this folder and a line of list.h; what runs them (the
 * exchange that ends a step, the boundary after it, HELLO, the pipeline) knows none by name.
 *
 * The law: what is computed may depend on the configuration, the seed, the step, the microbatch, the row and the layer's own
 * state, never on time, on ranks or on where the cuts lie. So losses are the same bits in every layout.
 *
 * The order of things: each step, after the backwards, every worker may send a number of each of its layers (measure) with
 * what it sends anyway; the leader decides from all of them, in layer order (decide); its order reaches all; every worker takes
 * note of the step in its layers (observe) and steps the optimizer; at the boundary all apply what was ordered.
 *
 * A scheme has no state of its own. What it must remember is in the layers it looks at (dp_layer_notes), so it goes where they
 * go, into checkpoints, to other workers and to another leader, and nobody has to carry it.
 */
#ifndef DP_WORKER_SCHEME_SCHEME_H
#define DP_WORKER_SCHEME_SCHEME_H

#include "common/run/change.h"
#include "worker/model/stage.h"
#include "worker/scheme/list.h"

/* What the schemes of a run have done so far; the same on all workers. */
struct dp_reached {
    double sparsity; /* of all prunable weights of the model */
    uint32_t frozen; /* the first so many layers of the model only go forward */
};

/* What the leader knows when it decides. */
struct dp_scheme_in {
    uint64_t step; /* completed */
    uint32_t n_layers;
    struct dp_reached reached;
    const double *measured; /* [n_layers] what measure() gave; NULL where the scheme does not measure at this step */
};

/* What one scheme is to do at a boundary: part of the leader's order. */
struct dp_scheme_order {
    uint64_t is_due; /* 0 or 1 */
    double target;   /* to be reached: pruning, the sparsity; freezing, the number of frozen layers */
};

/* Sum `n` counters over all workers of the run, in place; every worker gets the same sums. */
typedef int dp_allreduce_fn(void *arg, uint64_t *counts, uint32_t n, struct dp_err *err);
/* Gather one counter per layer of the model: each worker fills its own layers' entries, the others are
 * 0 on entry; afterwards all have all. Same as dp_allreduce_fn over n_layers counters. */

/* Told what pruning leaves of a param of the stage, before the rest is taken: [device] a bit for each of its n blocks, as
 * dp_param_keep_chosen() has them; borrowed for the call. */
typedef int dp_chosen_fn(void *arg, const struct dp_layer *layer, const struct dp_param *param, const uint64_t *bits, int64_t n,
                         struct dp_err *err);

/* Whole copies of other workers' layers (worker/copies/): they are changed as these are there, and count in no sum. Where one could not be
 * changed (no memory) its entry becomes NULL: whoever has the layer drops it. */
struct dp_scheme_copies {
    uint32_t n;
    struct dp_layer **layer;
    dp_chosen_fn *chosen; /* for copies elsewhere (worker/shadow/). NULL: nobody asks */
    void *arg;
};

/* Where a scheme is applied: the layers of one worker, and how it reaches the others. All borrowed. */
struct dp_scheme_site {
    const struct dp_train_config *config;
    struct dp_stage *stage;
    struct dp_scheme_copies copies;
    dp_allreduce_fn *sum; /* NULL: this stage is the whole model */
    void *arg;
    struct dp_reached *reached;
};

/* Only what is said to be optional may be NULL. */
struct dp_scheme {
    const char *name;
    /* Is it on in this configuration? All but check() is asked of schemes that are. */
    bool (*is_on)(const struct dp_train_config *config);
    /* What no single key can tell, on or not. returns 0, or -1 and DP_EINVAL with the key. Optional. */
    int (*check)(const struct dp_train_config *config, struct dp_err *err);
    /* What is known to come, in the order of steps: all of it, or an even choice with the first and the last. returns how many, at
     * most `most` > 1. Optional: nothing is known. */
    uint32_t (*plan)(const struct dp_train_config *config, uint32_t most, struct dp_change *out);
    /* A run begins, or goes on, after `step` steps, with the layers in site->stage and what was reached in site->reached: do what
     * is due before the first step. Collective. Optional. */
    int (*begin)(const struct dp_scheme_site *site, uint64_t step, struct dp_err *err);
    /* Does the leader want a number of each layer when it decides after `step` steps? Pure. Optional, with measure: never. */
    bool (*measures)(const struct dp_train_config *config, uint64_t step);
    /* out: [dp_stage_n_layers()]; squares: of the layers' gradients in this step, dp_stage_grad_squares(). */
    int (*measure)(struct dp_stage *stage, const struct dp_train_config *config, uint64_t step, const double *squares,
                   double *out, struct dp_err *err);
    /* The leader, each step: what is to be done at the boundary after it. out: zeros on entry. Pure. Optional. */
    void (*decide)(const struct dp_train_config *config, const struct dp_scheme_in *in, struct dp_scheme_order *out);
    /* Every worker, each step, before the optimizer's: squares as above, of which the optimizer takes grad_scale squared. step:
     * completed with this one. Optional. */
    void (*observe)(struct dp_layer *layer, const struct dp_train_config *config, uint64_t step, double squares, double grad_scale);
    /* All workers at the same boundary, before a hand-over: all that changes is in the layers afterwards, and in
     * *site->reached. Collective. Optional, with decide. */
    int (*apply)(const struct dp_scheme_site *site, double target, struct dp_err *err);
    /* What apply() does to one layer, where the workers of others have done it already and one that was lost made this one miss it: no
     * other worker is asked. One that has it stays as it is. Optional: it cannot be done so. */
    int (*catch_up)(struct dp_layer *layer, double target, struct dp_err *err);
    /* For people: what was reached. returns it as a number. With apply. */
    double (*tell)(const struct dp_reached *reached, char *text, size_t cap);
    /* Which layers run for which microbatch of a training step (stage.h). Optional: all. */
    dp_layer_runs_fn *(*runs)(const struct dp_train_config *config);
};
#define DP_SCHEME_DECLARE(ID, id) extern const struct dp_scheme dp_scheme_##id;
DP_SCHEMES(DP_SCHEME_DECLARE)
#undef DP_SCHEME_DECLARE

/* Static, on or not. */
const struct dp_scheme *dp_scheme_at(enum dp_scheme_id id);

/* Of all schemes that are on: the struct says what each call is. */

/* On or not. */
int dp_schemes_check(const struct dp_train_config *config, struct dp_err *err);
/* What is known to come of all, in the order of steps; an equal share of DP_CHANGES_MAX for each. returns how many. */
uint32_t dp_schemes_plan(const struct dp_train_config *config, struct dp_change out[DP_CHANGES_MAX]);
int dp_schemes_begin(const struct dp_scheme_site *site, uint64_t step, struct dp_err *err);
/* How many of them measure after `step` steps; the same on all workers. */
uint32_t dp_schemes_measured(const struct dp_train_config *config, uint64_t step);
/* out: [dp_schemes_measured()][dp_stage_n_layers()] */
int dp_schemes_measure(struct dp_stage *stage, const struct dp_train_config *config, uint64_t step, const double *squares, double *out,
                       struct dp_err *err);
/* measured: [dp_schemes_measured()][in->n_layers]; in->measured is not looked at. returns whether any is due. */
bool dp_schemes_decide(const struct dp_train_config *config, const struct dp_scheme_in *in, const double *measured,
                       struct dp_scheme_order out[DP_N_SCHEMES]);
void dp_schemes_observe(struct dp_stage *stage, const struct dp_train_config *config, uint64_t step, const double *squares,
                        double grad_scale);
/* The same of one layer, which need not be in a stage. */
void dp_schemes_observe_layer(struct dp_layer *layer, const struct dp_train_config *config, uint64_t step, double squares,
                              double grad_scale);
/* NULL: all layers run. */
dp_layer_runs_fn *dp_schemes_runs(const struct dp_train_config *config);

#endif
