/* SPDX-License-Identifier: BSD-3-Clause */
/* See notation.h. */
#include "policies/saving/notation.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/run/megatron.h"

/* A growing text; data NULL: out of memory. */
struct text {
    char *data;
    size_t bytes;
    FILE *out;
};

static bool text_open(struct text *t)
{
    memset(t, 0, sizeof *t);
    t->out = open_memstream(&t->data, &t->bytes);
    return t->out != NULL;
}

/* The text as JSON. New reference. */
static json_t *text_close(struct text *t)
{
    bool is_whole = fclose(t->out) == 0;
    json_t *s = is_whole ? json_string(t->data) : NULL;

    free(t->data);
    return s ? s : json_null();
}

/* Blocks of a stage that has layers from .. to - 1. */
static uint32_t blocks_of(const struct dp_notation *n, uint32_t from, uint32_t to)
{
    uint32_t first = from > n->first ? from : n->first, end = to < n->end ? to : n->end;

    return end > first ? end - first : 0;
}

/* Megatron counts one embedding before the blocks and one loss behind them, whether the model's costs list them or not. */
static bool has_megatron_ends(const struct dp_notation *n)
{
    return n->first <= 1 && n->n_layers - n->end <= 1;
}

static json_t *megatron_layout(const struct dp_notation *n)
{
    bool adds_first = n->first == 0, adds_last = n->end == n->n_layers;
    struct dp_layout l = {.n_workers = n->n_stages, .n_layers = n->n_layers + adds_first + adds_last};
    char text[16 * DP_MAX_WORKERS];

    if (!has_megatron_ends(n) || n->n_stages > DP_MAX_WORKERS || l.n_layers > DP_MAX_LAYERS)
        return json_null();
    for (uint32_t s = 0; s < n->n_stages; s++)
        l.cut[s + 1] = l.cut[s] + n->count[s] + (s == 0 && adds_first) + (s + 1 == n->n_stages && adds_last);
    dp_megatron_format(&l, text, sizeof text);
    return json_string(text);
}

/* Only where embedding and head are on the first and the last stage and the stages between are alike. */
static json_t *megatron_options(const struct dp_notation *n)
{
    uint32_t at = 0, blocks[3] = {0}; /* of the first stage, of one between, of the last */
    char text[128];

    if (!has_megatron_ends(n) || n->chunks > 1 || n->n_stages < 2)
        return json_null();
    for (uint32_t s = 0; s < n->n_stages; at += n->count[s++]) {
        uint32_t has = blocks_of(n, at, at + n->count[s]), *of = &blocks[s == 0 ? 0 : s + 1 < n->n_stages ? 1 : 2];

        if (!has || (s > 1 && s + 1 < n->n_stages && *of != has))
            return json_null();
        *of = has;
    }
    snprintf(text, sizeof text,
             "--pipeline-model-parallel-size %u --decoder-first-pipeline-num-layers %u --decoder-last-pipeline-num-layers %u", n->n_stages,
             blocks[0], blocks[2]);
    return json_string(text);
}

static json_t *deepspeed_parts(const struct dp_notation *n)
{
    uint32_t at = 0;
    struct text t;

    if (!text_open(&t))
        return json_null();
    fprintf(t.out, "[0");
    for (uint32_t s = 0; s < n->n_stages; s++) {
        at += n->count[s];
        fprintf(t.out, ", %u", at);
    }
    fprintf(t.out, "]");
    return text_close(&t);
}

static json_t *torch_split_points(const struct dp_notation *n)
{
    uint32_t at = 0;
    struct text t;

    for (uint32_t s = 0; s + 1 < n->n_stages; s++) {
        at += n->count[s];
        if (!n->count[s] || at < n->first || at > n->end || at == n->n_layers) /* an empty stage; a cut between layers without names */
            return json_null();
    }
    if (!text_open(&t))
        return json_null();
    at = 0;
    for (uint32_t s = 0; s + 1 < n->n_stages; s++) {
        at += n->count[s];
        if (at == n->end)
            fprintf(t.out, "%shead", s ? "," : "");
        else
            fprintf(t.out, "%slayers.%u", s ? "," : "", at - n->first);
    }
    return text_close(&t);
}

json_t *dp_notation_json(const struct dp_notation *n)
{
    json_t *o = json_object();

    json_object_set_new(o, "megatron_layout", megatron_layout(n));
    json_object_set_new(o, "megatron_options", megatron_options(n));
    json_object_set_new(o, "deepspeed_parts", deepspeed_parts(n));
    json_object_set_new(o, "torch_split_points", torch_split_points(n));
    return o;
}
