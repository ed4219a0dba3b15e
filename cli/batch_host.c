/* See batch_host.h. libslurm ends the process when it finds no configuration, and can block for
 * minutes: it runs in a child (slurm.md F5). */
#include "cli/batch_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/probe.h"
#include "common/libslurm.h"

static int ask_slurm(void *arg, FILE *out)
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

int dp_batch_host(uint32_t job_id, char *out, size_t cap, struct dp_err *err)
{
    static uint32_t known_job;
    static char known_host[64];
    char *text;

    if (job_id != known_job) {
        if (dp_probe(ask_slurm, &job_id, 10, &text, err) < 0)
            return -1;
        snprintf(known_host, sizeof known_host, "%s", text ? text : "");
        known_job = *known_host ? job_id : 0;
        free(text);
    }
    if (!*known_host)
        return dp_err_set(err, DP_EGONE, "job %u does not run", job_id);
    snprintf(out, cap, "%s", known_host);
    return 0;
}
