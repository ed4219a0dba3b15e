/* SPDX-License-Identifier: BSD-3-Clause */
/* The layers of one worker, run in order (stage.h).
 *
 * Microbatch mb has slot mb % n_slots; kept[slot * n_layers + i] is what layer i keeps of it. A layer writes its output
 * straight into the input of the next one's activations, and what comes and goes at the stage's two borders is used where
 * it lies. The operations and their order are the same for every layer wherever the cuts lie: that makes the loss
 * independent of the layout, bit for bit.
 *
 * Frozen layers have no backward: they take turns with the sets of three, front[], whatever the slot.
 */
#include "worker/model/stage.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "common/schedule/schedule.h"
#include "worker/model/layer_run.h"
#include "worker/model/model.h"

#define NO_MB UINT32_MAX
#define N_FRONT 3 /* the stage's first layer, and two in turns */

struct dp_stage {
    const struct dp_train_config *config;
    struct dp_backend *be;
    uint32_t n_layers, n_slots, n_frozen;
    struct dp_layer **layer;
    struct dp_activations *kept; /* nothing of frozen layers */
    struct dp_activations front[N_FRONT];
    uint32_t *kept_mb; /* [n_slots] whose they are, NO_MB: nobody's */
    struct dp_workspace work;
    void *own_d;       /* the workspace's place for the gradient on its way back */
    bool records;      /* the backend is told of the parts of a step */
    uint64_t step;     /* that is trained */
    dp_layer_runs_fn *runs;
};

uint32_t dp_stage_in_flight(const struct dp_train_config *c, const struct dp_layout *l, uint32_t rank)
{
    uint32_t microbatches = (uint32_t)c->train.microbatches;
    enum dp_schedule_kind kind;

    if (l->cut[rank] == l->cut[rank + 1])
        return 0;
    if (dp_schedule_find_trained(c->pipeline.schedule, &kind, NULL) < 0)
        return microbatches;
    return dp_schedule_in_flight(kind, dp_layout_stage(l, rank), dp_layout_active(l), microbatches);
}

size_t dp_stage_activation_bytes(const struct dp_train_config *c, const struct dp_backend *be, const struct dp_layout *l,
                                 uint32_t rank, uint32_t frozen)
{
    size_t kept = 0, front = 0;

    for (uint32_t i = l->cut[rank]; i < l->cut[rank + 1]; i++) {
        size_t bytes = dp_activations_bytes(c, &be->info, dp_model_kind(c, i));

        if (i >= frozen)
            kept += bytes;
        else if (i - l->cut[rank] < N_FRONT)
            front += bytes;
    }
    return kept * dp_stage_in_flight(c, l, rank) + front;
}

static int check_layers(struct dp_layer **layers, uint32_t n, struct dp_err *err)
{
    for (uint32_t i = 1; i < n; i++) {
        if (layers[i]->index != layers[i - 1]->index + 1)
            return dp_err_set(err, DP_EINVAL, "stage: layer %u does not follow layer %u", layers[i]->index,
                              layers[i - 1]->index);
        if (layers[i]->is_frozen && !layers[i - 1]->is_frozen)
            return dp_err_set(err, DP_EINVAL, "stage: layer %u is frozen and layer %u below it is not", layers[i]->index,
                              layers[i - 1]->index);
    }
    return 0;
}

/* Sets for the first n layers, which are frozen. */
static int make_front(struct dp_stage *s, struct dp_layer **layers, uint32_t n, struct dp_err *err)
{
    for (uint32_t i = 0; i < n && i < N_FRONT; i++)
        if (!s->front[i].mem && dp_activations_init(&s->front[i], s->config, s->be, layers[i]->kind, i == 0, err) < 0)
            return -1;
    s->n_frozen = n;
    return 0;
}

static int make_slots(struct dp_stage *s, struct dp_layer **layers, uint32_t n, uint32_t n_slots, struct dp_err *err)
{
    uint32_t n_frozen = 0;

    while (n_frozen < n && layers[n_frozen]->is_frozen)
        n_frozen++;
    s->kept = calloc((size_t)n * n_slots + 1, sizeof *s->kept);
    s->kept_mb = malloc(((size_t)n_slots + 1) * sizeof *s->kept_mb);
    if (!s->kept || !s->kept_mb)
        return dp_err_set(err, DP_ENOMEM, "stage: no memory");
    s->n_slots = n_slots;
    for (uint32_t slot = 0; slot < n_slots; slot++) {
        s->kept_mb[slot] = NO_MB;
        for (uint32_t i = n_frozen; i < n; i++)
            if (dp_activations_init(&s->kept[(size_t)slot * n + i], s->config, s->be, layers[i]->kind, i == 0, err) < 0)
                return -1;
    }
    return make_front(s, layers, n_frozen, err);
}

static void drop_slots(struct dp_stage *s, uint32_t n_layers)
{
    for (size_t i = 0; s->kept && i < (size_t)n_layers * s->n_slots; i++)
        dp_activations_release(&s->kept[i], s->be);
    for (uint32_t i = 0; i < N_FRONT; i++)
        dp_activations_release(&s->front[i], s->be);
    s->n_slots = s->n_frozen = 0;
}

size_t dp_stage_activation_growth(const struct dp_train_config *config, const struct dp_backend *be, const struct dp_layout *old,
                                  const struct dp_layout *next, uint32_t rank, uint32_t frozen)
{
    size_t now = dp_stage_activation_bytes(config, be, old, rank, frozen);
    size_t then = dp_stage_activation_bytes(config, be, next, rank, frozen);

    return then > now ? then - now : 0;
}

struct dp_stage *dp_stage_create(const struct dp_train_config *config, struct dp_backend *be,
                                 struct dp_layer **layers, uint32_t n, uint32_t in_flight, struct dp_err *err)
{
    struct dp_stage *s;

    if (check_layers(layers, n, err) < 0)
        return NULL;
    if (n && !in_flight) {
        dp_err_set(err, DP_EINVAL, "stage: %u layers, and no microbatch in flight", n);
        return NULL;
    }
    s = calloc(1, sizeof *s);
    if (!s) {
        dp_err_set(err, DP_ENOMEM, "stage: no memory");
        return NULL;
    }
    s->config = config;
    s->be = be;
    s->records = !strcmp(config->pipeline.record, "on") && be->ops->segment_begin;
    s->layer = calloc(n + 1, sizeof *s->layer);
    if (!s->layer) {
        dp_err_set(err, DP_ENOMEM, "stage: no memory");
        goto fail;
    }
    if (make_slots(s, layers, n, n ? in_flight : 0, err) < 0 || (n && dp_workspace_init(&s->work, config, be, n, err) < 0))
        goto fail;
    s->own_d = s->work.d;
    if (n)
        memcpy(s->layer, layers, n * sizeof *layers);
    s->n_layers = n; /* only now the layers are the stage's */
    return s;
fail:
    drop_slots(s, n);
    dp_stage_destroy(s);
    return NULL;
}

void dp_stage_destroy(struct dp_stage *s)
{
    if (!s)
        return;
    drop_slots(s, s->n_layers);
    for (uint32_t i = 0; i < s->n_layers; i++)
        dp_layer_destroy(s->layer[i]);
    dp_workspace_release(&s->work, s->be);
    free(s->layer);
    free(s->kept);
    free(s->kept_mb);
    free(s);
}

uint32_t dp_stage_n_layers(const struct dp_stage *stage)
{
    return stage->n_layers;
}

struct dp_layer *dp_stage_layer(struct dp_stage *stage, uint32_t i)
{
    return stage->layer[i];
}

struct dp_layer *dp_stage_find(struct dp_stage *s, uint32_t index)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(s); i++)
        if (dp_stage_layer(s, i)->index == index)
            return dp_stage_layer(s, i);
    return NULL;
}

uint32_t dp_stage_n_frozen(const struct dp_stage *stage)
{
    return stage->n_frozen;
}

int dp_stage_freeze(struct dp_stage *s, uint32_t n, struct dp_err *err)
{
    for (uint32_t i = s->n_frozen; i < n && i < s->n_layers; i++) {
        for (uint32_t slot = 0; slot < s->n_slots; slot++)
            dp_activations_release(&s->kept[(size_t)slot * s->n_layers + i], s->be);
        if (dp_layer_freeze(s->layer[i], err) < 0 || make_front(s, s->layer, i + 1, err) < 0)
            return -1;
    }
    return 0;
}

void dp_stage_begin_step(struct dp_stage *s, uint64_t step, dp_layer_runs_fn *runs)
{
    s->step = step;
    s->runs = runs;
}

struct dp_workspace *dp_stage_workspace(struct dp_stage *stage)
{
    return &stage->work;
}

void dp_stage_take_layers(struct dp_stage *s, struct dp_layer **out)
{
    drop_slots(s, s->n_layers);
    if (s->n_layers)
        memcpy(out, s->layer, s->n_layers * sizeof *out);
    s->n_layers = 0;
    dp_workspace_release(&s->work, s->be);
}

static int run_forward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *tokens,
                       const uint32_t *targets, void *y, double *loss, bool keep, struct dp_err *err)
{
    switch (l->kind) {
    case DP_LAYER_EMBEDDING:
        return dp_embedding_forward(l, tokens, y, keep, err);
    case DP_LAYER_HEAD:
        return dp_head_forward(l, act, work, targets, loss, keep, err);
    default:
        return dp_block_forward(l, act, work, y, keep, err);
    }
}

void dp_stage_touch_tokens(struct dp_stage *s, const uint32_t *tokens, int64_t n)
{
    uint64_t *touched = s->n_layers ? s->layer[0]->touched : NULL;

    for (int64_t i = 0; touched && i < n; i++)
        dp_bits_set(touched, tokens[i]);
}

static int check_call(const struct dp_stage *s, uint32_t mb, const uint32_t *tokens, struct dp_err *err)
{
    if (!s->n_layers || mb >= (uint64_t)s->config->train.microbatches)
        return dp_err_set(err, DP_EINVAL, "stage: microbatch %u of %lld on %u layers", mb,
                          (long long)s->config->train.microbatches, s->n_layers);
    if (s->layer[0]->kind == DP_LAYER_EMBEDDING && !tokens)
        return dp_err_set(err, DP_EINVAL, "stage: layer 0 without tokens");
    return 0;
}

/* What layer i has of a microbatch in `slot`. Without a backward to come, blocks behind the second layer that is not frozen
 * take turns with the sets of two: less memory to go through. */
static struct dp_activations *set_of(struct dp_stage *s, uint32_t slot, uint32_t i, bool keep)
{
    uint32_t live = i - s->n_frozen;

    if (i < s->n_frozen)
        return &s->front[i ? 2 - i % 2 : 0];
    if (!keep && live > 2 && s->layer[i]->kind == DP_LAYER_BLOCK)
        i = s->n_frozen + 2 - live % 2;
    return &s->kept[(size_t)slot * s->n_layers + i];
}

/* Evaluations run all layers. */
static bool runs(const struct dp_stage *s, uint32_t i, uint32_t mb)
{
    return !s->runs || s->runs(s->layer[i], s->step, mb);
}

/* A layer that does not run for this microbatch: y = x. */
static int pass_on(struct dp_stage *s, uint32_t i, struct dp_activations *act, void *y, struct dp_err *err)
{
    if (s->be->ops->copy(s->be, y, act->x, dp_stage_message_bytes(s->config, s->be->info.act_bytes), err) < 0)
        return -1;
    return s->be->ops->lap(s->be, &s->layer[i]->fwd_ns, err);
}

int dp_stage_part_begin(const struct dp_stage *s, enum dp_stage_part part, uint32_t mb, struct dp_err *err)
{
    return s->records ? s->be->ops->segment_begin(s->be, mb * DP_N_STAGE_PARTS + (uint32_t)part, err) : 0;
}

int dp_stage_part_end(const struct dp_stage *s, struct dp_err *err)
{
    return s->records ? s->be->ops->segment_end(s->be, err) : 0;
}

int dp_stage_forward(struct dp_stage *s, uint32_t mb, void *in, const uint32_t *tokens,
                     const uint32_t *targets, void *out, double *loss, bool keep, struct dp_err *err)
{
    uint32_t slot;

    if (check_call(s, mb, tokens, err) < 0)
        return -1;
    slot = mb % s->n_slots;
    if (s->kept_mb[slot] != NO_MB)
        return dp_err_set(err, DP_EINVAL, "stage: forward of microbatch %u while microbatch %u is in flight", mb,
                          s->kept_mb[slot]);
    set_of(s, slot, 0, keep)->x = in;
    if (keep && dp_stage_part_begin(s, DP_STAGE_FORWARD, mb, err) < 0)
        return -1;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct dp_activations *act = set_of(s, slot, i, keep);
        void *y = i + 1 < s->n_layers ? set_of(s, slot, i + 1, keep)->x : out;

        if (keep && i < s->n_frozen)
            s->layer[i]->timed_microbatches++;
        if ((keep && !runs(s, i, mb) ? pass_on(s, i, act, y, err)
                                     : run_forward(s->layer[i], act, &s->work, tokens, targets, y, loss, keep, err)) < 0)
            return -1;
    }
    if (keep && s->n_frozen < s->n_layers)
        s->kept_mb[slot] = mb;
    return keep ? dp_stage_part_end(s, err) : 0;
}

static int run_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *tokens,
                        struct dp_err *err)
{
    switch (l->kind) {
    case DP_LAYER_EMBEDDING:
        return dp_embedding_backward(l, work, tokens, err);
    case DP_LAYER_HEAD:
        return dp_head_backward(l, act, work, err);
    default:
        return dp_block_backward(l, act, work, err);
    }
}

int dp_stage_backward(struct dp_stage *s, uint32_t mb, void *d, const uint32_t *tokens, struct dp_err *err)
{
    uint32_t slot;

    if (check_call(s, mb, tokens, err) < 0)
        return -1;
    slot = mb % s->n_slots;
    if (s->kept_mb[slot] != mb)
        return dp_err_set(err, DP_EINVAL, "stage: backward of microbatch %u without its forward", mb);
    if (!d && s->layer[s->n_layers - 1]->kind != DP_LAYER_HEAD)
        return dp_err_set(err, DP_EINVAL, "stage: backward of microbatch %u without a gradient", mb);
    s->work.d = d ? d : s->own_d;
    if (dp_stage_part_begin(s, DP_STAGE_BACKWARD, mb, err) < 0)
        return -1;
    for (uint32_t i = s->n_layers; i-- > s->n_frozen;) {
        if (!runs(s, i, mb))
            s->layer[i]->timed_microbatches++;
        else if (run_backward(s->layer[i], set_of(s, slot, i, true), &s->work, tokens, err) < 0)
            return -1;
    }
    s->kept_mb[slot] = NO_MB;
    return dp_stage_part_end(s, err);
}

size_t dp_stage_bytes(const struct dp_stage *s, uint64_t *act_bytes_per_layer)
{
    size_t sum = sizeof *s + s->work.bytes;

    for (size_t i = 0; i < (size_t)s->n_layers * s->n_slots; i++)
        sum += s->kept[i].bytes;
    for (uint32_t i = 0; i < N_FRONT; i++)
        sum += s->front[i].bytes;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        sum += dp_layer_state_bytes(s->layer[i]);
        if (act_bytes_per_layer)
            act_bytes_per_layer[i] = i < s->n_frozen ? 0 : dp_activations_bytes(s->config, &s->be->info, s->layer[i]->kind);
    }
    return sum;
}
