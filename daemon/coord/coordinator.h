/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator of one run: decides, journals, hands over, drains and releases.
 *
 * A state machine without sockets, files, clocks or threads of its own: the daemon feeds it events
 * and carries out what it asks through struct dp_coord_ops, so every interleaving can be tested in
 * one process. It implements doc/protocol.md (hand-over and release); the letters of the steps there
 * are named in the sources. One coordinator per run, on the batch host's daemon.
 *
 * Slots are the nodes of the job, in the order of the job's node list; slot 0 is the batch host,
 * which Slurm never takes back. Or they are slices (common/slurm/job.h): a slot is then a job on a node, which may
 * have more of them, and whoever speaks for it names both. The first one on the batch host is never given back.
 */
#ifndef DP_DAEMON_COORD_COORDINATOR_H
#define DP_DAEMON_COORD_COORDINATOR_H

#include <jansson.h>
#include <stdbool.h>

#include "common/file/journal.h"
#include "common/message/msg.h"
#include "common/run/run_limits.h"
#include "common/slurm/job.h"

/* Journal records of the coordinator; payloads are written and read by coordinator code only. */
enum dp_record {
    DP_REC_START = 1,   /* incarnation, job, limits, first layout */
    DP_REC_INTENT = 2,  /* migration, new layout */
    DP_REC_COMMIT = 3,  /* migration, epoch: the decision point */
    DP_REC_ABORT = 4,
    DP_REC_DONE = 5,
    DP_REC_DRAIN = 6,   /* slot */
    DP_REC_GONE = 7,    /* slot, proof */
    DP_REC_RELINTENT = 8, /* slots: from here on they are dead for this run */
    DP_REC_RELEASED = 9,
    DP_REC_HELD = 10,   /* slot, why */
    DP_REC_END = 11,
};

/* What the coordinator asks of the daemon. None may block; `arg` is the daemon's. */
struct dp_coord_ops {
    /* As dp_journal_append(), dp_journal_settle() and dp_journal_reserve() of common/file/journal.h. The journal may
     * ask for dp_coord_snapshot() meanwhile, to write itself anew. */
    enum dp_journal_fate (*journal)(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                    struct dp_err *err);
    int (*settle)(void *arg, struct dp_err *err);
    int (*reserve)(void *arg, size_t bytes, struct dp_err *err);
    /* Send a worker its message, by whichever daemon it is connected to; silently lost when that
     * connection is down: the coordinator repeats what matters. */
    void (*to_worker)(void *arg, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes);
    /* Tell the daemon of a slot to end everything of this run there and prove it:
     * answered by dp_coord_slot_gone(), repeated by the coordinator until it is. Slices end by themselves: never asked. */
    void (*stop_slot)(void *arg, uint32_t slot, uint32_t grace_ms);
    /* Ask Slurm, as the job's owner, to shrink the job to the slots whose keep[] is 1:
     * answered by dp_coord_release_answer(), whose text and rc prove nothing. Never asked of a run of slices. */
    void (*shrink)(void *arg, const uint8_t keep[DP_MAX_SLOTS]);
    /* Ask Slurm, as the job's owner, to end the job and, with may_requeue, to put it back into the queue:
     * answered by dp_coord_requeue_answer(). */
    void (*requeue)(void *arg, bool may_requeue);
    /* Read the job from Slurm: answered by dp_coord_job_read(). Of a run of slices that job names those whose own jobs are
     * not over: Slurm waits for their processes and epilogs no more. */
    void (*read_job)(void *arg);
    /* Work out a decision without blocking: dp_coord_plan() in a child process that is killed after
     * deadline_s. Answered exactly once by dp_coord_planned(), not from within this call; not asked again
     * before. returns -1 when no child could be made; 1: too many others plan now, ask again. */
    int (*plan)(void *arg, double deadline_s, struct dp_err *err);
    /* Is the daemon of a slot too old to empty it and to prove that? Then it is not asked to, and nothing is packed. Where it is,
     * why is one line for people. NULL: none ever is. */
    bool (*is_outdated)(void *arg, uint32_t slot, char *why, size_t cap);
    /* Ask Slurm, as the job's owner, to lower its memory on each node to so many MiB: answered by
     * dp_coord_memory_answer(). NULL: never asked. */
    void (*memory)(void *arg, uint32_t mb);
    /* Has the process of a worker ended that is not connected? Where it has, dp_coord_worker_lost() is the answer; else there
     * is none, and it is asked again. NULL: nobody can tell. */
    void (*find_worker)(void *arg, uint32_t rank);
    /* Of a run of slices: is the address of this newcomer known here? And with `tell`: say it to all workers of the run that are
     * connected. A word that is lost makes the hand-over fail, before which it is said. NULL: it never is. */
    bool (*introduce)(void *arg, uint32_t rank, bool tell);
};

struct dp_coord;

/* A new run (replayed records follow) or one that the journal knows: feed every record in order to
 * dp_coord_replay(), then call dp_coord_begin() once, which journals START with incarnation + 1 and
 * finishes or aborts what was under way. now_ns: monotonic. */
struct dp_coord *dp_coord_create(const struct dp_job_info *job, const struct dp_run_limits *limits,
                                 const struct dp_coord_ops *ops, void *arg, struct dp_err *err);
void dp_coord_destroy(struct dp_coord *c);
int dp_coord_replay(struct dp_coord *c, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err);
int dp_coord_begin(struct dp_coord *c, uint64_t now_ns, struct dp_err *err);
/* Records that a replay makes the same of as of all that were written (confirmed) so far; histories no
 * longer than they are kept. Changes nothing in *c. returns 0, or -1: put failed, or memory did. */
typedef enum dp_journal_fate (*dp_coord_put_fn)(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                                struct dp_err *err);
/* put is called with arg for one record after the other, and may not call the coordinator. */
int dp_coord_snapshot(const struct dp_coord *c, dp_coord_put_fn put, void *arg, struct dp_err *err);

/* Of a run of slices whose coordinator is lost with its journal: what its workers say makes a new one. Of each rank its newest HELLO,
 * and where it came from; hello NULL: nobody is there, and Slurm says that none is left. All that Slurm shows must be among them. */
struct dp_survivor {
    const struct dp_msg_hello *hello; /* borrowed */
    uint32_t pid;
};
/* Instead of replay and begin. survivor[n]: n = seats, those of job (dp_coord_create()) by rank; whoever was lost is left out of the
 * layout by a REGROUP, which the records of dp_coord_snapshot() have: they must be durable before the coordinator is told more.
 * Where nobody was lost and all are at one, no step is made again. returns 0, or -1: they are not of one run. */
int dp_coord_take_over(struct dp_coord *c, uint64_t now_ns, const struct dp_survivor *survivor, uint32_t n, struct dp_err *err);

/* What Slurm said to ops.requeue. rc 0: it was done, text says how people call it; else text says why not. Only
 * noted: that the job is over shows when it is read. */
void dp_coord_requeue_answer(struct dp_coord *c, uint64_t now_ns, int rc, const char *text);
/* rc 1: Slurm will not do that with this job; else rc and text prove nothing. */
void dp_coord_memory_answer(struct dp_coord *c, uint64_t now_ns, int rc, const char *text);
/* What Slurm says about the job's time: left_ms until its limit at end_s (wall clock); DP_NO_TIME_LIMIT and 0: it
 * has none. */
void dp_coord_time_left(struct dp_coord *c, uint64_t now_ns, uint64_t end_s, uint64_t left_ms);

/* What Slurm says of the size changes that the job may make, whenever it is read: the controller may be another one
 * than when the run began. */
void dp_coord_may_shrink(struct dp_coord *c, uint64_t now_ns, uint32_t allowed, bool has_stepmgr);

/* Events. node: where the worker's daemon sits; pid: as that daemon's kernel named it; m->job_id: the slice, or the run's job.
 * hello fills *welcome (device_lock is the node daemon's business) - verdict FENCED for a slot that
 * has been drained or released, DENIED for a hello that contradicts the run. */
void dp_coord_hello(struct dp_coord *c, uint64_t now_ns, const char *node, uint32_t pid,
                    const struct dp_msg_hello *m, struct dp_msg_welcome *welcome);
/* A slice that was not in the run when that began, or not with this life of its job, and that Slurm shows running on this node,
 * may have a seat in it: *rank, journalled. Asked again it has the same one, until it is taken in or its job is over.
 * returns 0, or -1 and why not: DP_EAUTH: never; DP_EGONE: not now. */
int dp_coord_seat(struct dp_coord *c, uint64_t now_ns, const char *node, uint32_t slice, uint32_t restarts, uint32_t *rank,
                  struct dp_err *err);
/* How many slices the run may have now, and, *missing, how many fewer are in it, or about to join, while nothing is under way and
 * nobody has paused it. 0: it does not train (any more). */
uint32_t dp_coord_slices_wanted(const struct dp_coord *c, uint32_t *missing);
struct dp_coord_growth {
    bool is_asked;
    uint32_t number;  /* of the newest request, from 1 */
    uint64_t since_s; /* when it was made, by the controller's clock; 0: not known */
};
/* Of a run that may grow: has it asked for slices that are not all there? dp_coord_slices_wanted() counts them. *out: overwritten. */
void dp_coord_grows(const struct dp_coord *c, struct dp_coord_growth *out);
struct dp_coord_growth_news {
    uint32_t n_waiting, n_running, n_ended; /* companions; of those that have ended the ones that were submitted since it was made */
    const char *refusal; /* what Slurm says where it gives no more; "": it does */
};
/* What became of the request in Slurm, as far as that is known; said again and again. */
void dp_coord_growth_told(struct dp_coord *c, uint64_t now_ns, const struct dp_coord_growth_news *news);
bool dp_coord_is_in(const struct dp_coord *c, uint32_t rank); /* in the layout in force */
bool dp_coord_is_newcomer(const struct dp_coord *c, uint32_t rank); /* has a seat, and was in no layout yet */
void dp_coord_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m);
void dp_coord_vote(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_vote *m);
void dp_coord_decision_ack(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_decision_ack *m);
void dp_coord_event(struct dp_coord *c, uint64_t now_ns, uint32_t rank, const struct dp_msg_event *m); /* rank: who says it */
void dp_coord_pong(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_pong *m);
void dp_coord_expect(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_expect *m);
void dp_coord_goodbye(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_goodbye *m);
void dp_coord_worker_lost(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_worker_lost *m);
/* The node of a rank and its process there, as they said HELLO or the journal has it; NULL: not known. */
const char *dp_coord_worker_at(const struct dp_coord *c, uint32_t rank, uint32_t *pid);
/* What the daemon knows of the way to a node of which nothing is heard; "" where it knows nothing. */
void dp_coord_node_trouble(struct dp_coord *c, const char *node, const char *text);
bool dp_coord_is_node_missing(const struct dp_coord *c, const char *node);
void dp_coord_slot_gone(struct dp_coord *c, uint64_t now_ns, const char *node, const struct dp_msg_slot_gone *m);
void dp_coord_release_answer(struct dp_coord *c, uint64_t now_ns, int rc, const char *text);
/* job NULL: Slurm could not be read (text says why). */
void dp_coord_job_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job, const char *text);
/* In the child: ask the policy, pack, predict. May block, changes nothing in *c.
 * result: room for DP_COORD_PLAN_MAX bytes. returns how many were written. */
#define DP_COORD_PLAN_MAX 32768u
size_t dp_coord_plan(const struct dp_coord *c, uint8_t *result);
/* What the child left; result NULL: it died or ran past its deadline, why says which. */
void dp_coord_planned(struct dp_coord *c, uint64_t now_ns, const uint8_t *result, size_t bytes, const char *why);
/* Called about every 100 ms: timeouts, resends, the policy. */
void dp_coord_tick(struct dp_coord *c, uint64_t now_ns);
/* Slurm says that the job is over (or its last step ended): no more retries; journals END. */
void dp_coord_end(struct dp_coord *c, uint64_t now_ns, const char *why);
/* pause, resume, layout, save. returns 0, or -1 and why it is refused. */
int dp_coord_command(struct dp_coord *c, uint64_t now_ns, enum dp_verb verb, const char *argument, struct dp_err *err);

/* Of a run of slices: all save and stop, as soon as no layers move. Not journalled: after a restart it is said again. */
void dp_coord_stop(struct dp_coord *c, const char *why);

/* The next event that was not asked for yet, for the log; NULL: none. Valid until the next call. */
const char *dp_coord_next_event(struct dp_coord *c);

/* Was END journalled, here or by an incarnation before? Nothing is asked of anybody any more; a HELLO of a new step
 * begins anew. */
bool dp_coord_is_over(const struct dp_coord *c);
bool dp_coord_all_left(const struct dp_coord *c); /* every worker that trained has left or is lost */
/* Has nobody said goodbye, and is there a worker that trains, with a connection or, is_connected false, without one? */
bool dp_coord_goes_on(const struct dp_coord *c, bool is_connected);
/* Of a run of slices: does it train, or could it, without this one? */
bool dp_coord_can_do_without(const struct dp_coord *c, uint32_t slice);
/* Of a run of slices: the slots (dp_coord_job()) of those others, by which it does. returns: how many, 0 where it is none. */
uint32_t dp_coord_list_others(const struct dp_coord *c, uint32_t slice, uint32_t slot[DP_MAX_SLOTS]);
/* The step under which its workers are known. returns false: there is none yet. */
bool dp_coord_step(const struct dp_coord *c, uint32_t *step_id);
uint32_t dp_coord_incarnation(const struct dp_coord *c);
const struct dp_job_info *dp_coord_job(const struct dp_coord *c);

/* JSON for the command line: DP_QUERY_STATUS, DP_QUERY_EXPLAIN, DP_QUERY_REPORT. New reference. */
json_t *dp_coord_json(const struct dp_coord *c, uint64_t now_ns, enum dp_query what);

#endif
