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

void slicing_want_companions(struct dp_run *run)
{
    if (!dp_companions_may_be(run) || dp_companions_are_wanted(run) || run->role != DP_RUN_COORD || run->coord || run->job.n_nodes != 1 ||
        !run->job.is_running || dp_run_coord_has_journal(run))
        return;
    if (dp_companions_want(run, run->start.slices - 1, 0, 0) < 0)
        DP_RUN_LOG(run, dp_error, "job=%u out of memory: it has no companions", run->job_id);
}

/* The coordinator waits for those that it has asked for, and withdraws them itself: it is told what became of them. */
static void tell_of_growth(struct dp_run *home, uint64_t now_ns, const struct dp_companions_view *now)
{
    struct dp_coord_growth_news news = {now->n_waiting, now->n_running, now->n_ended,
                                        now->state == DP_COMPANIONS_REFUSED ? now->text : ""};

    if (now->state != DP_COMPANIONS_ASKING)
        dp_coord_growth_told(home->coord, now_ns, &news);
}

void slicing_follow_companions(struct dp_run *home, uint64_t now_ns)
{
    struct dp_slicing *s = home->slicing;
    uint64_t wait_ns = (uint64_t)(home->daemon->config->slices_wait_s * 1e9);
    struct dp_companions_view now;
    struct dp_coord_growth growth;
    uint32_t missing, wanted, grows;
    bool did_not_last;

    if (!dp_companions_may_be(home) || !home->coord || !dp_slices_are(home) || home->is_home_over)
        return; /* nobody is left whose job others could be like */
    wanted = dp_coord_slices_wanted(home->coord, &missing);
    if (!wanted)
        return;
    dp_coord_grows(home->coord, &growth);
    grows = growth.is_asked ? growth.number : 0;
    if (!s->has_asked || s->n_asked != wanted - 1 || s->grows != grows) {
        s->has_asked = true;
        s->n_asked = wanted - 1;
        s->grows = grows;
        (void)dp_companions_want(home, wanted - 1, grows ? growth.since_s : 0, 0); /* no memory: said again when the number changes */
    }
    dp_companions_look(home, &now);
    if (grows) {
        s->missed_ns = 0;
        tell_of_growth(home, now_ns, &now);
        return;
    }
    if (!missing || now.state == DP_COMPANIONS_ASKING || now.n_waiting) {
        s->missed_ns = 0;
        return;
    }
    if (!s->missed_ns)
        s->missed_ns = now_ns;
    if (now_ns - s->missed_ns < MISSED_NS || (s->replaced_ns && now_ns - s->replaced_ns < s->pause_ns))
        return;
    did_not_last = s->replaced_ns && now_ns - s->replaced_ns < 2 * s->pause_ns;
    s->pause_ns = did_not_last && s->pause_ns < REPLACE_MAX_NS ? 2 * s->pause_ns : REPLACE_NS;
    s->replaced_ns = now_ns;
    s->missed_ns = 0;
    DP_RUN_LOG(home, dp_info, "job=%u slices=%u are missing of %u: Slurm is asked for others", home->job_id, missing, wanted);
    (void)dp_companions_want(home, wanted - 1, s->seen.read_s, wait_ns);
}
