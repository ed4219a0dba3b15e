/* SPDX-License-Identifier: BSD-3-Clause */
/* The training configuration: defaults are sound, etc/ lists every key as the table has it, and what
 * two keys together get wrong is refused. */
#include "worker/scheme/scheme.h"

#include "common/conf/conf.h"
#include "kernels/granularity.h"
#include "tests/unit/unit.h"

static void in_etc(char *out, size_t cap, const char *name)
{
    const char *src = getenv("DP_SRCDIR");

    snprintf(out, cap, "%s/etc/%s", src ? src : ".", name);
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 16);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

static void etc_lists_every_key(void **state)
{
    static const char *const names[] = {"gpt-prune.conf", "gpt2-124m.conf"};
    struct dp_conf_key all[128];
    struct dp_train_config c;
    struct dp_err err = {0};
    char path[1200];
    size_t n = 0;

    (void)state;
    for (const struct dp_conf_key *k = dp_train_config_keys(); k->name; k++) {
        all[n] = *k;
        all[n++].fallback = NULL; /* required: the file must have it */
    }
    memset(&all[n], 0, sizeof all[n]);
    for (size_t i = 0; i < 2; i++) {
        char *text;

        in_etc(path, sizeof path, names[i]);
        memset(&c, 0, sizeof c);
        if (dp_conf_load(path, all, NULL, &c, &err) < 0 || dp_train_config_check(&c, &err) < 0)
            fail_msg("%s", err.text);
        text = slurp(path);
        for (size_t k = 0; k < n; k++)
            if (!strstr(text, all[k].help))
                fail_msg("%s: %s.%s is not explained as in the table", path, all[k].section, all[k].name);
        free(text);
    }
}

static void etc_holds_the_defaults(void **state)
{
    struct dp_train_config defaults, c;
    struct dp_err err = {0};
    char path[1200];

    (void)state;
    in_etc(path, sizeof path, "gpt-prune.conf");
    assert_int_equal(dp_train_config_load(NULL, 0, NULL, &defaults, &err), 0);
    assert_int_equal(dp_train_config_load(path, 0, NULL, &c, &err), 0);
    assert_true(c.prune.end > c.prune.begin);
    assert_true(c.data.path[0] != '\0');
    c.prune.begin = defaults.prune.begin; /* the three that the file's head names */
    c.prune.end = defaults.prune.end;
    memcpy(c.data.path, defaults.data.path, sizeof c.data.path);
    assert_memory_equal(&c, &defaults, sizeof c);
}

/* As dynpipe-worker does. */
static int load(int n, char *const overrides[], struct dp_train_config *out, struct dp_err *err)
{
    struct dp_train_config c;

    if (dp_train_config_load(NULL, n, overrides, &c, err) < 0 || dp_schemes_check(&c, err) < 0)
        return -1;
    *out = c;
    return 0;
}

static void cross_checks(void **state)
{
    static const char *const bad[][2] = {
        {"model.heads=3", "do not divide"},        {"prune.begin=5", "after prune.end"},
        {"prune.end=601", "after the last step"},  {"prune.final=1", "0 to 0.9999"},
        {"prune.initial=0.95", "more than"},       {"prune.every=0", "1 to"},
        {"train.microbatches=0", "1 to"},          {"train.batch=0", "1 to"},
        {"train.min_lr=0.5", "more than train.lr"}, {"checkpoint.every=5", "requires checkpoint.dir"},
        {"checkpoint.resume=", "not be empty"},       {"data.validation=0", "leaves nothing"},
        {"model.context=0", "1 to"},               {"train.seed=-1", "0"},
        {"train.steps=many", "an integer"},        {"pipeline.backend=gpu", "cpu|cuda"},
        {"model.vocabulary=1", "2 to"},            {"train.beta1=1", "not allowed"},
        {"prune.granularity=2x2", "weight|4x1|32x32|64x64|128x128"},
        {"freeze.layers=10", "9 at most"},         {"freeze.begin=5", "after freeze.end"},
        {"freeze.end=601", "after the last step"}, {"freeze.rule=egeria", "linear|geometric|change|noise"},
        {"freeze.share=1", "0.001 to"},            {"drop.rate=1", "0 to 0.9"},
        {"freeze.layers=2 freeze.rule=noise", "no gradients"},
        {"freeze.layers=2 freeze.rule=change", "no gradients"},
        {"freeze.layers=1 model.tied_head=true", "learns through the head"},
        {"freeze.layers=2 prune.begin=10 prune.end=50 freeze.begin=49 freeze.end=60", "prune.end: 50 is after freeze.begin 49"},
        {"freeze.layers=2 prune.end=50", "prune.end: 50 is after freeze.begin 0"},
    };
    struct dp_train_config c, before;
    struct dp_err err;

    (void)state;
    memset(&c, 0x5a, sizeof c);
    before = c;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128], *words[8], *rest = text;
        int n = 0;

        snprintf(text, sizeof text, "%s", bad[i][0]);
        while ((words[n] = strsep(&rest, " ")))
            n++;
        if (load(n, words, &c, &err) == 0 || !strstr(err.text, bad[i][1]))
            fail_msg("%s gives \"%s\"", bad[i][0], err.text);
    }
    assert_memory_equal(&c, &before, sizeof c); /* a wrong configuration changes nothing */
}

/* Blocks are whole in every matrix, or the run does not begin. */
static void blocks_fit(void **state)
{
    static const struct {
        const char *granularity, *channels;
        const char *text; /* NULL: fine */
    } cases[] = {{"4x1", "12", NULL}, {"4x1", "14", "multiple of 4, not 14"}, {"32x32", "96", NULL}, {"64x64", "1600", NULL},
                 {"64x64", "96", "multiple of 64, not 96: attn.qkv.weight is 288 x 96"}, {"128x128", "768", NULL},
                 {"128x128", "1600", "128x128 needs model.channels to be a multiple of 128, not 1600"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char granularity[64], channels[64], heads[] = "model.heads=2", *const three[] = {granularity, channels, heads};
        struct dp_train_config c;
        struct dp_err err = {0};
        int rc;

        snprintf(granularity, sizeof granularity, "prune.granularity=%s", cases[i].granularity);
        snprintf(channels, sizeof channels, "model.channels=%s", cases[i].channels);
        rc = load(3, three, &c, &err);
        if (rc != (cases[i].text ? -1 : 0) || (cases[i].text && !strstr(err.text, cases[i].text)))
            fail_msg("%s %s gives \"%s\"", granularity, channels, err.text);
        if (rc == 0)
            assert_int_equal(dp_train_block_rows(&c), dp_granularity_rows(cases[i].granularity));
    }
}

static void overrides(void **state)
{
    char steps[] = "train.steps=7", path[] = "data.path=/tmp/a = b", *const two[] = {steps, path};
    struct dp_train_config c;
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_train_config_load(NULL, 2, two, &c, &err), 0);
    assert_int_equal(c.train.steps, 7);
    assert_string_equal(c.data.path, "/tmp/a = b");
    assert_int_equal(c.model.vocabulary, 256);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(etc_lists_every_key),
    cmocka_unit_test(etc_holds_the_defaults),
    cmocka_unit_test(cross_checks), cmocka_unit_test(blocks_fit),
    cmocka_unit_test(overrides),
};
TEST_MAIN("config", tests)
