/* SPDX-License-Identifier: BSD-3-Clause */
/* The line of plugstack.conf that names our plugin, and what Slurm would find behind it. */
#ifndef DP_COMMON_CONF_PLUGSTACK_H
#define DP_COMMON_CONF_PLUGSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct dp_plugstack {
    bool is_found, is_required;
    char file[512], plugin[512];
    unsigned line;
    char unreadable[640]; /* a file of the stack that could not be read, empty: none */
    int n_args;
    char *args[16]; /* behind the plugin; owned */
};

/* Read a plugstack.conf and what it includes; the first line that names our plugin counts. */
void dp_plugstack_read(const char *path, struct dp_plugstack *out);
void dp_plugstack_release(struct dp_plugstack *p);

/* Where Slurm looks for the plugin: a relative path in its plugin folders, which colons separate. */
void dp_plugstack_find_plugin(const struct dp_plugstack *p, const char *folders, char *out, size_t cap);

/* The socket that the plugin will talk to: its argument, else the default. */
void dp_plugstack_socket(const struct dp_plugstack *p, const char *node, char *out, size_t cap);

/* What Slurm a SPANK plugin was built for. version: as of slurm.h. returns: 0, or -1: the file cannot be read
 * or is no such plugin. */
int dp_plugin_version(const char *path, uint32_t *version, struct dp_err *err);

#endif
