/* SPDX-License-Identifier: BSD-3-Clause */
/* The session of a TCP connection, against a munged of its own (own key, socket and folder):
 * replay, wrong receiver, wrong reader, changed, repeated and reordered frames are refused. */
#include "config.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/message/session.h"

static char folder[] = "/tmp/dp-session-XXXXXX";
static char munge_socket[128];
static const char *why_skipped;

static void name_in(char *out, size_t cap, const char *option, const char *name)
{
    snprintf(out, cap, "%s%s/%s", option, folder, name);
}

static int write_key(const char *path)
{
    uint8_t key[1024];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0400), rc;

    if (fd < 0 || dp_random(key, 256, NULL) < 0)
        return -1;
    memset(key + 256, 7, sizeof key - 256);
    rc = write(fd, key, sizeof key) == (ssize_t)sizeof key ? 0 : -1;
    close(fd);
    return rc;
}

static int run_munged(void)
{
    char key[160], sock[160], pid[160], log_file[160], seed[160];
    char *argv[] = {(char *)"munged", key, sock, pid, log_file, seed, (char *)"--num-threads=1", NULL};
    int status;
    pid_t child;

    name_in(key, sizeof key, "--key-file=", "key");
    name_in(sock, sizeof sock, "--socket=", "sock");
    name_in(pid, sizeof pid, "--pid-file=", "pid");
    name_in(log_file, sizeof log_file, "--log-file=", "log");
    name_in(seed, sizeof seed, "--seed-file=", "seed");
    child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);

        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv("/usr/sbin/munged", argv);
        execvp("munged", argv);
        _exit(127);
    }
    /* munged goes to the background only when its socket listens. */
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int setup(void **state)
{
    char key[160];

    (void)state;
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return -1;
    name_in(munge_socket, sizeof munge_socket, "", "sock");
    name_in(key, sizeof key, "", "key");
    if (write_key(key) < 0)
        return -1;
    switch (run_munged()) {
    case 0:
        break;
    case 127:
        why_skipped = "munged is not installed";
        break;
    default:
        why_skipped = "munged does not start in a folder of /tmp here";
    }
    if (why_skipped)
        print_message("# SKIP %s\n", why_skipped);
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"key", "pid", "log", "seed", "sock", "sock.lock"};
    char path[160], line[32] = "";
    int fd;

    (void)state;
    name_in(path, sizeof path, "", "pid");
    fd = open(path, O_RDONLY);
    if (fd >= 0) {
        if (read(fd, line, sizeof line - 1) > 0 && strtol(line, NULL, 10) > 1)
            kill((pid_t)strtol(line, NULL, 10), SIGTERM);
        close(fd);
    }
    for (int tries = 0; tries < 200; tries++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            name_in(path, sizeof path, "", names[i]);
            unlink(path);
        }
        if (rmdir(folder) == 0)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* until munged has written its seed */
    }
    return 0;
}

static void need_munged(void)
{
    if (why_skipped)
        skip();
}

static void challenge_of(struct dp_msg_challenge *c, const char *node)
{
    memset(c, 0, sizeof *c);
    assert_int_equal(dp_challenge_init(c, NULL), 0);
    snprintf(c->node, sizeof c->node, "%s", node);
}

static void pair_of_sessions(struct dp_session *a, struct dp_session *b)
{
    struct dp_msg_challenge challenge;
    struct dp_handshake hs;

    challenge_of(&challenge, "n1");
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &challenge, NULL), 0);
    dp_session_init(a, &hs, true);
    dp_session_init(b, &hs, false);
}

static void opens_what_was_sealed(void **state)
{
    struct dp_msg_challenge challenge;
    struct dp_handshake hs, got;
    dp_digest_t mine, theirs;
    char credential[4096];
    uid_t uid = 12345;
    uint64_t start;

    (void)state;
    need_munged();
    challenge_of(&challenge, "n1");
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &challenge, NULL), 0);
    start = dp_now_ns();
    assert_int_equal(dp_handshake_seal(&hs, munge_socket, geteuid(), credential, sizeof credential, NULL), 0);
    assert_int_equal(dp_handshake_open(credential, munge_socket, &got, &uid, NULL, NULL), 0);
    print_message("# seal and open: %llu us, credential of %zu bytes\n",
                  (unsigned long long)((dp_now_ns() - start) / 1000), strlen(credential));
    assert_int_equal(uid, geteuid());
    assert_memory_equal(&hs, &got, sizeof hs);
    assert_int_equal(dp_handshake_check(&got, &challenge, "n2", DP_PROTO_VERSION, NULL), 0);
    dp_handshake_proof(&hs, mine);
    dp_handshake_proof(&got, theirs);
    assert_true(dp_digest_equal(mine, theirs));
}

static void refuses_replay_and_wrong_receiver(void **state)
{
    struct dp_msg_challenge here, elsewhere, later;
    struct dp_handshake hs, got;
    struct dp_err err = {0};
    char credential[4096];
    uid_t uid;

    (void)state;
    need_munged();
    challenge_of(&here, "n1");
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &here, NULL), 0);
    assert_int_equal(dp_handshake_seal(&hs, munge_socket, geteuid(), credential, sizeof credential, NULL), 0);
    assert_int_equal(dp_handshake_open(credential, munge_socket, &got, &uid, NULL, NULL), 0);
    /* The same munged knows it; a munged elsewhere would not, there the nonce and the name refuse. */
    assert_int_equal(dp_handshake_open(credential, munge_socket, &hs, &uid, NULL, &err), -1);
    assert_int_equal(err.code, DP_EAUTH);
    challenge_of(&later, "n1");
    assert_int_equal(dp_handshake_check(&got, &later, "n2", DP_PROTO_VERSION, &err), -1);
    elsewhere = here;
    snprintf(elsewhere.node, sizeof elsewhere.node, "n3");
    assert_int_equal(dp_handshake_check(&got, &elsewhere, "n2", DP_PROTO_VERSION, &err), -1);
    assert_int_equal(dp_handshake_check(&got, &here, "n4", DP_PROTO_VERSION, &err), -1);
    got.purpose = DP_PURPOSE_CLI; /* a daemon's credential is no command line's, nor the reverse */
    assert_int_equal(dp_handshake_check(&got, &here, "n2", DP_PROTO_VERSION, &err), -1);
}

/* Who stands between two daemons can neither take the version out of the nonce nor change AUTH's. */
static void nobody_is_talked_down(void **state)
{
    struct dp_msg_challenge sent, seen;
    struct dp_handshake hs, got;
    struct dp_err err = {0};
    char credential[4096];
    uid_t uid;

    (void)state;
    challenge_of(&sent, "n1");
    seen = sent;
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &seen, NULL), 0);
    assert_int_equal(hs.version, DP_PROTO_VERSION);
    seen.nonce[DP_DIGEST_BYTES - 1] = 1;
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &seen, NULL), 0);
    assert_int_equal(hs.version, 1); /* it believes it */
    need_munged();
    assert_int_equal(dp_handshake_seal(&hs, munge_socket, geteuid(), credential, sizeof credential, NULL), 0);
    assert_int_equal(dp_handshake_open(credential, munge_socket, &got, &uid, NULL, NULL), 0);
    assert_int_equal(dp_handshake_check(&got, &sent, "n2", 1, &err), -1); /* another nonce */
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &sent, NULL), 0);
    assert_int_equal(dp_handshake_seal(&hs, munge_socket, geteuid(), credential, sizeof credential, NULL), 0);
    assert_int_equal(dp_handshake_open(credential, munge_socket, &got, &uid, NULL, NULL), 0);
    assert_int_equal(dp_handshake_check(&got, &sent, "n2", 1, &err), -1);
    assert_non_null(strstr(err.text, "version"));
}

static void an_old_acceptor_is_spoken_to_in_its_version(void **state)
{
    struct dp_msg_challenge old, future, wrong;
    struct dp_handshake hs;
    struct dp_err err = {0};

    (void)state;
    challenge_of(&old, "n1");
    assert_int_equal(dp_random(old.nonce, sizeof old.nonce, NULL), 0);
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &old, NULL), 0);
    assert_int_equal(hs.version, DP_PROTO_MIN);
    challenge_of(&future, "n1");
    future.nonce[DP_DIGEST_BYTES - 1] = 200;
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &future, NULL), 0);
    assert_int_equal(hs.version, DP_PROTO_VERSION);
    challenge_of(&wrong, "n1");
    wrong.nonce[DP_DIGEST_BYTES - 1] = 2;
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_PEER, "n2", &wrong, &err), -1);
}

static void refuses_wrong_reader_and_damage(void **state)
{
    struct dp_msg_challenge challenge;
    struct dp_handshake hs, got;
    struct dp_err err = {0};
    char credential[4096];
    uid_t uid;

    (void)state;
    need_munged();
    challenge_of(&challenge, "n1");
    assert_int_equal(dp_handshake_init(&hs, DP_PURPOSE_CLI, "", &challenge, NULL), 0);
    assert_int_equal(dp_handshake_seal(&hs, munge_socket, geteuid() + 1, credential, sizeof credential, NULL), 0);
    assert_int_equal(dp_handshake_open(credential, munge_socket, &got, &uid, NULL, &err), -1);
    assert_int_equal(dp_handshake_seal(&hs, munge_socket, DP_ANY_UID, credential, sizeof credential, NULL), 0);
    credential[20] ^= 1;
    assert_int_equal(dp_handshake_open(credential, munge_socket, &got, &uid, NULL, &err), -1);
    assert_int_equal(dp_handshake_open("", munge_socket, &got, &uid, NULL, &err), -1);
    assert_int_equal(dp_handshake_open("MUNGE:nonsense:", munge_socket, &got, &uid, NULL, &err), -1);
    assert_int_equal(dp_handshake_seal(&hs, "/nowhere/munge", DP_ANY_UID, credential, sizeof credential, &err), -1);
}

static void tags_follow_the_order(void **state)
{
    uint8_t header[DP_HEADER_BYTES] = {1, 2, 3}, first[DP_TAG_BYTES], second[DP_TAG_BYTES];
    struct dp_session a, b;

    (void)state;
    pair_of_sessions(&a, &b);
    dp_session_sign(&a, header, "one", 3, first);
    dp_session_sign(&a, header, "two", 3, second);
    assert_int_equal(dp_session_verify(&b, header, "one", 3, first, NULL), 0);
    assert_int_equal(dp_session_verify(&b, header, "two", 3, second, NULL), 0);
    assert_int_equal(dp_session_verify(&b, header, "two", 3, second, NULL), -1); /* repeated */
    pair_of_sessions(&a, &b);
    dp_session_sign(&a, header, "one", 3, first);
    dp_session_sign(&a, header, "two", 3, second);
    assert_int_equal(dp_session_verify(&b, header, "two", 3, second, NULL), -1); /* left out */
    pair_of_sessions(&a, &b);
    dp_session_sign(&a, header, "one", 3, first);
    assert_int_equal(dp_session_verify(&a, header, "one", 3, first, NULL), -1); /* sent back */
}

static void every_changed_bit_is_refused(void **state)
{
    uint8_t header[DP_HEADER_BYTES] = {1, 2, 3}, body[40] = {9}, tag[DP_TAG_BYTES];
    struct dp_session a, b;

    (void)state;
    pair_of_sessions(&a, &b);
    dp_session_sign(&a, header, body, sizeof body, tag);
    for (size_t bit = 0; bit < (sizeof header + sizeof body + sizeof tag) * 8; bit++) {
        struct dp_session copy = b;
        size_t byte = bit / 8;
        uint8_t *p = byte < sizeof header ? header + byte
                     : byte < sizeof header + sizeof body ? body + (byte - sizeof header)
                                                          : tag + (byte - sizeof header - sizeof body);

        *p ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(dp_session_verify(&copy, header, body, sizeof body, tag, NULL), -1);
        *p ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(dp_session_verify(&b, header, body, sizeof body, tag, NULL), 0);
}

/* A run's key is read by the other side of this session, in this direction, for this job, and by nobody else. */
static void a_sealed_key_is_for_one_purpose(void **state)
{
    static const uint8_t key[DP_KEY_BYTES] = "0123456789abcde";
    const uint32_t of[DP_SEAL_OF] = {7, 0, 1}, other[DP_SEAL_OF] = {7, 0, 2};
    uint8_t sealed[DP_SEALED_KEY_BYTES], again[DP_SEALED_KEY_BYTES], back[DP_KEY_BYTES];
    struct dp_session a, b, c, d;

    (void)state;
    pair_of_sessions(&a, &b);
    pair_of_sessions(&c, &d);
    d.seal_in[0] ^= 1;
    assert_int_equal(dp_session_seal(&a, key, of, sealed, NULL), 0);
    assert_int_equal(dp_session_unseal(&b, sealed, of, back, NULL), 0);
    assert_memory_equal(back, key, sizeof key);
    assert_int_equal(dp_session_unseal(&b, sealed, other, back, NULL), -1);
    assert_memory_not_equal(back, key, sizeof key);
    assert_int_equal(dp_session_unseal(&a, sealed, of, back, NULL), -1);
    assert_int_equal(dp_session_unseal(&d, sealed, of, back, NULL), -1);
    for (size_t i = 0; i + sizeof key <= sizeof sealed; i++)
        assert_memory_not_equal(sealed + i, key, sizeof key);
    assert_int_equal(dp_session_seal(&a, key, of, again, NULL), 0);
    assert_memory_not_equal(again + 8, sealed + 8, sizeof key); /* no two seals are alike */
    assert_int_equal(dp_session_unseal(&b, again, of, back, NULL), 0);
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit++) {
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(dp_session_unseal(&b, sealed, of, back, NULL), -1);
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void tag_costs_little(void **state)
{
    static uint8_t header[DP_HEADER_BYTES], body[1024], tag[DP_TAG_BYTES];
    struct dp_session a, b;
    uint64_t start = dp_now_ns();

    (void)state;
    pair_of_sessions(&a, &b);
    for (int i = 0; i < 1000; i++)
        dp_session_sign(&a, header, body, sizeof body, tag);
    print_message("# tag of a 1 KiB frame: %.2f us\n", (double)(dp_now_ns() - start) / 1e6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_what_was_sealed),
        cmocka_unit_test(refuses_replay_and_wrong_receiver),
        cmocka_unit_test(nobody_is_talked_down),
    cmocka_unit_test(an_old_acceptor_is_spoken_to_in_its_version),
    cmocka_unit_test(refuses_wrong_reader_and_damage),
        cmocka_unit_test(tags_follow_the_order),
        cmocka_unit_test(every_changed_bit_is_refused),
        cmocka_unit_test(a_sealed_key_is_for_one_purpose),
        cmocka_unit_test(tag_costs_little),
    };

    return cmocka_run_group_tests_name("session", tests, setup, teardown);
}
