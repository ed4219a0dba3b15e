/* SPDX-License-Identifier: BSD-3-Clause */
/* libdynpipe: a trainer that trains a model as a pipeline takes part in DynPipe.
 *
 * A trainer runs one worker for each device. Layer i of the model, 0 to n_layers - 1 and in the order of the model, belongs to
 * worker s where cut[s] <= i < cut[s + 1]: that is a layout. Workers report what their layers cost; the daemon on their node
 * finds out when another layout pays, and asks for a hand-over: at a boundary between two optimizer steps some layers move to
 * other workers, all or nothing. A worker whose layers have all gone leaves, and its device goes back to Slurm.
 *
 *     run = dynpipe_join(...)
 *     each step: train; dynpipe_report(); worker "leader" adds dynpipe_pending() to what all workers sum anyway;
 *                if that is not 0, all of them: dynpipe_prepare(), move the layers into shadows, agree among themselves,
 *                dynpipe_decide(), on COMMIT shadows become layers, dynpipe_done();
 *                dynpipe_state(): LEAVE: dynpipe_leave(), and exit with 0
 *     dynpipe_leave(run, DYNPIPE_COMPLETED, ...)
 *
 * What a trainer has to keep to, so that no layer is lost whatever dies when (doc/protocol.md):
 *   - all workers that are in the run call dynpipe_prepare() and dynpipe_decide() for the same migration at the same boundary;
 *   - they agree among themselves before dynpipe_decide(): one that could not makes all of them vote no;
 *   - a shadow is nothing until dynpipe_decide() says COMMIT, and the old layer is not touched: it is kept, with its optimizer's
 *     state, until dynpipe_state() is IDLE again;
 *   - after a yes a worker is in doubt and may not decide alone. Where nobody says for doubt_s what was decided, END comes: the
 *     process ends, and the run goes on from its last checkpoint;
 *   - who leaves stays until LEAVE, and then ends with status 0.
 *
 * The library starts no thread, catches no signal, writes nothing to any stream and never ends the process. It needs libc only.
 * Its descriptors are closed on exec.
 *
 *   threads   A handle is for one thread at a time. A call that finds another thread inside does nothing and answers BUSY, or 0,
 *             NULL or -1 where its kind has no such answer.
 *   fork      In a child of the process that joined, a handle is a stranger's: every call does nothing and answers as without a
 *             daemon (decide: END). dynpipe_leave() frees it there and says nothing to anybody. A child that lives on shares the
 *             device's lock: Slurm gets the device back when the child has ended, too.
 *   stopped   A process that was stopped for a while goes on as if its daemon had been silent for so long.
 *   no daemon, or it dies: join and report do nothing, everything goes on; a hand-over before a yes is aborted. The connection is
 *             opened again with growing pauses, in whichever call comes next.
 *   blocking  join, prepare, decide and leave, for the time that is given; the others never.
 *
 * ABI: every struct that may grow begins with its size, as the caller was compiled; what a shorter one lacks is 0, and what a longer
 * one has more has to be 0. Those of which there are arrays (dynpipe_change, dynpipe_load) stay as they are. Functions and fields are
 * only added. The soname is libdynpipe.so.1. Only dynpipe_join() sets errno.
 */
#ifndef DYNPIPE_H
#define DYNPIPE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYNPIPE_ABI 1 /* as the soname's */
#define DYNPIPE_MAX_WORKERS 512 /* that a daemon takes in one run */
#define DYNPIPE_MAX_LAYERS 1024 /* likewise */

/* What a trainer can. */
enum dynpipe_trait {
    DYNPIPE_CAN_MOVE = 1,   /* layers, in a hand-over. Without it the run is observed: dynpipe_proposal() */
    DYNPIPE_CAN_LEAVE = 2,  /* a worker without layers, before the run ends */
    DYNPIPE_EQUAL_COST = 4, /* all layers but the first and the last would cost alike on one device, before any dynpipe_change or
                             * anything else makes them cheaper: then their times tell devices apart. Else all devices count as alike */
};

enum dynpipe_schedule { DYNPIPE_GPIPE = 0, DYNPIPE_1F1B = 1 };

/* What is known to come: all workers say the same. */
enum dynpipe_change_kind {
    DYNPIPE_PRUNE = 1,  /* value: sparsity of all prunable weights together from then on, 0 to less than 1 */
    DYNPIPE_FREEZE = 2, /* value: layers from layer 0 on that only go forward from then on */
};
struct dynpipe_change {
    uint64_t step; /* at the boundary behind so many completed steps */
    double value;
    uint32_t kind;
    uint32_t zero; /* 0 */
};

struct dynpipe_run {
    uint32_t size;                   /* sizeof (struct dynpipe_run) */
    uint32_t traits;                 /* enum dynpipe_trait, together */
    uint32_t rank, n_workers;        /* of the run; Slurm's SLURM_PROCID and SLURM_NTASKS */
    uint32_t n_layers;
    uint32_t schedule;               /* enum dynpipe_schedule */
    uint32_t microbatches;           /* of a step, at least 1 */
    uint32_t tokens_per_microbatch;  /* or samples: what throughput is counted in */
    uint64_t step, steps_total;      /* completed; of the whole run */
    uint64_t boundary_bytes;         /* of one activation message between two stages; 0: not known */
    uint64_t mem_limit_bytes;        /* of device memory that this worker may use; 0: unlimited */
    const uint32_t *cut;             /* [n_workers + 1], rising from 0 to n_layers; copied */
    const struct dynpipe_change *change; /* [n_changes], by step; copied. NULL: none */
    uint32_t n_changes;              /* at most 64 */
    uint32_t leave_s;                /* a leaver without a daemon goes after so long; 0: DYNPIPE_LEAVE_S, else 60 */
    uint32_t doubt_s;                /* see above; 0: DYNPIPE_DOUBT_S, else 600 */
    uint32_t zero;                   /* 0 */
    const char *device;              /* "cpu", or the name of a GPU; NULL: cpu */
    const char *trainer;             /* for people, as "PyTorch 2.1, my_script.py"; NULL: none */
    const char *checkpoint_dir;      /* for people; NULL: none */
    const char *socket;              /* of the daemon; NULL: DYNPIPE_SOCKET, and without that there is no daemon */
};

/* What one layer cost in one step: means over its microbatches, of one microbatch. Device time: on a CPU the thread's, so that
 * workers that share a core do not look slow; on a GPU between two events. Without a split of the backward pass: all in bwd_input_ns. */
struct dynpipe_load {
    uint64_t fwd_ns, bwd_input_ns, bwd_weight_ns;
    uint64_t state_bytes;  /* weights, gradients, optimizer's state */
    uint64_t act_bytes;    /* kept from forward to backward; 0 with no backward time: the layer is frozen */
    uint64_t params, nnz;  /* of the dense layer; those that are left */
};

struct dynpipe_step {
    uint32_t size;         /* sizeof (struct dynpipe_step) */
    uint32_t zero;         /* 0 */
    uint64_t step;         /* completed, this one included */
    uint64_t wall_ns;      /* from boundary to boundary */
    uint64_t wait_ns;      /* part of it spent waiting for other workers */
    uint64_t optimizer_ns; /* device time of all layers' optimizer */
    uint64_t busy_ns;      /* device time of everything; 0: the layers' and the optimizer's together */
    uint64_t mem_bytes;    /* of device memory now; 0: not known */
    double loss;           /* NAN: this worker does not know it */
    double grad_norm;      /* NAN: likewise */
};

struct dynpipe_plan {
    uint32_t size;         /* sizeof (struct dynpipe_plan), set by the caller */
    uint32_t n_workers, n_layers;
    uint32_t n_moves;      /* layers that have another owner in the new layout */
    uint64_t migration;    /* of a proposal: its number */
    const uint32_t *old_cut, *cut; /* [n_workers + 1]: in force; new. The handle's, until its next call */
    const uint8_t *gone;   /* [n_workers]: 1: this worker leaves, or has left */
    double now_ns, then_ns; /* of a proposal: predicted time of a step in the layout in force and in this one; else 0 */
};

enum dynpipe_answer {
    DYNPIPE_ABORT = 0,
    DYNPIPE_COMMIT = 1,
    DYNPIPE_AGAIN = 2,  /* not known within the time: call again with the same arguments */
    DYNPIPE_END = -1,   /* this process must end: dynpipe_why() */
    DYNPIPE_BUSY = -2,  /* another thread is inside */
};

enum dynpipe_member_state {
    DYNPIPE_IDLE = 0,    /* nothing is kept */
    DYNPIPE_KEEPING = 1, /* go on, but keep the layers that were given away: the others may not have heard of the commit yet */
    DYNPIPE_LEAVING = 2, /* this worker has no layers, and waits: call again */
    DYNPIPE_LEAVE = 3,   /* now: dynpipe_leave(run, DYNPIPE_DRAINED, NULL), exit 0 */
};

enum dynpipe_how { DYNPIPE_COMPLETED = 0, DYNPIPE_DRAINED = 1, DYNPIPE_FAILED = 2, DYNPIPE_SAVED = 3 };

enum dynpipe_event_kind {
    DYNPIPE_EV_PRUNED = 0, /* value: sparsity reached */
    DYNPIPE_EV_SAVED = 1,  /* text: path of the checkpoint */
    DYNPIPE_EV_EVAL = 2,   /* value: validation loss in nats per token */
    DYNPIPE_EV_RESUMED = 3, /* text: path of the checkpoint */
    DYNPIPE_EV_FAILED = 4, /* text: why the run ends */
    DYNPIPE_EV_FROZEN = 7, /* value: layers from layer 0 on that only go forward */
};

struct dynpipe;

/* DYNPIPE_ABI of the library. */
uint32_t dynpipe_abi(void);
/* The release, as "0.2.0". */
const char *dynpipe_version(void);

/* Join the run of this Slurm job (SLURM_JOB_ID, SLURM_STEP_ID; 0 outside of a job). Waits for the daemon's answer for at most timeout_ms.
 * A daemon that is absent or silent is no error: the handle works, and comes to it later.
 * returns: a handle; NULL: `why` (may be NULL, cap 0) says that the daemon refuses this worker, which then must not run here, or
 * which of the arguments is wrong (errno EINVAL), or that there is no memory (ENOMEM); refused: EACCES. */
struct dynpipe *dynpipe_join(const struct dynpipe_run *run, uint32_t timeout_ms, char *why, uint64_t cap);

/* Lines for people: that the daemon was lost, is back, refuses. Without it nobody is told. level: 0 error, 1 warning, 2 information.
 * tell may not call the library. For all handles of the process; NULL: none. */
void dynpipe_on_log(void (*tell)(void *arg, int level, const char *line), void *arg);

/* Is the daemon there? 1 or 0. What is broken: dynpipe_why(). */
int dynpipe_is_connected(struct dynpipe *d);
/* For select() or poll(): readable when dynpipe_poll() has something to read. -1: not connected now. Changes. */
int dynpipe_fd(const struct dynpipe *d);
/* Read, answer, reconnect. dynpipe_report() and dynpipe_state() do it, too; call it now and then in long waits. */
void dynpipe_poll(struct dynpipe *d);
/* Why the last call said what it said, "" where there is nothing to say. Borrowed until the next call. */
const char *dynpipe_why(const struct dynpipe *d);

/* One finished step and the costs of this worker's layers in it, in order; n is how many it owns. Every worker says every step, one
 * without layers, too: a vote names the last one, and those of all workers have to be the same. Medians of a window go to the daemon as
 * often as it wants them. returns: 1 when a report was sent now, else 0; -1: n or the step is wrong, nothing was taken. */
int dynpipe_report(struct dynpipe *d, const struct dynpipe_step *step, const struct dynpipe_load *load, uint32_t n);
/* Forget the window: what came between two boundaries (an evaluation, a checkpoint) is not the cost of a layer. */
void dynpipe_forget(struct dynpipe *d);
/* What n layers from first_layer on are expected to cost once `step` steps are completed, as they would be reported; for what no
 * dynpipe_change says. Any worker may say it of any layer; what was said of a layer and step before is replaced, and n 0 takes back
 * what was said of that step. At most 64 steps. returns: 0, or -1 with dynpipe_why(). */
int dynpipe_expect(struct dynpipe *d, uint64_t step, uint32_t first_layer, const struct dynpipe_load *load, uint32_t n);
/* kind: enum dynpipe_event_kind. returns: 0, or -1: kind, value or text is wrong. Kept until a daemon takes it, the newest 32. The
 * daemon hears ten a second of a job. */
int dynpipe_event(struct dynpipe *d, int kind, uint64_t step, double value, const char *text);

/* Does this worker lead: is it the lowest rank in the run? It says for all which hand-over begins. 1 or 0. */
int dynpipe_leads(const struct dynpipe *d);
/* The leader: the hand-over that the daemon asks for, to be begun at this boundary by all workers. 0: none, and of all others. */
uint64_t dynpipe_pending(struct dynpipe *d);

/* The layout that hand-over m is to make. All workers call it, and tell each other whether they got it and whether it is the same.
 * returns: 1 and *plan; 0: this worker's daemon does not ask for it (within timeout_ms), or does not any more: agree on a no, then
 * dynpipe_decide() with yes 0; DYNPIPE_AGAIN is not used: the time is what the caller gives. */
int dynpipe_prepare(struct dynpipe *d, uint64_t m, struct dynpipe_plan *plan, uint32_t timeout_ms);

/* Vote, and hear what was decided. yes: all workers have said that their shadows are whole. digest: SHA-256 over the digests of all
 * layers that move, in layer order, the same on every worker; with yes 0 NULL. why: reason of a no, or NULL. A no closes m: ABORT at
 * once. After a yes waits for at most timeout_ms (AGAIN), and answers the daemon meanwhile.
 * The vote carries SHA-256 over the plan and the digest: who was asked for another layout, or moved other bytes, makes it an abort for
 * all. A yes that may not be said (dynpipe_prepare() did not give m, no digest) is a no; a no after a yes changes nothing.
 * returns: enum dynpipe_answer. COMMIT: the new layout is in force here. Repeated, it is the same until dynpipe_done(). */
int dynpipe_decide(struct dynpipe *d, uint64_t m, int yes, const uint8_t digest[32], const char *why, uint32_t timeout_ms);

/* The worker has switched, or gone on with the old layout: after COMMIT and after ABORT. pause_ns: since the boundary; transfer_ns: of it
 * for moving layers. */
void dynpipe_done(struct dynpipe *d, uint64_t m, uint64_t pause_ns, uint64_t transfer_ns);

/* At every boundary; a leaver in a loop with pauses (dynpipe_wait()). returns: enum dynpipe_member_state; DYNPIPE_END: what this worker
 * refused was committed; DYNPIPE_BUSY. */
int dynpipe_state(struct dynpipe *d);
/* Sleep until the daemon says something, or for timeout_ms. */
void dynpipe_wait(struct dynpipe *d, uint32_t timeout_ms);

/* The layout in force. returns: n_workers; cut: [n_workers + 1] =, may be NULL. */
uint32_t dynpipe_layout(const struct dynpipe *d, uint32_t *cut);

/* For a trainer that cannot move layers: the layout it should begin again with at a checkpoint. returns: 1 and *plan; 0: none is better
 * than the one in force. */
int dynpipe_proposal(struct dynpipe *d, struct dynpipe_plan *plan);

/* Has somebody asked for a checkpoint (1: dynpipe save), or for one and an end (2)? Reset by the call. */
int dynpipe_take_save(struct dynpipe *d);
/* Seconds until Slurm ends the job for its time limit. NAN: not known; infinity: never. */
double dynpipe_time_left(const struct dynpipe *d);

/* Say goodbye, for at most 1 s, and free the handle. text: one line, or NULL. NULL is fine as d. */
void dynpipe_leave(struct dynpipe *d, int how, const char *text);

#ifdef __cplusplus
}
#endif

#endif
