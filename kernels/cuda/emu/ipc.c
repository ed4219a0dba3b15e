/* SPDX-License-Identifier: BSD-3-Clause */
/* A file without a name (memfd) holds a head, the cells and the array's pages. Its handle says which process has it open
 * under which number, so that nothing is left when both have ended, however they did. */
#include "config.h" /* GNU's memfd_create */

#include "kernels/cuda/emu/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "kernels/cuda/emu/check.h"

#define MAGIC 0x44504950u /* "DPIP" */
#define WORKS 4096u       /* that are remembered: of an older one nobody asks any more whether it is known to be done */
#define OPENERS 8         /* processes that have an array open */
#define LONG_AGO 1u       /* the number of what was done before the array was shown */

/* A work that touched the array. */
struct seen {
    _Atomic uint32_t id;
    _Atomic uint32_t pid;
    _Atomic uint64_t known_ns; /* when its host saw it done; 0: it has not */
};

/* Works by number, 0: none. */
struct cell {
    _Atomic uint32_t written, read;
};

struct head {
    uint32_t magic, cells; /* cells: how many */
    uint64_t nonce, bytes, pages, data; /* data: where the pages begin */
    _Atomic uint32_t last; /* work */
    _Atomic uint32_t openers[OPENERS]; /* process ids */
    struct seen seen[WORKS];
    struct cell cell[];
};

/* A work of this process that touched an array, and that the host does not know to be done. */
struct pending {
    struct pending *next;
    struct dp_emu_books *books;
    uint32_t id;
    int stream;
    uint64_t number;
};

struct dp_emu_books {
    struct head *head;
    size_t head_bytes; /* as it is mapped here */
    int fd;            /* -1: another process shows it */
    uint32_t id;       /* of this process's work that touched it last, ... */
    int stream;
    uint64_t number; /* ... and which that is */
};

/* What a cudaIpcMemHandle_t has inside. */
struct handle {
    uint32_t magic, pid;
    int32_t fd;
    uint32_t reserved;
    uint64_t nonce, bytes, pages, data;
};
_Static_assert(sizeof(struct handle) <= sizeof(cudaIpcMemHandle_t), "it fits");

static struct pending *pending;

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

void dp_ipc_handle(const struct dp_emu_books *b, cudaIpcMemHandle_t *handle)
{
    struct handle h = {.magic = MAGIC, .pid = (uint32_t)getpid(), .fd = b->fd, .nonce = b->head->nonce,
                       .bytes = b->head->bytes, .pages = b->head->pages, .data = b->head->data};

    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
}

static struct dp_emu_books *make_books(int fd, size_t head_bytes)
{
    struct dp_emu_books *b = calloc(1, sizeof *b);
    void *p = b ? mmap(NULL, head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (p == MAP_FAILED) {
        free(b);
        return NULL;
    }
    b->head = p;
    b->head_bytes = head_bytes;
    b->fd = -1;
    return b;
}

static void free_books(struct dp_emu_books *b)
{
    munmap(b->head, b->head_bytes);
    if (b->fd >= 0)
        close(b->fd);
    free(b);
}

static bool take_pages(int fd, void *at, size_t pages, size_t data)
{
    return mmap(at, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)data) == at;
}

struct dp_emu_books *dp_ipc_show(void *at, size_t bytes, size_t pages, size_t grain, cudaIpcMemHandle_t *handle)
{
    size_t cells = pages / grain, data = whole_pages(sizeof(struct head) + cells * sizeof(struct cell));
    int fd = memfd_create("dynpipe emulator", MFD_CLOEXEC);
    struct dp_emu_books *b = NULL;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)(data + pages)) == 0 && pwrite(fd, at, pages, (off_t)data) == (ssize_t)pages)
        b = make_books(fd, data);
    if (!b) {
        close(fd);
        return NULL;
    }
    b->fd = fd;
    b->head->magic = MAGIC;
    b->head->cells = (uint32_t)cells;
    b->head->bytes = bytes;
    b->head->pages = pages;
    b->head->data = data;
    b->head->last = LONG_AGO;
    if (getrandom(&b->head->nonce, sizeof b->head->nonce, 0) != (ssize_t)sizeof b->head->nonce ||
        !take_pages(fd, at, pages, data)) {
        free_books(b);
        return NULL;
    }
    dp_ipc_handle(b, handle);
    return b;
}

static bool read_handle(const cudaIpcMemHandle_t *handle, struct handle *h)
{
    memcpy(h, handle, sizeof *h);
    return h->magic == MAGIC && h->pages && h->pages < SIZE_MAX / 4 && h->data < SIZE_MAX / 4 && h->bytes <= h->pages &&
           h->data >= sizeof(struct head) && whole_pages(h->data) == h->data && whole_pages(h->pages) == h->pages;
}

/* The file that a handle means. -1: there is none, or we may not have it. */
static int open_file(const struct handle *h)
{
    char path[64];
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "/proc/%u/fd/%d", h->pid, h->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != h->data + h->pages)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

cudaError_t dp_ipc_look(const cudaIpcMemHandle_t *handle, size_t *bytes, size_t *pages)
{
    struct handle h;
    int fd;

    if (!read_handle(handle, &h))
        return cudaErrorInvalidValue;
    if (h.pid == (uint32_t)getpid())
        return cudaErrorInvalidContext; /* CUDA's own do not open what their process shows, either */
    fd = open_file(&h);
    if (fd < 0)
        return cudaErrorMapBufferObjectFailed;
    close(fd);
    *bytes = h.bytes;
    *pages = h.pages;
    return cudaSuccess;
}

static bool enter_opener(struct head *h)
{
    for (int i = 0; i < OPENERS; i++) {
        uint32_t nobody = 0;

        if (atomic_compare_exchange_strong(&h->openers[i], &nobody, (uint32_t)getpid()))
            return true;
    }
    return false;
}

static void leave_opener(struct head *h)
{
    for (int i = 0; i < OPENERS; i++) {
        uint32_t me = (uint32_t)getpid();

        if (atomic_compare_exchange_strong(&h->openers[i], &me, 0))
            return;
    }
}

struct dp_emu_books *dp_ipc_open(const cudaIpcMemHandle_t *handle, void *at, size_t pages)
{
    struct dp_emu_books *b;
    struct handle h;
    bool is_there;
    int fd;

    if (!read_handle(handle, &h) || h.pages != pages)
        return NULL;
    fd = open_file(&h);
    b = fd < 0 ? NULL : make_books(fd, h.data);
    is_there = b && b->head->magic == MAGIC && b->head->nonce == h.nonce && b->head->pages == pages &&
               b->head->bytes == h.bytes && sizeof(struct head) + b->head->cells * sizeof(struct cell) <= h.data &&
               take_pages(fd, at, pages, h.data);
    if (fd >= 0)
        close(fd);
    if (is_there && enter_opener(b->head))
        return b;
    if (is_there)
        mmap(at, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (b)
        free_books(b);
    return NULL;
}

bool dp_ipc_is_open(const struct dp_emu_books *b)
{
    for (int i = 0; i < OPENERS; i++) {
        uint32_t pid = b->head->openers[i];

        if (pid && kill((pid_t)pid, 0) == 0)
            return true;
    }
    return false;
}

static void drop_pending(const struct dp_emu_books *b)
{
    for (struct pending **link = &pending; *link;) {
        struct pending *p = *link;

        if (p->books != b) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        free(p);
    }
}

void dp_ipc_close(struct dp_emu_books *b, void *at, size_t pages)
{
    drop_pending(b);
    if (b->fd < 0)
        leave_opener(b->head);
    free_books(b);
    mmap(at, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* ---- books ---- */

void dp_ipc_was_written(struct dp_emu_books *b, size_t cell)
{
    b->head->cell[cell].written = LONG_AGO;
}

bool dp_ipc_is_written(const struct dp_emu_books *b, size_t cell)
{
    return b->head->cell[cell].written != 0;
}

/* The number of this process's work w, in the books of b. */
static uint32_t number_of(struct dp_emu_books *b, const struct dp_emu_work *w)
{
    struct seen *seen;
    struct pending *p;

    if (b->id && b->stream == w->stream && b->number == w->number)
        return b->id;
    b->id = atomic_fetch_add(&b->head->last, 1) + 1;
    b->stream = w->stream;
    b->number = w->number;
    seen = &b->head->seen[b->id % WORKS];
    seen->id = 0;
    seen->known_ns = 0;
    seen->pid = (uint32_t)getpid();
    seen->id = b->id;
    p = malloc(sizeof *p);
    if (p) {
        *p = (struct pending){.next = pending, .books = b, .id = b->id, .stream = w->stream, .number = w->number};
        pending = p;
    } else {
        seen->id = 0; /* less is seen */
    }
    return b->id;
}

/* Is the work `id` another process's, and not known to it to be done when w was asked for? */
static bool is_unordered(const struct head *h, uint32_t id, const struct dp_emu_work *w)
{
    const struct seen *seen = &h->seen[id % WORKS];
    uint64_t known_ns = seen->known_ns;

    if (id <= LONG_AGO || seen->id != id || seen->pid == (uint32_t)getpid())
        return false;
    return !known_ns || known_ns > w->asked_ns;
}

const char *dp_ipc_touch(struct dp_emu_books *b, size_t cell, bool writes, const struct dp_emu_work *w)
{
    struct cell *c = &b->head->cell[cell];
    const char *found = NULL;
    uint32_t id = number_of(b, w);

    if (is_unordered(b->head, c->written, w))
        found = "writes";
    else if (writes && is_unordered(b->head, c->read, w))
        found = "reads";
    if (writes)
        c->written = id;
    else
        c->read = id;
    return found;
}

void dp_ipc_learned(const struct dp_emu_clock *known)
{
    for (struct pending **link = &pending; *link;) {
        struct pending *p = *link;
        struct seen *seen = &p->books->head->seen[p->id % WORKS];

        if (known->at[p->stream] < p->number) {
            link = &p->next;
            continue;
        }
        if (seen->id == p->id)
            seen->known_ns = dp_now_ns();
        *link = p->next;
        free(p);
    }
}
