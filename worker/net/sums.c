/* SPDX-License-Identifier: BSD-3-Clause */
/* See sums.h. Receives are posted for all workers before the first one is waited for, so a slow
 * worker holds up nothing but the result. */
#include "worker/net/sums.h"

#include <stdlib.h>
#include <string.h>

void dp_sums_init(struct dp_sums *s, struct dp_transport *transport, const struct dp_layout *layout,
                  uint32_t rank)
{
    *s = (struct dp_sums){.transport = transport, .layout = layout, .rank = rank};
}

static bool takes_part(const struct dp_sums *s, uint32_t rank)
{
    return rank != s->rank && !s->layout->gone[rank];
}

static uint64_t next_tag(struct dp_sums *s)
{
    return dp_tag(DP_CH_SUM, 0, s->round++, 0);
}

static int wait_one(struct dp_sums *s, struct dp_xfer *x, struct dp_err *err)
{
    return x ? dp_transport_wait(s->transport, x, 0, &s->wait_ns, err) : -1;
}

/* Wait for n transfers. After the first failure the others are only given up. */
static int wait_all(struct dp_sums *s, struct dp_xfer *x[], uint32_t n, struct dp_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (rc < 0)
            dp_transport_cancel(s->transport, x[i]);
        else
            rc = wait_one(s, x[i], err);
    }
    return rc;
}

static int give_up(struct dp_sums *s, struct dp_xfer *x[], uint32_t n)
{
    while (n--)
        dp_transport_cancel(s->transport, x[n]);
    return -1;
}

static int gather_here(struct dp_sums *s, uint64_t tag, char *all, const size_t *offset, struct dp_err *err)
{
    struct dp_xfer *x[DP_MAX_WORKERS];
    uint32_t n = 0;

    for (uint32_t r = 0; r < s->layout->n_workers; r++) {
        if (!takes_part(s, r))
            continue;
        x[n] = dp_transport_recv(s->transport, r, tag, all + offset[r], offset[r + 1] - offset[r], err);
        if (!x[n++])
            return give_up(s, x, n - 1);
    }
    return wait_all(s, x, n, err);
}

int dp_sums_gather(struct dp_sums *s, const void *mine, size_t bytes, void *all, const size_t *offset,
                   struct dp_err *err)
{
    uint64_t tag = next_tag(s);

    if (s->rank != 0)
        return wait_one(s, dp_transport_send(s->transport, 0, tag, mine, bytes, err), err);
    if (bytes)
        memcpy((char *)all + offset[0], mine, bytes);
    return gather_here(s, tag, all, offset, err);
}

int dp_sums_broadcast(struct dp_sums *s, void *data, size_t bytes, struct dp_err *err)
{
    struct dp_xfer *x[DP_MAX_WORKERS];
    uint64_t tag = next_tag(s);
    uint32_t n = 0;

    if (s->rank != 0)
        return wait_one(s, dp_transport_recv(s->transport, 0, tag, data, bytes, err), err);
    for (uint32_t r = 0; r < s->layout->n_workers; r++) {
        if (!takes_part(s, r))
            continue;
        x[n] = dp_transport_send(s->transport, r, tag, data, bytes, err);
        if (!x[n++])
            return give_up(s, x, n - 1);
    }
    return wait_all(s, x, n, err);
}

int dp_sums_counts(void *arg, uint64_t *counts, uint32_t n, struct dp_err *err)
{
    struct dp_sums *s = arg;
    size_t bytes = n * sizeof *counts, offset[DP_MAX_WORKERS + 1];
    uint64_t *all = NULL;
    int rc = -1;

    if (s->rank == 0) {
        for (uint32_t r = 0; r <= s->layout->n_workers; r++)
            offset[r] = r * bytes;
        all = malloc(s->layout->n_workers * bytes + 1);
        if (!all)
            return dp_err_set(err, DP_ENOMEM, "no memory for %u counters of each worker", n);
    }
    if (dp_sums_gather(s, counts, bytes, all, offset, err) < 0)
        goto out;
    for (uint32_t r = 1; s->rank == 0 && r < s->layout->n_workers; r++)
        for (uint32_t i = 0; takes_part(s, r) && i < n; i++)
            counts[i] += all[(size_t)r * n + i];
    rc = dp_sums_broadcast(s, counts, bytes, err);
out:
    free(all);
    return rc;
}

int dp_sums_barrier(struct dp_sums *s, struct dp_err *err)
{
    uint64_t nothing = 0;

    return dp_sums_counts(s, &nothing, 1, err);
}

/* What one worker says about its success. */
struct verdict {
    int32_t rc;
    uint32_t code;
    char text[1024];
};

static void join_verdicts(struct dp_sums *s, const struct verdict *all, struct verdict *joint)
{
    for (uint32_t r = 0; r < s->layout->n_workers; r++) {
        if (s->layout->gone[r] || all[r].rc == 0)
            continue;
        *joint = all[r];
        joint->text[sizeof joint->text - 1] = '\0';
        return;
    }
}

int dp_sums_agree(struct dp_sums *s, int rc, struct dp_err *err)
{
    struct verdict mine = {.rc = rc}, joint = {0}, *all = NULL;
    size_t offset[DP_MAX_WORKERS + 1];
    int done = -1;

    if (rc < 0) {
        mine.code = err->code;
        memcpy(mine.text, err->text, sizeof mine.text);
    }
    if (s->rank == 0) {
        for (uint32_t r = 0; r <= s->layout->n_workers; r++)
            offset[r] = r * sizeof mine;
        all = calloc(s->layout->n_workers, sizeof *all);
        if (!all)
            return dp_err_set(err, DP_ENOMEM, "no memory for the answers of %u workers", s->layout->n_workers);
    }
    if (dp_sums_gather(s, &mine, sizeof mine, all, offset, err) < 0)
        goto out;
    if (s->rank == 0)
        join_verdicts(s, all, &joint);
    if (dp_sums_broadcast(s, &joint, sizeof joint, err) < 0)
        goto out;
    done = joint.rc < 0 ? dp_err_set(err, joint.code, "%s", joint.text) : 0;
out:
    free(all);
    return done;
}
