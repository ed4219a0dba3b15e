/* SPDX-License-Identifier: BSD-3-Clause */
/* See layers.h. */
#include "worker/bench/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/crc32c.h"
#include "worker/bench/masks.h"
#include "worker/handover/stocking.h"
#include "worker/handover/transfer.h"
#include "worker/model/layer_parts.h"
#include "worker/scheme/scheme.h"

#define MOVING 3 /* layers; in front of them the embedding, behind them the head */
#define LAYERS (MOVING + 2) /* likewise */
#define MESSAGE ((size_t)4 << 20) /* the largest of make bench-messages */
#define IDLE_NS (20 * DP_MS_NS) /* as in a hand-over: it ends when something comes */

struct bench_layers {
    struct dp_transport *t;
    uint32_t rank;
    struct dp_backend *be;
    struct dp_train_config config;
    struct dp_tune tune;
    struct dp_layout layout;
    struct dp_stage *stage;
    uint64_t migration;
    size_t bytes;
    char *data; /* of messages */
    uint64_t state_bytes; /* of the layers that move, with their gradients; 0: not known yet */
};

/* A block has 12 channels^2 weights, and each of them two moments. */
static int64_t channels_for(int mib)
{
    double c = sqrt((double)mib * 1048576.0 / (MOVING * 12 * 3 * sizeof(float)));

    return (int64_t)(c / 16.0 + 0.5) * 16;
}

static int make_config(struct bench_layers *b, int64_t c, struct dp_err *err)
{
    const int64_t shape[][2] = {{3 * c, c}, {c, c}, {4 * c, c}, {c, 4 * c}};

    if (dp_train_config_load(NULL, 0, NULL, &b->config, err) < 0)
        return -1;
    b->config.model.blocks = MOVING;
    b->config.model.channels = c;
    b->config.model.heads = 4;
    b->config.model.vocabulary = 64;
    b->config.model.context = 16;
    b->config.train.batch = 1;
    b->config.train.microbatches = 1;
    b->config.prune.begin = b->config.prune.end = 1;
    b->tune.n_entries = 4;
    for (int i = 0; i < 4; i++) /* what is pruned is stored sparse, whatever this machine would rather have */
        b->tune.entry[i] = (struct dp_tune_entry){.c_out = shape[i][0], .c_in = shape[i][1], .n = 16, .crossover = 0.5};
    return dp_train_config_check(&b->config, err) < 0 ? -1 : dp_schemes_check(&b->config, err);
}

static struct dp_layer *make_layer(struct bench_layers *b, uint32_t index, double sparsity, struct dp_err *err)
{
    struct dp_layer *l = dp_layer_create(&b->config, index, b->be, &b->tune, err);

    if (l && l->kind == DP_LAYER_BLOCK && sparsity > 0.0 && bench_masks_random(sparsity, l, err) < 0) {
        dp_layer_destroy(l);
        return NULL;
    }
    return l;
}

static int make_stage(struct bench_layers *b, double sparsity, struct dp_err *err)
{
    const uint32_t first = b->layout.cut[b->rank], n = b->layout.cut[b->rank + 1] - first;
    struct dp_layer *layer[LAYERS];
    uint32_t have = 0;

    while (have < n && (layer[have] = make_layer(b, first + have, sparsity, err)))
        have++;
    if (have == n)
        b->stage = dp_stage_create(&b->config, b->be, layer, n, 1, err);
    for (uint32_t i = 0; i < have && !b->stage; i++)
        dp_layer_destroy(layer[i]);
    return b->stage ? 0 : -1;
}

struct bench_layers *bench_layers_create(struct dp_transport *t, uint32_t rank, int mib, double sparsity, struct dp_err *err)
{
    struct bench_layers *b = calloc(1, sizeof *b);

    if (!b) {
        dp_err_set(err, DP_ENOMEM, "no memory for layers");
        return NULL;
    }
    b->t = t;
    b->rank = rank;
    b->layout = (struct dp_layout){.n_workers = 2, .n_layers = LAYERS, .cut = {0, LAYERS - 1, LAYERS}};
    b->be = dp_backend_create("cpu", (int)rank, 1, err);
    if (b->be && make_config(b, channels_for(mib), err) == 0 && make_stage(b, sparsity, err) == 0)
        return b;
    bench_layers_destroy(b);
    return NULL;
}

void bench_layers_destroy(struct bench_layers *b)
{
    if (!b)
        return;
    dp_stage_destroy(b->stage);
    dp_backend_destroy(b->be);
    free(b->data);
    free(b);
}

int64_t bench_layers_channels(const struct bench_layers *b)
{
    return b->config.model.channels;
}

size_t bench_layers_bytes(const struct bench_layers *b)
{
    return b->bytes;
}

/* ---- there and then ---- */

static int finish(struct bench_layers *b, struct dp_transport_request *x, struct dp_err *err)
{
    return x && dp_transport_wait(b->t, x, 0, NULL, err) == 0 ? 0 : -1;
}

static struct dp_transport_request *start(struct bench_layers *b, bool is_from_0, uint32_t index, void *data, size_t bytes,
                                          struct dp_err *err)
{
    uint64_t tag = dp_tag(DP_CH_ACTIVATION, 0, b->migration, index);

    return is_from_0 == (b->rank == 0) ? dp_transport_send(b->t, !b->rank, tag, data, bytes, err)
                                       : dp_transport_recv(b->t, !b->rank, tag, data, bytes, err);
}

/* Worker 1 says that it is there, or done. */
static int hear_1(struct bench_layers *b, uint32_t index, struct dp_err *err)
{
    char none = 0;

    return finish(b, start(b, false, index, &none, 0, err), err);
}

/* The destination has what its kernels need of the layers that came. */
static int complete(const struct dp_transfer *s, struct dp_err *err)
{
    for (uint32_t i = 0; i < s->n_layers; i++)
        if (s->layer[i].shadow && dp_layer_complete(s->layer[i].shadow, err) < 0)
            return -1;
    return 0;
}

/* *arrived_ns, *complete_ns: when worker 1 had said so. */
static int move(struct bench_layers *b, uint64_t *arrived_ns, uint64_t *complete_ns, struct dp_err *err)
{
    const struct dp_handover_args args = {.transport = b->t, .rank = b->rank, .layout = &b->layout, .stage = &b->stage,
                                          .config = &b->config, .backend = b->be, .tune = &b->tune, .step = b->migration};
    struct dp_layout next = b->layout;
    struct dp_chunk *stuck = NULL;
    struct dp_transfer *s;
    struct dp_moves moves;
    int rc = -1;

    next.cut[1] = 1;
    dp_layout_moves(&b->layout, &next, &moves);
    s = dp_transfer_create(&args, b->migration, &moves, &next, err);
    while (s && (rc = dp_transfer_step(s, err)) == 0)
        dp_transport_idle(b->t, s->is_busy ? 0 : IDLE_NS);
    if (rc > 0)
        b->bytes = s->sent_bytes + s->received_bytes;
    if (rc > 0)
        rc = hear_1(b, 1, err);
    *arrived_ns = dp_now_ns();
    if (rc == 0)
        rc = complete(s, err);
    if (rc == 0)
        rc = hear_1(b, 2, err);
    *complete_ns = dp_now_ns();
    dp_transfer_destroy(s, &stuck);
    dp_chunks_free(stuck);
    return rc;
}

/* Worker 1 learns what the layers take, as the coordinator tells it with PREPARE. */
static int tell_bytes(struct bench_layers *b, struct dp_err *err)
{
    for (uint32_t i = 1; i <= MOVING && b->rank == 0; i++)
        b->state_bytes += dp_layer_state_bytes(dp_stage_layer(b->stage, i));
    return finish(b, start(b, true, 3, &b->state_bytes, sizeof b->state_bytes, err), err);
}

int bench_layers_hand_over(struct bench_layers *b, bool is_stocked, double *ns, double *complete_ns, struct dp_err *err)
{
    struct dp_stocking *stocking = NULL;
    uint64_t begin, arrived = 0, completed = 0;
    int rc;

    b->migration++;
    if (!b->state_bytes && tell_bytes(b, err) < 0)
        return -1;
    if (is_stocked && b->rank == 1) {
        stocking = dp_stocking_begin(b->be, b->state_bytes, err);
        if (!stocking)
            return -1;
        dp_stocking_finish(stocking);
    }
    rc = hear_1(b, 0, err);
    begin = dp_now_ns();
    if (rc == 0 && move(b, &arrived, &completed, err) < 0)
        rc = dp_err_prefix(err, "hand-over");
    dp_stocking_destroy(stocking);
    if (rc < 0)
        return -1;
    *ns = (double)(arrived - begin);
    *complete_ns = (double)(completed - begin);
    return 0;
}

static int send_all(struct bench_layers *b, struct dp_err *err)
{
    struct dp_transport_request *x[2] = {NULL, NULL};
    uint32_t n = 0;

    for (size_t at = 0; at < b->bytes; at += MESSAGE, n++) {
        if (x[n % 2] && finish(b, x[n % 2], err) < 0)
            return -1;
        x[n % 2] = start(b, true, 2 + n, b->data + at, b->bytes - at < MESSAGE ? b->bytes - at : MESSAGE, err);
        if (!x[n % 2])
            return -1;
    }
    for (uint32_t i = n > 1 ? n - 2 : 0; i < n; i++)
        if (finish(b, x[i % 2], err) < 0)
            return -1;
    return hear_1(b, 1, err);
}

int bench_layers_messages(struct bench_layers *b, double *ns, struct dp_err *err)
{
    uint64_t begin;

    if (!b->data) {
        b->data = malloc(b->bytes);
        if (!b->data)
            return dp_err_set(err, DP_ENOMEM, "no memory for messages of %zu bytes", b->bytes);
        memset(b->data, 1, b->bytes);
    }
    b->migration++;
    if (hear_1(b, 0, err) < 0)
        return -1;
    begin = dp_now_ns();
    if (send_all(b, err) < 0)
        return -1;
    *ns = (double)(dp_now_ns() - begin);
    return 0;
}

/* ---- what it is made of ---- */

/* The arrays of one param as a destination asks for them. */
static int touch_arrays(struct dp_backend *be, const struct dp_param *p, struct dp_err *err)
{
    void *mem[4] = {NULL};
    int rc = 0;

    for (int i = 0; rc == 0 && i < 4; i++)
        rc = be->ops->alloc(be, (size_t)p->n * sizeof(float), &mem[i], err);
    for (int i = 0; i < 4; i++)
        be->ops->free(be, mem[i]);
    return rc;
}

static int build_plan(struct dp_backend *be, struct dp_param *p, struct dp_err *err)
{
    be->ops->sparse_release(be, p->sparse);
    return be->ops->sparse_prepare(be, p->sparse, err) < 0 ? -1 : be->ops->sparse_refresh(be, p->sparse, p->w, err);
}

int bench_layers_parts(struct bench_layers *b, double *checksum_ns, double *memory_ns, double *plans_ns, struct dp_err *err)
{
    uint64_t begin = dp_now_ns();
    volatile uint32_t crc = dp_crc32c(0, b->data, b->bytes);

    (void)crc;
    *checksum_ns = (double)(dp_now_ns() - begin);
    *memory_ns = *plans_ns = 0;
    for (uint32_t i = 1; i <= MOVING; i++) {
        struct dp_layer *l = dp_stage_layer(b->stage, i);

        for (uint32_t k = 0; k < l->n_params; k++) {
            begin = dp_now_ns();
            if (touch_arrays(b->be, &l->param[k], err) < 0)
                return -1;
            *memory_ns += (double)(dp_now_ns() - begin);
            if (!l->param[k].sparse)
                continue;
            begin = dp_now_ns();
            if (build_plan(b->be, &l->param[k], err) < 0)
                return -1;
            *plans_ns += (double)(dp_now_ns() - begin);
        }
    }
    return 0;
}
