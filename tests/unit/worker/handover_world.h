/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the hand-over share. Workers are forked, with the real transport, control connection and layers
 * (handover_worker.c); another process plays the daemons and the coordinator over a real socket (handover_daemons.c).
 * A layer is what its index and a seed define: weights, both moments, sparse patterns, random state. */
#ifndef DP_TESTS_HANDOVER_WORLD_H
#define DP_TESTS_HANDOVER_WORLD_H

#include "tests/unit/worker/fakedaemon.h"
#include "tests/unit/worker/procs.h"
#include "tests/unit/unit.h"
#include "worker/handover/handover.h"

#define MAX_PROCS 4
#define EPOCH 7
#define MS UINT64_C(1000000)
#define MIGRATION 3

enum ending { COMMITTED, ABORTED, FATAL };

/* A bit of a chunk is another one; two chunks change places; one comes twice, in place of the next; one gets lost; the manifest
 * says another sum of bytes, too little memory, or another number of weights in a tensor than there is. */
enum tampering { FLIP, SWAP, TWICE, LOSE, LIE_BYTES, LIE_STATE, LIE_WEIGHTS };

/* What a test is: filled before the fork, the same in every process. */
struct scenario {
    uint32_t n_workers;
    uint32_t old_cut[MAX_PROCS + 1], new_cut[MAX_PROCS + 1];
    uint8_t gone[MAX_PROCS];
    enum ending ending[MAX_PROCS];
    int want[MAX_PROCS];          /* exit status, 256 + signal */
    enum dp_errcode fatal_code;   /* of FATAL */
    const char *why;              /* part of the text of an abort */
    bool waits_for_decision;      /* an abort is acknowledged before the worker ends */
    bool commits_later;           /* dp_handover_poll() must refuse a commit that nobody voted for */
    uint64_t mem_limit_bytes;     /* of every worker */
    int dies, stalls;             /* rank that is killed at its first chunk; that waits with its first chunk until its
                                     line is down */
    int tampers;                  /* rank on whose way something is not as it was: */
    enum tampering tampering;
    uint32_t at_chunk, at_bit;    /* FLIP: of its first stream; of the chunk, modulo its length */
    int stops;                    /* rank that is stopped (SIGSTOP) at its first chunk */
    int waits;                    /* rank that waits with its first chunk for a byte from the script */
    int back[2];                  /* pipe: for `waits` */
    int pipe[2];                  /* a byte from the worker that stalls, and one from each that returned
                                     from its hand-over */
    struct dp_handover_times times;
    void (*script)(void);         /* the daemons */
    procs_body_fn *body;          /* of the workers, NULL: one hand-over, then the checks of its ending */
    int64_t channels;
    uint32_t frozen;              /* layers of the model that only go forward */
    bool is_late;                 /* on the device of tests/lib/late_backend.c; see on_late_devices() */
    int fails;                    /* rank whose device fails in the hand-over, at this piece of work, 0: none */
    uint32_t fails_at;
};
extern struct scenario sc;

extern struct fake_daemon d;
extern struct fake_peer peer[MAX_PROCS];
extern uint64_t migration, epoch; /* of the script; only the long run changes them */
extern struct dp_train_config config;
extern struct dp_tune tune;

/* From here on all workers have one; the build has to say where its file is. */
void on_late_devices(void);

/* ---- a worker ---- */

struct worker_state {
    struct dp_transport *t;
    uint32_t rank;
    struct dp_backend *be;
    struct dp_stage *stage;
    struct dp_control *control;
    struct dp_handover *h;
    struct dp_layout layout;
};

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "# worker %u, line %d: not true: %s\n", w->rank, __LINE__, #cond);     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

void set_model(int64_t channels);
uint64_t mix(uint64_t x);
/* A stage of w's own part of its layout, on its device. returns: 0, or 1. */
int make_stage(struct worker_state *w);
/* A worker of the old layout, with a device unless it has one. returns: 0, or 1. */
int set_up(struct worker_state *w);
/* Every layer of the layout's part is here, in order, unharmed. */
int check_stage(struct worker_state *w);
int poll_until(struct worker_state *w, int state, struct dp_err *err);
void tear_down(struct worker_state *w);
/* Nobody goes before all are done, as in a run; the dead are not waited for. */
void meet(struct dp_transport *t, uint32_t rank);
int worker(struct dp_transport *t, uint32_t rank);

/* ---- the daemons ---- */

void must(int ok, int line);
#define MUST(cond) must((cond), __LINE__)

/* All workers connect; which one is which is in its HELLO. */
void accept_all(uint64_t doubt);
void all_die(void);
struct dp_msg_prepare prepare(void);
void prepare_all(void);
void decide_all(uint32_t incarnation, bool commits);
void finish_all(void);
struct dp_msg_vote vote_of(uint32_t rank);
void all_vote_yes(void);
void votes_no(uint32_t rank);
void all_acknowledge(uint64_t in_force);
void all_checked(void);
/* The workers end by themselves: stay until the last line is closed. */
void stay(void);

/* ---- scenarios ---- */

void run(void);
/* Three workers, eight layers; layers 2 and 3 go from 0 to 1, 5 from 1 to 2. */
void begin(void (*script)(void), enum ending ending);

#endif
