/* SPDX-License-Identifier: BSD-3-Clause */
/* See units.h. */
#include "cli/show/units.h"

#include <stdio.h>
#include <string.h>

#include "cli/show/text.h"

static const char *const endings[] = {"_ns", "_us", "_ms", "_s", "_bytes", "_percent"};

static const char *ending_of(const char *key)
{
    size_t n = strlen(key);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);

        if (n > k && !strcmp(key + n - k, endings[i]))
            return endings[i];
    }
    return "";
}

/* The key's own words, without its unit. */
static void shorten(char *out, size_t cap, const char *key)
{
    size_t n = strlen(key) - strlen(ending_of(key));

    if (strstr(key, "_per_s"))
        n = strlen(key);
    dp_text_clean(out, cap, key);
    if (n < strlen(out))
        out[n] = '\0';
    for (char *p = out; *p; p++) {
        if (*p == '_')
            *p = ' ';
    }
}

/* Keys whose own words would say too little. */
static const struct {
    const char *key, *label;
} known[] = {
    {"current_ms", "predicted now"},   {"proposed_ms", "predicted then"}, {"limit_ms", "predicted limit"},
    {"fastest_ms", "predicted best"}, {"measured_ms", "measured step"}, {"expected_ms", "expected step"},
    {"allowed_ms", "allowed step"},    {"gain_percent", "gain a step"},  {"gain_s", "gain to the end"},
    {"cost_s", "hand-over costs"},     {"saved_slot_s", "node time saved"}, {"slots_now", "nodes now"},
    {"slots_after", "nodes after"},    {"moved_bytes", "bytes moved"},   {"moved_layers", "layers moved"},
    {"pack_reason", "packing:"},       {"policy_reason", "policy:"},     {"release_reason", "release:"},
};

void dp_units_label(char *out, size_t cap, const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(known[i].key, key)) {
            snprintf(out, cap, "%s", known[i].label);
            return;
        }
    }
    shorten(out, cap, key);
}
void dp_units_value(char *out, size_t cap, const char *key, const json_t *value)
{
    const char *end = ending_of(key);
    double v = json_number_value(value);

    if (cap)
        out[0] = '\0';
    if (json_is_string(value))
        dp_text_clean(out, cap, json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(out, cap, "%s", json_is_true(value) ? "yes" : "no");
    else if (!json_is_number(value))
        return;
    else if (!strcmp(end, "_percent"))
        snprintf(out, cap, "%.1f %%", v);
    else if (!strcmp(end, "_bytes"))
        dp_text_bytes(out, cap, v);
    else if (!strcmp(end, "_ns") || !strcmp(end, "_us") || !strcmp(end, "_ms"))
        dp_text_seconds(out, cap, v / (end[1] == 'n' ? 1e9 : end[1] == 'u' ? 1e6 : 1e3));
    else if (!strcmp(end, "_s") && !strstr(key, "_per_s"))
        dp_text_seconds(out, cap, v);
    else
        dp_text_count(out, cap, v);
}
