/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/learn/weights: what is written is read; every other length, version, dimension and bit is refused, with a text
 * that says what is wrong. Its networks propose orders (policies/learn/propose). */
#include "config.h"

#include "tests/unit/unit.h"

#include "common/crc32c.h"
#include "policies/learn/train/family.h"
#include "policies/learn/propose.h"
#include "policies/learn/net/weights.h"

static struct dp_net nets[2];

static char *encode(size_t *bytes)
{
    struct dp_weights w = {.n = 2, .families_hash = 0x12345678, .seed = UINT64_C(0x123456789abcdef0), .net = nets};
    char *data;

    dp_net_init(&nets[0], 1);
    dp_net_init(&nets[1], 2);
    assert_int_equal(dp_weights_encode(&w, &data, bytes, NULL), 0);
    return data;
}

static void seal(char *data, size_t bytes)
{
    uint32_t crc = dp_crc32c(0, data, bytes - 4);

    for (int i = 0; i < 4; i++)
        data[bytes - 4 + (size_t)i] = (char)(crc >> 8 * i);
}

static void refuse(const char *data, size_t bytes, enum dp_errcode code, const char *text)
{
    struct dp_weights w;
    struct dp_err err;

    assert_int_equal(dp_weights_parse("order.dpw", data, bytes, &w, &err), -1);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text) || strncmp(err.text, "order.dpw: ", 11) != 0)
        fail_msg("'%s' in: %s", text, err.text);
    dp_weights_release(&w);
}

static void round_trip(void **state)
{
    (void)state;
    struct dp_weights w;
    size_t bytes;
    char *data = encode(&bytes);

    assert_int_equal(bytes, 52 + 2 * 4 * DP_NET_SIZE);
    assert_memory_equal(data, "DPORDER\0\1\0\0\0\1\0\0\0\20\0\0\0\4\0\0\0", 24);
    assert_int_equal(dp_weights_parse("order.dpw", data, bytes, &w, NULL), 0);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.families_hash, 0x12345678);
    assert_true(w.seed == UINT64_C(0x123456789abcdef0));
    assert_memory_equal(w.net, nets, sizeof nets);
    dp_weights_release(&w);
    free(data);
}

/* The other kind of file: one network that places units. */
static void round_trip_of_parts(void **state)
{
    (void)state;
    static struct dp_cutter cutter;
    struct dp_weights w = {.families_hash = 7, .seed = 9}, read;
    struct dp_err err;
    size_t bytes;
    char *data, old;

    dp_cutter_init(&cutter, 3);
    assert_int_equal(dp_weights_hold_cutter(&w, &cutter, NULL), 0);
    assert_int_equal(dp_weights_encode(&w, &data, &bytes, NULL), 0);
    assert_int_equal(bytes, 52 + 4 * DP_CUTTER_SIZE);
    assert_memory_equal(data, "DPPARTS\0\1\0\0\0\1\0\0\0\20\0\0\0\3\0\0\0", 24);
    assert_int_equal(dp_weights_parse("parts.dpw", data, bytes, &read, NULL), 0);
    assert_memory_equal(read.cutter, &cutter, sizeof cutter);
    assert_null(read.net);
    assert_true(read.seed == 9 && read.families_hash == 7);
    assert_int_equal(dp_weights_want("parts.dpw", &read, DP_WEIGHTS_PARTS, NULL), 0);
    assert_int_equal(dp_weights_want("parts.dpw", &read, DP_WEIGHTS_ORDERS, &err), -1);
    assert_non_null(strstr(err.text, "parts.dpw: its network makes no orders"));
    dp_weights_release(&read);
    for (size_t n = 0; n < bytes; n += n < 60 ? 1 : 997)
        refuse(data, n, DP_EINVAL, n < 52 ? "no file of weights" : "bytes, but 1 networks take");
    for (size_t i = 36; i < bytes; i += 331) {
        data[i] ^= 0x10;
        refuse(data, bytes, DP_ECORRUPT, "damaged");
        data[i] ^= 0x10;
    }
    old = data[28];
    data[28] = 9;
    seal(data, bytes);
    refuse(data, bytes, DP_EINVAL, "number of devices is 9");
    data[28] = old;
    data[32] = 2;
    seal(data, bytes);
    refuse(data, bytes, DP_EINVAL, "2 networks, expected 1 to 1");
    free(data);
    dp_weights_release(&w);
}

static void damaged(void **state)
{
    (void)state;
    size_t bytes;
    char *data = encode(&bytes);

    for (size_t n = 0; n < bytes; n += n < 60 ? 1 : 997)
        refuse(data, n, DP_EINVAL, n < 52 ? "no file of weights" : "bytes, but 2 networks take");
    for (size_t i = 36; i < bytes; i += 331) { /* behind what is looked at before */
        data[i] ^= 0x10;
        refuse(data, bytes, DP_ECORRUPT, "damaged");
        data[i] ^= 0x10;
    }
    free(data);
}

static void other_versions(void **state)
{
    (void)state;
    static const char *const text[] = {"format is 9", "version of features is 9", "width is 9",
                                       "number of rounds is 9", "number of facts is 9", "number of features is 9"};
    size_t bytes;
    char *data = encode(&bytes);

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        char old = data[8 + 4 * i];

        data[8 + 4 * i] = 9;
        seal(data, bytes);
        refuse(data, bytes, DP_EINVAL, text[i]);
        data[8 + 4 * i] = old;
    }
    data[32] = 13;
    seal(data, bytes);
    refuse(data, bytes, DP_EINVAL, "13 networks, expected 1 to 12");
    data[32] = 0;
    seal(data, bytes);
    refuse(data, bytes, DP_EINVAL, "0 networks");
    free(data);
}

static void no_numbers(void **state)
{
    (void)state;
    static const unsigned char bad[][4] = {{0, 0, 0xc0, 0x7f}, {0, 0, 0x80, 0x7f}, {0, 0, 0x80, 0xff}, {0, 0, 0, 0x7f}};
    size_t bytes;
    char *data = encode(&bytes);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(data + bytes - 8, bad[i], 4);
        seal(data, bytes);
        refuse(data, bytes, DP_EINVAL, "network 1 has a number that is none, or too large");
    }
    free(data);
}

static void no_file(void **state)
{
    (void)state;
    struct dp_weights w;
    struct dp_err err;

    assert_int_equal(dp_weights_read("/nonexistent/order.dpw", &w, &err), -1);
    assert_int_equal(err.code, DP_EIO);
    dp_weights_release(&w);
}

/* As a source of orders (propose.h): the first ones are the networks' best, those behind are drawn; all are orders of the graph, the
 * same for the same seed, and count the steps that they are allowed. */
static void proposes(void **state)
{
    (void)state;
    struct dp_weights w = {.n = 2, .net = nets};
    struct dp_order_source source = dp_weights_source(&w);
    struct dp_graph g;
    struct dp_units u;
    uint32_t *order, *again, *place;
    uint64_t steps = 0, most;
    void *walk;

    dp_net_init(&nets[0], 1);
    dp_net_init(&nets[1], 2);
    assert_int_equal(dp_family_make(&g, DP_FAMILY_CELLS, 80, 3, NULL), 0);
    assert_int_equal(dp_graph_set_bandwidth(&g, 1e9, NULL), 0);
    assert_int_equal(dp_units_create(&u, &g, NULL), 0);
    order = calloc(u.n, sizeof *order);
    again = calloc(u.n, sizeof *again);
    place = calloc(u.n, sizeof *place);
    assert_int_equal(source.n, 2);
    assert_int_equal(source.begin(source.arg, &u, 8, &walk, NULL), 0);
    for (uint64_t number = 0; number < 10; number++) {
        memset(place, 0xff, u.n * sizeof *place);
        assert_int_equal(source.order(walk, 5, number, UINT64_MAX, order, &steps, NULL), 1);
        for (uint32_t i = 0; i < u.n; i++)
            place[order[i]] = i;
        for (uint32_t v = 0; v < u.n; v++)
            for (uint32_t i = u.pred_at[v]; i < u.pred_at[v + 1]; i++)
                assert_true(place[v] < u.n && place[u.pred[i]] < place[v]);
        most = 0;
        assert_int_equal(source.order(walk, 5, number, UINT64_MAX, again, &most, NULL), 1);
        assert_memory_equal(order, again, u.n * sizeof *order);
        steps = 0;
        assert_int_equal(source.order(walk, 5, number, most / 2, again, &steps, NULL), 0);
        assert_true(steps <= most);
    }
    source.end(walk);
    source.end(NULL);
    free(order);
    free(again);
    free(place);
    dp_units_release(&u);
    dp_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(round_trip_of_parts), cmocka_unit_test(damaged), cmocka_unit_test(other_versions),
        cmocka_unit_test(no_numbers),
        cmocka_unit_test(no_file),    cmocka_unit_test(proposes),
    };

    return cmocka_run_group_tests_name("learn_weights", tests, NULL, NULL);
}
