/* SPDX-License-Identifier: BSD-3-Clause */
/* Which processes of this node are which tasks of a step, as Slurm's plugin told: so that a worker cannot take another's
 * rank, and a rank that is missing can be named with its node. */
#ifndef DP_DAEMON_RUN_TASKS_H
#define DP_DAEMON_RUN_TASKS_H

#include "common/message/msg.h"

struct dp_tasks {
    struct dp_tasks *next;
    struct dp_msg_tasks m;
    bool is_told;        /* false: only that the step starts */
    uint8_t last_sends;  /* the step has ended here: so often the batch host is still told of it; 0: it has not */
    uint64_t since_ns, sent_ns;
    uint64_t start_ticks[DP_MAX_WORKERS];
};

enum dp_claim {
    DP_CLAIM_TRUE,
    DP_CLAIM_UNKNOWN, /* nobody told of the step's tasks here */
    DP_CLAIM_EARLY,   /* its tasks are going to be told */
    DP_CLAIM_FALSE,
};

/* A step starts here; its tasks follow. Of many steps the newest are kept. */
void dp_tasks_expect(struct dp_tasks **list, uint32_t step_id, uint64_t now_ns);
void dp_tasks_tell(struct dp_tasks **list, const struct dp_msg_tasks *m, uint64_t now_ns);
void dp_tasks_forget(struct dp_tasks **list, uint32_t step_id);
/* The step has ended here. A task that ends at once may have done so before the batch host could be told where it was:
 * then they stay until that was sent. */
void dp_tasks_end(struct dp_tasks **list, uint32_t step_id);
/* Those with a process that lives go over to another list: what was told since a job was requeued. */
void dp_tasks_move(struct dp_tasks **from, struct dp_tasks **to);
void dp_tasks_destroy(struct dp_tasks **list);

/* Is this process the task of that rank, or started by it? why: of a FALSE. Reads /proc. */
enum dp_claim dp_tasks_check(const struct dp_tasks *list, uint32_t step_id, uint32_t rank, uint32_t n_workers, uint32_t pid,
                             char why[160]);

#endif
