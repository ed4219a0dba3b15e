/* SPDX-License-Identifier: BSD-3-Clause */
/* The group of slices that one run is made of: tasks of a job array, each a job with one worker on one node. Who may join,
 * when nobody is waited for any more, and which rank each has then.
 *
 * Which jobs there are, where, and whose array it is, Slurm says (struct dp_slice, read anew): a job that it does not show
 * on the node from which somebody speaks has no part in it, whatever a message says. Ranks are given when the group is closed, to those who
 * have joined, so that they are dense; the first is home's, whose daemon keeps the group and coordinates the run. The seats that are
 * left are for those who come later, and so are those whose slices have gone: the coordinator gives them (dp_coord_seat()).
 *
 * Nothing here knows of connections, clocks or files.
 */
#ifndef DP_DAEMON_RUN_GROUP_H
#define DP_DAEMON_RUN_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "daemon/child/slurm_job.h"

enum dp_group_state {
    DP_GROUP_GATHERING,
    DP_GROUP_CLOSED, /* the members have their ranks */
    DP_GROUP_FAILED, /* text says why */
};

struct dp_group_member {
    uint32_t job_id, restart_count, step_id, pid; /* pid 0: as a journal had it */
    char node[64];
};

struct dp_group {
    enum dp_group_state state;
    uint32_t home_job;
    uint32_t wanted, least; /* slices: closed with so many at once, with so many when the time is over */
    uint32_t seats;    /* that there are for slices then: `wanted`, or more */
    uint32_t possible; /* slices that run, of an array of which no task waits; UINT32_MAX: others may come */
    uint64_t wait_ns, began_ns; /* of that time; began 0: nobody has joined yet */
    uint32_t n;       /* closed: seats */
    uint32_t n_there; /* closed: of them, those that were taken then */
    bool has_step;    /* closed: the step of home's worker is known, under which all are; after a restart it may not be yet */
    uint32_t step_id;
    struct dp_group_member member[DP_MAX_SLOTS]; /* closed: index = rank; job_id 0: an empty seat */
    char text[256];
};

/* Did a begin before b? Of one second the lower task of an array. */
bool dp_group_began_before(const struct dp_slice *a, const struct dp_slice *b);
/* The slice of this job among those; NULL: Slurm does not show it. */
const struct dp_slice *dp_group_find_slice(const struct dp_slice *slice, uint32_t n, uint32_t job_id);

/* Which slice is home: of the tasks that run the one that began first, and of several that began in one second the lowest
 * task of the array. read_s: when Slurm said so, by the controller's clock. returns its index; -1: none runs, or one that
 * begins now may still be the first. */
int dp_group_home(const struct dp_slice *slice, uint32_t n, uint64_t read_s);

/* Nobody has joined. 1 <= least <= wanted <= seats <= DP_MAX_SLOTS; seats beyond `wanted` are for a run that may grow. */
void dp_group_init(struct dp_group *g, uint32_t home_job, uint32_t wanted, uint32_t least, uint32_t seats, uint64_t wait_ns);

/* The worker of slice m->job_id asks for its rank, from m->node; m->restart_count is what its daemon was told by Slurm. Said
 * again it changes nothing; before the group is closed another process of the slice takes its place.
 * slice, n: as Slurm said. returns: 0; 1: the group is closed, and it has no seat; or -1 and why it is refused: DP_EAUTH: it will
 * never be taken; DP_EGONE: Slurm does not show it so, which may be older than the slice. */
int dp_group_join(struct dp_group *g, const struct dp_slice *slice, uint32_t n, const struct dp_group_member *m,
                  uint64_t now_ns, struct dp_err *err);
/* Of a closed group: this seat is m's from here on. rank < g->n. */
void dp_group_seat(struct dp_group *g, uint32_t rank, const struct dp_group_member *m);
/* Closed, as a coordinator's journal has its slots (job->slice, in the order of ranks): the first process of each that asks
 * again from there has its rank. step_id: of home's worker, as the journal has it; NULL: it has none yet. */
void dp_group_restore(struct dp_group *g, uint32_t home_job, const struct dp_job_info *job, const uint32_t *step_id);
/* The process has ended. Counts before the group is closed only. */
void dp_group_leave(struct dp_group *g, uint32_t job_id, uint32_t pid);
/* Whose jobs do not run any more, or were requeued since, leave. has_waiting: tasks of the array have not begun yet. Counts before
 * the group is closed only. */
void dp_group_keep(struct dp_group *g, const struct dp_slice *slice, uint32_t n, bool has_waiting);
/* Close it, if it is time and home's worker is there; or it fails, as soon as there cannot be enough of them. returns: was it
 * closed, or has it failed, just now? */
bool dp_group_tick(struct dp_group *g, uint64_t now_ns);

/* Of a closed group: the rank of a slice, -1: it has none. */
int dp_group_rank(const struct dp_group *g, uint32_t job_id);
/* Of a closed group: the job of its run, slots in the order of ranks. home: the job of the slice that is home. */
void dp_group_job(const struct dp_group *g, const struct dp_job_info *home, struct dp_job_info *out);
/* Of a closed group: those slots of its run whose jobs are not over, for the coordinator (ops.read_job). home: as it is read
 * now. A slice that was requeued is over when nothing of it is left: its next life has no part in the run. */
void dp_group_job_now(const struct dp_group *g, const struct dp_job_info *home, const struct dp_slice *slice, uint32_t n,
                      struct dp_job_info *out);

#endif
