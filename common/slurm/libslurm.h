/* SPDX-License-Identifier: BSD-3-Clause */
/* All that the daemon and the command use of libslurm. What differs between Slurm's releases stands in libslurm.c,
 * chosen by what configure found in the headers; doc/slurm.md lists it. libslurm can block for a minute and ends the
 * process where it finds no configuration: only for child processes, dp_slurm_open() first.
 *
 * Whatever fails says why in Slurm's words: DP_EGONE: Slurm knows no such job or node; DP_ENOTSUP: this job cannot
 * be put back into the queue; DP_EAUTH: slurmctld has read what is asked for, and says no; DP_EIO: all else, as that it does
 * not answer.
 */
#ifndef DP_COMMON_SLURM_LIBSLURM_H
#define DP_COMMON_SLURM_LIBSLURM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Read Slurm's configuration and open what libslurm asks with. Every other function wants it; from 23.11 on libslurm
 * itself ends the process without. */
void dp_slurm_open(void);

/* ---- versions ---- */

/* The Slurm whose headers this was built with, "22.05.8". Borrowed. */
const char *dp_slurm_built_for(void);

/* major * 100 + minor, 2205: plugins fit a release. Of a text, 0: no version; of slurm.h's number in a plugin. */
unsigned dp_slurm_release_of(const char *version);
unsigned dp_slurm_release_of_number(uint32_t number);

/* ---- configuration ---- */

struct dp_slurm_conf { /* texts are never NULL */
    const char *version; /* of slurmctld */
    const char *cluster, *path, *plugstack, *plugin_dir, *sched_params, *select_type, *accounting, *auth_info, *proctrack;
    const char *own_folders; /* the plugin that gives jobs a /tmp of their own: job_container/tmpfs, namespace/linux, ... */
    bool has_extern;     /* every job has a step of its own for what is not started by srun (PrologFlags=Contain) */
    bool counts_memory;  /* memory is given to jobs, SelectTypeParameters=CR_..._Memory */
    uint64_t boot_s;     /* when slurmctld started */
    uint32_t port;       /* slurmctld's */
    void *owned;         /* NULL: holds nothing */
};

/* What slurmctld goes by. Texts live until dp_slurm_conf_release(), which takes a struct of zeroes, too. */
int dp_slurm_conf_load(struct dp_slurm_conf *out, struct dp_err *err);
void dp_slurm_conf_release(struct dp_slurm_conf *conf);

typedef void (*dp_slurm_name_fn)(const char *name, void *arg);
/* Call fn for the name of every partition, hidden ones too; a name lives as long as the call. returns 0, or -1:
 * slurmctld could not be asked. */
int dp_slurm_each_partition(dp_slurm_name_fn fn, void *arg, struct dp_err *err);

/* ---- nodes ---- */

struct dp_slurm_node { /* texts are never NULL, and live as long as the call */
    const char *name, *address, *hostname;
    const char *version; /* of its slurmd, "": it never registered */
    bool is_draining;    /* no job begins there; those that run may go on */
};
typedef void (*dp_slurm_node_fn)(const struct dp_slurm_node *node, void *arg);

/* Call fn for one node, or for all (name NULL). A node that is not there: -1 with DP_EGONE. */
int dp_slurm_each_node(const char *name, dp_slurm_node_fn fn, void *arg, struct dp_err *err);

/* Call fn for every name of a list like "n[1-3,7]"; is_sorted: sorted, each once. returns: how many, 0: no list. */
uint32_t dp_slurm_each_host(const char *list, bool is_sorted, dp_slurm_name_fn fn, void *arg);
bool dp_slurm_has_host(const char *list, const char *name);

/* ---- jobs ---- */

struct dp_slurm_job { /* texts are never NULL */
    uint32_t job_id, uid, gid, restart_count;
    uint32_t array_job_id;   /* 0: it is no task of an array */
    uint32_t array_task_id;  /* which one */
    bool is_het;             /* a component of a heterogeneous job */
    bool is_federated;       /* clusters of a federation have it, or may */
    bool has_script;         /* of sbatch; else of salloc or srun */
    const char *state;       /* as squeue shows it */
    bool is_running;         /* suspended, too, and not completing */
    bool is_completing;      /* over, and Slurm waits for its processes */
    bool is_queued;          /* not begun, or put back into the queue */
    bool has_begun;          /* running or suspended, completing or not */
    bool has_stepmgr;        /* a slurmstepd of the job manages its steps, not slurmctld (24.05) */
    bool may_requeue;
    bool is_preempted;       /* to be, or was: it has its grace time, or has ended for that */
    bool is_cancelled;       /* by somebody, or by an operator */
    bool is_resizing;        /* its nodes have not all confirmed a change */
    uint32_t n_tasks, n_cpus;
    uint32_t mem_mb;         /* MiB on each node, the most of them; 0: not known */
    uint64_t start_s, end_s; /* end 0: no limit */
    uint64_t submit_s;
    uint64_t now_s;          /* the controller's clock when it answered; 0: not known */
    const char *partition, *name, *nodes, *batch_host;
    const char *tres_per_node, *gres_total;
    const char *comment;     /* its owner's and operators' to set */
    const char *command;     /* the script's name and arguments, with blanks between them */
    const char *reason;      /* why one that is_queued waits, in Slurm's word; "" where it is a rare one */
    void *owned;             /* NULL: holds nothing */
};
typedef void (*dp_slurm_job_fn)(const struct dp_slurm_job *job, void *arg);

/* Texts live until dp_slurm_job_release(), which takes a struct of zeroes, too. */
int dp_slurm_job_load(uint32_t job_id, struct dp_slurm_job *out, struct dp_err *err);
void dp_slurm_job_release(struct dp_slurm_job *job);

/* The job id of one task of an array ('_', as in 12_3), or of one component of a heterogeneous job ('+', as in 12+1). */
int dp_slurm_job_member(uint32_t job_id, char sign, uint32_t member, uint32_t *out, struct dp_err *err);

/* Call fn for each task of an array that is a job of its own, because it has begun, and once for all that have not (is_queued);
 * texts live as long as the call. now_s: when slurmctld said so, by its clock. DP_EGONE: it knows no such job. */
int dp_slurm_each_task(uint32_t array_job_id, dp_slurm_job_fn fn, void *arg, uint64_t *now_s, struct dp_err *err);

/* Call fn for each job of a user, array tasks that have not begun as one; texts live as long as the call. */
int dp_slurm_each_job_of(uint32_t uid, dp_slurm_job_fn fn, void *arg, struct dp_err *err);

/* Asked in the name of this process's user. keep: the nodes that stay; repeating it changes nothing. */
int dp_slurm_job_shrink(uint32_t job_id, const char *keep, struct dp_err *err);
/* Lower its memory on each node to so many MiB, for good: Slurm gives no running job more. Done when the job is read
 * with it, and is not resizing. DP_ENOTSUP: this Slurm does not do it, or not with this job. */
int dp_slurm_job_reduce_memory(uint32_t job_id, uint32_t mb, struct dp_err *err);
bool dp_slurm_reduces_memory(void); /* the Slurm that this was built for; the one that runs may refuse it */
int dp_slurm_job_kill(uint32_t job_id, int signal, struct dp_err *err);
int dp_slurm_job_requeue(uint32_t job_id, struct dp_err *err);

/* The script of a job of this process's user. The caller frees it; NULL: there is none, or it may not be read. */
char *dp_slurm_job_script(uint32_t job_id, struct dp_err *err);
int dp_slurm_job_set_comment(uint32_t job_id, const char *comment, struct dp_err *err);
/* Cancel a job that waits, and none that has begun: DP_EAUTH then. It is put off first, which Slurm does for such a job only. */
int dp_slurm_job_withdraw(uint32_t job_id, struct dp_err *err);

/* What a job that is submitted as another one was has for itself. */
struct dp_slurm_like {
    const char *script, *comment;
    char **environment; /* NAME=VALUE, NULL at the end; at least one */
    char **argv;        /* the script's name and its arguments, NULL at the end */
    uint32_t minutes;   /* its time limit; 0: none */
};
/* Submit a job of this process's user that asks for what job like_id, which runs on one node, asked for: account, QOS, partition,
 * reservation, constraints, processors, memory, GPUs, licences, files, folder and name. It is never requeued. Where the name of an
 * output has no job id in it, so that two jobs would write into one file, ".ID" is put behind it. */
int dp_slurm_job_submit_like(uint32_t like_id, const struct dp_slurm_like *how, uint32_t *job_id, struct dp_err *err);

#endif
