/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the daemons of several nodes where a test wants to see what the plugin says, and
 * wants to choose the answer.
 *
 *   step_listener VERDICT TEXT SOCKET...
 *
 * Listens on every socket; prints one line for each message (and for each connection that brings
 * none), with the uid that SO_PEERCRED shows; answers every STEP_START with ACK(VERDICT, TEXT).
 * Ends on SIGTERM, or with 1 when it cannot listen. */
#include "config.h" /* _GNU_SOURCE: struct ucred */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/message/msg.h"

#define MAX_SOCKETS 16

static struct dp_msg_ack answer;

static int listen_on(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    /* Under its name only when it listens: whoever sees it may connect. */
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s.new", path);
    unlink(addr.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || chmod(addr.sun_path, 0666) < 0 ||
        listen(fd, 16) < 0 || rename(addr.sun_path, path) < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static int read_all(int fd, uint8_t *out, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = recv(fd, out + got, n - got, 0);
        if (k <= 0)
            return -1;
        got += (size_t)k;
    }
    return 0;
}

static void send_answer(int fd, uint32_t seq)
{
    uint8_t frame[1024];
    struct dp_writer w;
    struct dp_header h = {.version = DP_PROTO_VERSION, .type = DP_MSG_ACK, .seq = seq};

    dp_writer_init(&w, frame + DP_HEADER_BYTES, sizeof frame - DP_HEADER_BYTES);
    dp_msg_ack_encode(&w, &answer);
    h.body_len = (uint32_t)dp_writer_used(&w);
    dp_header_encode(frame, &h);
    send(fd, frame, DP_HEADER_BYTES + h.body_len, MSG_NOSIGNAL);
}

static int print_start(struct dp_reader *r, unsigned peer, struct dp_err *err)
{
    struct dp_msg_step_start m;

    if (dp_msg_step_start_decode(r, &m, err) < 0)
        return -1;
    printf("STEP_START job=%u step=%u uid=%u peer=%u set=%u mode=%s reference=%s min_gpus=%u "
           "max_slowdown=%g policy=%s stall_end_s=%u memory=%u slices=%u max_gpus=%u copies=%u node=%s\n",
           m.job_id, m.step_id, m.uid, peer, m.options_set, dp_mode_name(m.mode),
           dp_reference_name(m.reference), m.min_gpus, m.max_slowdown, m.policy, m.stall_end_s, m.memory, m.slices,
           m.max_gpus, m.copies, m.node);
    return 0;
}

static int print_end(struct dp_reader *r, unsigned peer, struct dp_err *err)
{
    struct dp_msg_step_end m;

    if (dp_msg_step_end_decode(r, &m, err) < 0)
        return -1;
    printf("STEP_END job=%u step=%u peer=%u\n", m.job_id, m.step_id, peer);
    return 0;
}

static int print_tasks(struct dp_reader *r, unsigned peer, struct dp_err *err)
{
    static struct dp_msg_tasks m;

    if (dp_msg_tasks_decode(r, &m, err) < 0)
        return -1;
    printf("TASKS job=%u step=%u peer=%u of=%u", m.job_id, m.step_id, peer, m.n_tasks);
    for (uint32_t i = 0; i < m.count; i++)
        printf(" %u%s", m.rank[i], m.pid[i] ? "" : "?");
    printf("\n");
    return 0;
}

static void serve(int fd)
{
    uint8_t bytes[DP_HEADER_BYTES], body[8192];
    struct dp_header h;
    struct dp_reader r;
    struct dp_err err = {0};
    struct ucred cred = {.uid = 0};
    socklen_t len = sizeof cred;
    int rc = -1;

    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
    if (read_all(fd, bytes, sizeof bytes) == 0 && dp_header_decode(bytes, &h, &err) == 0 &&
        h.body_len <= sizeof body && read_all(fd, body, h.body_len) == 0) {
        dp_reader_init(&r, body, h.body_len);
        if (h.type == DP_MSG_STEP_START)
            rc = print_start(&r, cred.uid, &err);
        else if (h.type == DP_MSG_STEP_END)
            rc = print_end(&r, cred.uid, &err);
        else if (h.type == DP_MSG_TASKS)
            rc = print_tasks(&r, cred.uid, &err);
        fflush(stdout); /* whoever has the answer finds the line */
        if (rc == 0 && h.type == DP_MSG_STEP_START)
            send_answer(fd, h.seq);
    }
    if (rc < 0)
        printf("BAD peer=%u %s\n", cred.uid, err.text);
    fflush(stdout);
}

int main(int argc, char *argv[])
{
    struct pollfd fds[MAX_SOCKETS];
    nfds_t n = 0;

    if (argc < 4 || argc - 3 > MAX_SOCKETS) {
        fprintf(stderr, "usage: step_listener VERDICT TEXT SOCKET...\n");
        return 1;
    }
    answer.verdict = (uint8_t)(argv[1][0] - '0');
    snprintf(answer.text, sizeof answer.text, "%s", argv[2]);
    for (; n + 3 < (nfds_t)argc; n++) {
        fds[n].fd = listen_on(argv[n + 3]);
        fds[n].events = POLLIN;
    }
    for (;;) {
        if (poll(fds, n, -1) < 0)
            return 1;
        for (nfds_t i = 0; i < n; i++) {
            const struct timeval limit = {.tv_sec = 2};
            int fd = fds[i].revents ? accept(fds[i].fd, NULL, NULL) : -1;
            if (fd < 0)
                continue;
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            serve(fd);
            close(fd);
        }
    }
}
