/* SPDX-License-Identifier: BSD-3-Clause */
/* See stock.h. Pages cost as much as all the rest of a hand-over: they are zeroed, and where the machine is a virtual one, its
 * host may have to find them first. */
#include "kernels/cpu/stock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older headers do not name it */
#endif

#define PORTION ((size_t)4 << 20) /* bytes that are made ready at once: others who map or unmap memory wait for it */

void dp_cpu_stock_open(struct dp_cpu_stock *s)
{
    *s = (struct dp_cpu_stock){0};
    pthread_mutex_init(&s->lock, NULL); /* of this kind it never fails */
}

static void give_back(struct dp_cpu_stock *s)
{
    if (s->at && s->bytes > s->taken)
        munmap(s->at + s->taken, s->bytes - s->taken);
    s->at = NULL;
    s->bytes = s->ready = s->taken = 0;
}

void dp_cpu_stock_close(struct dp_cpu_stock *s)
{
    give_back(s);
    pthread_mutex_destroy(&s->lock);
}

void *dp_cpu_stock_take(struct dp_cpu_stock *s, size_t bytes)
{
    void *p = NULL;

    pthread_mutex_lock(&s->lock);
    if (bytes <= s->ready - s->taken) {
        p = s->at + s->taken;
        s->taken += bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return p;
}

static struct dp_cpu_stock *of(struct dp_backend *be)
{
    return &((struct dp_cpu *)be->ctx)->stock;
}

/* The mapping's pages are nobody's yet: nothing of the machine is used. */
static int begin(struct dp_backend *be, size_t bytes, struct dp_err *err)
{
    struct dp_cpu_stock *s = of(be);
    size_t whole = bytes < SIZE_MAX / 2 ? (bytes + DP_CPU_HUGE_PAGE - 1) / DP_CPU_HUGE_PAGE * DP_CPU_HUGE_PAGE : 0;
    char *at, *p;

    give_back(s);
    if (bytes < DP_CPU_STOCKED)
        return 0;
    at = whole ? mmap(NULL, whole + DP_CPU_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (at == MAP_FAILED)
        return dp_err_set(err, DP_ENOMEM, "cpu: no memory for %zu bytes in stock", bytes);
    p = (char *)(((uintptr_t)at + DP_CPU_HUGE_PAGE - 1) / DP_CPU_HUGE_PAGE * DP_CPU_HUGE_PAGE);
    if (p > at)
        munmap(at, (size_t)(p - at));
    munmap(p + whole, DP_CPU_HUGE_PAGE - (size_t)(p - at));
    dp_cpu_wish_huge(p, whole);
    s->at = p;
    s->bytes = whole;
    return 0;
}

/* A kernel that cannot do it at once has each page written to. */
static int touch(char *p, size_t bytes, struct dp_err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    while (madvise(p, bytes, MADV_POPULATE_WRITE) < 0) {
        if (errno == EINTR || errno == EAGAIN)
            continue;
        if (errno != EINVAL)
            return dp_err_set(err, DP_ENOMEM, "cpu: no memory for more in stock: %s", strerror(errno));
        for (size_t i = 0; i < bytes; i += page)
            *(volatile char *)(p + i) = 0;
        break;
    }
    return 0;
}

static int fill(struct dp_backend *be, struct dp_err *err)
{
    struct dp_cpu_stock *s = of(be);
    size_t left = s->bytes - s->ready, bytes = left < PORTION ? left : PORTION; /* nobody else changes ready */
    int saved = errno;

    if (!left)
        return 0;
    if (touch(s->at + s->ready, bytes, err) < 0)
        return -1;
    errno = saved;
    pthread_mutex_lock(&s->lock);
    s->ready += bytes;
    pthread_mutex_unlock(&s->lock);
    return bytes < left;
}

static size_t bytes_left(struct dp_backend *be)
{
    struct dp_cpu_stock *s = of(be);
    size_t left;

    pthread_mutex_lock(&s->lock);
    left = s->ready - s->taken;
    pthread_mutex_unlock(&s->lock);
    return left;
}

static void end(struct dp_backend *be)
{
    give_back(of(be));
}

const struct dp_backend_stock dp_cpu_stock = {.begin = begin, .fill = fill, .left = bytes_left, .end = end};
