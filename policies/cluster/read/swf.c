/* SPDX-License-Identifier: BSD-3-Clause */
/* See swf.h. */
#include "policies/cluster/read/swf.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum field {
    NUMBER, SUBMIT, WAIT, RUN, ALLOCATED, CPU_TIME, MEMORY, REQUESTED, LIMIT, REQUESTED_MEMORY, STATUS, USER, GROUP, EXECUTABLE,
    QUEUE, PARTITION, PRECEDING, THINK_TIME, N_FIELDS,
};

static const char *const field_names[N_FIELDS] = {
    "job number", "submit time", "wait time", "run time", "allocated processors", "CPU time", "memory", "requested processors",
    "requested time", "requested memory", "status", "user", "group", "executable", "queue", "partition", "preceding job",
    "think time",
};

#define UNKNOWN UINT64_MAX
#define MOST_PROCESSORS UINT64_C(10000000000000000) /* what dp_cluster_swf_write() may write, and more */

struct record {
    uint64_t submit_ns, run_ns, limit_ns; /* UNKNOWN */
    uint32_t number, allocated, requested; /* 0: unknown */
    uint32_t log_at;
    int status;
    struct dp_cluster_owner owner;
};

struct reader {
    const char *name, *text;
    uint32_t line;
    struct record *record;
    uint32_t n, cap;
    uint32_t max_nodes;
    uint64_t max_procs;
    char *computer; /* [128] */
    struct dp_err *err;
};

/* ---- numbers ---- */

static int refuse(const struct reader *r, enum field f, const char *begin, size_t n, const char *wanted)
{
    char word[48];
    size_t used = 0;

    for (size_t i = 0; i < n && used < sizeof word - 4; i++)
        word[used++] = begin[i] >= ' ' && begin[i] < 0x7f ? begin[i] : '?';
    word[used] = '\0';
    return dp_err_set(r->err, DP_EINVAL, "%s:%u: field %d (%s) is '%s'; expected %s", r->name, r->line, (int)f + 1, field_names[f],
                      word, wanted);
}

/* A decimal number that fills the word. Whole units and billionths of it; exact where it is written without
 * an exponent. */
static int parse_number(const char *p, size_t n, bool *is_negative, double *value, uint64_t *whole, uint64_t *billionths)
{
    char copy[64], *end;
    size_t i = 0, digits = 0;
    uint64_t unit = 1000000000u;

    if (n == 0 || n >= sizeof copy)
        return -1;
    memcpy(copy, p, n);
    copy[n] = '\0';
    if (strspn(copy, "0123456789.eE+-") != n)
        return -1;
    errno = 0;
    *value = strtod(copy, &end);
    if (*end || end == copy || !isfinite(*value))
        return -1;
    *is_negative = copy[0] == '-';
    *whole = *billionths = 0;
    if (fabs(*value) >= 1e18)
        return 0;
    if (strpbrk(copy, "eE")) {
        *whole = (uint64_t)fabs(*value);
        *billionths = (uint64_t)llround((fabs(*value) - (double)*whole) * 1e9);
        return 0;
    }
    for (i = copy[0] == '-' || copy[0] == '+'; copy[i] >= '0' && copy[i] <= '9'; i++, digits++)
        *whole = *whole * 10 + (uint64_t)(copy[i] - '0');
    for (i += copy[i] == '.'; copy[i] && unit > 1; i++, digits++) {
        unit /= 10;
        *billionths += unit * (uint64_t)(copy[i] - '0');
    }
    return digits ? 0 : -1;
}

/* A time into *ns: UNKNOWN where it is -1. A limit may be "unlimited", which is written as a huge number. */
static int take_time(const struct reader *r, enum field f, const char *p, size_t n, uint64_t most_ns, uint64_t *ns)
{
    bool is_negative, is_large;
    double value;
    uint64_t s, rest;

    if (parse_number(p, n, &is_negative, &value, &s, &rest) < 0)
        return refuse(r, f, p, n, "a number");
    is_large = value > (double)most_ns * 1e-9;
    *ns = is_large ? most_ns : UNKNOWN;
    if ((value == -1 && f != SUBMIT) || (is_large && f == LIMIT))
        return 0;
    if ((is_negative && value != 0) || is_large)
        return refuse(r, f, p, n, f == SUBMIT ? "a time from 0 to 1e9 s" : "a time from 0 to 1e8 s, or -1");
    *ns = s * 1000000000u + rest;
    return 0;
}

/* A whole number from -1 on. */
static int take_whole(const struct reader *r, enum field f, const char *p, size_t n, double most, int64_t *out)
{
    bool is_negative;
    double value;
    uint64_t whole, rest;

    if (parse_number(p, n, &is_negative, &value, &whole, &rest) < 0)
        return refuse(r, f, p, n, "a number");
    if (!(value >= -1 && value <= most) || value != floor(value))
        return refuse(r, f, p, n, "a whole number that is not too large, or -1");
    *out = (int64_t)value;
    return 0;
}

/* ---- lines ---- */

static int take_field(const struct reader *r, enum field f, const char *p, size_t n, struct record *out)
{
    bool is_negative;
    double value;
    uint64_t a, b;
    int64_t whole = -1;

    switch (f) {
    case SUBMIT: return take_time(r, f, p, n, DP_CLUSTER_MAX_SUBMIT_NS, &out->submit_ns);
    case RUN: return take_time(r, f, p, n, DP_CLUSTER_MAX_NS, &out->run_ns);
    case LIMIT: return take_time(r, f, p, n, DP_CLUSTER_MAX_NS, &out->limit_ns);
    case CPU_TIME: case WAIT: case MEMORY: case REQUESTED_MEMORY: case PRECEDING: case THINK_TIME: case N_FIELDS:
        return parse_number(p, n, &is_negative, &value, &a, &b) < 0 ? refuse(r, f, p, n, "a number") : 0;
    default: break;
    }
    if (take_whole(r, f, p, n, f == NUMBER ? UINT32_MAX : INT32_MAX, &whole) < 0)
        return -1;
    switch (f) {
    case NUMBER: out->number = whole < 0 ? 0 : (uint32_t)whole; break;
    case ALLOCATED: out->allocated = whole < 0 ? 0 : (uint32_t)whole; break;
    case REQUESTED: out->requested = whole < 0 ? 0 : (uint32_t)whole; break;
    case STATUS: out->status = (int)whole; break;
    case USER: out->owner.user = (int32_t)whole; break;
    case GROUP: out->owner.group = (int32_t)whole; break;
    case EXECUTABLE: out->owner.executable = (int32_t)whole; break;
    case QUEUE: out->owner.queue = (int32_t)whole; break;
    default: out->owner.partition = (int32_t)whole; break;
    }
    return 0;
}

static int add_record(struct reader *r, const struct record *one)
{
    if (r->n == DP_CLUSTER_MAX_JOBS)
        return dp_err_set(r->err, DP_EINVAL, "%s:%u: more than %u jobs", r->name, r->line, DP_CLUSTER_MAX_JOBS);
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 256;
        struct record *more = realloc(r->record, cap * sizeof *more);

        if (!more)
            return dp_err_set(r->err, DP_ENOMEM, "%s:%u: out of memory", r->name, r->line);
        r->record = more;
        r->cap = cap;
    }
    r->record[r->n++] = *one;
    return 0;
}

static int parse_job(struct reader *r, const char *p, const char *end)
{
    struct record one = {.log_at = (uint32_t)(p - r->text) + 1};
    int n = 0;

    while (p < end) {
        const char *begin = p;

        while (p < end && !dp_swf_is_blank(*p))
            p++;
        if (n < N_FIELDS && take_field(r, (enum field)n, begin, (size_t)(p - begin), &one) < 0)
            return -1;
        n++;
        while (p < end && dp_swf_is_blank(*p))
            p++;
    }
    if (n != N_FIELDS)
        return dp_err_set(r->err, DP_EINVAL, "%s:%u: %d fields; a job has %d", r->name, r->line, n, N_FIELDS);
    return add_record(r, &one);
}

/* The number with which a value begins ("1024 (8 of them for login)"), 0 where there is none that fits. */
static uint64_t leading_number(const struct dp_swf_comment *c, uint64_t most)
{
    uint64_t v = 0;

    for (size_t i = 0; i < c->value_bytes && c->value[i] >= '0' && c->value[i] <= '9' && v <= most; i++)
        v = v * 10 + (uint64_t)(c->value[i] - '0');
    return v <= most ? v : 0;
}

/* Of several comments of a key the first counts. */
static void parse_comment(struct reader *r, const char *p, const char *end)
{
    struct dp_swf_comment c;

    dp_swf_comment_split(p, end, &c);
    if (dp_swf_comment_is(&c, "MaxNodes") && !r->max_nodes)
        r->max_nodes = (uint32_t)leading_number(&c, UINT32_MAX);
    else if (dp_swf_comment_is(&c, "MaxProcs") && !r->max_procs)
        r->max_procs = leading_number(&c, MOST_PROCESSORS);
    else if (dp_swf_comment_is(&c, "Computer") && !r->computer[0])
        snprintf(r->computer, 128, "%.*s", (int)(c.value_bytes < 127 ? c.value_bytes : 127), c.value);
}

static int parse_lines(struct reader *r, const char *text, size_t bytes)
{
    const char *stop = text + bytes;

    if (bytes > 1 && (unsigned char)text[0] == 0x1f && (unsigned char)text[1] == 0x8b)
        return dp_err_set(r->err, DP_EINVAL, "%s: compressed; unpack it with gunzip first", r->name);
    for (const char *p = text, *end; p < stop; p = end + 1) {
        end = memchr(p, '\n', (size_t)(stop - p));
        end = end ? end : stop;
        r->line++;
        if (memchr(p, '\0', (size_t)(end - p)))
            return dp_err_set(r->err, DP_EINVAL, "%s:%u: a NUL byte: this is not a text file", r->name, r->line);
        while (p < end && dp_swf_is_blank(*p))
            p++;
        if (p < end && *p == ';')
            parse_comment(r, p, end);
        else if (p < end && parse_job(r, p, end) < 0)
            return -1;
    }
    if (!r->n)
        return dp_err_set(r->err, DP_EINVAL, "%s: holds no jobs", r->name);
    return 0;
}

/* ---- records into jobs ---- */

static int size_cluster(const struct reader *r, struct dp_cluster_swf *swf)
{
    uint64_t nodes = swf->nodes ? swf->nodes : r->max_nodes ? r->max_nodes : r->max_procs, processors = 1;

    if (!nodes)
        return dp_err_set(r->err, DP_EINVAL, "%s: neither MaxNodes nor MaxProcs; say how many nodes the cluster has", r->name);
    if (nodes > DP_CLUSTER_MAX_NODES)
        return dp_err_set(r->err, DP_EINVAL, "%s: %" PRIu64 " nodes; at most %u are simulated", r->name, nodes, DP_CLUSTER_MAX_NODES);
    if (r->max_nodes && r->max_procs > r->max_nodes)
        processors = (r->max_procs - 1) / r->max_nodes + 1;
    if (!swf->processors_per_node)
        swf->processors_per_node = processors < UINT32_MAX ? (uint32_t)processors : UINT32_MAX;
    swf->nodes = (uint32_t)nodes;
    return 0;
}

/* The file itself, so that what is not simulated can be written again. */
static int keep_log(const struct reader *r, const struct dp_cluster_swf *swf, size_t bytes, struct dp_cluster_mix *mix)
{
    bool is_theirs = r->max_procs && (r->max_procs - 1) / swf->nodes + 1 == swf->processors_per_node;

    mix->log.text = malloc(bytes);
    if (!mix->log.text)
        return dp_err_set(r->err, DP_ENOMEM, "%s: %zu bytes: out of memory", r->name, bytes);
    memcpy(mix->log.text, r->text, bytes);
    mix->log.bytes = bytes;
    mix->log.processors = is_theirs ? r->max_procs : (uint64_t)swf->nodes * swf->processors_per_node;
    return 0;
}

/* returns: is there a job to replay? */
static bool take_record(const struct record *one, const struct dp_cluster_swf *swf, struct dp_cluster_counts *counts,
                        struct dp_cluster_job *out)
{
    uint32_t processors = one->allocated ? one->allocated : one->requested;
    uint32_t nodes = processors ? (processors - 1) / swf->processors_per_node + 1 : 0;
    uint32_t *reason = one->status >= 2 && one->status <= 4 ? &counts->parts
                       : one->run_ns == UNKNOWN || (one->status == 5 && one->run_ns == 0) ? &counts->never_ran
                       : !processors ? &counts->no_size
                       : nodes > swf->nodes ? &counts->too_large : NULL;

    if (reason) {
        ++*reason;
        return false;
    }
    *out = (struct dp_cluster_job){.submit_ns = one->submit_ns, .run_ns = one->run_ns, .limit_ns = one->limit_ns, .nodes = nodes,
                                   .number = one->number, .log_at = one->log_at, .owner = one->owner};
    if (one->limit_ns == UNKNOWN || one->limit_ns == 0)
        counts->no_limit++;
    else if (one->limit_ns < one->run_ns)
        counts->above_limit++;
    if (one->limit_ns == UNKNOWN || one->limit_ns < one->run_ns)
        out->limit_ns = one->run_ns;
    return true;
}

int dp_cluster_swf_parse(const char *name, const char *text, size_t bytes, struct dp_cluster_swf *swf, struct dp_cluster_mix *mix,
                         struct dp_cluster_counts *counts, struct dp_err *err)
{
    struct reader r = {.name = name, .text = text, .computer = swf->computer, .err = err};
    int rc = -1;

    memset(mix, 0, sizeof *mix);
    memset(counts, 0, sizeof *counts);
    swf->computer[0] = '\0';
    if (bytes >= UINT32_MAX) /* log_at */
        return dp_err_set(err, DP_EINVAL, "%s: %zu bytes; at most 4 GiB are read", name, bytes);
    if (parse_lines(&r, text, bytes) < 0 || size_cluster(&r, swf) < 0 || keep_log(&r, swf, bytes, mix) < 0)
        goto out;
    counts->records = r.n;
    mix->job = calloc(r.n, sizeof *mix->job);
    if (!mix->job) {
        dp_err_set(err, DP_ENOMEM, "%s: %u jobs: out of memory", name, r.n);
        goto out;
    }
    for (uint32_t i = 0; i < r.n; i++)
        mix->n_jobs += take_record(&r.record[i], swf, counts, &mix->job[mix->n_jobs]);
    rc = dp_cluster_mix_sort(mix, &counts->out_of_order, err);
out:
    free(r.record);
    if (rc < 0)
        dp_cluster_mix_release(mix);
    return rc;
}
