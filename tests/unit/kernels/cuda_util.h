/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA backend on the emulator, linked into the test. */
#ifndef DP_TESTS_UNIT_CUDA_UTIL_H
#define DP_TESTS_UNIT_CUDA_UTIL_H

#include "kernels/backend.h"
#include "kernels/cuda/emu/emu.h"
#include "tests/unit/unit.h"

extern const struct dp_backend_ops dp_backend_v1;

/* A backend on a device as `settings` have it; NULL and err when it does not open. */
static inline struct dp_backend *open_emulator(const struct dp_emu_settings *settings, struct dp_err *err)
{
    struct dp_backend *be = calloc(1, sizeof *be);

    assert_non_null(be);
    dp_emu_configure(settings);
    be->ops = &dp_backend_v1;
    if (be->ops->open(be, 0, 1, err) == 0)
        return be;
    free(be);
    return NULL;
}

static inline void close_emulator(struct dp_backend *be)
{
    if (be)
        be->ops->close(be);
    free(be);
}

/* Everything was given back. */
static inline void check_nothing_lives(const char *what)
{
    struct dp_emu_counts c = dp_emu_count();

    if (c.blocks || c.staging || c.streams || c.events || c.opened || c.graphs)
        fail_msg("%s: %ld arrays, %ld of staging memory, %ld streams, %ld events, %ld of other processes and %ld graphs are left", what,
                 c.blocks, c.staging, c.streams, c.events, c.opened, c.graphs);
}

/* A call of the table must succeed: DO(be, put, dst, src, bytes). */
#define DO(be, name, ...)                                              \
    do {                                                               \
        struct dp_err do_err = {0};                                    \
        if ((be)->ops->name((be), ##__VA_ARGS__, &do_err) < 0)         \
            fail_msg(#name ": %s", do_err.text);                       \
    } while (0)

#endif
