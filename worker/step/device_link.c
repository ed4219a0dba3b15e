/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_link.h. Meeting takes three exchanges: cards; what came of opening and trying the other's memory; whether the
 * answer has come. Parting takes one, when the other's memory is closed. */
#include "worker/step/device_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CARD_MAGIC 0x44504c43u /* "DPLC" */
#define N_LINKS 2 /* of a worker: a stage has one neighbour on each side */
#define MAX_PLACES 65536u /* of a card: microbatches are fewer */

enum round { CARDS, OPENED, ANSWERED, CLOSED };

/* Of the memory that the receiver of it may write to. */
struct card {
    uint32_t magic, is_shown;
    uint64_t nonce, message_bytes, stride;
    uint32_t n_places, reserved;
    struct dp_link_card memory;
    char why[200]; /* not shown */
};

/* What came of a round. */
struct verdict {
    uint32_t is_fine, reserved;
    char why[200];
};

/* ---- exchanges ---- */

static void cancel_all(struct dp_transport *t, struct dp_transport_request *x[2 * N_LINKS])
{
    for (int i = 0; i < 2 * N_LINKS; i++)
        if (x[i])
            dp_transport_cancel(t, x[i]);
}

/* `bytes` of `mine` to each link that is asked for, and theirs. */
static int exchange(const struct dp_device_link link[N_LINKS], const bool is_asked[N_LINKS], const struct dp_device_wait *wait,
                    enum round round, const void *mine, void *theirs, size_t bytes, struct dp_err *err)
{
    struct dp_transport_request *x[2 * N_LINKS] = {NULL};
    struct dp_transport *t = wait->transport;

    for (int i = 0; i < N_LINKS; i++) {
        uint64_t tag = dp_tag(DP_CH_WIREUP, link[i].epoch, link[i].step, (uint32_t)round);

        if (!is_asked[i])
            continue;
        x[i] = dp_transport_recv(t, (uint32_t)link[i].with, tag, (char *)theirs + (size_t)i * bytes, bytes, err);
        x[N_LINKS + i] = x[i] ? dp_transport_send(t, (uint32_t)link[i].with, tag, (const char *)mine + (size_t)i * bytes, bytes,
                                                  err)
                              : NULL;
        if (!x[i] || !x[N_LINKS + i]) {
            cancel_all(t, x);
            return -1;
        }
    }
    for (int i = 0; i < 2 * N_LINKS; i++) {
        int rc = x[i] ? dp_transport_wait(t, x[i], 0, NULL, err) : 0;

        x[i] = NULL; /* it is over in any case */
        if (rc < 0) {
            cancel_all(t, x);
            return -1;
        }
    }
    return 0;
}

/* ---- meeting ---- */

/* A number put into device memory, or read from it: the device is done with it. */
static int put_number(const struct dp_device_wait *wait, void *at, uint64_t number, struct dp_err *err)
{
    if (wait->be->ops->put(wait->be, at, &number, sizeof number, err) < 0)
        return -1;
    return dp_device_finish(wait, err);
}

static int get_number(const struct dp_device_wait *wait, const void *at, uint64_t *number, struct dp_err *err)
{
    if (dp_device_finish(wait, err) < 0)
        return -1;
    return wait->be->ops->get(wait->be, number, at, sizeof *number, err);
}

/* -1, err: what cannot be is no failure, but a reason. returns 0, or -1: it is one. */
static int reason(int rc, const struct dp_err *why, char text[200], struct dp_err *err)
{
    if (rc == 0)
        return 0;
    if (why->code != DP_ENOTSUP) {
        if (err)
            *err = *why;
        return -1;
    }
    snprintf(text, 200, "%.199s", why->text);
    return 0;
}

/* Show the neighbour where it may write, with a number in it. */
static int make_card(struct dp_device_link *l, const struct dp_device_wait *wait, size_t message_bytes, bool allowed,
                     struct card *c, struct dp_err *err)
{
    struct dp_err why = {0};
    int rc;

    *c = (struct card){.magic = CARD_MAGIC, .message_bytes = message_bytes, .stride = l->mine.stride,
                       .n_places = l->mine.n_places};
    if (!allowed) {
        snprintf(c->why, sizeof c->why, "pipeline.link is off");
        return 0;
    }
    if (getrandom(&l->my_nonce, sizeof l->my_nonce, 0) != (ssize_t)sizeof l->my_nonce)
        return dp_err_set(err, DP_EIO, "getrandom: %s", strerror(errno));
    c->nonce = l->my_nonce;
    rc = wait->be->ops->link->show(wait->be, l->mine.memory, &c->memory, &why);
    if (reason(rc, &why, c->why, err) < 0)
        return -1;
    c->is_shown = rc == 0;
    return rc == 0 ? put_number(wait, l->mine.memory, l->my_nonce, err) : 0;
}

static bool is_card(const struct card *c, size_t message_bytes)
{
    return c->magic == CARD_MAGIC && c->message_bytes == message_bytes && c->stride >= message_bytes &&
           c->stride < SIZE_MAX / 2 / MAX_PLACES && c->n_places >= 1 && c->n_places <= MAX_PLACES;
}

/* Open what the neighbour shows, read its number and write the answer behind it. */
static int try_memory(struct dp_device_link *l, const struct dp_device_wait *wait, const struct card *c, struct verdict *v,
                      struct dp_err *err)
{
    struct dp_err why = {0};
    uint64_t number = 0;

    int rc = wait->be->ops->link->open(wait->be, &c->memory, &l->other.memory, &why);

    if (rc < 0) {
        l->other.memory = NULL;
        return reason(rc, &why, v->why, err);
    }
    if (get_number(wait, l->other.memory, &number, err) < 0)
        return -1;
    if (number != c->nonce) {
        snprintf(v->why, sizeof v->why, "what was opened is not the memory that was shown");
        return 0;
    }
    v->is_fine = 1;
    return put_number(wait, (char *)l->other.memory + sizeof number, ~c->nonce, err);
}

/* After the cards: what comes of the neighbour's. */
static int take_card(struct dp_device_link *l, const struct dp_device_wait *wait, const struct card *mine, const struct card *c,
                     size_t message_bytes, struct verdict *v, struct dp_err *err)
{
    *v = (struct verdict){0};
    if (!mine->is_shown)
        snprintf(v->why, sizeof v->why, "%s", mine->why);
    else if (c->magic == CARD_MAGIC && !c->is_shown)
        snprintf(v->why, sizeof v->why, "%.*s", (int)sizeof c->why - 1, c->why);
    else if (!is_card(c, message_bytes))
        snprintf(v->why, sizeof v->why, "worker %d has other messages", l->with);
    else {
        l->other.n_places = c->n_places;
        l->other.stride = c->stride;
        l->other_nonce = c->nonce;
        l->place = calloc(c->n_places, sizeof *l->place);
        if (!l->place)
            return dp_err_set(err, DP_ENOMEM, "no memory for %u places", c->n_places);
        return try_memory(l, wait, c, v, err);
    }
    return 0;
}

/* The neighbour says that it has answered: has it? */
static int look_for_answer(const struct dp_device_link *l, const struct dp_device_wait *wait, struct verdict *v,
                           struct dp_err *err)
{
    uint64_t number = 0;

    *v = (struct verdict){0};
    if (get_number(wait, (const char *)l->mine.memory + sizeof number, &number, err) < 0)
        return -1;
    v->is_fine = number == ~l->my_nonce;
    if (!v->is_fine)
        snprintf(v->why, sizeof v->why, "what the other device writes does not come");
    return 0;
}

static void close_other(struct dp_device_link *l, const struct dp_device_wait *wait)
{
    wait->be->ops->link->close(wait->be, l->other.memory);
    l->other = (struct dp_link_area){0};
    free(l->place);
    l->place = NULL;
    l->is_on = false;
}

/* Both verdicts of a round are fine, or the reason is kept. */
static bool is_agreed(struct dp_device_link *l, const struct verdict *mine, const struct verdict *theirs)
{
    const struct verdict *bad = !mine->is_fine ? mine : !theirs->is_fine ? theirs : NULL;

    if (bad)
        snprintf(l->why, sizeof l->why, "%.*s", (int)sizeof bad->why - 1, bad->why);
    return !bad;
}

static int judge(struct dp_device_link link[N_LINKS], bool is_asked[N_LINKS], const struct dp_device_wait *wait, enum round round,
                 const struct verdict mine[N_LINKS], struct dp_err *err)
{
    struct verdict theirs[N_LINKS];

    if (exchange(link, is_asked, wait, round, mine, theirs, sizeof *mine, err) < 0)
        return -1;
    for (int i = 0; i < N_LINKS; i++)
        is_asked[i] = is_asked[i] && is_agreed(&link[i], &mine[i], &theirs[i]);
    return 0;
}

static int meet(struct dp_device_link link[N_LINKS], bool is_asked[N_LINKS], const struct dp_device_wait *wait,
                size_t message_bytes, bool allowed, struct dp_err *err)
{
    struct card mine[N_LINKS], theirs[N_LINKS];
    struct verdict verdict[N_LINKS];

    memset(mine, 0, sizeof mine);
    memset(verdict, 0, sizeof verdict);
    for (int i = 0; i < N_LINKS; i++)
        if (is_asked[i] && make_card(&link[i], wait, message_bytes, allowed, &mine[i], err) < 0)
            return -1;
    if (exchange(link, is_asked, wait, CARDS, mine, theirs, sizeof *mine, err) < 0)
        return -1;
    for (int i = 0; i < N_LINKS; i++)
        if (is_asked[i] && take_card(&link[i], wait, &mine[i], &theirs[i], message_bytes, &verdict[i], err) < 0)
            return -1;
    if (judge(link, is_asked, wait, OPENED, verdict, err) < 0)
        return -1;
    for (int i = 0; i < N_LINKS; i++)
        if (is_asked[i] && look_for_answer(&link[i], wait, &verdict[i], err) < 0)
            return -1;
    return judge(link, is_asked, wait, ANSWERED, verdict, err);
}

int dp_device_links_meet(struct dp_device_link link[N_LINKS], const struct dp_device_wait *wait, size_t message_bytes,
                         bool allowed, uint64_t epoch, uint64_t step, struct dp_err *err)
{
    bool is_asked[N_LINKS];

    for (int i = 0; i < N_LINKS; i++) {
        struct dp_device_link *l = &link[i];

        l->epoch = epoch;
        l->step = step;
        is_asked[i] = l->with >= 0 && wait->be->ops->link && dp_transport_is_local(wait->transport, (uint32_t)l->with);
        if (l->with >= 0 && !is_asked[i])
            snprintf(l->why, sizeof l->why, "%s", wait->be->ops->link ? "they are not on one node, or not in one container"
                                                                      : "their devices have no such link");
    }
    if (meet(link, is_asked, wait, message_bytes, allowed, err) < 0)
        return dp_err_prefix(err, "links between devices");
    for (int i = 0; i < N_LINKS; i++) {
        link[i].is_on = is_asked[i];
        if (!link[i].is_on && link[i].other.memory)
            close_other(&link[i], wait);
    }
    return 0;
}

/* ---- parting ---- */

int dp_device_links_part(struct dp_device_link link[N_LINKS], const struct dp_device_wait *wait, struct dp_err *err)
{
    struct dp_link_word mine[N_LINKS], theirs[N_LINKS];
    bool is_asked[N_LINKS];

    for (int i = 0; i < N_LINKS; i++) {
        struct dp_device_link *l = &link[i];

        is_asked[i] = l->is_on;
        for (uint32_t k = 0; l->is_on && k < l->other.n_places; k++)
            while (l->place[k].request)
                if (dp_device_link_is_free(l, wait, k, err) < 0)
                    return -1;
                else if (l->place[k].request)
                    dp_transport_idle(wait->transport, 1000000);
        mine[i] = dp_device_link_other_word(l, 0);
        if (l->is_on)
            close_other(l, wait);
    }
    if (exchange(link, is_asked, wait, CLOSED, mine, theirs, sizeof *mine, err) < 0)
        return dp_err_prefix(err, "links between devices");
    for (int i = 0; i < N_LINKS; i++) {
        const struct dp_link_word want = dp_device_link_my_word(&link[i], 0);

        if (is_asked[i] && dp_device_link_check(&link[i], &theirs[i], &want, err) < 0)
            return -1;
        link[i].with = -1;
    }
    return 0;
}

void dp_device_link_drop(struct dp_device_link *l, const struct dp_device_wait *wait, bool is_idle)
{
    for (uint32_t k = 0; l->place && k < l->other.n_places; k++)
        if (l->place[k].request)
            dp_transport_cancel(wait->transport, l->place[k].request);
    if (l->other.memory && is_idle)
        wait->be->ops->link->close(wait->be, l->other.memory);
    free(l->place);
    *l = (struct dp_device_link){.with = -1};
}

/* ---- messages ---- */

int dp_device_link_check(const struct dp_device_link *l, const struct dp_link_word *got, const struct dp_link_word *want,
                         struct dp_err *err)
{
    if (got->nonce == want->nonce && got->place == want->place)
        return 0;
    return dp_err_set(err, DP_ECORRUPT, "worker %d speaks of place %u of %s memory, not place %u", l->with, got->place,
                      got->nonce == want->nonce ? "this" : "another", want->place);
}

int dp_device_link_is_free(struct dp_device_link *l, const struct dp_device_wait *wait, uint32_t place, struct dp_err *err)
{
    struct dp_link_place *p = &l->place[place];
    const struct dp_link_word want = dp_device_link_other_word(l, place);
    struct dp_transport_request *x = p->request;
    struct dp_err local = {0};

    if (!x)
        return 1;
    if (!dp_transport_test(wait->transport, x) && !dp_transport_is_gone(wait->transport, (uint32_t)l->with))
        return 0;
    p->request = NULL;
    if (dp_transport_wait(wait->transport, x, 0, NULL, &local) < 0) {
        if (err)
            *err = local;
        return -1;
    }
    return dp_device_link_check(l, &p->word, &want, err) < 0 ? -1 : 1;
}

void *dp_device_link_at(const struct dp_device_link *l, uint32_t place)
{
    return (char *)l->other.memory + (size_t)place * l->other.stride;
}

int dp_device_link_expect(struct dp_device_link *l, const struct dp_device_wait *wait, uint32_t place, uint64_t tag,
                          struct dp_err *err)
{
    struct dp_link_place *p = &l->place[place];

    p->request = dp_transport_recv(wait->transport, (uint32_t)l->with, tag, &p->word, sizeof p->word, err);
    return p->request ? 0 : -1;
}

struct dp_link_word dp_device_link_other_word(const struct dp_device_link *l, uint32_t place)
{
    return (struct dp_link_word){.nonce = l->other_nonce, .place = place};
}

struct dp_link_word dp_device_link_my_word(const struct dp_device_link *l, uint32_t place)
{
    return (struct dp_link_word){.nonce = l->my_nonce, .place = place};
}
