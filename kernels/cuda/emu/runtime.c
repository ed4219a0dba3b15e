/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of runtime calls on the emulator. One lock for all of it: kernels of several backends of a process run one
 * after the other.
 *
 * Each call counts, and the one that the settings name fails: allocations for lack of memory, everything else with an
 * error that says nothing. What gives something back does so and fails none the less.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/api.h"
#include "kernels/cuda/emu/block.h"
#include "kernels/cuda/emu/emu.h"
#include "kernels/cuda/emu/kernel.h"
#include "kernels/cuda/emu/memory.h"
#include "kernels/cuda/emu/stream.h"

#define MEMORY ((size_t)512 << 20) /* bytes of a device, where nobody says how many */
#define VERSION 13000              /* of runtime and driver: 13.0 */
#define ASKED 256                  /* kernels that asked for more shared memory */

static struct {
    pthread_mutex_t lock;
    bool configured, begun;
    struct dp_emu_settings settings;
    long calls, streams, events, launches, opened, graphs, replays;
    struct {
        void (*kernel)(void);
        size_t bytes;
    } asked[ASKED]; /* for shared memory */
    int n_asked;
} rt = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- settings ---- */

/* "seed=7 fail=12 check=0", say, and what a test of opening wants: driver, count, cc, code, ipc, memory (MiB). */
static void read_environment(void)
{
    const char *text = getenv("DYNPIPE_EMU");
    struct dp_emu_settings *s = &rt.settings;

    for (const char *at = text; at && *at;) {
        char name[16];
        long value;
        int used = 0;

        if (sscanf(at, "%15[a-z]=%ld%n", name, &value, &used) < 2)
            break;
        if (!strcmp(name, "seed"))
            s->seed = (uint64_t)value;
        else if (!strcmp(name, "fail"))
            s->fail = value;
        else if (!strcmp(name, "check"))
            s->unchecked = !value;
        else if (!strcmp(name, "driver"))
            s->driver = value ? (int)value : -1;
        else if (!strcmp(name, "count"))
            s->count = value ? (int)value : -1;
        else if (!strcmp(name, "cc"))
            s->cc_major = (int)value;
        else if (!strcmp(name, "code"))
            s->no_code = !value;
        else if (!strcmp(name, "say"))
            s->says = value;
        else if (!strcmp(name, "ipc"))
            s->no_ipc = !value;
        else if (!strcmp(name, "memory"))
            s->memory = (size_t)value << 20;
        at += used;
        at += strspn(at, " ,");
    }
}

static void use_settings(void)
{
    dp_stream_begin(rt.settings.seed);
    dp_check_enable(!rt.settings.unchecked);
    rt.configured = true;
}

static long live(void)
{
    return rt.streams + rt.events + rt.graphs + rt.opened + dp_memory_blocks() + dp_memory_staging();
}

static void end_all(void)
{
    if (!rt.begun)
        return;
    dp_stream_end();
    dp_memory_end();
    rt.begun = false;
}

void dp_emu_configure(const struct dp_emu_settings *settings)
{
    pthread_mutex_lock(&rt.lock);
    if (!live())
        end_all();
    rt.settings = *settings;
    rt.calls = 0;
    dp_emu_forget_findings();
    use_settings();
    pthread_mutex_unlock(&rt.lock);
}

void dp_emu_use_environment(void)
{
    struct dp_emu_settings settings;

    pthread_mutex_lock(&rt.lock);
    read_environment();
    settings = rt.settings;
    pthread_mutex_unlock(&rt.lock);
    dp_emu_configure(&settings);
}

struct dp_emu_counts dp_emu_count(void)
{
    struct dp_emu_counts c;

    pthread_mutex_lock(&rt.lock);
    c = (struct dp_emu_counts){.calls = rt.calls, .blocks = dp_memory_blocks(), .staging = dp_memory_staging(),
                               .streams = rt.streams, .events = rt.events, .opened = rt.opened, .graphs = rt.graphs,
                               .replays = rt.replays, .launches = rt.launches,
                               .findings = dp_emu_findings()};
    pthread_mutex_unlock(&rt.lock);
    return c;
}

/* The plugin is unloaded: its signal handler must not stay. */
__attribute__((destructor)) static void unload(void)
{
    if (rt.settings.says)
        fprintf(stderr, "emulator: %ld calls of the runtime, %ld kernels, %ld graphs launched\n", rt.calls, rt.launches,
                rt.replays);
    end_all();
    dp_emu_end_blocks();
}

/* ---- around each call ---- */

/* Device memory is open from here to leave(). returns: what the call has to fail with, if it has. */
static cudaError_t enter(cudaError_t failure)
{
    pthread_mutex_lock(&rt.lock);
    if (!rt.configured) {
        read_environment();
        use_settings();
    }
    if (!rt.begun) {
        if (dp_memory_begin(rt.settings.memory ? rt.settings.memory : MEMORY) < 0)
            return cudaErrorMemoryAllocation;
        rt.begun = true;
    }
    dp_check_open(true);
    rt.calls++;
    if (rt.settings.fail && (rt.calls == rt.settings.fail || (rt.settings.fail_on && rt.calls > rt.settings.fail)))
        return failure;
    return dp_emu_findings() ? cudaErrorLaunchFailure : cudaSuccess;
}

static cudaError_t leave(cudaError_t rc)
{
    if (rt.begun)
        dp_check_open(false);
    if (rc == cudaSuccess && dp_emu_findings())
        rc = cudaErrorLaunchFailure;
    pthread_mutex_unlock(&rt.lock);
    return rc;
}

/* What this thread captures; NULL: nothing. */
static __thread struct dp_emu_stream *capturing;

/* A call that a capture forbids: the capture is worth nothing any more. */
static cudaError_t forbidden(void)
{
    capturing->capture->is_invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

#define ENTER(failure)                        \
    do {                                      \
        cudaError_t entered = enter(failure); \
        if (entered != cudaSuccess)           \
            return leave(entered);            \
    } while (0)

/* Of calls that wait, ask or allocate. */
#define ENTER_UNSAFE(failure)          \
    do {                               \
        ENTER(failure);                \
        if (capturing)                 \
            return leave(forbidden()); \
    } while (0)

/* ---- the device ---- */

static cudaError_t emu_DriverGetVersion(int *version)
{
    ENTER(cudaErrorUnknown);
    *version = rt.settings.driver < 0 ? 0 : rt.settings.driver ? rt.settings.driver : VERSION;
    return leave(cudaSuccess);
}

static cudaError_t emu_RuntimeGetVersion(int *version)
{
    ENTER(cudaErrorUnknown);
    *version = VERSION;
    return leave(cudaSuccess);
}

static int device_count(void) { return rt.settings.count ? rt.settings.count : 1; }
static bool is_device(int device) { return device >= 0 && device < device_count(); }

static cudaError_t emu_GetDeviceCount(int *count)
{
    ENTER(cudaErrorUnknown);
    if (rt.settings.count < 0)
        return leave(cudaErrorNoDevice);
    *count = device_count();
    return leave(cudaSuccess);
}

static cudaError_t emu_SetDevice(int device)
{
    ENTER(cudaErrorUnknown);
    return leave(is_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

static cudaError_t emu_GetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    ENTER(cudaErrorUnknown);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "emulator");
    return leave(is_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

static cudaError_t emu_DeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    ENTER(cudaErrorUnknown);
    if (!is_device(device))
        return leave(cudaErrorInvalidDevice);
    *value = what == cudaDevAttrComputeCapabilityMajor ? (rt.settings.cc_major ? rt.settings.cc_major : 9) : 0;
    return leave(cudaSuccess);
}

static cudaError_t emu_FuncGetAttributes(struct cudaFuncAttributes *attr, const void *kernel)
{
    ENTER(cudaErrorUnknown);
    (void)kernel;
    memset(attr, 0, sizeof *attr);
    return leave(rt.settings.no_code ? cudaErrorNoKernelImageForDevice : cudaSuccess);
}

static cudaError_t emu_GetLastError(void)
{
    ENTER(cudaErrorUnknown);
    return leave(cudaSuccess);
}

/* ---- launches ---- */

#define KERNELS 4096 /* of a program, with all versions of its templates */

const struct dp_emu_kernel *dp_emu_kernel_at(const struct dp_emu_kernel *k)
{
    static struct dp_emu_kernel kernels[KERNELS];
    size_t i = (uintptr_t)k->kernel / 16 % KERNELS;

    pthread_mutex_lock(&rt.lock);
    while (kernels[i].kernel && kernels[i].kernel != k->kernel)
        i = (i + 1) % KERNELS;
    kernels[i] = *k;
    pthread_mutex_unlock(&rt.lock);
    return &kernels[i];
}

static size_t asked_for(void (*kernel)(void))
{
    for (int i = 0; i < rt.n_asked; i++)
        if (rt.asked[i].kernel == kernel)
            return rt.asked[i].bytes;
    return DP_EMU_UNASKED;
}

static cudaError_t emu_FuncSetAttribute(const void *kernel, enum cudaFuncAttribute what, int value)
{
    const struct dp_emu_kernel *k = kernel;
    int i = 0;

    ENTER(cudaErrorUnknown);
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || (size_t)value > DP_EMU_SHARED)
        return leave(cudaErrorInvalidValue);
    while (i < rt.n_asked && rt.asked[i].kernel != k->kernel)
        i++;
    if (i == ASKED)
        return leave(cudaErrorUnknown);
    rt.asked[i].kernel = k->kernel;
    rt.asked[i].bytes = (size_t)value;
    rt.n_asked += i == rt.n_asked;
    return leave(cudaSuccess);
}

static bool is_launch(dim3 grid, dim3 block, size_t shared, const struct dp_emu_kernel *k)
{
    return grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= UINT16_MAX && grid.z <= UINT16_MAX &&
           block.x && block.y && block.z && block.x <= DP_EMU_BLOCK_THREADS && block.y <= DP_EMU_BLOCK_THREADS &&
           block.z <= 64 && block.x * block.y * block.z <= DP_EMU_BLOCK_THREADS && shared <= asked_for(k->kernel);
}

static cudaError_t ask(struct dp_emu_stream *s, struct dp_emu_item *item)
{
    if (s->capture) {
        dp_graph_add(s->capture, item);
        return leave(cudaSuccess);
    }
    dp_stream_ask(s, item);
    dp_stream_eager();
    return leave(cudaSuccess);
}

static cudaError_t emu_LaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream)
{
    const struct dp_emu_kernel *k = kernel;
    struct dp_emu_item *item;

    ENTER(cudaErrorUnknown);
    if (!is_launch(grid, block, shared, k))
        return leave(cudaErrorInvalidConfiguration);
    item = calloc(1, sizeof *item);
    if (!item)
        return leave(cudaErrorMemoryAllocation);
    item->kind = DP_EMU_LAUNCH;
    item->args = dp_launch_copy_args(args, k->sizes);
    item->sizes = k->sizes;
    if (!item->args) {
        free(item);
        return leave(cudaErrorMemoryAllocation);
    }
    item->launch = (struct dp_emu_launch){.name = k->name, .grid = grid, .block = block, .shared = shared,
                                          .call = k->call, .kernel = k->kernel, .args = item->args};
    rt.launches += !stream->capture;
    return ask(stream, item);
}

/* ---- memory ---- */

static cudaError_t emu_MemGetInfo(size_t *left, size_t *total)
{
    ENTER(cudaErrorUnknown);
    *total = dp_check_total();
    *left = *total - dp_check_used();
    return leave(cudaSuccess);
}

static cudaError_t emu_Malloc(void **p, size_t bytes)
{
    ENTER_UNSAFE(cudaErrorMemoryAllocation);
    *p = dp_check_alloc(bytes);
    if (!*p)
        return leave(cudaErrorMemoryAllocation);
    dp_memory_count_block(1);
    return leave(cudaSuccess);
}

/* Like the real one it waits for everything. */
static cudaError_t emu_Free(void *p)
{
    cudaError_t rc = enter(cudaErrorUnknown);

    if (capturing)
        return leave(forbidden());
    while (dp_stream_step(NULL))
        ;
    if (p && (!dp_check_is_array(p) || dp_check_is_opened(p)))
        return leave(cudaErrorInvalidValue);
    if (p) {
        dp_check_free(p);
        dp_memory_count_block(-1);
    }
    return leave(rc);
}

static cudaError_t emu_HostAlloc(void **p, size_t bytes, unsigned flags)
{
    ENTER_UNSAFE(cudaErrorMemoryAllocation);
    (void)flags;
    *p = dp_staging_alloc(bytes);
    return leave(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t emu_FreeHost(void *p)
{
    cudaError_t rc = enter(cudaErrorUnknown);

    if (capturing)
        return leave(forbidden());
    while (dp_stream_step(NULL))
        ;
    if (p && dp_staging_free(p) < 0)
        return leave(cudaErrorInvalidValue);
    return leave(rc);
}

/* Of memory that is neither the device's nor staging: taken, or there, when the call returns, like the driver does. */
static cudaError_t copy_now(void *dst, const void *src, size_t bytes, struct dp_emu_stream *s,
                            struct dp_emu_item *item)
{
    void *taken = NULL;

    if (!dp_memory_is_pageable(dst)) { /* to the device: the stream has a copy of what is here now */
        taken = dp_staging_alloc(bytes);
        if (!taken) {
            free(item);
            return leave(cudaErrorMemoryAllocation);
        }
        memcpy(taken, src, bytes);
        item->src = taken;
    }
    dp_stream_ask(s, item);
    while (s->first && dp_stream_step(s))
        ;
    if (taken)
        dp_staging_free(taken);
    return leave(cudaSuccess);
}

static cudaError_t emu_MemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    struct dp_emu_item *item;

    ENTER(cudaErrorUnknown);
    if (kind != cudaMemcpyDefault && (dp_check_is_device(dst) != to_device || dp_check_is_device(src) != from_device))
        return leave(cudaErrorInvalidValue);
    if (stream->capture && (dp_memory_is_pageable(dst) || dp_memory_is_pageable(src)))
        return leave(forbidden());
    if (!stream->capture && dp_memory_asked(dst, src, bytes, stream->number, stream->asked + 1) < 0)
        return leave(cudaErrorInvalidValue);
    item = calloc(1, sizeof *item);
    if (!item)
        return leave(cudaErrorMemoryAllocation);
    item->kind = DP_EMU_COPY;
    item->dst = dst;
    item->src = src;
    item->bytes = bytes;
    if (dp_memory_is_pageable(dst) || dp_memory_is_pageable(src))
        return copy_now(dst, src, bytes, stream, item);
    return ask(stream, item);
}

static cudaError_t emu_MemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
    struct dp_emu_item *item;

    ENTER(cudaErrorUnknown);
    if (!dp_check_is_device(dst) ||
        (!stream->capture && dp_memory_asked(dst, NULL, bytes, stream->number, stream->asked + 1) < 0))
        return leave(cudaErrorInvalidValue);
    item = calloc(1, sizeof *item);
    if (!item)
        return leave(cudaErrorMemoryAllocation);
    item->kind = DP_EMU_SET;
    item->dst = dst;
    item->bytes = bytes;
    item->byte = byte;
    return ask(stream, item);
}

/* ---- memory of two processes ---- */

static cudaError_t emu_IpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p)
{
    ENTER_UNSAFE(cudaErrorUnknown);
    return leave(rt.settings.no_ipc ? cudaErrorNotSupported : dp_check_show(p, handle));
}

static cudaError_t emu_IpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags)
{
    cudaError_t rc;

    ENTER_UNSAFE(cudaErrorUnknown);
    if (flags != cudaIpcMemLazyEnablePeerAccess)
        return leave(cudaErrorInvalidValue);
    rc = rt.settings.no_ipc ? cudaErrorPeerAccessUnsupported : dp_check_open_shown(&handle, p);
    rt.opened += rc == cudaSuccess;
    return leave(rc);
}

static cudaError_t emu_IpcCloseMemHandle(void *p)
{
    cudaError_t rc = enter(cudaErrorUnknown), closed;

    if (capturing)
        return leave(forbidden());
    while (dp_stream_step(NULL))
        ;
    closed = dp_check_close_shown(p);
    rt.opened -= closed == cudaSuccess;
    return leave(closed == cudaSuccess ? rc : closed);
}

/* ---- streams and events ---- */

static cudaError_t emu_StreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    ENTER(cudaErrorMemoryAllocation);
    (void)flags;
    *stream = dp_stream_make();
    if (!*stream)
        return leave(cudaErrorMemoryAllocation);
    rt.streams++;
    return leave(cudaSuccess);
}

static cudaError_t emu_StreamDestroy(cudaStream_t stream)
{
    cudaError_t rc = enter(cudaErrorUnknown);

    dp_stream_drop(stream);
    rt.streams--;
    return leave(rc);
}

static cudaError_t emu_StreamSynchronize(cudaStream_t stream)
{
    ENTER_UNSAFE(cudaErrorUnknown);
    while (stream->first)
        if (!dp_stream_step(stream))
            return leave(cudaErrorLaunchTimeout); /* streams wait for each other */
    dp_stream_learn_all(stream);
    return leave(cudaSuccess);
}

static cudaError_t emu_EventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    ENTER(cudaErrorMemoryAllocation);
    *event = calloc(1, sizeof **event);
    if (!*event)
        return leave(cudaErrorMemoryAllocation);
    (*event)->times = !(flags & cudaEventDisableTiming);
    rt.events++;
    return leave(cudaSuccess);
}

static cudaError_t emu_EventDestroy(cudaEvent_t event)
{
    cudaError_t rc = enter(cudaErrorUnknown);

    if (event->graphs) /* the real one keeps it; here it is a mistake */
        return leave(cudaErrorInvalidResourceHandle);
    dp_record_release(event->record);
    free(event);
    rt.events--;
    return leave(rc);
}

/* An item that records the event; of a graph's, its record is made when the graph is launched. */
static struct dp_emu_item *record_of(cudaEvent_t event, bool is_captured)
{
    struct dp_emu_record *record = is_captured ? NULL : calloc(1, sizeof *record);
    struct dp_emu_item *item = calloc(1, sizeof *item);

    if ((!is_captured && !record) || !item) {
        free(record);
        free(item);
        return NULL;
    }
    item->kind = DP_EMU_RECORD;
    if (is_captured) {
        item->event = event;
        event->graphs++;
        return item;
    }
    dp_record_release(event->record);
    event->record = record;
    event->is_captured = false;
    record->holders = 2; /* the event and the item */
    item->record = record;
    return item;
}

static cudaError_t emu_EventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct dp_emu_item *item;

    ENTER(cudaErrorUnknown);
    if (stream->capture) { /* a place in the capture, for other streams of it */
        event->is_captured = true;
        return leave(cudaSuccess);
    }
    item = record_of(event, false);
    return item ? ask(stream, item) : leave(cudaErrorMemoryAllocation);
}

static cudaError_t emu_EventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    struct dp_emu_item *item;

    ENTER(cudaErrorUnknown);
    if (flags != cudaEventRecordExternal || !stream->capture)
        return leave(cudaErrorInvalidValue);
    item = record_of(event, true);
    return item ? ask(stream, item) : leave(cudaErrorMemoryAllocation);
}

static cudaError_t emu_StreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct dp_emu_item *item;

    ENTER(cudaErrorUnknown);
    (void)flags;
    if (event->is_captured)
        return leave(cudaErrorCapturedEvent);
    if (stream->capture) { /* it waits for what is no part of the capture */
        forbidden();
        return leave(cudaErrorStreamCaptureIsolation);
    }
    if (!event->record)
        return leave(cudaSuccess);
    item = calloc(1, sizeof *item);
    if (!item)
        return leave(cudaErrorMemoryAllocation);
    item->kind = DP_EMU_WAIT;
    item->record = event->record;
    item->record->holders++;
    return ask(stream, item);
}

/* Somebody who asks again and again sees it done in the end. */
static cudaError_t emu_EventQuery(cudaEvent_t event)
{
    ENTER_UNSAFE(cudaErrorUnknown);
    if (event->is_captured)
        return leave(cudaErrorCapturedEvent);
    if (event->record && !event->record->done)
        dp_stream_step(NULL);
    if (event->record && !event->record->done)
        return leave(cudaErrorNotReady);
    if (event->record)
        dp_stream_learn(&event->record->clock);
    return leave(cudaSuccess);
}

static cudaError_t emu_EventSynchronize(cudaEvent_t event)
{
    ENTER_UNSAFE(cudaErrorUnknown);
    if (event->is_captured)
        return leave(cudaErrorCapturedEvent);
    while (event->record && !event->record->done)
        if (!dp_stream_step(NULL))
            return leave(cudaErrorLaunchTimeout);
    if (event->record)
        dp_stream_learn(&event->record->clock);
    return leave(cudaSuccess);
}

static cudaError_t emu_EventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    ENTER(cudaErrorUnknown);
    if (!from->record || !to->record || !from->times || !to->times)
        return leave(cudaErrorInvalidResourceHandle);
    if (!from->record->done || !to->record->done)
        return leave(cudaErrorNotReady);
    *ms = (float)((double)(to->record->ns - from->record->ns) * 1e-6);
    return leave(cudaSuccess);
}

/* ---- graphs ---- */

struct dp_emu_graph_exec {
    struct dp_emu_graph *work;
};

static cudaError_t emu_StreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    ENTER(cudaErrorUnknown);
    if (mode != cudaStreamCaptureModeThreadLocal || capturing || stream->capture)
        return leave(cudaErrorIllegalState);
    stream->capture = dp_graph_make();
    if (!stream->capture)
        return leave(cudaErrorMemoryAllocation);
    capturing = stream;
    return leave(cudaSuccess);
}

static cudaError_t emu_StreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t rc = enter(cudaErrorUnknown);
    struct dp_emu_graph *g = stream->capture;

    *graph = NULL;
    if (!g || capturing != stream)
        return leave(cudaErrorIllegalState);
    stream->capture = NULL;
    capturing = NULL;
    if (rc == cudaSuccess && g->is_invalid)
        rc = cudaErrorStreamCaptureInvalidated;
    if (rc == cudaSuccess) {
        *graph = g;
        rt.graphs++;
    } else {
        dp_graph_drop(g);
    }
    return leave(rc);
}

static bool copy_work(struct dp_emu_graph *to, const struct dp_emu_graph *from)
{
    for (const struct dp_emu_item *i = from->first; i; i = i->next) {
        struct dp_emu_item *copy = dp_graph_copy(i);

        if (!copy)
            return false;
        dp_graph_add(to, copy);
    }
    return true;
}

static cudaError_t emu_GraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    struct dp_emu_graph_exec *x;

    ENTER_UNSAFE(cudaErrorMemoryAllocation);
    if (flags)
        return leave(cudaErrorInvalidValue);
    x = calloc(1, sizeof *x);
    if (x)
        x->work = dp_graph_make();
    if (!x || !x->work || !copy_work(x->work, graph)) {
        if (x)
            dp_graph_drop(x->work);
        free(x);
        return leave(cudaErrorMemoryAllocation);
    }
    rt.graphs++;
    *exec = x;
    return leave(cudaSuccess);
}

/* One more time what a graph does, as its stream would have been asked for it call by call. */
static cudaError_t replay(struct dp_emu_item *item, struct dp_emu_stream *stream)
{
    if ((item->kind == DP_EMU_COPY || item->kind == DP_EMU_SET) &&
        dp_memory_asked(item->dst, item->src, item->bytes, stream->number, stream->asked + 1) < 0) {
        dp_item_free(item);
        return cudaErrorInvalidValue;
    }
    if (item->kind == DP_EMU_RECORD) {
        struct dp_emu_item *now = record_of(item->event, false);

        dp_item_free(item);
        if (!now)
            return cudaErrorMemoryAllocation;
        item = now;
    }
    rt.launches += item->kind == DP_EMU_LAUNCH;
    dp_stream_ask(stream, item);
    return cudaSuccess;
}

static cudaError_t emu_GraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ENTER(cudaErrorUnknown);
    if (capturing)
        return leave(forbidden());
    for (const struct dp_emu_item *i = exec->work->first; i; i = i->next) {
        struct dp_emu_item *item = dp_graph_copy(i);
        cudaError_t rc = item ? replay(item, stream) : cudaErrorMemoryAllocation;

        if (rc != cudaSuccess)
            return leave(rc);
    }
    rt.replays++;
    dp_stream_eager();
    return leave(cudaSuccess);
}

static cudaError_t emu_GraphExecDestroy(cudaGraphExec_t exec)
{
    cudaError_t rc = enter(cudaErrorUnknown);

    dp_graph_drop(exec->work);
    free(exec);
    rt.graphs--;
    return leave(rc);
}

static cudaError_t emu_GraphDestroy(cudaGraph_t graph)
{
    cudaError_t rc = enter(cudaErrorUnknown);

    dp_graph_drop(graph);
    rt.graphs--;
    return leave(rc);
}

/* ---- texts ---- */

static const char *emu_GetErrorName(cudaError_t rc)
{
    static const struct {
        cudaError_t rc;
        const char *name;
    } names[] = {
        {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
        {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
        {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration"},
        {cudaErrorNoDevice, "cudaErrorNoDevice"},
        {cudaErrorInvalidDevice, "cudaErrorInvalidDevice"},
        {cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed"},
        {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported"},
        {cudaErrorNotSupported, "cudaErrorNotSupported"},
        {cudaErrorNotReady, "cudaErrorNotReady"},
        {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout"},
        {cudaErrorLaunchFailure, "cudaErrorLaunchFailure"},
        {cudaErrorIllegalState, "cudaErrorIllegalState"},
        {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported"},
        {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated"},
        {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation"},
        {cudaErrorCapturedEvent, "cudaErrorCapturedEvent"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].rc == rc)
            return names[i].name;
    return "cudaErrorUnknown";
}

static const char *emu_GetErrorString(cudaError_t rc)
{
    if (rc == cudaErrorLaunchFailure && dp_emu_findings())
        return dp_emu_finding();
    return rc == cudaErrorMemoryAllocation ? "out of memory" : "an error of the emulated runtime";
}

#define DP_EMU_MEMBER(name, parameters, names) .name = emu_##name,

const struct dp_cuda_api dp_cuda_api = {
    DP_CUDA_CALLS(DP_EMU_MEMBER)
    .GetErrorName = emu_GetErrorName,
    .GetErrorString = emu_GetErrorString,
};
