/* SPDX-License-Identifier: BSD-3-Clause */
/* See pack_hosts.h. */
#include "policies/decide/pack_hosts.h"

#include <stdbool.h>
#include <string.h>

/* Numbers the nodes in the order of their slots, home's before all others. */
static void number(struct dp_pack_hosts *h, const struct dp_policy_in *in)
{
    uint32_t number_of[DP_MAX_WORKERS];

    memset(number_of, 0xff, sizeof number_of); /* DP_NO_NODE */
    number_of[in->slot_host[in->batch_slot]] = h->n++;
    for (uint32_t s = 0; s < in->n_slots; s++) {
        uint32_t *k = &number_of[in->slot_host[s]];

        h->node[s] = DP_NO_NODE;
        if (!h->slot_size[s] && s != in->batch_slot)
            continue;
        if (*k == DP_NO_NODE)
            *k = h->n++;
        h->node[s] = *k;
        h->size[*k] += h->slot_size[s];
    }
}

void dp_pack_hosts_init(struct dp_pack_hosts *h, const struct dp_policy_in *in)
{
    uint32_t n_usable = 0;

    memset(h, 0, sizeof *h);
    h->n_slots = in->n_slots;
    h->batch_slot = in->batch_slot;
    if (!in->slot_host)
        return;
    for (uint32_t d = 0; d < in->n_devices; d++)
        h->slot_size[in->device[d].slot] += in->device[d].is_allowed && !in->current->gone[d];
    number(h, in);
    for (uint32_t s = 0; s < h->n_slots; s++)
        n_usable += h->node[s] != DP_NO_NODE;
    if (h->n == n_usable)
        h->n = 0; /* a slot is a node */
}

/* The node to fill next, of those that are not in use: the smallest on which `left` devices find room, else the largest. */
static uint32_t next_node(const struct dp_pack_hosts *h, const bool *is_used, uint32_t left)
{
    uint32_t best = DP_NO_NODE;

    for (uint32_t k = 0; k < h->n; k++) {
        bool fits = h->size[k] >= left, best_fits = best != DP_NO_NODE && h->size[best] >= left;

        if (is_used[k])
            continue;
        if (best == DP_NO_NODE || (fits && !best_fits) ||
            (fits == best_fits && (fits ? h->size[k] < h->size[best] : h->size[k] > h->size[best])))
            best = k;
    }
    return best;
}

uint32_t dp_pack_hosts_order(const struct dp_pack_hosts *h, uint32_t n_devices, uint32_t slot[DP_MAX_WORKERS])
{
    bool is_used[DP_MAX_WORKERS] = {false};
    uint32_t n = 0, left = n_devices, k = 0;

    if (h->n)
        slot[n++] = h->batch_slot; /* stays, however few are kept */
    for (uint32_t i = 0; i < h->n; i++) {
        for (uint32_t s = 0; s < h->n_slots; s++)
            if (h->node[s] == k && s != h->batch_slot)
                slot[n++] = s;
        is_used[k] = true;
        left -= left < h->size[k] ? left : h->size[k];
        k = next_node(h, is_used, left);
    }
    return n;
}

struct dp_pack_used dp_pack_hosts_used(const struct dp_pack_hosts *h, const uint8_t *keep)
{
    bool is_used[DP_MAX_WORKERS] = {false};
    struct dp_pack_used out = {0};

    for (uint32_t s = 0; h->n && s < h->n_slots; s++) {
        uint32_t k = h->node[s];

        if (!keep[s] || k == DP_NO_NODE || is_used[k])
            continue;
        is_used[k] = true;
        out.nodes++;
        out.devices += h->size[k];
    }
    return out;
}

int dp_pack_hosts_compare(struct dp_pack_used a, struct dp_pack_used b)
{
    if (a.nodes != b.nodes)
        return a.nodes < b.nodes ? -1 : 1;
    return (a.devices > b.devices) - (a.devices < b.devices);
}
