/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration files by table (conf.h). The text goes through conf_text.c, then libconfig, then each
 * setting through conf_value.c. Nothing is read that the table or `extra` does not name, so a key that
 * is spelled wrong can never be silently ignored.
 */
#include "common/conf/conf.h"

#include <ctype.h>
#include <libconfig.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf_text.h"
#include "common/conf/conf_value.h"

const struct dp_conf_key *dp_conf_find(const struct dp_conf_key *keys, const char *section,
                                       const char *name)
{
    for (const struct dp_conf_key *k = keys; k->name; k++)
        if (!strcmp(k->section, section) && !strcmp(k->name, name))
            return k;
    return NULL;
}

/* Edit distance (Levenshtein) of two short names; long ones are cut, which is near enough for a hint. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[65];
    size_t n = strnlen(b, 64);

    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1] && i <= 64; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* An unknown key: name the nearest one, of the same section where that is as near. */
static int unknown_key(const struct dp_conf_key *keys, const char *section, const char *name,
                       struct dp_err *err)
{
    const struct dp_conf_key *best = NULL;
    unsigned least = ~0u;

    for (const struct dp_conf_key *k = keys; k->name; k++) {
        unsigned d = 2 * distance(name, k->name) + (strcmp(section, k->section) ? 1 : 0);

        if (d < least) {
            least = d;
            best = k;
        }
    }
    if (!best)
        return dp_err_set(err, DP_EINVAL, "unknown key %.64s.%.64s", section, name);
    return dp_err_set(err, DP_EINVAL, "unknown key %.64s.%.64s; the nearest known one is %s.%s", section,
                      name, best->section, best->name);
}

static int unknown_section(const struct dp_conf_key *keys, const char *const *extra, const char *name,
                           struct dp_err *err)
{
    const char *best = NULL;
    unsigned least = ~0u;

    for (const struct dp_conf_key *k = keys; k->name; k++)
        if (distance(name, k->section) < least) {
            least = distance(name, k->section);
            best = k->section;
        }
    for (; extra && *extra; extra++)
        if (distance(name, *extra) < least) {
            least = distance(name, *extra);
            best = *extra;
        }
    return dp_err_set(err, DP_EINVAL, "unknown section '%.64s'; the nearest known one is '%s'", name,
                      best ? best : "none");
}

static int put_setting(const struct dp_conf_key *key, const config_setting_t *s, void *out,
                       struct dp_err *err)
{
    char wants[300];

    switch (config_setting_type(s)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        return dp_conf_put_int(key, config_setting_get_int64(s), out, err);
    case CONFIG_TYPE_FLOAT:
        return dp_conf_put_float(key, config_setting_get_float(s), out, err);
    case CONFIG_TYPE_BOOL:
        return dp_conf_put_bool(key, config_setting_get_bool(s) != 0, out, err);
    case CONFIG_TYPE_STRING:
        return dp_conf_put_string(key, config_setting_get_string(s), out, err);
    default:
        dp_conf_wants(key, wants, sizeof wants);
        return dp_err_set(err, DP_EINVAL, "%s.%s: a group or list is not allowed; it takes %s", key->section,
                          key->name, wants);
    }
}

int dp_conf_read_group(const char *path, const struct config_setting_t *group, const char *section,
                       const struct dp_conf_key *keys, void *out, struct dp_err *err)
{
    if (!config_setting_is_group(group))
        return dp_err_set(err, DP_EINVAL, "%s:%u: %s is not a group; write %s: { ... };", path,
                          (unsigned)config_setting_source_line(group), section, section);
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
        const struct dp_conf_key *key = dp_conf_find(keys, section, config_setting_name(s));
        int rc = key ? put_setting(key, s, out, err)
                     : unknown_key(keys, section, config_setting_name(s), err);

        if (rc < 0)
            return dp_err_prefix(err, "%s:%u", path, (unsigned)config_setting_source_line(s));
    }
    return 0;
}

/* Does libconfig find its mistake in the first `bytes` of the text already? What it says of a text that just
 * ends too early is said of a line behind it. */
static bool is_wrong_within(const char *text, size_t bytes, int line)
{
    char *part = malloc(bytes + 3);
    config_t conf;
    bool is_wrong;

    if (!part)
        return false;
    memcpy(part, text, bytes);
    memcpy(part + bytes, "\n\n", 3);
    config_init(&conf);
    is_wrong = !config_read_string(&conf, part) && config_error_line(&conf) <= line;
    config_destroy(&conf);
    free(part);
    return is_wrong;
}

enum { MAX_TRIES = 200 }; /* tokens of the line that are looked at */

/* libconfig names the line of a mistake only. The token is the last one of the shortest beginning of the text
 * that it refuses there. *name: the last name up to it. NULL: the mistake is behind the last token, or the line is
 * too long to be searched. */
static const char *find_token(const char *text, int line, size_t *bytes, const char **name)
{
    const char *token, *from = text;
    int at = 1, tries = 0;

    *name = NULL;
    for (const char *p = text; (token = dp_conf_text_token(p, bytes)); p = token + *bytes) {
        for (; from < token; from++)
            at += *from == '\n';
        if (isalpha((unsigned char)*token) || *token == '*')
            *name = token;
        if (at >= line && (++tries > MAX_TRIES || is_wrong_within(text, (size_t)(token + *bytes - text), line)))
            break;
    }
    return tries > MAX_TRIES ? NULL : token;
}

static int mistake(const char *path, const char *text, int line, const char *what, struct dp_err *err)
{
    const char *name, *token;
    char shown[41] = "";
    size_t n = 0;

    token = find_token(text, line, &n, &name);
    if (token && name && strstr(what, "duplicate")) { /* it is seen at the sign behind the name */
        token = name;
        dp_conf_text_token(name, &n);
    }
    if (!token)
        return dp_err_set(err, DP_EINVAL, "%s:%d: %s%s", path, line, what,
                          n ? "" : " at the end of the file: is a } or a ) missing?");
    if (isdigit((unsigned char)*token) && token[n - 1] == 'L')
        n--; /* ours: dp_conf_text_widen() */
    for (size_t i = 0; i < n && i < sizeof shown - 1; i++)
        shown[i] = token[i] >= ' ' && token[i] < 0x7f ? token[i] : '?';
    return dp_err_set(err, DP_EINVAL, "%s:%d: %s at %s%s%s", path, line, what, *token == '"' ? "" : "'", shown,
                      *token == '"' ? "" : "'");
}

char *dp_conf_read(const char *path, dp_conf_check_fn check, struct dp_err *err)
{
    return dp_conf_text_read_checked(path, check, err);
}

int dp_conf_parse(const char *path, const char *text, struct config_t *out, struct dp_err *err)
{
    char *wide = dp_conf_text_widen(path, text, err);
    int rc = -1;

    if (wide && !config_read_string(out, wide))
        mistake(path, wide, config_error_line(out), config_error_text(out), err);
    else if (wide)
        rc = 0;
    free(wide);
    return rc;
}

static bool is_extra(const char *const *extra, const char *name)
{
    for (; extra && *extra; extra++)
        if (!strcmp(*extra, name))
            return true;
    return false;
}

static bool is_section(const struct dp_conf_key *keys, const char *name)
{
    for (; keys->name; keys++)
        if (!strcmp(keys->section, name))
            return true;
    return false;
}

static int read_root(const char *path, const config_setting_t *root, const struct dp_conf_key *keys,
                     const char *const *extra, void *out, struct dp_err *err)
{
    for (int i = 0; i < config_setting_length(root); i++) {
        const config_setting_t *s = config_setting_get_elem(root, (unsigned)i);
        const char *name = config_setting_name(s);

        if (is_section(keys, name)) {
            if (dp_conf_read_group(path, s, name, keys, out, err) < 0)
                return -1;
        } else if (!is_extra(extra, name)) {
            unknown_section(keys, extra, name, err);
            return dp_err_prefix(err, "%s:%u", path, (unsigned)config_setting_source_line(s));
        }
    }
    return 0;
}

/* Keys without a default must stand in the file. */
static int check_required(const char *path, const config_setting_t *root, const struct dp_conf_key *keys,
                          struct dp_err *err)
{
    for (const struct dp_conf_key *k = keys; k->name; k++) {
        const config_setting_t *group = config_setting_get_member(root, k->section);

        if (!k->fallback && (!group || !config_setting_get_member(group, k->name)))
            return dp_err_set(err, DP_EINVAL, "%s: %s.%s is required (%s)", path, k->section, k->name,
                              k->help);
    }
    return 0;
}

int dp_conf_load_text(const char *path, const char *text, const struct dp_conf_key *keys, const char *const *extra,
                      void *out, struct dp_err *err)
{
    config_t conf;
    int rc = -1;

    for (const struct dp_conf_key *k = keys; k->name; k++)
        if (k->fallback && dp_conf_put_text(k, k->fallback, out, err) < 0)
            return dp_err_prefix(err, "built-in default");
    if (!text)
        return 0;
    config_init(&conf);
    if (dp_conf_parse(path, text, &conf, err) == 0 &&
        read_root(path, config_root_setting(&conf), keys, extra, out, err) == 0 &&
        check_required(path, config_root_setting(&conf), keys, err) == 0)
        rc = 0;
    config_destroy(&conf);
    return rc;
}

int dp_conf_load(const char *path, const struct dp_conf_key *keys, const char *const *extra, void *out,
                 struct dp_err *err)
{
    char *text = path ? dp_conf_read(path, NULL, err) : NULL;
    int rc = path && !text ? -1 : dp_conf_load_text(path, text, keys, extra, out, err);

    free(text);
    return rc;
}

int dp_conf_set(const struct dp_conf_key *keys, const char *assignment, const char *where, void *out,
                struct dp_err *err)
{
    const char *dot = strchr(assignment, '.'), *eq = strchr(assignment, '=');
    char section[64], name[64];
    const struct dp_conf_key *key;
    int rc;

    if (!dot || !eq || dot > eq || dot - assignment >= (long)sizeof section || eq - dot > (long)sizeof name)
        return dp_err_set(err, DP_EINVAL, "%s: '%.100s' is not of the form section.key=value", where,
                          assignment);
    snprintf(section, sizeof section, "%.*s", (int)(dot - assignment), assignment);
    snprintf(name, sizeof name, "%.*s", (int)(eq - dot - 1), dot + 1);
    key = dp_conf_find(keys, section, name);
    rc = key ? dp_conf_put_text(key, eq + 1, out, err) : unknown_key(keys, section, name, err);
    return rc < 0 ? dp_err_prefix(err, "%s", where) : 0;
}

static void print_key(const struct dp_conf_key *k, FILE *out)
{
    char range[256];
    const char *quote = k->type == DP_CONF_STRING ? "\"" : "";

    dp_conf_range(k, range, sizeof range);
    fprintf(out, "    # %s", k->help ? k->help : "");
    if (range[0])
        fprintf(out, " [%s]", range);
    if (k->fallback)
        fprintf(out, "\n    %s = %s%s%s;\n", k->name, quote, k->fallback, quote);
    else
        fprintf(out, " (required)\n    # %s = ;\n", k->name);
}

void dp_conf_print(const struct dp_conf_key *keys, FILE *out)
{
    const char *section = NULL;

    for (const struct dp_conf_key *k = keys; k->name; k++) {
        if (!section || strcmp(section, k->section)) {
            fprintf(out, "%s%s: {\n", section ? "};\n\n" : "", k->section);
            section = k->section;
        }
        print_key(k, out);
    }
    if (section)
        fprintf(out, "};\n");
}
