/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of bench_linear. */
#ifndef DP_KERNELS_BENCH_LINEAR_ARGUMENTS_H
#define DP_KERNELS_BENCH_LINEAR_ARGUMENTS_H

#include "kernels/bench/linear.h"

#define LINEAR_MAX_MASKS 32 /* files of one command line */
#define LINEAR_MAX_CASES 256 /* shapes, and masks times numbers of tokens */

struct linear_arguments {
    struct linear_options options;
    bool is_json;
    int n_paths, n_tokens, tokens[8];
    const char *path[LINEAR_MAX_MASKS]; /* of masks, each with all numbers of tokens */
    int n_cases;
    struct linear_case c[LINEAR_MAX_CASES];
    struct bench_mask mask[LINEAR_MAX_MASKS];
};

/* Options and shapes. What is wrong, and --help, is printed. returns: -1 to go on, or an exit status. */
int linear_arguments_parse(int argc, char **argv, struct linear_arguments *out);
/* Read the masks: so a file that is refused costs no measurement. */
int linear_arguments_load(struct linear_arguments *a, struct dp_err *err);
void linear_arguments_release(struct linear_arguments *a);

#endif
