/* What a run saved, as text: the run, a fixed layout and all devices balanced side by side. */
#ifndef DP_CLI_SAVING_H
#define DP_CLI_SAVING_H

#include <jansson.h>

#include "cli/canvas.h"

/* saving: as policies/saving_json.h makes it; nothing is printed of NULL, or where all three are the same. */
void dp_saving_show(struct dp_canvas *c, const json_t *saving);

#endif
