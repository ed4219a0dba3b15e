/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the shared object share: the handle, and how a call enters it. Nothing in here is exported. */
#ifndef DP_LIB_DYNPIPE_INTERNAL_H
#define DP_LIB_DYNPIPE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/dynpipe.h"
#include "lib/member.h"
#include "lib/window.h"

/* Of the hand-over that was prepared last. */
enum stage_of_handover {
    HANDOVER_NONE,
    HANDOVER_PREPARED, /* its plan was given out: a yes may be said */
    HANDOVER_DOUBT,    /* a yes was said */
    HANDOVER_DECIDED,  /* and this worker has not said dynpipe_done() */
};

struct dynpipe {
    atomic_bool is_inside; /* a thread is */
    pid_t pid;             /* of the process that joined */
    int saved_errno;       /* of the caller who is inside */
    struct dp_control *control;
    struct dp_layout layout; /* in force */
    struct dp_member member;
    struct dp_window *window;
    uint32_t traits, rank, microbatches;
    uint64_t step, steps_total; /* completed, as reported last; of the whole run */
    double loss;                /* the last that was known; NAN */
    enum stage_of_handover stage;
    int answer;              /* of a hand-over that is decided: enum dynpipe_answer */
    bool must_end;           /* dynpipe_why() said why */
    uint32_t plan_cut[2][DYNPIPE_MAX_WORKERS + 1]; /* of the plan that was given out last: in force, new */
    uint8_t plan_gone[DYNPIPE_MAX_WORKERS];
    struct dp_layer_load *load; /* [n_layers], of one call */
    char why[1024];
};

enum dp_entry {
    DP_ENTERED,  /* dp_handle_leave() has to follow */
    DP_STRANGER, /* no handle, or a child of the process that joined */
    DP_BUSY,     /* another thread is inside */
};

/* Enter for a call that says why it failed: forgets what the one before said. */
enum dp_entry dp_handle_enter(struct dynpipe *d);
/* Enter for one that only looks. returns: the handle as the call may use it, NULL: not entered. */
struct dynpipe *dp_handle_look(const struct dynpipe *d);
/* The end of either. The caller's errno is as it was. */
void dp_handle_leave(struct dynpipe *d);

/* A text for dynpipe_why(). returns: -1 */
int dp_handle_why(struct dynpipe *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Read a caller's struct that begins with its size into out, which is of our size: zeros for what it lacks.
 * returns: 0, or -1 with DP_EINVAL: the size is none, or there are fields behind ours that are not 0. name: for people. */
int dp_struct_read(void *out, size_t bytes, const void *in, const char *name, struct dp_err *err);
/* Write one for a caller, who set its size: as much of it as he has, and zeros behind what we have. in: begins with its size, which
 * is not written. returns: as above. */
int dp_struct_write(void *out, const void *in, size_t bytes, const char *name, struct dp_err *err);

/* A run as its caller describes it, checked: what the daemon is told, and the layout. returns: 0, or -1 with DP_EINVAL. */
int dp_run_read(const struct dynpipe_run *in, struct dynpipe_run *run, struct dp_msg_hello *hello, struct dp_layout *layout,
                struct dp_err *err);

/* The plan of a layout: for the caller, in the handle's own arrays. */
int dp_plan_fill(struct dynpipe *d, const struct dp_layout *next, const struct dynpipe_plan *numbers, struct dynpipe_plan *out,
                 struct dp_err *err);

#endif
