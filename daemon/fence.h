/* End every process of a job on this node and prove that none is left.
 *
 * What belongs to (job, node) is found out here, never taken from a message: members of Slurm's
 * cgroup of the job; processes of the job's owner whose environment names the job (and, where several
 * slurmd share the machine, this node); and whatever descends from them, leads a session with them or
 * registered as a worker. Processes of other users are never touched. A process that clears its
 * environment, detaches twice and lives on a system without Slurm's cgroups cannot be found: sites
 * that expect hostile jobs need proctrack/cgroup (doc/protocol.md says so).
 */
#ifndef DP_DAEMON_FENCE_H
#define DP_DAEMON_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_FENCE_MAX_PIDS 64

struct dp_fence_request {
    uint32_t job_id, uid;
    char node[64];
    bool is_shared_host;     /* SLURMD_NODENAME decides whose a process is */
    uint32_t grace_ms, timeout_ms;
    char socket[108];        /* of this daemon; empty: not looked at */
    char lock_path[320];     /* device lock of the slot */
    char boot_id[40];
    uint32_t n_pids;         /* registered workers */
    struct {
        uint32_t pid;
        uint64_t start_ticks; /* field 22 of /proc/pid/stat: a pid alone may have been given away */
    } pid[DP_FENCE_MAX_PIDS];
};

struct dp_fence_result {
    bool gone;
    uint64_t took_ns;
    uint32_t n_polite, n_term, n_kill; /* processes seen first, sent TERM, sent KILL */
    char text[1024];                   /* the proof, or why there is none */
};

/* dp_helper_work_fn. Blocks up to timeout_ms; for dp_priv_start(). */
size_t dp_fence_work(const void *request, size_t bytes, uint8_t *result);

/* Start time of a process in clock ticks since boot, 0: there is none. */
uint64_t dp_process_start(uint32_t pid);

#endif
