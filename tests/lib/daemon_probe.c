/* SPDX-License-Identifier: BSD-3-Clause */
/* A hand that says one thing to a daemon, for tests: daemon_probe SOCKET MODE ARGUMENTS...
 *
 *   step JOB UID NODE      STEP_START; prints "ack VERDICT TEXT"
 *   hello JOB RANK N       HELLO of a run of N workers with 8 layers, with the options in SLURM_DYNPIPE; prints
 *                          "welcome VERDICT TEXT",
 *                          then stays until stdin closes (prints "closed" if the daemon ends it)
 *   patient JOB RANK N     the same, again and again as long as VERDICT is 3
 *   vote JOB RANK          VOTE without a HELLO; prints "closed" when refused
 *   query WHAT JOB         prints the JSON, or "error TEXT" with exit 1; WHAT: jobs status explain
 *                          report node
 *   raw HEX                raw bytes; prints "closed" when the daemon hangs up, "open" after 15 s
 *   idle N                 N silent connections; prints how many the daemon has hung up on when the
 *                          last one is answered or 15 s are over
 *   remote PORT NODE MUNGE_SOCKET WHAT JOB   as query, over TCP (SOCKET is not used)
 *   daemon ADDRESS PORT MUNGE_SOCKET AS FROM   as a daemon of node AS that comes from the address FROM (SOCKET
 *                          is not used); prints "let in", or "refused TEXT"
 */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/message/client.h"
#include "common/message/session.h"

#define TIMEOUT_MS 10000u
#define PATIENCE_MS 15000
#define AGAIN 9

static int fail(const struct dp_err *err)
{
    printf("error %s\n", err->text);
    return 1;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static int raw_connect(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof addr.sun_path)
        return -1;
    memcpy(addr.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Has the other end hung up within ms? Whatever it says before is dropped. */
static bool hangs_up(int fd, int ms)
{
    uint64_t end_ns = dp_now_ns() + (uint64_t)ms * 1000000u;
    char drop[4096];

    while (dp_now_ns() < end_ns) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (poll(&p, 1, (int)((end_ns - dp_now_ns()) / 1000000u) + 1) > 0 && recv(fd, drop, sizeof drop, 0) <= 0)
            return true;
    }
    return false;
}

static int say_raw(const char *path, const char *hex)
{
    int fd = raw_connect(path);
    uint8_t bytes[70000];
    size_t n = strlen(hex) / 2;

    if (fd < 0 || n > sizeof bytes)
        return 1;
    for (size_t i = 0; i < n; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0)
        return 1;
    puts(hangs_up(fd, PATIENCE_MS) ? "closed" : "open");
    close(fd);
    return 0;
}

static int be_idle(const char *path, uint32_t n)
{
    int *fd = calloc(n, sizeof *fd);
    uint32_t closed = 0;

    for (uint32_t i = 0; fd && i < n; i++)
        fd[i] = raw_connect(path);
    for (uint32_t i = 0; fd && i < n; i++) {
        closed += fd[i] < 0 || hangs_up(fd[i], PATIENCE_MS);
        if (fd[i] >= 0)
            close(fd[i]);
    }
    printf("%u\n", closed);
    free(fd);
    return 0;
}

static int say_step(struct dp_client *c, char **argv, struct dp_err *err)
{
    struct dp_msg_step_start m = {.job_id = number(argv[0]), .step_id = 0, .uid = number(argv[1]),
                                  .options_set = DP_OPT_MODE, .mode = DP_MODE_BALANCE};
    struct dp_msg_ack ack;
    const uint8_t *in;
    struct dp_header h;
    struct dp_reader r;
    struct dp_writer w;
    uint8_t body[1024];

    snprintf(m.node, sizeof m.node, "%s", argv[2]);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, &m);
    if (dp_client_send(c, DP_MSG_STEP_START, body, dp_writer_used(&w), err) < 0 || dp_client_recv(c, &h, &in, err) < 0)
        return fail(err);
    dp_reader_init(&r, in, h.body_len);
    if (h.type != DP_MSG_ACK || dp_msg_ack_decode(&r, &ack, err) < 0)
        return fail(err);
    printf("ack %u %s\n", ack.verdict, ack.text);
    return 0;
}

static void make_hello(struct dp_msg_hello *m, char **argv)
{
    memset(m, 0, sizeof *m);
    m->job_id = number(argv[0]);
    m->step_id = number(getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : "0");
    m->rank = number(argv[1]);
    m->n_workers = number(argv[2]);
    m->n_layers = 8;
    m->epoch = 1;
    m->steps_total = 100;
    m->microbatches = 4;
    m->tokens_per_microbatch = 64;
    snprintf(m->device, sizeof m->device, "cpu");
    snprintf(m->options, sizeof m->options, "%.255s", getenv("SLURM_DYNPIPE") ? getenv("SLURM_DYNPIPE") : "");
    for (uint32_t i = 0; i <= m->n_workers && i <= DP_MAX_WORKERS; i++)
        m->cut[i] = i * 8 / m->n_workers;
}

/* Stay until stdin closes or the daemon hangs up. */
static int stay(struct dp_client *c)
{
    struct dp_err err = {0};
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    const uint8_t *in;
    struct dp_header h;
    char drop[16];

    for (;;) {
        if (poll(&p, 1, 0) > 0 && read(STDIN_FILENO, drop, sizeof drop) <= 0)
            return 0;
        if (dp_client_recv(c, &h, &in, &err) < 0 && err.code != DP_ETIMEOUT) {
            puts("closed");
            return 0;
        }
    }
}

static int say_hello(struct dp_client *c, char **argv, bool is_patient, struct dp_err *err)
{
    struct dp_msg_welcome welcome;
    struct dp_msg_hello m;
    const uint8_t *in;
    struct dp_header h;
    struct dp_reader r;
    struct dp_writer w;
    uint8_t body[8192];

    make_hello(&m, argv);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_hello_encode(&w, &m);
    if (dp_client_send(c, DP_MSG_HELLO, body, dp_writer_used(&w), err) < 0 || dp_client_recv(c, &h, &in, err) < 0)
        return fail(err);
    dp_reader_init(&r, in, h.body_len);
    if (h.type != DP_MSG_WELCOME || dp_msg_welcome_decode(&r, &welcome, err) < 0)
        return fail(err);
    printf("welcome %u %s\n", welcome.verdict, welcome.text);
    fflush(stdout);
    return welcome.verdict == DP_VERDICT_UNKNOWN && is_patient ? AGAIN : stay(c);
}

static int be_patient(const char *path, struct dp_client *c, char **argv, struct dp_err *err)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    int rc;

    while ((rc = say_hello(c, argv, true, err)) == AGAIN) {
        dp_client_destroy(c);
        nanosleep(&pause, NULL);
        c = dp_client_open_unix(path, TIMEOUT_MS, err);
        if (!c)
            return fail(err);
    }
    dp_client_destroy(c);
    return rc;
}

static int say_vote(struct dp_client *c, char **argv, struct dp_err *err)
{
    struct dp_msg_vote m = {.rank = number(argv[1])};
    const uint8_t *in;
    struct dp_header h;
    struct dp_writer w;
    uint8_t body[1024];

    dp_writer_init(&w, body, sizeof body);
    dp_msg_vote_encode(&w, &m);
    if (dp_client_send(c, DP_MSG_VOTE, body, dp_writer_used(&w), err) < 0)
        return fail(err);
    puts(dp_client_recv(c, &h, &in, err) < 0 && err->code == DP_EHUNGUP ? "closed" : "open");
    return 0;
}

static int ask(struct dp_client *c, char **argv, struct dp_err *err)
{
    static const char *const names[] = {"jobs", "status", "explain", "report", "node"};
    char *json = NULL;

    for (int i = 0; i < 5; i++)
        if (!strcmp(names[i], argv[0])) {
            if (dp_client_query(c, (enum dp_query)i, number(argv[1]), &json, err) < 0)
                return fail(err);
            puts(json);
            free(json);
            return 0;
        }
    return 2;
}

static int tcp_connect(const char *from, const char *to, uint16_t port)
{
    struct sockaddr_in self = {.sin_family = AF_INET}, peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (inet_pton(AF_INET, from, &self.sin_addr) == 1 && inet_pton(AF_INET, to, &peer.sin_addr) == 1 &&
        bind(fd, (struct sockaddr *)&self, sizeof self) == 0 && connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0)
        return fd;
    perror("daemon_probe");
    return -1;
}

/* One frame; in: its body. */
static int read_frame(int fd, struct dp_header *h, uint8_t *body, size_t cap)
{
    uint8_t head[DP_HEADER_BYTES];

    if (recv(fd, head, sizeof head, MSG_WAITALL) != (ssize_t)sizeof head || dp_header_decode(head, h, NULL) < 0 ||
        h->body_len > cap || recv(fd, body, h->body_len, MSG_WAITALL) != (ssize_t)h->body_len)
        return -1;
    return 0;
}

static int say_daemon(char **argv)
{
    int fd = tcp_connect(argv[4], argv[0], (uint16_t)number(argv[1]));
    static uint8_t body[DP_BODY_MAX], out[DP_HEADER_BYTES + 8192];
    struct dp_header h, mine = {.version = DP_PROTO_VERSION, .type = DP_MSG_AUTH, .seq = 1};
    struct dp_msg_challenge challenge;
    struct dp_msg_auth auth = {0};
    struct dp_msg_ack ack;
    struct dp_handshake hs;
    struct dp_err err = {0};
    struct dp_reader r;
    struct dp_writer w;

    if (fd < 0 || read_frame(fd, &h, body, sizeof body) < 0)
        return 2;
    dp_reader_init(&r, body, h.body_len);
    if (dp_msg_challenge_decode(&r, &challenge, &err) < 0 ||
        dp_handshake_init(&hs, DP_PURPOSE_PEER, argv[3], &challenge, &err) < 0 ||
        dp_handshake_seal(&hs, argv[2], DP_ANY_UID, auth.credential, sizeof auth.credential, &err) < 0)
        return fail(&err);
    snprintf(auth.node, sizeof auth.node, "%s", argv[3]);
    dp_writer_init(&w, out + DP_HEADER_BYTES, sizeof out - DP_HEADER_BYTES);
    dp_msg_auth_encode(&w, &auth);
    mine.body_len = (uint32_t)dp_writer_used(&w);
    dp_header_encode(out, &mine);
    if (send(fd, out, DP_HEADER_BYTES + mine.body_len, MSG_NOSIGNAL) < 0 || read_frame(fd, &h, body, sizeof body) < 0)
        return 2;
    dp_reader_init(&r, body, h.body_len);
    if (h.type == DP_MSG_AUTH_OK)
        puts("let in");
    else if (h.type == DP_MSG_ACK && dp_msg_ack_decode(&r, &ack, NULL) == 0)
        printf("refused %s\n", ack.text);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    struct dp_client *c = NULL;
    struct dp_err err = {0};
    int rc = 2;

    if (argc >= 4 && !strcmp(argv[2], "raw"))
        return say_raw(argv[1], argv[3]);
    if (argc >= 4 && !strcmp(argv[2], "idle"))
        return be_idle(argv[1], number(argv[3]));
    if (argc >= 8 && !strcmp(argv[2], "daemon"))
        return say_daemon(argv + 3);
    if (argc >= 8 && !strcmp(argv[2], "remote"))
        c = dp_client_open_tcp("127.0.0.1", (uint16_t)number(argv[3]), NULL, argv[4], argv[5], DP_ANY_UID, TIMEOUT_MS, &err);
    else if (argc >= 5)
        c = dp_client_open_unix(argv[1], TIMEOUT_MS, &err);
    if (!c)
        return argc < 5 ? 2 : fail(&err);
    if (!strcmp(argv[2], "remote"))
        rc = ask(c, argv + 6, &err);
    else if (!strcmp(argv[2], "step") && argc >= 6)
        rc = say_step(c, argv + 3, &err);
    else if (!strcmp(argv[2], "hello") && argc >= 6)
        rc = say_hello(c, argv + 3, false, &err);
    else if (!strcmp(argv[2], "patient") && argc >= 6)
        return be_patient(argv[1], c, argv + 3, &err);
    else if (!strcmp(argv[2], "vote"))
        rc = say_vote(c, argv + 3, &err);
    else if (!strcmp(argv[2], "query"))
        rc = ask(c, argv + 3, &err);
    dp_client_destroy(c);
    return rc;
}
