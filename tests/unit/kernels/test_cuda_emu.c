/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulator does what CUDA's manuals say: indices, operations of a warp, tensor cores, asynchronous copies, atomic
 * operations, what a launch may ask for, and the settings that come from the environment. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/kernels/cuda_emu/kernels.h"
#include "tests/unit/kernels/cuda_util.h"

#define SEEDS 8 /* all orders of threads, and all habits of streams */

static void *zeroes(struct dp_backend *be, size_t bytes)
{
    void *p;

    DO(be, alloc, bytes, &p);
    return p;
}

/* An operation of cuda_emu/kernels.h must succeed. */
#define ASK(name, ...)                              \
    do {                                            \
        struct dp_err ask_err = {0};                \
        if (name(__VA_ARGS__, &ask_err) < 0)        \
            fail_msg(#name ": %s", ask_err.text);   \
    } while (0)

static void of_warps(struct dp_backend *be)
{
    uint32_t out[EMU_ROWS][32], *d = zeroes(be, sizeof out);

    ASK(emu_warp, be, d);
    DO(be, get, out, d, sizeof out);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(out[EMU_IDX][i], 105);
        assert_int_equal(out[EMU_UP][i], 100 + (i < 3 ? i : i - 3));
        assert_int_equal(out[EMU_DOWN][i], 100 + (i > 28 ? i : i + 3));
        assert_int_equal(out[EMU_XOR][i], 100 + (i ^ 17));
        assert_int_equal(out[EMU_IDX_8][i], 100 + i / 8 * 8 + 2);
        assert_int_equal(out[EMU_UP_8][i], 100 + (i % 8 < 3 ? i : i - 3));
        assert_int_equal(out[EMU_DOWN_8][i], 100 + (i % 8 > 4 ? i : i + 3));
        assert_int_equal(out[EMU_XOR_16][i], 100 + ((i ^ 20) < 16 || i >= 16 ? i ^ 20 : i)); /* not to a later part */
        assert_int_equal(out[EMU_BALLOT][i], 0x49249249);
        assert_int_equal(out[EMU_ANY][i], 1);
        assert_int_equal(out[EMU_ALL][i], 0);
        assert_int_equal(out[EMU_PARTS][i], i < 16 ? 100 + (i ^ 1) : 0xaaaa0000u);
        assert_int_equal(out[EMU_LONG][i], 9);
    }
}

/* Small integers: sums are exact in any order. */
static void of_tensor_cores(struct dp_backend *be)
{
    uint16_t a[256], b[128], *da = zeroes(be, sizeof a), *db = zeroes(be, sizeof b), pairs[512], *dp;
    float c[128], want[128], *dc = zeroes(be, sizeof c);

    for (int i = 0; i < 256; i++)
        a[i] = (uint16_t)(i % 7 == 0 ? 0x4000 : i % 3 ? 0x3f80 : 0xbf80); /* 2, 1, -1 */
    for (int i = 0; i < 128; i++) {
        b[i] = (uint16_t)(i % 5 == 0 ? 0x4040 : i % 2 ? 0x3f80 : 0xc000); /* 3, 1, -2 */
        c[i] = want[i] = (float)i;
    }
    for (int i = 0; i < 128; i++)
        for (int k = 0; k < 16; k++) {
            int of_a = i / 8 * 16 + k, of_b = k * 8 + i % 8;

            want[i] += (of_a % 7 == 0 ? 2.0f : of_a % 3 ? 1.0f : -1.0f) *
                       (of_b % 5 == 0 ? 3.0f : of_b % 2 ? 1.0f : -2.0f);
        }
    DO(be, put, da, a, sizeof a);
    DO(be, put, db, b, sizeof b);
    DO(be, put, dc, c, sizeof c);
    ASK(emu_mma, be, dc, da, db);
    DO(be, get, c, dc, sizeof c);
    assert_memory_equal(c, want, sizeof c);
    dp = zeroes(be, sizeof pairs);
    ASK(emu_ldmatrix, be, dp);
    DO(be, get, pairs, dp, sizeof pairs);
    for (int t = 0; t < 32; t++)
        for (int e = 0; e < 8; e++) {
            assert_int_equal(pairs[t * 8 + e], 64 * (e / 2) + 8 * (t / 4) + 2 * (t % 4) + e % 2);
            assert_int_equal(pairs[256 + t * 8 + e], 64 * (e / 2) + 8 * (2 * (t % 4) + e % 2) + t / 4);
        }
}

static void of_threads(struct dp_backend *be)
{
    uint32_t places[192], words[128], in[64], sums[3], *d = zeroes(be, sizeof places), *e = zeroes(be, sizeof words);
    uint32_t *f = zeroes(be, sizeof in), *g = zeroes(be, sizeof sums);

    ASK(emu_places, be, d);
    DO(be, get, places, d, sizeof places);
    for (uint32_t i = 0; i < 192; i++)
        assert_int_equal(places[i], 100 * (i % 24 / 6) + 10 * (i % 6 / 2) + i % 2);
    for (uint32_t i = 0; i < 64; i++)
        in[i] = i + 7;
    DO(be, put, f, in, sizeof in);
    ASK(emu_copies, be, e, f);
    DO(be, get, words, e, sizeof words);
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(words[i], i < 32 ? i + 7 : 0);
        assert_int_equal(words[64 + i], i % 2 ? 0 : i + 7);
    }
    ASK(emu_atomics, be, g, 1000);
    DO(be, get, sums, g, sizeof sums);
    assert_int_equal(sums[0], 500500);
    assert_int_equal(sums[1], 1023);
    assert_int_equal(sums[2], 1000);
}

static void as_the_manuals_say(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (int unchecked = 0; unchecked < 2; unchecked++) {
            struct dp_backend *be =
                open_emulator(&(struct dp_emu_settings){.seed = seed, .unchecked = unchecked}, NULL);

            of_warps(be);
            of_tensor_cores(be);
            of_threads(be);
            assert_string_equal(dp_emu_finding(), "");
            close_emulator(be);
        }
}

/* Blocks run in many orders, in the same with the same seed. */
static void orders(void **state)
{
    enum { BLOCKS = 20, TRIES = 24 };
    uint32_t out[TRIES][1 + BLOCKS];
    int differ = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = (uint64_t)(i / 2)}, NULL);
        uint32_t *d = zeroes(be, sizeof out[0]);

        ASK(emu_launch, be, 2, BLOCKS, 1, 32, 1, 0, d);
        DO(be, get, out[i], d, sizeof out[0]);
        assert_int_equal(out[i][0], BLOCKS);
        close_emulator(be);
        if (i % 2)
            assert_memory_equal(out[i], out[i - 1], sizeof out[0]);
        differ += memcmp(out[i], out[0], sizeof out[0]) != 0;
    }
    assert_true(differ > TRIES / 2);
}

static void limits_of_a_launch(void **state)
{
    static const struct {
        int what;
        unsigned gx, gy, bx, bz;
        size_t shared;
        const char *text; /* NULL: it runs */
    } cases[] = {
        {0, 1, 1, 1024, 1, 0, NULL},
        {0, 0, 1, 1024, 1, 0, NULL}, /* nothing to be done */
        {0, 1, 1, 1025, 1, 0, "InvalidConfiguration"},
        {0, 1, 1, 512, 3, 0, "InvalidConfiguration"},
        {0, 1, 1, 8, 65, 0, "InvalidConfiguration"},
        {0, 1, 65536, 32, 1, 0, "InvalidConfiguration"},
        {0, UINT32_MAX, 1, 32, 1, 0, "InvalidConfiguration"},
        {0, 1, 1, 0, 1, 0, "InvalidConfiguration"},
        {4, 3, 1, 96, 1, 48 << 10, NULL},
        {4, 3, 1, 96, 1, 227 << 10, NULL},
        {4, 3, 1, 96, 1, 228 << 10, "InvalidValue"},
        {4, 1, 1, 32, 1, 0, "DP_SHARED_DYNAMIC, but the launch has no bytes"},
        {1, 1, 1, 32, 1, 0, "thread 3: __trap()"},
        {3, 1, 1, 32, 1, 0, "65536 bytes of DP_SHARED"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dp_backend *be = open_emulator(&(struct dp_emu_settings){.seed = i}, NULL);
        uint32_t *d = zeroes(be, 256), word;
        struct dp_err err = {0};
        int rc = emu_launch(be, cases[i].what, cases[i].gx, cases[i].gy, cases[i].bx, cases[i].bz, cases[i].shared, d,
                            &err);

        if (rc == 0)
            rc = be->ops->get(be, &word, d, sizeof word, &err);
        if (!cases[i].text && rc < 0)
            fail_msg("launch %zu: %s", i, err.text);
        if (cases[i].text && (rc == 0 || !strstr(err.text, cases[i].text)))
            fail_msg("launch %zu: \"%s\" does not say \"%s\"", i, err.text, cases[i].text);
        if (cases[i].what == 4 && rc == 0)
            assert_int_equal(word, cases[i].shared / sizeof word - 1);
        close_emulator(be);
        check_nothing_lives("a launch");
    }
}

/* In a process of its own: the environment is read once. returns: whether a device opened, and an addition worked. */
static bool works_with(const char *environment)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct dp_backend be = {.ops = &dp_backend_v1};
        struct dp_err err;
        float y;
        void *d;

        dp_emu_configure(&(struct dp_emu_settings){0});
        setenv("DYNPIPE_EMU", environment, 1);
        dp_emu_use_environment();
        _exit(be.ops->open(&be, 0, 1, &err) < 0 || be.ops->alloc(&be, 4096, &d, &err) < 0 ||
              be.ops->add(&be, &(struct dp_add){.n = 1, .y = d, .a = d, .b = d}, &err) < 0 ||
              be.ops->get(&be, &y, d, sizeof y, &err) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void environment(void **state)
{
    (void)state;
    assert_true(works_with(""));
    assert_true(works_with("seed=5 check=0"));
    assert_true(works_with("seed=5,memory=1"));
    assert_true(works_with("fail=1000"));
    assert_false(works_with("seed=2 fail=7"));
    assert_false(works_with("driver=0"));
    assert_false(works_with("count=0"));
    assert_false(works_with("cc=7"));
    assert_false(works_with("code=0"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(as_the_manuals_say),
    cmocka_unit_test(orders),
    cmocka_unit_test(limits_of_a_launch),
    cmocka_unit_test(environment),
};
TEST_MAIN("CUDA emulator", tests)
