/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of real daemons in their world (daemon_world.h) share. */
#ifndef DP_TESTS_DAEMON_CHECK_H
#define DP_TESTS_DAEMON_CHECK_H

#include <string.h>

#include "tests/unit/unit.h"

#include "tests/unit/daemon/daemon_world.h"

static inline int open_world(void **state)
{
    (void)state;
    return dw_open();
}

static inline int close_world(void **state)
{
    (void)state;
    dw_close();
    return 0;
}

/* Nothing is left of it, and all that must hold did. */
static inline void end_world(void)
{
    char broken[sizeof dw.broken];

    dw_stop();
    memcpy(broken, dw.broken, sizeof broken);
    assert_string_equal(broken, "");
}

#endif
