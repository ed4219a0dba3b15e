/* SPDX-License-Identifier: BSD-3-Clause */
/* etc/dynpipe.conf is the table of keys; users tighten what it allows. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/site/daemon_config.h"
#include "policies/decide/pack.h"
#include "policies/list.h"
#include "policies/saving/trade.h"

static char path[] = "/tmp/dp-conf-XXXXXX";

static struct dp_config *load_text(const char *text, struct dp_err *err)
{
    int fd = open(path, O_WRONLY | O_TRUNC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return dp_config_load(path, "n1", err);
}

static char *slurp(const char *name)
{
    FILE *f = fopen(name, "r");
    char *text = calloc(1, 1 << 16);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

/* The file in etc/ says what the table says, and says all of it. */
static void etc_agrees_with_the_table(void **state)
{
    const char *src = getenv("DP_SRCDIR");
    struct dp_config *table = dp_config_load(NULL, "n1", NULL), *etc;
    struct dp_err err = {0};
    char *etc_text, *printed, name[512];
    FILE *f = fopen(path, "w");

    (void)state;
    snprintf(name, sizeof name, "%s/etc/dynpipe.conf", src ? src : ".");
    etc_text = slurp(name);
    assert_non_null(f);
    dp_config_print(f);
    fclose(f);
    printed = slurp(path);
    assert_non_null(strstr(etc_text, printed));
    etc = load_text(etc_text, &err);
    assert_non_null(etc);
    assert_non_null(table);
    assert_memory_equal(table, etc, sizeof *table);
    assert_string_equal(etc->socket, "/run/dynpipe/n1.sock");
    dp_config_destroy(table);
    dp_config_destroy(etc);
    free(etc_text);
    free(printed);
}

static void partitions_override_and_nodes_resolve(void **state)
{
    struct dp_msg_step_start asked = {0};
    struct dp_node_entry node;
    struct dp_run_limits limits;
    struct dp_err err = {0};
    char note[256];
    struct dp_config *c = load_text("daemon: { port = 7000; };\n"
                                    "run: { cooldown_s = 5.0; objective = \"efficiency\"; };\n"
                                    "partitions = ( { name = \"debug\"; max_mode = \"observe\"; cooldown_s = 60.0;\n"
                                    "packing = \"first-fit\"; } );\n"
                                    "nodes = ( { name = \"n1\"; address = \"127.0.0.1\"; port = 7001; },\n"
                                    "          { name = \"n2\"; address = \"127.0.0.1\"; port = 7002; },\n"
                                    "          { name = \"n3\"; } );\n",
                                    &err);

    (void)state;
    assert_non_null(c);
    dp_config_limits(c, "debug", &asked, &limits, note);
    assert_int_equal(limits.mode, DP_MODE_OBSERVE);
    assert_true(limits.cooldown_s == 60.0);
    assert_int_equal(limits.pack.objective, DP_OBJ_EFFICIENCY);
    assert_int_equal(limits.pack.packing, DP_PACKING_FIRST_FIT);
    dp_config_limits(c, "main", &asked, &limits, note);
    assert_int_equal(limits.mode, DP_MODE_RELEASE);
    assert_true(limits.cooldown_s == 5.0);
    assert_int_equal(limits.pack.packing, DP_PACKING_BEST);
    assert_string_equal(note, "");
    dp_config_find_node(c, "n2", &node);
    assert_string_equal(node.address, "127.0.0.1");
    assert_int_equal(node.port, 7002);
    dp_config_find_node(c, "n3", &node);
    assert_int_equal(node.port, 7000);
    dp_config_find_node(c, "elsewhere", &node);
    assert_string_equal(node.address, "elsewhere");
    assert_true(dp_config_is_shared_host(c, "n1"));
    assert_false(dp_config_is_shared_host(c, "n3"));
    dp_config_destroy(c);
}

/* Users may be given every built-in policy at once. */
static void all_policies_fit(void **state)
{
    struct dp_config *c;
    char text[1024];
    size_t n = (size_t)snprintf(text, sizeof text, "run: { policy = \"diffusion-time\"; policies = \"");

    (void)state;
    for (size_t i = 0; dp_policy_at(i); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? "," : "", dp_policy_at(i)->name);
    snprintf(text + n, sizeof text - n, "\"; };\n");
    c = load_text(text, NULL);
    assert_non_null(c);
    dp_config_destroy(c);
}

/* site_policies: the file is looked at, names are unique, users get only what `policies` lists. */
static void site_policies_are_checked(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"run: { policies = \"time,tiem\"; };", "run: policies 'time,tiem': unknown policy 'tiem'; known: keep,"},
        {"run: { policies = \"time,,keep\"; };", "unknown policy ''"},
        {"site_policies = ( { name = \"a\"; file = \"/no/where.so\"; } );", "1: policy a: /no: No such file"},
        {"site_policies = ( { name = \"a\"; file = \"a.so\"; } );", "must be an absolute path"},
        {"site_policies = ( { name = \"a\"; } );", "file is missing"},
        {"site_policies = ( { file = \"/a\"; } );", "name is missing"},
        {"site_policies = ( { name = \"a\"; file = \"/a\"; abi = 1; } );", "unknown key abi in site_policies"},
        {"site_policies = ( \"a\" );", "expected {"},
        {"site_policies = \"a\";", "expected a list"},
        {"site_policies = ( { name = \"A b\"; file = \"/a\"; } );", "'A b' is not a valid policy name"},
        {"site_policies = ( { name = \"time\"; file = \"/a\"; } );", "there is a policy time already"},
        {"site_policies = ( { name = \"a\"; file = \"%s\"; }, { name = \"a\"; file = \"%s\"; } );", "policy a already"},
        {"run: { policy = \"a\"; };\nsite_policies = ( { name = \"a\"; file = \"%s\"; } );", "is not one of policies"},
        {"partitions = ( { name = \"p\"; policies = \"time,b\"; } );\n"
         "site_policies = ( { name = \"a\"; file = \"%s\"; } );", "p: policies 'time,b': unknown policy 'b'"},
    };
    struct dp_msg_step_start asked = {.options_set = DP_OPT_POLICY, .policy = "a"};
    struct dp_run_limits limits;
    struct dp_err err = {0};
    char text[1024], note[256];
    struct dp_config *c;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *hole = bad[i].text;
        size_t n = 0;

        for (; *hole; hole++) /* every %s is a file that may be loaded: this one */
            if (hole[0] == '%')
                n += (size_t)snprintf(text + n, sizeof text - n, "%s", path), hole++;
            else
                text[n++] = *hole;
        text[n] = '\0';
        assert_null(load_text(text, &err));
        if (!strstr(err.text, bad[i].says))
            fail_msg("%s: \"%s\", expected \"%s\"", text, err.text, bad[i].says);
    }
    snprintf(text, sizeof text,
             "run: { policies = \"time,a\"; policy_timeout_s = 2.5; };\n"
             "site_policies = ( { name = \"a\"; file = \"%s\"; arguments = \"x y\"; },"
             "                  { name = \"b\"; file = \"%s\"; arguments = \"\"; } );\n",
             path, path);
    c = load_text(text, &err);
    if (!c)
        fail_msg("%s", err.text);
    dp_config_limits(c, "", &asked, &limits, note);
    assert_string_equal(limits.policy, "a");
    assert_string_equal(limits.policy_file, path);
    assert_string_equal(limits.policy_arguments, "x y");
    assert_true(limits.policy_timeout_s == 2.5);
    asked.policy[0] = 'b'; /* there, but not allowed */
    dp_config_limits(c, "", &asked, &limits, note);
    assert_string_equal(limits.policy, "time");
    assert_string_equal(limits.policy_file, "");
    assert_true(note[0] != '\0');
    dp_config_destroy(c);
}

static void users_tighten_only(void **state)
{
    struct dp_msg_step_start asked = {.options_set = 0xff, .mode = DP_MODE_RELEASE, .reference = DP_REF_BEST,
                                      .min_gpus = 1, .max_slowdown = 90, .policy = "mine"};
    struct dp_run_limits limits;
    struct dp_err err = {0};
    char note[256];
    struct dp_config *c = load_text("run: { max_mode = \"balance\"; default_mode = \"observe\"; min_devices = 2;\n"
                                    "max_slowdown = 10.0; policies = \"keep,time\"; policy = \"time\"; };\n",
                                    &err);

    (void)state;
    assert_non_null(c);
    dp_config_limits(c, "", &asked, &limits, note);
    assert_int_equal(limits.mode, DP_MODE_BALANCE);
    assert_int_equal(limits.pack.min_devices, 2);
    assert_true(limits.pack.max_slowdown == 10.0);
    assert_string_equal(limits.policy, "time");
    assert_int_equal(limits.pack.reference, DP_REF_BEST);
    assert_true(note[0] != '\0');
    assert_true(limits.stall_end_s == 0); /* asked for with no time */
    asked.stall_end_s = 120;
    asked.mode = DP_MODE_OFF;
    asked.min_gpus = 4;
    asked.max_slowdown = 1;
    snprintf(asked.policy, sizeof asked.policy, "keep");
    dp_config_limits(c, "", &asked, &limits, note);
    assert_int_equal(limits.mode, DP_MODE_OFF);
    assert_int_equal(limits.pack.min_devices, 4);
    assert_true(limits.pack.max_slowdown == 1);
    assert_string_equal(limits.policy, "keep");
    assert_string_equal(note, "");
    assert_true(limits.stall_end_s == 120);
    snprintf(asked.policy, sizeof asked.policy, "ee"); /* part of a name is no name */
    dp_config_limits(c, "", &asked, &limits, note);
    assert_string_equal(limits.policy, "time");
    assert_int_equal(limits.pack.objective, DP_OBJ_DEVICES); /* of start and best, where nobody says anything else */
    asked.reference = DP_REF_FIXED;
    dp_config_limits(c, "", &asked, &limits, note);
    assert_int_equal(limits.pack.reference, DP_REF_FIXED);
    assert_int_equal(limits.pack.objective, DP_OBJ_EFFICIENCY);
    asked.reference = DP_REF_FIXED + 1; /* a newer plugin's: the site's counts */
    dp_config_limits(c, "", &asked, &limits, note);
    assert_int_equal(limits.pack.reference, DP_REF_FIXED);
    asked.options_set = 0;
    dp_config_limits(c, "", &asked, &limits, note);
    assert_true(limits.pack.reference == DP_REF_FIXED && limits.pack.max_slowdown == DP_TRADE_LATER); /* as a trade has it */
    asked.options_set = 0xff;
    asked.max_slowdown = strtod("nan", NULL);
    dp_config_limits(c, "", &asked, &limits, note);
    assert_true(limits.pack.max_slowdown == 10.0);
    dp_config_destroy(c);
    c = load_text("run: { stall_end_s = 600.0; };\n", &err);
    assert_non_null(c);
    asked = (struct dp_msg_step_start){0};
    dp_config_limits(c, "", &asked, &limits, note);
    assert_true(limits.stall_end_s == 600);
    asked = (struct dp_msg_step_start){.options_set = DP_OPT_STALL_END, .stall_end_s = 60};
    dp_config_limits(c, "", &asked, &limits, note);
    assert_true(limits.stall_end_s == 60);
    assert_string_equal(note, "");
    asked.stall_end_s = 660;
    dp_config_limits(c, "", &asked, &limits, note);
    assert_true(limits.stall_end_s == 600);
    assert_string_equal(note, "the site ends a run that is stalled for 600 s");
    dp_config_destroy(c);
}

static void refuses_with_file_and_line(void **state)
{
    static const char *const bad[] = {
        "\nrun: { polcy = \"time\"; };\n",
        "\nnodes = ( { name = \"a\"; colour = 1; } );\n",
        "\nnodes = ( { address = \"a\"; } );\n",
        "\npartitions = ( { name = \"a\"; max_mode = \"all\"; } );\n",
        "\nnodes = 5;\n",
    };
    struct dp_err err;
    char where[64];

    (void)state;
    snprintf(where, sizeof where, "%s:2: ", path);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&err, 0, sizeof err);
        assert_null(load_text(bad[i], &err));
        assert_memory_equal(err.text, where, strlen(where));
    }
    assert_null(load_text("run: { policy = \"none\"; };\n", &err));
    assert_null(load_text("daemon: { log = \"dynpiped.log\"; };\n", &err));
    assert_non_null(strstr(err.text, "stderr, syslog, or a path"));
    assert_null(load_text("run: { max_slowdown = 1.0; };\n", &err)); /* below the default_slowdown */
    assert_int_equal(chmod(path, 0620), 0);
    assert_null(load_text("", &err));
    assert_int_equal(err.code, DP_EAUTH);
    assert_int_equal(chmod(path, 0600), 0);
}

/* What is wrong around them does not hide where the daemons are. */
static void a_wrong_file_still_says_where_the_daemons_are(void **state)
{
    static const char *const wrong[] = {
        "daemon: { socket = \"/s/%n\"; port = 7000; munge_socket = \"/m\"; slurm = false; logs = 3; };\n"
        "nodes = ( { name = \"n2\"; port = 7002; }, { name = \"n3\"; address = \"a3\"; } );\n",
        "deamon: { socket = \"/s/%n\"; port = 7000; munge_socket = \"/m\"; slurm = false; };\n"
        "nodes = ( { name = \"n2\"; port = 7002; colour = 1; }, { name = \"n3\"; address = \"a3\"; } );\n",
        "daemon: { socket = \"/s/%n\"; port = 7000 munge_socket = \"/m\"; slurm = false;\n" /* no bracket */
        "run: { policy = \"time\"; port = 1; };\n"
        "nodes = ( { name = \"n2\"; port = 7002; }, { name = \"n3\"; address = \"a3\"; \n",
        "daemon: { socket = \"/s/%n\"; port = 7000; log_level = \"info; \n" /* no quote */
        " munge_socket = \"/m\"; slurm = false; }; @include \"x\"\n"
        "nodes = ( { name = \"n2\"; port = 7002; } { name = \"n3\"; address = \"a3\"; } );\n",
    };
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct dp_node_entry n;
        struct dp_config *c;

        assert_null(load_text(wrong[i], &err));
        assert_int_equal(err.code, DP_EINVAL);
        c = dp_config_salvage(path, "n1", &err);
        assert_non_null(c);
        assert_string_equal(c->socket, "/s/n1");
        assert_string_equal(c->state_dir, "/var/lib/dynpipe/n1");
        assert_string_equal(c->munge_socket, "/m");
        assert_int_equal(c->port, 7000);
        assert_false(c->slurm);
        dp_config_find_node(c, "n2", &n);
        assert_int_equal(n.port, 7002);
        assert_string_equal(n.address, "n2");
        dp_config_find_node(c, "n3", &n);
        assert_int_equal(n.port, 7000);
        assert_string_equal(n.address, "a3");
        dp_config_destroy(c);
    }
    assert_null(load_text("daemon: { socket = \"a\\\"b\"; port = 70000; };\n", &err)); /* worse: defaults */
    struct dp_config *c = dp_config_salvage(path, "n1", &err);
    assert_non_null(c);
    assert_string_equal(c->socket, "/run/dynpipe/n1.sock");
    assert_int_equal(c->port, 6830);
    dp_config_destroy(c);
}

static int setup(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

/* Who does not ask for it does not grow; who does, no further than the site lets him, and never below what he begins with. */
static void growth_is_asked_for(void **state)
{
    struct dp_msg_step_start asked = {.options_set = DP_OPT_MODE | DP_OPT_SLICES, .mode = DP_MODE_RELEASE, .slices = 4, .max_gpus = 8};
    static const struct { uint32_t site, asked, slices, mode, want; bool is_noted; } of[] = {
        {512, 8, 4, DP_MODE_RELEASE, 8, false}, {512, 4, 4, DP_MODE_BALANCE, 4, false}, {6, 8, 4, DP_MODE_RELEASE, 6, true},
        {3, 8, 4, DP_MODE_RELEASE, 0, true},    {0, 8, 4, DP_MODE_RELEASE, 0, true},    {512, 3, 4, DP_MODE_RELEASE, 0, false},
        {512, 8, 0, DP_MODE_RELEASE, 0, false}, {512, 8, 4, DP_MODE_OBSERVE, 0, false},
    };
    struct dp_run_limits limits;
    struct dp_err err = {0};
    char note[256], text[80];
    struct dp_config *c = load_text("run: { growth_wait_s = 7.0; growth_cooldown_s = 3.0; };\n", &err);

    (void)state;
    assert_non_null(c);
    dp_config_limits(c, "", &asked, &limits, note);
    assert_int_equal(limits.growth.max_gpus, 0);
    assert_int_equal(limits.growth.slices, 4);
    assert_true(limits.growth.wait_s == 7.0 && limits.growth.cooldown_s == 3.0);
    dp_config_destroy(c);
    asked.options_set |= DP_OPT_MAX_GPUS;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        snprintf(text, sizeof text, "run: { max_gpus = %u; };\n", of[i].site);
        c = load_text(text, &err);
        assert_non_null(c);
        asked.max_gpus = of[i].asked;
        asked.slices = of[i].slices;
        asked.mode = (uint8_t)of[i].mode;
        dp_config_limits(c, "", &asked, &limits, note);
        assert_int_equal(limits.growth.max_gpus, of[i].want);
        assert_int_equal(note[0] != '\0', of[i].is_noted);
        dp_config_destroy(c);
    }
}

/* The user's word counts, and the site's where there is none; in a mode in which nobody goes on there are no copies. */
static void copies_are_asked_for(void **state)
{
    static const struct { uint32_t site; int asked; uint32_t mode, want; bool is_noted; } of[] = {
        {0, -1, DP_MODE_RELEASE, 0, false}, {1, -1, DP_MODE_RELEASE, 1, false}, {1, 0, DP_MODE_RELEASE, 0, false},
        {0, 1, DP_MODE_BALANCE, 1, false},  {0, 7, DP_MODE_BALANCE, 1, false},  {0, 1, DP_MODE_OBSERVE, 0, true},
        {1, -1, DP_MODE_OBSERVE, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct dp_msg_step_start asked = {.options_set = DP_OPT_MODE, .mode = (uint8_t)of[i].mode};
        struct dp_run_limits limits;
        struct dp_err err = {0};
        struct dp_config *c;
        char note[256], text[80];

        snprintf(text, sizeof text, "run: { copies = %u; };\n", of[i].site);
        c = load_text(text, &err);
        assert_non_null(c);
        if (of[i].asked >= 0) {
            asked.options_set |= DP_OPT_COPIES;
            asked.copies = (uint8_t)of[i].asked;
        }
        dp_config_limits(c, "", &asked, &limits, note);
        assert_int_equal(limits.copies, of[i].want);
        assert_int_equal(note[0] != '\0', of[i].is_noted);
        dp_config_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(etc_agrees_with_the_table),
        cmocka_unit_test(partitions_override_and_nodes_resolve),
        cmocka_unit_test(all_policies_fit),
        cmocka_unit_test(site_policies_are_checked),
    cmocka_unit_test(users_tighten_only), cmocka_unit_test(growth_is_asked_for),
        cmocka_unit_test(copies_are_asked_for),
        cmocka_unit_test(refuses_with_file_and_line),
        cmocka_unit_test(a_wrong_file_still_says_where_the_daemons_are),
    };

    return cmocka_run_group_tests_name("daemon_config", tests, setup, teardown);
}
