/* SPDX-License-Identifier: BSD-3-Clause */
/* See stocking.h. */
#include "worker/handover/stocking.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLACK ((uint64_t)1 << 20) /* bytes: each array takes whole pages, with a head in front of it */

struct dp_stocking {
    struct dp_backend *be;
    pthread_t thread;
    bool is_running;      /* the thread was not waited for yet */
    atomic_bool must_end;
};

/* What fails here is found, and said, where arrays are asked for. */
static void *work(void *arg)
{
    struct dp_stocking *s = arg;

    while (!atomic_load(&s->must_end) && s->be->ops->stock->fill(s->be, NULL) > 0)
        ;
    return NULL;
}

struct dp_stocking *dp_stocking_begin(struct dp_backend *be, uint64_t bytes, struct dp_err *err)
{
    struct dp_stocking *s;
    int rc;

    if (!be->ops->stock) {
        dp_err_set(err, DP_ENOTSUP, "backend %s keeps no memory in stock", be->ops->name);
        return NULL;
    }
    s = calloc(1, sizeof *s);
    if (!s || bytes > SIZE_MAX / 2) {
        free(s);
        dp_err_set(err, DP_ENOMEM, "no memory for %llu bytes in stock", (unsigned long long)bytes);
        return NULL;
    }
    s->be = be;
    if (be->ops->stock->begin(be, (size_t)(bytes + SLACK), err) < 0) {
        free(s);
        return NULL;
    }
    rc = pthread_create(&s->thread, NULL, work, s);
    if (rc) {
        be->ops->stock->end(be);
        free(s);
        dp_err_set(err, DP_ENOMEM, "no thread for memory in stock: %s", strerror(rc));
        return NULL;
    }
    s->is_running = true;
    return s;
}

void dp_stocking_finish(struct dp_stocking *s)
{
    if (s->is_running)
        pthread_join(s->thread, NULL);
    s->is_running = false;
}

void dp_stocking_stop(struct dp_stocking *s)
{
    atomic_store(&s->must_end, true);
    dp_stocking_finish(s);
}

uint64_t dp_stocking_left(const struct dp_stocking *s)
{
    return s ? s->be->ops->stock->left(s->be) : 0;
}

void dp_stocking_destroy(struct dp_stocking *s)
{
    if (!s)
        return;
    dp_stocking_stop(s);
    s->be->ops->stock->end(s->be);
    free(s);
}
