/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeline as a picture: one row a device with what it computed, what it reduced and waited for, its
 * share of waiting, and under each row its memory over time. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/save.h"
#include "cli/show/text.h"
#include "cli/simulate/timeline.h"

#define MOST_SPANS 100000u /* a rectangle each, which a browser must hold */
#define MOST_DEVICES 256u /* rows that can still be told apart */

enum {
    LEFT = 76,    /* names of the rows */
    WIDTH = 1200, /* of the time axis */
    RIGHT = 132,  /* bubble and memory */
    TOP = 58,
    ROW = 22,     /* operations */
    NET = 5,      /* all-reduce, under them */
    MEM = 16,     /* memory, under that */
    GAP = 7,
    PITCH = ROW + NET + MEM + GAP,
    BOTTOM = 30,
};

static const char *const kind_class[] = {"f", "b", "w"};

struct picture {
    FILE *out;
    const struct dp_timeline *t;
    double scale; /* pixels per ns */
    uint64_t most_bytes;
    /* of the memory curve that is drawn */
    double base, last_y;
};

static double x_of(const struct picture *p, uint64_t ns)
{
    return LEFT + (double)ns * p->scale;
}

static double y_of(uint32_t device)
{
    return TOP + (double)device * PITCH;
}

static void write_style(FILE *out)
{
    fputs("<style>text{font:11px sans-serif;fill:#222}.h{font-size:14px;font-weight:bold}.d{font-size:9px;fill:#fff;"
          "text-anchor:middle}.m{text-anchor:middle}.e{text-anchor:end}.i{fill:#f1f1f1}.f{fill:#3b78c2}.b{fill:#3f9c5a}"
          ".w{fill:#d98e32}.r{fill:#8d5bb5}.o{fill:#666}.k{fill:#dde6f0;stroke:#6d8fb8;stroke-width:.6}"
          ".g{stroke:#bbb;stroke-width:.5}</style>\n",
          out);
}

static void write_legend(const struct picture *p)
{
    static const struct {
        const char *class, *text;
    } entries[] = {{"f", "forward"}, {"b", "backward"}, {"w", "weight gradient"}, {"r", "all-reduce"},
                   {"o", "optimizer"}, {"i", "waiting"}, {"k", "memory"}};
    int x = LEFT;

    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if ((entries[i].class[0] == 'w' && !p->t->is_split) || (entries[i].class[0] == 'r' && !p->t->has_reductions))
            continue;
        fprintf(p->out, "<rect class=\"%s\" x=\"%d\" y=\"32\" width=\"12\" height=\"12\"/><text x=\"%d\" y=\"42\">%s</text>\n",
                entries[i].class, x, x + 16, entries[i].text);
        x += 34 + 7 * (int)strlen(entries[i].text);
    }
}

/* A round step that gives at most ten of them. */
static double tick_ns(double all_ns)
{
    double step = pow(10, floor(log10(all_ns / 10)));

    if (all_ns / step > 50)
        return 10 * step;
    if (all_ns / step > 20)
        return 5 * step;
    return all_ns / step > 10 ? 2 * step : step;
}

static void write_axis(const struct picture *p)
{
    double all = (double)(p->t->iteration_ns ? p->t->iteration_ns : 1), step = tick_ns(all), bottom = y_of(p->t->n_devices);

    for (double at = 0; at <= all * 1.000001; at += step) {
        double x = LEFT + at * p->scale;

        fprintf(p->out, "<line class=\"g\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\"/><text class=\"m\" x=\"%.1f\" y=\"%.1f\">%g",
                x, TOP - 4, x, bottom, x, bottom + 14, at * 1e-6);
        fputs(at + step > all * 1.000001 ? " ms</text>\n" : "</text>\n", p->out);
    }
}

static void box(const struct picture *p, const char *class, uint64_t start_ns, uint64_t end_ns, double y, int height)
{
    fprintf(p->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"/>", class, x_of(p, start_ns), y,
            (double)(end_ns - start_ns) * p->scale, height);
}

static void write_spans(const struct picture *p)
{
    for (uint32_t i = 0; i < p->t->n_spans; i++) {
        const struct dp_sim_span *s = &p->t->span[i];
        double y = y_of(s->device);

        if (s->end_ns == s->start_ns)
            continue;
        box(p, kind_class[s->kind], s->start_ns, s->end_ns, y, ROW);
        /* a light edge keeps neighbours apart */
        if ((double)(s->end_ns - s->start_ns) * p->scale > 3)
            fprintf(p->out, "<rect fill=\"#fff\" x=\"%.2f\" y=\"%.1f\" width=\".6\" height=\"%d\"/>", x_of(p, s->start_ns), y, ROW);
        if ((double)(s->end_ns - s->start_ns) * p->scale > 7 * (1 + (s->mb > 9) + (s->mb > 99) + (s->mb > 999)))
            fprintf(p->out, "<text class=\"d\" x=\"%.2f\" y=\"%.1f\">%u</text>",
                    (x_of(p, s->start_ns) + x_of(p, s->end_ns)) / 2, y + ROW - 8, s->mb);
        fputc('\n', p->out);
    }
}

static void write_reductions(const struct picture *p)
{
    for (uint32_t i = 0; p->t->has_reductions && i < p->t->n_places * p->t->buckets; i++) {
        const struct dp_sim_reduction *r = &p->t->reduction[i];

        if (r->end_ns == r->start_ns)
            continue;
        box(p, "r", r->start_ns, r->end_ns, y_of(i / p->t->buckets % p->t->n_devices) + ROW, NET);
        fputc('\n', p->out);
    }
}

static void find_most(void *arg, uint64_t at_ns, uint64_t bytes)
{
    struct picture *p = arg;

    (void)at_ns;
    p->most_bytes = bytes > p->most_bytes ? bytes : p->most_bytes;
}

/* The next corner of the curve. */
static void memory_step(void *arg, uint64_t at_ns, uint64_t bytes)
{
    struct picture *p = arg;
    double x = x_of(p, at_ns), y = p->base - (p->most_bytes ? (double)bytes / (double)p->most_bytes * (MEM - 1) : 0);

    fprintf(p->out, "L%.2f %.2fL%.2f %.2f", x, p->last_y, x, y);
    p->last_y = y;
}

static void write_memory(struct picture *p, uint32_t device)
{
    p->base = p->last_y = y_of(device) + ROW + NET + MEM;
    fprintf(p->out, "<path class=\"k\" d=\"M%d %.1f", LEFT, p->base);
    dp_timeline_bytes(p->t, device, memory_step, p);
    fprintf(p->out, "L%.2f %.2fL%.2f %.2fZ\"/>\n", x_of(p, p->t->iteration_ns), p->last_y, x_of(p, p->t->iteration_ns), p->base);
}

static void write_row(struct picture *p, uint32_t d)
{
    const struct dp_timeline *t = p->t;
    double y = y_of(d);

    box(p, "i", 0, t->iteration_ns, y, ROW);
    fprintf(p->out, "<text class=\"e\" x=\"%d\" y=\"%.1f\">device %u</text>", LEFT - 8, y + ROW - 7, t->number[d]);
    fprintf(p->out, "<text x=\"%d\" y=\"%.1f\">%.1f %% waiting</text>", LEFT + WIDTH + 8, y + ROW - 7, 100 * t->device[d].bubble);
    fprintf(p->out, "<text x=\"%d\" y=\"%.1f\">%.4g MiB at most</text>\n", LEFT + WIDTH + 8, y + ROW + NET + MEM - 3,
            (double)t->device[d].mem_bytes / 1048576.0);
    write_memory(p, d);
}

static void write_picture(struct picture *p, const char *title)
{
    const struct dp_timeline *t = p->t;
    int width = LEFT + WIDTH + RIGHT, height = (int)y_of(t->n_devices) + BOTTOM;

    fprintf(p->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", width, height,
            width, height);
    write_style(p->out);
    fprintf(p->out, "<rect fill=\"#fff\" width=\"%d\" height=\"%d\"/><text class=\"h\" x=\"%d\" y=\"20\">", width, height, LEFT);
    dp_text_xml(p->out, title);
    fprintf(p->out, ", iteration %" PRIu64 ": %.6g ms</text>\n", t->iteration, (double)t->iteration_ns * 1e-6);
    write_legend(p);
    for (uint32_t d = 0; d < t->n_devices; d++)
        write_row(p, d);
    write_axis(p);
    write_spans(p);
    write_reductions(p);
    for (uint32_t d = 0; d < t->n_devices; d++)
        if (dp_timeline_optimizer_ns(t, d))
            box(p, "o", t->norm_ns, t->norm_ns + dp_timeline_optimizer_ns(t, d), y_of(d), ROW);
    fputs("\n</svg>\n", p->out);
}

int dp_timeline_svg(const struct dp_timeline *t, const char *title, const char *path, struct dp_err *err)
{
    struct picture p = {.t = t};
    char *text = NULL;
    size_t bytes = 0;

    if (t->n_spans > MOST_SPANS || t->n_devices > MOST_DEVICES)
        return dp_err_set(err, DP_EINVAL, "%s: %u operations on %u devices; a picture holds at most %u on %u", path, t->n_spans,
                          t->n_devices, MOST_SPANS, MOST_DEVICES);
    p.scale = WIDTH / (double)(t->iteration_ns ? t->iteration_ns : 1);
    for (uint32_t d = 0; d < t->n_devices; d++)
        dp_timeline_bytes(t, d, find_most, &p);
    p.out = open_memstream(&text, &bytes);
    if (!p.out)
        return dp_show_save(path, NULL, 0, err);
    write_picture(&p, title);
    if (fclose(p.out) != 0) {
        free(text);
        text = NULL;
    }
    return dp_show_save(path, text, bytes, err);
}
