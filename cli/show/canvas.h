/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of coloured text that are clipped to the width of the screen, built in memory and written at
 * once: a frame never tears, and a test can look at it. */
#ifndef DP_CLI_SHOW_CANVAS_H
#define DP_CLI_SHOW_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

enum dp_style { DP_PLAIN, DP_DIM, DP_BOLD, DP_RED, DP_GREEN, DP_YELLOW, DP_BLUE, DP_MAGENTA, DP_CYAN };

struct dp_canvas {
    char *text;   /* owned; NUL-terminated */
    size_t used, cap;
    size_t columns; /* of the screen */
    size_t column;  /* of the next character */
    size_t lines;   /* ended so far */
    size_t max_lines; /* what comes after so many lines is dropped; 0: no limit */
    bool color;
    bool is_screen; /* lines end with "erase to the end of the line" and CR LF */
};

/* An empty canvas; memory comes with the text. columns: of the screen, what passes them is cut. */
void dp_canvas_init(struct dp_canvas *c, size_t columns, bool color, bool is_screen);
/* Free the text; text is NULL then. A canvas that was only initialised may be released, too. */
void dp_canvas_release(struct dp_canvas *c);

/* Append clean text; what passes the right edge is cut. */
void dp_canvas_put(struct dp_canvas *c, enum dp_style style, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Spaces up to a column; at least one when the text is there already. */
void dp_canvas_to(struct dp_canvas *c, size_t column);
/* Text that ends at a column (exclusive). */
void dp_canvas_right(struct dp_canvas *c, size_t column, enum dp_style style, const char *text);
/* End the line, empty or not. Beyond max_lines it and its text are dropped. */
void dp_canvas_line(struct dp_canvas *c);

/* Text in as many lines as it needs, each beginning at column `indent`; at most max_lines. */
void dp_canvas_wrap(struct dp_canvas *c, size_t indent, enum dp_style style, size_t max_lines,
                    const char *text);

#endif
