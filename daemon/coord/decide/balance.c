/* SPDX-License-Identifier: BSD-3-Clause */
/* When balancing waits. Predictions follow what others have of the cores now, and others come and go: layers that
 * follow them go to and fro, and each hand-over costs more than it brings. So a move counts that no change of loads
 * explains, and one that did not bring what was predicted counts twice; after each, balancing pauses, twice as long
 * as after the one before. What counts is forgotten where no such move was wished for in eight pauses.
 *
 * In T seconds without a change of loads that makes at most 1 + log2(1 + T/P) + T/(8 P) moves, where P is the first
 * pause: reaching level n takes P (2^(n-1) - 1), and forgetting one at least 8 P.
 *
 * Loads change when weights are pruned or layers frozen: that is known exactly, and does not depend on who has the cores.
 * So a pause does not hold up what follows pruning. Predictions then rest on the correction that the layout in
 * force was decided with, and differ from that decision by the loads alone.
 *
 * All of this is journalled, with the correction of predictions and the links (link.c): a daemon that is
 * restarted would else balance as if nothing had been learned. Where the daemon dies right after a COMMIT the record
 * is missing, and one move is not counted.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_S 10.0 /* the first pause, at least; each is twice as long as the one before it */
#define PAUSE_DOUBLINGS 8u /* of 10 s: 43 minutes */
#define FORGET 8           /* pauses */

static uint64_t pause_ns(const struct dp_coord *c, uint32_t n)
{
    double first_s = c->limits.cooldown_s > PAUSE_S ? c->limits.cooldown_s : PAUSE_S;
    uint32_t doublings = n - 1 < PAUSE_DOUBLINGS ? n - 1 : PAUSE_DOUBLINGS;

    return (uint64_t)(first_s * 1e9) << doublings;
}

/* Another number wherever another layer has another number of weights left, or is frozen (FNV-1a). */
static uint64_t weights_left(const struct dp_coord *c)
{
    uint64_t hash = 14695981039346656037u;

    for (uint32_t l = 0; l < c->train.n_layers; l++)
        hash = (hash ^ c->layer[l].load.nnz ^ (uint64_t)dp_load_is_frozen(&c->layer[l].load) << 63) * 1099511628211u;
    return hash;
}

bool coord_balance_is_paused(const struct dp_coord *c, uint64_t now_ns)
{
    return c->balance.until_ns > now_ns;
}

static bool have_loads_changed(const struct dp_coord *c)
{
    return weights_left(c) != c->balance.now.weights_left;
}

uint64_t coord_balance_pause_ns(const struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t)
{
    if (!coord_balance_is_paused(c, now_ns) || (t->is_as_decided && have_loads_changed(c)))
        return 0;
    return c->balance.until_ns - now_ns;
}

/* Is it the loads that make this move, and nothing else? */
static bool follows_loads(const struct dp_coord *c, const struct coord_plan *t)
{
    return have_loads_changed(c) && (t->is_as_decided || (!t->is_corrected && !c->balance.now.is_corrected));
}

void coord_balance_keep(struct dp_coord *c)
{
    struct coord_basis *next = &c->balance.next;

    *next = c->balance.now;
    next->weights_left = weights_left(c);
    next->is_counted = next->is_balancing = false;
}

void coord_balance_plan(struct dp_coord *c, const struct coord_plan *t, bool is_balancing)
{
    struct coord_basis *next = &c->balance.next;

    if (t->is_as_decided)
        *next = c->balance.now;
    else
        *next = (struct coord_basis){.is_corrected = t->is_corrected, .correction = *coord_correct_model(c, t)};
    next->weights_left = weights_left(c);
    next->is_counted = is_balancing && !follows_loads(c, t);
    next->is_balancing = is_balancing;
}

static void count(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_balance *b = &c->balance;

    b->until_ns = now_ns + pause_ns(c, ++b->n);
    b->quiet_ns = b->until_ns;
}

void coord_balance_committed(struct dp_coord *c, uint64_t now_ns)
{
    c->balance.now = c->balance.next;
    memset(&c->balance.before, 0, sizeof c->balance.before);
    if (c->promise.now.id)
        c->balance.before = c->promise.now.back;
    if (c->balance.now.is_counted)
        count(c, now_ns);
    (void)coord_journal_balance(c);
}

void coord_balance_missed(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_balance *b = &c->balance;

    if (!b->now.is_balancing)
        return;
    count(c, now_ns);
    coord_note(c, now_ns, "balancing pauses for %.0f s, unless loads change: hand-over %llu did not bring what was predicted",
               (double)(b->until_ns - now_ns) / 1e9, (unsigned long long)c->last_commit_id);
    (void)coord_journal_balance(c);
}

void coord_balance_wished(struct dp_coord *c, uint64_t now_ns)
{
    if (c->balance.quiet_ns < now_ns)
        c->balance.quiet_ns = now_ns;
}

void coord_balance_tick(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_balance *b = &c->balance;

    if (!b->n || now_ns < b->quiet_ns || now_ns - b->quiet_ns < FORGET * pause_ns(c, b->n))
        return;
    b->n--;
    b->quiet_ns = now_ns;
    (void)coord_journal_balance(c);
}

void coord_balance_resume(struct dp_coord *c)
{
    c->balance.n = 0;
    c->balance.until_ns = 0;
    coord_link_forget(c);
    (void)coord_journal_balance(c);
}

/* Does a cut go back that the newest hand-over moved? */
bool coord_balance_takes_back(const struct dp_coord *c, const struct dp_layout *next)
{
    const struct dp_layout *now = &c->layout, *before = &c->balance.before;

    for (uint32_t r = 1; r < before->n_workers; r++)
        if ((next->cut[r] > now->cut[r] && now->cut[r] < before->cut[r]) ||
            (next->cut[r] < now->cut[r] && now->cut[r] > before->cut[r]))
            return true;
    return false;
}
