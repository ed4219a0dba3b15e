/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages between two slots take longer than the configuration says, as far as it was measured.
 *
 * Where two slots never were neighbours nobody has measured it. A slot whose links are all slow has a slow way into
 * the network; one with a fast link has not. So for such a pair counts the slower of both slots, each as fast as the
 * fastest of its links: of a chain a - b - c - d whose link b - c alone is slow, a - c and b - d are taken for fast,
 * and where a - b is slow, a - c and a - d for slow, since a may be what is slow.
 */
#ifndef DP_POLICIES_PREDICT_LINKS_H
#define DP_POLICIES_PREDICT_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/run/layout.h"

/* Neighbours of a pipeline of DP_MAX_WORKERS, one layout; LINKS_PER_RECORD of them survive a restart. */
#define DP_LINKS_MAX 512

struct dp_link_time {
    uint16_t a, b; /* slots, a < b */
    uint32_t ns;   /* more than configured, one way */
};

struct dp_links {
    uint32_t n;
    struct dp_link_time link[DP_LINKS_MAX]; /* sorted by a, b */
    uint32_t slot_ns[DP_MAX_WORKERS];       /* of the fastest link of a slot; 0: none was measured */
};

/* Add a pair, or replace what is known of it. What does not fit is left out: nothing is known of it. */
void dp_links_set(struct dp_links *l, uint32_t a, uint32_t b, uint32_t ns);
/* One message between two slots; 0 within one. */
uint32_t dp_links_ns(const struct dp_links *l, uint32_t a, uint32_t b);
/* Is any link slower than configured? */
bool dp_links_are_slow(const struct dp_links *l);

#endif
