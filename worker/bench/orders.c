/* What does a step pay for being told what to do? N processes of this node run the exchange of sums and
 * orders (worker/orders.h) of a model with 26 layers and 8 microbatches, again and again, with
 * nothing to compute between. Prints the time of one round, median of all on rank 0, and the CPU
 * time that it takes on each side.
 *
 *   worker/bench/orders [workers] [rounds]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "worker/orders.h"

#define LAYERS 26
#define MAX_WORKERS 16

static void die(const char *what, const struct dp_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static void swap_cards(struct dp_transport *t, uint32_t peer, int fd)
{
    struct dp_err err = {0};
    const void *card;
    char theirs[8192];
    size_t bytes;
    ssize_t n;

    dp_transport_card(t, &card, &bytes);
    if (send(fd, card, bytes, 0) != (ssize_t)bytes || (n = recv(fd, theirs, sizeof theirs, 0)) <= 0 ||
        dp_transport_add(t, peer, theirs, (size_t)n, &err) < 0)
        die("cards", &err);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void run(struct dp_transport *t, uint32_t rank, uint32_t n_workers, uint64_t rounds)
{
    struct dp_train_config config = {.train = {.steps = INT64_MAX, .microbatches = 8, .batch = 1}, .model.context = 1};
    struct dp_layout layout = {.n_workers = n_workers, .n_layers = LAYERS};
    double squares[LAYERS] = {1}, losses[8] = {1};
    struct dp_step_part part = {.squares = squares, .losses = losses};
    uint64_t *ns = calloc(rounds, sizeof *ns), cpu_ns = dp_thread_cpu_ns();
    struct dp_err err = {0};
    struct dp_order order;
    struct dp_sums sums;

    for (uint32_t r = 0; r <= n_workers; r++)
        layout.cut[r] = r * LAYERS / n_workers;
    dp_sums_init(&sums, t, &layout, rank);
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t start_ns = dp_now_ns();

        if (dp_orders_run(&sums, &config, i + 1, &part, 0, &order, &err) < 0)
            die("round", &err);
        ns[i] = dp_now_ns() - start_ns;
    }
    cpu_ns = dp_thread_cpu_ns() - cpu_ns;
    qsort(ns, rounds, sizeof *ns, by_value);
    if (rank == 0)
        printf("%u workers: %.1f us per round (5 %%: %.1f, 95 %%: %.1f)\n", n_workers, (double)ns[rounds / 2] / 1e3,
               (double)ns[rounds / 20] / 1e3, (double)ns[rounds - 1 - rounds / 20] / 1e3);
    printf("  rank %u: %.1f us of CPU time per round\n", rank, (double)cpu_ns / (double)rounds / 1e3);
    free(ns);
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 4, rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
    int fd[MAX_WORKERS][2], rc = 0, status;
    struct dp_err err = {0};
    struct dp_transport *t;
    uint32_t rank = 0;

    if (n < 2 || n > MAX_WORKERS || rounds < 20 || rounds > 10000000)
        return 2;
    for (uint32_t r = 1; r < n; r++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd[r]) < 0)
            return 2;
    while (rank + 1 < n) {
        pid_t child = fork();

        if (child < 0)
            return 2;
        if (child > 0)
            break; /* each process starts the next one */
        rank++;
    }
    t = dp_transport_create(rank, (uint32_t)n, &err);
    if (!t)
        die("transport", &err);
    for (uint32_t r = 1; rank == 0 && r < n; r++)
        swap_cards(t, r, fd[r][0]);
    if (rank > 0)
        swap_cards(t, 0, fd[rank][1]);
    run(t, rank, (uint32_t)n, rounds);
    dp_transport_destroy(t);
    if (rank + 1 < n && (wait(&status) < 0 || status))
        rc = 1;
    return rc;
}
