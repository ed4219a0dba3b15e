/* SPDX-License-Identifier: BSD-3-Clause */
/* DynMo's centralised balancer (SC'25, doi 10.1145/3712285.3759775; balancer/deepspeed.py of the released
 * code; written anew from its description): DeepSpeed's static partition, asked again after every
 * pruning step, by remaining parameters or by forward time (it measures no backward). Layers that
 * change hands are moved one by one, in their order; a move whose destination would pass its memory,
 * with the average of a layer of the source added, is left out.
 *
 * Leaving one out tears the network: the released code goes on with layers out of order, which is
 * another network. Here such an answer is none: the cuts in force stay, and the note says why.
 */
#include <stdio.h>
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"

struct moves {
    const struct dp_chain *chain;
    const uint32_t *from, *to; /* cuts before and after */
    uint64_t *bytes;           /* [p] now */
    uint32_t *layers;          /* [p] now */
};

static bool has_room(const struct moves *m, uint32_t source, uint32_t dest)
{
    const struct dp_partition *q = m->chain->q;
    uint64_t cap = q->cap_bytes ? q->cap_bytes[dest] : 0;

    return !cap || !q->fixed_bytes || m->bytes[dest] + m->bytes[source] / m->layers[source] <= cap;
}

/* Do all moves find room? layer: the first that does not. */
static bool all_fit(struct moves *m, uint32_t *layer)
{
    uint32_t a = 0, b = 0;

    for (uint32_t i = 0; i < m->chain->q->n; i++) {
        uint64_t share;

        while (m->from[a + 1] <= i)
            a++;
        while (m->to[b + 1] <= i)
            b++;
        if (a == b)
            continue;
        if (!has_room(m, a, b)) {
            *layer = i;
            return false;
        }
        share = m->bytes[a] / m->layers[a];
        m->bytes[a] -= share;
        m->bytes[b] += share;
        m->layers[a]--;
        m->layers[b]++;
    }
    return true;
}

int dp_balancer_dynmo(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                      struct dp_err *err)
{
    uint32_t *from = calloc((size_t)q->p + 1, sizeof *from), *layers = calloc((size_t)q->p + 1, sizeof *layers);
    uint64_t *bytes = calloc((size_t)q->p + 1, sizeof *bytes);
    struct dp_chain chain = {0};
    struct moves m = {.chain = &chain, .from = from, .to = cut, .bytes = bytes, .layers = layers};
    uint32_t layer;
    int rc = -1;

    if (!from || !layers || !bytes) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        goto out;
    }
    if (dp_chain_init(&chain, q, err) < 0 || dp_balancer_deepspeed(q, cut, note, err) < 0)
        goto out;
    dp_chain_start(q, from);
    for (uint32_t b = 0; b < q->p; b++) {
        layers[b] = from[b + 1] - from[b];
        bytes[b] = dp_chain_bytes(&chain, b, from[b], from[b + 1]);
    }
    if (!all_fit(&m, &layer)) {
        snprintf(note->text, sizeof note->text, "no room to move layer %u: stays", layer);
        for (uint32_t b = 0; b <= q->p; b++)
            cut[b] = from[b];
    }
    rc = 0;
out:
    dp_chain_release(&chain);
    free(from);
    free(layers);
    free(bytes);
    return rc;
}

DP_BALANCER_POLICY(dynmo_param, "dynmo-param", DP_BY_PARAM, dp_balancer_dynmo,
                   "DynMo's centralised bisection, by remaining parameters");
DP_BALANCER_POLICY(dynmo_time, "dynmo-time", DP_BY_FORWARD, dp_balancer_dynmo,
                   "DynMo's centralised bisection, by forward time");
