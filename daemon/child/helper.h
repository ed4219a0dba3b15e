/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that may hang - libslurm, munge, name look-ups, proving a slot empty - done in a child process
 * with a deadline, its answer read from a pipe by the event loop.
 *
 * The child closes every descriptor but the pipe and stderr, so that a lock or a socket of a daemon
 * that dies meanwhile does not live on in it.
 */
#ifndef DP_DAEMON_CHILD_HELPER_H
#define DP_DAEMON_CHILD_HELPER_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_HELPER_RESULT_MAX 65536u /* of a child; writers (dp_helper_start_writer()) say how much they need */
#define DP_HELPER_REQUEST_MAX 8192u /* requests are small structs */

struct dp_helper;

/* Runs in the child: reads the request, leaves at most DP_HELPER_RESULT_MAX bytes in result. May
 * block. returns the number of bytes. */
typedef size_t (*dp_helper_work_fn)(const void *request, size_t bytes, uint8_t *result);

/* Runs in the event loop, once: the child's bytes, or result NULL and why when it died, said nothing
 * or ran past its deadline (it is killed then). */
typedef void (*dp_helper_done_fn)(void *arg, const uint8_t *result, size_t bytes, const char *why);

/* Start one. The request is copied. returns NULL when no child could be made (done is not called). */
struct dp_helper *dp_helper_start(struct event_base *base, dp_helper_work_fn work, const void *request,
                                  size_t bytes, double deadline_s, dp_helper_done_fn done, void *arg,
                                  struct dp_err *err);

/* Runs in the child and writes its answer itself (dp_child_write(), common/child.h). */
typedef void (*dp_helper_writer_fn)(const void *request, int fd);

/* As dp_helper_start(), for an answer of up to max_bytes. */
struct dp_helper *dp_helper_start_writer(struct event_base *base, dp_helper_writer_fn work, const void *request,
                                         size_t max_bytes, double deadline_s, dp_helper_done_fn done, void *arg,
                                         struct dp_err *err);

/* Wait for the answer of somebody else's child on a pipe, which is taken over. */
struct dp_helper *dp_helper_watch(struct event_base *base, int pipe_fd, double deadline_s,
                                  dp_helper_done_fn done, void *arg, struct dp_err *err);

/* Kill it, done is not called. NULL is fine. Not to be called after done was. */
void dp_helper_cancel(struct dp_helper *h);

/* Let it finish without us, done is not called. NULL is fine. */
void dp_helper_leave(struct dp_helper *h);

#endif
