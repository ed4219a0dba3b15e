/* SPDX-License-Identifier: BSD-3-Clause */
/* A saving and a trade as JSON: "saving" and "trade" of doc/json.md, the same from a coordinator and from the simulator. */
#ifndef DP_POLICIES_SAVING_SAVING_JSON_H
#define DP_POLICIES_SAVING_SAVING_JSON_H

#include <jansson.h>

#include "policies/saving/saving.h"
#include "policies/saving/trade.h"

/* tokens: of all steps together; 0: unknown. New reference; NULL: out of memory. */
json_t *dp_saving_json(const struct dp_saving *s, uint64_t steps, double tokens);
json_t *dp_trade_json(const struct dp_trade *t);

#endif
