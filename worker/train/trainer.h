/* SPDX-License-Identifier: BSD-3-Clause */
/* One worker's whole run: from the first layer to the last checkpoint.
 *
 * All workers call dp_trainer_run() with the same configuration. It ends when the last step is done,
 * when a signal asked for it, or when a hand-over left this worker without layers and outside of the
 * run. Rank 0 writes the log and prints.
 */
#ifndef DP_WORKER_TRAIN_TRAINER_H
#define DP_WORKER_TRAIN_TRAINER_H

#include "worker/model/train_config.h"
#include "worker/net/transport.h"
#include "worker/net/wireup.h"

enum dp_run_outcome {
    DP_RUN_COMPLETED, /* all steps are done */
    DP_RUN_DRAINED,   /* this worker left; the others go on */
    DP_RUN_STOPPED,   /* by a signal or the job's time limit, after a checkpoint where one is configured */
    /* with -1: */
    DP_RUN_REFUSED,  /* before the first step; all workers agree and have the same error */
    DP_RUN_DIVERGED, /* the loss is not a number; all know it, the leader said it */
    DP_RUN_FAILED,   /* here; the others do not know yet */
};

struct dp_trainer_args {
    const struct dp_train_config *config;
    const struct dp_wireup *wireup;
    struct dp_transport *transport; /* NULL: alone */
    const char *socket;             /* of the daemon, NULL: none */
};

/* returns: 0 or -1; *end always says how it ended. */
int dp_trainer_run(const struct dp_trainer_args *args, enum dp_run_outcome *end, struct dp_err *err);

#endif
