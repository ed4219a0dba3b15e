/* SPDX-License-Identifier: BSD-3-Clause */
/* What is answered: documents of this node and its runs, and orders of people. */
#ifndef DP_DAEMON_QUERY_QUERY_H
#define DP_DAEMON_QUERY_QUERY_H

#include <jansson.h>

#include "daemon/net/daemon_state.h"

/* ANSWER without a document, the last one of a question; OK and "" is the answer to a COMMAND that was carried out.
 * text: cut at 255 bytes. */
void dp_query_refuse(struct dp_conn *c, enum dp_verdict verdict, const char *text);
/* DP_QUERY_NODE: what everybody may know of this node, at once, without a child. */
void dp_query_answer_node(struct dp_conn *c);
/* COMMAND of a user to the coordinator of a run on this node: refused unless c is the owner of the job or root, and
 * where the run is coordinated elsewhere. Always answered. */
void dp_query_command(struct dp_conn *c, const struct dp_msg_command *m);
/* In a child: the answer to a question of this connection. returns the document, a new reference, or NULL with the
 * verdict and one line. */
json_t *dp_query_document(const struct dp_conn *c, const struct dp_msg_query *q, enum dp_verdict *verdict, char text[256]);
/* A document that fits into one piece; takes the reference. */
void dp_query_send(struct dp_conn *c, json_t *doc);
json_t *dp_query_node(const struct dp_daemon *d); /* what this node says of itself; new reference */

#endif
