/* SPDX-License-Identifier: BSD-3-Clause */
/* See memory_need.h. The kernel keeps the most that was ever resident (VmHWM); writing 5 to clear_refs makes it begin anew, so
 * a peak belongs to the steps, or to the boundary, in which it was. Where that cannot be written, a peak counts until
 * the end of the run.
 */
#include "worker/train/start/memory_need.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPARE (UINT64_C(16) << 20) /* buffers of messages and files, stacks, tables */

static uint64_t kib_of(const char *status, const char *name)
{
    const char *at = strstr(status, name);
    unsigned long long kib = 0;

    return at && sscanf(at + strlen(name), " %llu", &kib) == 1 ? (uint64_t)kib << 10 : 0;
}

/* Resident now, and the most since the last call. */
static uint64_t look(uint64_t *peak_bytes)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    *peak_bytes = kib_of(text, "\nVmHWM:");
    fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "5", 1);
        close(fd);
    }
    return kib_of(text, "\nVmRSS:");
}

static uint64_t beyond(uint64_t peak, uint64_t resident)
{
    return peak > resident ? peak - resident : 0;
}

void dp_memory_need_begin(struct dp_memory_need *n)
{
    uint64_t peak;

    n->before_bytes = look(&peak);
    if (beyond(peak, n->before_bytes) > n->step_bytes)
        n->step_bytes = beyond(peak, n->before_bytes);
}

void dp_memory_need_end(struct dp_memory_need *n, uint32_t work)
{
    uint64_t peak;

    look(&peak);
    for (uint32_t i = 0; i < 32; i++)
        if (work & (UINT32_C(1) << i))
            n->work_bytes[i] = beyond(peak, n->before_bytes);
}

uint64_t dp_memory_need_bytes(struct dp_memory_need *n, uint64_t largest_layer_bytes)
{
    uint64_t peak, resident = look(&peak), most = beyond(peak, resident), foreseen = 2 * largest_layer_bytes + SPARE;

    if (n->step_bytes > most)
        most = n->step_bytes;
    n->step_bytes = 0;
    for (uint32_t i = 0; i < 32; i++)
        if (n->work_bytes[i] > most)
            most = n->work_bytes[i];
    return resident ? resident + (most > foreseen ? most : foreseen) : 0;
}

void dp_memory_trim(void)
{
    malloc_trim(0);
}
