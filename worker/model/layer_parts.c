/* SPDX-License-Identifier: BSD-3-Clause */
/* See layer_parts.h. */
#include "worker/model/layer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "common/crc32c.h"
#include "worker/model/model.h"

#define PIECE ((size_t)65536) /* bytes under one checksum of the device: many for its cores, few for the bus */

/* ---- the head ---- */

size_t dp_layer_head_write(const struct dp_layer *l, uint8_t out[DP_LAYER_HEAD_MAX])
{
    uint8_t *at = out + dp_layer_header_encode(l, out);

    for (uint32_t i = 0; i < l->n_params; i++, at += DP_TENSOR_HEAD_BYTES)
        dp_tensor_head_encode(&l->param[i], at);
    return (size_t)(at - out);
}

/* What the param takes. */
static uint64_t room_of(const struct dp_tensor_head *h, enum dp_param_arrays arrays)
{
    uint64_t sum = (uint64_t)h->n * sizeof(float) * arrays;

    if (h->format == DP_FORMAT_BITMAP)
        sum += dp_bits_words(h->n) * sizeof(uint64_t);
    if (dp_tensor_block(h))
        sum += dp_tensor_row_ptr_bytes(h) + (uint64_t)dp_tensor_cols(h) * sizeof(uint16_t);
    return sum;
}

static int make_room(struct dp_layer *l, struct dp_param *p, const struct dp_tensor_head *h, enum dp_param_arrays arrays,
                     struct dp_err *err)
{
    p->n = h->n;
    p->nnz = h->nnz;
    if (dp_tensor_block(h)) {
        p->sparse = dp_param_sparse_alloc(p->rows, p->cols, p->nnz, dp_tensor_block(h), err);
        if (!p->sparse)
            return -1;
    } else if (h->format == DP_FORMAT_BITMAP) {
        void *mem = NULL;

        if (l->be->ops->alloc(l->be, dp_bits_words(p->n) * sizeof(uint64_t), &mem, err) < 0)
            return -1;
        p->keep = mem;
    }
    return dp_param_alloc(l->be, p, arrays, err);
}

static int read_heads(struct dp_layer *l, const uint8_t *at, const uint8_t *end, uint64_t most_bytes, struct dp_err *err)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    struct dp_tensor_head head[DP_LAYER_MAX_PARAMS];
    enum dp_param_arrays arrays[DP_LAYER_MAX_PARAMS];
    uint64_t sum = 0;

    if (end - at != (ptrdiff_t)(l->n_params * DP_TENSOR_HEAD_BYTES))
        return dp_layer_is_corrupt(err, "a head of another length");
    dp_model_specs(l->config, l->index, spec);
    for (uint32_t i = 0; i < l->n_params; i++, at += DP_TENSOR_HEAD_BYTES) {
        bool learns = !spec[i].is_tied_copy && !l->is_frozen;

        if (dp_tensor_head_decode(at, &l->param[i], learns, &head[i], err) < 0)
            return -1;
        arrays[i] = l->is_frozen ? DP_PARAM_W : learns ? DP_PARAM_ALL : DP_PARAM_WG;
        sum += room_of(&head[i], arrays[i]);
    }
    if (sum > most_bytes)
        return dp_err_set(err, DP_EPROTO, "its arrays take %llu bytes, of %llu that were announced", (unsigned long long)sum,
                          (unsigned long long)most_bytes);
    for (uint32_t i = 0; i < l->n_params; i++)
        if (make_room(l, &l->param[i], &head[i], arrays[i], err) < 0)
            return -1;
    return 0;
}

struct dp_layer *dp_layer_from_head(const struct dp_train_config *config, struct dp_backend *be, const struct dp_tune *tune,
                                    const uint8_t *head, size_t bytes, uint64_t most_bytes, struct dp_err *err)
{
    const uint8_t *at = head, *end = head + bytes;
    struct dp_layer *l = dp_layer_header_decode(&at, end, config, be, tune, err);

    if (l && read_heads(l, at, end, most_bytes, err) < 0) {
        dp_err_prefix(err, "layer %u", l->index);
        dp_layer_destroy(l);
        return NULL;
    }
    return l;
}

/* ---- the parts ---- */

static uint32_t add(struct dp_layer_part *out, uint32_t n, void *data, size_t bytes, bool is_device)
{
    if (!data || !bytes)
        return n;
    out[n] = (struct dp_layer_part){.data = data, .bytes = bytes, .is_device = is_device, .is_replayed = true};
    return n + 1;
}

uint32_t dp_layer_parts(const struct dp_layer *l, struct dp_layer_part out[DP_LAYER_MAX_PARTS])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->n_params; i++) {
        const struct dp_param *p = &l->param[i];
        const size_t bytes = (size_t)p->n * sizeof(float);

        if (p->sparse) {
            struct dp_tensor_head h = dp_tensor_head_of(p);

            n = add(out, n, p->sparse->row_ptr, dp_tensor_row_ptr_bytes(&h), false);
            n = add(out, n, p->sparse->col, (size_t)dp_tensor_cols(&h) * sizeof *p->sparse->col, false);
        }
        n = add(out, n, p->keep, dp_bits_words(p->n) * sizeof *p->keep, true);
        n = add(out, n, p->w, bytes, true);
        if (p->w && bytes)
            out[n - 1].is_replayed = p->m || !p->g; /* no moments, but a gradient: a copy that others set */
        n = add(out, n, p->m, bytes, true);
        n = add(out, n, p->v, bytes, true);
    }
    return n;
}

static size_t pieces_of(const struct dp_layer_part *part)
{
    return (part->bytes + PIECE - 1) / PIECE;
}

/* The checksums of a part from those of its pieces, or where there are none from its bytes; the next one behind them. */
static uint32_t *put_crcs(const struct dp_layer_part *part, const uint32_t *of_pieces, size_t piece, uint32_t *out)
{
    for (size_t at = 0; at < part->bytes; at += piece) {
        size_t n = part->bytes - at < piece ? part->bytes - at : piece;

        *out++ = of_pieces ? dp_crc32c_join(0, of_pieces + at / PIECE, PIECE, n)
                           : dp_crc32c(0, (const uint8_t *)part->data + at, n);
    }
    return out;
}

/* Of all that lies on the device, in their order; the caller frees it. */
static uint32_t *device_crcs(struct dp_backend *be, const struct dp_layer_part *part, uint32_t n, struct dp_err *err)
{
    size_t sum = 0, at = 0;
    uint32_t *crc, *device;
    void *mem = NULL;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        sum += part[i].is_device ? pieces_of(&part[i]) : 0;
    crc = malloc(sum * sizeof *crc + 1);
    if (!crc) {
        dp_err_set(err, DP_ENOMEM, "no memory for %zu checksums", sum);
        return NULL;
    }
    rc = be->ops->alloc(be, sum * sizeof *crc, &mem, err);
    device = mem;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        struct dp_digest a = {.bytes = (int64_t)part[i].bytes, .piece = PIECE, .crc = device + at, .x = part[i].data};

        if (!part[i].is_device)
            continue;
        at += pieces_of(&part[i]);
        rc = be->ops->digest(be, &a, err);
    }
    if (rc == 0)
        rc = be->ops->get(be, crc, device, sum * sizeof *crc, err);
    be->ops->free(be, mem);
    if (rc == 0)
        return crc;
    free(crc);
    return NULL;
}

int dp_layer_parts_check(const struct dp_layer *l, const struct dp_layer_part *part, uint32_t n, size_t piece, uint32_t *crc,
                         struct dp_err *err)
{
    uint32_t *device = device_crcs(l->be, part, n, err), *at = device;

    if (!device)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        crc = put_crcs(&part[i], part[i].is_device ? at : NULL, piece, crc);
        at += part[i].is_device ? pieces_of(&part[i]) : 0;
    }
    free(device);
    return 0;
}

static int check_bitmap(struct dp_backend *be, const struct dp_param *p, struct dp_err *err)
{
    size_t bytes = dp_bits_words(p->n) * sizeof(uint64_t);
    uint64_t *host = malloc(bytes + 1);
    int rc;

    if (!host)
        return dp_err_set(err, DP_ENOMEM, "%s: no memory for a bitmap", p->name);
    rc = be->ops->get(be, host, p->keep, bytes, err);
    if (rc == 0 && (dp_bits_count(host, p->n) != p->nnz || (p->n % 64 && host[p->n / 64] >> (p->n % 64))))
        rc = dp_layer_is_corrupt(err, "the bitmap does not count what its header says, or continues past its end");
    free(host);
    return rc;
}

int dp_layer_patterns_arrived(struct dp_layer *l, struct dp_err *err)
{
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];

        if ((p->keep && check_bitmap(l->be, p, err) < 0) || (p->sparse && dp_tensor_check_pattern(p->sparse, err) < 0))
            return dp_err_prefix(err, "layer %u", l->index);
    }
    return 0;
}

int dp_layer_plan(struct dp_layer *l, struct dp_err *err)
{
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_sparse *sp = l->param[i].sparse;

        if (sp && l->be->ops->sparse_prepare(l->be, sp, err) < 0)
            return dp_err_prefix(err, "layer %u", l->index);
    }
    return 0;
}

int dp_layer_weights_arrived(struct dp_layer *l, struct dp_err *err)
{
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];

        if (p->sparse && l->be->ops->sparse_refresh(l->be, p->sparse, p->w, err) < 0)
            return dp_err_prefix(err, "layer %u", l->index);
    }
    return 0;
}

int dp_layer_complete(struct dp_layer *l, struct dp_err *err)
{
    struct dp_backend *be = l->be;

    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_sparse *sp = l->param[i].sparse;

        if (sp && !sp->plan &&
            (be->ops->sparse_prepare(be, sp, err) < 0 || be->ops->sparse_refresh(be, sp, l->param[i].w, err) < 0))
            return dp_err_prefix(err, "layer %u", l->index);
    }
    return 0;
}

int dp_layer_take_head(struct dp_layer *l, const uint8_t *head, size_t bytes, struct dp_err *err)
{
    const uint8_t *at = head, *end = head + bytes;
    struct dp_layer *other = dp_layer_header_decode(&at, end, l->config, l->be, l->tune, err);
    bool fits = other && other->index == l->index && other->is_frozen == l->is_frozen && other->n_params == l->n_params &&
                end - at == (ptrdiff_t)(l->n_params * DP_TENSOR_HEAD_BYTES);
    uint8_t mine[DP_TENSOR_HEAD_BYTES];

    if (!other)
        return -1;
    for (uint32_t i = 0; fits && i < l->n_params; i++, at += DP_TENSOR_HEAD_BYTES) {
        dp_tensor_head_encode(&l->param[i], mine);
        fits = memcmp(mine, at, DP_TENSOR_HEAD_BYTES) == 0;
    }
    if (fits) {
        l->rng_key = other->rng_key;
        l->rng_counter = other->rng_counter;
        l->notes = other->notes;
    }
    dp_layer_destroy(other);
    return fits ? 0 : dp_err_set(err, DP_ECORRUPT, "layer %u: its arrays are not those that were copied", l->index);
}
