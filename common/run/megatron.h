/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts as Megatron-Core writes them (--pipeline-model-parallel-layout): "Et*3|(tt|)*29,m|L".
 *
 * One letter a layer, in the order of the model: E embedding, t transformer block, m multi-token
 * prediction, L loss (our final norm and head). "|" ends a stage, and stages may be empty; x*n is x n
 * times, (...)*n what is in the brackets n times; commas mean nothing. Brackets lie in no others and have
 * a number behind them, as in Megatron. Source: Megatron Core developer guide, Custom Pipeline Model
 * Parallel Layout.
 */
#ifndef DP_COMMON_RUN_MEGATRON_H
#define DP_COMMON_RUN_MEGATRON_H

#include "common/run/layout.h"

struct dp_megatron {
    uint32_t n_stages, n_layers;
    uint32_t first_mtp;              /* position of the first m in the text, from 1; 0: none */
    uint32_t layers[DP_MAX_WORKERS]; /* [n_stages] */
};

/* returns: 0, or -1 with the position of the first offence (from 1): a letter that is none, brackets
 * or a number that do not fit, E that is not the first letter, t behind m, no L or something behind it, more than
 * DP_MAX_WORKERS stages or DP_MAX_LAYERS layers. */
int dp_megatron_parse(const char *text, struct dp_megatron *out, struct dp_err *err);

/* Could this text be meant as such a layout, and not as dp_layout_format()'s? */
bool dp_megatron_looks_like(const char *text);

/* The text of a layout: "Et*3|t*4||t*2L". A worker without layers, or that left, is an empty stage. A
 * layout of fewer than two layers has none: "". */
void dp_megatron_format(const struct dp_layout *layout, char *out, size_t cap);

#endif
