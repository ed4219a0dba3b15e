/* SPDX-License-Identifier: BSD-3-Clause */
/* See share.h. */
#include "daemon/net/share.h"

#include <stdlib.h>

#define SECOND 1e9 /* in ns */
#define LINES_PER_S 10.0 /* a user's, of the log */
#define LINES_BURST 300.0 /* what one run may write at once (run/run.c), and half as much again */
#define LOOKUPS_PER_S 0.5 /* questions to slurmctld that a user can cause */
#define LOOKUPS_BURST 10.0 /* a few steps that start at the same time */
#define SAY_EVERY_NS UINT64_C(10000000000) /* how many lines were left out */
#define LINES_TO_SAY 20.0 /* that would fit in: the flood is over */

bool dp_bucket_has(struct dp_bucket *b, double per_s, double burst, uint64_t now_ns)
{
    b->level = b->at_ns ? b->level + (double)(now_ns - b->at_ns) / SECOND * per_s : burst;
    b->at_ns = now_ns;
    if (b->level > burst)
        b->level = burst;
    return b->level > 0.0;
}

struct dp_share *dp_share_of(struct dp_share **list, uint32_t id)
{
    struct dp_share *s;

    for (s = *list; s; s = s->next)
        if (s->id == id)
            return s;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->id = id;
    s->next = *list;
    *list = s;
    return s;
}

bool dp_share_has_units(struct dp_share *s, uint64_t now_ns)
{
    return dp_bucket_has(&s->units, DP_UNITS_PER_S, DP_UNITS_BURST, now_ns);
}

bool dp_share_may_log(struct dp_share *s, uint64_t now_ns)
{
    if (!dp_bucket_has(&s->lines, LINES_PER_S, LINES_BURST, now_ns)) {
        s->n_unsaid++;
        return false;
    }
    s->lines.level -= 1.0;
    return true;
}

bool dp_share_may_look_up(struct dp_share *s, uint64_t now_ns)
{
    if (!dp_bucket_has(&s->lookups, LOOKUPS_PER_S, LOOKUPS_BURST, now_ns))
        return false;
    s->lookups.level -= 1.0;
    return true;
}

uint32_t dp_share_unsaid(struct dp_share *s, uint64_t now_ns)
{
    uint32_t n = s->n_unsaid;

    if (!n || now_ns - s->said_ns < SAY_EVERY_NS || !dp_bucket_has(&s->lines, LINES_PER_S, LINES_BURST, now_ns) ||
        s->lines.level < LINES_TO_SAY)
        return 0;
    s->n_unsaid = 0;
    s->said_ns = now_ns;
    return n;
}

static bool is_full(struct dp_share *s, uint64_t now_ns)
{
    /* One that has just said what it left out would say it again at once. */
    if (s->n_conns || s->n_unsaid || s->is_known || (s->said_ns && now_ns - s->said_ns < SAY_EVERY_NS))
        return false;
    return dp_share_has_units(s, now_ns) && s->units.level >= DP_UNITS_BURST &&
           dp_bucket_has(&s->lines, LINES_PER_S, LINES_BURST, now_ns) && s->lines.level >= LINES_BURST &&
           dp_bucket_has(&s->lookups, LOOKUPS_PER_S, LOOKUPS_BURST, now_ns) && s->lookups.level >= LOOKUPS_BURST;
}

void dp_share_tidy(struct dp_share **list, uint64_t now_ns)
{
    while (*list) {
        struct dp_share *s = *list;

        if (is_full(s, now_ns)) {
            *list = s->next;
            free(s);
        } else {
            list = &s->next;
        }
    }
}

void dp_share_destroy(struct dp_share **list)
{
    while (*list) {
        struct dp_share *s = *list;

        *list = s->next;
        free(s);
    }
}
