/* SPDX-License-Identifier: BSD-3-Clause */
/* See journal.h. What a crash can leave behind decides every step here:
 *
 * - A new file appears under its name only when its contents are durable.
 * - An append counts only after fdatasync. One whose write stopped in the middle is no record and never
 *   becomes one: ABSENT. One whose fdatasync failed may have reached the disk all the same: DOUBTFUL, and
 *   a second fdatasync would lie about it, since the kernel marks pages clean that it could not write
 *   (ext4, xfs). Only a new file ends the doubt, whose folder has been synced too: until then a loss of
 *   power may bring the old one back.
 * - For the same reason the bytes that opening found are written over themselves before anybody hears of
 *   them: the process before may have died between a write and its fdatasync, or after one that failed.
 */
#include "config.h"

#include "common/file/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file/trust.h"

#define RETRY_NS UINT64_C(1000000000) /* between two attempts to write the file anew */

struct dp_journal {
    int fd;
    bool is_deferred;  /* durable only when compaction ends */
    bool must_renew;   /* a torn or doubtful record, or a name that may be lost: nothing is appended before */
    uint64_t seq, size, cut_bytes;
    uint64_t reserved_end;  /* room is kept up to this offset */
    uint64_t compact_bytes; /* size right after the newest compaction */
    uint64_t retry_ns;
    dp_journal_fill_fn fill;
    void *arg;
    char path[PATH_MAX];
    char trouble[256]; /* of the newest record; "": none */
};

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
    if (fstat(fd, &open_file) < 0 || lstat(path, &named_file) < 0 || open_file.st_ino != named_file.st_ino ||
        open_file.st_dev != named_file.st_dev)
        return dp_err_set(err, DP_EIO, "%s: replaced while it was opened", path);
    return 0;
}

/* An empty journal under a temporary name, locked. It is always a file of our own making: what lies there,
 * left by a crash or put there by somebody, is removed and never opened. returns its descriptor or -1. */
static int open_fresh(const char *tmp, struct dp_err *err)
{
    int fd;

    if (unlink(tmp) < 0 && errno != ENOENT)
        return dp_err_set(err, DP_EIO, "%s: %s", tmp, strerror(errno));
    fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", tmp, strerror(errno));
    if (lock_file(fd, tmp, err) < 0)
        goto fail;
    if (write_all(fd, (const uint8_t *)DP_JOURNAL_MAGIC, DP_JOURNAL_MAGIC_BYTES, 0) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", tmp, strerror(errno));
        goto fail;
    }
    return fd;
fail:
    close(fd);
    unlink(tmp);
    return -1;
}

/* Make the file of tmp durable and give it its name. *is_named: the name is its own, though -1 says that
 * a loss of power may take it away again. */
static int publish(int fd, const char *tmp, const char *path, bool *is_named, struct dp_err *err)
{
    *is_named = false;
    if (fsync(fd) < 0 || rename(tmp, path) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        unlink(tmp);
        return -1;
    }
    *is_named = true;
    return sync_folder(path, err);
}

static int create_file(const char *path, struct dp_err *err)
{
    char tmp[PATH_MAX + 8];
    bool is_named;
    int fd;

    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    fd = open_fresh(tmp, err);
    if (fd < 0)
        return -1;
    if (publish(fd, tmp, path, &is_named, err) < 0) {
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
        dp_err_set(err, DP_EIO, "not a plain file");
        return NULL;
    }
    if (st.st_size > (off_t)DP_JOURNAL_MAX_BYTES) {
        dp_err_set(err, DP_ECORRUPT, "%lld bytes, no journal is larger than %u: move it away if nothing in it is needed",
                   (long long)st.st_size, DP_JOURNAL_MAX_BYTES);
        return NULL;
    }
    data = malloc((size_t)st.st_size + 1);
    if (!data) {
        dp_err_set(err, DP_ENOMEM, "%lld bytes", (long long)st.st_size);
        return NULL;
    }
    while (got < (size_t)st.st_size) {
        ssize_t n = pread(j->fd, data + got, (size_t)st.st_size - got, (off_t)got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            dp_err_set(err, DP_EIO, "%s", n < 0 ? strerror(errno) : "shorter than it says");
            free(data);
            return NULL;
        }
        got += (size_t)n;
    }
    *bytes = got;
    return data;
}

static int load(struct dp_journal *j, dp_journal_fn replay, struct dp_err *err)
{
    struct dp_journal_extent good;
    size_t bytes = 0;
    uint8_t *data = read_whole(j, &bytes, err);
    int rc = -1;

    if (!data || dp_journal_scan(data, bytes, &good, err) < 0) {
        free(data);
        return dp_err_prefix(err, "%s", j->path);
    }
    if ((good.end < bytes && ftruncate(j->fd, (off_t)good.end) < 0) ||
        (bytes > DP_JOURNAL_MAGIC_BYTES && (write_all(j->fd, data, good.end, 0) < 0 || fdatasync(j->fd) < 0))) {
        dp_err_set(err, DP_EIO, "%s: what it holds cannot be made durable: %s", j->path, strerror(errno));
        goto out;
    }
    if (sync_folder(j->path, err) < 0)
        goto out;
    j->size = j->reserved_end = good.end;
    j->seq = good.seq;
    j->cut_bytes = bytes - good.end;
    rc = replay ? dp_journal_replay(data, good.end, replay, j->arg, err) : 0;
out:
    free(data);
    return rc;
}

struct dp_journal *dp_journal_open(const char *path, dp_journal_fn replay, dp_journal_fill_fn fill, void *arg,
                                   struct dp_err *err)
{
    struct dp_journal *j = NULL;

    if (strlen(path) + 8 > sizeof j->path) {
        dp_err_set(err, DP_EINVAL, "path of the journal is too long");
        return NULL;
    }
    j = calloc(1, sizeof *j);
    if (!j) {
        dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    j->fill = fill;
    j->arg = arg;
    snprintf(j->path, sizeof j->path, "%s", path);
    j->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (j->fd < 0 && errno == ENOENT)
        j->fd = create_file(path, err);
    else if (j->fd < 0)
        dp_trust_not_opened(path, err);
    else if (lock_file(j->fd, path, err) < 0)
        goto fail;
    if (j->fd < 0 || load(j, replay, err) < 0)
        goto fail;
    return j;
fail:
    dp_journal_destroy(j);
    return NULL;
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

/* returns 0 also where the file system does not know how to. */
static int reserve(int fd, uint64_t at, uint64_t bytes)
{
    int rc;

    do
        rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
    while (rc < 0 && errno == EINTR);
    return rc < 0 && errno != EOPNOTSUPP && errno != ENOSYS ? -1 : 0;
}

/* The old file's reserve goes with it, so the new one gets as much, or it is not worth having: unless the
 * old one cannot be used any more. */
static int keep_reserve(const struct dp_journal *old, struct dp_journal *fresh, struct dp_err *err)
{
    uint64_t bytes = old->reserved_end > old->size ? old->reserved_end - old->size : 0;

    if (bytes > 0 && reserve(fresh->fd, fresh->size, bytes) == 0)
        fresh->reserved_end = fresh->size + bytes;
    else if (bytes > 0 && !old->must_renew)
        return dp_err_set(err, DP_EIO, "%s: %s", old->path, strerror(errno));
    return 0;
}

int dp_journal_compact(struct dp_journal *j, struct dp_err *err)
{
    struct dp_journal fresh = {.is_deferred = true, .size = DP_JOURNAL_MAGIC_BYTES};
    char tmp[PATH_MAX + 8];
    bool is_named;

    if (!j->fill)
        return dp_err_set(err, DP_ENOTSUP, "%s: cannot be written anew", j->path);
    snprintf(tmp, sizeof tmp, "%s.tmp", j->path);
    snprintf(fresh.path, sizeof fresh.path, "%s", j->path);
    fresh.fd = open_fresh(tmp, err);
    if (fresh.fd < 0)
        return -1;
    if (j->fill(j->arg, &fresh, err) || keep_reserve(j, &fresh, err) < 0) {
        close(fresh.fd);
        unlink(tmp);
        return -1;
    }
    j->must_renew = publish(fresh.fd, tmp, j->path, &is_named, err) < 0 && (is_named || j->must_renew);
    if (!is_named) {
        close(fresh.fd);
        return -1;
    }
    close(j->fd);
    j->fd = fresh.fd;
    j->seq = fresh.seq;
    j->size = j->compact_bytes = fresh.size;
    j->reserved_end = fresh.reserved_end;
    return j->must_renew ? -1 : 0;
}

/* A disk that fails is not asked ten times a second. */
static int renew(struct dp_journal *j, struct dp_err *err)
{
    if (j->retry_ns && dp_now_ns() < j->retry_ns)
        return dp_err_set(err, DP_EIO, "%s: an earlier write could not be made durable", j->path);
    j->retry_ns = dp_journal_compact(j, err) < 0 ? dp_now_ns() + RETRY_NS : 0;
    return j->retry_ns ? -1 : 0;
}

/* Remember how the newest request went. returns rc. */
static int keep_trouble(struct dp_journal *j, int rc, const struct dp_err *local, struct dp_err *err)
{
    snprintf(j->trouble, sizeof j->trouble, "%.255s", rc < 0 ? local->text : "");
    if (rc < 0 && err)
        *err = *local;
    return rc;
}

int dp_journal_settle(struct dp_journal *j, struct dp_err *err)
{
    struct dp_err local = {0};

    return j->must_renew ? keep_trouble(j, renew(j, &local), &local, err) : 0;
}

int dp_journal_reserve(struct dp_journal *j, size_t bytes, struct dp_err *err)
{
    if (dp_journal_settle(j, err) < 0)
        return -1;
    if (j->reserved_end >= j->size + bytes)
        return 0;
    if (reserve(j->fd, j->size, bytes) < 0) {
        struct dp_err local;

        dp_err_set(&local, DP_EIO, "%s: no room for %zu more bytes: %s", j->path, bytes, strerror(errno));
        return keep_trouble(j, -1, &local, err);
    }
    j->reserved_end = j->size + bytes;
    return 0;
}

static void cut_torn_record(struct dp_journal *j)
{
    uint64_t bytes = j->reserved_end > j->size ? j->reserved_end - j->size : 0;

    if (ftruncate(j->fd, (off_t)j->size) < 0)
        j->must_renew = true; /* it would stand before the next one */
    else if (bytes > 0 && reserve(j->fd, j->size, bytes) < 0)
        j->reserved_end = j->size; /* truncation gave the room back */
}

static enum dp_journal_fate write_record(struct dp_journal *j, const uint8_t *record, size_t total, struct dp_err *err)
{
    if (write_all(j->fd, record, total, j->size) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", j->path, strerror(errno));
        cut_torn_record(j);
        return DP_JOURNAL_ABSENT;
    }
    if (!j->is_deferred && fdatasync(j->fd) < 0) {
        j->must_renew = true;
        dp_err_set(err, DP_EIO, "%s: fdatasync: %s", j->path, strerror(errno));
        return DP_JOURNAL_DOUBTFUL;
    }
    j->seq++;
    j->size += total;
    if (j->reserved_end < j->size)
        j->reserved_end = j->size;
    return DP_JOURNAL_DURABLE;
}

static bool has_grown(const struct dp_journal *j)
{
    return j->fill && !j->is_deferred && j->size > DP_JOURNAL_COMPACT_BYTES && j->size > 2 * j->compact_bytes;
}

static enum dp_journal_fate append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes,
                                   struct dp_err *err)
{
    uint8_t record[DP_JOURNAL_HEAD_BYTES + DP_JOURNAL_PAYLOAD_MAX];
    enum dp_journal_fate fate;
    size_t total;

    if (dp_journal_settle(j, err) < 0)
        return DP_JOURNAL_ABSENT;
    if (has_grown(j) && renew(j, err) < 0 && j->must_renew)
        return DP_JOURNAL_ABSENT;
    total = dp_journal_record_encode(record, j->seq + 1, type, payload, bytes);
    if (j->size + total > DP_JOURNAL_MAX_BYTES) {
        dp_err_set(err, DP_EIO, "%s: larger than %u bytes, and cannot be written anew", j->path, DP_JOURNAL_MAX_BYTES);
        return DP_JOURNAL_ABSENT;
    }
    fate = write_record(j, record, total, err);
    if (fate == DP_JOURNAL_DURABLE || !j->fill || j->is_deferred || renew(j, NULL) < 0)
        return fate;
    total = dp_journal_record_encode(record, j->seq + 1, type, payload, bytes);
    return write_record(j, record, total, err);
}

enum dp_journal_fate dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes,
                                       struct dp_err *err)
{
    enum dp_journal_fate fate = DP_JOURNAL_ABSENT;
    struct dp_err local = {0};

    if (bytes > DP_JOURNAL_PAYLOAD_MAX)
        dp_err_set(&local, DP_EINVAL, "%s: record of %zu bytes", j->path, bytes);
    else
        fate = append(j, type, payload, bytes, &local);
    return (enum dp_journal_fate)keep_trouble(j, fate, &local, err);
}

uint64_t dp_journal_bytes(const struct dp_journal *j)
{
    return j->size;
}

uint64_t dp_journal_cut_bytes(const struct dp_journal *j)
{
    return j->cut_bytes;
}

const char *dp_journal_trouble(const struct dp_journal *j)
{
    return j->trouble[0] ? j->trouble : NULL;
}
