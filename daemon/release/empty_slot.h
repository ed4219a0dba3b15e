/* SPDX-License-Identifier: BSD-3-Clause */
/* End every process of a job on this node and prove that none is left.
 *
 * What belongs to (job, node) is found out here, never taken from a message: members of Slurm's cgroups of the
 * job (cgroup.h); processes of the job's owner whose environment names the job (and, where several slurmd share
 * the machine, this node); whatever descends from them or leads a session with them; and a registered worker
 * that holds the slot's lock. One that shows no such sign is not ended, and as long as it lives there is no
 * proof. Processes of other users are never touched, unless they are in a cgroup (version 2) of the job: the
 * owner comes from Slurm, and signals are sent with his rights. A process that clears its environment, detaches
 * twice and lives on a system without Slurm's cgroups shows no sign of the job: sites that expect hostile jobs
 * need proctrack/cgroup (doc/protocol.md says so). As long as any process of the owner has one of the node's
 * GPUs open, and is none of another job of his here, there is no proof either; nor while the memory of a card is not back to
 * what it was before the run (device_memory.h).
 *
 * A requeued job that comes back to this node has the same id, cgroup and environment here. So before a signal is sent
 * to a process that began since Slurm was asked last, Slurm is asked again; once it says that the job was requeued,
 * nothing more is ended: what is left of the old life Slurm waits for itself.
 */
#ifndef DP_DAEMON_RELEASE_EMPTY_SLOT_H
#define DP_DAEMON_RELEASE_EMPTY_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/release/device_files.h"
#include "daemon/release/device_memory.h"

#define DP_EMPTY_MAX_PIDS 64 /* workers of one job on one node; the question goes through a pipe */
#define DP_EMPTY_MAX_JOBS 64 /* of the same owner on one node: whose processes are not to be taken for this job's */

/* A process that said HELLO for the job. A pid alone may have been given away. */
struct dp_empty_worker {
    uint32_t pid;
    uint64_t start_ticks; /* field 22 of /proc/pid/stat; 0: the daemon may not look (ProtectProc) */
};

/* What the daemon asks for: which job, and nothing that says whose it is. */
struct dp_empty_request {
    uint32_t job_id, restart_count;
    uint32_t grace_ms, timeout_ms;
    struct dp_hung hung; /* of the proof before */
    struct dp_cards_before before;
    uint32_t n_workers;
    struct dp_empty_worker worker[DP_EMPTY_MAX_PIDS];
};

enum dp_empty_life { DP_LIFE_UNKNOWN, DP_LIFE_SAME, DP_LIFE_OVER };

/* The same with what was found out about it. */
struct dp_empty_job {
    uint32_t job_id, uid, restart_count;
    /* Is it still in the life that is to be ended? May block. NULL: it has only one. */
    enum dp_empty_life (*ask)(const struct dp_empty_job *job);
    char node[64];
    bool is_shared_host; /* SLURMD_NODENAME decides whose a process is */
    bool is_users_slurm; /* slurmd is no root's, but runs as the owner himself */
    uint64_t begun_ticks; /* since boot: a process that began before that began before the job; 0: not known */
    uint32_t grace_ms, timeout_ms;
    char socket[108];    /* of this daemon; empty: not looked at */
    char lock_path[320]; /* of the slot */
    char boot_id[40];
    struct dp_device_files devices; /* that nobody of the owner may hold when the slot is empty, but for these: */
    struct dp_looker *looker;      /* asks about their memory; NULL: nobody does */
    struct dp_cards_before before; /* beyond DP_CARDS_MAX: not looked at */
    uint32_t n_other_jobs, other_job[DP_EMPTY_MAX_JOBS]; /* his other jobs on this node */
    uint32_t n_workers;
    struct dp_empty_worker worker[DP_EMPTY_MAX_PIDS];
};

struct dp_empty_result {
    bool gone;
    uint64_t took_ns;
    uint32_t n_polite, n_term, n_kill; /* processes seen first, sent TERM, sent KILL */
    uint32_t n_group_kill;             /* cgroups that were ended as a whole */
    struct dp_hung hung;               /* who asked the driver and was not answered */
    char text[1024];                   /* the proof, or why there is none */
};

/* Empty the slot, with the rights that this process has. Blocks up to timeout_ms. */
void dp_empty_slot(const struct dp_empty_job *job, struct dp_empty_result *out);

/* empty_slot_job.c: dp_helper_work_fn for dp_priv_start(): struct dp_empty_request in, struct dp_empty_result
 * out. Asks Slurm whose job it is, takes that user's rights, and runs the above. */
size_t dp_empty_slot_work(const void *request, size_t bytes, uint8_t *result);

/* Start time of a process in clock ticks since boot, 0: there is none. */
uint64_t dp_process_start(uint32_t pid);

#endif
