/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of a recorded run (doc/simulator.md, "Trace of a run") into a case: one phase for each window
 * of worker 0, with the costs that every layer had then. Windows of different workers do not begin at
 * the same steps: a layer's cost is that of the window that shares the most steps with the phase, else
 * of the last one before, else of the first one of all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/sim/case/fields.h"
#include "policies/sim/case/read.h"
#include "policies/sim/case/trace_parts.h"

#define MAX_NS 1e15 /* eleven days, exact in a double */
#define MAX_BYTES 1e15 /* 1 PB, likewise */
#define MAX_STEPS 1e9 /* what train.steps may be */
#define MAX_COSTS (1u << 23) /* layers x windows of worker 0: each of them takes memory */

static const char header_names[] =
    "trace source rank workers layers schedule microbatches tokens_per_microbatch boundary_bytes link_latency_ns link_transfer_ns";
static const char record_names[] = "step steps layout held step_ns wait_ns busy_ns optimizer_ns overhead_ns message_ns "
                                   "rest_ns lost_ns boundary_ns mem_bytes first_layer layers";
static const char layer_names[] =
    "forward_ns backward_input_ns backward_weight_ns state_bytes activation_bytes parameters nonzeros";

/* One window of one worker. */
struct record {
    uint32_t rank, first_layer, n_layers, n_count, held;
    uint64_t first, last; /* steps */
    uint64_t step_ns, boundary_ns, message_ns, lost_ns;
    uint32_t *count;            /* [n_count] layers of each worker */
    struct dp_sim_layer *layer; /* [n_layers] */
};

struct recording {
    struct record *record;
    size_t n, cap;
    size_t file_begin; /* first record of the file that is read */
    uint32_t workers, layers, rank; /* of the headers; rank of this file */
    uint64_t stage_message_bytes, longest; /* longest: steps of the longest window */
    uint64_t latency_ns, transfer_ns; /* of the slowest link between neighbours */
    bool has_header, has_rank_0;
    bool is_cut;          /* an older start of the run is left out */
    bool *is_read; /* [workers] */
    struct dp_sim_tier *next; /* [workers] link from each to the next; all 0: not measured */
};

static void recording_release(struct recording *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->record[i].count);
        free(r->record[i].layer);
    }
    free(r->record);
    free(r->is_read);
    free(r->next);
}

static struct record *add_record(struct recording *r)
{
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct record *more = realloc(r->record, cap * sizeof *more);

        if (!more)
            return NULL;
        r->record = more;
        r->cap = cap;
    }
    memset(&r->record[r->n], 0, sizeof *r->record);
    return &r->record[r->n++];
}

static void drop_last(struct recording *r)
{
    r->n--;
    free(r->record[r->n].count);
    free(r->record[r->n].layer);
}

/* ---- header ---- */

static int same_run(const struct dp_sim_case *a, const struct dp_sim_case *b, const struct recording *r, uint32_t workers,
                    uint32_t layers, uint64_t stage_message_bytes, struct dp_err *err)
{
    if (a->schedule != b->schedule || a->microbatches != b->microbatches || a->tokens != b->tokens || workers != r->workers ||
        layers != r->layers || stage_message_bytes != r->stage_message_bytes)
        return dp_err_set(err, DP_EINVAL, "this is the trace of another run than the first one");
    return 0;
}

static struct dp_sim_tier link_of(uint64_t latency_ns, uint64_t transfer_ns, uint64_t bytes)
{
    return (struct dp_sim_tier){latency_ns, transfer_ns ? (double)bytes * 1e9 / (double)transfer_ns : 0};
}

static int read_header(const json_t *line, bool is_first_of_file, struct recording *r, struct dp_sim_case *c, struct dp_err *err)
{
    char schedule[32];
    struct dp_fields f;
    struct dp_sim_case fresh = {0};
    uint32_t workers, layers, rank;
    uint64_t stage_message_bytes, latency_ns, transfer_ns;

    dp_fields_open(&f, line, "", header_names, err);
    dp_fields_count(&f, "trace", 1, 1, NAN);
    workers = (uint32_t)dp_fields_count(&f, "workers", 1, DP_SIM_MAX_DEVICES, NAN);
    rank = (uint32_t)dp_fields_count(&f, "rank", 0, workers - 1.0, NAN);
    layers = (uint32_t)dp_fields_count(&f, "layers", 1, DP_SIM_MAX_LAYERS, NAN);
    stage_message_bytes = dp_fields_count(&f, "boundary_bytes", 0, MAX_BYTES, NAN);
    fresh.microbatches = (uint32_t)dp_fields_count(&f, "microbatches", 1, DP_SIM_MAX_MICROBATCHES, NAN);
    fresh.tokens = dp_fields_count(&f, "tokens_per_microbatch", 1, 1e12, NAN);
    latency_ns = dp_fields_count(&f, "link_latency_ns", 0, MAX_NS, 0);
    transfer_ns = dp_fields_count(&f, "link_transfer_ns", 0, MAX_NS, 0);
    dp_fields_text(&f, "schedule", schedule, sizeof schedule, NULL);
    dp_fields_text(&f, "source", fresh.source, sizeof fresh.source, NULL);
    if (f.is_bad || dp_schedule_find(schedule, &fresh.schedule, err) < 0)
        return -1;
    if (r->has_header && same_run(c, &fresh, r, workers, layers, stage_message_bytes, err) < 0)
        return -1;
    if (!r->has_header) {
        r->workers = workers;
        r->layers = layers;
        r->stage_message_bytes = stage_message_bytes;
        r->has_header = true;
        *c = fresh;
        r->is_read = calloc(workers, sizeof *r->is_read);
        r->next = calloc(workers, sizeof *r->next);
        if (!r->is_read || !r->next)
            return dp_err_set(err, DP_ENOMEM, "trace of %u workers: out of memory", workers);
    }
    if (is_first_of_file ? r->is_read[rank] : rank != r->rank)
        return dp_err_set(err, DP_EINVAL, "rank: worker %u is in another file, too", rank);
    r->latency_ns = latency_ns > r->latency_ns ? latency_ns : r->latency_ns;
    r->transfer_ns = transfer_ns > r->transfer_ns ? transfer_ns : r->transfer_ns;
    r->next[rank] = link_of(latency_ns, transfer_ns, stage_message_bytes);
    r->rank = rank;
    r->is_read[rank] = true;
    r->has_rank_0 |= rank == 0;
    return 0;
}

/* ---- records ---- */

static int read_layer(const json_t *value, const char *path, uint64_t stage_message_bytes, struct dp_sim_layer *out, struct dp_err *err)
{
    struct dp_fields f;

    dp_fields_open(&f, value, path, layer_names, err);
    out->fwd_ns = dp_fields_count(&f, "forward_ns", 0, MAX_NS, NAN);
    out->bwd_input_ns = dp_fields_count(&f, "backward_input_ns", 0, MAX_NS, NAN);
    out->bwd_weight_ns = dp_fields_count(&f, "backward_weight_ns", 0, MAX_NS, NAN);
    out->state_bytes = dp_fields_count(&f, "state_bytes", 0, MAX_BYTES, NAN);
    out->wgrad_bytes = out->act_bytes = dp_fields_count(&f, "activation_bytes", 0, MAX_BYTES, NAN);
    out->params = dp_fields_count(&f, "parameters", 0, MAX_BYTES, NAN);
    out->nnz = dp_fields_count(&f, "nonzeros", 0, MAX_BYTES, NAN);
    out->grad_bytes = out->nnz * sizeof(float);
    out->output_bytes = stage_message_bytes;
    return f.is_bad ? -1 : 0;
}

/* The stage's optimizer time goes to its layers by the parameters that they have left. */
static void share_optimizer(struct record *rec, uint64_t optimizer_ns)
{
    double all = 0;

    for (uint32_t i = 0; i < rec->n_layers; i++)
        all += (double)rec->layer[i].nnz;
    for (uint32_t i = 0; i < rec->n_layers && all > 0; i++)
        rec->layer[i].opt_ns = (uint64_t)((double)optimizer_ns * (double)rec->layer[i].nnz / all);
}

static int read_layers(const struct recording *r, const json_t *layers, struct record *rec, uint64_t optimizer_ns, struct dp_err *err)
{
    size_t n = json_array_size(layers);
    char path[64];

    if (!json_is_array(layers) || n > r->layers || rec->first_layer > r->layers - n)
        return dp_err_set(err, DP_EINVAL, "layers: expected an array of the costs of at most %u layers from layer %u on",
                          r->layers - rec->first_layer, rec->first_layer);
    rec->layer = calloc(n ? n : 1, sizeof *rec->layer);
    if (!rec->layer)
        return dp_err_set(err, DP_ENOMEM, "layers: out of memory");
    rec->n_layers = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "layers[%zu]", i);
        if (read_layer(json_array_get(layers, i), path, r->stage_message_bytes, &rec->layer[i], err) < 0)
            return -1;
    }
    share_optimizer(rec, optimizer_ns);
    return 0;
}

static int read_counts(const struct recording *r, const json_t *value, struct record *rec, struct dp_err *err)
{
    uint64_t sum = 0;
    double v;

    if (!json_is_array(value) || json_array_size(value) != r->workers)
        return dp_err_set(err, DP_EINVAL, "layout: expected the numbers of layers of %u workers", r->workers);
    rec->count = calloc(r->workers, sizeof *rec->count);
    if (!rec->count)
        return dp_err_set(err, DP_ENOMEM, "layout: out of memory");
    rec->n_count = r->workers;
    for (uint32_t i = 0; i < r->workers; i++) {
        if (!dp_fields_is_number(json_array_get(value, i), 0, r->layers, &v) || v != floor(v))
            return dp_err_set(err, DP_EINVAL, "layout[%u]: expected a number of layers", i);
        rec->count[i] = (uint32_t)v;
        sum += rec->count[i];
    }
    if (sum != r->layers)
        return dp_err_set(err, DP_EINVAL, "layout: has %llu layers, the model %u", (unsigned long long)sum, r->layers);
    return 0;
}

static int read_record(const json_t *line, struct recording *r, struct dp_err *err)
{
    struct record *rec = add_record(r);
    uint64_t steps, optimizer_ns;
    struct dp_fields f;

    if (!rec)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    rec->rank = r->rank;
    dp_fields_open(&f, line, "", record_names, err);
    rec->last = dp_fields_count(&f, "step", 1, MAX_STEPS, NAN);
    steps = dp_fields_count(&f, "steps", 1, (double)rec->last, NAN);
    rec->first = rec->last - steps + 1;
    r->longest = steps > r->longest ? steps : r->longest;
    rec->held = (uint32_t)dp_fields_count(&f, "held", 1, r->workers, NAN);
    rec->step_ns = dp_fields_count(&f, "step_ns", 0, MAX_NS, NAN);
    rec->boundary_ns = dp_fields_count(&f, "boundary_ns", 0, MAX_NS, NAN);
    optimizer_ns = dp_fields_count(&f, "optimizer_ns", 0, MAX_NS, NAN) + dp_fields_count(&f, "rest_ns", 0, MAX_NS, 0);
    rec->message_ns = dp_fields_count(&f, "message_ns", 0, MAX_NS, 0);
    rec->lost_ns = dp_fields_count(&f, "lost_ns", 0, MAX_NS, 0);
    rec->first_layer = (uint32_t)dp_fields_count(&f, "first_layer", 0, r->layers - 1.0, NAN);
    for (const char *const *name = (const char *const[]){"wait_ns", "busy_ns", "overhead_ns", "mem_bytes", NULL}; *name; name++)
        dp_fields_count(&f, *name, 0, MAX_NS, 0);
    if (f.is_bad || read_counts(r, dp_fields_get(&f, "layout"), rec, err) < 0 ||
        read_layers(r, dp_fields_get(&f, "layers"), rec, optimizer_ns, err) < 0)
        return -1;
    /* A run that was resumed from an older checkpoint repeats steps: what they cost first is forgotten. */
    while (r->n - r->file_begin > 1 && r->record[r->n - 2].last >= rec->first) {
        struct record newest = *rec, *older = &r->record[r->n - 2];

        *rec = *older;
        *older = newest;
        drop_last(r);
        rec = older;
    }
    return 0;
}

static int read_line(const char *text, size_t bytes, bool is_first, struct recording *r, struct dp_sim_case *c, struct dp_err *err)
{
    json_error_t at;
    json_t *line = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &at);
    int rc;

    if (!line)
        return dp_err_set(err, DP_EINVAL, "%s", at.text);
    if (json_object_get(line, "trace"))
        rc = read_header(line, is_first, r, c, err);
    else if (is_first)
        rc = dp_err_set(err, DP_EINVAL, "is not a trace: it begins without {\"trace\": 1, ...}");
    else
        rc = read_record(line, r, err);
    json_decref(line);
    return rc;
}

static int read_file(const struct dp_sim_trace_text *file, const struct dp_trace_part *part, struct recording *r,
                     struct dp_sim_case *c, struct dp_err *err)
{
    const char *at = file->text + part->from, *end = file->text + file->bytes;

    r->file_begin = r->n;
    for (unsigned line = part->from_line; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((newline ? newline : end) - at);

        if (read_line(at, bytes, line == part->from_line, r, c, err) < 0)
            return dp_err_prefix(err, "%s:%u", file->path, line);
        at += bytes + (newline != NULL);
    }
    r->is_cut |= part->from > 0 && r->rank == 0;
    return 0;
}

static int read_files(uint32_t n, const struct dp_sim_trace_text *file, struct recording *r, struct dp_sim_case *c,
                      struct dp_err *err)
{
    struct dp_trace_part *part = calloc(n, sizeof *part);
    int rc = part ? 0 : dp_err_set(err, DP_ENOMEM, "%u traces: out of memory", n);

    if (rc == 0)
        dp_trace_parts_find(n, file, part);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (!part[i].is_stale)
            rc = read_file(&file[i], &part[i], r, c, err);
    free(part);
    return rc;
}

/* A worker that was there before, too, may have windows of the start that is left out. returns: the first step
 * that is played. */
static uint64_t forget_older_start(struct recording *r)
{
    uint64_t first = UINT64_MAX;
    size_t kept = 0;

    for (size_t i = 0; i < r->n; i++)
        if (r->record[i].rank == 0 && r->record[i].first < first)
            first = r->record[i].first;
    for (size_t i = 0; i < r->n; i++) {
        if (r->record[i].last >= first) {
            r->record[kept++] = r->record[i];
            continue;
        }
        free(r->record[i].count);
        free(r->record[i].layer);
    }
    r->n = kept;
    return first;
}

/* ---- records into events ---- */

static int by_time(const void *a, const void *b)
{
    const struct record *p = a, *q = b;

    if (p->last != q->last)
        return p->last < q->last ? -1 : 1;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

static uint64_t overlap(const struct record *rec, uint64_t first, uint64_t last)
{
    uint64_t from = rec->first > first ? rec->first : first, to = rec->last < last ? rec->last : last;

    return to >= from ? to - from + 1 : 0;
}

/* newest[i]: the record whose costs layer i has. */
static void take(const struct record *rec, const struct record **newest)
{
    for (uint32_t i = 0; i < rec->n_layers; i++)
        newest[rec->first_layer + i] = rec;
}

/* Costs of the phase first..last. at: records before it are over; moved on. */
static void choose(const struct recording *r, uint64_t first, uint64_t last, size_t *at, const struct record **newest)
{
    for (; *at < r->n && r->record[*at].last < first; ++*at)
        take(&r->record[*at], newest);
    for (size_t k = *at; k < r->n && r->record[k].last < last + r->longest; k++) {
        const struct record *rec = &r->record[k];

        for (uint32_t i = rec->first_layer; i < rec->first_layer + rec->n_layers; i++)
            if (!newest[i] || overlap(rec, first, last) > overlap(newest[i], first, last))
                newest[i] = rec;
    }
}

/* Ends of a microbatch's messages that a worker has under a layout: an activation over each border of its own, and over
 * those with a layer before them that learns a gradient. live: layers below it only go forward. */
static uint32_t ends_of(const uint32_t *count, uint32_t n, uint32_t rank, uint32_t live)
{
    uint32_t before = 0, all = 0, after;

    for (uint32_t i = 0; i < n; i++) {
        before += i < rank ? count[i] : 0;
        all += count[i];
    }
    after = before + count[rank];
    if (!count[rank])
        return 0;
    return (before ? 1 + (before > live) : 0) + (after < all ? 1 + (after > live) : 0);
}

/* What one end of a message takes, on average over the workers. */
static uint64_t message_ns(const struct recording *r, const struct record **newest, uint32_t live)
{
    uint64_t sum = 0, ends = 0;
    const struct record *last = NULL;

    for (uint32_t i = 0; i < r->layers; i++) {
        const struct record *rec = newest[i];
        uint32_t n = rec == last ? 0 : ends_of(rec->count, rec->n_count, rec->rank, live);

        sum += n ? rec->message_ns : 0;
        ends += n;
        last = rec;
    }
    return ends ? sum / ends : 0;
}

/* The most that a worker lost to other processes, as a share of its step. */
static double lost(const struct recording *r, const struct record **newest)
{
    double most = 0;

    for (uint32_t i = 0; i < r->layers; i++) {
        double share = newest[i]->step_ns ? (double)newest[i]->lost_ns / (double)newest[i]->step_ns : 0;

        most = share > most ? share : most;
    }
    return most;
}

static int fill_event(const struct recording *r, const struct record *rec, const struct record *before,
                      const struct record **newest, struct dp_sim_event *e, struct dp_err *err)
{
    uint64_t message;

    e->iteration = before ? before->last + 1 : 1;
    e->layer = calloc(r->layers, sizeof *e->layer);
    e->count = calloc(r->workers, sizeof *e->count);
    if (!e->layer || !e->count)
        return dp_err_set(err, DP_ENOMEM, "trace of %zu windows: out of memory", r->n);
    for (uint32_t i = 0; i < r->layers; i++) {
        if (!newest[i])
            return dp_err_set(err, DP_EINVAL, "no trace has costs of layer %u; the traces of all workers are needed", i);
        e->layer[i] = newest[i]->layer[i - newest[i]->first_layer];
    }
    message = message_ns(r, newest, dp_sim_forward_only(e->layer, r->layers));
    for (uint32_t i = 0; i < r->layers; i++)
        e->layer[i].message_ns = message;
    memcpy(e->count, rec->count, r->workers * sizeof *e->count);
    e->n_count = r->workers;
    e->has_pause = true;
    e->pause_ns = rec->boundary_ns;
    e->measured_ns = rec->step_ns;
    e->lost = lost(r, newest);
    if (before && rec->held < before->held)
        e->release = DP_SIM_RELEASE_DEVICES;
    return 0;
}

static int fill_events(const struct recording *r, struct dp_sim_case *c, struct dp_err *err)
{
    const struct record **newest = calloc(r->layers, sizeof *newest), *before = NULL;
    size_t at = 0, windows = 0;
    int rc = 0;

    for (size_t i = 0; i < r->n; i++)
        windows += r->record[i].rank == 0;
    if (windows > MAX_COSTS / r->layers)
        rc = dp_err_set(err, DP_EINVAL, "%zu windows of %u layers; at most %u costs can be played again", windows, r->layers,
                        MAX_COSTS);
    c->event = calloc(r->n ? r->n : 1, sizeof *c->event);
    if (rc == 0 && (!newest || !c->event))
        rc = dp_err_set(err, DP_ENOMEM, "trace of %zu windows: out of memory", r->n);
    for (size_t i = r->n; i > 0 && rc == 0; i--)
        take(&r->record[i - 1], newest); /* the first one of all: until there is a better one */
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        const struct record *rec = &r->record[i];

        if (rec->rank != 0)
            continue;
        choose(r, before ? before->last + 1 : 1, rec->last, &at, newest);
        rc = fill_event(r, rec, before, newest, &c->event[c->n_events++], err);
        before = rec;
    }
    if (rc == 0 && !before)
        rc = dp_err_set(err, DP_EINVAL, "worker 0 measured nothing");
    c->iterations = before ? before->last : 0;
    free(newest);
    return rc;
}

/* Another shape than the recorded one: the layouts do not fit, and nothing of it was measured. */
static void reshape(const struct dp_sim_override *with, struct dp_sim_case *c)
{
    bool has_other_stages = (with->devices && with->devices != c->devices) || (with->chunks && with->chunks != c->chunks);

    dp_sim_override_shape(with, c);
    if (has_other_stages || c->replicas > 1) { /* other devices than those that were measured */
        free(c->next);
        c->next = NULL;
    }
    for (uint32_t i = 0; i < c->n_events; i++) {
        struct dp_sim_event *e = &c->event[i];

        e->measured_ns = 0;
        if (!has_other_stages)
            continue;
        free(e->count);
        e->count = NULL;
        e->n_count = 0;
        e->release = DP_SIM_RELEASE_NONE;
        snprintf(e->policy, sizeof e->policy, "time");
    }
}

static int first_layout(struct dp_sim_case *c, struct dp_err *err)
{
    const struct dp_sim_event *e = c->event;

    if (!e->count) {
        snprintf(c->policy, sizeof c->policy, "%s", e->policy);
        return 0;
    }
    c->count = calloc(e->n_count, sizeof *c->count);
    if (!c->count)
        return dp_err_set(err, DP_ENOMEM, "trace: out of memory");
    memcpy(c->count, e->count, e->n_count * sizeof *c->count);
    c->n_count = e->n_count;
    return 0;
}

int dp_sim_read_trace(uint32_t n, const struct dp_sim_trace_text *file, const struct dp_sim_override *with,
                      struct dp_sim_case *c, struct dp_err *err)
{
    struct recording r = {0};
    int rc = read_files(n, file, &r, c, err);

    if (rc == 0 && !r.has_rank_0)
        rc = dp_err_set(err, DP_EINVAL, "%s: the trace of worker 0 is missing", file[0].path);
    if (rc == 0) {
        uint64_t first = r.is_cut ? forget_older_start(&r) : 1;

        if (r.n)
            qsort(r.record, r.n, sizeof *r.record, by_time);
        snprintf(c->name, sizeof c->name, "recorded run of %u workers", r.workers);
        if (r.is_cut)
            snprintf(c->name, sizeof c->name, "recorded run of %u workers, its newest start, from step %llu on", r.workers,
                     (unsigned long long)first);
        c->devices = r.workers;
        c->n_layers = r.layers;
        c->inside = link_of(r.latency_ns, r.transfer_ns, r.stage_message_bytes);
        for (uint32_t i = 0; i < r.workers; i++) /* of what nobody measured: the slowest */
            if (!r.next[i].latency_ns && !(r.next[i].bytes_per_s > 0))
                r.next[i] = c->inside;
        c->next = r.next;
        r.next = NULL;
        c->chunks = c->replicas = c->buckets = 1;
        rc = fill_events(&r, c, err) < 0 ? dp_err_prefix(err, "%s", file[0].path) : 0;
    }
    if (rc == 0 && with && with->schedule) {
        rc = dp_schedule_find(with->schedule, &c->schedule, err);
        for (uint32_t i = 0; i < c->n_events; i++)
            c->event[i].measured_ns = 0;
    }
    if (rc == 0 && with && (with->devices || with->chunks || with->microbatches || with->replicas))
        reshape(with, c);
    if (rc == 0)
        rc = first_layout(c, err);
    recording_release(&r);
    return rc;
}
