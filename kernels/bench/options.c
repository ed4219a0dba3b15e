/* SPDX-License-Identifier: BSD-3-Clause */
/* See options.h. */
#include "kernels/bench/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At most `cap` numbers from 1 to `most`, with `between` between them. returns: how many, 0: it is no such
 * list. */
static int parse_list(const char *text, char between, int64_t most, int cap, int64_t *out)
{
    for (int n = 0; n < cap; text++) {
        char *end;

        out[n] = strtoll(text, &end, 10);
        if (end == text || out[n] < 1 || out[n] > most || (*end && *end != between))
            return 0;
        n++;
        if (!*end)
            return n;
        text = end;
    }
    return 0;
}

int bench_parse_count(const char *text, int most, int *out, struct dp_err *err)
{
    int64_t n;

    if (parse_list(text, '\0', most, 1, &n) != 1)
        return dp_err_set(err, DP_EINVAL, "'%.60s' is not from 1 to %d", text, most);
    *out = (int)n;
    return 0;
}

int bench_parse_counts(const char *text, int most, int cap, int *out, int *n, struct dp_err *err)
{
    int64_t v[64];

    *n = parse_list(text, ',', most, cap < 64 ? cap : 64, v);
    if (*n == 0)
        return dp_err_set(err, DP_EINVAL, "'%.60s' is not a list of at most %d numbers from 1 to %d", text, cap,
                          most);
    for (int i = 0; i < *n; i++)
        out[i] = (int)v[i];
    return 0;
}

int bench_parse_shape(const char *text, int n, int64_t *out, struct dp_err *err)
{
    if (parse_list(text, 'x', BENCH_MAX_SIDE, n, out) != n)
        return dp_err_set(err, DP_EINVAL, "'%.60s' is not a shape: expected %d numbers from 1 to %d with x between", text,
                          n, BENCH_MAX_SIDE);
    return 0;
}

int bench_parse_fractions(const char *text, int cap, double *out, int *n, struct dp_err *err)
{
    const char *at = text;

    for (*n = 0; *n < cap; at++) {
        char *end;

        out[*n] = strtod(at, &end);
        if (end == at || !(out[*n] >= 0.0 && out[*n] < 1.0) || (*end && *end != ','))
            break;
        ++*n;
        if (!*end)
            return 0;
        at = end;
    }
    return dp_err_set(err, DP_EINVAL, "'%.60s' is not a list of at most %d fractions below 1", text, cap);
}

int bench_parse_granularity(const char *text, int64_t out[DP_N_GRANULARITIES], int *n, struct dp_err *err)
{
    const char *at = strcmp(text, "both") ? text : "weight,4x1";

    for (*n = 0; *n < DP_N_GRANULARITIES; at++) {
        size_t length = strcspn(at, ",");
        char name[16];

        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), at);
        out[*n] = dp_granularity_rows(name);
        if (length >= sizeof name || !out[*n])
            break;
        ++*n;
        at += length;
        if (!*at)
            return 0;
    }
    return dp_err_set(err, DP_EINVAL, "--granularity takes both, or a list of " DP_GRANULARITY_CHOICES ", not '%.60s'", text);
}

int bench_parse_clock(const char *name, clockid_t *out, struct dp_err *err)
{
    bool is_cpu = !strcmp(name, "cpu");

    if (!is_cpu && strcmp(name, "wall"))
        return dp_err_set(err, DP_EINVAL, "--clock takes wall and cpu, not '%.60s'", name);
    *out = is_cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    return 0;
}

int bench_check_clock(clockid_t clock, const int *threads, int n, struct dp_err *err)
{
    for (int i = 0; i < n && clock != CLOCK_MONOTONIC; i++)
        if (threads[i] > 1)
            return dp_err_set(err, DP_EINVAL,
                              "--clock cpu measures one thread: with several, CPU time is not a duration");
    return 0;
}
