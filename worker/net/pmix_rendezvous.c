/* SPDX-License-Identifier: BSD-3-Clause */
/* See pmix_rendezvous.h. Who is there is found out by asking for what each has put before its fence: PMIx fetches that
 * from the other node, fence or not, and of a worker that never came it says nothing, ever. A step daemon
 * that talks to one that has ended answers nobody until it gives up, after 31 s (Slurm 22.05); so
 * answers get more than that before anybody is called missing.
 *
 * Worker 0 asks for all, the next ASKERS ones for those below them, so that somebody can speak where
 * worker 0 itself is missing, and large runs are not flooded. The lowest one that is there speaks.
 *
 * Callbacks run on PMIx's thread, also after this file has given up: what they touch is static. */
#define _GNU_SOURCE /* pthread_condattr_setclock */
#include "worker/net/pmix_rendezvous.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/run/layout.h"
#include "lib/timeout.h"

#define ASK_NS (5 * DP_SECOND_NS)     /* until somebody is asked for: most starts are over by then */
#define ANSWER_NS (40 * DP_SECOND_NS) /* for the answers */
#define WARN_NS (90 * DP_SECOND_NS)   /* from the start, where the timeout is longer still */
#define ASKERS 64 /* see above: that so many first workers are all missing is unlikely */
#define NAMED 4         /* missing workers that a text names */
#define SPEAK_FIRST_S 5 /* the others leave a speaker so long before they end, and the step with them */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_ready, is_done;
    pmix_status_t status;
    bool is_here[DP_MAX_WORKERS];
} hall = {.mutex = PTHREAD_MUTEX_INITIALIZER};

uint64_t dp_rendezvous_timeout_ns(void)
{
    return dp_timeout_from_env_ns("DYNPIPE_WIREUP_S", 300 * DP_SECOND_NS);
}

static void on_fence(pmix_status_t status, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&hall.mutex);
    hall.is_done = true;
    hall.status = status;
    pthread_cond_broadcast(&hall.changed);
    pthread_mutex_unlock(&hall.mutex);
}

static void on_answer(pmix_status_t status, pmix_value_t *value, void *arg)
{
    (void)value;
    if (status != PMIX_SUCCESS)
        return;
    pthread_mutex_lock(&hall.mutex);
    hall.is_here[(uintptr_t)arg] = true;
    pthread_mutex_unlock(&hall.mutex);
}

/* returns: is the fence over? */
static bool wait_until(uint64_t end_ns)
{
    struct timespec end = {.tv_sec = (time_t)(end_ns / DP_SECOND_NS), .tv_nsec = (long)(end_ns % DP_SECOND_NS)};
    bool is_done;

    pthread_mutex_lock(&hall.mutex);
    while (!hall.is_done && pthread_cond_timedwait(&hall.changed, &hall.mutex, &end) == 0)
        ;
    is_done = hall.is_done;
    pthread_mutex_unlock(&hall.mutex);
    return is_done;
}

/* Ranks that this one asks for: the first of them and behind the last. */
static uint32_t asked_from(const struct dp_rendezvous *m)
{
    return m->me.rank == 0 ? 1 : 0;
}

static uint32_t asked_to(const struct dp_rendezvous *m)
{
    return m->me.rank == 0 ? m->n_workers : m->me.rank <= ASKERS ? m->me.rank : 0;
}

static void ask(const struct dp_rendezvous *m)
{
    pmix_proc_t p = m->me;

    for (uint32_t r = asked_from(m); m->key && r < asked_to(m); r++) {
        pmix_status_t status;

        p.rank = r;
        status = PMIx_Get_nb(&p, m->key, NULL, 0, on_answer, (void *)(uintptr_t)r);
        if (status == PMIX_OPERATION_SUCCEEDED)
            on_answer(PMIX_SUCCESS, NULL, (void *)(uintptr_t)r);
    }
}

/* " on n3", as the launcher knows it. */
static void name_node(const struct dp_rendezvous *m, uint32_t rank, char *out, size_t cap)
{
    pmix_value_t *v = NULL;
    pmix_proc_t p = m->me;
    pmix_info_t local;
    bool yes = true;

    out[0] = '\0';
    p.rank = rank;
    PMIX_INFO_CONSTRUCT(&local);
    PMIX_INFO_LOAD(&local, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    if (PMIx_Get(&p, PMIX_HOSTNAME, &local, 1, &v) == PMIX_SUCCESS) {
        if (v->type == PMIX_STRING && v->data.string)
            snprintf(out, cap, " on %.64s", v->data.string);
        PMIX_VALUE_RELEASE(v);
    }
    PMIX_INFO_DESTRUCT(&local);
}

/* Everybody below this one is missing: then it speaks. The missing by name in out, "" when all are there.
 * returns: false, another one speaks. */
static bool find_missing(const struct dp_rendezvous *m, char *out, size_t cap)
{
    bool is_here[DP_MAX_WORKERS];
    uint32_t n = 0;
    size_t used = 0;

    out[0] = '\0';
    if (!m->key || m->me.rank > ASKERS)
        return m->me.rank == 0;
    pthread_mutex_lock(&hall.mutex);
    memcpy(is_here, hall.is_here, sizeof is_here);
    pthread_mutex_unlock(&hall.mutex);
    for (uint32_t r = 0; r < m->me.rank; r++)
        if (is_here[r])
            return false;
    for (uint32_t r = asked_from(m); r < asked_to(m); r++) {
        char node[80];

        if (is_here[r] || n++ >= NAMED || used >= cap)
            continue;
        name_node(m, r, node, sizeof node);
        used += (size_t)snprintf(out + used, cap - used, "%sworker %u%s", used ? ", " : "", r, node);
    }
    if (n > NAMED && used < cap)
        snprintf(out + used, cap - used, " and %u more", n - NAMED);
    return true;
}

static int give_up(const struct dp_rendezvous *m, uint64_t start_ns, struct dp_err *err)
{
    const struct timespec speak_first = {.tv_sec = SPEAK_FIRST_S};
    char who[512];

    dp_err_set(err, DP_ETIMEOUT, "%s", "");
    if (!find_missing(m, who, sizeof who))
        nanosleep(&speak_first, NULL);
    else if (who[0])
        dp_err_set(err, DP_ETIMEOUT,
                   "nothing heard from %s in %.0f s: the run cannot begin; see what that task printed, and that dynpipe-worker "
                   "starts there (DYNPIPE_WIREUP_S: seconds to wait)", who, (double)(dp_now_ns() - start_ns) / 1e9);
    else
        dp_err_set(err, DP_ETIMEOUT, "%s, and the launcher's fence has not ended in %.0f s",
                   m->key ? "all workers have come" : "not all workers may have come",
                   (double)(dp_now_ns() - start_ns) / 1e9);
    return -1;
}

static int begin(const struct dp_rendezvous *m, struct dp_err *err)
{
    pthread_condattr_t attr;
    pmix_proc_t all = m->me;
    pmix_info_t collect;
    pmix_status_t status;
    bool yes = true;

    if (!hall.is_ready) {
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&hall.changed, &attr);
        pthread_condattr_destroy(&attr);
        hall.is_ready = true;
    }
    hall.is_done = false;
    all.rank = PMIX_RANK_WILDCARD;
    PMIX_INFO_CONSTRUCT(&collect);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    status = PMIx_Fence_nb(&all, 1, &collect, 1, on_fence, NULL);
    PMIX_INFO_DESTRUCT(&collect);
    if (status == PMIX_OPERATION_SUCCEEDED)
        on_fence(PMIX_SUCCESS, NULL);
    else if (status != PMIX_SUCCESS)
        return dp_err_set(err, DP_EIO, "PMIx: first fence: %s", PMIx_Error_string(status));
    return 0;
}

/* returns: is the fence over? */
static bool wait_patiently(const struct dp_rendezvous *m, uint64_t start_ns)
{
    uint64_t end_ns = m->timeout_ns > ASK_NS + ANSWER_NS ? m->timeout_ns : ASK_NS + ANSWER_NS;
    char who[512];

    if (wait_until(start_ns + ASK_NS))
        return true;
    ask(m);
    if (end_ns > WARN_NS) {
        if (wait_until(start_ns + WARN_NS))
            return true;
        if (find_missing(m, who, sizeof who) && who[0])
            dp_warn("nothing heard from %s in %.0f s, waiting %.0f s more", who, (double)WARN_NS / 1e9,
                    (double)(end_ns - WARN_NS) / 1e9);
    }
    return wait_until(start_ns + end_ns);
}

int dp_rendezvous_fence(const struct dp_rendezvous *m, struct dp_err *err)
{
    uint64_t start_ns = dp_now_ns();

    if (begin(m, err) < 0)
        return -1;
    if (!wait_patiently(m, start_ns))
        return give_up(m, start_ns, err);
    return hall.status == PMIX_SUCCESS ? 0 : dp_err_set(err, DP_EIO, "PMIx: first fence: %s", PMIx_Error_string(hall.status));
}
