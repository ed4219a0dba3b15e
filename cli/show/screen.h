/* SPDX-License-Identifier: BSD-3-Clause */
/* Width of what a command prints on. */
#ifndef DP_CLI_SHOW_SCREEN_H
#define DP_CLI_SHOW_SCREEN_H

#include <stddef.h>

/* Columns of the terminal on stdout; $COLUMNS, else 100, where there is none. */
size_t dp_screen_columns(void);

#endif
