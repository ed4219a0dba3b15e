/* See journal.h. What a crash can leave behind decides every step here: a new file appears under its
 * name only when its contents are durable; an append counts only after fdatasync; a failed write is
 * undone by truncation; a failed fdatasync is final, since the kernel marks pages clean that it could
 * not write and a second fdatasync would lie (ext4, xfs). A record may be followed by rubbish only at
 * the very end, so a later good record turns "torn" into "damaged".
 */
#include "config.h"

#include "common/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "common/wire.h"

#define MAGIC "DPJRNL1\n"
#define MAGIC_BYTES 8u
#define RECORD_HEAD 17u /* len, crc, seq, type */

struct dp_journal {
    int fd;
    bool is_broken, is_deferred; /* deferred: durable only when compaction ends */
    uint64_t seq, size, cut_bytes;
    char path[PATH_MAX];
};

static uint32_t record_crc(const uint8_t *record, size_t bytes)
{
    uint8_t head[13];
    uint32_t crc;

    memcpy(head, record, 4);
    memcpy(head + 4, record + 8, 9);
    crc = dp_crc32c(0, head, sizeof head);
    return dp_crc32c(crc, record + RECORD_HEAD, bytes);
}

/* A whole, correct record at p with this seq or, when any_later, any seq from there on?
 * returns its payload length, or -1. */
static int record_check(const uint8_t *p, size_t left, uint64_t seq, bool any_later)
{
    struct dp_reader r;
    uint32_t len, crc;
    uint64_t got;

    if (left < RECORD_HEAD)
        return -1;
    dp_reader_init(&r, p, RECORD_HEAD);
    len = dp_rd_u32(&r);
    crc = dp_rd_u32(&r);
    got = dp_rd_u64(&r);
    if (len > DP_JOURNAL_PAYLOAD_MAX || len > left - RECORD_HEAD)
        return -1;
    if (any_later ? got < seq || got > seq + left : got != seq)
        return -1;
    return record_crc(p, len) == crc ? (int)len : -1;
}

static int write_all(int fd, const uint8_t *p, size_t bytes, uint64_t at)
{
    while (bytes > 0) {
        ssize_t n = pwrite(fd, p, bytes, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = ENOSPC;
            return -1;
        }
        p += n;
        bytes -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

static int sync_folder(const char *path, struct dp_err *err)
{
    char folder[PATH_MAX];
    char *slash;
    int fd, rc;

    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash == folder)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    else
        snprintf(folder, sizeof folder, ".");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", folder, strerror(errno));
    rc = fsync(fd);
    if (rc < 0)
        dp_err_set(err, DP_EIO, "%s: fsync: %s", folder, strerror(errno));
    close(fd);
    return rc < 0 ? -1 : 0;
}

static int lock_file(int fd, const char *path, struct dp_err *err)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat open_file, named_file;

    if (fcntl(fd, F_OFD_SETLK, &fl) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path,
                          errno == EAGAIN || errno == EACCES ? "another process holds this journal"
                                                             : strerror(errno));
    /* Whoever held it may have put a new file under the name between our open and our lock. */
    if (fstat(fd, &open_file) < 0 || stat(path, &named_file) < 0 || open_file.st_ino != named_file.st_ino ||
        open_file.st_dev != named_file.st_dev)
        return dp_err_set(err, DP_EIO, "%s: replaced while it was opened", path);
    return 0;
}

/* An empty journal under a temporary name, locked. returns its descriptor or -1. */
static int open_fresh(const char *tmp, struct dp_err *err)
{
    int fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", tmp, strerror(errno));
    if (lock_file(fd, tmp, err) < 0 || write_all(fd, (const uint8_t *)MAGIC, MAGIC_BYTES, 0) < 0) {
        if (err && err->code == DP_OK)
            dp_err_set(err, DP_EIO, "%s: %s", tmp, strerror(errno));
        close(fd);
        unlink(tmp);
        return -1;
    }
    return fd;
}

/* Make the file of tmp durable and give it its name. */
static int publish(int fd, const char *tmp, const char *path, struct dp_err *err)
{
    if (fsync(fd) < 0 || rename(tmp, path) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        unlink(tmp);
        return -1;
    }
    return sync_folder(path, err);
}

static int create_file(const char *path, struct dp_err *err)
{
    char tmp[PATH_MAX + 8];
    int fd;

    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    fd = open_fresh(tmp, err);
    if (fd < 0)
        return -1;
    if (publish(fd, tmp, path, err) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static uint8_t *read_whole(struct dp_journal *j, size_t *bytes, struct dp_err *err)
{
    struct stat st;
    uint8_t *data;
    size_t got = 0;

    if (fstat(j->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        dp_err_set(err, DP_EIO, "%s: not a plain file", j->path);
        return NULL;
    }
    data = malloc((size_t)st.st_size + 1);
    if (!data) {
        dp_err_set(err, DP_ENOMEM, "%s: %lld bytes", j->path, (long long)st.st_size);
        return NULL;
    }
    while (got < (size_t)st.st_size) {
        ssize_t n = pread(j->fd, data + got, (size_t)st.st_size - got, (off_t)got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            dp_err_set(err, DP_EIO, "%s: %s", j->path, n < 0 ? strerror(errno) : "shorter than it says");
            free(data);
            return NULL;
        }
        got += (size_t)n;
    }
    *bytes = got;
    return data;
}

/* Is there a good record anywhere from `at` on? Then what stands before it is damage. */
static bool has_good_record(const uint8_t *data, size_t bytes, size_t at, uint64_t seq)
{
    for (; at + RECORD_HEAD <= bytes; at++)
        if (record_check(data + at, bytes - at, seq, true) >= 0)
            return true;
    return false;
}

/* Find where the good records end. returns the offset, or -1 for damage. */
static int64_t scan(struct dp_journal *j, const uint8_t *data, size_t bytes, struct dp_err *err)
{
    size_t at = MAGIC_BYTES;

    if (bytes < MAGIC_BYTES || memcmp(data, MAGIC, MAGIC_BYTES))
        return dp_err_set(err, DP_ECORRUPT, "%s: not a journal", j->path);
    while (at < bytes) {
        int len = record_check(data + at, bytes - at, j->seq + 1, false);

        if (len < 0)
            break;
        j->seq++;
        at += RECORD_HEAD + (size_t)len;
    }
    if (at < bytes && has_good_record(data, bytes, at + 1, j->seq + 1))
        return dp_err_set(err, DP_ECORRUPT, "%s: record %llu at byte %zu is damaged, with good ones behind it",
                          j->path, (unsigned long long)(j->seq + 1), at);
    return (int64_t)at;
}

static int replay_records(const uint8_t *data, size_t end, dp_journal_fn replay, void *arg, struct dp_err *err)
{
    size_t at = MAGIC_BYTES;

    while (replay && at < end) {
        struct dp_reader r;
        uint32_t len;

        dp_reader_init(&r, data + at, 4);
        len = dp_rd_u32(&r);
        if (replay(arg, data[at + 16], data + at + RECORD_HEAD, len, err))
            return -1;
        at += RECORD_HEAD + len;
    }
    return 0;
}

static int load(struct dp_journal *j, dp_journal_fn replay, void *arg, struct dp_err *err)
{
    size_t bytes = 0;
    uint8_t *data = read_whole(j, &bytes, err);
    int64_t end;
    int rc = -1;

    if (!data)
        return -1;
    end = scan(j, data, bytes, err);
    if (end < 0)
        goto out;
    if ((size_t)end < bytes && (ftruncate(j->fd, (off_t)end) < 0 || fdatasync(j->fd) < 0)) {
        dp_err_set(err, DP_EIO, "%s: cutting a torn tail: %s", j->path, strerror(errno));
        goto out;
    }
    j->size = (uint64_t)end;
    j->cut_bytes = bytes - (size_t)end;
    rc = replay_records(data, (size_t)end, replay, arg, err);
out:
    free(data);
    return rc;
}

struct dp_journal *dp_journal_open(const char *path, dp_journal_fn replay, void *arg, struct dp_err *err)
{
    struct dp_journal *j = NULL;
    struct dp_err local;

    if (!err)
        err = &local;
    err->code = DP_OK;
    if (strlen(path) + 8 > sizeof j->path) {
        dp_err_set(err, DP_EINVAL, "path of the journal is too long");
        return NULL;
    }
    j = calloc(1, sizeof *j);
    if (!j) {
        dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    snprintf(j->path, sizeof j->path, "%s", path);
    j->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (j->fd < 0 && errno == ENOENT)
        j->fd = create_file(path, err);
    else if (j->fd < 0)
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    else if (lock_file(j->fd, path, err) < 0) {
        dp_journal_destroy(j);
        return NULL;
    }
    if (j->fd < 0 || load(j, replay, arg, err) < 0) {
        dp_journal_destroy(j);
        return NULL;
    }
    return j;
}

void dp_journal_destroy(struct dp_journal *j)
{
    int saved = errno;

    if (!j)
        return;
    if (j->fd >= 0)
        close(j->fd);
    free(j);
    errno = saved;
}

int dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    uint8_t record[RECORD_HEAD + DP_JOURNAL_PAYLOAD_MAX];
    struct dp_writer w;
    size_t total = RECORD_HEAD + bytes;

    if (j->is_broken)
        return dp_err_set(err, DP_EIO, "%s: an earlier write could not be made durable", j->path);
    if (bytes > DP_JOURNAL_PAYLOAD_MAX)
        return dp_err_set(err, DP_EINVAL, "%s: record of %zu bytes", j->path, bytes);
    dp_writer_init(&w, record, sizeof record);
    dp_wr_u32(&w, (uint32_t)bytes);
    dp_wr_u32(&w, 0);
    dp_wr_u64(&w, j->seq + 1);
    dp_wr_u8(&w, type);
    dp_wr_bytes(&w, payload, bytes);
    w.p = record + 4;
    dp_wr_u32(&w, record_crc(record, bytes));
    if (write_all(j->fd, record, total, j->size) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", j->path, strerror(errno));
        if (ftruncate(j->fd, (off_t)j->size) < 0)
            j->is_broken = true; /* a torn record would stand before the next one */
        return -1;
    }
    if (!j->is_deferred && fdatasync(j->fd) < 0) {
        j->is_broken = true;
        return dp_err_set(err, DP_EIO, "%s: fdatasync: %s", j->path, strerror(errno));
    }
    j->seq++;
    j->size += total;
    return 0;
}

int dp_journal_compact(struct dp_journal *j, dp_journal_fill_fn fill, void *arg, struct dp_err *err)
{
    struct dp_journal fresh = {.is_deferred = true, .size = MAGIC_BYTES};
    struct dp_err local = {0};
    char tmp[PATH_MAX + 8];

    snprintf(tmp, sizeof tmp, "%s.tmp", j->path);
    snprintf(fresh.path, sizeof fresh.path, "%s", j->path);
    fresh.fd = open_fresh(tmp, &local);
    if (fresh.fd < 0)
        goto fail;
    if (fill(arg, &fresh, &local)) {
        unlink(tmp);
        goto fail;
    }
    if (publish(fresh.fd, tmp, j->path, &local) < 0)
        goto fail;
    close(j->fd);
    fresh.is_deferred = false;
    *j = fresh;
    return 0;
fail:
    if (fresh.fd >= 0)
        close(fresh.fd);
    if (err)
        *err = local;
    return -1;
}

uint64_t dp_journal_bytes(const struct dp_journal *j)
{
    return j->size;
}

uint64_t dp_journal_cut_bytes(const struct dp_journal *j)
{
    return j->cut_bytes;
}
