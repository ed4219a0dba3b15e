/* SPDX-License-Identifier: BSD-3-Clause */
/* See wireup_internal.h: wire-up by the launcher's PMIx. The cards go through PMIx once, at the start; afterwards PMIx is only
 * told that a worker leaves, because a process that ends without PMIx_Finalize makes Slurm kill the whole step. PMIx events
 * are never used (they kill the step too).
 *
 * Everything here may block for as long as the slowest worker needs to start, which pmix_rendezvous.c limits. PMIx is not initialised
 * unless the launcher announced it: PMIx_Init without a server waits or fails in ways that differ between versions. */
#include "worker/net/wireup_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <pmix.h>

#include "common/run/layout.h"
#include "worker/net/pmix_rendezvous.h"

#define KEY_CARD "dynpipe.card"
#define KEY_SECRET "dynpipe.key"
#define KEY_REFUSAL "dynpipe.refusal" /* why a worker does not start */
#define SPEAK_FIRST_S 5 /* worker 0 tells it, before any of the others ends the step */
#define ABORT_S 20 /* SIGALRM ends a worker whose launcher does not even end it */

static pmix_proc_t me; /* one PMIx client per process, as PMIx wants it */

static int fail(struct dp_err *err, const char *what, pmix_status_t status)
{
    return dp_err_set(err, DP_EIO, "PMIx: %s: %s", what, PMIx_Error_string(status));
}

/* PMIx shares data between a node's processes by files, and says NOT-FOUND where there is no room for them. */
static int fail_at_start(struct dp_err *err, const char *what, pmix_status_t status)
{
    const char *const names[] = {"PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "TMPDIR", NULL};
    struct statvfs v;

    fail(err, what, status);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *folder = names[i] ? getenv(names[i]) : "/tmp";

        if (folder && folder[0] && statvfs(folder, &v) == 0 && (v.f_bavail == 0 || (v.f_files && v.f_favail == 0)))
            return dp_err_set(err, DP_EIO, "PMIx: %s: %s: no space is left in %.500s, where it keeps files (%s): free some, or "
                              "set TMPDIR for the launcher", what, PMIx_Error_string(status), folder,
                              names[i] ? names[i] : "the default");
    }
    return -1;
}

static int get_size(uint32_t *out, struct dp_err *err)
{
    pmix_proc_t all = me;
    pmix_value_t *v = NULL;
    pmix_status_t status;

    all.rank = PMIX_RANK_WILDCARD;
    status = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v);
    if (status != PMIX_SUCCESS)
        return fail_at_start(err, "no job size", status);
    *out = v->type == PMIX_UINT32 ? v->data.uint32 : 0;
    PMIX_VALUE_RELEASE(v);
    if (*out < 1 || *out > DP_MAX_WORKERS)
        return dp_err_set(err, DP_EINVAL, "%u workers; allowed: 1 to %d", *out, DP_MAX_WORKERS);
    return 0;
}

static uint32_t get_local_rank(void)
{
    pmix_value_t *v = NULL;
    uint32_t rank = 0;

    if (PMIx_Get(&me, PMIX_LOCAL_RANK, NULL, 0, &v) != PMIX_SUCCESS)
        return 0;
    if (v->type == PMIX_UINT16)
        rank = v->data.uint16;
    PMIX_VALUE_RELEASE(v);
    return rank;
}

int dp_pmix_init(struct dp_wireup *w, struct dp_err *err)
{
    pmix_status_t status = PMIx_Init(&me, NULL, 0);

    if (status != PMIX_SUCCESS)
        return fail_at_start(err, "cannot reach the launcher", status);
    w->way = DP_WIREUP_BY_PMIX;
    w->rank = me.rank;
    w->local_rank = get_local_rank();
    return get_size(&w->n_workers, err);
}

void dp_pmix_release(void)
{
    PMIx_Finalize(NULL, 0);
}

void dp_pmix_abort(void)
{
    alarm(ABORT_S);
    PMIx_Abort(1, "the workers have not met", NULL, 0);
}

static int put(const char *name, const void *data, size_t bytes, struct dp_err *err)
{
    pmix_value_t v = {.type = PMIX_BYTE_OBJECT};
    pmix_status_t status;

    v.data.bo.bytes = (char *)(uintptr_t)data; /* copied by PMIx_Put */
    v.data.bo.size = bytes;
    status = PMIx_Put(PMIX_GLOBAL, name, &v);
    return status == PMIX_SUCCESS ? 0 : fail(err, name, status);
}

/* Did that worker say why it does not start? Its text, else *err as it is. */
static int explain(uint32_t rank, struct dp_err *err)
{
    pmix_proc_t p = me;
    pmix_value_t *v;
    pmix_info_t local;
    bool yes = true;

    p.rank = rank;
    PMIX_INFO_CONSTRUCT(&local);
    PMIX_INFO_LOAD(&local, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    if (PMIx_Get(&p, KEY_REFUSAL, &local, 1, &v) == PMIX_SUCCESS) {
        if (v->type == PMIX_BYTE_OBJECT && me.rank == 0)
            dp_err_set(err, DP_EINVAL, "worker %u refuses to start: %.*s", rank, (int)v->data.bo.size, v->data.bo.bytes);
        else if (v->type == PMIX_BYTE_OBJECT) {
            sleep(SPEAK_FIRST_S);
            dp_err_set(err, DP_EINVAL, "%s", "");
        }
        PMIX_VALUE_RELEASE(v);
    }
    PMIX_INFO_DESTRUCT(&local);
    return -1;
}

/* The bytes that worker `rank` put. The caller releases *out with PMIX_VALUE_RELEASE. */
static int get(uint32_t rank, const char *name, pmix_value_t **out, struct dp_err *err)
{
    pmix_proc_t p = me;
    pmix_info_t local;
    bool yes = true;
    pmix_status_t status;

    p.rank = rank;
    PMIX_INFO_CONSTRUCT(&local);
    PMIX_INFO_LOAD(&local, PMIX_IMMEDIATE, &yes, PMIX_BOOL); /* the fence brought all that there is */
    status = PMIx_Get(&p, name, &local, 1, out);
    PMIX_INFO_DESTRUCT(&local);
    if (status != PMIX_SUCCESS) {
        fail(err, name, status);
        dp_err_prefix(err, "worker %u", rank);
        return explain(rank, err);
    }
    if ((*out)->type == PMIX_BYTE_OBJECT)
        return 0;
    PMIX_VALUE_RELEASE(*out);
    return dp_err_set(err, DP_EPROTO, "PMIx: %s of worker %u has the wrong type", name, rank);
}

/* key: what all have put, so that who is missing can be told; NULL: nothing that is sure. */
static int fence(const struct dp_wireup *w, const char *key, struct dp_err *err)
{
    const struct dp_rendezvous m = {
        .me = me, .n_workers = w->n_workers, .key = key, .timeout_ns = dp_rendezvous_timeout_ns()};

    return dp_rendezvous_fence(&m, err);
}

static int take_key(struct dp_transport *t, struct dp_err *err)
{
    pmix_value_t *v;
    int rc = 0;

    if (get(0, KEY_SECRET, &v, err) < 0)
        return -1;
    if (v->data.bo.size == 16)
        dp_transport_set_key(t, (const uint8_t *)v->data.bo.bytes);
    else
        rc = dp_err_set(err, DP_EPROTO, "the run's key has %zu bytes, not 16", v->data.bo.size);
    PMIX_VALUE_RELEASE(v);
    return rc;
}

static int take_cards(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err)
{
    for (uint32_t i = 0; i < w->n_workers; i++) {
        pmix_value_t *v;
        int rc;

        if (i == w->rank)
            continue;
        if (get(i, KEY_CARD, &v, err) < 0)
            return -1;
        rc = dp_transport_add(t, i, v->data.bo.bytes, v->data.bo.size, err);
        PMIX_VALUE_RELEASE(v);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int dp_pmix_exchange(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err)
{
    uint8_t key[16];
    const void *card;
    size_t bytes;
    pmix_status_t status;

    if (w->rank == 0) {
        if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
            return dp_err_set(err, DP_EIO, "no random bytes for the run's key: %s", strerror(errno));
        if (put(KEY_SECRET, key, sizeof key, err) < 0)
            return -1;
    }
    dp_transport_card(t, &card, &bytes);
    if (put(KEY_CARD, card, bytes, err) < 0)
        return -1;
    status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
        return fail(err, "commit", status);
    return fence(w, KEY_CARD, err) < 0 || take_key(t, err) < 0 || take_cards(w, t, err) < 0 ? -1 : 0;
}

void dp_pmix_refuse(const struct dp_wireup *w, const char *why)
{
    struct dp_err err;

    if (put(KEY_REFUSAL, why, strlen(why), &err) == 0 && PMIx_Commit() == PMIX_SUCCESS)
        fence(w, NULL, &err);
}

int dp_pmix_barrier(const struct dp_wireup *w, struct dp_err *err)
{
    return fence(w, NULL, err);
}
