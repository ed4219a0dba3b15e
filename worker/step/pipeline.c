/* SPDX-License-Identifier: BSD-3-Clause */
/* See pipeline.h. A "lane" is one direction of messages from one neighbour: activations from
 * the previous active worker, gradients from the next. Each lane keeps AHEAD receives posted, in
 * microbatch order, which is the order in which every schedule consumes them.
 *
 * Buffers live in host memory where the backend can compute on it; else each has a device twin, and
 * the copy happens around the transfer. */
#include "worker/step/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/schedule/schedule.h"

#define AHEAD 2 /* receives: a message that comes while one is worked on finds its buffer */
#define EVAL_AHEAD 4 /* microbatches that an evaluation sends before it waits: there is no gradient to slow it down */
#define EVAL_INDEX 0x8000u /* validation microbatches in a tag; training ones are below */

/* One message: an activation or a gradient. */
struct buffer {
    struct buffer *next;
    float *device, *host; /* the same memory on a backend with host memory */
    struct dp_transport_request *request; /* in flight, or NULL */
};

struct lane {
    int from; /* neighbour, -1: none */
    enum dp_channel channel;
    struct buffer *posted[AHEAD];
    uint32_t n_posted, n_taken, total; /* microbatches */
};

struct dp_pipeline {
    const struct dp_train_config *config;
    struct dp_backend *be;
    struct dp_transport *transport;
    const struct dp_data *data;
    uint32_t rank;
    size_t stage_message_bytes;
    int64_t tokens; /* of a microbatch */
    uint32_t *inputs, *targets; /* [microbatches][tokens] */
    enum dp_schedule_kind schedule;
    struct dp_action *ops;
    struct buffer *spare, *sending; /* sending: oldest last */
    uint32_t n_buffers;
    struct dp_pipeline_times times; /* of training */
};

/* One pass over the microbatches: what stays the same during it. */
struct pass {
    struct dp_pipeline *p;
    struct dp_stage *stage;
    uint64_t epoch, step;
    uint32_t index_base; /* 0, or EVAL_INDEX */
    uint32_t n_sent;
    int prev, next;      /* neighbours, -1: none */
    bool has_first, has_head;
    struct lane in, back;
    uint64_t got_ns, sent_ns; /* the first microbatch's activation; 0: nobody knows when */
    uint64_t *wait_ns;
};

struct dp_pipeline *dp_pipeline_create(const struct dp_train_config *config, struct dp_backend *be,
                                       struct dp_transport *transport, uint32_t rank,
                                       const struct dp_data *data, struct dp_err *err)
{
    struct dp_pipeline *p = calloc(1, sizeof *p);
    size_t m = (size_t)config->train.microbatches;

    if (!p)
        goto no_memory;
    if (dp_schedule_find_trained(config->pipeline.schedule, &p->schedule, err) < 0) {
        dp_err_prefix(err, "pipeline.schedule");
        dp_pipeline_destroy(p);
        return NULL;
    }
    p->config = config;
    p->be = be;
    p->transport = transport;
    p->rank = rank;
    p->data = data;
    p->tokens = config->train.batch * config->model.context;
    p->stage_message_bytes = dp_stage_message_bytes(config);
    p->inputs = calloc(m * (size_t)p->tokens, sizeof *p->inputs);
    p->targets = calloc(m * (size_t)p->tokens, sizeof *p->targets);
    p->ops = calloc(2 * m, sizeof *p->ops);
    if (p->inputs && p->targets && p->ops)
        return p;
no_memory:
    dp_err_set(err, DP_ENOMEM, "no memory for %zu microbatches of a step", m);
    dp_pipeline_destroy(p);
    return NULL;
}

static void destroy_buffers(struct dp_pipeline *p, struct buffer *b)
{
    while (b) {
        struct buffer *next = b->next;

        if (b->request)
            dp_transport_cancel(p->transport, b->request);
        if (b->host != b->device)
            free(b->host);
        p->be->ops->free(p->be, b->device);
        free(b);
        b = next;
    }
}

void dp_pipeline_destroy(struct dp_pipeline *p)
{
    if (!p)
        return;
    destroy_buffers(p, p->sending);
    destroy_buffers(p, p->spare);
    free(p->inputs);
    free(p->targets);
    free(p->ops);
    free(p);
}

size_t dp_pipeline_bytes(const struct dp_pipeline *p)
{
    size_t copies = p->be->ops->host_memory ? 1 : 2;

    return p->n_buffers * p->stage_message_bytes * copies +
           2 * (size_t)(p->config->train.microbatches * p->tokens) * sizeof *p->inputs;
}

static struct buffer *make_buffer(struct dp_pipeline *p, struct dp_err *err)
{
    struct buffer *b = calloc(1, sizeof *b);
    void *device = NULL;

    if (!b || p->be->ops->alloc(p->be, p->stage_message_bytes, &device, err) < 0)
        goto fail;
    b->device = device;
    b->host = p->be->ops->host_memory ? b->device : malloc(p->stage_message_bytes);
    if (!b->host)
        goto fail;
    p->n_buffers++;
    return b;
fail:
    dp_err_set(err, DP_ENOMEM, "no memory for a stage message of %zu bytes", p->stage_message_bytes);
    p->be->ops->free(p->be, device);
    free(b);
    return NULL;
}

/* Take back the buffers whose send is finished. */
static int collect_sent(struct dp_pipeline *p, bool all, uint64_t *wait_ns, struct dp_err *err)
{
    struct buffer **link = &p->sending;

    while (*link) {
        struct buffer *b = *link;
        int rc = 0;

        if (!all && !dp_transport_test(p->transport, b->request)) {
            link = &b->next;
            continue;
        }
        rc = dp_transport_wait(p->transport, b->request, 0, wait_ns, err);
        b->request = NULL;
        *link = b->next;
        b->next = p->spare;
        p->spare = b;
        if (rc < 0)
            return -1;
    }
    return 0;
}

static struct buffer *take_buffer(struct dp_pipeline *p, struct dp_err *err)
{
    struct buffer *b = p->spare;

    if (!b)
        return make_buffer(p, err);
    p->spare = b->next;
    b->next = NULL;
    return b;
}

static void give_buffer(struct dp_pipeline *p, struct buffer *b)
{
    if (!b)
        return;
    b->next = p->spare;
    p->spare = b;
}

/* ---- transfers of a pass ---- */

static uint64_t tag_of(const struct pass *s, enum dp_channel channel, uint32_t mb)
{
    return dp_tag(channel, s->epoch, s->step, s->index_base | (mb & (EVAL_INDEX - 1)));
}

/* Keep AHEAD receives posted. */
static int post_ahead(struct pass *s, struct lane *l, struct dp_err *err)
{
    struct dp_pipeline *p = s->p;

    while (l->from >= 0 && l->n_posted < l->total && l->n_posted - l->n_taken < AHEAD) {
        struct buffer *b = take_buffer(p, err);

        if (!b)
            return -1;
        b->request = dp_transport_recv(p->transport, (uint32_t)l->from, tag_of(s, l->channel, l->n_posted), b->host,
                                       p->stage_message_bytes, err);
        if (!b->request) {
            give_buffer(p, b);
            return -1;
        }
        l->posted[l->n_posted++ % AHEAD] = b;
    }
    return 0;
}

/* The next tensor of a lane, on the device; NULL in *out where there is no neighbour. The caller gives
 * the buffer back. came_ns: = when it came, 0 where it was waiting already. */
static int take_next(struct pass *s, struct lane *l, struct buffer **out, uint64_t *came_ns, struct dp_err *err)
{
    struct dp_pipeline *p = s->p;
    bool was_there;
    struct buffer *b;
    uint64_t begin_ns;
    int rc;

    *out = NULL;
    *came_ns = 0;
    if (l->from < 0)
        return 0;
    if (post_ahead(s, l, err) < 0)
        return -1;
    b = l->posted[l->n_taken % AHEAD];
    l->posted[l->n_taken++ % AHEAD] = NULL;
    begin_ns = dp_thread_cpu_ns();
    was_there = dp_transport_test(p->transport, b->request);
    rc = dp_transport_wait(p->transport, b->request, 0, s->wait_ns, err);
    *came_ns = was_there ? 0 : dp_now_ns();
    p->times.receive_ns += dp_thread_cpu_ns() - begin_ns;
    b->request = NULL;
    if (rc == 0 && b->host != b->device)
        rc = p->be->ops->put(p->be, b->device, b->host, p->stage_message_bytes, err);
    if (rc == 0)
        rc = post_ahead(s, l, err);
    if (rc < 0) {
        give_buffer(p, b);
        return -1;
    }
    *out = b;
    return 0;
}

static int send_on(struct pass *s, int to, enum dp_channel channel, uint32_t mb, struct buffer *b,
                   struct dp_err *err)
{
    struct dp_pipeline *p = s->p;
    int rc = 0;

    if (b->host != b->device)
        rc = p->be->ops->get(p->be, b->host, b->device, p->stage_message_bytes, err);
    if (rc == 0) {
        b->request = dp_transport_send(p->transport, (uint32_t)to, tag_of(s, channel, mb), b->host, p->stage_message_bytes, err);
        rc = b->request ? 0 : -1;
    }
    if (rc < 0) {
        give_buffer(p, b);
        return -1;
    }
    b->next = p->sending;
    p->sending = b;
    /* Without backwards nothing holds back a fast stage, so evaluation waits here. */
    return collect_sent(p, s->index_base && ++s->n_sent % EVAL_AHEAD == 0, s->wait_ns, err);
}

/* After a failure: nothing may stay posted into a buffer that is used again. */
static void drop_lane(struct pass *s, struct lane *l)
{
    for (int i = 0; i < AHEAD; i++) {
        struct buffer *b = l->posted[i];

        if (!b)
            continue;
        dp_transport_cancel(s->p->transport, b->request);
        b->request = NULL;
        give_buffer(s->p, b);
        l->posted[i] = NULL;
    }
}

/* ---- one microbatch ---- */

static int forward(struct pass *s, uint32_t mb, const uint32_t *tokens, const uint32_t *targets, bool keep,
                   double *loss, struct dp_err *err)
{
    struct buffer *in, *out = NULL;
    uint64_t came_ns;
    int rc;

    if (take_next(s, &s->in, &in, &came_ns, err) < 0)
        return -1;
    if (!mb)
        s->got_ns = came_ns;
    if (s->next >= 0 && !(out = take_buffer(s->p, err))) {
        give_buffer(s->p, in);
        return -1;
    }
    rc = dp_stage_forward(s->stage, keep ? mb : 0, in ? in->device : NULL, s->has_first ? tokens : NULL,
                          s->has_head ? targets : NULL, out ? out->device : NULL, loss, keep, err);
    give_buffer(s->p, in);
    if (rc < 0) {
        give_buffer(s->p, out);
        return -1;
    }
    if (!mb)
        s->sent_ns = dp_now_ns();
    return out ? send_on(s, s->next, DP_CH_ACTIVATION, mb, out, err) : 0;
}

static int backward(struct pass *s, uint32_t mb, const uint32_t *tokens, struct dp_err *err)
{
    struct buffer *dout, *din = NULL;
    uint64_t came_ns;
    int rc;

    if (take_next(s, &s->back, &dout, &came_ns, err) < 0)
        return -1;
    if (!mb && came_ns)
        s->p->times.ahead_ns = came_ns - s->sent_ns;
    if (s->prev >= 0 && !(din = take_buffer(s->p, err))) {
        give_buffer(s->p, dout);
        return -1;
    }
    rc = dp_stage_backward(s->stage, mb, dout ? dout->device : NULL, din ? din->device : NULL,
                           s->has_first ? tokens : NULL, err);
    give_buffer(s->p, dout);
    if (rc < 0) {
        give_buffer(s->p, din);
        return -1;
    }
    if (!mb && s->got_ns)
        s->p->times.held_ns = dp_now_ns() - s->got_ns;
    return din ? send_on(s, s->prev, DP_CH_GRADIENT, mb, din, err) : 0;
}

/* ---- passes ---- */

static void begin_pass(struct pass *s, struct dp_pipeline *p, const struct dp_layout *l, struct dp_stage *stage,
                       uint64_t step, uint32_t total, uint64_t *wait_ns)
{
    *s = (struct pass){
        .p = p,
        .stage = stage,
        .epoch = l->epoch,
        .step = step,
        .prev = dp_layout_prev(l, p->rank),
        .next = dp_layout_next(l, p->rank),
        .has_first = l->cut[p->rank] == 0,
        .has_head = l->cut[p->rank + 1] == l->n_layers,
        .wait_ns = wait_ns,
    };
    s->in = (struct lane){.from = s->prev, .channel = DP_CH_ACTIVATION, .total = total};
    s->back = (struct lane){.from = s->next, .channel = DP_CH_GRADIENT, .total = total};
}

static bool is_idle(const struct dp_pipeline *p, const struct dp_layout *l)
{
    return l->cut[p->rank] == l->cut[p->rank + 1];
}

static int end_pass(struct pass *s, int rc, struct dp_err *err)
{
    if (rc < 0) {
        drop_lane(s, &s->in);
        drop_lane(s, &s->back);
        return -1;
    }
    return collect_sent(s->p, true, s->wait_ns, err);
}

/* Which stage of how many active ones this worker is. */
static uint32_t stage_index(const struct dp_pipeline *p, const struct dp_layout *l)
{
    uint32_t i = 0;

    for (int w = dp_layout_prev(l, p->rank); w >= 0; w = dp_layout_prev(l, (uint32_t)w))
        i++;
    return i;
}

/* All microbatches of a step. The file is looked at on both sides: before, for its end may be gone, and
 * after, for a page that was cut short meanwhile is read as zeros. */
static int read_step(struct dp_pipeline *p, uint64_t step, struct dp_err *err)
{
    uint32_t m = (uint32_t)p->config->train.microbatches;

    if (dp_data_check(p->data, err) < 0)
        return -1;
    for (uint32_t mb = 0; mb < m; mb++)
        dp_data_train(p->data, step, mb, p->inputs + mb * p->tokens, p->targets + mb * p->tokens);
    return dp_data_check(p->data, err);
}

/* One operation of the schedule, and its device time. The processor handles the messages whatever the
 * backend: their time is its own. */
static int run_op(struct pass *s, const struct dp_action *op, double *losses, struct dp_err *err)
{
    struct dp_pipeline *p = s->p;
    bool is_backward = op->kind == DP_ACTION_BACKWARD;
    const uint32_t *tokens = p->inputs + op->mb * p->tokens, *targets = p->targets + op->mb * p->tokens;
    uint64_t begin_ns = p->be->ops->time_ns(p->be), *sum = is_backward ? &p->times.backward_ns : &p->times.forward_ns;
    int rc = is_backward ? backward(s, op->mb, tokens, err) : forward(s, op->mb, tokens, targets, true, &losses[op->mb], err);

    *sum += p->be->ops->time_ns(p->be) - begin_ns;
    return rc;
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
    begin_pass(&s, p, layout, stage, step, m, wait_ns);
    s.index_base = 0;
    if ((s.has_first || s.has_head) && read_step(p, step, err) < 0)
        return -1;
    dp_schedule_fill(p->schedule, stage_index(p, layout), dp_layout_active(layout), m, p->ops);
    rc = post_ahead(&s, &s.in, err) < 0 || post_ahead(&s, &s.back, err) < 0 ? -1 : 0;
    for (uint32_t i = 0; i < 2 * m && rc == 0; i++)
        rc = run_op(&s, &p->ops[i], losses, err);
    return end_pass(&s, rc, err);
}

int dp_pipeline_eval(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                     uint64_t step, uint32_t n, double *loss, uint64_t *wait_ns, struct dp_err *err)
{
    struct pass s;
    int rc = 0;

    *loss = 0;
    if (is_idle(p, layout))
        return 0;
    begin_pass(&s, p, layout, stage, step, n, wait_ns);
    s.index_base = EVAL_INDEX;
    s.back.from = -1;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        double sum = 0;

        if (s.has_first || s.has_head) {
            rc = dp_data_check(p->data, err);
            if (rc < 0)
                break;
            dp_data_validation(p->data, i, p->inputs, p->targets);
        }
        rc = forward(&s, i, p->inputs, p->targets, false, &sum, err);
        *loss += sum;
    }
    return end_pass(&s, rc, err);
}
