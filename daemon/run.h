/* SPDX-License-Identifier: BSD-3-Clause */
/* The runs of this node: a job that was started with --dynpipe, its workers here, and - on the batch
 * host - its coordinator. On the job's other nodes the daemon passes on what workers and coordinator
 * say to each other.
 *
 * run.c: the table of runs, registration, the end.  run_read.c: what Slurm says.  worker.c: local workers.
 * run_coord.c: what the coordinator asks for, and its journal.  run_relay.c: to and from other nodes.
 * step.c: steps that start and end.  seek.c: jobs that no step registered here.  slot.c: STOP_SLOT and the proof.
 * history.h: reports of finished runs.
 */
#ifndef DP_DAEMON_RUN_H
#define DP_DAEMON_RUN_H

#include "common/journal.h"
#include "daemon/child/helper.h"
#include "daemon/daemon.h"
#include "daemon/fence.h"
#include "daemon/history.h"
#include "daemon/slurm_job.h"

enum dp_run_role {
    DP_RUN_LOOKUP, /* Slurm has not told yet what the job is: HELLOs wait */
    DP_RUN_COORD,  /* this node is the batch host */
    DP_RUN_RELAY,  /* another one is */
};

/* A worker process on this node. It outlives its connection until its process is gone. */
struct dp_worker {
    struct dp_worker *next;
    struct dp_run *run;
    struct dp_conn *conn;  /* NULL: not connected */
    uint32_t rank, pid;
    uint64_t start_ticks;
    int pidfd;
    struct event *exit_event;
    bool is_waiting;       /* its HELLO waits for the job to be known or for the batch host */
    bool has_exited;
    uint64_t exited_ns;
    uint64_t hello_ns, served_ns; /* served: when it was handed on last */
    size_t hello_bytes;
    uint8_t *hello;        /* body of its last HELLO */
};

struct dp_run {
    struct dp_run *next;
    struct dp_daemon *daemon;
    uint32_t job_id, uid;
    enum dp_run_role role;
    struct dp_msg_step_start start;
    struct dp_job_info job; /* as Slurm told last; restart_count and batch_host from DP_RUN_COORD on */
    struct dp_worker *workers;
    struct dp_bucket lines; /* of the log */

    /* Reading the job from Slurm. */
    struct dp_helper *reader;
    bool must_read, coord_wants_read;
    uint64_t doubted_ns;    /* another daemon's word made us ask */
    uint64_t awaited_ns;    /* taken up when the job was over and Slurm waited for its processes; 0: before */
    bool is_unsure;         /* a step began since Slurm was asked last: of the job as we know it, or was it requeued? */
    uint64_t next_read_ns;
    uint32_t read_backoff_s;
    char read_why[160];     /* why the last read failed, "": it did not */

    /* Coordinator. */
    struct dp_coord *coord;
    struct dp_journal *journal;
    struct dp_helper *shrinker, *requeuer, *memorer, *thinker;
    uint32_t step_id;       /* of the workers that it coordinates */
    uint64_t step_ended_ns; /* 0: it has not */
    char rank_node[DP_MAX_WORKERS][64];
    uint32_t rank_pid[DP_MAX_WORKERS];
    struct {
        struct dp_bucket reports, others;
    } heard[DP_MAX_WORKERS]; /* what each rank may still say */
    char joined[DP_MAX_SLOTS][64]; /* nodes whose daemons know the job */
    uint32_t n_joined;
    uint64_t looked_ns;     /* for what is missing */

    /* Wire-up. */
    struct dp_tasks *tasks;   /* of the steps that the plugin told of here */
    struct dp_wiring *wiring; /* NULL: nobody has come to it */

    /* Slot. */
    bool is_fenced;
    struct dp_helper *fencer;
    struct dp_msg_stop_slot stop; /* the newest; incarnation 0: none */
    bool must_stop;
    char stop_from[64];
};

/* Open the node's journal and take up the runs in it. */
int dp_runs_open(struct dp_daemon *d, struct dp_err *err);
void dp_runs_close(struct dp_daemon *d);
void dp_runs_tick(struct dp_daemon *d); /* every 100 ms */
bool dp_runs_has_owner(const struct dp_daemon *d, uid_t uid);
struct dp_run *dp_run_find(const struct dp_daemon *d, uint32_t job_id);
struct dp_run *dp_run_create(struct dp_daemon *d, const struct dp_msg_step_start *start);
struct dp_run *dp_run_make(struct dp_daemon *d, const struct dp_msg_step_start *start); /* without asking Slurm */
bool dp_job_has_node(const struct dp_job_info *job, const char *node);
void dp_run_forget_peer(struct dp_daemon *d, const char *node); /* no link to it, unless a run needs one */
void dp_run_end(struct dp_run *run, const char *why); /* frees it */
/* The whole table for `dynpipe` (query.c): new reference. */
json_t *dp_runs_json(const struct dp_daemon *d, uid_t uid);

/* A line of the log that the run's owner can cause as often as he likes. Some of a run and of a user may come at
 * once, and a few each second. */
bool dp_run_may_log(struct dp_run *run);
#define DP_RUN_LOG(run, log, ...)                                                                  \
    do {                                                                                           \
        if (dp_run_may_log(run))                                                                   \
            log(__VA_ARGS__);                                                                      \
    } while (0)

/* run_read.c */
void dp_run_read_tick(struct dp_run *run, uint64_t now_ns);
void dp_run_read_soon(struct dp_run *run);
/* As dp_run_create() for a job that has just been read. NULL: it is none of this node's, or no memory. */
struct dp_run *dp_run_adopt(struct dp_daemon *d, const struct dp_msg_step_start *start, const struct dp_job_result *r);
/* Slurm must say first what the job is now: until then nobody is welcome and nobody is turned away. */
bool dp_run_is_asking(const struct dp_run *run);
/* Does another daemon speak of the job as we know it, or was it requeued for one of us? Asks Slurm where it seems so. */
bool dp_run_is_same_life(struct dp_run *run, uint32_t restarts);

/* step.c: from the plugin. */
void dp_run_step_start(struct dp_conn *c, const struct dp_msg_step_start *m);
void dp_run_step_end(struct dp_conn *c, const struct dp_msg_step_end *m);
/* The options that a worker brings, for a step that the plugin did not tell of here. returns -1: it brings none. */
int dp_step_from_hello(const struct dp_msg_hello *m, struct dp_msg_step_start *start);
void dp_step_take_options(struct dp_run *run, const struct dp_msg_hello *m); /* if it is of a step not told of */
void dp_steps_answer(struct dp_daemon *d, uint32_t job_id); /* the job has been read: who waited is answered */
void dp_steps_tick(struct dp_daemon *d, uint64_t now_ns);
void dp_step_forget(struct dp_daemon *d, const struct dp_conn *c); /* it is closed */

/* seek.c. Ask Slurm about a job that is not registered here, because a worker of this user says HELLO for it, or a
 * daemon JOIN; where it is this node's it is registered then. The worker's text: what is known so far. */
const char *dp_seek_hello(struct dp_daemon *d, uint32_t uid, const struct dp_msg_hello *m);
void dp_seek_join(struct dp_daemon *d, const char *node, uint32_t job_id);
void dp_seeks_tick(struct dp_daemon *d, uint64_t now_ns);
void dp_seeks_close(struct dp_daemon *d);

/* worker.c */
void dp_worker_hello(struct dp_conn *c, const struct dp_msg_hello *m, const uint8_t *body, size_t bytes);
void dp_worker_frame(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes);
void dp_worker_closed(struct dp_conn *c, const char *why);
void dp_worker_send(struct dp_run *run, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes);
void dp_worker_welcome(struct dp_worker *w, struct dp_msg_welcome *welcome);
void dp_worker_serve(struct dp_worker *w); /* forward its HELLO, if it waits and can be */
void dp_workers_serve(struct dp_run *run);                   /* forward the HELLOs that waited */
void dp_workers_hang_up(struct dp_run *run, const char *why); /* they come back and say HELLO again */
void dp_workers_tick(struct dp_run *run, uint64_t now_ns);
void dp_workers_destroy(struct dp_run *run);
void dp_run_lock_path(const struct dp_run *run, char *out, size_t cap);

/* run_coord.c. from: node of the worker. returns -1 when the message is refused. */
enum dp_run_open {
    DP_RUN_OPEN_STEP, /* begin, or go on from the journal */
    DP_RUN_OPEN_REST, /* only to finish what the journal holds: not when the step in it is over */
};
/* returns 0 with run->coord, or NULL there when nothing is left to finish; -1 on an error. */
int dp_run_coord_open(struct dp_run *run, enum dp_run_open what, struct dp_err *err);
bool dp_run_coord_has_journal(const struct dp_run *run);
/* has_ended: the step, whose report is kept. The journal stays for the job's next step, which must know
 * the slots that are gone and the shrinks that are used. */
void dp_run_coord_close(struct dp_run *run, bool has_ended);
void dp_run_coord_time(struct dp_run *run); /* Slurm said anew how long the job may run */
void dp_run_coord_forget(const struct dp_run *run); /* the job is over: its journal goes */
void dp_run_coord_hello(struct dp_run *run, const char *from, uint32_t pid, const struct dp_msg_hello *m,
                        struct dp_msg_welcome *welcome);
int dp_run_coord_frame(struct dp_run *run, const char *from, uint32_t rank, enum dp_msg_type type,
                       const uint8_t *body, size_t bytes, struct dp_err *err);
void dp_run_coord_lost(struct dp_run *run, const char *from, const struct dp_msg_worker_lost *m);
void dp_run_coord_node_lost(struct dp_run *run, const char *node);

/* run_missing.c */
void dp_run_joined(struct dp_run *run, const char *node);
void dp_run_missing_tick(struct dp_run *run, uint64_t now_ns);
void dp_run_why_waiting(const struct dp_run *run, char *out, size_t cap);
void dp_workers_explain(struct dp_run *run, uint64_t now_ns); /* HELLOs that have waited for long: tell why */

/* May this be looked at, or passed on? What a worker says more often than it has reason to is dropped, on its node and
 * where the run is coordinated: what matters is said again. */
bool dp_run_takes(struct dp_run *run, uint32_t rank, enum dp_msg_type type);

/* run_relay.c: frames from other daemons, and what happens to their connections. */
void dp_run_relay(struct dp_conn *c, const struct dp_msg_relay *m);
/* Did the job that we coordinate have this node when it began? */
bool dp_run_has_member(const struct dp_run *run, const char *node);
void dp_run_join(struct dp_conn *c, const struct dp_msg_join *m);
void dp_run_worker_lost(struct dp_conn *c, const struct dp_msg_worker_lost *m);
void dp_run_slot_gone(struct dp_conn *c, const struct dp_msg_slot_gone *m);
void dp_run_peer_up(struct dp_daemon *d, const char *node);
void dp_run_peer_down(struct dp_daemon *d, const char *node);
void dp_run_relay_up(struct dp_run *run, const struct dp_worker *w, enum dp_msg_type type, const uint8_t *body,
                     size_t bytes);

/* slot.c. from: node of the daemon that asks. */
void dp_slot_stop(struct dp_daemon *d, const char *from, const struct dp_msg_stop_slot *m);
void dp_slot_serve(struct dp_run *run); /* start what waits, once the job is known */

#endif
