/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sources of slices.h share: what is known of a slice, or of home, and what they ask of each other. */
#ifndef DP_DAEMON_RUN_SLICING_H
#define DP_DAEMON_RUN_SLICING_H

#include "daemon/run/slices/slices.h"

#define SLICING_SEEK_NS (10 * DP_SECOND_NS) /* home does not answer: is it still home? */

struct dp_slicing {
    /* Of a slice. */
    uint8_t state; /* enum dp_slice_state */
    uint32_t pid, step_id;
    bool is_back;  /* its worker is in a run, and comes back to a daemon that does not know it */
    struct dp_place back; /* is_back: which place it says that it has there */
    bool is_claimed;      /* RANKED by its worker's word alone, for a daemon that is to coordinate: not confirmed yet */
    uint64_t claimed_ns;  /* or when that daemon asked last */
    uint64_t start_ticks, since_ns, heard_ns, asked_ns;
    uint32_t tried_step; /* the step of which somebody spoke last, since when */
    uint64_t tried_ns;
    uint32_t home_job;
    char home_node[64];
    uint64_t home_ns; /* when Slurm was asked which one it is */
    /* Home is over: slices of its run are asked one after the other where that is now. */
    bool is_via;             /* home_job and home_node are such a slice's */
    bool is_told;            /* one has said it */
    uint32_t home_restarts;  /* told: which life of home's job the run has its name of */
    struct dp_place told;    /* and the place of the slice that was asked */
    uint32_t n_via, n_none;  /* asked so far; of these in a row so many are in no run */
    bool is_via_companion;   /* it is one of an array's */
    uint32_t n_silent;       /* of those so many in a row have not answered */
    struct dp_place place;
    char text[256];

    /* What Slurm said of the array, or of home and its companions. */
    struct dp_helper *reader;
    bool has_seen;
    uint64_t next_ns; /* not asked before */
    uint64_t read_ns; /* when it was asked last */
    uint64_t seen_ns; /* when what it has said was asked; 0: it has not */
    struct dp_slices_result seen;

    /* Of home; NULL: nobody has asked it. */
    struct dp_group *group;
    bool has_asked;          /* for companions, since the run began, or this daemon */
    uint32_t n_asked;        /* so many, when the coordinator wanted so many slices */
    uint32_t wanted;
    uint32_t grows;          /* number of the coordinator's request that was asked for with them; 0: none was under way */
    uint64_t missed_ns, replaced_ns, pause_ns; /* since when slices are missing; asked for others last; not again for so long */
    bool is_all_over;        /* no slice of a run that outlives its job is left in Slurm */
    bool is_told_stop;       /* the coordinator, because the job, or array, that asked for the others was cancelled or requeued */
    bool has_job, must_read; /* the coordinator waits for what the slices are; must: a question that is older is under way */
    struct dp_job_info job;
};

struct dp_slicing *slicing_of(struct dp_run *run); /* made when it is needed; NULL: no memory */

/* --- find_home.c --- */

/* What the slices of one run have in common: the id of the array, or of the job that asked for the others. */
uint32_t slicing_family(const struct dp_run *run);
/* May a run have this job's name? A task of an array may begin first; else it is a job that is no companion itself. */
bool slicing_may_be_home(const struct dp_run *run);
/* Of the same family, and owner: one question to Slurm is for both. */
bool slicing_are_of_one(const struct dp_run *a, const struct dp_run *b);
/* May this slice be of a run that has its name of that life of home's job? Slurm shows companions of all lives. */
bool slicing_is_of_life(const struct dp_slices_result *seen, const struct dp_slice *slice, uint32_t restarts);
/* Which of them is home, by what Slurm says of it alone: its index, -1: none can be told. */
int slicing_find_home_at(const struct dp_run *run, const struct dp_slices_result *seen);
/* Slurm has answered: a slice that has no rank yet looks where its run is. */
void slicing_find_home(struct dp_run *run, const struct dp_slices_result *seen);
/* Another slice's daemon, or this one, knows where the run is. place: of the slice that was asked, NULL: none was. */
void slicing_be_told(struct dp_run *run, uint32_t home_job, uint32_t restarts, const char *node, const struct dp_place *place);

/* --- slices_read.c --- */

void slicing_read(struct dp_run *run); /* ask Slurm, unless it was asked just now */
/* Of those that Slurm showed home the ones that may be of its run: companions of the life of its job that the run is of. *n: how many.
 * Valid until the next call. */
const struct dp_slice *slicing_seen_of(const struct dp_run *home, uint32_t *n);

/* --- at_home.c --- */

/* A slice asks for its rank; its daemon on `node` speaks for it. *out: overwritten. */
void slicing_ask_home(struct dp_run *home, const char *node, const struct dp_msg_slice *m, struct dp_msg_slice_rank *out);
/* Where is the run that this slice has its rank in? *out: overwritten. */
void slicing_tell_where(const struct dp_run *slice, const struct dp_msg_slice *m, struct dp_msg_slice_rank *out);
/* The group is closed, if it is time. The coordinator's journal has the slots before a rank is told. */
void slicing_close_group(struct dp_run *home);

/* --- slice.c --- */

/* The daemon of `node` asks where this slice's run is: may it be answered? What rests on the worker's word is said to nobody but the
 * daemon that it is claimed of, to which this one then looks for a while. */
bool slicing_may_tell(struct dp_run *slice, const char *node);
void slicing_tick_slice(struct dp_run *run, uint64_t now_ns); /* about every 100 ms: it seeks its rank, or whether its run is still there */

/* --- want.c --- */

/* Its run's array may have companions, or it is one: its daemon looks for them among all jobs of the user. */
bool slicing_looks_for_companions(const struct dp_run *run);

/* A job that is no task of an array, and no companion, asks for its companions as soon as it runs: where its run has not begun. */
void slicing_want_companions(struct dp_run *run);
/* Once it trains: as many as it may still have. Those that wait in the queue join when they begin; for one that Slurm took, or whose
 * worker was lost, another one is asked for, and withdrawn when it waits too long. */
void slicing_follow_companions(struct dp_run *home, uint64_t now_ns);

#endif
