/* SPDX-License-Identifier: BSD-3-Clause */
/* See step_sync.h. A part is: u64 requests | squares of the worker's layers | with each scheme that measures, its numbers of
 * them | with the head, the losses; all 8 bytes wide, so its length follows from the layout and the configuration, which the
 * leader and the worker share. */
#include "worker/step/step_sync.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool holds_head(const struct dp_layout *l, uint32_t rank)
{
    return l->cut[rank + 1] == l->n_layers && l->cut[rank] < l->n_layers;
}

static uint32_t layers_of(const struct dp_layout *l, uint32_t rank)
{
    return l->cut[rank + 1] - l->cut[rank];
}

/* n_measured: dp_schemes_measured() */
static size_t part_words(const struct dp_layout *l, uint32_t rank, uint32_t n_measured, int64_t microbatches)
{
    if (l->gone[rank])
        return 0;
    return 1 + (size_t)(1 + n_measured) * layers_of(l, rank) + (holds_head(l, rank) ? (size_t)microbatches : 0);
}

/* Sum in layer order, then in microbatch order: the same bits for every layout. */
static void add_up(const struct dp_layout *l, const double *words, const size_t *offset, uint32_t n_measured,
                   const struct dp_train_config *c, struct dp_step_order *o)
{
    double squares = 0, loss = 0;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        const double *p = words + offset[r] / sizeof *words + 1;
        uint32_t n = layers_of(l, r);

        for (uint32_t i = 0; i < n; i++)
            squares += p[i];
        p += (size_t)(1 + n_measured) * n;
        for (int64_t i = 0; holds_head(l, r) && i < c->train.microbatches; i++)
            loss += p[i];
    }
    o->grad_norm = sqrt(squares);
    o->loss = loss / (double)(c->train.microbatches * c->train.batch * c->model.context);
}

/* out: [n_measured][layers of the model] */
static void put_together(const struct dp_layout *l, const double *words, const size_t *offset, uint32_t n_measured, double *out)
{
    for (uint32_t r = 0; n_measured && r < l->n_workers; r++) {
        uint32_t n = layers_of(l, r);
        const double *p = words + offset[r] / sizeof *words + 1 + n;

        for (uint32_t k = 0; n && k < n_measured; k++)
            memcpy(out + (size_t)k * l->n_layers + l->cut[r], p + (size_t)k * n, n * sizeof *out);
    }
}

static uint32_t all_requests(const struct dp_layout *l, const double *words, const size_t *offset)
{
    uint64_t requests = 0;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        uint64_t w;

        if (l->gone[r])
            continue;
        memcpy(&w, words + offset[r] / sizeof *words, sizeof w);
        requests |= w;
    }
    return (uint32_t)requests;
}

static void fill_part(const struct dp_layout *l, uint32_t rank, const struct dp_step_part *part, uint32_t n_measured, int64_t m,
                      double *out)
{
    uint32_t n = layers_of(l, rank);
    uint64_t requests = part->requests;

    memcpy(out, &requests, sizeof requests);
    if (n)
        memcpy(out + 1, part->squares, n * sizeof *out);
    out += 1 + n;
    if (n && n_measured)
        memcpy(out, part->measured, (size_t)n_measured * n * sizeof *out);
    if (holds_head(l, rank))
        memcpy(out + (size_t)n_measured * n, part->losses, (size_t)m * sizeof *out);
}

static int check(const struct dp_step_order *o, uint64_t step, uint64_t epoch, struct dp_err *err)
{
    if (o->step != step || o->epoch != epoch)
        return dp_err_set(err, DP_EPROTO, "order for step %llu, epoch %llu; this worker is at step %llu, epoch %llu",
                          (unsigned long long)o->step, (unsigned long long)o->epoch, (unsigned long long)step,
                          (unsigned long long)epoch);
    return 0;
}

int dp_step_sync(struct dp_collectives *s, const struct dp_train_config *c, uint64_t step,
                 const struct dp_step_part *part, const struct dp_reached *reached, uint64_t migration,
                 const struct dp_step_shadow *shadow, struct dp_step_order *order, struct dp_err *err)
{
    const struct dp_layout *l = s->layout;
    const uint32_t n_measured = dp_schemes_measured(c, step);
    size_t mine = part_words(l, s->rank, n_measured, c->train.microbatches) * sizeof(double), total = 0;
    size_t measured = (size_t)n_measured * l->n_layers * sizeof(double), offset[DP_MAX_WORKERS + 1];
    double *buffer;
    int rc = -1;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        offset[r] = total;
        total += part_words(l, r, n_measured, c->train.microbatches) * sizeof(double);
    }
    offset[l->n_workers] = total;
    buffer = malloc(total + mine + measured);
    if (!buffer)
        return dp_err_set(err, DP_ENOMEM, "no memory for the sums of %u workers", l->n_workers);
    fill_part(l, s->rank, part, n_measured, c->train.microbatches, buffer + total / sizeof *buffer);
    if (dp_collectives_gather(s, buffer + total / sizeof *buffer, mine, buffer, offset, err) < 0)
        goto out;
    memset(order, 0, sizeof *order);
    order->step = step;
    order->epoch = l->epoch;
    if (dp_collectives_leads(s)) {
        double *all = buffer + (total + mine) / sizeof *buffer;
        struct dp_step_order_input in = {.requests = all_requests(l, buffer, offset), .migration = migration, .shadow = *shadow,
                                         .n_layers = l->n_layers, .reached = *reached, .measured = all};

        add_up(l, buffer, offset, n_measured, c, order);
        put_together(l, buffer, offset, n_measured, all);
        dp_step_order_decide(c, step, &in, order);
    }
    if (dp_collectives_broadcast(s, order, sizeof *order, err) == 0)
        rc = check(order, step, l->epoch, err);
out:
    free(buffer);
    return rc;
}
