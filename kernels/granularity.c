/* SPDX-License-Identifier: BSD-3-Clause */
/* See granularity.h. */
#include "kernels/granularity.h"

#include <stddef.h>
#include <string.h>

static const struct granularity {
    int64_t block_rows;
    const char *name;
} list[] = {
#define LINE(rows, name) {rows, name},
    DP_GRANULARITIES(LINE, LINE)
};
_Static_assert(sizeof list / sizeof list[0] == DP_N_GRANULARITIES, "the list has so many lines");

const char *dp_granularity_name(int64_t block_rows)
{
    for (int i = 0; i < DP_N_GRANULARITIES; i++)
        if (list[i].block_rows == block_rows)
            return list[i].name;
    return NULL;
}

int64_t dp_granularity_rows(const char *name)
{
    for (int i = 0; i < DP_N_GRANULARITIES; i++)
        if (!strcmp(list[i].name, name))
            return list[i].block_rows;
    return 0;
}

int64_t dp_granularity_at(int i)
{
    return list[i].block_rows;
}
