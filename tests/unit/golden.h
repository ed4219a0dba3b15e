/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that hold an encoder to bytes written down as hexadecimal digits. */
#ifndef DP_TESTS_UNIT_GOLDEN_H
#define DP_TESTS_UNIT_GOLDEN_H

#include "tests/unit/unit.h"

/* Digits to bytes. returns how many; out has room for them. */
static inline size_t unhex(const char *text, uint8_t *out)
{
    size_t n = strlen(text) / 2;

    assert_int_equal(strlen(text) % 2, 0);
    assert_int_equal(strspn(text, "0123456789abcdef"), strlen(text));
    for (size_t i = 0; i < n; i++) {
        char two[3] = {text[2 * i], text[2 * i + 1], '\0'};

        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}

/* Fails with the name of a message or record, the first byte that differs, and all that was found. */
static inline void same_bytes(const char *name, const uint8_t *is, size_t n_is, const uint8_t *should, size_t n_should)
{
    size_t at = 0;

    while (at < n_is && at < n_should && is[at] == should[at])
        at++;
    if (at == n_is && at == n_should)
        return;
    fprintf(stderr, "%s is encoded as\n    \"", name);
    for (size_t i = 0; i < n_is; i++)
        fprintf(stderr, "%02x%s", is[i], i + 1 == n_is ? "\"\n" : i % 32 == 31 ? "\"\n    \"" : "");
    if (at < n_is && at < n_should)
        fail_msg("%s: byte %zu is 0x%02x, should be 0x%02x", name, at, is[at], should[at]);
    fail_msg("%s: %zu bytes, should be %zu; the first %zu agree", name, n_is, n_should, at);
}

#endif
