/* SPDX-License-Identifier: BSD-3-Clause */
/* See procs.h. Cards go through one pipe per process. */
#include "tests/unit/worker/procs.h"

#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCS 4
#define CARD_CAP 3500 /* a whole message below PIPE_BUF */

struct card {
    uint32_t bytes;
    char data[CARD_CAP];
};

static const uint8_t key[16] = "0123456789abcde";

/* One process of a test: give the card to n_out others, take n_in of theirs, run. 0: fine. */
static int child(uint32_t rank, uint32_t n, int in, uint32_t n_in, const int *out, uint32_t n_out,
                 const uint8_t *my_key, procs_body_fn *body)
{
    struct dp_err err = {0};
    struct dp_transport *t = dp_transport_create(rank, n, &err);
    const void *card;
    size_t bytes;
    struct {
        uint32_t rank;
        struct card card;
    } m;
    int rc;

    if (!t) {
        fprintf(stderr, "# create: %s\n", err.text);
        return 1;
    }
    dp_transport_set_key(t, my_key);
    dp_transport_card(t, &card, &bytes);
    memset(&m, 0, sizeof m);
    m.rank = rank;
    m.card.bytes = (uint32_t)bytes;
    if (bytes > CARD_CAP)
        return 2;
    memcpy(m.card.data, card, bytes);
    for (uint32_t i = 0; i < n_out; i++)
        if (i != rank && write(out[i], &m, sizeof m) != (ssize_t)sizeof m)
            return 3;
    for (uint32_t i = 0; i < n_in; i++) {
        size_t got = 0;

        while (got < sizeof m) {
            ssize_t r = read(in, (char *)&m + got, sizeof m - got);

            if (r <= 0)
                return 4;
            got += (size_t)r;
        }
        if (dp_transport_add(t, m.rank, m.card.data, m.card.bytes, &err) < 0) {
            fprintf(stderr, "# add: %s\n", err.text);
            return 5;
        }
    }
    rc = body(t, rank);
    dp_transport_destroy(t);
    return rc;
}

void procs_run(uint32_t n, procs_body_fn *const body[], const int want[], bool has_stranger)
{
    int pipes[MAX_PROCS][2], out[MAX_PROCS];
    uint32_t n_real = n - has_stranger;
    pid_t pid[MAX_PROCS];

    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        out[i] = pipes[i][1];
    }
    for (uint32_t i = 0; i < n; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            alarm(60);
            if (i < n_real)
                _exit(child(i, n_real, pipes[i][0], n_real - 1, out, i == 0 ? n : n_real, key, body[i]));
            _exit(child(1, n_real, pipes[i][0], 1, out, 0, (const uint8_t *)"no key but this", body[i]));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    for (uint32_t i = 0; i < n; i++) {
        int status, code;

        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
        if (code != want[i])
            fail_msg("process %u of %u ended with %d, not %d", i, n, code, want[i]);
    }
}
