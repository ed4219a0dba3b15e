/* SPDX-License-Identifier: BSD-3-Clause */
/* See scheme.h: names and values into a choice. use.c puts it into a case. */
#include "policies/sim/scheme/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY(id, label, text) {.name = label, .help = text, .rule = &dp_sim_scheme_##id},
static const struct dp_sim_scheme known[] = {DP_SIM_SCHEMES(ENTRY)};
#define N_KNOWN (sizeof known / sizeof known[0])

/* A piece of a text. */
struct piece {
    const char *at;
    size_t n;
};

const struct dp_sim_scheme *dp_sim_scheme_at(size_t i)
{
    return i < N_KNOWN ? &known[i] : NULL;
}

static bool is(struct piece p, const char *word)
{
    return p.n == strlen(word) && !memcmp(p.at, word, p.n);
}

static int cut_short(struct piece p)
{
    return p.n < 64 ? (int)p.n : 64;
}

/* The piece up to a byte or the end; *text: behind that byte, or NULL. */
static struct piece up_to(const char **text, char end)
{
    struct piece p = {*text, strcspn(*text, (char[]){end, '\0'})};

    *text = p.at[p.n] ? p.at + p.n + 1 : NULL;
    return p;
}

static const struct dp_sim_scheme *find(struct piece name, struct dp_err *err)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (is(name, known[i].name))
            return &known[i];
    dp_err_set(err, DP_EINVAL, "unknown scheme '%.*s'; known: %s", cut_short(name), name.at, &DP_SIM_SCHEMES(DP_SIM_SCHEME_COMMA)[2]);
    return NULL;
}

static int unknown_key(const struct dp_sim_scheme *s, struct piece name, struct dp_err *err)
{
    char names[256] = "";
    size_t n = 0;

    for (const struct dp_sim_scheme_key *k = s->rule->key; k->name && n < sizeof names; k++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", k->name);
    return dp_err_set(err, DP_EINVAL, "scheme %s has no '%.*s'; known: %s", s->name, cut_short(name), name.at, names);
}

/* The number of a word among choices; -1: it is none of them. */
static int choice_of(const char *choices, struct piece word)
{
    for (int i = 0; choices; i++) {
        struct piece one = up_to(&choices, ' ');

        if (one.n == word.n && !memcmp(one.at, word.at, one.n))
            return i;
    }
    return -1;
}

static int read_value(const struct dp_sim_scheme *s, const struct dp_sim_scheme_key *k, struct piece p, double *out, struct dp_err *err)
{
    char text[64], *end = text;
    int choice;

    if (k->choices) {
        choice = choice_of(k->choices, p);
        *out = choice;
        return choice >= 0 ? 0
                           : dp_err_set(err, DP_EINVAL, "scheme %s, %s='%.*s': expected one of: %s", s->name, k->name, cut_short(p), p.at,
                                        k->choices);
    }
    snprintf(text, sizeof text, "%.*s", (int)(p.n < sizeof text ? p.n : sizeof text), p.at);
    *out = strtod(text, &end);
    if (p.n >= sizeof text || end == text || *end || !(*out >= k->low && *out <= k->high) || (k->is_whole && *out != floor(*out)))
        return dp_err_set(err, DP_EINVAL, "scheme %s, %s='%.*s': expected a %snumber from %g to %g", s->name, k->name, cut_short(p), p.at,
                          k->is_whole ? "whole " : "", k->low, k->high);
    return 0;
}

/* KEY=VALUE. is_set: [keys] which keys had a value before. */
static int read_pair(struct piece pair, struct dp_sim_scheme_choice *out, bool *is_set, struct dp_err *err)
{
    const struct dp_sim_scheme_key *key = out->scheme->rule->key;
    const char *equals = memchr(pair.at, '=', pair.n);
    struct piece name = {pair.at, equals ? (size_t)(equals - pair.at) : pair.n}, value;

    for (uint32_t i = 0; key[i].name; i++) {
        if (!is(name, key[i].name))
            continue;
        if (!equals)
            return dp_err_set(err, DP_EINVAL, "scheme %s: %s has no value; expected %s=...", out->scheme->name, key[i].name, key[i].name);
        if (is_set[i])
            return dp_err_set(err, DP_EINVAL, "scheme %s: %s is given twice", out->scheme->name, key[i].name);
        is_set[i] = true;
        value = (struct piece){equals + 1, pair.n - name.n - 1};
        return read_value(out->scheme, &key[i], value, &out->value[i], err);
    }
    return unknown_key(out->scheme, name, err);
}

int dp_sim_scheme_parse(const char *text, struct dp_sim_scheme_choice *out, struct dp_err *err)
{
    bool is_set[DP_SIM_SCHEME_KEYS] = {false};
    struct piece name = up_to(&text, ',');

    memset(out, 0, sizeof *out);
    out->scheme = find(name, err);
    if (!out->scheme)
        return -1;
    for (uint32_t i = 0; out->scheme->rule->key[i].name; i++)
        out->value[i] = out->scheme->rule->key[i].fallback;
    while (text)
        if (read_pair(up_to(&text, ','), out, is_set, err) < 0)
            return -1;
    return 0;
}

void dp_sim_scheme_format(const struct dp_sim_scheme_choice *choice, char *out, size_t cap)
{
    const struct dp_sim_scheme_key *key = choice->scheme->rule->key;
    size_t n = (size_t)snprintf(out, cap, "%s", choice->scheme->name);

    for (uint32_t i = 0; key[i].name && n < cap; i++) {
        const char *words = key[i].choices;
        struct piece word = {"", 0};

        for (int w = 0; words && w <= (int)choice->value[i]; w++)
            word = up_to(&words, ' ');
        if (key[i].choices)
            n += (size_t)snprintf(out + n, cap - n, ",%s=%.*s", key[i].name, (int)word.n, word.at);
        else
            n += (size_t)snprintf(out + n, cap - n, ",%s=%.6g", key[i].name, choice->value[i]);
    }
}
