/* SPDX-License-Identifier: BSD-3-Clause */
/* See layer_head.h. Lengths are checked against the model's own shapes before anything is allocated by them. */
#include "worker/model/layer_head.h"

#include <math.h>
#include <string.h>

#include "common/crc32c.h"
#include "worker/model/model.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie in memory");

#define NAME_BYTES 32 /* layer_io.c says what the bytes are */
#define HEADER_BYTES (8 + 4 * 4 + 2 * 8 + 5 * 8) /* up to its crc, in version 1 */
#define MORE_BYTES (2 * 4 + DP_LAYER_NOTES * 8) /* in version 2 */
#define FLAG_FROZEN 1u /* see above */
_Static_assert(HEADER_BYTES + MORE_BYTES + 4 == DP_LAYER_HEADER_MAX, "a header of version 2 and its checksum");
_Static_assert(NAME_BYTES + 4 * 8 + 2 * 4 == DP_TENSOR_HEAD_BYTES, "a name and struct dp_tensor_head");
_Static_assert(sizeof(struct dp_tensor_head) == DP_TENSOR_HEAD_BYTES - NAME_BYTES, "no padding in what is written");
static const char magic[7] = {'D', 'P', 'L', 'A', 'Y', 'E', 'R'}; /* and a byte, the version */

/* Rows of a block where the format is sparse, else 0. */
static const int64_t format_rows[DP_N_FORMATS] = {0, 0, 1, 4, 32, 64, 128};

int dp_layer_is_corrupt(struct dp_err *err, const char *what)
{
    return dp_err_set(err, DP_ECORRUPT, "layer stream: %s", what);
}

static uint8_t *put(uint8_t *at, const void *data, size_t bytes)
{
    memcpy(at, data, bytes);
    return at + bytes;
}

/* ---- the layer's ---- */

static uint8_t version_of(const struct dp_layer *l)
{
    return l->is_frozen || l->notes.rule ? 2 : 1;
}

static size_t header_bytes(uint8_t version)
{
    return version > 1 ? HEADER_BYTES + MORE_BYTES : HEADER_BYTES;
}

size_t dp_layer_header_encode(const struct dp_layer *l, uint8_t out[DP_LAYER_HEADER_MAX])
{
    const uint32_t more[2] = {l->is_frozen ? FLAG_FROZEN : 0, l->notes.rule};
    const int64_t model[5] = {l->config->model.blocks, l->config->model.channels, l->config->model.heads,
                              l->config->model.context, l->config->model.vocabulary};
    const uint32_t words[4] = {l->index, (uint32_t)l->kind, l->n_params, l->config->model.tied_head};
    const uint64_t rng[2] = {l->rng_key, l->rng_counter};
    uint8_t version = version_of(l), *at = put(out, magic, sizeof magic);
    uint32_t crc;

    at = put(at, &version, sizeof version);
    at = put(at, words, sizeof words);
    at = put(at, rng, sizeof rng);
    at = put(at, model, sizeof model);
    if (version > 1)
        at = put(put(at, more, sizeof more), l->notes.value, sizeof l->notes.value);
    crc = dp_crc32c(0, out, (size_t)(at - out));
    return (size_t)(put(at, &crc, sizeof crc) - out);
}

/* What a header says of its layer. */
struct header {
    uint32_t index, n_params;
    uint64_t rng[2];
    bool is_frozen;
    struct dp_layer_notes notes;
};

/* Of version 2. */
static int read_more(const uint8_t *at, const struct dp_train_config *c, struct header *out, struct dp_err *err)
{
    uint32_t flags;

    memcpy(&flags, at, sizeof flags);
    memcpy(&out->notes.rule, at + 4, sizeof out->notes.rule);
    memcpy(out->notes.value, at + 8, sizeof out->notes.value);
    out->is_frozen = flags & FLAG_FROZEN;
    for (int i = 0; i < DP_LAYER_NOTES; i++)
        if (!isfinite(out->notes.value[i]) || (!out->notes.rule && out->notes.value[i] != 0))
            return dp_layer_is_corrupt(err, "notes of a rule that are none");
    if (flags & ~FLAG_FROZEN || (!out->is_frozen && !out->notes.rule))
        return dp_layer_is_corrupt(err, "flags that this program does not know");
    if (out->is_frozen && ((c->model.tied_head && out->index == 0) || out->index + 1 == dp_model_layers(c)))
        return dp_layer_is_corrupt(err, "a head and a tied embedding are never frozen");
    return 0;
}

static int read_header(const uint8_t **at, const uint8_t *end, const struct dp_train_config *c, struct header *out,
                       struct dp_err *err)
{
    const uint8_t *h = *at, version = end - h >= 8 ? h[7] : 1;
    int64_t model[5];
    uint32_t words[4], crc;

    if ((size_t)(end - h) < header_bytes(version) + sizeof crc)
        return dp_layer_is_corrupt(err, "cut short");
    if (memcmp(h, magic, sizeof magic) || version < 1 || version > 2)
        return dp_layer_is_corrupt(err, "not a layer of this version (magic number)");
    memcpy(&crc, h + header_bytes(version), sizeof crc);
    if (dp_crc32c(0, h, header_bytes(version)) != crc)
        return dp_layer_is_corrupt(err, "checksum of the header does not match");
    *at = h + header_bytes(version) + sizeof crc;
    *out = (struct header){0};
    memcpy(words, h + 8, sizeof words);
    memcpy(out->rng, h + 24, sizeof out->rng);
    memcpy(model, h + 40, sizeof model);
    if (model[0] != c->model.blocks || model[1] != c->model.channels || model[2] != c->model.heads ||
        model[3] != c->model.context || model[4] != c->model.vocabulary ||
        words[3] != (uint32_t)c->model.tied_head)
        return dp_err_set(err, DP_EINVAL,
                          "layer of another model: %lld blocks, %lld channels, %lld heads, context %lld, "
                          "vocabulary %lld%s",
                          (long long)model[0], (long long)model[1], (long long)model[2], (long long)model[3],
                          (long long)model[4], words[3] ? ", tied head" : "");
    if (words[0] >= dp_model_layers(c) || words[1] != (uint32_t)dp_model_kind(c, words[0]))
        return dp_layer_is_corrupt(err, "index and kind do not fit together");
    out->index = words[0];
    out->n_params = words[2];
    return version > 1 ? read_more(h + HEADER_BYTES, c, out, err) : 0;
}

struct dp_layer *dp_layer_header_decode(const uint8_t **at, const uint8_t *end, const struct dp_train_config *config,
                                        struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err)
{
    struct dp_layer *layer;
    struct header header;

    if (read_header(at, end, config, &header, err) < 0)
        return NULL;
    layer = dp_layer_blank(config, header.index, be, tune, err);
    if (!layer)
        return NULL;
    if (header.n_params != layer->n_params) {
        dp_layer_is_corrupt(err, "wrong number of tensors");
        dp_err_prefix(err, "layer %u", header.index);
        dp_layer_destroy(layer);
        return NULL;
    }
    layer->rng_key = header.rng[0];
    layer->rng_counter = header.rng[1];
    layer->is_frozen = header.is_frozen;
    layer->notes = header.notes;
    return layer;
}

/* ---- a tensor's ---- */

static enum dp_tensor_format format_of(const struct dp_param *p)
{
    int format = p->keep ? DP_FORMAT_BITMAP : DP_FORMAT_DENSE;

    for (int i = DP_FORMAT_CSR; p->sparse && i < DP_N_FORMATS; i++)
        if (format_rows[i] == dp_sparse_block(p->sparse))
            format = i;
    return (enum dp_tensor_format)format;
}

struct dp_tensor_head dp_tensor_head_of(const struct dp_param *p)
{
    return (struct dp_tensor_head){.rows = p->rows, .cols = p->cols, .n = p->n, .nnz = p->nnz,
                                   .format = (uint32_t)format_of(p), .has_moments = p->m != NULL};
}

static void encode_name(const struct dp_param *p, char out[NAME_BYTES])
{
    memset(out, 0, NAME_BYTES);
    memcpy(out, p->name, strnlen(p->name, NAME_BYTES - 1));
}

void dp_tensor_head_encode(const struct dp_param *p, uint8_t out[DP_TENSOR_HEAD_BYTES])
{
    const struct dp_tensor_head h = dp_tensor_head_of(p);
    char name[NAME_BYTES];

    encode_name(p, name);
    put(put(out, name, sizeof name), &h, sizeof h);
}

int dp_tensor_head_decode(const uint8_t in[DP_TENSOR_HEAD_BYTES], const struct dp_param *p, bool has_moments,
                          struct dp_tensor_head *h, struct dp_err *err)
{
    int64_t all = p->rows * p->cols, block;
    char wanted[NAME_BYTES];

    memcpy(h, in + NAME_BYTES, sizeof *h);
    encode_name(p, wanted);
    block = dp_tensor_block(h);
    if (block && (p->rows > DP_SPARSE_MAX || p->cols > DP_SPARSE_MAX))
        return dp_layer_is_corrupt(err, "a matrix of this size is never sparse");
    if (memcmp(in, wanted, sizeof wanted) || h->rows != p->rows || h->cols != p->cols ||
        h->format >= DP_N_FORMATS || h->has_moments != has_moments || h->nnz < 0 || h->nnz > all ||
        h->n != (block ? h->nnz : all) ||
        (block && (p->rows % block || p->cols % dp_block_cols(block) || h->nnz % dp_block_weights(block))) ||
        (h->format != DP_FORMAT_DENSE && !p->prunable) ||
        (h->format == DP_FORMAT_DENSE && h->nnz != all))
        return dp_err_set(err, DP_ECORRUPT, "layer stream: shape of %s does not fit", p->name);
    return 0;
}

int64_t dp_tensor_block(const struct dp_tensor_head *h)
{
    return h->format < DP_N_FORMATS ? format_rows[h->format] : 0;
}

size_t dp_tensor_row_ptr_bytes(const struct dp_tensor_head *h)
{
    return ((size_t)(h->rows / dp_tensor_block(h)) + 1) * sizeof(int64_t);
}

int64_t dp_tensor_cols(const struct dp_tensor_head *h)
{
    return h->nnz / dp_block_weights(dp_tensor_block(h));
}

int dp_tensor_check_pattern(const struct dp_sparse *sp, struct dp_err *err)
{
    const int64_t block = dp_sparse_block(sp), groups = sp->rows / block, n = dp_sparse_n_blocks(sp);
    const int64_t width = sp->cols / dp_block_cols(block);

    if (sp->row_ptr[0] != 0 || sp->row_ptr[groups] != n)
        return dp_layer_is_corrupt(err, "row pointers do not span the nonzeros");
    for (int64_t r = 0; r < groups; r++) {
        if (sp->row_ptr[r + 1] < sp->row_ptr[r] || sp->row_ptr[r + 1] > n)
            return dp_layer_is_corrupt(err, "row pointers go back");
        for (int64_t k = sp->row_ptr[r]; k < sp->row_ptr[r + 1]; k++) {
            if (sp->col[k] >= width)
                return dp_layer_is_corrupt(err, "a column is outside of its matrix");
            if (k > sp->row_ptr[r] && sp->col[k] <= sp->col[k - 1])
                return dp_layer_is_corrupt(err, "columns of a row are not in order");
        }
    }
    return 0;
}
