/* SPDX-License-Identifier: BSD-3-Clause */
/* See record.h. A list is one piece of memory: calls one behind the other, each with its arguments, and zeroes where nothing
 * is, so that two lists are the same when their bytes are. */
#include "kernels/cuda/record.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LISTS 512                  /* parts of segments that are known at a time; others are told call by call */
#define MAX_BYTES ((size_t)1 << 18)    /* of a list: a thousand calls */
#define MAX_ALL ((size_t)16 << 20)     /* of all that are known, and so of the graphs that the device holds */
#define FIRST_BYTES ((size_t)16 << 10) /* twice as many when they are taken */
#define FEWEST 4                       /* calls that are worth a graph */
#define MAX_PARTS 256                  /* of a segment, which end where something else is asked of the lane */
#define MAX_ARGS 32                    /* of a kernel */

enum kind { LAUNCH, COPY, ZERO, RECORD };

struct call {
    enum kind kind;
    uint32_t bytes; /* of this struct and the arguments behind it, each at a multiple of 16 */
    const char *op;
    const void *what;    /* LAUNCH: the kernel; COPY: from where; RECORD: the event */
    void *to;            /* COPY, ZERO */
    size_t n;            /* COPY, ZERO: bytes; LAUNCH: of dynamic shared memory */
    const size_t *sizes; /* LAUNCH: of the arguments, up to a 0 */
    uint32_t grid[3], block[3];
    enum cudaMemcpyKind way; /* COPY */
    uint32_t zero[5];
};
_Static_assert(sizeof(struct call) % 16 == 0, "arguments begin at a multiple of 16");

/* Calls that follow each other. */
struct list {
    unsigned char *calls;
    size_t bytes, room;
    uint32_t n;
};

struct known {
    uint32_t key, part;
    struct list list;
    cudaGraphExec_t graph; /* of the list, or NULL */
    bool is_plain;         /* there was no memory for a graph of it */
};

struct dp_cuda_record {
    bool is_open;
    uint32_t key, part;
    struct list held;
    struct known *known;
    uint32_t n_known;
    size_t bytes; /* of their lists */
};

/* ---- lists ---- */

static size_t up(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Room for one more call, all zeroes. NULL: there is none. */
static struct call *add(struct list *l, size_t bytes)
{
    size_t room = l->room ? l->room : FIRST_BYTES;
    struct call *c;

    while (room < l->bytes + bytes)
        room *= 2;
    if (room > MAX_BYTES)
        return NULL;
    if (room != l->room) {
        unsigned char *calls = realloc(l->calls, room);

        if (!calls)
            return NULL;
        l->calls = calls;
        l->room = room;
    }
    c = (struct call *)(void *)(l->calls + l->bytes);
    memset(c, 0, bytes);
    c->bytes = (uint32_t)bytes;
    l->bytes += bytes;
    l->n++;
    return c;
}

static bool are_same(const struct list *a, const struct list *b)
{
    return a->bytes == b->bytes && memcmp(a->calls, b->calls, a->bytes) == 0;
}

static void empty(struct list *l)
{
    l->bytes = 0;
    l->n = 0;
}

/* ---- telling the runtime ---- */

static int launch(struct dp_cuda *cu, struct call *c, cudaStream_t stream, struct dp_err *err)
{
    unsigned char *at = (unsigned char *)(c + 1);
    void *args[MAX_ARGS + 1];
    int n = 0;

    for (; c->sizes[n]; n++) {
        args[n] = at;
        at += up(c->sizes[n]);
    }
    args[n] = NULL;
    return DP_CUDA(cu, err, LaunchKernel, c->what, (dim3){c->grid[0], c->grid[1], c->grid[2]},
                   (dim3){c->block[0], c->block[1], c->block[2]}, args, c->n, stream);
}

/* Inside of a graph an event is recorded each time the graph runs, for whoever asks for it outside. */
static int record(struct dp_cuda *cu, const struct call *c, cudaStream_t stream, bool is_capture, struct dp_err *err)
{
    cudaEvent_t event = (cudaEvent_t)(uintptr_t)c->what;

    if (is_capture)
        return DP_CUDA(cu, err, EventRecordWithFlags, event, stream, cudaEventRecordExternal);
    return DP_CUDA(cu, err, EventRecord, event, stream);
}

static int tell_one(struct dp_cuda *cu, struct call *c, bool is_capture, struct dp_err *err)
{
    cudaStream_t stream = cu->lanes[DP_LANE_COMPUTE].stream;

    cu->op = c->op;
    switch (c->kind) {
    case LAUNCH:
        return launch(cu, c, stream, err);
    case COPY:
        return DP_CUDA(cu, err, MemcpyAsync, c->to, c->what, c->n, c->way, stream);
    case ZERO:
        return DP_CUDA(cu, err, MemsetAsync, c->to, 0, c->n, stream);
    case RECORD:
        return record(cu, c, stream, is_capture, err);
    }
    return 0;
}

static int tell_all(struct dp_cuda *cu, struct list *l, bool is_capture, struct dp_err *err)
{
    const char *op = cu->op;
    int rc = 0;

    for (size_t at = 0; at < l->bytes && rc == 0;) {
        struct call *c = (struct call *)(void *)(l->calls + at);

        rc = tell_one(cu, c, is_capture, err);
        at += c->bytes;
    }
    cu->op = op;
    return rc;
}

/* ---- graphs ---- */

static void drop_graph(struct dp_cuda *cu, struct known *k)
{
    if (k->graph)
        dp_cuda_check(cu, dp_cuda_api.GraphExecDestroy(k->graph), "GraphExecDestroy", NULL);
    k->graph = NULL;
}

/* Without memory for it the calls are made one by one, as ever. */
static int instantiate(struct dp_cuda *cu, struct known *k, cudaGraph_t graph, struct dp_err *err)
{
    cudaError_t rc = dp_cuda_api.GraphInstantiate(&k->graph, graph, 0);

    if (rc == cudaSuccess)
        return 0;
    k->graph = NULL;
    if (rc != cudaErrorMemoryAllocation)
        return dp_cuda_check(cu, rc, "GraphInstantiate", err);
    dp_cuda_api.GetLastError(); /* forget it */
    k->is_plain = true;
    return 0;
}

static int make_graph(struct dp_cuda *cu, struct known *k, struct dp_err *err)
{
    cudaStream_t stream = cu->lanes[DP_LANE_COMPUTE].stream;
    cudaGraph_t graph = NULL;
    int rc;

    if (DP_CUDA(cu, err, StreamBeginCapture, stream, cudaStreamCaptureModeThreadLocal) < 0)
        return -1;
    rc = tell_all(cu, &k->list, true, err);
    if (rc < 0)
        dp_cuda_api.StreamEndCapture(stream, &graph); /* what it says of it does not matter any more */
    else
        rc = DP_CUDA(cu, err, StreamEndCapture, stream, &graph);
    if (rc == 0)
        rc = instantiate(cu, k, graph, err);
    if (graph && DP_CUDA(cu, rc == 0 ? err : NULL, GraphDestroy, graph) < 0)
        rc = -1;
    return rc;
}

bool dp_cuda_drop_graphs(struct dp_cuda *cu)
{
    struct dp_cuda_record *r = cu->record;
    bool had = false;

    for (uint32_t i = 0; r && i < r->n_known; i++) {
        had |= r->known[i].graph != NULL;
        drop_graph(cu, &r->known[i]);
    }
    return had;
}

/* ---- segments ---- */

/* NULL: too many are known. */
static struct known *find(struct dp_cuda_record *r)
{
    struct known *k = r->known;

    for (uint32_t i = 0; i < r->n_known; i++)
        if (k[i].key == r->key && k[i].part == r->part)
            return &k[i];
    if (r->n_known == MAX_LISTS)
        return NULL;
    k = &r->known[r->n_known++];
    *k = (struct known){.key = r->key, .part = r->part};
    return k;
}

/* What was held becomes what is known, to be compared with; nothing does where there is no room for it. */
static void learn(struct dp_cuda *cu, struct known *k)
{
    struct dp_cuda_record *r = cu->record;

    drop_graph(cu, k);
    k->is_plain = false;
    if (k->list.room < r->held.bytes) {
        r->bytes -= k->list.room;
        free(k->list.calls);
        k->list = (struct list){.calls = NULL};
        if (r->bytes + r->held.bytes > MAX_ALL)
            return;
        k->list.calls = malloc(r->held.bytes);
        if (!k->list.calls)
            return;
        k->list.room = r->held.bytes;
        r->bytes += k->list.room;
    }
    memcpy(k->list.calls, r->held.calls, r->held.bytes);
    k->list.bytes = r->held.bytes;
    k->list.n = r->held.n;
}

static int tell_held(struct dp_cuda *cu, struct dp_err *err)
{
    struct dp_cuda_record *r = cu->record;
    struct known *k = r->held.n >= FEWEST && r->part < MAX_PARTS ? find(r) : NULL;
    int rc;

    if (!k)
        return tell_all(cu, &r->held, false, err);
    if (!are_same(&k->list, &r->held)) {
        rc = tell_all(cu, &r->held, false, err);
        learn(cu, k);
        return rc;
    }
    if (!k->graph && !k->is_plain && make_graph(cu, k, err) < 0)
        return -1;
    return k->graph ? DP_CUDA(cu, err, GraphLaunch, k->graph, cu->lanes[DP_LANE_COMPUTE].stream)
                    : tell_all(cu, &r->held, false, err);
}

int dp_cuda_flush(struct dp_cuda *cu, struct dp_err *err)
{
    struct dp_cuda_record *r = cu->record;
    int rc = dp_cuda_usable(cu, err);

    if (!r || !r->held.n)
        return rc;
    if (rc == 0)
        rc = tell_held(cu, err);
    empty(&r->held);
    r->part++;
    return rc;
}

int dp_cuda_segment_begin(struct dp_backend *be, uint32_t key, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct dp_cuda_record *r = cu->record;

    if (dp_cuda_usable(cu, err) < 0 || dp_cuda_flush(cu, err) < 0)
        return -1;
    if (!r) {
        r = calloc(1, sizeof *r);
        if (r)
            r->known = calloc(MAX_LISTS, sizeof *r->known);
        if (!r || !r->known) {
            free(r);
            return dp_err_set(err, DP_ENOMEM, "cuda: no memory to record segments");
        }
        cu->record = r;
    }
    r->is_open = true;
    r->key = key;
    r->part = 0;
    return 0;
}

int dp_cuda_segment_end(struct dp_backend *be, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    int rc = dp_cuda_flush(cu, err);

    if (cu->record)
        cu->record->is_open = false;
    return rc;
}

void dp_cuda_close_record(struct dp_cuda *cu)
{
    struct dp_cuda_record *r = cu->record;

    if (!r)
        return;
    for (uint32_t i = 0; i < r->n_known; i++) {
        drop_graph(cu, &r->known[i]);
        free(r->known[i].list.calls);
    }
    free(r->held.calls);
    free(r->known);
    free(r);
    cu->record = NULL;
}

/* ---- calls ---- */

/* Room for a call that is held back. NULL: it is to be made now; then *rc is 0, or -1: what was held has failed. */
static struct call *hold(struct dp_cuda *cu, enum kind kind, size_t bytes, int *rc, struct dp_err *err)
{
    struct dp_cuda_record *r = cu->record;
    struct call *c;

    *rc = 0;
    if (!r || !r->is_open)
        return NULL;
    c = add(&r->held, bytes);
    if (!c) {
        *rc = dp_cuda_flush(cu, err);
        return NULL;
    }
    c->kind = kind;
    c->op = cu->op;
    return c;
}

/* For more shared memory than a kernel has without asking, once for each. */
static int ask_shared(struct dp_cuda *cu, struct dp_err *err, const void *kernel, size_t shared)
{
    const size_t unasked = (size_t)48 << 10;
    struct dp_cuda_asked *a = cu->asked;

    if (shared <= unasked)
        return 0;
    while (a < cu->asked + DP_CUDA_ASKED && a->kernel && a->kernel != kernel)
        a++;
    if (a < cu->asked + DP_CUDA_ASKED && a->kernel && shared <= a->bytes)
        return 0;
    if (DP_CUDA(cu, err, FuncSetAttribute, kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared) < 0)
        return -1;
    if (a < cu->asked + DP_CUDA_ASKED)
        *a = (struct dp_cuda_asked){.kernel = kernel, .bytes = shared};
    return 0;
}

int dp_cuda_launch(struct dp_cuda *cu, struct dp_err *err, const void *kernel, dim3 grid, dim3 block, void **args,
                   const size_t *sizes, size_t shared)
{
    size_t bytes = sizeof(struct call);
    unsigned char *at;
    struct call *c;
    int n = 0, rc;

    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    if (!grid.x || !grid.y || !grid.z)
        return 0;
    if (ask_shared(cu, err, kernel, shared) < 0)
        return -1;
    for (; sizes[n] && n < MAX_ARGS; n++)
        bytes += up(sizes[n]);
    if (sizes[n])
        return dp_cuda_refuse(cu, err, "a kernel with more than %d arguments", MAX_ARGS);
    c = hold(cu, LAUNCH, bytes, &rc, err);
    if (!c)
        return rc < 0 ? -1 : DP_CUDA(cu, err, LaunchKernel, kernel, grid, block, args, shared, cu->lanes[DP_LANE_COMPUTE].stream);
    c->what = kernel;
    c->n = shared;
    c->sizes = sizes;
    memcpy(c->grid, (uint32_t[3]){grid.x, grid.y, grid.z}, sizeof c->grid);
    memcpy(c->block, (uint32_t[3]){block.x, block.y, block.z}, sizeof c->block);
    at = (unsigned char *)(c + 1);
    for (int i = 0; i < n; at += up(sizes[i]), i++)
        memcpy(at, args[i], sizes[i]);
    return 0;
}

int dp_cuda_tell_copy(struct dp_cuda *cu, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                      struct dp_err *err)
{
    int rc;
    struct call *c = hold(cu, COPY, sizeof *c, &rc, err);

    if (!c)
        return rc < 0 ? -1 : DP_CUDA(cu, err, MemcpyAsync, dst, src, bytes, kind, cu->lanes[DP_LANE_COMPUTE].stream);
    c->to = dst;
    c->what = src;
    c->n = bytes;
    c->way = kind;
    return 0;
}

int dp_cuda_tell_zero(struct dp_cuda *cu, void *dst, size_t bytes, struct dp_err *err)
{
    int rc;
    struct call *c = hold(cu, ZERO, sizeof *c, &rc, err);

    if (!c)
        return rc < 0 ? -1 : DP_CUDA(cu, err, MemsetAsync, dst, 0, bytes, cu->lanes[DP_LANE_COMPUTE].stream);
    c->to = dst;
    c->n = bytes;
    return 0;
}

int dp_cuda_tell_record(struct dp_cuda *cu, cudaEvent_t event, struct dp_err *err)
{
    int rc;
    struct call *c = hold(cu, RECORD, sizeof *c, &rc, err);

    if (!c)
        return rc < 0 ? -1 : DP_CUDA(cu, err, EventRecord, event, cu->lanes[DP_LANE_COMPUTE].stream);
    c->what = event;
    return 0;
}
