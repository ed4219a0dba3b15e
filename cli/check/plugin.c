/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the plugin in this machine's plugstack.conf, as `optional`, there, and built for this Slurm? */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask/link.h"
#include "cli/check/check.h"
#include "cli/show/json.h"
#include "common/conf/plugin_args.h"
#include "common/conf/plugstack.h"
#include "common/slurm/libslurm.h"

static void check_version(struct dp_check *c, const char *path)
{
    struct dp_err err;
    unsigned release;
    uint32_t built;
    char slurm[64];

    if (access(path, R_OK) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "plugin", "install it on this node: `make install`, or the package",
                      "%s: %s", path, strerror(errno));
        return;
    }
    if (dp_plugin_version(path, &built, &err) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "plugin", "build it again", "%s: %s", path, err.text);
        return;
    }
    release = dp_slurm_release_of_number(built);
    if (release != dp_slurm_release_of(dp_json_text(slurm, sizeof slurm, c->slurm, "version", "0")))
        dp_check_note(c, DP_FIND_FAIL, "plugin", "build DynPipe against the headers of this Slurm",
                      "%s is built for Slurm %u.%02u, this is %s", path, release / 100, release % 100, slurm);
    else
        dp_check_note(c, DP_FIND_OK, "plugin", NULL, "%s, for Slurm %u.%02u", path, release / 100, release % 100);
}

/* Jobs with a /tmp of their own do not see a socket in that of the node. */
static void check_place(struct dp_check *c, const char *socket)
{
    const char *const hidden[] = {"/tmp/", "/dev/shm/"};
    char plugin[128];

    dp_json_text(plugin, sizeof plugin, c->slurm, "own_folders", "");
    if (!strstr(plugin, "tmpfs") && strcmp(plugin, "namespace/linux") != 0)
        return;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (!strncmp(socket, hidden[i], strlen(hidden[i])))
            dp_check_note(c, DP_FIND_FAIL, "socket", "put it where jobs see it, as /run/dynpipe (socket=... in plugstack.conf, "
                          "daemon.socket in dynpipe.conf), or take its folder out of Dirs in Slurm's configuration of that plugin",
                          "Slurm gives each job its own /tmp and /dev/shm (%s): no worker finds %s", plugin, socket);
}

/* Does the plugin talk to the socket that the daemon listens on? */
static void check_arguments(struct dp_check *c, const struct dp_plugstack *f)
{
    struct dp_plugin_args args;
    struct dp_err err;
    char path[256];

    if (dp_plugin_args_parse(f->n_args, f->args, &args, &err) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "plugstack", "correct the line", "%s:%u: %s", f->file, f->line, err.text);
        return;
    }
    if (!c->config || dp_socket_path(args.socket, dp_link_node(), path, sizeof path, NULL) < 0)
        return;
    if (strcmp(path, c->config->socket) != 0)
        dp_check_note(c, DP_FIND_FAIL, "socket",
                      "give both the same path: socket=... in plugstack.conf, daemon.socket in dynpipe.conf",
                      "the plugin talks to %s, dynpiped listens on %s", path, c->config->socket);
    else
        dp_check_note(c, DP_FIND_OK, "socket", NULL, "plugin and daemon agree on %s", path);
    check_place(c, path);
}

/* PlugStackConfig; where slurm.conf does not name it slurmctld says nothing, and it is beside slurm.conf. */
static void plugstack_path(const json_t *slurm, char *out, size_t cap)
{
    char conf[512];
    const char *slash;

    if (*dp_json_text(out, cap, slurm, "plugstack", ""))
        return;
    slash = strrchr(dp_json_text(conf, sizeof conf, slurm, "slurm_conf", ""), '/');
    snprintf(out, cap, "%.*s/plugstack.conf", slash ? (int)(slash - conf) : 1, slash ? conf : ".");
}

void dp_check_plugin(struct dp_check *c)
{
    char stack[600], folders[1024], path[1600];
    struct dp_plugstack f;

    if (!c->slurm)
        return;
    plugstack_path(c->slurm, stack, sizeof stack);
    dp_plugstack_read(stack, &f);
    if (!f.is_found) {
        dp_check_note(c, DP_FIND_FAIL, "plugstack",
                      "add the line `optional spank_dynpipe.so` there, on login and compute nodes",
                      "%s does not name spank_dynpipe.so%s%s", stack, *f.unreadable ? "; " : "", f.unreadable);
        return;
    }
    if (f.is_required)
        dp_check_note(c, DP_FIND_FAIL, "plugstack", "write `optional` instead of `required`",
                      "%s:%u: a required plugin that fails drains its node", f.file, f.line);
    else
        dp_check_note(c, DP_FIND_OK, "plugstack", NULL, "%s:%u: optional", f.file, f.line);
    dp_plugstack_find_plugin(&f, dp_json_text(folders, sizeof folders, c->slurm, "plugindir", ""), path, sizeof path);
    check_version(c, path);
    check_arguments(c, &f);
    dp_plugstack_release(&f);
}
