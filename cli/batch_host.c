/* See batch_host.h. libslurm ends the process when it finds no configuration, and can block for
 * minutes: it runs in a child (slurm.md F5). */
#include "cli/batch_host.h"

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/probe.h"

static int ask_slurm(void *arg, FILE *out)
{
    const uint32_t *job_id = arg;
    job_info_msg_t *msg = NULL;

    if (slurm_load_job(&msg, *job_id, 0) != SLURM_SUCCESS) {
        fprintf(stderr, "job %u: %s\n", *job_id, slurm_strerror(errno));
        return 1;
    }
    for (uint32_t i = 0; i < msg->record_count; i++) {
        if (msg->job_array[i].job_id == *job_id && msg->job_array[i].batch_host)
            fputs(msg->job_array[i].batch_host, out);
    }
    slurm_free_job_info_msg(msg);
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
