/* SPDX-License-Identifier: BSD-3-Clause */
/* What Slurm knows about a job. Blocks (libslurm can take 10 to 60 s): for helper processes only. */
#ifndef DP_DAEMON_CHILD_SLURM_JOB_H
#define DP_DAEMON_CHILD_SLURM_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "common/slurm/job.h"

/* The answer of a helper that reads a job. */
struct dp_job_result {
    uint8_t others;        /* enum dp_others */
    int rc;                /* 0: job is filled in; 1: Slurm knows no such job; -1: Slurm does not answer */
    char text[256];        /* why not; or the state of a job that does not run */
    char proctrack[64];    /* Slurm's plugin that keeps track of a job's processes */
    struct dp_job_info job;
};

/* Other jobs of the same owner, each in one of its lives: */
enum dp_others {
    DP_OTHERS_UNASKED,
    DP_OTHERS_NONE, /* none of them runs in that life */
    DP_OTHERS_RUN,  /* one does, at least */
};

struct dp_job_request {
    uint32_t job_id;
    bool asks_others;
    uint32_t n_others; /* asked for where Slurm knows the job */
    struct {
        uint32_t job_id, restart_count;
    } other[DP_MAX_SLOTS];
};
_Static_assert(sizeof(struct dp_job_request) <= 8192, "a helper takes it");

/* dp_helper_work_fn: struct dp_job_request in, struct dp_job_result out. */
size_t dp_job_read_work(const void *request, size_t bytes, uint8_t *result);

/* The same, in a child that has called dp_slurm_enter() already. */
void dp_job_read(uint32_t job_id, struct dp_job_result *out);

/* What Slurm says of the tasks of an array, or of a job and its companions. */
struct dp_slices_result {
    int rc;                /* as in dp_job_result */
    char text[256];        /* why not */
    uint64_t read_s;       /* when, by the controller's clock */
    bool is_cut;           /* there are more than fit in here */
    bool has_waiting;      /* others wait for their turn; of an array: tasks */
    uint32_t array_job_id; /* the array whose tasks are among them, 0: they are companions of one job */
    bool is_cancelled;     /* of an array with companions: no task runs or waits any more, and the last to end was cancelled */
    bool has_home;         /* companions: the job that they name runs, and names no other one itself; or a task of that array runs */
    bool is_home_queued;   /* it waits, in the queue again */
    uint32_t home_restarts; /* which life of it that is; 0 also where Slurm does not show it, or they are an array's */
    char home_why[100];    /* why it does not */
    uint32_t n;
    struct dp_slice slice[DP_MAX_SLOTS]; /* tasks before companions, else in no order; those with one node; companions of all lives */
};

struct dp_slices_request {
    uint32_t array_job_id, uid; /* uid: the owner that it must have */
    uint32_t home_job;          /* array 0: of companions; an array's id where they are an array's */
    bool has_companions;        /* the array may have some: all jobs of the user are looked through for them */
};

/* dp_helper_work_fn: struct dp_slices_request in, struct dp_slices_result out. */
size_t dp_slices_read_work(const void *request, size_t bytes, uint8_t *result);

/* The same, in a child that has called dp_slurm_enter() already. */
void dp_slices_read(const struct dp_slices_request *q, struct dp_slices_result *out);

/* A job that a comment makes a part of a run (slice_comment.h). */
struct dp_companion {
    struct dp_slice slice; /* node: "" while it waits and has none, not even of a life before; not one that has ended */
    bool is_waiting;       /* slice.is_older: submitted before home's present life began, or that waits to; so no part of it */
    uint64_t submit_s;
    char reason[24];       /* why it waits, "": a rare one */
};

/* The companions of a job, and that job itself; or those of an array, and its tasks. Jobs of one owner; companions are of no array. Who
 * sets the comment of thousands of his jobs has a list that is cut. */
struct dp_companions_list {
    int rc;                /* as in dp_job_result */
    char text[256];
    uint64_t read_s;       /* by the controller's clock */
    struct dp_slice home;  /* job_id 0: it was not shown, or they are an array's */
    bool is_array, has_waiting_tasks; /* of an array that Slurm knows: is_array */
    bool is_cancelled;     /* as in dp_slices_result */
    uint32_t n_tasks;
    struct dp_slice task[DP_MAX_SLOTS]; /* that have begun and are not over */
    bool is_home_queued;
    uint32_t home_is_slice_of;
    bool is_cut;
    uint32_t n_ended;      /* that were submitted in home's present life (of an array: ever), at since_s or later */
    uint32_t n;
    struct dp_companion job[DP_MAX_SLOTS]; /* in no order */
};

/* In a child that has called dp_slurm_enter(). Slurm is asked for all jobs of the user. home_job: a job's id, or an array's. */
void dp_companions_read(uint32_t home_job, uint32_t uid, uint64_t since_s, struct dp_companions_list *out);

/* The user's other jobs that run on a node now. returns: how many, at most cap; 0 when Slurm does not say. */
uint32_t dp_job_list_others(uint32_t uid, uint32_t job_id, const char *node, uint32_t *out, uint32_t cap);

/* In a child: away from the user's folder and environment (scontrol's library writes files into the
 * current folder when SLURM_JOBID is set), then open libslurm. Keeps SLURM_CONF. */
void dp_slurm_enter(void);

#endif
