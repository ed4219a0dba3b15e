/* SPDX-License-Identifier: BSD-3-Clause */
/* See cards.h. The plugin is not kept waiting for the driver: the look and the worker's start may overlap, and a card on
 * which somebody is before or after its memory was read has no figure (device_memory.h).
 */
#include "config.h"

#include "daemon/run/cards.h"

#include <string.h>

#include "common/log.h"
#include "daemon/release/privileged.h"

#define DEADLINE_S 25.0 /* two looks of 10 s */

struct dp_hung dp_run_cards_hung(const struct dp_run *run)
{
    return (struct dp_hung){run->daemon->hung_pid, run->daemon->hung_ticks};
}

void dp_run_cards_note(struct dp_run *run, struct dp_hung hung)
{
    if (!hung.pid)
        return;
    run->daemon->hung_pid = hung.pid;
    run->daemon->hung_ticks = hung.start_ticks;
}

static void on_looked(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_run *run = arg;
    struct dp_cards_result r;

    run->looker = NULL;
    if (!result || bytes != sizeof r) {
        DP_RUN_LOG(run, dp_warn, "job=%u device memory before the run: not known: %s", run->job_id, why);
        return;
    }
    memcpy(&r, result, sizeof r);
    r.text[sizeof r.text - 1] = '\0';
    if (r.before.n > DP_CARDS_MAX)
        return;
    run->before = r.before;
    dp_run_cards_note(run, r.hung);
    DP_RUN_LOG(run, dp_info, "job=%u device memory before the run: known of %u cards%s%s", run->job_id, r.before.n,
               r.text[0] ? ": " : "", r.text);
}

void dp_run_cards_look(struct dp_run *run)
{
    struct dp_daemon *d = run->daemon;
    struct dp_cards_request q = {dp_run_cards_hung(run)};
    struct dp_device_files files;
    struct dp_err err = {0};

    if (run->looker || run->before.n)
        return;
    dp_device_files_find(&files, d->config->device_files);
    if (!dp_nvml_has_any(&files))
        return;
    run->looker = dp_priv_start(d->priv, d->base, DP_PRIV_CARDS, &q, sizeof q, DEADLINE_S, on_looked, run, &err);
    if (!run->looker)
        dp_warn("job=%u device memory before the run: not known: %s", run->job_id, err.text);
}
