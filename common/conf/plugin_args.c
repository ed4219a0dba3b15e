/* SPDX-License-Identifier: BSD-3-Clause */
/* See plugin_args.h. Nothing here allocates: slurmstepd calls it. */
#include "common/conf/plugin_args.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_SOCKET "/run/dynpipe/%n.sock"

static int parse_arg(const char *arg, struct dp_plugin_args *args, struct dp_err *err)
{
    char q[48];

    if (!strncmp(arg, "socket=/", 8) && strlen(arg + 7) < sizeof args->socket) {
        snprintf(args->socket, sizeof args->socket, "%s", arg + 7);
        return 0;
    }
    if (!strncmp(arg, "config=/", 8) && strlen(arg + 7) < sizeof args->config) {
        snprintf(args->config, sizeof args->config, "%s", arg + 7);
        return 0;
    }
    if (!strncmp(arg, "policies=", 9) && strlen(arg + 9) < sizeof args->policies &&
        !arg[9 + strspn(arg + 9, "abcdefghijklmnopqrstuvwxyz0123456789_-,")]) {
        snprintf(args->policies, sizeof args->policies, "%s", arg + 9);
        return 0;
    }
    if (!strncmp(arg, "default_mode=", 13)) {
        int mode = dp_mode_parse(arg + 13);
        if (mode > DP_MODE_OFF) {
            args->default_mode = (uint8_t)mode;
            return 0;
        }
    }
    return dp_err_set(err, DP_EINVAL,
                      "plugstack.conf: unknown argument '%s'; allowed: socket=/PATH, config=/PATH, "
                      "policies=NAME,NAME and default_mode=observe|balance|release",
                      dp_option_quoted(arg, q));
}

int dp_plugin_args_parse(int argc, char *const argv[], struct dp_plugin_args *args, struct dp_err *err)
{
    int rc = 0;

    memset(args, 0, sizeof *args);
    snprintf(args->socket, sizeof args->socket, "%s", DEFAULT_SOCKET);
    snprintf(args->config, sizeof args->config, "%s", DYNPIPE_CONF_PATH);
    args->default_mode = DP_MODE_RELEASE;
    for (int i = 0; i < argc; i++)
        if (argv[i] && parse_arg(argv[i], args, rc ? NULL : err) < 0)
            rc = -1;
    return rc;
}

int dp_socket_path(const char *pattern, const char *node, char *out, size_t cap, struct dp_err *err)
{
    size_t used = 0, limit = sizeof ((struct sockaddr_un *)0)->sun_path;

    if (cap < limit)
        limit = cap;
    for (const char *p = pattern; *p; p++) {
        const char *piece = p;
        size_t n = 1;
        if (p[0] == '%' && p[1] == 'n') {
            piece = node;
            n = strlen(node);
            p++;
        }
        if (used + n >= limit)
            return dp_err_set(err, DP_EINVAL, "path of the daemon's socket is longer than %zu bytes", limit - 1);
        memcpy(out + used, piece, n);
        used += n;
    }
    out[used] = 0;
    return 0;
}
