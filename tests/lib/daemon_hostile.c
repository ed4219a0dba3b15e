/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user may try against a daemon, and how long an honest one waits meanwhile, for tests.
 *
 *   daemon_hostile gap SOCKET SECONDS        asks about the node again and again; prints "answers N gap MS", the
 *                                            longest time to an answer
 *   daemon_hostile run SOCKET JOB WORKERS LAYERS MICROBATCHES
 *                                            one process that is all workers of a run and reports; prints
 *                                            "welcome VERDICT TEXT" of the last one, stays until stdin closes
 *   daemon_hostile flood SOCKET WHAT JOB SECONDS
 *                                            as many questions as go into a connection, WHAT: as DP_QUERY_*; prints
 *                                            "answers N"
 *   daemon_hostile events SOCKET JOB SECONDS a worker that says HELLO and then only events; prints "sent N"
 *   daemon_hostile reports SOCKET JOB SECONDS                  and one that says only reports
 *   daemon_hostile hellos SOCKET JOB SECONDS connects and says HELLO, and again; prints "sent N"
 *   daemon_hostile cards SOCKET JOB SECONDS  the same with the largest CARD of a wire-up; prints "answers N"
 *   daemon_hostile silent PORT N FROM        N TCP connections from that address that say nothing, opened again
 *                                            when they are closed, until stdin closes; prints "ready"
 *   daemon_hostile reopen PORT N FROM HOW    N TCP connections from that address that live 20 ms at most, and are opened
 *                                            again at once, HOW: silent; garbage: each sends a credential that is
 *                                            none and stays until it is refused; until stdin closes; prints "ready"
 *                                            and at its end "overtaken N": so many of those that were opened after the
 *                                            first one had spoken were refused before it was, at most
 *   daemon_hostile sessions PORT NODE MUNGE_SOCKET N
 *                                            N authenticated TCP sessions that ask nothing, until stdin closes;
 *                                            prints "open N", how many there are when the last one was made
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/message/client.h"
#include "common/message/session.h"

#define SECOND UINT64_C(1000000000)
#define TIMEOUT_MS 60000u
#define REPORTS 5 /* of each worker, so that a decision is due */

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static void wait_for_stdin(void)
{
    char drop[16];

    while (read(STDIN_FILENO, drop, sizeof drop) > 0)
        ;
}

static int fail(const struct dp_err *err)
{
    printf("error %s\n", err->text);
    return 1;
}

/* ---- the honest one ---- */

static int measure_gap(char **argv)
{
    uint64_t end = dp_now_ns() + number(argv[1]) * SECOND, longest = 0;
    struct dp_err err = {0};
    struct dp_client *c = dp_client_open_unix(argv[0], TIMEOUT_MS, &err);
    uint32_t n = 0;
    char *json;

    while (c && dp_now_ns() < end) {
        uint64_t from = dp_now_ns(), took;

        if (dp_client_query(c, DP_QUERY_NODE, 0, &json, &err) < 0)
            return fail(&err);
        free(json);
        took = dp_now_ns() - from;
        longest = took > longest ? took : longest;
        n++;
        poll(NULL, 0, 20);
    }
    if (!c)
        return fail(&err);
    dp_client_destroy(c);
    printf("answers %u gap %llu\n", n, (unsigned long long)(longest / 1000000));
    return 0;
}

/* ---- a run ---- */

struct shape {
    uint32_t job, workers, layers, microbatches;
};

static uint32_t cut(const struct shape *s, uint32_t rank)
{
    return rank * s->layers / s->workers;
}

static int say_hello(struct dp_client *c, const struct shape *s, uint32_t rank, uint32_t step_id,
                     struct dp_msg_welcome *welcome, struct dp_err *err)
{
    static struct dp_msg_hello m;
    uint8_t body[8192];
    const uint8_t *in;
    struct dp_header h;
    struct dp_reader r;
    struct dp_writer w;

    m = (struct dp_msg_hello){.job_id = s->job, .step_id = step_id, .rank = rank, .n_workers = s->workers,
                              .n_layers = s->layers, .epoch = 1, .steps_total = 1000000000,
                              .microbatches = s->microbatches, .tokens_per_microbatch = 64};
    for (uint32_t i = 0; i <= s->workers; i++)
        m.cut[i] = cut(s, i);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_hello_encode(&w, &m);
    if (dp_client_send(c, DP_MSG_HELLO, body, dp_writer_used(&w), err) < 0 || dp_client_recv(c, &h, &in, err) < 0)
        return -1;
    dp_reader_init(&r, in, h.body_len);
    return dp_msg_welcome_decode(&r, welcome, err);
}

/* The body of a REPORT. returns its bytes. */
static size_t make_report(const struct shape *s, uint32_t rank, uint64_t step, uint8_t *body)
{
    static struct dp_msg_report m;
    struct dp_writer w;

    m = (struct dp_msg_report){.rank = rank, .epoch = 1, .step = step, .window_steps = 1, .loss = 5.0, .grad_norm = 1.0,
                               .step_ns = 20000000, .busy_ns = 10000000 + rank, .first_layer = cut(s, rank),
                               .n_layers = cut(s, rank + 1) - cut(s, rank)};
    for (uint32_t i = 0; i < m.n_layers; i++)
        m.layer[i] = (struct dp_layer_load){.fwd_ns = 100000 + 991 * (i + rank) % 5000, .bwd_input_ns = 100000,
                                            .bwd_weight_ns = 100000, .params = 1000 + i + rank, .nnz = 1000};
    dp_writer_init(&w, body, DP_BODY_MAX);
    dp_msg_report_encode(&w, &m);
    return dp_writer_used(&w);
}

static int be_run(char **argv)
{
    struct shape s = {number(argv[1]), number(argv[2]), number(argv[3]), number(argv[4])};
    struct dp_client **c = calloc(s.workers, sizeof *c);
    static uint8_t body[DP_BODY_MAX];
    struct dp_msg_welcome welcome = {0};
    struct dp_err err = {0};

    for (uint32_t r = 0; r < s.workers; r++) {
        c[r] = dp_client_open_unix(argv[0], TIMEOUT_MS, &err);
        if (!c[r] || say_hello(c[r], &s, r, 0, &welcome, &err) < 0)
            return fail(&err);
    }
    printf("welcome %u %s\n", welcome.verdict, welcome.text);
    fflush(stdout);
    for (uint64_t step = 1; step <= REPORTS && welcome.verdict == DP_VERDICT_OK; step++)
        for (uint32_t r = 0; r < s.workers; r++) {
            size_t bytes = make_report(&s, r, step, body);

            if (dp_client_send(c[r], DP_MSG_REPORT, body, bytes, &err) < 0)
                return fail(&err);
        }
    puts("reported");
    fflush(stdout);
    wait_for_stdin();
    return 0;
}

/* ---- floods ---- */

static int raw_unix(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return -1;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static size_t add_frame(uint8_t *out, enum dp_msg_type type, const uint8_t *body, size_t bytes)
{
    struct dp_header h = {DP_PROTO_VERSION, (uint16_t)type, (uint32_t)bytes, 0};

    dp_header_encode(out, &h);
    memcpy(out + DP_HEADER_BYTES, body, bytes);
    return DP_HEADER_BYTES + bytes;
}

/* Send a block of whole frames again and again, reading nothing but what there is. returns blocks that went out,
 * *in: bytes that came. */
static uint64_t pour(int fd, const uint8_t *block, size_t bytes, uint32_t seconds, uint64_t *in)
{
    uint64_t end = dp_now_ns() + seconds * SECOND, n = 0;
    static uint8_t drop[1u << 20];
    size_t at = 0;

    while (dp_now_ns() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
        ssize_t k;

        if (poll(&p, 1, 100) <= 0)
            continue;
        if ((k = recv(fd, drop, sizeof drop, 0)) > 0)
            *in += (uint64_t)k;
        else if (k == 0)
            break;
        k = send(fd, block + at, bytes - at, MSG_NOSIGNAL);
        if (k < 0 && errno != EAGAIN)
            break;
        at += k > 0 ? (size_t)k : 0;
        n += at == bytes;
        at = at == bytes ? 0 : at;
    }
    return n;
}

static int flood_queries(char **argv)
{
    struct dp_msg_query q = {(uint8_t)number(argv[1]), number(argv[2])};
    static uint8_t block[131072];
    uint8_t body[64];
    struct dp_writer w;
    uint64_t in = 0, n;
    size_t used = 0, each;
    int fd = raw_unix(argv[0]);

    dp_writer_init(&w, body, sizeof body);
    dp_msg_query_encode(&w, &q);
    each = DP_HEADER_BYTES + dp_writer_used(&w);
    while (used + each <= sizeof block)
        used += add_frame(block + used, DP_MSG_QUERY, body, dp_writer_used(&w));
    n = pour(fd, block, used, number(argv[3]), &in);
    printf("blocks %llu bytes %llu\n", (unsigned long long)n, (unsigned long long)in);
    return 0;
}

/* A worker of its own run of one, that then pours frames of one kind. */
static int flood_as_worker(char **argv, bool with_reports)
{
    struct shape s = {number(argv[1]), 1, with_reports ? DP_MAX_LAYERS : 8, 4};
    struct dp_msg_event event = {.kind = DP_EV_EVAL, .value = 1.0, .text = "noise"};
    static uint8_t block[262144], body[DP_BODY_MAX], hello[8192];
    struct dp_msg_hello m = {.job_id = s.job, .n_workers = 1, .n_layers = s.layers, .epoch = 1, .steps_total = 1000000000,
                             .microbatches = 4, .tokens_per_microbatch = 64, .cut = {0, s.layers}};
    struct dp_writer w;
    size_t used, bytes;
    uint64_t in = 0;
    int fd = raw_unix(argv[0]);

    dp_writer_init(&w, hello, sizeof hello);
    dp_msg_hello_encode(&w, &m);
    used = add_frame(block, DP_MSG_HELLO, hello, dp_writer_used(&w));
    if (send(fd, block, used, MSG_NOSIGNAL) < 0)
        return 1;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_event_encode(&w, &event);
    bytes = with_reports ? make_report(&s, 0, 1, body) : dp_writer_used(&w);
    for (used = 0; used + DP_HEADER_BYTES + bytes <= sizeof block;)
        used += add_frame(block + used, with_reports ? DP_MSG_REPORT : DP_MSG_EVENT, body, bytes);
    printf("blocks %llu\n", (unsigned long long)pour(fd, block, used, number(argv[2]), &in));
    return 0;
}

static int flood_hellos(char **argv)
{
    uint64_t end = dp_now_ns() + number(argv[2]) * SECOND;
    struct shape s = {number(argv[1]), 1, 8, 4};
    struct dp_msg_welcome welcome;
    struct dp_err err = {0};
    uint32_t n = 0;

    while (dp_now_ns() < end) {
        struct dp_client *c = dp_client_open_unix(argv[0], 1000, &err);

        if (c && say_hello(c, &s, 0, n, &welcome, &err) == 0)
            n++;
        dp_client_destroy(c);
    }
    printf("answers %u\n", n);
    return 0;
}

static int flood_cards(char **argv)
{
    static const uint8_t address[DP_CARD_MAX];
    uint64_t end = dp_now_ns() + number(argv[2]) * SECOND;
    struct dp_msg_card m = {.job_id = number(argv[1]), .n_workers = DP_MAX_WORKERS, .patience_ms = 300000, .card = address,
                            .card_len = DP_CARD_MAX};
    static uint8_t body[DP_BODY_MAX];
    uint32_t n = 0;

    for (; dp_now_ns() < end; m.rank = (m.rank + 1) % DP_MAX_WORKERS, m.step_id++) {
        struct dp_err err = {0};
        struct dp_client *c = dp_client_open_unix(argv[0], 1000, &err);
        struct dp_header h;
        const uint8_t *in;
        struct dp_writer w;

        dp_writer_init(&w, body, sizeof body);
        dp_msg_card_encode(&w, &m);
        n += c && dp_client_send(c, DP_MSG_CARD, body, dp_writer_used(&w), &err) == 0 && dp_client_recv(c, &h, &in, &err) == 0;
        dp_client_destroy(c);
    }
    printf("answers %u\n", n);
    return 0;
}

/* ---- over TCP ---- */

static bool stdin_ends(int within_ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&in, 1, within_ms) != 0;
}

/* Where the daemon's queue is full the kernel tries again after 1, 3, 7 .. s: a flood that is to end waits for none
 * of that. */
static int connect_silently(const char *from, uint16_t port)
{
    const struct timeval patience = {.tv_sec = 1};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)}, own = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, "127.0.0.1", &addr.sin_addr);
    inet_pton(AF_INET, from, &own.sin_addr);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        bind(fd, (struct sockaddr *)&own, sizeof own) == 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool is_closed(int fd)
{
    char drop[4096];
    ssize_t n = recv(fd, drop, sizeof drop, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* What is closed is opened again. */
static int be_silent(char **argv)
{
    uint16_t port = (uint16_t)number(argv[0]);
    uint32_t n = number(argv[1]);
    int *fd = calloc(n, sizeof *fd);

    for (uint32_t i = 0; fd && i < n; i++)
        fd[i] = connect_silently(argv[2], port);
    puts("ready");
    fflush(stdout);
    while (fd && !stdin_ends(50))
        for (uint32_t i = 0; i < n && !stdin_ends(0); i++)
            if (fd[i] < 0 || is_closed(fd[i])) {
                if (fd[i] >= 0)
                    close(fd[i]);
                fd[i] = connect_silently(argv[2], port);
            }
    return 0;
}

static void send_garbage(int fd)
{
    struct dp_msg_auth auth = {.credential = "MUNGE:nonsense:"};
    uint8_t body[8192], frame[8192 + DP_HEADER_BYTES];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_auth_encode(&w, &auth);
    (void)!send(fd, frame, add_frame(frame, DP_MSG_AUTH, body, dp_writer_used(&w)), MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct reopened {
    int fd;
    bool has_spoken;
    uint64_t since_ns, spoke_ns;
};

/* Has the daemon asked who this is? */
static bool is_asked(int fd)
{
    char drop[4096];

    return recv(fd, drop, sizeof drop, MSG_DONTWAIT | MSG_PEEK) > 0;
}

static bool is_spent(struct reopened *r, bool is_garbage)
{
    if (r->fd < 0)
        return true;
    if (!is_garbage)
        return is_closed(r->fd) || dp_now_ns() - r->since_ns > 20000000u;
    if (!r->has_spoken && is_asked(r->fd)) {
        r->spoke_ns = dp_now_ns();
        send_garbage(r->fd);
        r->has_spoken = true;
    }
    return is_closed(r->fd);
}

/* Number i is looked at now; how often has number 0 been overtaken since it spoke? */
static void count_overtaken(struct reopened *r, uint32_t i, uint32_t *now, uint32_t *most)
{
    if (i == 0)
        *now = 0;
    else if (r[0].has_spoken && r[i].has_spoken && r[i].since_ns > r[0].spoke_ns)
        ++*now;
    if (*now > *most)
        *most = *now;
}

static int reopen(char **argv)
{
    uint16_t port = (uint16_t)number(argv[0]);
    bool is_garbage = !strcmp(argv[3], "garbage");
    uint32_t n = number(argv[1]);
    struct reopened *r = calloc(n, sizeof *r);
    uint32_t overtaken = 0, most = 0;

    for (uint32_t i = 0; r && i < n; i++)
        r[i].fd = -1;
    for (uint64_t round = 0; r && !stdin_ends(1); round++) {
        for (uint32_t i = 0; i < n && !stdin_ends(0); i++)
            if (is_spent(&r[i], is_garbage)) {
                if (r[i].fd >= 0)
                    close(r[i].fd);
                count_overtaken(r, i, &overtaken, &most);
                r[i] = (struct reopened){.fd = connect_silently(argv[2], port), .since_ns = dp_now_ns()};
            }
        if (round == 100) {
            puts("ready");
            fflush(stdout);
        }
    }
    printf("overtaken %u\n", most);
    fflush(stdout);
    free(r);
    return 0;
}

static int hold_sessions(char **argv)
{
    uint32_t n = number(argv[3]), open = 0;
    struct dp_client **c = calloc(n, sizeof *c);
    struct dp_err err = {0};
    char *json;

    for (uint32_t i = 0; i < n; i++)
        c[i] = dp_client_open_tcp("127.0.0.1", (uint16_t)number(argv[0]), NULL, argv[1], argv[2], DP_ANY_UID, 5000, &err);
    for (uint32_t i = 0; i < n; i++)
        if (c[i] && dp_client_query(c[i], DP_QUERY_NODE, 0, &json, &err) == 0) {
            free(json);
            open++;
        }
    printf("open %u\n", open);
    fflush(stdout);
    wait_for_stdin();
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "gap") && argc == 4)
        return measure_gap(argv + 2);
    if (!strcmp(what, "run") && argc == 7)
        return be_run(argv + 2);
    if (!strcmp(what, "flood") && argc == 6)
        return flood_queries(argv + 2);
    if ((!strcmp(what, "events") || !strcmp(what, "reports")) && argc == 5)
        return flood_as_worker(argv + 2, !strcmp(what, "reports"));
    if (!strcmp(what, "hellos") && argc == 5)
        return flood_hellos(argv + 2);
    if (!strcmp(what, "cards") && argc == 5)
        return flood_cards(argv + 2);
    if (!strcmp(what, "silent") && argc == 5)
        return be_silent(argv + 2);
    if (!strcmp(what, "reopen") && argc == 6)
        return reopen(argv + 2);
    if (!strcmp(what, "sessions") && argc == 6)
        return hold_sessions(argv + 2);
    fprintf(stderr, "daemon_hostile: see its source\n");
    return 2;
}
