/* SPDX-License-Identifier: BSD-3-Clause */
/* A look at one node from within, for `dynpipe check`: is there what a run needs? Blocks; for a child process. */
#ifndef DP_DAEMON_QUERY_NODE_LOOK_H
#define DP_DAEMON_QUERY_NODE_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_look_request {
    char node[64], socket[108], state_dir[256], munge_socket[108];
    bool has_slurm, is_shared_host;
    char target[64], address[64]; /* the daemon to be reached from here; target "": none */
    uint16_t port;
    char from[64]; /* our own address, as our daemon comes from it; "": any */
    uid_t reader;           /* who may open our credential */
    bool must_be_known;     /* the target must be a node of Slurm's: a user named it */
};

/* result: the text of a JSON list [{"name", "status" (ok, warn, FAIL), "text", "todo"}]. As dp_helper_work_fn. */
size_t dp_node_look(const void *request, size_t bytes, uint8_t *result);

#endif
