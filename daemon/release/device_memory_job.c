/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in use of the cards' memory before a run, in a helper process (device_memory.h). */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/child/helper.h"
#include "daemon/release/device_memory.h"
#include "daemon/release/privileged.h"

#define LOOKS 2            /* the memory of who was there before us may be given back late */
#define PAUSE_NS 200000000 /* between them, as between the two of a proof */
#define LOOK_MS 10000      /* without nvidia-persistenced a card wakes up first, which takes seconds */

_Static_assert(sizeof(struct dp_cards_result) <= DP_HELPER_RESULT_MAX, "a helper can answer it");

size_t dp_cards_work(const void *request, size_t bytes, uint8_t *result)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_NS};
    const struct dp_priv_scope *scope = dp_priv_current_scope();
    struct dp_cards_result r;
    struct dp_cards cards;
    struct dp_device_files files;
    struct dp_cards_request q;
    struct dp_looker looker;

    (void)bytes;
    memset(&r, 0, sizeof r);
    memcpy(&q, request, sizeof q);
    dp_device_files_find(&files, scope->devices);
    dp_looker_start(&looker, scope->nvml, &files, q.hung, LOOKS * LOOK_MS / 1e3 + 1);
    for (int i = 0; i < LOOKS && looker.fd >= 0; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        dp_looker_look(&looker, LOOK_MS, &cards);
        dp_cards_keep(&r.before, &cards);
        r.before.is_shut = cards.state == DP_CARDS_SHUT;
        snprintf(r.text, sizeof r.text, "%s", cards.text);
    }
    if (looker.why[0])
        snprintf(r.text, sizeof r.text, "%s", looker.why);
    r.hung = looker.hung;
    dp_looker_end(&looker);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
