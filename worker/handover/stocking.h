/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for layers that are to come, made ready by a thread while training goes on (struct dp_backend_stock).
 *
 * Where nothing of a layer was copied before, its destination would else ask for pages while all stand still, which takes as long as
 * the messages do. What is not ready by then is asked for there, as without.
 */
#ifndef DP_WORKER_HANDOVER_STOCKING_H
#define DP_WORKER_HANDOVER_STOCKING_H

#include <stdint.h>

#include "worker/model/layer.h"

#define DP_STOCKING_LEAST ((uint64_t)1 << 20) /* bytes: fewer take half a millisecond, and are not worth a thread */

struct dp_stocking;

/* The caller alone begins, ends and takes; be is borrowed, and has no other stocking. bytes: what the layers take, as
 * dp_layer_state_bytes() counts. NULL: DP_ENOTSUP (the backend has no stock), or DP_ENOMEM (none, or no thread). */
struct dp_stocking *dp_stocking_begin(struct dp_backend *be, uint64_t bytes, struct dp_err *err);
/* Wait until all is ready, or there is no memory for more. */
void dp_stocking_finish(struct dp_stocking *s);
/* No more is made ready; within some ms. */
void dp_stocking_stop(struct dp_stocking *s);
/* Bytes that are ready and were not taken; s NULL: none. They are part of the process's resident memory. */
uint64_t dp_stocking_left(const struct dp_stocking *s);
/* Stops it, and gives back what was not taken. NULL is fine. */
void dp_stocking_destroy(struct dp_stocking *s);

#endif
