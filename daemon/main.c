/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpiped: argv, start-up, the event loop, and shut-down in the reverse order.
 *
 * Start-up: configuration; the small root process (before any socket exists); the node's journal; the
 * runs in it; the sockets; then "ready" on stdout. SIGHUP reads the configuration again and keeps the
 * old one when the new one is wrong; SIGTERM and SIGINT end the daemon, not the runs: their journals
 * stay, and the next daemon goes on from them.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file/trust.h"
#include "common/log.h"
#include "common/site/site_policy.h"
#include "common/slurm/node_name.h"
#include "common/stdout.h"
#include "daemon/child/helper.h"
#include "daemon/daemon.h"
#include "daemon/net/daemon_state.h"
#include "daemon/release/nvml.h"
#include "daemon/release/privileged.h"
#include "daemon/run/run.h"

struct options {
    const char *config_path;
    char node[64];
    bool check_only, print_config, foreground;
};

static void print_usage(FILE *out)
{
    fputs("Usage: dynpiped [-f FILE] [--node NAME] [--foreground] [--check-config] [--print-config]\n"
          "\n"
          "  -f, --config FILE   configuration (default " DYNPIPE_CONF_PATH ")\n"
          "  -N, --node NAME     name of this node in Slurm (default: the host's short name)\n"
          "  -D, --foreground    stay in the foreground; \"ready\" on stdout when listening\n"
          "      --check-config  read the configuration, say what is wrong with it, and exit\n"
          "      --print-config  print a configuration with every key, its meaning and default\n"
          "  -h, --help          this text\n"
          "  -V, --version       version\n",
          out);
}

static void default_node(char out[64])
{
    if (gethostname(out, 64) < 0)
        snprintf(out, 64, "localhost");
    out[63] = '\0';
    out[strcspn(out, ".")] = '\0';
}

/* returns: the exit status of a daemon that was only asked to print something. */
static int end_of_print(void)
{
    struct dp_err err;

    if (dp_stdout_flush(&err) == 0)
        return 0;
    fprintf(stderr, "dynpiped: %s\n", err.text);
    return 1;
}

/* returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"config", required_argument, NULL, 'f'}, {"node", required_argument, NULL, 'N'},
        {"foreground", no_argument, NULL, 'D'},   {"check-config", no_argument, NULL, 'c'},
        {"print-config", no_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
    };
    int c;

    memset(o, 0, sizeof *o);
    default_node(o->node);
    while ((c = getopt_long(argc, argv, "f:N:DhV", known, NULL)) >= 0) {
        switch (c) {
        case 'f':
            o->config_path = optarg;
            break;
        case 'N':
            if (strlen(optarg) >= sizeof o->node) {
                fprintf(stderr, "dynpiped: --node: name too long\n");
                return 2;
            }
            snprintf(o->node, sizeof o->node, "%s", optarg);
            break;
        case 'D':
            o->foreground = true;
            break;
        case 'c':
            o->check_only = true;
            break;
        case 'p':
            o->print_config = true;
            break;
        case 'h':
            print_usage(stdout);
            return end_of_print();
        case 'V':
            puts("dynpiped " PACKAGE_VERSION);
            return end_of_print();
        default:
            print_usage(stderr);
            return 2;
        }
    }
    if (optind < argc || !dp_is_node_name(o->node)) {
        fprintf(stderr, "dynpiped: %s: %s\n", optind < argc ? argv[optind] : o->node,
                optind < argc ? "unknown argument" : "not a node name");
        return 2;
    }
    if (!o->config_path && access(DYNPIPE_CONF_PATH, F_OK) == 0)
        o->config_path = DYNPIPE_CONF_PATH;
    return -1;
}

static enum dp_log_level level_of(const struct dp_config *c)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};

    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], c->log_level))
            return (enum dp_log_level)i;
    return DP_LOG_INFO;
}

static void apply_config(struct dp_daemon *d)
{
    dp_log_setup("dynpiped", level_of(d->config));
    dp_daemon_limit(d);
}

/* Can every site policy be loaded and asked? Takes time: before the daemon serves anybody, or in a child. A
 * policy that fails later leaves the layouts of its runs as they are. */
static int probe_policies(const struct dp_config *c, struct dp_err *err)
{
    for (uint32_t i = 0; i < c->n_site_policies; i++) {
        const struct dp_site_policy_conf *p = &c->site_policy[i];
        struct dp_site_policy policy;

        dp_site_policy_init(&policy, p->name, p->file, p->arguments, c->run.policy_timeout_s);
        if (dp_site_policy_probe(&policy, err) < 0)
            return -1;
    }
    return 0;
}

static size_t probe_work(const void *request, size_t bytes, uint8_t *result)
{
    const struct dp_config *c;
    struct dp_err err = {0};

    (void)bytes;
    memcpy(&c, request, sizeof c); /* the child has it, too */
    if (probe_policies(c, &err) == 0)
        snprintf(err.text, sizeof err.text, "ok");
    memcpy(result, err.text, sizeof err.text);
    return sizeof err.text;
}

/* Who asks for a reload gets no answer: it is logged, and told to who asks this node later. */
static void note_trouble(struct dp_daemon *d, const char *what, const char *why)
{
    snprintf(d->trouble, sizeof d->trouble, "%s: %s", what, why);
    dp_error("%s", d->trouble);
}

static void on_probed(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_daemon *d = arg;

    (void)bytes;
    d->probe = NULL;
    if (!result)
        note_trouble(d, "site policies after the reload", why);
    else if (strcmp((const char *)result, "ok"))
        note_trouble(d, "the layouts of its runs will stay as they are", (const char *)result);
}

static void probe_later(struct dp_daemon *d)
{
    struct dp_err err = {0};

    dp_helper_cancel(d->probe);
    d->probe = NULL;
    if (!d->config->n_site_policies)
        return;
    d->probe = dp_helper_start(d->base, probe_work, &d->config, sizeof d->config,
                               d->config->run.policy_timeout_s * d->config->n_site_policies + 1.0, on_probed, d, &err);
    if (!d->probe)
        note_trouble(d, "site policies after the reload", err.text);
}

/* ---- signals and time ---- */

static void on_stop(evutil_socket_t sig, short what, void *arg)
{
    struct dp_daemon *d = arg;

    (void)what;
    dp_info("signal %d, ending", (int)sig);
    event_base_loopbreak(d->base);
}

/* Of the new configuration, what was fixed when the sockets were opened and the rights parted. */
static bool needs_restart(const struct dp_daemon *d, const struct dp_config *fresh)
{
    const struct dp_config *c = d->config;

    return strcmp(fresh->socket, c->socket) || strcmp(fresh->state_dir, c->state_dir) || strcmp(fresh->pidfile, c->pidfile) ||
           strcmp(fresh->listen, c->listen) || strcmp(fresh->run_user, c->run_user) ||
           strcmp(fresh->device_files, c->device_files) || fresh->port != c->port || fresh->slurm != c->slurm ||
           dp_config_is_shared_host(fresh, d->node) != dp_config_is_shared_host(c, d->node);
}

static void on_reload(evutil_socket_t sig, short what, void *arg)
{
    struct dp_daemon *d = arg;
    struct dp_err err = {0};
    struct dp_config *fresh = dp_config_load(d->config_path, d->node, &err);

    (void)sig;
    (void)what;
    if (!fresh) {
        note_trouble(d, "configuration not reloaded, the old one stays", err.text);
        return;
    }
    d->trouble[0] = '\0';
    if (needs_restart(d, fresh))
        note_trouble(d, "change only at a restart", "socket, state_dir, port, listen, slurm, run_user, device_files, pidfile, and "
                     "whether several nodes share this machine");
    memcpy(fresh->socket, d->config->socket, sizeof fresh->socket);
    memcpy(fresh->state_dir, d->config->state_dir, sizeof fresh->state_dir);
    memcpy(fresh->pidfile, d->config->pidfile, sizeof fresh->pidfile);
    memcpy(fresh->listen, d->config->listen, sizeof fresh->listen);
    memcpy(fresh->run_user, d->config->run_user, sizeof fresh->run_user);
    memcpy(fresh->device_files, d->config->device_files, sizeof fresh->device_files);
    fresh->port = d->config->port;
    fresh->slurm = d->config->slurm;
    dp_config_destroy(d->config);
    d->config = fresh;
    apply_config(d);
    if (dp_log_to(d->config->log, &err) < 0) /* the same file may have been moved away */
        note_trouble(d, "the old log stays", err.text);
    dp_info("configuration reloaded");
    probe_later(d);
}

static void on_child(evutil_socket_t sig, short what, void *arg)
{
    (void)sig;
    (void)what;
    (void)arg;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

struct signals {
    struct event *term, *intr, *hup, *child;
};

static int watch_signals(struct dp_daemon *d, struct signals *s, struct dp_err *err)
{
    signal(SIGPIPE, SIG_IGN);
    s->term = evsignal_new(d->base, SIGTERM, on_stop, d);
    s->intr = evsignal_new(d->base, SIGINT, on_stop, d);
    s->hup = evsignal_new(d->base, SIGHUP, on_reload, d);
    s->child = evsignal_new(d->base, SIGCHLD, on_child, d);
    if (!s->term || !s->intr || !s->hup || !s->child || event_add(s->term, NULL) < 0 || event_add(s->intr, NULL) < 0 ||
        event_add(s->hup, NULL) < 0 || event_add(s->child, NULL) < 0)
        return dp_err_set(err, DP_ENOMEM, "signals cannot be watched");
    return 0;
}

static void unwatch(struct event *e)
{
    if (e)
        event_free(e);
}

/* ---- start and end ---- */

static void read_boot_id(char out[40])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, 36);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
}

static bool has_pidfile; /* we wrote it: another daemon's is not ours to take away */

/* What a daemon that was killed left there. */
static int remove_old_pidfile(const char *path, struct dp_err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dp_err_set(err, DP_EAUTH, "%s: not a regular file; remove it, or name another pidfile", path);
    if (unlink(path) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

/* In a folder where nobody else writes: what lies there is what a daemon left. */
static int write_pidfile(const char *path, struct dp_err *err)
{
    uid_t owner;
    int fd, rc;

    if (!path[0])
        return 0;
    if (dp_trust_folder(path, &owner, err) < 0)
        return dp_err_prefix(err, "the folder of the pid file");
    if (remove_old_pidfile(path, err) < 0)
        return -1;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    rc = fd < 0 ? -1 : dprintf(fd, "%d\n", (int)getpid());
    if (rc < 0)
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    has_pidfile = fd >= 0;
    if (fd >= 0)
        close(fd);
    return rc < 0 ? -1 : 0;
}

/* Go to the background: the parent waits until the daemon is ready and takes its fate as its own exit
 * status. returns the descriptor on which to say so. */
static int go_to_background(struct dp_err *err)
{
    int fds[2];
    char ready;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        return dp_err_set(err, DP_EIO, "cannot go to the background: %s", strerror(errno));
    if (pid > 0) {
        close(fds[1]);
        _exit(read(fds[0], &ready, 1) == 1 ? 0 : 1);
    }
    close(fds[0]);
    setsid();
    return fds[1];
}

static void say_ready(int fd)
{
    int null;

    if (fd < 0) {
        puts("ready");
        fflush(stdout);
        return;
    }
    if (write(fd, "r", 1) < 0)
        dp_warn("nobody waits for ready");
    close(fd);
    null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
}

/* Without it a slot could be held for ever; whoever started the daemon starts both again. */
static void on_helper_gone(void *arg)
{
    struct dp_daemon *d = arg;

    dp_error("the privileged helper is gone, ending");
    d->has_failed = true;
    event_base_loopbreak(d->base);
}

/* Root reads every file; whoever it became must be able to read it again. */
static void check_reload(struct dp_daemon *d)
{
    char why[300];

    if (!d->config_path || faccessat(AT_FDCWD, d->config_path, R_OK, AT_EACCESS) == 0)
        return;
    snprintf(why, sizeof why, "%.200s cannot be read by uid %d: let it read that file", d->config_path, (int)geteuid());
    note_trouble(d, "a reload of the configuration will fail", why);
}

/* Before any socket is there, the rights are parted. */
static int part_rights(struct dp_daemon *d, struct dp_err *err)
{
    struct dp_priv_scope scope = {.is_shared_host = dp_config_is_shared_host(d->config, d->node)};

    memcpy(scope.node, d->node, sizeof scope.node);
    memcpy(scope.socket, d->config->socket, sizeof scope.socket);
    memcpy(scope.boot_id, d->boot_id, sizeof scope.boot_id);
    memcpy(scope.devices, d->config->device_files, sizeof scope.devices);
    snprintf(scope.nvml, sizeof scope.nvml, "%s", dp_nvml_library());
    d->priv = dp_priv_create(d->config->run_user, &scope, err);
    if (!d->priv)
        return -1;
    prctl(PR_SET_DUMPABLE, 0); /* no core files with session keys in them */
    d->uid = geteuid();
    check_reload(d);
    return 0;
}

static int open_all(struct dp_daemon *d, struct signals *s, struct dp_err *err)
{
    if (part_rights(d, err) < 0 || dp_daemon_begin(d, err) < 0)
        return -1;
    if (dp_priv_watch(d->priv, d->base, on_helper_gone, d, err) < 0 || watch_signals(d, s, err) < 0)
        return -1;
    if (dp_daemon_serve(d, err) < 0)
        return -1;
    return write_pidfile(d->config->pidfile, err);
}

static void close_all(struct dp_daemon *d, struct signals *s)
{
    if (has_pidfile)
        unlink(d->config->pidfile);
    dp_daemon_end(d);
    unwatch(s->child);
    unwatch(s->hup);
    unwatch(s->intr);
    unwatch(s->term);
    dp_priv_destroy(d->priv);
    if (d->base)
        event_base_free(d->base);
}

static int run_daemon(struct dp_daemon *d, bool foreground)
{
    struct dp_err err = {0};
    struct signals s = {0};
    int ready_fd = -1, rc = 1;

    if (!foreground && (ready_fd = go_to_background(&err)) < 0) {
        fprintf(stderr, "dynpiped: %s\n", err.text);
        return 1;
    }
    if (open_all(d, &s, &err) < 0) {
        dp_error("%s", err.text);
        goto out;
    }
    if (dp_log_to(d->config->log, &err) < 0) { /* as who opens it anew at a reload */
        dp_error("%s", err.text);
        goto out;
    }
    dp_info("ready node=%s socket=%s slurm=%s uid=%d pid=%d", d->node, d->config->socket,
            d->config->slurm ? "yes" : "no", (int)d->uid, (int)getpid());
    say_ready(ready_fd);
    event_base_dispatch(d->base);
    rc = d->has_failed;
out:
    close_all(d, &s);
    return rc;
}

int main(int argc, char **argv)
{
    struct dp_daemon d = {.start_ns = dp_now_ns(), .lock_fd = -1};
    struct dp_err err = {0};
    struct options o;
    int rc = parse_options(argc, argv, &o);

    if (rc >= 0)
        return rc;
    if (o.print_config) {
        static char buffer[65536]; /* written at the end, where a failure still has its reason */

        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
        dp_config_print(stdout);
        return end_of_print();
    }
    d.config_path = o.config_path;
    memcpy(d.node, o.node, sizeof d.node);
    d.config = dp_config_load(o.config_path, d.node, &err);
    if (!d.config || probe_policies(d.config, &err) < 0) {
        fprintf(stderr, "dynpiped: %s\n", err.text);
        dp_config_destroy(d.config);
        return 1;
    }
    if (o.check_only) {
        printf("%s: ok\n", o.config_path ? o.config_path : "defaults");
        dp_config_destroy(d.config);
        return 0;
    }
    dp_log_never_wait();
    umask(022); /* whatever it was started with: files of ours are nobody else's to write */
    read_boot_id(d.boot_id);
    apply_config(&d);
    rc = run_daemon(&d, o.foreground);
    dp_config_destroy(d.config);
    return rc;
}
