/* SPDX-License-Identifier: BSD-3-Clause */
/* See copies_internal.h: a layer and its whole copy, compared by a check of their arrays. Both ends look between two steps, when the
 * gradients of the next one are there and nothing has been changed by them yet. */
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/wire.h"
#include "worker/copies/copies_internal.h"

#define PIECE ((size_t)1 << 20) /* bytes of an array for each check */

static size_t checks_of(const struct dp_layer_part *part)
{
    return (part->bytes + PIECE - 1) / PIECE;
}

/* Of all that a copy has: CRC-32C over those of each PIECE of the arrays that steps replay. */
static int check(const struct dp_layer *l, uint32_t *out, struct dp_err *err)
{
    struct dp_layer_part part[DP_LAYER_MAX_PARTS];
    uint32_t all = dp_layer_parts(l, part), n = 0, *crc;
    size_t n_checks = 0;
    int rc;

    for (uint32_t i = 0; i < all; i++)
        if (part[i].is_replayed) {
            n_checks += checks_of(&part[i]);
            part[n++] = part[i];
        }
    crc = malloc(n_checks * sizeof *crc + 1);
    if (!crc)
        return dp_err_set(err, DP_ENOMEM, "no memory for %zu checks of layer %u", n_checks, l->index);
    rc = dp_layer_parts_check(l, part, n, PIECE, crc, err);
    *out = dp_crc32c(0, crc, n_checks * sizeof *crc);
    free(crc);
    return rc;
}

int dp_copy_check_write(struct dp_copy_stream *x, uint64_t step_ns, void *out, struct dp_err *err)
{
    uint32_t which = 0, crc = 0;
    struct dp_writer w;

    if (x->n_whole) {
        const struct dp_shadow_layer *l = &x->st.layer[x->next_check % x->n_whole];

        x->check_bytes += DP_COPY_CHECKED_NS * (double)step_ns;
        if (x->check_bytes >= (double)l->state_bytes) {
            which = 1 + x->next_check % x->n_whole;
            if (check(l->layer, &crc, err) < 0)
                return -1;
            x->next_check = which;
            x->check_bytes = 0;
        }
    }
    dp_writer_init(&w, out, DP_COPY_CHECK_BYTES);
    dp_wr_u32(&w, which);
    dp_wr_u32(&w, crc);
    return 0;
}

int dp_copy_check_read(struct dp_copies *c, const struct dp_copy_stream *x, const void *in, struct dp_err *err)
{
    uint32_t which, theirs, mine, layer;
    struct dp_reader r;

    dp_reader_init(&r, in, DP_COPY_CHECK_BYTES);
    which = dp_rd_u32(&r);
    theirs = dp_rd_u32(&r);
    if (which > x->n_whole)
        return dp_err_set(err, DP_EPROTO, "worker %u checks copy %u of %u whole ones", x->st.peer, which, x->n_whole);
    if (!which)
        return 0;
    layer = x->st.layer[which - 1].index;
    if (!c->held[layer].is_whole)
        return 0;
    if (check(c->held[layer].layer, &mine, err) < 0)
        return -1;
    if (mine != theirs)
        dp_copies_differ(c, layer);
    return 0;
}
