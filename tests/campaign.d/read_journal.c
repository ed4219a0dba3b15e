/* SPDX-License-Identifier: BSD-3-Clause */
/* What DynPipe itself makes of journals, without opening them as a daemon would: reads each file given into memory and
 * replays it, a node's (node.journal) or a coordinator's (job-JOB.RESTARTS.journal; what stands before that in the name
 * is ignored). One line a file: "ok FILE" or "refused FILE: why". Ends with 1 when one was refused.
 *
 *   read_journal FILE...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/journal.h"
#include "daemon/coord/coordinator.h"
#include "daemon/run/state/node_journal.h"

static const struct dp_run_limits limits = {.mode = DP_MODE_RELEASE, .policy = "time"};
static const struct dp_coord_ops none; /* a coordinator that is only fed its records asks for nothing */

static int to_coordinator(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_coord_replay(arg, (enum dp_record)type, payload, bytes, err);
}

static int to_node(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_node_journal_replay(arg, type, payload, bytes, err);
}

static int read_file(const char *path, uint8_t *data, size_t *bytes, struct dp_err *err)
{
    FILE *f = fopen(path, "re");

    if (!f)
        return dp_err_set(err, DP_EIO, "cannot be opened");
    *bytes = fread(data, 1, DP_JOURNAL_MAX_BYTES, f);
    fclose(f);
    return 0;
}

static int replay_coordinator(const char *name, const uint8_t *data, size_t end, struct dp_err *err)
{
    struct dp_job_info job = {.is_running = true, .n_nodes = 1, .node = {"n1"}, .batch_host = "n1", .start_s = 1, .boot_s = 1,
                              .shrinks_allowed = 1};
    struct dp_coord *c;
    int rc;

    if (sscanf(name, "job-%u.%u.journal", &job.job_id, &job.restart_count) != 2)
        return dp_err_set(err, DP_EINVAL, "is named after no job");
    c = dp_coord_create(&job, &limits, &none, NULL, err);
    if (!c)
        return -1;
    rc = dp_journal_replay(data, end, to_coordinator, c, err);
    dp_coord_destroy(c);
    return rc;
}

static int replay_node(const uint8_t *data, size_t end, struct dp_err *err)
{
    struct dp_node_journal *l = dp_node_journal_create(err);
    int rc = l ? dp_journal_replay(data, end, to_node, l, err) : -1;

    dp_node_journal_destroy(l);
    return rc;
}

static int check(const char *path, uint8_t *data, struct dp_err *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *job = strstr(name, "job-");
    struct dp_journal_extent good = {0};
    size_t bytes = 0;

    if (read_file(path, data, &bytes, err) < 0 || dp_journal_scan(data, bytes, &good, err) < 0)
        return -1;
    return job ? replay_coordinator(job, data, good.end, err) : replay_node(data, good.end, err);
}

int main(int argc, char **argv)
{
    uint8_t *data = malloc(DP_JOURNAL_MAX_BYTES);
    int rc = argc < 2 || !data;

    for (int i = 1; data && i < argc; i++) {
        struct dp_err err = {0};

        if (check(argv[i], data, &err) < 0) {
            printf("refused %s: %s\n", argv[i], err.text);
            rc = 1;
        } else {
            printf("ok %s\n", argv[i]);
        }
    }
    free(data);
    return rc;
}
