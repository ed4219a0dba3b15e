/* A saving as a JSON object: "saving" of doc/json.md, the same from a coordinator and from the simulator. */
#ifndef DP_POLICIES_SAVING_JSON_H
#define DP_POLICIES_SAVING_JSON_H

#include <jansson.h>

#include "policies/saving.h"

/* tokens: of all steps together; 0: unknown. New reference; NULL: out of memory. */
json_t *dp_saving_json(const struct dp_saving *s, uint64_t steps, double tokens);

#endif
