/* SPDX-License-Identifier: BSD-3-Clause */
/* A run over time. Above, each node is a row: the layers that it had, when it had none, and from when on others had the
 * node. Below, what pruning, freezing and packing made of it: sparsity, frozen layers where there are any, tokens/s per device held,
 * loss. On a card of its own colour, so that it can be read on light and on dark pages. */
#include "cli/runs/report_svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/json.h"
#include "cli/show/save.h"
#include "cli/show/text.h"

enum {
    LEFT = 120, /* names of nodes and curves */
    WIDTH = 740, /* of the time axis */
    RIGHT = 24,
    TOP = 108,
    ROW = 26,      /* of a node, where there are few */
    ROWS = 520,    /* of all nodes, where there are many */
    CURVE = 84,
    GAP = 26,
    BOTTOM = 34,
};

struct picture {
    FILE *out;
    const json_t *doc;
    double all_s, pitch;
    uint32_t slots;
};

static double x_of(const struct picture *p, double at_s)
{
    double share = at_s / p->all_s;

    return LEFT + (share < 0 ? 0 : share > 1 ? 1 : share) * WIDTH;
}

static void write_line(const struct picture *p, const char *class, double x1, double y1, double x2, double y2)
{
    fprintf(p->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2);
}

/* Words of ours, which need no escapes. */
static void write_words(const struct picture *p, const char *class, double x, double y, const char *words)
{
    fprintf(p->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, words);
}

/* Field `rank` of a layout ("0-2|3-5|-|x") in out[cap]; "" where it has none. */
static void field_of(char *out, size_t cap, const char *layout, uint64_t rank)
{
    size_t n;

    *out = '\0';
    for (; rank > 0 && layout; rank--) {
        layout = strchr(layout, '|');
        layout = layout ? layout + 1 : NULL;
    }
    if (!layout)
        return;
    n = strcspn(layout, "|");
    if (n >= cap)
        n = cap - 1;
    memcpy(out, layout, n);
    out[n] = '\0';
}

enum holds { HAS_LAYERS, HAS_NONE, HAS_LEFT };

/* What the workers of a slot had under a layout; text[cap]: their layers. */
static enum holds slot_has(const json_t *doc, uint64_t slot, const char *layout, char *text, size_t cap)
{
    enum holds has = HAS_LEFT;
    const json_t *w;
    size_t i;

    *text = '\0';
    json_array_foreach(dp_json_list(doc, "workers"), i, w) {
        char field[64];
        size_t used = strlen(text);

        if (dp_json_count(w, "slot", UINT64_MAX) != slot)
            continue;
        field_of(field, sizeof field, layout, dp_json_count(w, "rank", UINT64_MAX >> 1));
        if (!strcmp(field, "x") || !*field)
            continue;
        if (!strcmp(field, "-")) {
            has = has == HAS_LEFT ? HAS_NONE : has;
            continue;
        }
        has = HAS_LAYERS;
        snprintf(text + used, cap - used, "%s%s", used ? ", " : "", field);
    }
    return has;
}

/* A stretch of a row. Its words stand in it where there is room for them. */
static void write_stretch(const struct picture *p, const char *class, double from_s, double to_s, double y, const char *words,
                          const char *few)
{
    double x = x_of(p, from_s), width = x_of(p, to_s) - x;
    const char *said = width > 7.0 * (double)strlen(words) + 8 ? words : width > 7.0 * (double)strlen(few) + 6 ? few : "";

    if (width <= 0)
        return;
    fprintf(p->out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%s, %.1f to %.1f s</title></rect>",
            class, x, y + 0.05 * p->pitch, width, 0.9 * p->pitch, words, from_s, to_s);
    if (*said && p->pitch >= 14)
        fprintf(p->out, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\">%s</text>", x + width / 2, y + p->pitch / 2 + 4, said);
    fputc('\n', p->out);
}

static void write_part(const struct picture *p, uint64_t slot, const char *layout, double from_s, double to_s, double y)
{
    char layers[256], words[300];
    enum holds has = slot_has(p->doc, slot, layout, layers, sizeof layers);

    if (has == HAS_NONE)
        write_stretch(p, "e", from_s, to_s, y, "no layers: measured first", "empty");
    else if (has == HAS_LEFT)
        write_stretch(p, "l", from_s, to_s, y, "leaves: proved empty first", "leaves");
    else {
        snprintf(words, sizeof words, "layers %s", layers);
        write_stretch(p, "t", from_s, to_s, y, words, layers);
    }
}

/* When a hand-over took effect; NaN: never. */
static double switched_at(const json_t *handover)
{
    double at = dp_json_number(handover, "done_at_s");

    if (!dp_json_is(handover, "outcome", "committed") && !dp_json_is(handover, "outcome", "regrouped"))
        return NAN;
    return isfinite(at) ? at : dp_json_number(handover, "decided_at_s");
}

static void write_row(const struct picture *p, const json_t *slot, uint64_t number, double y)
{
    char name[80], layout[8192];
    double from = 0, freed = dp_json_number(slot, "freed_at_s"), end = isfinite(freed) ? freed : p->all_s, at;
    const json_t *h;
    size_t i;

    dp_json_text(name, sizeof name, slot, "node", "?");
    if (p->pitch >= 9) {
        fprintf(p->out, "<text class=\"r\" x=\"%d\" y=\"%.1f\">", LEFT - 8, y + p->pitch / 2 + 4);
        dp_text_xml(p->out, name);
        fputs(dp_json_flag(slot, "batch_host", false) ? " (batch host)</text>\n" : "</text>\n", p->out);
    }
    dp_json_text(layout, sizeof layout, p->doc, "start_layout.text", "");
    json_array_foreach(dp_json_list(p->doc, "handovers"), i, h) {
        at = switched_at(h);
        if (!isfinite(at) || !dp_json_get(h, "layout"))
            continue;
        write_part(p, number, layout, from, at < end ? at : end, y);
        from = at;
        dp_json_text(layout, sizeof layout, h, "layout", "");
    }
    if (from < end)
        write_part(p, number, layout, from, end, y);
    if (isfinite(freed))
        write_stretch(p, "f", freed, p->all_s, y, "given back: free for other jobs", "free");
}

/* ---- curves ---- */

static double held_at(const json_t *doc, double at_s)
{
    const json_t *entry;
    double slots = NAN, first = NAN, devices = dp_json_number(doc, "throughput_start.devices");
    size_t i;

    json_array_foreach(dp_json_list(doc, "slots_held_over_time"), i, entry) {
        double since = json_number_value(json_array_get(entry, 0)), n = json_number_value(json_array_get(entry, 1));

        if (i == 0)
            first = n;
        if (since <= at_s || i == 0)
            slots = n;
    }
    return isfinite(devices) ? slots / first * devices : slots;
}

enum curve { SPARSITY, FROZEN, EACH, LOSS, N_CURVES };

static double value_of(const json_t *doc, const json_t *sample, enum curve curve)
{
    if (curve == SPARSITY)
        return dp_json_number(sample, "sparsity") * 100;
    if (curve == FROZEN)
        return dp_json_number(sample, "frozen_layers");
    if (curve == LOSS)
        return dp_json_number(sample, "loss");
    return dp_json_number(sample, "tokens_per_s") / held_at(doc, dp_json_number(sample, "at_s"));
}

/* The value to which a curve's axis goes at least. */
static double top_of(const json_t *doc, enum curve curve)
{
    const json_t *cuts = dp_json_list(doc, "layout.cuts");

    if (curve == FROZEN)
        return (double)json_integer_value(json_array_get(cuts, json_array_size(cuts) ? json_array_size(cuts) - 1 : 0));
    return curve == SPARSITY ? 100 : 0;
}

/* Frozen layers have a picture where one ever froze; the others where there is anything to draw. */
static bool is_shown(const json_t *doc, enum curve curve)
{
    const json_t *list = dp_json_list(doc, "samples"), *s;
    size_t i;

    if (json_array_size(list) < 2)
        return false;
    if (curve != FROZEN)
        return true;
    json_array_foreach(list, i, s)
        if (dp_json_number(s, "frozen_layers") >= 1)
            return true;
    return false;
}

static void write_curve(const struct picture *p, enum curve curve, double top)
{
    static const char *const label[] = {[SPARSITY] = "sparsity, %", [FROZEN] = "frozen layers",
                                        [EACH] = "tokens/s per", [LOSS] = "loss"};
    double low = curve == LOSS ? INFINITY : 0, high = top_of(p->doc, curve), x, y;
    const json_t *list = dp_json_list(p->doc, "samples"), *s;
    char text[32];
    const char *pen = "M";
    size_t i;

    json_array_foreach(list, i, s) {
        double v = value_of(p->doc, s, curve);

        high = isfinite(v) && v > high ? v : high;
        low = isfinite(v) && v < low ? v : low;
    }
    if (!(high > low))
        return;
    write_line(p, "g", LEFT, top, LEFT + WIDTH, top);
    write_line(p, "g", LEFT, top + CURVE, LEFT + WIDTH, top + CURVE);
    write_words(p, "r b", LEFT - 8, top + CURVE / 2.0, label[curve]);
    if (curve == EACH)
        write_words(p, "r b", LEFT - 8, top + CURVE / 2.0 + 14, "device held");
    write_words(p, "r", LEFT - 8, top + 10, dp_text_count(text, sizeof text, high));
    write_words(p, "r", LEFT - 8, top + CURVE, dp_text_count(text, sizeof text, low));
    fputs("<path class=\"c\" d=\"", p->out);
    json_array_foreach(list, i, s) {
        double v = value_of(p->doc, s, curve), at = dp_json_number(s, "at_s");

        if (!isfinite(v) || !isfinite(at))
            continue;
        x = x_of(p, at);
        y = top + CURVE * (1 - (v - low) / (high - low));
        fprintf(p->out, "%s%.1f %.1f", pen, x, y);
        pen = "L";
    }
    fputs("\"/>\n", p->out);
}

/* ---- the whole ---- */

/* A round number of seconds that makes at most ten. */
static double tick_s(double all_s)
{
    static const double steps[] = {0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400};

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (all_s / steps[i] <= 10)
            return steps[i];
    return 86400 * ceil(all_s / 86400 / 10);
}

static void write_axis(const struct picture *p, double top, double bottom)
{
    double step = tick_s(p->all_s);

    for (double at = 0; at <= p->all_s * 1.000001; at += step) {
        char text[32];

        write_line(p, "g", x_of(p, at), top, x_of(p, at), bottom);
        write_words(p, "m", x_of(p, at), bottom + 16, dp_text_seconds(text, sizeof text, at));
    }
}

static void write_switches(const struct picture *p, double top, double bottom)
{
    const json_t *h;
    size_t i;

    json_array_foreach(dp_json_list(p->doc, "handovers"), i, h) {
        double at = switched_at(h);

        if (isfinite(at))
            write_line(p, "h", x_of(p, at), top, x_of(p, at), bottom);
    }
}

static void write_head(const struct picture *p, double height)
{
    static const struct {
        const char *class, *text;
    } legend[] = {{"t", "trains"}, {"e", "holds no layers"}, {"l", "leaves: proved empty first"}, {"f", "given back to Slurm"}};
    char job[32], name[128], state[64], time[32], step[32], total[32];
    double width = LEFT + WIDTH + RIGHT, later = dp_json_number(p->doc, "saving.later_percent"), x = LEFT;
    double fewer = dp_json_number(p->doc, "saving.device_s_percent");

    fprintf(p->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n", width, height,
            width, height);
    fputs("<style>text{font:12px sans-serif;fill:#1f2933}.b{font-weight:bold}.d{font:bold 16px sans-serif}.n{fill:#fff;text-anchor:middle}"
          ".m{text-anchor:middle}.r{text-anchor:end}.t{fill:#2f6db5}.e{fill:#c27c1e}.l{fill:#8a5a83}.f{fill:#3b8f5c}"
          ".c{fill:none;stroke:#2f6db5;stroke-width:1.6}.g{stroke:#cbd2d9;stroke-width:.7}"
          ".h{stroke:#1f2933;stroke-width:1;stroke-dasharray:4 3}</style>\n", p->out);
    fprintf(p->out, "<rect fill=\"#fff\" stroke=\"#cbd2d9\" rx=\"8\" x=\".5\" y=\".5\" width=\"%.0f\" height=\"%.0f\"/>\n", width - 1,
            height - 1);
    fputs("<text class=\"d\" x=\"20\" y=\"30\">", p->out);
    dp_text_xml(p->out, dp_json_text(name, sizeof name, p->doc, "job_name|job.name", "a run"));
    fprintf(p->out, " (job %s): %s after %s, step %s of %s</text>\n", dp_json_text(job, sizeof job, p->doc, "job_id|job.id", "?"),
            dp_json_text(state, sizeof state, p->doc, "state", "?"), dp_text_seconds(time, sizeof time, p->all_s),
            dp_json_text(step, sizeof step, p->doc, "step", "?"), dp_json_text(total, sizeof total, p->doc, "steps_total", "?"));
    if (isfinite(later) && isfinite(fewer))
        fprintf(p->out, "<text x=\"20\" y=\"52\">against the layout of its start, kept on all nodes: %.1f %% %s, %.1f %% %s device-seconds"
                "</text>\n", fabs(later), later < 0 ? "earlier" : "later", fabs(fewer), fewer < 0 ? "fewer" : "more");
    for (size_t i = 0; i < sizeof legend / sizeof *legend; i++) {
        fprintf(p->out, "<rect class=\"%s\" x=\"%.0f\" y=\"70\" width=\"14\" height=\"14\"/>\n", legend[i].class, x);
        write_words(p, "", x + 20, 82, legend[i].text);
        x += 40 + 6.6 * (double)strlen(legend[i].text);
    }
    write_line(p, "h", x, 77, x + 18, 77);
    write_words(p, "", x + 24, 82, "hand-over");
}

static void write_picture(const struct picture *p)
{
    double rows_end = TOP + p->slots * p->pitch, bottom = rows_end, y = rows_end + GAP;
    const json_t *slot;
    size_t i;

    for (int k = 0; k < N_CURVES; k++)
        bottom += is_shown(p->doc, k) ? CURVE + GAP : 0;
    write_head(p, bottom + BOTTOM);
    write_axis(p, TOP - 6, bottom);
    json_array_foreach(dp_json_list(p->doc, "slots"), i, slot)
        write_row(p, slot, dp_json_count(slot, "slot", i), TOP + (double)i * p->pitch);
    for (int k = 0; k < N_CURVES; k++) {
        if (!is_shown(p->doc, k))
            continue;
        write_curve(p, k, y);
        y += CURVE + GAP;
    }
    write_switches(p, TOP - 6, bottom);
    fputs("</svg>\n", p->out);
}

int dp_report_svg(const json_t *doc, const char *path, struct dp_err *err)
{
    struct picture p = {.doc = doc, .all_s = dp_json_number(doc, "now_s|elapsed_s")};
    char *text = NULL;
    size_t bytes = 0;

    p.slots = (uint32_t)json_array_size(dp_json_list(doc, "slots"));
    if (p.slots == 0 || !(p.all_s > 0))
        return dp_err_set(err, DP_EINVAL, "%s: nothing to draw: the report names no node, or no time", path);
    p.pitch = p.slots * ROW <= ROWS ? ROW : (double)ROWS / p.slots;
    p.out = open_memstream(&text, &bytes);
    if (!p.out)
        return dp_show_save(path, NULL, 0, err);
    write_picture(&p);
    if (fclose(p.out) != 0) {
        free(text);
        text = NULL;
    }
    return dp_show_save(path, text, bytes, err);
}
