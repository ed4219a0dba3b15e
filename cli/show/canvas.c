/* SPDX-License-Identifier: BSD-3-Clause */
/* See canvas.h. Running out of memory drops text; the next frame tries again. */
#include "cli/show/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/text.h"

static const char *const style_code[] = {
    [DP_PLAIN] = "",         [DP_DIM] = "\033[2m",      [DP_BOLD] = "\033[1m",
    [DP_RED] = "\033[31m",   [DP_GREEN] = "\033[32m",   [DP_YELLOW] = "\033[33m",
    [DP_BLUE] = "\033[34m",  [DP_MAGENTA] = "\033[35m", [DP_CYAN] = "\033[36m",
};

void dp_canvas_init(struct dp_canvas *c, size_t columns, bool color, bool is_screen)
{
    *c = (struct dp_canvas){.columns = columns, .color = color, .is_screen = is_screen};
}

void dp_canvas_release(struct dp_canvas *c)
{
    free(c->text);
    c->text = NULL;
    c->used = c->cap = 0;
}

static bool is_full(const struct dp_canvas *c)
{
    return c->max_lines && c->lines >= c->max_lines;
}

static void append(struct dp_canvas *c, const char *bytes, size_t n)
{
    if (c->used + n + 1 > c->cap) {
        size_t cap = (c->used + n + 1) * 2 + 4096;
        char *grown = realloc(c->text, cap);

        if (!grown)
            return;
        c->text = grown;
        c->cap = cap;
    }
    memcpy(c->text + c->used, bytes, n);
    c->used += n;
    c->text[c->used] = '\0';
}

static void append_text(struct dp_canvas *c, const char *text)
{
    append(c, text, strlen(text));
}

void dp_canvas_put(struct dp_canvas *c, enum dp_style style, const char *fmt, ...)
{
    char text[4096];
    bool styled = c->color && style != DP_PLAIN;
    size_t n;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    n = dp_text_fit(text, c->columns > c->column ? c->columns - c->column : 0);
    text[n] = '\0';
    if (!n || is_full(c))
        return;
    if (styled)
        append_text(c, style_code[style]);
    append(c, text, n);
    if (styled)
        append_text(c, "\033[0m");
    c->column += dp_text_width(text);
}

void dp_canvas_to(struct dp_canvas *c, size_t column)
{
    size_t n = column > c->column ? column - c->column : 1;

    dp_canvas_put(c, DP_PLAIN, "%*s", (int)n, "");
}

void dp_canvas_right(struct dp_canvas *c, size_t column, enum dp_style style, const char *text)
{
    size_t width = dp_text_width(text);

    if (column > c->column + width)
        dp_canvas_to(c, column - width);
    dp_canvas_put(c, style, "%s", text);
}

/* Spaces at the end of a line would make output hard to compare. */
static void trim(struct dp_canvas *c)
{
    while (c->used && c->text[c->used - 1] == ' ')
        c->text[--c->used] = '\0';
}

void dp_canvas_line(struct dp_canvas *c)
{
    if (is_full(c))
        return;
    if (!c->is_screen)
        trim(c);
    if (c->is_screen && c->column < c->columns) /* in the last column it would erase the character there */
        append_text(c, "\033[K");
    append_text(c, c->is_screen ? "\r\n" : "\n");
    c->column = 0;
    c->lines++;
}

void dp_canvas_wrap(struct dp_canvas *c, size_t indent, enum dp_style style, size_t max_lines,
                    const char *text)
{
    size_t width = c->columns > indent + 8 ? c->columns - indent : 8;

    for (size_t line = 0; *text && line < max_lines && !is_full(c); line++) {
        size_t n = dp_text_fit(text, width);

        if (text[n]) { /* break at the last space, if there is one */
            size_t k = n;

            while (k && text[k] != ' ')
                k--;
            n = k ? k : n;
        }
        if (!n)
            break;
        if (c->column < indent)
            dp_canvas_to(c, indent);
        dp_canvas_put(c, style, "%.*s", (int)n, text);
        dp_canvas_line(c);
        text += n;
        text += strspn(text, " ");
    }
}
