/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's options: what passes, what is refused and how the refusal reads, the text form on the
 * way to slurmstepd, the plugin's own arguments, and 10,000 random hostile values. */
#include "common/conf/plugin_args.h"
#include "spank_plugin/site.h"
#include "tests/unit/unit.h"

static struct dp_plugin_args args;

static const struct dp_option_def *def_of(uint32_t bit)
{
    for (size_t i = 0; i < DP_OPTION_COUNT; i++)
        if (dp_option_defs[i].bit == bit)
            return &dp_option_defs[i];
    fail_msg("no option with bit %u", bit);
    return NULL;
}

static void defaults(void)
{
    assert_int_equal(dp_plugin_args_parse(0, NULL, &args, NULL), 0);
}

static char just_policy[64], long_policy[65];

/* want: the value as dp_option_value prints it, NULL when it must be refused. */
static const struct {
    uint32_t bit;
    const char *text, *want;
} table[] = {
    {DP_OPT_MODE, "off", "off"},
    {DP_OPT_MODE, "observe", "observe"},
    {DP_OPT_MODE, "balance", "balance"},
    {DP_OPT_MODE, "release", "release"},
    {DP_OPT_MODE, NULL, "release"},
    {DP_OPT_MODE, "", "release"},
    {DP_OPT_MODE, "(null)", "release"},
    {DP_OPT_MODE, "Release", NULL},
    {DP_OPT_MODE, "release ", NULL},
    {DP_OPT_MODE, "release\n", NULL},
    {DP_OPT_MODE, "on", NULL},
    {DP_OPT_POLICY, "time", "time"},
    {DP_OPT_POLICY, "a-b_9", "a-b_9"},
    {DP_OPT_POLICY, just_policy, just_policy},
    {DP_OPT_POLICY, long_policy, NULL},
    {DP_OPT_POLICY, NULL, NULL},
    {DP_OPT_POLICY, "", NULL},
    {DP_OPT_POLICY, "Time", NULL},
    {DP_OPT_POLICY, "../time", NULL},
    {DP_OPT_POLICY, "time,param", NULL},
    {DP_OPT_POLICY, "t\xc3\xa4st", NULL},
    {DP_OPT_MIN_GPUS, "1", "1"},
    {DP_OPT_MIN_GPUS, "007", "7"},
    {DP_OPT_MIN_GPUS, "512", "512"},
    {DP_OPT_MIN_GPUS, "513", NULL},
    {DP_OPT_MIN_GPUS, "0", NULL},
    {DP_OPT_MIN_GPUS, "-1", NULL},
    {DP_OPT_MIN_GPUS, "+1", NULL},
    {DP_OPT_MIN_GPUS, " 1", NULL},
    {DP_OPT_MIN_GPUS, "1 ", NULL},
    {DP_OPT_MIN_GPUS, "0x1", NULL},
    {DP_OPT_MIN_GPUS, "1e1", NULL},
    {DP_OPT_MIN_GPUS, "2.0", NULL},
    {DP_OPT_MIN_GPUS, "4294967297", NULL},
    {DP_OPT_MIN_GPUS, "99999999999999999999999", NULL},
    {DP_OPT_MIN_GPUS, "", NULL},
    {DP_OPT_MIN_GPUS, NULL, NULL},
    {DP_OPT_MAX_SLOWDOWN, "0", "0.000000"},
    {DP_OPT_MAX_SLOWDOWN, "5", "5.000000"},
    {DP_OPT_MAX_SLOWDOWN, "2.5", "2.500000"},
    {DP_OPT_MAX_SLOWDOWN, "0.000001", "0.000001"},
    {DP_OPT_MAX_SLOWDOWN, "99.999999", "99.999999"},
    {DP_OPT_MAX_SLOWDOWN, "100", "100.000000"},
    {DP_OPT_MAX_SLOWDOWN, "100.0", "100.000000"},
    {DP_OPT_MAX_SLOWDOWN, "100.000001", NULL},
    {DP_OPT_MAX_SLOWDOWN, "101", NULL},
    {DP_OPT_MAX_SLOWDOWN, "-1", NULL},
    {DP_OPT_MAX_SLOWDOWN, "5%", NULL},
    {DP_OPT_MAX_SLOWDOWN, "5,5", NULL},
    {DP_OPT_MAX_SLOWDOWN, ".5", NULL},
    {DP_OPT_MAX_SLOWDOWN, "5.", NULL},
    {DP_OPT_MAX_SLOWDOWN, "1.0000000", NULL},
    {DP_OPT_MAX_SLOWDOWN, "0001", NULL},
    {DP_OPT_MAX_SLOWDOWN, "nan", NULL},
    {DP_OPT_MAX_SLOWDOWN, "inf", NULL},
    {DP_OPT_MAX_SLOWDOWN, "1e1", NULL},
    {DP_OPT_MAX_SLOWDOWN, "", NULL},
    {DP_OPT_REFERENCE, "start", "start"},
    {DP_OPT_REFERENCE, "best", "best"},
    {DP_OPT_REFERENCE, "fixed", "fixed"},
    {DP_OPT_REFERENCE, "", NULL},
    {DP_OPT_REFERENCE, "worst", NULL},
    {DP_OPT_STALL_END, "1", "1"},
    {DP_OPT_STALL_END, "10080", "10080"},
    {DP_OPT_STALL_END, "0", NULL},
    {DP_OPT_STALL_END, "10081", NULL},
    {DP_OPT_STALL_END, "-1", NULL},
    {DP_OPT_STALL_END, "2.5", NULL},
    {DP_OPT_STALL_END, "1:00", NULL},
    {DP_OPT_STALL_END, "", NULL},
    {DP_OPT_STALL_END, NULL, NULL},
    {DP_OPT_SLICES, "1", "1"},
    {DP_OPT_SLICES, "512", "512"},
    {DP_OPT_SLICES, "0", NULL},
    {DP_OPT_SLICES, "513", NULL},
    {DP_OPT_SLICES, "4,", NULL},
    {DP_OPT_SLICES, NULL, NULL},
    {DP_OPT_MAX_GPUS, "1", "1"},
    {DP_OPT_MAX_GPUS, "512", "512"},
    {DP_OPT_MAX_GPUS, "0", NULL},
    {DP_OPT_MAX_GPUS, "513", NULL},
    {DP_OPT_MAX_GPUS, "8 ", NULL},
    {DP_OPT_MAX_GPUS, NULL, NULL},
    {DP_OPT_COPIES, "0", "0"},
    {DP_OPT_COPIES, "1", "1"},
    {DP_OPT_COPIES, "2", NULL},
    {DP_OPT_COPIES, "01", NULL},
    {DP_OPT_COPIES, "-1", NULL},
    {DP_OPT_COPIES, "on", NULL},
    {DP_OPT_COPIES, "", NULL},
    {DP_OPT_COPIES, NULL, NULL},
    {DP_OPT_MEMORY, NULL, "on"},
    {DP_OPT_MEMORY, "", "on"},
    {DP_OPT_MEMORY, "(null)", "on"},
    {DP_OPT_MEMORY, "on", "on"},
    {DP_OPT_MEMORY, "off", "off"},
    {DP_OPT_MEMORY, "1", "1"},
    {DP_OPT_MEMORY, "1000", "1000"},
    {DP_OPT_MEMORY, "1001", NULL},
    {DP_OPT_MEMORY, "0", NULL},
    {DP_OPT_MEMORY, "25%", NULL},
};

static void test_table(void **state)
{
    (void)state;
    memset(just_policy, 'p', 63);
    memset(long_policy, 'p', 64);
    defaults();
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct dp_msg_step_start o = {0}, before = o;
        struct dp_err err = {0};
        char got[80];
        const struct dp_option_def *def = def_of(table[i].bit);
        int rc = dp_option_set(&o, def, table[i].text, &args, &err);

        if (!table[i].want) {
            if (rc == 0)
                fail_msg("--%s=%s passed", def->name, table[i].text ? table[i].text : "(none)");
            assert_memory_equal(&o, &before, sizeof o);
            assert_true(strlen(err.text) > 10);
            continue;
        }
        if (rc < 0)
            fail_msg("--%s=%s refused: %s", def->name, table[i].text ? table[i].text : "(none)", err.text);
        assert_int_equal(o.options_set, table[i].bit);
        assert_int_equal(dp_option_value(&o, def, got, sizeof got), 0);
        assert_string_equal(got, table[i].want);
    }
}

static void test_refusals_name_what_is_allowed(void **state)
{
    struct dp_msg_step_start o = {0};
    struct dp_err err;

    (void)state;
    defaults();
    dp_option_set(&o, def_of(DP_OPT_MODE), "fast", &args, &err);
    assert_string_equal(err.text, "'fast' is not a known mode; allowed: off, observe, balance, release");
    dp_option_set(&o, def_of(DP_OPT_MIN_GPUS), "many", &args, &err);
    assert_string_equal(err.text, "'many' is not a valid number of GPUs; allowed: 1 to 512");
    dp_option_set(&o, def_of(DP_OPT_STALL_END), "10081", &args, &err);
    assert_string_equal(err.text, "'10081' is not a valid number of minutes; allowed: 1 to 10080");
    dp_option_set(&o, def_of(DP_OPT_COPIES), "2", &args, &err);
    assert_string_equal(err.text, "'2' is not a valid number of copies; allowed: 0, 1 (one copy outlives one lost node; where two "
                                  "are lost at once, the newest checkpoint is taken)");
    dp_option_set(&o, def_of(DP_OPT_REFERENCE), "\033[2Jx\n", &args, &err);
    assert_string_equal(err.text, "'?[2Jx?' is not a known reference; allowed: fixed, start, best");
    snprintf(args.policies, sizeof args.policies, "keep,time");
    dp_option_set(&o, def_of(DP_OPT_POLICY), "tim", &args, &err);
    assert_string_equal(err.text, "unknown policy 'tim'; allowed: keep,time");
    dp_option_set(&o, def_of(DP_OPT_POLICY), "time,", &args, &err);
    assert_non_null(strstr(err.text, "this site has keep,time"));
    assert_int_equal(dp_option_set(&o, def_of(DP_OPT_POLICY), "time", &args, &err), 0);
    assert_int_equal(dp_option_set(&o, def_of(DP_OPT_POLICY), "keep", &args, &err), 0);
}

static void test_length_limit(void **state)
{
    char *text = calloc(1, 100001);
    struct dp_msg_step_start o = {0};
    struct dp_err err;

    (void)state;
    assert_non_null(text);
    memset(text, '1', 100000);
    for (size_t i = 0; i < DP_OPTION_COUNT; i++)
        assert_int_equal(dp_option_set(&o, &dp_option_defs[i], text, &args, &err), -1);
    assert_int_equal(o.options_set, 0);
    assert_non_null(strstr(err.text, "4096"));
    free(text);
}

static uint64_t seed = 42;

static uint32_t random32(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* Half of them random bytes, half of them good values with a few bytes changed. */
static void random_value(char *out, size_t cap)
{
    static const char *const seeds[] = {"release", "time", "12", "3.25", "start",
                                        "mode=release,min-gpus=2,max-slowdown=1.500000,policy=time"};
    size_t n = random32() % (random32() % 16 ? 24 : cap - 1);

    if (random32() % 2) {
        for (size_t i = 0; i < n; i++)
            out[i] = (char)(1 + random32() % 255);
        out[n] = 0;
        return;
    }
    snprintf(out, cap, "%s", seeds[random32() % 6]);
    n = strlen(out);
    for (uint32_t k = random32() % 3; k > 0; k--)
        out[random32() % n] = (char)(1 + random32() % 255);
}

static void assert_sane(const struct dp_msg_step_start *o)
{
    char text[DP_SPEC_MAX];
    struct dp_msg_step_start again;

    assert_true(o->mode <= DP_MODE_RELEASE && o->reference <= DP_REF_FIXED);
    assert_true(!(o->options_set & DP_OPT_MIN_GPUS) || (o->min_gpus >= 1 && o->min_gpus <= DP_MAX_WORKERS));
    assert_true(!(o->options_set & DP_OPT_STALL_END) || (o->stall_end_s >= 60 && o->stall_end_s <= DP_STALL_END_MAX_MIN * 60));
    assert_true(o->copies <= 1);
    assert_true(o->max_slowdown >= 0 && o->max_slowdown <= 100);
    assert_non_null(memchr(o->policy, 0, sizeof o->policy));
    assert_int_equal(dp_options_format(o, text, sizeof text), 0);
    if (o->options_set & DP_OPT_MODE) {
        assert_int_equal(dp_options_parse(text, &args, &again, NULL), 0);
        assert_memory_equal(&again, o, sizeof again);
    }
}

static void test_hostile_values(void **state)
{
    char text[5000];
    unsigned passed = 0;

    (void)state;
    defaults();
    for (int i = 0; i < 10000; i++) {
        struct dp_msg_step_start o;
        struct dp_err err = {0};

        random_value(text, sizeof text);
        memset(&o, 0, sizeof o);
        for (size_t k = 0; k < DP_OPTION_COUNT; k++) {
            if (dp_option_set(&o, &dp_option_defs[k], text, &args, &err) == 0)
                passed++;
            for (const char *p = err.text; *p; p++)
                assert_true(*p >= 0x20 && *p < 0x7f);
        }
        assert_sane(&o);
        memset(&o, 0xee, sizeof o);
        if (dp_options_parse(text, &args, &o, &err) < 0)
            assert_int_equal(o.options_set, 0);
        assert_sane(&o);
    }
    assert_true(passed > 100); /* the mutations must reach behind the first check */
}

static void test_text_form(void **state)
{
    static const char *const refused[] = {
        "", ",", "mode", "mode=", "=release", "mode=release,", ",mode=release", "mode=release,mode=off",
        "min-gpus=2", "mode=release;min-gpus=2", "mode=release,x=1", "mode=release,min-gpus=0",
        "mode=release,\nmin-gpus=2", "mode=rel", "moderelease", "mode=release min-gpus=2"};
    static struct dp_msg_step_start o = {.options_set = DP_OPT_MODE | DP_OPT_POLICY | DP_OPT_MIN_GPUS | DP_OPT_MAX_SLOWDOWN |
                                  DP_OPT_REFERENCE | DP_OPT_STALL_END | DP_OPT_MEMORY | DP_OPT_SLICES |
                                  DP_OPT_MAX_GPUS | DP_OPT_COPIES,
                           .stall_end_s = DP_STALL_END_MAX_MIN * 60, .memory = DP_MEMORY_MARGIN_MAX, .slices = 512, .max_gpus = 512,
                           .copies = 1,
                           .mode = DP_MODE_RELEASE,
                           .reference = DP_REF_BEST,
                           .min_gpus = 512,
                           .max_slowdown = 99.999999};
    struct dp_msg_step_start again;
    char text[DP_SPEC_MAX];

    (void)state;
    defaults();
    memset(o.policy, 'z', 63);
    assert_int_equal(dp_options_format(&o, text, sizeof text), 0);
    assert_int_equal(dp_options_parse(text, &args, &again, NULL), 0);
    assert_memory_equal(&o, &again, sizeof o);
    assert_int_equal(dp_options_format(&o, text, 40), -1);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (dp_options_parse(refused[i], &args, &again, NULL) == 0)
            fail_msg("'%s' passed", refused[i]);
}

static void test_plugin_args(void **state)
{
    const char *good[] = {"socket=/run/x/%n.sock", "policies=keep,time", "default_mode=balance"};
    const char *bad[] = {"socket=relative", "policies=A b", "default_mode=off", "colour=blue", "socket=/last.sock"};
    struct dp_plugin_args a;
    struct dp_msg_step_start o = {0};
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_plugin_args_parse(0, NULL, &a, &err), 0);
    assert_string_equal(a.socket, "/run/dynpipe/%n.sock"); /* the daemon's default, too: test_daemon_config */
    assert_int_equal(dp_plugin_args_parse(3, (char *const *)good, &a, &err), 0);
    assert_string_equal(a.socket, "/run/x/%n.sock");
    assert_int_equal(dp_option_set(&o, def_of(DP_OPT_MODE), NULL, &a, &err), 0);
    assert_int_equal(o.mode, DP_MODE_BALANCE);
    assert_int_equal(dp_plugin_args_parse(5, (char *const *)bad, &a, &err), -1);
    assert_non_null(strstr(err.text, "socket=relative"));
    assert_string_equal(a.socket, "/last.sock");
    assert_string_equal(a.policies, "");
    assert_int_equal(a.default_mode, DP_MODE_RELEASE);
}

static void test_socket_path(void **state)
{
    char out[256];
    char pattern[200];
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_socket_path("/run/d-%n.sock", "n1", out, sizeof out, &err), 0);
    assert_string_equal(out, "/run/d-n1.sock");
    assert_int_equal(dp_socket_path("/run/%x/%", "n1", out, sizeof out, &err), 0);
    assert_string_equal(out, "/run/%x/%");
    memset(pattern, 'a', sizeof pattern);
    pattern[108] = 0;
    assert_int_equal(dp_socket_path(pattern, "n1", out, sizeof out, &err), -1);
    pattern[107] = 0;
    assert_int_equal(dp_socket_path(pattern, "n1", out, sizeof out, &err), 0);
}

/* What the site allows is a matter of the partition; what is not known is allowed. */
static void test_the_site_is_read(void **state)
{
    static const char text[] = "# policies = \"none\"\nrun: { policies = \"keep,time\"; max_slowdown = 20.5; };\n"
                               "partitions = ( { name = \"a\"; policies = \"keep\"; }, { name = \"b\"; max_slowdown = 5; },\n"
                               "  { name = \"c\"; policies = \"param\"; max_slowdown = 60.0; } );\n";
    static const struct { const char *partitions, *policies; double slowdown; } want[] = {
        {"main", "keep,time", 20.5}, {"a", "keep", 20.5}, {"b", "keep,time", 5}, {"c", "param", 60},
        {"a,c", "keep,param", 60}, {"b,main", "keep,time", 20.5}, {NULL, "keep,time,param", 60}, {"", "keep,time,param", 60},
    };
    struct dp_msg_step_start o = {.options_set = DP_OPT_MODE | DP_OPT_POLICY | DP_OPT_MAX_SLOWDOWN, .policy = "time", .max_slowdown = 20.5};
    struct dp_site site;
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        dp_site_scan(text, want[i].partitions, &site);
        assert_string_equal(site.policies, want[i].policies);
        assert_true(site.max_slowdown == want[i].slowdown);
    }
    dp_site_scan(text, "main", &site);
    assert_int_equal(dp_site_check(&site, &o, "/etc/x", &err), 0);
    o.max_slowdown = 20.6;
    assert_int_equal(dp_site_check(&site, &o, "/etc/x", &err), -1);
    assert_string_equal(err.text, "--dynpipe-max-slowdown=20.6: this site allows at most 20.5 percent (/etc/x)");
    dp_site_scan(text, "a", &site);
    assert_int_equal(dp_site_check(&site, &o, "/etc/x", &err), -1);
    assert_string_equal(err.text, "--dynpipe-policy=time: unknown policy at this site; allowed: keep (/etc/x)");
    dp_site_scan("run: { policy = 7 } } nodes", "main", &site); /* nothing of use: the defaults */
    assert_true(site.max_slowdown == 50);
    assert_non_null(strstr(site.policies, "iteration"));
}

static void test_devices_are_counted_for_sure_only(void **state)
{
    static const struct { struct dp_asked_size size; uint32_t want; } cases[] = {
        {{.nodes = "1-0", .ntasks = "1"}, 0},
        {{.nodes = "3", .ntasks = "3", .gpus_per_node = "1"}, 3},
        {{.nodes = "2-4", .ntasks = "1", .gpus_per_node = "a100:2"}, 8},
        {{.nodes = "2-4", .ntasks = "1", .gpus = "3", .gpus_per_node = "2"}, 3},
        {{.nodes = "1-0", .ntasks = "1", .gpus_per_node = "4"}, 4},
        {{.nodes = "1-0", .ntasks = "6", .gpus_per_node = "4"}, 24},
        {{.nodes = "2", .ntasks = "6", .gpus_per_task = "gpu:1"}, 6},
        {{.nodes = "2", .ntasks = "2", .gres = "gres:gpu:a100:2,gres:nvme:8"}, 4},
        {{.nodes = "2", .ntasks = "2", .gres = "gres:nvme:8"}, 0},
        {{.nodes = "2", .ntasks = "2", .gpus = "a100:2,v100:1"}, 3},
        {{.nodes = "2", .ntasks = "2", .gpus_per_node = "1", .nodelist = "n[1-9]"}, 0},
        {{.nodes = "2", .ntasks = "2", .gpus_per_node = "1", .exclusive = "exclusive"}, 0},
        {{.nodes = "2", .ntasks = "2", .gpus_per_node = "1", .exclusive = "unset"}, 2},
        {{.nodes = "2", .ntasks = "2", .is_step = true}, 2},
        {{.nodes = "2", .ntasks = "x", .gpus = "0", .gres = "gpu:0", .is_step = true}, 0},
        {{.nodes = "99999999999999999999", .gpus_per_node = "9"}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (dp_asked_devices(&cases[i].size) != cases[i].want)
            fail_msg("case %zu: %u devices, wanted %u", i, dp_asked_devices(&cases[i].size), cases[i].want);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_table),       cmocka_unit_test(test_refusals_name_what_is_allowed),
    cmocka_unit_test(test_length_limit), cmocka_unit_test(test_hostile_values),
    cmocka_unit_test(test_text_form),   cmocka_unit_test(test_plugin_args),
    cmocka_unit_test(test_socket_path), cmocka_unit_test(test_the_site_is_read),
    cmocka_unit_test(test_devices_are_counted_for_sure_only),
};

TEST_MAIN("options", tests)
