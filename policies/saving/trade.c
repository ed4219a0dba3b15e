/* SPDX-License-Identifier: BSD-3-Clause */
/* See trade.h. */
#include "policies/saving/trade.h"

#include <stdio.h>
#include <string.h>

uint32_t dp_trade_numbers(uint32_t all, uint32_t *devices)
{
    uint32_t n = all < DP_TRADE_ROWS ? all : DP_TRADE_ROWS;

    for (uint32_t i = 0; i < n; i++)
        devices[i] = (uint32_t)((uint64_t)all * (i + 1) / n);
    return n;
}

static bool is_better(const struct dp_trade_row *a, const struct dp_trade_row *b)
{
    return !b || a->device_s < b->device_s || (a->device_s <= b->device_s && a->time_s < b->time_s);
}

const struct dp_trade_row *dp_trade_within(const struct dp_trade *t, double percent)
{
    double latest_s = t->fixed_s * (1.0 + percent / 100.0);
    const struct dp_trade_row *best = NULL;

    for (uint32_t i = 0; i < t->n; i++)
        if (t->row[i].step_s > 0.0 && t->row[i].time_s <= latest_s && is_better(&t->row[i], best))
            best = &t->row[i];
    return best;
}

static void add_word(struct dp_trade_row *r, const char *word)
{
    size_t n = strlen(r->why);

    snprintf(r->why + n, sizeof r->why - n, "%s%s", n ? ", " : "", word);
}

void dp_trade_mark(struct dp_trade *t)
{
    const struct dp_trade_row *within = dp_trade_within(t, DP_TRADE_LATER);
    struct dp_trade_row *fastest = NULL, *fewest = NULL;
    char word[64];

    for (uint32_t i = 0; i < t->n; i++) {
        struct dp_trade_row *r = &t->row[i];

        if (!(r->step_s > 0.0))
            continue;
        if (!fastest || r->time_s < fastest->time_s)
            fastest = r;
        if (is_better(r, fewest))
            fewest = r;
    }
    if (fastest)
        add_word(fastest, "fastest");
    if (fewest)
        add_word(fewest, "fewest device-s");
    snprintf(word, sizeof word, "fewest at most %g %% later", DP_TRADE_LATER);
    for (uint32_t i = 0; i < t->n; i++)
        if (&t->row[i] == within) {
            add_word(&t->row[i], word);
            t->row[i].is_chosen = true;
        }
}
