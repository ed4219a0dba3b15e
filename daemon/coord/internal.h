/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the coordinator share. Nothing outside daemon/coord/ includes this.
 *
 * coordinator.c   life of a coordinator: create, replay, begin, tick, commands, end
 * limit.c         time that the job has left
 * members/
 *   member.c        who is in the run: HELLO, GOODBYE, lost workers, events
 *   trait.c         what its trainer can, and which mode follows
 *   seat.c          slices that come later: seats, and what the run holds in the course of time
 *   join.c          how they are taken in
 *   leave.c         slices that Slurm ends, and says so before
 *   regroup.c       lost workers: who goes on without them
 *   take_over.c     a coordinator made of what the workers know
 *   missing.c       nodes of which nothing is heard
 *   stall.c         silence: who does not answer
 * records/
 *   journal.c       records: what is written
 *   replay.c        what a restart makes of them
 *   rewrite.c       all that counts as records: a journal written anew
 * loads/
 *   report.c        measured loads, checked
 *   snapshot.c      loads and devices as a policy wants them; speeds of devices
 *   expect.c        what its trainer expects of layers at later steps
 *   ahead.c         loads to come, and what the reference allows then
 *   noise.c         how sure loads are
 *   link.c          how long messages between slots take
 *   correct.c       what the simulator does not know of a run, for plan.c
 *   memory_need.c   host memory that a node needs, and what it leaves for layers
 * decide/
 *   decide.c        what is planned, reference, verdict, decision log
 *   plan.c          predictions, policy and packing, in a child process
 *   balance.c       when balancing waits
 *   promise.c       the measured step against what was promised of it; trials; when packing stops
 *   trade.c         what every number of slots would give and cost
 *   proposal.c      the layout that an observed run should begin again with
 *   grow.c          when more are asked for, and what becomes of that
 *   grow_plan.c     what more of them would bring
 * carry_out/
 *   migrate.c       hand-over: INTENT, PREPARE, votes, COMMIT or ABORT, DONE
 *   release.c       drained slots: proof of gone, RELINTENT, shrink, read back
 *   memory.c        host memory that goes back to Slurm
 * show/
 *   json.c          what people see
 *   promise_json.c  and of promise.c
 *   copies_json.c   copies of layers on other workers
 *   saving.c        what the run saved against a fixed layout
 */
#ifndef DP_DAEMON_COORD_INTERNAL_H
#define DP_DAEMON_COORD_INTERNAL_H

#include "common/clock.h"
#include "common/site/site_policy.h"
#include "daemon/coord/coordinator.h"
#include "policies/decide/correction.h"
#include "policies/decide/decide.h"
#include "policies/decide/foresee.h"
#include "policies/decide/grow.h"
#include "policies/decide/pack.h"
#include "policies/decide/promise.h"
#include "policies/decide/pruning.h"
#include "policies/decide/release_when.h"
#include "policies/predict/predict.h"
#include "policies/saving/saving.h"
#include "policies/saving/trade.h"

/* Histories: the newest so many, for reports; they bound what one takes (daemon/query/ask.c). When the samples are full,
 * every other one goes. */
#define COORD_DECISIONS 200
#define COORD_HANDOVERS 256
#define COORD_SAMPLES 512
#define COORD_EVENTS 64
#define COORD_MEDIAN 3 /* reports that a layer's load is the median of */
#define COORD_STEADY 256 /* step times that the throughput before pruning is the median of */
#define COORD_RECENT 16  /* and that of now */
#define COORD_SHARED 8   /* reports that the sharing of a worker's cores is the median of */

/* Records besides those of coordinator.h. */
#define DP_REC_NODES 12     /* names of the slots, in parts */
#define DP_REC_REFERENCE 13 /* iteration before pruning, speeds of the devices */
#define DP_REC_WORKERS 14   /* slot and process of every worker; before the START with their layout */
#define DP_REC_SAVING 15    /* sums of saving.c */
#define DP_REC_HANDOVER 16  /* of a journal that was written anew: one that is over, for reports */
#define DP_REC_COUNTS 17    /* of such a journal, its end: newest commit, shrinks that were used */
#define DP_REC_PROMISE 18   /* packing stops, or may go on */
#define DP_REC_BALANCE 19   /* when balancing waits, and what predictions are corrected by */
#define DP_REC_LINKS 20     /* what messages between slots take; behind BALANCE */
#define DP_REC_MEMORY 21    /* host memory of each node: what is asked for, or was given back */
#define DP_REC_SLICES 22    /* of a run of slices: the jobs of the slots that the next NODES name */
#define DP_REC_REGROUP 23   /* workers are lost, the others go on in this layout: a decision, like COMMIT */
#define DP_REC_SEAT 24      /* a slice that came later has this slot, and its worker this rank */
#define DP_REC_WANTED 25    /* so many slices the run may have from here on */
#define DP_REC_PAST 26      /* of a journal that was written anew: a slot was held so long by a slice before the one that has it now */
#define DP_REC_GROW 27      /* of a run that may grow: the newest request for slices, what became of it, and how many it may have */
#define HANDOVER_REGROUP 2  /* in HANDOVER, for 1: committed */

#define RESEND_NS (1 * DP_SECOND_NS)       /* PREPARE, DECISION, FINISH to leavers */
#define ABORT_KNOWN_NS (5 * DP_SECOND_NS)  /* a report so long after an abort shows that it is known */
#define STOP_RESEND_NS (2 * DP_SECOND_NS)  /* STOP_SLOT */
#define HELD_RESEND_NS (5 * DP_SECOND_NS)  /* STOP_SLOT to a slot that is held */
#define MORE_WAIT_NS DP_SECOND_NS /* of proved slots for those that are being stopped, where each can go by itself */
#define LAST_SHRINK_WAIT_NS (2 * HELD_RESEND_NS) /* of proved slots for held ones, where only one shrink is left */
#define ANSWER_NS (40 * DP_SECOND_NS)      /* a call to Slurm that never came back (slurm.md F5) */
#define ENDING_FIRST_NS (100 * DP_MS_NS)  /* slices that were drained: has Slurm seen their jobs end? pauses double from this */
#define ENDING_NS (2 * DP_SECOND_NS)       /* up to this */
#define ENDING_REST 4 /* and are at least so many times as long as an answer took, up to the same */
#define RECHECK_NS (30 * DP_SECOND_NS)     /* released slots: does one come back? */
#define BACKOFF_MAX_S 30 /* pauses double up to it: as often as a released slot is looked at */
#define RETURN_NS (10 * DP_SECOND_NS)      /* after a restart: workers not heard from yet count as alive */

enum coord_slot_state {
    SLOT_ACTIVE,
    SLOT_DRAINED,   /* DRAIN is journalled, its workers leave by themselves */
    SLOT_STOPPING,  /* STOP_SLOT was sent, no proof yet */
    SLOT_GONE,      /* proved */
    SLOT_RELEASING, /* RELINTENT is journalled: dead for this run */
    SLOT_RELEASED,
    SLOT_HELD, /* no proof: never released, unless a proof comes after all */
    SLOT_EMPTY, /* of a run of slices: a seat that none has had yet */
};

struct coord_slot {
    char name[64];   /* of its node */
    char label[96];  /* for people: the same, and which job of several there */
    uint32_t slice;  /* its own job; 0: the run's, which has one slot on a node */
    enum coord_slot_state state;
    uint64_t from_ns; /* held since; 0: from the beginning */
    uint64_t drained_ns, stop_first_ns, stop_last_ns, gone_ns, intent_ns;
    uint64_t freed_ns; /* first read of the job without it */
    uint64_t released_ns;
    uint64_t proof_took_ns;
    char text[256]; /* the proof, or why it is held */
    uint64_t missing_ns;    /* since when nothing is heard of its workers, 0: something is */
    bool is_missing_noted;
    bool is_taken;          /* not in the job, when that was read last */
    char trouble[200];      /* why, as the daemon knows; "": not known */
};

/* What a worker's newest report says of copies: common/message/msg.h. */
struct coord_copied {
    uint32_t layers, whole, holder, held;
    uint64_t bytes, step_bytes;
};

struct coord_worker {
    bool is_known;     /* said HELLO to this incarnation */
    bool is_connected; /* its daemon hears it */
    bool has_left;     /* said GOODBYE, or ended after it was drained */
    bool is_lost;      /* its process ended otherwise */
    bool is_newcomer;  /* has a seat, and was in no layout yet */
    uint64_t seated_ns; /* of a newcomer */
    bool regroups;     /* goes on without those that are lost */
    bool stays;        /* may lose its layers, and does not leave before the run ends */
    uint64_t died_ns;  /* since when that is known */
    uint64_t asked_ns; /* Slurm ends its slice: it asks to be let go, since; 0: it does not */
    uint64_t drains_ns; /* its node is being drained, as was said last; 0: it is not */
    uint64_t away_ns, sought_ns; /* not connected since; asked for last whether it lives */
    uint8_t bye;       /* enum dp_goodbye, when has_left */
    bool is_fresh;     /* reported since the last decision */
    uint32_t pid, slot;
    uint64_t mem_limit_bytes;
    double speed;
    uint64_t predicted_busy_ns; /* in one iteration of the layout in force */
    char device[64];
    uint32_t n_reports; /* since the last change of layout */
    uint64_t step, step_ns, busy_ns, wait_ns, optimizer_ns, overhead_ns, lost_ns, mem_bytes, rss_bytes, need_bytes, job_bytes;
    double shared[COORD_SHARED]; /* dp_contention() of the newest reports on this layout */
    uint32_t n_shared;           /* ever added */
    struct dp_window window[DP_NOISE_WINDOWS]; /* since a layer was changed or moved last */
    uint32_t n_windows;          /* ever added since then */
    uint64_t ahead_ns, held_ns;  /* of the newest report: common/message/msg.h */
    struct coord_copied copies;  /* likewise */
    uint64_t report_ns, finish_sent_ns;
    uint64_t answered_ping; /* number of the newest */
    uint64_t told_proposal; /* likewise, since it said HELLO last; 0: none */
    bool is_told_limit;     /* as it is now, likewise */
};

/* Two slots whose workers were neighbours. */
struct coord_pair {
    uint16_t a, b;                /* a < b */
    uint32_t n;                   /* ever measured */
    uint32_t ns[COORD_SHARED];    /* the newest: a message, beyond what is configured */
};

struct coord_layer {
    struct dp_layer_load sample[COORD_MEDIAN];
    uint32_t n_samples, at;
    struct dp_layer_load load; /* medians of times, newest of the rest */
    uint64_t opt_ns;
    uint64_t total_ns[DP_NOISE_WINDOWS]; /* of all its parts, since it was changed or moved last */
    uint32_t n_totals;                   /* ever added since then */
};

enum coord_mig_state {
    MIG_NONE,
    MIG_PREPARING, /* INTENT is journalled */
    MIG_ABORTING,  /* will abort as soon as the disk is known to hold no COMMIT; nobody was told anything */
    MIG_COMMITTED, /* COMMIT is journalled and told until all have acknowledged */
    MIG_ABORTED,   /* told until all have acknowledged; ABORT is journalled unless that failed */
};

struct coord_migration {
    uint64_t id; /* of the newest INTENT, also after it ended */
    enum coord_mig_state state;
    bool is_doubtful; /* its COMMIT may be on the disk, and may not */
    bool is_regroup;  /* no hand-over: MIG_COMMITTED without votes, after workers were lost */
    struct dp_layout before, next;
    uint8_t is_member[DP_MAX_WORKERS]; /* had not left when it began: these vote and acknowledge */
    uint8_t has_vote[DP_MAX_WORKERS], has_ack[DP_MAX_WORKERS];
    uint64_t pause_ns[DP_MAX_WORKERS], transfer_ns[DP_MAX_WORKERS], copied_ns[DP_MAX_WORKERS]; /* as in DECISION_ACK */
    bool has_boundary;
    uint64_t boundary;
    uint8_t digest[DP_DIGEST_BYTES];
    uint64_t started_ns, sent_ns, decided_ns;
    uint64_t copying_ns; /* workers copy its layers while training goes on, as they said last; 0: they did not */
    uint32_t moved_layers;
    uint64_t moved_bytes, sent_bytes;
    char reason[256], why[256]; /* of the move; of an abort */
};

struct coord_handover {
    uint64_t id, epoch, boundary, started_ns, decided_ns, done_ns;
    bool is_committed, is_regroup; /* is_regroup: committed, too */
    uint32_t moved_layers, n_leavers;
    uint64_t moved_bytes, pause_max_ns, pause_median_ns, transfer_max_ns;
    uint64_t copying_max_ns; /* before that, while training went on; 0 in a journal of release 0.1.0 */
    uint64_t predicted_ns;                       /* device time of an iteration, when it was decided */
    uint64_t expected_ns, allowed_ns, measured_ns; /* wall time of a step: foreseen, by the reference, and what came */
    enum dp_promise_verdict promise;
    char layout[256], reason[256];
};

/* What a layout was put in force for, and where it came from. */
struct coord_pledge {
    uint64_t id;                      /* of the migration; 0: none, or asked for by hand */
    uint64_t expected_ns, allowed_ns; /* wall time of a step; 0: unknown */
    uint64_t predicted_ns;            /* device time of an iteration */
    bool is_trial;                    /* `leave` go when it keeps what was promised, else `back` is put in force again */
    uint8_t leave[DP_MAX_WORKERS];
    uint64_t before_ns;               /* measured on `back` */
    struct dp_layout back;
};

struct coord_promise {
    struct coord_pledge next, now; /* of the hand-over under way, of the layout in force */
    enum dp_promise_verdict verdict;
    struct dp_promise_out out;
    uint64_t allowed_ns;     /* by the reference, as the newest decision knows it */
    bool is_backing;         /* a failed trial is to be taken back */
    uint32_t n_watched;      /* of c->recent.n: measurements that a verdict was spoken on */
    uint64_t tried_ns;       /* last try to go on with a trial, or back */

    bool is_stopped;         /* no packing */
    uint32_t n_missed;       /* in a row */
    uint64_t until_ns;       /* stopped until then at least */
    char why[256];

    bool is_corrected;       /* predictions are made with `correction` */
    struct dp_correction correction;
    uint32_t n_learned, n_explained; /* of c->recent.n: measurements it was last compared with; how often it was right */
    bool has_usual;
    struct dp_correction newest, usual; /* as measured: at the newest decision, and when all was well */
};

/* What a layout was decided with. */
struct coord_basis {
    bool is_corrected;
    struct dp_correction correction; /* where it is */
    uint64_t weights_left;           /* by layer, as a hash */
    bool is_balancing, is_counted;   /* no slot is given up; no change of loads explains it */
};

struct coord_balance {
    struct coord_basis next, now; /* of the hand-over under way, of the layout in force */
    struct dp_layout before;      /* the newest hand-over, unless that was asked for by hand; no workers: none */
    uint32_t n;                   /* that count, less what is forgotten */
    uint64_t until_ns;            /* pause */
    uint64_t quiet_ns;            /* since then none was wished for */
};

struct coord_times { /* the newest of some durations */
    uint32_t n, at; /* n: ever added */
    uint64_t ns[COORD_STEADY];
};

struct coord_decision {
    uint64_t first_ns, last_ns, step;
    uint32_t count; /* the same answer so many times in a row */
    bool is_applied;
    struct dp_noise noise;
    bool is_corrected; /* the next four rest on corrected predictions, else on plain device time */
    uint64_t current_ns, proposed_ns, limit_ns, fastest_ns, moved_bytes;
    uint64_t measured_ns, expected_ns, allowed_ns; /* wall time of a step: now, of the proposal at most, by the reference */
    uint32_t slots_now, slots_after, devices_after, moved_layers;
    double imbalance; /* (max - min) / mean busy time of the stages now */
    struct dp_decide_out out;
    char policy_reason[256], pack_reason[256], release_reason[256], layout[256];
};

/* What is being planned, and the decision that it is for: from coord_decide_tick() until the answer. */
struct coord_planning {
    struct coord_decision d;
    bool wants_reference;
    uint64_t epoch; /* of the layout then */
    uint64_t beside_ns; /* the measured step beside its loads; 0: unknown */
    uint64_t n_changed; /* of layers, then */
    uint32_t memory_mb; /* that the nodes were to keep then */
    uint32_t step_id;
};

/* The newest loads from before anything was pruned or frozen, what the reference is predicted from: kept, because the child
 * that does so may fail until there are no such loads any more. */
struct coord_early {
    bool is_set, is_unmoved; /* is_unmoved: nor was a layer moved, so they tell the speeds of the devices */
    struct dp_layout layout;
    struct dp_layer_load load[DP_MAX_LAYERS];
    uint64_t opt_ns[DP_MAX_LAYERS];
};

/* The run as a policy wants to see it; `in` points into the rest. */
struct coord_snapshot {
    struct dp_layer_load layer[DP_MAX_LAYERS];
    uint64_t opt[DP_MAX_LAYERS];
    struct dp_device device[DP_MAX_WORKERS];
    uint32_t slot_host[DP_MAX_WORKERS];
    struct dp_policy_in in;
    bool has_copies; /* state_bytes are twice what a layer has, for its copy */
};

#define COORD_LOOKS 3 /* each is a simulation more of every layout that packing tries */

struct coord_ahead {
    uint32_t n;
    struct dp_pack_later later[COORD_LOOKS];
    struct dp_layer_load layer[COORD_LOOKS][DP_MAX_LAYERS];
    uint64_t opt[COORD_LOOKS][DP_MAX_LAYERS];
};

/* The answer: a child's bytes. */
struct coord_plan {
    uint32_t first_block, end_block; /* layers first .. end - 1 have as many parameters as most have */
    int32_t rc; /* -1: no proposal, err says why */
    enum dp_errcode code;
    char why[256];
    uint32_t slots_after;
    uint64_t limit_ns, fastest_ns;
    char pack_reason[256], release_reason[256];
    struct dp_policy_out out; /* the proposal; gone[] of its layout: who leaves */
    uint32_t moved_layers;
    uint64_t moved_bytes;
    /* Whatever rc is; 0: could not be told. */
    uint64_t current_ns, start_ns;     /* iteration of the layout in force, of the start layout, with the loads of now */
    uint64_t balanced_ns;              /* of the best layout on the devices that the run began with, likewise */
    uint64_t reference_ns;             /* start layout with the loads of c->early, where the planning wants it */
    uint64_t stage_ns[DP_MAX_WORKERS]; /* of the layout in force: what each worker computes in one iteration */
    double speed[DP_MAX_WORKERS];      /* of the devices, measured where the planning wants the reference */
    struct dp_prune_trend trend;
    double left_mean; /* coord_steps_left_mean() */
    struct dp_noise noise;
    struct dp_trade trade;
    /* Wall time. 0: could not be told */
    struct dp_measured measured;  /* step of the layout in force */
    struct dp_correction learned; /* from it */
    bool is_corrected;            /* iterations of decision and proposal are corrected ones */
    bool is_as_decided;           /* by the correction that the layout in force was decided with */
    uint64_t basis_ns, basis_start_ns; /* current_ns and start_ns as they compare with the proposal's */
    uint64_t believed_ns;         /* that step by the correction that is in use */
    uint64_t then_ns, most_ns;    /* step of the proposal: at least, and where the rest grows with it */
    uint64_t allowed_ns;          /* by the reference */
    struct {                      /* what more slices would bring; n 0: it was not asked */
        uint64_t current_ns, best_ns; /* of the layout in force, and of the best one on those that are held */
        uint32_t n;
        struct dp_grow_option option[DP_GROW_OPTIONS];
    } grow;
};
_Static_assert(sizeof(struct coord_plan) <= DP_COORD_PLAN_MAX, "a plan fits into its buffer");

/* The sums of the windows that are closed, and the one that is open. */
struct coord_saving {
    struct dp_saving_sums sums;
    uint64_t step, since_ns; /* of the newest report in them; step 0: none of this step's workers yet */
    uint64_t epoch, steps;
    double steps_s, besides_s, pause_s;
    bool is_whole;
    uint64_t journalled_ns;
};

struct coord_sample {
    uint64_t step, t_ns;
    double loss, sparsity, tokens_per_s;
    uint32_t n_frozen;
};

struct coord_event {
    uint64_t t_ns, step;
    char text[256];
};

/* What layers will cost from a step on, as its trainer says; in the device time of their owners. */
struct coord_expected {
    uint64_t step;
    uint32_t n_said;     /* layers */
    uint64_t said_ns;    /* of a microbatch, of all of them */
    uint8_t *is_said;    /* [n_layers], behind load */
    struct dp_layer_load load[];
};

/* Of an observed run: what would be made of it. Not journalled: the first decision after a restart makes it anew. */
struct coord_proposal {
    uint64_t number;          /* under this incarnation; 0: nothing was decided yet */
    uint64_t since_ns;        /* this layout is the best since */
    uint64_t now_ns, then_ns; /* predicted step: of the layout in force, of this one */
    struct dp_layout layout;  /* the one in force where none is better */
    uint32_t first_block, end_block;
};

struct coord_stall {
    bool is_asking, is_stalled, was_answerable; /* the newest PING was sent long enough ago */
    uint64_t heard_ns, ping, sent_ns;           /* heard_ns: of any worker */
    uint64_t since_ns;                          /* is_stalled */
    bool is_ending;                             /* Slurm was asked to end the job */
    uint64_t retry_ns;                          /* not again before */
    char text[160];
};

struct coord_limit {
    bool is_known;
    uint64_t end_ns; /* UINT64_MAX: the job has no time limit */
};

/* Of each node, MiB. What is journalled as asked for counts as given: layers move by it. */
struct coord_memory {
    uint32_t start_mb, given_mb; /* at the start; as confirmed last, 0: never anything */
    uint32_t target_mb;          /* asked for and not confirmed; 0: nothing */
    uint32_t now_mb, need_mb;    /* as Slurm says, as the newest reports say with all that may come; 0: not known */
    uint32_t saved_mb;           /* likewise when the newest checkpoint was made */
    uint32_t window_mb, n_window; /* the most in the looks of a window, so far */
    uint64_t window_epoch;
    bool is_asking, is_reading, is_refused;
    uint64_t deadline_ns, next_ns;
    uint32_t attempts, backoff_s;
    uint64_t clean_ns, clean_boot_s; /* first read that shows target_mb, 0: none */
    uint64_t given_ns, given_step;   /* of given_mb */
    uint32_t n_given;
    char why[200]; /* nothing more is given back, because */
};

struct coord_regroup {
    uint64_t tried_ns;       /* a record that could not be written */
    uint64_t read_ns;        /* Slurm was asked last whether a node is still there */
    uint64_t refused_ns;     /* told last that nobody goes on */
};

struct coord_join {
    uint32_t wanted;         /* slices that the run may have: more are not let in */
    uint64_t id;             /* of the newest hand-over that was to take somebody in; 0: none, or it did */
    uint32_t n_failed;       /* of those, in a row */
    uint64_t next_ns;        /* not again before */
    uint64_t ping, ping_ns;  /* the newest that newcomers were sent, when */
    uint64_t refused_ns;     /* told last that nobody is taken in */
    char refusal[200];       /* why; "": somebody may be */
};

enum coord_grow_state {
    GROW_NONE,      /* nothing was ever asked for */
    GROW_ASKED,     /* a request is under way: join.wanted counts those that are to come */
    GROW_JOINED,    /* all of them train */
    GROW_WITHDRAWN, /* not all came in time */
    GROW_REFUSED,   /* Slurm, or the owner's limits there, give none */
    GROW_ENDED,     /* their jobs ended before they joined */
    GROW_OVERTAKEN, /* slices were given back meanwhile, or the run may grow no more */
};

struct coord_grow {
    /* Journalled. */
    enum coord_grow_state state;  /* of the newest request, as is what follows */
    enum dp_grow_why why;
    uint32_t held, asked;         /* slices when it was made; that there were to be, or, where Slurm gives fewer, can be */
    uint64_t asked_ns, ended_ns;  /* ended 0: it is under way */
    uint64_t since_s;             /* by the controller's clock: submitted since then is what was asked for; 0: not known */
    uint32_t n;                   /* requests ever */
    uint32_t n_vain, n_back;      /* in a row: that came to nothing; that were given back again */
    uint32_t back_of;             /* the newest request that is counted in n_back */
    uint64_t next_ns;             /* nothing is asked for before */
    uint64_t given_load;          /* of all layers, when slices were given back last; 0: none ever were */
    char reason[256], text[200];  /* of the request; what became of it */
    /* Not. */
    uint64_t begun_ns;            /* none of those that were asked for waits in the queue, since; 0: some do, or it is not known */
    uint64_t tried_ns;            /* a record that could not be written */
    char stay[256];               /* the newest decision */
};

/* A slot that has another slice by now. */
struct coord_past {
    uint64_t from_ns, freed_ns;
};
#define COORD_PAST 256 /* then two become one that is as long as both */

struct coord_leave {
    uint64_t tried_ns; /* a hand-over that could not begin, or all were asked to stop */
    bool is_stop_noted;    /* that all save and stop */
    char stop_why[120];    /* whoever asks to leave; "": nobody has to */
    bool is_preempted;     /* home's job, as it was read at read_ns */
    uint32_t n_tasks_stay; /* as well: workers that have not asked, and are no companions */
    uint64_t read_ns, ask_ns; /* asked for last */
    char why[256];         /* who would leave a node that drains cannot: why; "": they can, or nobody would */
};

struct coord_release {
    bool is_reading, is_shrinking; /* asked, no answer yet */
    uint64_t deadline_ns, next_ns;
    uint64_t asked_ns, ending_ns; /* read last; ending: pause between two reads while slices end */
    uint32_t backoff_s, attempts, lost_updates, shrinks_used;
    bool has_told_stepmgr;
    bool is_clean; /* the newest read shows the job without the slots */
    uint64_t clean_ns, clean_boot_s;
    uint64_t last_read_ns;
    char answer[256];
};

struct dp_coord {
    struct dp_job_info job; /* node[]: as at the first start, index = slot */
    struct dp_run_limits limits;
    struct dp_coord_ops ops;
    void *arg;
    struct {
        uint32_t incarnation;
        bool is_begun, is_over, is_paused;
        uint64_t begin_ns; /* of this incarnation */
        uint64_t first_ns; /* first begin, for times that people read */
        uint64_t over_ns;
        char over_why[256], failed[256];
    } life;
    struct { /* what the newest record NODES said of the step that the next START names */
        bool has_nodes;
        uint32_t n_slices, slice[DP_MAX_SLOTS], restarts[DP_MAX_SLOTS]; /* n_slices 0: no SLICES */
        uint32_t n_workers;
        uint16_t slot[DP_MAX_WORKERS];
        uint32_t pid[DP_MAX_WORKERS];
    } replay;

    const struct dp_policy *policy;
    struct dp_site_policy *site;      /* NULL: the policy is built in */
    struct coord_planning *planning;  /* a decision being planned, NULL: none */
    uint32_t n_policy_failures;       /* in a row */
    uint64_t last_change_ns, next_decision_ns;

    struct { /* the step that trains, as its workers said */
        bool has_step, has_shape, has_layout, is_pruned, is_completed;
        /* Of any of its workers, once it has said so. Not journalled: nothing is decided before all have said HELLO again. */
        bool blocks_differ, is_fixed; /* is_fixed: cannot move layers, so the run is observed */
        char trainer[64];             /* for people; "": dynpipe-worker */
        uint32_t n_frozen; /* layers from layer 0 on that only go forward, as the newest reports say */
        uint32_t step_id, n_workers, n_layers, microbatches, tokens_per_microbatch;
        uint8_t schedule;
        uint64_t steps_total, stage_message_bytes, step;
        double sparsity, loss, eval_loss;
        uint32_t n_changes;
        struct dp_change change[DP_CHANGES_MAX]; /* that are known to come, and those that came */
        uint64_t loss_step; /* that the loss belongs to */
        char checkpoint_dir[1024], checkpoint[1024];
    } train;
    struct dp_layout layout, start_layout;
    uint64_t last_commit_id; /* migration of the layout in force, 0: none */
    uint64_t last_regroup_id; /* newest regroup, 0: none. It ended every hand-over before it, however that was decided */
    struct coord_worker worker[DP_MAX_WORKERS];
    struct coord_layer layer[DP_MAX_LAYERS];
    uint32_t n_slots, batch_slot;
    struct coord_slot slot[DP_MAX_SLOTS];

    struct { /* what max_slowdown is measured against */
        uint64_t ns, step_ns; /* predicted and measured iteration before the first change */
        bool is_final;
        uint32_t n_snapshots; /* that it was taken from */
        struct coord_early early;
        struct coord_times steady; /* steps of the start layout, warm and unchanged */
    } reference;
    struct {
        uint64_t ns;          /* of the layout in force */
        uint64_t start_ns;    /* of the start layout with the loads of then */
        uint64_t balanced_ns; /* of the best layout on the devices that the run began with, likewise */
        uint64_t epoch;       /* of the layout in force then */
        uint64_t beside_ns;   /* the step that was measured in the reports whose loads they are; 0: unknown */
        double left_mean;     /* of a step that is left, over one of now, as of the newest prediction; 0: unknown */
    } predicted;
    uint64_t step_ns; /* of the layout in force: last measurement */
    struct coord_times recent; /* last steps of the layout in force */
    struct dp_prune_trend trend; /* how the blocks' time falls with their nonzeros */
    struct dp_noise noise;       /* as of the newest decision; 0 again when a layer is changed, */
    uint64_t n_changed;          /* which reports have shown so often */
    uint32_t n_wins;             /* decisions in a row that found a better layout */

    struct coord_saving saving;
    struct dp_trade trade; /* of the newest decision */
    struct coord_migration mig;
    struct coord_release rel;
    struct coord_regroup regroup;
    struct { /* not journalled: it is said again after each WELCOME */
        uint32_t n;
        struct coord_expected *at[DP_EXPECTED_MAX]; /* rising by step, as many layers each as the run has */
    } expect;
    struct coord_proposal proposal;
    struct coord_stall stall;
    struct coord_leave leave;
    struct coord_join join;
    struct coord_grow grow;
    uint32_t n_past;
    struct coord_past past[COORD_PAST]; /* oldest first */
    struct coord_limit limit;
    struct coord_memory memory;
    struct coord_promise promise;
    struct coord_balance balance;
    struct { /* what messages between two nodes take */
        uint32_t n;
        struct coord_pair pair[DP_LINKS_MAX];
    } links;

    struct {
        uint64_t n, n_dropped, n_ignored;
        char dropped_why[256];
    } reports;
    uint64_t steps_full_ns; /* as events.full_ns, of steps that begin */
    struct { /* of workers, together (member.c) */
        uint64_t full_ns; /* when there is room for a whole burst again */
        uint64_t n_lost, n_lost_told; /* came too often; of them, said */
        uint64_t told_ns;
    } events;
    struct {
        uint64_t n_errors;
        bool is_failing, was_failing; /* the newest record could not be written; as was told last */
        char error[256];
    } journal;
    struct { /* bounded */
        uint32_t n_decisions, n_handovers, n_events; /* ever; rings */
        uint32_t n_logged; /* of the events */
        struct coord_decision decision[COORD_DECISIONS];
        struct coord_handover handover[COORD_HANDOVERS];
        struct coord_event event[COORD_EVENTS];
        uint32_t n_samples, sample_every;
        uint64_t next_sample_step;
        struct coord_sample sample[COORD_SAMPLES];
    } history;
};

/* --- coordinator.c --- */
void coord_note(struct dp_coord *c, uint64_t now_ns, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void coord_fail(struct dp_coord *c, uint64_t now_ns, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Has every slot a job of its own, a different one, or has none of them? */
int coord_slices_check(const uint32_t *slice, uint32_t n, struct dp_err *err);
/* The slot of this job on this node. -1: there is none. */
int coord_slot_find(const struct dp_coord *c, const char *node, uint32_t job_id);
/* slice: 0, or the slot's own job, requeued so often. */
void coord_slot_set(struct dp_coord *c, uint32_t slot, const char *node, uint32_t slice, uint32_t restarts);
/* Are the slots of this run jobs of their own? */
bool coord_is_sliced(const struct dp_coord *c);
/* Does Slurm never take this slot from the run? The batch host of a job of nodes; of slices it may take each. */
bool coord_is_fixed(const struct dp_coord *c, uint32_t slot);
/* The slot that work is packed towards, and that is not given back unless Slurm takes it: the batch host's; of slices the one beside
 * the coordinator, or, where nobody is left in that, the leader's. */
uint32_t coord_kept_slot(const struct dp_coord *c);
/* What a slot is called: "node" or "slice". */
const char *coord_slot_word(const struct dp_coord *c);
/* Did the job, as Slurm was read now, keep this slot? */
bool coord_slot_is_in(const struct dp_coord *c, uint32_t slot, const struct dp_job_info *job);
/* A worker that must vote, acknowledge and report: in the layout, and its process not known to be over. */
bool coord_is_live(const struct dp_coord *c, uint32_t rank);
/* How many workers are so; *first: the lowest of them, unless NULL or there is none. */
uint32_t coord_count(const struct dp_coord *c, bool (*is_so)(const struct dp_coord *c, uint32_t rank), uint32_t *first);
double coord_seconds(const struct dp_coord *c, uint64_t t_ns);
const char *coord_slot_state_name(enum coord_slot_state state);

/* --- member.c --- */
void coord_step_reset(struct dp_coord *c);
void coord_member_tick(struct dp_coord *c, uint64_t now_ns);
void coord_member_end(struct dp_coord *c, uint64_t now_ns); /* the run is over: what was left out is said */
bool coord_member_is_sane(const struct dp_msg_hello *m);
bool coord_member_fits(const struct dp_coord *c, const struct dp_msg_hello *m); /* to what those before it said of the run */
void coord_member_shape(struct dp_coord *c, const struct dp_msg_hello *m);      /* it is the first */
void coord_member_adopt(struct dp_coord *c, const struct dp_msg_hello *m, uint32_t pid, uint32_t slot);

/* --- trait.c --- */
/* What a HELLO says that its worker can; of workers that differ the most cautious one counts for the run. Says so where the run is
 * observed from here on. */
void coord_trait_take(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_hello *m);
/* The mode in force: one whose workers cannot move layers is observed, whatever was asked for. */
enum dp_mode coord_mode(const struct dp_coord *c);
/* Copies of each layer that its workers are asked to hold: 0 or 1. */
uint8_t coord_copies(const struct dp_coord *c);
/* Why the mode in force is another one than was asked for; NULL: it is not. */
const char *coord_why_observed(const struct dp_coord *c);
/* Is there a worker on this slot that does not leave before the run ends? Then the slot is not given back either. */
bool coord_slot_stays(const struct dp_coord *c, uint32_t slot);
json_t *coord_trait_json(const struct dp_coord *c); /* new reference; null before any worker has said HELLO */

/* --- expect.c --- */
void coord_expect_forget(struct dp_coord *c);
uint64_t coord_expect_first(const struct dp_coord *c); /* step of the first one behind the run's beginning; UINT64_MAX: there is none */
/* out: = [DP_EXPECTED_MAX], those of steps to come, borrowed. returns: how many. */
uint32_t coord_expect_to_come(const struct dp_coord *c, struct dp_expected *out);
json_t *coord_expect_json(const struct dp_coord *c); /* new reference: a list */

/* --- proposal.c --- */
/* A decision of an observed run: `next` is what would be put in force, the layout in force where that stays. */
void coord_proposal_made(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, const struct dp_layout *next);
void coord_proposal_tick(struct dp_coord *c); /* workers that cannot move layers hear of it */
/* New reference; null where the run is not observed, nothing was decided yet, or nothing is better than the layout in force. */
json_t *coord_proposal_json(const struct dp_coord *c);

/* --- report.c --- */
void coord_loss_take(struct dp_coord *c, uint64_t now_ns, uint64_t step, double loss); /* after `step` steps; NaN: unknown */
void coord_loads_reset(struct dp_coord *c); /* a new layout is in force */
bool coord_loads_ready(const struct dp_coord *c);
/* What no layer of any training can have, NULL: it can. params: those that it is known to have, 0: not known. */
const char *coord_load_why_not(const struct dp_layer_load *l, uint64_t params);
/* Have layers become cheaper since the run began? Those that it froze before its first step are what it is. */
bool coord_is_changed(const struct dp_coord *c);
/* Completed steps at the first change that is known to come behind the run's beginning; UINT64_MAX: none is. */
uint64_t coord_first_change(const struct dp_coord *c);
double coord_tokens_per_s(const struct dp_coord *c, uint64_t step_ns);
uint64_t coord_steady_step_ns(const struct dp_coord *c); /* before anything changed; 0: not known */
void coord_measured(const struct dp_coord *c, struct dp_measured *out);  /* that, and how sure it is */
uint64_t coord_recent_step_ns(const struct dp_coord *c); /* of the layout in force; 0: not known */
uint64_t coord_step_beside_loads_ns(const struct dp_coord *c); /* over the reports that loads are medians of; 0: not known */
/* seconds, but not less than five steps of this run */
double coord_patience_s(const struct dp_coord *c, double seconds);

/* --- json.c --- */
json_t *coord_ms(uint64_t ns); /* new reference; null for 0 (not known) and UINT64_MAX (any) */

/* --- saving.c --- */
uint32_t coord_per_slot(const struct dp_coord *c); /* devices, as people count them: GPUs of a node, at least 1 */
void coord_saving_begin(struct dp_coord *c, uint64_t now_ns);
void coord_saving_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m);
void coord_saving_moved(struct dp_coord *c); /* a new layout is in force */
void coord_saving_paused(struct dp_coord *c, uint64_t pause_ns);
/* Until now; and to the last step at the speed of now: "saving" of doc/json.md. */
void coord_saving_so_far(const struct dp_coord *c, uint64_t now_ns, struct dp_saving *out);
json_t *coord_saving_json(const struct dp_coord *c, uint64_t now_ns);

/* --- stall.c --- */
void coord_stall_heard(struct dp_coord *c, uint64_t now_ns);
void coord_stall_tick(struct dp_coord *c, uint64_t now_ns);
void coord_stall_ping(struct dp_coord *c, uint32_t rank); /* with the newest number, c->stall.ping */

/* --- limit.c --- */
void coord_limit_tick(struct dp_coord *c, uint64_t now_ns);

/* --- memory.c --- */
void coord_memory_tick(struct dp_coord *c, uint64_t now_ns);
void coord_memory_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job); /* NULL: it could not be */
int coord_memory_replay(struct dp_coord *c, struct dp_reader *r, struct dp_err *err);
void coord_memory_saved(struct dp_coord *c); /* a checkpoint was made */
json_t *coord_memory_json(const struct dp_coord *c); /* new reference; null where nothing is to be given back */

/* --- memory_need.c --- */
uint32_t coord_memory_kept_mb(const struct dp_coord *c); /* that layouts must do with; 0: nothing was given back */
/* MiB that the fullest node needs, with room for layers that may come and the margin; 0: not known. */
uint32_t coord_memory_need_mb(const struct dp_coord *c);
uint64_t coord_memory_limit_bytes(const struct dp_coord *c, uint32_t rank); /* for its layers; 0: unlimited */

/* --- missing.c --- */
bool coord_is_missing(const struct dp_coord *c, uint32_t slot); /* its workers should be here and are not */
void coord_missing_tick(struct dp_coord *c, uint64_t now_ns);
/* "nothing from n3 for 12 s: ...", "" where nothing is missing. */
void coord_missing_text(const struct dp_coord *c, uint64_t now_ns, char *out, size_t cap);
json_t *coord_missing_json(const struct dp_coord *c, uint64_t now_ns); /* new reference */

/* --- decide.c --- */
void coord_decide_tick(struct dp_coord *c, uint64_t now_ns);

/* --- snapshot.c: both take time with the layers and workers, for the child of plan.c --- */
/* The loads of now; speed: [n_workers] of the devices. */
void coord_snapshot_fill(const struct dp_coord *c, const double *speed, struct coord_snapshot *s);
/* Layers count once from here on. returns: did they count twice? */
bool coord_snapshot_forget_copies(struct coord_snapshot *s);
/* The loads from before the first change: c->early. */
void coord_snapshot_fill_early(const struct dp_coord *c, const double *speed, struct coord_snapshot *s);
/* speed: [n_workers] = relative to the usual device, by c->early; unchanged where it cannot be told, as where blocks do not cost alike. */
void coord_snapshot_speeds(const struct dp_coord *c, double *speed);

/* --- ahead.c: in the child --- */
struct coord_known {
    struct dp_foresight f; /* points into the rest, and into c */
    struct dp_expected expected[DP_EXPECTED_MAX];
    double speed[DP_MAX_LAYERS]; /* of the owners */
};
/* What is known to come. speed: [n_workers] of the devices; slope: dp_prune_slope(). */
void coord_foresight(const struct dp_coord *c, const double *speed, double slope, struct coord_known *out);
/* Iteration of the layout that the run started with, with these loads; 0: cannot be told. */
uint64_t coord_fixed_ns(const struct dp_coord *c, const struct dp_policy_in *in);
/* now: the loads; in: the devices. */
void coord_look_ahead(const struct dp_coord *c, const struct coord_snapshot *now, const struct dp_policy_in *in,
                      const struct dp_foresight *known, struct coord_ahead *out);

/* Mean time of a step that is left to the last one, over one of now, whatever the layout: 1 where no change is known to
 * come any more, or it cannot be told. layer, opt: [DP_MAX_LAYERS], room to work in. */
double coord_steps_left_mean(const struct dp_coord *c, const struct coord_snapshot *now, const struct dp_foresight *known,
                             struct dp_layer_load *layer, uint64_t *opt);

/* --- trade.c: in the child --- */
void coord_trade_fill(const struct dp_coord *c, const struct coord_plan *t, const struct dp_pack *p, uint32_t slots_now,
                      struct dp_trade *out);
void coord_trade_choose(struct dp_trade *t, uint32_t slots, const char *why);

/* --- promise.c --- */
enum coord_way { WAY_GO, WAY_TRIAL, WAY_WAIT };
/* How to come to a layout: at once; first with the same cuts and nobody leaving (*first), so that the step is
 * measured while all can still go back; or not now, why says what is missing. Fills in the pledge of the move. */
enum coord_way coord_promise_plan(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next,
                                  const struct coord_plan *t, struct dp_layout *first, char *why, size_t cap);
void coord_promise_begun(struct dp_coord *c); /* the hand-over that was planned */
void coord_promise_committed(struct dp_coord *c, uint64_t now_ns, struct coord_handover *h);
void coord_promise_planned(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t);
void coord_promise_tick(struct dp_coord *c, uint64_t now_ns);
bool coord_promise_is_deciding(const struct dp_coord *c); /* a trial is under way: no other decision */
void coord_promise_resume(struct dp_coord *c, uint64_t now_ns); /* packing may go on, if it was stopped */

/* --- noise.c --- */
void coord_noise_reset(struct dp_coord *c); /* another layout is in force */
void coord_noise_report(struct dp_coord *c, const struct dp_msg_report *m); /* before its loads are taken */
double coord_noise_of_layer(const struct dp_coord *c, uint32_t layer); /* dp_scatter_of() its reports */
void coord_noise_look(const struct dp_coord *c, struct dp_noise *out); /* in the child */

/* --- link.c --- */
void coord_link_report(struct dp_coord *c, const struct dp_msg_report *m);
/* What was measured; a link that takes little of a step of step_ns longer is none that is slow. In the child. */
void coord_link_fill(const struct dp_coord *c, uint64_t step_ns, struct dp_links *out);
uint32_t coord_link_median_ns(const struct coord_pair *p); /* n > 0 */
void coord_link_forget(struct dp_coord *c);
json_t *coord_link_json(const struct dp_coord *c, const struct dp_links *l); /* the slow ones; new reference */

/* --- balance.c --- */
bool coord_balance_is_paused(const struct dp_coord *c, uint64_t now_ns);
/* Until this proposal, which gives no slot up, may be carried out. */
uint64_t coord_balance_pause_ns(const struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t);
void coord_balance_wished(struct dp_coord *c, uint64_t now_ns); /* a move that balances would pay */
/* Before a hand-over begins: one that this proposal is for, any other one. */
void coord_balance_plan(struct dp_coord *c, const struct coord_plan *t, bool is_balancing);
void coord_balance_keep(struct dp_coord *c);
void coord_balance_committed(struct dp_coord *c, uint64_t now_ns);
void coord_balance_missed(struct dp_coord *c, uint64_t now_ns); /* the newest hand-over did not bring what was predicted */
bool coord_balance_takes_back(const struct dp_coord *c, const struct dp_layout *next);
void coord_balance_tick(struct dp_coord *c, uint64_t now_ns);
void coord_balance_resume(struct dp_coord *c); /* forgets the links, too */

/* --- promise_json.c --- */
json_t *coord_promise_json(const struct dp_coord *c, uint64_t now_ns); /* new reference */
void coord_promise_state(const struct dp_coord *c, char *out, size_t cap); /* of a run that trains, a sentence */

/* --- copies_json.c --- */
/* Are all workers that own layers on one node? Its name, else NULL. */
const char *coord_only_node(const struct dp_coord *c);
json_t *coord_copies_json(const struct dp_coord *c); /* of the run; new reference; NULL: it has none and is to have none */
json_t *coord_worker_copies_json(const struct dp_coord *c, uint32_t rank); /* likewise */

/* --- correct.c --- */
void coord_correct_report(struct dp_coord *c, const struct dp_msg_report *m);
/* How many times as long as their device time the workers of a slot take; 1: their cores are their own. */
double coord_correct_sharing(const struct dp_coord *c, uint32_t slot);
/* In the child. now: the snapshot. Fills in measured, learned and believed_ns of t. */
int coord_correct_learn(const struct dp_coord *c, const struct dp_policy_in *now, struct coord_plan *t,
                        struct dp_err *err);
/* The correction that proposals are judged with. */
const struct dp_correction *coord_correct_model(const struct dp_coord *c, const struct coord_plan *t);
/* Wall time that the reference allows; 0: unknown. Needs limit_ns, fastest_ns, basis_ns and basis_start_ns of t. */
uint64_t coord_correct_allowed_ns(const struct dp_coord *c, const struct dp_policy_in *now, const struct coord_plan *t);

/* --- plan.c --- */
uint32_t coord_shrinks_left(const struct dp_coord *c);

/* --- migrate.c --- */
/* Start a hand-over to these cuts and gone[]; refused while another is under way. */
int coord_migrate_begin(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason,
                        struct dp_err *err);
void coord_migrate_abort(struct dp_coord *c, uint64_t now_ns, const char *why);
void coord_migrate_tick(struct dp_coord *c, uint64_t now_ns);
/* Tell one worker the outcome of a migration that it asks about; says nothing while undecided. */
void coord_migrate_tell(struct dp_coord *c, uint32_t rank, uint64_t id);
void coord_migrate_finish(struct dp_coord *c, uint64_t now_ns, uint32_t rank);
/* A report or HELLO shows that the worker has the layout in force: as good as its acknowledgement. */
void coord_migrate_seen(struct dp_coord *c, uint64_t now_ns, uint32_t rank, uint64_t epoch);
bool coord_migrate_is_idle(const struct dp_coord *c);
/* The live workers go on in this layout without those whose gone[] it sets. Decided here, once it is durable: returns 0, or -1:
 * the journal could not be written, and nothing has changed. */
int coord_migrate_regroup(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason);
/* The same without its record: dp_coord_snapshot() has it, and is durable before anybody is told anything (take_over.c). */
void coord_migrate_take_over(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason);
/* Tell a worker the layout in force, or that nobody goes on (why). */
void coord_migrate_send_regroup(struct dp_coord *c, uint32_t rank, bool go, const char *why);

/* --- regroup.c --- */
/* "worker 2 on n3 was lost (process 77)" */
void coord_regroup_say(const struct dp_coord *c, uint32_t rank, char *out, size_t cap);
/* A worker of the layout has died, and is noted as lost; text: that, as above. */
void coord_regroup_lost(struct dp_coord *c, uint64_t now_ns, const char *text);
void coord_regroup_tick(struct dp_coord *c, uint64_t now_ns);
void coord_regroup_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job);
/* The leader says from where those who are left go on. */
void coord_regroup_begun(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_event *m);
enum coord_who {
    COORD_LIVE,           /* those who are left */
    COORD_STAYING,        /* of them, those who do not ask to be let go */
    COORD_OFF_DRAINED,    /* nor are on a node that drains */
    COORD_WITH_NEWCOMERS, /* those who are left, and newcomers that are ready */
};
/* Why those who are left cannot go on, NULL: they can, if the layers fit. */
const char *coord_regroup_why_not(const struct dp_coord *c);
/* A layout for them alone. -1: the layers do not fit. */
int coord_regroup_lay_out(const struct dp_coord *c, enum coord_who who, struct dp_layout *next);

/* --- leave.c --- */
void coord_leave_asked(struct dp_coord *c, uint64_t now_ns, uint32_t rank, bool is_drained);
/* Slurm ends its slice or, can_wait, wants its node: it is to leave. */
bool coord_is_to_leave(const struct dp_coord *c, uint32_t rank, bool can_wait);
bool coord_must_leave(const struct dp_coord *c, uint32_t rank);   /* without can_wait, for coord_count() */
bool coord_should_leave(const struct dp_coord *c, uint32_t rank); /* with it */
void coord_leave_tick(struct dp_coord *c, uint64_t now_ns);
void coord_leave_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job); /* the run's job */
/* Does its node drain, with workers there? For people: what comes of it. out: as it is where none does. */
void coord_leave_tell(const struct dp_coord *c, uint32_t slot, char *out, size_t cap);

/* --- seat.c --- */
/* The slot of this rank is that of this slice from here on, and a newcomer's. When Slurm had it before is kept. */
struct coord_seat {
    uint32_t rank, slice, restarts, pid; /* pid 0: it has said nothing yet */
    char node[64];
    uint64_t since_ns;
};
/* Also in a replay; changes nothing but the process where the slice has it already. */
void coord_seat_take(struct dp_coord *c, const struct coord_seat *seat);
/* As it is taken now. since_ns 0: from the run's beginning. */
struct coord_seat coord_seat_of(const struct dp_coord *c, uint32_t rank);
/* A newcomer is not there any more: a hand-over that counts on it is aborted. */
void coord_seat_over(struct dp_coord *c, uint64_t now_ns, uint32_t rank);
/* A newcomer is in the layout now. */
void coord_seat_joined(struct dp_coord *c, uint32_t rank);
/* A newcomer that is still there. */
bool coord_is_newcomer(const struct dp_coord *c, uint32_t rank);
/* It trains, or is to: one of the slices that the run has. */
bool coord_is_counted(const struct dp_coord *c, uint32_t rank);
/* And could be taken in: it is connected, and its address known; and it has answered the newest PING, too, so it is awake. */
bool coord_is_candidate(const struct dp_coord *c, uint32_t rank);
bool coord_is_ready(const struct dp_coord *c, uint32_t rank);
/* A layout was put in force in the place of `before`: do those who leave leave for good? */
void coord_seat_left(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *before);
/* Could who comes now have it? */
bool coord_seat_is_free(const struct dp_coord *c, uint32_t rank);
/* Slices that a run may have before it gives any back, or asks for more: one that may grow has more seats. */
uint32_t coord_first_wanted(const struct dp_coord *c);
/* Slices that it may have now: not more than there are seats from the leader's on, since those below it stay empty. */
uint32_t coord_wanted(const struct dp_coord *c);
/* Slots that the run began with. */
uint32_t coord_start_slots(const struct dp_coord *c);
/* Changes of what it holds by rising time, the first one at its beginning. t_ns, n: [COORD_HELD_MAX]. returns: how many. */
#define COORD_HELD_MAX (2 * (DP_MAX_SLOTS + COORD_PAST) + 1)
uint32_t coord_held_by_time(const struct dp_coord *c, uint64_t *t_ns, uint32_t *n);
void coord_past_add(struct dp_coord *c, uint64_t from_ns, uint64_t freed_ns);

/* --- join.c --- */
void coord_join_tick(struct dp_coord *c, uint64_t now_ns);

/* --- grow.c --- */
bool coord_grow_may(const struct dp_coord *c); /* ask for more slices at all, now or later */
bool coord_grow_may_now(const struct dp_coord *c, uint64_t now_ns); /* nothing is in the way of it, and no pause left */
/* A plan was made with which nothing is given back. cost_s: of a hand-over. */
void coord_grow_planned(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, uint32_t slots_now, double cost_s);
void coord_grow_given(struct dp_coord *c, uint64_t now_ns); /* slices were given back, and join.wanted says so */
void coord_grow_tick(struct dp_coord *c, uint64_t now_ns);
const char *coord_grow_state_name(enum coord_grow_state state);
json_t *coord_grow_json(const struct dp_coord *c, uint64_t now_ns); /* new reference; NULL: the run does not grow */

/* --- grow_plan.c: in the child --- */
/* Fills in t->grow. own: the run's policy, NULL: it is a site's; in: loads and devices as decisions are made with them. */
void coord_grow_predict(const struct dp_coord *c, const struct dp_policy *own, const struct dp_policy_in *in, uint32_t slots_now,
                        struct coord_plan *t);

/* --- coordinator.c --- */
void coord_ask_save(struct dp_coord *c, bool stop); /* of the leader: a checkpoint, and that all stop then */

/* --- release.c --- */
void coord_release_tick(struct dp_coord *c, uint64_t now_ns);
uint32_t coord_slots_with(const struct dp_coord *c, enum coord_slot_state state);
/* A worker of the slot has left: where that is a drained slice, its job ends now. */
void coord_release_left(struct dp_coord *c, uint64_t now_ns, uint32_t slot);
/* Is there a slot that could not be proved empty, its daemon being too old? why: one line. */
bool coord_has_outdated(const struct dp_coord *c, char *why, size_t cap);
uint64_t coord_slot_freed_ns(const struct dp_coord *c, uint32_t slot); /* Slurm has it back since; 0: it has not */
double coord_slot_seconds_held(const struct dp_coord *c, uint64_t now_ns);
/* Slurm has taken the slot's node out of the job by itself: there is nothing to prove, and nothing to ask for. */
void coord_release_taken(struct dp_coord *c, uint64_t now_ns, uint32_t slot);

/* --- journal.c: DP_JOURNAL_DURABLE (0), or negative with the error counted and kept for status --- */
int coord_journal_start(struct dp_coord *c, uint64_t now_ns);
int coord_journal_room(struct dp_coord *c); /* for the decision and the end of a hand-over: before its INTENT */
int coord_journal_intent(struct dp_coord *c, const struct coord_migration *m);
enum dp_journal_fate coord_journal_commit(struct dp_coord *c, uint64_t now_ns);
int coord_journal_settle(struct dp_coord *c); /* 0: no doubtful record is left */
enum dp_journal_fate coord_journal_regroup(struct dp_coord *c, const struct coord_migration *m);
int coord_journal_abort(struct dp_coord *c, uint64_t now_ns, const char *why);
int coord_journal_done(struct dp_coord *c, const struct coord_handover *h);
int coord_journal_slot(struct dp_coord *c, enum dp_record type, uint32_t slot, uint64_t a, uint64_t b,
                       const char *text);
int coord_journal_relintent(struct dp_coord *c, uint64_t now_ns, const uint8_t *is_set);
int coord_journal_reference(struct dp_coord *c);
int coord_journal_saving(struct dp_coord *c);
int coord_journal_handover(struct dp_coord *c, uint32_t number);
int coord_journal_counts(struct dp_coord *c);
int coord_journal_memory(struct dp_coord *c);
int coord_journal_seat(struct dp_coord *c, const struct coord_seat *seat);
int coord_journal_wanted(struct dp_coord *c);
int coord_journal_grow(struct dp_coord *c, const struct coord_grow *g, uint32_t wanted); /* wanted: with it */
int coord_journal_past(struct dp_coord *c, const struct coord_past *p);
int coord_journal_promise(struct dp_coord *c, uint64_t now_ns);
int coord_journal_balance(struct dp_coord *c);
int coord_journal_end(struct dp_coord *c, uint64_t now_ns, const char *why);

#endif
