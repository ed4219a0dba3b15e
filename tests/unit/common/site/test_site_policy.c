/* SPDX-License-Identifier: BSD-3-Clause */
/* Site policies: which files are loaded, what a policy that misbehaves in every way costs, and the example
 * of etc/examples. The shared objects are built by make check; DP_BUILDDIR says where. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file/trusted_file.h"
#include "common/site/site_policy.h"
#include "policies/list.h"
#include "policies/predict/answer.h"

#define LAYERS 8
#define DEVICES 4

static char dir[256]; /* of this test's own copies: a build folder may be others' to write */

struct fixture {
    struct dp_layer_load layer[LAYERS];
    struct dp_layout layout;
    struct dp_device device[DEVICES];
    struct dp_policy_in in;
    struct dp_policy_out out;
    struct dp_err err;
    struct dp_site_policy site;
};

static void init(struct fixture *t, const char *file, const char *arguments, double timeout_s)
{
    char path[512];

    memset(t, 0, sizeof *t);
    for (uint32_t i = 0; i < LAYERS; i++)
        t->layer[i] = (struct dp_layer_load){1000000, 1000000, 1000000, 1000, 0, 500, 500};
    t->layer[0].fwd_ns = 19000000; /* 21 ms, the others 3 */
    t->layout =
        (struct dp_layout){.epoch = 5, .n_workers = DEVICES, .n_layers = LAYERS, .cut = {0, 2, 4, 6, 8}};
    for (uint32_t d = 0; d < DEVICES; d++)
        t->device[d] = (struct dp_device){1.0, 0, d, true};
    t->in = (struct dp_policy_in){.n_layers = LAYERS,
                                  .n_devices = DEVICES,
                                  .n_slots = DEVICES,
                                  .layer = t->layer,
                                  .current = &t->layout,
                                  .device = t->device,
                                  .microbatches = 8};
    snprintf(path, sizeof path, "%s/%s", dir, file);
    dp_site_policy_init(&t->site, "mine", path, arguments, timeout_s);
}

static int run(struct fixture *t)
{
    return dp_policy_run(&t->site.policy, &t->site, &t->in, &t->out, &t->err);
}

static void copy(const char *name)
{
    const char *build = getenv("DP_BUILDDIR");
    char path[512];
    static char buf[1 << 16];
    ssize_t n;
    int in, out;

    snprintf(path, sizeof path, "%s/tests/lib/%s", build ? build : ".", name);
    in = open(path, O_RDONLY);
    if (in < 0)
        fail_msg("%s is not built", path);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(out >= 0);
    while ((n = read(in, buf, sizeof buf)) > 0)
        assert_int_equal(write(out, buf, (size_t)n), n);
    close(in);
    close(out);
    chmod(path, 0644);
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/dp-site-XXXXXX");
    assert_non_null(mkdtemp(dir));
    copy("headroom.so");
    copy("bad_policy.so");
    copy("old_policy.so");
    return 0;
}

static int remove_dir(void **state)
{
    static const char *const name[] = {"headroom.so", "bad_policy.so", "old_policy.so", "text", "link.so"};
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, name[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static void the_example_decides(void **state)
{
    (void)state;
    struct fixture t;
    char text[256];

    init(&t, "headroom.so", "", 10.0);
    assert_int_equal(dp_site_policy_probe(&t.site, &t.err), 0);
    assert_int_equal(run(&t), 0);
    dp_layout_format(&t.out.layout, text, sizeof text);
    assert_string_equal(text, "0|1-3|4-5|6-7");
    assert_string_equal(t.out.reason,
                        "headroom: slowest device computes 168.000 ms a step, 10 % of the memory stay free");
    assert_int_equal(t.out.bottleneck_ns, 168000000); /* by our own simulator */
    /* 3000 bytes hold three layers, 10 % less only two */
    for (uint32_t d = 0; d < DEVICES; d++)
        t.device[d].mem_limit_bytes = 3000;
    assert_int_equal(run(&t), 0);
    dp_layout_format(&t.out.layout, text, sizeof text);
    assert_string_equal(text, "0-1|2-3|4-5|6-7");
    init(&t, "headroom.so", "free=0", 10.0);
    for (uint32_t d = 0; d < DEVICES; d++)
        t.device[d].mem_limit_bytes = 3000;
    assert_int_equal(run(&t), 0);
    dp_layout_format(&t.out.layout, text, sizeof text);
    assert_string_equal(text, "0|1-3|4-5|6-7");
    for (uint32_t d = 0; d < DEVICES; d++)
        t.device[d].mem_limit_bytes = 1000;
    assert_int_equal(run(&t), -1);
    assert_false(dp_policy_is_broken(&t.err)); /* it works: these devices are too small */
    assert_non_null(strstr(t.err.text, "policy mine: "));
    init(&t, "headroom.so", "  free=20\t", 10.0);
    assert_int_equal(dp_site_policy_probe(&t.site, &t.err), 0);
    init(&t, "headroom.so", "free=nan", 10.0);
    assert_int_equal(dp_site_policy_probe(&t.site, &t.err), -1);
    assert_string_equal(t.err.text, "policy mine: argument 'free=nan': expected free=PERCENT, 0 to 90");
}

static void another_interface_is_refused_with_both_numbers(void **state)
{
    (void)state;
    struct fixture t;
    char want[512];

    init(&t, "old_policy.so", "x", 10.0);
    snprintf(want, sizeof want,
             "policy mine: %s/old_policy.so: it has policy interface 4711, this program has %d", dir,
             DP_POLICY_ABI);
    assert_int_equal(dp_site_policy_probe(&t.site, &t.err), -1);
    assert_string_equal(t.err.text, want);
    assert_int_equal(run(&t), -1);
    assert_string_equal(t.err.text, want);
    assert_true(dp_policy_is_broken(&t.err));
}

static void files_that_are_no_policy(void **state)
{
    (void)state;
    struct fixture t;
    char path[512], link[512];
    int fd;

    init(&t, "text", "", 10.0);
    assert_int_equal(dp_site_policy_probe(&t.site, &t.err), -1);
    assert_non_null(strstr(t.err.text, "No such file"));
    snprintf(path, sizeof path, "%s/text", dir);
    fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_int_equal(write(fd, "no library\n", 11), 11);
    close(fd);
    assert_int_equal(dp_site_policy_probe(&t.site, &t.err), -1);
    assert_non_null(strstr(t.err.text, "cannot be loaded"));
    assert_true(dp_policy_is_broken(&t.err));
    snprintf(link, sizeof link, "%s/link.so", dir);
    assert_int_equal(symlink("headroom.so", link), 0);
    assert_int_equal(dp_trusted_file_check(link, &t.err), -1);
    assert_non_null(strstr(t.err.text, "is a symbolic link"));
}

static void others_may_not_write_it(void **state)
{
    (void)state;
    struct dp_err err;
    char path[512], odd[1024];

    snprintf(path, sizeof path, "%s/headroom.so", dir);
    assert_int_equal(dp_trusted_file_check(path, &err), 0);
    for (int bit = S_IWOTH; bit <= S_IWGRP; bit = bit << 3) {
        chmod(path, 0644 | (mode_t)bit);
        assert_int_equal(dp_trusted_file_check(path, &err), -1);
        assert_non_null(strstr(err.text, "others may write to it"));
        chmod(path, 0644);
        chmod(dir, 0755 | (mode_t)bit);
        assert_int_equal(dp_trusted_file_check(path, &err), -1);
        assert_non_null(strstr(err.text, "others may write to it"));
        chmod(dir, 0700);
    }
    assert_int_equal(dp_trusted_file_check("headroom.so", &err), -1);
    assert_non_null(strstr(err.text, "absolute"));
    assert_int_equal(dp_trusted_file_check("", &err), -1);
    assert_int_equal(dp_trusted_file_check(dir, &err), -1);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(dp_trusted_file_check("/dev/null", &err), -1);
    snprintf(odd, sizeof odd, "%s/../%s/headroom.so", dir, strrchr(dir, '/') + 1);
    assert_int_equal(dp_trusted_file_check(odd, &err), -1);
    memset(odd, 'a', sizeof odd);
    odd[0] = '/';
    odd[sizeof odd - 1] = '\0';
    assert_int_equal(dp_trusted_file_check(odd, &err), -1);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 0), 0);
        assert_int_equal(dp_trusted_file_check(path, &err), -1);
        assert_non_null(strstr(err.text, "belongs to uid 12345"));
        assert_int_equal(chown(path, 0, 0), 0);
    }
}

/* What it does, what is said of it, and whether it is asked again. */
static const struct misdeed {
    const char *how, *says;
    bool is_broken;
} misdeed[] = {
    {"crash", "it crashed: signal 11", true},
    {"exit", "it ended its process (status 3) instead of answering", true},
    {"hang", "no answer within 0.3 s", true},
    {"spin", "no answer within 0.3 s", true},
    {"stubborn", "no answer within 0.3 s", true},
    {"garbage", "layout: ", true},
    {"layers", "layout of 7 layers on 4 workers, asked for 8 on 4", true},
    {"gone", "layout: gives layers 6-7 to worker 3, which left the run", true},
    {"none", "no idea", false},
    {"mute", "", false},
    {"open", "does not want to", true},
    {"", "wants one argument, got 0", true},
};

static void every_misdeed_is_survived_and_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof misdeed / sizeof misdeed[0]; i++) {
        const struct misdeed *m = &misdeed[i];
        struct dp_layout before;
        struct fixture t;

        /* Time is short only for those who never answer: a busy machine may take long to load one. */
        init(&t, "bad_policy.so", m->how, strstr(m->says, "no answer") ? 0.3 : 600.0);
        before = t.layout;
        if (run(&t) != -1)
            fail_msg("%s: not noticed", m->how);
        if (!strstr(t.err.text, m->says) || strncmp(t.err.text, "policy mine: ", 13))
            fail_msg("%s: \"%s\", expected \"%s\"", m->how, t.err.text, m->says);
        assert_int_equal(dp_policy_is_broken(&t.err), m->is_broken);
        assert_memory_equal(&before, &t.layout, sizeof before);
    }
}

/* Each question finds a new process: nothing is left of the one before, not even what was overwritten. */
static void no_state_survives(void **state)
{
    (void)state;
    struct dp_layout before;
    struct fixture t;

    init(&t, "bad_policy.so", "nothing", 10.0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(&t), 0);
        assert_string_equal(t.out.reason, "bad: asked 1 times by this process");
    }
    init(&t, "bad_policy.so", "scribble", 10.0);
    before = t.layout;
    assert_int_equal(run(&t), 0);
    assert_memory_equal(&before, &t.layout, sizeof before);
    assert_memory_equal(before.cut, t.out.layout.cut, sizeof before.cut);
}

#if !defined(__SANITIZE_ADDRESS__) &&                                                                        \
    !defined(__SANITIZE_THREAD__) /* they need more than the limit for themselves */
static void a_policy_that_eats_memory_ends_itself(void **state)
{
    (void)state;
    struct fixture t;

    init(&t, "bad_policy.so", "memory", 60.0);
    assert_int_equal(run(&t), -1);
    assert_int_equal(t.err.code, DP_EGONE);
    assert_non_null(strstr(t.err.text, "signal 6"));
}
#endif

static void it_never_has_roots_rights(void **state)
{
    (void)state;
    struct fixture t;
    char want[128];
    unsigned uid = geteuid() ? geteuid() : 65534;

    init(&t, "bad_policy.so", "rights", 10.0);
    assert_int_equal(run(&t), -1);
    snprintf(want, sizeof want, "policy mine: uid %u %u, root again 0", uid, uid);
    assert_string_equal(t.err.text, want);
}

/* The time is one for all questions: after it has passed nothing more is asked. */
static void the_time_is_shared_by_all_questions(void **state)
{
    (void)state;
    struct fixture t;
    uint64_t start;

    init(&t, "bad_policy.so", "hang", 0.2);
    start = dp_now_ns();
    for (int i = 0; i < 50; i++) {
        assert_int_equal(run(&t), -1);
        assert_int_equal(t.err.code, DP_ETIMEOUT);
    }
    assert_true(dp_now_ns() - start >= 200000000u && t.site.spent_ns >= 200000000u);
    assert_true(t.site.spent_ns < 10000000000u); /* not 50 times as long */
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* What a process of its own costs; printed, not judged: machines differ. */
static void the_price_of_a_process(void **state)
{
    (void)state;
    enum { N = 101 };
    static uint64_t apart[N], within[N];
    struct fixture t;

    init(&t, "headroom.so", "", 600.0);
    for (int i = 0; i < N; i++) {
        uint64_t a = dp_now_ns(), b;

        assert_int_equal(run(&t), 0);
        b = dp_now_ns();
        assert_int_equal(dp_policy_run(&dp_policy_time, NULL, &t.in, &t.out, &t.err), 0);
        apart[i] = b - a;
        within[i] = dp_now_ns() - b;
    }
    qsort(apart, N, sizeof apart[0], by_value);
    qsort(within, N, sizeof within[0], by_value);
    printf(
        "# a question to a site policy: %.0f us (90th percentile %.0f us); policy time, built in: %.1f us\n",
        (double)apart[N / 2] / 1e3, (double)apart[N * 9 / 10] / 1e3, (double)within[N / 2] / 1e3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_example_decides),
    cmocka_unit_test(another_interface_is_refused_with_both_numbers),
    cmocka_unit_test(files_that_are_no_policy),
    cmocka_unit_test(others_may_not_write_it),
    cmocka_unit_test(every_misdeed_is_survived_and_told),
    cmocka_unit_test(no_state_survives),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    cmocka_unit_test(a_policy_that_eats_memory_ends_itself),
#endif
    cmocka_unit_test(it_never_has_roots_rights),
    cmocka_unit_test(the_time_is_shared_by_all_questions),
    cmocka_unit_test(the_price_of_a_process),
};

int main(void)
{
    return cmocka_run_group_tests_name("site_policy", tests, make_dir, remove_dir);
}
