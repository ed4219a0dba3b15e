/* SPDX-License-Identifier: BSD-3-Clause */
/* See tied_head.h. The gradient of the head is complete before any other (its backward comes first), so it
 * usually waits at the embedding's owner when that one is done. */
#include "worker/step/tied_head.h"

#include <stdlib.h>
#include <string.h>

enum { GRADIENT = 0, WEIGHTS = 1, RENEWED = 2 }; /* index in the tag */

#define GIVE_UP_NS 5000000000u /* for a copy to end when the run does; memory of one that does not is left */

void dp_tied_head_init(struct dp_tied_head *t, const struct dp_train_config *config, const struct dp_device_wait *wait,
                       uint32_t rank)
{
    *t = (struct dp_tied_head){.config = config, .wait = wait, .rank = rank};
}

static bool is_host(const struct dp_tied_head *t)
{
    return t->wait->be->ops->host_memory;
}

void dp_tied_head_release(struct dp_tied_head *t)
{
    if (t->sending)
        dp_transport_cancel(t->wait->transport, t->sending);
    if (t->device && !is_host(t) && dp_device_drain(t->wait, DP_LANE_IN, GIVE_UP_NS) &&
        dp_device_drain(t->wait, DP_LANE_OUT, GIVE_UP_NS))
        t->wait->be->ops->free_staging(t->wait->be, t->host);
    if (t->device)
        t->wait->be->ops->free(t->wait->be, t->device);
    t->sending = NULL;
    t->host = t->device = NULL;
}

static size_t tensor_bytes(const struct dp_tied_head *t)
{
    return (size_t)dp_layer_tied_count(t->config) * sizeof(float);
}

static int need_buffer(struct dp_tied_head *t, struct dp_err *err)
{
    struct dp_backend *be = t->wait->be;
    void *device, *host;

    if (t->device)
        return 0;
    if (be->ops->alloc(be, tensor_bytes(t), &device, err) < 0)
        return dp_err_prefix(err, "the tied weights");
    host = device;
    if (!is_host(t) && be->ops->alloc_staging(be, tensor_bytes(t), &host, err) < 0) {
        be->ops->free(be, device);
        return dp_err_prefix(err, "the tied weights");
    }
    t->device = device;
    t->host = host;
    return 0;
}

/* merge and split give t->device another array. */
static void follow_swap(struct dp_tied_head *t)
{
    if (is_host(t))
        t->host = t->device;
}

static struct dp_layer *first_layer(const struct dp_tied_head *t, const struct dp_layout *l, struct dp_stage *stage)
{
    return dp_layout_owner(l, 0) == t->rank ? dp_stage_layer(stage, 0) : NULL;
}

static struct dp_layer *last_layer(const struct dp_tied_head *t, const struct dp_layout *l, struct dp_stage *stage)
{
    if (dp_layout_owner(l, l->n_layers - 1) != t->rank)
        return NULL;
    return dp_stage_layer(stage, dp_stage_n_layers(stage) - 1);
}

int dp_tied_head_send(struct dp_tied_head *t, struct dp_err *err)
{
    if (!t->is_copied_out)
        return 0;
    t->is_copied_out = false;
    if (dp_device_await(t->wait, t->ticket, err) < 0)
        return -1;
    t->sending = dp_transport_send(t->wait->transport, t->to, t->tag, t->data, tensor_bytes(t), err);
    return t->sending ? 0 : -1;
}

int dp_tied_head_settle(struct dp_tied_head *t, uint64_t *wait_ns, struct dp_err *err)
{
    struct dp_transport_request *x;

    if (dp_tied_head_send(t, err) < 0)
        return -1;
    x = t->sending;
    t->sending = NULL;
    if (x && dp_transport_wait(t->wait->transport, x, 0, wait_ns, err) < 0)
        return -1;
    return dp_device_await(t->wait, t->ticket, err);
}

/* A copy between the tensor and staging memory, on its lane, behind what the computing lane was told. */
static int move(struct dp_tied_head *t, enum dp_lane lane, void *dst, const void *src, struct dp_err *err)
{
    struct dp_backend *be = t->wait->be;
    dp_ticket before;

    if (be->ops->mark(be, DP_LANE_COMPUTE, &before, err) < 0 || be->ops->after(be, lane, before, err) < 0 ||
        be->ops->move(be, lane, dst, src, tensor_bytes(t), err) < 0)
        return -1;
    return be->ops->mark(be, lane, &t->ticket, err);
}

static int send_tensor(struct dp_tied_head *t, uint32_t to, uint64_t tag, const float *tensor, uint64_t *wait_ns,
                       struct dp_err *err)
{
    struct dp_backend *be = t->wait->be;

    if (dp_tied_head_settle(t, wait_ns, err) < 0)
        return -1;
    t->to = to;
    t->tag = tag;
    t->data = tensor;
    if (is_host(t)) {
        if (be->ops->mark(be, DP_LANE_COMPUTE, &t->ticket, err) < 0)
            return -1;
    } else {
        if (need_buffer(t, err) < 0 || move(t, DP_LANE_OUT, t->host, tensor, err) < 0)
            return -1;
        t->data = t->host;
    }
    t->is_copied_out = true;
    return t->ticket ? 0 : dp_tied_head_send(t, err);
}

/* The computing lane finds the tensor in t->device afterwards. */
static int receive_tensor(struct dp_tied_head *t, uint32_t from, uint64_t tag, uint64_t *wait_ns, struct dp_err *err)
{
    struct dp_transport_request *x;

    if (dp_tied_head_settle(t, wait_ns, err) < 0 || need_buffer(t, err) < 0)
        return -1;
    x = dp_transport_recv(t->wait->transport, from, tag, t->host, tensor_bytes(t), err);
    if (!x || dp_transport_wait(t->wait->transport, x, 0, wait_ns, err) < 0)
        return -1;
    if (is_host(t))
        return 0;
    if (move(t, DP_LANE_IN, t->device, t->host, err) < 0)
        return -1;
    return t->wait->be->ops->after(t->wait->be, DP_LANE_COMPUTE, t->ticket, err);
}

int dp_tied_head_gradients(struct dp_tied_head *t, const struct dp_layout *l, struct dp_stage *stage, uint64_t step,
                           uint64_t *wait_ns, struct dp_err *err)
{
    uint64_t tag = dp_tag(DP_CH_TIED, l->epoch, step, GRADIENT);
    struct dp_layer *embedding, *head;

    if (!t->config->model.tied_head)
        return 0;
    embedding = first_layer(t, l, stage);
    head = last_layer(t, l, stage);
    if (embedding && head)
        return dp_layer_tied_merge(embedding, dp_layer_tied_gradient(head), err);
    if (head)
        return send_tensor(t, dp_layout_owner(l, 0), tag, *dp_layer_tied_gradient(head), wait_ns, err);
    if (!embedding)
        return 0;
    if (receive_tensor(t, dp_layout_owner(l, l->n_layers - 1), tag, wait_ns, err) < 0)
        return -1;
    if (dp_layer_tied_merge(embedding, &t->device, err) < 0)
        return -1;
    follow_swap(t);
    return 0;
}

/* From the embedding's owner to the head's. */
static int pass_weights(struct dp_tied_head *t, const struct dp_layout *l, uint64_t tag, struct dp_layer *embedding, struct dp_layer *head,
                        uint64_t *wait_ns, struct dp_err *err)
{
    if (embedding && head)
        return dp_layer_tied_set(head, dp_layer_tied_weight(embedding), err);
    if (embedding) {
        if (send_tensor(t, dp_layout_owner(l, l->n_layers - 1), tag, dp_layer_tied_weight(embedding), wait_ns, err) < 0)
            return -1;
        return dp_tied_head_send(t, err);
    }
    if (!head)
        return 0;
    if (receive_tensor(t, dp_layout_owner(l, 0), tag, wait_ns, err) < 0)
        return -1;
    return dp_layer_tied_set(head, t->device, err);
}

int dp_tied_head_weights(struct dp_tied_head *t, const struct dp_layout *l, struct dp_stage *stage, uint64_t step,
                         uint64_t *wait_ns, struct dp_err *err)
{
    struct dp_layer *embedding, *head;

    if (!t->config->model.tied_head)
        return 0;
    embedding = first_layer(t, l, stage);
    head = last_layer(t, l, stage);
    if (embedding) {
        dp_layer_tied_split(embedding, head ? dp_layer_tied_gradient(head) : &t->device);
        follow_swap(t);
    }
    return pass_weights(t, l, dp_tag(DP_CH_TIED, l->epoch, step, WEIGHTS), embedding, head, wait_ns, err);
}

int dp_tied_head_renew(struct dp_tied_head *t, const struct dp_layout *l, struct dp_stage *stage, uint64_t step,
                       uint64_t *wait_ns, struct dp_err *err)
{
    if (!t->config->model.tied_head)
        return 0;
    return pass_weights(t, l, dp_tag(DP_CH_TIED, l->epoch, step, RENEWED), first_layer(t, l, stage), last_layer(t, l, stage), wait_ns, err);
}
