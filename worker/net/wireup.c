/* SPDX-License-Identifier: BSD-3-Clause */
/* See wireup.h: which way, and what is the same by all of them. */
#define _GNU_SOURCE /* environ */
#include "worker/net/wireup_internal.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/run/layout.h"
#include "lib/job_step.h"

#define BARRIER_NS UINT64_C(10000000000) /* worker 0 may have died before it said a word */

/* The number in a variable of Slurm's. -1: it has none. */
static long number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long n;

    if (!text || !text[0])
        return -1;
    n = strtol(text, &end, 10);
    return *end || n < 0 ? -1 : n;
}

/* Several tasks that do not know of each other would train the same model over the same checkpoints. */
static int check_alone(struct dp_err *err)
{
    long step = number_of("SLURM_STEP_NUM_TASKS"), job = number_of("SLURM_NTASKS");
    char why[256];

    if (step > 1 && dp_job_lacks_plugin(why))
        return dp_err_set(err, DP_EINVAL, "%s, so this worker cannot find the other %ld", why, step - 1);
    if (step > 1)
        return dp_err_set(err, DP_EINVAL,
                          "srun started %ld tasks without PMIx, and no daemon serves this step, so each would train alone; use: "
                          "srun --mpi=pmix, or submit with --dynpipe", step);
    if (step < 0 && job > 1)
        return dp_err_set(err, DP_EINVAL,
                          "this job has %ld tasks, but the worker was started without srun, so it would train alone; "
                          "use: srun --mpi=pmix (or any srun in a job with --dynpipe; or srun -n 1, to train alone)", job);
    return 0;
}

static bool has_pmix(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

/* Slurm's, or that of an mpirun, whose processes Slurm knows nothing of. */
static bool is_pmix_of_another(void)
{
    return has_pmix() && strncmp(getenv("PMIX_NAMESPACE"), "slurm.", 6) != 0;
}

static int begin_by_daemon(struct dp_wireup *w, struct dp_err *err)
{
    long rank = number_of("SLURM_PROCID"), n = number_of("SLURM_STEP_NUM_TASKS"), local = number_of("SLURM_LOCALID");

    if (n < 1 || rank < 0 || rank >= n || local < 0)
        return dp_err_set(err, DP_EINVAL, "SLURM_PROCID, SLURM_LOCALID and SLURM_STEP_NUM_TASKS are not those of a task of srun");
    if (n > DP_MAX_WORKERS)
        return dp_err_set(err, DP_EINVAL, "%ld workers; allowed: 1 to %d", n, DP_MAX_WORKERS);
    w->way = DP_WIREUP_BY_DAEMON;
    w->rank = (uint32_t)rank;
    w->n_workers = (uint32_t)n;
    w->local_rank = (uint32_t)local;
    return 0;
}

bool dp_wireup_is_slice(void)
{
    return number_of("DYNPIPE_SLICES") > 0;
}

/* One that does not know of the others would train the whole model, over the same checkpoints. */
static int begin_slice(struct dp_wireup *w, const char *how, struct dp_err *err)
{
    if (!w->socket)
        return dp_err_set(err, DP_EINVAL, "the job is a slice of a run (--dynpipe-slices), but no daemon serves this step, so it would "
                          "train alone");
    if (number_of("SLURM_STEP_NUM_TASKS") != 1 || number_of("SLURM_PROCID") != 0)
        return dp_err_set(err, DP_EINVAL, "a slice (--dynpipe-slices) has one worker: start it with srun -n1");
    if (!strcmp(how, "pmix") || is_pmix_of_another())
        return dp_err_set(err, DP_EINVAL, "slices (--dynpipe-slices) meet through the daemons: pipeline.wireup must be auto or daemon, "
                          "and srun start the worker");
    w->way = DP_WIREUP_BY_DAEMON;
    w->is_slice = true;
    return dp_ask_rank_of_slice(w, err);
}

static int begin(struct dp_wireup *w, const char *how, const char *socket, struct dp_err *err)
{
    bool is_auto = !strcmp(how, "auto");
    long n = number_of("SLURM_STEP_NUM_TASKS");

    if ((is_auto || !strcmp(how, "pmix")) && has_pmix())
        return dp_pmix_init(w, err);
    if (!strcmp(how, "pmix") && n != 1)
        return dp_err_set(err, DP_EINVAL, "pipeline.wireup is pmix, but the launcher did not announce PMIx; use: srun --mpi=pmix");
    if (!is_auto && is_pmix_of_another())
        return dp_err_set(err, DP_EINVAL, "pipeline.wireup is daemon, but a launcher other than srun started the workers");
    if (n > 1 && socket)
        return begin_by_daemon(w, err);
    if (!is_auto && n > 1)
        return dp_err_set(err, DP_EINVAL, "pipeline.wireup is daemon, but no daemon serves this step (DYNPIPE_SOCKET is not "
                          "set): was the job submitted with --dynpipe?");
    return check_alone(err);
}

int dp_wireup_init(struct dp_wireup *w, const char *how, const char *socket, struct dp_err *err)
{
    int rc;

    *w = (struct dp_wireup){.n_workers = 1, .socket = socket};
    if (dp_wireup_is_slice())
        return begin_slice(w, how, err);
    rc = begin(w, how, socket, err);
    w->n_there = w->n_workers;
    return rc;
}

int dp_wireup_exchange(struct dp_wireup *w, struct dp_transport *t, struct dp_err *err)
{
    switch (w->way) {
    case DP_WIREUP_BY_PMIX:
        return dp_pmix_exchange(w, t, err);
    case DP_WIREUP_BY_DAEMON:
        return dp_meet_by_daemon(w, t, err);
    default:
        return 0;
    }
}

bool dp_wireup_refuse(const struct dp_wireup *w, const char *why)
{
    if (w->way == DP_WIREUP_BY_DAEMON)
        return dp_refuse_by_daemon(w, why);
    if (w->way == DP_WIREUP_BY_PMIX)
        dp_pmix_refuse(w, why);
    return false;
}

static void hear_of_worker_0(const struct dp_wireup *w, struct dp_transport *t)
{
    uint64_t tag = dp_tag(DP_CH_WIREUP, 0xfff, 0xffffff, 0xffff); /* no step has it */
    uint8_t word = 0;

    for (uint32_t r = 1; w->rank == 0 && r < w->n_workers; r++) {
        struct dp_transport_request *x = dp_transport_send(t, r, tag, &word, 1, NULL);

        if (x && dp_transport_wait(t, x, BARRIER_NS, NULL, NULL) < 0)
            dp_transport_cancel(t, x);
    }
    if (w->rank > 0) {
        struct dp_transport_request *x = dp_transport_recv(t, 0, tag, &word, 1, NULL);

        if (x && dp_transport_wait(t, x, BARRIER_NS, NULL, NULL) < 0)
            dp_transport_cancel(t, x);
    }
}

void dp_wireup_barrier(const struct dp_wireup *w, struct dp_transport *t)
{
    if (w->way == DP_WIREUP_BY_PMIX)
        dp_pmix_barrier(w, NULL);
    else if (w->way == DP_WIREUP_BY_DAEMON && t)
        hear_of_worker_0(w, t);
}

/* As PMIx_Abort does: a task that never began, or hangs, would keep the step and its devices. This process is the owner's,
 * so Slurm lets it. Without scancel on the node the others end all the same. */
static void end_step(void)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    char name[64], scancel[] = "scancel", quiet[] = "-Q", *argv[] = {scancel, quiet, name, NULL};
    pid_t pid;

    if (!job || !step)
        return;
    snprintf(name, sizeof name, "%.20s.%.20s", job, step);
    if (posix_spawnp(&pid, scancel, NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
}

void dp_wireup_abort(struct dp_wireup *w, bool is_speaker)
{
    if (w->way == DP_WIREUP_BY_PMIX)
        dp_pmix_abort();
    if (w->way == DP_WIREUP_BY_DAEMON && is_speaker)
        end_step();
    w->way = DP_WIREUP_ALONE;
}

void dp_wireup_release(struct dp_wireup *w)
{
    if (w->way == DP_WIREUP_BY_PMIX)
        dp_pmix_release();
    w->way = DP_WIREUP_ALONE;
}
