/* SPDX-License-Identifier: BSD-3-Clause */
/* The runs of this node: a job that was started with --dynpipe, its workers here, and - on the batch
 * host - its coordinator. On the job's other nodes the daemon passes on what workers and coordinator
 * say to each other.
 */
#ifndef DP_DAEMON_RUN_RUN_H
#define DP_DAEMON_RUN_RUN_H

#include "common/file/journal.h"
#include "daemon/child/helper.h"
#include "daemon/child/slurm_job.h"
#include "daemon/net/daemon_state.h"
#include "daemon/release/empty_slot.h"

struct dp_worker;
struct dp_tasks;
struct dp_wiring;
struct dp_take_over;

enum dp_run_role {
    DP_RUN_LOOKUP, /* Slurm has not told yet what the job is: HELLOs wait */
    DP_RUN_COORD,  /* this node is the batch host */
    DP_RUN_RELAY,  /* another one is */
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
    bool must_ask_others;   /* a journal here is of a life of the job before: do slices of that run still train? */
    uint64_t doubted_ns;    /* another daemon's word made us ask */
    uint64_t awaited_ns;    /* taken up when the job was over and Slurm waited for its processes; 0: before */
    bool is_unsure;         /* a step began since Slurm was asked last: of the job as we know it, or was it requeued? */
    uint64_t next_read_ns;
    uint32_t read_backoff_s;
    char read_why[160];     /* why the last read failed, "": it did not */

    /* Coordinator. */
    struct dp_coord *coord;
    struct dp_journal *journal;
    struct dp_helper *shrinker, *requeuer, *memorer, *planner;
    uint32_t step_id;       /* of the workers that it coordinates */
    uint64_t step_ended_ns; /* on this node, or when workers elsewhere were last seen after that; 0: it has not */
    char rank_node[DP_MAX_WORKERS][64];
    uint32_t rank_pid[DP_MAX_WORKERS];
    uint8_t is_gone[DP_MAX_WORKERS]; /* the coordinator asked, and is told in the next turn of the loop */
    struct {
        struct dp_bucket reports, others;
    } heard[DP_MAX_WORKERS]; /* what each rank may still say */
    char joined[DP_MAX_SLOTS][64]; /* nodes whose daemons know the job */
    uint32_t n_joined;
    uint64_t looked_ns;     /* for what is missing */

    /* Wire-up. */
    struct dp_tasks *tasks;   /* of the steps that the plugin told of here */
    struct dp_wiring *wiring; /* NULL: nobody has come to it */

    /* Slices. */
    struct dp_slicing *slicing; /* NULL: it is no slice, or nobody has asked */
    struct dp_newcomers *newcomers; /* NULL: none may come */
    struct dp_take_over *take_over; /* NULL: its coordinator was never away */
    struct dp_companions *companions; /* of home; NULL: nobody has asked for any */
    bool is_for_slices; /* passes on for slices here, whose jobs are others than the run's */
    bool is_superseded; /* it makes room: a former life's run goes on, or slices here ask anew where theirs is */
    bool is_home_over;  /* the job that it has its name of has ended, or begun another life, and other slices train on */

    /* Slot. */
    bool is_fenced;
    struct dp_helper *fencer;
    struct dp_helper *looker;      /* at the cards, when the run began here */
    struct dp_cards_before before; /* what it saw; n 0: nothing is known */
    struct dp_msg_stop_slot stop; /* the newest; incarnation 0: none */
    bool must_stop;
    char stop_from[64];
};

/* Of the runs here: does one belong to this user; the one of a job, NULL: there is none. */
bool dp_runs_has_owner(const struct dp_daemon *d, uid_t uid);
struct dp_run *dp_run_find(const struct dp_daemon *d, uint32_t job_id);
bool dp_job_has_node(const struct dp_job_info *job, const char *node);
void dp_run_forget_peer(struct dp_daemon *d, const char *node); /* no link to it, unless a run needs one */
/* Slurm must say first what the job is now: until then nobody is welcome and nobody is turned away. */
bool dp_run_is_asking(const struct dp_run *run);
/* May this be looked at, or passed on? What a worker says more often than it has reason to is dropped, on its node and
 * where the run is coordinated: what matters is said again. */
bool dp_run_takes(struct dp_run *run, uint32_t rank, enum dp_msg_type type);
/* Did the job that we coordinate have this node when it began? */
bool dp_run_has_member(const struct dp_run *run, const char *node);
/* Where the lock of this job's slot lies (slot_lock.h). */
void dp_run_lock_path(const struct dp_run *run, char *out, size_t cap);

/* A line of the log that the run's owner can cause as often as he likes. Some of a run and of a user may come at
 * once, and a few each second. */
bool dp_run_may_log(struct dp_run *run);
#define DP_RUN_LOG(run, log, ...)                                                                  \
    do {                                                                                           \
        if (dp_run_may_log(run))                                                                   \
            log(__VA_ARGS__);                                                                      \
    } while (0)

#endif
