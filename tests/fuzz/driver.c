/* SPDX-License-Identifier: BSD-3-Clause */
/* A fuzz target as a test that needs no clang: every seed, every truncation of small seeds, then
 * mutations of the seeds from a fixed generator, so that two runs try the same inputs. Which input it
 * was is told when the program dies, and the input is left in <target>.crash.
 *
 *   fuzz_msg                one round as in `make check` (FUZZ_MUTATIONS=N: so many)
 *   fuzz_msg FILE...        these inputs and nothing else
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MUTATIONS 20000
#define BUDGET_S 2.0 /* a slow target, or one under a sanitizer, ends early */
#define INPUT_MAX (256u << 10)
#define MEMORY_MAX (16u << 20)
#define HANG_CPU_S 20 /* of an input that computes for ever; how long that takes is the machine's affair */
#define HANG_S 600    /* of one that waits for ever */

static uint8_t input[INPUT_MAX];
static size_t input_bytes;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (uint32_t)((state >> 11) % below) : 0;
}

static void on_death(int sig)
{
    static char path[80];
    int fd;

    snprintf(path, sizeof path, "%s.crash", fuzz_name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && write(fd, input, input_bytes) == (ssize_t)input_bytes)
        fprintf(stderr, "# %s: signal %d, input of %zu bytes in %s\n", fuzz_name, sig, input_bytes, path);
    raise(sig); /* the handler is gone (SA_RESETHAND) */
}

static void limit_time(unsigned cpu_s, unsigned s)
{
    const struct itimerval cpu = {.it_value.tv_sec = cpu_s};

    setitimer(ITIMER_PROF, &cpu, NULL);
    alarm(s);
}

static void run_input(void)
{
    uint8_t *copy = malloc(input_bytes + 1); /* of its own, so that a sanitizer sees its end */

    if (!copy)
        fuzz_die("out of memory");
    memcpy(copy, input, input_bytes);
    limit_time(HANG_CPU_S, HANG_S);
    LLVMFuzzerTestOneInput(copy, input_bytes);
    limit_time(0, 0);
    free(copy);
}

static void load(const struct fuzz_bytes *seed)
{
    input_bytes = seed->bytes < INPUT_MAX ? seed->bytes : INPUT_MAX;
    memcpy(input, seed->data, input_bytes);
}

static void put_number(uint32_t at)
{
    static const uint64_t numbers[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000u,
                                       0xffffffffu, 0x100000000u, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX};
    uint64_t v = numbers[draw(sizeof numbers / sizeof *numbers)] + draw(3) - 1;
    uint32_t width = 1u << draw(4), is_big = draw(2);

    for (uint32_t i = 0; i < width && at + i < input_bytes; i++)
        input[at + i] = (uint8_t)(v >> 8 * (is_big ? width - 1 - i : i));
}

/* Numbers in text: what a parser of digits meets too seldom otherwise. */
static void put_text(uint32_t at)
{
    static const char *const words[] = {"0", "-1", "4294967296", "9223372036854775807", "18446744073709551616",
                                        "1e309", "nan", "0x7f", "\"", "\\", "{", "[[[[", ",", "=", "%n", "/*", "@include "};
    const char *word = words[draw(sizeof words / sizeof *words)];
    size_t n = strlen(word);

    if (at + n <= input_bytes)
        memcpy(input + at, word, n);
}

/* Move what lies behind `at`: a hole of n bytes, or n bytes less. */
static void resize_at(uint32_t at, uint32_t n, bool is_more)
{
    size_t tail = input_bytes - at;

    if (is_more && input_bytes + n <= INPUT_MAX) {
        memmove(input + at + n, input + at, tail);
        input_bytes += n;
    } else if (!is_more && n <= tail) {
        memmove(input + at, input + at + n, tail - n);
        input_bytes -= n;
    }
}

static void splice(uint32_t at)
{
    const struct fuzz_bytes *other = &fuzz_seeds[draw(fuzz_n_seeds)];
    uint32_t from = draw((uint32_t)other->bytes), n = draw((uint32_t)other->bytes - from + 1);

    if (at + n > INPUT_MAX)
        return;
    if (at + n > input_bytes)
        input_bytes = at + n;
    memcpy(input + at, other->data + from, n);
}

static void mutate(void)
{
    for (uint32_t n = 1 + draw(4); n > 0; n--) {
        uint32_t at = draw((uint32_t)input_bytes);

        switch (draw(8)) {
        case 0:
        case 1:
            if (input_bytes)
                input[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 2:
            if (input_bytes)
                input[at] = (uint8_t)draw(256);
            break;
        case 3:
            put_number(at);
            break;
        case 4:
            put_text(at);
            break;
        case 5:
            resize_at(at, 1 + draw(16), draw(2));
            break;
        case 6:
            splice(at);
            break;
        default:
            if (draw(4) == 0)
                input_bytes = at;
        }
    }
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int run_files(int n, char **paths)
{
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(paths[i], "re");

        if (!f)
            return perror(paths[i]), 1;
        input_bytes = fread(input, 1, sizeof input, f);
        fclose(f);
        run_input();
    }
    return 0;
}

static uint32_t run_truncations(const struct fuzz_bytes *seed)
{
    uint32_t n = 0, step = seed->bytes > 512 ? (uint32_t)(seed->bytes / 256) : 1;

    for (size_t cut = 0; cut < seed->bytes; cut += step, n++) {
        load(seed);
        input_bytes = cut;
        run_input();
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *asked = getenv("FUZZ_MUTATIONS");
    unsigned long n_mutations = asked ? strtoul(asked, NULL, 10) : MUTATIONS, done = 0;
    double end = seconds() + (asked ? 1e9 : BUDGET_S);
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGPROF};
    const struct sigaction die = {.sa_handler = on_death, .sa_flags = SA_RESETHAND}; /* some targets have a signal() of their own */
    uint32_t n_cuts = 0;

    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        sigaction(deadly[i], &die, NULL);
    fuzz_make_seeds();
    fuzz_limit_memory(MEMORY_MAX);
    if (argc > 1)
        return run_files(argc - 1, argv + 1);
    puts("1..1");
    fflush(stdout);
    for (uint32_t i = 0; i < fuzz_n_seeds; i++) {
        load(&fuzz_seeds[i]);
        run_input();
        if (seconds() < end)
            n_cuts += run_truncations(&fuzz_seeds[i]);
    }
    for (; done < n_mutations && seconds() < end; done++) {
        load(&fuzz_seeds[draw(fuzz_n_seeds)]);
        mutate();
        run_input();
    }
    printf("ok 1 - %s: %u seeds, %u truncations, %lu mutations\n", fuzz_name, fuzz_n_seeds, n_cuts, done);
    fuzz_limit_memory(0);
    for (uint32_t i = 0; i < fuzz_n_seeds; i++)
        free(fuzz_seeds[i].data);
    return 0;
}
