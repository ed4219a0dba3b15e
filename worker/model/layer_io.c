/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer as a byte stream (dp_layer_write, dp_layer_read in layer.h), for checkpoints and hand-over.
 *
 * All numbers little-endian, no padding:
 *   "DPLAYER\1"  u32 index, kind, n_params, tied  u64 rng_key, rng_counter
 *   i64 blocks, channels, heads, context, vocabulary
 *   with \2 instead of \1: u32 flags, 1: the layer is frozen; u32 rule, f64 of its notes, DP_LAYER_NOTES of them
 *   u32 crc of all before
 *   per tensor: char name[32]  i64 rows, cols, n, nnz  u32 format, has_moments  u32 crc, zero
 *     format 0 dense: -  1 dense with bitmap: u64 words  2 CSR: i64 row_ptr[rows + 1], u32 col[nnz]
 *            3 CSR of blocks of 4 x 1: i64 row_ptr[rows / 4 + 1], u32 col[nnz / 4]
 *            4, 5, 6 CSR of blocks of b x b, b 32, 64, 128: i64 row_ptr[rows / b + 1], u32 col[nnz / (b b)]
 *     f32 w[n]  and, where has_moments, m[n], v[n], in the order of struct dp_sparse (kernels/backend.h)
 *   "DPLAYEND"
 * \2 is written only where \1 would not say all, so that earlier releases read whatever they could have written.
 * A tensor's crc (CRC-32C) covers its header up to the crc and all of its data. Lengths are checked
 * against the model's own shapes before anything is allocated by them. Arrays are checked where they lie, on the device:
 * what the way there or back damages is found, too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "common/crc32c.h"
#include "worker/model/layer.h"
#include "worker/model/model.h"
#include "worker/model/param.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie in memory");

#define NAME_BYTES 32 /* see above */
#define HEADER_BYTES (8 + 4 * 4 + 2 * 8 + 5 * 8) /* up to its crc, in version 1 */
#define MORE_BYTES (2 * 4 + DP_LAYER_NOTES * 8) /* in version 2 */
#define FLAG_FROZEN 1u /* see above */
#define TENSOR_BYTES (NAME_BYTES + 4 * 8 + 2 * 4) /* likewise */
#define PIECE 65536 /* bytes of an array under one checksum of the device: many for its cores, few for the bus */
static const char magic[7] = {'D', 'P', 'L', 'A', 'Y', 'E', 'R'}; /* and a byte, the version */
static const char end_magic[8] = {'D', 'P', 'L', 'A', 'Y', 'E', 'N', 'D'};

enum format { FORMAT_DENSE, FORMAT_BITMAP, FORMAT_CSR, FORMAT_BLOCKS, FORMAT_32, FORMAT_64, FORMAT_128, N_FORMATS };

/* Rows of a block where the format is sparse, else 0. */
static const int64_t format_rows[N_FORMATS] = {0, 0, 1, 4, 32, 64, 128};

struct tensor_header {
    int64_t rows, cols, n, nnz;
    uint32_t format, has_moments;
};

static enum format format_of(const struct dp_param *p)
{
    int format = p->keep ? FORMAT_BITMAP : FORMAT_DENSE;

    for (int i = FORMAT_CSR; p->sparse && i < N_FORMATS; i++)
        if (format_rows[i] == dp_sparse_block(p->sparse))
            format = i;
    return (enum format)format;
}

static int64_t block_rows_of(uint32_t format)
{
    return format < N_FORMATS ? format_rows[format] : 0;
}

static size_t row_ptr_bytes(int64_t rows, int64_t block)
{
    return ((size_t)(rows / block) + 1) * sizeof(int64_t);
}

static size_t col_bytes(int64_t nnz, int64_t block)
{
    return (size_t)(nnz / dp_block_weights(block)) * sizeof(uint32_t);
}

/* Of a tensor's data in front of its arrays. */
static size_t front_bytes(const struct tensor_header *h)
{
    size_t sum = 0;

    if (h->format == FORMAT_BITMAP)
        sum += dp_bits_words(h->n) * sizeof(uint64_t);
    if (block_rows_of(h->format))
        sum += row_ptr_bytes(h->rows, block_rows_of(h->format)) + col_bytes(h->nnz, block_rows_of(h->format));
    return sum;
}

static size_t payload_bytes(const struct tensor_header *h)
{
    return front_bytes(h) + (size_t)h->n * sizeof(float) * (h->has_moments ? 3 : 1);
}

/* ---- checksums ---- */

/* Of the pieces of a layer's arrays, in the order of the stream. */
struct digests {
    uint32_t *crc;
    size_t at; /* the first one that was not used yet */
};

static size_t array_bytes(const struct dp_param *p)
{
    return (size_t)p->n * sizeof(float);
}

/* That a param has in the stream. */
static int arrays_of(const struct dp_param *p, const float *out[3])
{
    out[0] = p->w;
    out[1] = p->m;
    out[2] = p->v;
    return p->m ? 3 : 1;
}

static size_t pieces_of(const struct dp_param *p)
{
    return (array_bytes(p) + PIECE - 1) / PIECE;
}

/* Ask for the checksums of all arrays; they are in out[] of the device. */
static int ask_digests(const struct dp_layer *l, uint32_t *out, struct dp_err *err)
{
    for (uint32_t i = 0; i < l->n_params; i++) {
        const struct dp_param *p = &l->param[i];
        const float *arrays[3];
        int n = arrays_of(p, arrays);

        for (int k = 0; k < n; k++, out += pieces_of(p)) {
            const struct dp_digest a = {.bytes = (int64_t)array_bytes(p), .piece = PIECE, .crc = out, .x = arrays[k]};

            if (l->be->ops->digest(l->be, &a, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* d->crc: the caller frees, also on failure. */
static int read_digests(const struct dp_layer *l, struct digests *d, struct dp_err *err)
{
    struct dp_backend *be = l->be;
    void *device = NULL;
    size_t n = 0;
    int rc = -1;

    for (uint32_t i = 0; i < l->n_params; i++)
        n += pieces_of(&l->param[i]) * (l->param[i].m ? 3 : 1);
    *d = (struct digests){.crc = malloc(n * sizeof *d->crc + 1)};
    if (!d->crc)
        return dp_err_set(err, DP_ENOMEM, "no memory for %zu checksums", n);
    if (be->ops->alloc(be, n * sizeof *d->crc, &device, err) == 0 && ask_digests(l, device, err) == 0)
        rc = be->ops->get(be, d->crc, device, n * sizeof *d->crc, err);
    be->ops->free(be, device);
    return rc;
}

/* Of a tensor: its header at `head`, `front` bytes of data that are no arrays, and its arrays, which d is at. */
static uint32_t tensor_crc(struct digests *d, const struct dp_param *p, const uint8_t *head, const uint8_t *data, size_t front)
{
    uint32_t crc = dp_crc32c(dp_crc32c(0, head, TENSOR_BYTES), data, front);

    for (int k = 0; k < (p->m ? 3 : 1); k++, d->at += pieces_of(p))
        crc = dp_crc32c_join(crc, d->crc + d->at, PIECE, array_bytes(p));
    return crc;
}

/* ---- writing ---- */

static uint8_t *put(uint8_t *at, const void *data, size_t bytes)
{
    memcpy(at, data, bytes);
    return at + bytes;
}

static uint8_t version_of(const struct dp_layer *l)
{
    return l->is_frozen || l->notes.rule ? 2 : 1;
}

static size_t header_bytes(uint8_t version)
{
    return version > 1 ? HEADER_BYTES + MORE_BYTES : HEADER_BYTES;
}

static void encode_header(const struct dp_layer *l, uint8_t *out)
{
    const uint32_t more[2] = {l->is_frozen ? FLAG_FROZEN : 0, l->notes.rule};
    const int64_t model[5] = {l->config->model.blocks, l->config->model.channels, l->config->model.heads,
                              l->config->model.context, l->config->model.vocabulary};
    const uint32_t words[4] = {l->index, (uint32_t)l->kind, l->n_params, l->config->model.tied_head};
    const uint64_t rng[2] = {l->rng_key, l->rng_counter};
    uint8_t version = version_of(l), *at = put(out, magic, sizeof magic);

    at = put(at, &version, sizeof version);
    at = put(at, words, sizeof words);
    at = put(at, rng, sizeof rng);
    at = put(at, model, sizeof model);
    if (version > 1)
        put(put(at, more, sizeof more), l->notes.value, sizeof l->notes.value);
}

static struct tensor_header header_of(const struct dp_param *p)
{
    return (struct tensor_header){.rows = p->rows, .cols = p->cols, .n = p->n, .nnz = p->nnz,
                                  .format = (uint32_t)format_of(p), .has_moments = p->m != NULL};
}

static int write_payload(struct dp_backend *be, const struct dp_param *p, uint8_t *at, struct dp_err *err)
{
    const float *const arrays[] = {p->w, p->m, p->v};
    size_t bytes;

    if (p->sparse) {
        at = put(at, p->sparse->row_ptr, row_ptr_bytes(p->rows, dp_sparse_block(p->sparse)));
        for (int64_t k = 0; k < dp_sparse_n_blocks(p->sparse); k++) {
            uint32_t col = p->sparse->col[k];

            at = put(at, &col, sizeof col);
        }
    } else if (p->keep) {
        bytes = dp_bits_words(p->n) * sizeof(uint64_t);
        if (be->ops->get(be, at, p->keep, bytes, err) < 0)
            return -1;
        at += bytes;
    }
    bytes = (size_t)p->n * sizeof(float);
    for (int i = 0; i < (p->m ? 3 : 1); i++, at += bytes)
        if (be->ops->get(be, at, arrays[i], bytes, err) < 0)
            return -1;
    return 0;
}

/* One tensor at `at`, its checksum still 0. returns where the next one begins, or NULL. */
static uint8_t *write_tensor(struct dp_backend *be, const struct dp_param *p, uint8_t *at, struct dp_err *err)
{
    struct tensor_header h = header_of(p);
    const uint32_t crc[2] = {0, 0};
    char name[NAME_BYTES] = {0};

    memcpy(name, p->name, strnlen(p->name, sizeof name - 1));
    at = put(at, name, sizeof name);
    at = put(at, &h, TENSOR_BYTES - NAME_BYTES);
    at = put(at, crc, sizeof crc);
    return write_payload(be, p, at, err) < 0 ? NULL : at + payload_bytes(&h);
}

/* The checksums of all tensors, which begin at `at`. */
static int write_checksums(const struct dp_layer *l, uint8_t *at, struct dp_err *err)
{
    struct digests d;
    int rc = read_digests(l, &d, err);

    for (uint32_t i = 0; i < l->n_params && rc == 0; i++) {
        struct tensor_header h = header_of(&l->param[i]);
        uint8_t *data = at + TENSOR_BYTES + 8;
        uint32_t crc = tensor_crc(&d, &l->param[i], at, data, front_bytes(&h));

        memcpy(at + TENSOR_BYTES, &crc, sizeof crc);
        at = data + payload_bytes(&h);
    }
    free(d.crc);
    return rc;
}

int dp_layer_write(const struct dp_layer *layer, uint8_t **out, size_t *bytes, struct dp_err *err)
{
    size_t head = header_bytes(version_of(layer)), total = head + 4 + sizeof end_magic;
    uint8_t *data, *at, *first;
    uint32_t crc;

    for (uint32_t i = 0; i < layer->n_params; i++) {
        struct tensor_header h = header_of(&layer->param[i]);

        total += TENSOR_BYTES + 8 + payload_bytes(&h);
    }
    data = malloc(total);
    if (!data)
        return dp_err_set(err, DP_ENOMEM, "layer %u: no memory for %zu bytes", layer->index, total);
    encode_header(layer, data);
    crc = dp_crc32c(0, data, head);
    at = put(data + head, &crc, sizeof crc);
    first = at;
    for (uint32_t i = 0; i < layer->n_params && at; i++)
        at = write_tensor(layer->be, &layer->param[i], at, err);
    if (!at || write_checksums(layer, first, err) < 0) {
        free(data);
        return dp_err_prefix(err, "layer %u", layer->index);
    }
    put(at, end_magic, sizeof end_magic);
    *out = data;
    *bytes = total;
    return 0;
}

/* ---- reading ---- */

struct input {
    const uint8_t *at, *end;
};

/* A tensor that was read and is still to be checked. */
struct unchecked {
    const uint8_t *head, *data; /* in the stream */
    size_t front;               /* front_bytes() */
    uint32_t crc;
};

static const uint8_t *take(struct input *in, size_t bytes)
{
    const uint8_t *p = in->at;

    if ((size_t)(in->end - in->at) < bytes)
        return NULL;
    in->at += bytes;
    return p;
}

static int corrupt(struct dp_err *err, const char *what)
{
    return dp_err_set(err, DP_ECORRUPT, "layer stream: %s", what);
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
            return corrupt(err, "notes of a rule that are none");
    if (flags & ~FLAG_FROZEN || (!out->is_frozen && !out->notes.rule))
        return corrupt(err, "flags that this program does not know");
    if (out->is_frozen && ((c->model.tied_head && out->index == 0) || out->index + 1 == dp_model_layers(c)))
        return corrupt(err, "a head and a tied embedding are never frozen");
    return 0;
}

static int read_header(struct input *in, const struct dp_train_config *c, struct header *out, struct dp_err *err)
{
    const uint8_t *h = in->at, version = in->end - in->at >= 8 ? h[7] : 1, *crc_at;
    int64_t model[5];
    uint32_t words[4], crc;

    crc_at = take(in, header_bytes(version)) ? take(in, 4) : NULL;
    if (!crc_at)
        return corrupt(err, "cut short");
    if (memcmp(h, magic, sizeof magic) || version < 1 || version > 2)
        return corrupt(err, "not a layer of this version (magic number)");
    memcpy(&crc, crc_at, sizeof crc);
    if (dp_crc32c(0, h, header_bytes(version)) != crc)
        return corrupt(err, "checksum of the header does not match");
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
        return corrupt(err, "index and kind do not fit together");
    out->index = words[0];
    out->n_params = words[2];
    return version > 1 ? read_more(h + HEADER_BYTES, c, out, err) : 0;
}

static int check_tensor_header(const struct tensor_header *h, const char *name, const struct dp_param *p,
                               bool has_moments, struct dp_err *err)
{
    int64_t all = p->rows * p->cols, block = block_rows_of(h->format);
    char wanted[NAME_BYTES] = {0};

    memcpy(wanted, p->name, strnlen(p->name, sizeof wanted - 1));
    if (block && (p->rows > DP_SPARSE_MAX || p->cols > DP_SPARSE_MAX))
        return corrupt(err, "a matrix of this size is never sparse");
    if (memcmp(name, wanted, sizeof wanted) || h->rows != p->rows || h->cols != p->cols ||
        h->format >= N_FORMATS || h->has_moments != has_moments || h->nnz < 0 || h->nnz > all ||
        h->n != (block ? h->nnz : all) ||
        (block && (p->rows % block || p->cols % dp_block_cols(block) || h->nnz % dp_block_weights(block))) ||
        (h->format != FORMAT_DENSE && !p->prunable) ||
        (h->format == FORMAT_DENSE && h->nnz != all))
        return dp_err_set(err, DP_ECORRUPT, "layer stream: shape of %s does not fit", p->name);
    return 0;
}

static int read_pattern(struct dp_param *p, int64_t block, const uint8_t *row_ptr, const uint8_t *col,
                        struct dp_err *err)
{
    struct dp_sparse *sp = p->sparse = dp_param_sparse_alloc(p->rows, p->cols, p->nnz, block, err);
    int64_t groups = p->rows / block, n = p->nnz / dp_block_weights(block);

    if (!sp)
        return -1;
    memcpy(sp->row_ptr, row_ptr, row_ptr_bytes(p->rows, block));
    for (int64_t k = 0; k < n; k++) {
        uint32_t column;

        memcpy(&column, col + (size_t)k * sizeof column, sizeof column);
        if (column >= p->cols / dp_block_cols(block))
            return corrupt(err, "a column is outside of its matrix");
        sp->col[k] = (uint16_t)column;
    }
    if (sp->row_ptr[0] != 0 || sp->row_ptr[groups] != n)
        return corrupt(err, "row pointers do not span the nonzeros");
    for (int64_t r = 0; r < groups; r++) {
        if (sp->row_ptr[r + 1] < sp->row_ptr[r] || sp->row_ptr[r + 1] > n)
            return corrupt(err, "row pointers go back");
        for (int64_t k = sp->row_ptr[r]; k < sp->row_ptr[r + 1]; k++)
            if (k > sp->row_ptr[r] && sp->col[k] <= sp->col[k - 1])
                return corrupt(err, "columns of a row are not in order");
    }
    return 0;
}

static int read_bitmap(struct dp_backend *be, struct dp_param *p, const uint8_t *words, struct dp_err *err)
{
    size_t bytes = dp_bits_words(p->n) * sizeof(uint64_t);
    uint64_t *host = malloc(bytes + 1);
    void *mem = NULL;
    int rc = -1;

    if (!host)
        return dp_err_set(err, DP_ENOMEM, "%s: no memory for a bitmap", p->name);
    memcpy(host, words, bytes); /* the stream need not be aligned */
    if (dp_bits_count(host, p->n) != p->nnz || (p->n % 64 && host[p->n / 64] >> (p->n % 64))) {
        corrupt(err, "the bitmap does not count what its header says, or continues past its end");
    } else if (be->ops->alloc(be, bytes, &mem, err) == 0) {
        p->keep = mem;
        rc = be->ops->put(be, mem, host, bytes, err);
    }
    free(host);
    return rc;
}

static int read_arrays(struct dp_layer *layer, struct dp_param *p, const uint8_t *data, bool has_moments,
                       struct dp_err *err)
{
    struct dp_backend *be = layer->be;
    size_t bytes = (size_t)p->n * sizeof(float);

    if (dp_param_alloc(be, p, layer->is_frozen ? DP_PARAM_W : has_moments ? DP_PARAM_ALL : DP_PARAM_WG, err) < 0)
        return -1;
    if (be->ops->put(be, p->w, data, bytes, err) < 0 ||
        (has_moments && (be->ops->put(be, p->m, data + bytes, bytes, err) < 0 ||
                         be->ops->put(be, p->v, data + 2 * bytes, bytes, err) < 0)))
        return -1;
    return 0;
}

static int read_tensor(struct input *in, struct dp_layer *layer, struct dp_param *p, bool has_moments,
                       struct unchecked *out, struct dp_err *err)
{
    const uint8_t *head = take(in, TENSOR_BYTES), *crc_at = take(in, 8), *data;
    struct tensor_header h;
    uint32_t crc[2];

    if (!head || !crc_at)
        return corrupt(err, "cut short");
    memcpy(&h, head + NAME_BYTES, TENSOR_BYTES - NAME_BYTES);
    if (check_tensor_header(&h, (const char *)head, p, has_moments, err) < 0)
        return -1;
    data = take(in, payload_bytes(&h));
    if (!data)
        return corrupt(err, "cut short");
    memcpy(crc, crc_at, sizeof crc);
    if (crc[1])
        return corrupt(err, "a checksum is followed by what is not 0");
    *out = (struct unchecked){.head = head, .data = data, .front = front_bytes(&h), .crc = crc[0]};
    p->n = h.n;
    p->nnz = h.nnz;
    if (block_rows_of(h.format)) {
        int64_t block = block_rows_of(h.format);
        const uint8_t *col = data + row_ptr_bytes(p->rows, block);

        if (read_pattern(p, block, data, col, err) < 0)
            return -1;
        data = col + col_bytes(p->nnz, block);
    } else if (h.format == FORMAT_BITMAP) {
        if (read_bitmap(layer->be, p, data, err) < 0)
            return -1;
        data += dp_bits_words(p->n) * sizeof(uint64_t);
    }
    return read_arrays(layer, p, data, has_moments, err);
}

/* All tensors' checksums; then what is built from arrays that are right. */
static int finish_layer(struct dp_layer *l, const struct unchecked *tensor, struct dp_err *err)
{
    struct dp_backend *be = l->be;
    struct digests d;
    int rc = read_digests(l, &d, err);

    for (uint32_t i = 0; i < l->n_params && rc == 0; i++)
        if (tensor_crc(&d, &l->param[i], tensor[i].head, tensor[i].data, tensor[i].front) != tensor[i].crc)
            rc = dp_err_set(err, DP_ECORRUPT, "layer stream: checksum of %s does not match", l->param[i].name);
    free(d.crc);
    for (uint32_t i = 0; i < l->n_params && rc == 0; i++) {
        struct dp_sparse *sp = l->param[i].sparse;

        if (sp && (be->ops->sparse_prepare(be, sp, err) < 0 || be->ops->sparse_refresh(be, sp, l->param[i].w, err) < 0))
            rc = -1;
    }
    return rc;
}

struct dp_layer *dp_layer_read(const struct dp_train_config *config, struct dp_backend *be,
                               const struct dp_tune *tune, const uint8_t *data, size_t bytes,
                               struct dp_err *err)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    struct unchecked tensor[DP_LAYER_MAX_PARAMS];
    struct input in = {data, data + bytes};
    struct dp_layer *layer;
    struct header header = {0};
    const uint8_t *tail;

    if (read_header(&in, config, &header, err) < 0)
        return NULL;
    layer = dp_layer_blank(config, header.index, be, tune, err);
    if (!layer)
        return NULL;
    if (header.n_params != layer->n_params) {
        corrupt(err, "wrong number of tensors");
        goto fail;
    }
    layer->rng_key = header.rng[0];
    layer->rng_counter = header.rng[1];
    layer->is_frozen = header.is_frozen;
    layer->notes = header.notes;
    dp_model_specs(config, header.index, spec);
    for (uint32_t i = 0; i < layer->n_params; i++)
        if (read_tensor(&in, layer, &layer->param[i], !spec[i].is_tied_copy && !layer->is_frozen, &tensor[i], err) < 0)
            goto fail;
    tail = take(&in, sizeof end_magic);
    if (!tail || memcmp(tail, end_magic, sizeof end_magic) || in.at != in.end) {
        corrupt(err, "does not end where it should");
        goto fail;
    }
    if (finish_layer(layer, tensor, err) < 0)
        goto fail;
    return layer;
fail:
    dp_err_prefix(err, "layer %u", header.index);
    dp_layer_destroy(layer);
    return NULL;
}
