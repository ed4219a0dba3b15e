/* SPDX-License-Identifier: BSD-3-Clause */
/* See companions.h. A round is one child: it looks, then submits or withdraws. After a round whose answer was lost the next one
 * only looks, and submits again only a while after that look: by then what Slurm had taken in shows.
 */
#include "config.h"

#include "daemon/run/slices/companions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/release/as_owner.h"
#include "daemon/release/ask_slices.h"
#include "daemon/release/privileged.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/slices.h"

#define ROUND_S 120.0 /* each request can take slurmctld 10 s */
#define END_S 600.0 /* of a run, while slurmctld is away */
#define LOOK_NS (5 * DP_SECOND_NS) /* have they begun? */
#define SETTLE_NS (5 * DP_SECOND_NS) /* from a look until a request without an answer shows, if it was taken in */
#define BACKOFF_MAX_S 30u /* while slurmctld does not answer: it may be down for hours */
#define SUBMITS_MAX (4 * DP_MAX_SLOTS) /* for one run; whatever Slurm shows */

struct dp_companions {
    enum dp_companions_state state;
    uint32_t wanted, keep;  /* keep: of these the ones that may still come, or run */
    uint64_t since_s, wait_ns;
    struct dp_helper *asker, *marker;
    bool must_ask;          /* again when the round is over: something else is wanted since */
    bool is_settled;        /* what Slurm shows has all that was asked */
    uint64_t next_ns;       /* not asked before; UINT64_MAX: no more */
    uint32_t backoff_s, n_submitted;
    struct dp_ask_result seen;
    uint64_t seen_ns;       /* 0: Slurm has not answered yet */
    bool is_mark_lost;      /* of a companion: its comment was changed, and has been set again once */
};

static struct dp_companions *companions(struct dp_run *home)
{
    if (!home->companions)
        home->companions = calloc(1, sizeof *home->companions);
    return home->companions;
}

int dp_companions_want(struct dp_run *home, uint32_t n, uint64_t since_s, uint64_t wait_ns)
{
    struct dp_companions *c = companions(home);

    if (!c)
        return -1;
    c->wanted = c->keep = n;
    c->since_s = since_s;
    c->wait_ns = wait_ns;
    c->state = DP_COMPANIONS_ASKING;
    c->must_ask = c->asker != NULL;
    c->next_ns = 0;
    c->backoff_s = 0;
    return 0;
}

void dp_companions_stop(struct dp_run *home)
{
    struct dp_companions *c = home->companions;

    if (!c || c->state == DP_COMPANIONS_NONE || (c->next_ns == UINT64_MAX && !c->asker))
        return;
    c->keep = 0;
    c->must_ask = c->asker != NULL;
    c->next_ns = 0;
}

static uint64_t waiting_since_ns(const struct dp_companions *c)
{
    uint64_t ago_ns = c->seen.read_s > c->seen.oldest_s ? (c->seen.read_s - c->seen.oldest_s) * DP_SECOND_NS : 0;

    if (!c->seen.n_waiting)
        return 0;
    if (!c->seen.oldest_s) /* submitted just then */
        return c->seen_ns;
    return c->seen_ns > ago_ns ? c->seen_ns - ago_ns : 1;
}

/* ---- rounds ---- */

static void look_in(struct dp_companions *c, uint64_t after_ns)
{
    c->next_ns = dp_now_ns() + after_ns;
}

static void try_again(struct dp_companions *c)
{
    c->backoff_s = c->backoff_s ? c->backoff_s * 2 : 1;
    if (c->backoff_s > BACKOFF_MAX_S)
        c->backoff_s = BACKOFF_MAX_S;
    look_in(c, c->backoff_s * DP_SECOND_NS);
}

static bool has_waited_too_long(const struct dp_companions *c, uint64_t now_ns)
{
    uint64_t since_ns = waiting_since_ns(c);

    return c->wait_ns && since_ns && now_ns > since_ns && now_ns - since_ns > c->wait_ns;
}

/* As many as can be were asked for. */
static void settle(struct dp_run *home)
{
    struct dp_companions *c = home->companions;
    bool is_refused = c->seen.end == DP_ASK_REFUSED;

    c->backoff_s = 0;
    c->is_settled = true;
    if (is_refused)
        DP_RUN_LOG(home, dp_warn, "job=%u companions=%u of %u: %s", home->job_id, c->seen.n_waiting + c->seen.n_running, c->wanted,
                   c->seen.text);
    if (c->state != DP_COMPANIONS_WITHDRAWN && (is_refused || c->state != DP_COMPANIONS_REFUSED))
        c->state = is_refused ? DP_COMPANIONS_REFUSED : c->seen.n_waiting ? DP_COMPANIONS_WAIT : DP_COMPANIONS_THERE;
    if (c->seen.n_waiting)
        look_in(c, LOOK_NS);
    else
        c->next_ns = UINT64_MAX;
}

static void take(struct dp_run *home, const struct dp_ask_result *r)
{
    struct dp_companions *c = home->companions;
    char text[256];

    snprintf(text, sizeof text, "%s", c->seen.text);
    c->seen = *r;
    c->seen_ns = dp_now_ns();
    c->n_submitted += r->n_submitted;
    if (c->state == DP_COMPANIONS_REFUSED && r->end == DP_ASK_DONE)
        memcpy(c->seen.text, text, sizeof text); /* it was only looked */
    if (r->n_submitted || r->n_withdrawn)
        DP_RUN_LOG(home, dp_info, "job=%u companions: %u submitted, %u withdrawn; %u wait, %u run", home->job_id, r->n_submitted,
                   r->n_withdrawn, r->n_waiting, r->n_running);
    if (r->end == DP_ASK_DONE || r->end == DP_ASK_REFUSED) {
        settle(home);
    } else if (!r->text[0]) { /* it was looked: what was asked before shows soon */
        c->is_settled = true;
        look_in(c, SETTLE_NS);
    } else {
        c->is_settled &= r->end == DP_ASK_FAILED;
        try_again(c);
    }
}

static void on_asked(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_ask_result r = {.end = DP_ASK_UNSURE};
    struct dp_run *home = arg;
    struct dp_companions *c = home->companions;

    c->asker = NULL;
    if (result && bytes == sizeof r) {
        memcpy(&r, result, sizeof r);
        r.text[sizeof r.text - 1] = r.reason[sizeof r.reason - 1] = '\0';
    } else {
        r = c->seen;
        r.end = DP_ASK_UNSURE;
        r.n_submitted = r.n_withdrawn = 0;
        snprintf(r.text, sizeof r.text, "%.200s", why && why[0] ? why : "no answer");
    }
    if (c->must_ask) {
        c->must_ask = false;
        c->is_settled &= r.end != DP_ASK_UNSURE;
        c->n_submitted += r.n_submitted;
        c->next_ns = 0;
        return;
    }
    if ((r.end == DP_ASK_UNSURE || r.end == DP_ASK_FAILED) && r.text[0] && c->backoff_s == 0)
        DP_RUN_LOG(home, dp_warn, "job=%u companions: %s", home->job_id, r.text);
    take(home, &r);
}

/* After a refusal nothing more is asked for, until somebody wants it anew. */
static bool may_submit(const struct dp_companions *c)
{
    return c->state != DP_COMPANIONS_REFUSED && c->state != DP_COMPANIONS_WITHDRAWN && c->n_submitted < SUBMITS_MAX;
}

/* Of which job others are copies: home's, and when that is over another task of its array. NULL: none is here. */
static const struct dp_run *find_like(const struct dp_run *home)
{
    if (!home->is_home_over || !home->job.array_job_id)
        return home;
    for (const struct dp_run *r = dp_slices_here(home, NULL); r; r = dp_slices_here(home, r))
        if (r->job.array_job_id && r->job.array_job_id == home->job.array_job_id && r->job.is_running)
            return r;
    return NULL;
}

/* One may come: a task of the array that this daemon, which was restarted, does not know yet. */
static void wait_for_like(struct dp_run *home)
{
    struct dp_companions *c = home->companions;

    if (c->backoff_s == 0)
        DP_RUN_LOG(home, dp_info, "job=%u companions: no task of the array is here that others could be like", home->job_id);
    snprintf(c->seen.text, sizeof c->seen.text, "no task of the array is on the coordinator's node, and others would be like that");
    try_again(c);
}

static void ask(struct dp_run *home)
{
    struct dp_companions *c = home->companions;
    const struct dp_run *like = find_like(home);
    struct dp_ask_request q = {.home_job = home->job_id, .wanted = c->keep, .since_s = c->since_s, .may_submit = may_submit(c),
                               .is_settled = c->is_settled};
    struct dp_err err = {0};

    if (!like) {
        wait_for_like(home);
        return;
    }
    q.job_id = like->job_id;
    q.restart_count = like->job.restart_count;
    c->asker = dp_priv_start(home->daemon->priv, home->daemon->base, DP_PRIV_ASK_SLICES, &q, sizeof q, ROUND_S, on_asked, home, &err);
    if (c->asker)
        return;
    DP_RUN_LOG(home, dp_warn, "job=%u companions: %s", home->job_id, err.text);
    try_again(c);
}

void dp_companions_tick(struct dp_run *home, uint64_t now_ns)
{
    struct dp_companions *c = home->companions;

    if (!c || c->state == DP_COMPANIONS_NONE || c->asker || now_ns < c->next_ns)
        return;
    if ((c->state == DP_COMPANIONS_WAIT || c->state == DP_COMPANIONS_REFUSED) && has_waited_too_long(c, now_ns)) {
        DP_RUN_LOG(home, dp_info, "job=%u companions: %u have waited for more than %.0f s and are withdrawn", home->job_id,
                   c->seen.n_waiting, (double)c->wait_ns / 1e9);
        c->state = DP_COMPANIONS_WITHDRAWN;
        c->keep = 0;
    }
    ask(home);
}

/* This daemon has asked for some, or one before it may have: home's job ended while none was here. */
static bool may_wait(const struct dp_run *home)
{
    return dp_companions_are_wanted(home) || (dp_companions_may_be(home) && home->job.job_id && !home->job.is_running);
}

void dp_companions_end(struct dp_run *home)
{
    struct dp_companions *c = home->companions;
    const struct dp_run *like = find_like(home);
    struct dp_ask_request q = {.home_job = home->job_id, .is_over = 1};
    struct dp_helper *asker;
    struct dp_err err = {0};

    if (!may_wait(home))
        return;
    like = like ? like : home;
    q.job_id = like->job_id;
    q.restart_count = like->job.restart_count;
    asker = dp_priv_start(home->daemon->priv, home->daemon->base, DP_PRIV_ASK_SLICES, &q, sizeof q, END_S, on_asked, home, &err);
    if (!asker)
        dp_warn("job=%u companions that wait are not withdrawn: %s", home->job_id, err.text);
    dp_helper_leave(asker);
    if (!c)
        return;
    dp_helper_leave(c->asker);
    c->asker = NULL;
    c->state = DP_COMPANIONS_NONE;
}

void dp_companions_destroy(struct dp_run *home)
{
    struct dp_companions *c = home->companions;

    if (!c)
        return;
    dp_helper_leave(c->asker); /* what it has begun to ask for is to be seen by who comes next */
    dp_helper_leave(c->marker);
    free(c);
    home->companions = NULL;
}

/* ---- comments ---- */

static void on_marked(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_shrink_result r = {.rc = -1};
    struct dp_run *home = arg;

    home->companions->marker = NULL;
    if (result && bytes == sizeof r)
        memcpy(&r, result, sizeof r);
    else
        snprintf(r.text, sizeof r.text, "%.200s", why);
    r.text[sizeof r.text - 1] = '\0';
    if (r.rc != 0)
        DP_RUN_LOG(home, dp_info, "job=%u comments are not set: %s", home->job_id, r.text);
}

static void mark(struct dp_run *run, const struct dp_mark_request *q)
{
    struct dp_companions *c = companions(run);
    struct dp_err err = {0};

    if (!c)
        return;
    dp_helper_leave(c->marker);
    c->marker = dp_priv_start(run->daemon->priv, run->daemon->base, DP_PRIV_MARK_SLICES, q, sizeof *q, ROUND_S, on_marked, run, &err);
    if (!c->marker)
        DP_RUN_LOG(run, dp_info, "job=%u comments are not set: %s", run->job_id, err.text);
}

void dp_companions_mark(struct dp_run *home, const uint32_t *slice, uint32_t n)
{
    struct dp_mark_request q = {.job_id = home->job_id, .restart_count = home->job.restart_count};

    for (uint32_t i = 0; i < n && q.n < DP_MAX_SLOTS; i++)
        q.slice[q.n++] = slice[i];
    mark(home, &q);
}

void dp_companions_keep_mark(struct dp_run *slice, uint32_t slice_of)
{
    struct dp_mark_request q = {.job_id = slice->job_id, .restart_count = slice->job.restart_count, .slice_of = slice_of};
    struct dp_companions *c = slice->companions;

    if (!slice_of || slice->job.array_job_id || slice->job.slice_of) {
        if (c)
            c->is_mark_lost = false;
        return;
    }
    slice->job.slice_of = slice_of;
    if (c && c->is_mark_lost)
        return;
    DP_RUN_LOG(slice, dp_info, "job=%u its comment does not say any more that it is a slice of %u: that is added again", slice->job_id,
               slice_of);
    mark(slice, &q);
    if (slice->companions)
        slice->companions->is_mark_lost = true;
}

/* ---- what became of it ---- */

bool dp_companions_may_be(const struct dp_run *run)
{
    bool may_grow = run->start.options_set & DP_OPT_MAX_GPUS;
    uint32_t most = may_grow ? run->start.max_gpus : run->start.slices;

    if (!dp_slice_is(run) || run->is_for_slices || run->job.slice_of)
        return false;
    return run->job.array_job_id ? may_grow : run->start.slices > 1 || most > 1;
}

bool dp_companions_are_wanted(const struct dp_run *home)
{
    return home->companions && home->companions->state != DP_COMPANIONS_NONE;
}

bool dp_companions_may_come(const struct dp_run *home, uint64_t asked_ns)
{
    const struct dp_companions *c = home->companions;

    return dp_companions_are_wanted(home) && (c->state == DP_COMPANIONS_ASKING || c->seen.n_waiting || c->seen_ns > asked_ns);
}

static void say_text(const struct dp_companions *c, char *out, size_t cap)
{
    out[0] = '\0';
    if (c->state == DP_COMPANIONS_REFUSED)
        snprintf(out, cap, "%.200s", c->seen.text);
    else if (c->state == DP_COMPANIONS_WITHDRAWN)
        snprintf(out, cap, "they waited for more than %.0f s in the queue", (double)c->wait_ns / 1e9);
    else if (c->state == DP_COMPANIONS_ASKING && c->seen.text[0])
        snprintf(out, cap, "%.200s", c->seen.text);
    else if (c->state == DP_COMPANIONS_WAIT)
        snprintf(out, cap, "%.23s", c->seen.reason);
}

void dp_companions_look(const struct dp_run *home, struct dp_companions_view *out)
{
    const struct dp_companions *c = home->companions;

    memset(out, 0, sizeof *out);
    if (!c)
        return;
    *out = (struct dp_companions_view){.state = c->state, .wanted = c->wanted, .n_waiting = c->seen.n_waiting,
                                       .n_running = c->seen.n_running, .n_ended = c->seen.n_ended,
                                       .waiting_since_ns = waiting_since_ns(c)};
    say_text(c, out->text, sizeof out->text);
}

void dp_companions_tell(const struct dp_run *home, char *out, size_t cap)
{
    struct dp_companions_view v;

    dp_companions_look(home, &v);
    out[0] = '\0';
    if (v.state == DP_COMPANIONS_REFUSED)
        snprintf(out, cap, "Slurm refuses more of them: %.200s", v.text);
    else if (v.state == DP_COMPANIONS_WITHDRAWN)
        snprintf(out, cap, "those that did not begin were withdrawn: %s", v.text);
    else if (v.state == DP_COMPANIONS_ASKING)
        snprintf(out, cap, "Slurm is asked for them%s%s", v.text[0] ? ": " : "", v.text);
    else if (v.state == DP_COMPANIONS_WAIT)
        snprintf(out, cap, "%u wait in Slurm's queue%s%s", v.n_waiting, v.text[0] ? ": " : "", v.text);
}

json_t *dp_companions_json(const struct dp_run *home)
{
    static const char *const name[] = {"none", "asking", "waiting", "there", "refused", "withdrawn"};
    struct dp_companions_view v;
    char text[256];
    json_t *doc;

    if (!dp_companions_are_wanted(home))
        return NULL;
    dp_companions_look(home, &v);
    doc = json_pack("{s:s, s:i, s:i, s:i, s:i}", "state", name[v.state], "wanted", (int)v.wanted, "waiting", (int)v.n_waiting, "running",
                    (int)v.n_running, "ended", (int)v.n_ended);
    dp_companions_tell(home, text, sizeof text);
    if (doc && text[0])
        json_object_set_new(doc, "text", json_string(text));
    return doc;
}
