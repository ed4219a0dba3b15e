/* SPDX-License-Identifier: BSD-3-Clause */
/* See preflight.h. access(2) answers for the real user, whom nobody changes here. A file that cannot be
 * written is found now instead of after the minutes that the first measuring of kernels takes; one that is
 * taken away in between still is an error then. */
#include "worker/train/start/preflight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/run/layout.h"
#include "worker/checkpoint/distributed.h"
#include "worker/model/data.h"
#include "worker/model/model.h"
#include "worker/train/start/initial_layout.h"

/* The folder that holds path, "." where it names none. */
static void folder_of(const char *path, char out[1100])
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        snprintf(out, 1100, ".");
    else
        snprintf(out, 1100, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static int cannot(const char *key, const char *path, const char *why, struct dp_err *err)
{
    return dp_err_set(err, DP_EINVAL, "%s: %s: %s", key, path, why);
}

/* suffix: of the file that this worker writes. */
static int check_output(const char *key, const char *path, const char *suffix, struct dp_err *err)
{
    char file[1100], folder[1100];
    struct stat st;

    if (!path[0])
        return 0;
    snprintf(file, sizeof file, "%s%s", path, suffix);
    folder_of(file, folder);
    if (stat(file, &st) == 0 && S_ISDIR(st.st_mode))
        return cannot(key, file, strerror(EISDIR), err);
    if (access(file, F_OK) == 0)
        return access(file, W_OK) == 0 ? 0 : cannot(key, file, strerror(errno), err);
    if (access(folder, W_OK | X_OK) == 0)
        return 0;
    return cannot(key, folder, strerror(errno), err);
}

static int check_checkpoints(const char *dir, struct dp_err *err)
{
    char trimmed[1100], folder[1100];
    struct stat st;
    size_t n;

    if (!dir[0])
        return 0;
    if (stat(dir, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            return cannot("checkpoint.dir", dir, strerror(ENOTDIR), err);
        return access(dir, W_OK | X_OK) == 0 ? 0 : cannot("checkpoint.dir", dir, strerror(errno), err);
    }
    snprintf(trimmed, sizeof trimmed, "%s", dir);
    for (n = strlen(trimmed); n > 1 && trimmed[n - 1] == '/'; n--)
        trimmed[n - 1] = '\0';
    folder_of(trimmed, folder);
    return access(folder, W_OK | X_OK) == 0 ? 0 : cannot("checkpoint.dir", folder, strerror(errno), err);
}

int dp_preflight_files(const struct dp_train_config *c, struct dp_err *err)
{
    return check_output("output.log", c->output.log, "", err) < 0 || check_output("output.trace", c->output.trace, ".0", err) < 0 ||
                   check_checkpoints(c->checkpoint.dir, err) < 0
               ? -1
               : 0;
}

/* With how many workers will it be started? The layout must fit one number of them at least. */
static int check_layout(const struct dp_train_config *c, struct dp_err *err)
{
    struct dp_layout layout;
    uint32_t fields = 1;

    if (!c->pipeline.layout[0])
        return 0;
    for (uint32_t n = 1; n <= dp_model_layers(c) && n <= DP_MAX_WORKERS; n++)
        if (dp_layout_initial(c, n, &layout, NULL) == 0)
            return 0;
    for (const char *p = c->pipeline.layout; *p; p++)
        fields += *p == '|';
    return dp_layout_initial(c, fields < DP_MAX_WORKERS ? fields : DP_MAX_WORKERS, &layout, err);
}

static int check_resume(const struct dp_train_config *c, uint64_t *step, struct dp_err *err)
{
    struct dp_start *start = calloc(1, sizeof *start);
    int rc;

    *step = 0;
    if (!start)
        return dp_err_set(err, DP_ENOMEM, "no memory for a table of crossovers");
    rc = dp_start_find(c, start, err);
    *step = start->step;
    free(start);
    return rc;
}

int dp_preflight(const struct dp_train_config *c, uint64_t *step, struct dp_err *err)
{
    struct dp_data *data;

    if (dp_preflight_files(c, err) < 0 || check_layout(c, err) < 0 || check_resume(c, step, err) < 0)
        return -1;
    data = dp_data_open(c, err);
    dp_data_close(data);
    return data ? 0 : -1;
}
