/* SPDX-License-Identifier: BSD-3-Clause */
/* How many companions home asks for: as many as it begins with, others for those that are lost, and more while it grows. */
#include "config.h"

#include "daemon/run/slices/slicing.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/slices/companions.h"

#define MISSED_NS (5 * DP_SECOND_NS) /* one that Slurm took may come again by itself */
#define REPLACE_NS (30 * DP_SECOND_NS) /* between two times that others are asked for; twice as long where they did not last */
#define REPLACE_MAX_NS (1800 * DP_SECOND_NS) /* then it begins with that again */
#define SEEN_NS (10 * DP_SECOND_NS) /* so old what Slurm showed of an array's tasks may be */

bool slicing_looks_for_companions(const struct dp_run *run)
{
    return !run->job.array_job_id || run->start.options_set & DP_OPT_MAX_GPUS;
}

void slicing_want_companions(struct dp_run *run)
{
    if (run->job.array_job_id || !dp_companions_may_be(run) || dp_companions_are_wanted(run) || run->role != DP_RUN_COORD || run->coord ||
        run->job.n_nodes != 1 || !run->job.is_running || dp_run_coord_has_journal(run))
        return;
    if (dp_companions_want(run, run->start.slices - 1, 0, 0) < 0)
        DP_RUN_LOG(run, dp_error, "job=%u out of memory: it has no companions", run->job_id);
}

/* Its worker trains, or is about to. */
static bool has_part(const struct dp_run *home, uint32_t job_id)
{
    int rank = dp_group_rank(home->slicing->group, job_id);

    return rank >= 0 && (dp_coord_is_in(home->coord, (uint32_t)rank) || dp_coord_is_newcomer(home->coord, (uint32_t)rank));
}

/* How many slices of the run are no companions: home, or the tasks of the array that run, as Slurm showed them lately. One whose worker
 * is lost has no seat any more, though its job may go on for a while. returns false: it is asked. */
static bool count_own(struct dp_run *home, uint64_t now_ns, uint32_t *own)
{
    const struct dp_slicing *s = home->slicing;

    *own = 0;
    if (!home->job.array_job_id) {
        *own = has_part(home, home->job_id);
        return true;
    }
    for (uint32_t i = 0; s->has_seen && i < s->seen.n; i++)
        *own += s->seen.slice[i].is_running && !s->seen.slice[i].is_companion && has_part(home, s->seen.slice[i].job_id);
    if (s->seen_ns && now_ns - s->seen_ns < SEEN_NS)
        return true;
    slicing_read(home);
    return false;
}

/* The coordinator waits for those that it has asked for, and withdraws them itself: it is told what became of them. For it home has
 * companions alone: other tasks of an array are some that run. */
static void tell_of_growth(struct dp_run *home, uint64_t now_ns, uint32_t own, const struct dp_companions_view *now)
{
    struct dp_coord_growth_news news = {now->n_waiting, now->n_running + own - 1, now->n_ended,
                                        now->state == DP_COMPANIONS_REFUSED ? now->text : ""};

    if (now->state != DP_COMPANIONS_ASKING && own)
        dp_coord_growth_told(home->coord, now_ns, &news);
}

/* Tasks of its array that wait come by themselves. */
static bool others_come(const struct dp_run *home, const struct dp_companions_view *now)
{
    return now->state == DP_COMPANIONS_ASKING || now->n_waiting || (home->job.array_job_id && home->slicing->seen.has_waiting);
}

/* Those who are missing did not come again by themselves. */
static void replace(struct dp_run *home, uint64_t now_ns, uint32_t missing, uint32_t wanted, uint32_t others)
{
    struct dp_slicing *s = home->slicing;
    bool did_not_last;

    if (!s->missed_ns)
        s->missed_ns = now_ns;
    if (now_ns - s->missed_ns < MISSED_NS || (s->replaced_ns && now_ns - s->replaced_ns < s->pause_ns))
        return;
    did_not_last = s->replaced_ns && now_ns - s->replaced_ns < 2 * s->pause_ns;
    s->pause_ns = did_not_last && s->pause_ns < REPLACE_MAX_NS ? 2 * s->pause_ns : REPLACE_NS;
    s->replaced_ns = now_ns;
    s->missed_ns = 0;
    s->n_asked = others;
    DP_RUN_LOG(home, dp_info, "job=%u slices=%u are missing of %u: Slurm is asked for others", home->job_id, missing, wanted);
    (void)dp_companions_want(home, others, s->seen.read_s, (uint64_t)(home->daemon->config->slices_wait_s * 1e9));
}

/* The number that is wanted changes with what the coordinator wants; and falls when a task of the array comes again. When one of these
 * ends the number stays: its place is the matter of replace(). */
static void want(struct dp_run *home, const struct dp_coord_growth *growth, uint32_t wanted, uint32_t others)
{
    struct dp_slicing *s = home->slicing;
    uint32_t grows = growth->is_asked ? growth->number : 0;

    if (s->has_asked && s->wanted == wanted && s->grows == grows && s->n_asked <= others)
        return;
    s->has_asked = true;
    s->n_asked = others;
    s->wanted = wanted;
    s->grows = grows;
    (void)dp_companions_want(home, others, grows ? growth->since_s : 0, 0); /* no memory: said again when the number changes */
}

void slicing_follow_companions(struct dp_run *home, uint64_t now_ns)
{
    struct dp_slicing *s = home->slicing;
    struct dp_companions_view now;
    struct dp_coord_growth growth;
    uint32_t missing, wanted, own, others;

    if (!dp_companions_may_be(home) || !home->coord || !dp_slices_are(home) || (home->is_home_over && !home->job.array_job_id))
        return; /* nobody is left whose job others could be like */
    wanted = dp_coord_slices_wanted(home->coord, &missing);
    if (!wanted)
        return;
    dp_coord_grows(home->coord, &growth);
    dp_companions_look(home, &now);
    if (home->job.array_job_id && !missing && !growth.is_asked && s->has_asked && s->wanted == wanted && !now.n_waiting &&
        now.state != DP_COMPANIONS_ASKING) {
        s->missed_ns = 0;
        return; /* nothing depends on which tasks run: Slurm is not asked */
    }
    if (!count_own(home, now_ns, &own))
        return;
    others = wanted > own ? wanted - own : 0;
    want(home, &growth, wanted, others);
    dp_companions_look(home, &now);
    if (growth.is_asked)
        tell_of_growth(home, now_ns, own, &now);
    if (growth.is_asked || !missing || others_come(home, &now))
        s->missed_ns = 0;
    else
        replace(home, now_ns, missing, wanted, others);
}
