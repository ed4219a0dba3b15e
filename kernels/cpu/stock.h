/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in stock: pages that are there before arrays are asked for (struct dp_backend_stock).
 *
 * It is one mapping, of which some is ready, from its beginning on, and some of that is taken. One thread makes more of it ready
 * while another one takes. Whoever took a piece unmaps it by itself; what is left goes back at the end.
 */
#ifndef DP_KERNELS_CPU_STOCK_H
#define DP_KERNELS_CPU_STOCK_H

#include <pthread.h>
#include <stddef.h>

#include "kernels/backend.h"

struct dp_cpu_stock {
    pthread_mutex_t lock; /* of ready and taken; the rest changes in begin and end alone */
    char *at;             /* on a border of huge pages; NULL: there is none */
    size_t bytes;         /* of the mapping */
    size_t ready, taken;  /* of these, from `at` on: whole pages; taken <= ready <= bytes */
};

extern const struct dp_backend_stock dp_cpu_stock;

/* An empty one, until it is closed. */
void dp_cpu_stock_open(struct dp_cpu_stock *s);
void dp_cpu_stock_close(struct dp_cpu_stock *s); /* what was taken stays with whoever has it */

/* A piece of so many bytes, whole pages, zeroed, which the caller unmaps; NULL: so much is not ready. */
void *dp_cpu_stock_take(struct dp_cpu_stock *s, size_t bytes);

#endif
