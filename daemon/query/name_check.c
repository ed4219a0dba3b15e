/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the name that this daemon was given one of Slurm's? Asked once after the start, in a child, and again as long as
 * Slurm does not say: a daemon of another name serves nobody, and no job tells it so. */
#include "config.h"

#include "daemon/query/name_check.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/slurm/libslurm.h"
#include "daemon/child/helper.h"
#include "daemon/child/slurm_job.h"
#include "daemon/net/daemon_state.h"

#define DEADLINE_S 70.0 /* libslurm tries for long where no slurmctld answers */
#define AGAIN_NS UINT64_C(30000000000) /* slurmctld may start after us */
#define TRIES 20u /* ten minutes, then whoever cares looks with `dynpipe check` */

enum answer { NO_ANSWER, UNKNOWN, KNOWN };

static void no_more(const struct dp_slurm_node *node, void *arg)
{
    (void)node;
    (void)arg;
}

static size_t name_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_err err = {0};

    (void)bytes;
    dp_slurm_enter();
    result[0] = KNOWN;
    if (dp_slurm_each_node(request, no_more, NULL, &err) < 0)
        result[0] = err.code == DP_EGONE ? UNKNOWN : NO_ANSWER;
    return 1;
}

static void on_name(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_daemon *d = arg;

    (void)why;
    d->name_check = NULL;
    d->name_ask_ns = dp_now_ns() + AGAIN_NS;
    if (!result || bytes != 1 || result[0] == NO_ANSWER)
        return;
    d->n_name_checks = TRIES;
    if (result[0] == UNKNOWN)
        dp_error("Slurm knows no node %s: no job will ever be registered here; start dynpiped with --node=NAME, as "
                 "slurm.conf has it", d->node);
}

void dp_name_check_tick(struct dp_daemon *d)
{
    struct dp_err err = {0};

    if (!d->config->slurm || d->name_check || d->n_name_checks >= TRIES || dp_now_ns() < d->name_ask_ns)
        return;
    d->n_name_checks++;
    d->name_ask_ns = dp_now_ns() + AGAIN_NS;
    d->name_check = dp_helper_start(d->base, name_work, d->node, strlen(d->node) + 1, DEADLINE_S, on_name, d, &err);
}

void dp_name_check_end(struct dp_daemon *d)
{
    dp_helper_cancel(d->name_check);
    d->name_check = NULL;
}
