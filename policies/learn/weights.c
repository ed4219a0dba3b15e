/* SPDX-License-Identifier: BSD-3-Clause */
/* See weights.h. The checksum is looked at last but one: a file of another version says so, and not that it is damaged. */
#include "policies/learn/weights.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/file/slurp.h"

#define HEAD 48u /* bytes before the floats */
#define N_NUMBERS 10 /* of 32 bits, behind the magic */

static const char magic[8] = "DPORDER";

static void put32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t get32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* What a file of this version says before its own numbers. */
static const uint32_t own[6] = {DP_WEIGHTS_FORMAT, DP_WEIGHTS_FEATURES, DP_NET_WIDTH, DP_NET_ROUNDS, DP_NET_FACTS, DP_NET_LOOKS};
static const char *const what[6] = {"format", "version of features", "width", "number of rounds", "number of facts", "number of features"};

void dp_weights_release(struct dp_weights *w)
{
    free(w->net);
    *w = (struct dp_weights){0};
}

static int parse_head(const char *name, const unsigned char *p, size_t bytes, struct dp_weights *w, struct dp_err *err)
{
    size_t wanted;

    if (bytes < HEAD + 4 || memcmp(p, magic, sizeof magic) != 0)
        return dp_err_set(err, DP_EINVAL, "%s: no file of weights: it does not begin with DPORDER", name);
    for (int i = 0; i < 6; i++)
        if (get32(p + 8 + 4 * i) != own[i])
            return dp_err_set(err, DP_EINVAL, "%s: its %s is %u, here it is %u: learn it again with this version of dynpipe learn", name,
                              what[i], get32(p + 8 + 4 * i), own[i]);
    w->n = get32(p + 32);
    w->families_hash = get32(p + 36);
    w->seed = get32(p + 40) | (uint64_t)get32(p + 44) << 32;
    if (w->n < 1 || w->n > DP_WEIGHTS_MOST)
        return dp_err_set(err, DP_EINVAL, "%s: %u networks, expected 1 to %u", name, w->n, DP_WEIGHTS_MOST);
    wanted = HEAD + 4 + (size_t)w->n * DP_NET_SIZE * 4;
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
    w->net = calloc(w->n, sizeof *w->net);
    if (!w->net)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", name);
    for (uint32_t i = 0; i < w->n; i++) {
        float *to = dp_net_numbers(&w->net[i]);

        for (size_t k = 0; k < DP_NET_SIZE; k++) {
            uint32_t bits = get32(p + HEAD + 4 * (i * DP_NET_SIZE + k));

            memcpy(to + k, &bits, sizeof bits);
        }
        if (!dp_net_check(&w->net[i]))
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
    const uint32_t numbers[N_NUMBERS] = {own[0],           own[1], own[2], own[3], own[4], own[5], w->n, w->families_hash,
                                             (uint32_t)w->seed, (uint32_t)(w->seed >> 32)};
    unsigned char *p;

    if (w->n < 1 || w->n > DP_WEIGHTS_MOST)
        return dp_err_set(err, DP_EINVAL, "weights of %u networks, expected 1 to %u", w->n, DP_WEIGHTS_MOST);
    *bytes = HEAD + 4 + (size_t)w->n * DP_NET_SIZE * 4;
    p = malloc(*bytes);
    if (!p)
        return dp_err_set(err, DP_ENOMEM, "weights: out of memory");
    memcpy(p, magic, sizeof magic);
    for (int i = 0; i < N_NUMBERS; i++)
        put32(p + 8 + 4 * i, numbers[i]);
    for (uint32_t i = 0; i < w->n; i++) {
        const float *from = dp_net_numbers(&w->net[i]);

        if (!dp_net_check(&w->net[i])) {
            free(p);
            return dp_err_set(err, DP_EINVAL, "network %u has a number that is none, or too large", i);
        }
        for (size_t k = 0; k < DP_NET_SIZE; k++) {
            uint32_t bits;

            memcpy(&bits, from + k, sizeof bits);
            put32(p + HEAD + 4 * (i * DP_NET_SIZE + k), bits);
        }
    }
    w->crc = dp_crc32c(0, p, *bytes - 4);
    put32(p + *bytes - 4, w->crc);
    *data = (char *)p;
    return 0;
}
