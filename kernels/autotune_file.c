/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of the crossover table: JSON, written to a temporary name and renamed.
 *
 *   {"format": "dynpipe-tune", "version": 3,
 *    "entries": [{"device": "AMD EPYC 9B14", "c_out": 3072, "c_in": 768, "n": 256, "crossover": 0.41, "block": "4x1"}, ...]}
 *
 * An entry counts on the device that it names, one without a name on every device. Version 2 had block_rows, 1 or 4, instead of
 * the block, and processors only: its entries count on whichever the file lies. A file of version 1 was measured with kernels
 * that are gone: as if it were missing.
 * It lies in the user's cache, so anything may be in it: every number is checked.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/autotune.h"
#include "kernels/granularity.h"

#define FORMAT "dynpipe-tune"
#define FORMAT_VERSION 3 /* 2 knew no devices */
#define MAX_FILE_BYTES 65536 /* twice DP_TUNE_MAX entries of at most 300 bytes */

/* What entries of a device are known by: its name, of which the file has printable ASCII. */
struct device {
    char name[64];
    bool is_cpu;
};

static int find_device(struct dp_backend *be, struct device *out, struct dp_err *err)
{
    struct dp_device_info info;

    if (be->ops->info(be, &info, err) < 0)
        return -1;
    *out = (struct device){.is_cpu = !strcmp(be->ops->name, "cpu")};
    snprintf(out->name, sizeof out->name, "%s", info.name);
    for (char *c = out->name; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return 0;
}

/* The whole file as text with its NUL; the caller frees. NULL: *missing, or err. */
static char *read_text(const char *path, bool *missing, struct dp_err *err)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t n;

    *missing = !f && errno == ENOENT;
    if (!f) {
        if (!*missing)
            dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    text = malloc(MAX_FILE_BYTES + 1);
    if (!text) {
        dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
        goto out;
    }
    n = fread(text, 1, MAX_FILE_BYTES, f);
    text[n] = '\0';
    if (ferror(f) || !feof(f)) {
        dp_err_set(err, DP_ECORRUPT, "%s: cannot be read, or longer than %d bytes", path, MAX_FILE_BYTES);
        free(text);
        text = NULL;
    }
out:
    fclose(f);
    return text;
}

/* *counts: on this device. */
static int read_entry(json_t *item, int version, const struct device *device, struct dp_tune_entry *e, bool *counts,
                      struct dp_err *err)
{
    const char *name = NULL, *block = NULL;
    json_int_t c_out, c_in, n, block_rows = 0;
    json_error_t why;

    if (version == 2 ? json_unpack_ex(item, &why, JSON_STRICT, "{s:I, s:I, s:I, s:F, s:I}", "c_out", &c_out, "c_in", &c_in,
                                      "n", &n, "crossover", &e->crossover, "block_rows", &block_rows) < 0
                     : json_unpack_ex(item, &why, JSON_STRICT, "{s?s, s:I, s:I, s:I, s:F, s:s}", "device", &name, "c_out",
                                      &c_out, "c_in", &c_in, "n", &n, "crossover", &e->crossover, "block", &block) < 0)
        return dp_err_set(err, DP_ECORRUPT, "an entry is damaged: %s", why.text);
    e->c_out = c_out;
    e->c_in = c_in;
    e->n = n;
    e->block_rows = block ? dp_granularity_rows(block) : block_rows == 1 || block_rows == 4 ? block_rows : 0;
    if (e->block_rows == 0 || !dp_tune_is_entry(e))
        return dp_err_set(err, DP_ECORRUPT, "an entry is out of range: (%lld, %lld), n %lld, crossover %g, block %.20s",
                          (long long)c_out, (long long)c_in, (long long)n, e->crossover, block ? block : "of other rows");
    *counts = version == 2 ? device->is_cpu : !name || !strcmp(name, device->name);
    return 0;
}

/* others: NULL, or a list that gets the entries of other devices. */
static int read_table(json_t *root, const struct device *device, struct dp_tune *out, json_t *others, struct dp_err *err)
{
    const char *format;
    int version;
    json_t *entries;
    json_error_t why;

    if (json_unpack_ex(root, &why, 0, "{s:s, s:i, s:o}", "format", &format, "version", &version, "entries",
                       &entries) < 0)
        return dp_err_set(err, DP_ECORRUPT, "%s", why.text);
    if (!strcmp(format, FORMAT) && version == 1)
        return 0;
    if (strcmp(format, FORMAT) || (version != 2 && version != FORMAT_VERSION))
        return dp_err_set(err, DP_ECORRUPT, "format %s version %d, this program reads " FORMAT " versions 2 and %d",
                          format, version, FORMAT_VERSION);
    if (!json_is_array(entries) || json_array_size(entries) > 2 * DP_TUNE_MAX)
        return dp_err_set(err, DP_ECORRUPT, "entries is not a list of at most %d", 2 * DP_TUNE_MAX);
    for (size_t i = 0; i < json_array_size(entries); i++) {
        struct dp_tune_entry e = {0};
        bool counts = false;

        if (read_entry(json_array_get(entries, i), version, device, &e, &counts, err) < 0)
            return -1;
        if (counts && out->n_entries == DP_TUNE_MAX)
            return dp_err_set(err, DP_ECORRUPT, "more than %d entries for %s", DP_TUNE_MAX, device->name);
        if (counts)
            out->entry[out->n_entries++] = e;
        else if (others && version == FORMAT_VERSION)
            json_array_append(others, json_array_get(entries, i));
    }
    return 0;
}

static int load(const char *path, const struct device *device, struct dp_tune *out, json_t *others, struct dp_err *err)
{
    struct dp_tune table = {0};
    json_error_t why;
    json_t *root;
    bool missing;
    char *text = read_text(path, &missing, err);
    int rc = -1;

    if (missing)
        *out = table;
    if (!text)
        return missing ? 0 : -1;
    root = json_loads(text, 0, &why);
    free(text);
    if (!root)
        return dp_err_set(err, DP_ECORRUPT, "%s:%d: %s", path, why.line, why.text);
    if (read_table(root, device, &table, others, err) < 0) {
        dp_err_prefix(err, "%s", path);
    } else {
        *out = table;
        rc = 0;
    }
    json_decref(root);
    return rc;
}

int dp_tune_load(const char *path, struct dp_backend *be, struct dp_tune *out, struct dp_err *err)
{
    struct device device;

    return find_device(be, &device, err) < 0 ? -1 : load(path, &device, out, NULL, err);
}

/* Make the folders above path; one that exists is fine. */
static int make_parents(const char *path, struct dp_err *err)
{
    char folder[4096];
    size_t n = strlen(path);

    if (n >= sizeof folder)
        return dp_err_set(err, DP_EINVAL, "%s: path too long", path);
    memcpy(folder, path, n + 1);
    for (char *p = folder + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(folder, 0700) < 0 && errno != EEXIST)
            return dp_err_set(err, DP_EIO, "%s: %s", folder, strerror(errno));
        *p = '/';
    }
    return 0;
}

/* entries: a list that they are appended to; ours from here on. */
static char *format_table(json_t *entries, const struct device *device, const struct dp_tune *tune)
{
    json_t *root;
    char *text;

    while (json_array_size(entries) > DP_TUNE_MAX)
        json_array_remove(entries, 0);
    for (uint32_t i = 0; i < tune->n_entries; i++) {
        const struct dp_tune_entry *e = &tune->entry[i];

        json_array_append_new(entries, json_pack("{s:s, s:I, s:I, s:I, s:f, s:s}", "device", device->name, "c_out",
                                                 (json_int_t)e->c_out, "c_in", (json_int_t)e->c_in, "n", (json_int_t)e->n,
                                                 "crossover", e->crossover, "block",
                                                 dp_granularity_name(e->block_rows > 1 ? e->block_rows : 1)));
    }
    root = json_pack("{s:s, s:i, s:o}", "format", FORMAT, "version", FORMAT_VERSION, "entries", entries);
    text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    return text;
}

/* Write text to the open file and make it durable. */
static int write_all(int fd, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        ssize_t n = write(fd, text, left);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd);
}

/* The entries of other devices in the file; a list that the caller owns. */
static json_t *read_others(const char *path, const struct device *device)
{
    json_t *others = json_array();
    struct dp_tune ours;

    if (load(path, device, &ours, others, NULL) < 0)
        json_array_clear(others);
    return others;
}

int dp_tune_save(const char *path, struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err)
{
    struct device device;
    char temporary[4096 + 16];
    char *text = NULL;
    int fd = -1, rc = -1;

    if (find_device(be, &device, err) < 0 || make_parents(path, err) < 0)
        return -1;
    text = format_table(read_others(path, &device), &device, tune);
    if (!text)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", temporary, strerror(errno));
        goto out;
    }
    if (write_all(fd, text) < 0 || rename(temporary, path) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        unlink(temporary);
        goto out;
    }
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    free(text);
    return rc;
}

/* "AMD EPYC 9B14" -> "amd-epyc-9b14" */
static void name_of_file(const char *name, char *out, size_t cap)
{
    size_t n = 0;

    for (; *name && n + 1 < cap; name++) {
        if (isalnum((unsigned char)*name))
            out[n++] = (char)tolower((unsigned char)*name);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
    if (!n)
        snprintf(out, cap, "device");
}

int dp_tune_default_path(struct dp_backend *be, char *out, size_t cap, struct dp_err *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct device device;
    char model[64];
    int n;

    if (find_device(be, &device, err) < 0)
        return -1;
    name_of_file(device.name, model, sizeof model);
    if (cache && cache[0] == '/')
        n = snprintf(out, cap, "%s/dynpipe/tune-%s.json", cache, model);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.cache/dynpipe/tune-%s.json", home, model);
    else
        return dp_err_set(err, DP_EINVAL, "neither XDG_CACHE_HOME nor HOME names a folder");
    if (n < 0 || (size_t)n >= cap)
        return dp_err_set(err, DP_EINVAL, "the path of the tune file is longer than %zu bytes", cap);
    return 0;
}
