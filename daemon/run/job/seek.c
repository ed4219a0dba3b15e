/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that no step registered here: the daemon was down, or not there yet, when the step began, or has lost its
 * journal. A worker's HELLO or, on the batch host, another daemon's JOIN makes it ask Slurm, in a child; what Slurm
 * says (owner, nodes, batch host, tasks) decides, nothing that was said here does. Then it goes on as if STEP_START
 * had come. The options are the ones that the worker brings: its owner's wishes, as in STEP_START, within what the
 * site allows.
 *
 * Anybody may say HELLO for any job as often as he likes. So nothing of it is kept among the runs before Slurm has
 * agreed, each user has a share of questions, and answers that are no are remembered.
 */
#include "config.h"

#include "daemon/run/job/seek.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/job/step.h"
#include "daemon/run/run.h"
#include "daemon/run/state/node_journal.h"

#define DEADLINE_S 70.0 /* a dead controller answers after 10 to 60 s */
#define NO_NS (20 * DP_SECOND_NS)    /* a no of Slurm's stands for so long; a job may still start or be requeued */
#define AGAIN_NS (2 * DP_SECOND_NS)  /* after none */
#define AT_A_TIME 4u /* children that ask Slurm */
#define OF_A_USER 2u /* of these, so that no user has all of them */
#define BY_PEERS UINT32_MAX       /* for uid: a daemon asks, not a user */
#define PEERS_PER_S 4.0 /* a user has dp_share_may_look_up() instead; all peers together have this */
#define PEERS_BURST 64.0 /* a daemon that was restarted is told of many runs at once */
#define NO_STEP 0xfffffffeu       /* which one, a worker's HELLO says */

struct dp_seek {
    struct dp_seek *next;
    struct dp_daemon *daemon;
    uint32_t uid;           /* who says that it is his; BY_PEERS */
    char from[64];          /* of a daemon: its node */
    struct dp_msg_step_start start;
    struct dp_helper *reader; /* NULL: there is an answer */
    uint64_t until_ns;      /* not asked again before */
    char why[200];
};

static struct dp_seek *find(const struct dp_daemon *d, uint32_t uid, uint32_t job_id)
{
    for (struct dp_seek *s = d->seeks; s; s = s->next)
        if (s->uid == uid && s->start.job_id == job_id)
            return s;
    return NULL;
}

static void seek_free(struct dp_seek *s)
{
    struct dp_seek **at = &s->daemon->seeks;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    dp_helper_cancel(s->reader);
    free(s);
}

/* Why the job is none that we serve for who asked; NULL: it is. */
static const char *why_not(const struct dp_seek *s, const struct dp_job_result *r)
{
    const char *node = s->daemon->node;

    if (r->rc == 1)
        return "Slurm knows no such job";
    if (!r->job.is_running && (!r->job.is_completing || r->job.is_queued))
        return "Slurm says that it does not run";
    if (s->uid != BY_PEERS && r->job.uid != s->uid)
        return "Slurm says that it belongs to another user";
    if (!dp_job_has_node(&r->job, node))
        return "Slurm says that it does not have this node";
    if (s->uid == BY_PEERS && (strcmp(r->job.batch_host, node) || !dp_job_has_node(&r->job, s->from)))
        return "Slurm says that this is not its batch host, or that it does not have the node that asked";
    return NULL;
}

static void take_up(struct dp_seek *s, const struct dp_job_result *r)
{
    struct dp_daemon *d = s->daemon;
    struct dp_err err = {0};

    if (dp_run_find(d, s->start.job_id))
        return; /* registered meanwhile */
    s->start.uid = r->job.uid;
    s->start.gid = r->job.gid;
    snprintf(s->start.node, sizeof s->start.node, "%s", d->node);
    if (dp_node_journal_adopt(d->log, &s->start, &err) < 0) {
        dp_error("job=%u %s", s->start.job_id, err.text);
        return;
    }
    dp_info("job=%u uid=%u found in Slurm: %s, and no step was registered here", s->start.job_id, s->start.uid,
            s->uid == BY_PEERS ? "another node asks for it" : "a worker of it is here");
    dp_run_adopt(d, &s->start, r);
}

static void on_read(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_job_result r = {.rc = -1};
    struct dp_seek *s = arg;
    const char *no;

    s->reader = NULL;
    if (result && bytes == sizeof r)
        memcpy(&r, result, sizeof r);
    else
        snprintf(r.text, sizeof r.text, "slurm: %s", why);
    if (r.rc < 0) {
        s->until_ns = dp_now_ns() + AGAIN_NS;
        snprintf(s->why, sizeof s->why, "job %u is not registered here, and Slurm does not say what it is: %.100s",
                 s->start.job_id, r.text);
        return;
    }
    no = why_not(s, &r);
    if (!no) {
        take_up(s, &r);
        seek_free(s);
        return;
    }
    s->until_ns = dp_now_ns() + NO_NS;
    snprintf(s->why, sizeof s->why, "job %u is not registered here: %s", s->start.job_id, no);
}

static bool may_ask(struct dp_daemon *d, uint32_t uid)
{
    uint64_t now_ns = dp_now_ns();
    uint32_t all = 0, own = 0;
    struct dp_share *share;

    for (const struct dp_seek *s = d->seeks; s; s = s->next) {
        all += s->reader != NULL;
        own += s->reader && s->uid == uid;
    }
    if (all >= AT_A_TIME || own >= OF_A_USER)
        return false;
    if (uid != BY_PEERS) {
        share = dp_share_of(&d->conns.shares, uid);
        return share && dp_share_may_look_up(share, now_ns);
    }
    if (!dp_bucket_has(&d->peer_lookups, PEERS_PER_S, PEERS_BURST, now_ns))
        return false;
    d->peer_lookups.level -= 1.0;
    return true;
}

/* from: "" for a user. returns NULL: not asked now. */
static struct dp_seek *ask(struct dp_daemon *d, uint32_t uid, const char *from, const struct dp_msg_step_start *start)
{
    struct dp_job_request q = {.job_id = start->job_id};
    struct dp_err err = {0};
    struct dp_seek *s = may_ask(d, uid) ? calloc(1, sizeof *s) : NULL;

    if (!s)
        return NULL;
    s->daemon = d;
    s->uid = uid;
    s->start = *start;
    snprintf(s->from, sizeof s->from, "%s", from);
    s->next = d->seeks;
    d->seeks = s;
    s->reader = dp_helper_start(d->base, dp_job_read_work, &q, sizeof q, DEADLINE_S, on_read, s, &err);
    if (!s->reader) {
        seek_free(s);
        return NULL;
    }
    return s;
}

const char *dp_seek_hello(struct dp_daemon *d, uint32_t uid, const struct dp_msg_hello *m)
{
    struct dp_msg_step_start start = {0};
    struct dp_seek *s = find(d, uid, m->job_id);

    if (!d->config->slurm || !m->job_id || dp_step_from_hello(m, &start) < 0)
        return "the job is not registered here; was it started with --dynpipe?";
    if (!s && !ask(d, uid, "", &start))
        return "the job is not registered here, and Slurm is asked about others first";
    return s && !s->reader ? s->why : "the job is not registered here yet; Slurm is asked what it is";
}

void dp_seek_join(struct dp_daemon *d, const char *node, uint32_t job_id)
{
    const struct dp_msg_step_start start = {.job_id = job_id, .step_id = NO_STEP};

    if (d->config->slurm && job_id && !find(d, BY_PEERS, job_id))
        (void)ask(d, BY_PEERS, node, &start); /* it asks again */
}

void dp_seeks_tick(struct dp_daemon *d, uint64_t now_ns)
{
    for (struct dp_seek *s = d->seeks, *next; s; s = next) {
        next = s->next;
        if (!s->reader && now_ns >= s->until_ns)
            seek_free(s);
    }
}

void dp_seeks_close(struct dp_daemon *d)
{
    while (d->seeks)
        seek_free(d->seeks);
}
