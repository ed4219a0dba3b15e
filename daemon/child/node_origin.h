/* SPDX-License-Identifier: BSD-3-Clause */
/* May a daemon that comes from here call itself that node?
 *
 * A credential says that its sender is a daemon's user, not on which node he is. So the address that the
 * connection comes from must be one of the node's: what Slurm's NodeAddr, NodeHostname and name of the node
 * resolve to here, or what `nodes` of dynpipe.conf lists for it (address, from). A name that neither knows
 * is nobody's. The address where the credential was made is munged's view of its host: on a host of several
 * networks it may be one that nothing here knows, so it is refused only when it is another node's.
 *
 * All addresses are IPv4: the daemons listen on IPv4 alone.
 */
#ifndef DP_DAEMON_CHILD_NODE_ORIGIN_H
#define DP_DAEMON_CHILD_NODE_ORIGIN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/site/daemon_config.h"

struct dp_origin {
    char node[64];          /* as the daemon calls itself */
    struct in_addr source;  /* of the connection */
    struct in_addr sealed;  /* where munge says that the credential was made; 0 or loopback: munged does not know */
};

struct dp_origin_request {
    struct dp_origin origin;
    bool has_slurm, ask_slurm; /* the second false: it did not answer in time */
    struct dp_node_entry entry; /* of the node in dynpipe.conf, or made up: is_listed tells */
};

struct dp_origin_result {
    bool is_fine;
    char text[256]; /* else why not */
};

/* dp_helper_work_fn: a dp_origin_request in, a dp_origin_result out. Blocks: asks Slurm and the resolver. */
size_t dp_origin_work(const void *request, size_t bytes, uint8_t *result);

/* Answers that were found fine, so that daemons that come again need not be asked about. */
struct dp_origin_cache;
struct dp_origin_cache *dp_origin_cache_create(void); /* NULL: no memory; the functions below take that */
void dp_origin_cache_destroy(struct dp_origin_cache *c);
bool dp_origin_cache_has(const struct dp_origin_cache *c, const struct dp_origin *o, uint64_t now_ns);
void dp_origin_cache_add(struct dp_origin_cache *c, const struct dp_origin *o, uint64_t now_ns);

#endif
