/* SPDX-License-Identifier: BSD-3-Clause */
/* See subject.h. */
#include "worker/bench/subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/run/layout.h"
#include "kernels/bench/options.h"
#include "worker/model/philox.h"
#include "worker/scheme/scheme.h"

#define SEED 1 /* any: the same weights and tokens in every call */
/* Keys of the borders: any number that is no layer. */
#define KEY_IN 1000000
#define KEY_DOUT 1000001
#define KEY_TOKENS 1000002

const char *const bench_part_names[BENCH_N_PARTS] = {"forward",   "backward",  "tied",   "clip",
                                                     "optimizer", "embedding", "blocks", "head"};

double bench_flops_per_token(const struct bench_shape *s, double density)
{
    double l = (double)s->blocks, c = (double)s->channels, t = (double)s->context;
    double head = s->is_stage ? 0.0 : (double)s->vocabulary * c;

    return 6.0 * (12.0 * l * c * c * density + head) + 6.0 * l * c * t;
}

static int64_t tokens_of(const struct bench_subject *s)
{
    return s->shape.batch * s->shape.context;
}

static int make_config(const struct bench_shape *shape, const struct bench_zeros *zeros,
                       struct dp_train_config *c, struct dp_err *err)
{
    if (dp_train_config_load(NULL, 0, NULL, c, err) < 0)
        return -1;
    c->model.blocks = shape->blocks;
    c->model.channels = shape->channels;
    c->model.heads = shape->heads;
    c->model.vocabulary = shape->vocabulary;
    c->model.context = shape->context;
    c->model.tied_head = true;
    c->train.batch = shape->batch;
    c->train.microbatches = 1;
    c->train.steps = 1000000;
    c->train.warmup = 0;
    c->train.lr = c->train.min_lr = 3e-4;
    c->train.seed = SEED;
    c->prune.begin = c->prune.end = 1; /* so that the shapes are tuned */
    snprintf(c->prune.granularity, sizeof c->prune.granularity, "%s",
             dp_granularity_name(zeros->masks ? zeros->masks->block_rows : zeros->block_rows));
    return dp_train_config_check(c, err) < 0 ? -1 : dp_schemes_check(c, err);
}

static int fill_normal(struct dp_backend *be, float *out, int64_t n, uint64_t index, double std,
                       struct dp_err *err)
{
    const uint64_t key = dp_philox_key(SEED, DP_PHILOX_TRAIN, index);
    float *host = malloc(((size_t)n + 1) * sizeof *host);
    int rc;

    if (!host)
        return dp_err_set(err, DP_ENOMEM, "no memory for a border of %lld floats", (long long)n);
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t bits[4];
        double z[2];

        dp_philox(key, (uint64_t)i, 0, bits);
        dp_philox_normal(bits, z);
        host[i] = (float)(std * z[0]);
        host[i + 1] = (float)(std * z[1]);
    }
    rc = be->ops->put(be, out, host, (size_t)n * sizeof *host, err);
    free(host);
    return rc;
}

static size_t border_bytes(const struct bench_subject *s)
{
    return (size_t)(tokens_of(s) * s->shape.channels) * sizeof(float);
}

static int make_borders(struct bench_subject *s, struct dp_err *err)
{
    const int64_t n = s->shape.is_stage ? tokens_of(s) * s->shape.channels : 0;
    float **const border[] = {&s->in, &s->out, &s->dout, &s->din};

    for (int i = 0; n && i < 4; i++) {
        void *mem;

        if (s->be->ops->alloc(s->be, border_bytes(s), &mem, err) < 0)
            return -1;
        *border[i] = mem;
    }
    if (n && (fill_normal(s->be, s->in, n, KEY_IN, 1.0, err) < 0 ||
              fill_normal(s->be, s->dout, n, KEY_DOUT, 1.0 / (double)n, err) < 0))
        return -1;
    return 0;
}

static int make_tokens(struct bench_subject *s, struct dp_err *err)
{
    const uint64_t key = dp_philox_key(SEED, DP_PHILOX_TRAIN, KEY_TOKENS);
    const int64_t n = tokens_of(s);

    s->tokens = calloc((size_t)n, sizeof *s->tokens);
    s->targets = calloc((size_t)n, sizeof *s->targets);
    if (!s->tokens || !s->targets)
        return dp_err_set(err, DP_ENOMEM, "no memory for tokens");
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits[4];

        dp_philox(key, (uint64_t)i, 0, bits);
        s->tokens[i] = bits[0] % (uint32_t)s->shape.vocabulary;
        s->targets[i] = bits[1] % (uint32_t)s->shape.vocabulary;
    }
    return 0;
}

static int prune_layer(struct dp_layer *l, const struct bench_zeros *zeros, struct dp_err *err)
{
    if (l->kind != DP_LAYER_BLOCK)
        return 0;
    if (zeros->masks)
        return bench_masks_apply(zeros->masks, zeros->is_shuffled, l, err);
    return zeros->sparsity > 0.0 ? bench_masks_random(zeros->sparsity, l, err) : 0;
}

static int make_stage(struct bench_subject *s, const struct bench_zeros *zeros, struct dp_err *err)
{
    const uint32_t first = s->shape.is_stage ? 1 : 0;
    const uint32_t n = (uint32_t)s->shape.blocks + (s->shape.is_stage ? 0 : 2);
    struct dp_layer *layer[DP_MAX_LAYERS];
    uint32_t have = 0;

    for (; have < n; have++) {
        layer[have] = dp_layer_create(&s->config, first + have, s->be, &s->tune, err);
        if (!layer[have])
            break;
        if (prune_layer(layer[have], zeros, err) < 0) {
            dp_layer_destroy(layer[have]);
            break;
        }
    }
    if (have == n)
        s->stage = dp_stage_create(&s->config, s->be, layer, n, 1, err);
    for (uint32_t i = 0; i < have && !s->stage; i++)
        dp_layer_destroy(layer[i]);
    return s->stage ? 0 : -1;
}

static void count_zeros(struct bench_subject *s)
{
    int64_t left = 0, all = 0;

    for (uint32_t i = 0; i < dp_stage_n_layers(s->stage); i++) {
        const struct dp_layer *l = dp_stage_layer(s->stage, i);

        for (uint32_t k = 0; k < l->n_params; k++) {
            const struct dp_param *p = &l->param[k];

            if (!p->prunable)
                continue;
            all += p->rows * p->cols;
            left += p->nnz;
            s->n_prunable++;
            s->n_sparse += p->sparse != NULL;
        }
    }
    s->density = all ? (double)left / (double)all : 1.0;
}

static int measure_spread(struct bench_subject *s, struct dp_err *err)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(s->stage); i++)
        if (bench_spread_add(dp_stage_layer(s->stage, i), s->n_prunable, &s->spread, err) < 0)
            return -1;
    return 0;
}

struct bench_subject *bench_subject_create(const struct bench_shape *shape, const struct bench_zeros *zeros,
                                           struct dp_backend *be, clockid_t clock, struct dp_err *err)
{
    struct bench_subject *s = calloc(1, sizeof *s);
    bool is_pruned = zeros->masks || zeros->sparsity > 0.0;

    if (!s) {
        dp_err_set(err, DP_ENOMEM, "%s: no memory", shape->name);
        return NULL;
    }
    s->shape = *shape;
    s->be = be;
    s->clock = clock;
    if (make_config(shape, zeros, &s->config, err) < 0 ||
        (is_pruned && dp_model_tune(&s->config, be, &s->tune, err) < 0) || make_tokens(s, err) < 0 ||
        make_borders(s, err) < 0 || make_stage(s, zeros, err) < 0)
        goto fail;
    s->squares = calloc(dp_stage_n_layers(s->stage), sizeof *s->squares);
    if (!s->squares) {
        dp_err_set(err, DP_ENOMEM, "no memory for squares");
        goto fail;
    }
    count_zeros(s);
    if (measure_spread(s, err) < 0)
        goto fail;
    return s;
fail:
    dp_err_prefix(err, "%s", shape->name);
    bench_subject_destroy(s);
    return NULL;
}

void bench_subject_destroy(struct bench_subject *s)
{
    if (!s)
        return;
    dp_stage_destroy(s->stage);
    s->be->ops->free(s->be, s->in);
    s->be->ops->free(s->be, s->out);
    s->be->ops->free(s->be, s->dout);
    s->be->ops->free(s->be, s->din);
    free(s->tokens);
    free(s->targets);
    free(s->squares);
    free(s);
}

/* ---- one step ---- */

/* Time since the last call, into a part. */
static void lap(const struct bench_subject *s, struct bench_step *out, enum bench_part part,
                uint64_t *mark_ns)
{
    uint64_t now = dp_clock_read_ns(s->clock);

    out->part_ns[part] += (double)(now - *mark_ns);
    *mark_ns = now;
}

static struct dp_layer *last_layer(struct bench_subject *s)
{
    return dp_stage_layer(s->stage, dp_stage_n_layers(s->stage) - 1);
}

/* As trainer.c's grad_scale(): the largest norm is that of the configuration's default. */
static int clip_scale(struct bench_subject *s, double *scale, struct dp_err *err)
{
    double sum = 0.0, norm;

    if (dp_stage_sum_squares(s->stage, err) < 0 || dp_stage_grad_squares(s->stage, s->squares, err) < 0)
        return -1;
    for (uint32_t i = 0; i < dp_stage_n_layers(s->stage); i++)
        sum += s->squares[i];
    norm = sqrt(sum);
    *scale = norm > s->config.train.clip ? s->config.train.clip / norm : 1.0;
    return 0;
}

static void take_layer_times(struct bench_subject *s, struct bench_step *out)
{
    static const enum bench_part part[] = {[DP_LAYER_EMBEDDING] = BENCH_EMBEDDING,
                                           [DP_LAYER_BLOCK] = BENCH_BLOCKS,
                                           [DP_LAYER_HEAD] = BENCH_HEAD};

    for (uint32_t i = 0; i < dp_stage_n_layers(s->stage); i++) {
        struct dp_layer *l = dp_stage_layer(s->stage, i);

        out->part_ns[part[l->kind]] += (double)(l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns);
        l->fwd_ns = l->bwd_input_ns = l->bwd_weight_ns = l->timed_microbatches = 0;
    }
}

static int run_step(struct bench_subject *s, bool clip, struct bench_step *out, struct dp_err *err)
{
    bool is_model = !s->shape.is_stage;
    double scale = 1.0, loss = 0.0;
    uint64_t mark = dp_clock_read_ns(s->clock);

    dp_stage_touch_tokens(s->stage, s->tokens, tokens_of(s));
    if (s->be->ops->lap(s->be, NULL, err) < 0 ||
        dp_stage_forward(s->stage, 0, s->in, s->tokens, s->targets, s->out, &loss, true, err) < 0)
        return -1;
    lap(s, out, BENCH_FORWARD, &mark);
    if ((s->dout && s->be->ops->copy(s->be, s->din, s->dout, border_bytes(s), err) < 0) ||
        s->be->ops->lap(s->be, NULL, err) < 0 ||
        dp_stage_backward(s->stage, 0, s->din, s->tokens, err) < 0)
        return -1;
    lap(s, out, BENCH_BACKWARD, &mark);
    if (is_model &&
        dp_layer_tied_merge(dp_stage_layer(s->stage, 0), dp_layer_tied_gradient(last_layer(s)), err) < 0)
        return -1;
    lap(s, out, BENCH_TIED, &mark);
    if (clip && clip_scale(s, &scale, err) < 0)
        return -1;
    lap(s, out, BENCH_CLIP, &mark);
    if (dp_stage_step(s->stage, s->step, scale, err) < 0)
        return -1;
    lap(s, out, BENCH_OPTIMIZER, &mark);
    if (is_model) {
        dp_layer_tied_split(dp_stage_layer(s->stage, 0), dp_layer_tied_gradient(last_layer(s)));
        if (dp_layer_tied_set(last_layer(s), dp_layer_tied_weight(dp_stage_layer(s->stage, 0)), err) < 0)
            return -1;
    }
    lap(s, out, BENCH_TIED, &mark);
    if (s->be->ops->laps_collect(s->be, err) < 0)
        return -1;
    out->loss = loss / (double)tokens_of(s);
    return 0;
}

int bench_subject_step(struct bench_subject *s, bool clip, struct bench_step *out, struct dp_err *err)
{
    uint64_t start_ns = dp_clock_read_ns(s->clock), cpu_ns = dp_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct rusage before, after;

    *out = (struct bench_step){0};
    getrusage(RUSAGE_SELF, &before);
    if (run_step(s, clip, out, err) < 0)
        return dp_err_prefix(err, "%s, step %llu", s->shape.name, (unsigned long long)s->step);
    s->step++;
    getrusage(RUSAGE_SELF, &after);
    out->ns = (double)(dp_clock_read_ns(s->clock) - start_ns);
    out->cpu_ns = (double)(dp_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns);
    out->faults = (double)(after.ru_minflt - before.ru_minflt);
    take_layer_times(s, out);
    return 0;
}

/* ---- sizes ---- */

uint64_t bench_subject_parameters(const struct bench_subject *s)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < dp_stage_n_layers(s->stage); i++) {
        const struct dp_layer *l = dp_stage_layer(s->stage, i);

        for (uint32_t k = 0; k < l->n_params; k++)
            if (l->param[k].m)
                sum += (uint64_t)(l->param[k].rows * l->param[k].cols);
    }
    return sum;
}

void bench_subject_memory(const struct bench_subject *s, struct bench_memory *out)
{
    double state = 0.0;

    *out = (struct bench_memory){0};
    for (uint32_t i = 0; i < dp_stage_n_layers(s->stage); i++) {
        const struct dp_layer *l = dp_stage_layer(s->stage, i);

        state += (double)dp_layer_state_bytes(l);
        for (uint32_t k = 0; k < l->n_params; k++) {
            double bytes = (double)l->param[k].n * sizeof(float);

            out->weights += bytes;
            out->gradients += bytes;
            out->optimizer += l->param[k].m ? 2.0 * bytes : 0.0;
        }
    }
    out->indexes = state - out->weights - out->gradients - out->optimizer;
    out->activations = (double)dp_stage_bytes(s->stage, NULL) - state;
}
