/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of a checkpoint (ckpt_file.h). A file counts as written when fsync said so: without it, power
 * loss brings back an empty file under the new name.
 */
#include "worker/checkpoint/ckpt_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int dp_ckpt_sha256(const void *data, size_t bytes, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err)
{
    unsigned len = 0;

    if (EVP_Digest(data, bytes, out, &len, EVP_sha256(), NULL) != 1 || len != DP_DIGEST_BYTES)
        return dp_err_set(err, DP_ENOTSUP, "libcrypto has no SHA-256");
    return 0;
}

void dp_ckpt_hex(const uint8_t digest[DP_DIGEST_BYTES], char out[2 * DP_DIGEST_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < DP_DIGEST_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * DP_DIGEST_BYTES] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int dp_ckpt_unhex(const char *text, uint8_t out[DP_DIGEST_BYTES])
{
    if (strlen(text) != 2 * DP_DIGEST_BYTES)
        return -1;
    for (int i = 0; i < DP_DIGEST_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -1;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, data, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int dp_ckpt_file_write(const char *path, const void *data, size_t bytes, struct dp_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);

    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (write_all(fd, data, bytes) < 0 || fsync(fd) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        close(fd);
        return -1;
    }
    if (close(fd) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

static int read_all(int fd, uint8_t *to, size_t bytes)
{
    while (bytes) {
        ssize_t n = read(fd, to, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : EIO;
            return -1;
        }
        to += n;
        bytes -= (size_t)n;
    }
    return 0;
}

uint8_t *dp_ckpt_file_read(const char *path, size_t *bytes, struct dp_err *err)
{
    uint8_t *data = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0) {
        dp_err_set(err, errno == ENOENT ? DP_ECORRUPT : DP_EIO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        dp_err_set(err, DP_ECORRUPT, "%s: not a regular file", path);
    } else {
        *bytes = (size_t)st.st_size;
        data = malloc(*bytes + 1);
        if (!data) {
            dp_err_set(err, DP_ENOMEM, "%s: no memory for %zu bytes", path, *bytes);
        } else if (read_all(fd, data, *bytes) < 0) {
            dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
            free(data);
            data = NULL;
        } else {
            data[*bytes] = '\0';
        }
    }
    if (fd >= 0)
        close(fd);
    return data;
}

int dp_ckpt_dir_sync(const char *path, struct dp_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    rc = fsync(fd);
    if (rc < 0)
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    close(fd);
    return rc;
}

int dp_ckpt_dir_remove(const char *path, struct dp_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); /* a link leads to other files */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir && fd >= 0)
        close(fd);
    if (!dir)
        return errno == ENOENT ? 0 : dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    while ((e = readdir(dir)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    if (rmdir(path) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return 0;
}
