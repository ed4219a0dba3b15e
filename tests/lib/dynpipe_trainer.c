/* SPDX-License-Identifier: BSD-3-Clause */
/* A trainer that has dynpipe.h and the shared object, and nothing else of ours: dynpipe_trainer SOCKET N_WORKERS. It forks its workers.
 * A layer is a number that every step makes another one, so a layer that is lost, or trained twice, shows in their sum. None of them
 * can leave, so the daemon has no choice but to move layers. Runs until its standard input ends; says "ready", each hand-over, and at
 * last "end STEPS right", or wrong. */
#include "lib/dynpipe.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYERS 9u /* of the model */
#define MAX_WORKERS 8u /* pipes for more are too many descriptors */
#define STEPS UINT64_MAX /* the run lasts until the test has seen enough */

static uint32_t rank, n_workers;
static int mesh[MAX_WORKERS][MAX_WORKERS][2]; /* a pipe from each worker to each */
static uint64_t layer[LAYERS], shadow[LAYERS];
static uint32_t cut[MAX_WORKERS + 1];
static uint8_t gone[MAX_WORKERS];

static void fail(const char *what)
{
    fprintf(stderr, "# worker %u: %s: %s\n", rank, what, strerror(errno));
    exit(1);
}

static void send_to(uint32_t to, const void *data, size_t bytes)
{
    if (write(mesh[rank][to][1], data, bytes) != (ssize_t)bytes)
        fail("write");
}

static void receive_from(uint32_t from, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = read(mesh[from][rank][0], (char *)data + at, bytes - at);

        if (n <= 0)
            fail("read");
        at += (size_t)n;
    }
}

/* The sum over all workers that are in the run. */
static uint64_t sum_over_all(uint64_t mine)
{
    uint64_t sum = 0, theirs;

    for (uint32_t r = 0; r < n_workers; r++)
        if (!gone[r] && r != rank)
            send_to(r, &mine, sizeof mine);
    for (uint32_t r = 0; r < n_workers; r++) {
        if (gone[r])
            continue;
        theirs = mine;
        if (r != rank)
            receive_from(r, &theirs, sizeof theirs);
        sum += theirs;
    }
    return sum;
}

static uint32_t members(void)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < n_workers; r++)
        n += !gone[r];
    return n;
}

static uint32_t owner(const uint32_t *c, uint32_t l)
{
    uint32_t r = 0;

    while (l >= c[r + 1])
        r++;
    return r;
}

/* Every worker knows the same digest of what moved: here the layers themselves, which all may know. */
static void move_layers(const struct dynpipe_plan *p, uint8_t digest[32])
{
    uint64_t all = 0;

    for (uint32_t l = 0; l < LAYERS; l++) {
        uint32_t from = owner(p->old_cut, l), to = owner(p->cut, l);

        if (from == to)
            continue;
        if (rank == from)
            send_to(to, &layer[l], sizeof layer[l]);
        if (rank == to)
            receive_from(from, &shadow[l], sizeof shadow[l]);
        all = 31 * all + sum_over_all(rank == to ? shadow[l] : 0);
    }
    memset(digest, 0, 32);
    memcpy(digest, &all, sizeof all);
}

static void hand_over(struct dynpipe *d, uint64_t m, uint64_t step)
{
    struct dynpipe_plan plan = {.size = sizeof plan};
    uint8_t digest[32];
    int answer, ok = dynpipe_prepare(d, m, &plan, 60000);

    ok = sum_over_all((uint64_t)ok) == members();
    if (ok)
        move_layers(&plan, digest);
    do
        answer = dynpipe_decide(d, m, ok, ok ? digest : NULL, NULL, 1000);
    while (answer == DYNPIPE_AGAIN);
    if (answer == DYNPIPE_COMMIT) {
        for (uint32_t l = 0; l < LAYERS; l++)
            if (owner(plan.cut, l) == rank && owner(plan.old_cut, l) != rank)
                layer[l] = shadow[l];
        memcpy(cut, plan.cut, (n_workers + 1) * sizeof cut[0]);
        memcpy(gone, plan.gone, n_workers);
    } else if (answer != DYNPIPE_ABORT) {
        fail(dynpipe_why(d));
    }
    if (rank == 0) {
        printf("hand-over %llu step %llu %s%s", (unsigned long long)m, (unsigned long long)step,
               answer == DYNPIPE_COMMIT ? "commit" : "abort: ", answer == DYNPIPE_COMMIT ? "" : dynpipe_why(d));
        for (uint32_t r = 0; answer == DYNPIPE_COMMIT && r <= n_workers; r++)
            printf(" %u", cut[r]);
        printf("\n");
        fflush(stdout);
    }
    dynpipe_done(d, m, 1000, 500);
}

static int input_has_ended(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    return poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) == 0;
}

static uint64_t value(uint32_t l, uint64_t steps)
{
    return l + 1 + steps * (l + 3);
}

static void work(const char *socket)
{
    struct dynpipe_run run = {.size = sizeof run, .traits = DYNPIPE_CAN_MOVE, .rank = rank,
                              .n_workers = n_workers, .n_layers = LAYERS, .schedule = DYNPIPE_1F1B, .microbatches = 2,
                              .tokens_per_microbatch = 16, .steps_total = STEPS, .cut = cut, .trainer = "a test",
                              .socket = socket};
    struct dynpipe_load load[LAYERS] = {{0}};
    char why[256] = "";
    struct dynpipe *d = dynpipe_join(&run, 60000, why, sizeof why);
    uint64_t step = 0, wanted = 0, right = 0, sum = 0;

    if (!d)
        fail(why);
    if (sum_over_all((uint64_t)dynpipe_is_connected(d)) == n_workers && rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    do {
        struct dynpipe_step s = {.size = sizeof s, .step = ++step, .wall_ns = 5000000, .loss = NAN, .grad_norm = NAN};
        uint32_t n = cut[rank + 1] - cut[rank];

        poll(NULL, 0, 5);
        for (uint32_t i = 0; i < n; i++) {
            layer[cut[rank] + i] += cut[rank] + i + 3;
            load[i] = (struct dynpipe_load){.fwd_ns = 1000000, .bwd_input_ns = 2000000, .state_bytes = 8, .act_bytes = 8, .params = 1,
                                            .nnz = 1};
        }
        if (dynpipe_report(d, &s, load, n) < 0)
            fail(dynpipe_why(d));
        wanted = sum_over_all(dynpipe_pending(d));
        if (wanted)
            hand_over(d, wanted, step);
        if (dynpipe_state(d) < 0)
            fail(dynpipe_why(d));
    } while (!sum_over_all(rank == 0 && input_has_ended()));
    for (uint32_t l = 0; l < LAYERS; l++) {
        right += value(l, step);
        sum += owner(cut, l) == rank ? layer[l] : 0;
    }
    sum = sum_over_all(sum);
    if (rank == 0)
        printf("end %llu %s\n", (unsigned long long)step, sum == right ? "right" : "wrong");
    dynpipe_leave(d, DYNPIPE_COMPLETED, NULL);
    exit(sum == right ? 0 : 1);
}

int main(int argc, char **argv)
{
    int status, failed = 0;

    n_workers = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (n_workers < 1 || n_workers > MAX_WORKERS) {
        fprintf(stderr, "usage: dynpipe_trainer SOCKET N_WORKERS\n");
        return 2;
    }
    for (uint32_t r = 0; r <= n_workers; r++)
        cut[r] = LAYERS * r / n_workers;
    for (uint32_t l = 0; l < LAYERS; l++)
        layer[l] = value(l, 0);
    for (uint32_t a = 0; a < n_workers; a++)
        for (uint32_t b = 0; b < n_workers; b++)
            if (pipe(mesh[a][b]) < 0)
                fail("pipe");
    for (rank = 0; rank < n_workers; rank++) {
        pid_t pid = fork();

        if (pid < 0)
            fail("fork");
        if (pid == 0)
            work(argv[1]);
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
