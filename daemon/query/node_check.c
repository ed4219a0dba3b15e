/* SPDX-License-Identifier: BSD-3-Clause */
/* CHECK: what `dynpipe check` asks every node. The look itself (node_look.c) runs in a child; whoever asks the same
 * while it runs, or within a second after, gets the same answer, and only so many looks run at a time, so asking
 * often costs nobody anything.
 */
#include "config.h"

#include "daemon/query/node_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/slurm/node_name.h"
#include "daemon/child/helper.h"
#include "daemon/net/daemon_state.h"
#include "daemon/query/node_look.h"
#include "daemon/query/query.h"
#include "daemon/run/run.h"

#define LOOK_DEADLINE_S 10.0 /* more than munge and TARGET_MS (node_look.c) take */
#define FRESH_NS UINT64_C(1000000000) /* several of one user's tasks may ask at the same moment */
enum { MAX_LOOKS = 4, MAX_ASKERS = 32 };

struct asker {
    struct dp_conn *conn;
    uint32_t job_id;
};

struct look {
    struct dp_daemon *daemon;
    struct dp_helper *helper; /* NULL: not under way */
    char target[64];
    bool must_be_known;
    uint64_t done_ns;         /* 0: never */
    char *text;               /* the list that was found; owned */
    char why[160];            /* why there is none */
    uint32_t n_askers;
    struct asker asker[MAX_ASKERS];
};

struct dp_node_check {
    struct look look[MAX_LOOKS];
};

/* What the daemon knows of a job itself: a step of it was registered, so its slurmstepd loaded the plugin. Told to
 * its owner and root only. */
static const char *job_state(const struct dp_conn *c, uint32_t job_id)
{
    const struct dp_run *run = dp_run_find(c->owner, job_id);

    if (!run)
        return "unknown";
    return c->uid == 0 || c->uid == run->uid ? "registered" : "unknown";
}

static void answer(const struct look *l, const struct asker *a)
{
    json_t *list = l->text ? json_loads(l->text, 0, NULL) : NULL, *doc = dp_query_node(l->daemon);

    json_object_set_new(doc, "wall_s", json_real((double)dp_wall_ns() / 1e9));
    json_object_set_new(doc, "findings", list ? list : json_array());
    if (!list)
        json_object_set_new(doc, "error", json_string(l->why));
    if (a->job_id)
        json_object_set_new(doc, "job", json_string(job_state(a->conn, a->job_id)));
    dp_query_send(a->conn, doc);
}

static void answer_all(struct look *l)
{
    for (uint32_t i = 0; i < l->n_askers; i++)
        answer(l, &l->asker[i]);
    l->n_askers = 0;
}

static void on_looked(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct look *l = arg;

    l->helper = NULL;
    l->done_ns = dp_now_ns();
    free(l->text);
    l->text = result && bytes && result[bytes - 1] == '\0' ? strdup((const char *)result) : NULL;
    snprintf(l->why, sizeof l->why, "this node could not be checked: %s", why ? why : "no answer");
    answer_all(l);
}

static int start(struct look *l, struct dp_err *err)
{
    const struct dp_daemon *d = l->daemon;
    struct dp_look_request q = {.has_slurm = d->config->slurm, .is_shared_host = dp_config_is_shared_host(d->config, d->node),
                                .reader = d->uid, .must_be_known = l->must_be_known};
    struct dp_node_entry entry;

    snprintf(q.node, sizeof q.node, "%s", d->node);
    snprintf(q.socket, sizeof q.socket, "%s", d->config->socket);
    snprintf(q.state_dir, sizeof q.state_dir, "%s", d->config->state_dir);
    snprintf(q.munge_socket, sizeof q.munge_socket, "%s", d->config->munge_socket);
    snprintf(q.target, sizeof q.target, "%s", l->target);
    if (q.target[0]) {
        dp_config_find_node(d->config, q.target, &entry);
        memcpy(q.address, entry.address, sizeof q.address);
        q.port = entry.port;
        q.must_be_known &= !entry.is_listed;
        dp_config_find_node(d->config, d->node, &entry);
        if (entry.has_address)
            memcpy(q.from, entry.address, sizeof q.from);
    }
    l->helper = dp_helper_start(d->base, dp_node_look, &q, sizeof q, LOOK_DEADLINE_S, on_looked, l, err);
    return l->helper ? 0 : -1;
}

/* The look that answers this question: the one that runs, a fresh one, or a free place. NULL: all are busy. */
static struct look *find_look(struct dp_node_check *k, const char *target, bool must_be_known)
{
    struct look *oldest = NULL;

    for (struct look *l = k->look; l < k->look + MAX_LOOKS; l++) {
        if ((l->helper || l->done_ns) && l->must_be_known == must_be_known && !strcmp(l->target, target))
            return l;
        if (!l->helper && (!oldest || l->done_ns < oldest->done_ns))
            oldest = l;
    }
    if (!oldest || (oldest->done_ns && dp_now_ns() - oldest->done_ns < FRESH_NS))
        return NULL;
    oldest->done_ns = 0;
    oldest->must_be_known = must_be_known;
    snprintf(oldest->target, sizeof oldest->target, "%s", target);
    return oldest;
}

void dp_node_check_start(struct dp_conn *c, const struct dp_msg_check *m)
{
    struct dp_daemon *d = c->owner;
    bool is_trusted = c->uid == 0 || c->uid == d->uid;
    struct dp_err err = {0};
    struct look *l;

    dp_conn_set_deadline(c, 60);
    if (m->target[0] && !dp_is_node_name(m->target)) {
        dp_query_refuse(c, DP_VERDICT_DENIED, "not a node name");
        return;
    }
    if (!d->check && !(d->check = calloc(1, sizeof *d->check))) {
        dp_query_refuse(c, DP_VERDICT_DENIED, "out of memory");
        return;
    }
    l = find_look(d->check, m->target, !is_trusted);
    if (!l || l->n_askers == MAX_ASKERS) {
        dp_query_refuse(c, DP_VERDICT_DENIED, DP_CHECK_BUSY);
        return;
    }
    l->daemon = d;
    l->asker[l->n_askers++] = (struct asker){c, m->job_id};
    if (!l->helper && l->done_ns && dp_now_ns() - l->done_ns < FRESH_NS) {
        answer_all(l);
    } else if (!l->helper && start(l, &err) < 0) {
        l->n_askers = 0;
        dp_query_refuse(c, DP_VERDICT_DENIED, err.text);
    }
}

void dp_node_check_forget(struct dp_conn *c)
{
    struct dp_daemon *d = c->owner;

    for (struct look *l = d->check ? d->check->look : NULL; l && l < d->check->look + MAX_LOOKS; l++)
        for (uint32_t i = 0; i < l->n_askers;)
            if (l->asker[i].conn == c)
                l->asker[i] = l->asker[--l->n_askers];
            else
                i++;
}

void dp_node_check_end(struct dp_daemon *d)
{
    for (struct look *l = d->check ? d->check->look : NULL; l && l < d->check->look + MAX_LOOKS; l++) {
        dp_helper_cancel(l->helper);
        free(l->text);
    }
    free(d->check);
    d->check = NULL;
}
