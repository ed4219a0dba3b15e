/* How fast is the data plane? Two processes of this node send boundary tensors one way (with a window of
 * two, as the pipeline does), then play ping-pong with 8 bytes. Prints one line per size:
 *   bytes, microseconds per message (median of the rounds, least and most), GB/s, the part that the
 *   CRC-32C of both sides takes.
 *
 *   worker/bench/transport [rounds]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/crc32c.h"
#include "worker/transport.h"

#define MESSAGES 40 /* per round */

static const size_t sizes[] = {8, 200000, 1 << 20, 4 << 20};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static void die(const char *what, const struct dp_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static void exchange_cards(struct dp_transport *t, uint32_t peer, int fd)
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

static void finish(struct dp_transport *t, struct dp_xfer *x)
{
    struct dp_err err = {0};

    if (!x || dp_transport_wait(t, x, 0, NULL, &err) < 0)
        die("transfer", &err);
}

static struct dp_xfer *start(struct dp_transport *t, bool sends, uint32_t peer, uint64_t tag, void *data, size_t n)
{
    struct dp_err err = {0};
    struct dp_xfer *x = sends ? dp_transport_send(t, peer, tag, data, n, &err)
                              : dp_transport_recv(t, peer, tag, data, n, &err);

    if (!x)
        die("start", &err);
    return x;
}

/* One round: MESSAGES of n bytes from rank 0 to rank 1, two in flight, and an empty answer. */
static uint64_t stream(struct dp_transport *t, uint32_t rank, uint64_t round, char *data[2], size_t n)
{
    uint64_t start_ns = dp_now_ns();
    struct dp_xfer *x[2] = {NULL, NULL};

    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (x[i % 2])
            finish(t, x[i % 2]);
        x[i % 2] = start(t, rank == 0, !rank, dp_tag(DP_CH_ACTIVATION, 0, round, i), data[i % 2], n);
    }
    finish(t, x[0]);
    finish(t, x[1]);
    finish(t, start(t, rank != 0, !rank, dp_tag(DP_CH_ORDER, 0, round, 0), data[0], 0));
    return dp_now_ns() - start_ns;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void report(const char *what, uint64_t *ns, size_t rounds, size_t n, double per_round, uint64_t crc_ns)
{
    double median;

    qsort(ns, rounds, sizeof *ns, by_value);
    median = (double)ns[rounds / 2] / per_round;
    printf("%-8s %8zu bytes %9.2f us (%.2f .. %.2f) %6.2f GB/s, CRC-32C twice %.2f us\n", what, n, median / 1e3,
           (double)ns[0] / per_round / 1e3, (double)ns[rounds - 1] / per_round / 1e3, (double)n / median,
           2 * (double)crc_ns / 1e3);
}

static uint64_t crc_time(const char *data, size_t n)
{
    uint64_t start_ns = dp_now_ns();
    volatile uint32_t crc = 0;

    for (int i = 0; i < 10; i++)
        crc = dp_crc32c(crc, data, n);
    return (dp_now_ns() - start_ns) / 10;
}

static void run(struct dp_transport *t, uint32_t rank, size_t rounds)
{
    uint64_t *ns = calloc(rounds, sizeof *ns), round = 0;
    char *data[2] = {malloc(sizes[N_SIZES - 1]), malloc(sizes[N_SIZES - 1])};

    for (int i = 0; i < 2; i++)
        memset(data[i], 1 + i, sizes[N_SIZES - 1]);
    for (size_t k = 0; k < N_SIZES; k++) {
        for (size_t i = 0; i < rounds + 2; i++)
            ns[i < 2 ? 0 : i - 2] = stream(t, rank, round++, data, sizes[k]);
        if (rank == 0)
            report("one way", ns, rounds, sizes[k], MESSAGES, crc_time(data[0], sizes[k]));
    }
    for (size_t i = 0; i < rounds; i++) {
        uint64_t start_ns = dp_now_ns();

        for (uint32_t k = 0; k < MESSAGES; k++)
            for (uint32_t side = 0; side < 2; side++)
                finish(t, start(t, side == rank, !rank, dp_tag(DP_CH_SUM, 0, round + i, 2 * k + side), data[0], 8));
        ns[i] = dp_now_ns() - start_ns;
    }
    if (rank == 0)
        report("and back", ns, rounds, 8, MESSAGES, 0);
    free(data[0]);
    free(data[1]);
    free(ns);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 15;
    struct dp_err err = {0};
    struct dp_transport *t;
    uint32_t rank;
    int fd[2], status = 0;
    pid_t child;

    if (rounds < 1 || rounds > 100000 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) < 0)
        return 2;
    child = fork();
    rank = child == 0;
    t = dp_transport_create(rank, 2, &err);
    if (!t)
        die("transport", &err);
    exchange_cards(t, !rank, fd[rank]);
    run(t, rank, rounds);
    dp_transport_destroy(t);
    if (child > 0 && (waitpid(child, &status, 0) != child || status))
        return 1;
    return 0;
}
