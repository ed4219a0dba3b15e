/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages that are closed get the host a signal: device memory while no work runs, and the pages of staging memory that
 * lie wholly in a copy that the host has asked for and not yet seen done. A handler says what happened and lets the
 * signal have its way.
 *
 * Less than a page of staging memory is seen, too: what a copy writes there appears when the host knows that the copy is
 * done, NaN until then; and what a copy reads must be the same then as when the copy was asked for.
 */
#include "kernels/cuda/emu/memory.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "kernels/cuda/emu/check.h"
#include "kernels/cuda/emu/stream.h"

#define GUARD 2 /* pages around staging memory that nobody may touch */

struct staging {
    struct staging *next;
    char *at;
    size_t bytes, whole; /* whole: in pages */
};

/* A copy from or to staging memory that the host does not know to be done. */
struct flight {
    struct flight *next;
    char *at;
    size_t bytes;
    bool writes;
    int stream;
    unsigned long number;
    uint32_t sum;  /* of what is read, when it was asked for */
    char *arrived; /* of what is written, until the host may see it; NULL: the copy has not run */
};

static struct {
    size_t page;
    struct staging *staging;
    struct flight *flights;
    long blocks, n_staging;
    struct sigaction before;
} memory;

/* ---- the signal ---- */

static void say(const char *text)
{
    ssize_t rc = write(STDERR_FILENO, text, strlen(text));

    (void)rc;
}

static struct staging *staging_at(const void *p)
{
    struct staging *s = memory.staging;

    while (s && (uintptr_t)p - (uintptr_t)s->at >= s->whole)
        s = s->next;
    return s;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (dp_check_is_device(info->si_addr))
        say("emulator: the host touches device memory\n");
    else if (staging_at(info->si_addr))
        say("emulator: the host touches staging memory that a copy uses, before its ticket\n");
    sigaction(signal, &memory.before, NULL); /* the access comes again, and finds who was there before us */
}

int dp_memory_begin(size_t bytes)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO};

    memory.page = (size_t)sysconf(_SC_PAGESIZE);
    if (dp_check_begin(bytes) < 0)
        return -1;
    act.sa_sigaction = on_fault;
    sigemptyset(&act.sa_mask);
    sigaction(SIGSEGV, &act, &memory.before);
    return 0;
}

void dp_memory_end(void)
{
    struct sigaction now;

    while (memory.staging)
        dp_staging_free(memory.staging->at);
    dp_check_end();
    memory.blocks = 0;
    if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault)
        sigaction(SIGSEGV, &memory.before, NULL);
}

/* ---- staging memory ---- */

void *dp_staging_alloc(size_t bytes)
{
    struct staging *s = bytes < SIZE_MAX / 4 ? calloc(1, sizeof *s) : NULL;
    size_t guard = GUARD * memory.page;
    char *p;

    if (!s)
        return NULL;
    s->bytes = bytes;
    s->whole = (bytes + memory.page - 1) / memory.page * memory.page;
    p = mmap(NULL, s->whole + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + guard, s->whole, PROT_READ | PROT_WRITE) < 0) {
        if (p != MAP_FAILED)
            munmap(p, s->whole + 2 * guard);
        free(s);
        return NULL;
    }
    s->at = p + guard;
    memset(s->at, 0xff, s->whole); /* undefined: NaN */
    s->next = memory.staging;
    memory.staging = s;
    memory.n_staging++;
    return s->at;
}

static void free_flight(struct flight *f)
{
    free(f->arrived);
    free(f);
}

static void drop_flights(const char *at, size_t bytes)
{
    for (struct flight **f = &memory.flights; *f;) {
        struct flight *it = *f;

        if (it->at >= at && it->at < at + bytes) {
            *f = it->next;
            free_flight(it);
        } else {
            f = &it->next;
        }
    }
}

int dp_staging_free(void *p)
{
    for (struct staging **s = &memory.staging; *s; s = &(*s)->next) {
        struct staging *it = *s;
        size_t guard = GUARD * memory.page;

        if (it->at != p)
            continue;
        *s = it->next;
        drop_flights(it->at, it->whole);
        munmap(it->at - guard, it->whole + 2 * guard);
        free(it);
        memory.n_staging--;
        return 0;
    }
    return -1;
}

long dp_memory_blocks(void)
{
    return memory.blocks;
}

long dp_memory_staging(void)
{
    return memory.n_staging;
}

void dp_memory_count_block(long more)
{
    memory.blocks += more;
}

bool dp_memory_is_pageable(const void *p)
{
    return !dp_check_is_device(p) && !staging_at(p);
}

/* Open or close the pages of a piece of staging memory as the flights that are left want it. */
static void protect(const struct staging *s)
{
    mprotect(s->at, s->whole, PROT_READ | PROT_WRITE);
    for (int writes = 0; writes < 2; writes++) /* those that write have the last word */
        for (const struct flight *f = memory.flights; f; f = f->next) {
            size_t from = ((size_t)(f->at - s->at) + memory.page - 1) / memory.page * memory.page;
            size_t to = ((size_t)(f->at - s->at) + f->bytes) / memory.page * memory.page;

            if (f->writes == writes && staging_at(f->at) == s && from < to)
                mprotect(s->at + from, to - from, writes ? PROT_NONE : PROT_READ);
        }
}

/* Another copy uses what has arrived, so that the host is not the first to see it. */
static void deliver(const void *p, size_t bytes)
{
    const char *at = p;

    for (struct flight *f = memory.flights; f; f = f->next)
        if (f->arrived && f->at < at + bytes && at < f->at + f->bytes) {
            struct staging *s = staging_at(f->at);

            mprotect(s->at, s->whole, PROT_READ | PROT_WRITE);
            memcpy(f->at, f->arrived, f->bytes);
            protect(s);
            free(f->arrived);
            f->arrived = NULL;
        }
}

static int flight_begins(void *p, size_t bytes, bool writes, int stream, unsigned long number)
{
    struct staging *s = staging_at(p);
    struct flight *f;

    if (!s)
        return 0;
    if ((size_t)((char *)p - s->at) + bytes > s->bytes)
        return -1;
    f = malloc(sizeof *f);
    if (!f)
        return 0; /* less is seen */
    deliver(p, bytes);
    *f = (struct flight){.next = memory.flights, .at = p, .bytes = bytes, .writes = writes, .stream = stream,
                         .number = number};
    mprotect(s->at, s->whole, PROT_READ | PROT_WRITE);
    if (writes)
        memset(p, 0xff, bytes);
    else
        f->sum = dp_crc32c(0, p, bytes);
    memory.flights = f;
    protect(s);
    return 0;
}

/* Within the array of device memory that it begins in. */
static bool fits(const void *p, size_t bytes)
{
    return dp_memory_is_pageable(p) || !dp_check_is_device(p) || dp_check_room(p) >= bytes;
}

int dp_memory_asked(void *dst, const void *src, size_t bytes, int stream, unsigned long number)
{
    if (!fits(dst, bytes) || (src && !fits(src, bytes)))
        return -1;
    if (src && flight_begins((void *)(uintptr_t)src, bytes, false, stream, number) < 0)
        return -1;
    return flight_begins(dst, bytes, true, stream, number);
}

void dp_memory_learned(void)
{
    const struct dp_emu_clock *known = dp_stream_known();

    for (struct flight **f = &memory.flights; *f;) {
        struct flight *it = *f;
        struct staging *s = staging_at(it->at);

        if (known->at[it->stream] < it->number) {
            f = &it->next;
            continue;
        }
        *f = it->next;
        if (s) {
            mprotect(s->at, s->whole, PROT_READ | PROT_WRITE);
            if (it->arrived)
                memcpy(it->at, it->arrived, it->bytes);
            if (!it->writes && dp_crc32c(0, it->at, it->bytes) != it->sum)
                dp_emu_found("the host wrote to staging memory that a copy used, before its ticket");
            protect(s);
        }
        free_flight(it);
    }
}

int dp_memory_run(const struct dp_emu_item *item, int stream)
{
    struct staging *s;

    if (dp_check_is_device(item->dst) && dp_check_copy(item->dst, item->bytes, DP_ACCESS_WRITE) < 0)
        return -1;
    if (item->src && dp_check_is_device(item->src) && dp_check_copy(item->src, item->bytes, DP_ACCESS_READ) < 0)
        return -1;
    if (!item->src) {
        memset(item->dst, item->byte, item->bytes);
        return 0;
    }
    if (!dp_check_is_device(item->src))
        deliver(item->src, item->bytes);
    for (struct flight *f = memory.flights; f; f = f->next)
        if (f->writes && f->stream == stream && f->number == item->number && (f->arrived = malloc(f->bytes)) != NULL) {
            memcpy(f->arrived, item->src, f->bytes);
            return 0;
        }
    s = staging_at(item->dst);
    if (s)
        mprotect(s->at, s->whole, PROT_READ | PROT_WRITE);
    memmove(item->dst, item->src, item->bytes);
    if (s)
        protect(s);
    return 0;
}
