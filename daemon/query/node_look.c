/* SPDX-License-Identifier: BSD-3-Clause */
/* See node_look.h. Each look does the thing itself, with the rights of the daemon, and says what the system said. */
#include "config.h"

#include "daemon/query/node_look.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/conf/plugstack.h"
#include "common/message/client.h"
#include "common/message/munge_trip.h"
#include "common/slurm/libslurm.h"
#include "daemon/child/helper.h"
#include "daemon/child/slurm_job.h"
#include "daemon/query/slurmd_conf.h"

#define TARGET_MS 4000 /* another daemon answers in milliseconds, unless a firewall drops packets */
#define LOW_BYTES (16ull << 20) /* some thousand records */
#define LOOK_BYTES 4096         /* the largest record */

static void note(json_t *list, const char *status, const char *name, const char *todo, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static void note(json_t *list, const char *status, const char *name, const char *todo, const char *fmt, ...)
{
    json_t *f = json_object(), *t;
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t = json_string(text);
    json_object_set_new(f, "name", json_string(name));
    json_object_set_new(f, "status", json_string(status));
    json_object_set_new(f, "text", t ? t : json_string("(not UTF-8)"));
    if (todo)
        json_object_set_new(f, "todo", json_string(todo));
    json_array_append_new(list, f);
}

/* Write what a journal would, and see that it is durable. access() would say yes on a full disk. */
static int try_to_write(const char *path)
{
    static const char record[LOOK_BYTES];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), rc = -1, saved;

    if (fd < 0)
        return -1;
    errno = ENOSPC; /* where write() writes less than asked */
    if (write(fd, record, sizeof record) == (ssize_t)sizeof record && fdatasync(fd) == 0)
        rc = 0;
    saved = errno;
    close(fd);
    unlink(path);
    errno = saved;
    return rc;
}

static void look_at_state_dir(json_t *list, const struct dp_look_request *q)
{
    struct statvfs fs;
    char path[320];

    snprintf(path, sizeof path, "%s/check.%d.tmp", q->state_dir, (int)getpid());
    if (try_to_write(path) < 0)
        note(list, "FAIL", "state_dir", "make room there; without a journal nothing is moved or given back",
             "%s cannot be written: %s", q->state_dir, strerror(errno));
    else if (statvfs(q->state_dir, &fs) == 0 && fs.f_bavail * fs.f_frsize < LOW_BYTES)
        note(list, "warn", "state_dir", "make room there", "%s: only %llu KiB are left", q->state_dir,
             (unsigned long long)(fs.f_bavail * fs.f_frsize >> 10));
    else
        note(list, "ok", "state_dir", NULL, "%s can be written", q->state_dir);
}

static void look_at_munge(json_t *list, const struct dp_look_request *q)
{
    struct dp_err err;

    if (dp_munge_round_trip(q->munge_socket, &err) < 0)
        note(list, "FAIL", "munge", "is munged running there, and is its socket the right one?",
             "a credential cannot be created and decoded: %s", err.text);
    else
        note(list, "ok", "munge", NULL, "a credential can be created and decoded");
}

/* Folders in which Slurm looks for plugins: the file's, else the controller's. */
static void plugin_folders(const char *path, char *out, size_t cap)
{
    struct dp_slurm_conf conf;

    dp_slurm_conf_value(path, "PluginDir", out, cap);
    if (*out || dp_slurm_conf_load(&conf, NULL) < 0)
        return;
    snprintf(out, cap, "%s", conf.plugin_dir);
    dp_slurm_conf_release(&conf);
}

static void look_at_socket(json_t *list, const struct dp_look_request *q, const struct dp_plugstack *stack)
{
    char path[300];

    dp_plugstack_socket(stack, q->node, path, sizeof path);
    if (strcmp(path, q->socket) != 0)
        note(list, "FAIL", "socket", "give both the same path: socket=... in plugstack.conf, daemon.socket in dynpipe.conf",
             "the plugin talks to %s, dynpiped listens on %s", path, q->socket);
    else
        note(list, "ok", "socket", NULL, "plugin and daemon agree on %s", path);
}

/* running: of slurmd, 0 where it is not known. */
static void look_behind(json_t *list, const struct dp_look_request *q, const char *conf, const struct dp_plugstack *stack,
                        unsigned running)
{
    char folders[1024] = "", path[1600];
    unsigned release = 0;
    struct dp_err err;
    uint32_t built;

    if (stack->plugin[0] != '/')
        plugin_folders(conf, folders, sizeof folders);
    dp_plugstack_find_plugin(stack, folders, path, sizeof path);
    if (access(path, R_OK) < 0) {
        note(list, "FAIL", "plugin", "install it on this node: `make install`, or the package", "%s: %s", path, strerror(errno));
    } else if (dp_plugin_version(path, &built, &err) < 0) {
        note(list, "FAIL", "plugin", "build it again", "%s: %s", path, err.text);
    } else {
        release = dp_slurm_release_of_number(built);
        if (running && release != running)
            note(list, "FAIL", "plugin", "build DynPipe against the headers of this Slurm",
                 "%s is built for Slurm %u.%02u, slurmd here is %u.%02u", path, release / 100, release % 100, running / 100,
                 running % 100);
        else
            note(list, "ok", "plugin", NULL, "%s", path);
    }
    look_at_socket(list, q, stack);
}

static void take_release(const struct dp_slurm_node *node, void *arg)
{
    unsigned *release = arg;

    *release = dp_slurm_release_of(node->version);
}

/* Does Slurm know this node? returns: the release of its slurmd, 0: not known. */
static unsigned look_at_slurm(json_t *list, const struct dp_look_request *q)
{
    unsigned release = 0, own = dp_slurm_release_of(dp_slurm_built_for());
    struct dp_err err;

    if (dp_slurm_each_node(q->node, take_release, &release, &err) < 0) {
        if (err.code == DP_EGONE)
            note(list, "FAIL", "node", "start dynpiped with --node=NAME, as slurm.conf has it",
                 "Slurm knows no node %s: no job will ever be registered there", q->node);
        else
            note(list, "warn", "slurmctld", "is it running? is SLURM_CONF of dynpiped right? is DynPipe built for this Slurm?",
                 "it cannot be asked from there (dynpiped is built for Slurm %s): %s", dp_slurm_built_for(), err.text);
    } else if (release && release != own) {
        note(list, "warn", "slurm", "build DynPipe against the headers of this Slurm",
             "dynpiped is built for Slurm %u.%02u, slurmd here is %u.%02u", own / 100, own % 100, release / 100, release % 100);
    }
    return release;
}

/* Where several slurmd share the machine: the port of the controller that is ours. 0: only one runs here. */
static unsigned controller_port(const struct dp_look_request *q)
{
    struct dp_slurm_conf conf = {0};
    unsigned port;

    if (q->is_shared_host)
        dp_slurm_conf_load(&conf, NULL);
    port = conf.port;
    dp_slurm_conf_release(&conf);
    return port;
}

/* As the slurmd that runs here would hand it to its steps. */
static void look_at_plugin(json_t *list, const struct dp_look_request *q)
{
    unsigned running = look_at_slurm(list, q);
    struct dp_plugstack stack;
    char conf[1024], path[1100];
    struct dp_err err;

    if (dp_slurmd_find_conf(q->node, controller_port(q), conf, sizeof conf, &err) < 0) {
        note(list, "warn", "slurmd", "start it there", "%s", err.text);
        return;
    }
    dp_slurm_conf_value(conf, "PlugStackConfig", path, sizeof path);
    if (!*path) {
        const char *slash = strrchr(conf, '/');

        snprintf(path, sizeof path, "%.*s/plugstack.conf", slash ? (int)(slash - conf) : 1, slash ? conf : ".");
    }
    dp_plugstack_read(path, &stack);
    if (!stack.is_found)
        note(list, "FAIL", "plugstack", "add the line `optional spank_dynpipe.so` there, as on the other nodes",
             "%s, which slurmd of this node goes by (%s), does not name spank_dynpipe.so%s%s", path, conf,
             *stack.unreadable ? "; " : "", stack.unreadable);
    else if (stack.is_required)
        note(list, "FAIL", "plugstack", "write `optional` instead of `required`",
             "%s:%u: a required plugin that fails drains its node", stack.file, stack.line);
    if (stack.is_found)
        look_behind(list, q, conf, &stack, running);
    dp_plugstack_release(&stack);
}

/* A name that somebody sends must not make us knock anywhere. */
static bool is_node_of_slurm(const struct dp_look_request *q)
{
    unsigned release;

    return q->has_slurm && dp_slurm_each_node(q->target, take_release, &release, NULL) == 0;
}

/* The same handshake as between daemons: there and back, through both sides' munge. */
static void look_at_target(json_t *list, const struct dp_look_request *q)
{
    struct dp_client *client;
    struct dp_err err;
    char *text = NULL;

    if (!q->target[0] || !strcmp(q->target, q->node))
        return;
    if (q->must_be_known && !is_node_of_slurm(q)) {
        note(list, "warn", "peer", "check the name", "%s is not a node that Slurm knows", q->target);
        return;
    }
    client = dp_client_open_tcp(q->address, q->port, *q->from ? q->from : NULL, q->target,
                                *q->munge_socket ? q->munge_socket : NULL, q->reader, TARGET_MS, &err);
    if (!client || dp_client_query(client, DP_QUERY_NODE, 0, &text, &err) < 0)
        note(list, "FAIL", "peer", strstr(err.text, "nvalid credential") ? "the same munge key on every node"
             : strstr(err.text, "xpired") || strstr(err.text, "ewound") ? "set the clocks of both nodes"
             : "is its port open to this node, and its dynpiped running?",
             "the daemon of %s cannot be reached from here: %s", q->target, err.text);
    else
        note(list, "ok", "peer", NULL, "reaches the daemon of %s", q->target);
    free(text);
    dp_client_destroy(client);
}

size_t dp_node_look(const void *request, size_t bytes, uint8_t *result)
{
    const struct dp_look_request *q = request;
    json_t *list = json_array();
    char *text;
    size_t n = 0;

    (void)bytes;
    if (q->has_slurm)
        dp_slurm_enter();
    look_at_state_dir(list, q);
    look_at_munge(list, q);
    if (q->has_slurm)
        look_at_plugin(list, q);
    look_at_target(list, q);
    text = json_dumps(list, JSON_COMPACT);
    if (text && strlen(text) < DP_HELPER_RESULT_MAX) {
        n = strlen(text) + 1;
        memcpy(result, text, n);
    }
    free(text);
    json_decref(list);
    return n;
}
