/* How the workers of one step find each other: rank, size, business cards and the run's key.
 *
 * Under PMIx (srun --mpi=pmix, mpirun) the cards go through PMIx once, at the start; afterwards PMIx
 * is only told that a worker leaves, because a process that ends without PMIx_Finalize makes Slurm
 * kill the whole step. PMIx events are never used (they kill the step too). Without PMIx the
 * worker is alone.
 */
#ifndef DP_WORKER_WIREUP_H
#define DP_WORKER_WIREUP_H

#include "worker/transport.h"

struct dp_wireup {
    uint32_t rank, n_workers;
    uint32_t local_rank; /* among the workers of this node */
    bool has_pmix;
};

/* Rank and size. DP_EINVAL when srun started several tasks without PMIx: each would train alone. */
int dp_wireup_init(struct dp_wireup *w, struct dp_err *err);
/* Give everybody the transport's card and take theirs; rank 0 makes the key of the run. Collective.
 * DP_ETIMEOUT when not all have come (muster.h). */
int dp_wireup_exchange(struct dp_wireup *w, struct dp_transport *t, struct dp_err *err);
/* Instead of the exchange: this worker does not start. The others' exchange fails with its reason, which
 * worker 0 has in *err to be told; where worker 0 refuses, it tells its own. Returns when all have come. */
void dp_wireup_refuse(const struct dp_wireup *w, const char *why);
/* Nobody passes before all are here. */
int dp_wireup_barrier(const struct dp_wireup *w, struct dp_err *err);
/* The workers have not met: have the launcher end all of them, also those that never began. */
void dp_wireup_abort(struct dp_wireup *w);
/* Leave: PMIx_Finalize. The process must then exit 0, or Slurm takes it for a failure. */
void dp_wireup_release(struct dp_wireup *w);

#endif
