/* SPDX-License-Identifier: BSD-3-Clause */
/* A block's threads are fibers. Each runs until it has to wait for others: at a barrier of the block, or where threads
 * of its warp meet. In which order they run a seed decides; some seeds take the orders that are least like a card's,
 * the last thread first or warp after warp as far as it goes, because what works by luck fails there.
 *
 * A warp does not run in step: nothing holds its threads together but what the program says.
 */
#include "kernels/cuda/emu/block.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cuda/emu/check.h"
#include "kernels/cuda/emu/emu.h"
#include "kernels/cuda/emu/fiber.h"
#include "kernels/cuda/emu/warp.h"

#define WARP 32 /* threads */
#define STACK ((size_t)128 << 10) /* bytes of a thread's stack */
#define GUARD ((size_t)64 << 10)  /* bytes under it that nobody may touch, whatever the size of a page */

enum state { READY, AT_BARRIER, AT_MEETING, ENDED };
enum order { SHUFFLED, FORWARD, BACKWARD, WARP_BY_WARP, N_ORDERS };

/* cp.async */
struct copy {
    void *to;
    const void *from;
    int bytes, group;
    bool there;
};

struct thread {
    struct dp_emu_thread seen; /* first: what checks see of it */
    struct dp_fiber fiber;
    enum state state;
    int line; /* where it waits */
    struct { unsigned x, y, z; } at;
    int group; /* of copies, that is being filled */
    struct copy *copies;
    size_t n_copies, max_copies;
};

/* Arrays of the block, by the place of their declaration. */
struct declared {
    const void *site;
    void *array;
};

#define DECLARED 32 /* of a kernel */

static struct {
    const struct dp_emu_launch *launch;
    struct { unsigned x, y, z; } block;
    struct thread threads[DP_EMU_BLOCK_THREADS];
    unsigned n_threads;
    struct dp_warp warps[DP_EMU_BLOCK_THREADS / WARP];
    struct dp_fiber scheduler;
    char *stacks;
    bool failed;
    void *dynamic;
    struct declared declared[DECLARED];
    int n_declared;
    size_t declared_bytes;
    unsigned order[DP_EMU_BLOCK_THREADS];
} run;

static struct thread *now(void)
{
    return (struct thread *)(void *)dp_emu_now;
}

/* ---- what a thread asks for ---- */

struct index {
    unsigned x, y, z;
};
struct index dp_emu_thread_index(void);
struct index dp_emu_block_index(void);
struct index dp_emu_block_size(void);
struct index dp_emu_grid_size(void);
unsigned dp_emu_warp_thread(void);
void dp_emu_barrier(int line);
void *dp_emu_shared(const void *site, const char *name, size_t bytes);
void *dp_emu_shared_dynamic(void);
void dp_emu_copy_async(void *shared, const void *global, int bytes, bool there);
void dp_emu_copies_commit(void);
void dp_emu_copies_wait(int pending);
void dp_emu_atomic(void *p, size_t bytes);
void dp_emu_trap(void);

struct index dp_emu_thread_index(void)
{
    return (struct index){now()->at.x, now()->at.y, now()->at.z};
}

struct index dp_emu_block_index(void)
{
    return (struct index){run.block.x, run.block.y, run.block.z};
}

struct index dp_emu_block_size(void)
{
    return (struct index){run.launch->block.x, run.launch->block.y, run.launch->block.z};
}

struct index dp_emu_grid_size(void)
{
    return (struct index){run.launch->grid.x, run.launch->grid.y, run.launch->grid.z};
}

unsigned dp_emu_warp_thread(void)
{
    return dp_emu_now->linear % WARP;
}

/* To the scheduler, and back when it is the thread's turn again. */
static void wait_in(enum state state, int line)
{
    struct thread *me = now();

    me->state = state;
    me->line = line;
    dp_emu_now = NULL;
    dp_fiber_switch(&me->fiber, &run.scheduler);
    dp_emu_now = &me->seen;
}

void dp_emu_barrier(int line)
{
    wait_in(AT_BARRIER, line);
}

void dp_emu_abandon(void)
{
    struct dp_fiber dead;

    run.failed = true;
    dp_fiber_switch(&dead, &run.scheduler);
    __builtin_unreachable(); /* nobody switches back */
}

void dp_emu_where(char *text, size_t cap)
{
    if (!run.launch)
        snprintf(text, cap, "copy");
    else
        snprintf(text, cap, "kernel %s, block (%u, %u, %u)", run.launch->name, run.block.x, run.block.y, run.block.z);
}

void *dp_emu_shared(const void *site, const char *name, size_t bytes)
{
    void *array;

    for (int i = 0; i < run.n_declared; i++)
        if (run.declared[i].site == site)
            return run.declared[i].array;
    run.declared_bytes += bytes;
    if (run.declared_bytes > DP_EMU_UNASKED)
        dp_emu_found("%zu bytes of DP_SHARED, at most %zu are there", run.declared_bytes, DP_EMU_UNASKED);
    array = run.n_declared < DECLARED ? dp_check_shared(name, bytes) : NULL;
    if (!array)
        dp_emu_found("more DP_SHARED than the emulator can keep");
    run.declared[run.n_declared++] = (struct declared){.site = site, .array = array};
    return array;
}

void *dp_emu_shared_dynamic(void)
{
    if (!run.dynamic)
        dp_emu_found("DP_SHARED_DYNAMIC, but the launch has no bytes for it");
    return run.dynamic;
}

void dp_emu_atomic(void *p, size_t bytes)
{
    dp_check_access(p, bytes, DP_ACCESS_ATOMIC);
}

void dp_emu_trap(void)
{
    dp_emu_found("thread %u: __trap()", dp_emu_now->linear);
}

/* ---- asynchronous copies ---- */

void dp_emu_copy_async(void *shared, const void *global, int bytes, bool there)
{
    struct thread *me = now();

    if ((uintptr_t)shared % (unsigned)bytes || (uintptr_t)global % (unsigned)bytes)
        dp_emu_found("thread %u copies %d bytes asynchronously from or to an address that is no multiple of that",
                     me->seen.linear, bytes);
    if (there)
        dp_check_access(global, (size_t)bytes, DP_ACCESS_READ);
    dp_check_copy_begins(shared, (size_t)bytes);
    if (me->n_copies == me->max_copies) {
        size_t n = me->max_copies ? 2 * me->max_copies : 16;
        struct copy *copies = realloc(me->copies, n * sizeof *copies);

        if (!copies) {
            dp_emu_found("the emulator is out of memory");
            return;
        }
        me->copies = copies;
        me->max_copies = n;
    }
    me->copies[me->n_copies++] =
        (struct copy){.to = shared, .from = global, .bytes = bytes, .group = me->group, .there = there};
}

void dp_emu_copies_commit(void)
{
    now()->group++;
}

/* As late as it may be: those of groups before `group`. */
static void arrive(struct thread *me, int group)
{
    size_t left = 0;

    for (size_t i = 0; i < me->n_copies; i++) {
        struct copy c = me->copies[i];

        if (c.group >= group) {
            me->copies[left++] = c;
            continue;
        }
        if (c.there)
            memcpy(c.to, c.from, (size_t)c.bytes);
        else
            memset(c.to, 0, (size_t)c.bytes);
        dp_check_copy_arrives(c.to, (size_t)c.bytes);
    }
    me->n_copies = left;
}

void dp_emu_copies_wait(int pending)
{
    arrive(now(), now()->group - pending);
}

/* ---- warps ---- */

struct dp_warp *dp_warp_now(void)
{
    return &run.warps[dp_emu_now->warp];
}

void dp_warp_wait(int line)
{
    wait_in(AT_MEETING, line);
}

void dp_warp_go_on(unsigned mask)
{
    for (unsigned i = 0; i < WARP; i++) {
        unsigned linear = dp_emu_now->warp * WARP + i;

        if (mask >> i & 1 && linear < run.n_threads && run.threads[linear].state == AT_MEETING)
            run.threads[linear].state = READY;
    }
}

void dp_warp_synced(void)
{
    for (unsigned i = 0; i < WARP && dp_emu_now->warp * WARP + i < run.n_threads; i++)
        run.threads[dp_emu_now->warp * WARP + i].seen.warp_syncs++;
}

/* ---- the scheduler ---- */

static void entry(void)
{
    struct thread *me = now();

    run.launch->call(run.launch->kernel, run.launch->args);
    arrive(me, me->group + 1);
    wait_in(ENDED, 0); /* for ever */
}

static void begin_thread(unsigned i)
{
    struct thread *t = &run.threads[i];
    const dim3 block = run.launch->block;
    char *stack = run.stacks + i * (GUARD + STACK) + GUARD;

    t->seen = (struct dp_emu_thread){.linear = i, .warp = i / WARP, .stack = stack, .stack_bytes = STACK};
    t->state = READY;
    t->at.x = i % block.x;
    t->at.y = i / block.x % block.y;
    t->at.z = i / block.x / block.y;
    t->group = 0;
    t->n_copies = 0;
    dp_fiber_make(&t->fiber, stack, STACK, entry);
}

static void resume(struct thread *t)
{
    dp_emu_now = &t->seen;
    dp_fiber_switch(&run.scheduler, &t->fiber);
    dp_emu_now = NULL;
}

/* The threads that may run, in run.order. */
static unsigned list_ready(enum order order, uint64_t *random)
{
    unsigned n = 0;

    for (unsigned i = 0; i < run.n_threads; i++)
        if (run.threads[i].state == READY)
            run.order[n++] = i;
    if (order == BACKWARD)
        for (unsigned i = 0; i < n / 2; i++) {
            unsigned other = run.order[n - 1 - i];

            run.order[n - 1 - i] = run.order[i];
            run.order[i] = other;
        }
    if (order == SHUFFLED)
        for (unsigned i = n; i > 1; i--) {
            unsigned k = (unsigned)(dp_emu_random(random) % i), other = run.order[k];

            run.order[k] = run.order[i - 1];
            run.order[i - 1] = other;
        }
    if (order == WARP_BY_WARP && n) {
        unsigned warp = run.order[dp_emu_random(random) % n] / WARP, kept = 0;

        for (unsigned i = 0; i < n; i++)
            if (run.order[i] / WARP == warp)
                run.order[kept++] = run.order[i];
        n = kept;
    }
    return n;
}

/* Nobody can run: all wait at a barrier, or something is wrong. */
static void end_stretch(void)
{
    unsigned waiting = 0, ended = 0;
    int line = 0;

    for (unsigned i = 0; i < run.n_threads && !run.failed; i++) {
        const struct thread *t = &run.threads[i];

        if (t->state == AT_MEETING) {
            run.failed = true;
            dp_emu_found("thread %u waits in line %d for threads of its warp that do not come", i, t->line);
        } else if (t->state == ENDED) {
            ended++;
        } else if (waiting++ && t->line != line) {
            run.failed = true;
            dp_emu_found("threads of the block wait at different barriers, in lines %d and %d", line, t->line);
        } else {
            line = t->line;
        }
    }
    if (!run.failed && ended) {
        run.failed = true;
        dp_emu_found("%u of %u threads wait at the barrier in line %d, the others have ended", waiting, run.n_threads,
                     line);
    }
    for (unsigned i = 0; i < run.n_threads; i++) {
        run.threads[i].state = READY;
        run.threads[i].seen.warp_syncs = 0;
    }
    dp_check_stretch();
}

static bool all_ended(void)
{
    for (unsigned i = 0; i < run.n_threads; i++)
        if (run.threads[i].state != ENDED)
            return false;
    return true;
}

static void run_block(enum order order, uint64_t *random)
{
    dp_check_block();
    run.n_declared = 0;
    run.declared_bytes = 0;
    run.dynamic = run.launch->shared ? dp_check_shared("DP_SHARED_DYNAMIC", run.launch->shared) : NULL;
    memset(run.warps, 0, sizeof run.warps);
    for (unsigned i = 0; i < run.n_threads; i++)
        begin_thread(i);
    while (!run.failed) {
        unsigned n = list_ready(order, random);

        for (unsigned i = 0; i < n && !run.failed; i++)
            if (run.threads[run.order[i]].state == READY)
                resume(&run.threads[run.order[i]]);
        if (n || run.failed)
            continue;
        if (all_ended())
            return;
        end_stretch();
    }
}

static int make_stacks(void)
{
    size_t bytes = DP_EMU_BLOCK_THREADS * (GUARD + STACK);
    char *p;

    if (run.stacks)
        return 0;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -1;
    for (unsigned i = 0; i < DP_EMU_BLOCK_THREADS; i++)
        mprotect(p + i * (GUARD + STACK), GUARD, PROT_NONE);
    run.stacks = p;
    return 0;
}

void dp_emu_end_blocks(void)
{
    if (run.stacks)
        munmap(run.stacks, DP_EMU_BLOCK_THREADS * (GUARD + STACK));
    run.stacks = NULL;
    for (unsigned i = 0; i < DP_EMU_BLOCK_THREADS; i++) {
        free(run.threads[i].copies);
        run.threads[i].copies = NULL;
        run.threads[i].max_copies = 0;
    }
}

int dp_emu_run(const struct dp_emu_launch *launch, uint64_t *random)
{
    const dim3 g = launch->grid;
    const uint64_t blocks = (uint64_t)g.x * g.y * g.z;
    const enum order order = (enum order)(dp_emu_random(random) % N_ORDERS);
    /* block i of the order is block (i * step + first) % blocks: step shares no factor with their number */
    uint64_t step = 1, first = dp_emu_random(random) % blocks;

    run.launch = launch;
    run.n_threads = launch->block.x * launch->block.y * launch->block.z;
    run.failed = false;
    if (make_stacks() < 0) {
        dp_emu_found("the emulator is out of memory");
        run.failed = true;
    }
    if (order == SHUFFLED || order == WARP_BY_WARP)
        for (step = dp_emu_random(random) % blocks + 1;; step++) {
            uint64_t a = step, b = blocks;

            while (b) {
                uint64_t rest = a % b;

                a = b;
                b = rest;
            }
            if (a == 1)
                break;
        }
    for (uint64_t i = 0; i < blocks && !run.failed; i++) {
        uint64_t place = order == BACKWARD ? blocks - 1 - i : order == FORWARD ? i : (i * step + first) % blocks;

        run.block.x = (unsigned)(place % g.x);
        run.block.y = (unsigned)(place / g.x % g.y);
        run.block.z = (unsigned)(place / g.x / g.y);
        run_block(order, random);
    }
    run.launch = NULL;
    return run.failed ? -1 : 0;
}
