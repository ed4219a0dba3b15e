/* SPDX-License-Identifier: BSD-3-Clause */
/* Who holds the copies of whose layers (worker/copies/): of a run that keeps them, by a rule that all compute alike. */
#ifndef DP_COMMON_RUN_COPY_PLACE_H
#define DP_COMMON_RUN_COPY_PLACE_H

#include "common/run/layout.h"

#define DP_COPY_NOWHERE UINT32_MAX

struct dp_copy_place {
    uint32_t holder[DP_MAX_WORKERS]; /* of the layers of each worker, all of them; DP_COPY_NOWHERE: it has none, or is alone */
    bool is_apart;                   /* nobody holds copies of layers that a worker on its own node has */
};

/* The layers of a worker go to a member of the run on another node; where all are on one node, to another member. Of these to the one
 * that then holds fewest layers of others, counted in the order of ranks; of equals to the next one in the ring of ranks.
 * node: [n_workers], equal numbers are one node (dp_transport_node()); borrowed. */
void dp_copies_place(const struct dp_layout *layout, const uint32_t *node, struct dp_copy_place *out);

#endif
