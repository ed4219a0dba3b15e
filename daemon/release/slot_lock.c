/* SPDX-License-Identifier: BSD-3-Clause */
/* See slot_lock.h. A daemon that listens has given up root's rights and cannot give a file away. It need
 * not: an access control list names the one user who may open it besides, and setting one takes no right
 * but to own the file. The list is written as the kernel reads it (acl(5), linux/posix_acl_xattr.h): one
 * call, and no library for it.
 */
#include "config.h"

#include "daemon/release/slot_lock.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACL_NAME "system.posix_acl_access"
#define ACL_VERSION 2u /* POSIX_ACL_XATTR_VERSION */
#define NO_ID 0xffffffffu /* ACL_UNDEFINED_ID: the entry is of no one user */

enum { TAG_OWNER = 0x01, TAG_USER = 0x02, TAG_GROUP = 0x04, TAG_MASK = 0x10, TAG_OTHER = 0x20 };
enum { READ_WRITE = 06 };

struct acl_entry {
    uint16_t tag, perm;
    uint32_t id;
};

struct acl {
    uint32_t version;
    struct acl_entry entry[5];
};

void dp_slot_lock_path(const char *socket, uint32_t job_id, char *out, size_t cap)
{
    snprintf(out, cap, "%s.locks/job-%u.lock", socket, job_id);
}

static struct acl_entry entry(uint16_t tag, uint16_t perm, uint32_t id)
{
    return (struct acl_entry){htole16(tag), htole16(perm), htole32(id)};
}

/* The daemon's user and `owner` read and write, nobody else anything. */
static int admit(int fd, uid_t owner)
{
    const struct acl list = {htole32(ACL_VERSION),
                             {entry(TAG_OWNER, READ_WRITE, NO_ID), entry(TAG_USER, READ_WRITE, owner),
                              entry(TAG_GROUP, 0, NO_ID), entry(TAG_MASK, READ_WRITE, NO_ID),
                              entry(TAG_OTHER, 0, NO_ID)}};

    return fsetxattr(fd, ACL_NAME, &list, sizeof list, 0);
}

int dp_slot_lock_make(const char *path, uid_t owner, struct dp_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (owner != geteuid() && fchown(fd, owner, (gid_t)-1) < 0 && admit(fd, owner) < 0) {
        dp_err_set(err, DP_EIO, "%s: cannot be opened to uid %u only: %s", path, owner, strerror(errno));
        close(fd);
        unlink(path);
        return -1;
    }
    close(fd);
    return 0;
}

bool dp_slot_lock_is_free(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    bool is_free;

    if (fd < 0)
        return errno == ENOENT;
    is_free = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_free;
}
