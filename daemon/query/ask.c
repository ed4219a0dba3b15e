/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions, each answered by a child that has the whole daemon as it was when it was forked: what a status costs grows
 * with the run that it is about, and a report of a finished run is read from its file. Few children at a time, few of
 * one user; an answer that nobody takes counts against its user, so memory has a bound, too.
 */
#include "config.h"

#include "daemon/query/ask.h"

#include <stdlib.h>
#include <string.h>

#include "common/child.h"
#include "daemon/child/helper.h"
#include "daemon/net/daemon_state.h"
#include "daemon/query/query.h"
#include "daemon/run/run.h"
#include "daemon/run/state/history.h"

#define ANSWER_MAX (16u << 20) /* a document as text; its histories are bounded (coord/internal.h) */
#define ANSWER_DEADLINE_S 30.0 /* of wall and of processor time */
#define ANSWER_SPACE (UINT64_C(2) << 30) /* address space: the daemon's memory as it was, and the document */
#define ANSWERERS 4u         /* children at a time */
#define ANSWERERS_OF_ROOT 2u /* and so many more for root */
#define ANSWERS_OF_USER 2u   /* in work or on their way to him, at a time */
#define PIECES 4             /* that are queued at a time */
#define IDLE_S 60.0 /* until the next question */

struct dp_ask {
    struct dp_ask *next;
    struct dp_conn *conn;
    struct dp_msg_query query;
    struct dp_helper *helper; /* that works it out */
    char *text;               /* the answer, NULL: not there yet */
    size_t bytes, at;
};

/* ---- in the child: a byte with the verdict, a document or a line, and a NUL behind it ---- */

static void answer_work(const void *request, int fd)
{
    enum dp_verdict verdict;
    const struct dp_ask *a;
    char text[256];
    uint8_t first;
    json_t *doc;
    char *out;

    memcpy(&a, request, sizeof a);
    dp_child_limit(ANSWER_SPACE, ANSWER_DEADLINE_S);
    doc = dp_query_document(a->conn, &a->query, &verdict, text);
    out = doc ? json_dumps(doc, JSON_COMPACT) : text;
    if (!out) {
        json_decref(doc);
        return;
    }
    first = (uint8_t)verdict;
    dp_child_write(fd, &first, 1);
    dp_child_write(fd, (const uint8_t *)out, strlen(out) + 1);
    if (doc)
        free(out);
    json_decref(doc);
}

/* ---- the queue ---- */

static void unlink_ask(struct dp_daemon *d, struct dp_ask *a)
{
    struct dp_ask **at = &d->asks;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    dp_helper_cancel(a->helper);
    free(a->text);
    free(a);
}

/* It has its answer, and may ask again. */
static void conclude(struct dp_ask *a)
{
    struct dp_conn *c = a->conn;

    unlink_ask(c->owner, a);
    dp_conn_resume(c);
    dp_conn_set_deadline(c, IDLE_S);
}

static void give_up(struct dp_ask *a, const char *why)
{
    struct dp_conn *c = a->conn;
    char text[256];

    snprintf(text, sizeof text, "the answer could not be built: %.200s", why);
    dp_query_refuse(c, DP_VERDICT_UNKNOWN, text);
    if (!c->is_closed)
        conclude(a);
}

static struct dp_ask *find(const struct dp_daemon *d, const struct dp_conn *c)
{
    for (struct dp_ask *a = d->asks; a; a = a->next)
        if (a->conn == c)
            return a;
    return NULL;
}

/* Some pieces of the answer; the next ones when these have left. */
static void send_pieces(struct dp_ask *a)
{
    struct dp_conn *c = a->conn;

    for (int i = 0; i < PIECES; i++) {
        struct dp_msg_answer m = {.verdict = DP_VERDICT_OK, .json = a->text + a->at};
        size_t left = a->bytes - a->at;

        m.json_len = left > DP_ANSWER_CHUNK ? DP_ANSWER_CHUNK : (uint32_t)left;
        m.last = m.json_len == left;
        a->at += m.json_len;
        DP_CONN_SEND(c, answer, DP_MSG_ANSWER, &m);
        if (c->is_closed)
            return; /* and forgotten */
        if (m.last) {
            conclude(a);
            return;
        }
    }
}

void dp_ask_drained(struct dp_conn *c)
{
    struct dp_daemon *d = c->owner;
    struct dp_ask *a = find(d, c);

    if (!a || !a->text)
        return;
    send_pieces(a);
    dp_ask_pump(d);
}

static void on_answer(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_ask *a = arg;
    struct dp_conn *c = a->conn;
    struct dp_daemon *d = c->owner;

    a->helper = NULL;
    if (!result || bytes < 2 || result[bytes - 1] != '\0') {
        give_up(a, result ? "the helper process died" : why);
    } else if (result[0] != DP_VERDICT_OK) {
        dp_query_refuse(c, (enum dp_verdict)result[0], (const char *)result + 1);
        if (!c->is_closed)
            conclude(a);
    } else {
        a->bytes = bytes - 2;
        a->text = malloc(bytes - 1);
        if (a->text) {
            memcpy(a->text, result + 1, bytes - 1);
            send_pieces(a);
        } else {
            give_up(a, "out of memory");
        }
    }
    dp_ask_pump(d);
}

static void start(struct dp_ask *a)
{
    struct dp_daemon *d = a->conn->owner;
    struct dp_err err = {0};

    a->helper = dp_helper_start_writer(d->base, answer_work, &a, ANSWER_MAX, ANSWER_DEADLINE_S, on_answer, a, &err);
    if (!a->helper)
        give_up(a, err.text);
}

static bool may_start(const struct dp_daemon *d, const struct dp_ask *a)
{
    uint32_t children = 0, own = 0;

    for (const struct dp_ask *o = d->asks; o; o = o->next) {
        children += o->helper != NULL;
        own += o->conn->uid == a->conn->uid && (o->helper || o->text);
    }
    if (!a->conn->share)
        return children < ANSWERERS + ANSWERERS_OF_ROOT;
    return children < ANSWERERS && own < ANSWERS_OF_USER;
}

void dp_ask_pump(struct dp_daemon *d)
{
    if (!dp_history_is_ready(d))
        return;
    for (struct dp_ask *a = d->asks, *next; a; a = next) {
        next = a->next;
        if (!a->helper && !a->text && may_start(d, a))
            start(a);
    }
}

void dp_ask_add(struct dp_conn *c, const struct dp_msg_query *q)
{
    struct dp_daemon *d = c->owner;
    struct dp_ask *a, **at = &d->asks;

    if (q->what == DP_QUERY_NODE) {
        dp_query_answer_node(c);
        dp_conn_set_deadline(c, IDLE_S);
        return;
    }
    a = calloc(1, sizeof *a);
    if (!a) {
        dp_conn_close(c, "out of memory");
        return;
    }
    a->conn = c;
    a->query = *q;
    while (*at)
        at = &(*at)->next;
    *at = a;
    dp_conn_hold(c);
    dp_ask_pump(d);
}

void dp_ask_forget(struct dp_daemon *d, const struct dp_conn *c)
{
    struct dp_ask *a = find(d, c);

    if (a)
        unlink_ask(d, a); /* the next tick sees that there is room */
}
