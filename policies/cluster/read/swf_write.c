/* SPDX-License-Identifier: BSD-3-Clause */
/* Workload files, written. A job that came from such a file keeps every field of its line but the times that
 * this program decides: its submit time, which a wanted load may have moved, and how long it waited. The
 * comments stay, but for those that hold the sizes of this file or would no longer be true. */
#include "policies/cluster/read/swf.h"

#include <inttypes.h>
#include <string.h>

enum { SUBMIT, WAIT }; /* counted behind the job number */

static const char waits[] = "waiting times simulated by dynpipe";

/* Nanoseconds as seconds, without zeros behind the last digit. */
static void write_time(FILE *out, uint64_t ns)
{
    uint64_t rest = ns % 1000000000u;
    int digits = 9;

    fprintf(out, " %" PRIu64, ns / 1000000000u);
    for (; rest && rest % 10 == 0; rest /= 10)
        digits--;
    if (rest)
        fprintf(out, ".%0*" PRIu64, digits, rest);
}

static void write_wait(FILE *out, const struct dp_cluster_job *j, const struct dp_cluster_times *t)
{
    write_time(out, t->start_ns - j->submit_ns);
}

/* ---- comments ---- */

static bool is_written_anew(const struct dp_swf_comment *c, bool is_simulated)
{
    static const char *const keys[] = {"Version", "MaxJobs", "MaxRecords", "MaxNodes", "MaxProcs"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (dp_swf_comment_is(c, keys[i]))
            return true;
    if (!is_simulated)
        return false;
    return dp_swf_comment_is(c, "EndTime") || /* when the last job of the log ended, under its own scheduler */
           (dp_swf_comment_is(c, "Note") && c->value_bytes >= sizeof waits - 1 && !memcmp(c->value, waits, sizeof waits - 1));
}

/* returns: was one of them "Computer"? */
static bool write_comments(const struct dp_cluster_log *log, bool is_simulated, FILE *out)
{
    const char *stop = log->text + log->bytes;
    bool has_computer = false;
    struct dp_swf_comment c;

    for (const char *p = log->text, *end, *last; p < stop; p = end + 1) {
        end = memchr(p, '\n', (size_t)(stop - p));
        end = end ? end : stop;
        while (p < end && dp_swf_is_blank(*p))
            p++;
        if (p == end || *p != ';')
            continue;
        dp_swf_comment_split(p, end, &c);
        if (is_written_anew(&c, is_simulated))
            continue;
        has_computer |= dp_swf_comment_is(&c, "Computer");
        for (last = end; last[-1] == '\r';)
            last--;
        fwrite(p, 1, (size_t)(last - p), out);
        fputc('\n', out);
    }
    return has_computer;
}

/* ---- jobs ---- */

/* A job of a file: the line that it had. */
static void write_line(const struct dp_cluster_log *log, const struct dp_cluster_job *j, const struct dp_cluster_times *t, FILE *out)
{
    const char *p = log->text + j->log_at - 1, *stop = log->text + log->bytes;

    for (int field = -1; p < stop && *p != '\n'; field++) {
        const char *begin = p;

        while (p < stop && *p != '\n' && !dp_swf_is_blank(*p))
            p++;
        if (field == SUBMIT)
            write_time(out, j->submit_ns);
        else if (field == WAIT && t)
            write_wait(out, j, t);
        else
            fprintf(out, "%s%.*s", field < 0 ? "" : " ", (int)(p - begin), begin);
        while (p < stop && dp_swf_is_blank(*p))
            p++;
    }
    fputc('\n', out);
}

/* A job of a model: a node counts as one processor. */
static void write_job(const struct dp_cluster_job *j, const struct dp_cluster_times *t, FILE *out)
{
    const struct dp_cluster_owner *o = &j->owner;

    fprintf(out, "%u", j->number);
    write_time(out, j->submit_ns);
    if (t)
        write_wait(out, j, t);
    else
        fputs(" -1", out);
    write_time(out, j->run_ns);
    fprintf(out, " %u -1 -1 %u", j->nodes, j->nodes);
    write_time(out, j->limit_ns);
    fprintf(out, " -1 1 %d %d %d %d %d -1 -1\n", o->user, o->group, o->executable, o->queue, o->partition);
}

void dp_cluster_swf_write(const struct dp_cluster_mix *mix, const struct dp_cluster_times *times, const char *scheduler, uint32_t nodes,
                          const char *title, FILE *out)
{
    fputs("; Version: 2.2\n", out);
    if (!mix->log.text || !write_comments(&mix->log, times != NULL, out))
        fprintf(out, "; Computer: %s\n", title);
    fprintf(out, "; MaxJobs: %u\n; MaxRecords: %u\n; MaxNodes: %u\n; MaxProcs: %" PRIu64 "\n", mix->n_jobs, mix->n_jobs, nodes,
            mix->log.text ? mix->log.processors : nodes);
    if (times)
        fprintf(out, "; Note: %s, scheduler %s\n", waits, scheduler);
    for (uint32_t i = 0; i < mix->n_jobs; i++) {
        const struct dp_cluster_job *j = &mix->job[i];

        if (j->log_at)
            write_line(&mix->log, j, times ? &times[i] : NULL, out);
        else
            write_job(j, times ? &times[i] : NULL, out);
    }
}
