/* SPDX-License-Identifier: BSD-3-Clause */
/* What bench_train prints for people, from its JSON. */
#ifndef DP_WORKER_BENCH_TABLE_H
#define DP_WORKER_BENCH_TABLE_H

#include <jansson.h>

void bench_table_head(json_t *root); /* machine, versions, options */
void bench_table_row(json_t *row);

#endif
