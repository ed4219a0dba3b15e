/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal: order, durability on every truncation and every flipped bit, a full disk, the lock. */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file/journal.h"

#define N_RECORDS 4

static char folder[] = "/tmp/dp-journal-XXXXXX";
static char path[128];

struct seen {
    unsigned n;
    bool is_wrong;
};

/* Record i (from 0) has type i + 1 and 7 * i bytes of value i. */
static int collect(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    struct seen *s = arg;
    const uint8_t *p = payload;

    (void)err;
    if (type != s->n + 1 || bytes != 7 * (size_t)s->n)
        s->is_wrong = true;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != s->n)
            s->is_wrong = true;
    s->n++;
    return 0;
}

static void fill(struct dp_journal *j)
{
    for (unsigned i = 0; i < N_RECORDS; i++) {
        uint8_t payload[64];

        memset(payload, (int)i, sizeof payload);
        assert_int_equal(dp_journal_append(j, (uint8_t)(i + 1), payload, 7 * (size_t)i, NULL), 0);
    }
}

static size_t slurp(uint8_t *out, size_t cap)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, out, cap);

    close(fd);
    assert_true(n > 0);
    return (size_t)n;
}

static void spit(const uint8_t *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static void make_journal(uint8_t *out, size_t cap, size_t *bytes)
{
    struct dp_journal *j;

    unlink(path);
    j = dp_journal_open(path, NULL, NULL, NULL, NULL);
    assert_non_null(j);
    fill(j);
    dp_journal_destroy(j);
    *bytes = slurp(out, cap);
}

static void replays_in_order(void **state)
{
    struct seen s = {0};
    struct dp_journal *j;
    uint8_t data[1024];
    size_t bytes;

    (void)state;
    make_journal(data, sizeof data, &bytes);
    j = dp_journal_open(path, collect, NULL, &s, NULL);
    assert_non_null(j);
    assert_int_equal(s.n, N_RECORDS);
    assert_false(s.is_wrong);
    assert_int_equal(dp_journal_bytes(j), bytes);
    assert_int_equal(dp_journal_cut_bytes(j), 0);
    assert_null(dp_journal_open(path, NULL, NULL, NULL, NULL)); /* held */
    dp_journal_destroy(j);
}

static void every_truncation_keeps_whole_records(void **state)
{
    uint8_t data[1024];
    size_t bytes;

    (void)state;
    make_journal(data, sizeof data, &bytes);
    for (size_t len = 8; len < bytes; len++) {
        struct seen s = {0}, again = {0};
        struct dp_journal *j;
        uint8_t last[64];

        spit(data, len);
        j = dp_journal_open(path, collect, NULL, &s, NULL);
        assert_non_null(j);
        assert_false(s.is_wrong);
        assert_true(s.n < N_RECORDS);
        memset(last, (int)s.n, sizeof last);
        assert_int_equal(dp_journal_append(j, (uint8_t)(s.n + 1), last, 7 * (size_t)s.n, NULL), 0);
        dp_journal_destroy(j);
        j = dp_journal_open(path, collect, NULL, &again, NULL);
        assert_non_null(j);
        assert_int_equal(again.n, s.n + 1);
        assert_false(again.is_wrong);
        dp_journal_destroy(j);
    }
}

/* A flipped bit is either refused or, in the last record, costs that record: never a wrong one. */
static void every_flipped_bit_is_found(void **state)
{
    size_t bytes, last_record;
    uint8_t data[1024];

    (void)state;
    make_journal(data, sizeof data, &bytes);
    last_record = bytes - 17 - 7 * (N_RECORDS - 1);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        struct seen s = {0};
        struct dp_err err = {0};
        struct dp_journal *j;

        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        spit(data, bytes);
        j = dp_journal_open(path, collect, NULL, &s, &err);
        assert_false(s.is_wrong);
        if (bit / 8 < last_record) {
            assert_null(j);
            assert_int_equal(err.code, DP_ECORRUPT);
        } else {
            assert_non_null(j);
            assert_int_equal(s.n, N_RECORDS - 1);
            assert_true(dp_journal_cut_bytes(j) > 0);
        }
        dp_journal_destroy(j);
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

/* RLIMIT_FSIZE makes the kernel refuse the write in the middle of a record, as a full disk does. */
static void full_disk_loses_nothing(void **state)
{
    struct rlimit old, tight;
    struct seen s = {0};
    struct dp_err err = {0};
    struct dp_journal *j;
    uint8_t payload[64];

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    unlink(path);
    j = dp_journal_open(path, NULL, NULL, NULL, NULL);
    assert_non_null(j);
    fill(j);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = old;
    tight.rlim_cur = dp_journal_bytes(j) + 20;
    setrlimit(RLIMIT_FSIZE, &tight);
    memset(payload, N_RECORDS, sizeof payload);
    assert_int_equal(dp_journal_append(j, N_RECORDS + 1, payload, 7 * N_RECORDS, &err), -1);
    assert_int_equal(err.code, DP_EIO);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(dp_journal_append(j, N_RECORDS + 1, payload, 7 * N_RECORDS, NULL), 0);
    dp_journal_destroy(j);
    j = dp_journal_open(path, collect, NULL, &s, NULL);
    assert_non_null(j);
    assert_int_equal(s.n, N_RECORDS + 1);
    assert_false(s.is_wrong);
    dp_journal_destroy(j);
}

static int keep_two(void *arg, struct dp_journal *fresh, struct dp_err *err)
{
    uint8_t one[7];

    (void)arg;
    memset(one, 1, sizeof one);
    return dp_journal_append(fresh, 1, NULL, 0, err) || dp_journal_append(fresh, 2, one, 7, err);
}

static int refuse_or_keep_two(void *arg, struct dp_journal *fresh, struct dp_err *err)
{
    const bool *refuses = arg;

    return *refuses ? dp_err_set(err, DP_EINVAL, "no") : keep_two(NULL, fresh, err);
}

static void compaction_replaces_all_or_nothing(void **state)
{
    struct seen s = {0};
    struct dp_journal *j;
    bool refuses = true;
    uint8_t two[14];

    (void)state;
    unlink(path);
    j = dp_journal_open(path, NULL, refuse_or_keep_two, &refuses, NULL);
    assert_non_null(j);
    fill(j);
    assert_int_equal(dp_journal_compact(j, NULL), -1);
    refuses = false;
    assert_int_equal(dp_journal_compact(j, NULL), 0);
    memset(two, 2, sizeof two);
    assert_int_equal(dp_journal_append(j, 3, two, sizeof two, NULL), 0);
    assert_null(dp_journal_open(path, NULL, NULL, NULL, NULL)); /* the new file is held too */
    dp_journal_destroy(j);
    j = dp_journal_open(path, collect, NULL, &s, NULL);
    assert_non_null(j);
    assert_int_equal(s.n, 3);
    assert_false(s.is_wrong);
    dp_journal_destroy(j);
}

static void refuses_what_it_must(void **state)
{
    static uint8_t big[DP_JOURNAL_PAYLOAD_MAX + 1];
    struct dp_err err = {0};
    struct dp_journal *j;
    char link_path[160];

    (void)state;
    unlink(path);
    j = dp_journal_open(path, NULL, NULL, NULL, NULL);
    assert_non_null(j);
    assert_int_equal(dp_journal_append(j, 1, big, sizeof big, &err), -1);
    assert_int_equal(dp_journal_append(j, 1, big, sizeof big - 1, &err), 0);
    dp_journal_destroy(j);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    assert_int_equal(symlink(path, link_path), 0);
    assert_null(dp_journal_open(link_path, NULL, NULL, NULL, &err)); /* never through a link */
    unlink(link_path);
    spit((const uint8_t *)"something else", 14);
    assert_null(dp_journal_open(path, NULL, NULL, NULL, &err));
    assert_int_equal(err.code, DP_ECORRUPT);
    assert_null(dp_journal_open("/nowhere/at/all", NULL, NULL, NULL, &err));
    assert_int_equal(err.code, DP_EIO);
}

/* What counts of any number of records: the newest. */
static int keep_newest(void *arg, struct dp_journal *fresh, struct dp_err *err)
{
    return dp_journal_append(fresh, 1, arg, DP_JOURNAL_PAYLOAD_MAX, err);
}

static int read_newest(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    (void)type;
    (void)err;
    memcpy(arg, payload, bytes);
    return 0;
}

static void a_journal_stays_small(void **state)
{
    static uint32_t newest[DP_JOURNAL_PAYLOAD_MAX / 4], found[DP_JOURNAL_PAYLOAD_MAX / 4];
    const uint64_t record = DP_JOURNAL_HEAD_BYTES + sizeof newest;
    struct dp_journal *j;

    (void)state;
    unlink(path);
    j = dp_journal_open(path, NULL, keep_newest, newest, NULL);
    assert_non_null(j);
    for (uint32_t n = 0; n < 4 * DP_JOURNAL_COMPACT_BYTES / record; n++) {
        newest[0] = n;
        assert_int_equal(dp_journal_append(j, 1, newest, sizeof newest, NULL), DP_JOURNAL_DURABLE);
        assert_true(dp_journal_bytes(j) <= DP_JOURNAL_COMPACT_BYTES + record);
    }
    dp_journal_destroy(j);
    j = dp_journal_open(path, read_newest, NULL, found, NULL);
    assert_non_null(j);
    assert_int_equal(found[0], newest[0]);
    dp_journal_destroy(j);
}

/* Not read at all, let alone for minutes. */
static void an_enormous_file_is_refused(void **state)
{
    struct dp_err err = {0};

    (void)state;
    spit((const uint8_t *)DP_JOURNAL_MAGIC, DP_JOURNAL_MAGIC_BYTES);
    assert_int_equal(truncate(path, 1 << 30), 0);
    assert_null(dp_journal_open(path, NULL, NULL, NULL, &err));
    assert_int_equal(err.code, DP_ECORRUPT);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "1073741824 bytes"));
}

/* Bytes that could be a record's at every place are not searched for minutes. */
static void a_tail_that_was_made_is_damage(void **state)
{
    const size_t bytes = 4u << 20;
    uint8_t *data = calloc(1, bytes);
    struct dp_journal_extent good;
    struct dp_err err = {0};

    (void)state;
    assert_non_null(data);
    memcpy(data, DP_JOURNAL_MAGIC, DP_JOURNAL_MAGIC_BYTES);
    for (size_t at = DP_JOURNAL_MAGIC_BYTES + 1; at + DP_JOURNAL_HEAD_BYTES < bytes; at += DP_JOURNAL_HEAD_BYTES) {
        data[at + 2] = 0x0f; /* 3840 bytes, record 255 */
        data[at + 15] = 0xff;
    }
    assert_int_equal(dp_journal_scan(data, bytes, &good, &err), -1);
    assert_int_equal(err.code, DP_ECORRUPT);
    free(data);
}

/* What a crash left under the temporary name, or somebody put there, is never written through. */
static void the_temporary_file_is_our_own(void **state)
{
    char tmp[160], target[160];
    bool refuses = false;
    struct dp_journal *j;
    struct stat st;
    int fd;

    (void)state;
    unlink(path);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    snprintf(target, sizeof target, "%s/target", folder);
    fd = open(target, O_WRONLY | O_CREAT, 0666);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    assert_int_equal(link(target, tmp), 0); /* creation, then compaction */
    j = dp_journal_open(path, NULL, refuse_or_keep_two, &refuses, NULL);
    assert_non_null(j);
    assert_int_equal(symlink(target, tmp), 0);
    assert_int_equal(dp_journal_compact(j, NULL), 0);
    dp_journal_destroy(j);
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 8);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0600);
    unlink(target);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/j", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_in_order),
        cmocka_unit_test(every_truncation_keeps_whole_records),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(full_disk_loses_nothing),
        cmocka_unit_test(compaction_replaces_all_or_nothing),
        cmocka_unit_test(refuses_what_it_must),
        cmocka_unit_test(a_journal_stays_small),
        cmocka_unit_test(an_enormous_file_is_refused),
        cmocka_unit_test(a_tail_that_was_made_is_damage),
        cmocka_unit_test(the_temporary_file_is_our_own),
    };

    return cmocka_run_group_tests_name("journal", tests, setup, teardown);
}
