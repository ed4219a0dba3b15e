/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout as text, from a command of a user. What is accepted is valid and prints as it parses. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/run/megatron.h"

const char fuzz_name[] = "fuzz_layout";

static struct dp_layout current(void)
{
    struct dp_layout l = {.epoch = 3, .n_workers = 4, .n_layers = 12, .cut = {0, 3, 6, 9, 12}};

    return l;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct dp_layout now = current(), l, again;
    struct dp_megatron m;
    char text[1024], printed[1024];

    if (bytes >= sizeof text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (dp_megatron_parse(text, &m, NULL) == 0 && (m.n_stages < 1 || m.n_stages > DP_MAX_WORKERS))
        fuzz_die("stages out of range");
    if (dp_layout_parse(text, &now, &l, NULL) < 0)
        return 0;
    if (dp_layout_check(&l, NULL) < 0)
        fuzz_die("a layout was accepted that does not pass the check");
    dp_layout_format(&l, printed, sizeof printed);
    if (dp_layout_parse(printed, &now, &again, NULL) < 0 || memcmp(&again, &l, sizeof l))
        fuzz_die("a layout does not read back from its own text");
    dp_megatron_format(&l, printed, sizeof printed);
    if (dp_layout_parse(printed, &now, &again, NULL) < 0 || memcmp(&again, &l, sizeof l))
        fuzz_die("a layout does not read back from Megatron's text");
    return 0;
}

void fuzz_make_seeds(void)
{
    static const char *const more[] = {"0-11|-|-|-", "0|1-10|11|-", "-|-|0-5|6-11", "x|0-3|4-8|9-11",
                                       "Et*3|(t,t|)*2t*3L", "E(t|)*3t*7,L", "Et||t*9|L"};
    struct dp_layout now = current();
    char text[1024];

    dp_layout_format(&now, text, sizeof text);
    fuzz_seed_text(text);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        fuzz_seed_text(more[i]);
}
