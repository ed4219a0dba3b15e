/* SPDX-License-Identifier: BSD-3-Clause */
/* See node_state.h. */
#include "config.h"

#include "daemon/child/node_state.h"

#include "common/slurm/libslurm.h"
#include "daemon/child/slurm_job.h"

static void look(const struct dp_slurm_node *node, void *arg)
{
    uint8_t *state = arg;

    *state = node->is_draining ? DP_NODE_DRAINS : DP_NODE_USED;
}

size_t dp_node_state_work(const void *request, size_t bytes, uint8_t *result)
{
    (void)bytes;
    dp_slurm_enter();
    result[0] = DP_NODE_UNKNOWN;
    (void)dp_slurm_each_node(request, look, result, NULL);
    return 1;
}
