/* SPDX-License-Identifier: BSD-3-Clause */
/* See roster.h. */
#include "config.h"

#include "daemon/run/wireup/roster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/message/session.h"

#define REFUSED_NS (10000 * DP_MS_NS) /* after the first refusal: the others most often refuse, too, and worker 0 tells it */
#define NAMED 4u /* missing workers that a text names */

struct dp_roster *dp_roster_create(uint32_t step_id, uint32_t n_workers)
{
    struct dp_roster *r = calloc(1, sizeof *r + n_workers * sizeof r->entry[0]);

    if (r) {
        r->step_id = step_id;
        r->n_workers = n_workers;
        r->speaker = DP_NOBODY;
    }
    return r;
}

void dp_roster_forget_cards(struct dp_roster *r)
{
    for (uint32_t i = 0; i < r->n_workers; i++) {
        free(r->entry[i].card);
        r->entry[i].card = NULL;
        r->entry[i].bytes = 0;
    }
    r->n_taken = 0;
}

void dp_roster_destroy(struct dp_roster *r)
{
    if (!r)
        return;
    dp_roster_forget_cards(r);
    while (r->outlets) {
        struct dp_outlet *o = r->outlets;

        r->outlets = o->next;
        free(o);
    }
    explicit_bzero(r->key, sizeof r->key);
    free(r);
}

struct dp_outlet *dp_roster_outlet(struct dp_roster *r, const char *node)
{
    struct dp_outlet *o = r->outlets;

    while (o && strcmp(o->node, node))
        o = o->next;
    if (o || !(o = calloc(1, sizeof *o)))
        return o;
    snprintf(o->node, sizeof o->node, "%s", node);
    o->sent = -1;
    o->next = r->outlets;
    r->outlets = o;
    return o;
}

/* Everybody comes anew; where Slurm started the tasks stays true. */
static void begin_round(struct dp_roster *r)
{
    dp_roster_forget_cards(r);
    for (uint32_t i = 0; i < r->n_workers; i++)
        r->entry[i].is_there = false;
    for (struct dp_outlet *o = r->outlets; o; o = o->next) {
        o->cursor = 0;
        o->sent = -1;
    }
    r->state = DP_ROSTER_GATHERING;
    r->has_key = r->has_warned = false;
    r->began_ns = r->deadline_ns = 0;
    r->text[0] = '\0';
}

uint32_t dp_roster_speaker(const struct dp_roster *r)
{
    uint32_t refuses = DP_NOBODY;

    if (r->entry[0].is_there && r->entry[0].kind == DP_CARD_REFUSED)
        return DP_NOBODY;
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct dp_roster_entry *e = &r->entry[i];

        if (e->is_there && (e->kind == DP_CARD_HERE || e->kind == DP_CARD_READY))
            return i;
        if (e->is_there && e->kind == DP_CARD_REFUSED && refuses == DP_NOBODY)
            refuses = i;
    }
    return refuses;
}

void dp_roster_fail(struct dp_roster *r, const char *fmt, ...)
{
    va_list ap;

    if (r->state == DP_ROSTER_GO || r->state == DP_ROSTER_FAILED)
        return;
    r->state = DP_ROSTER_FAILED;
    r->speaker = dp_roster_speaker(r);
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
}

bool dp_roster_fail_refused(struct dp_roster *r)
{
    for (uint32_t i = 0; i < r->n_workers; i++)
        if (r->entry[i].is_there && r->entry[i].kind == DP_CARD_REFUSED) {
            dp_roster_fail(r, "worker %u refuses to start: %.*s", i, r->entry[i].bytes,
                           r->entry[i].card ? (const char *)r->entry[i].card : "");
            return true;
        }
    return false;
}

uint32_t dp_roster_missing(const struct dp_roster *r, char *out, size_t cap)
{
    uint32_t n = 0;
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const char *node = r->entry[i].told;

        if (r->entry[i].is_there || r->entry[i].is_empty || n++ >= NAMED || used >= cap)
            continue;
        used += (size_t)snprintf(out + used, cap - used, "%sworker %u%s%s", used ? ", " : "", i, *node ? " on " : "", node);
    }
    if (n > NAMED && used < cap)
        snprintf(out + used, cap - used, " and %u more", n - NAMED);
    return n;
}

static int keep_card(struct dp_roster_entry *e, const struct dp_msg_card *m, struct dp_err *err)
{
    uint8_t *copy = malloc(m->card_len + 1u);

    if (!copy)
        return dp_err_set(err, DP_ENOMEM, "no memory for the card of worker %u", m->rank);
    if (m->card_len)
        memcpy(copy, m->card, m->card_len);
    free(e->card);
    e->card = copy;
    e->bytes = m->card_len;
    e->kind = m->kind;
    return 0;
}

static int take_key(struct dp_roster *r, const struct dp_msg_card *m, struct dp_err *err)
{
    if (m->kind != DP_CARD_READY)
        return 0;
    if (m->key_len != DP_KEY_BYTES)
        return dp_err_set(err, DP_EPROTO, "worker %u says that it is ready, and has no key", m->rank);
    if (r->has_key && memcmp(r->key, m->key, DP_KEY_BYTES))
        return dp_err_set(err, DP_EAUTH, "worker %u has a different key from the run's", m->rank);
    memcpy(r->key, m->key, DP_KEY_BYTES); /* of a daemon that ended since: all must have the same */
    r->has_key = true;
    return 0;
}

static void look(struct dp_roster *r)
{
    uint32_t n_there = 0, n_ready = 0, n_awaited = 0;

    for (uint32_t i = 0; i < r->n_workers; i++) {
        n_awaited += !r->entry[i].is_empty;
        n_there += r->entry[i].is_there;
        n_ready += r->entry[i].is_there && r->entry[i].kind == DP_CARD_READY;
    }
    if (r->state == DP_ROSTER_GATHERING && n_there == n_awaited && !dp_roster_fail_refused(r)) {
        r->state = DP_ROSTER_WHOLE;
        if (!r->has_key && dp_random(r->key, sizeof r->key, NULL) < 0)
            dp_roster_fail(r, "no random bytes for the run's key");
        r->has_key = true;
    }
    if (r->state == DP_ROSTER_WHOLE && n_ready == n_awaited) {
        r->state = DP_ROSTER_GO;
        dp_roster_forget_cards(r);
    }
}

static void be_patient(struct dp_roster *r, const struct dp_msg_card *m, uint64_t now_ns)
{
    uint64_t end_ns = now_ns + m->patience_ms * DP_MS_NS;

    if (m->kind == DP_CARD_REFUSED && end_ns > now_ns + REFUSED_NS)
        end_ns = now_ns + REFUSED_NS;
    if (!r->began_ns)
        r->began_ns = now_ns;
    if (!r->deadline_ns || end_ns < r->deadline_ns)
        r->deadline_ns = end_ns;
}

int dp_roster_put(struct dp_roster *r, const char *node, uint32_t pid, const struct dp_msg_card *m, uint64_t now_ns,
                  struct dp_err *err)
{
    struct dp_roster_entry *e = &r->entry[m->rank < r->n_workers ? m->rank : 0];
    bool is_other;

    if (m->n_workers != r->n_workers)
        return dp_err_set(err, DP_EINVAL, "worker %u counts %u tasks in its step, but there are %u", m->rank, m->n_workers,
                          r->n_workers);
    if (e->told[0] && strcmp(e->told, node))
        return dp_err_set(err, DP_EAUTH, "task %u was started on %s, not on %s", m->rank, e->told, node);
    if (e->is_empty)
        return dp_err_set(err, DP_EAUTH, "nobody has rank %u", m->rank);
    is_other = e->is_there && (e->pid != pid || strcmp(e->node, node));
    if (m->kind == DP_CARD_LOST) {
        if (e->is_there && !is_other)
            dp_roster_fail(r, "worker %u on %s ended before all workers had met: see what that task printed", m->rank, node);
        return 0;
    }
    if (is_other && (r->state == DP_ROSTER_FAILED || r->state == DP_ROSTER_GO))
        begin_round(r);
    else if (is_other && r->state == DP_ROSTER_WHOLE)
        dp_roster_fail(r, "worker %u on %s started again while the workers met", m->rank, node);
    if (r->state == DP_ROSTER_GO || (e->is_there && !is_other && e->kind == DP_CARD_READY))
        return 0;
    if (take_key(r, m, err) < 0 || keep_card(e, m, err) < 0)
        return -1;
    e->is_there = true;
    e->pid = pid;
    snprintf(e->node, sizeof e->node, "%s", node);
    be_patient(r, m, now_ns);
    look(r);
    return 0;
}

uint32_t dp_roster_piece(const struct dp_roster *r, uint32_t first, uint8_t *cards, struct dp_msg_roster *m)
{
    struct dp_writer w;
    uint32_t i = first;

    dp_writer_init(&w, cards, DP_ROSTER_CHUNK);
    while (i < r->n_workers && dp_writer_used(&w) + 2u + r->entry[i].bytes <= DP_ROSTER_CHUNK) {
        dp_wr_u16(&w, r->entry[i].bytes);
        dp_wr_bytes(&w, r->entry[i].card, r->entry[i].bytes);
        i++;
    }
    m->n_workers = r->n_workers;
    m->first = first;
    m->count = i - first;
    m->cards_len = (uint32_t)dp_writer_used(&w);
    m->cards = cards;
    return i;
}

int dp_roster_take(struct dp_roster *r, const struct dp_msg_roster *m, struct dp_err *err)
{
    struct dp_reader cards;

    if (m->first == 0) {
        dp_roster_forget_cards(r);
        r->state = DP_ROSTER_GATHERING;
    }
    if (m->n_workers != r->n_workers || m->first != r->n_taken)
        return dp_err_set(err, DP_EPROTO, "cards from %u of %u, and %u of %u are here", m->first, m->n_workers, r->n_taken,
                          r->n_workers);
    dp_reader_init(&cards, m->cards, m->cards_len);
    for (uint32_t i = m->first; i < m->first + m->count; i++) {
        struct dp_roster_entry *e = &r->entry[i];

        e->bytes = dp_rd_u16(&cards);
        e->card = malloc(e->bytes + 1u);
        if (!e->card)
            return dp_err_set(err, DP_ENOMEM, "no memory for the card of worker %u", i);
        dp_rd_bytes(&cards, e->card, e->bytes);
        r->n_taken = i + 1;
    }
    return 0;
}
