/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole runs in which a worker is slow, stopped, or without memory while layers are copied to it or from it for a hand-over, also where
 * they are pruned meanwhile: the others wait for who is slow or stopped, hand over without copying or not at all where memory is missing,
 * and losses are those of a worker alone. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/failing_device.h"
#include "tests/unit/worker/run_world.h"
#include "worker/handover/transfer.h"
#include "worker/shadow/shadowing_internal.h"

#define N 3
#define DESTINATION 1u
#define TURN_US 3000      /* for which a slow worker is stopped, and goes on */
#define STOPPED_US 300000 /* some hundred steps; nothing depends on it */

static const uint32_t here[WORLD_SEATS + 1] = {0, 2, 4, 6, 6, 6, 6, 6, 6}, there[WORLD_SEATS + 1] = {0, 1, 5, 6, 6, 6, 6, 6, 6};
static const char *const options[] = {"handover.background=always", "handover.copies=1"};
static const struct world_run slow = {.name = "slow", .n_seats = N, .n_there = N, .options = options, .n_options = 2};
static const char *const pruning[] = {"handover.background=always", "handover.copies=1", "handover.max_rate=0.05", "prune.begin=1",
                                      "prune.end=2500", "prune.every=2"};
static const struct world_run pruned = {.name = "pruned", .n_seats = N, .n_there = N, .options = pruning, .n_options = 6};
static const struct world_run stopped = {.name = "stopped", .n_seats = N, .n_there = N, .options = options, .n_options = 2};

/* One that was given up for time is tried again: that is no loss. */
static void hand_over(const uint32_t *cut)
{
    enum world_end end;

    while ((end = world_hand_over(cut, WORLD_NOBODY)) == WORLD_ABORTED)
        continue;
    assert_int_equal(end, WORLD_COMMITTED);
}

/* A process that stops and continues another one until it is killed. */
static pid_t hinder(pid_t pid)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int is_stop = 1;; is_stop = !is_stop) {
            kill(pid, is_stop ? SIGSTOP : SIGCONT);
            usleep(TURN_US);
        }
    }
    return child;
}

/* A source, which leads; who gets layers of both others; and the other source. */
static void each_is_slow(const struct world_run *run, const char *said)
{
    world_start(run);
    for (uint32_t r = 0; r < N; r++) {
        pid_t child = hinder(world.seat[r].pid);

        hand_over(there);
        hand_over(here);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        kill(world.seat[r].pid, SIGCONT);
    }
    world_stop();
    assert_true(world_count(world.log, "\"handover\"", said) > 0);
    world_compare_alone();
}

static void one_is_slow(void **state)
{
    (void)state;
    each_is_slow(&slow, "copied during");
}

static void one_is_slow_beside_pruning(void **state)
{
    (void)state;
    each_is_slow(&pruned, "changes of layers among");
}

static bool is_any_dead(void)
{
    for (uint32_t r = 0; r < N; r++)
        if (world.seat[r].is_dead)
            return true;
    return false;
}

/* Nobody takes it for dead. The last one is killed while it is stopped: then others go on with the copies of its layers. */
static void one_is_stopped(void **state)
{
    uint32_t cut[WORLD_SEATS + 1];
    uint64_t seed = 1;

    (void)state;
    world_start(&stopped);
    for (uint32_t r = 0; r < N; r++) {
        world_await_copies();
        kill(world.seat[r].pid, SIGSTOP);
        world_prepare(there, WORLD_NOBODY);
        usleep(STOPPED_US);
        world_serve(0);
        assert_false(is_any_dead());
        if (r == N - 1)
            break;
        kill(world.seat[r].pid, SIGCONT);
        if (world_decide() == WORLD_ABORTED)
            hand_over(there);
        hand_over(here);
    }
    world_kill(N - 1);
    world_decide();
    world_random_cut(&seed, WORLD_NOBODY, cut);
    world_regroup(cut, NULL);
    assert_non_null(strstr(world.regrouped.text, "no step is lost"));
    world_stop();
    world_compare_alone();
}

/* ---- memory ---- */

static struct {
    volatile uint32_t at;     /* allocation for shadows that fails at the destination, 0: none */
    volatile bool has_failed;  /* it did */
    volatile bool is_for_good; /* and so does the first one of the transfer that follows */
} *memory; /* shared */
static struct dp_backend *device;
static bool is_armed;

static void only_destination(uint32_t rank)
{
    is_armed = rank == DESTINATION;
}

#define WRAP(type, name, ...)            \
    __typeof__(name) __real_##name;      \
    __typeof__(name) __wrap_##name;      \
    type __wrap_##name(__VA_ARGS__)

WRAP(struct dp_backend *, dp_backend_create, const char *name, int index, int threads, struct dp_err *err)
{
    struct dp_backend *inner = __real_dp_backend_create(name, index, threads, err);

    device = inner ? failing_device_create(inner) : NULL;
    return device;
}

WRAP(void, dp_backend_destroy, struct dp_backend *be)
{
    struct dp_backend *whole = device;

    if (!be || be != whole) { /* the one inside */
        __real_dp_backend_destroy(be);
        return;
    }
    device = NULL;
    failing_device_destroy(whole);
}

/* The count goes on from shadow to shadow, until the layers move, or what is missing of them. */
WRAP(struct dp_layer *, dp_layer_from_head, const struct dp_train_config *c, struct dp_backend *be, const struct dp_tune *tune,
     const uint8_t *head, size_t bytes, uint64_t state_bytes, struct dp_err *err)
{
    if (is_armed && memory->at) {
        failing_device_arm(device, FAILS_MEMORY, memory->at);
        memory->at = 0;
    }
    return __real_dp_layer_from_head(c, be, tune, head, bytes, state_bytes, err);
}

WRAP(struct dp_transfer *, dp_transfer_create, const struct dp_handover_args *args, uint64_t migration, const struct dp_moves *moves,
     const struct dp_layout *next, struct dp_err *err)
{
    if (is_armed) {
        bool has_failed = failing_device_failed(device);

        memory->has_failed |= has_failed;
        failing_device_arm(device, FAILS_MEMORY, has_failed && memory->is_for_good);
    }
    return __real_dp_transfer_create(args, migration, moves, next, err);
}

/* One allocation for the shadows fails. Then the run stands still and copies, for which there is memory again (even), or there is none and
 * nothing moves (odd). returns: was there such an allocation? */
static bool hand_over_without_memory(uint32_t at)
{
    enum world_end end;

    memory->has_failed = false;
    memory->is_for_good = at % 2;
    memory->at = at;
    end = world_hand_over(there, WORLD_NOBODY);
    assert_int_equal(memory->at, 0);
    assert_int_not_equal(end, WORLD_LOST);
    if (memory->has_failed && memory->is_for_good) {
        assert_int_equal(end, WORLD_ABORTED);
        assert_non_null(strstr(world.seat[DESTINATION].why, "no memory"));
    }
    memory->is_for_good = false;
    if (end == WORLD_ABORTED)
        hand_over(there);
    hand_over(here);
    return memory->has_failed;
}

static void no_memory_at_the_destination(void **state)
{
    static const struct world_run run = {.name = "memory", .n_seats = N, .n_there = N, .options = options, .n_options = 1,
                                         .in_worker = only_destination};
    uint32_t at = 1;

    (void)state;
    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    world_start(&run);
    while (hand_over_without_memory(at))
        at += 5;
    printf("# of more than %u allocations for shadows each fifth has failed\n", at - 5);
    assert_true(at > 11);
    world_stop();
    world_compare_alone();
    munmap((void *)memory, sizeof *memory);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_slow),
        cmocka_unit_test(one_is_slow_beside_pruning),
        cmocka_unit_test(one_is_stopped),
        cmocka_unit_test(no_memory_at_the_destination),
    };

    return cmocka_run_group_tests_name("hindered", tests, world_set_up, world_tear_down);
}
