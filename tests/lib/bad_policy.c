/* SPDX-License-Identifier: BSD-3-Clause */
/* A site policy that misbehaves as its argument says; with BAD_ABI, one of another interface. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policies/policy.h"

#ifndef BAD_ABI
#define BAD_ABI DP_POLICY_ABI
#endif

static int bad_open(void **state, int argc, char *const argv[], struct dp_err *err)
{
    if (argc != 1)
        return dp_err_set(err, DP_EINVAL, "wants one argument, got %d", argc);
    if (!strcmp(argv[0], "open"))
        return dp_err_set(err, DP_EINVAL, "does not want to");
    *state = (void *)(uintptr_t)argv[0];
    return 0;
}

static void eat_memory(void)
{
    for (;;) {
        char *p = malloc(1 << 20);

        if (!p)
            abort();
        memset(p, 1, 1 << 20);
    }
}

static int bad_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                      struct dp_err *err)
{
    static unsigned n_asked;
    const char *how = state;

    out->layout = *in->current;
    snprintf(out->reason, sizeof out->reason, "bad: asked %u times by this process", ++n_asked);
    if (!strcmp(how, "crash"))
        raise(SIGSEGV);
    if (!strcmp(how, "rights"))
        return dp_err_set(err, DP_EINVAL, "uid %u %u, root again %d", getuid(), geteuid(), setuid(0) == 0);
    if (!strcmp(how, "exit"))
        _exit(3);
    if (!strcmp(how, "hang"))
        for (;;)
            pause();
    if (!strcmp(how, "spin"))
        for (volatile unsigned i = 0; i < 2; i ^= 1)
            ;
    if (!strcmp(how, "stubborn")) { /* closes every descriptor, ignores every signal, and stays */
        for (int s = 1; s < NSIG; s++)
            signal(s, SIG_IGN);
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        for (;;)
            pause();
    }
    if (!strcmp(how, "memory"))
        eat_memory();
    if (!strcmp(how, "garbage"))
        memset(out, 0xa5, sizeof *out);
    if (!strcmp(how, "layers"))
        out->layout.cut[out->layout.n_workers] = --out->layout.n_layers;
    if (!strcmp(how, "gone"))
        out->layout.gone[in->n_devices - 1] = 1;
    if (!strcmp(how, "none"))
        return dp_err_set(err, DP_EINVAL, "no idea");
    if (!strcmp(how, "mute")) {
        memset(err, 0xff, sizeof *err); /* a text without an end */
        return -1;
    }
    if (!strcmp(how, "scribble")) /* on what it was only lent */
        memset((void *)(uintptr_t)in->current, 0xff, sizeof *in->current);
    return 0;
}

extern const struct dp_policy dp_policy_v1;
const struct dp_policy dp_policy_v1 = {
    .abi = BAD_ABI,
    .name = "bad",
    .help = "misbehaves",
    .open = bad_open,
    .decide = bad_decide,
};
