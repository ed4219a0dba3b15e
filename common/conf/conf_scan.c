/* SPDX-License-Identifier: BSD-3-Clause */
/* See conf_scan.h. */
#include "common/conf/conf_scan.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/conf/conf_text.h"

enum { VALUE_MAX = 1024 };

struct scan {
    dp_conf_found_fn *fn;
    void *arg;
    char section[32], name[32]; /* name: "" where none waits for its value */
    bool is_assigned;           /* = or : stood behind the name */
    unsigned entry;
};

/* token: a string with or without its last quote, a number or a word. */
static void found(struct scan *s, const char *token, size_t n)
{
    char value[VALUE_MAX];
    struct dp_conf_found f = {s->section, s->entry, s->name, value};
    bool is_string = *token == '"';

    token += is_string;
    n -= is_string;
    if (is_string)
        n = memchr(token, '"', n) ? (size_t)((const char *)memchr(token, '"', n) - token) : n;
    else if (n > 1 && isdigit((unsigned char)*token) && token[n - 1] == 'L')
        n--;
    if (n >= sizeof value || memchr(token, '\\', n))
        return;
    memcpy(value, token, n);
    value[n] = '\0';
    s->fn(s->arg, &f);
}

static void end_setting(struct scan *s)
{
    s->name[0] = '\0';
    s->is_assigned = false;
}

static void take(struct scan *s, const char *token, size_t n)
{
    if (*token == '=' || *token == ':') {
        s->is_assigned = s->name[0] != '\0';
    } else if (*token == '{' || *token == '(') {
        if (s->is_assigned) {
            memcpy(s->section, s->name, sizeof s->section);
            s->entry = 0;
        }
        s->entry += *token == '{';
        end_setting(s);
    } else if (strchr("});,", *token)) {
        end_setting(s);
    } else if (s->is_assigned) {
        found(s, token, n);
        end_setting(s);
    } else if (n < sizeof s->name) {
        memcpy(s->name, token, n);
        s->name[n] = '\0';
    }
}

void dp_conf_scan(const char *text, dp_conf_found_fn *fn, void *arg)
{
    struct scan s = {.fn = fn, .arg = arg};
    const char *token;
    size_t n = 0;

    for (const char *p = text; (token = dp_conf_text_token(p, &n)); p = token + n) {
        if (*token == '"') { /* a string that is not closed ends with its line */
            size_t line = strcspn(token, "\n");

            n = n > line ? line : n;
        }
        take(&s, token, n);
    }
}
