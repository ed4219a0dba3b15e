/* SPDX-License-Identifier: BSD-3-Clause */
/* Bars and curves made of characters: eighths of blocks where the terminal takes UTF-8, else ASCII. */
#ifndef DP_CLI_SHOW_BARS_H
#define DP_CLI_SHOW_BARS_H

#include <stddef.h>

#define DP_BAR_BYTES(columns) ((columns) * 4 + 1) /* room that a bar of so many columns may need */

/* A bar of `share` (0..1, clipped; NaN counts as 0) of `columns`, without padding on the right.
 * returns: columns written. */
size_t dp_bar(char *out, size_t cap, double share, size_t columns);

/* `columns` times the character for the empty part of a bar. */
void dp_bar_rest(char *out, size_t cap, size_t columns);

/* One row of a curve that is `rows` rows high: value[i] becomes column i. row 0 is the top.
 * Values are clipped to [low, high]; NaN leaves the column empty. */
void dp_curve_row(char *out, size_t cap, const double *value, size_t n, double low, double high, size_t row,
                  size_t rows);

/* A curve of one row. */
void dp_sparkline(char *out, size_t cap, const double *value, size_t n);

#endif
