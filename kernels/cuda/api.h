/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of the CUDA runtime that the backend makes, all of them, as one table.
 *
 * The runtime is linked into the plugin (libcudart_static): one file, no toolkit on the machine that runs it, and the
 * same runtime wherever it runs, which same bits ask for. It looks for the driver (libcuda.so.1) when it is first
 * called, so that the plugin loads, and says what is missing, on a machine without one. Libraries beyond the runtime
 * are looked up when they are wanted (dlopen) and have tables of their own.
 *
 * On the emulator (kernels/cuda/emu) the table has functions of the same types that work on host memory. There any
 * call can be made to fail.
 */
#ifndef DP_KERNELS_CUDA_API_H
#define DP_KERNELS_CUDA_API_H

#ifdef DP_CUDA_EMU
#include "kernels/cuda/emu/types.h"
#else
#include <cuda_runtime_api.h>
#endif

/* C(name without "cuda", parameters, their names). Each returns cudaError_t and means what CUDA's manual says. */
#define DP_CUDA_CALLS(C)                                                                                             \
    C(DriverGetVersion, (int *version), (version))                                                                   \
    C(RuntimeGetVersion, (int *version), (version))                                                                  \
    C(GetDeviceCount, (int *count), (count))                                                                         \
    C(SetDevice, (int device), (device))                                                                             \
    C(GetDeviceProperties, (struct cudaDeviceProp * prop, int device), (prop, device))                               \
    C(DeviceGetAttribute, (int *value, enum cudaDeviceAttr what, int device), (value, what, device))                 \
    C(FuncGetAttributes, (struct cudaFuncAttributes * attr, const void *kernel), (attr, kernel))                     \
    C(FuncSetAttribute, (const void *kernel, enum cudaFuncAttribute what, int value), (kernel, what, value))         \
    C(LaunchKernel,                                                                                                  \
      (const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),                  \
      (kernel, grid, block, args, shared, stream))                                                                   \
    C(GetLastError, (void), ())                                                                                      \
    C(MemGetInfo, (size_t * free, size_t *total), (free, total))                                                     \
    C(Malloc, (void **p, size_t bytes), (p, bytes))                                                                  \
    C(Free, (void *p), (p))                                                                                          \
    C(HostAlloc, (void **p, size_t bytes, unsigned flags), (p, bytes, flags))                                        \
    C(FreeHost, (void *p), (p))                                                                                      \
    C(MemcpyAsync, (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),        \
      (dst, src, bytes, kind, stream))                                                                               \
    C(MemsetAsync, (void *dst, int byte, size_t bytes, cudaStream_t stream), (dst, byte, bytes, stream))             \
    C(IpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *p), (handle, p))                                          \
    C(IpcOpenMemHandle, (void **p, cudaIpcMemHandle_t handle, unsigned flags), (p, handle, flags))                   \
    C(IpcCloseMemHandle, (void *p), (p))                                                                             \
    C(StreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))                               \
    C(StreamDestroy, (cudaStream_t stream), (stream))                                                                \
    C(StreamSynchronize, (cudaStream_t stream), (stream))                                                            \
    C(StreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))             \
    C(EventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))                                   \
    C(EventDestroy, (cudaEvent_t event), (event))                                                                    \
    C(EventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))                                        \
    C(EventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags))        \
    C(EventQuery, (cudaEvent_t event), (event))                                                                      \
    C(EventSynchronize, (cudaEvent_t event), (event))                                                                \
    C(EventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to), (ms, from, to))                           \
    C(StreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))                    \
    C(StreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), (stream, graph))                                  \
    C(GraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags)) \
    C(GraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))                                      \
    C(GraphExecDestroy, (cudaGraphExec_t exec), (exec))                                                              \
    C(GraphDestroy, (cudaGraph_t graph), (graph))

#define DP_CUDA_CALL(name, parameters, names) cudaError_t(*name) parameters;
struct dp_cuda_api {
    DP_CUDA_CALLS(DP_CUDA_CALL)
    const char *(*GetErrorName)(cudaError_t rc);
    const char *(*GetErrorString)(cudaError_t rc);
};

/* The runtime's own functions (api.c), or the emulator's. */
extern const struct dp_cuda_api dp_cuda_api;

#endif
