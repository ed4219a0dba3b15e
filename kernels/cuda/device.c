/* SPDX-License-Identifier: BSD-3-Clause */
/* The card: opening and closing it, what it is, and its errors.
 *
 * A call of the runtime may return an error of work that was started long before. What is known then is which
 * operations may have been under way: those that have begun since the last point of the computing lane that is known to
 * have been passed. The error names them. Whatever fails but an allocation leaves the backend failed: what the device's
 * memory holds then is not known.
 */
#include "kernels/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/record.h"

#define OLDEST_CC 8 /* compute capability 8.0: bfloat16 on tensor cores, asynchronous copies */

int dp_cuda_usable(struct dp_cuda *cu, struct dp_err *err)
{
    if (cu->failure.code == DP_OK)
        return 0;
    if (err)
        *err = cu->failure;
    return -1;
}

bool dp_cuda_is_late(cudaError_t rc)
{
    switch ((int)rc) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

/* "add", "add or sum", "one of add, sum, head": the operations that were under way, each once. returns: how many. */
static size_t name_suspects(const struct dp_cuda *cu, char *text, size_t cap)
{
    uint64_t first = cu->begun - cu->done > DP_CUDA_RECENT ? cu->begun - DP_CUDA_RECENT : cu->done;
    const char *names[DP_CUDA_RECENT];
    size_t n = 0, at;

    for (uint64_t i = first; i < cu->begun; i++) {
        const char *name = cu->recent[i % DP_CUDA_RECENT];
        size_t k = 0;

        while (k < n && strcmp(names[k], name))
            k++;
        if (k == n)
            names[n++] = name;
    }
    if (n == 0)
        names[n++] = cu->op;
    at = (size_t)snprintf(text, cap, "%s%s", n > 2 ? "one of " : "", names[0]);
    for (size_t i = 1; i < n && at < cap; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%s", n > 2 ? ", " : " or ", names[i]);
    return n;
}

int dp_cuda_check(struct dp_cuda *cu, cudaError_t rc, const char *call, struct dp_err *err)
{
    char who[512];

    if (rc == cudaSuccess)
        return 0;
    if (cu->failure.code == DP_OK) {
        size_t suspects = 1;

        if (dp_cuda_is_late(rc))
            suspects = name_suspects(cu, who, sizeof who);
        else
            snprintf(who, sizeof who, "%s", cu->op);
        dp_err_set(&cu->failure, DP_EIO, "cuda: %s: %s (%s, returned by cuda%s)%s", who,
                   dp_cuda_api.GetErrorString(rc), dp_cuda_api.GetErrorName(rc), call,
                   suspects > 1 ? "; CUDA_LAUNCH_BLOCKING=1 says which operation" : "");
    }
    return dp_cuda_usable(cu, err);
}

struct dp_cuda *dp_cuda_begin(struct dp_backend *be, const char *op, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);

    if (dp_cuda_usable(cu, err) < 0)
        return NULL;
    cu->op = op;
    cu->recent[cu->begun++ % DP_CUDA_RECENT] = op;
    return cu;
}

int dp_cuda_refuse(struct dp_cuda *cu, struct dp_err *err, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return dp_err_set(err, DP_EINVAL, "cuda: %s: %s", cu->op, text);
}

/* Runtime and driver fit together, and we have code for the worker's device. Where Slurm gave each task a GPU of its own, a
 * process sees that one only; where there are more workers than GPUs, they share them in turns. */
static int look(struct dp_cuda *cu, int worker, struct dp_err *err)
{
    struct cudaFuncAttributes attributes;
    int driver = 0, runtime = 0, count = 0, major = 0, minor = 0, device;
    cudaError_t rc;

    if (DP_CUDA(cu, err, RuntimeGetVersion, &runtime) < 0)
        return -1;
    if (DP_CUDA(cu, err, DriverGetVersion, &driver) < 0)
        return -1;
    if (driver == 0)
        return dp_err_set(err, DP_ENOTSUP, "this machine has no NVIDIA driver (libcuda.so.1 is not found)");
    if (driver / 1000 < runtime / 1000)
        return dp_err_set(err, DP_ENOTSUP,
                          "the driver is too old: it knows CUDA %d.%d, this plugin was built with CUDA %d.%d",
                          driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    rc = dp_cuda_api.GetDeviceCount(&count);
    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && count < 1)) {
        dp_cuda_api.GetLastError();
        return dp_err_set(err, DP_ENOTSUP,
                          "the driver sees no device (is CUDA_VISIBLE_DEVICES empty, or did Slurm give this job "
                          "no GPU?)");
    }
    if (dp_cuda_check(cu, rc, "GetDeviceCount", err) < 0)
        return -1;
    if (worker < 0)
        return dp_err_set(err, DP_EINVAL, "there is no device %d", worker);
    device = cu->device = worker % count;
    if (DP_CUDA(cu, err, DeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, device) < 0 ||
        DP_CUDA(cu, err, DeviceGetAttribute, &minor, cudaDevAttrComputeCapabilityMinor, device) < 0)
        return -1;
    if (major < OLDEST_CC)
        return dp_err_set(err, DP_ENOTSUP, "device %d has compute capability %d.%d; %d.0 or later is needed",
                          device, major, minor, OLDEST_CC);
    if (DP_CUDA(cu, err, SetDevice, device) < 0)
        return -1;
    rc = dp_cuda_api.FuncGetAttributes(&attributes, dp_cuda_probe());
    if (rc == cudaErrorNoKernelImageForDevice || rc == cudaErrorInvalidDeviceFunction ||
        rc == cudaErrorUnsupportedPtxVersion) {
        dp_cuda_api.GetLastError();
        return dp_err_set(err, DP_ENOTSUP,
                          "this plugin has no code for device %d (compute capability %d.%d): configure builds for "
                          "what CUDA_ARCHS names",
                          device, major, minor);
    }
    return dp_cuda_check(cu, rc, "FuncGetAttributes", err);
}

static int open_lanes(struct dp_cuda *cu, struct dp_err *err)
{
    for (int i = 0; i < DP_N_LANES; i++)
        if (DP_CUDA(cu, err, StreamCreateWithFlags, &cu->lanes[i].stream, cudaStreamNonBlocking) < 0)
            return -1;
    return 0;
}

int dp_cuda_open(struct dp_backend *be, int worker, int threads, struct dp_err *err)
{
    struct dp_cuda *cu;

    (void)threads; /* of the host: none of them computes */
    cu = calloc(1, sizeof *cu);
    if (!cu)
        return dp_err_set(err, DP_ENOMEM, "cuda: no memory for the context");
    cu->op = "open";
    be->ctx = cu;
    if (look(cu, worker, err) < 0 || open_lanes(cu, err) < 0 || dp_cuda_blas_open(cu, err) < 0) {
        dp_cuda_close(be);
        return -1;
    }
    return 0;
}

/* What fails here fails for good: nobody is there who could do something about it. */
void dp_cuda_close(struct dp_backend *be)
{
    struct dp_cuda *cu = dp_cuda_of(be);

    if (!cu)
        return;
    for (int i = 0; i < DP_N_LANES; i++)
        if (cu->lanes[i].stream)
            dp_cuda_api.StreamSynchronize(cu->lanes[i].stream);
    dp_cuda_blas_close(cu);
    dp_cuda_close_record(cu); /* its graphs have events and memory in them */
    while (cu->n_blocks)
        dp_cuda_drop_block(cu, &cu->blocks[cu->n_blocks - 1]);
    for (size_t i = 0; i < cu->max_laps; i++)
        if (cu->laps[i].event)
            dp_cuda_api.EventDestroy(cu->laps[i].event);
    for (int i = 0; i < DP_N_LANES; i++) {
        struct dp_cuda_lane *lane = &cu->lanes[i];

        for (uint64_t k = 0; k < lane->n_marks; k++)
            if (lane->marks[k].event)
                dp_cuda_api.EventDestroy(lane->marks[k].event);
        if (lane->stream)
            dp_cuda_api.StreamDestroy(lane->stream);
        free(lane->marks);
    }
    free(cu->blocks);
    free(cu->laps);
    free(cu);
    be->ctx = NULL;
}

int dp_cuda_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_of(be);
    struct cudaDeviceProp *prop;
    size_t left = 0, total = 0;
    int rc = -1;

    if (dp_cuda_usable(cu, err) < 0)
        return -1;
    cu->op = "info";
    dp_cuda_collect_freed(cu, false);
    prop = malloc(sizeof *prop);
    if (!prop)
        return dp_err_set(err, DP_ENOMEM, "cuda: info: out of memory");
    if (DP_CUDA(cu, err, GetDeviceProperties, prop, cu->device) == 0 &&
        DP_CUDA(cu, err, MemGetInfo, &left, &total) == 0) {
        *out = (struct dp_device_info){.total_bytes = total, .free_bytes = left, .sparse_format = DP_ROWS,
                                       .act_bytes = sizeof(float)};
        snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, prop->name);
        rc = 0;
    }
    free(prop);
    return rc;
}
