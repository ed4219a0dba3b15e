/* SPDX-License-Identifier: BSD-3-Clause */
/* See newcomers.h. */
#include "config.h"

#include "daemon/run/slices/newcomers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/wireup/wireup.h"
#include "daemon/run/worker.h"

struct dp_newcomers {
    bool has_key;
    uint8_t key[DP_KEY_BYTES];
    struct {
        uint16_t bytes;
        uint8_t *card; /* NULL: not known */
    } entry[DP_MAX_WORKERS];
};

void dp_newcomers_card(struct dp_conn *c, const struct dp_msg_card *m)
{
    struct dp_worker *w = c->data;
    struct dp_msg_card as_run = *m;

    if (m->kind != DP_CARD_AGAIN || m->key_len != DP_KEY_BYTES) {
        dp_conn_refuse(c, "workers do not send this");
        return;
    }
    if (!w || w->is_waiting)
        return;
    as_run.job_id = w->run->job_id;
    as_run.rank = w->rank;
    as_run.options[0] = '\0';
    if (as_run.rank >= as_run.n_workers)
        return;
    if (w->run->role == DP_RUN_RELAY)
        (void)dp_wireup_send_up(w->run, w->pid, &as_run);
    else if (dp_slices_are(w->run) && dp_run_takes(w->run, w->rank, DP_MSG_CARD))
        dp_newcomers_put(w->run, &as_run);
}

void dp_newcomers_put(struct dp_run *run, const struct dp_msg_card *m)
{
    uint8_t *copy;

    if (!run->newcomers)
        run->newcomers = calloc(1, sizeof *run->newcomers);
    copy = run->newcomers && m->rank < DP_MAX_WORKERS && m->key_len == DP_KEY_BYTES ? malloc(m->card_len + 1u) : NULL;
    if (!copy)
        return; /* said again with the next WELCOME */
    if (m->card_len)
        memcpy(copy, m->card, m->card_len);
    free(run->newcomers->entry[m->rank].card);
    run->newcomers->entry[m->rank].card = copy;
    run->newcomers->entry[m->rank].bytes = m->card_len;
    memcpy(run->newcomers->key, m->key, DP_KEY_BYTES);
    run->newcomers->has_key = true;
}

bool dp_newcomers_find(const struct dp_run *run, uint32_t rank, struct dp_msg_card *out)
{
    const struct dp_newcomers *n = run->newcomers;

    if (!n || rank >= DP_MAX_WORKERS || !n->entry[rank].card)
        return false;
    *out = (struct dp_msg_card){.job_id = run->job_id, .step_id = run->step_id, .rank = rank, .n_workers = DP_MAX_WORKERS,
                                .kind = DP_CARD_HERE, .card_len = n->entry[rank].bytes, .card = n->entry[rank].card};
    return true;
}

/* One that the newcomer need not say anything to before they are in a layout together may be missing. */
static bool fill_one(const struct dp_run *run, struct dp_roster_entry *e, uint32_t rank)
{
    struct dp_msg_card m;

    if (!dp_newcomers_find(run, rank, &m))
        return false;
    e->card = malloc(m.card_len + 1u);
    if (!e->card)
        return false;
    if (m.card_len)
        memcpy(e->card, m.card, m.card_len);
    e->bytes = m.card_len;
    e->kind = DP_CARD_READY;
    e->is_there = true;
    e->pid = run->rank_pid[rank];
    snprintf(e->node, sizeof e->node, "%s", run->rank_node[rank]);
    return true;
}

int dp_newcomers_fill(const struct dp_run *run, struct dp_roster *r, uint32_t rank, struct dp_err *err)
{
    if (!run->newcomers || !run->newcomers->has_key)
        return dp_err_set(err, DP_EGONE, "the run's key is not known yet");
    for (uint32_t i = 0; i < r->n_workers; i++) {
        bool is_there = i != rank && fill_one(run, &r->entry[i], i);

        r->entry[i].is_empty = i != rank && !is_there;
        if (!is_there && i != rank && dp_coord_is_in(run->coord, i))
            return dp_err_set(err, DP_EGONE, "the address of worker %u is not known yet", i);
    }
    memcpy(r->key, run->newcomers->key, sizeof r->key);
    r->has_key = true;
    return 0;
}

void dp_newcomers_drop(struct dp_run *run, uint32_t rank)
{
    if (!run->newcomers)
        return;
    free(run->newcomers->entry[rank].card);
    run->newcomers->entry[rank].card = NULL;
}

void dp_newcomers_forget(struct dp_run *run)
{
    for (uint32_t i = 0; run->newcomers && i < DP_MAX_WORKERS; i++)
        free(run->newcomers->entry[i].card);
    if (run->newcomers)
        explicit_bzero(run->newcomers->key, sizeof run->newcomers->key);
    free(run->newcomers);
    run->newcomers = NULL;
}
