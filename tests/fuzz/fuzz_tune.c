/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of the crossover table: it lies in a user's cache. What is read must be in range. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/autotune.h"

const char fuzz_name[] = "fuzz_tune";

static struct dp_backend *be;

static void set_up(void)
{
    if (!be)
        be = dp_backend_create("cpu", 0, 1, NULL);
    if (!be)
        fuzz_die("no backend");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct dp_tune t;

    set_up();
    if (dp_tune_load(fuzz_file(data, bytes), be, &t, NULL) < 0)
        return 0;
    if (t.n_entries > DP_TUNE_MAX)
        fuzz_die("more entries than there is room for");
    for (uint32_t i = 0; i < t.n_entries; i++)
        if (!(t.entry[i].crossover >= 0 && t.entry[i].crossover <= 1) || t.entry[i].c_out < 1 ||
            t.entry[i].c_in < 1 || t.entry[i].n < 1)
            fuzz_die("an entry is out of range");
    (void)dp_tune_is_sparse(&t, 36, 12, 10, 1, 7);
    return 0;
}

static void seed_table(const struct dp_tune *t)
{
    const char *path = fuzz_file("", 0);
    char text[65536];
    size_t n;
    FILE *f;

    if (dp_tune_save(path, be, t, NULL) < 0 || !(f = fopen(path, "re")))
        fuzz_die("a seed cannot be written");
    n = fread(text, 1, sizeof text, f);
    fclose(f);
    fuzz_seed(text, n);
}

void fuzz_make_seeds(void)
{
    struct dp_tune t = {.n_entries = 3, .entry = {{36, 12, 10, 0.5, 1}, {12, 12, 10, 1.0, 1}, {64, 32, 10, 0.5, 32}}};

    set_up();
    seed_table(&t);
    for (t.n_entries = 0; t.n_entries < DP_TUNE_MAX; t.n_entries++)
        t.entry[t.n_entries] = t.entry[0];
    seed_table(&t);
    t.n_entries = 0;
    seed_table(&t);
}
