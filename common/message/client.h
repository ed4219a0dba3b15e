/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's end of a connection to a daemon, for the command line and for tests: blocking calls
 * with a deadline. Over the unix socket the kernel says who we are; over TCP munge does (session.h).
 */
#ifndef DP_COMMON_MESSAGE_CLIENT_H
#define DP_COMMON_MESSAGE_CLIENT_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/message/msg.h"

struct dp_client;

/* timeout_ms: for the connection and for each call after it. */
struct dp_client *dp_client_open_unix(const char *path, uint32_t timeout_ms, struct dp_err *err);

/* from: our own address (one that cannot be had is let be), NULL: any. node: name that the daemon must give
 * itself, NULL: any. munge_socket NULL: munge's default.
 * daemon_uid: who may open our credential, DP_ANY_UID (session.h) for anybody in the munge realm. */
struct dp_client *dp_client_open_tcp(const char *host, uint16_t port, const char *from, const char *node,
                                     const char *munge_socket, uid_t daemon_uid, uint32_t timeout_ms,
                                     struct dp_err *err);
void dp_client_destroy(struct dp_client *c);

/* Ask; the answer's pieces are put together. *json: NUL-terminated text, the caller frees it.
 * DP_EAUTH: denied. DP_EHUNGUP, also from opening over TCP: there was no place for us, or the daemon ends; a question
 * may be put again. DP_ENOTSUP: the daemon is too old for it. DP_EGONE: nothing known of that job here; the text may name the node to
 * ask. */
int dp_client_query(struct dp_client *c, enum dp_query what, uint32_t job_id, char **json, struct dp_err *err);

/* Ask the daemon to look at its own node, and from there at the daemon of `target` ("": at none); job_id 0: no job.
 * As dp_client_query(); DP_EAUTH with DP_CHECK_BUSY in the text: ask again. */
int dp_client_check(struct dp_client *c, uint32_t job_id, const char *target, char **json, struct dp_err *err);

/* Not repeated where the daemon hangs up, so a question comes first: it finds out which version the daemon speaks.
 * argument NULL: none. returns 0 when the daemon has accepted it; errors as above. */
int dp_client_command(struct dp_client *c, enum dp_verb verb, uint32_t job_id, const char *argument,
                      struct dp_err *err);

/* One frame out, one frame in. *body: valid until the next call. */
int dp_client_send(struct dp_client *c, enum dp_msg_type type, const void *body, size_t bytes,
                   struct dp_err *err);
int dp_client_recv(struct dp_client *c, struct dp_header *h, const uint8_t **body, struct dp_err *err);

#endif
