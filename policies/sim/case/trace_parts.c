/* SPDX-License-Identifier: BSD-3-Clause */
/* See trace_parts.h. */
#define _GNU_SOURCE /* memmem */
#include "policies/sim/case/trace_parts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_STARTS 64 /* a header's first member is `trace`, within so many bytes of its line */

/* What makes two headers those of one run, and the rank. */
struct header {
    bool is_there;
    json_int_t rank, workers, shape[4];
    char schedule[32];
};

static bool read_header(const char *line, size_t bytes, struct header *out)
{
    static const char *const shape[] = {"layers", "microbatches", "tokens_per_microbatch", "boundary_bytes"};
    size_t head = bytes < HEADER_STARTS ? bytes : HEADER_STARTS;
    const char *schedule;
    json_t *o;

    if (!memmem(line, head, "\"trace\"", 7))
        return false;
    o = json_loadb(line, bytes, 0, NULL);
    memset(out, 0, sizeof *out);
    out->is_there = json_is_object(o);
    out->rank = json_integer_value(json_object_get(o, "rank"));
    out->workers = json_integer_value(json_object_get(o, "workers"));
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        out->shape[i] = json_integer_value(json_object_get(o, shape[i]));
    schedule = json_string_value(json_object_get(o, "schedule"));
    snprintf(out->schedule, sizeof out->schedule, "%s", schedule ? schedule : "");
    json_decref(o);
    return out->is_there;
}

static bool is_same_run(const struct header *a, const struct header *b)
{
    return a->workers == b->workers && !memcmp(a->shape, b->shape, sizeof a->shape) && !strcmp(a->schedule, b->schedule);
}

/* The part behind the last change of settings; *last: its header. */
static void find_part(const struct dp_sim_trace_text *file, struct dp_trace_part *part, struct header *last)
{
    const char *at = file->text, *end = at + file->bytes;

    *part = (struct dp_trace_part){.from_line = 1};
    *last = (struct header){0};
    for (unsigned line = 1; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((newline ? newline : end) - at);
        struct header h;

        if (read_header(at, bytes, &h)) {
            if (last->is_there && !is_same_run(&h, last)) {
                part->from = (size_t)(at - file->text);
                part->from_line = line;
            }
            *last = h;
        }
        at += bytes + (newline != NULL);
    }
}

void dp_trace_parts_find(uint32_t n, const struct dp_sim_trace_text *file, struct dp_trace_part *part)
{
    struct header *last = calloc(n, sizeof *last);
    const struct header *newest = NULL;

    for (uint32_t i = 0; i < n; i++) {
        struct header one;

        find_part(&file[i], &part[i], last ? &last[i] : &one);
        if (last && last[i].is_there && last[i].rank == 0)
            newest = &last[i];
    }
    for (uint32_t i = 0; i < n && newest; i++)
        part[i].is_stale = last[i].is_there && last[i].rank >= newest->workers && last[i].workers > newest->workers;
    free(last);
}
