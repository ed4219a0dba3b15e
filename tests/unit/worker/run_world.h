/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole run whose workers are processes, with real messages between them, and whose coordinator and daemons are played by the test:
 * hand-overs, lost workers, and newcomers that take the places of those. One run at a time. What never comes fails the test. */
#ifndef DP_TESTS_RUN_WORLD_H
#define DP_TESTS_RUN_WORLD_H

#include <sys/types.h>

#include "tests/unit/unit.h"
#include "tests/unit/worker/fakedaemon.h"

#define WORLD_SEATS 8
#define WORLD_LAYERS 6 /* of its model: embedding, 4 blocks, head */
#define WORLD_NOBODY UINT32_MAX

/* What a run is. All borrowed, and the same until it has ended. */
struct world_run {
    const char *name;           /* of its files */
    uint32_t n_seats, n_there;  /* seats; of which the first so many are taken from the beginning. 1, 1: a worker alone */
    const char *const *options; /* section.key=value, beside those that every run here has */
    uint32_t n_options;
    uint64_t layer_bytes; /* of each, for PREPARE; 0: it does not say what comes */
    void (*in_worker)(uint32_t rank); /* called in each worker's process before it trains; NULL: nothing is */
};

struct world_seat {
    pid_t pid;         /* of the process that has it, or had it last; 0: nobody ever */
    bool is_member;    /* in the layout */
    bool is_there;     /* has said HELLO, and its line is open */
    bool is_dead;      /* has ended, as `status` says */
    int status;        /* of waitpid() */
    struct fake_peer peer;
    uint32_t card_bytes;
    uint8_t card[4096];
    uint64_t acked_epoch, acked_migration; /* its newest DECISION_ACK */
    uint64_t voted;    /* hand-over of its newest vote */
    bool is_yes;
    int bye;           /* enum dp_goodbye, -1: not said */
    char why[256];     /* it has said that it failed, or voted no */
    uint64_t step, report_epoch; /* its newest report */
    uint32_t copy_layers, copy_whole;
};

struct world {
    struct fake_daemon daemon;
    const struct world_run *run;
    struct world_seat seat[WORLD_SEATS];
    uint64_t epoch, migration; /* in force; the highest that was used */
    uint32_t cut[WORLD_SEATS + 1];
    struct dp_msg_event regrouped; /* the newest one; kind 0: none since the newest REGROUP */
    char log[128], checkpoints[128], errors[128]; /* files of this run */
};
extern struct world world;

/* For a group of tests: the daemon's socket and a text to learn; and no more of them. */
int world_set_up(void **state);
int world_tear_down(void **state);

/* Fork all that are there, and let them in. */
void world_start(const struct world_run *run);
/* Hear what workers say, for that long at most; take note of those who have ended. */
void world_serve(int ms);
/* Until cond: everybody is served, and what is not so after two minutes fails the test. */
#define WORLD_UNTIL(cond)                                                                          \
    do {                                                                                           \
        uint64_t world_begin_ns = dp_now_ns();                                                     \
        while (!(cond)) {                                                                          \
            world_check_time(world_begin_ns, #cond, __FILE__, __LINE__);                           \
            world_serve(20);                                                                       \
        }                                                                                          \
    } while (0)
void world_check_time(uint64_t begin_ns, const char *what, const char *file, int line);

/* The lowest member that lives. */
uint32_t world_leader(void);
uint32_t world_n_members(void);
/* Has a member ended that no REGROUP has taken out? */
bool world_has_lost(void);
/* kill -9, and wait until that is seen. */
void world_kill(uint32_t rank);

/* A process in a seat that is free: returns when it waits to be taken in. Above the leader's rank: whoever joins never leads at once. */
void world_newcomer(uint32_t rank);

enum world_end { WORLD_COMMITTED, WORLD_ABORTED, WORLD_LOST };
/* PREPARE to all, and no more. cut: of all seats. joins: a newcomer that is taken in, or WORLD_NOBODY. */
void world_prepare(const uint32_t *cut, uint32_t joins);
/* The rest of the hand-over that was prepared last: votes, decision, FINISH. WORLD_LOST: a member ended meanwhile; decided or not, the
 * next is a REGROUP. */
enum world_end world_decide(void);
/* As world_decide(), but it is aborted though all have voted yes. */
enum world_end world_refuse(void);
enum world_end world_hand_over(const uint32_t *cut, uint32_t joins);
/* Members that have ended leave, and the others go on in `cut`. Again where another one ends meanwhile: more NULL, or what the cuts are
 * then. Returns when they train again. */
void world_regroup(const uint32_t *cut, void (*more)(uint32_t *cut));
/* Cuts by chance for the members that live, and `joins`; other ones than those in force, unless one is left. seed: goes on. */
void world_random_cut(uint64_t *seed, uint32_t joins, uint32_t *cut);
/* Until all layers have whole copies, in the layout in force, or a member has ended. Only in runs with copies. */
void world_await_copies(void);
/* All stop at a boundary, and end well; nobody has ever found a copy that was not its layer. */
void world_stop(void);
/* Kill whoever is left, at the end of a test that failed. */
void world_clear(void);

/* loss[1 to n] of the log of this run, each step's, and each the same where it is there again; *lines: how many there are. The caller
 * frees it. */
double *world_losses(const char *log, uint32_t *n, uint32_t *lines);
/* The losses of this run, which has ended, are bit for bit those of a worker alone with the same options, which is played now.
 * returns: steps. */
uint32_t world_compare_alone(void);
/* Lines of the log that have both. */
uint32_t world_count(const char *log, const char *one, const char *other);

#endif
