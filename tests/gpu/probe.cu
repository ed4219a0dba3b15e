/* SPDX-License-Identifier: BSD-3-Clause */
/* probe card: what the card and the driver are. probe ipc: memory of one process in another one, by CUDA IPC. probe spin
 * ROUNDS: one block that is busy for so long; two of these processes at a time take as long as one where the card serves
 * both at once (MPS), up to twice as long where they take turns. probe hold MIB: holds so much memory until its
 * input ends. Prints lines "NAME: VALUE"; 1 where something fails. */
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLOATS 1024 /* of the memory that is passed on */

#define NEED(call)                                                                  \
    do {                                                                            \
        const cudaError_t need_rc = (call);                                         \
        if (need_rc != cudaSuccess) {                                               \
            printf("%s: %s\n", #call, cudaGetErrorString(need_rc));                 \
            return 1;                                                               \
        }                                                                           \
    } while (0)

/* Work, not time: a kernel that has to wait for its turn must take longer. Each round needs the one before. */
static __global__ void spin_kernel(long rounds, float *to)
{
    float x = 1.0f;

    for (long i = 0; i < rounds; i++)
        x = fmaf(x, 0.5f, 1.0f);
    *to = x;
}

static __global__ void add_kernel(float *p, float value)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

static int card(void)
{
    struct cudaDeviceProp p;
    int driver, runtime;

    NEED(cudaDriverGetVersion(&driver));
    NEED(cudaRuntimeGetVersion(&runtime));
    NEED(cudaGetDeviceProperties(&p, 0));
    printf("card: %s, compute capability %d.%d, %d multiprocessors\n", p.name, p.major, p.minor, p.multiProcessorCount);
    printf("memory: %zu MiB, L2 %d KiB, shared %zu KiB of a multiprocessor, %zu of a block\n", p.totalGlobalMem >> 20,
           p.l2CacheSize >> 10, p.sharedMemPerMultiprocessor >> 10, p.sharedMemPerBlockOptin >> 10);
    printf("CUDA: driver %d.%d, runtime %d.%d\n", driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return 0;
}

static int child(int from)
{
    cudaIpcMemHandle_t handle;
    float *p;

    if (read(from, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return 1;
    NEED(cudaIpcOpenMemHandle((void **)&p, handle, cudaIpcMemLazyEnablePeerAccess));
    add_kernel<<<FLOATS / 256, 256>>>(p, 2.0f);
    NEED(cudaDeviceSynchronize());
    NEED(cudaIpcCloseMemHandle(p));
    return 0;
}

static int ipc(void)
{
    int fds[2], status;
    pid_t pid = pipe(fds) == 0 ? fork() : -1; /* before the first call of CUDA */
    cudaIpcMemHandle_t handle;
    static float host[FLOATS];
    float *p;

    if (pid == 0)
        _exit(child(fds[0]));
    if (pid < 0)
        return 1;
    NEED(cudaMalloc((void **)&p, sizeof host));
    NEED(cudaMemset(p, 0, sizeof host));
    NEED(cudaDeviceSynchronize());
    NEED(cudaIpcGetMemHandle(&handle, p));
    if (write(fds[1], &handle, sizeof handle) != (ssize_t)sizeof handle || waitpid(pid, &status, 0) != pid || status) {
        printf("ipc: the other process failed\n");
        return 1;
    }
    NEED(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < FLOATS; i++)
        if (host[i] != 2.0f) {
            printf("ipc: element %d is %g\n", i, (double)host[i]);
            return 1;
        }
    printf("ipc: works\n");
    return 0;
}

static int spin(long rounds)
{
    cudaEvent_t from, to;
    float took, *p;

    NEED(cudaMalloc((void **)&p, sizeof *p));
    NEED(cudaEventCreate(&from));
    NEED(cudaEventCreate(&to));
    spin_kernel<<<1, 1>>>(1, p);
    NEED(cudaDeviceSynchronize());
    printf("ready\n");
    fflush(stdout);
    if (getchar() == EOF) /* both begin when they are told */
        return 1;
    NEED(cudaEventRecord(from));
    spin_kernel<<<1, 1>>>(rounds, p);
    NEED(cudaEventRecord(to));
    NEED(cudaDeviceSynchronize());
    NEED(cudaEventElapsedTime(&took, from, to));
    printf("took %.1f\n", (double)took);
    return 0;
}

static int hold(size_t mib)
{
    void *p;

    NEED(cudaMalloc(&p, mib << 20));
    NEED(cudaMemset(p, 1, mib << 20));
    NEED(cudaDeviceSynchronize());
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "card"))
        return card();
    if (argc > 1 && !strcmp(argv[1], "ipc"))
        return ipc();
    if (argc > 2 && !strcmp(argv[1], "spin"))
        return spin(strtol(argv[2], NULL, 10));
    if (argc > 2 && !strcmp(argv[1], "hold"))
        return hold(strtoul(argv[2], NULL, 10));
    fprintf(stderr, "usage: probe card|ipc|spin ROUNDS|hold MIB\n");
    return 2;
}
