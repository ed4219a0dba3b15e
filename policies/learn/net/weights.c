/* SPDX-License-Identifier: BSD-3-Clause */
/* See weights.h. The checksum is looked at last but one: a file of another version says so, and not that it is damaged. */
#include "policies/learn/net/weights.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/file/slurp.h"

#define HEAD 48u /* bytes before the floats */
#define N_NUMBERS 10 /* of 32 bits, behind the magic */


static void put32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t get32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* What a file of a kind says in this version before its own numbers. */
static const struct kind {
    char magic[8];
    uint32_t own[6], most; /* most: networks */
    size_t size;           /* numbers of a network */
    const char *last;      /* what the last of them is */
} kinds[] = {
    [DP_WEIGHTS_ORDERS] = {"DPORDER",
                           {DP_WEIGHTS_FORMAT, DP_WEIGHTS_FEATURES, DP_NET_WIDTH, DP_NET_ROUNDS, DP_NET_FACTS, DP_NET_LOOKS},
                           DP_WEIGHTS_MOST,
                           DP_NET_SIZE,
                           "number of features"},
    [DP_WEIGHTS_PARTS] = {"DPPARTS",
                          {DP_WEIGHTS_FORMAT, DP_WEIGHTS_FEATURES, DP_CUTTER_WIDTH, DP_CUTTER_ROUNDS, DP_NET_FACTS, DP_CUTTER_PARTS},
                          1,
                          DP_CUTTER_SIZE,
                          "number of devices"},
};
static const char *const what[5] = {"format", "version of features", "width", "number of rounds", "number of facts"};

static float *numbers_of(const struct dp_weights *w, uint32_t i)
{
    return w->kind == DP_WEIGHTS_PARTS ? dp_cutter_numbers(&w->cutter[i]) : dp_net_numbers(&w->net[i]);
}

static bool is_sound(const struct dp_weights *w, uint32_t i)
{
    return w->kind == DP_WEIGHTS_PARTS ? dp_cutter_check(&w->cutter[i]) : dp_net_check(&w->net[i]);
}

void dp_weights_release(struct dp_weights *w)
{
    free(w->net);
    free(w->cutter);
    *w = (struct dp_weights){0};
}

int dp_weights_want(const char *name, const struct dp_weights *w, enum dp_weights_kind kind, struct dp_err *err)
{
    if (w->kind == kind)
        return 0;
    return dp_err_set(err, DP_EINVAL,
                      kind == DP_WEIGHTS_PARTS
                          ? "%s: its networks make orders; drl-pp takes a file of `dynpipe learn --method=drl-pp`"
                          : "%s: its network makes no orders, but places units: it is for --algorithm=drl-pp",
                      name);
}

int dp_weights_hold_cutter(struct dp_weights *w, const struct dp_cutter *cutter, struct dp_err *err)
{
    w->cutter = malloc(sizeof *w->cutter);
    if (!w->cutter)
        return dp_err_set(err, DP_ENOMEM, "weights: out of memory");
    *w->cutter = *cutter;
    w->kind = DP_WEIGHTS_PARTS;
    w->n = w->n_trained = 1;
    return 0;
}

static int parse_head(const char *name, const unsigned char *p, size_t bytes, struct dp_weights *w, struct dp_err *err)
{
    const struct kind *k;
    size_t wanted;

    if (bytes < HEAD + 4 || (memcmp(p, kinds[0].magic, 8) != 0 && memcmp(p, kinds[1].magic, 8) != 0))
        return dp_err_set(err, DP_EINVAL, "%s: no file of weights: it begins neither with DPORDER nor with DPPARTS", name);
    w->kind = memcmp(p, kinds[0].magic, 8) != 0 ? DP_WEIGHTS_PARTS : DP_WEIGHTS_ORDERS;
    k = &kinds[w->kind];
    for (int i = 0; i < 6; i++)
        if (get32(p + 8 + 4 * i) != k->own[i])
            return dp_err_set(err, DP_EINVAL, "%s: its %s is %u, here it is %u: learn it again with this version of dynpipe learn", name,
                              i < 5 ? what[i] : k->last, get32(p + 8 + 4 * i), k->own[i]);
    w->n = get32(p + 32);
    w->families_hash = get32(p + 36);
    w->seed = get32(p + 40) | (uint64_t)get32(p + 44) << 32;
    if (w->n < 1 || w->n > k->most)
        return dp_err_set(err, DP_EINVAL, "%s: %u networks, expected 1 to %u", name, w->n, k->most);
    wanted = HEAD + 4 + (size_t)w->n * k->size * 4;
    if (bytes != wanted)
        return dp_err_set(err, DP_EINVAL, "%s: %zu bytes, but %u networks take %zu", name, bytes, w->n, wanted);
    w->crc = get32(p + bytes - 4);
    if (dp_crc32c(0, p, bytes - 4) != w->crc)
        return dp_err_set(err, DP_ECORRUPT, "%s: damaged: its checksum does not match", name);
    return 0;
}

int dp_weights_parse(const char *name, const void *data, size_t bytes, struct dp_weights *w, struct dp_err *err)
{
    const unsigned char *p = data;

    *w = (struct dp_weights){0};
    if (parse_head(name, p, bytes, w, err) < 0)
        return -1;
    if (w->kind == DP_WEIGHTS_PARTS)
        w->cutter = calloc(w->n, sizeof *w->cutter);
    else
        w->net = calloc(w->n, sizeof *w->net);
    if (!w->net && !w->cutter)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", name);
    for (uint32_t i = 0; i < w->n; i++) {
        float *to = numbers_of(w, i);

        for (size_t k = 0; k < kinds[w->kind].size; k++) {
            uint32_t bits = get32(p + HEAD + 4 * (i * kinds[w->kind].size + k));

            memcpy(to + k, &bits, sizeof bits);
        }
        if (!is_sound(w, i))
            return dp_err_set(err, DP_EINVAL, "%s: network %u has a number that is none, or too large", name, i);
    }
    return 0;
}

int dp_weights_read(const char *path, struct dp_weights *w, struct dp_err *err)
{
    char *data = NULL;
    size_t bytes;
    int rc;

    *w = (struct dp_weights){0};
    rc = dp_slurp(path, DP_WEIGHTS_MAX_FILE, &data, &bytes, err);
    if (rc == 0)
        rc = dp_weights_parse(path, data, bytes, w, err);
    free(data);
    return rc;
}

int dp_weights_encode(struct dp_weights *w, char **data, size_t *bytes, struct dp_err *err)
{
    const struct kind *k = &kinds[w->kind];
    const uint32_t numbers[N_NUMBERS] = {k->own[0],         k->own[1], k->own[2], k->own[3], k->own[4], k->own[5], w->n, w->families_hash,
                                         (uint32_t)w->seed, (uint32_t)(w->seed >> 32)};
    unsigned char *p;

    if (w->n < 1 || w->n > k->most)
        return dp_err_set(err, DP_EINVAL, "weights of %u networks, expected 1 to %u", w->n, k->most);
    *bytes = HEAD + 4 + (size_t)w->n * k->size * 4;
    p = malloc(*bytes);
    if (!p)
        return dp_err_set(err, DP_ENOMEM, "weights: out of memory");
    memcpy(p, k->magic, sizeof k->magic);
    for (int i = 0; i < N_NUMBERS; i++)
        put32(p + 8 + 4 * i, numbers[i]);
    for (uint32_t i = 0; i < w->n; i++) {
        const float *from = numbers_of(w, i);

        if (!is_sound(w, i)) {
            free(p);
            return dp_err_set(err, DP_EINVAL, "network %u has a number that is none, or too large", i);
        }
        for (size_t at = 0; at < k->size; at++) {
            uint32_t bits;

            memcpy(&bits, from + at, sizeof bits);
            put32(p + HEAD + 4 * (i * k->size + at), bits);
        }
    }
    w->crc = dp_crc32c(0, p, *bytes - 4);
    put32(p + *bytes - 4, w->crc);
    *data = (char *)p;
    return 0;
}
