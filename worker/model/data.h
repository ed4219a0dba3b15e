/* SPDX-License-Identifier: BSD-3-Clause */
/* Training text, sampled so that every worker of any layout sees the same tokens.
 *
 * Each worker maps the file and computes a microbatch from (seed, step, microbatch, row) alone:
 * nothing has to be sent, and a resumed run goes on exactly where it stopped. Text is read as bytes;
 * a file that is no UTF-8 is still a valid stream of bytes.
 */
#ifndef DP_WORKER_MODEL_DATA_H
#define DP_WORKER_MODEL_DATA_H

#include <stdint.h>

#include "worker/model/train_config.h"

struct dp_data;

/* DP_EINVAL with the path for a missing, empty or too short file, a token outside the vocabulary (with
 * its position), or a .bin whose header does not match its length. */
struct dp_data *dp_data_open(const struct dp_train_config *config, struct dp_err *err);
void dp_data_close(struct dp_data *data);

/* Is the file still as long as it was? DP_EIO where somebody cut it short: what lay behind its new end
 * reads as zeros up to the end of a page, and behind that as SIGBUS. */
int dp_data_check(const struct dp_data *data, struct dp_err *err);
/* The path of the open file whose mapping holds the address, else NULL. For a handler of SIGBUS. */
const char *dp_data_path_at(const void *address);

/* Bytes of text per token where that is known (1 for text), else 0: bits per byte = loss / ln 2 / this. */
double dp_data_bytes_per_token(const struct dp_data *data);

/* tokens, targets: [batch * context], targets[i] follows tokens[i] in the file. */
void dp_data_train(const struct dp_data *data, uint64_t step, uint32_t mb, uint32_t *tokens, uint32_t *targets);
/* The i-th validation microbatch, the same at every evaluation. */
void dp_data_validation(const struct dp_data *data, uint64_t i, uint32_t *tokens, uint32_t *targets);

#endif
