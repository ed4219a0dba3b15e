/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run's document (DP_QUERY_STATUS) says, in the words of the screen. */
#ifndef DP_CLI_ASK_RUN_H
#define DP_CLI_ASK_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/show/canvas.h"
#include "cli/show/table.h"

/* Columns of `dynpipe status`, and the format used where none is given. */
extern const struct dp_column dp_run_columns[];
extern const char dp_run_format[];

/* Texts for a cell, made harmless for a terminal and cut to cap bytes with the NUL; "-" where the run does not say.
 * Return out. The user: the name that the document or this machine's accounts have, else the uid. */
char *dp_run_user(char *out, size_t cap, const json_t *run);
char *dp_run_layout(char *out, size_t cap, const json_t *run);
/* How many devices the run held over time: entry i of dp_run_held_count(), each valid from its time (in
 * the run's own clock, seconds) to the next one's. */
size_t dp_run_held_count(const json_t *run);
void dp_run_held(const json_t *run, size_t i, double *t_s, double *held);
/* Devices held now and at the start; NaN when unknown. */
double dp_run_devices(const json_t *run);
double dp_run_devices_at_start(const json_t *run);
/* "layers 0-3 of 14": those that only go forward. returns false: none does, and out is "". */
bool dp_run_frozen(const json_t *run, char *out, size_t cap);

/* tokens/s now over those of the layout that the run started with, at the same sparsity; NaN when unknown. */
double dp_run_gain(const json_t *run);
/* Bits per byte: what the run says, else NaN. */
double dp_run_bits_per_byte(const json_t *run);
/* Layers of a worker; NaN when unknown. */
double dp_run_worker_layers(const json_t *worker);
/* Has the run ended? Its last state is then final. */
bool dp_run_is_over(const json_t *run);
/* Have all of its workers left? */
bool dp_run_is_deserted(const json_t *run);
/* Did it end badly? */
bool dp_run_has_failed(const json_t *run);
/* Colour of a run's state: bad, good, or of no concern. */
enum dp_style dp_run_state_style(const json_t *run);

#endif
