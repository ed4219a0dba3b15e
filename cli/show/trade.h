/* SPDX-License-Identifier: BSD-3-Clause */
/* The trade for every number of devices, as a table. */
#ifndef DP_CLI_SHOW_TRADE_H
#define DP_CLI_SHOW_TRADE_H

#include <jansson.h>

#include "cli/show/canvas.h"

/* trade: as policies/saving/trade.h makes it; nothing is printed of NULL, or of fewer than two rows. title: of the table. */
void dp_trade_show(struct dp_canvas *c, const json_t *trade, const char *title);

#endif
