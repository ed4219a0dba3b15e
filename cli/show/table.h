/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of text: columns chosen as squeue's -o chooses them, or by name.
 *
 * A format is either squeue's ("%.10i %20j %T": a dot aligns to the right, the number is the width)
 * or a list of names with optional widths ("jobid,state:12,layout"). Without a width a column is as
 * wide as its widest cell.
 */
#ifndef DP_CLI_SHOW_TABLE_H
#define DP_CLI_SHOW_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct dp_column {
    const char *name;   /* in a list, lower case */
    char letter;        /* after %, 0: none */
    bool is_right;      /* numbers */
    const char *header;
    /* Write the cell of one row. `row` is an element of the array that the table shows. */
    void (*cell)(const json_t *row, char *out, size_t cap);
};

/* Print rows (a JSON array) as a table on stdout. columns ends with an entry whose name is NULL.
 * returns: 0, or -1 with DP_EINVAL when the format names no known column; then nothing was printed. */
int dp_table_print(const struct dp_column *columns, const char *format, bool no_header, const json_t *rows,
                   struct dp_err *err);

#endif
