/* SPDX-License-Identifier: BSD-3-Clause */
/* The first fence of a step, with an end: whoever waits there too long learns who has not come.
 *
 * A task that dies before it has met the others is told to nobody by Slurm, where the step does not end with
 * its first bad exit (and a run that gives nodes back may not), and neither PMIX_TIMEOUT nor Slurm's own
 * limit ends the fence then: the others would hold their devices for ever.
 */
#ifndef DP_WORKER_NET_PMIX_RENDEZVOUS_H
#define DP_WORKER_NET_PMIX_RENDEZVOUS_H

#include <stdint.h>

#include <pmix.h>

#include "common/err.h"

struct dp_rendezvous {
    pmix_proc_t me;
    uint32_t n_workers;
    const char *key;     /* that every worker has put before its fence; NULL: nobody can be asked for */
    uint64_t timeout_ns;  /* for all to come: dp_rendezvous_timeout_ns() */
};

/* 300 s, or DYNPIPE_WIREUP_S of the environment (seconds, > 0). */
uint64_t dp_rendezvous_timeout_ns(void);

/* PMIx_Fence that collects data. Blocks until all are there; warns after 90 s of who is missing, and gives
 * up with DP_ETIMEOUT after the timeout, 45 s at least. Where this worker is
 * not the one to say it, err->text is empty and some seconds have passed, in which another one did. */
int dp_rendezvous_fence(const struct dp_rendezvous *m, struct dp_err *err);

#endif
