/* SPDX-License-Identifier: BSD-3-Clause */
/* A simulated cluster as a picture: without DynPipe above, with it below, on one time axis. Of a small one
 * each node is a row with the jobs that it runs; of a large one the nodes that are held, needed and idle are
 * areas. Under each stands what waits, in nodes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/save.h"
#include "cli/show/text.h"
#include "cli/simulate/cluster.h"
#include "cli/simulate/timeline.h"

enum {
    LEFT = 76,
    WIDTH = 1200, /* of the time axis, and columns of the areas */
    RIGHT = 90,
    TOP = 56,
    HELD = 220,  /* height of the nodes */
    QUEUE = 80,  /* and of the queue */
    GAP = 34,    /* between two panels: title */
    BOTTOM = 30,
    MOST_ROWS = 64,
    MOST_BOXES = 4000, /* jobs of a picture with rows */
};

enum layer { SHRINKING, IDLE_HELD, OTHERS, WAITING, N_LAYERS };

struct picture {
    FILE *out;
    const struct dp_cluster_case *c;
    uint64_t first_ns, span_ns;
    double most_waiting;
    double *column[2][N_LAYERS]; /* [WIDTH] nodes on average of a column, without and with DynPipe */
};

static double x_of(const struct picture *p, uint64_t at_ns)
{
    return LEFT + (double)(at_ns - p->first_ns) / (double)p->span_ns * WIDTH;
}

/* nodes from begin to end into the columns that they touch. */
static void add(const struct picture *p, double *column, uint64_t begin_ns, uint64_t end_ns, double nodes)
{
    double from = begin_ns < end_ns ? x_of(p, begin_ns) - LEFT : 0, to = begin_ns < end_ns ? x_of(p, end_ns) - LEFT : 0;

    for (int i = (int)from; i < WIDTH && i < to; i++) {
        double low = from > i ? from : i, high = to < i + 1 ? to : i + 1;

        column[i] += nodes * (high - low);
    }
}

static void add_job(const struct picture *p, const struct dp_cluster_job *j, const struct dp_cluster_times *t, bool with)
{
    struct dp_cluster_hold held[DP_CLUSTER_MAX_STEPS + 1], needed[DP_CLUSTER_MAX_STEPS + 1];
    const struct dp_cluster_mix *mix = &p->c->mix;
    uint32_t n = dp_cluster_job_needs(mix, j, needed), m = dp_cluster_job_holds(mix, j, with, held);

    add(p, p->column[with][WAITING], j->submit_ns, t->start_ns, j->nodes);
    for (uint32_t k = 0; k < n; k++) { /* of a longer time with DynPipe what lies before the end */
        uint64_t end_ns = k + 1 < n ? t->start_ns + needed[k + 1].after_ns : t->end_ns;

        add(p, p->column[with][j->curve ? SHRINKING : OTHERS], t->start_ns + needed[k].after_ns,
            end_ns < t->end_ns ? end_ns : t->end_ns, needed[k].nodes);
    }
    for (uint32_t k = 0; k < m && j->curve; k++)
        add(p, p->column[with][IDLE_HELD], t->start_ns + held[k].after_ns,
            k + 1 < m ? t->start_ns + held[k + 1].after_ns : t->end_ns, held[k].nodes);
}

/* Held by DynPipe jobs was counted whole: what is needed of it goes. */
static void fill_columns(struct picture *p, const struct dp_cluster_pair *pair)
{
    for (int with = 0; with < 2; with++) {
        for (uint32_t i = 0; i < p->c->mix.n_jobs; i++)
            add_job(p, &p->c->mix.job[i], &pair->times[with][i], with);
        for (int i = 0; i < WIDTH; i++) {
            double *held = &p->column[with][IDLE_HELD][i];

            *held -= p->column[with][SHRINKING][i];
            *held = *held > 0 ? *held : 0;
            if (p->column[with][WAITING][i] > p->most_waiting)
                p->most_waiting = p->column[with][WAITING][i];
        }
    }
}

/* An area between two sums of columns; scale: pixels per node. */
static void write_area(const struct picture *p, const char *class, const double *low, const double *high, double base, double scale)
{
    fprintf(p->out, "<path class=\"%s\" d=\"M%d %.2f", class, LEFT, base - low[0] * scale);
    for (int i = 0; i < WIDTH; i++)
        if (i == 0 || high[i] != high[i - 1])
            fprintf(p->out, "L%d %.2fL%d %.2f", LEFT + i, base - (i ? high[i - 1] : high[0]) * scale, LEFT + i, base - high[i] * scale);
    fprintf(p->out, "L%d %.2f", LEFT + WIDTH, base - high[WIDTH - 1] * scale);
    for (int i = WIDTH - 1; i >= 0; i--)
        if (i == WIDTH - 1 || low[i] != low[i + 1])
            fprintf(p->out, "L%d %.2fL%d %.2f", LEFT + i + 1, base - (i + 1 < WIDTH ? low[i + 1] : low[i]) * scale, LEFT + i + 1,
                    base - low[i] * scale);
    fprintf(p->out, "L%d %.2fZ\"/>\n", LEFT, base - low[0] * scale);
}

static void write_areas(const struct picture *p, bool with, double base)
{
    static const char *const class[] = {[SHRINKING] = "s", [IDLE_HELD] = "u", [OTHERS] = "o"};
    static const enum layer order[] = {OTHERS, SHRINKING, IDLE_HELD};
    double low[WIDTH] = {0}, high[WIDTH], scale = (double)HELD / p->c->machine.nodes;

    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        for (int i = 0; i < WIDTH; i++)
            high[i] = low[i] + p->column[with][order[k]][i];
        write_area(p, class[order[k]], low, high, base, scale);
        memcpy(low, high, sizeof low);
    }
}

/* ---- nodes as rows ---- */

struct change {
    uint64_t at_ns;
    uint32_t job, hold; /* hold: entry that begins, UINT32_MAX: the job ends */
};

/* Nodes come free before others are taken. */
static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if ((x->hold == 0) != (y->hold == 0))
        return x->hold == 0 ? 1 : -1;
    return (x->job > y->job) - (x->job < y->job);
}

static void write_box(const struct picture *p, const struct dp_cluster_job *j, uint32_t node, uint32_t n, uint64_t begin_ns,
                      uint64_t end_ns, double top, double pitch)
{
    double x = x_of(p, begin_ns), width = x_of(p, end_ns) - x;

    fprintf(p->out, "<rect class=\"%s%u\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>job %u, %u nodes</title></rect>",
            j->curve ? "s" : "o", j->number % 3, x, top + node * pitch, width, n * pitch, j->number, j->nodes);
    if (width > 30 && n * pitch > 11)
        fprintf(p->out, "<text class=\"n\" x=\"%.2f\" y=\"%.2f\">%u</text>", x + width / 2, top + (node + n / 2.0) * pitch + 4,
                j->number);
    fputc('\n', p->out);
}

struct rows {
    int64_t owner[MOST_ROWS];      /* job, -1: none */
    uint64_t since_ns[MOST_ROWS];
};

/* Draw what rows first .. end - 1 of a job have held until now. */
static void close_rows(const struct picture *p, struct rows *r, uint32_t job, uint64_t now_ns, double top, double pitch)
{
    uint32_t nodes = p->c->machine.nodes;

    for (uint32_t i = 0; i < nodes;) {
        uint32_t n = 1;

        if (r->owner[i] != (int64_t)job) {
            i++;
            continue;
        }
        while (i + n < nodes && r->owner[i + n] == (int64_t)job)
            n++;
        if (now_ns > r->since_ns[i])
            write_box(p, &p->c->mix.job[job], i, n, r->since_ns[i], now_ns, top, pitch);
        i += n;
    }
}

/* The job has so many nodes from now on: it gives the last ones back, its first stays to the end. */
static void set_rows(const struct picture *p, struct rows *r, uint32_t job, uint32_t wanted, uint64_t now_ns, double top, double pitch)
{
    uint32_t has = 0;

    close_rows(p, r, job, now_ns, top, pitch);
    for (uint32_t i = 0; i < p->c->machine.nodes; i++) {
        bool is_own = r->owner[i] == (int64_t)job;

        if (is_own && has >= wanted)
            r->owner[i] = -1;
        has += is_own;
    }
    for (uint32_t i = 0; i < p->c->machine.nodes; i++) {
        if (r->owner[i] == -1 && has < wanted) {
            r->owner[i] = job;
            has++;
        }
        if (r->owner[i] == (int64_t)job)
            r->since_ns[i] = now_ns;
    }
}

static int write_rows(const struct picture *p, const struct dp_cluster_times *times, bool with, double base, struct dp_err *err)
{
    const struct dp_cluster_mix *mix = &p->c->mix;
    struct change *change = calloc((size_t)mix->n_jobs * (DP_CLUSTER_MAX_STEPS + 2), sizeof *change);
    struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];
    double pitch = (double)HELD / p->c->machine.nodes, top = base - HELD;
    struct rows r;
    uint32_t n = 0;

    if (!change)
        return dp_err_set(err, DP_ENOMEM, "%u jobs: out of memory", mix->n_jobs);
    for (uint32_t i = 0; i < MOST_ROWS; i++)
        r.owner[i] = -1;
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        uint32_t steps = dp_cluster_job_holds(mix, &mix->job[i], with, hold);

        if (times[i].end_ns == times[i].start_ns)
            continue;
        for (uint32_t k = 0; k < steps; k++)
            change[n++] = (struct change){times[i].start_ns + hold[k].after_ns, i, k};
        change[n++] = (struct change){times[i].end_ns, i, UINT32_MAX};
    }
    qsort(change, n, sizeof *change, by_time);
    for (uint32_t i = 0; i < n; i++) {
        const struct change *e = &change[i];

        dp_cluster_job_holds(mix, &mix->job[e->job], with, hold);
        set_rows(p, &r, e->job, e->hold == UINT32_MAX ? 0 : hold[e->hold].nodes, e->at_ns, top, pitch);
    }
    free(change);
    return 0;
}

/* ---- the whole ---- */

static bool has_rows(const struct picture *p)
{
    return p->c->machine.nodes <= MOST_ROWS && p->c->mix.n_jobs <= MOST_BOXES;
}

static double base_of(bool with)
{
    return TOP + HELD + GAP * 0.5 + (with ? HELD + QUEUE + GAP : 0);
}

static int write_panel(const struct picture *p, const struct dp_cluster_pair *pair, bool with, struct dp_err *err)
{
    const struct dp_cluster_stats *s = &pair->stats[with];
    double base = base_of(with), zero[WIDTH] = {0};
    char wait[32];

    fprintf(p->out, "<text class=\"b\" x=\"%d\" y=\"%.1f\">%s DynPipe: mean waiting time %s, %.1f %% of the nodes held</text>\n",
            LEFT, base - HELD - 6, with ? "with" : "without", dp_text_seconds(wait, sizeof wait, s->wait_s.mean), 100 * s->held_share);
    fprintf(p->out, "<rect class=\"i\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", LEFT, base - HELD, WIDTH, HELD);
    if (!has_rows(p))
        write_areas(p, with, base);
    else if (write_rows(p, pair->times[with], with, base, err) < 0)
        return -1;
    fprintf(p->out, "<text class=\"e\" x=\"%d\" y=\"%.1f\">%u nodes</text><text class=\"e\" x=\"%d\" y=\"%.1f\">0</text>\n", LEFT - 6,
            base - HELD + 9, p->c->machine.nodes, LEFT - 6, base);
    write_area(p, "w", zero, p->column[with][WAITING], base + QUEUE - 4, (QUEUE - 12) / (p->most_waiting > 0 ? p->most_waiting : 1));
    fprintf(p->out, "<line class=\"g\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text class=\"e\" x=\"%d\" y=\"%.1f\">waiting</text>"
            "<text x=\"%d\" y=\"%.1f\">%.0f nodes</text>\n", LEFT, base + QUEUE - 4, LEFT + WIDTH, base + QUEUE - 4, LEFT - 6,
            base + QUEUE - 4, LEFT + WIDTH + 6, base + 17, p->most_waiting);
    return 0;
}

/* A round step that gives at most twelve. */
static double tick_h(double all_h)
{
    static const double steps[] = {1.0 / 60, 1.0 / 12, 1.0 / 4, 1, 2, 6, 12, 24, 48, 120, 240, 720, 2160};

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (all_h / steps[i] <= 12)
            return steps[i];
    return 8760 * ceil(all_h / 8760 / 12);
}

static void write_axis(const struct picture *p)
{
    double all = (double)p->span_ns / 3.6e12, step = tick_h(all), bottom = base_of(true) + QUEUE;
    bool is_days = step >= 24, is_minutes = step < 1;

    for (double at = 0; at <= all * 1.000001; at += step) {
        double x = LEFT + at / all * WIDTH;

        fprintf(p->out, "<line class=\"g\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">%.0f%s</text>\n", x, TOP, x, bottom, x, bottom + 14,
                is_days ? at / 24 : is_minutes ? at * 60 : at,
                at + step <= all * 1.000001 ? "" : is_days ? " days" : is_minutes ? " min" : " h");
    }
}

static void write_head(const struct picture *p, const struct dp_cluster_pair *pair, const char *title, int height)
{
    static const struct {
        const char *class, *text;
    } legend[] = {{"s", "DynPipe jobs"}, {"u", "held by DynPipe jobs, not needed"}, {"o", "other jobs"}, {"i", "idle"},
                  {"w", "waiting, in nodes"}};
    int x = LEFT, width = LEFT + WIDTH + RIGHT;

    fprintf(p->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", width, height,
            width, height);
    fputs("<style>text{font:11px sans-serif;fill:#222}.h{font-size:14px;font-weight:bold}.b{font-weight:bold}.n{font-size:10px;fill:#fff;"
          "text-anchor:middle}.m{text-anchor:middle}.e{text-anchor:end}.i{fill:#f1f1f1}"
          ".s,.s0{fill:#3b78c2}.s1{fill:#2f62a3}.s2{fill:#5a8fd0}"
          ".s0,.s1,.s2,.o0,.o1,.o2{stroke:#fff;stroke-width:.5}"
          ".o,.o0{fill:#8a8f98}.o1{fill:#757b85}.o2{fill:#9da2aa}.u{fill:#d98e32}.w{fill:#b5544f}.g{stroke:#bbb;stroke-width:.5}</style>\n",
          p->out);
    fprintf(p->out, "<rect fill=\"#fff\" width=\"%d\" height=\"%d\"/><text class=\"h\" x=\"%d\" y=\"20\">", width, height, LEFT);
    dp_text_xml(p->out, title);
    fprintf(p->out, ", %s</text>\n", dp_cluster_schedulers[pair->scheduler].name);
    for (size_t i = 0; i < sizeof legend / sizeof *legend; i++) {
        if (legend[i].class[0] == 'u' && has_rows(p))
            continue;
        fprintf(p->out, "<rect class=\"%s\" x=\"%d\" y=\"30\" width=\"12\" height=\"12\"/><text x=\"%d\" y=\"40\">%s</text>\n",
                legend[i].class, x, x + 16, legend[i].text);
        x += 40 + 6 * (int)strlen(legend[i].text);
    }
}

static int write_picture(struct picture *p, const struct dp_cluster_pair *pair, const char *title, struct dp_err *err)
{
    write_head(p, pair, title, (int)base_of(true) + QUEUE + BOTTOM);
    for (int with = 0; with < 2; with++)
        if (write_panel(p, pair, with, err) < 0)
            return -1;
    write_axis(p);
    fputs("</svg>\n", p->out);
    return 0;
}

static int draw(struct picture *p, const struct dp_cluster_pair *pair, const char *title, const char *path, struct dp_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc;

    fill_columns(p, pair);
    p->out = open_memstream(&text, &bytes);
    if (!p->out)
        return dp_show_save(path, NULL, 0, err);
    rc = write_picture(p, pair, title, err);
    if (fclose(p->out) != 0 || rc < 0) {
        free(text);
        text = NULL;
    }
    return rc < 0 ? -1 : dp_show_save(path, text, bytes, err);
}

int dp_cluster_svg(const struct dp_cluster_case *c, const struct dp_cluster_pair *pair, const char *title, const char *path,
                   struct dp_err *err)
{
    struct picture p = {.c = c, .first_ns = c->mix.job[0].submit_ns, .span_ns = 1};
    double *columns = calloc((size_t)2 * N_LAYERS * WIDTH, sizeof *columns);
    int rc;

    if (!columns)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
    for (int k = 0; k < 2 * N_LAYERS; k++)
        p.column[k / N_LAYERS][k % N_LAYERS] = columns + (size_t)k * WIDTH;
    for (uint32_t i = 0; i < 2 * c->mix.n_jobs; i++) {
        uint64_t end_ns = pair->times[i % 2][i / 2].end_ns - p.first_ns;

        p.span_ns = end_ns > p.span_ns ? end_ns : p.span_ns;
    }
    rc = draw(&p, pair, title, path, err);
    free(columns);
    return rc;
}
