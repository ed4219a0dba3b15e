/* SPDX-License-Identifier: BSD-3-Clause */
/* Training text (data.h): one mapped file, two readers (bytes, 16-bit tokens), sampling by counter.
 *
 * A .bin file is llm.c's: 256 int32 (magic 20240520, version 1, number of tokens, zeros), then the
 * tokens as little-endian uint16. The last `validation` of the file is never trained on. A training row
 * starts anywhere in the rest; validation rows lie side by side, spread over the whole of their part.
 * The file must not be cut short while the run lasts: mapped pages would be gone. dp_data_check() tells
 * that in good time, or else the handler of SIGBUS in main.c.
 */
#include "worker/model/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/model/philox.h"

#define BIN_MAGIC 20240520u /* llm.c's, as are the next two */
#define BIN_VERSION 1u /* of train files with 16-bit tokens */
#define BIN_HEADER_BYTES 1024u /* 256 int32 */

struct dp_data {
    const struct dp_train_config *config; /* borrowed */
    int fd;
    uint8_t *map;
    size_t map_bytes;
    const uint8_t *bytes;   /* text, or NULL */
    const uint8_t *tokens;  /* little-endian uint16, or NULL */
    uint64_t n;             /* tokens of the file */
    uint64_t n_train;       /* the first n_train of them are trained on */
    uint64_t key;
};

/* The newest open one, for dp_data_path_at(). */
static const struct dp_data *volatile open_data;

static uint32_t get_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t token_at(const struct dp_data *d, uint64_t i)
{
    if (d->bytes)
        return d->bytes[i];
    return (uint32_t)d->tokens[2 * i] | (uint32_t)d->tokens[2 * i + 1] << 8;
}

static int map_file(struct dp_data *d, const char *path, struct dp_err *err)
{
    struct stat st;
    int fd;
    void *map;

    if (!*path)
        return dp_err_set(err, DP_EINVAL, "data.path is empty: name a text file or a .bin file of tokens");
    d->fd = fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dp_err_set(err, DP_EINVAL, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dp_err_set(err, DP_EINVAL, "%s: not a regular file", path);
    if (st.st_size == 0)
        return dp_err_set(err, DP_EINVAL, "%s: the file is empty", path);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return dp_err_set(err, DP_EIO, "%s: cannot map it: %s", path, strerror(errno));
    d->map = map;
    d->map_bytes = (size_t)st.st_size;
    return 0;
}

static int read_header(struct dp_data *d, const char *path, struct dp_err *err)
{
    uint32_t n;

    if (d->map_bytes < BIN_HEADER_BYTES || get_le32(d->map) != BIN_MAGIC)
        return dp_err_set(err, DP_EINVAL, "%s: not a file of GPT-2 tokens (no header with magic number %u)",
                          path, BIN_MAGIC);
    if (get_le32(d->map + 4) != BIN_VERSION)
        return dp_err_set(err, DP_EINVAL, "%s: version %u of the token format, version %u is known", path,
                          get_le32(d->map + 4), BIN_VERSION);
    n = get_le32(d->map + 8);
    if (d->map_bytes - BIN_HEADER_BYTES != 2 * (uint64_t)n)
        return dp_err_set(err, DP_EINVAL, "%s: its header says %u tokens, but %zu bytes follow it", path, n,
                          d->map_bytes - BIN_HEADER_BYTES);
    d->tokens = d->map + BIN_HEADER_BYTES;
    d->n = n;
    return 0;
}

static int read_format(struct dp_data *d, struct dp_err *err)
{
    const struct dp_train_config *c = d->config;
    bool magic = d->map_bytes >= 4 && get_le32(d->map) == BIN_MAGIC;

    if (!strcmp(c->data.format, "tokens") || (!strcmp(c->data.format, "auto") && magic))
        return read_header(d, c->data.path, err);
    d->bytes = d->map;
    d->n = d->map_bytes;
    return 0;
}

static int check_tokens(const struct dp_data *d, struct dp_err *err)
{
    uint64_t v = (uint64_t)d->config->model.vocabulary;

    if (v >= (d->bytes ? 256u : 65536u))
        return 0;
    for (uint64_t i = 0; i < d->n; i++)
        if (token_at(d, i) >= v)
            return dp_err_set(err, DP_EINVAL, "%s: token %u at position %llu is outside the vocabulary of %llu",
                              d->config->data.path, token_at(d, i), (unsigned long long)i,
                              (unsigned long long)v);
    return 0;
}

/* Divide the file; both parts must hold at least one row and the token that follows it. */
static int split(struct dp_data *d, struct dp_err *err)
{
    const struct dp_train_config *c = d->config;
    uint64_t row = (uint64_t)c->model.context + 1, n_val = (uint64_t)((double)d->n * c->data.validation);

    d->n_train = d->n - n_val;
    if (d->n_train < row)
        return dp_err_set(err, DP_EINVAL,
                          "%s: too short: %llu tokens to train on, one row of model.context takes %llu",
                          c->data.path, (unsigned long long)d->n_train, (unsigned long long)row);
    if (c->data.eval_batches && n_val < row)
        return dp_err_set(err, DP_EINVAL,
                          "%s: too short: data.validation = %g leaves %llu tokens, one row takes %llu",
                          c->data.path, c->data.validation, (unsigned long long)n_val, (unsigned long long)row);
    return 0;
}

struct dp_data *dp_data_open(const struct dp_train_config *config, struct dp_err *err)
{
    struct dp_data *d = calloc(1, sizeof *d);

    if (!d) {
        dp_err_set(err, DP_ENOMEM, "no memory for the data reader");
        return NULL;
    }
    d->config = config;
    d->fd = -1;
    open_data = d;
    d->key = dp_philox_key(config->train.seed, DP_PHILOX_TRAIN, 0);
    if (map_file(d, config->data.path, err) < 0 || read_format(d, err) < 0 || split(d, err) < 0 ||
        check_tokens(d, err) < 0) {
        dp_data_close(d);
        return NULL;
    }
    return d;
}

void dp_data_close(struct dp_data *data)
{
    if (!data)
        return;
    if (open_data == data)
        open_data = NULL;
    if (data->map)
        munmap(data->map, data->map_bytes);
    if (data->fd >= 0)
        close(data->fd);
    free(data);
}

int dp_data_check(const struct dp_data *d, struct dp_err *err)
{
    struct stat st;

    if (fstat(d->fd, &st) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", d->config->data.path, strerror(errno));
    if ((uint64_t)st.st_size < d->map_bytes)
        return dp_err_set(err, DP_EIO, "%s: cut short while the run used it, from %zu to %llu bytes",
                          d->config->data.path, d->map_bytes, (unsigned long long)st.st_size);
    return 0;
}

const char *dp_data_path_at(const void *address)
{
    const struct dp_data *d = open_data;
    uintptr_t at = (uintptr_t)address;

    if (!d || !d->map || at < (uintptr_t)d->map || at - (uintptr_t)d->map >= d->map_bytes)
        return NULL;
    return d->config->data.path;
}

double dp_data_bytes_per_token(const struct dp_data *data)
{
    return data->bytes ? 1.0 : 0.0;
}

static void copy_row(const struct dp_data *d, uint64_t start, uint32_t *tokens, uint32_t *targets)
{
    for (int64_t i = 0; i < d->config->model.context; i++) {
        tokens[i] = token_at(d, start + (uint64_t)i);
        targets[i] = token_at(d, start + (uint64_t)i + 1);
    }
}

void dp_data_train(const struct dp_data *data, uint64_t step, uint32_t mb, uint32_t *tokens, uint32_t *targets)
{
    uint64_t context = (uint64_t)data->config->model.context, starts = data->n_train - context;

    for (uint64_t row = 0; row < (uint64_t)data->config->train.batch; row++) {
        uint32_t r[4];
        uint64_t at;

        dp_philox(data->key, step, (uint64_t)mb << 32 | row, r);
        at = (uint64_t)(((unsigned __int128)((uint64_t)r[1] << 32 | r[0]) * starts) >> 64);
        copy_row(data, at, tokens + row * context, targets + row * context);
    }
}

void dp_data_validation(const struct dp_data *data, uint64_t i, uint32_t *tokens, uint32_t *targets)
{
    uint64_t context = (uint64_t)data->config->model.context, batch = (uint64_t)data->config->train.batch;
    uint64_t starts = data->n - data->n_train - context;
    uint64_t rows = batch * (uint64_t)data->config->data.eval_batches;
    uint64_t stride = rows ? starts / rows : 0;

    for (uint64_t row = 0; row < batch; row++) {
        uint64_t at = (i * batch + row) * (stride > 0 ? stride : 1) % starts;

        copy_row(data, data->n_train + at, tokens + row * context, targets + row * context);
    }
}
