/* SPDX-License-Identifier: BSD-3-Clause */
/* See collectives.h. Receives are posted for all workers before the first one is waited for, so a slow
 * worker holds up nothing but the result. */
#include "worker/net/collectives.h"

#include <stdlib.h>
#include <string.h>

void dp_collectives_init(struct dp_collectives *c, struct dp_transport *transport, const struct dp_layout *layout,
                         uint32_t rank)
{
    *c = (struct dp_collectives){.transport = transport, .layout = layout, .rank = rank};
}

bool dp_collectives_leads(const struct dp_collectives *c)
{
    return c->rank == dp_layout_leader(c->layout);
}

static bool takes_part(const struct dp_collectives *c, uint32_t rank)
{
    return rank != c->rank && !c->layout->gone[rank];
}

static uint64_t next_tag(struct dp_collectives *c)
{
    return dp_tag(DP_CH_COLLECTIVE, c->epoch, c->round++, 0);
}

static int wait_one(struct dp_collectives *c, struct dp_transport_request *x, struct dp_err *err)
{
    return x ? dp_transport_wait(c->transport, x, 0, &c->wait_ns, err) : -1;
}

/* Wait for n transfers. After the first failure the others are only given up. */
static int wait_all(struct dp_collectives *c, struct dp_transport_request *x[], uint32_t n, struct dp_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (rc < 0)
            dp_transport_cancel(c->transport, x[i]);
        else
            rc = wait_one(c, x[i], err);
    }
    return rc;
}

static int give_up(struct dp_collectives *c, struct dp_transport_request *x[], uint32_t n)
{
    while (n--)
        dp_transport_cancel(c->transport, x[n]);
    return -1;
}

static int gather_here(struct dp_collectives *c, uint64_t tag, char *all, const size_t *offset, struct dp_err *err)
{
    struct dp_transport_request *x[DP_MAX_WORKERS];
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->layout->n_workers; r++) {
        if (!takes_part(c, r))
            continue;
        x[n] = dp_transport_recv(c->transport, r, tag, all + offset[r], offset[r + 1] - offset[r], err);
        if (!x[n++])
            return give_up(c, x, n - 1);
    }
    return wait_all(c, x, n, err);
}

int dp_collectives_gather(struct dp_collectives *c, const void *mine, size_t bytes, void *all, const size_t *offset,
                          struct dp_err *err)
{
    uint64_t tag = next_tag(c);

    if (!dp_collectives_leads(c))
        return wait_one(c, dp_transport_send(c->transport, dp_layout_leader(c->layout), tag, mine, bytes, err), err);
    if (bytes)
        memcpy((char *)all + offset[c->rank], mine, bytes);
    return gather_here(c, tag, all, offset, err);
}

int dp_collectives_broadcast(struct dp_collectives *c, void *data, size_t bytes, struct dp_err *err)
{
    struct dp_transport_request *x[DP_MAX_WORKERS];
    uint64_t tag = next_tag(c);
    uint32_t n = 0;

    if (!dp_collectives_leads(c))
        return wait_one(c, dp_transport_recv(c->transport, dp_layout_leader(c->layout), tag, data, bytes, err), err);
    for (uint32_t r = 0; r < c->layout->n_workers; r++) {
        if (!takes_part(c, r))
            continue;
        x[n] = dp_transport_send(c->transport, r, tag, data, bytes, err);
        if (!x[n++])
            return give_up(c, x, n - 1);
    }
    return wait_all(c, x, n, err);
}

int dp_collectives_allreduce(void *arg, uint64_t *counts, uint32_t n, struct dp_err *err)
{
    struct dp_collectives *c = arg;
    size_t bytes = n * sizeof *counts, offset[DP_MAX_WORKERS + 1];
    bool leads = dp_collectives_leads(c);
    uint64_t *all = NULL;
    int rc = -1;

    for (uint32_t r = 0; r <= c->layout->n_workers; r++)
        offset[r] = r * bytes;
    if (leads) {
        all = malloc(c->layout->n_workers * bytes + 1);
        if (!all)
            return dp_err_set(err, DP_ENOMEM, "no memory for %u counters of each worker", n);
    }
    if (dp_collectives_gather(c, counts, bytes, all, offset, err) < 0)
        goto out;
    for (uint32_t r = 0; leads && r < c->layout->n_workers; r++)
        for (uint32_t i = 0; takes_part(c, r) && i < n; i++)
            counts[i] += all[(size_t)r * n + i];
    rc = dp_collectives_broadcast(c, counts, bytes, err);
out:
    free(all);
    return rc;
}

int dp_collectives_barrier(struct dp_collectives *c, struct dp_err *err)
{
    uint64_t nothing = 0;

    return dp_collectives_allreduce(c, &nothing, 1, err);
}

/* What one worker says about its success. */
struct verdict {
    int32_t rc;
    uint32_t code;
    char text[1024];
};

static void join_verdicts(struct dp_collectives *c, const struct verdict *all, struct verdict *joint)
{
    for (uint32_t r = 0; r < c->layout->n_workers; r++) {
        if (c->layout->gone[r] || all[r].rc == 0)
            continue;
        *joint = all[r];
        joint->text[sizeof joint->text - 1] = '\0';
        return;
    }
}

int dp_collectives_agree(struct dp_collectives *c, int rc, struct dp_err *err)
{
    struct verdict mine = {.rc = rc}, joint = {0}, *all = NULL;
    size_t offset[DP_MAX_WORKERS + 1];
    bool leads = dp_collectives_leads(c);
    int done = -1;

    if (rc < 0) {
        mine.code = err->code;
        memcpy(mine.text, err->text, sizeof mine.text);
    }
    for (uint32_t r = 0; r <= c->layout->n_workers; r++)
        offset[r] = r * sizeof mine;
    if (leads) {
        all = calloc(c->layout->n_workers, sizeof *all);
        if (!all)
            return dp_err_set(err, DP_ENOMEM, "no memory for the answers of %u workers", c->layout->n_workers);
    }
    if (dp_collectives_gather(c, &mine, sizeof mine, all, offset, err) < 0)
        goto out;
    if (leads)
        join_verdicts(c, all, &joint);
    if (dp_collectives_broadcast(c, &joint, sizeof joint, err) < 0)
        goto out;
    done = joint.rc < 0 ? dp_err_set(err, joint.code, "%s", joint.text) : 0;
out:
    free(all);
    return done;
}
