/* SPDX-License-Identifier: BSD-3-Clause */
/* Where documents come from: the local daemon, the daemon of a node, or a saved file. */
#ifndef DP_CLI_ASK_FETCH_H
#define DP_CLI_ASK_FETCH_H

#include <jansson.h>
#include <stdio.h>

#include "cli/command/command.h"
#include "common/message/msg.h"

/* One document. New reference; NULL and err: DP_EAUTH refused, DP_EGONE no such run, else the daemon
 * or the file could not be read. With --from the last document of the file is taken, and a document
 * that this command printed with --json is unwrapped. Blocks for a few seconds at most. */
json_t *dp_fetch_document(const struct dp_cli *cli, enum dp_query what, uint32_t job_id, struct dp_err *err);

/* The job that the user means: -j, $SLURM_JOB_ID, or the only run of the daemon. With --from 0 is fine.
 * returns: 0, or -1. */
int dp_fetch_job(const struct dp_cli *cli, uint32_t *job_id, struct dp_err *err);

/* $SLURM_JOB_ID, 0: none. */
uint32_t dp_fetch_env_job(void);

/* The runs of a document of DP_QUERY_JOBS, whatever its form. Borrowed, NULL: none. */
json_t *dp_fetch_runs(const json_t *document);

/* Let the daemon do something. returns: 0, or -1 as for dp_fetch_document(). */
int dp_fetch_command(const struct dp_cli *cli, enum dp_verb verb, uint32_t job_id, const char *argument,
                     struct dp_err *err);

/* Documents of a file one after the other. path: for messages. is_first: none was read before; then a file
 * with nothing in it is an error. returns: new reference, NULL at the end (err->code DP_OK) or on an error. */
json_t *dp_replay_next(FILE *file, const char *path, bool is_first, enum dp_query what, struct dp_err *err);
/* "-": stdin. */
FILE *dp_replay_open(const char *path, struct dp_err *err);

#endif
