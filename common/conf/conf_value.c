/* SPDX-License-Identifier: BSD-3-Clause */
/* One value against its entry of the table (conf_value.h): type, range, choices, room.
 *
 * A bound of 1e18 or more means "no bound" to people: it is left out of messages.
 */
#include "common/conf/conf_value.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_BOUND 1e18 /* beyond every bound in a table, and still exact enough to compare with */

void dp_conf_range(const struct dp_conf_key *key, char *out, size_t cap)
{
    bool low = key->min > -NO_BOUND, high = key->max < NO_BOUND;

    out[0] = '\0';
    if (key->type == DP_CONF_BOOL)
        snprintf(out, cap, "true or false");
    else if (key->type == DP_CONF_STRING)
        snprintf(out, cap, "%s", key->choices ? key->choices : "");
    else if (low && high)
        snprintf(out, cap, "%.12g to %.12g", key->min, key->max);
    else if (low)
        snprintf(out, cap, "%.12g or more", key->min);
    else if (high)
        snprintf(out, cap, "%.12g or less", key->max);
}

void dp_conf_wants(const struct dp_conf_key *key, char *out, size_t cap)
{
    static const char *const kind[] = {"an integer", "a number", "true or false", "a text"};
    char range[256];

    dp_conf_range(key, range, sizeof range);
    if (key->type == DP_CONF_BOOL || !range[0])
        snprintf(out, cap, "%s", kind[key->type]);
    else if (key->type == DP_CONF_STRING)
        snprintf(out, cap, "one of %s", range);
    else
        snprintf(out, cap, "%s, %s", kind[key->type], range);
}

static int refuse(const struct dp_conf_key *key, const char *value, struct dp_err *err)
{
    char wants[300];

    dp_conf_wants(key, wants, sizeof wants);
    return dp_err_set(err, DP_EINVAL, "%s.%s: %.100s is not allowed; it takes %s", key->section, key->name,
                      value, wants);
}

int dp_conf_put_int(const struct dp_conf_key *key, int64_t v, void *out, struct dp_err *err)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)v);
    if (key->type == DP_CONF_FLOAT)
        return dp_conf_put_float(key, (double)v, out, err);
    if (key->type != DP_CONF_INT || (double)v < key->min || (double)v > key->max)
        return refuse(key, text, err);
    memcpy((char *)out + key->offset, &v, sizeof v);
    return 0;
}

int dp_conf_put_float(const struct dp_conf_key *key, double v, void *out, struct dp_err *err)
{
    char text[32];

    snprintf(text, sizeof text, "%.12g", v);
    if (key->type != DP_CONF_FLOAT || !isfinite(v) || v < key->min || v > key->max)
        return refuse(key, text, err);
    memcpy((char *)out + key->offset, &v, sizeof v);
    return 0;
}

int dp_conf_put_bool(const struct dp_conf_key *key, bool v, void *out, struct dp_err *err)
{
    if (key->type != DP_CONF_BOOL)
        return refuse(key, v ? "true" : "false", err);
    memcpy((char *)out + key->offset, &v, sizeof v);
    return 0;
}

/* Is text one of "a|b|c"? */
static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);

    for (const char *p = choices; len; p++) {
        size_t n = strcspn(p, "|");

        if (n == len && !strncmp(p, text, n))
            return true;
        p += n;
        if (!*p)
            break;
    }
    return false;
}

int dp_conf_put_string(const struct dp_conf_key *key, const char *v, void *out, struct dp_err *err)
{
    char *to = (char *)out + key->offset;
    size_t len = strlen(v);

    if (key->type != DP_CONF_STRING || (key->choices && !is_choice(key->choices, v))) {
        char quoted[128];

        snprintf(quoted, sizeof quoted, "'%.100s'", v);
        return refuse(key, quoted, err);
    }
    if (len >= key->size)
        return dp_err_set(err, DP_EINVAL, "%s.%s: %zu bytes is too long; at most %zu fit", key->section,
                          key->name, len, key->size - 1);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)v[i] < 0x20 || v[i] == 0x7f)
            return dp_err_set(err, DP_EINVAL, "%s.%s: control characters are not allowed", key->section, key->name);
    memset(to, 0, key->size); /* equal configurations are equal bytes */
    memcpy(to, v, len);
    return 0;
}

int dp_conf_put_text(const struct dp_conf_key *key, const char *text, void *out, struct dp_err *err)
{
    char *end = NULL;

    errno = 0;
    if (key->type == DP_CONF_STRING)
        return dp_conf_put_string(key, text, out, err);
    if (key->type == DP_CONF_BOOL) {
        if (strcmp(text, "true") && strcmp(text, "false"))
            return refuse(key, text, err);
        return dp_conf_put_bool(key, text[0] == 't', out, err);
    }
    if (key->type == DP_CONF_INT) {
        long long v = strtoll(text, &end, 10);

        if (end == text || *end || errno == ERANGE)
            return refuse(key, text, err);
        return dp_conf_put_int(key, v, out, err);
    }
    double v = strtod(text, &end);

    if (end == text || *end)
        return refuse(key, text, err);
    return dp_conf_put_float(key, v, out, err);
}
