/* SPDX-License-Identifier: BSD-3-Clause */
/* The unix socket of the node: everybody may connect (mode 0666), the kernel says who it is
 * (SO_PEERCRED), and the table in roles.c says what that lets them do. A lock file beside the socket,
 * not the socket itself, tells whether another daemon is alive: a stale socket is replaced, a live
 * daemon's is left alone.
 */
#include "config.h"

#include "daemon/net/local_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file/trust.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/events.h"
#include "daemon/net/listen.h"

#define FIRST_FRAME_S 5.0 /* whoever connects speaks first; a place costs a descriptor */
#define CHILD_NS (3 * DP_SECOND_NS) /* such a child lives for less, but on a busy machine */
#define BACKLOG 128 /* a node's tasks all connect within the same millisecond */

static const struct dp_conn_ops local_ops = {.frame = dp_net_frame, .closed = dp_net_closed, .drained = dp_net_drained};

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr, int len,
                      void *arg)
{
    struct dp_daemon *d = arg;
    struct ucred cred = {0};
    socklen_t cred_len = sizeof cred;
    enum dp_role role;
    struct dp_conn *c;

    (void)addr;
    (void)len;
    dp_listen_accepted(d, listener);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0) {
        close(fd);
        return;
    }
    role = cred.uid == 0 || cred.uid == d->uid ? DP_ROLE_PLUGIN : DP_ROLE_LOCAL;
    c = dp_conn_create(&d->conns, fd, role, cred.uid, &local_ops, d);
    if (!c)
        return;
    c->pid = cred.pid;
    dp_conn_set_deadline(c, FIRST_FRAME_S);
}

/* Whoever may write the folder can put another socket in the place of ours. */
static int check_folder(const char *socket_path, struct dp_err *err)
{
    uid_t owner;

    if (dp_trust_folder(socket_path, &owner, err) < 0)
        return dp_err_prefix(err, "the folder of the socket");
    if (owner != 0 && owner != geteuid())
        return dp_err_set(err, DP_EAUTH, "%s: its folder belongs to uid %u, must belong to root or to the daemon's user "
                          "(uid %u)", socket_path, owner, geteuid());
    return 0;
}

/* A daemon that was killed may leave a child that has not come to closing what it inherited, this lock too: it is waited for, since
 * whoever starts the next daemon at once would have to start it again. */
static bool is_free(int lock_fd)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    uint64_t end_ns = dp_now_ns() + CHILD_NS;

    while (flock(lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (dp_now_ns() > end_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static int take_lock(struct dp_daemon *d, struct dp_err *err)
{
    const char *socket_path = d->config->socket;
    char path[128];

    snprintf(path, sizeof path, "%s.lock", socket_path);
    d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock_fd < 0)
        return dp_trust_not_opened(path, err);
    if (!is_free(d->lock_fd)) {
        close(d->lock_fd);
        d->lock_fd = -1;
        return dp_err_set(err, DP_EIO, "%s: another dynpiped serves this socket", socket_path);
    }
    return 0;
}

int dp_local_open(struct dp_daemon *d, struct dp_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const char *path = d->config->socket;
    struct stat st;
    mode_t old;
    int fd, rc;

    if (check_folder(path, err) < 0 || take_lock(d, err) < 0)
        return -1;
    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode))
            return dp_err_set(err, DP_EIO, "%s: exists and is not a socket", path);
        unlink(path);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "socket: %s", strerror(errno));
    memcpy(addr.sun_path, path, strlen(path) + 1); /* both are 108 bytes */
    old = umask(0111);
    rc = bind(fd, (struct sockaddr *)&addr, sizeof addr);
    umask(old);
    if (rc < 0) {
        close(fd);
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    }
    d->local = evconnlistener_new(d->base, on_accept, d, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    if (!d->local) {
        close(fd);
        return dp_err_set(err, DP_EIO, "%s: cannot listen", path);
    }
    dp_listen_watch(d->local);
    return 0;
}

void dp_local_close(struct dp_daemon *d)
{
    if (d->local) {
        evconnlistener_free(d->local);
        unlink(d->config->socket);
    }
    d->local = NULL;
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    d->lock_fd = -1;
}
