/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for libnvidia-ml.so.1: answers what a test wrote (nvml_script.h). As in drivers R535 before 535.98, entries of the
 * lists of version 3 are longer than those of version 2. NVML_OLD: a driver of a time before versions, MIG and NUMA.
 * NVML_BARE: memory cannot be asked for. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/nvml_script.h"

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card);
int nvmlDeviceGetMinorNumber(void *card, unsigned *minor);
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long memory[3]);
int nvmlDeviceGetMigMode(void *card, unsigned *now, unsigned *next);
int nvmlDeviceGetNumaNodeId(void *card, unsigned *node);
const char *nvmlErrorString(int rc);
int nvmlDeviceGetComputeRunningProcesses(void *card, unsigned *n, void *entries);
int nvmlDeviceGetComputeRunningProcesses_v2(void *card, unsigned *n, void *entries);
int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned *n, void *entries);

enum { NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

static struct nvml_script *script;
static int is_begun;

#define CARD(c) (&script->card[(unsigned long)(c) - 1])

int nvmlInit_v2(void)
{
    const char *path = getenv("NVML_SCRIPT");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (!script && fd >= 0)
        script = mmap(NULL, sizeof *script, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* and stays open, as a driver's files do */
    else if (fd >= 0)
        close(fd);
    if (!script || script == MAP_FAILED)
        return 999;
    script->n_inits++;
    is_begun = script->init == 0;
    return script->init;
}

int nvmlShutdown(void)
{
    is_begun = 0;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = script->n_cards;
    return is_begun ? 0 : 1;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card)
{
    *card = (void *)(index + 1ul);
    return script->handle;
}

int nvmlDeviceGetMinorNumber(void *card, unsigned *minor)
{
    *minor = CARD(card)->minor;
    return 0;
}

#ifndef NVML_BARE
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long memory[3])
{
    unsigned n = script->n_reads++;

    if (script->dies)
        raise(SIGKILL);
    while (script->hangs)
        pause();
    memory[0] = 80ull << 30;
    memory[2] = CARD(card)->n_before_then && n >= CARD(card)->n_before_then ? CARD(card)->used_then : CARD(card)->used;
    memory[1] = memory[0] - memory[2];
    return CARD(card)->memory;
}
#endif

static int list(void *card, unsigned *n, char *entries, unsigned long stride)
{
    unsigned room = *n;

    *n = CARD(card)->n_pids;
    if (room < *n)
        return INSUFFICIENT_SIZE;
    memset(entries, 0x5a, *n * stride);
    for (unsigned i = 0; i < *n; i++)
        memcpy(entries + i * stride, &CARD(card)->pid[i], sizeof(unsigned));
    return CARD(card)->list;
}

#ifdef NVML_OLD
int nvmlDeviceGetComputeRunningProcesses(void *card, unsigned *n, void *entries)
{
    return list(card, n, entries, 16);
}
#else
int nvmlDeviceGetComputeRunningProcesses_v2(void *card, unsigned *n, void *entries)
{
    return list(card, n, entries, 24);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned *n, void *entries)
{
    return list(card, n, entries, 32);
}

int nvmlDeviceGetMigMode(void *card, unsigned *now, unsigned *next)
{
    *now = *next = CARD(card)->is_mig;
    return 0;
}

int nvmlDeviceGetNumaNodeId(void *card, unsigned *node)
{
    *node = 1;
    return CARD(card)->is_numa ? 0 : NOT_SUPPORTED;
}

const char *nvmlErrorString(int rc)
{
    return rc == 15 ? "GPU is lost" : "an error";
}
#endif
