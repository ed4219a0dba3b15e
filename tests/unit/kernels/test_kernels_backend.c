/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening backends by name, and memory of the CPU backend. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* DYNPIPE_CUDA_PLUGIN: what is said of a file that will not do. */
static void refused_plugin(const char *path, const char *want)
{
    struct dp_err err = {0};

    setenv("DYNPIPE_CUDA_PLUGIN", path, 1);
    assert_null(dp_backend_create("cuda", 0, 1, &err));
    unsetenv("DYNPIPE_CUDA_PLUGIN");
    if (!strstr(err.text, "DYNPIPE_CUDA_PLUGIN") || !strstr(err.text, want))
        fail_msg("%s: \"%s\" does not say \"%s\"", path, err.text, want);
}

static void named_plugin(void **state)
{
    char path[] = "/tmp/dp-plugin-XXXXXX", emulator[4096];
    const char *build = getenv("DP_BUILDDIR");
    struct dp_backend *be;
    struct dp_err err = {0};
    float y[3] = {1.0f, 2.0f, 3.0f};
    int fd = mkstemp(path);
    void *x;

    (void)state;
    assert_true(fd >= 0);
    refused_plugin("libdynpipe-cuda.so", "absolute");
    refused_plugin("/nonexistent/libdynpipe-cuda.so", "No such file");
    refused_plugin(path, "file too short");
    assert_int_equal(fchmod(fd, 0666), 0);
    refused_plugin(path, "others may write");
    close(fd);
    unlink(path);
    snprintf(emulator, sizeof emulator, "%s/kernels/cuda/emu/libdynpipe-cuda-emu.so", build ? build : ".");
    if (access(emulator, R_OK) != 0)
        return;
    setenv("DYNPIPE_CUDA_PLUGIN", emulator, 1);
    be = dp_backend_create("cuda", 0, 1, &err);
    unsetenv("DYNPIPE_CUDA_PLUGIN");
    if (!be) { /* a relative path, or a checkout that others can write to */
        assert_non_null(strstr(err.text, "DYNPIPE_CUDA_PLUGIN"));
        print_message("# the emulator is not loaded: %s\n", err.text);
        return;
    }
    assert_int_equal(be->ops->alloc(be, sizeof y, &x, &err), 0);
    assert_int_equal(be->ops->put(be, x, y, sizeof y, &err), 0);
    CHECK_OP(be, add, .n = 3, .y = x, .a = x, .b = x);
    assert_int_equal(be->ops->get(be, y, x, sizeof y, &err), 0);
    assert_true(y[0] == 2.0f && y[2] == 6.0f);
    dp_backend_destroy(be);
}

/* The plugin of this build, where there is nvcc: it loads without a card, and without CUDA. */
static void real_plugin(void **state)
{
    char path[4096];
    const char *build = getenv("DP_BUILDDIR");
    struct dp_backend *be;
    struct dp_err err = {0};

    (void)state;
    snprintf(path, sizeof path, "%s/kernels/cuda/libdynpipe-cuda.so", build ? build : ".");
    if (access(path, R_OK) != 0)
        return;
    setenv("DYNPIPE_CUDA_PLUGIN", path, 1);
    be = dp_backend_create("cuda", 0, 1, &err);
    unsetenv("DYNPIPE_CUDA_PLUGIN");
    if (!be && (strstr(err.text, "undefined symbol") || strstr(err.text, "shared object")))
        fail_msg("%s", err.text);
    if (!be)
        print_message("# %s\n", err.text);
    dp_backend_destroy(be);
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
        assert_null(be->ops->link); /* host memory needs none */
        assert_true(!be->ops->segment_begin && !be->ops->segment_end); /* nor are calls here worth a recording */
        /* every other member of the vtable is a pointer behind the first three */
        for (size_t at = offsetof(struct dp_backend_ops, open); at < sizeof *be->ops; at += sizeof(void *)) {
            void *member;

            memcpy(&member, (const char *)be->ops + at, sizeof member);
            assert_true(member || at == offsetof(struct dp_backend_ops, link) || at == offsetof(struct dp_backend_ops, segment_begin) ||
                        at == offsetof(struct dp_backend_ops, segment_end));
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

/* Lanes of a backend that computes while it is called: every point has been passed, every move is done. */
static void lanes(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct dp_err err = {0};
    void *device, *staging;

    (void)state;
    assert_int_equal(be->ops->alloc(be, 100, &device, &err), 0);
    assert_int_equal(be->ops->alloc_staging(be, 100, &staging, &err), 0);
    assert_int_equal((uintptr_t)staging % 64, 0);
    memset(staging, 'x', 100);
    for (int lane = 0; lane < DP_N_LANES; lane++) {
        dp_ticket t = 7;

        assert_int_equal(be->ops->move(be, (enum dp_lane)lane, device, staging, 100, &err), 0);
        assert_int_equal(be->ops->mark(be, (enum dp_lane)lane, &t, &err), 0);
        assert_int_equal(t, 0);
        assert_int_equal(be->ops->after(be, DP_LANE_COMPUTE, t, &err), 0);
        assert_int_equal(be->ops->reached(be, t, &err), 1);
        assert_int_equal(be->ops->await(be, t, 0, &err), 1);
        assert_memory_equal(device, staging, 100);
        assert_int_equal(be->ops->zero(be, (char *)device + 1, 98, &err), 0);
        assert_int_equal(((char *)device)[0], 'x');
        assert_int_equal(((char *)device)[1], 0);
        assert_int_equal(((char *)device)[98], 0);
        assert_int_equal(((char *)device)[99], 'x');
    }
    be->ops->free(be, device);
    be->ops->free_staging(be, staging);
    be->ops->free_staging(be, NULL);
    dp_backend_destroy(be);
}

/* All time between two laps goes somewhere, once. */
static void laps(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    uint64_t a = 0, b = 0, start_ns, all;
    float x[4096] = {0};
    struct dp_err err = {0};

    (void)state;
    assert_int_equal(be->ops->lap(be, NULL, &err), 0);
    start_ns = be->ops->time_ns(be);
    for (int i = 0; i < 100; i++) {
        CHECK_OP(be, add, .n = 4096, .y = x, .a = x, .b = x);
        assert_int_equal(be->ops->lap(be, &a, &err), 0);
        assert_int_equal(be->ops->lap(be, &b, &err), 0);
    }
    assert_int_equal(be->ops->laps_collect(be, &err), 0);
    all = be->ops->time_ns(be) - start_ns;
    assert_true(a > 0);
    assert_true(a + b >= all / 2 && a + b <= 2 * all); /* two clock readings more or less */
    dp_backend_destroy(be);
}

static void info(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct dp_device_info d;

    (void)state;
    assert_int_equal(be->ops->info(be, &d, NULL), 0);
    assert_true(d.name[0] != '\0' && strlen(d.name) < sizeof d.name);
    assert_int_equal(d.total_bytes, 0);
    assert_int_equal(d.free_bytes, 0);
    assert_int_equal(d.sparse_format, DP_TILES);
    assert_int_equal(d.act_bytes, sizeof(float));
    assert_string_equal(be->info.name, d.name);
    assert_int_equal(be->info.act_bytes, d.act_bytes);
    dp_backend_destroy(be);
}

/* ---- memory in stock: not with the address sanitizer, for which all arrays are the heap's ---- */

#ifndef __SANITIZE_ADDRESS__
#define STOCK ((size_t)24 << 20)
#define ARRAY ((size_t)5 << 20) /* bytes; not a whole number of huge pages */

static void fill_stock(struct dp_backend *be)
{
    assert_int_equal(be->ops->stock->begin(be, STOCK, NULL), 0);
    while (be->ops->stock->fill(be, NULL) > 0)
        ;
    assert_int_equal(be->ops->stock->left(be), STOCK);
}

static char *array(struct dp_backend *be)
{
    void *p;

    assert_int_equal(be->ops->alloc(be, ARRAY, &p, NULL), 0);
    return p;
}

/* All pages of it are there, and hold zeroes; then it is written to. */
static void check_array(char *p)
{
    static unsigned char is_there[ARRAY / 4096 + 2];
    char *page = (char *)((uintptr_t)p / 4096 * 4096);
    size_t n = (size_t)(p + ARRAY - page + 4095) / 4096, n_there = 0, n_zero = 0;

    assert_int_equal((uintptr_t)p % 64, 0);
    if (sysconf(_SC_PAGESIZE) == 4096) {
        assert_int_equal(mincore(page, n * 4096, is_there), 0);
        for (size_t i = 0; i < n; i++)
            n_there += is_there[i] & 1;
        assert_int_equal(n_there, n);
    }
    for (size_t i = 0; i < ARRAY; i++)
        n_zero += p[i] == 0;
    assert_int_equal(n_zero, ARRAY);
    memset(p, 7, ARRAY);
}

static void arrays_come_from_stock(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    void *small, *page;
    char *p[6];

    (void)state;
    assert_int_equal(be->ops->stock->left(be), 0);
    fill_stock(be);
    assert_int_equal(be->ops->alloc(be, 1000, &small, NULL), 0);
    assert_int_equal(be->ops->stock->left(be), STOCK);
    assert_int_equal(be->ops->alloc(be, 16384, &page, NULL), 0);
    assert_in_range(STOCK - be->ops->stock->left(be), 16384, 16384 + 65536);
    be->ops->free(be, page);
    fill_stock(be);
    for (size_t i = 0; i < 4; i++) {
        p[i] = array(be);
        assert_in_range(STOCK - be->ops->stock->left(be), (i + 1) * ARRAY, (i + 1) * (ARRAY + 65536));
        check_array(p[i]);
    }
    p[4] = array(be); /* so much is not left */
    check_array(p[4]);
    be->ops->free(be, p[1]);
    be->ops->stock->end(be);
    assert_int_equal(be->ops->stock->left(be), 0);
    fill_stock(be); /* a new one, and what was taken of the old one stays */
    p[5] = array(be);
    check_array(p[5]);
    for (int i = 0; i < 6; i++) {
        assert_true(i == 1 || (p[i][0] == 7 && !memcmp(p[i], p[i] + 1, ARRAY - 1)));
        if (i != 1)
            be->ops->free(be, p[i]);
    }
    be->ops->free(be, small);
    dp_backend_destroy(be); /* with what is left */
}

/* More than addresses go: there is no stock then, and arrays come as without one. */
static void no_memory_for_stock(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    const size_t too_much[] = {(size_t)1 << 60, SIZE_MAX - 5};
    struct dp_err err = {0};
    char *p;

    (void)state;
    fill_stock(be);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(be->ops->stock->begin(be, too_much[i], &err), -1);
        assert_int_equal(err.code, DP_ENOMEM);
        assert_int_equal(be->ops->stock->left(be), 0);
        assert_int_equal(be->ops->stock->fill(be, &err), 0);
    }
    p = array(be);
    check_array(p);
    be->ops->free(be, p);
    dp_backend_destroy(be);
}
#endif

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(unknown_names), cmocka_unit_test(named_plugin), cmocka_unit_test(real_plugin),
    cmocka_unit_test(cuda_absent), cmocka_unit_test(all_members),
    cmocka_unit_test(memory),        cmocka_unit_test(time_advances), cmocka_unit_test(lanes),
#ifndef __SANITIZE_ADDRESS__
    cmocka_unit_test(arrays_come_from_stock), cmocka_unit_test(no_memory_for_stock),
#endif
    cmocka_unit_test(laps),          cmocka_unit_test(info),
};
TEST_MAIN("kernel backend", tests)
