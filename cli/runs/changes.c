/* SPDX-License-Identifier: BSD-3-Clause */
/* See changes.h. */
#include "cli/runs/changes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask/run.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

struct differ {
    const json_t *before, *now;
    dp_change_fn fn;
    void *arg;
};

/* "label old -> new" when a text key changed. */
static void text_key(const struct differ *d, const char *label, const char *key, enum dp_style style)
{
    char old[512], new[512], line[1200];

    dp_json_text(old, sizeof old, d->before, key, "-");
    dp_json_text(new, sizeof new, d->now, key, "-");
    if (!strcmp(old, new))
        return;
    snprintf(line, sizeof line, "%s %s -> %s", label, old, new);
    d->fn(d->arg, NAN, style, line);
}

static void layout(const struct differ *d)
{
    char old[1024], new[1024], epoch[32], line[2300];

    dp_run_layout(old, sizeof old, d->before);
    dp_run_layout(new, sizeof new, d->now);
    if (!strcmp(old, new))
        return;
    snprintf(line, sizeof line, "layout %s -> %s, epoch %s", old, new,
             dp_json_text(epoch, sizeof epoch, d->now, "epoch|layout.epoch", "?"));
    d->fn(d->arg, NAN, DP_CYAN, line);
}

static void devices(const struct differ *d)
{
    double old = dp_run_devices(d->before), new = dp_run_devices(d->now);
    char line[128];

    if (!(old != new) || !isfinite(old) || !isfinite(new))
        return;
    snprintf(line, sizeof line, "devices held %.0f -> %.0f", old, new);
    d->fn(d->arg, NAN, new < old ? DP_GREEN : DP_YELLOW, line);
}

/* State of element i of a list against the same element before. */
static void element(const struct differ *d, const char *list, size_t i, const char *what, const char *name_key)
{
    const json_t *new = json_array_get(dp_json_list(d->now, list), i);
    const json_t *old = json_array_get(dp_json_list(d->before, list), i);
    char name[128], a[64], b[64], line[300];

    dp_json_text(a, sizeof a, old, "state", "");
    dp_json_text(b, sizeof b, new, "state", "");
    if (!*a || !*b || !strcmp(a, b))
        return;
    snprintf(line, sizeof line, "%s %s: %s -> %s", what, dp_json_text(name, sizeof name, new, name_key, "?"), a, b);
    d->fn(d->arg, NAN, dp_json_is(new, "state", "held") || dp_json_is(new, "state", "lost") ? DP_RED : DP_PLAIN, line);
}

bool dp_changes_same_but_numbers(const char *a, const char *b)
{
    static const char digits[] = "0123456789.";

    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || !*a)
            return *a == *b;
    }
}

/* A new decision. A move that is carried out is told by the hand-over. */
static void decision(const struct differ *d)
{
    json_t *new = dp_json_get(d->now, "last_decision"), *old = dp_json_get(d->before, "last_decision");
    double at_s = dp_json_number(new, "first_at_s");
    char text[1024], said[1024], step[32], line[1200];

    if (d->before) /* for who looks on it is news now; for who comes late it has its place in the past */
        at_s = NAN;
    dp_json_text(text, sizeof text, new, "reason|text", "");
    dp_json_text(said, sizeof said, old, "reason|text", "");
    if (!*text || dp_json_flag(new, "applied", false) || dp_changes_same_but_numbers(text, said))
        return;
    snprintf(line, sizeof line, "decision at step %s: %s", dp_json_text(step, sizeof step, new, "step", "?"), text);
    d->fn(d->arg, at_s, dp_json_is(new, "verdict", "move") ? DP_CYAN : DP_PLAIN, line);
}

/* Pruning goes on all the time and its sparsity is in every picture: no event worth a line. */
static bool is_worth_a_line(const char *text)
{
    return *text && strncmp(text, "pruned to", 9) != 0;
}

static enum dp_style event_style(const char *text)
{
    if (!strncmp(text, "failed", 6) || strstr(text, " is held") || strstr(text, "promise missed"))
        return DP_RED;
    if (strstr(text, "is released"))
        return DP_GREEN;
    if (strstr(text, "aborted") || strstr(text, "restarted"))
        return DP_YELLOW;
    return strstr(text, "committed") ? DP_CYAN : DP_PLAIN;
}

/* Lines of the run's own log that came after the last one of before, and the last decision in its place between
 * them; the log forgets old ones. */
static void events(const struct differ *d)
{
    double decided_s = dp_json_number(dp_json_get(d->now, "last_decision"), d->before ? "at_s" : "first_at_s");
    bool is_told = false;
    json_t *now = dp_json_list(d->now, "events"), *before = dp_json_list(d->before, "events");
    size_t n = json_array_size(now), first = n;
    const json_t *last = json_array_get(before, json_array_size(before) - (json_array_size(before) > 0));

    while (first > 0 && !(last && json_equal(json_array_get(now, first - 1), last)))
        first--;
    for (size_t i = first; i < n; i++) {
        double at_s = dp_json_number(json_array_get(now, i), "at_s");
        char text[512];

        if (!is_told && decided_s < at_s) {
            decision(d);
            is_told = true;
        }

        dp_json_text(text, sizeof text, json_array_get(now, i), "text", "");
        if (is_worth_a_line(text))
            d->fn(d->arg, at_s, event_style(text), text);
    }
    if (!is_told)
        decision(d);
}

/* For documents without events[]. */
static void states(const struct differ *d)
{
    text_key(d, "state", "state", DP_YELLOW);
    for (size_t i = 0; i < json_array_size(dp_json_list(d->now, "workers")); i++)
        element(d, "workers", i, "worker", "rank");
    for (size_t i = 0; i < json_array_size(dp_json_list(d->now, "slots")); i++)
        element(d, "slots", i, "node", "node");
}

void dp_changes(const json_t *before, const json_t *now, dp_change_fn fn, void *arg)
{
    struct differ d = {before, now, fn, arg};

    events(&d);
    if (!before)
        return;
    if (!dp_json_list(now, "events"))
        states(&d);
    text_key(&d, "mode", "mode", DP_YELLOW);
    text_key(&d, "policy", "policy", DP_YELLOW);
    layout(&d);
    devices(&d);
}
