/* SPDX-License-Identifier: BSD-3-Clause */
/* See table.h: the format is parsed into fields, the cells are formed once, then printed. */
#include "cli/show/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/text.h"

enum { MAX_FIELDS = 32, CELL_BYTES = 512 };

struct field {
    const struct dp_column *column; /* NULL: only text */
    char before[32];                /* text that stands before the field */
    size_t width;                   /* 0: as wide as the widest cell */
    bool is_right;
};

struct fields {
    struct field f[MAX_FIELDS];
    size_t n;
};

static const struct dp_column *find_letter(const struct dp_column *columns, char letter)
{
    for (; columns->name; columns++) {
        if (columns->letter == letter)
            return columns;
    }
    return NULL;
}

static int unknown_name(const struct dp_column *columns, const char *name, struct dp_err *err)
{
    const struct dp_column *best = columns;
    char known[512] = "";

    for (const struct dp_column *c = columns; c->name; c++) {
        if (dp_text_distance(name, c->name) < dp_text_distance(name, best->name))
            best = c;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "", c->name);
    }
    return dp_err_set(err, DP_EINVAL, "format: unknown column '%s', did you mean '%s'? Known: %s", name,
                      best->name, known);
}

/* "%.10i" and the text before it. returns: what follows, NULL on error. */
static const char *parse_percent(const struct dp_column *columns, const char *p, struct field *f,
                                 struct dp_err *err)
{
    size_t n = 0;

    for (; *p && (*p != '%' || p[1] == '%'); p++) {
        if (*p == '%')
            p++;
        if (n + 1 < sizeof f->before)
            f->before[n++] = *p;
    }
    f->before[n] = '\0';
    if (!*p)
        return p;
    p++;
    if (*p == '.') {
        f->is_right = true;
        p++;
    }
    while (*p >= '0' && *p <= '9' && f->width < 1000)
        f->width = f->width * 10 + (size_t)(*p++ - '0');
    f->column = *p ? find_letter(columns, *p) : NULL;
    if (!f->column) {
        dp_err_set(err, DP_EINVAL, "format: unknown column %%%.1s", p);
        return NULL;
    }
    return p + 1;
}

/* "name" or "name:width", with the comma after it. returns: what follows, NULL on error. */
static const char *parse_name(const struct dp_column *columns, const char *p, struct field *f,
                              struct dp_err *err)
{
    char name[64];
    size_t n = strcspn(p, ",:");

    snprintf(name, sizeof name, "%.*s", (int)n, p);
    for (const struct dp_column *c = columns; c->name; c++) {
        if (!strcmp(c->name, name))
            f->column = c;
    }
    if (!f->column) {
        unknown_name(columns, name, err);
        return NULL;
    }
    f->is_right = f->column->is_right;
    p += n;
    if (*p == ':') {
        for (p++; *p >= '0' && *p <= '9' && f->width < 1000; p++)
            f->width = f->width * 10 + (size_t)(*p - '0');
    }
    if (*p && *p != ',') {
        dp_err_set(err, DP_EINVAL, "format: '%s' after column %s", p, name);
        return NULL;
    }
    return p + (*p == ',');
}

static int parse_format(const struct dp_column *columns, const char *format, struct fields *out,
                        struct dp_err *err)
{
    bool is_percent = strchr(format, '%') != NULL;

    for (const char *p = format; *p;) {
        struct field f = {0};

        if (out->n == MAX_FIELDS)
            return dp_err_set(err, DP_EINVAL, "format: more than %d columns", MAX_FIELDS);
        p = is_percent ? parse_percent(columns, p, &f, err) : parse_name(columns, p, &f, err);
        if (!p)
            return -1;
        if (!is_percent && out->n)
            snprintf(f.before, sizeof f.before, "  ");
        out->f[out->n++] = f;
    }
    if (out->n == 0)
        return dp_err_set(err, DP_EINVAL, "format: no column");
    return 0;
}

/* Cell k of row i; row 0 is the header. */
static char *cell_at(char *cells, const struct fields *fields, size_t i, size_t k)
{
    return cells + (i * fields->n + k) * CELL_BYTES;
}

static void fill_cells(char *cells, struct fields *fields, const json_t *rows)
{
    for (size_t k = 0; k < fields->n; k++) {
        struct field *f = &fields->f[k];
        size_t widest = 0;

        for (size_t i = 0; i <= json_array_size(rows) && f->column; i++) {
            char *cell = cell_at(cells, fields, i, k);

            if (i == 0)
                snprintf(cell, CELL_BYTES, "%s", f->column->header);
            else
                f->column->cell(json_array_get(rows, i - 1), cell, CELL_BYTES);
            widest = dp_text_width(cell) > widest ? dp_text_width(cell) : widest;
        }
        if (f->width == 0)
            f->width = widest;
    }
}

static void print_cell(const struct field *f, const char *cell, bool is_last)
{
    size_t fits = dp_text_fit(cell, f->width);
    size_t width = dp_text_width(cell) > f->width ? f->width : dp_text_width(cell);
    int pad = (int)(f->width - width);

    printf("%s", f->before);
    if (f->is_right)
        printf("%*s", pad, "");
    printf("%.*s", (int)fits, cell);
    if (!f->is_right && !is_last)
        printf("%*s", pad, "");
}

int dp_table_print(const struct dp_column *columns, const char *format, bool no_header, const json_t *rows,
                   struct dp_err *err)
{
    struct fields fields = {.n = 0};
    char *cells;

    if (parse_format(columns, format, &fields, err) < 0)
        return -1;
    cells = calloc((json_array_size(rows) + 1) * fields.n, CELL_BYTES);
    if (!cells)
        return dp_err_set(err, DP_ENOMEM, "no memory for a table of %zu rows", json_array_size(rows));
    fill_cells(cells, &fields, rows);
    for (size_t i = no_header; i <= json_array_size(rows); i++) {
        for (size_t k = 0; k < fields.n; k++)
            print_cell(&fields.f[k], cell_at(cells, &fields, i, k), k + 1 == fields.n);
        putchar('\n');
    }
    free(cells);
    return 0;
}
