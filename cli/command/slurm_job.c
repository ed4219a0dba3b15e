/* SPDX-License-Identifier: BSD-3-Clause */
/* See slurm_job.h. libslurm ends the process when it finds no configuration, and can block for
 * minutes: it runs in a child (slurm.md F5). */
#include "cli/command/slurm_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command/probe.h"
#include "common/slurm/libslurm.h"

static int ask_batch_host(void *arg, FILE *out)
{
    const uint32_t *job_id = arg;
    struct dp_slurm_job job;
    struct dp_err err;

    dp_slurm_open();
    if (dp_slurm_job_load(*job_id, &job, &err) < 0) {
        fprintf(stderr, "job %u: %s\n", *job_id, err.text);
        return 1;
    }
    fputs(job.batch_host, out);
    dp_slurm_job_release(&job);
    return 0;
}

/* In a child, for 10 s at most. */
static int ask_slurm(dp_probe_fn work, void *arg, char **text, struct dp_err *err)
{
    if (dp_probe(work, arg, 10, text, err) == 0)
        return 0;
    return err->code == DP_ETIMEOUT ? dp_err_prefix(err, "Slurm") : -1;
}

int dp_batch_host(uint32_t job_id, char *out, size_t cap, struct dp_err *err)
{
    static uint32_t known_job;
    static char known_host[64];
    char *text;

    if (job_id != known_job) {
        if (ask_slurm(ask_batch_host, &job_id, &text, err) < 0)
            return -1;
        snprintf(known_host, sizeof known_host, "%s", text ? text : "");
        known_job = *known_host ? job_id : 0;
        free(text);
    }
    if (!*known_host)
        return dp_err_set(err, DP_EGONE, "job %u is not running", job_id);
    snprintf(out, cap, "%s", known_host);
    return 0;
}

/* ---- members of arrays and heterogeneous jobs ---- */

struct member {
    uint32_t job_id, number;
    char sign; /* '_' or '+' */
};

static bool read_number(const char **text, uint32_t *out)
{
    unsigned long v;
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    v = strtoul(*text, &end, 10);
    *text = end;
    *out = (uint32_t)v;
    return v < UINT32_MAX - 1;
}

static bool read_member(const char *text, struct member *m)
{
    if (!read_number(&text, &m->job_id) || m->job_id == 0 || (*text != '_' && *text != '+'))
        return false;
    m->sign = *text++;
    return read_number(&text, &m->number) && !*text;
}

static int ask_member(void *arg, FILE *out)
{
    const struct member *m = arg;
    uint32_t job_id;
    struct dp_err err;

    dp_slurm_open();
    if (dp_slurm_job_member(m->job_id, m->sign, m->number, &job_id, &err) < 0) {
        fprintf(stderr, "job %u%c%u: %s\n", m->job_id, m->sign, m->number, err.text);
        return 1;
    }
    fprintf(out, "%u", job_id);
    return 0;
}

bool dp_job_is_member(const char *text)
{
    struct member m;

    return read_member(text, &m);
}

int dp_job_of_member(const char *text, uint32_t *job_id, struct dp_err *err)
{
    struct member m;
    char *answer = NULL;
    const char *p;
    bool is_number;

    if (!read_member(text, &m))
        return dp_err_set(err, DP_EINVAL, "%s: not a job id", text);
    if (ask_slurm(ask_member, &m, &answer, err) < 0)
        return -1;
    p = answer ? answer : "";
    is_number = read_number(&p, job_id) && *job_id;
    free(answer);
    return is_number ? 0 : dp_err_set(err, DP_EGONE, "job %s: Slurm does not say which one it is", text);
}
