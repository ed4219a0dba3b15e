/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening backends by name, and memory of the CPU backend. */
#include "tests/unit/kernels/kernels_util.h"

static void unknown_names(void **state)
{
    struct dp_err err = {0};

    (void)state;
    assert_null(dp_backend_create("tpu", 0, 1, &err));
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "tpu"));
    assert_null(dp_backend_create("cpu:sse9", 0, 1, &err));
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "avx512, avx2, plain"));
    assert_null(dp_backend_create("cpu", 0, 0, &err));
    assert_int_equal(err.code, DP_EINVAL);
    dp_backend_destroy(NULL);
}

/* Without its shared object the CUDA backend is a clear error; with it, whatever it says. */
static void cuda_absent(void **state)
{
    struct dp_err err = {0};
    struct dp_backend *be = dp_backend_create("cuda", 0, 1, &err);

    (void)state;
    if (be) {
        dp_backend_destroy(be);
        skip();
    }
    assert_int_not_equal(err.code, DP_OK);
    assert_non_null(strstr(err.text, "cuda"));
}

static void all_members(void **state)
{
    (void)state;
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v);

        if (!be)
            continue;
        assert_int_equal(be->ops->abi, DP_BACKEND_ABI);
        assert_string_equal(be->ops->name, "cpu");
        assert_true(be->ops->host_memory);
        /* every member of the vtable is a pointer behind the first three */
        for (size_t at = offsetof(struct dp_backend_ops, open); at < sizeof *be->ops; at += sizeof(void *)) {
            void *member;

            memcpy(&member, (const char *)be->ops + at, sizeof member);
            assert_non_null(member);
        }
        dp_backend_destroy(be);
    }
}

static void memory(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    const size_t sizes[] = {0, 1, 63, 64, 65, 4096, (size_t)3 << 20};
    struct dp_err err = {0};
    void *p;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char in[65], out[65];
        size_t n = sizes[i] < sizeof in ? sizes[i] : sizeof in;

        assert_int_equal(be->ops->alloc(be, sizes[i], &p, &err), 0);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(((char *)p)[j], 0);
        memset(in, 'x', sizeof in);
        assert_int_equal(be->ops->put(be, p, in, n, &err), 0);
        assert_int_equal(be->ops->get(be, out, p, n, &err), 0);
        assert_memory_equal(in, out, n);
        be->ops->free(be, p);
    }
    be->ops->free(be, NULL);
    assert_int_equal(be->ops->alloc(be, SIZE_MAX - 5, &p, &err), -1);
    assert_int_equal(err.code, DP_ENOMEM);
    assert_int_equal(be->ops->sync(be, &err), 0);
    dp_backend_destroy(be);
}

static void time_advances(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    uint64_t before = be->ops->time_ns(be);
    float x[4096], y[4096];

    (void)state;
    for (int i = 0; i < 4096; i++)
        x[i] = (float)i;
    for (int i = 0; i < 100; i++)
        CHECK_OP(be, add, .n = 4096, .y = y, .a = x, .b = x);
    assert_true(be->ops->time_ns(be) > before);
    dp_backend_destroy(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(unknown_names), cmocka_unit_test(cuda_absent),   cmocka_unit_test(all_members),
    cmocka_unit_test(memory),        cmocka_unit_test(time_advances),
};
TEST_MAIN("kernel backend", tests)
