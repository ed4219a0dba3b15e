/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration text: the daemon's file, a run's file, and an override of one key. The first byte of
 * an input says which. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/conf/conf_text.h"
#include "common/site/daemon_config.h"
#include "worker/model/train_config.h"

const char fuzz_name[] = "fuzz_conf";

/* libconfig's lexer loses the string that it was reading when a syntax error comes; our programs end
 * after one. Only what the lexer itself allocates is left out: a configuration that we forget to
 * destroy is still a leak. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:strbuf_append\nleak:libconfig_yylex\n";
}

static void read_daemon(const char *path)
{
    struct dp_msg_step_start asked = {.options_set = 0xff, .mode = 3, .policy = "time", .max_slowdown = 50};
    struct dp_config *c = dp_config_load(path, "n0", NULL);
    struct dp_run_limits limits;
    char note[256];

    if (c)
        dp_config_limits(c, "gpu", &asked, &limits, note);
    dp_config_destroy(c);
}

static void read_run(const char *path)
{
    static struct dp_train_config c;

    if (dp_train_config_load(path, 0, NULL, &c, NULL) == 0 && dp_train_config_check(&c, NULL) < 0)
        fuzz_die("a configuration was loaded that does not pass its own check");
}

static void read_override(const uint8_t *data, size_t bytes)
{
    static struct dp_train_config c;
    char text[512];
    char *const overrides[] = {text};

    if (bytes >= sizeof text)
        bytes = sizeof text - 1;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    (void)dp_train_config_load(NULL, 1, overrides, &c, NULL);
}

static void widen(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1), *wide;

    if (!text)
        return;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    wide = dp_conf_text_widen("fuzz", text, NULL);
    free(wide);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    switch (data[0]) {
    case 'd':
        read_daemon(fuzz_file(data + 1, bytes - 1));
        break;
    case 'r':
        read_run(fuzz_file(data + 1, bytes - 1));
        break;
    case 'o':
        read_override(data + 1, bytes - 1);
        break;
    default:
        widen(data + 1, bytes - 1);
    }
    return 0;
}

static void seed_print(char which, void (*print)(FILE *))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    if (!f)
        fuzz_die("out of memory");
    fputc(which, f);
    print(f);
    fclose(f);
    fuzz_seed(text, bytes);
    free(text);
}

static void print_run(FILE *out)
{
    dp_conf_print(dp_train_config_keys(), out);
}

void fuzz_make_seeds(void)
{
    seed_print('d', dp_config_print);
    seed_print('r', print_run);
    fuzz_seed_text("drun = { max_mode = \"observe\"; cooldown_s = 60.0; };\n"
                   "partitions = ( { name = \"gpu\"; max_mode = \"release\"; min_devices = 2; } );\n"
                   "nodes = ( { name = \"n1\"; address = \"127.0.0.1\"; port = 6831; } );\n");
    fuzz_seed_text("rmodel = { blocks = 2; channels = 12; heads = 3; context = 5; vocabulary = 17; };\n"
                   "train = { steps = 20; lr = 3e-4; }; # comment\n");
    fuzz_seed_text("omodel.blocks=12");
    fuzz_seed_text("oprune.final=0.9");
    fuzz_seed_text("wa = 1; b = 0x7fL; c = [1, -2]; /* c */ s = \"\\\"1\"; d = 1.5e3;");
}
