/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte stream of a layer. Its checksums would keep every mutation out, so they are mended and the
 * stream is read a second time: behind them stands a peer or a file that computes them too. What is
 * read must write the same bytes again. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "common/crc32c.h"
#include "kernels/granularity.h"
#include "tests/unit/worker/tiny_model.h"
#include "worker/model/layer.h"

const char fuzz_name[] = "fuzz_layer";

#define HEADER_BYTES 80u /* as worker/model/layer_io.c tables it */
#define TENSOR_BYTES 72u

static struct dp_train_config config;
static struct dp_tune tune;
static struct dp_backend *be;

static void set_up(void)
{
    if (be)
        return;
    if (tiny_model(&config, NULL) < 0)
        fuzz_die("no default configuration");
    tune = tune_at(&config, 0.5);
    be = dp_backend_create("cpu", 0, 1, NULL);
    if (!be)
        fuzz_die("no backend");
}

static void read_stream(const uint8_t *data, size_t bytes)
{
    struct dp_layer *l = dp_layer_read(&config, be, &tune, data, bytes, NULL);
    uint8_t *again;
    size_t n;

    if (!l)
        return;
    if (dp_layer_write(l, &again, &n, NULL) < 0 || n != bytes || memcmp(again, data, n))
        fuzz_die("a layer that was read writes other bytes");
    free(again);
    dp_layer_destroy(l);
}

/* Bytes of a tensor's data by its header, SIZE_MAX when they cannot be in an input. */
static size_t data_bytes(const uint8_t *head)
{
    int64_t shape[4]; /* rows, cols, n, nnz */
    uint32_t words[2]; /* format, has_moments */
    size_t sum;

    memcpy(shape, head + 32, sizeof shape);
    memcpy(words, head + 64, sizeof words);
    for (int i = 0; i < 4; i++)
        if (shape[i] < 0 || shape[i] > 1 << 20)
            return SIZE_MAX;
    sum = (size_t)shape[2] * sizeof(float) * (words[1] ? 3 : 1);
    if (words[0] == 1)
        sum += dp_bits_words(shape[2]) * sizeof(uint64_t);
    if (words[0] >= 2 && words[0] < 7) {
        const int64_t block = dp_granularity_at((int)words[0] - 2);

        sum += ((size_t)(shape[0] / block) + 1) * sizeof(int64_t) +
               (size_t)(shape[3] / dp_block_weights(block)) * sizeof(uint32_t);
    }
    return sum;
}

static void mend(uint8_t *data, size_t bytes)
{
    size_t at = HEADER_BYTES + 4;
    uint32_t crc;

    if (bytes < at)
        return;
    crc = dp_crc32c(0, data, HEADER_BYTES);
    memcpy(data + HEADER_BYTES, &crc, sizeof crc);
    while (at + TENSOR_BYTES + 8 <= bytes) {
        size_t n = data_bytes(data + at);

        if (n > bytes - at - TENSOR_BYTES - 8)
            return;
        crc = dp_crc32c(dp_crc32c(0, data + at, TENSOR_BYTES), data + at + TENSOR_BYTES + 8, n);
        memcpy(data + at + TENSOR_BYTES, &crc, sizeof crc);
        at += TENSOR_BYTES + 8 + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);

    set_up();
    read_stream(data, bytes);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    mend(copy, bytes);
    read_stream(copy, bytes);
    free(copy);
    return 0;
}

/* Of each row of blocks, 1 or 4 rows high, one weight or column of `keep_one_of` is left; 1: four of five. */
static void seed_layer(uint32_t index, uint32_t keep_one_of, const char *granularity)
{
    struct dp_layer *l;
    int64_t block;
    uint8_t *data;
    size_t n;

    snprintf(config.prune.granularity, sizeof config.prune.granularity, "%s", granularity);
    tune = tune_at(&config, 0.5);
    block = dp_train_block_rows(&config);
    l = dp_layer_create(&config, index, be, &tune, NULL);
    for (uint32_t i = 0; l && keep_one_of && i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];
        uint64_t keep[64] = {0};

        if (!p->prunable)
            continue;
        for (int64_t e = 0; e < p->rows * p->cols; e++)
            if (keep_one_of == 1 ? e % 5 != 0 : (e / p->cols / block * p->cols + e % p->cols) % keep_one_of == 0)
                dp_bits_set(keep, e);
        if (dp_param_prune(l, p, keep, NULL) < 0)
            fuzz_die("a seed cannot be pruned");
    }
    if (!l || dp_layer_write(l, &data, &n, NULL) < 0)
        fuzz_die("a seed cannot be written");
    fuzz_seed(data, n);
    free(data);
    dp_layer_destroy(l);
}

void fuzz_make_seeds(void)
{
    set_up();
    seed_layer(0, 0, "weight");
    seed_layer(1, 0, "weight"); /* dense */
    seed_layer(1, 1, "weight"); /* with bitmaps */
    seed_layer(1, 6, "weight"); /* sparse */
    seed_layer(1, 6, "4x1");
    seed_layer(3, 0, "weight");
}
