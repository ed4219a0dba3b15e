/* SPDX-License-Identifier: BSD-3-Clause */
/* What a child of the daemon does to itself before it works. */
#include "daemon/child/helper.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/child.h"
#include "tests/unit/unit.h"

struct seen {
    char oom_score_adj[16];
    int is_dumpable;
};

static size_t look(const void *request, size_t bytes, uint8_t *result)
{
    struct seen s = {.is_dumpable = -1};
    int fd;

    (void)request;
    (void)bytes;
    prctl(PR_SET_DUMPABLE, 0);
    dp_child_limit(UINT64_C(2) << 30, 10.0);
    s.is_dumpable = prctl(PR_GET_DUMPABLE);
    fd = open("/proc/self/oom_score_adj", O_RDONLY);
    if (fd >= 0 && read(fd, s.oom_score_adj, sizeof s.oom_score_adj - 1) < 0)
        s.oom_score_adj[0] = '?';
    memcpy(result, &s, sizeof s);
    return sizeof s;
}

static void keep(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    (void)why;
    if (result && bytes == sizeof(struct seen))
        memcpy(arg, result, sizeof(struct seen));
}

/* As it is where the daemon has parted its rights: nobody may dump it, and its files in /proc are root's. */
static void a_limited_child_is_ended_before_the_daemon(void **state)
{
    struct event_base *base = event_base_new();
    struct seen s = {0};
    struct dp_err err;

    (void)state;
    assert_non_null(base);
    assert_non_null(dp_helper_start(base, look, "", 0, 30.0, keep, &s, &err));
    event_base_dispatch(base);
    event_base_free(base);
    assert_string_equal(s.oom_score_adj, "1000\n");
    assert_int_equal(s.is_dumpable, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_limited_child_is_ended_before_the_daemon),
};
TEST_MAIN("helper", tests)
