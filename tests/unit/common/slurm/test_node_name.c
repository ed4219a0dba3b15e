/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of nodes: what real ones look like, what would leave a path or be taken for an option, and the longest. */
#include "common/slurm/node_name.h"
#include "tests/unit/unit.h"

static void names_of_nodes(void **state)
{
    static const char *const good[] = {"n1", "1", "_", "N", "node-01.cluster_a", "n..1", "n-", "n."};
    static const char *const bad[] = {"", ".", "..", ".n", "-n1", "-", "../../tmp/evil", "n/1", "n 1", "n1\n", "n1 ", "n%n",
                                      "n+1", "n:1", "n[1-2]", "n1,n2", "n\x7f", "kn\xc3\xb6ln"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!dp_is_node_name(good[i]))
            fail_msg("'%s' is a name", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (dp_is_node_name(bad[i]))
            fail_msg("'%s' is no name", bad[i]);
}

static void the_longest(void **state)
{
    char name[5000];

    (void)state;
    memset(name, 'a', sizeof name);
    for (size_t n = 1; n < sizeof name; n++) {
        name[n] = '\0';
        assert_int_equal(dp_is_node_name(name), n <= 63);
        name[n] = 'a';
    }
    name[63] = '/'; /* behind the longest, too */
    name[64] = '\0';
    assert_false(dp_is_node_name(name));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_of_nodes),
    cmocka_unit_test(the_longest),
};
TEST_MAIN("node_name", tests)
