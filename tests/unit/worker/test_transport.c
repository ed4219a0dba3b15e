/* SPDX-License-Identifier: BSD-3-Clause */
/* The data plane between forked processes: exact matching, sizes around the bounce limit, a sleeping
 * receiver, leavers, a killed peer, injected and damaged messages; which node a worker is on. */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/procs.h"
#include "worker/net/link_times.h"
#include "worker/net/siphash.h"

static int say(const struct dp_err *err, int rc)
{
    fprintf(stderr, "# %d: %s\n", rc, err->text);
    return rc;
}

static int send_all(struct dp_transport *t, uint32_t to, uint64_t tag, const void *data, size_t bytes)
{
    struct dp_err err = {0};
    struct dp_transport_request *x = dp_transport_send(t, to, tag, data, bytes, &err);

    if (!x || dp_transport_wait(t, x, 0, NULL, &err) < 0)
        return say(&err, 10);
    return 0;
}

static int recv_all(struct dp_transport *t, uint32_t from, uint64_t tag, void *data, size_t bytes)
{
    struct dp_err err = {0};
    struct dp_transport_request *x = dp_transport_recv(t, from, tag, data, bytes, &err);

    if (!x || dp_transport_wait(t, x, 0, NULL, &err) < 0)
        return say(&err, 11);
    return 0;
}

static uint8_t pattern(size_t size, size_t i)
{
    return (uint8_t)(size * 31 + i * 7 + (i >> 8));
}

static const size_t sizes[] = {0, 1, 47, 4096, 8143, 8144, 8145, 100000, 1 << 20, 6291456};
#define N_SIZES (sizeof sizes / sizeof *sizes)

/* All messages in flight at once, received in the opposite order: only exact matching gets it right. */
static int send_sizes(struct dp_transport *t, uint32_t rank)
{
    struct dp_err err = {0};
    struct dp_transport_request *x[N_SIZES];
    uint8_t *data[N_SIZES];
    int rc = 0;

    (void)rank;
    for (size_t k = 0; k < N_SIZES; k++) {
        data[k] = malloc(sizes[k] + 1);
        for (size_t i = 0; i < sizes[k]; i++)
            data[k][i] = pattern(sizes[k], i);
        x[k] = dp_transport_send(t, 1, dp_tag(DP_CH_ACTIVATION, 1, 7, (uint32_t)k), data[k], sizes[k], &err);
        if (!x[k])
            return say(&err, 20);
    }
    for (size_t k = 0; k < N_SIZES; k++) {
        if (dp_transport_wait(t, x[k], 0, NULL, &err) < 0)
            rc = say(&err, 21);
        free(data[k]);
    }
    return rc;
}

static int recv_sizes(struct dp_transport *t, uint32_t rank)
{
    int rc = 0;

    (void)rank;
    for (size_t k = N_SIZES; k-- > 0 && !rc;) {
        uint8_t *data = malloc(sizes[k] + 1);

        data[sizes[k]] = 0xa5;
        rc = recv_all(t, 0, dp_tag(DP_CH_ACTIVATION, 1, 7, (uint32_t)k), data, sizes[k]);
        for (size_t i = 0; i < sizes[k] && !rc; i++)
            if (data[i] != pattern(sizes[k], i))
                rc = 22;
        if (data[sizes[k]] != 0xa5)
            rc = 23;
        free(data);
    }
    return rc;
}

static void exact_matching_of_all_sizes(void **state)
{
    (void)state;
    procs_run(2, (procs_body_fn *[]){send_sizes, recv_sizes}, (int[]){0, 0}, false);
}

static void the_same_over_tcp(void **state)
{
    (void)state;
    setenv("UCX_TLS", "tcp", 1);
    procs_run(2, (procs_body_fn *[]){send_sizes, recv_sizes}, (int[]){0, 0}, false);
    unsetenv("UCX_TLS");
}

/* Three workers pass a number around; worker 1 leaves after the first round and is removed. */
static int ring_with_leaver(struct dp_transport *t, uint32_t rank)
{
    uint32_t alive[2][3] = {{0, 1, 2}, {0, 2, 0}}, n_alive[2] = {3, 2};

    for (int phase = 0; phase < 2; phase++) {
        for (uint32_t i = 0; i < 300; i++) {
            uint64_t v = 0, tag = dp_tag(DP_CH_COLLECTIVE, (uint64_t)phase, i, 0);
            uint32_t k = 0, n = n_alive[phase], next, prev;

            while (alive[phase][k] != rank)
                k++;
            next = alive[phase][(k + 1) % n];
            prev = alive[phase][(k + n - 1) % n];
            if (k == 0 && (send_all(t, next, tag, &v, sizeof v) || recv_all(t, prev, tag, &v, sizeof v) || v != n - 1))
                return 30;
            if (k && (recv_all(t, prev, tag, &v, sizeof v) || (v++, send_all(t, next, tag, &v, sizeof v))))
                return 31;
        }
        if (rank == 1)
            return 0;
        if (phase == 0)
            dp_transport_remove(t, 1);
    }
    return 0;
}

static void a_leaver_disturbs_nobody(void **state)
{
    static const char *const tls[] = {NULL, "tcp"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (tls[i])
            setenv("UCX_TLS", tls[i], 1);
        procs_run(3, (procs_body_fn *[]){ring_with_leaver, ring_with_leaver, ring_with_leaver}, (int[]){0, 0, 0}, false);
    }
    unsetenv("UCX_TLS");
}

static int die_after_hello(struct dp_transport *t, uint32_t rank)
{
    int v = 1;

    (void)rank;
    if (send_all(t, 0, dp_tag(DP_CH_COLLECTIVE, 0, 0, 0), &v, sizeof v))
        return 40;
    if (recv_all(t, 0, dp_tag(DP_CH_COLLECTIVE, 0, 1, 0), &v, sizeof v))
        return 41;
    kill(getpid(), SIGKILL);
    return 42;
}

static int expect_gone(struct dp_transport *t, uint32_t rank)
{
    struct dp_err err = {0};
    uint64_t start_ns;
    struct dp_transport_request *x;
    int v;

    (void)rank;
    if (recv_all(t, 1, dp_tag(DP_CH_COLLECTIVE, 0, 0, 0), &v, sizeof v) || send_all(t, 1, dp_tag(DP_CH_COLLECTIVE, 0, 1, 0), &v, sizeof v))
        return 43;
    start_ns = dp_now_ns();
    x = dp_transport_recv(t, 1, dp_tag(DP_CH_COLLECTIVE, 0, 2, 0), &v, sizeof v, &err);
    if (!x)
        return err.code == DP_EGONE ? 0 : 44;
    if (dp_transport_wait(t, x, 0, NULL, &err) == 0 || err.code != DP_EGONE)
        return say(&err, 45);
    return dp_now_ns() - start_ns < 20000000000u ? 0 : 46;
}

static void a_killed_peer_is_gone(void **state)
{
    static const char *const tls[] = {NULL, "tcp"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (tls[i])
            setenv("UCX_TLS", tls[i], 1);
        procs_run(2, (procs_body_fn *[]){expect_gone, die_after_hello}, (int[]){0, 256 + SIGKILL}, false);
    }
    unsetenv("UCX_TLS");
}

/* A receiver that waits long sleeps: its CPU time stays far below the time that passes. The sender is late on
 * purpose: it begins to wait when the receiver has waited in vain. */
enum { LATE_MS = 300 };

static int late_sender(struct dp_transport *t, uint32_t rank)
{
    int v = 5;

    (void)rank;
    if (recv_all(t, 1, dp_tag(DP_CH_WIREUP, 0, 1, 0), &v, sizeof v))
        return 55;
    poll(NULL, 0, LATE_MS);
    v = 5;
    return send_all(t, 1, dp_tag(DP_CH_WIREUP, 0, 0, 0), &v, sizeof v);
}

static int watched;

static void on_watch(void *arg)
{
    char c;

    if (read(*(int *)arg, &c, 1) == 1)
        watched++;
}

static int sleeping_receiver(struct dp_transport *t, uint32_t rank)
{
    uint64_t start_ns = dp_now_ns(), waited_ns = 0, cpu_ns;
    struct dp_err err = {0};
    struct dp_transport_request *x;
    int p[2], v = 0;

    (void)rank;
    if (pipe(p) < 0 || write(p[1], "x", 1) != 1)
        return 50;
    dp_transport_watch(t, p[0], on_watch, &p[0]);
    x = dp_transport_recv(t, 0, dp_tag(DP_CH_WIREUP, 0, 0, 0), &v, sizeof v, &err);
    if (!x || dp_transport_wait(t, x, 20000000, &waited_ns, &err) == 0 || err.code != DP_ETIMEOUT)
        return 51;
    if (send_all(t, 0, dp_tag(DP_CH_WIREUP, 0, 1, 0), &watched, sizeof watched))
        return 54;
    cpu_ns = dp_thread_cpu_ns();
    if (dp_transport_wait(t, x, 0, &waited_ns, &err) < 0 || v != 5 || watched != 1)
        return say(&err, 52);
    cpu_ns = dp_thread_cpu_ns() - cpu_ns;
    return waited_ns >= 20000000 && waited_ns <= dp_now_ns() - start_ns && cpu_ns < LATE_MS * 1000000u / 4 ? 0 : 53;
}

static void waiting_sleeps(void **state)
{
    (void)state;
    procs_run(2, (procs_body_fn *[]){late_sender, sleeping_receiver}, (int[]){0, 0}, false);
}

/* Worker 2 claims to be worker 1 (it has its own key): worker 0 drops that and takes the real one. */
static int honest(struct dp_transport *t, uint32_t rank)
{
    static uint8_t big[100000];
    int v = 1, go;

    (void)rank;
    memset(big, 1, sizeof big);
    if (recv_all(t, 0, dp_tag(DP_CH_WIREUP, 0, 0, 0), &go, sizeof go)) /* the injected ones are there */
        return 60;
    return send_all(t, 0, dp_tag(DP_CH_LAYER, 0, 0, 0), &v, sizeof v) ||
                   send_all(t, 0, dp_tag(DP_CH_LAYER, 0, 0, 1), big, sizeof big)
               ? 61
               : 0;
}

static int victim(struct dp_transport *t, uint32_t rank)
{
    static uint8_t big[100000];
    struct dp_err err = {0};
    struct dp_transport_request *a, *b;
    int v = 0;

    (void)rank;
    a = dp_transport_recv(t, 1, dp_tag(DP_CH_LAYER, 0, 0, 0), &v, sizeof v, &err);
    b = dp_transport_recv(t, 1, dp_tag(DP_CH_LAYER, 0, 0, 1), big, sizeof big, &err);
    if (!a || !b)
        return say(&err, 62);
    if (dp_transport_wait(t, a, 500000000, NULL, &err) == 0 || err.code != DP_ETIMEOUT)
        return 63;
    if (send_all(t, 1, dp_tag(DP_CH_WIREUP, 0, 0, 0), &v, sizeof v))
        return 64;
    if (dp_transport_wait(t, a, 0, NULL, &err) < 0 || v != 1)
        return say(&err, 65);
    if (dp_transport_wait(t, b, 0, NULL, &err) < 0 || big[0] != 1 || big[sizeof big - 1] != 1)
        return say(&err, 66);
    return 0;
}

static int stranger(struct dp_transport *t, uint32_t rank)
{
    static uint8_t big[100000];
    struct dp_err err = {0};
    int v = 666;

    (void)rank;
    if (send_all(t, 0, dp_tag(DP_CH_LAYER, 0, 0, 0), &v, sizeof v))
        return 70;
    if (send_all(t, 0, dp_tag(DP_CH_LAYER, 0, 0, 0), big, 5000)) /* longer than what is expected */
        return 71;
    /* The header is dropped; nobody ever fetches the payload. */
    dp_transport_cancel(t, dp_transport_send(t, 0, dp_tag(DP_CH_LAYER, 0, 0, 1), big, sizeof big, &err));
    return 0;
}

static void injected_messages_are_dropped(void **state)
{
    (void)state;
    procs_run(3, (procs_body_fn *[]){victim, honest, stranger}, (int[]){0, 0, 0}, true);
}

static int wrong_size(struct dp_transport *t, uint32_t rank)
{
    uint64_t v = 1;

    (void)rank;
    return send_all(t, 1, dp_tag(DP_CH_COLLECTIVE, 0, 0, 0), &v, 7);
}

static int refuses(struct dp_transport *t, uint32_t rank)
{
    struct dp_err err = {0};
    uint64_t v = 0;
    struct dp_transport_request *x = dp_transport_recv(t, 0, dp_tag(DP_CH_COLLECTIVE, 0, 0, 0), &v, sizeof v, &err);

    (void)rank;
    if (!x || dp_transport_wait(t, x, 0, NULL, &err) == 0)
        return 80;
    return err.code == DP_ECORRUPT || err.code == DP_EGONE ? 0 : say(&err, 81);
}

static void a_wrong_length_is_refused(void **state)
{
    (void)state;
    procs_run(2, (procs_body_fn *[]){wrong_size, refuses}, (int[]){0, 0}, false);
}

#define BIG 100000

static int measure(struct dp_transport *t, uint32_t rank)
{
    struct dp_err err = {0};
    struct dp_link_times link = {7, 7};

    (void)rank;
    if (dp_link_measure(t, rank, 4, BIG, true, &link, &err) < 0)
        return say(&err, 90);
    return rank == 3 && (link.latency_ns || link.transfer_ns) ? 91 : 0;
}

/* Every worker but the first and the last has two neighbours to measure with, one after the other. */
static void links_of_a_chain(void **state)
{
    (void)state;
    procs_run(4, (procs_body_fn *[]){measure, measure, measure, measure}, (int[]){0, 0, 0, 0}, false);
}

static int measures_a_slow_one(struct dp_transport *t, uint32_t rank)
{
    struct dp_err err = {0};
    struct dp_link_times link;

    if (dp_link_measure(t, rank, 2, BIG, true, &link, &err) < 0)
        return say(&err, 92);
    /* 2 ms in a round trip of two messages; what this worker computes is taken off. */
    if (!(link.latency_ns > 800000 && link.latency_ns < 1000000000))
        return 93;
    return link.transfer_ns > 4000000 && link.transfer_ns < 1000000000 ? 0 : 94;
}

/* As the measurement answers, but 2 ms late, and 14 ms with the large message. */
static int answers_late(struct dp_transport *t, uint32_t rank)
{
    static char data[BIG];
    struct dp_err err = {0};

    (void)rank;
    for (uint32_t i = 0; i < 2 * 21; i++) {
        uint64_t tag = dp_tag(DP_CH_ACTIVATION, 0, 0xffffff, i);
        size_t bytes = i < 21 ? 8 : sizeof data;
        struct dp_transport_request *x = dp_transport_recv(t, 0, tag, data, bytes, &err);

        if (!x || dp_transport_wait(t, x, 0, NULL, &err) < 0)
            return say(&err, 95);
        nanosleep(&(struct timespec){.tv_nsec = i < 21 ? 2000000 : 14000000}, NULL);
        x = dp_transport_send(t, 0, tag, data, bytes, &err);
        if (!x || dp_transport_wait(t, x, 0, NULL, &err) < 0)
            return say(&err, 96);
    }
    return 0;
}

static void latency_and_transfer_are_told_apart(void **state)
{
    (void)state;
    procs_run(2, (procs_body_fn *[]){measures_a_slow_one, answers_late}, (int[]){0, 0}, false);
}

static int deaf_end[2]; /* a word for each when workers 1 and 2 may end */

static int is_deaf(struct dp_transport *t, uint32_t rank)
{
    char c;

    (void)t;
    (void)rank;
    return read(deaf_end[0], &c, 1) == 1 ? 0 : 97;
}

static bool is_told;

static void take_word(void *arg)
{
    char c;

    is_told |= read(*(int *)arg, &c, 1) == 1;
}

static bool was_told(void *arg)
{
    (void)arg;
    return is_told;
}

/* What it sends to a worker that does not read is queued; UCX then never lets it sleep. What is watched is heard all the same, in a
 * wait for a third one and between looks of its own. */
static int queues_and_waits(struct dp_transport *t, uint32_t rank)
{
    enum { N = 20000 };
    static struct dp_transport_request *x[N], *from;
    struct dp_err err = {0};
    static char data[64];
    int word[2], rc = 0;

    (void)rank;
    if (pipe(word) < 0)
        return 98;
    for (uint32_t i = 0; i < N; i++)
        if (!(x[i] = dp_transport_send(t, 2, dp_tag(DP_CH_SHADOW, 1, i, 0), data, sizeof data, &err)))
            return say(&err, 99);
    dp_transport_watch(t, word[0], take_word, &word[0]);
    dp_transport_give_up_when(t, was_told, NULL);
    for (int i = 0; i < 2 && !rc; i++) {
        is_told = false;
        if (write(word[1], "x", 1) != 1)
            return 100;
        if (i) {
            while (!is_told)
                dp_transport_idle(t, 1000000);
        } else {
            from = dp_transport_recv(t, 1, dp_tag(DP_CH_ACTIVATION, 1, 1, 0), data, sizeof data, &err);
            rc = from && dp_transport_wait(t, from, 0, NULL, &err) < 0 && err.code == DP_EGONE ? 0 : say(&err, 101);
        }
    }
    for (uint32_t i = 0; i < N; i++)
        dp_transport_cancel(t, x[i]);
    return write(deaf_end[1], "xx", 2) == 2 ? rc : 103;
}

static int waits_for_its_end(struct dp_transport *t, uint32_t rank)
{
    char c;

    (void)t;
    (void)rank;
    return read(deaf_end[0], &c, 1) == 1 ? 0 : 102;
}

static void who_waits_is_heard_beside_a_deaf_peer(void **state)
{
    (void)state;
    assert_int_equal(pipe(deaf_end), 0);
    procs_run(3, (procs_body_fn *[]){queues_and_waits, waits_for_its_end, is_deaf}, (int[]){0, 0, 0}, false);
    close(deaf_end[0]);
    close(deaf_end[1]);
}

/* Cards alone: nobody sends anything. Three workers say where Slurm has them, two of these on one node, or that they know of no Slurm. */
static void nodes_are_told_apart(void **state)
{
    static const char *const name[] = {"n1", "n2", "n1"};
    struct dp_err err = {0};

    (void)state;
    for (int has_slurm = 0; has_slurm <= 1; has_slurm++) {
        struct dp_transport *t[3];
        uint32_t node[3];

        for (uint32_t i = 0; i < 3; i++) {
            if (has_slurm)
                setenv("SLURMD_NODENAME", name[i], 1);
            t[i] = dp_transport_create(i, 4, &err);
            assert_non_null(t[i]);
        }
        unsetenv("SLURMD_NODENAME");
        for (uint32_t i = 0; i < 3; i++) {
            node[i] = dp_transport_node(t[i], i);
            assert_int_not_equal(node[i], 0);
        }
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t k = 0; k < 3; k++) {
                const void *card;
                size_t bytes;

                dp_transport_card(t[k], &card, &bytes);
                if (i != k) {
                    assert_int_equal(dp_transport_node(t[i], k), 0);
                    assert_int_equal(dp_transport_add(t[i], k, card, bytes, &err), 0);
                }
                assert_int_equal(dp_transport_node(t[i], k), node[k]);
            }
            assert_int_equal(dp_transport_node(t[i], 3), 0); /* a seat that nobody has */
            assert_int_equal(dp_transport_node(t[i], 4), 0);
            dp_transport_lose(t[i], (i + 1) % 3);
            assert_int_equal(dp_transport_node(t[i], (i + 1) % 3), node[(i + 1) % 3]);
        }
        assert_int_equal(node[0], node[2]);
        assert_true((node[0] == node[1]) == !has_slurm);
        for (uint32_t i = 0; i < 3; i++)
            dp_transport_destroy(t[i]);
    }
}

static void siphash_of_the_paper(void **state)
{
    uint8_t k[16], in[15];

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        k[i] = (uint8_t)i;
    memcpy(in, k, sizeof in);
    assert_true(dp_siphash(k, in, sizeof in) == 0xa129ca6149be45e5u);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(siphash_of_the_paper),
    cmocka_unit_test(nodes_are_told_apart),
    cmocka_unit_test(exact_matching_of_all_sizes),
    cmocka_unit_test(the_same_over_tcp),
    cmocka_unit_test(a_leaver_disturbs_nobody),
    cmocka_unit_test(a_killed_peer_is_gone),
    cmocka_unit_test(waiting_sleeps),
    cmocka_unit_test(who_waits_is_heard_beside_a_deaf_peer),
    cmocka_unit_test(injected_messages_are_dropped),
    cmocka_unit_test(a_wrong_length_is_refused),
    cmocka_unit_test(links_of_a_chain),
    cmocka_unit_test(latency_and_transfer_are_told_apart),
};
TEST_MAIN("transport", tests)
