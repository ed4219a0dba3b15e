/* SPDX-License-Identifier: BSD-3-Clause */
/* See link_times.h. One round trip is two messages, and each of the two workers handles one end of both.
 * Workers are alike, so: round trip = 2 (way + device time of this worker). Medians, because a
 * round in which another process had the core says nothing about the link. */
#include "worker/net/link_times.h"

#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/numbers.h"

#define ROUNDS 21 /* odd, for the median */
#define NAP_NS 1000000 /* before a round: the partner sleeps, as it does in training */
#define SMALL_BYTES 8 /* next to none: what is left is latency */
#define NO_STEP 0xffffffu    /* no step of a run has this number */

struct measurement {
    struct dp_transport *transport;
    uint32_t peer;
    void *data;
    size_t bytes;
    bool computes;
};

static int finish(struct dp_transport *t, struct dp_transport_request *x, struct dp_err *err)
{
    return x ? dp_transport_wait(t, x, 0, NULL, err) : -1;
}

static int give(const struct measurement *p, uint32_t round, struct dp_err *err)
{
    uint64_t tag = dp_tag(DP_CH_ACTIVATION, 0, NO_STEP, round);

    return finish(p->transport, dp_transport_send(p->transport, p->peer, tag, p->data, p->bytes, err), err);
}

static int take(const struct measurement *p, uint32_t round, struct dp_err *err)
{
    uint64_t tag = dp_tag(DP_CH_ACTIVATION, 0, NO_STEP, round);

    return finish(p->transport, dp_transport_recv(p->transport, p->peer, tag, p->data, p->bytes, err), err);
}

/* Median time of a message of p->bytes on its way. first: number of the first round. */
static int ping(const struct measurement *p, uint32_t first, uint64_t *way_ns, struct dp_err *err)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t way[ROUNDS];

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t start_ns, device_ns;

        nanosleep(&nap, NULL);
        start_ns = dp_now_ns();
        device_ns = dp_thread_cpu_ns();
        if (give(p, first + i, err) < 0 || take(p, first + i, err) < 0)
            return -1;
        device_ns = p->computes ? dp_thread_cpu_ns() - device_ns : 0;
        way[i] = (dp_now_ns() - start_ns) / 2;
        way[i] = way[i] > device_ns ? way[i] - device_ns : 0;
    }
    qsort(way, ROUNDS, sizeof *way, dp_by_u64);
    *way_ns = way[ROUNDS / 2];
    return 0;
}

static int pong(const struct measurement *p, uint32_t first, struct dp_err *err)
{
    for (uint32_t i = 0; i < ROUNDS; i++)
        if (take(p, first + i, err) < 0 || give(p, first + i, err) < 0)
            return -1;
    return 0;
}

/* Both sizes with one neighbour. */
static int with_neighbour(struct measurement *p, size_t stage_message_bytes, bool is_first, struct dp_link_times *out, struct dp_err *err)
{
    uint64_t small_ns = 0, large_ns = 0;

    p->bytes = SMALL_BYTES;
    if ((is_first ? ping(p, 0, &small_ns, err) : pong(p, 0, err)) < 0)
        return -1;
    p->bytes = stage_message_bytes;
    if ((is_first ? ping(p, ROUNDS, &large_ns, err) : pong(p, ROUNDS, err)) < 0)
        return -1;
    if (is_first)
        *out = (struct dp_link_times){.latency_ns = small_ns, .transfer_ns = large_ns > small_ns ? large_ns - small_ns : 0};
    return 0;
}

int dp_link_measure(struct dp_transport *transport, uint32_t rank, uint32_t n, size_t stage_message_bytes, bool computes,
                    struct dp_link_times *out, struct dp_err *err)
{
    struct measurement p = {.transport = transport, .computes = computes};
    int rc = 0;

    *out = (struct dp_link_times){0};
    p.data = calloc(1, stage_message_bytes > SMALL_BYTES ? stage_message_bytes : SMALL_BYTES);
    if (!p.data)
        return dp_err_set(err, DP_ENOMEM, "no memory for a message of %zu bytes", stage_message_bytes);
    for (uint32_t turn = 0; turn < 2 && rc == 0; turn++) {
        bool is_first = rank % 2 == turn;

        if (is_first ? rank + 1 >= n : rank == 0)
            continue;
        p.peer = is_first ? rank + 1 : rank - 1;
        rc = with_neighbour(&p, stage_message_bytes, is_first, out, err);
    }
    free(p.data);
    return rc < 0 ? dp_err_prefix(err, "measuring the link to worker %u", p.peer) : 0;
}
