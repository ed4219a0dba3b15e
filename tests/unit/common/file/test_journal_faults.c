/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal on a disk that fails: every call that writes may fail, a failed fdatasync leaves any part
 * of what was written on the disk and marks the rest clean (ext4, xfs), and in between the process is
 * killed or the power is cut. Whatever happens, a journal that is opened again holds every record that
 * was confirmed, in order, and at most one more: the newest, if its append ended in doubt and the doubt was not
 * settled. Files are real; what the disk would have of them is kept beside them. DP_SEED runs one campaign.
 */
#include "config.h" /* _GNU_SOURCE: FALLOC_FL_KEEP_SIZE */

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/file/journal.h"
#include "tests/unit/random.h"

#define FILE_MAX 16384
#define N_FILES 512 /* made in one campaign */
#define STEPS 40
#define CAMPAIGNS 1500

static char folder[64] = "/dev/shm/dp-journal-faults-XXXXXX"; /* the disk is simulated: memory will do */
static char path[128];
static uint64_t campaign, seed;
static uint32_t fail_percent;
static uint64_t fake_ns;

/* What the disk has of a file. */
struct disk_file {
    ino_t ino;
    size_t bytes;
    uint8_t data[FILE_MAX];
    bool is_dirty[FILE_MAX]; /* written and not yet on the disk, as the kernel sees it */
    bool is_size_dirty;
};

static struct disk_file files[N_FILES];
static uint32_t n_files;
static struct disk_file *durable; /* which of them the folder on the disk has under the journal's name; NULL: none */

static bool fails(void)
{
    return random_below(&seed, 100) < fail_percent;
}

static int fail_with(int number)
{
    errno = number;
    return -1;
}

/* The newest with this inode: numbers are used again. NULL: none. */
static struct disk_file *disk_file_find(const struct stat *st)
{
    for (uint32_t i = n_files; i > 0; i--)
        if (files[i - 1].ino == st->st_ino)
            return &files[i - 1];
    return NULL;
}

/* An empty file is a new one. */
static struct disk_file *disk_file_of(int fd)
{
    struct disk_file *f;
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    f = st.st_size > 0 ? disk_file_find(&st) : NULL;
    if (f)
        return f;
    assert_true(n_files < N_FILES);
    memset(&files[n_files], 0, sizeof files[0]);
    files[n_files].ino = st.st_ino;
    return &files[n_files++];
}

ssize_t __real_pwrite(int fd, const void *p, size_t bytes, off_t at);
int __real_rename(const char *from, const char *to);
int __real_ftruncate(int fd, off_t bytes);
int __real_clock_gettime(clockid_t id, struct timespec *t);
ssize_t __wrap_pwrite(int fd, const void *p, size_t bytes, off_t at);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

ssize_t __wrap_pwrite(int fd, const void *p, size_t bytes, off_t at)
{
    struct disk_file *f = disk_file_of(fd);
    bool is_short = fails();

    if (is_short && random_below(&seed, 2))
        return fail_with(random_below(&seed, 2) ? ENOSPC : EIO);
    if (is_short)
        bytes = 1 + random_below(&seed, (uint32_t)bytes);
    assert_true((size_t)at + bytes <= FILE_MAX);
    for (size_t i = 0; i < bytes; i++)
        f->is_dirty[(size_t)at + i] = true;
    f->is_size_dirty = true;
    return __real_pwrite(fd, p, bytes, at);
}

/* Some dirty bytes reach the disk: all, or on a failure those before a random place. */
static void write_back(int fd, struct disk_file *f, bool is_all)
{
    uint8_t cache[FILE_MAX];
    ssize_t bytes = pread(fd, cache, sizeof cache, 0);
    size_t end = is_all ? FILE_MAX : random_below(&seed, FILE_MAX / 8);

    assert_true(bytes >= 0);
    for (size_t i = 0; i < (size_t)bytes && i < end; i++)
        if (f->is_dirty[i])
            f->data[i] = cache[i];
    if (is_all || random_below(&seed, 2))
        f->bytes = (size_t)bytes;
    memset(f->is_dirty, 0, sizeof f->is_dirty);
    f->is_size_dirty = false;
}

int __wrap_fdatasync(int fd)
{
    bool is_failure = fails();

    write_back(fd, disk_file_of(fd), !is_failure);
    return is_failure ? fail_with(random_below(&seed, 2) ? EIO : ENOSPC) : 0;
}

int __wrap_fsync(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    if (!S_ISDIR(st.st_mode))
        return __wrap_fdatasync(fd);
    if (fails())
        return fail_with(EIO);
    durable = stat(path, &st) == 0 ? disk_file_find(&st) : NULL;
    return 0;
}

/* A new name may reach the disk before the folder is synced, or not. */
int __wrap_rename(const char *from, const char *to)
{
    struct stat st;
    int rc;

    if (fails())
        return fail_with(EIO);
    rc = __real_rename(from, to);
    if (rc == 0 && random_below(&seed, 2) && stat(to, &st) == 0)
        durable = disk_file_find(&st);
    return rc;
}

int __wrap_ftruncate(int fd, off_t bytes)
{
    return fails() ? fail_with(EIO) : __real_ftruncate(fd, bytes);
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes)
{
    (void)fd, (void)at, (void)bytes;
    assert_int_equal(mode, FALLOC_FL_KEEP_SIZE);
    return fails() ? fail_with(random_below(&seed, 2) ? ENOSPC : EOPNOTSUPP) : 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    if (id != CLOCK_MONOTONIC)
        return __real_clock_gettime(id, t);
    fake_ns += random_below(&seed, 2000) * 1000000u;
    *t = (struct timespec){(time_t)(fake_ns / 1000000000u), (long)(fake_ns % 1000000000u)};
    return 0;
}

/* --- the owner: numbers of the records that it was told are there --- */

struct owner {
    uint32_t confirmed[2 * STEPS], n;
    uint32_t doubtful; /* 0: none */
    uint32_t found[2 * STEPS + 1], n_found;
};

/* Record i has i as its first bytes, and some more. */
static size_t payload_of(uint32_t i, uint8_t out[256])
{
    memset(out, (int)i, 256);
    memcpy(out, &i, sizeof i);
    return 4 + i * 37 % 252;
}

static int fill(void *arg, struct dp_journal *fresh, struct dp_err *err)
{
    const struct owner *o = arg;
    uint8_t payload[256];

    for (uint32_t i = 0; i < o->n; i++) {
        size_t bytes = payload_of(o->confirmed[i], payload);

        if (dp_journal_append(fresh, 7, payload, bytes, err) < 0)
            return -1;
    }
    return 0;
}

static int find(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    struct owner *o = arg;
    uint8_t wanted[256];
    uint32_t i;

    (void)err;
    memcpy(&i, payload, sizeof i);
    assert_int_equal(type, 7);
    assert_int_equal(bytes, payload_of(i, wanted));
    assert_memory_equal(payload, wanted, bytes);
    assert_true(o->n_found < 2 * STEPS + 1);
    o->found[o->n_found++] = i;
    return 0;
}

/* All that was confirmed, and perhaps the record in doubt, which from now on is confirmed. */
static void judge(struct owner *o)
{
    bool has_doubtful = o->n_found == o->n + 1 && o->doubtful && o->found[o->n] == o->doubtful;

    if (o->n_found != o->n && !has_doubtful)
        fail_msg("DP_SEED=%llu: %u records found, %u were confirmed, in doubt was %u", (unsigned long long)campaign,
                 o->n_found, o->n, o->doubtful);
    for (uint32_t i = 0; i < o->n; i++)
        assert_int_equal(o->found[i], o->confirmed[i]);
    if (has_doubtful)
        o->confirmed[o->n++] = o->doubtful;
    o->doubtful = 0;
}

/* Only the disk remembers. */
static void cut_power(void)
{
    static struct disk_file image;
    struct disk_file *f;
    char tmp[160];
    int fd;

    assert_non_null(durable);
    image = *durable;
    unlink(path);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    unlink(tmp);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    n_files = 0;
    f = durable = disk_file_of(fd);
    f->bytes = image.bytes;
    memcpy(f->data, image.data, image.bytes); /* what lay beyond the end reads as zeros when the file grows again */
    assert_int_equal(__real_pwrite(fd, image.data, image.bytes, 0), (ssize_t)image.bytes);
    close(fd);
}

/* The new life of the files that a power cut left, or that the page cache kept. */
static struct dp_journal *open_again(struct owner *o)
{
    struct dp_journal *j = NULL;

    for (uint32_t i = 0; !j; i++) {
        uint32_t old = fail_percent;

        assert_true(i < 100);
        if (i == 99)
            fail_percent = 0;
        o->n_found = 0;
        j = dp_journal_open(path, find, fill, o, NULL);
        fail_percent = old;
    }
    judge(o);
    return j;
}

static void one_step(struct owner *o, struct dp_journal *j, uint32_t number)
{
    enum dp_journal_fate fate;
    uint8_t payload[256];
    size_t bytes = payload_of(number, payload);

    if (random_below(&seed, 6) == 0)
        (void)dp_journal_reserve(j, 1000, NULL);
    if (random_below(&seed, 8) == 0)
        (void)dp_journal_compact(j, NULL);
    if (random_below(&seed, 4) == 0 && dp_journal_settle(j, NULL) == 0)
        o->doubtful = 0;
    fate = dp_journal_append(j, 7, payload, bytes, NULL);
    if (fate == DP_JOURNAL_DURABLE) {
        o->confirmed[o->n++] = number;
        o->doubtful = 0; /* the journal was written anew before, without it */
    } else if (fate == DP_JOURNAL_DOUBTFUL) {
        o->doubtful = number;
    }
}

static void forget_files(void)
{
    char tmp[160];

    unlink(path);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    unlink(tmp);
    n_files = 0;
    durable = NULL;
}

static void run_campaign(uint64_t number, uint32_t counts[4])
{
    struct owner o = {.n = 0};
    struct dp_journal *j;

    seed = number * 7919 + 1;
    forget_files();
    fail_percent = 0;
    j = dp_journal_open(path, NULL, fill, &o, NULL);
    assert_non_null(j);
    fail_percent = 3 + random_below(&seed, 30);
    for (uint32_t i = 1; i <= STEPS; i++) {
        uint32_t before = o.n;

        one_step(&o, j, i);
        counts[0] += o.n > before;
        counts[1] += o.doubtful == i;
        if (random_below(&seed, 10) == 0) {
            bool is_power = random_below(&seed, 2);

            counts[2 + is_power]++;
            dp_journal_destroy(j);
            if (is_power)
                cut_power();
            j = open_again(&o);
        }
    }
    dp_journal_destroy(j);
    j = open_again(&o);
    dp_journal_destroy(j);
}

static void whatever_fails_the_journal_is_true(void **state)
{
    const char *one = getenv("DP_SEED");
    uint32_t counts[4] = {0};

    (void)state;
    if (one) {
        run_campaign(strtoull(one, NULL, 10), counts);
        return;
    }
    for (uint64_t i = 1; i <= CAMPAIGNS; i++) {
        campaign = i;
        run_campaign(i, counts);
    }
    print_message("# %u records confirmed, %u in doubt, %u kills, %u power cuts\n", counts[0], counts[1], counts[2],
                  counts[3]);
    for (uint32_t k = 0; k < 4; k++)
        assert_true(counts[k] > 1000);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "/tmp/dp-journal-faults-XXXXXX");
        if (!mkdtemp(folder))
            return -1;
    }
    snprintf(path, sizeof path, "%s/j", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    forget_files();
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_fails_the_journal_is_true)};

    return cmocka_run_group_tests_name("journal-faults", tests, setup, teardown);
}
