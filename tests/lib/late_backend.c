/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that keeps to the words of kernels/backend.h and promises nothing more, for tests: the cpu's operations on
 * memory that the host cannot touch, done as late as the interface allows.
 *
 * What a lane is told waits in its queue. Only a call that waits (get, await, sync, laps_collect, time_ns) has work done,
 * and reached, now and then: each time the head of some lane that may run, which one a seeded generator says. So whoever
 * leaves out an after() or reads before a ticket gets other numbers, and whoever follows a device pointer dies. Memory
 * that was freed, and staging memory at first, is full of NaN.
 *
 * A worker takes it with DYNPIPE_CUDA_PLUGIN=.../late_backend.so and pipeline.backend=cuda. From the environment:
 *   DYNPIPE_LATE_SEED   of the order (1)
 *   DYNPIPE_LATE_FAIL   the how-maniest piece of work fails (0: none), counted from when the process set it; later calls
 *                       say so
 *   DYNPIPE_LATE_DEAF   1: lanes do not wait for each other, as if every after() were left out: what a test must notice
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "kernels/cpu/cpu.h"

#define ARENA_BYTES ((size_t)4 << 30) /* of addresses; memory is taken as it is written */
#define BORDER 64                     /* around each block, so that no two touch */

enum kind { RUN, PUT, COPY, ZERO, FREE, WAIT, LAP, REFRESH };

typedef int op_fn(struct dp_backend *be, const void *args, struct dp_err *err);

/* A piece of work. */
struct work {
    struct work *next;
    dp_ticket number; /* of its lane's end with it */
    enum kind kind;
    const char *name;
    op_fn *run;
    void *dst;
    const void *src;
    size_t bytes;
    dp_ticket ticket;      /* WAIT */
    uint64_t *sum_ns;      /* LAP */
    struct dp_sparse *sp;  /* REFRESH */
    _Alignas(16) char copy[]; /* RUN: its arguments; PUT: what is put */
};

struct lane {
    struct work *first, **end;
    dp_ticket told, done; /* numbers of the last piece told and done */
};

struct block {
    struct block *next;
    size_t bytes; /* with both borders */
    bool used;
    char *at;
};

struct late {
    struct dp_backend cpu;
    struct lane lane[DP_N_LANES];
    char *arena;
    size_t arena_used;
    struct block *blocks;
    uint64_t random, fail_at, n_done, lap_ns;
    int open;          /* nested: the arena may be touched */
    bool is_deaf;
    struct dp_err failure; /* sticky */
};

/* A ticket is the number of a lane's piece of work, and the lane. */
static dp_ticket ticket_of(enum dp_lane lane, dp_ticket number)
{
    return number << 2 | (dp_ticket)lane;
}

static uint64_t next_random(struct late *d)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random;
}

static void enter(struct late *d)
{
    if (d->open++ == 0)
        mprotect(d->arena, ARENA_BYTES, PROT_READ | PROT_WRITE);
}

static void leave(struct late *d)
{
    if (--d->open == 0)
        mprotect(d->arena, ARENA_BYTES, PROT_NONE);
}

static int failed(struct late *d, struct dp_err *err)
{
    if (d->failure.code == DP_OK)
        return 0;
    return dp_err_set(err, d->failure.code, "%s", d->failure.text);
}

/* ---- doing the work ---- */

static struct block *block_at(struct late *d, const void *p)
{
    struct block *b = d->blocks;

    while (b && b->at + BORDER != (const char *)p)
        b = b->next;
    return b;
}

static int do_work(struct late *d, struct work *w, struct dp_err *err)
{
    struct block *b;
    uint64_t now_ns;
    int rc = 0;

    enter(d);
    switch (w->kind) {
    case RUN:
        rc = w->run(&d->cpu, w->copy, err);
        break;
    case PUT:
        memcpy(w->dst, w->copy, w->bytes);
        break;
    case COPY:
        memmove(w->dst, w->src, w->bytes);
        break;
    case ZERO:
        memset(w->dst, 0, w->bytes);
        break;
    case FREE:
        b = block_at(d, w->dst);
        memset(b->at, 0xff, b->bytes);
        b->used = false;
        break;
    case WAIT:
        break;
    case LAP:
        now_ns = dp_thread_cpu_ns();
        if (w->sum_ns)
            *w->sum_ns += now_ns - d->lap_ns;
        d->lap_ns = now_ns;
        break;
    case REFRESH:
        rc = d->cpu.ops->sparse_refresh(&d->cpu, w->sp, w->src, err);
        break;
    }
    leave(d);
    return rc;
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool is_to_fail(struct late *d, const struct work *w)
{
    uint64_t at = number_of("DYNPIPE_LATE_FAIL", 0);

    if (at != d->fail_at)
        d->n_done = 0;
    d->fail_at = at;
    return w->kind != WAIT && w->kind != LAP && w->kind != FREE && ++d->n_done == at;
}

static bool is_done(const struct late *d, dp_ticket t)
{
    return d->lane[t & 3].done >= t >> 2;
}

static bool may_run(const struct late *d, const struct lane *l)
{
    return l->first && (l->first->kind != WAIT || is_done(d, l->first->ticket));
}

/* One piece of work of some lane. returns 1, 0 where none may run, -1 */
static int do_one(struct late *d, struct dp_err *err)
{
    unsigned at = (unsigned)(next_random(d) % DP_N_LANES), i = 0;
    struct dp_err why = {0};
    struct work *w;
    struct lane *l;

    if (failed(d, err) < 0)
        return -1;
    while (i < DP_N_LANES && !may_run(d, &d->lane[(at + i) % DP_N_LANES]))
        i++;
    if (i == DP_N_LANES)
        return 0;
    l = &d->lane[(at + i) % DP_N_LANES];
    w = l->first;
    if ((is_to_fail(d, w) && dp_err_set(&why, DP_EIO, "this piece of work was told to fail") < 0) || do_work(d, w, &why) < 0) {
        dp_err_set(&d->failure, why.code, "late device: %s: %.300s", w->name, why.text);
        return failed(d, err);
    }
    l->done = w->number;
    l->first = w->next;
    if (!l->first)
        l->end = &l->first;
    free(w);
    return 1;
}

/* Until t has been passed; its caller waits, so the arena is opened once for all of it: a change of its protection costs more
 * than most pieces of work. A lane that waits for a point that nobody will reach is a fault of the caller's. */
static int do_until(struct late *d, dp_ticket t, struct dp_err *err)
{
    int rc = 1;

    enter(d);
    while (rc > 0 && !is_done(d, t))
        rc = do_one(d, err);
    leave(d);
    if (rc == 0)
        return dp_err_set(err, DP_EINVAL, "late device: the lanes wait for each other");
    return rc < 0 ? -1 : failed(d, err);
}

static int drain(struct late *d, struct dp_err *err)
{
    for (int lane = 0; lane < DP_N_LANES; lane++)
        if (do_until(d, ticket_of((enum dp_lane)lane, d->lane[lane].told), err) < 0)
            return -1;
    return 0;
}

/* ---- telling it ---- */

/* NULL: err. copy: `bytes` of it are taken along. */
static struct work *tell(struct late *d, enum dp_lane lane, enum kind kind, const char *name, const void *copy, size_t bytes,
                         struct dp_err *err)
{
    struct lane *l = &d->lane[lane];
    struct work *w;

    if (failed(d, err) < 0)
        return NULL;
    w = calloc(1, sizeof *w + (copy ? bytes : 0) + 16);
    if (!w) {
        dp_err_set(err, DP_ENOMEM, "late device: no memory");
        return NULL;
    }
    w->kind = kind;
    w->name = name;
    w->bytes = bytes;
    if (copy)
        memcpy(w->copy, copy, bytes);
    w->number = ++l->told;
    *l->end = w;
    l->end = &w->next;
    return w;
}

static int late_put(struct dp_backend *be, void *dst, const void *host, size_t bytes, struct dp_err *err)
{
    struct work *w = tell(be->ctx, DP_LANE_COMPUTE, PUT, "put", host, bytes, err);

    if (!w)
        return -1;
    w->dst = dst;
    return 0;
}

static int tell_copy(struct late *d, enum dp_lane lane, const char *name, void *dst, const void *src, size_t bytes,
                     struct dp_err *err)
{
    struct work *w = tell(d, lane, COPY, name, NULL, bytes, err);

    if (!w)
        return -1;
    w->dst = dst;
    w->src = src;
    return 0;
}

static int late_get(struct dp_backend *be, void *host, const void *src, size_t bytes, struct dp_err *err)
{
    struct late *d = be->ctx;

    if (tell_copy(d, DP_LANE_COMPUTE, "get", host, src, bytes, err) < 0)
        return -1;
    return do_until(d, ticket_of(DP_LANE_COMPUTE, d->lane[DP_LANE_COMPUTE].told), err);
}

static int late_copy(struct dp_backend *be, void *dst, const void *src, size_t bytes, struct dp_err *err)
{
    return tell_copy(be->ctx, DP_LANE_COMPUTE, "copy", dst, src, bytes, err);
}

static int late_move(struct dp_backend *be, enum dp_lane lane, void *dst, const void *src, size_t bytes, struct dp_err *err)
{
    return tell_copy(be->ctx, lane, "move", dst, src, bytes, err);
}

static int late_zero(struct dp_backend *be, void *dst, size_t bytes, struct dp_err *err)
{
    struct work *w = tell(be->ctx, DP_LANE_COMPUTE, ZERO, "zero", NULL, bytes, err);

    if (!w)
        return -1;
    w->dst = dst;
    return 0;
}

static int late_mark(struct dp_backend *be, enum dp_lane lane, dp_ticket *out, struct dp_err *err)
{
    struct late *d = be->ctx;

    *out = ticket_of(lane, d->lane[lane].told);
    return failed(d, err);
}

static int late_after(struct dp_backend *be, enum dp_lane lane, dp_ticket t, struct dp_err *err)
{
    struct late *d = be->ctx;
    struct work *w = tell(d, lane, WAIT, "after", NULL, 0, err);

    if (!w)
        return -1;
    w->ticket = d->is_deaf ? 0 : t;
    return 0;
}

/* Works a little now and then, so that who asks again and again sees it come. */
static int late_reached(struct dp_backend *be, dp_ticket t, struct dp_err *err)
{
    struct late *d = be->ctx;

    for (uint64_t n = next_random(d) % 3; n > 0 && !is_done(d, t); n--)
        if (do_one(d, err) < 0)
            return -1;
    return failed(d, err) < 0 ? -1 : is_done(d, t);
}

static int late_await(struct dp_backend *be, dp_ticket t, uint64_t timeout_ns, struct dp_err *err)
{
    struct late *d = be->ctx;

    if (!is_done(d, t) && timeout_ns == 0)
        return late_reached(be, t, err);
    return do_until(d, t, err) < 0 ? -1 : 1;
}

static int late_sync(struct dp_backend *be, struct dp_err *err)
{
    return drain(be->ctx, err);
}

static uint64_t late_time_ns(struct dp_backend *be)
{
    struct late *d = be->ctx;

    do_until(d, ticket_of(DP_LANE_COMPUTE, d->lane[DP_LANE_COMPUTE].told), NULL);
    return dp_thread_cpu_ns();
}

static int late_lap(struct dp_backend *be, uint64_t *sum_ns, struct dp_err *err)
{
    struct work *w = tell(be->ctx, DP_LANE_COMPUTE, LAP, "lap", NULL, 0, err);

    if (!w)
        return -1;
    w->sum_ns = sum_ns;
    return 0;
}

static int late_laps_collect(struct dp_backend *be, struct dp_err *err)
{
    struct late *d = be->ctx;

    return do_until(d, ticket_of(DP_LANE_COMPUTE, d->lane[DP_LANE_COMPUTE].told), err);
}

/* ---- memory ---- */

static struct block *find_block(struct late *d, size_t bytes, struct dp_err *err)
{
    struct block *b = d->blocks;

    while (b && (b->used || b->bytes != bytes))
        b = b->next;
    if (b)
        return b;
    b = d->arena_used + bytes <= ARENA_BYTES ? calloc(1, sizeof *b) : NULL;
    if (!b) {
        dp_err_set(err, DP_ENOMEM, "late device: no memory for %zu bytes", bytes);
        return NULL;
    }
    *b = (struct block){.next = d->blocks, .bytes = bytes, .at = d->arena + d->arena_used};
    d->arena_used += bytes;
    d->blocks = b;
    return b;
}

static int late_alloc(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err)
{
    struct late *d = be->ctx;
    struct block *b;

    if (failed(d, err) < 0)
        return -1;
    if (bytes > ARENA_BYTES)
        return dp_err_set(err, DP_ENOMEM, "late device: no memory for %zu bytes", bytes);
    b = find_block(d, 2 * BORDER + (bytes + 63) / 64 * 64, err);
    if (!b)
        return -1;
    enter(d);
    memset(b->at, 0xff, b->bytes);
    memset(b->at + BORDER, 0, bytes);
    leave(d);
    b->used = true;
    *out = b->at + BORDER;
    return 0;
}

static void late_free(struct dp_backend *be, void *p)
{
    struct late *d = be->ctx;
    struct work *w;

    if (!p || d->failure.code != DP_OK) /* close takes it along */
        return;
    if (!block_at(d, p))
        abort(); /* it is none of ours, or was freed before */
    w = tell(d, DP_LANE_COMPUTE, FREE, "free", NULL, 0, NULL);
    if (w)
        w->dst = p;
}

static int late_alloc_staging(struct dp_backend *be, size_t bytes, void **out, struct dp_err *err)
{
    if (failed(be->ctx, err) < 0)
        return -1;
    if (posix_memalign(out, 64, bytes + 1))
        return dp_err_set(err, DP_ENOMEM, "late device: no staging memory for %zu bytes", bytes);
    memset(*out, 0xff, bytes);
    return 0;
}

static void late_free_staging(struct dp_backend *be, void *p)
{
    (void)be;
    free(p);
}

/* ---- sparse matrices and operations ---- */

static int late_sparse_prepare(struct dp_backend *be, struct dp_sparse *sp, struct dp_err *err)
{
    struct late *d = be->ctx;

    return failed(d, err) < 0 ? -1 : d->cpu.ops->sparse_prepare(&d->cpu, sp, err);
}

/* What still reads the plan comes first. */
static void late_sparse_release(struct dp_backend *be, struct dp_sparse *sp)
{
    struct late *d = be->ctx;

    drain(d, NULL);
    d->cpu.ops->sparse_release(&d->cpu, sp);
}

static int late_sparse_refresh(struct dp_backend *be, struct dp_sparse *sp, const float *w, struct dp_err *err)
{
    struct work *x = tell(be->ctx, DP_LANE_COMPUTE, REFRESH, "sparse_refresh", NULL, 0, err);

    if (!x)
        return -1;
    x->sp = sp;
    x->src = w;
    return 0;
}

static size_t late_sparse_bytes(struct dp_backend *be, const struct dp_sparse *sp)
{
    struct late *d = be->ctx;

    return d->cpu.ops->sparse_bytes(&d->cpu, sp);
}

static size_t late_head_bytes(struct dp_backend *be, int64_t n, int64_t c, int64_t v)
{
    struct late *d = be->ctx;

    return d->cpu.ops->head_bytes(&d->cpu, n, c, v);
}

#define LATE_OP(op)                                                                                          \
    static int run_##op(struct dp_backend *be, const void *args, struct dp_err *err)                         \
    {                                                                                                        \
        return be->ops->op(be, args, err);                                                                   \
    }                                                                                                        \
    static int late_##op(struct dp_backend *be, const struct dp_##op *a, struct dp_err *err)                 \
    {                                                                                                        \
        struct work *w = tell(be->ctx, DP_LANE_COMPUTE, RUN, #op, a, sizeof *a, err);                        \
                                                                                                             \
        if (!w)                                                                                              \
            return -1;                                                                                       \
        w->run = run_##op;                                                                                   \
        return 0;                                                                                            \
    }
DP_BACKEND_OPS(LATE_OP)

/* ---- its life ---- */

static int late_open(struct dp_backend *be, int worker, int threads, struct dp_err *err)
{
    struct late *d = calloc(1, sizeof *d);

    if (!d)
        return dp_err_set(err, DP_ENOMEM, "late device: no memory");
    d->cpu.ops = dp_cpu_ops(NULL, err);
    if (!d->cpu.ops || d->cpu.ops->open(&d->cpu, worker, threads, err) < 0) {
        free(d);
        return -1;
    }
    d->arena = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (d->arena == MAP_FAILED) {
        d->cpu.ops->close(&d->cpu);
        free(d);
        return dp_err_set(err, DP_ENOMEM, "late device: no addresses");
    }
    madvise(d->arena, ARENA_BYTES, MADV_HUGEPAGE); /* where it may: fewer pages whose protection changes */
    for (int lane = 0; lane < DP_N_LANES; lane++)
        d->lane[lane].end = &d->lane[lane].first;
    d->random = number_of("DYNPIPE_LATE_SEED", 1) * 0x9e3779b97f4a7c15u + 1;
    d->is_deaf = number_of("DYNPIPE_LATE_DEAF", 0) != 0;
    be->ctx = d;
    return 0;
}

static void late_close(struct dp_backend *be)
{
    struct late *d = be->ctx;

    if (!d)
        return;
    drain(d, NULL);
    for (int lane = 0; lane < DP_N_LANES; lane++)
        for (struct work *w = d->lane[lane].first, *next; w; w = next) {
            next = w->next;
            free(w);
        }
    for (struct block *b = d->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    d->cpu.ops->close(&d->cpu);
    munmap(d->arena, ARENA_BYTES);
    free(d);
    be->ctx = NULL;
}

static int late_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err)
{
    struct late *d = be->ctx;

    if (d->cpu.ops->info(&d->cpu, out, err) < 0)
        return -1;
    snprintf(out->name, sizeof out->name, "late device");
    out->total_bytes = out->free_bytes = (uint64_t)ARENA_BYTES;
    return 0;
}

#define LATE_MEMBER(op) .op = late_##op,
__attribute__((visibility("default"))) extern const struct dp_backend_ops dp_backend_v1;

const struct dp_backend_ops dp_backend_v1 = {
    .abi = DP_BACKEND_ABI,
    .name = "late",
    .open = late_open,
    .close = late_close,
    .info = late_info,
    .alloc = late_alloc,
    .free = late_free,
    .alloc_staging = late_alloc_staging,
    .free_staging = late_free_staging,
    .put = late_put,
    .get = late_get,
    .copy = late_copy,
    .zero = late_zero,
    .move = late_move,
    .mark = late_mark,
    .after = late_after,
    .reached = late_reached,
    .await = late_await,
    .sync = late_sync,
    .time_ns = late_time_ns,
    .lap = late_lap,
    .laps_collect = late_laps_collect,
    .sparse_prepare = late_sparse_prepare,
    .sparse_release = late_sparse_release,
    .sparse_refresh = late_sparse_refresh,
    .sparse_bytes = late_sparse_bytes,
    .head_bytes = late_head_bytes,
    DP_BACKEND_OPS(LATE_MEMBER)
};
