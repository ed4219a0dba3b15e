/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal of `dynpipe watch`: alternate screen, keys without echo, and back again whatever ends
 * the program (q, ^C, ^Z, a closed window, an error). One per process. */
#ifndef DP_CLI_SHOW_TERMINAL_H
#define DP_CLI_SHOW_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum dp_key { DP_KEY_NONE, DP_KEY_QUIT, DP_KEY_UP, DP_KEY_DOWN, DP_KEY_PAGE_UP, DP_KEY_PAGE_DOWN, DP_KEY_RESIZE };

/* Can the live view be shown here: stdout is a terminal that understands cursor movement? */
bool dp_terminal_is_usable(void);

/* Switch to the alternate screen, without echo where stdin is a terminal; signals that end a program, SIGWINCH and
 * stop and continue are taken by dp_terminal_wait() from here on. Given back at exit, too. returns 0, or -1 with
 * DP_EIO and nothing changed. */
int dp_terminal_open(struct dp_err *err);

/* Give the terminal back as it was. Does nothing when it is not open. */
void dp_terminal_close(void);

/* Of stdout, in characters; 24 x 80 where it cannot be told. */
void dp_terminal_size(size_t *rows, size_t *columns);

/* Wait for a key, a new size or a signal until the monotonic time until_ns. DP_KEY_NONE: time is up.
 * A signal that ends the program counts as DP_KEY_QUIT; see dp_terminal_signal(). */
enum dp_key dp_terminal_wait(uint64_t until_ns);

/* The signal that asked for the end, 0: none. */
int dp_terminal_signal(void);

/* Put a frame at the top left corner and clear what is below it. */
void dp_terminal_show(const char *frame, size_t bytes);

#endif
