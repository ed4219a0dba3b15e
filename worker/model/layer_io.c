/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer as a byte stream (dp_layer_write, dp_layer_read in layer.h), for checkpoints.
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
#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "common/crc32c.h"
#include "worker/model/layer.h"
#include "worker/model/layer_head.h"
#include "worker/model/model.h"
#include "worker/model/param.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie in memory");

#define PIECE 65536 /* bytes of an array under one checksum of the device: many for its cores, few for the bus */
static const char end_magic[8] = {'D', 'P', 'L', 'A', 'Y', 'E', 'N', 'D'};

static size_t col_bytes(const struct dp_tensor_head *h)
{
    return (size_t)dp_tensor_cols(h) * sizeof(uint32_t);
}

/* Of a tensor's data in front of its arrays. */
static size_t front_bytes(const struct dp_tensor_head *h)
{
    size_t sum = 0;

    if (h->format == DP_FORMAT_BITMAP)
        sum += dp_bits_words(h->n) * sizeof(uint64_t);
    if (dp_tensor_block(h))
        sum += dp_tensor_row_ptr_bytes(h) + col_bytes(h);
    return sum;
}

static size_t payload_bytes(const struct dp_tensor_head *h)
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
    uint32_t crc = dp_crc32c(dp_crc32c(0, head, DP_TENSOR_HEAD_BYTES), data, front);

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

static int write_payload(struct dp_backend *be, const struct dp_param *p, const struct dp_tensor_head *h, uint8_t *at,
                         struct dp_err *err)
{
    const float *const arrays[] = {p->w, p->m, p->v};
    size_t bytes;

    if (p->sparse) {
        at = put(at, p->sparse->row_ptr, dp_tensor_row_ptr_bytes(h));
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
    const struct dp_tensor_head h = dp_tensor_head_of(p);
    const uint32_t crc[2] = {0, 0};

    dp_tensor_head_encode(p, at);
    at = put(at + DP_TENSOR_HEAD_BYTES, crc, sizeof crc);
    return write_payload(be, p, &h, at, err) < 0 ? NULL : at + payload_bytes(&h);
}

/* The checksums of all tensors, which begin at `at`. */
static int write_checksums(const struct dp_layer *l, uint8_t *at, struct dp_err *err)
{
    struct digests d;
    int rc = read_digests(l, &d, err);

    for (uint32_t i = 0; i < l->n_params && rc == 0; i++) {
        struct dp_tensor_head h = dp_tensor_head_of(&l->param[i]);
        uint8_t *data = at + DP_TENSOR_HEAD_BYTES + 8;
        uint32_t crc = tensor_crc(&d, &l->param[i], at, data, front_bytes(&h));

        memcpy(at + DP_TENSOR_HEAD_BYTES, &crc, sizeof crc);
        at = data + payload_bytes(&h);
    }
    free(d.crc);
    return rc;
}

int dp_layer_write(const struct dp_layer *layer, uint8_t **out, size_t *bytes, struct dp_err *err)
{
    uint8_t head[DP_LAYER_HEADER_MAX], *data, *at, *first;
    size_t head_bytes = dp_layer_header_encode(layer, head), total = head_bytes + sizeof end_magic;

    for (uint32_t i = 0; i < layer->n_params; i++) {
        struct dp_tensor_head h = dp_tensor_head_of(&layer->param[i]);

        total += DP_TENSOR_HEAD_BYTES + 8 + payload_bytes(&h);
    }
    data = malloc(total);
    if (!data)
        return dp_err_set(err, DP_ENOMEM, "layer %u: no memory for %zu bytes", layer->index, total);
    first = at = put(data, head, head_bytes);
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

static int read_pattern(struct dp_param *p, const struct dp_tensor_head *h, const uint8_t *row_ptr, const uint8_t *col,
                        struct dp_err *err)
{
    struct dp_sparse *sp = p->sparse = dp_param_sparse_alloc(p->rows, p->cols, p->nnz, dp_tensor_block(h), err);

    if (!sp)
        return -1;
    memcpy(sp->row_ptr, row_ptr, dp_tensor_row_ptr_bytes(h));
    for (int64_t k = 0; k < dp_tensor_cols(h); k++) {
        uint32_t column;

        memcpy(&column, col + (size_t)k * sizeof column, sizeof column);
        if (column > UINT16_MAX)
            return dp_layer_is_corrupt(err, "a column is outside of its matrix");
        sp->col[k] = (uint16_t)column;
    }
    return dp_tensor_check_pattern(sp, err);
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
        dp_layer_is_corrupt(err, "the bitmap does not count what its header says, or continues past its end");
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
    const uint8_t *head = take(in, DP_TENSOR_HEAD_BYTES), *crc_at = take(in, 8), *data;
    struct dp_tensor_head h;
    uint32_t crc[2];

    if (!head || !crc_at)
        return dp_layer_is_corrupt(err, "cut short");
    if (dp_tensor_head_decode(head, p, has_moments, &h, err) < 0)
        return -1;
    data = take(in, payload_bytes(&h));
    if (!data)
        return dp_layer_is_corrupt(err, "cut short");
    memcpy(crc, crc_at, sizeof crc);
    if (crc[1])
        return dp_layer_is_corrupt(err, "a checksum is followed by what is not 0");
    *out = (struct unchecked){.head = head, .data = data, .front = front_bytes(&h), .crc = crc[0]};
    p->n = h.n;
    p->nnz = h.nnz;
    if (dp_tensor_block(&h)) {
        const uint8_t *col = data + dp_tensor_row_ptr_bytes(&h);

        if (read_pattern(p, &h, data, col, err) < 0)
            return -1;
        data = col + col_bytes(&h);
    } else if (h.format == DP_FORMAT_BITMAP) {
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
    struct dp_layer *layer = dp_layer_header_decode(&in.at, in.end, config, be, tune, err);
    const uint8_t *tail;

    if (!layer)
        return NULL;
    dp_model_specs(config, layer->index, spec);
    for (uint32_t i = 0; i < layer->n_params; i++)
        if (read_tensor(&in, layer, &layer->param[i], !spec[i].is_tied_copy && !layer->is_frozen, &tensor[i], err) < 0)
            goto fail;
    tail = take(&in, sizeof end_magic);
    if (!tail || memcmp(tail, end_magic, sizeof end_magic) || in.at != in.end) {
        dp_layer_is_corrupt(err, "does not end where it should");
        goto fail;
    }
    if (finish_layer(layer, tensor, err) < 0)
        goto fail;
    return layer;
fail:
    dp_err_prefix(err, "layer %u", layer->index);
    dp_layer_destroy(layer);
    return NULL;
}
