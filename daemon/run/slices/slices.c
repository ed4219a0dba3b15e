/* SPDX-License-Identifier: BSD-3-Clause */
/* See slices.h: what others ask of slices, and their turns. Who is home is found in find_home.c, home's part is in at_home.c and want.c,
 * a slice's in slice.c, and Slurm is asked in slices_read.c.
 */
#include "config.h"

#include "daemon/run/slices/slices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/child/helper.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/slicing.h"

#define KEEP_NS (5000 * DP_MS_NS)  /* while others are waited for: who has ended meanwhile? */

struct dp_slicing *slicing_of(struct dp_run *run)
{
    if (!run->slicing)
        run->slicing = calloc(1, sizeof *run->slicing);
    return run->slicing;
}

bool dp_slice_is(const struct dp_run *run)
{
    return run->start.slices && run->daemon->config->slurm;
}

bool dp_slices_are(const struct dp_run *home)
{
    return home->slicing && home->slicing->group && home->slicing->group->state == DP_GROUP_CLOSED;
}

bool dp_slices_have(const struct dp_run *home, uint32_t rank, const char *node, uint32_t slice)
{
    const struct dp_group *g = home->slicing->group;

    return rank < g->n && !strcmp(g->member[rank].node, node) && (!slice || g->member[rank].job_id == slice);
}

bool dp_slices_is_empty(const struct dp_run *home, uint32_t rank)
{
    return dp_slices_are(home) && rank < home->slicing->group->n && !home->slicing->group->member[rank].job_id;
}

void dp_slices_job(const struct dp_run *run, struct dp_job_info *job)
{
    static struct dp_job_info home;

    if (!dp_slices_are(run))
        return;
    home = *job;
    dp_group_job(run->slicing->group, &home, job);
}

struct dp_run *dp_slices_here(const struct dp_run *home, const struct dp_run *after)
{
    for (struct dp_run *r = after ? after->next : home->daemon->runs; r; r = r->next)
        if (r->slicing && r->slicing->state == DP_SLICE_RANKED && r->slicing->pid && r->slicing->home_job == home->job_id && r != home)
            return r;
    return NULL;
}

const struct dp_slices_result *dp_slices_seen(struct dp_run *slice, uint64_t since_ns)
{
    const struct dp_slicing *s = slice->slicing;

    if (s && s->seen_ns >= since_ns && s->seen_ns)
        return &s->seen;
    if (s)
        slicing_read(slice);
    return NULL;
}

void dp_slices_move(struct dp_run *home, const char *node)
{
    for (struct dp_run *r = dp_slices_here(home, NULL); r; r = dp_slices_here(home, r))
        snprintf(r->slicing->home_node, sizeof r->slicing->home_node, "%s", node);
}

bool dp_slices_are_over(const struct dp_run *home)
{
    return home->slicing && home->slicing->is_all_over;
}

void dp_slices_tick(struct dp_run *run, uint64_t now_ns)
{
    struct dp_slicing *s = run->slicing;

    if (!dp_run_is_asking(run))
        slicing_want_companions(run);
    if (!s || dp_run_is_asking(run))
        return;
    slicing_tick_slice(run, now_ns);
    if (s->group && s->group->state == DP_GROUP_GATHERING && s->group->began_ns) {
        if (now_ns > s->next_ns + KEEP_NS)
            slicing_read(run);
        slicing_close_group(run);
    }
    slicing_follow_companions(run, now_ns);
}

/* The run of this name ends here: its slices have none any more; who has no rank yet looks for another home. */
static void forget_home(struct dp_run *run)
{
    for (struct dp_run *r = run->daemon->runs; r; r = r->next) {
        struct dp_slicing *s = r->slicing;

        if (!s || s->home_job != run->job_id)
            continue;
        if (s->state == DP_SLICE_RANKED) {
            s->state = DP_SLICE_REFUSED;
            snprintf(s->text, sizeof s->text, "the run of job %u is over", run->job_id);
        }
        s->home_job = 0;
    }
}

void dp_slices_destroy(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;
    struct dp_run *home;
    bool has_others = false;

    forget_home(run);
    if (!s)
        return;
    home = s->home_job && s->home_job != run->job_id ? dp_run_find(run->daemon, s->home_job) : NULL;
    for (const struct dp_run *r = run->daemon->runs; r; r = r->next)
        has_others |= r != run && r->slicing && r->slicing->home_job == s->home_job;
    dp_helper_cancel(s->reader);
    if (s->is_via)
        dp_run_forget_peer(run->daemon, s->home_node);
    free(s->group);
    free(s);
    run->slicing = NULL;
    if (home && home->is_for_slices && !has_others)
        dp_run_end(home, "no slice of it is here any more");
}
