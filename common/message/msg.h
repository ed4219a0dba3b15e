/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message that DynPipe's processes exchange, and its codec.
 *
 * A frame is a 16-byte header (magic u32 | version u16 | type u16 | body_len u32 | seq u32, all
 * big-endian) and a body of at most DP_BODY_MAX bytes. There is one struct per message and
 * direction; a reply never reuses the request's struct. Each field list is written once, below, and
 * expands into the struct, the encoder and the decoder; doc/protocol.md tables the bytes.
 *
 * The order of checks on the receiving side: header, length against dp_msg_max_body() of that type,
 * is this type allowed from this peer in this state (the caller's table), decode, meaning. Who is
 * speaking comes from SO_PEERCRED or munge, never from a body.
 */
#ifndef DP_COMMON_MESSAGE_MSG_H
#define DP_COMMON_MESSAGE_MSG_H

#include "common/err.h"
#include "common/run/change.h"
#include "common/run/layout.h"
#include "common/run/load.h"
#include "common/wire.h"

#define DP_MAGIC 0x44594e50u /* "DYNP" */

/* Versions. Releases differ, and a run outlives an upgrade, so two sides speak the lower of their versions:
 *
 * - Accepted are DP_PROTO_MIN and later ones, but 2, which no release had. 1 is release 0.1.0, 3 is 0.2.0.
 *   What comes between two releases needs no number of its own.
 * - A field is only ever appended to a message, behind its array where it has one (DP_X_SINCE_n), and a message
 *   keeps its number. Both name the version that they came with.
 * - An older peer's message ends before what it does not know: its default is 0 or "", or what the field says.
 * - A newer peer's may go on behind what we know, by DP_TAIL_MAX bytes: they are ignored. Of a version that we know
 *   a byte too many stays an error.
 * - What a version does not have is not sent to its peer (dp_msg_recode); what has no safe equivalent there is not
 *   done with him (doc/protocol.md, "Versions").
 * - On a unix socket the client's first frame says its version, and the daemon answers in the lower one; the high half
 *   of the daemon's sequence numbers is the highest that it has (0: release 0.1.0, which hangs up on any version
 *   but its own, so the client comes back with DP_PROTO_MIN). On TCP the acceptor's nonce says it, and what was
 *   agreed on is sealed (session.h). The version of a connection never changes.
 */
#define DP_PROTO_VERSION 3
#define DP_PROTO_MIN 1
#define DP_TAIL_MAX 4096u
#define DP_SEQ_VERSION_SHIFT 16
#define DP_HEADER_BYTES 16
#define DP_BODY_MAX 65520u /* with the header, a frame never passes 64 KiB */
#define DP_DIGEST_BYTES 32 /* SHA-256 */
#define DP_STEP_BATCH 0xfffffffbu /* step id of the batch script, as Slurm has it */

/* The list of messages: M(name, NAME, number, version that brought it, kind). The fields of one are DP_<NAME>_FIELDS; where it
 * is nothing but these (PLAIN; PLAIN_3: and DP_<NAME>_SINCE_3), struct dp_msg_<name>, its codec, its place in the codecs' table
 * and its chapter in doc/messages.md come from this line. OWN: its struct is below, its codec and size in msg.c, its chapter
 * in doc/print_messages.c. Numbers are for ever. */
#define DP_MESSAGES(M)                                                                                         \
    /* plugin -> daemon, and back */                                                                           \
    M(step_start, STEP_START, 1, 1, PLAIN_3)                                                                   \
    M(step_end, STEP_END, 2, 1, PLAIN)                                                                         \
    M(ack, ACK, 3, 1, OWN)                                                                                     \
    M(tasks, TASKS, 4, 3, OWN) /* between daemons, too */                                                      \
    /* worker <-> daemon; between daemons inside RELAY */                                                      \
    M(hello, HELLO, 10, 1, OWN)                                                                                \
    M(welcome, WELCOME, 11, 1, PLAIN_3)                                                                        \
    M(report, REPORT, 12, 1, OWN)                                                                              \
    M(prepare, PREPARE, 13, 1, OWN)                                                                            \
    M(vote, VOTE, 14, 1, PLAIN)                                                                                \
    M(decision, DECISION, 15, 1, PLAIN)                                                                        \
    M(decision_ack, DECISION_ACK, 16, 1, PLAIN_3)                                                              \
    M(finish, FINISH, 17, 1, PLAIN)                                                                            \
    M(goodbye, GOODBYE, 18, 1, OWN)                                                                            \
    M(save, SAVE, 19, 1, PLAIN)                                                                                \
    M(event, EVENT, 20, 1, PLAIN)                                                                              \
    M(ping, PING, 21, 1, PLAIN)                                                                                \
    M(pong, PONG, 22, 1, PLAIN)                                                                                \
    M(limit, LIMIT, 23, 3, PLAIN)                                                                              \
    /* wire-up (doc/protocol.md), before any HELLO: CARD inside RELAY, too; the others between daemons, too */ \
    M(card, CARD, 24, 3, OWN)                                                                                  \
    M(roster, ROSTER, 25, 3, OWN)                                                                              \
    M(wireup, WIREUP, 26, 3, OWN)                                                                              \
    /* coordinator -> worker, as those from 10 on */                                                           \
    M(regroup, REGROUP, 27, 3, OWN)                                                                            \
    M(expect, EXPECT, 28, 3, OWN) /* worker -> coordinator */                                                  \
    M(proposal, PROPOSAL, 29, 3, OWN)                                                                          \
    /* daemon <-> daemon */                                                                                    \
    M(relay, RELAY, 30, 1, OWN)                                                                                \
    M(worker_lost, WORKER_LOST, 31, 1, PLAIN)                                                                  \
    M(stop_slot, STOP_SLOT, 32, 1, PLAIN_3)                                                                    \
    M(slot_gone, SLOT_GONE, 33, 1, PLAIN)                                                                      \
    M(join, JOIN, 34, 1, PLAIN)                                                                                \
    M(find_worker, FIND_WORKER, 35, 3, PLAIN)                                                                  \
    M(slice, SLICE, 36, 3, PLAIN)                                                                              \
    M(slice_rank, SLICE_RANK, 37, 3, PLAIN)                                                                    \
    /* command line <-> daemon */                                                                              \
    M(query, QUERY, 40, 1, PLAIN)                                                                              \
    M(answer, ANSWER, 41, 1, OWN)                                                                              \
    M(command, COMMAND, 42, 1, PLAIN)                                                                          \
    M(check, CHECK, 43, 3, PLAIN)                                                                              \
    /* opening of a TCP connection (doc/protocol.md, "Session") */                                             \
    M(challenge, CHALLENGE, 50, 1, PLAIN)                                                                      \
    M(auth, AUTH, 51, 1, PLAIN)                                                                                \
    M(auth_ok, AUTH_OK, 52, 1, PLAIN)

#define DP_MSG_NUMBER(name, NAME, number, since, kind) DP_MSG_##NAME = number,
enum dp_msg_type { DP_MESSAGES(DP_MSG_NUMBER) };

enum dp_mode { DP_MODE_OFF = 0, DP_MODE_OBSERVE = 1, DP_MODE_BALANCE = 2, DP_MODE_RELEASE = 3 };
enum dp_reference { DP_REF_START = 0, DP_REF_BEST = 1, DP_REF_FIXED = 2 };
enum dp_verdict {
    DP_VERDICT_OK = 0,
    DP_VERDICT_DENIED = 1,
    DP_VERDICT_FENCED = 2,
    DP_VERDICT_UNKNOWN = 3, /* may change */
    DP_VERDICT_LATER = 4,   /* of STEP_START: not known yet, ask again before a task starts */
};
#define DP_MEMORY_MARGIN_MAX 1000u /* percent */
#define DP_MEMORY_ON 1001u         /* as the site says */
enum dp_goodbye { DP_BYE_COMPLETED = 0, DP_BYE_DRAINED = 1, DP_BYE_FAILED = 2, DP_BYE_SAVED = 3 };
enum dp_event {
    DP_EV_PRUNED = 0,   /* value: sparsity reached, 0..1 */
    DP_EV_SAVED = 1,    /* text: path of the checkpoint */
    DP_EV_EVAL = 2,     /* value: validation loss in nats per token; text: bits per byte where known */
    DP_EV_RESUMED = 3,  /* text: path of the checkpoint */
    DP_EV_FAILED = 4,   /* text: why the run ends */
    DP_EV_REGROUPED = 5, /* the run goes on from `step`, after a REGROUP; value: sparsity there; text: from what */
    DP_EV_LEAVE = 6,    /* a slice's worker asks to be let go: Slurm ends its job; with value DP_LEAVE_DRAINED anyone's: its node drains */
    DP_EV_FROZEN = 7,   /* value: layers of the model, from the first on, that only go forward from here on */
    DP_EV_SHADOWING = 8, /* of the leader: layers of hand-over `value` are copied while training goes on, votes come later */
};
#define DP_LEAVE_DRAINED 1.0 /* there is no hurry: who cannot be let go stays */
enum dp_card {
    DP_CARD_HERE = 0,    /* with the worker's address */
    DP_CARD_READY = 1,   /* the same, and it has all addresses and the key */
    DP_CARD_REFUSED = 2, /* it does not start; with the reason */
    DP_CARD_LOST = 3,    /* between daemons: its process ended before all had met */
    DP_CARD_SLICE = 4,   /* the worker of a slice, before all: which rank has it? */
    DP_CARD_AGAIN = 5,   /* as READY, of one that trains, after each WELCOME: for those who join later */
};
enum dp_slice_state {
    DP_SLICE_WAITS = 0,   /* for the others */
    DP_SLICE_RANKED = 1,
    DP_SLICE_REFUSED = 2, /* it will never be in the run, or there is none */
};
enum dp_slice_where {
    DP_WHERE_HOME = 0,  /* job_id is home: which rank has the slice? */
    DP_WHERE_NOW = 1,   /* job_id is not home but a slice that is in the run: where is that run now? */
    DP_WHERE_STILL = 2, /* the slice has its rank and waits to be taken in: is home's run still there? */
    DP_WHERE_BACK = 3,  /* as HOME, of a slice whose worker trains: no reason to begin a run */
};
enum dp_wireup_state {
    DP_WIREUP_WAIT = 0,   /* text: for what; to be told by the speaker */
    DP_WIREUP_WHOLE = 1,  /* all cards have been sent; key */
    DP_WIREUP_GO = 2,     /* everybody has them */
    DP_WIREUP_FAILED = 3, /* text: why; to be told by the speaker */
    DP_WIREUP_LATER = 4,  /* text: why not now; ask again */
    DP_WIREUP_DENIED = 5, /* text: why this card is refused; the others go on */
    DP_WIREUP_RANK = 6,   /* answers a CARD of kind SLICE: speaker is the worker that heard it */
};
enum dp_query { DP_QUERY_JOBS = 0, DP_QUERY_STATUS = 1, DP_QUERY_EXPLAIN = 2, DP_QUERY_REPORT = 3, DP_QUERY_NODE = 4 };
enum dp_verb { DP_VERB_PAUSE = 0, DP_VERB_RESUME = 1, DP_VERB_LAYOUT = 2, DP_VERB_SAVE = 3 };

/* Options that a user gave explicitly (bit set) as against defaults. */
enum dp_option_bit {
    DP_OPT_MODE = 1u << 0,
    DP_OPT_POLICY = 1u << 1,
    DP_OPT_MIN_GPUS = 1u << 2,
    DP_OPT_MAX_SLOWDOWN = 1u << 3,
    DP_OPT_REFERENCE = 1u << 4,
    DP_OPT_STALL_END = 1u << 5,
    DP_OPT_MEMORY = 1u << 6,
    DP_OPT_SLICES = 1u << 7,
    DP_OPT_MAX_GPUS = 1u << 8,
    DP_OPT_COPIES = 1u << 9,
};

/* Field kinds: u8 u16 u32 u64 f64; s64, s256, s1k: text in a char array of that size, NUL included;
 * digest: DP_DIGEST_BYTES raw bytes. */

#define DP_STEP_START_FIELDS(F)                                                                    \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, step_id, "Slurm step id; 0xfffffffb is the batch script")                               \
    F(u32, uid, "owner of the job, as slurmstepd knows it")                                        \
    F(u32, gid, "group of the job")                                                                \
    F(u32, options_set, "enum dp_option_bit: which of the next fields the user gave")              \
    F(u8, mode, "enum dp_mode")                                                                    \
    F(u8, reference, "enum dp_reference")                                                          \
    F(u32, min_gpus, "never fewer devices than this, 0: no wish")                                  \
    F(f64, max_slowdown, "percent of the reference that the user gives up, 0..100")                \
    F(s64, policy, "name of a policy, empty: the administrator's")                                 \
    F(s64, node, "name of this node in Slurm")
#define DP_STEP_START_SINCE_3(F)                                                                   \
    F(u32, stall_end_s, "end and requeue the job when it is stalled for so long, 0: no wish")       \
    F(u32, memory, "give host memory back with so many percent of room, 0: do not, 1001: with the site's room") \
    F(u32, slices, "the job is one of so many tasks of a job array that are one run, 0: it is a run itself") \
    F(u32, max_gpus, "the run may ask for slices until it has so many, 0: it asks for none beyond `slices`") \
    F(u8, copies, "copies of each layer that other workers hold: 0 or 1; where it was not given, the site says")

/* The sender does not wait for an answer: an ACK may find the connection closed. A daemon that was
 * silent for 500 ms at the start may hear of an end whose start it never answered. */
#define DP_STEP_END_FIELDS(F)                                                                      \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, step_id, "Slurm step id")

/* Followed by count pairs: rank u32 in the step and pid u32. Which processes slurmstepd started here; so a worker cannot
 * claim another's rank. */
#define DP_TASKS_FIELDS(F)                                                                         \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, step_id, "Slurm step id")                                                               \
    F(u32, restarts, "between daemons: how often the job was requeued, as Slurm told the sender; else 0") \
    F(u32, n_tasks, "of the whole step")                                                           \
    F(u32, count, "of them on the sender's node, 0..DP_MAX_WORKERS")

#define DP_ACK_FIELDS(F)                                                                           \
    F(u8, verdict, "enum dp_verdict")                                                              \
    F(s256, text, "one line for the user, may be empty")

/* Followed by n_workers + 1 cuts: the layout that the worker has in force. */
#define DP_HELLO_FIELDS(F)                                                                         \
    F(u32, job_id, "Slurm job id, from the environment of the step; checked against the peer")     \
    F(u32, step_id, "Slurm step id")                                                               \
    F(u32, rank, "rank of the worker in the run, from 0")                                          \
    F(u32, n_workers, "workers that the run started with, 1..DP_MAX_WORKERS")                      \
    F(u32, n_layers, "1..DP_MAX_LAYERS, embedding and head included")                              \
    F(u64, epoch, "layout epoch in force in this worker")                                          \
    F(u64, doubt, "migration that this worker voted yes for and knows no decision of, 0: none")    \
    F(u64, step, "optimizer steps completed")                                                      \
    F(u64, steps_total, "optimizer steps of the whole run")                                        \
    F(u64, prune_begin, "first step of gradual pruning, 0 with prune_end 0: no pruning; for version 1, as the next two") \
    F(u64, prune_end, "step at which the final sparsity is reached")                               \
    F(f64, final_sparsity, "0..1")                                                                 \
    F(u32, microbatches, "per step")                                                               \
    F(u32, tokens_per_microbatch, "rows x context length")                                         \
    F(u8, schedule, "enum dp_schedule_kind")                                                       \
    F(u64, mem_limit_bytes, "memory that this worker may use, 0: unlimited")                       \
    F(u64, stage_message_bytes, "bytes of one activation message between two stages")                   \
    F(s64, device, "cpu, or the name of a GPU")                                                    \
    F(s1k, checkpoint_dir, "where checkpoints go, empty: none")
/* Behind the cuts, and in front of n_changes changes, each kind u8, step u64, value f64 (common/run/change.h). A HELLO of version 1
 * has those of its pruning, by a cubic from 0 on: how far apart they are, and what it begins with, it does not say. */
#define DP_HELLO_SINCE_3(F)                                                                        \
    F(s256, options, "of the step, as the plugin left them in SLURM_DYNPIPE; empty: none")         \
    F(u8, regroups, "1: it goes on with the others when one of them is lost (REGROUP)")             \
    F(u32, n_there, "workers that are there from the beginning, ranks 0 and up; 0: all n_workers")  \
    F(u8, joins, "1: it joins a run that trains already; its epoch and cuts mean nothing yet")       \
    F(u8, is_gone, "1: the layout in force lets it leave")                                           \
    F(u32, incarnation, "highest of a coordinator that it has heard, 0: none")                       \
    F(u64, migration, "highest number of a hand-over or regroup that it has heard of, 0: none")      \
    F(u64, heard_epoch, "highest epoch of a layout that it has heard to be decided, in force here or not yet; 0: as old as that field") \
    F(u32, leader, "lowest rank in the layout in force here")                                        \
    F(u8, blocks_differ, "1: blocks do not cost alike from the first step on, so their times do not tell devices apart") \
    F(u8, is_fixed, "1: it cannot move layers: it is observed, and told what would be better (PROPOSAL)")            \
    F(u8, stays, "1: it cannot leave before the run ends, so no layout without it is made")                         \
    F(s64, trainer, "what trains, for people; empty: dynpipe-worker")                                              \
    F(u8, n_changes, "changes that are known to come, 0..64; 0 where a rule decides that looks at the training")

/* Text of an UNKNOWN that begins so is the same on every node of the run: worker 0 tells it for all. */
#define DP_HOST_TROUBLE "the daemon of the batch host "

#define DP_WELCOME_FIELDS(F)                                                                       \
    F(u8, verdict, "enum dp_verdict; anything but OK: the worker must not run here")               \
    F(u8, mode, "enum dp_mode in force")                                                           \
    F(u32, report_ms, "least time between two reports")                                            \
    F(s256, device_lock, "file that the worker locks (flock) while it uses the slot, empty: none") \
    F(s256, text, "one line for the user, may be empty")
#define DP_WELCOME_SINCE_3(F)                                                                      \
    F(u8, copies, "copies of each layer that other workers are to hold, as the user or the site wants: 0 or 1")

/* Followed by n_layers entries of struct dp_layer_load (load.h). */
#define DP_REPORT_FIELDS(F)                                                                        \
    F(u32, rank, "worker")                                                                         \
    F(u64, epoch, "layout epoch that the sample belongs to")                                       \
    F(u64, step, "last optimizer step completed")                                                  \
    F(u32, window_steps, "steps that the medians below cover")                                     \
    F(f64, loss, "mean training loss of that step, nats per token; NaN where unknown")             \
    F(f64, grad_norm, "global gradient norm before clipping; NaN where unknown")                   \
    F(u64, step_ns, "median wall time of one optimizer step")                                      \
    F(u64, busy_ns, "median device time of one step: all layers, optimizer included")              \
    F(u64, wait_ns, "median time of one step spent waiting for other workers")                     \
    F(u64, optimizer_ns, "median device time of the optimizer in one step")                        \
    F(u64, overhead_ns, "median device time of measuring and reporting in one step")               \
    F(u64, mem_bytes, "bytes held now: weights, gradients, optimizer, activations, indexes")       \
    F(u64, rss_bytes, "resident set of the process")                                               \
    F(u32, first_layer, "first layer of the stage")                                                \
    F(u32, n_layers, "layers of the stage, 0..DP_MAX_LAYERS")

/* Behind the layers. */
#define DP_REPORT_SINCE_3(F)                                                                       \
    F(u64, lost_ns, "median time of one step in which others had the worker's core; 0 also: not known") \
    F(u64, ahead_ns, "median time from sending the activation of a step's first microbatch until its gradient is back; 0: not known") \
    F(u64, held_ns, "median time from receiving that activation until its gradient is sent; 0: not known") \
    F(u64, need_bytes, "host memory that the process has and may take for a moment; 0: not known")  \
    F(u64, job_bytes, "host memory that Slurm's cgroup of the job holds on this node and cannot drop; 0: not known") \
    F(u32, copy_layers, "layers of the stage that another worker is to hold copies of; 0: the run has no copies")    \
    F(u32, copy_whole, "those of them whose copy is whole: it has done every step that the layer has done")          \
    F(u32, copy_holder, "rank of the worker that holds them; where copy_layers is 0 it means nothing")               \
    F(u32, copy_held, "copies of other workers' layers here, whole or not")                                          \
    F(u64, copy_bytes, "what these take, with buffers for gradients on their way; part of mem_bytes")                \
    F(u64, copy_step_bytes, "bytes sent for copies in the newest step: gradients, and state of those that are not whole")

/* Followed by n_workers + 1 cuts and n_workers bytes `gone` of the new layout. A worker whose byte
 * turns 1 leaves the run after FINISH. */
#define DP_PREPARE_FIELDS(F)                                                                       \
    F(u32, incarnation, "of the coordinator")                                                      \
    F(u64, migration, "id, from 1, only grows within a job")                                       \
    F(u64, epoch, "layout epoch that must be in force; a commit makes it epoch + 1")               \
    F(u32, n_workers, "1..DP_MAX_WORKERS")                                                         \
    F(u32, n_layers, "1..DP_MAX_LAYERS")
/* Alone of these fields it is not the same for all workers, and nothing rests on it. */
#define DP_PREPARE_SINCE_3(F) \
    F(u64, coming_bytes, "what the layers take that come to the worker this is for, as reported last; 0: not known, or none")

#define DP_VOTE_FIELDS(F)                                                                          \
    F(u32, incarnation, "of the PREPARE that is answered")                                         \
    F(u64, migration, "id")                                                                        \
    F(u32, rank, "worker")                                                                         \
    F(u8, yes, "1: will do what is decided; 0: no")                                                \
    F(u64, boundary, "optimizer steps completed at the boundary")                                  \
    F(u64, sent_bytes, "layer bytes that this worker sent")                                        \
    F(u64, received_bytes, "layer bytes that this worker received")                                \
    F(digest, digest, "SHA-256 over the digests of all layers that move, in layer order")          \
    F(s256, text, "reason of a no")

#define DP_DECISION_FIELDS(F)                                                                      \
    F(u32, incarnation, "of the coordinator that tells it")                                        \
    F(u64, migration, "id")                                                                        \
    F(u8, commit, "1: epoch + 1 is in force; 0: aborted, the old layout stays")                    \
    F(u64, epoch, "layout epoch in force after this decision")                                     \
    F(s256, text, "reason of an abort")

#define DP_DECISION_ACK_FIELDS(F)                                                                  \
    F(u64, migration, "id")                                                                        \
    F(u32, rank, "worker")                                                                         \
    F(u64, epoch, "layout epoch in force in this worker")                                          \
    F(u64, pause_ns, "from the boundary until training went on")                                   \
    F(u64, transfer_ns, "part of the pause in which layers were sent or received")
#define DP_DECISION_ACK_SINCE_3(F)                                                                 \
    F(u64, copying_ns, "that this worker spent on copying layers before, while training went on")

#define DP_FINISH_FIELDS(F)                                                                        \
    F(u64, migration, "all workers have acknowledged: sources free their copies, leavers leave")

/* Followed by n_workers + 1 cuts and n_workers bytes `gone`. go 1: workers are lost, and those that are left make this
 * layout anew from the newest checkpoint; answered by DECISION_ACK. go 0: the run ends where one was lost; the layout is the
 * one in force. */
#define DP_REGROUP_FIELDS(F)                                                                       \
    F(u32, incarnation, "of the coordinator")                                                      \
    F(u64, migration, "id, as in PREPARE")                                                         \
    F(u8, go, "1: go on; 0: nobody does, text says why")                                           \
    F(u64, epoch, "of the layout")                                                                 \
    F(u32, n_workers, "1..DP_MAX_WORKERS")                                                         \
    F(u32, n_layers, "1..DP_MAX_LAYERS")                                                           \
    F(s256, text, "who was lost, or why the run ends")

/* Followed by n_layers entries of struct dp_layer_load: what these layers will cost from that step on, as their worker would
 * report it. Said again after each WELCOME; what was said of a layer and a step before is replaced, and n_layers 0 takes back what
 * was said of that step. */
#define DP_EXPECT_FIELDS(F)                                                                        \
    F(u32, rank, "worker")                                                                         \
    F(u64, step, "from the boundary behind so many completed steps on")                            \
    F(u32, first_layer, "first layer of them")                                                     \
    F(u32, n_layers, "0..DP_MAX_LAYERS")

/* Followed by n_workers + 1 cuts and n_workers bytes `gone`: the layout that workers which cannot move layers should begin
 * again with, at a checkpoint. Said to all of them, whenever another one becomes the best. */
#define DP_PROPOSAL_FIELDS(F)                                                                      \
    F(u32, incarnation, "of the coordinator")                                                      \
    F(u64, number, "of the proposal, from 1, only grows under an incarnation")                     \
    F(f64, now_ns, "predicted time of a step in the layout in force")                              \
    F(f64, then_ns, "and in this one")                                                             \
    F(u32, n_workers, "1..DP_MAX_WORKERS")                                                         \
    F(u32, n_layers, "1..DP_MAX_LAYERS")

#define DP_GOODBYE_FIELDS(F)                                                                       \
    F(u32, rank, "worker")                                                                         \
    F(u8, how, "enum dp_goodbye")                                                                  \
    F(u64, step, "optimizer steps completed")                                                      \
    F(s256, text, "one line, may be empty")
#define DP_GOODBYE_SINCE_3(F)                                                                      \
    F(f64, loss, "mean training loss of the last of the steps, nats per token; NaN where unknown")

#define DP_SAVE_FIELDS(F) F(u32, stop, "the leader saves a checkpoint at the next boundary; 1: and all stop then, else 0")

#define DP_PING_FIELDS(F) F(u64, number, "from 1, only grows: sent when nothing was heard of a run for long")

#define DP_PONG_FIELDS(F)                                                                          \
    F(u32, rank, "worker, that waits for others or is between two steps")                         \
    F(u64, number, "of the PING that is answered")

#define DP_NO_TIME_LIMIT UINT64_MAX
#define DP_LIMIT_FIELDS(F)                                                                         \
    F(u64, left_ms, "milliseconds until Slurm ends the job for its time limit; all bits set: never")

#define DP_KEY_BYTES 16u          /* of a run */
#define DP_SEALED_KEY_BYTES 40u   /* between daemons: common/message/session.h */
#define DP_CARD_MAX 8192u         /* bytes of an address */
#define DP_NOBODY UINT32_MAX      /* for a rank */

/* Followed by key_len bytes of key and card_len bytes: the worker's address, opaque; of REFUSED a text. */
#define DP_CARD_FIELDS(F)                                                                          \
    F(u32, job_id, "Slurm job id, from the environment of the step; checked against the peer")     \
    F(u32, step_id, "Slurm step id")                                                               \
    F(u32, rank, "number of the task in its step, checked against TASKS; of SLICE 0")              \
    F(u32, n_workers, "tasks of the step, 1..DP_MAX_WORKERS; of SLICE 1")                          \
    F(u8, kind, "enum dp_card")                                                                    \
    F(u32, patience_ms, "how long the worker still waits for the others")                          \
    F(s256, options, "of the step, as in HELLO")                                                   \
    F(u16, key_len, "16 of READY and AGAIN, in a RELAY 40 (sealed); else 0")                              \
    F(u16, card_len, "0..DP_CARD_MAX")

/* Followed by cards_len bytes: count cards, each a u16 length and that many bytes. A table comes in order, from 0. */
#define DP_ROSTER_FIELDS(F)                                                                        \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, step_id, "Slurm step id")                                                               \
    F(u32, restarts, "how often the job was requeued, as Slurm told the sender")                   \
    F(u32, n_workers, "of the whole table, 1..DP_MAX_WORKERS")                                     \
    F(u32, first, "rank of the first card")                                                        \
    F(u32, count, "of cards")                                                                      \
    F(u32, cards_len, "bytes that follow, at most DP_ROSTER_CHUNK")

/* Followed by key_len bytes. */
#define DP_WIREUP_FIELDS(F)                                                                        \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, step_id, "Slurm step id")                                                               \
    F(u32, restarts, "how often the job was requeued, as Slurm told the sender")                   \
    F(u8, state, "enum dp_wireup_state")                                                           \
    F(u32, speaker, "rank of the worker that tells the text, all bits set: nobody")                \
    F(s1k, text, "one line, may be empty")                                                         \
    F(u16, key_len, "of WHOLE: 16, between daemons 40 (sealed); else 0")                           \
    F(u32, n_workers, "of RANK: seats of the run; else 0")                                          \
    F(u32, n_there, "of RANK: so many of them are taken from the beginning; else 0")               \
    F(u8, joins, "of RANK: 1: the run trains already, and this worker joins it")

#define DP_EVENT_FIELDS(F)                                                                         \
    F(u8, kind, "enum dp_event")                                                                   \
    F(u64, step, "optimizer steps completed")                                                      \
    F(f64, value, "see enum dp_event")                                                             \
    F(s1k, text, "see enum dp_event")

/* Followed by inner_len raw bytes: the body of a worker's message. Up: from the worker of `rank` on
 * the sender's node. Down: to that worker. */
#define DP_RELAY_FIELDS(F)                                                                         \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, rank, "worker")                                                                         \
    F(u32, pid, "up: pid of the worker, as the kernel named it; down: 0")                          \
    F(u16, inner_type, "enum dp_msg_type")                                                         \
    F(u32, inner_len, "bytes that follow")
/* Behind the inner body, which is of the same version as the RELAY. A peer without it is heard of the first life of a
 * job only: what it says can then be of no earlier one. */
#define DP_RELAY_SINCE_3(F)                                                                        \
    F(u32, restarts, "how often the job was requeued, as Slurm told the sender")

#define DP_WORKER_LOST_FIELDS(F)                                                                   \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, rank, "worker")                                                                         \
    F(u32, pid, "its process")                                                                     \
    F(u8, exited, "1: the process is gone; 0: only its connection")

#define DP_STOP_SLOT_FIELDS(F)                                                                     \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, uid, "owner of the job")                                                                \
    F(u32, incarnation, "of the coordinator")                                                      \
    F(u32, grace_ms, "time for the processes to leave by themselves")
#define DP_STOP_SLOT_SINCE_3(F)                                                                    \
    F(u32, restarts, "how often the job was requeued, as Slurm told the sender; default as in RELAY")

#define DP_SLOT_GONE_FIELDS(F)                                                                     \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, incarnation, "of the STOP_SLOT that is answered")                                       \
    F(u8, gone, "1: proved gone and fenced; 0: held, text says why")                               \
    F(u64, took_ns, "from STOP_SLOT to the proof")                                                 \
    F(s1k, text, "the proof, or why there is none")

#define DP_JOIN_FIELDS(F)                                                                          \
    F(u32, job_id, "the sender's node belongs to this job and asks for its orders")

#define DP_FIND_WORKER_FIELDS(F)                                                                   \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(u32, rank, "worker")                                                                         \
    F(u32, pid, "its process on the receiver's node; where there is none, WORKER_LOST is the answer") \
    F(u32, restarts, "how often the job was requeued, as Slurm told the sender")

/* To the daemon of home, the slice that the run has its name of, again and again: answered by SLICE_RANK; where the run is still
 * there, not at all. */
#define DP_SLICE_FIELDS(F)                                                                         \
    F(u32, job_id, "Slurm job id of home")                                                         \
    F(u32, slice, "Slurm job id of a slice on the sender's node")                                  \
    F(u32, restarts, "how often the slice (STILL: home) was requeued, as the sender knows") \
    F(u32, step_id, "of its worker")                                                               \
    F(u32, pid, "its worker")                                                                      \
    F(u8, has_ended, "1: that process has; not answered")                                          \
    F(u8, where, "enum dp_slice_where")

#define DP_SLICE_RANK_FIELDS(F)                                                                    \
    F(u32, job_id, "Slurm job id of home")                                                         \
    F(u32, slice, "Slurm job id of the slice that is answered")                                    \
    F(u32, pid, "its worker")                                                                      \
    F(u8, state, "enum dp_slice_state")                                                            \
    F(u32, step_id, "of RANKED: the step of home's worker, under which all of them are known")     \
    F(u32, rank, "of RANKED")                                                                      \
    F(u32, n_workers, "of RANKED: seats of the run, 1..DP_MAX_WORKERS")                            \
    F(s256, text, "of the others: for what it waits, or why not")                                  \
    F(u32, n_there, "of RANKED: seats that are taken from the beginning, 1..n_workers")            \
    F(u8, joins, "of RANKED: 1: the run trains already, and this slice joins it")                  \
    F(u32, home_job, "of an answer to where: the job that the run has its name of; 0: that slice is in none")  \
    F(u32, home_restarts, "and how often that was requeued before")                                \
    F(s64, home_node, "and the node of its coordinator; step_id to n_there are then of the slice that answers")

#define DP_QUERY_FIELDS(F)                                                                         \
    F(u8, what, "enum dp_query")                                                                   \
    F(u32, job_id, "Slurm job id, 0 for DP_QUERY_JOBS and DP_QUERY_NODE")

/* Answered as a QUERY is: what the daemon finds when it looks at its own node (daemon/query/node_check.c). */
#define DP_CHECK_FIELDS(F)                                                                         \
    F(u32, job_id, "Slurm job id: was a step of it registered here? 0: no such question")          \
    F(s64, target, "node whose daemon is to be reached from there, empty: none")
#define DP_CHECK_BUSY "busy with other checks" /* text of a DENIED: ask again */

/* Followed by json_len bytes of UTF-8: a piece of one JSON document. */
#define DP_ANSWER_FIELDS(F)                                                                        \
    F(u8, verdict, "enum dp_verdict")                                                              \
    F(u8, last, "1: the document is complete")                                                     \
    F(s256, text, "why not, where verdict is not OK")                                              \
    F(u32, json_len, "bytes that follow, at most DP_ANSWER_CHUNK")

#define DP_COMMAND_FIELDS(F)                                                                       \
    F(u8, verb, "enum dp_verb")                                                                    \
    F(u32, job_id, "Slurm job id")                                                                 \
    F(s1k, argument, "DP_VERB_LAYOUT: a layout as dp_layout_format writes it; else empty")

#define DP_CHALLENGE_FIELDS(F)                                                                     \
    F(digest, nonce, "random, new for each connection")                                            \
    F(s64, node, "the accepting daemon's node")

#define DP_AUTH_FIELDS(F)                                                                          \
    F(s64, node, "the connecting daemon's node, empty: a command line")                            \
    F(s4k, credential, "munge credential; doc/protocol.md says what it seals")

#define DP_AUTH_OK_FIELDS(F) F(digest, proof, "HMAC over the handshake with the session key")

#define DP_ANSWER_CHUNK 32768u /* half a frame */
#define DP_ROSTER_CHUNK 49152u /* room for five of the largest cards */

typedef char dp_s64_t[64];
typedef char dp_s256_t[256];
typedef char dp_s1k_t[1024];
typedef char dp_s4k_t[4096];
typedef uint8_t dp_digest_t[DP_DIGEST_BYTES];
typedef uint8_t dp_u8_t;
typedef uint16_t dp_u16_t;
typedef uint32_t dp_u32_t;
typedef uint64_t dp_u64_t;
typedef double dp_f64_t;

#define DP_FIELD_DECL(kind, name, doc) dp_##kind##_t name;

#define DP_MSG_STRUCT_PLAIN(name, NAME) struct dp_msg_##name { DP_##NAME##_FIELDS(DP_FIELD_DECL) };
#define DP_MSG_STRUCT_PLAIN_3(name, NAME) struct dp_msg_##name { DP_##NAME##_FIELDS(DP_FIELD_DECL) DP_##NAME##_SINCE_3(DP_FIELD_DECL) };
#define DP_MSG_STRUCT_OWN(name, NAME) /* below */
#define DP_MSG_STRUCT(name, NAME, number, since, kind) DP_MSG_STRUCT_##kind(name, NAME)
DP_MESSAGES(DP_MSG_STRUCT)

struct dp_msg_ack { DP_ACK_FIELDS(DP_FIELD_DECL) };
struct dp_msg_tasks {
    DP_TASKS_FIELDS(DP_FIELD_DECL)
    uint32_t rank[DP_MAX_WORKERS], pid[DP_MAX_WORKERS];
};
struct dp_msg_hello {
    DP_HELLO_FIELDS(DP_FIELD_DECL)
    DP_HELLO_SINCE_3(DP_FIELD_DECL)
    uint32_t cut[DP_MAX_WORKERS + 1];
    struct dp_change change[DP_CHANGES_MAX];
};
struct dp_msg_report {
    DP_REPORT_FIELDS(DP_FIELD_DECL)
    DP_REPORT_SINCE_3(DP_FIELD_DECL)
    struct dp_layer_load layer[DP_MAX_LAYERS];
};
struct dp_msg_prepare {
    DP_PREPARE_FIELDS(DP_FIELD_DECL)
    DP_PREPARE_SINCE_3(DP_FIELD_DECL)
    uint32_t cut[DP_MAX_WORKERS + 1];
    uint8_t gone[DP_MAX_WORKERS];
};
struct dp_msg_regroup {
    DP_REGROUP_FIELDS(DP_FIELD_DECL)
    uint32_t cut[DP_MAX_WORKERS + 1];
    uint8_t gone[DP_MAX_WORKERS];
};
struct dp_msg_expect {
    DP_EXPECT_FIELDS(DP_FIELD_DECL)
    struct dp_layer_load layer[DP_MAX_LAYERS];
};
struct dp_msg_proposal {
    DP_PROPOSAL_FIELDS(DP_FIELD_DECL)
    uint32_t cut[DP_MAX_WORKERS + 1];
    uint8_t gone[DP_MAX_WORKERS];
};
struct dp_msg_goodbye { DP_GOODBYE_FIELDS(DP_FIELD_DECL) DP_GOODBYE_SINCE_3(DP_FIELD_DECL) };
struct dp_msg_card {
    DP_CARD_FIELDS(DP_FIELD_DECL)
    const uint8_t *key, *card; /* decode: borrowed from the frame; encode: borrowed from the caller */
};
struct dp_msg_roster {
    DP_ROSTER_FIELDS(DP_FIELD_DECL)
    const uint8_t *cards; /* as dp_msg_card.card */
};
struct dp_msg_wireup {
    DP_WIREUP_FIELDS(DP_FIELD_DECL)
    const uint8_t *key; /* as dp_msg_card.key */
};
struct dp_msg_relay {
    DP_RELAY_FIELDS(DP_FIELD_DECL)
    DP_RELAY_SINCE_3(DP_FIELD_DECL)
    const uint8_t *inner; /* decode: borrowed from the frame; encode: borrowed from the caller */
};
struct dp_msg_answer {
    DP_ANSWER_FIELDS(DP_FIELD_DECL)
    const char *json; /* as dp_msg_relay.inner */
};

/* int dp_msg_X_decode(body reader, out, err): 0, or -1 and DP_EPROTO; out is overwritten.
 * void dp_msg_X_encode(body writer, in): too little room sets w->bad.
 * Both in the version of the reader or writer (wire.h). */
#define DP_MSG_CODEC_DECL(name, NAME, number, since, kind)                                         \
    int dp_msg_##name##_decode(struct dp_reader *r, struct dp_msg_##name *m, struct dp_err *err);  \
    void dp_msg_##name##_encode(struct dp_writer *w, const struct dp_msg_##name *m);
DP_MESSAGES(DP_MSG_CODEC_DECL)

struct dp_header {
    uint16_t version, type;
    uint32_t body_len, seq;
};

/* The version to speak with a peer whose highest is this; 0: none. */
uint16_t dp_proto_agree(uint16_t highest);

/* Read and check a header: magic, version, a type that this version has, body_len <= dp_msg_max_body(type), and
 * DP_TAIL_MAX more of a newer peer.
 * returns: 0, or -1 with DP_EPROTO. */
int dp_header_decode(const uint8_t bytes[DP_HEADER_BYTES], struct dp_header *h, struct dp_err *err);
void dp_header_encode(uint8_t bytes[DP_HEADER_BYTES], const struct dp_header *h);

/* Largest body of a type in our own version, 0 for a type that does not exist. */
uint32_t dp_msg_max_body(uint16_t type);

/* The version that a type came with, 0 for one that does not exist. */
uint16_t dp_msg_since(uint16_t type);

/* Turn a body of one version into one of another, what a RELAY carries too; from: a newer one than ours, even.
 * out: cap bytes, DP_BODY_MAX are always enough. from == to: copies, unchecked.
 * returns: 0; 1 when the other version has no such message, or what a RELAY carries is not readable: it is to be
 * dropped, the peer is not to blame; -1 with DP_EPROTO. */
int dp_msg_recode(uint16_t type, uint16_t from, const uint8_t *body, size_t bytes, uint16_t to, uint8_t *out, size_t cap,
                  size_t *out_bytes, struct dp_err *err);

/* Name of a type ("HELLO"), "?" when there is none. */
const char *dp_msg_name(uint16_t type);

/* Names of the enums above for people ("release", "start"); "?" when out of range. The
 * parsers return the value, or -1 when the text names none. */
const char *dp_mode_name(unsigned mode);
const char *dp_reference_name(unsigned reference);
int dp_mode_parse(const char *text);
int dp_reference_parse(const char *text);

#endif
