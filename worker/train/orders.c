/* SPDX-License-Identifier: BSD-3-Clause */
/* See orders.h. A part is: u64 wishes | squares of the worker's layers | with the head, the losses;
 * all 8 bytes wide, so its length follows from the layout, which rank 0 and the worker share. */
#include "worker/train/orders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/prune.h"

static bool holds_head(const struct dp_layout *l, uint32_t rank)
{
    return l->cut[rank + 1] == l->n_layers && l->cut[rank] < l->n_layers;
}

static size_t part_words(const struct dp_layout *l, uint32_t rank, int64_t microbatches)
{
    if (l->gone[rank])
        return 0;
    return 1 + l->cut[rank + 1] - l->cut[rank] + (holds_head(l, rank) ? (size_t)microbatches : 0);
}

static bool is_every(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
}

void dp_order_decide(const struct dp_train_config *c, uint64_t step, const struct dp_order_input *in,
                     struct dp_order *o)
{
    bool is_last = step >= (uint64_t)c->train.steps, must_stop = in->wishes & (DP_WISH_STOP | DP_WISH_END);

    if (!isfinite(o->loss) || !isfinite(o->grad_norm)) {
        /* Nothing worth keeping: the last checkpoint stays as it is. */
        o->flags = DP_ORDER_STOP;
        o->reason = DP_STOP_DIVERGED;
        return;
    }
    if (dp_prune_due(c, step, &o->target) && o->target > 0)
        o->flags |= DP_ORDER_PRUNE;
    if (in->migration && !is_last && !must_stop) {
        o->flags |= DP_ORDER_HANDOVER;
        o->migration = in->migration;
    }
    if (is_every(c->data.eval_every, step) || is_last)
        o->flags |= DP_ORDER_EVAL;
    if (c->checkpoint.dir[0] && (is_every(c->checkpoint.every, step) || in->wishes || is_last))
        o->flags |= DP_ORDER_SAVE;
    if (is_last || must_stop) {
        o->flags |= DP_ORDER_STOP;
        o->reason = is_last ? DP_STOP_COMPLETED : in->wishes & DP_WISH_STOP ? DP_STOP_SIGNAL : DP_STOP_TIME;
    }
}

/* Sum in layer order, then in microbatch order: the same bits for every layout. */
static void add_up(const struct dp_layout *l, const double *words, const size_t *offset,
                   const struct dp_train_config *c, struct dp_order *o)
{
    double squares = 0, loss = 0;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        const double *p = words + offset[r] / sizeof *words + 1;
        uint32_t n = l->cut[r + 1] - l->cut[r];

        for (uint32_t i = 0; i < n; i++)
            squares += p[i];
        for (int64_t i = 0; holds_head(l, r) && i < c->train.microbatches; i++)
            loss += p[n + i];
    }
    o->grad_norm = sqrt(squares);
    o->loss = loss / (double)(c->train.microbatches * c->train.batch * c->model.context);
}

static uint32_t all_wishes(const struct dp_layout *l, const double *words, const size_t *offset)
{
    uint64_t wishes = 0;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        uint64_t w;

        if (l->gone[r])
            continue;
        memcpy(&w, words + offset[r] / sizeof *words, sizeof w);
        wishes |= w;
    }
    return (uint32_t)wishes;
}

static void fill_part(const struct dp_layout *l, uint32_t rank, const struct dp_step_part *part, int64_t m,
                      double *out)
{
    uint32_t n = l->cut[rank + 1] - l->cut[rank];
    uint64_t wishes = part->wishes;

    memcpy(out, &wishes, sizeof wishes);
    if (n)
        memcpy(out + 1, part->squares, n * sizeof *out);
    if (holds_head(l, rank))
        memcpy(out + 1 + n, part->losses, (size_t)m * sizeof *out);
}

static int check(const struct dp_order *o, uint64_t step, uint64_t epoch, struct dp_err *err)
{
    if (o->step != step || o->epoch != epoch)
        return dp_err_set(err, DP_EPROTO, "order for step %llu, epoch %llu; this worker is at step %llu, epoch %llu",
                          (unsigned long long)o->step, (unsigned long long)o->epoch, (unsigned long long)step,
                          (unsigned long long)epoch);
    return 0;
}

int dp_orders_run(struct dp_collectives *s, const struct dp_train_config *c, uint64_t step,
                  const struct dp_step_part *part, uint64_t migration, struct dp_order *order,
                  struct dp_err *err)
{
    const struct dp_layout *l = s->layout;
    size_t mine = part_words(l, s->rank, c->train.microbatches) * sizeof(double), total = 0;
    size_t offset[DP_MAX_WORKERS + 1];
    double *buffer;
    int rc = -1;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        offset[r] = total;
        total += part_words(l, r, c->train.microbatches) * sizeof(double);
    }
    offset[l->n_workers] = total;
    buffer = malloc(total + mine);
    if (!buffer)
        return dp_err_set(err, DP_ENOMEM, "no memory for the sums of %u workers", l->n_workers);
    fill_part(l, s->rank, part, c->train.microbatches, buffer + total / sizeof *buffer);
    if (dp_collectives_gather(s, buffer + total / sizeof *buffer, mine, buffer, offset, err) < 0)
        goto out;
    memset(order, 0, sizeof *order);
    order->step = step;
    order->epoch = l->epoch;
    if (s->rank == 0) {
        struct dp_order_input in = {.wishes = all_wishes(l, buffer, offset), .migration = migration};

        add_up(l, buffer, offset, c, order);
        dp_order_decide(c, step, &in, order);
    }
    if (dp_collectives_broadcast(s, order, sizeof *order, err) == 0)
        rc = check(order, step, l->epoch, err);
out:
    free(buffer);
    return rc;
}
