/* SPDX-License-Identifier: BSD-3-Clause */
/* Companions: jobs like home's that its daemon asks of Slurm in the owner's name, to be slices of its run (doc/design.md, "Slices"): as
 * many as a job of no array begins with, and those with which it, or the tasks of an array, may grow.
 *
 * Somebody says how many there shall be, and reads what became of it. Slurm is asked in a child with the owner's rights
 * (ask_slices.h), never here, at most one at a time for a run, and again while companions wait: they begin, are refused, or wait
 * longer than they may and are withdrawn. Nothing of it is kept on disk: which there are Slurm knows, by the comments of the jobs.
 */
#ifndef DP_DAEMON_RUN_COMPANIONS_H
#define DP_DAEMON_RUN_COMPANIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct dp_run;
struct dp_companions;

enum dp_companions_state {
    DP_COMPANIONS_NONE,      /* nobody has asked */
    DP_COMPANIONS_ASKING,    /* Slurm has not answered yet to all that was asked */
    DP_COMPANIONS_WAIT,      /* as many as wanted are there, and some of them wait in the queue */
    DP_COMPANIONS_THERE,     /* none waits any more: they run, or have ended */
    DP_COMPANIONS_REFUSED,   /* Slurm gives fewer: text says why. Those that wait are waited for */
    DP_COMPANIONS_WITHDRAWN, /* they waited too long; those that did not begin were cancelled */
};

struct dp_companions_view {
    enum dp_companions_state state;
    uint32_t wanted, n_waiting, n_running, n_ended; /* as Slurm said last */
    uint64_t waiting_since_ns;  /* since when the oldest that waits does; 0: none */
    char text[256];             /* for people: what Slurm refuses, or why they wait; "": nothing */
};

/* There shall be n companions, waiting and running together: what is missing is submitted, what waits beyond that is withdrawn,
 * the newest first; none that runs is ended. Said again with another n it counts from then on; after a refusal, or where they were
 * withdrawn, it is asked anew.
 * since_s: companions that were submitted then or later and have ended count as well, so that what fails at once is not asked for
 * again and again; by the controller's clock, 0: all of home's present life.
 * wait_ns: for so long they may wait in the queue; 0: for ever.
 * home: a run of this node's that coordinates. Of an array, where home's own task is over, others are like another task of it on this
 * node; as long as there is none, nobody is asked, and it is DP_COMPANIONS_ASKING. returns -1: no memory. */
int dp_companions_want(struct dp_run *home, uint32_t n, uint64_t since_s, uint64_t wait_ns);

/* Those that wait are withdrawn, and nothing more is asked for; what Slurm said of them stays to be read. */
void dp_companions_stop(struct dp_run *home);

/* What became of it: *out is overwritten; all zeroes where nobody has asked. */
void dp_companions_look(const struct dp_run *home, struct dp_companions_view *out);
/* Is it a job that shall be several slices, and of no array, and no companion itself? Or a task of an array whose run may grow? */
bool dp_companions_may_be(const struct dp_run *run);
/* Has somebody asked; may some run that are not in an answer of Slurm's which was asked for at asked_ns? */
bool dp_companions_are_wanted(const struct dp_run *home);
bool dp_companions_may_come(const struct dp_run *home, uint64_t asked_ns);
/* One line of what became of them; "": all is well, or nobody has asked. */
void dp_companions_tell(const struct dp_run *home, char *out, size_t cap);
json_t *dp_companions_json(const struct dp_run *home); /* new reference; NULL: nobody has asked */

/* Mark the jobs of a run in their comments: home, and its n slices (home may be among them). Whatever becomes of it, nothing else
 * depends on it. */
void dp_companions_mark(struct dp_run *home, const uint32_t *slice, uint32_t n);
/* Slurm has been asked again about the job of a slice, in the same life, in which its comment named slice_of before (0: nothing). An
 * owner may change the comment of his job: it stays a companion, and its mark is added again, once, behind what he wrote. */
void dp_companions_keep_mark(struct dp_run *slice, uint32_t slice_of);

void dp_companions_tick(struct dp_run *home, uint64_t now_ns); /* about every 100 ms */
/* The run is over: those that wait are withdrawn, by a child that is left to it, also those for which a daemon before this one asked.
 * Those that run end when their workers hear it. */
void dp_companions_end(struct dp_run *home);
void dp_companions_destroy(struct dp_run *home); /* forget it all, and leave them be */

#endif
