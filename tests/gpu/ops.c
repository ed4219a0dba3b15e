/* SPDX-License-Identifier: BSD-3-Clause */
/* ops [--shift=N] [--dump=FILE] PLUGIN [TEST...]: every operation of a CUDA backend, the shared object PLUGIN, against the
 * reference in double. TAP. Behind the tests it prints "# bits", a sum of all results: the same plugin on the same card
 * prints the same one.
 *   --shift=N    once only, with arrays N elements off the border that alloc gives them, instead of twice with 0 and 3
 *   --dump=FILE  the results, for
 * ops --compare FILE FILE: two such files, of the emulator and of a card, or of two cards: how many elements differ, and by
 * how much of the largest one in their array. TAP.
 */
#include "tests/gpu/ops.h"

#include <dlfcn.h>

#define GUARD 64 /* bytes in front of an array and behind it; alloc's own border */
#define GUARD_BYTE 0xa5
#define SAID 5 /* failures of a test that are printed */
#define KEPT 64 /* arrays of one run */

struct dp_backend ops_be;
uint64_t ops_seed = 1;
int ops_shift;
const char *ops_case = "";

static long failures;
static int only_shift = -1; /* of --shift */
static FILE *dump;
static uint64_t bits = 1469598103934665603u; /* FNV-1a, 64 bits */
static struct {
    uint64_t sum[KEPT];
    int n, at;
    bool is_second;
} runs;

void ops_fail(const char *fmt, ...)
{
    va_list args;

    if (failures++ >= SAID)
        return;
    va_start(args, fmt);
    printf("# ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

void ops_die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("Bail out! ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(1);
}

uint64_t ops_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s >> 11;
}

static uint64_t sum_of(const void *p, size_t bytes, uint64_t sum)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ b[i]) * 1099511628211u;
    return sum;
}

static void *need(void *p)
{
    if (!p)
        ops_die("out of memory");
    return p;
}

static struct array new_array(int64_t n, size_t size)
{
    const size_t bytes = (size_t)n * size, front = GUARD + (size_t)ops_shift * size;
    struct array a = {.n = n, .size = size, .host = need(calloc(1, bytes + 1))};
    unsigned char *guard = need(malloc(front + bytes + GUARD));
    struct dp_err err;

    memset(guard, GUARD_BYTE, front + bytes + GUARD);
    if (ops_be.ops->alloc(&ops_be, front + bytes + GUARD, &a.raw, &err) < 0 ||
        ops_be.ops->put(&ops_be, a.raw, guard, front + bytes + GUARD, &err) < 0)
        ops_die("%s: %s", ops_case, err.text);
    free(guard);
    a.p = (char *)a.raw + front;
    return a;
}

static void fill(struct array *a)
{
    struct dp_err err;

    if (ops_be.ops->put(&ops_be, a->p, a->host, (size_t)a->n * a->size, &err) < 0)
        ops_die("%s: %s", ops_case, err.text);
}

struct array array_of(const void *host, int64_t n, size_t size)
{
    struct array a = new_array(n, size);

    if (n)
        memcpy(a.host, host, (size_t)n * size);
    fill(&a);
    return a;
}

struct array array_noise(int64_t n, const char *name)
{
    struct array a = new_array(n, sizeof(float));
    uint64_t s = sum_of(name, strlen(name), ops_seed * 0x9e3779b97f4a7c15u + 1) | 1;
    float *x = a.host;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((double)(ops_random(&s) & 0xffffff) / 8388608.0 - 1.0);
    fill(&a);
    return a;
}

struct array array_nan(int64_t n)
{
    struct array a = new_array(n, sizeof(float));
    float *x = a.host;

    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    fill(&a);
    return a;
}

void array_fetch(struct array *a, const char *what)
{
    const size_t bytes = (size_t)a->n * a->size, front = (size_t)((char *)a->p - (char *)a->raw);
    unsigned char *all = need(malloc(front + bytes + GUARD));
    struct dp_err err;

    if (ops_be.ops->get(&ops_be, all, a->raw, front + bytes + GUARD, &err) < 0)
        ops_die("%s: %s: %s", ops_case, what, err.text);
    for (size_t i = 0; i < front; i++)
        if (all[i] != GUARD_BYTE)
            ops_fail("%s: %s: wrote %zu bytes before the array", ops_case, what, front - i);
    for (size_t i = 0; i < GUARD; i++)
        if (all[front + bytes + i] != GUARD_BYTE)
            ops_fail("%s: %s: wrote byte %zu behind the array", ops_case, what, i);
    memcpy(a->host, all + front, bytes);
    free(all);
}

void array_drop(struct array *a)
{
    ops_be.ops->free(&ops_be, a->raw);
    free(a->host);
}

double *new_doubles(int64_t n)
{
    return need(calloc((size_t)n + 1, sizeof(double)));
}

double *array_double(const struct array *a)
{
    double *d = new_doubles(a->n);

    for (int64_t i = 0; i < a->n; i++)
        d[i] = (double)on_host(a)[i];
    return d;
}

/* A result in a file: this, then its elements. */
struct dumped {
    char test[32], what[160]; /* what: case and array */
    char type; /* 'f'loat, 'd'ouble, 'b'its */
    uint64_t n, size;
};
static const char *running = ""; /* the test */

static void dump_result(const struct array *a, char type, const char *what)
{
    struct dumped d = {.type = type, .n = (uint64_t)a->n, .size = a->size};

    if (!dump)
        return;
    snprintf(d.test, sizeof d.test, "%s", running);
    snprintf(d.what, sizeof d.what, "%s: %s", ops_case, what);
    if (fwrite(&d, sizeof d, 1, dump) != 1 || fwrite(a->host, a->size, (size_t)a->n, dump) != (size_t)a->n)
        ops_die("the results cannot be written");
}

/* The first run leaves sums of what it got, the second one compares. */
static void compare_runs(const struct array *a, char type, const char *what)
{
    const uint64_t sum = sum_of(a->host, (size_t)a->n * a->size, 1469598103934665603u);

    if (runs.at == KEPT)
        ops_die("%s: more than %d results", ops_case, KEPT);
    if (!runs.is_second) {
        bits = sum_of(&sum, sizeof sum, bits);
        dump_result(a, type, what);
        runs.sum[runs.at++] = sum;
        runs.n = runs.at;
    } else if (runs.at >= runs.n || runs.sum[runs.at++] != sum) {
        ops_fail("%s: %s: other bits at another address", ops_case, what);
    }
}

static void check_close(double got, double want, double largest, double tolerance, int64_t i, const char *what)
{
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= tolerance * largest))
        ops_fail("%s: %s: element %lld is %.9g, want %.9g +- %.3g", ops_case, what, (long long)i, got, want,
                 tolerance * largest);
}

static double largest_of(const double *want, int64_t n)
{
    double largest = 0.0;

    for (int64_t i = 0; i < n; i++)
        largest = fabs(want[i]) > largest ? fabs(want[i]) : largest;
    return largest;
}

void check_floats(struct array *a, const double *want, double tolerance, const char *what)
{
    const double largest = largest_of(want, a->n);

    array_fetch(a, what);
    for (int64_t i = 0; i < a->n; i++)
        check_close((double)on_host(a)[i], want[i], largest, tolerance, i, what);
    compare_runs(a, 'f', what);
}

void check_doubles(struct array *a, const double *want, double tolerance, const char *what)
{
    const double largest = largest_of(want, a->n);

    array_fetch(a, what);
    for (int64_t i = 0; i < a->n; i++)
        check_close(((const double *)a->host)[i], want[i], largest, tolerance, i, what);
    compare_runs(a, 'd', what);
}

void check_bytes(struct array *a, const void *want, const char *what)
{
    const unsigned char *w = want;

    array_fetch(a, what);
    for (size_t i = 0; i < (size_t)a->n * a->size; i++)
        if (((const unsigned char *)a->host)[i] != w[i]) {
            ops_fail("%s: %s: element %zu of %lld has other bits", ops_case, what, i / a->size, (long long)a->n);
            break;
        }
    compare_runs(a, 'b', what);
}

void ops_twice(void (*body)(const void *arg), const void *arg)
{
    const int n = only_shift < 0 ? 2 : 1;

    for (int i = 0; i < n; i++) {
        runs.is_second = i;
        runs.at = 0;
        ops_shift = n == 1 ? only_shift : 3 * i;
        body(arg);
    }
    ops_shift = 0;
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"linear", test_linear},
    {"linear_bwd_input", test_linear_bwd_input},
    {"linear_bwd_weight", test_linear_bwd_weight},
    {"embedding", test_embedding},
    {"layernorm", test_layernorm},
    {"head", test_head},
    {"adamw", test_adamw},
    {"sums", test_sums},
    {"pruning", test_pruning},
    {"patterns", test_patterns},
    {"sparse_csr", test_sparse_csr},
    {"sparse_blocks", test_sparse_blocks},
    {"bad_patterns", test_bad_patterns},
    {"late_errors", test_late_errors}, /* the last: the backend has failed afterwards */
};
#define N_TESTS (sizeof tests / sizeof tests[0])

/* ---- two files of results ---- */

static double element(const struct dumped *d, const void *p, uint64_t i)
{
    return d->type == 'd' ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* What the two have of a result is the same in kind. returns: whether there was one more */
static bool next_result(FILE *f[2], struct dumped *d, void *p[2])
{
    struct dumped other;
    const size_t a = fread(d, sizeof *d, 1, f[0]), b = fread(&other, sizeof other, 1, f[1]);

    if (a != b || (a && memcmp(d, &other, sizeof other)))
        ops_die("the files have results of different tests");
    for (int i = 0; a && i < 2; i++) {
        p[i] = need(malloc(d->n * d->size + 1));
        if (fread(p[i], d->size, d->n, f[i]) != d->n)
            ops_die("%s, %s: the file ends", d->test, d->what);
    }
    return a == 1;
}

static int compare_files(char **path)
{
    FILE *f[2] = {fopen(path[0], "rb"), fopen(path[1], "rb")};
    struct {
        char name[32];
        uint64_t elements, differ;
        double most;
        char where[160];
    } sums[N_TESTS] = {0};
    struct dumped d;
    void *p[2];
    size_t n = 0;
    int bad = 0;

    if (!f[0] || !f[1])
        ops_die("%s cannot be read", f[0] ? path[1] : path[0]);
    while (next_result(f, &d, p)) {
        double largest = 0.0, most = 0.0;

        if (!n || strcmp(sums[n - 1].name, d.test)) {
            if (n == N_TESTS)
                ops_die("more than %zu tests", N_TESTS);
            snprintf(sums[n++].name, sizeof sums[0].name, "%s", d.test);
        }
        sums[n - 1].elements += d.n;
        if (d.type == 'b') {
            sums[n - 1].differ += memcmp(p[0], p[1], d.n * d.size) != 0;
            most = memcmp(p[0], p[1], d.n * d.size) ? INFINITY : 0.0;
        }
        for (uint64_t i = 0; d.type != 'b' && i < d.n; i++)
            largest = fmax(largest, fabs(element(&d, p[0], i))); /* NaN is none */
        for (uint64_t i = 0; d.type != 'b' && i < d.n; i++) {
            const double x = element(&d, p[0], i), y = element(&d, p[1], i);

            if (x == y || (isnan(x) && isnan(y)))
                continue;
            sums[n - 1].differ++;
            most = fmax(most, isnan(x) || isnan(y) ? INFINITY : fabs(x - y) / largest);
        }
        if (most > sums[n - 1].most) {
            sums[n - 1].most = most;
            snprintf(sums[n - 1].where, sizeof sums[0].where, "%s", d.what);
        }
        free(p[0]), free(p[1]);
    }
    for (size_t i = 0; i < n; i++) {
        const bool is_ok = sums[i].most <= TOLERANCE;

        bad += !is_ok;
        printf("%s %zu - %s: %llu of %llu elements differ, at most %.2g\n", is_ok ? "ok" : "not ok", i + 1, sums[i].name,
               (unsigned long long)sums[i].differ, (unsigned long long)sums[i].elements, sums[i].most);
        if (sums[i].most > 0.0)
            printf("# most in %s\n", sums[i].where);
    }
    printf("1..%zu\n", n);
    fclose(f[0]), fclose(f[1]);
    return bad || !n ? 1 : 0;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    bool is = argc == 2;

    for (int i = 2; i < argc; i++)
        is |= !strcmp(argv[i], name);
    return is;
}

int main(int argc, char **argv)
{
    void *library;
    struct dp_err err;
    long all = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && !strcmp(argv[1], "--compare"))
        return compare_files(argv + 2);
    for (; argc > 1 && !strncmp(argv[1], "--", 2); argc--, argv++)
        if (!strncmp(argv[1], "--shift=", 8))
            only_shift = (int)strtol(argv[1] + 8, NULL, 10);
        else if (!strncmp(argv[1], "--dump=", 7) && !(dump = fopen(argv[1] + 7, "wb")))
            ops_die("%s cannot be written", argv[1] + 7);
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (argc < 2 || !library) {
        fprintf(stderr, "usage: ops [--shift=N] [--dump=FILE] PLUGIN [TEST...]%s%s\n", argc > 1 ? ": " : "",
                argc > 1 ? dlerror() : "");
        return 2;
    }
    ops_be.ops = dlsym(library, "dp_backend_v1");
    if (!ops_be.ops || ops_be.ops->abi != DP_BACKEND_ABI)
        ops_die("%s has no interface %u", argv[1], (unsigned)DP_BACKEND_ABI);
    if (ops_be.ops->open(&ops_be, 0, 1, &err) < 0)
        ops_die("%s", err.text);
    printf("1..%zu\n", N_TESTS);
    for (size_t i = 0; i < N_TESTS; i++) {
        failures = 0;
        if (!is_wanted(tests[i].name, argc, argv)) {
            printf("ok %zu - %s # SKIP not wanted\n", i + 1, tests[i].name);
            continue;
        }
        running = tests[i].name;
        tests[i].run();
        printf("%s %zu - %s\n", failures ? "not ok" : "ok", i + 1, tests[i].name);
        if (failures > SAID)
            printf("# and %ld more\n", failures - SAID);
        all += failures;
    }
    ops_be.ops->close(&ops_be);
    if (dump && fclose(dump))
        ops_die("the results cannot be written");
    printf("# bits %016llx\n", (unsigned long long)bits);
    dlclose(library);
    return all ? 1 : 0;
}
