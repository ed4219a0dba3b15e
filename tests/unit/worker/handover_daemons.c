/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemons and the coordinator of the hand-over tests, see handover_world.h: what a script has them say and expect,
 * and a test's run from its fork to its end. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/handover_world.h"

struct scenario sc;
struct fake_daemon d;
struct fake_peer peer[MAX_PROCS];
uint64_t migration = MIGRATION, epoch = EPOCH; /* of the script; only the long run changes them */

/* ---- the daemons ---- */

void must(int ok, int line)
{
    if (ok)
        return;
    fprintf(stderr, "# coordinator: failed at line %d\n", line);
    _exit(1);
}

void accept_all(uint64_t doubt)
{
    for (uint32_t i = 0; i < sc.n_workers; i++) {
        static struct fake_peer p;
        struct dp_msg_hello hello;
        struct dp_header h;
        struct dp_reader r;
        const uint8_t *body;

        MUST(fake_accept(&d, &p, 20000) == 0);
        MUST(fake_next(&p, 20000, &h, &body) == 1 && h.type == DP_MSG_HELLO);
        dp_reader_init(&r, body, h.body_len);
        MUST(dp_msg_hello_decode(&r, &hello, NULL) == 0);
        MUST(hello.doubt == doubt);
        MUST(hello.epoch == EPOCH);
        peer[hello.rank] = p;
        fake_welcome(&peer[hello.rank], DP_VERDICT_OK, "", "");
    }
}

/* Nobody listens any more before the first line breaks: whoever connects again at once is refused, as by the dead. */
void all_die(void)
{
    fake_daemon_close(&d);
    MUST(fake_daemon_is_dead(&d));
    for (uint32_t i = 0; i < sc.n_workers; i++)
        fake_close(&peer[i]);
}

struct dp_msg_prepare prepare(void)
{
    struct dp_msg_prepare m = {.incarnation = 1, .migration = migration, .epoch = epoch, .n_workers = sc.n_workers,
                               .n_layers = 8};

    memcpy(m.cut, sc.new_cut, sizeof sc.new_cut);
    memcpy(m.gone, sc.gone, sizeof sc.gone);
    return m;
}

void prepare_all(void)
{
    struct dp_msg_prepare m = prepare();

    for (uint32_t i = 0; i < sc.n_workers; i++)
        FAKE_SEND(&peer[i], prepare, DP_MSG_PREPARE, &m);
}

void decide_all(uint32_t incarnation, bool commits)
{
    struct dp_msg_decision m = {.incarnation = incarnation, .migration = migration, .commit = commits,
                                .epoch = epoch + commits, .text = "test"};

    for (uint32_t i = 0; i < sc.n_workers; i++)
        if (peer[i].fd >= 0)
            FAKE_SEND(&peer[i], decision, DP_MSG_DECISION, &m);
}

void finish_all(void)
{
    struct dp_msg_finish m = {.migration = migration};

    for (uint32_t i = 0; i < sc.n_workers; i++)
        FAKE_SEND(&peer[i], finish, DP_MSG_FINISH, &m);
}

struct dp_msg_vote vote_of(uint32_t rank)
{
    struct dp_msg_vote v;
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;

    MUST(fake_next(&peer[rank], 20000, &h, &body) == 1 && h.type == DP_MSG_VOTE);
    dp_reader_init(&r, body, h.body_len);
    MUST(dp_msg_vote_decode(&r, &v, NULL) == 0);
    MUST(v.migration == migration && v.rank == rank && v.incarnation == 1);
    return v;
}

void all_vote_yes(void)
{
    struct dp_msg_vote first = vote_of(0);
    uint64_t sent = first.sent_bytes, received = first.received_bytes;

    MUST(first.yes == 1 && first.boundary == 40);
    for (uint32_t i = 1; i < sc.n_workers; i++) {
        struct dp_msg_vote v = vote_of(i);

        MUST(v.yes == 1 && v.boundary == 40);
        MUST(memcmp(v.digest, first.digest, sizeof v.digest) == 0);
        sent += v.sent_bytes;
        received += v.received_bytes;
    }
    MUST(sent == received);
}

void votes_no(uint32_t rank)
{
    struct dp_msg_vote v = vote_of(rank);

    MUST(v.yes == 0 && v.text[0]);
    MUST(!sc.why || strstr(v.text, sc.why));
}

void all_acknowledge(uint64_t in_force)
{
    for (uint32_t i = 0; i < sc.n_workers; i++) {
        struct dp_msg_decision_ack a;
        struct dp_header h;
        struct dp_reader r;
        const uint8_t *body;

        if (peer[i].fd < 0)
            continue;
        MUST(fake_next(&peer[i], 20000, &h, &body) == 1 && h.type == DP_MSG_DECISION_ACK);
        dp_reader_init(&r, body, h.body_len);
        MUST(dp_msg_decision_ack_decode(&r, &a, NULL) == 0);
        MUST(a.migration == migration && a.rank == i && a.epoch == in_force);
    }
}

void all_checked(void)
{
    struct dp_header h;
    const uint8_t *body;

    for (uint32_t i = 0; i < sc.n_workers; i++)
        MUST(fake_next(&peer[i], 20000, &h, &body) == 1 && h.type == DP_MSG_EVENT);
}

void stay(void)
{
    struct dp_header h;
    const uint8_t *body;

    for (uint32_t i = 0; i < sc.n_workers; i++)
        while (peer[i].fd >= 0 && fake_next(&peer[i], 20000, &h, &body) > 0)
            ;
}

/* ---- scenarios ---- */

void run(void)
{
    procs_body_fn *body = sc.body ? sc.body : worker;
    procs_body_fn *bodies[MAX_PROCS] = {body, body, body, body};
    pid_t pid;
    int status;

    set_model(sc.channels ? sc.channels : 32);
    fake_daemon_start(&d);
    assert_int_equal(pipe(sc.pipe), 0);
    assert_int_equal(pipe(sc.back), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        sc.script();
        stay();
        _exit(0);
    }
    fake_daemon_close(&d); /* its process alone has the socket, and can die with it */
    procs_run(sc.n_workers, bodies, sc.want, false);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(sc.pipe[0]);
    close(sc.pipe[1]);
    close(sc.back[0]);
    close(sc.back[1]);
    fake_daemon_stop(&d);
}

void on_late_devices(void)
{
    const char *build = getenv("DP_BUILDDIR");
    char cwd[2048], path[4096];

    if (!build)
        skip();
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(path, sizeof path, "%s%s%s/tests/lib/late_backend.so", *build == '/' ? "" : cwd, *build == '/' ? "" : "/", build);
    assert_int_equal(setenv("DYNPIPE_CUDA_PLUGIN", path, 1), 0);
    sc.is_late = true;
}

void begin(void (*script)(void), enum ending ending)
{
    sc = (struct scenario){
        .n_workers = 3,
        .old_cut = {0, 4, 6, 8},
        .new_cut = {0, 2, 5, 8},
        .ending = {ending, ending, ending, ending},
        .tampers = -1,
        .dies = -1,
        .stalls = -1,
        .stops = -1,
        .waits = -1,
        .times = {.prepare_ns = 10000 * MS, .stall_ns = 5000 * MS, .poll_ns = 20000 * MS,
                  .member = {.doubt_ns = 20000 * MS, .leave_ns = 20000 * MS}},
        .script = script,
    };
}
