/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe check: is this cluster set up right? One line a finding, with what to do about it. */
#include "cli/check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command/probe.h"
#include "cli/show/canvas.h"
#include "cli/show/json.h"
#include "cli/show/screen.h"
#include "cli/show/table.h"
#include "cli/show/text.h"

static const struct {
    const char *word;
    enum dp_style style;
} shown[] = {
    [DP_FIND_OK] = {"ok", DP_GREEN},
    [DP_FIND_WARN] = {"warn", DP_YELLOW},
    [DP_FIND_FAIL] = {"FAIL", DP_RED},
};

void dp_check_note(struct dp_check *c, enum dp_finding finding, const char *name, const char *todo,
                   const char *fmt, ...)
{
    char text[1024], clean[1024];
    json_t *f = json_object();
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_object_set_new(f, "status", json_string(shown[finding].word));
    json_object_set_new(f, "name", json_string(name));
    json_object_set_new(f, "text", json_string(dp_text_clean(clean, sizeof clean, text)));
    if (todo && finding != DP_FIND_OK)
        json_object_set_new(f, "todo", json_string(dp_text_clean(text, sizeof text, todo)));
    json_array_append_new(c->findings, f);
}

void dp_check_set_nodes(struct dp_check *c, json_t *nodes)
{
    json_t *f = json_array_get(c->findings, json_array_size(c->findings) - 1);

    json_object_set(f, "nodes", nodes);
}

bool dp_check_package(const char *name, const char *mark, char *out, size_t cap)
{
    const char *const argv[] = {"dpkg-query", "-W", "-f", "${Version}", name, NULL};
    char *text = NULL;

    out[0] = '\0';
    if (dp_probe_program(argv, 5, &text, NULL) == 0 && text)
        dp_text_clean(out, cap, text);
    free(text);
    return strstr(out, mark) != NULL;
}

unsigned dp_check_version(const char *text)
{
    unsigned part[3] = {0, 0, 0};

    while (*text && (*text < '0' || *text > '9'))
        text++;
    for (int i = 0; i < 3 && *text >= '0' && *text <= '9'; i++) {
        part[i] = (unsigned)strtoul(text, (char **)&text, 10) % 100;
        text += *text == '.';
    }
    return part[0] * 10000 + part[1] * 100 + part[2];
}

static enum dp_style style_of(const json_t *finding, enum dp_finding *out)
{
    *out = dp_json_is(finding, "status", "FAIL") ? DP_FIND_FAIL
           : dp_json_is(finding, "status", "warn") ? DP_FIND_WARN : DP_FIND_OK;
    return shown[*out].style;
}

static void print_lines(const struct dp_check *c)
{
    struct dp_canvas v;
    const json_t *f;
    size_t i;

    dp_canvas_init(&v, dp_screen_columns(), c->cli->color, false);
    json_array_foreach(c->findings, i, f) {
        enum dp_finding kind;
        enum dp_style style = style_of(f, &kind);
        char text[1024];

        dp_canvas_put(&v, style, "%s", shown[kind].word);
        dp_canvas_to(&v, 6);
        dp_canvas_put(&v, DP_BOLD, "%s", dp_json_text(text, sizeof text, f, "name", ""));
        dp_canvas_to(&v, 17);
        dp_canvas_wrap(&v, 17, DP_PLAIN, 9, dp_json_text(text, sizeof text, f, "text", ""));
        if (*dp_json_text(text, sizeof text, f, "todo", "")) {
            dp_canvas_to(&v, 17);
            dp_canvas_put(&v, DP_CYAN, "do: ");
            dp_canvas_wrap(&v, 21, DP_CYAN, 9, text);
        }
    }
    fputs(v.text ? v.text : "", stdout);
    dp_canvas_release(&v);
}

#define TEXT_CELL(fn, key)                                                                                   \
    static void fn(const json_t *f, char *out, size_t cap)                                                   \
    {                                                                                                        \
        dp_json_text(out, cap, f, key, "-");                                                                 \
    }
TEXT_CELL(cell_status, "status")
TEXT_CELL(cell_name, "name")
TEXT_CELL(cell_text, "text")
TEXT_CELL(cell_todo, "todo")

static const struct dp_column columns[] = {
    {"status", 's', false, "STATUS", cell_status},
    {"name", 'n', false, "NAME", cell_name},
    {"text", 't', false, "FINDING", cell_text},
    {"todo", 'd', false, "TO DO", cell_todo},
    {0},
};

static size_t count(const struct dp_check *c, const char *status)
{
    const json_t *f;
    size_t i, n = 0;

    json_array_foreach(c->findings, i, f)
        n += dp_json_is(f, "status", status);
    return n;
}

static void print_document(const struct dp_check *c)
{
    json_t *doc = dp_json_envelope("check", "checks", json_incref(c->findings));
    const json_t *f;
    char text[1024];
    size_t i;

    json_array_foreach(c->findings, i, f) {
        if (!dp_json_is(f, "status", "ok"))
            dp_json_add_error(doc, dp_json_is(f, "status", "FAIL") ? "errors" : "warnings",
                              dp_json_text(text, sizeof text, f, "text", ""));
    }
    dp_json_print(doc, false);
    json_decref(doc);
}

static enum dp_exit print(const struct dp_check *c)
{
    struct dp_err err;

    if (c->cli->json) {
        print_document(c);
    } else if (c->cli->format) {
        if (dp_table_print(columns, c->cli->format, c->cli->no_header, c->findings, &err) < 0) {
            fprintf(stderr, "dynpipe check: %s\n", err.text);
            return DP_EXIT_USAGE;
        }
    } else {
        print_lines(c);
        printf("%zu ok, %zu warn, %zu FAIL\n", count(c, "ok"), count(c, "warn"), count(c, "FAIL"));
    }
    return count(c, "FAIL") ? DP_EXIT_ERROR : DP_EXIT_OK;
}

enum dp_exit dp_cmd_check(const struct dp_cli *cli)
{
    struct dp_check c = {.cli = cli, .findings = json_array()};
    enum dp_exit code;

    dp_check_config(&c);
    dp_check_slurm(&c);
    dp_check_plugin(&c);
    dp_check_munge(&c);
    dp_check_pmix(&c);
    dp_check_daemons(&c);
    code = print(&c);
    json_decref(c.findings);
    json_decref(c.slurm);
    dp_config_destroy(c.config);
    return code;
}
