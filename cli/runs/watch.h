/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of dynpipe watch: what is known of the run, and the two ways to show it. */
#ifndef DP_CLI_RUNS_WATCH_H
#define DP_CLI_RUNS_WATCH_H

#include <stdio.h>

#include "cli/ask/history.h"
#include "cli/command/command.h"

enum { DP_WATCH_LINES = 64, DP_WATCH_TEXT = 1200 };

/* Lines of what happened, the newest last; the oldest fall off. */
struct dp_watch_log {
    size_t n; /* lines ever written */
    struct {
        int style; /* enum dp_style */
        char time[16], text[DP_WATCH_TEXT];
    } line[DP_WATCH_LINES];
};

struct dp_watch {
    const struct dp_cli *cli;
    uint32_t job_id;
    FILE *replay;             /* --from, else NULL */
    json_t *run, *before;     /* the newest document and the one before; NULL: none yet */
    struct dp_history history;
    struct dp_watch_log log;
    unsigned unknown;         /* answers in a row that said: no such run */
    uint64_t empty_since_ns;  /* since when no worker is left, 0: one is */
    uint64_t silent_since_ns; /* first failure in a row, 0: the last answer was fine */
    char trouble[600];        /* why the newest answer is missing, empty: it is not */
};

enum dp_watch_state {
    DP_WATCH_NEW,   /* run and before have moved on */
    DP_WATCH_NONE,  /* no answer this time; trouble says why */
    DP_WATCH_OVER,  /* as NEW, and the run has ended; or the daemon has forgotten it */
    DP_WATCH_ERROR, /* err says why it makes no sense to go on */
};

/* Ask the daemon once, or take the next document of a replay. w->run: the newest document, of the watch; err is only set with
 * DP_WATCH_ERROR. */
enum dp_watch_state dp_watch_poll(struct dp_watch *w, struct dp_err *err);

/* Time of the newest document for the start of a line: the run's own clock, else the wall's. */
void dp_watch_time(const struct dp_watch *w, char *out, size_t cap);

/* Show until the run ends or the user has had enough. */
enum dp_exit dp_watch_plain(struct dp_watch *w);
enum dp_exit dp_watch_screen(struct dp_watch *w);

#endif
