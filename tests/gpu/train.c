/* SPDX-License-Identifier: BSD-3-Clause */
/* train [--workers=1|2] [--model=gpt2|tiny] [--steps=N] PLUGIN: some steps of training on a CUDA backend, the shared object
 * PLUGIN, with the stages of worker/model and nothing else of a worker: no UCX, PMIx, libconfig or jansson, which a machine
 * with a card may lack. Tokens are random and the same in every step, so the loss must fall. TAP.
 *
 * Two workers are two processes on the same card, half of the model each, that hand each other activations through a
 * socket by way of the host: not how worker/net does it, but the same stages, whose losses must be bit for bit those of
 * one worker (the line "# losses"). All microbatches forward, then all backward.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>

#include "common/clock.h"
#include "worker/model/philox.h"
#include "worker/model/stage.h"

#define KEY_TOKENS 1000002 /* any number that is no layer */
#define MOST_MICROBATCHES 8

static const struct model {
    const char *name;
    int64_t blocks, channels, heads, vocabulary, context, batch, microbatches;
} models[] = {
    {"gpt2", 12, 768, 12, 50257, 1024, 4, 2}, /* 124 M parameters */
    {"tiny", 2, 12, 2, 37, 9, 2, 2},
};

struct worker {
    int rank, n;  /* of n */
    int peer;     /* a socket to the other one */
    struct dp_train_config config;
    struct dp_backend be;
    struct dp_tune tune;
    struct dp_stage *stage;
    uint32_t n_layers; /* of the stage */
    int64_t microbatch; /* tokens */
    uint32_t *host_tokens, *tokens, *targets; /* tokens of all microbatches, [host] and [device] */
    float *border[MOST_MICROBATCHES];         /* [device] activations, which stay until backward */
    float *gradient;                          /* [device] of those of one microbatch */
    float *head_gradient;                     /* [device] of the other worker's head */
    double *loss;                             /* [device] per microbatch */
    void *through;                            /* [host] what goes to the other worker */
};

static void die(const char *what, const struct dp_err *err) __attribute__((noreturn));
static void die(const char *what, const struct dp_err *err)
{
    printf("Bail out! %s: %s\n", what, err ? err->text : strerror(errno));
    fflush(stdout);
    _exit(1);
}

/* OPS(w, put, dst, src, bytes) */
#define OPS(w, call, ...)                                             \
    do {                                                              \
        struct dp_err ops_err;                                        \
        if ((w)->be.ops->call(&(w)->be, __VA_ARGS__, &ops_err) < 0)   \
            die(#call, &ops_err);                                     \
    } while (0)

static void *room(struct worker *w, size_t bytes)
{
    void *p;

    OPS(w, alloc, bytes, &p);
    return p;
}

static bool is_first(const struct worker *w)
{
    return w->rank == 0;
}

static bool is_last(const struct worker *w)
{
    return w->rank == w->n - 1;
}

/* ---- to the other worker and from it ---- */

static void send_host(const struct worker *w, const void *p, size_t bytes)
{
    const char *at = p;

    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(w->peer, at + done, bytes - done);

        if (n <= 0)
            die("the other worker", NULL);
        done += (size_t)n;
    }
}

static void receive_host(const struct worker *w, void *p, size_t bytes)
{
    char *at = p;

    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(w->peer, at + done, bytes - done);

        if (n <= 0)
            die("the other worker has ended", NULL);
        done += (size_t)n;
    }
}

static void send_device(struct worker *w, const void *p, size_t bytes)
{
    OPS(w, get, w->through, p, bytes);
    send_host(w, w->through, bytes);
}

static void receive_device(struct worker *w, void *p, size_t bytes)
{
    receive_host(w, w->through, bytes);
    OPS(w, put, p, w->through, bytes);
}

/* ---- beginning ---- */

/* etc/gpt2-124m.conf has such a model; here are no files. */
static void configure(struct worker *w, const struct model *m, int64_t steps)
{
    struct dp_train_config *c = &w->config;

    *c = (struct dp_train_config){
        .model = {m->blocks, m->channels, m->heads, m->context, m->vocabulary, true},
        .train = {.steps = steps, .batch = m->batch, .microbatches = m->microbatches, .lr = 6e-4, .min_lr = 6e-4,
                  .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1.0, .seed = 1},
        .prune = {.pattern = "global", .granularity = "weight"},
        .pipeline = {.schedule = "gpipe", .backend = "cuda", .threads = 1},
    };
    w->microbatch = m->batch * m->context;
}

static void make_tokens(struct worker *w)
{
    const uint64_t key = dp_philox_key(w->config.train.seed, DP_PHILOX_TRAIN, KEY_TOKENS);
    const int64_t n = w->microbatch * w->config.train.microbatches;
    uint32_t *targets = calloc((size_t)n, sizeof *targets);

    w->host_tokens = calloc((size_t)n, sizeof *w->host_tokens);
    if (!w->host_tokens || !targets)
        die("tokens", NULL);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits[4];

        dp_philox(key, (uint64_t)i, 0, bits);
        w->host_tokens[i] = bits[0] % (uint32_t)w->config.model.vocabulary;
        targets[i] = bits[1] % (uint32_t)w->config.model.vocabulary;
    }
    w->tokens = room(w, (size_t)n * sizeof *targets), w->targets = room(w, (size_t)n * sizeof *targets);
    OPS(w, put, w->tokens, w->host_tokens, (size_t)n * sizeof *targets);
    OPS(w, put, w->targets, targets, (size_t)n * sizeof *targets);
    free(targets);
}

static size_t border_bytes(const struct worker *w)
{
    return (size_t)(w->microbatch * w->config.model.channels) * sizeof(float);
}

static size_t tied_bytes(const struct worker *w)
{
    return (size_t)dp_layer_tied_count(&w->config) * sizeof(float);
}

static void make_stage(struct worker *w)
{
    const uint32_t all = (uint32_t)w->config.model.blocks + 2, half = w->n == 1 ? 0 : all / 2;
    const uint32_t first = is_first(w) ? 0 : half, end = is_last(w) ? all : half;
    struct dp_layer *layers[64];
    struct dp_err err;

    w->n_layers = end - first;
    for (uint32_t i = 0; i < w->n_layers; i++)
        if (!(layers[i] = dp_layer_create(&w->config, first + i, &w->be, &w->tune, &err)))
            die("a layer", &err);
    w->stage = dp_stage_create(&w->config, &w->be, layers, w->n_layers, (uint32_t)w->config.train.microbatches, &err);
    if (!w->stage)
        die("the stage", &err);
    for (int i = 0; i < w->config.train.microbatches; i++)
        w->border[i] = room(w, border_bytes(w));
    w->gradient = room(w, border_bytes(w));
    w->loss = room(w, MOST_MICROBATCHES * sizeof *w->loss);
    if (w->n == 2) {
        w->through = malloc(tied_bytes(w) > border_bytes(w) ? tied_bytes(w) : border_bytes(w));
        w->head_gradient = room(w, tied_bytes(w));
        if (!w->through)
            die("a buffer", NULL);
    }
}

static void begin(struct worker *w, const char *plugin)
{
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    struct dp_err err;

    w->be.ops = library ? dlsym(library, "dp_backend_v1") : NULL;
    if (!w->be.ops || w->be.ops->abi != DP_BACKEND_ABI) {
        printf("Bail out! %s: %s\n", plugin, library ? "another interface" : dlerror());
        exit(1);
    }
    if (w->be.ops->open(&w->be, 0, 1, &err) < 0 || w->be.ops->info(&w->be, &w->be.info, &err) < 0)
        die("the card", &err);
    make_tokens(w);
    make_stage(w);
}

/* ---- a step ---- */

static struct dp_layer *layer(const struct worker *w, uint32_t i)
{
    return dp_stage_layer(w->stage, i);
}

/* The gradients of the head go to the embedding. */
static void merge_tied(struct worker *w)
{
    struct dp_err err = {.code = DP_OK};
    float **head = is_last(w) ? dp_layer_tied_gradient(layer(w, w->n_layers - 1)) : &w->head_gradient;

    if (!is_first(w))
        send_device(w, *head, tied_bytes(w));
    else if (!is_last(w))
        receive_device(w, *head, tied_bytes(w));
    if (is_first(w) && dp_layer_tied_merge(layer(w, 0), head, &err) < 0)
        die("the tied gradient", &err);
}

/* The embedding's weights go to the head; the head's gradient is zero again. */
static void split_tied(struct worker *w)
{
    struct dp_err err = {.code = DP_OK};
    int rc = 0;

    if (is_first(w) && is_last(w)) {
        dp_layer_tied_split(layer(w, 0), dp_layer_tied_gradient(layer(w, w->n_layers - 1)));
        rc = dp_layer_tied_set(layer(w, w->n_layers - 1), dp_layer_tied_weight(layer(w, 0)), &err);
    } else if (is_first(w)) {
        dp_layer_tied_split(layer(w, 0), &w->head_gradient);
        send_device(w, dp_layer_tied_weight(layer(w, 0)), tied_bytes(w));
    } else {
        OPS(w, zero, *dp_layer_tied_gradient(layer(w, w->n_layers - 1)), tied_bytes(w));
        receive_device(w, w->head_gradient, tied_bytes(w));
        rc = dp_layer_tied_set(layer(w, w->n_layers - 1), w->head_gradient, &err);
    }
    if (rc < 0)
        die("the tied weights", &err);
}

/* As worker/train does it: squares of all layers, in their order. */
static double clip_scale(struct worker *w)
{
    double squares[64], sum = 0.0, scale;
    const uint32_t all = (uint32_t)w->config.model.blocks + 2;
    struct dp_err err;

    if (dp_stage_sum_squares(w->stage, &err) < 0 ||
        dp_stage_grad_squares(w->stage, squares + (is_first(w) ? 0 : all - w->n_layers), &err) < 0)
        die("squares", &err);
    if (!is_first(w)) {
        send_host(w, squares + all - w->n_layers, w->n_layers * sizeof *squares);
        receive_host(w, &scale, sizeof scale);
        return scale;
    }
    if (!is_last(w))
        receive_host(w, squares + w->n_layers, (all - w->n_layers) * sizeof *squares);
    for (uint32_t i = 0; i < all; i++)
        sum += squares[i];
    scale = sqrt(sum) > w->config.train.clip ? w->config.train.clip / sqrt(sum) : 1.0;
    if (!is_last(w))
        send_host(w, &scale, sizeof scale);
    return scale;
}

/* returns: the mean loss, nats, where the head is */
static double step(struct worker *w, uint64_t number)
{
    const uint32_t m = (uint32_t)w->config.train.microbatches;
    double losses[MOST_MICROBATCHES], sum = 0.0;
    struct dp_err err;

    dp_stage_touch_tokens(w->stage, w->host_tokens, w->microbatch * m);
    OPS(w, lap, NULL);
    for (uint32_t i = 0; i < m; i++) {
        if (!is_first(w))
            receive_device(w, w->border[i], border_bytes(w));
        if (dp_stage_forward(w->stage, i, w->border[i], w->tokens + i * w->microbatch,
                             is_last(w) ? w->targets + i * w->microbatch : NULL, w->border[i], is_last(w) ? w->loss + i : NULL,
                             true, &err) < 0)
            die("forward", &err);
        if (!is_last(w))
            send_device(w, w->border[i], border_bytes(w));
    }
    for (uint32_t i = 0; i < m; i++) {
        if (!is_last(w))
            receive_device(w, w->gradient, border_bytes(w));
        if (dp_stage_backward(w->stage, i, w->n == 1 ? NULL : w->gradient, w->tokens + i * w->microbatch, &err) < 0)
            die("backward", &err);
        if (!is_first(w))
            send_device(w, w->gradient, border_bytes(w));
    }
    merge_tied(w);
    if (dp_stage_step(w->stage, number, clip_scale(w), &err) < 0)
        die("AdamW", &err);
    split_tied(w);
    if (w->be.ops->laps_collect(&w->be, &err) < 0)
        die("laps", &err);
    if (!is_last(w))
        return 0.0;
    OPS(w, get, losses, w->loss, m * sizeof *losses);
    for (uint32_t i = 0; i < m; i++)
        sum += losses[i];
    return sum / (double)(w->microbatch * m);
}

/* The worker with the head says how it went. returns: whether the loss fell */
static bool run(struct worker *w, const char *plugin)
{
    double first = 0.0, loss = 0.0, best = INFINITY;
    struct dp_err err;

    begin(w, plugin);
    if (is_last(w))
        printf("# %s, %d worker%s, %lld tokens a step\n", w->be.info.name, w->n, w->n == 1 ? "" : "s",
               (long long)(w->microbatch * w->config.train.microbatches));
    for (int64_t i = 0; i < w->config.train.steps; i++) {
        const uint64_t from = dp_now_ns();
        double ms;

        loss = step(w, (uint64_t)i);
        if (w->be.ops->sync(&w->be, &err) < 0)
            die("sync", &err);
        ms = (double)(dp_now_ns() - from) / 1e6;
        best = i > 0 && ms < best ? ms : best; /* the first step measures and allocates */
        first = i ? first : loss;
        if (is_last(w))
            printf("# step %lld: loss %.6f, %.1f ms\n# losses %lld %a\n", (long long)i, loss, ms, (long long)i, loss);
    }
    dp_stage_destroy(w->stage);
    w->be.ops->close(&w->be);
    if (is_last(w))
        printf("# best step %.1f ms, %.0f tokens/s\n", best,
               (double)(w->microbatch * w->config.train.microbatches) / best * 1e3);
    return loss < first && isfinite(loss);
}

int main(int argc, char **argv)
{
    const struct model *m = &models[0];
    struct worker w = {.n = 1, .peer = -1};
    long steps = 10;
    int fds[2], status = 0;
    pid_t pid = 0;
    bool is_ok, records = false;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; argc > 1 && !strncmp(argv[1], "--", 2); argc--, argv++)
        if (!strcmp(argv[1], "--workers=2"))
            w.n = 2;
        else if (!strcmp(argv[1], "--model=tiny"))
            m = &models[1];
        else if (!strcmp(argv[1], "--record"))
            records = true;
        else if (!strncmp(argv[1], "--steps=", 8))
            steps = strtol(argv[1] + 8, NULL, 10);
    if (argc != 2 || steps < 1) {
        fprintf(stderr, "usage: train [--workers=1|2] [--model=gpt2|tiny] [--steps=N] [--record] PLUGIN\n");
        return 2;
    }
    configure(&w, m, steps);
    if (records)
        snprintf(w.config.pipeline.record, sizeof w.config.pipeline.record, "on");
    if (w.n == 2) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 || (pid = fork()) < 0) /* before anyone asks for the card */
            die("a second process", NULL);
        w.rank = pid ? 1 : 0;
        w.peer = fds[w.rank];
        close(fds[!w.rank]);
    }
    is_ok = run(&w, argv[1]);
    if (w.n == 2 && !pid)
        _exit(0);
    if (pid && (waitpid(pid, &status, 0) != pid || status))
        is_ok = false;
    printf("%s 1 - %s: the loss falls, %d worker%s\n1..1\n", is_ok ? "ok" : "not ok", m->name, w.n, w.n == 1 ? "" : "s");
    return is_ok ? 0 : 1;
}
