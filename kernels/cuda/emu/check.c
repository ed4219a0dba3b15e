/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker: arrays, cells and findings (check.h). */
#include "config.h" /* GNU's dl_iterate_phdr */

#include "kernels/cuda/emu/check.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cuda/emu/emu.h"

#define GRAIN 2                          /* bytes that share a cell: the smallest elements that kernels have */
#define POISON 0xff                      /* NaN in every format, -1 in integers */
#define LARGE_PAGE ((size_t)2 << 20) /* bytes; of x86 and most others */
#define SHARED_BYTES ((size_t)512 << 10) /* of addresses: what a block may have, and room between its arrays */
#define SHARED_GAP 256                   /* bytes between two arrays of a block: walking over an end is seen */
#define SHARED_ARRAYS 32                 /* of a block */
#define CONSTANTS 8                      /* parts of a shared object */
#define LAST_STAMP 0xc0000000u           /* that a launch may begin with: the rest is more than one takes */

/* In w_thread and r_thread, beside the thread's number. */
#define THREAD 0x0fffu
#define ATOMIC 0x8000u  /* written by an atomic operation */
#define COPYING 0x4000u /* an asynchronous copy is on its way here */
#define MANY 0x8000u    /* read by several threads in that stretch, ... */
#define WARPS 0x4000u   /* ... of several warps */

struct cell {
    uint32_t written, read; /* stamps; written 0: never */
    uint16_t w_thread, r_thread, w_syncs, r_syncs;
};

struct array {
    char *at; /* NULL: a free place of the table */
    size_t bytes, pages;
    const char *name; /* of shared memory */
    struct dp_emu_books *books; /* of device memory that other processes have, too */
    bool is_opened; /* it is another process's */
};

/* A launch or a copy. */
struct work {
    uint32_t first; /* stamp */
    int stream;
    uint64_t number;
    const char *name;
};

/* A part of the plugin that cannot be written: its constants. */
struct constants {
    uintptr_t at;
    size_t bytes;
};

static struct {
    size_t page, n_pages, top; /* top: behind the last page that was ever used */
    char *device;
    struct cell *cells;
    uint32_t *array_of; /* of a page: place in arrays + 1 */
    struct array *arrays;
    size_t n_arrays, used_pages, opened_pages; /* opened: of other processes */

    char *shared;
    struct cell *shared_cells;
    struct array of_block[SHARED_ARRAYS];
    int n_of_block;
    size_t shared_used;

    struct constants constants[CONSTANTS];
    int n_constants;

    bool on;
    uint32_t stamp, block_first, work_first;
    uint32_t safe; /* what has a stamp up to this comes before the work that runs */
    struct dp_emu_clock before;
    struct dp_emu_work work; /* that runs */
    struct work *works; /* those that something to come may not be ordered behind */
    size_t n_works, max_works;

    char finding[640];
    long findings;
} check = {.stamp = 1, .block_first = 1, .work_first = 1};

_Thread_local struct dp_emu_thread *dp_emu_now __attribute__((tls_model("initial-exec")));

/* ---- findings ---- */

void dp_emu_found(const char *fmt, ...)
{
    struct dp_emu_thread *thread = dp_emu_now;
    char what[400], where[200];
    va_list args;

    dp_emu_now = NULL; /* nobody looks at what the emulator itself does */
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    dp_emu_where(where, sizeof where);
    if (check.findings++ == 0)
        snprintf(check.finding, sizeof check.finding, "%s: %s", where, what);
    if (thread)
        dp_emu_abandon();
}

const char *dp_emu_finding(void)
{
    return check.finding;
}

long dp_emu_findings(void)
{
    return check.findings;
}

void dp_emu_forget_findings(void)
{
    check.findings = 0;
    check.finding[0] = 0;
}

void dp_check_enable(bool on)
{
    check.on = on;
}

/* ---- arrays of device memory ---- */

/* Whole large pages, where the system has them: opening and closing all of the device around each call is then quick. */
static size_t in_large(size_t bytes)
{
    return (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

static void *reserve(size_t bytes)
{
    const size_t whole = in_large(bytes);
    char *p = mmap(NULL, whole + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (p == MAP_FAILED)
        return NULL;
    before = in_large((uintptr_t)p) - (uintptr_t)p;
    if (before)
        munmap(p, before);
    if (before < LARGE_PAGE)
        munmap(p + before + whole, LARGE_PAGE - before);
    madvise(p + before, whole, MADV_HUGEPAGE);
    return p + before;
}

/* Of the program or shared object that this function lies in. */
static int find_constants(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    bool is_ours = false;

    (void)bytes, (void)unused;
    check.n_constants = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD)
            continue;
        is_ours = is_ours || (uintptr_t)&find_constants - at < part->p_memsz;
        if (!(part->p_flags & PF_W) && check.n_constants < CONSTANTS)
            check.constants[check.n_constants++] = (struct constants){.at = at, .bytes = part->p_memsz};
    }
    return is_ours;
}

int dp_check_begin(size_t bytes)
{
    dl_iterate_phdr(find_constants, NULL);
    check.page = (size_t)sysconf(_SC_PAGESIZE);
    check.n_pages = (bytes + check.page - 1) / check.page;
    bytes = check.n_pages * check.page;
    check.device = reserve(bytes);
    check.cells = reserve(bytes / GRAIN * sizeof *check.cells);
    check.array_of = calloc(check.n_pages, sizeof *check.array_of);
    check.arrays = calloc(check.n_pages, sizeof *check.arrays);
    check.shared = reserve(SHARED_BYTES);
    check.shared_cells = reserve(SHARED_BYTES / GRAIN * sizeof *check.shared_cells);
    if (check.device && check.cells && check.array_of && check.arrays && check.shared && check.shared_cells)
        return 0;
    dp_check_end();
    return -1;
}

static void unreserve(void *p, size_t bytes)
{
    if (p)
        munmap(p, in_large(bytes));
}

void dp_check_end(void)
{
    size_t bytes = check.n_pages * check.page;

    for (size_t i = 0; check.arrays && i < check.n_pages; i++)
        if (check.arrays[i].at && check.arrays[i].books)
            dp_ipc_close(check.arrays[i].books, check.arrays[i].at, check.arrays[i].pages * check.page);
    unreserve(check.device, bytes);
    unreserve(check.cells, bytes / GRAIN * sizeof *check.cells);
    unreserve(check.shared, SHARED_BYTES);
    unreserve(check.shared_cells, SHARED_BYTES / GRAIN * sizeof *check.shared_cells);
    free(check.array_of);
    free(check.arrays);
    free(check.works);
    check.device = check.shared = NULL;
    check.cells = check.shared_cells = NULL;
    check.array_of = NULL;
    check.arrays = NULL;
    check.works = NULL;
    check.n_pages = check.top = check.n_arrays = check.used_pages = check.opened_pages = check.n_works = check.max_works = 0;
}

static size_t page_of(const void *p)
{
    return (size_t)((const char *)p - check.device) / check.page;
}

/* The first run of free pages that is long enough. */
static size_t find_pages(size_t pages)
{
    size_t run = 0;

    for (size_t i = 0; i < check.n_pages; i++) {
        run = check.array_of[i] ? 0 : run + 1;
        if (run == pages)
            return i + 1 - pages;
    }
    return SIZE_MAX;
}

/* An array in free pages, nothing written; NULL when there are not so many. */
static struct array *new_array(size_t bytes, size_t pages)
{
    size_t first = find_pages(pages), place = 0;

    if (first == SIZE_MAX)
        return NULL;
    while (check.arrays[place].at)
        place++;
    check.arrays[place] = (struct array){.at = check.device + first * check.page, .bytes = bytes, .pages = pages};
    for (size_t i = first; i < first + pages; i++)
        check.array_of[i] = (uint32_t)place + 1;
    check.used_pages += pages;
    check.top = check.top < first + pages ? first + pages : check.top;
    memset(check.cells + first * check.page / GRAIN, 0, pages * check.page / GRAIN * sizeof *check.cells);
    return &check.arrays[place];
}

void *dp_check_alloc(size_t bytes)
{
    struct array *a = NULL;

    if (bytes <= check.n_pages * check.page) /* a page behind it belongs to it and stays unused */
        a = new_array(bytes, (bytes + check.page - 1) / check.page + 1);
    if (!a)
        return NULL;
    memset(a->at, POISON, a->pages * check.page);
    return a->at;
}

bool dp_check_is_device(const void *p)
{
    return (uintptr_t)p - (uintptr_t)check.device < check.n_pages * check.page;
}

static struct array *array_at(const void *p)
{
    uint32_t place = check.array_of[page_of(p)];

    return place ? &check.arrays[place - 1] : NULL;
}

bool dp_check_is_array(const void *p)
{
    const struct array *a = dp_check_is_device(p) ? array_at(p) : NULL;

    return a && a->at == p;
}

size_t dp_check_room(const void *p)
{
    const struct array *a = array_at(p);
    size_t before = a ? (size_t)((const char *)p - a->at) : 0;

    return a && before < a->bytes ? a->bytes - before : 0;
}

static void drop_array(struct array *a)
{
    size_t first = page_of(a->at);

    if (a->books)
        dp_ipc_close(a->books, a->at, a->pages * check.page);
    for (size_t i = first; i < first + a->pages; i++)
        check.array_of[i] = 0;
    check.used_pages -= a->pages;
    check.opened_pages -= a->is_opened ? a->pages : 0;
    a->at = NULL;
}

void dp_check_free(void *p)
{
    struct array *a = array_at(p);

    if (a->books && dp_ipc_is_open(a->books))
        dp_emu_found("an array of %zu bytes is freed that another process has open", a->bytes);
    drop_array(a);
}

/* ---- arrays of two processes ---- */

static size_t cell_of(const void *p)
{
    return (size_t)((const char *)p - check.device) / GRAIN;
}

cudaError_t dp_check_show(void *p, cudaIpcMemHandle_t *handle)
{
    struct array *a = dp_check_is_array(p) ? array_at(p) : NULL;

    if (!a || a->is_opened)
        return cudaErrorInvalidValue;
    if (a->books) {
        dp_ipc_handle(a->books, handle);
        return cudaSuccess;
    }
    a->books = dp_ipc_show(a->at, a->bytes, a->pages * check.page, GRAIN, handle);
    if (!a->books)
        return cudaErrorNotSupported;
    for (size_t i = 0; i < (a->bytes + GRAIN - 1) / GRAIN; i++)
        if (check.cells[cell_of(a->at) + i].written)
            dp_ipc_was_written(a->books, i);
    return cudaSuccess;
}

cudaError_t dp_check_open_shown(const cudaIpcMemHandle_t *handle, void **p)
{
    size_t bytes, pages;
    cudaError_t rc = dp_ipc_look(handle, &bytes, &pages);
    struct array *a;

    if (rc != cudaSuccess)
        return rc;
    a = pages % check.page || pages / check.page > check.n_pages ? NULL : new_array(bytes, pages / check.page);
    if (!a)
        return cudaErrorMapBufferObjectFailed;
    a->is_opened = true;
    check.opened_pages += a->pages;
    a->books = dp_ipc_open(handle, a->at, pages);
    *p = a->at;
    if (a->books)
        return cudaSuccess;
    drop_array(a);
    return cudaErrorMapBufferObjectFailed;
}

bool dp_check_is_opened(const void *p)
{
    return dp_check_is_array(p) && array_at(p)->is_opened;
}

cudaError_t dp_check_close_shown(void *p)
{
    if (!dp_check_is_opened(p))
        return cudaErrorInvalidValue;
    drop_array(array_at(p));
    return cudaSuccess;
}

size_t dp_check_used(void)
{
    return (check.used_pages - check.opened_pages) * check.page;
}

size_t dp_check_total(void)
{
    return check.n_pages * check.page;
}

void dp_check_open(bool open)
{
    if (check.top)
        mprotect(check.device, in_large(check.top * check.page), open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* ---- time ---- */

/* No stamps are left: what was written long ago stays written, and all comes before what follows. */
static void begin_time_again(void)
{
    for (size_t i = 0; i < check.top * check.page / GRAIN; i++) {
        check.cells[i].written = check.cells[i].written != 0;
        check.cells[i].read = 0;
    }
    memset(check.shared_cells, 0, SHARED_BYTES / GRAIN * sizeof *check.shared_cells);
    check.n_works = 0;
    check.stamp = 1;
}

static bool comes_before(const struct work *w)
{
    return check.before.at[w->stream] >= w->number;
}

void dp_check_work(const char *name, const struct dp_emu_work *work, const struct dp_emu_clock *before)
{
    if (check.stamp > LAST_STAMP)
        begin_time_again();
    check.before = *before;
    check.work = *work;
    check.work_first = check.block_first = ++check.stamp;
    check.safe = check.stamp - 1;
    for (size_t i = 0; i < check.n_works; i++)
        if (!comes_before(&check.works[i])) {
            check.safe = check.works[i].first - 1;
            break;
        }
    if (check.n_works == check.max_works) {
        size_t n = check.max_works ? 2 * check.max_works : 256;
        struct work *works = realloc(check.works, n * sizeof *works);

        if (!works) {
            check.n_works = 0; /* less is seen */
            return;
        }
        check.works = works;
        check.max_works = n;
    }
    check.works[check.n_works++] =
        (struct work){.first = check.work_first, .stream = work->stream, .number = work->number, .name = name};
}

void dp_check_block(void)
{
    check.block_first = ++check.stamp;
    check.n_of_block = 0;
    check.shared_used = 0;
}

void dp_check_stretch(void)
{
    check.stamp++;
}

void dp_check_forget(const struct dp_emu_clock *known)
{
    size_t n = 0;

    while (n < check.n_works && known->at[check.works[n].stream] >= check.works[n].number)
        n++;
    check.n_works -= n;
    memmove(check.works, check.works + n, check.n_works * sizeof *check.works);
}

/* The work in which a stamp was taken; NULL: one that all is ordered behind. */
static const struct work *work_of(uint32_t stamp)
{
    size_t low = 0, high = check.n_works;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (check.works[middle].first <= stamp)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &check.works[low - 1] : NULL;
}

/* ---- shared memory ---- */

void *dp_check_shared(const char *name, size_t bytes)
{
    size_t room = (bytes + SHARED_GAP - 1) / SHARED_GAP * SHARED_GAP + SHARED_GAP;
    char *at = check.shared + check.shared_used;

    if (check.n_of_block == SHARED_ARRAYS || check.shared_used + room > SHARED_BYTES)
        return NULL;
    memset(at, POISON, room);
    check.shared_used += room;
    check.of_block[check.n_of_block++] = (struct array){.at = at, .bytes = bytes, .name = name};
    return at;
}

/* ---- accesses ---- */

static const char *verb(enum dp_access access)
{
    return access == DP_ACCESS_READ ? "reads" : access == DP_ACCESS_WRITE ? "writes" : "atomically changes";
}

/* ", byte 16 of the array of 100 bytes" */
static const char *place(const struct array *a, const void *p)
{
    static char text[160];

    if (a->name)
        snprintf(text, sizeof text, "byte %td of %s, %zu bytes of shared memory", (const char *)p - a->at, a->name,
                 a->bytes);
    else
        snprintf(text, sizeof text, "byte %td of an array of %zu bytes", (const char *)p - a->at, a->bytes);
    return text;
}

/* What other processes know of it, and do to it. */
static void tell_others(const struct array *a, const struct cell *c, const void *p, enum dp_access access)
{
    const char *did = dp_ipc_touch(a->books, (size_t)(c - check.cells) - cell_of(a->at), access != DP_ACCESS_READ, &check.work);

    if (did)
        dp_emu_found("%s what another process %s, and nothing orders the two: %s", verb(access), did, place(a, p));
}

static bool is_written(const struct array *a, const struct cell *c)
{
    return c->written || (a->books && dp_ipc_is_written(a->books, (size_t)(c - check.cells) - cell_of(a->at)));
}

/* A thread reads or writes what another work wrote or read. */
static void unordered(uint32_t stamp, enum dp_access access, const char *did, const struct array *a, const void *p)
{
    const struct work *w = stamp > check.safe ? work_of(stamp) : NULL;

    if (w && !comes_before(w))
        dp_emu_found("%s what %s %s, and nothing orders the two: %s", verb(access), w->name, did, place(a, p));
}

static bool same_warp_synced(unsigned other, uint16_t syncs, const struct dp_emu_thread *me)
{
    return (other & THREAD) / 32 == me->warp && syncs != me->warp_syncs;
}

/* Findings do not come back. is_shared: what was written before this block is not there any more. */
static void look_at(struct cell *c, const struct array *a, const void *p, enum dp_access access)
{
    const struct dp_emu_thread *me = dp_emu_now;
    const bool is_shared = a->name != NULL, writes = access != DP_ACCESS_READ;
    const bool there = is_shared ? c->written >= check.block_first : is_written(a, c);

    if (c->w_thread & COPYING && (c->written >= check.block_first || !is_shared))
        dp_emu_found("%s where an asynchronous copy is on its way: %s", verb(access), place(a, p));
    if (access != DP_ACCESS_WRITE && !there)
        dp_emu_found("%s what nobody has written: %s", verb(access), place(a, p));
    if (there && c->written > check.safe) {
        if (c->written < check.work_first)
            unordered(c->written, access, "writes", a, p);
        else if (access != DP_ACCESS_ATOMIC || !(c->w_thread & ATOMIC)) {
            if (c->written < check.block_first)
                dp_emu_found("race: %s what another block of the launch writes: %s", verb(access), place(a, p));
            if (c->written == check.stamp && (c->w_thread & THREAD) != me->linear &&
                !same_warp_synced(c->w_thread, c->w_syncs, me))
                dp_emu_found("race: %s what thread %u writes, without a barrier between: %s", verb(access),
                             c->w_thread & THREAD, place(a, p));
        }
    }
    if (writes && c->read > check.safe && (!is_shared || c->read >= check.block_first)) {
        if (c->read < check.work_first)
            unordered(c->read, access, "reads", a, p);
        else if (c->read < check.block_first)
            dp_emu_found("race: %s what another block of the launch reads: %s", verb(access), place(a, p));
        else if (c->read == check.stamp && ((c->r_thread & THREAD) != me->linear || c->r_thread & MANY) &&
                 (c->r_thread & WARPS || !same_warp_synced(c->r_thread, c->r_syncs, me)))
            dp_emu_found("race: %s what thread %u reads, without a barrier between: %s", verb(access),
                         c->r_thread & THREAD, place(a, p));
    }
}

static void note(struct cell *c, enum dp_access access)
{
    const struct dp_emu_thread *me = dp_emu_now;
    unsigned flags = 0;

    if (access != DP_ACCESS_READ) {
        c->written = check.stamp;
        c->w_thread = (uint16_t)(me->linear | (access == DP_ACCESS_ATOMIC ? ATOMIC : 0));
        c->w_syncs = me->warp_syncs;
        return;
    }
    if (c->read == check.stamp) {
        flags = c->r_thread & (MANY | WARPS);
        if ((c->r_thread & THREAD) != me->linear)
            flags |= MANY;
        if ((c->r_thread & THREAD) / 32 != me->warp)
            flags |= WARPS;
    }
    c->read = check.stamp;
    c->r_thread = (uint16_t)(me->linear | flags);
    c->r_syncs = me->warp_syncs;
}

/* The array of a device or shared address, and its first cell; finds out that p is beside it. NULL: neither. */
static const struct array *find(const void *p, size_t bytes, enum dp_access access, struct cell **cells)
{
    const struct array *a = NULL;

    if (dp_check_is_device(p)) {
        *cells = check.cells + (size_t)((const char *)p - check.device) / GRAIN;
        a = array_at(p);
        if (!a) {
            dp_emu_found("%s %zu bytes of device memory that belong to no array", verb(access), bytes);
            return NULL;
        }
    } else if ((uintptr_t)p - (uintptr_t)check.shared < SHARED_BYTES) {
        *cells = check.shared_cells + (size_t)((const char *)p - check.shared) / GRAIN;
        for (int i = 0; i < check.n_of_block && check.of_block[i].at <= (const char *)p; i++)
            a = &check.of_block[i];
        if (!a) {
            dp_emu_found("%s shared memory that the block does not have", verb(access));
            return NULL;
        }
    } else {
        return NULL;
    }
    if ((size_t)((const char *)p - a->at) + bytes > a->bytes) {
        dp_emu_found("%s %zu bytes beside its array: %s", verb(access), bytes, place(a, p));
        return NULL;
    }
    return a;
}

/* Neither device nor shared memory: the thread's own stack and the plugin's constants are fine. */
static void elsewhere(const void *p, enum dp_access access)
{
    const struct dp_emu_thread *me = dp_emu_now;

    if ((uintptr_t)p - (uintptr_t)me->stack < me->stack_bytes)
        return;
    for (int i = 0; i < check.n_constants && access == DP_ACCESS_READ; i++)
        if ((uintptr_t)p - check.constants[i].at < check.constants[i].bytes)
            return;
    dp_emu_found("%s memory that is not the device's (%p)", verb(access), p);
}

void dp_check_access(const void *p, size_t bytes, enum dp_access access)
{
    const struct array *a;
    struct cell *c;

    if (!dp_emu_now || !check.on || !bytes)
        return;
    a = find(p, bytes, access, &c);
    if (!a) {
        elsewhere(p, access);
        return;
    }
    for (const struct cell *end = c + ((uintptr_t)p % GRAIN + bytes + GRAIN - 1) / GRAIN; c < end; c++) {
        look_at(c, a, p, access);
        note(c, access);
        if (a->books)
            tell_others(a, c, p, access);
    }
}

void dp_check_copy_begins(void *p, size_t bytes)
{
    struct cell *c;
    const struct array *a;

    dp_check_access(p, bytes, DP_ACCESS_WRITE);
    memset(p, POISON, bytes);
    a = dp_emu_now && check.on ? find(p, bytes, DP_ACCESS_WRITE, &c) : NULL;
    for (size_t i = 0; a && i < bytes / GRAIN; i++)
        c[i].w_thread |= COPYING;
}

void dp_check_copy_arrives(void *p, size_t bytes)
{
    struct cell *c;
    const struct array *a = dp_emu_now && check.on ? find(p, bytes, DP_ACCESS_WRITE, &c) : NULL;

    for (size_t i = 0; a && i < bytes / GRAIN; i++) {
        c[i].w_thread &= (uint16_t)~COPYING;
        note(&c[i], DP_ACCESS_WRITE);
    }
}

int dp_check_copy(const void *p, size_t bytes, enum dp_access access)
{
    struct dp_emu_thread copy = {.linear = THREAD}; /* no other thread has its number */
    long before = check.findings;
    const struct array *a;
    struct cell *c;

    a = find(p, bytes, access, &c);
    for (size_t i = 0; a && check.on && i < (bytes + GRAIN - 1) / GRAIN && check.findings == before; i++) {
        dp_emu_now = NULL;
        if (access == DP_ACCESS_READ && !is_written(a, &c[i]))
            dp_emu_found("%s what nobody has written: %s", verb(access), place(a, p));
        if (c[i].written > check.safe && c[i].written < check.work_first)
            unordered(c[i].written, access, "writes", a, p);
        if (access == DP_ACCESS_WRITE && c[i].read > check.safe && c[i].read < check.work_first)
            unordered(c[i].read, access, "reads", a, p);
        if (a->books)
            tell_others(a, &c[i], p, access);
        dp_emu_now = &copy;
        note(&c[i], access);
    }
    dp_emu_now = NULL;
    return check.findings == before ? 0 : -1;
}
