/* SPDX-License-Identifier: BSD-3-Clause */
/* Under libFuzzer: with FUZZ_SEEDS=FOLDER the program writes its seeds there and ends. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *to = getenv("FUZZ_SEEDS");

    (void)argc;
    (void)argv;
    if (to) {
        fuzz_make_seeds();
        exit(fuzz_write_seeds(to) < 0);
    }
    return 0;
}
