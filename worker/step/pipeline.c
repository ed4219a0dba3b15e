/* SPDX-License-Identifier: BSD-3-Clause */
/* See pipeline.h. */
#include "worker/step/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/schedule/schedule.h"

#define AHEAD 4 /* microbatches that a stage without backwards sends before it waits: there is no gradient to slow it down */

struct dp_pipeline {
    const struct dp_train_config *config;
    const struct dp_device_wait *wait;
    struct dp_backend *be; /* wait's */
    const struct dp_data *data;
    uint32_t rank;
    int64_t tokens; /* of a microbatch */
    uint32_t *inputs, *targets; /* [microbatches][tokens] */
    uint32_t *device_inputs, *device_targets; /* the same on the device; the evaluation uses the first microbatch's place */
    double *losses; /* [device] of the microbatches */
    enum dp_schedule_kind schedule;
    struct dp_action *actions;
    struct dp_neighbours neighbours;
    struct dp_stage_message **input; /* [in_flight] of a microbatch between its forward and its backward */
    uint32_t in_flight;              /* of the layout */
    uint32_t frozen;                 /* layers of the model that only go forward */
    dp_layer_runs_fn *runs;
    struct dp_pipeline_times times;  /* of training */
    uint64_t sent_ns, sent_back_ns; /* when the first microbatch's activation and gradient were sent */
};

/* One pass over the microbatches: what stays the same during it. */
struct pass {
    struct dp_pipeline *p;
    struct dp_stage *stage;
    uint32_t n_sent;
    int prev, next; /* neighbours, -1: none */
    int back_to;    /* whoever wants the gradient of what came; -1: nobody */
    bool has_first, has_head, is_eval;
    bool is_ahead;  /* no backward follows: nothing holds this stage back but the room of the next one */
    struct dp_inbox in, back;
    uint64_t got_ns; /* when the first microbatch's activation came; 0: nobody knows */
};

/* Tokens, targets and losses of m microbatches. */
static int make_device_arrays(struct dp_pipeline *p, size_t m, struct dp_err *err)
{
    const size_t bytes = m * (size_t)p->tokens * sizeof *p->inputs;
    void *mem;

    if (p->be->ops->alloc(p->be, bytes, &mem, err) < 0)
        return dp_err_prefix(err, "tokens of a step");
    p->device_inputs = mem;
    if (p->be->ops->alloc(p->be, bytes, &mem, err) < 0)
        return dp_err_prefix(err, "tokens of a step");
    p->device_targets = mem;
    if (p->be->ops->alloc(p->be, m * sizeof *p->losses, &mem, err) < 0)
        return dp_err_prefix(err, "losses of a step");
    p->losses = mem;
    return 0;
}

struct dp_pipeline *dp_pipeline_create(const struct dp_train_config *config, const struct dp_device_wait *wait,
                                       uint32_t rank, const struct dp_data *data, struct dp_err *err)
{
    size_t m = (size_t)config->train.microbatches;
    enum dp_schedule_kind schedule;
    struct dp_pipeline *p;

    if (dp_schedule_find_trained(config->pipeline.schedule, &schedule, err) < 0) {
        dp_err_prefix(err, "pipeline.schedule");
        return NULL;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        goto no_memory;
    p->config = config;
    p->wait = wait;
    p->be = wait->be;
    p->rank = rank;
    p->data = data;
    p->schedule = schedule;
    p->tokens = config->train.batch * config->model.context;
    dp_neighbours_init(&p->neighbours, wait, dp_stage_message_bytes(config, wait->be->info.act_bytes), rank,
                       !strcmp(config->pipeline.link, "auto"));
    p->inputs = calloc(m * (size_t)p->tokens, sizeof *p->inputs);
    p->targets = calloc(m * (size_t)p->tokens, sizeof *p->targets);
    p->actions = calloc(2 * m, sizeof *p->actions);
    p->input = calloc(m, sizeof *p->input);
    if (!p->inputs || !p->targets || !p->actions || !p->input)
        goto no_memory;
    if (make_device_arrays(p, m, err) == 0)
        return p;
    dp_pipeline_destroy(p);
    return NULL;
no_memory:
    dp_err_set(err, DP_ENOMEM, "no memory for %zu microbatches of a step", m);
    dp_pipeline_destroy(p);
    return NULL;
}

void dp_pipeline_destroy(struct dp_pipeline *p)
{
    if (!p)
        return;
    dp_neighbours_release(&p->neighbours);
    p->be->ops->free(p->be, p->device_inputs);
    p->be->ops->free(p->be, p->device_targets);
    p->be->ops->free(p->be, p->losses);
    free(p->inputs);
    free(p->targets);
    free(p->actions);
    free(p->input);
    free(p);
}

size_t dp_pipeline_bytes(const struct dp_pipeline *p)
{
    return dp_neighbours_bytes(&p->neighbours) + 4 * (size_t)(p->config->train.microbatches * p->tokens) * sizeof *p->inputs;
}

int dp_pipeline_part(struct dp_pipeline *p, struct dp_err *err)
{
    return dp_neighbours_part(&p->neighbours, err);
}

/* ---- one microbatch ---- */

/* Without backwards nothing holds back a fast stage, so it waits now and then. */
static int send_on(struct pass *s, int to, enum dp_channel channel, uint32_t mb, struct dp_stage_message *m,
                   uint64_t *sent_ns, struct dp_err *err)
{
    struct dp_neighbours *n = &s->p->neighbours;

    if (dp_neighbours_send(n, (uint32_t)to, channel, mb, m, mb ? NULL : sent_ns, err) < 0)
        return -1;
    return s->is_ahead && ++s->n_sent % AHEAD == 0 ? dp_neighbours_settle(n, err) : 0;
}

static int end_border(struct dp_pipeline *p, struct dp_err *err)
{
    return p->be->ops->lap(p->be, &p->times.border_ns, err);
}

/* The computing lane was told all that reads the input of a microbatch. */
static int give_input(struct pass *s, uint32_t mb, struct dp_err *err)
{
    struct dp_stage_message **at = &s->p->input[mb % s->p->in_flight], *in = *at;

    *at = NULL;
    return dp_neighbours_give(&s->p->neighbours, in, err);
}

static int forward(struct pass *s, uint32_t mb, const uint32_t *tokens, const uint32_t *targets, double *loss,
                   struct dp_err *err)
{
    struct dp_pipeline *p = s->p;
    struct dp_neighbours *n = &p->neighbours;
    struct dp_stage_message *in, *out = NULL;
    uint64_t came_ns;

    if (dp_neighbours_take(n, &s->in, DP_PLACE_INPUT, mb, &in, &came_ns, err) < 0)
        return -1;
    p->input[mb % p->in_flight] = in; /* end_pass() finds it there, too */
    if (!mb)
        s->got_ns = came_ns;
    if (s->next >= 0 && !(out = dp_neighbours_room(n, DP_PLACE_OUTPUT, mb, err)))
        return -1;
    if (!s->is_eval && end_border(p, err) < 0)
        return -1;
    if (dp_stage_forward(s->stage, s->is_eval ? 0 : mb, in ? in->device : NULL, s->has_first ? tokens : NULL,
                         s->has_head ? targets : NULL, out ? out->device : NULL, loss, !s->is_eval, err) < 0) {
        dp_neighbours_give(n, out, NULL);
        return -1;
    }
    if ((s->is_eval || dp_stage_n_frozen(s->stage)) && give_input(s, mb, err) < 0)
        return -1;
    return out ? send_on(s, s->next, DP_CH_ACTIVATION, mb, out, &p->sent_ns, err) : 0;
}

/* The gradient that comes becomes the one that goes. */
static int backward(struct pass *s, uint32_t mb, const uint32_t *tokens, struct dp_err *err)
{
    struct dp_neighbours *n = &s->p->neighbours;
    struct dp_stage_message *d;
    uint64_t came_ns;

    if (dp_neighbours_take(n, &s->back, DP_PLACE_GRADIENT, mb, &d, &came_ns, err) < 0)
        return -1;
    if (!mb && came_ns)
        s->p->times.ahead_ns = came_ns - s->p->sent_ns;
    if (!d && s->back_to >= 0 && !(d = dp_neighbours_room(n, DP_PLACE_GRADIENT, mb, err)))
        return -1;
    if (end_border(s->p, err) < 0)
        return -1;
    if (dp_stage_backward(s->stage, mb, d ? d->device : NULL, s->has_first ? tokens : NULL, err) < 0) {
        dp_neighbours_give(n, d, NULL);
        return -1;
    }
    if (give_input(s, mb, err) < 0)
        return -1;
    if (s->back_to < 0)
        return dp_neighbours_give(n, d, err);
    return send_on(s, s->back_to, DP_CH_GRADIENT, mb, d, &s->p->sent_back_ns, err);
}

/* ---- passes ---- */

static int begin_pass(struct pass *s, struct dp_pipeline *p, const struct dp_layout *l, struct dp_stage *stage,
                      bool is_eval, uint64_t step, uint32_t total, uint64_t *wait_ns, struct dp_err *err)
{
    *s = (struct pass){
        .p = p,
        .stage = stage,
        .prev = dp_layout_prev(l, p->rank),
        .next = dp_layout_next(l, p->rank),
        .has_first = l->cut[p->rank] == 0,
        .has_head = l->cut[p->rank + 1] == l->n_layers,
        .is_eval = is_eval,
        .is_ahead = is_eval || l->cut[p->rank + 1] <= p->frozen,
    };
    s->back_to = !is_eval && l->cut[p->rank] > p->frozen ? s->prev : -1;
    s->in = (struct dp_inbox){.from = s->prev, .channel = DP_CH_ACTIVATION, .total = total};
    s->back = (struct dp_inbox){.from = s->is_ahead ? -1 : s->next, .channel = DP_CH_GRADIENT, .total = total};
    p->neighbours.epoch = l->epoch;
    p->neighbours.step = step;
    p->neighbours.index_base = is_eval ? DP_EVAL_INDEX : 0;
    p->neighbours.wait_ns = wait_ns;
    p->neighbours.border_ns = is_eval ? NULL : &p->times.border_ns;
    p->neighbours.receive_ns = is_eval ? NULL : &p->times.receive_ns;
    p->in_flight = dp_stage_in_flight(p->config, l, p->rank);
    return dp_neighbours_reserve(&p->neighbours, p->in_flight, s->prev, s->next, err);
}

static bool is_idle(const struct dp_pipeline *p, const struct dp_layout *l)
{
    return l->cut[p->rank] == l->cut[p->rank + 1];
}

/* All messages are on their way, and what `bytes` of losses the device has are in *losses. */
static int end_pass(struct pass *s, int rc, double *losses, size_t bytes, struct dp_err *err)
{
    struct dp_pipeline *p = s->p;

    if (rc == 0)
        rc = dp_neighbours_settle(&p->neighbours, err);
    if (rc == 0 && s->has_head && dp_device_finish(p->wait, err) == 0)
        return p->be->ops->get(p->be, losses, p->losses, bytes, err);
    if (rc == 0 && !s->has_head)
        return 0;
    for (uint32_t mb = 0; mb < p->in_flight; mb++)
        give_input(s, mb, NULL);
    dp_neighbours_drop(&p->neighbours, &s->in);
    dp_neighbours_drop(&p->neighbours, &s->back);
    return -1;
}

void dp_pipeline_set_schemes(struct dp_pipeline *p, uint32_t frozen, dp_layer_runs_fn *runs)
{
    p->frozen = frozen;
    p->runs = runs;
}

/* The first m microbatches' tokens to the device. */
static int put_tokens(struct dp_pipeline *p, uint32_t m, struct dp_err *err)
{
    const size_t bytes = m * (size_t)p->tokens * sizeof *p->inputs;

    if (p->be->ops->put(p->be, p->device_inputs, p->inputs, bytes, err) < 0)
        return -1;
    return p->be->ops->put(p->be, p->device_targets, p->targets, bytes, err);
}

/* All microbatches of a step. The file is looked at on both sides: before, for its end may be gone, and
 * after, for a page that was cut short meanwhile is read as zeros. */
static int read_step(struct dp_pipeline *p, struct dp_stage *stage, uint64_t step, struct dp_err *err)
{
    uint32_t m = (uint32_t)p->config->train.microbatches;

    if (dp_data_check(p->data, err) < 0)
        return -1;
    for (uint32_t mb = 0; mb < m; mb++)
        dp_data_train(p->data, step, mb, p->inputs + mb * p->tokens, p->targets + mb * p->tokens);
    if (dp_data_check(p->data, err) < 0)
        return -1;
    dp_stage_touch_tokens(stage, p->inputs, m * p->tokens);
    return put_tokens(p, m, err);
}

static int run_action(struct pass *s, const struct dp_action *action, struct dp_err *err)
{
    struct dp_pipeline *p = s->p;
    const uint32_t *tokens = p->device_inputs + action->mb * p->tokens, *targets = p->device_targets + action->mb * p->tokens;

    if (action->kind == DP_ACTION_BACKWARD)
        return s->is_ahead ? 0 : backward(s, action->mb, tokens, err);
    return forward(s, action->mb, tokens, targets, &p->losses[action->mb], err);
}

struct dp_pipeline_times dp_pipeline_take_times(struct dp_pipeline *p)
{
    struct dp_pipeline_times times = p->times;

    p->times = (struct dp_pipeline_times){0};
    return times;
}

int dp_pipeline_train(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                      uint64_t step, double *losses, uint64_t *wait_ns, struct dp_err *err)
{
    uint32_t m = (uint32_t)p->config->train.microbatches;
    struct pass s;
    int rc = 0;

    memset(losses, 0, m * sizeof *losses);
    if (is_idle(p, layout))
        return 0;
    if (begin_pass(&s, p, layout, stage, false, step, m, wait_ns, err) < 0)
        return -1;
    if ((s.has_first || s.has_head) && read_step(p, stage, step, err) < 0)
        return -1;
    dp_stage_begin_step(stage, step, p->runs);
    dp_schedule_fill(p->schedule, dp_layout_stage(layout, p->rank), dp_layout_active(layout), m, p->actions);
    rc = dp_neighbours_post(&p->neighbours, &s.in, err) < 0 || dp_neighbours_post(&p->neighbours, &s.back, err) < 0 ? -1 : 0;
    if (rc == 0)
        rc = p->be->ops->lap(p->be, &p->times.data_ns, err);
    for (uint32_t i = 0; i < 2 * m && rc == 0; i++)
        rc = run_action(&s, &p->actions[i], err);
    if (rc == 0)
        rc = end_border(p, err);
    rc = end_pass(&s, rc, losses, m * sizeof *losses, err);
    if (rc == 0 && s.got_ns && s.back_to >= 0)
        p->times.held_ns = p->sent_back_ns - s.got_ns;
    return rc;
}

int dp_pipeline_eval(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                     uint64_t step, uint32_t n, double *loss, uint64_t *wait_ns, struct dp_err *err)
{
    struct pass s;
    int rc = 0;

    *loss = 0;
    if (is_idle(p, layout))
        return 0;
    if (begin_pass(&s, p, layout, stage, true, step, n, wait_ns, err) < 0)
        return -1;
    if (p->be->ops->zero(p->be, p->losses, sizeof *p->losses, err) < 0)
        return -1;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (s.has_first || s.has_head) {
            rc = dp_data_check(p->data, err);
            if (rc < 0)
                break;
            dp_data_validation(p->data, i, p->inputs, p->targets);
            rc = put_tokens(p, 1, err);
        }
        if (rc == 0)
            rc = forward(&s, i, p->device_inputs, p->device_targets, p->losses, err);
    }
    return end_pass(&s, rc, loss, sizeof *loss, err);
}
