/* SPDX-License-Identifier: BSD-3-Clause */
/* See failing_device.h. */
#include "tests/unit/worker/failing_device.h"

#include <stdlib.h>
#include <string.h>

enum weight { WORKS, WAITS, GIVES }; /* a call that tells the device something; that waits for it; that returns something */

struct failing {
    struct dp_backend *inner;
    enum fails_how how;
    uint32_t at, n;
    const char *failed; /* the call */
    bool is_hidden;     /* nobody was told yet */
    bool was_asked, was_synced; /* since the last call that told the device something */
};

static struct failing *of(const struct dp_backend *be)
{
    return be->ctx;
}

static int say(struct failing *f, struct dp_err *err)
{
    f->is_hidden = false;
    return dp_err_set(err, DP_EIO, "failing device: %s: this call was told to fail", f->failed);
}

/* Is it asked again how far the device is? How often somebody does so is up to others. */
static bool asks_again(struct failing *f, const char *name)
{
    bool *is_asked = !strcmp(name, "reached") ? &f->was_asked : !strcmp(name, "sync") ? &f->was_synced : NULL;
    bool again = is_asked && *is_asked;

    if (is_asked)
        *is_asked = true;
    else
        f->was_asked = f->was_synced = false;
    return again;
}

/* returns: 1 the call is to be made, 0 it is not, and all seems well, -1 and err. */
static int enter(struct failing *f, const char *name, enum weight weight, bool is_memory, struct dp_err *err)
{
    if (f->failed && f->how != FAILS_MEMORY)
        return f->is_hidden && weight == WORKS ? 0 : say(f, err);
    if (!f->at || (f->how == FAILS_MEMORY && !is_memory) || asks_again(f, name) || ++f->n != f->at)
        return 1;
    f->failed = name;
    if (f->how == FAILS_MEMORY)
        return dp_err_set(err, DP_ENOMEM, "failing device: %s: no memory was told to be left", name);
    f->is_hidden = f->how == FAILS_LATE && weight == WORKS;
    return f->is_hidden ? 0 : say(f, err);
}

#define CALL(name, weight, is_memory, parameters, arguments)                      \
    static int failing_##name parameters                                          \
    {                                                                             \
        struct failing *f = of(be);                                               \
        int rc = enter(f, #name, weight, is_memory, err);                         \
                                                                                  \
        be = f->inner;                                                            \
        return rc > 0 ? be->ops->name arguments : rc;                             \
    }
CALL(info, GIVES, false, (struct dp_backend *be, struct dp_device_info *out, struct dp_err *err), (be, out, err))
CALL(alloc, GIVES, true, (struct dp_backend *be, size_t bytes, void **out, struct dp_err *err), (be, bytes, out, err))
CALL(alloc_staging, GIVES, true, (struct dp_backend *be, size_t bytes, void **out, struct dp_err *err), (be, bytes, out, err))
CALL(put, WORKS, false, (struct dp_backend *be, void *dst, const void *host, size_t bytes, struct dp_err *err),
     (be, dst, host, bytes, err))
CALL(get, WAITS, false, (struct dp_backend *be, void *host, const void *src, size_t bytes, struct dp_err *err),
     (be, host, src, bytes, err))
CALL(copy, WORKS, false, (struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err),
     (be, dst, src, bytes, err))
CALL(zero, WORKS, false, (struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err), (be, dst, bytes, err))
CALL(move, WORKS, false,
     (struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes, struct dp_err *err),
     (be, lane, dst, src, bytes, err))
CALL(after, WORKS, false, (struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err), (be, lane, t, err))
CALL(reached, WAITS, false, (struct dp_backend *be, dp_ticket t, struct dp_err *err), (be, t, err))
CALL(await, WAITS, false, (struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err),
     (be, t, timeout_ns, err))
CALL(sync, WAITS, false, (struct dp_backend *be, struct dp_err *err), (be, err))
CALL(lap, WORKS, false, (struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err), (be, sum_ns, err))
CALL(laps_collect, WAITS, false, (struct dp_backend *be, struct dp_err *err), (be, err))
CALL(sparse_prepare, GIVES, true, (struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err), (be, sp, err))
CALL(sparse_refresh, WORKS, false, (struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err),
     (be, sp, w, err))

#define CALL_OP(op) CALL(op, WORKS, false, (struct dp_backend *be, const struct dp_##op *a, struct dp_err *err), (be, a, err))
DP_BACKEND_OPS(CALL_OP)

/* A point is marked even behind what failed. */
static int failing_mark(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err)
{
    struct failing *f = of(be);
    int rc = enter(f, "mark", WORKS, false, err);

    return rc < 0 ? -1 : f->inner->ops->mark(f->inner, lane, out, err);
}

static void failing_free(struct dp_backend *be, void *p)
{
    of(be)->inner->ops->free(of(be)->inner, p);
}

static void failing_free_staging(struct dp_backend *be, void *p)
{
    of(be)->inner->ops->free_staging(of(be)->inner, p);
}

static uint64_t failing_time_ns(struct dp_backend *be)
{
    return of(be)->inner->ops->time_ns(of(be)->inner);
}

static void failing_sparse_release(struct dp_backend *be, struct dp_sparse *sp)
{
    of(be)->inner->ops->sparse_release(of(be)->inner, sp);
}

static size_t failing_sparse_bytes(struct dp_backend *be, const struct dp_sparse *sp)
{
    return of(be)->inner->ops->sparse_bytes(of(be)->inner, sp);
}

static size_t failing_head_bytes(struct dp_backend *be, int64_t n, int64_t c, int64_t v)
{
    return of(be)->inner->ops->head_bytes(of(be)->inner, n, c, v);
}

#define MEMBER(op) .op = failing_##op,
static const struct dp_backend_ops failing_ops = {
    .abi = DP_BACKEND_ABI,
    .name = "failing",
    .info = failing_info,
    .alloc = failing_alloc,
    .free = failing_free,
    .alloc_staging = failing_alloc_staging,
    .free_staging = failing_free_staging,
    .put = failing_put,
    .get = failing_get,
    .copy = failing_copy,
    .zero = failing_zero,
    .move = failing_move,
    .mark = failing_mark,
    .after = failing_after,
    .reached = failing_reached,
    .await = failing_await,
    .sync = failing_sync,
    .time_ns = failing_time_ns,
    .lap = failing_lap,
    .laps_collect = failing_laps_collect,
    .sparse_prepare = failing_sparse_prepare,
    .sparse_release = failing_sparse_release,
    .sparse_refresh = failing_sparse_refresh,
    .sparse_bytes = failing_sparse_bytes,
    .head_bytes = failing_head_bytes,
    DP_BACKEND_OPS(MEMBER)
};

struct dp_backend *failing_device_create(struct dp_backend *inner)
{
    struct dp_backend *be = malloc(sizeof *be);
    struct failing *f = calloc(1, sizeof *f);

    if (!be || !f) {
        free(be);
        free(f);
        return NULL;
    }
    f->inner = inner;
    *be = (struct dp_backend){.ops = &failing_ops, .ctx = f, .info = inner->info};
    return be;
}

void failing_device_destroy(struct dp_backend *be)
{
    if (!be)
        return;
    dp_backend_destroy(of(be)->inner);
    free(of(be));
    free(be);
}

void failing_device_arm(struct dp_backend *be, enum fails_how how, uint32_t at)
{
    struct failing *f = of(be);

    if (f->failed && f->how != FAILS_MEMORY)
        return;
    f->how = how;
    f->at = at;
    f->n = 0;
    f->was_asked = f->was_synced = false;
    f->failed = NULL;
}

const char *failing_device_failed(const struct dp_backend *be)
{
    return of(be)->failed;
}
