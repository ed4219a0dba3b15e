/* SPDX-License-Identifier: BSD-3-Clause */
/* What workers tell each other around a hand-over: a note. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "worker/handover/voting.h"

const char fuzz_name[] = "fuzz_note";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t in[DP_NOTE_BYTES] = {0};
    struct dp_note n;

    memcpy(in, data, bytes < sizeof in ? bytes : sizeof in);
    if (dp_note_decode(in, 5, &n, NULL) < 0)
        return 0;
    if (strnlen(n.text, sizeof n.text) == sizeof n.text)
        fuzz_die("a text without an end");
    for (const char *p = n.text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            fuzz_die("a text with a control byte");
    return 0;
}

void fuzz_make_seeds(void)
{
    struct dp_note n = {.yes = true};
    uint8_t out[DP_NOTE_BYTES];

    dp_note_encode(out, 5, &n);
    fuzz_seed(out, sizeof out);
    n.yes = false;
    memcpy(n.text, "no memory", 10);
    dp_note_encode(out, 5, &n);
    fuzz_seed(out, sizeof out);
}
