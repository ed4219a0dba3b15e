/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of a run: what trainer.c (steps), trainer_start.c (from nothing to the first step) and
 * boundary.c (between two steps) share. */
#ifndef DP_WORKER_TRAIN_TRAINER_INTERNAL_H
#define DP_WORKER_TRAIN_TRAINER_INTERNAL_H

#include "worker/checkpoint/distributed.h"
#include "worker/copies/copies.h"
#include "worker/handover/handover.h"
#include "worker/handover/stocking.h"
#include "worker/shadow/pace.h"
#include "worker/shadow/shadowing.h"
#include "worker/train/start/memory_need.h"
#include "worker/train/log/metrics.h"
#include "worker/step/step_sync.h"
#include "worker/step/pipeline.h"
#include "worker/train/lost/rescue_plan.h"
#include "worker/train/save_clock.h"
#include "worker/train/log/steplog.h"
#include "worker/step/tied_head.h"
#include "worker/train/log/tracelog.h"
#include "worker/train/trainer.h"

struct dp_rescue;

struct dp_trainer {
    const struct dp_trainer_args *args;
    const struct dp_train_config *config;
    uint32_t rank;
    struct dp_layout layout;
    struct dp_backend *be;
    struct dp_data *data;
    struct dp_stage *stage;
    struct dp_start start;
    struct dp_collectives collectives;
    struct dp_device_wait device;
    struct dp_tied_head tied;
    struct dp_pipeline *pipeline;
    struct dp_control *control;
    struct dp_handover *handover;
    struct dp_metrics *metrics;
    uint64_t optimizer_ns, rest_ns, idle_ns; /* of the running step; complete when its laps have been collected */
    struct dp_memory_need need;
    struct dp_shadowing *shadowing;   /* layers that are copied for the next hand-over; NULL: none */
    struct dp_step_shadow shadow;     /* what was ordered last about it */
    struct dp_layout shadow_next;     /* that they are copied for; epoch 0: not known yet */
    struct dp_stocking *stocking;     /* memory for layers that a pending hand-over brings; NULL: none */
    uint64_t stocked;                 /* the newest migration that it was thought of for; 0: none */
    uint64_t step_ns;                 /* of the last step; 0: none was made */
    uint64_t shadow_told_ns;          /* the leader told its coordinator last */
    bool has_copies; /* of layers that left: freed when their hand-over is over */
    struct dp_copies *copies; /* of others' layers, and this worker's elsewhere; NULL: the run has none */
    bool is_told_together;    /* that copies are on the node of their layers */
    struct dp_steplog *log; /* the leader's only */
    struct dp_tracelog *trace;
    uint64_t boundary_ns;   /* between steps, since the last line of the trace */
    int ckpt_lock;          /* the leader's only; -1: none */
    struct dp_save_clock save_clock; /* asked by the leader only */
    double *losses, *squares, *measured; /* of the step: what goes to the leader */
    uint64_t step; /* completed */
    double loss;   /* of the last of them, NaN: none was made here */
    struct dp_standing standing; /* how far it has come, inside of a step, too: what it has to give after a loss */
    struct dp_rescue *rescue;    /* since a loss, until all have theirs; else NULL */
    struct dp_chunk *stuck;      /* buffers that a peer may still read */
    bool is_rescued; /* the loop goes on behind the boundary of standing.order */
    bool is_new;     /* a regroup took it in, and it knows nothing of the run yet */
    uint64_t mem_limit_bytes; /* for layers, 0: unlimited */
    struct dp_reached reached; /* by the schemes */
    uint64_t wait_ns; /* of the running step */
    bool is_leaving;
    bool is_joining;      /* has a seat in a run that trains already, and is in no layout yet */
    const struct dp_step_order *order; /* of the boundary that it is at; else NULL */
    uint32_t requests;    /* of this worker, enum dp_step_request, until all have done at a boundary what they ask */
    uint64_t asked_ns, said_ns; /* Slurm ends this slice, since; told the coordinator last. 0: it does not, not yet */
    struct dp_saved saved;
    bool has_coordinator; /* it has let this worker in, once at least */
    bool is_lost;         /* the others go on without this one */
    bool is_ending;       /* too late to go on without a worker that is lost */
};

/* Collective, from nothing to the first step. *end: DP_RUN_REFUSED when all failed alike. */
int dp_trainer_begin(struct dp_trainer *t, enum dp_run_outcome *end, struct dp_err *err);
/* Frees everything; a half-begun run is fine. */
void dp_trainer_end(struct dp_trainer *t);

/* What belongs to the layout in force, and to t->start: pipeline, tied head, metrics; the stage is there. */
int dp_trainer_open_layout(struct dp_trainer *t, struct dp_err *err);
void dp_trainer_close_layout(struct dp_trainer *t);
/* What schemes have reached in the whole model, as the layers say. Collective. */
int dp_trainer_count_reached(struct dp_trainer *t, struct dp_err *err);
/* The same, which after a resume is not known from schedules alone; then what they do before the first step. Collective. */
int dp_trainer_begin_schemes(struct dp_trainer *t, struct dp_err *err);
/* An event of what a scheme has reached, of the leader. */
void dp_trainer_tell_reached(struct dp_trainer *t, enum dp_scheme_id id);
/* Borrows from t. */
struct dp_scheme_site dp_trainer_site(struct dp_trainer *t);

/* Training has failed with *err. Where that is because a worker was lost, wait until the coordinator says who goes on, and go on in its
 * layout: from the layers that are left, or where one of them is missing from the newest checkpoint. returns: 1 go on; 0 this worker
 * leaves; -1 the run ends, *err says why. */
int dp_trainer_regroup(struct dp_trainer *t, struct dp_err *err);
/* Is a REGROUP there that is not in force? Then nobody waits for the others any more. arg: the trainer. */
bool dp_trainer_must_regroup(void *arg);

/* Of a regroup (rescue.c). A loss was noticed: from here on nothing that this worker has is let go of. DP_ENOMEM. */
int dp_trainer_rescue_begin(struct dp_trainer *t, struct dp_err *err);
/* Go on from the layers that all have, in the layout in force. Collective. returns 1: stage and all that belongs to the layout are
 * there, t->step is the step that all have done, and *n_copies layers were copies; 0: it cannot be, `why`
 * says why, and the checkpoint is next; -1: another loss. */
int dp_trainer_rescue(struct dp_trainer *t, uint32_t *n_copies, char *why, size_t cap, struct dp_err *err);
/* What was kept and is nobody's now is freed. */
void dp_trainer_rescue_end(struct dp_trainer *t);
/* After a rescue: what of the boundary of that step nobody has done. Collective. */
int dp_trainer_rest_of_boundary(struct dp_trainer *t, struct dp_err *err);
/* An order is there: of the step behind t->step, of which this worker gave its part. reached: before its boundary. */
void dp_trainer_note_order(struct dp_trainer *t, const struct dp_step_order *order, const struct dp_reached *reached);
/* This worker's layers do the optimizer's step of that order. */
int dp_trainer_step_layers(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);

/* Requests by signals since the last call, enum dp_step_request. */
uint32_t dp_trainer_take_signals(struct dp_trainer *t);
/* Answer the daemon; arg: the trainer. */
void dp_trainer_serve(void *arg);

/* What the order says, after the optimizer step. Sets is_leaving. Of a newcomer that was invited it begins with the hand-over; where
 * that is aborted, all the rest is left to those who are in the layout. */
int dp_trainer_boundary(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);

/* Of layers that are copied while training goes on (background.c). What the leader has to know of it for its order; migration: that is
 * pending, 0: none. */
struct dp_step_shadow dp_trainer_shadow_state(struct dp_trainer *t, uint64_t migration);
/* After the backwards, when the device is done: gradients of what is copied; *requests |= what this worker asks for. */
int dp_trainer_shadow_part(struct dp_trainer *t, uint32_t *requests, struct dp_err *err);
/* At the boundary, before anything else: what the order says of it. */
int dp_trainer_shadow_boundary(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);
/* And behind all else: begin, where the order says so. */
int dp_trainer_shadow_begin(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);
/* It is over. is_in_step: all workers end it at this boundary. */
void dp_trainer_shadow_end(struct dp_trainer *t, bool is_in_step);

/* Memory for layers that come (stock.c), within a step: begin when PREPARE is there, end when it is gone. */
void dp_trainer_stock(struct dp_trainer *t);
void dp_trainer_stock_end(struct dp_trainer *t); /* what no layer took is given back */

/* Copies of layers on other workers (copying.c). Collective: begin, or go on with what layout, stage and step are now; or end, where the
 * leader wants none any more. At a boundary behind all that changes layers, after dp_trainer_copies_settle() or a regroup. are_changed: by
 * a scheme (struct dp_copies_opening). */
int dp_trainer_copies_open(struct dp_trainer *t, bool are_changed, struct dp_err *err);
/* After the backwards, when gradients and their squares are there; *requests |= what this worker asks for. */
int dp_trainer_copies_part(struct dp_trainer *t, uint32_t *requests, struct dp_err *err);
/* With the optimizer's step. */
int dp_trainer_copies_step(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);
/* At the boundary, before and behind what it does. */
int dp_trainer_copies_settle(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);
int dp_trainer_copies_boundary(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err);
/* There are none any more, in order or not. */
void dp_trainer_copies_end(struct dp_trainer *t);

/* Bytes for layers beside copies of others', 0: unlimited. */
uint64_t dp_trainer_memory_limit(const struct dp_trainer *t);
/* What gradients are multiplied with, of that norm. */
double dp_trainer_grad_scale(const struct dp_trainer *t, double norm);

/* Of a newcomer: wait until it is taken in. returns: 1: it was, at the boundary of this order, all of which was done; 0: it is not
 * needed, or Slurm ends it: it leaves; -1. */
int dp_trainer_join(struct dp_trainer *t, struct dp_step_order *order, struct dp_err *err);
/* Of the others: the newcomers of a hand-over are met and invited; arg: the trainer (struct dp_handover_args). */
int dp_trainer_meet(void *arg, uint32_t rank, struct dp_err *err);
void dp_trainer_invite(void *arg, uint64_t migration, const struct dp_layout *next);

/* Write what was measured since the last window into the trace, before something changes the costs. */
void dp_trainer_trace(struct dp_trainer *t);

/* Does this worker lead the run in the layout in force? It gives the orders, and has log and checkpoints. */
bool dp_trainer_leads(const struct dp_trainer *t);
/* Where it leads: take log and checkpoints, unless it has them. After a change of the layout, before anything is collective. */
int dp_trainer_lead(struct dp_trainer *t, struct dp_err *err);
/* Let go of them: the next leader does not wait for long (dp_ckpt_lock()). Whoever leads on after all takes them again. */
void dp_trainer_stop_leading(struct dp_trainer *t);

/* An event, of the leader: to the log, the terminal and the daemon. value NaN: none. */
void dp_trainer_event(struct dp_trainer *t, enum dp_event kind, const char *name, double value, const char *text);

/* The daemon's part of it alone. */
void dp_trainer_tell(struct dp_trainer *t, enum dp_event kind, double value, const char *text);

/* Least time between two reports: what the daemon asks, or a second. */
uint32_t dp_trainer_report_ms(const struct dp_trainer *t);

#endif
