/* SPDX-License-Identifier: BSD-3-Clause */
/* How the workers of one step find each other: rank, size, business cards and the run's key.
 *
 * Under PMIx (srun --mpi=pmix, mpirun) by PMIx; under any other srun of a job that has DynPipe by the daemons, which check
 * what rank each process has (doc/protocol.md, "Wire-up"). A worker that is the only task of its step is alone.
 */
#ifndef DP_WORKER_NET_WIREUP_H
#define DP_WORKER_NET_WIREUP_H

#include "worker/net/transport.h"

enum dp_wireup_way { DP_WIREUP_ALONE, DP_WIREUP_BY_PMIX, DP_WIREUP_BY_DAEMON };

struct dp_wireup {
    uint32_t rank, n_workers; /* n_workers: with seats of a run of slices that nobody has yet */
    uint32_t n_there;    /* workers that the run began with, ranks 0 and up */
    bool joins;          /* the run trains already: this worker has a seat, and is in no layout yet */
    uint32_t local_rank; /* among the workers of this node */
    enum dp_wireup_way way;
    bool is_slice;       /* the only worker of its job, whose devices and processors no other worker has */
    const char *socket;  /* of this node's daemon; borrowed */
};

/* Does the environment say that this job is a slice, one of several jobs that are one run? */
bool dp_wireup_is_slice(void);
/* Rank and size; a slice waits for the others here. how: pipeline.wireup. socket: NULL where there is no daemon. DP_EINVAL
 * when srun started several tasks that have no way to each other: each would train alone. */
int dp_wireup_init(struct dp_wireup *w, const char *how, const char *socket, struct dp_err *err);
/* Give everybody the transport's card and take theirs, and the run's key. Collective. DP_ETIMEOUT when not all have come;
 * err->text is empty where another worker says why. DP_EAUTH: this process is not the worker that it says it is. */
int dp_wireup_exchange(struct dp_wireup *w, struct dp_transport *t, struct dp_err *err);
/* Instead of the exchange: this worker does not start. The others' exchange fails with its reason, which
 * worker 0 has in *err to be told; where worker 0 refuses, it tells its own. Returns when all have come, or no more are
 * waited for. returns: is it for this worker to tell its reason, because nobody else does? (worker 0: has told it) */
bool dp_wireup_refuse(const struct dp_wireup *w, const char *why);
/* After all have failed in the same way: nobody ends before worker 0 has come here, having said why. */
void dp_wireup_barrier(const struct dp_wireup *w, struct dp_transport *t);
/* The workers have not met: have the launcher end all of them, also those that never began. is_speaker: this worker has
 * said why, for all. */
void dp_wireup_abort(struct dp_wireup *w, bool is_speaker);
/* Leave. Under PMIx the process must then exit 0, or Slurm takes it for a failure. */
void dp_wireup_release(struct dp_wireup *w);

#endif
