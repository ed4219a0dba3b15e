/* SPDX-License-Identifier: BSD-3-Clause */
/* What every number of devices costs and gives: the choice that packing makes, laid open. */
#ifndef DP_POLICIES_SAVING_TRADE_H
#define DP_POLICIES_SAVING_TRADE_H

#include <stdbool.h>
#include <stdint.h>

#define DP_TRADE_ROWS 16 /* what people read in a table */
#define DP_TRADE_LATER 5.0 /* percent: run.default_slowdown of dynpipe.conf */

struct dp_trade_row {
    uint32_t devices; /* that are held */
    uint32_t slots;   /* that they are on; 0: not told */
    double step_s;    /* 0: no layout, see why */
    double time_s, device_s; /* to the last step */
    bool is_chosen;
    char why[96];
};

struct dp_trade {
    double fixed_s, fixed_device_s; /* the layout of the start on all devices, to the last step; 0: unknown */
    uint32_t n;
    struct dp_trade_row row[DP_TRADE_ROWS]; /* rising devices */
};

/* Which numbers of 1..all get a row: all of them, or some evenly. devices: = [DP_TRADE_ROWS]. returns: how many. */
uint32_t dp_trade_numbers(uint32_t all, uint32_t *devices);

/* The row with the fewest device-seconds of those that end at most `percent` later than fixed_s; of equal ones the
 * faster; NULL: none. */
const struct dp_trade_row *dp_trade_within(const struct dp_trade *t, double percent);

/* Say in `why` which row is the fastest, which has the fewest device-seconds, and which the fewest within DP_TRADE_LATER;
 * that one is chosen. */
void dp_trade_mark(struct dp_trade *t);

#endif
