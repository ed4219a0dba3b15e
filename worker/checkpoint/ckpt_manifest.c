/* SPDX-License-Identifier: BSD-3-Clause */
/* manifest.json of a checkpoint (ckpt_manifest.h): model, step, tune table, size and SHA-256 of every
 * layer's file. Its own SHA-256 stands in it too and is taken over the bytes of the file with 64 zeros
 * in the digest's place: any flipped bit shows, whether or not it would still be JSON.
 */
#include "worker/checkpoint/ckpt_manifest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "worker/checkpoint/ckpt_file.h"

#define FORMAT_VERSION 1 /* of all releases */
#define SELF_KEY "\"sha256_of_this_file\": \""
#define HEX_BYTES (2 * DP_DIGEST_BYTES) /* two digits a byte */

void dp_ckpt_layer_name(uint32_t index, char out[32])
{
    snprintf(out, 32, "layer-%04u.bin", index);
}

static json_t *model_json(const struct dp_train_config *c)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:b}", "blocks", (json_int_t)c->model.blocks, "channels",
                     (json_int_t)c->model.channels, "heads", (json_int_t)c->model.heads, "context",
                     (json_int_t)c->model.context, "vocabulary", (json_int_t)c->model.vocabulary,
                     "tied_head", (int)c->model.tied_head);
}

static json_t *tune_json(const struct dp_tune *tune)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < tune->n_entries; i++) {
        const struct dp_tune_entry *e = &tune->entry[i];

        json_array_append_new(list, json_pack("{s:I,s:I,s:I,s:f,s:I}", "c_out", (json_int_t)e->c_out, "c_in",
                                              (json_int_t)e->c_in, "n", (json_int_t)e->n, "crossover",
                                              e->crossover, "block_rows",
                                              (json_int_t)(e->block_rows > 1 ? e->block_rows : 1)));
    }
    return list;
}

static json_t *layers_json(const struct dp_ckpt_entry *entry, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++) {
        char hex[HEX_BYTES + 1], name[32];

        dp_ckpt_hex(entry[i].digest, hex);
        dp_ckpt_layer_name(i, name);
        json_array_append_new(list, json_pack("{s:s,s:I,s:s}", "file", name, "bytes",
                                              (json_int_t)entry[i].bytes, "sha256", hex));
    }
    return list;
}

/* Where the file's own digest stands in its text, NULL: nowhere. */
static char *self_digest(char *text)
{
    char *at = strstr(text, SELF_KEY);

    at = at ? at + strlen(SELF_KEY) : NULL;
    return at && strnlen(at, HEX_BYTES) == HEX_BYTES ? at : NULL;
}

char *dp_ckpt_manifest_encode(const struct dp_train_config *config, const struct dp_ckpt_manifest *m,
                              struct dp_err *err)
{
    char hex[HEX_BYTES + 1], zeros[HEX_BYTES + 1], *text = NULL;
    uint8_t digest[DP_DIGEST_BYTES];
    json_t *root;

    memset(zeros, '0', HEX_BYTES);
    zeros[HEX_BYTES] = '\0';
    root = json_pack("{s:i,s:s,s:I,s:o,s:o,s:o}", "dynpipe_checkpoint", FORMAT_VERSION,
                     "sha256_of_this_file", zeros, "step", (json_int_t)m->step, "model", model_json(config),
                     "tune", tune_json(&m->tune), "layers", layers_json(m->entry, dp_model_layers(config)));
    if (root)
        text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!text || !self_digest(text)) {
        dp_err_set(err, DP_ENOMEM, "no memory for the manifest");
        free(text);
        return NULL;
    }
    if (dp_ckpt_sha256(text, strlen(text), digest, err) < 0) {
        free(text);
        return NULL;
    }
    dp_ckpt_hex(digest, hex);
    memcpy(self_digest(text), hex, HEX_BYTES);
    return text;
}

static int check_self(const char *path, char *text, size_t bytes, struct dp_err *err)
{
    char *at = self_digest(text), said[HEX_BYTES + 1] = "", hex[HEX_BYTES + 1];
    uint8_t digest[DP_DIGEST_BYTES];

    if (!at || strlen(text) != bytes)
        return dp_err_set(err, DP_ECORRUPT, "%s: damaged, its own digest is missing", path);
    memcpy(said, at, HEX_BYTES);
    memset(at, '0', HEX_BYTES);
    if (dp_ckpt_sha256(text, bytes, digest, err) < 0)
        return -1;
    dp_ckpt_hex(digest, hex);
    if (strcmp(said, hex))
        return dp_err_set(err, DP_ECORRUPT, "%s: damaged, its SHA-256 is %s, it should be %s", path, hex, said);
    return 0;
}

static int check_model(const char *path, json_t *root, const struct dp_train_config *c, struct dp_err *err)
{
    json_int_t blocks = 0, channels = 0, heads = 0, context = 0, vocabulary = 0;
    int tied = 0;

    if (json_unpack(root, "{s:{s:I,s:I,s:I,s:I,s:I,s:b}}", "model", "blocks", &blocks, "channels", &channels,
                    "heads", &heads, "context", &context, "vocabulary", &vocabulary, "tied_head", &tied))
        return dp_err_set(err, DP_ECORRUPT, "%s: names no model", path);
    if (blocks != c->model.blocks || channels != c->model.channels || heads != c->model.heads ||
        context != c->model.context || vocabulary != c->model.vocabulary || tied != (int)c->model.tied_head)
        return dp_err_set(err, DP_EINVAL,
                          "%s: checkpoint of another model: %lld blocks, %lld channels, %lld heads, "
                          "context %lld, vocabulary %lld%s; the configuration says %lld, %lld, %lld, %lld, %lld%s",
                          path, (long long)blocks, (long long)channels, (long long)heads, (long long)context,
                          (long long)vocabulary, tied ? ", tied head" : "", (long long)c->model.blocks,
                          (long long)c->model.channels, (long long)c->model.heads,
                          (long long)c->model.context, (long long)c->model.vocabulary,
                          c->model.tied_head ? ", tied head" : "");
    return 0;
}

static int read_tune(json_t *list, struct dp_tune *out)
{
    size_t i;
    json_t *e;

    if (!json_is_array(list) || json_array_size(list) > DP_TUNE_MAX)
        return -1;
    json_array_foreach(list, i, e) {
        json_int_t c_out, c_in, n, block_rows = 1; /* not in manifests from before blocks */

        if (json_unpack(e, "{s:I,s:I,s:I,s:F,s?I}", "c_out", &c_out, "c_in", &c_in, "n", &n, "crossover",
                        &out->entry[i].crossover, "block_rows", &block_rows))
            return -1;
        out->entry[i].c_out = c_out;
        out->entry[i].c_in = c_in;
        out->entry[i].n = n;
        out->entry[i].block_rows = block_rows;
        if (block_rows < 1 || !dp_tune_is_entry(&out->entry[i]))
            return -1;
    }
    out->n_entries = (uint32_t)json_array_size(list);
    return 0;
}

static int read_layers(json_t *list, uint32_t n, struct dp_ckpt_entry *out)
{
    size_t i;
    json_t *e;

    if (!json_is_array(list) || json_array_size(list) != n)
        return -1;
    json_array_foreach(list, i, e) {
        const char *hex;
        json_int_t bytes;

        if (json_unpack(e, "{s:I,s:s}", "bytes", &bytes, "sha256", &hex) || bytes < 0 ||
            dp_ckpt_unhex(hex, out[i].digest) < 0)
            return -1;
        out[i].bytes = (uint64_t)bytes;
    }
    return 0;
}

static int read_root(const char *path, json_t *root, const struct dp_train_config *config,
                     struct dp_ckpt_manifest *m, struct dp_err *err)
{
    json_int_t step = -1;
    int version = 0;

    if (json_unpack(root, "{s:i,s:I}", "dynpipe_checkpoint", &version, "step", &step) || step < 0)
        return dp_err_set(err, DP_ECORRUPT, "%s: not a checkpoint manifest", path);
    if (version != FORMAT_VERSION)
        return dp_err_set(err, DP_EINVAL, "%s: format %d, this program reads format %d", path, version,
                          FORMAT_VERSION);
    if (check_model(path, root, config, err) < 0)
        return -1;
    m->step = (uint64_t)step;
    if (read_tune(json_object_get(root, "tune"), &m->tune) < 0 ||
        read_layers(json_object_get(root, "layers"), dp_model_layers(config), m->entry) < 0)
        return dp_err_set(err, DP_ECORRUPT, "%s: tune table or list of layers is incomplete", path);
    return 0;
}

struct dp_ckpt_manifest *dp_ckpt_manifest_read(const char *path, const struct dp_train_config *config,
                                               struct dp_err *err)
{
    struct dp_ckpt_manifest *m = NULL;
    size_t bytes = 0;
    char *text = (char *)dp_ckpt_file_read(path, &bytes, err);
    json_error_t why;
    json_t *root = NULL;
    int rc = -1;

    if (!text || check_self(path, text, bytes, err) < 0)
        goto out;
    root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    m = calloc(1, sizeof *m);
    if (!root)
        dp_err_set(err, DP_ECORRUPT, "%s:%d: %s", path, why.line, why.text);
    else if (!m)
        dp_err_set(err, DP_ENOMEM, "%s: no memory", path);
    else
        rc = read_root(path, root, config, m, err);
out:
    json_decref(root);
    free(text);
    if (rc < 0) {
        free(m);
        m = NULL;
    }
    return m;
}
