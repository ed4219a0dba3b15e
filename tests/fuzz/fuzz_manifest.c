/* SPDX-License-Identifier: BSD-3-Clause */
/* The manifest of a checkpoint: as it is, and with its own digest mended. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "worker/checkpoint/ckpt_file.h"
#include "worker/checkpoint/ckpt_manifest.h"
#include "worker/model/layer.h"

const char fuzz_name[] = "fuzz_manifest";

#define SELF_KEY "\"sha256_of_this_file\": \""
#define HEX_BYTES (2 * DP_DIGEST_BYTES)

static struct dp_train_config config;

static void set_up(void)
{
    static bool is_done;

    if (!is_done && dp_train_config_load(NULL, 0, NULL, &config, NULL) < 0)
        fuzz_die("no default configuration");
    config.model.blocks = 2;
    is_done = true;
}

static void read_manifest(const void *data, size_t bytes)
{
    struct dp_ckpt_manifest *m = dp_ckpt_manifest_read(fuzz_file(data, bytes), &config, NULL);

    if (m && m->tune.n_entries > DP_TUNE_MAX)
        fuzz_die("more entries of the tune table than there is room for");
    for (uint32_t i = 0; m && i < m->tune.n_entries; i++)
        if (!(m->tune.entry[i].crossover >= 0 && m->tune.entry[i].crossover <= 1) || m->tune.entry[i].c_out < 1 ||
            m->tune.entry[i].c_in < 1 || m->tune.entry[i].n < 1)
            fuzz_die("an entry of the tune table is out of range");
    free(m);
}

static void mend(char *text)
{
    char *at = strstr(text, SELF_KEY), hex[HEX_BYTES + 1];
    uint8_t digest[DP_DIGEST_BYTES];

    if (!at || strlen(at) < strlen(SELF_KEY) + HEX_BYTES)
        return;
    at += strlen(SELF_KEY);
    memset(at, '0', HEX_BYTES);
    if (dp_ckpt_sha256(text, strlen(text), digest, NULL) < 0)
        return;
    dp_ckpt_hex(digest, hex);
    memcpy(at, hex, HEX_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);

    set_up();
    read_manifest(data, bytes);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    mend(text);
    read_manifest(text, bytes);
    free(text);
    return 0;
}

void fuzz_make_seeds(void)
{
    struct dp_ckpt_manifest *m = calloc(1, sizeof *m);
    char *text;

    set_up();
    if (!m)
        fuzz_die("out of memory");
    m->step = 40;
    m->tune = (struct dp_tune){.n_entries = 2, .entry = {{36, 12, 10, 0.5, 1}, {12, 12, 10, 1.0, 1}}};
    for (uint32_t i = 0; i < dp_model_layers(&config); i++) {
        m->entry[i].bytes = 1000 + i;
        memset(m->entry[i].digest, (int)i, DP_DIGEST_BYTES);
    }
    text = dp_ckpt_manifest_encode(&config, m, NULL);
    if (!text)
        fuzz_die("a seed cannot be written");
    fuzz_seed_text(text);
    free(text);
    free(m);
}
