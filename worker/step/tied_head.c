/* SPDX-License-Identifier: BSD-3-Clause */
/* See tied_head.h. The gradient of the head is complete before any other (its backward comes first), so it
 * usually waits at the embedding's owner when that one is done. */
#include "worker/step/tied_head.h"

#include <stdlib.h>
#include <string.h>

enum { GRADIENT = 0, WEIGHTS = 1 }; /* index in the tag */

void dp_tied_head_init(struct dp_tied_head *t, const struct dp_train_config *config, struct dp_backend *be,
                       struct dp_transport *transport, uint32_t rank)
{
    *t = (struct dp_tied_head){.config = config, .be = be, .transport = transport, .rank = rank};
}

void dp_tied_head_release(struct dp_tied_head *t)
{
    if (t->sending)
        dp_transport_cancel(t->transport, t->sending);
    if (t->host != t->device)
        free(t->host);
    if (t->be)
        t->be->ops->free(t->be, t->device);
    t->sending = NULL;
    t->host = t->device = NULL;
}

static size_t tensor_bytes(const struct dp_tied_head *t)
{
    return (size_t)dp_layer_tied_count(t->config) * sizeof(float);
}

static int need_buffer(struct dp_tied_head *t, struct dp_err *err)
{
    void *p;

    if (t->device)
        return 0;
    if (t->be->ops->alloc(t->be, tensor_bytes(t), &p, err) < 0)
        return -1;
    t->host = t->be->ops->host_memory ? p : malloc(tensor_bytes(t));
    if (!t->host) {
        t->be->ops->free(t->be, p);
        return dp_err_set(err, DP_ENOMEM, "no memory for the tied weights, %zu bytes", tensor_bytes(t));
    }
    t->device = p;
    return 0;
}

/* merge and split give t->device another array. */
static void follow_swap(struct dp_tied_head *t)
{
    if (t->be->ops->host_memory)
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

int dp_tied_head_settle(struct dp_tied_head *t, uint64_t *wait_ns, struct dp_err *err)
{
    struct dp_transport_request *x = t->sending;

    t->sending = NULL;
    return x ? dp_transport_wait(t->transport, x, 0, wait_ns, err) : 0;
}

static int send_tensor(struct dp_tied_head *t, uint32_t to, uint64_t tag, const float *tensor, uint64_t *wait_ns,
                       struct dp_err *err)
{
    const float *data = tensor;

    if (dp_tied_head_settle(t, wait_ns, err) < 0)
        return -1;
    if (!t->be->ops->host_memory) {
        if (need_buffer(t, err) < 0 || t->be->ops->get(t->be, t->host, tensor, tensor_bytes(t), err) < 0)
            return -1;
        data = t->host;
    }
    t->sending = dp_transport_send(t->transport, to, tag, data, tensor_bytes(t), err);
    return t->sending ? 0 : -1;
}

/* The tensor is in t->device afterwards. */
static int receive_tensor(struct dp_tied_head *t, uint32_t from, uint64_t tag, uint64_t *wait_ns, struct dp_err *err)
{
    struct dp_transport_request *x;

    if (dp_tied_head_settle(t, wait_ns, err) < 0 || need_buffer(t, err) < 0)
        return -1;
    x = dp_transport_recv(t->transport, from, tag, t->host, tensor_bytes(t), err);
    if (!x || dp_transport_wait(t->transport, x, 0, wait_ns, err) < 0)
        return -1;
    return t->host == t->device ? 0 : t->be->ops->put(t->be, t->device, t->host, tensor_bytes(t), err);
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

int dp_tied_head_weights(struct dp_tied_head *t, const struct dp_layout *l, struct dp_stage *stage, uint64_t step,
                         uint64_t *wait_ns, struct dp_err *err)
{
    uint64_t tag = dp_tag(DP_CH_TIED, l->epoch, step, WEIGHTS);
    struct dp_layer *embedding, *head;

    if (!t->config->model.tied_head)
        return 0;
    embedding = first_layer(t, l, stage);
    head = last_layer(t, l, stage);
    if (embedding) {
        dp_layer_tied_split(embedding, head ? dp_layer_tied_gradient(head) : &t->device);
        follow_swap(t);
    }
    if (embedding && head)
        return dp_layer_tied_set(head, dp_layer_tied_weight(embedding), err);
    if (embedding)
        return send_tensor(t, dp_layout_owner(l, l->n_layers - 1), tag, dp_layer_tied_weight(embedding), wait_ns, err);
    if (!head)
        return 0;
    if (receive_tensor(t, dp_layout_owner(l, 0), tag, wait_ns, err) < 0)
        return -1;
    return dp_layer_tied_set(head, t->device, err);
}
