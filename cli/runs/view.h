/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the picture of a run, shared by `dynpipe status -j` and `dynpipe watch`. Each appends
 * whole lines to the canvas and shows nothing for keys that the document lacks. */
#ifndef DP_CLI_RUNS_VIEW_H
#define DP_CLI_RUNS_VIEW_H

#include <jansson.h>

#include "cli/ask/history.h"
#include "cli/show/canvas.h"

/* Who, how far, loss, sparsity, speed, devices, time and device-seconds beside a fixed layout: 4 lines, or more. */
void dp_view_head(struct dp_canvas *c, const json_t *run);
/* What the trainer says of steps to come: a line for each of the first ones. */
void dp_view_expected(struct dp_canvas *c, const json_t *run);
/* Of an observed run: the layout that it should begin again with, as programs take it. */
void dp_view_proposal(struct dp_canvas *c, const json_t *run);
void dp_view_trainer(struct dp_canvas *c, const json_t *run); /* one that is not ours, and what follows from what it cannot */

/* A heading and one line for each worker from `first` on, at most `rows` lines in all. */
void dp_view_workers(struct dp_canvas *c, const json_t *run, size_t first, size_t rows);

/* The layout as a row of segments, as wide as their number of layers: 1 line, or none. */
void dp_view_layout(struct dp_canvas *c, const json_t *run);

/* Loss over steps and devices held over time, side by side: rows + 1 lines. */
void dp_view_curves(struct dp_canvas *c, const json_t *run, const struct dp_history *h, size_t rows);

/* Slots of the job with their states: 1 line, or none. */
void dp_view_slots(struct dp_canvas *c, const json_t *run);

/* Nodes of which nothing is heard, since when and why: at most max_lines lines, none where all are there. */
void dp_view_missing(struct dp_canvas *c, const json_t *run, size_t max_lines);

/* Of a run whose layers have copies: how many, what they cost, and in a second line what is in the way; where max_lines is more than
 * two, a line for each worker. */
void dp_view_copies(struct dp_canvas *c, const json_t *run, size_t max_lines);

/* Workers that were lost while the others went on, and from where these did: a line for each loss. */
void dp_view_losses(struct dp_canvas *c, const json_t *run);

/* The last decision, in at most max_lines lines. */
void dp_view_decision(struct dp_canvas *c, const json_t *run, size_t max_lines);

/* What was promised of the newest move and what came of it, in wall time; where max_lines is 1, one line. */
void dp_view_promise(struct dp_canvas *c, const json_t *run, size_t max_lines);

/* Of a run that may ask for more slices: the newest request, why, and what became of it; in at most max_lines lines, with the newest
 * decision as well where these are more than two. */
void dp_view_growth(struct dp_canvas *c, const json_t *run, size_t max_lines);

/* The last checkpoint, and the state where it says more than a word; each in at most max_lines lines. */
void dp_view_last(struct dp_canvas *c, const json_t *run, size_t max_lines);

#endif
