/* SPDX-License-Identifier: BSD-3-Clause */
/* See options.h. Numbers are read digit by digit: strtod would follow the user's locale, and strtol
 * takes blanks, signs and hexadecimal that nobody means. Nothing here allocates, and nothing takes
 * time that grows with a number. */
#include "common/conf/options.h"

#include <stdio.h>
#include <string.h>

#define MODES "off, observe, balance, release"

const struct dp_option_def dp_option_defs[DP_OPTION_COUNT] = {
    {DP_OPT_MODE, "dynpipe", "MODE", "mode", "DYNPIPE_MODE",
     "[dynpipe] what DynPipe may do in this job: off, observe (measure only), balance (move layers), "
     "release (also give nodes back); without MODE: what the site chose",
     true},
    {DP_OPT_POLICY, "dynpipe-policy", "NAME", "policy", "DYNPIPE_POLICY",
     "[dynpipe] policy that places the layers", false},
    {DP_OPT_MIN_GPUS, "dynpipe-min-gpus", "N", "min-gpus", "DYNPIPE_MIN_GPUS",
     "[dynpipe] never keep fewer devices (GPUs) than N", false},
    {DP_OPT_MAX_SLOWDOWN, "dynpipe-max-slowdown", "PERCENT", "max-slowdown", "DYNPIPE_MAX_SLOWDOWN",
     "[dynpipe] how much later the run may end than without DynPipe, in percent", false},
    {DP_OPT_REFERENCE, "dynpipe-reference", "fixed|start|best", "reference", "DYNPIPE_REFERENCE",
     "[dynpipe] hold the time without DynPipe, the speed of the start, or the best layout on all devices", false},
    {DP_OPT_STALL_END, "dynpipe-stall-end", "MINUTES", "stall-end", "DYNPIPE_STALL_END",
     "[dynpipe] end the job and put it back into the queue when it is stalled for MINUTES", false},
    {DP_OPT_MEMORY, "dynpipe-memory", "off|PERCENT", "memory", "DYNPIPE_MEMORY",
     "[dynpipe] also give host memory back that pruning frees; PERCENT more than is needed stays", true},
    {DP_OPT_SLICES, "dynpipe-slices", "N", "slices", "DYNPIPE_SLICES",
     "[dynpipe] the tasks of this job array, N jobs of one worker each, are one run", false},
    {DP_OPT_MAX_GPUS, "dynpipe-max-gpus", "N", "max-gpus", "DYNPIPE_MAX_GPUS",
     "[dynpipe] a run of slices may ask for more of them when it needs them, up to N GPUs", false},
    {DP_OPT_COPIES, "dynpipe-copies", "0|1", "copies", "DYNPIPE_COPIES",
     "[dynpipe] 1: each layer has a copy in the memory of a worker on another node, so that a lost node costs no step", false},
};

const char *dp_option_quoted(const char *text, char out[48])
{
    size_t n = 0;

    for (; text[n] && n < 40; n++)
        out[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
    snprintf(out + n, 48 - n, "%s", text[n] ? "..." : "");
    return out;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int parse_count(const char *text, uint32_t max, uint32_t *out)
{
    uint32_t v = 0;
    size_t n = strnlen(text, 7);

    if (n < 1 || n > 6)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text[i]))
            return -1;
        v = v * 10 + (uint32_t)(text[i] - '0');
    }
    if (v < 1 || v > max)
        return -1;
    *out = v;
    return 0;
}

/* "7", "7.5", "0.125": at most three digits before and six behind the point. */
static int parse_percent(const char *text, double *out)
{
    uint32_t whole = 0, millionths = 0, unit = 1000000;
    const char *p = text;

    for (; is_digit(*p) && p - text < 3; p++)
        whole = whole * 10 + (uint32_t)(*p - '0');
    if (p == text)
        return -1;
    if (*p == '.') {
        const char *fraction = ++p;
        for (; is_digit(*p) && p - fraction < 6; p++) {
            unit /= 10;
            millionths += unit * (uint32_t)(*p - '0');
        }
        if (p == fraction)
            return -1;
    }
    if (*p || whole > 100 || (whole == 100 && millionths > 0))
        return -1;
    *out = whole + millionths / 1e6;
    return 0;
}

static bool is_policy_name(const char *text)
{
    size_t n = strnlen(text, 64);

    if (n < 1 || n > 63)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_digit(text[i]) && !(text[i] >= 'a' && text[i] <= 'z') && text[i] != '_' && text[i] != '-')
            return false;
    return true;
}

/* Is `name` one of the names in `list`, which commas separate? An empty list names all. */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    if (!*list)
        return true;
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ",");
        if (len == n && !memcmp(p, name, n))
            return true;
        p += len;
        if (!*p)
            return false;
    }
}

static int set_mode(struct dp_msg_step_start *o, const char *text, const struct dp_plugin_args *args,
                    struct dp_err *err)
{
    char q[48];
    int mode;

    /* A plain --dynpipe reaches srun as NULL, slurmstepd as "" and the inside of a batch job as
     * "(null)", because Slurm prints the missing value into a variable. */
    if (!text || !*text || !strcmp(text, "(null)"))
        mode = args->default_mode;
    else
        mode = dp_mode_parse(text);
    if (mode < 0)
        return dp_err_set(err, DP_EINVAL, "'%s' is not a known mode; allowed: " MODES, dp_option_quoted(text, q));
    o->mode = (uint8_t)mode;
    return 0;
}

static int set_policy(struct dp_msg_step_start *o, const char *text, const struct dp_plugin_args *args,
                      struct dp_err *err)
{
    char q[48];

    if (!is_policy_name(text))
        return dp_err_set(err, DP_EINVAL, "'%s' is not a valid policy name; allowed: 1 to 63 characters of a-z 0-9 _ -%s%s",
                          dp_option_quoted(text, q), *args->policies ? "; this site has " : "", args->policies);
    if (!is_listed(args->policies, text))
        return dp_err_set(err, DP_EINVAL, "unknown policy '%s'; allowed: %s", dp_option_quoted(text, q), args->policies);
    memset(o->policy, 0, sizeof o->policy);
    memcpy(o->policy, text, strlen(text));
    return 0;
}

static int set_reference(struct dp_msg_step_start *o, const char *text, struct dp_err *err)
{
    char q[48];
    int reference = dp_reference_parse(text);

    if (reference < 0)
        return dp_err_set(err, DP_EINVAL, "'%s' is not a known reference; allowed: fixed, start, best", dp_option_quoted(text, q));
    o->reference = (uint8_t)reference;
    return 0;
}

/* Without a value: as in set_mode(). */
static int set_memory(struct dp_msg_step_start *o, const char *text, struct dp_err *err)
{
    uint32_t percent = DP_MEMORY_ON;
    char q[48];

    if (text && !strcmp(text, "off"))
        percent = 0;
    else if (text && *text && strcmp(text, "(null)") != 0 && strcmp(text, "on") != 0 &&
             parse_count(text, DP_MEMORY_MARGIN_MAX, &percent) < 0)
        return dp_err_set(err, DP_EINVAL, "'%s' is not a valid memory margin; allowed: off, on, 1 to %u (percent)",
                          dp_option_quoted(text, q), DP_MEMORY_MARGIN_MAX);
    o->memory = percent;
    return 0;
}

static int set_copies(struct dp_msg_step_start *o, const char *text, struct dp_err *err)
{
    char q[48];

    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return dp_err_set(err, DP_EINVAL,
                          "'%s' is not a valid number of copies; allowed: 0, 1 (one copy outlives one lost node; where two are lost "
                          "at once, the newest checkpoint is taken)", dp_option_quoted(text, q));
    o->copies = *text == '1';
    return 0;
}

static int set_value(struct dp_msg_step_start *o, uint32_t bit, const char *text,
                     const struct dp_plugin_args *args, struct dp_err *err)
{
    uint32_t minutes;
    char q[48];

    switch (bit) {
    case DP_OPT_MODE:
        return set_mode(o, text, args, err);
    case DP_OPT_POLICY:
        return set_policy(o, text, args, err);
    case DP_OPT_REFERENCE:
        return set_reference(o, text, err);
    case DP_OPT_MIN_GPUS:
        if (parse_count(text, DP_MAX_WORKERS, &o->min_gpus) < 0)
            return dp_err_set(err, DP_EINVAL, "'%s' is not a valid number of GPUs; allowed: 1 to %d",
                              dp_option_quoted(text, q), DP_MAX_WORKERS);
        return 0;
    case DP_OPT_STALL_END:
        if (parse_count(text, DP_STALL_END_MAX_MIN, &minutes) < 0)
            return dp_err_set(err, DP_EINVAL, "'%s' is not a valid number of minutes; allowed: 1 to %d",
                              dp_option_quoted(text, q), DP_STALL_END_MAX_MIN);
        o->stall_end_s = minutes * 60;
        return 0;
    case DP_OPT_SLICES:
        if (parse_count(text, DP_MAX_WORKERS, &o->slices) < 0)
            return dp_err_set(err, DP_EINVAL, "'%s' is not a valid number of slices; allowed: 1 to %d", dp_option_quoted(text, q),
                              DP_MAX_WORKERS);
        return 0;
    case DP_OPT_MAX_GPUS:
        if (parse_count(text, DP_MAX_WORKERS, &o->max_gpus) < 0)
            return dp_err_set(err, DP_EINVAL, "'%s' is not a valid number of GPUs; allowed: 1 to %d", dp_option_quoted(text, q),
                              DP_MAX_WORKERS);
        return 0;
    case DP_OPT_MEMORY:
        return set_memory(o, text, err);
    case DP_OPT_COPIES:
        return set_copies(o, text, err);
    case DP_OPT_MAX_SLOWDOWN:
        if (parse_percent(text, &o->max_slowdown) < 0)
            return dp_err_set(err, DP_EINVAL, "'%s' is not a valid percentage; allowed: 0 to 100", dp_option_quoted(text, q));
        return 0;
    default:
        return dp_err_set(err, DP_EINVAL, "unknown option");
    }
}

int dp_option_set(struct dp_msg_step_start *o, const struct dp_option_def *def, const char *text,
                  const struct dp_plugin_args *args, struct dp_err *err)
{
    if (text && strnlen(text, DP_VALUE_MAX + 1) > DP_VALUE_MAX)
        return dp_err_set(err, DP_EINVAL, "value longer than %d bytes", DP_VALUE_MAX);
    if (!text && !def->is_value_optional)
        return dp_err_set(err, DP_EINVAL, "a value is missing");
    if (set_value(o, def->bit, text, args, err) < 0)
        return -1;
    o->options_set |= def->bit;
    return 0;
}

int dp_option_value(const struct dp_msg_step_start *o, const struct dp_option_def *def, char *out, size_t cap)
{
    int n = -1;

    if (!(o->options_set & def->bit))
        return -1;
    switch (def->bit) {
    case DP_OPT_MODE:
        n = snprintf(out, cap, "%s", dp_mode_name(o->mode));
        break;
    case DP_OPT_POLICY:
        n = snprintf(out, cap, "%s", o->policy);
        break;
    case DP_OPT_REFERENCE:
        n = snprintf(out, cap, "%s", dp_reference_name(o->reference));
        break;
    case DP_OPT_MIN_GPUS:
        n = snprintf(out, cap, "%u", o->min_gpus);
        break;
    case DP_OPT_SLICES:
        n = snprintf(out, cap, "%u", o->slices);
        break;
    case DP_OPT_MAX_GPUS:
        n = snprintf(out, cap, "%u", o->max_gpus);
        break;
    case DP_OPT_COPIES:
        n = snprintf(out, cap, "%u", o->copies);
        break;
    case DP_OPT_STALL_END:
        n = snprintf(out, cap, "%u", o->stall_end_s / 60);
        break;
    case DP_OPT_MEMORY:
        if (o->memory == 0 || o->memory == DP_MEMORY_ON)
            n = snprintf(out, cap, "%s", o->memory ? "on" : "off");
        else
            n = snprintf(out, cap, "%u", o->memory);
        break;
    case DP_OPT_MAX_SLOWDOWN: {
        /* Not %f: the decimal point would follow the locale. */
        uint32_t millionths = (uint32_t)(o->max_slowdown * 1e6 + 0.5);
        n = snprintf(out, cap, "%u.%06u", millionths / 1000000, millionths % 1000000);
        break;
    }
    }
    return n >= 0 && (size_t)n < cap ? 0 : -1;
}

int dp_options_format(const struct dp_msg_step_start *o, char *out, size_t cap)
{
    size_t used = 0;
    char value[80];

    out[0] = 0;
    for (size_t i = 0; i < DP_OPTION_COUNT; i++) {
        if (dp_option_value(o, &dp_option_defs[i], value, sizeof value) < 0)
            continue;
        int n = snprintf(out + used, cap - used, "%s%s=%s", used ? "," : "", dp_option_defs[i].key, value);
        if (n < 0 || (size_t)n >= cap - used)
            return -1;
        used += (size_t)n;
    }
    return 0;
}

static const struct dp_option_def *find_key(const char *key, size_t len)
{
    for (size_t i = 0; i < DP_OPTION_COUNT; i++)
        if (strlen(dp_option_defs[i].key) == len && !memcmp(dp_option_defs[i].key, key, len))
            return &dp_option_defs[i];
    return NULL;
}

/* One "key=value" of n bytes. */
static int parse_item(const char *item, size_t n, const struct dp_plugin_args *args, struct dp_msg_step_start *o,
                      struct dp_err *err)
{
    char value[80];
    const char *eq = memchr(item, '=', n);
    const struct dp_option_def *def = eq ? find_key(item, (size_t)(eq - item)) : NULL;
    size_t len = eq ? n - (size_t)(eq - item) - 1 : 0;

    if (!def || len < 1 || len >= sizeof value || (o->options_set & def->bit))
        return dp_err_set(err, DP_EINVAL, "the job's options cannot be read");
    memcpy(value, eq + 1, len);
    value[len] = 0;
    return dp_option_set(o, def, value, args, err);
}

int dp_options_parse(const char *text, const struct dp_plugin_args *args, struct dp_msg_step_start *o,
                     struct dp_err *err)
{
    const char *p = text;

    memset(o, 0, sizeof *o);
    if (strnlen(text, DP_SPEC_MAX) >= DP_SPEC_MAX)
        return dp_err_set(err, DP_EINVAL, "the job's options are too long");
    for (;;) {
        size_t n = strcspn(p, ",");
        if (parse_item(p, n, args, o, err) < 0) {
            memset(o, 0, sizeof *o);
            return -1;
        }
        p += n;
        if (!*p++)
            break;
    }
    if (!(o->options_set & DP_OPT_MODE)) {
        memset(o, 0, sizeof *o);
        return dp_err_set(err, DP_EINVAL, "the job's options name no mode");
    }
    return 0;
}
