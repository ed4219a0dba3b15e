/* SPDX-License-Identifier: BSD-3-Clause */
/* Two real daemons in one process, and everything around them that is not: four worker processes, slurmstepd, Slurm,
 * munge, the clock, and the children that daemons have. Each daemon has its own event loop, its journals in a folder
 * of its own, a unix socket and a TCP port; they speak to each other over TCP.
 *
 * What is not real (daemon_kernel.c, daemon_children.c, daemon_slurm.c, daemon_disk.c): the clock stands still until the world moves it,
 * also for libevent; a child (daemon/child/helper.h) is a call that is made at once or at a time to come; credentials come
 * from a table; processes exist in a table, which procscan.h, pidfds and signals see; libslurm is struct dw_slurm.
 * empty_slot.c and as_owner.c are real; while a slot is emptied, the world goes on.
 *
 * What must hold (doc/protocol.md, "Invariants") is checked at every step; w.broken says what did not.
 */
#ifndef DP_TESTS_DAEMON_WORLD_H
#define DP_TESTS_DAEMON_WORLD_H

#include <stdbool.h>
#include <stdio.h>

#include "common/file/journal.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/run.h"

enum { DW_NODES = 2, DW_WORKERS = 4, DW_LAYERS = 8, DW_PROCESSES = 64, DW_SAID = 8 };
enum { DW_SLICES = 8 };
enum { DW_JOB = 7, DW_OWNER = 4242, DW_STRANGER = 4243, DW_DAEMON_UID = 900 };
#define DW_STEP_NS UINT64_C(50000000)

struct dw_world;

struct dw_node {
    struct dp_daemon d;
    bool is_up, is_dead; /* dead: it was killed in the middle of something, and is buried when that returns */
    bool is_hostile;     /* whoever took it over sends what he likes */
    uint64_t up_at_ns;
    uint64_t disk_dead_until_ns; /* fdatasync fails */
    struct dp_config *config;
    char name[64], folder[96];
    bool is_fenced; /* FENCE is durable */
    uint32_t n_restarts;
};

struct dw_process {
    bool is_alive, is_stuck; /* stuck: cannot be killed for now */
    uint32_t pid, node, worker; /* worker DW_WORKERS: none */
    uint32_t life;              /* restart count of its job */
    int end_fd;                 /* eventfd: readable when it is gone */
    int lock_fd;
};

struct dw_worker {
    struct dw_process *process;
    int fd;          /* -1: not connected */
    bool is_welcome, has_left, came_late; /* late: it said HELLO where the run was fenced */
    uint64_t connect_at_ns, reported_ns, vote_at_ns, exit_at_ns, stalled_until_ns;
    uint32_t seq;
    size_t n_in;
    uint8_t in[200000];
    struct dp_layout layout, next;
    uint64_t step, doubt, seen, answered;
    bool has_voted_no;
    uint32_t n_proposals, n_limits;
    struct dp_msg_vote vote;
    bool holds[DW_LAYERS]; /* a verified copy: its own, a shadow, or one that it retired */
};

/* A task of a job array, or array 0 and of no array, a companion where slice_of names a job: a job of its own, beside DW_JOB. */
struct dw_slice {
    uint32_t job_id, array, uid, node, restart_count, slice_of;
    uint64_t start_s, submit_s;
    uint64_t shown_ns; /* of a companion: Slurm was slow to take it in */
    bool has_ended, is_waiting, is_older; /* older: of an earlier life of home */
    bool is_ending; /* Slurm puts it back into the queue, and waits for its processes */
    bool is_marked;
};

struct dw_slurm {
    struct dw_slice slice[DW_SLICES]; /* job_id 0: none */
    bool is_down, held[DW_NODES], held_durable[DW_NODES], has_ended;
    bool is_completing, is_queued; /* has_ended: and waits for the job's processes; and it will run again */
    bool drains[DW_NODES]; /* scontrol drains it */
    uint32_t restart_count, shrinks_allowed;
    uint64_t save_at_ns, boot_s, up_at_ns;
    uint64_t begin_at_ns; /* of the next life, 0: it is not put back into the queue */
    /* Of companions: how many the owner may have, that wait or run; answers to be lost; how often one was submitted, or Slurm asked. */
    uint32_t most_companions, lose_answers, n_submitted, n_asked;
    bool was_asked;
};

/* A child of a daemon, or what stands for it. */
struct dp_helper {
    struct dp_helper *next;
    struct dw_node *node;
    dp_helper_work_fn work; /* NULL: its answer is there */
    dp_helper_done_fn done;
    void *arg, *request;
    size_t bytes, n_result;
    uint8_t *result;        /* NULL: none */
    const char *why;
    uint64_t due_ns;
    uint32_t op;            /* enum dp_priv_op, 0: none */
    bool is_running, is_cancelled;
    bool is_left;           /* nobody wants its answer */
};

struct dw_world {
    uint64_t now_ns, seed;
    const uint8_t *input, *input_end; /* decides as long as it lasts, then the seed */
    bool is_hostile;                  /* workers lie */
    bool may_requeue;                 /* among the faults */
    bool is_fixed;                    /* workers cannot move layers; set behind dw_start() */
    uint32_t fault_percent, crash_percent, no_percent, child_percent;
    struct dw_node node[DW_NODES], *current;
    struct dw_worker worker[DW_WORKERS];
    struct dw_process process[DW_PROCESSES];
    uint32_t n_processes, n_fences; /* fences: that run now, one in the other's wait */
    uint32_t fenced_life;           /* that the innermost of them is to end */
    struct dw_slurm slurm;
    struct dp_helper *helpers;
    struct {
        int fd;        /* 0: none */
        bool must_not; /* be let in */
    } said[DW_SAID];   /* connections of those who said one thing */
    uint32_t n_said;
    bool is_lost; /* a worker was killed: what its layers were is gone with it */
    uint8_t decided[64], outcome[64]; /* per migration: COMMIT is durable; 1 a commit was seen, 2 an abort */
    uint32_t n_commits, n_aborts, n_released, n_fenced, n_restarts, n_crashes, n_cut, n_lies, n_reports, n_refused;
    uint32_t n_requeues, n_renewed, n_half; /* journals that were written anew; of them, with a death in it */
    char nvml[256];   /* a driver's library (daemon/release/nvml.h); set behind dw_start(), which forgets it */
    char broken[256]; /* first thing that did not hold */
};

extern struct dw_world dw;

/* Make the folder and the configurations of the two, once. returns -1 when that cannot be. */
int dw_open(void);
void dw_close(void);

/* A run of 4 workers on 2 nodes, release mode, pruned from 7 s to 25 s; both daemons up, the step registered. */
void dw_start(uint64_t seed, const uint8_t *input, size_t bytes);
void dw_run(double seconds, bool with_faults);
/* Both daemons end and come back from their journals, and go on for some seconds. */
void dw_restart_all(void);
void dw_stop(void); /* everything is closed and freed */
/* The job is put back into the queue, its processes end, and some seconds later it runs on both nodes again. */
void dw_requeue(void);

void dw_advance(uint64_t ns); /* with the faults that are on */
uint32_t dw_draw(uint32_t n); /* 0 .. n - 1 */
bool dw_chance(uint32_t percent);
uint64_t dw_soon(uint32_t ms);
void dw_broken(const char *what, uint64_t a, uint64_t b);      /* unless the run lies to itself */
void dw_broken_for_all(const char *what, uint64_t a, uint64_t b);
void dw_kill_daemon(uint32_t n, double away_s);
int dw_n_fds(void); /* that this process has open */

/* daemon_worker.c */
void dw_worker_tick(uint32_t rank);
void dw_worker_cut(uint32_t rank); /* its connection breaks */
void dw_workers_check(void);
void dw_worker_send(uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes);
void dw_report(uint32_t rank); /* a REPORT, now */
/* A HELLO of a process that has ended, as if the run began anew: not where it is fenced. */
void dw_intrude(uint32_t node, uint32_t rank);
void dw_hear_out(uint32_t i); /* one of those who said one thing: its answer, then it leaves */
void dw_step_start(uint32_t node); /* as slurmstepd says it; nobody waits for the answer */
int dw_say(uint32_t node, uint32_t uid, enum dp_msg_type type, const void *body, size_t bytes);
int dw_connect(uint32_t node, uint32_t pid, uint32_t uid);

void dw_children(void); /* those whose time has come */

/* daemon_kernel.c */
struct dw_process *dw_fork(uint32_t node, uint32_t worker);
void dw_exit(struct dw_process *p);
struct dw_process *dw_find(uint32_t pid);
extern bool dw_is_on; /* the clock and the processes are the world's */

#endif
