/* SPDX-License-Identifier: BSD-3-Clause */
/* See links.h. */
#include "policies/predict/links.h"

#include <string.h>

/* Where the pair is, or would be. */
static uint32_t place_of(const struct dp_links *l, uint32_t a, uint32_t b)
{
    uint32_t low = 0, high = l->n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct dp_link_time *t = &l->link[mid];

        if (t->a < a || (t->a == a && t->b < b))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static const struct dp_link_time *find(const struct dp_links *l, uint32_t a, uint32_t b)
{
    uint32_t i = place_of(l, a, b);

    return i < l->n && l->link[i].a == a && l->link[i].b == b ? &l->link[i] : NULL;
}

static uint32_t fastest_of(const struct dp_links *l, uint32_t slot)
{
    uint32_t ns = UINT32_MAX;

    for (uint32_t i = 0; i < l->n; i++)
        if ((l->link[i].a == slot || l->link[i].b == slot) && l->link[i].ns < ns)
            ns = l->link[i].ns;
    return ns == UINT32_MAX ? 0 : ns;
}

void dp_links_set(struct dp_links *l, uint32_t a, uint32_t b, uint32_t ns)
{
    uint32_t low = a < b ? a : b, high = a < b ? b : a, i;

    if (low == high || high >= DP_MAX_WORKERS)
        return;
    i = place_of(l, low, high);
    if (!find(l, low, high)) {
        if (l->n == DP_LINKS_MAX)
            return;
        memmove(&l->link[i + 1], &l->link[i], (l->n++ - i) * sizeof l->link[0]);
    }
    l->link[i] = (struct dp_link_time){(uint16_t)low, (uint16_t)high, ns};
    l->slot_ns[low] = fastest_of(l, low);
    l->slot_ns[high] = fastest_of(l, high);
}

uint32_t dp_links_ns(const struct dp_links *l, uint32_t a, uint32_t b)
{
    const struct dp_link_time *t = a < b ? find(l, a, b) : find(l, b, a);

    if (a == b || a >= DP_MAX_WORKERS || b >= DP_MAX_WORKERS)
        return 0;
    if (t)
        return t->ns;
    return l->slot_ns[a] > l->slot_ns[b] ? l->slot_ns[a] : l->slot_ns[b];
}

bool dp_links_are_slow(const struct dp_links *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->link[i].ns)
            return true;
    return false;
}
