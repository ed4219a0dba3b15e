/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeline in the Trace Event Format ("JSON object format"), which chrome://tracing and Perfetto
 * load: complete events (X) for what was computed and reduced, metadata (M) with the names of the rows,
 * counters (C) with the memory. Times are microseconds. Process 0 holds the devices, process 1 their
 * all-reduces. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/show/save.h"
#include "cli/simulate/timeline.h"

#define MOST_SPANS 2000000u /* each is about a hundred bytes of JSON */

static const char *const names[] = {"forward", "backward", "weight gradient"};

struct writer {
    FILE *out;
    const struct dp_timeline *t;
    uint32_t device; /* of the counter */
};

static double us(uint64_t ns)
{
    return (double)ns * 1e-3;
}

static void name_row(FILE *out, const char *what, uint32_t pid, uint32_t tid, const char *format, uint32_t number)
{
    fprintf(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"", what, pid, tid);
    fprintf(out, format, number);
    fprintf(out, "\"}},\n");
}

static void complete(FILE *out, const char *name, const char *category, uint32_t pid, uint32_t tid, uint64_t start_ns,
                     uint64_t end_ns)
{
    fprintf(out, "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f", name, category, pid,
            tid, us(start_ns), us(end_ns - start_ns));
}

static void write_rows(const struct writer *w)
{
    name_row(w->out, "process_name", 0, 0, "devices", 0);
    if (w->t->has_reductions)
        name_row(w->out, "process_name", 1, 0, "gradient all-reduce", 0);
    for (uint32_t d = 0; d < w->t->n_devices; d++) {
        name_row(w->out, "thread_name", 0, w->t->number[d], "device %u", w->t->number[d]);
        if (w->t->has_reductions)
            name_row(w->out, "thread_name", 1, w->t->number[d], "device %u", w->t->number[d]);
    }
}

static void write_spans(const struct writer *w)
{
    const struct dp_timeline *t = w->t;

    for (uint32_t i = 0; i < t->n_spans; i++) {
        const struct dp_sim_span *s = &t->span[i];
        char name[64];

        snprintf(name, sizeof name, "%s %u", names[s->kind], s->mb);
        complete(w->out, name, names[s->kind], 0, t->number[s->device], s->start_ns, s->end_ns);
        fprintf(w->out, ",\"args\":{\"microbatch\":%u,\"stage\":%u}},\n", s->mb, t->stage_of[s->place]);
    }
}

static void write_reductions(const struct writer *w)
{
    const struct dp_timeline *t = w->t;

    for (uint32_t i = 0; t->has_reductions && i < t->n_places * t->buckets; i++) {
        uint32_t k = i / t->buckets;

        if (t->reduction[i].end_ns == t->reduction[i].start_ns) /* a stage that is on one device */
            continue;
        complete(w->out, "all-reduce", "all-reduce", 1, t->number[k % t->n_devices], t->reduction[i].start_ns,
                 t->reduction[i].end_ns);
        fprintf(w->out, ",\"args\":{\"stage\":%u,\"bucket\":%u}},\n", t->stage_of[k], i % t->buckets);
    }
}

static void count_bytes(void *arg, uint64_t at_ns, uint64_t bytes)
{
    const struct writer *w = arg;

    fprintf(w->out, "{\"ph\":\"C\",\"name\":\"memory of device %u\",\"pid\":0,\"ts\":%.3f,\"args\":{\"bytes\":%" PRIu64 "}},\n",
            w->t->number[w->device], us(at_ns), bytes);
}

static void write_optimizers(const struct writer *w)
{
    const struct dp_timeline *t = w->t;

    for (uint32_t d = 0; d < t->n_devices; d++) {
        complete(w->out, "optimizer", "optimizer", 0, t->number[d], t->norm_ns, t->norm_ns + dp_timeline_optimizer_ns(t, d));
        fprintf(w->out, ",\"args\":{}}%s\n", d + 1 < t->n_devices ? "," : "");
    }
}

int dp_timeline_chrome(const struct dp_timeline *t, const char *title, const char *path, struct dp_err *err)
{
    struct writer w = {.t = t};
    char *text = NULL, *quoted;
    json_t *name;
    size_t bytes = 0;

    if (t->n_spans > MOST_SPANS)
        return dp_err_set(err, DP_EINVAL, "%s: %u operations; at most %u are written", path, t->n_spans, MOST_SPANS);
    name = json_string(title);
    quoted = json_dumps(name, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(name);
    w.out = open_memstream(&text, &bytes);
    if (!w.out) {
        free(quoted);
        return dp_show_save(path, NULL, 0, err);
    }
    fprintf(w.out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"name\":%s,\"iteration\":%" PRIu64 "},\n\"traceEvents\":[\n",
            quoted ? quoted : "\"\"", t->iteration);
    write_rows(&w);
    write_spans(&w);
    write_reductions(&w);
    for (w.device = 0; w.device < t->n_devices; w.device++)
        dp_timeline_bytes(t, w.device, count_bytes, &w);
    write_optimizers(&w);
    fprintf(w.out, "]}\n");
    free(quoted);
    if (fclose(w.out) != 0) {
        free(text);
        text = NULL;
    }
    return dp_show_save(path, text, bytes, err);
}
