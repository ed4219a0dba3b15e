/* SPDX-License-Identifier: BSD-3-Clause */
/* See messages.h. */
#include "worker/bench/messages.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/step/step_sync.h"

static struct dp_transport_request *start(struct dp_transport *t, bool sends, uint32_t peer, uint64_t tag, void *data,
                                          size_t n, struct dp_err *err)
{
    return sends ? dp_transport_send(t, peer, tag, data, n, err)
                 : dp_transport_recv(t, peer, tag, data, n, err);
}

static int finish(struct dp_transport *t, struct dp_transport_request *x, struct dp_err *err)
{
    return x && dp_transport_wait(t, x, 0, NULL, err) == 0 ? 0 : -1;
}

/* One message of `bytes`, to its end. */
static int pass(struct dp_transport *t, bool sends, uint32_t peer, uint64_t tag, void *data, size_t bytes,
                struct dp_err *err)
{
    return finish(t, start(t, sends, peer, tag, data, bytes, err), err);
}

/* A sample of bench_one_way, and an empty answer that says that all have arrived. */
static int stream(struct dp_transport *t, uint32_t rank, uint64_t round, char *data[2], size_t bytes,
                  struct dp_err *err)
{
    struct dp_transport_request *x[2] = {NULL, NULL};

    for (uint32_t i = 0; i < BENCH_MESSAGES; i++) {
        if (x[i % 2] && finish(t, x[i % 2], err) < 0)
            return -1;
        x[i % 2] = start(t, rank == 0, !rank, dp_tag(DP_CH_ACTIVATION, 0, round, i), data[i % 2], bytes, err);
        if (!x[i % 2])
            return -1;
    }
    if (finish(t, x[0], err) < 0 || finish(t, x[1], err) < 0)
        return -1;
    return pass(t, rank != 0, !rank, dp_tag(DP_CH_WIREUP, 0, round, 0), data[0], 0, err);
}

int bench_one_way(struct dp_transport *t, uint32_t rank, size_t bytes, int rounds, double *samples,
                  struct dp_err *err)
{
    char *data[2] = {malloc(bytes), malloc(bytes)};
    int rc = 0;

    if (!data[0] || !data[1])
        rc = dp_err_set(err, DP_ENOMEM, "no memory for messages of %zu bytes", bytes);
    for (int i = 0; rc == 0 && i < 2; i++)
        memset(data[i], 1 + i, bytes);
    for (int i = -2; rc == 0 && i < rounds; i++) { /* two to warm up */
        uint64_t start_ns = dp_now_ns();

        rc = stream(t, rank, (uint64_t)(i + 2), data, bytes, err);
        if (i >= 0)
            samples[i] = (double)(dp_now_ns() - start_ns) / BENCH_MESSAGES;
    }
    free(data[0]);
    free(data[1]);
    return rc;
}

int bench_and_back(struct dp_transport *t, uint32_t rank, size_t bytes, int rounds, double *samples,
                   struct dp_err *err)
{
    char *data = calloc(1, bytes);
    int rc = data ? 0 : dp_err_set(err, DP_ENOMEM, "no memory for messages of %zu bytes", bytes);

    for (int i = -2; rc == 0 && i < rounds; i++) {
        uint64_t start_ns = dp_now_ns(), round = (uint64_t)(i + 2);

        for (uint32_t k = 0; rc == 0 && k < 2 * BENCH_MESSAGES; k++)
            rc = pass(t, k % 2 == rank, !rank, dp_tag(DP_CH_COLLECTIVE, 0, round, k), data, bytes, err);
        if (i >= 0)
            samples[i] = (double)(dp_now_ns() - start_ns) / BENCH_MESSAGES;
    }
    free(data);
    return rc;
}

int bench_step_sync(struct dp_transport *t, uint32_t rank, uint32_t n_workers, int rounds, double *samples,
                    double *cpu_ns, struct dp_err *err)
{
    const struct dp_train_config config = {
        .train = {.steps = INT64_MAX, .microbatches = BENCH_MICROBATCHES, .batch = 1},
        .model.context = 1,
        .prune.every = 1};
    const double squares[BENCH_LAYERS] = {1}, losses[BENCH_MICROBATCHES] = {1};
    const struct dp_step_part part = {.squares = squares, .losses = losses};
    struct dp_layout layout = {.n_workers = n_workers, .n_layers = BENCH_LAYERS};
    uint64_t cpu_start_ns = 0;
    struct dp_step_order order;
    struct dp_collectives collectives;

    for (uint32_t r = 0; r <= n_workers; r++)
        layout.cut[r] = r * BENCH_LAYERS / n_workers;
    dp_collectives_init(&collectives, t, &layout, rank);
    for (int i = -2; i < rounds; i++) {
        uint64_t start_ns = dp_now_ns();

        if (i == 0)
            cpu_start_ns = dp_thread_cpu_ns();
        if (dp_step_sync(&collectives, &config, (uint64_t)(i + 3), &part, &(struct dp_reached){0}, 0, &(struct dp_step_shadow){0}, &order,
                         err) < 0)
            return -1;
        if (i >= 0)
            samples[i] = (double)(dp_now_ns() - start_ns);
    }
    *cpu_ns = (double)(dp_thread_cpu_ns() - cpu_start_ns) / rounds;
    return 0;
}
