/* SPDX-License-Identifier: BSD-3-Clause */
/* See workers.h. */
#include "worker/bench/workers.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int swap_cards(struct dp_transport *t, uint32_t peer, int fd, struct dp_err *err)
{
    const void *card;
    char theirs[8192];
    size_t bytes;
    ssize_t n;

    dp_transport_card(t, &card, &bytes);
    if (send(fd, card, bytes, 0) != (ssize_t)bytes || (n = recv(fd, theirs, sizeof theirs, 0)) <= 0)
        return dp_err_set(err, DP_EGONE, "worker %u did not start", peer);
    return dp_transport_add(t, peer, theirs, (size_t)n, err);
}

struct dp_transport *bench_workers_meet(uint32_t rank, uint32_t n, int fd[][2], struct dp_err *err)
{
    struct dp_transport *t = dp_transport_create(rank, n, err);
    int rc = t ? 0 : -1;

    for (uint32_t r = 1; rc == 0 && rank == 0 && r < n; r++)
        rc = swap_cards(t, r, fd[r][0], err);
    if (rc == 0 && rank > 0)
        rc = swap_cards(t, 0, fd[rank][1], err);
    if (rc == 0)
        return t;
    dp_transport_destroy(t);
    return NULL;
}

/* Each process is started by the last one, so that each waits for one child only. */
int bench_workers_start(int n, int fd[][2], struct dp_err *err)
{
    int rank = 0;

    for (int r = 1; r < n; r++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd[r]) < 0)
            return dp_err_set(err, DP_EIO, "no sockets between the workers");
    fflush(NULL);
    while (rank + 1 < n) {
        pid_t child = fork();

        if (child < 0)
            return dp_err_set(err, DP_EIO, "no process for a worker");
        if (child > 0)
            break;
        rank++;
    }
    return rank;
}
