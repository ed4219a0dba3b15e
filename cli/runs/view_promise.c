/* SPDX-License-Identifier: BSD-3-Clause */
/* Promise of the picture of a run: see view.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/runs/view.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

enum { LABEL = 10 };

static enum dp_style style_of(const json_t *promise)
{
    if (dp_json_is(promise, "verdict", "missed") || dp_json_flag(promise, "packing_stopped", false))
        return DP_RED;
    return dp_json_is(promise, "verdict", "kept") ? DP_GREEN : DP_PLAIN;
}

/* "n1 takes 2.1 times its device time" */
static size_t shared(char *out, size_t cap, const json_t *list, const char *before)
{
    size_t i, used = 0;
    const json_t *s;

    out[0] = '\0';
    json_array_foreach(list, i, s) {
        char node[96];

        if (used + 1 < cap)
            used += (size_t)snprintf(out + used, cap - used, "%s%s takes %.1f times its device time", i ? ", " : before,
                                     dp_json_text(node, sizeof node, s, "node", "?"), dp_json_number(s, "factor"));
    }
    return used < cap ? used : cap - 1;
}

/* "messages between n1 and n2 take 12.00 ms longer". returns what out holds by then */
static size_t slow_links(char *out, size_t cap, size_t used, const json_t *list)
{
    size_t i;
    const json_t *l;

    json_array_foreach(list, i, l) {
        char from[96], to[96];

        if (used + 1 < cap)
            used += (size_t)snprintf(out + used, cap - used, "%smessages between %s and %s take %.2f ms longer", used ? ", " : "",
                                     dp_json_text(from, sizeof from, l, "from", "?"), dp_json_text(to, sizeof to, l, "to", "?"),
                                     dp_json_number(l, "ms"));
    }
    return used < cap ? used : cap - 1;
}

static void correction(struct dp_canvas *c, const json_t *k, size_t max_lines)
{
    double link = dp_json_number(k, "link_ms"), rest = dp_json_number(k, "rest_ms");
    char text[1024];
    size_t n;

    if (!k)
        return;
    n = shared(text, sizeof text, dp_json_list(k, "shared"), "");
    n = slow_links(text, sizeof text, n, dp_json_list(k, "links"));
    if (isfinite(link))
        n += (size_t)snprintf(text + n, sizeof text - n, "%seach message takes %.2f ms longer", n ? ", " : "", link);
    if (isfinite(rest) && n < sizeof text)
        snprintf(text + n, sizeof text - n, "%s%.1f ms of a step's wall time are in no prediction", n ? ", " : "", rest);
    if (!*text)
        return;
    dp_canvas_put(c, DP_DIM, "corrected");
    dp_canvas_wrap(c, LABEL, DP_PLAIN, max_lines, text);
}

void dp_view_promise(struct dp_canvas *c, const json_t *run, size_t max_lines)
{
    const json_t *p = dp_json_get(run, "promise");
    bool is_stopped = dp_json_flag(p, "packing_stopped", false);
    char verdict[32], text[512], why[512], line[1200], cores[512];

    dp_json_text(verdict, sizeof verdict, p, "verdict", "none");
    if (!p || max_lines == 0 || (dp_json_is(p, "verdict", "none") && !is_stopped))
        return;
    dp_json_text(text, sizeof text, p, "text", "");
    dp_json_text(why, sizeof why, p, "why", "");
    if (is_stopped && strstr(why, text))
        snprintf(line, sizeof line, "%s; packing is stopped: %s", verdict, why);
    else
        snprintf(line, sizeof line, "%s%s%s%s%s", verdict, *text ? ": " : "", text, is_stopped ? "; packing is stopped: " : "",
                 is_stopped ? why : "");
    dp_canvas_put(c, DP_DIM, "promise");
    dp_canvas_wrap(c, LABEL, style_of(p), max_lines, line);
    if (max_lines < 2)
        return;
    correction(c, dp_json_get(p, "correction"), max_lines);
    if (shared(cores, sizeof cores, dp_json_list(p, "shared"), "others have its cores: ") > 0) {
        dp_canvas_put(c, DP_DIM, "cores");
        dp_canvas_wrap(c, LABEL, DP_PLAIN, max_lines, cores);
    }
}
