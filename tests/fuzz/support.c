/* SPDX-License-Identifier: BSD-3-Clause */
/* What all fuzz targets share: seeds, the input as a file, and a limit on single allocations (the
 * linker sends malloc and its kin of this tree's objects through here: -Wl,--wrap). Large blocks are kept and given
 * out again: a coordinator is 1 MB, and to map one anew for each input takes longer than what the input does. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <sanitizer/asan_interface.h> /* nothing without the sanitizer */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fuzz_bytes fuzz_seeds[FUZZ_MAX_SEEDS];
uint32_t fuzz_n_seeds;
static size_t memory_limit;
static char folder[64], file[96];

#define LARGE_BYTES (256u << 10)
static struct {
    void *p;
    size_t bytes;
    bool is_used;
} large[8];

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void __wrap_free(void *p);

void fuzz_die(const char *why)
{
    fprintf(stderr, "# %s: %s\n", fuzz_name, why);
    abort();
}

void fuzz_limit_memory(size_t bytes)
{
    memory_limit = bytes;
}

static void check_memory(size_t bytes)
{
    if (memory_limit && bytes > memory_limit) {
        fprintf(stderr, "# %s: one allocation of %zu bytes\n", fuzz_name, bytes);
        abort();
    }
}

/* NULL: no room in the table. */
static void *take_large(size_t bytes)
{
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        if (large[i].is_used || (large[i].p && large[i].bytes != bytes))
            continue;
        if (!large[i].p)
            large[i].p = __real_malloc(bytes);
        large[i].bytes = bytes;
        large[i].is_used = large[i].p != NULL;
        ASAN_UNPOISON_MEMORY_REGION(large[i].p, bytes);
        return large[i].p;
    }
    return NULL;
}

static void *allocate(size_t bytes)
{
    void *p = bytes >= LARGE_BYTES ? take_large(bytes) : NULL;

    check_memory(bytes);
    return p ? p : __real_malloc(bytes);
}

void *__wrap_malloc(size_t bytes)
{
    return allocate(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    void *p;

    if (bytes && n > SIZE_MAX / bytes)
        fuzz_die("calloc of more than there can be");
    if (n * bytes < LARGE_BYTES) {
        check_memory(n * bytes);
        return __real_calloc(n, bytes);
    }
    p = allocate(n * bytes);
    return p ? memset(p, 0, n * bytes) : NULL;
}

/* A kept block: what becomes of it. NULL: it is none. */
static void *resize_large(void *p, size_t bytes)
{
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        if (p && large[i].p == p) {
            void *q = allocate(bytes);

            if (!q)
                fuzz_die("out of memory");
            memcpy(q, p, bytes < large[i].bytes ? bytes : large[i].bytes);
            __wrap_free(p);
            return q;
        }
    return NULL;
}

void *__wrap_realloc(void *p, size_t bytes)
{
    void *q = resize_large(p, bytes);

    check_memory(bytes);
    return q ? q : __real_realloc(p, bytes);
}

void __wrap_free(void *p)
{
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        if (p && large[i].p == p) {
            if (!large[i].is_used)
                fuzz_die("a block is freed twice");
            large[i].is_used = false;
            ASAN_POISON_MEMORY_REGION(p, large[i].bytes);
            return;
        }
    __real_free(p);
}

void fuzz_seed(const void *data, size_t bytes)
{
    struct fuzz_bytes *s = &fuzz_seeds[fuzz_n_seeds];

    if (fuzz_n_seeds == FUZZ_MAX_SEEDS)
        fuzz_die("too many seeds");
    s->data = malloc(bytes + 1);
    if (!s->data)
        fuzz_die("out of memory");
    if (bytes)
        memcpy(s->data, data, bytes);
    s->bytes = bytes;
    fuzz_n_seeds++;
}

void fuzz_seed_text(const char *text)
{
    fuzz_seed(text, strlen(text));
}

static void clean_up(void)
{
    unlink(file);
    rmdir(folder);
}

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "/dev/shm/dp-fuzz-XXXXXX");
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "%.40s/dp-fuzz-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(folder))
            fuzz_die("no temporary folder");
    }
    snprintf(file, sizeof file, "%s/input", folder);
    atexit(clean_up);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || (bytes && write(fd, data, bytes) != (ssize_t)bytes))
        fuzz_die("the input cannot be written to a file");
    close(fd);
}

const char *fuzz_file(const void *data, size_t bytes)
{
    if (!folder[0])
        make_folder();
    write_file(file, data, bytes);
    return file;
}

int fuzz_write_seeds(const char *to)
{
    char path[PATH_MAX];

    for (uint32_t i = 0; i < fuzz_n_seeds; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/seed-%03u", to, i) >= sizeof path)
            return -1;
        write_file(path, fuzz_seeds[i].data, fuzz_seeds[i].bytes);
    }
    return 0;
}
