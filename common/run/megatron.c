/* SPDX-License-Identifier: BSD-3-Clause */
/* See megatron.h. What is repeated is read again, so that every letter passes through put(), which
 * knows what may follow what, and no text needs memory for what its numbers say. */
#include "common/run/megatron.h"

#include <stdio.h>
#include <string.h>

#define MOST_REPEATS 9999u /* of one group of layers; with more than DP_MAX_LAYERS it is refused anyway */

struct reader {
    const char *text;
    size_t at;
    struct dp_megatron *out;
    struct dp_err *err;
    char last; /* letter; 0: none yet */
};

static int wrong(const struct reader *r, size_t at, const char *what)
{
    return dp_err_set(r->err, DP_EINVAL, "Megatron layout, position %zu: %s", at + 1, what);
}

/* One letter or bar, which lies at r->text[at]. */
static int put(struct reader *r, char c, size_t at)
{
    struct dp_megatron *m = r->out;

    if (c == '|') {
        if (m->n_stages == DP_MAX_WORKERS)
            return wrong(r, at, "too many stages");
        m->layers[m->n_stages++] = 0;
        return 0;
    }
    if ((c == 'E') != (r->last == '\0'))
        return wrong(r, at, c == 'E' ? "E, the embedding, must be the first layer and no other" : "the first layer must be E");
    if (r->last == 'L')
        return wrong(r, at, "L must be the last layer");
    if (c == 't' && r->last == 'm')
        return wrong(r, at, "t after m");
    if (m->n_layers == DP_MAX_LAYERS)
        return wrong(r, at, "too many layers");
    if (c == 'm' && !m->first_mtp)
        m->first_mtp = (uint32_t)at + 1;
    m->layers[m->n_stages - 1]++;
    m->n_layers++;
    r->last = c;
    return 0;
}

static void skip_commas(struct reader *r)
{
    while (r->text[r->at] == ',')
        r->at++;
}

/* "*n" where it is there: 1 without. */
static int read_times(struct reader *r, uint32_t *times)
{
    size_t before = r->at;

    *times = 1;
    skip_commas(r);
    if (r->text[r->at] != '*') {
        r->at = before;
        return 0;
    }
    r->at++;
    if (r->text[r->at] < '0' || r->text[r->at] > '9')
        return wrong(r, r->at, "a number must follow *");
    for (*times = 0; r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
        *times = *times * 10 + (uint32_t)(r->text[r->at] - '0');
        if (*times > MOST_REPEATS)
            return wrong(r, r->at, "the number is too large");
    }
    return 0;
}

/* A letter or bar, with its number. */
static int read_item(struct reader *r)
{
    char c = r->text[r->at];
    size_t at = r->at;
    uint32_t times;

    if (!c)
        return wrong(r, at, "the text ends within brackets");
    if (!strchr("EtmL|", c))
        return wrong(r, at, c == '(' ? "brackets within brackets" : "not one of E t m L | ( ) * ,");
    r->at++;
    if (read_times(r, &times) < 0)
        return -1;
    for (uint32_t i = 0; i < times; i++)
        if (put(r, c, at) < 0)
            return -1;
    return 0;
}

/* Up to the closing bracket. */
static int read_inside(struct reader *r)
{
    for (skip_commas(r); r->text[r->at] != ')'; skip_commas(r))
        if (read_item(r) < 0)
            return -1;
    return 0;
}

/* The number comes last, so the brackets are read once without any effect to find it. */
static int read_group(struct reader *r)
{
    size_t inside = ++r->at, after;
    uint32_t times;

    after = inside + strcspn(r->text + inside, ")");
    if (!r->text[after])
        return wrong(r, inside - 1, "a bracket that is never closed");
    if (after == inside)
        return wrong(r, inside, "empty brackets");
    r->at = after + 1;
    if (read_times(r, &times) < 0)
        return -1;
    if (r->at == after + 1)
        return wrong(r, r->at, "*n must follow brackets");
    after = r->at;
    for (uint32_t i = 0; i < times; i++) {
        r->at = inside;
        if (read_inside(r) < 0)
            return -1;
    }
    r->at = after;
    return 0;
}

int dp_megatron_parse(const char *text, struct dp_megatron *out, struct dp_err *err)
{
    struct reader r = {.text = text, .out = out, .err = err};

    memset(out, 0, sizeof *out);
    out->n_stages = 1;
    for (skip_commas(&r); text[r.at]; skip_commas(&r))
        if ((text[r.at] == '(' ? read_group(&r) : read_item(&r)) < 0)
            return -1;
    return r.last == 'L' ? 0 : wrong(&r, r.at, "the last layer must be L");
}

bool dp_megatron_looks_like(const char *text)
{
    return strpbrk(text, "EtmL(*") != NULL;
}

void dp_megatron_format(const struct dp_layout *l, char *out, size_t cap)
{
    size_t n = 0;

    if (cap)
        out[0] = '\0';
    for (uint32_t s = 0; s < l->n_workers && l->n_layers >= 2 && n < cap; s++) {
        uint32_t from = l->cut[s], to = l->cut[s + 1];
        bool first = from == 0 && to > 0, last = from < to && to == l->n_layers;
        uint32_t blocks = to - from - first - last;

        n += (size_t)snprintf(out + n, cap - n, "%s%s%s", s ? "|" : "", first ? "E" : "", blocks ? "t" : "");
        if (blocks > 1 && n < cap)
            n += (size_t)snprintf(out + n, cap - n, "*%u", blocks);
        if (last && n < cap)
            n += (size_t)snprintf(out + n, cap - n, "L");
    }
}
