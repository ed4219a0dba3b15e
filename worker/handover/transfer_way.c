/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer under way (transfer_internal.h): how it is cut into messages, and what its digest is made of.
 *
 * Most arrays of a layer are small, some are large. Those up to SMALL bytes that follow each other share a message of up to
 * GATHERED: they are copied into a buffer, which costs less than messages of their own. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "worker/handover/transfer_internal.h"

#define SMALL ((size_t)64 << 10) /* bytes; a message costs as much as some 50 KiB copied at both ends */
#define GATHERED ((size_t)64 << 10) /* bytes; larger buffers are mapped each time, and meet their pages for the first time */
_Static_assert(GATHERED <= DP_TRANSFER_CHUNK, "a small part is one piece of its own, with one check");

static size_t crcs_of(const struct dp_layer_part *part)
{
    return (part->bytes + DP_TRANSFER_CHUNK - 1) / DP_TRANSFER_CHUNK;
}

int dp_way_fill(struct dp_way *w, struct dp_err *err)
{
    w->n_parts = dp_layer_parts(w->layer, w->part);
    for (uint32_t i = 0; i < w->n_parts; i++) {
        w->first_crc[i] = w->n_crc;
        w->n_crc += crcs_of(&w->part[i]);
        w->bytes += w->part[i].bytes;
        w->least = w->part[i].bytes < w->part[w->least].bytes ? i : w->least;
    }
    w->crc = calloc(w->n_crc + 1, sizeof *w->crc);
    return w->crc ? 0 : dp_err_set(err, DP_ENOMEM, "no memory for %zu checks of layer %u", w->n_crc, w->layer->index);
}

void dp_way_free(struct dp_way *w)
{
    if (w)
        free(w->crc);
    free(w);
}

/* ---- pieces ---- */

static bool is_sent(const struct dp_way *w, uint32_t part)
{
    return !w->is_shadowed || !w->part[part].is_replayed || part == w->least;
}

bool dp_way_next(const struct dp_way *w, struct dp_piece *p)
{
    uint32_t part = p->part;
    size_t offset = p->offset + p->bytes;

    if (p->n_parts && (p->n_parts > 1 || offset == w->part[part].bytes)) {
        part += p->n_parts;
        offset = 0;
    }
    while (part < w->n_parts && !is_sent(w, part))
        part++;
    if (part == w->n_parts)
        return false;
    *p = (struct dp_piece){.part = part, .offset = offset};
    while (part + p->n_parts < w->n_parts && is_sent(w, part + p->n_parts) && w->part[part + p->n_parts].bytes <= SMALL &&
           p->bytes + w->part[part + p->n_parts].bytes <= GATHERED)
        p->bytes += w->part[part + p->n_parts++].bytes;
    if (p->n_parts == 0) {
        p->n_parts = 1;
        p->bytes = w->part[part].bytes - offset < DP_TRANSFER_CHUNK ? w->part[part].bytes - offset : DP_TRANSFER_CHUNK;
    }
    return true;
}

uint64_t dp_way_copied(const struct dp_way *w)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < w->n_parts; i++)
        bytes += is_sent(w, i) ? 0 : w->part[i].bytes;
    return bytes;
}

static bool is_reached(const struct dp_way *w, const struct dp_layer_part *part)
{
    return !part->is_device || w->layer->be->ops->host_memory;
}

bool dp_way_is_buffered(const struct dp_way *w, const struct dp_piece *p)
{
    return w->is_copy || p->n_parts > 1 || !is_reached(w, &w->part[p->part]);
}

/* One part of a buffered piece: from the layer to the buffer, or back. */
static int copy_part(const struct dp_way *w, const struct dp_layer_part *part, const struct dp_piece *p, uint8_t *out,
                     const uint8_t *in, struct dp_err *err)
{
    struct dp_backend *be = w->layer->be;
    size_t bytes = p->n_parts > 1 ? part->bytes : p->bytes;
    uint8_t *data = (uint8_t *)part->data + p->offset;

    if (part->is_device)
        return in ? be->ops->put(be, data, in, bytes, err) : be->ops->get(be, out, data, bytes, err);
    memcpy(in ? data : out, in ? in : data, bytes);
    return 0;
}

int dp_way_gather(const struct dp_way *w, const struct dp_piece *p, uint8_t *out, struct dp_err *err)
{
    for (uint32_t i = p->part; i < p->part + p->n_parts; out += w->part[i++].bytes)
        if (copy_part(w, &w->part[i], p, out, NULL, err) < 0)
            return -1;
    return 0;
}

int dp_way_scatter(const struct dp_way *w, const struct dp_piece *p, const uint8_t *in, struct dp_err *err)
{
    for (uint32_t i = p->part; i < p->part + p->n_parts; in += w->part[i++].bytes)
        if (copy_part(w, &w->part[i], p, NULL, in, err) < 0)
            return -1;
    return 0;
}

/* ---- checks ---- */

void dp_way_note(struct dp_way *w, const struct dp_piece *p, uint32_t crc)
{
    if (!w->layer->be->ops->host_memory) /* the device is asked about all of them in the end */
        return;
    if (p->n_parts == 1) {
        w->crc[w->first_crc[p->part] + p->offset / DP_TRANSFER_CHUNK] = crc;
        return;
    }
    for (uint32_t i = p->part; i < p->part + p->n_parts; i++)
        w->crc[w->first_crc[i]] = dp_crc32c(0, w->part[i].data, w->part[i].bytes);
}

/* Of the head and the checks that are there. of_copy: only of what is replayed. */
static int hash(const struct dp_way *w, bool of_copy, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    unsigned n = 0;
    bool is_fine = sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(sha, w->head, w->head_bytes) == 1;

    for (uint32_t i = 0; i < w->n_parts && is_fine; i++)
        if (!of_copy || w->part[i].is_replayed)
            is_fine = EVP_DigestUpdate(sha, w->crc + w->first_crc[i], crcs_of(&w->part[i]) * sizeof *w->crc) == 1;
    is_fine = is_fine && EVP_DigestFinal_ex(sha, out, &n) == 1 && n == DP_DIGEST_BYTES;
    EVP_MD_CTX_free(sha);
    return is_fine ? 0 : dp_err_set(err, DP_EIO, "SHA-256 of layer %u failed", w->layer->index);
}

int dp_way_copy_digest(struct dp_way *w, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err)
{
    if (dp_layer_parts_check(w->layer, w->part, w->n_parts, DP_TRANSFER_CHUNK, w->crc, err) < 0)
        return -1;
    w->is_checked = true;
    return hash(w, true, out, err);
}

int dp_way_digest(struct dp_way *w, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err)
{
    if ((!w->layer->be->ops->host_memory || (w->is_shadowed && !w->is_checked)) &&
        dp_layer_parts_check(w->layer, w->part, w->n_parts, DP_TRANSFER_CHUNK, w->crc, err) < 0)
        return -1;
    return hash(w, false, out, err);
}
