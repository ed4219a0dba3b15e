/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of dynpipe check: findings, and the groups of looks that make them. */
#ifndef DP_CLI_CHECK_CHECK_H
#define DP_CLI_CHECK_CHECK_H

#include <jansson.h>

#include "cli/command/command.h"
#include "common/site/daemon_config.h"

enum dp_finding { DP_FIND_OK, DP_FIND_WARN, DP_FIND_FAIL };

struct dp_check {
    const struct dp_cli *cli;
    json_t *findings;          /* [{name, status, text, todo}] */
    json_t *slurm;             /* what Slurm's configuration says, NULL: could not be read */
    struct dp_config *config;  /* NULL: wrong or unreadable */
    const char *config_path;   /* NULL: defaults */
};

/* Note one finding. todo: what to do about it, NULL where nothing is to be done. */
void dp_check_note(struct dp_check *c, enum dp_finding finding, const char *name, const char *todo,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Each group looks at one thing and notes what it finds; dp_check_slurm() fills c->slurm for those
 * after it, dp_check_config() c->config. */
void dp_check_config(struct dp_check *c);
void dp_check_slurm(struct dp_check *c);
void dp_check_plugin(struct dp_check *c);
void dp_check_munge(struct dp_check *c);
void dp_check_pmix(struct dp_check *c);
void dp_check_daemons(struct dp_check *c);
void dp_check_nodes(struct dp_check *c, const char *local); /* local: this node, whose trouble is known; "": none */

/* A daemon's answer: note what was wrong with its last reload, and with its newest record. */
void dp_check_note_trouble(struct dp_check *c, const json_t *doc);

/* The newest finding is about these nodes. */
void dp_check_set_nodes(struct dp_check *c, json_t *nodes);

/* Version of an installed Debian package in out, "" where there is none or no dpkg.
 * returns: does the version hold the mark of a distribution's fix? */
bool dp_check_package(const char *name, const char *mark, char *out, size_t cap);

/* "22.05.8" -> 220508, for comparisons; 0 when it is no version. */
unsigned dp_check_version(const char *text);

#endif
