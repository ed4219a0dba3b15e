/* SPDX-License-Identifier: BSD-3-Clause */
/* One run that hands over again and again, each layer copied while training goes on, and loses one worker after the other, whose layers
 * others have copies of and whose place a newcomer takes. Its losses are bit for bit those of a worker alone that nothing happens to, and
 * who is there from the first tenth to the end takes no more memory of its own, descriptors or threads for it.
 *
 * As a test it is short. `make endurance` plays it whole, and prints what it measures (test_endurance --handovers N --promotions N). */
#include <dirent.h>
#include <getopt.h>
#include <signal.h>

#include "common/clock.h"
#include "tests/unit/worker/run_world.h"

#ifdef __SANITIZE_ADDRESS__ /* it keeps what was freed, up to 256 MiB, and finds leaks itself */
#define OWN_MORE_KIB (512 * 1024)
#else
#define OWN_MORE_KIB 2048 /* of 9 MiB: whoever leaked a layer's state of 20 KiB with each of 1000 hand-overs would need 20 MiB */
#endif
#define MIDDLE 4 /* of so many losses one comes in the middle of a hand-over */

static struct {
    uint32_t handovers, promotions; /* wanted */
    bool is_told;
} want = {24, 6, false};

static struct {
    uint32_t committed, aborted, promotions, from_checkpoint, newcomers;
} have;

static uint64_t seed = 1;

/* ---- what a process takes ---- */

struct taken {
    uint32_t rank;
    long own_kib, shared_kib, descriptors, threads;
};

static long of_status(pid_t pid, const char *key)
{
    char path[64], line[256];
    long value = -1;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            value = strtol(line + strlen(key), NULL, 10);
    fclose(f);
    return value;
}

static long count_descriptors(pid_t pid)
{
    char path[64];
    long n = -2; /* . and .. */
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    d = opendir(path);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static struct taken look(uint32_t rank)
{
    pid_t pid = world.seat[rank].pid;

    return (struct taken){.rank = rank, .own_kib = of_status(pid, "RssAnon:"), .shared_kib = of_status(pid, "RssShmem:"),
                          .descriptors = count_descriptors(pid), .threads = of_status(pid, "Threads:")};
}

/* The same cuts whenever it is looked: what a worker has then is the same. */
static void settle(void)
{
    uint32_t cut[WORLD_SEATS + 1] = {0}, n = 0, all = world_n_members();

    for (uint32_t r = 0; r < WORLD_SEATS; r++) {
        n += world.seat[r].is_member;
        cut[r + 1] = WORLD_LAYERS * n / all;
    }
    while (memcmp(cut, world.cut, sizeof cut[0] * (world.run->n_seats + 1)) != 0)
        have.committed += world_hand_over(cut, WORLD_NOBODY) == WORLD_COMMITTED;
    world_await_copies();
}

/* ---- what happens to the run ---- */

static void hand_over(void)
{
    uint32_t cut[WORLD_SEATS + 1];

    world_random_cut(&seed, WORLD_NOBODY, cut);
    if (world_hand_over(cut, WORLD_NOBODY) == WORLD_COMMITTED)
        have.committed++;
    else
        have.aborted++;
    assert_false(world_has_lost());
}

/* A member with layers. The leader is one of them only at first, since whoever joins later never leads, and the two lowest ranks are not
 * once the second tenth has begun: so there is somebody to measure. */
static bool has_layers(uint32_t rank)
{
    return world.seat[rank].is_member && world.cut[rank + 1] > world.cut[rank];
}

static uint32_t choose(void)
{
    const uint32_t leader = world_leader();
    bool is_early = have.promotions < (want.promotions + 9) / 10;
    uint32_t n = 0, list[WORLD_SEATS];

    if (is_early && leader < world.run->n_seats - 4)
        return has_layers(leader) ? leader : WORLD_NOBODY;
    for (uint32_t r = leader + (is_early ? 1 : 2); r < WORLD_SEATS; r++)
        if (has_layers(r))
            list[n++] = r;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return n ? list[(seed >> 33) % n] : WORLD_NOBODY;
}

static uint32_t free_seat(void)
{
    for (uint32_t r = world_leader() + 1; r < world.run->n_seats; r++)
        if (!world.seat[r].is_member)
            return r;
    return WORLD_NOBODY;
}

/* Every worker with layers has whole copies elsewhere, or, in the middle of a hand-over, had them when it began. */
static void lose(bool is_in_middle)
{
    uint32_t cut[WORLD_SEATS + 1], victim, rank;

    world_await_copies();
    while ((victim = choose()) == WORLD_NOBODY) {
        hand_over();
        world_await_copies();
    }
    if (is_in_middle) {
        world_random_cut(&seed, WORLD_NOBODY, cut);
        world_prepare(cut, WORLD_NOBODY);
        kill(world.seat[victim].pid, SIGKILL);
        world_decide();
    }
    world_kill(victim);
    world_random_cut(&seed, WORLD_NOBODY, cut);
    world_regroup(cut, NULL);
    if (strstr(world.regrouped.text, "no step is lost") && strstr(world.regrouped.text, "from copies"))
        have.promotions++;
    else if (is_in_middle) /* it was late, and copies were being made anew */
        have.from_checkpoint++;
    else
        fail_msg("worker %u had copies: %s", victim, world.regrouped.text);
    rank = free_seat();
    assert_true(rank != WORLD_NOBODY);
    world_newcomer(rank);
    world_random_cut(&seed, rank, cut);
    while (world_hand_over(cut, rank) == WORLD_ABORTED) /* it did not come in time: beside load */
        have.aborted++;
    assert_false(world_has_lost());
    have.committed++;
    have.newcomers++;
}

static void tell(const struct taken *t)
{
    if (want.is_told)
        printf("# %9u %10u %8u %5u %9ld %11ld %11ld %7ld\n", world_count(world.log, "\"handover\"", "copied during"), have.promotions,
               (unsigned)world.seat[t->rank].step, t->rank, t->own_kib, t->shared_kib, t->descriptors, t->threads);
    fflush(stdout);
}

/* Of the leader: it is the same process from the first tenth on. What it shares with workers of its node that are dead stays mapped: UCX
 * cannot close an endpoint of shared memory whose other end takes nothing any more (worker/net/transport.c). */
static void compare_taken(const struct taken *first, const struct taken *last)
{
    assert_int_equal(first->rank, last->rank);
    if (last->own_kib > first->own_kib + OWN_MORE_KIB)
        fail_msg("memory of its own: %ld KiB, then %ld", first->own_kib, last->own_kib);
    if (last->descriptors > first->descriptors || last->threads > first->threads)
        fail_msg("descriptors: %ld, then %ld; threads: %ld, then %ld", first->descriptors, last->descriptors, first->threads,
                 last->threads);
}

static void copied_and_promoted(void **state)
{
    static const char *const options[] = {"handover.background=always", "handover.copies=1", "prune.begin=40", "prune.end=120",
                                          "prune.every=40", "checkpoint.every=100"};
    static const struct world_run run = {.name = "endurance", .n_seats = 7, .n_there = 4, .options = options, .n_options = 6};
    uint32_t steps, tenth = (want.promotions + 9) / 10, copied = 0;
    struct taken first = {0}, last;

    (void)state;
    if (want.is_told)
        puts("# handovers promotions     step  rank  own, KiB shared, KiB descriptors threads");
    world_start(&run);
    for (uint32_t n = 0; have.promotions < want.promotions; n++) {
        while (copied < (uint64_t)want.handovers * (have.promotions + 1) / want.promotions) {
            hand_over();
            copied = world_count(world.log, "\"handover\"", "copied during");
        }
        lose(n % MIDDLE == MIDDLE - 1);
        if (have.promotions % tenth || n + 1 < tenth)
            continue;
        settle();
        last = look(world_leader());
        if (!first.own_kib)
            first = last;
        tell(&last);
    }
    settle();
    last = look(world_leader());
    compare_taken(&first, &last);
    world_stop();
    copied = world_count(world.log, "\"handover\"", "copied during");
    steps = world_compare_alone();
    printf("# %u hand-overs, %u of them copied before, %u aborted; %u promotions, %u losses that led to the checkpoint, %u newcomers;\n"
           "# %u steps, each with the loss of a worker alone\n", have.committed, copied, have.aborted, have.promotions,
           have.from_checkpoint, have.newcomers, steps);
    assert_true(copied >= want.handovers && have.promotions >= want.promotions);
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text < '1' || *text > '9' || *end || n > 100000) {
        fprintf(stderr, "test_endurance: '%s' is not a number from 1 to 100000\n", text);
        exit(2);
    }
    return (uint32_t)n;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"handovers", required_argument, NULL, 'h'}, {"promotions", required_argument, NULL, 'p'}, {0}};
    static const struct CMUnitTest tests[] = {cmocka_unit_test(copied_and_promoted)};
    int opt;

    while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (opt == '?')
            return 2;
        *(opt == 'h' ? &want.handovers : &want.promotions) = number(optarg);
        want.is_told = true;
    }
    return cmocka_run_group_tests_name("endurance", tests, world_set_up, world_tear_down);
}
