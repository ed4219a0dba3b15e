/* SPDX-License-Identifier: BSD-3-Clause */
/* A small world around one coordinator: workers, node daemons, a network that loses, repeats and
 * reorders, a slurmctld that forgets, and a journal that can crash the coordinator at any append.
 * Everything follows from the seed. Invariants of doc/protocol.md are checked at every event. */
#ifndef DP_TESTS_COORD_WORLD_H
#define DP_TESTS_COORD_WORLD_H

#include <stdbool.h>

#include "daemon/coord/coordinator.h"

#define W_MAX 4 /* workers, one per slot */
#define W_LAYERS 8
#define W_STEPS 100000u
#define W_RECORDS 400

struct world_worker {
    bool hangs, is_slow; /* slow: does not vote as long as this holds */
    bool is_alive, is_connected, is_stray; /* stray: an escaped child that outlives the worker */
    uint32_t pid;
    struct dp_layout layout, next;
    uint64_t step, doubt, seen; /* doubt: voted yes, knows no decision; seen: newest migration handled */
    uint64_t answered;          /* newest decision acknowledged */
    uint32_t n_limits;          /* LIMIT came so often */
    uint64_t left_ms;           /* the newest */
    uint64_t taken_ns, said_ns; /* Slurm ends its slice, since; it said so last */
    uint32_t n_stops;           /* SAVE asked for a stop so often */
    uint64_t credit_ns;         /* is_timed: of the next step, spent already */
    uint64_t reported_ns, vote_at_ns, connect_at_ns, exit_at_ns;
    bool is_newcomer;           /* has a seat, and is in no layout */
    bool has_voted_no, is_alone; /* is_alone: goes on with nobody else, so it says no to REGROUP: PMIx */
    bool is_fixed, stays, has_own_costs; /* of a foreign trainer: HELLO says so (blocks_differ) */
    uint8_t copies;             /* as the newest WELCOME says */
    uint32_t n_regroups;        /* heard and followed */
    uint32_t n_refusals;        /* REGROUP said that nobody goes on */
    struct dp_msg_proposal proposal; /* the newest; number 0: none */
    uint32_t n_proposals;
    struct dp_msg_vote vote;
};

struct world_message {
    bool is_used, to_worker;
    uint32_t rank;
    enum dp_msg_type type;
    uint64_t due_ns;
    uint32_t bytes;
    uint8_t body[1600];
};

struct world_record {
    bool is_unconfirmed; /* journal() failed, yet it is on the disk */
    enum dp_record type;
    uint32_t bytes;
    uint8_t payload[640];
};

/* A slice that begins when the run trains, and asks for a seat. */
struct world_comer {
    char node[64];
    uint32_t slice, restarts; /* slice 0: none */
    bool is_seated, is_refused;
    uint32_t rank;            /* is_seated */
    char text[256];           /* why it waits, or is refused */
};

struct world {
    uint64_t seed, now_ns;
    const uint8_t *input, *input_end; /* decides instead of the seed, as long as it lasts; NULL: there is none */
    bool is_hostile;                  /* workers lie: only what concerns others than their owner must hold */
    struct dp_coord *c;
    struct dp_job_info job;
    struct dp_run_limits limits;
    struct dp_coord_ops ops;
    bool has_crashed;
    uint64_t restart_at_ns;
    uint32_t heard_incarnation;   /* of the coordinator before, where its node was lost */

    uint32_t n_appends, crash_at; /* crash at this append (from 0), UINT32_MAX: never */
    bool crash_before;            /* the record is lost */
    uint32_t full_percent;  /* an append fails, its record absent or in doubt, and the coordinator lives */
    uint32_t renew_percent; /* the journal is written anew before an append */
    bool is_disk_full;      /* nothing can be written: absent; what was kept room for can */
    bool is_disk_dead;      /* nothing can be made durable: in doubt */
    enum dp_record fail_type; /* at the next record of this type the disk becomes full, or dead; 0: at none */
    bool fails_in_doubt;
    bool must_renew;        /* the newest record is in doubt: the journal takes nothing before it is written anew */
    uint8_t decided[64];    /* per migration: 1 COMMIT (2 REGROUP) is confirmed, or was found by a restart */
    uint32_t n_doubts, n_renewals, n_told_without; /* aborts that were told though their record is not there */
    uint64_t step_ns;             /* what the workers report of a step; 0: what their layout takes */
    bool is_timed;                /* is_recorded, and a step takes what it takes in the layout in force: world_step_ns() */
    uint32_t crowded;             /* with so few stages and fewer a step takes crowd_factor times as long, */
    double crowd_factor;          /* because cores are shared, or with is_network because of the network */
    bool is_network;
    double noise;                 /* others come and go: a worker takes 1 to noise times its device time */
    bool is_followed;             /* they come to whoever has the longest stage, and nowhere else */
    uint64_t noise_seed;
    uint64_t link_ns[W_MAX][W_MAX]; /* a < b: a message between a and b takes longer than configured */
    bool has_links;               /* steps take what link_ns makes of them, and workers measure their messages */
    double density[W_LAYERS];     /* of a layer's weights, instead of the pruning schedule; 0: as that says */
    bool all_params_left;         /* a density is one of cost, not of weights */
    struct dp_change freeze[4];   /* layers are frozen instead of pruned */
    uint32_t n_freezes;           /* 0: they are pruned */
    bool freezes_by_rule;         /* nobody says before when that will be */
    bool blocks_differ;           /* as workers say: layer dropout */
    double scatter;               /* of each layer's time, up and down, from step to step */
    bool is_recorded;             /* loads of a real run, pruned by the cubic schedule in steps of 20 */
    uint32_t steps_total;
    const char *trainer;          /* NULL: our worker */
    uint64_t mem_limit_bytes;     /* of every worker */
    uint32_t copies_missing;      /* with limits.copies: so many of each worker's layers have no whole copy yet */
    uint32_t vote_ms;             /* a vote comes within so long */
    uint32_t crash_percent, loss_percent, fault_percent, no_percent;
    uint32_t kill_percent; /* of ticks with faults: some worker but worker 0 is killed */
    uint32_t n_records;
    struct world_record record[W_RECORDS];

    struct world_worker worker[W_MAX];
    uint32_t n_there;             /* workers that the run begins with */
    uint32_t n_pids;
    bool is_unknown;              /* no newcomer's address is known to the others */
    struct world_comer comer[8];
    struct world_message message[256];
    uint32_t n_told_coming;       /* PREPAREs with bytes of layers that come */
    /* Memory of each node, MiB. layer_mb: of a dense layer; 0: workers do not say what they need. */
    uint32_t layer_mb, mem_mb, mem_durable_mb, mem_asked_mb, mem_before_mb;
    uint64_t mem_at_ns, mem_done_at_ns; /* slurmctld hears the question; its nodes have done it */
    bool mem_is_refused, mem_node_fails, has_checkpoints;
    uint32_t n_memory; /* asked so often */
    bool is_fenced[W_MAX], is_stuck[W_MAX]; /* stuck: cannot be killed for now */
    bool is_cut_off[W_MAX], must_find[W_MAX]; /* cut off: its daemon is dead; must_find: its worker is asked for */
    bool is_old[W_MAX]; /* its daemon is of an older release */
    uint64_t stop_at_ns[W_MAX];
    uint32_t stop_incarnation[W_MAX];
    struct dp_msg_slot_gone last_gone[W_MAX];

    bool is_planning, planner_dies; /* a decision is being worked out; none of them is ever answered */
    uint32_t plan_ms;               /* an answer comes within so long */
    uint64_t planned_at_ns;
    uint32_t plan_bytes;
    uint8_t plan[DP_COORD_PLAN_MAX];

    bool held[W_MAX], held_durable[W_MAX]; /* slurmctld: our nodes, in memory and on disk */
    bool is_ctld_down;
    uint64_t save_at_ns, boot_s, read_at_ns, shrink_at_ns, ctld_up_at_ns;
    uint32_t n_reads; /* of the job, asked for */
    uint8_t keep[W_MAX];
    bool has_failed_run;

    uint8_t outcome[64]; /* per migration: 1 commit seen, 2 abort seen */
    uint32_t n_requeues, n_cancels; /* asked for; n_cancels: without a requeue */
    uint32_t n_commits, n_aborts, n_released, n_crashes, n_shrinks, n_lost_updates, n_refused_starts;
    char broken[256]; /* first broken invariant */
};

/* A run of 4 workers on 4 nodes, release mode, pruning from 7 s to 25 s. */
void world_init(struct world *w, uint64_t seed);
void world_release(struct world *w);
/* The same as 4 slices, jobs 201 to 204, two of them on each of 2 nodes; before world_start(). A slice's job ends soon after
 * its worker has, unless it is stuck: then its script goes on. */
void world_slice(struct world *w);
/* The same with fewer than there are seats, the first ones. */
void world_slice_few(struct world *w, uint32_t n_there);
/* A slice begins on this node, and asks for a seat until it has one or is refused. returns: which, of w->comer. */
uint32_t world_come(struct world *w, const char *node, uint32_t slice, uint32_t restarts);
/* The job that the worker, and the daemon of its node, name. */
uint32_t world_job_of(const struct world *w, uint32_t slot);
/* Start the coordinator; the workers say HELLO as time goes on. */
void world_start(struct world *w);
/* Simulate this long. with_faults: coordinator and slurmctld crashes, lost connections, bad reports. */
void world_run(struct world *w, double seconds, bool with_faults);
/* Of slices: this node is lost, with its workers, with the coordinator and its journal, and another one is made of those who are left, and
 * restarted at once. returns false: it could not be (broken says why). */
bool world_take_over(struct world *w, const char *node);
/* The loss that its workers report after a step. */
double world_loss(uint64_t step);
/* A worker's process is killed, which its node's daemon tells, once. */
void world_kill(struct world *w, uint32_t rank);
/* Slurm ends its slice: SIGTERM, and 30 s later SIGKILL. */
void world_take(struct world *w, uint32_t rank);
/* The coordinator's daemon dies; world_run() starts it again. */
void world_crash(struct world *w);
/* What the coordinator would write anew. The caller frees it. */
struct world_record *world_snapshot(const struct dp_coord *c, uint32_t *n);
/* 0 .. n - 1, as the input or the seed says. */
uint32_t world_draw(struct world *w, uint32_t n);
/* True when nothing is under way: no migration, every drained slot released or held. */
bool world_is_settled(struct world *w);
/* Faults stop, and it runs until it is settled; broken where it is not within 400 s. */
void world_settle(struct world *w);
/* What a step takes with recorded loads: half as long again as the simulator says. */
uint64_t world_step_ns(const struct dp_layout *layout, uint64_t step);
uint32_t world_count(const struct world *w, enum dp_record type);
/* Of the slice that has the slot now. */
bool world_slot_has(const struct world *w, uint32_t slot, enum dp_record type);

#endif
