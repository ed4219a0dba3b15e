/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints (checkpoint.h): the directory's life. A name without .tmp appears by one rename, after
 * every file in it and the directory itself have been synced; a checkpoint that is dropped gets its .tmp
 * back before its files go. So at any instant, also after a crash, a plain name is a whole checkpoint.
 */
#define _GNU_SOURCE /* renameat2 */

#include "worker/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/checkpoint/ckpt_file.h"
#include "worker/checkpoint/ckpt_manifest.h"

#define PATH_BYTES 1280 /* dir of at most 1023 bytes and two names */

static void step_path(const char *dir, uint64_t step, const char *suffix, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s/step-%08" PRIu64 "%s", dir, step, suffix);
}

/* The steps in dir, ascending; tmp: those with .tmp. *out: malloc'ed. A missing dir has none. */
static int list_steps(const char *path, bool tmp, uint64_t **out, size_t *n, struct dp_err *err)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    uint64_t *steps = NULL;
    size_t cap = 0;

    *out = NULL;
    *n = 0;
    if (!dir)
        return errno == ENOENT ? 0 : dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    while ((e = readdir(dir))) {
        char *end;
        uint64_t step;

        if (strncmp(e->d_name, "step-", 5) || e->d_name[5] < '0' || e->d_name[5] > '9')
            continue;
        step = strtoull(e->d_name + 5, &end, 10);
        if (strcmp(end, tmp ? ".tmp" : ""))
            continue;
        if (*n == cap) {
            uint64_t *more = realloc(steps, (cap = 2 * cap + 16) * sizeof *steps);

            if (!more) {
                closedir(dir);
                free(steps);
                return dp_err_set(err, DP_ENOMEM, "%s: no memory for its names", path);
            }
            steps = more;
        }
        size_t i = (*n)++;

        for (; i > 0 && steps[i - 1] > step; i--)
            steps[i] = steps[i - 1];
        steps[i] = step;
    }
    closedir(dir);
    *out = steps;
    return 0;
}

int dp_ckpt_begin(const struct dp_train_config *config, uint64_t step, struct dp_err *err)
{
    char path[PATH_BYTES];
    uint64_t *stale;
    size_t n;

    if (!config->checkpoint.dir[0])
        return dp_err_set(err, DP_EINVAL, "checkpoint.dir is empty: there is nowhere to save to");
    if (mkdir(config->checkpoint.dir, 0777) < 0 && errno != EEXIST)
        return dp_err_set(err, DP_EIO, "%s: %s", config->checkpoint.dir, strerror(errno));
    if (list_steps(config->checkpoint.dir, true, &stale, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) { /* what a crash left */
        step_path(config->checkpoint.dir, stale[i], ".tmp", path);
        dp_ckpt_dir_remove(path, NULL);
    }
    free(stale);
    step_path(config->checkpoint.dir, step, ".tmp", path);
    if (mkdir(path, 0777) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

int dp_ckpt_write_layer(const struct dp_train_config *config, uint64_t step, const struct dp_layer *layer,
                        struct dp_ckpt_entry *out, struct dp_err *err)
{
    char path[PATH_BYTES], file[PATH_BYTES + 40], name[32];
    uint8_t *data;
    size_t bytes;
    int rc = -1;

    if (dp_layer_write(layer, &data, &bytes, err) < 0)
        return -1;
    step_path(config->checkpoint.dir, step, ".tmp", path);
    dp_ckpt_layer_name(layer->index, name);
    snprintf(file, sizeof file, "%s/%s", path, name);
    out->bytes = bytes;
    if (dp_ckpt_sha256(data, bytes, out->digest, err) == 0)
        rc = dp_ckpt_file_write(file, data, bytes, err);
    free(data);
    return rc;
}

void dp_ckpt_abandon(const struct dp_train_config *config, uint64_t step)
{
    char path[PATH_BYTES];

    step_path(config->checkpoint.dir, step, ".tmp", path);
    dp_ckpt_dir_remove(path, NULL); /* else the next save does it */
}

/* Checkpoints up to `step` beyond `keep`, oldest first. Later ones are those of a run that went on from where this one began:
 * they stay, and do not count. That one cannot be removed is no reason to fail. */
static void drop_old(const struct dp_train_config *config, uint64_t step)
{
    char path[PATH_BYTES], tmp[PATH_BYTES];
    uint64_t *steps;
    size_t n, keep = (size_t)config->checkpoint.keep;

    if (list_steps(config->checkpoint.dir, false, &steps, &n, NULL) < 0)
        return;
    while (n && steps[n - 1] > step)
        n--;
    for (size_t i = 0; i + keep < n; i++) {
        step_path(config->checkpoint.dir, steps[i], "", path);
        step_path(config->checkpoint.dir, steps[i], ".tmp", tmp);
        if (rename(path, tmp) == 0)
            dp_ckpt_dir_remove(tmp, NULL);
    }
    free(steps);
}

/* tmp becomes final. Where final exists (the same step was saved before) both change names at once. */
static int publish(const char *tmp, const char *final, struct dp_err *err)
{
    if (rename(tmp, final) == 0)
        return 0;
    if ((errno == ENOTEMPTY || errno == EEXIST) &&
        renameat2(AT_FDCWD, tmp, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        dp_ckpt_dir_remove(tmp, NULL);
        return 0;
    }
    return dp_err_set(err, DP_EIO, "%s: cannot be renamed to %s: %s", tmp, final, strerror(errno));
}

static int write_manifest(const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
                          const struct dp_ckpt_entry *entries, const char *dir, struct dp_err *err)
{
    struct dp_ckpt_manifest *m = calloc(1, sizeof *m);
    char file[PATH_BYTES + 40], *text;
    int rc = -1;

    if (!m)
        return dp_err_set(err, DP_ENOMEM, "no memory for the manifest");
    m->step = step;
    m->tune = *tune;
    memcpy(m->entry, entries, dp_model_layers(config) * sizeof *entries);
    snprintf(file, sizeof file, "%s/manifest.json", dir);
    text = dp_ckpt_manifest_encode(config, m, err);
    if (text)
        rc = dp_ckpt_file_write(file, text, strlen(text), err);
    free(text);
    free(m);
    return rc;
}

int dp_ckpt_commit(const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
                   const struct dp_ckpt_entry *entries, struct dp_err *err)
{
    char tmp[PATH_BYTES], final[PATH_BYTES];

    step_path(config->checkpoint.dir, step, ".tmp", tmp);
    step_path(config->checkpoint.dir, step, "", final);
    if (write_manifest(config, step, tune, entries, tmp, err) < 0 || dp_ckpt_dir_sync(tmp, err) < 0 ||
        publish(tmp, final, err) < 0 || dp_ckpt_dir_sync(config->checkpoint.dir, err) < 0)
        return -1;
    drop_old(config, step);
    return 0;
}

void dp_ckpt_name(const struct dp_train_config *config, uint64_t step, char *out, size_t cap)
{
    char final[PATH_BYTES];

    step_path(config->checkpoint.dir, step, "", final);
    snprintf(out, cap, "%s", final);
}

static struct dp_ckpt_manifest *read_manifest(const char *path, const struct dp_train_config *config,
                                              struct dp_err *err)
{
    char file[PATH_BYTES + 40];

    if (strlen(path) >= PATH_BYTES) {
        dp_err_set(err, DP_EINVAL, "the name of the checkpoint is too long: %.100s...", path);
        return NULL;
    }
    snprintf(file, sizeof file, "%s/manifest.json", path);
    return dp_ckpt_manifest_read(file, config, err);
}

/* Are all files there, as long as they should be? Digests are checked when a layer is read. */
static int check_sizes(const char *path, const struct dp_train_config *config,
                       const struct dp_ckpt_manifest *m, struct dp_err *err)
{
    for (uint32_t i = 0; i < dp_model_layers(config); i++) {
        char file[PATH_BYTES + 40], name[32];
        struct stat st;

        dp_ckpt_layer_name(i, name);
        snprintf(file, sizeof file, "%s/%s", path, name);
        if (stat(file, &st) < 0)
            return dp_err_set(err, DP_ECORRUPT, "%s: %s", file, strerror(errno));
        if ((uint64_t)st.st_size != m->entry[i].bytes)
            return dp_err_set(err, DP_ECORRUPT, "%s: %" PRIu64 " bytes, the manifest says %" PRIu64, file,
                              (uint64_t)st.st_size, m->entry[i].bytes);
    }
    return 0;
}

bool dp_ckpt_has(const struct dp_train_config *config, const char *path, uint32_t layer, const struct dp_ckpt_entry *entry)
{
    struct dp_ckpt_manifest *m = read_manifest(path, config, NULL);
    bool has = m && m->entry[layer].bytes == entry->bytes && !memcmp(m->entry[layer].digest, entry->digest, DP_DIGEST_BYTES);

    free(m);
    return has;
}

/* *step: of the newest one in `dir`. returns what dp_ckpt_newest() does. */
static int newest_in(const char *dir, uint64_t *step, struct dp_err *err)
{
    uint64_t *steps;
    size_t n;

    *step = 0;
    if (list_steps(dir, false, &steps, &n, err) < 0)
        return -1;
    if (n)
        *step = steps[n - 1];
    free(steps);
    return n > 0;
}

int dp_ckpt_newest(const struct dp_train_config *config, uint64_t *step, struct dp_err *err)
{
    *step = 0;
    return config->checkpoint.dir[0] ? newest_in(config->checkpoint.dir, step, err) : 0;
}

/* Of the checkpoint at `path`, which is no keyword. */
static int open_checkpoint(const struct dp_train_config *config, const char *path, uint64_t *step, char *out_path, size_t cap,
                           struct dp_tune *tune, struct dp_err *err)
{
    struct dp_ckpt_manifest *m;

    if (strlen(path) >= cap)
        return dp_err_set(err, DP_EINVAL, "the name of the checkpoint is too long: %.100s...", path);
    m = read_manifest(path, config, err);
    if (!m || check_sizes(path, config, m, err) < 0) {
        free(m);
        return -1;
    }
    *step = m->step;
    *tune = m->tune;
    snprintf(out_path, cap, "%s", path);
    free(m);
    return 0;
}

int dp_ckpt_find(const struct dp_train_config *config, const char *path, uint64_t *step, char *out_path,
                 size_t cap, struct dp_tune *tune, struct dp_err *err)
{
    char found[PATH_BYTES];

    *step = 0;
    out_path[0] = '\0';
    if (!strcmp(path, "none"))
        return 0;
    if (!strcmp(path, "auto")) {
        uint64_t newest;
        int rc = dp_ckpt_newest(config, &newest, err);

        if (rc <= 0)
            return rc;
        step_path(config->checkpoint.dir, newest, "", found);
        path = found;
    }
    return open_checkpoint(config, path, step, out_path, cap, tune, err);
}

int dp_ckpt_find_in(const struct dp_train_config *config, const char *path, uint64_t *step, char *out_path, size_t cap,
                    struct dp_tune *tune, struct dp_err *err)
{
    char found[PATH_BYTES];
    uint64_t newest;
    struct stat st;
    int rc;

    *step = 0;
    out_path[0] = '\0';
    if (strlen(path) >= PATH_BYTES - 40)
        return dp_err_set(err, DP_EINVAL, "the name of the checkpoint is too long: %.100s...", path);
    if (stat(path, &st) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    snprintf(found, sizeof found, "%s/manifest.json", path);
    if (stat(found, &st) == 0)
        return open_checkpoint(config, path, step, out_path, cap, tune, err);
    rc = newest_in(path, &newest, err);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return dp_err_set(err, DP_EINVAL, "%s: neither a checkpoint, for it has no manifest.json, nor a folder with one, for it has no "
                          "step-N", path);
    step_path(path, newest, "", found);
    return open_checkpoint(config, found, step, out_path, cap, tune, err);
}

/* The bytes of a layer's file, when they are those that the manifest knows. */
static uint8_t *read_checked(const char *file, const struct dp_ckpt_entry *entry, size_t *bytes,
                             struct dp_err *err)
{
    char hex[2 * DP_DIGEST_BYTES + 1], said[2 * DP_DIGEST_BYTES + 1];
    uint8_t digest[DP_DIGEST_BYTES], *data = dp_ckpt_file_read(file, bytes, err);

    if (!data)
        return NULL;
    if (dp_ckpt_sha256(data, *bytes, digest, err) == 0) {
        if (*bytes == entry->bytes && !memcmp(digest, entry->digest, sizeof digest))
            return data;
        dp_ckpt_hex(digest, hex);
        dp_ckpt_hex(entry->digest, said);
        dp_err_set(err, DP_ECORRUPT, "%s: damaged, its SHA-256 is %s, the manifest says %s", file, hex, said);
    }
    free(data);
    return NULL;
}

struct dp_layer *dp_ckpt_read_layer(const char *path, const struct dp_train_config *config, uint32_t index,
                                    struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err)
{
    char file[PATH_BYTES + 40], name[32];
    struct dp_ckpt_manifest *m = read_manifest(path, config, err);
    struct dp_layer *layer = NULL;
    uint8_t *data;
    size_t bytes;

    if (!m)
        return NULL;
    if (index >= dp_model_layers(config)) {
        dp_err_set(err, DP_EINVAL, "%s: the model has no layer %u", path, index);
        free(m);
        return NULL;
    }
    dp_ckpt_layer_name(index, name);
    snprintf(file, sizeof file, "%s/%s", path, name);
    data = read_checked(file, &m->entry[index], &bytes, err);
    if (data) {
        layer = dp_layer_read(config, be, tune, data, bytes, err);
        if (!layer) {
            dp_err_prefix(err, "%s", file);
        } else if (layer->index != index) {
            dp_err_set(err, DP_ECORRUPT, "%s: holds layer %u", file, layer->index);
            dp_layer_destroy(layer);
            layer = NULL;
        }
    }
    free(data);
    free(m);
    return layer;
}
