/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of weights: whatever is in them, a network that is taken has numbers that can be computed with. The checksum is set
 * right first, else few inputs would come further. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "policies/learn/net/weights.h"

const char fuzz_name[] = "fuzz_weights";

static void look(const uint8_t *data, size_t bytes)
{
    struct dp_weights w;

    if (dp_weights_parse("input", data, bytes, &w, NULL) == 0) {
        if (w.n < 1 || w.n > DP_WEIGHTS_MOST)
            fuzz_die("a file with no networks, or too many, was taken");
        for (uint32_t i = 0; i < w.n; i++)
            if (!(w.kind == DP_WEIGHTS_PARTS ? dp_cutter_check(&w.cutter[i]) : dp_net_check(&w.net[i])))
                fuzz_die("a number that is none was taken");
    }
    dp_weights_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    uint32_t crc;

    look(data, bytes);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    if (bytes >= 4) {
        crc = dp_crc32c(0, copy, bytes - 4);
        for (int i = 0; i < 4; i++)
            copy[bytes - 4 + (size_t)i] = (uint8_t)(crc >> 8 * i);
        look(copy, bytes);
    }
    free(copy);
    return 0;
}

void fuzz_make_seeds(void)
{
    static struct dp_net net[2];
    static struct dp_cutter cutter;
    struct dp_weights w = {.seed = 5, .net = net}, parts = {.kind = DP_WEIGHTS_PARTS, .n = 1, .seed = 5, .cutter = &cutter};
    char *data;
    size_t bytes;

    dp_net_init(&net[0], 1);
    dp_net_init(&net[1], 2);
    for (w.n = 1; w.n <= 2; w.n++) {
        if (dp_weights_encode(&w, &data, &bytes, NULL) < 0)
            fuzz_die("a seed cannot be written");
        fuzz_seed(data, bytes);
        free(data);
    }
    dp_cutter_init(&cutter, 1);
    if (dp_weights_encode(&parts, &data, &bytes, NULL) < 0)
        fuzz_die("a seed cannot be written");
    fuzz_seed(data, bytes);
    free(data);
}
