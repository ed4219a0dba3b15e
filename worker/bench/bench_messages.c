/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-messages: what do messages between workers of one node cost?
 *
 *   bench_messages [--workers N] [--rounds N] [--json]      (--help says what is measured)
 *
 * A process per worker, as in a run; rank 0 is this one and prints. The others tell it their CPU time through
 * shared memory, not through the transport that is measured.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/crc32c.h"
#include "common/stdout.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/machine.h"
#include "kernels/bench/options.h"
#include "worker/bench/messages.h"
#include "worker/bench/workers.h"

#define MAX_ROUNDS 100000 /* some seconds of the shortest messages */

static const char usage[] =
    "usage: bench_messages [options]\n"
    "\n"
    "  --workers N       processes that exchange sums and the order of a step, 2 to 16, default 4; two of them send "
    "messages\n"
    "  --rounds N        samples of each figure, default 200\n"
    "  --json            for machines\n"
    "\n"
    "one way: messages from one worker to the next, two in flight; and back: there and back, one at a time;\n"
    "step sync: what all workers say and hear after a step of a model with 26 layers and 8 microbatches.\n";

struct arguments {
    int workers, rounds;
    bool is_json;
};

/* returns: -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option longs[] = {{"workers", 1, NULL, 'w'},
                                          {"rounds", 1, NULL, 'r'},
                                          {"json", 0, NULL, 'j'},
                                          {"help", 0, NULL, 'h'},
                                          {0}};
    struct dp_err err = {0};
    int c, rc = 0;

    *a = (struct arguments){.workers = 4, .rounds = 200};
    while (rc == 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?') /* getopt_long has said why */
            return 2;
        if (c == 'j')
            a->is_json = true;
        else
            rc = bench_parse_count(optarg, c == 'w' ? BENCH_MAX_WORKERS : MAX_ROUNDS,
                                   c == 'w' ? &a->workers : &a->rounds, &err);
    }
    if (rc == 0 && optind < argc)
        rc = dp_err_set(&err, DP_EINVAL, "unknown option '%.60s'", argv[optind]);
    if (rc == 0 && a->workers < 2)
        rc = dp_err_set(&err, DP_EINVAL, "--workers: 2 at least");
    if (rc < 0)
        fprintf(stderr, "bench_messages: %s\n", err.text);
    return rc < 0 ? 2 : -1;
}

/* ---- figures ---- */

/* How long the checksum of a message takes one side. */
static double checksum_ns(size_t bytes)
{
    char *data = calloc(1, bytes);
    uint64_t start_ns = dp_now_ns();
    volatile uint32_t crc = 0;

    for (int i = 0; data && i < 10; i++)
        crc = dp_crc32c(crc, data, bytes);
    free(data);
    return (double)(dp_now_ns() - start_ns) / 10;
}

static void add_row(json_t *rows, json_t *row, double *samples, int n)
{
    json_object_set_new(row, "ns", bench_times_json(samples, n));
    json_array_append_new(rows, row);
}

/* Of rank 0 and 1; rank 0 notes what it measured. */
static int measure_pair(struct dp_transport *t, uint32_t rank, const struct arguments *a, double *samples,
                        json_t *rows, struct dp_err *err)
{
    static const size_t sizes[] = {8, 200000, 1 << 20, 4 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (bench_one_way(t, rank, sizes[i], a->rounds, samples, err) < 0)
            return -1;
        if (rank == 0)
            add_row(rows,
                    json_pack("{s:s, s:I, s:f}", "what", "one way", "bytes", (json_int_t)sizes[i],
                              "checksum_ns", checksum_ns(sizes[i])),
                    samples, a->rounds);
    }
    if (bench_and_back(t, rank, sizes[0], a->rounds, samples, err) < 0)
        return -1;
    if (rank == 0)
        add_row(rows, json_pack("{s:s, s:I}", "what", "and back", "bytes", (json_int_t)sizes[0]), samples,
                a->rounds);
    return 0;
}

static int measure(uint32_t rank, const struct arguments *a, int fd[][2], double *cpu_ns, json_t *rows,
                   struct dp_err *err)
{
    double *samples = calloc((size_t)a->rounds, sizeof *samples);
    struct dp_transport *t = samples ? bench_workers_meet(rank, (uint32_t)a->workers, fd, err) : NULL;
    int rc = -1;

    if (!samples)
        dp_err_set(err, DP_ENOMEM, "no memory for %d samples", a->rounds);
    if (t)
        rc = rank < 2 ? measure_pair(t, rank, a, samples, rows, err) : 0;
    if (rc == 0)
        rc = bench_step_sync(t, rank, (uint32_t)a->workers, a->rounds, samples, &cpu_ns[rank], err);
    if (rc == 0 && rank == 0)
        add_row(rows, json_pack("{s:s, s:i}", "what", "step sync", "workers", a->workers), samples, a->rounds);
    dp_transport_destroy(t);
    free(samples);
    return rc;
}

/* The processes have ended: what each said of its CPU belongs to the last row. */
static void add_cpu(json_t *rows, const double *cpu_ns, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real(cpu_ns[i]));
    json_object_set_new(json_array_get(rows, json_array_size(rows) - 1), "cpu_ns", list);
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void print_row(const json_t *row)
{
    const char *what = json_string_value(json_object_get(row, "what"));
    const json_t *ns = json_object_get(row, "ns"), *cpu = json_object_get(row, "cpu_ns");
    double median = number(ns, "median"), bytes = number(row, "bytes"), checksum = number(row, "checksum_ns");
    size_t i;
    json_t *v;

    printf("%-9s", what);
    if (cpu)
        printf("%7.0f workers", number(row, "workers"));
    else
        printf("%9.0f bytes", bytes);
    printf("%10.2f us (%.2f .. %.2f)", median / 1e3, number(ns, "min") / 1e3, number(ns, "max") / 1e3);
    if (checksum > 0)
        printf(" %8.3f GB/s, checksums of both sides %.2f us", bytes / median, 2 * checksum / 1e3);
    if (cpu)
        printf(" CPU of each:");
    json_array_foreach(cpu, i, v) printf(" %.2f us", json_number_value(v) / 1e3);
    putchar('\n');
}

static void print(json_t *root, bool is_json)
{
    size_t i;
    json_t *row;

    if (is_json) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
        return;
    }
    bench_machine_print(root);
    json_array_foreach(json_object_get(root, "rows"), i, row) print_row(row);
}

static int fail(const char *why)
{
    fprintf(stderr, "bench_messages: %s\n", why);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    int fd[BENCH_MAX_WORKERS][2], rank, status = 0, rc;
    struct dp_err err = {0};
    struct arguments a;
    json_t *root, *rows;
    double *cpu_ns;

    if ((rc = parse(argc, argv, &a)) >= 0) {
        if (rc == 2)
            fputs("Try bench_messages --help.\n", stderr);
        return rc;
    }
    cpu_ns =
        mmap(NULL, BENCH_MAX_WORKERS * sizeof *cpu_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cpu_ns == MAP_FAILED)
        return fail("no shared memory");
    rank = bench_workers_start(a.workers, fd, &err);
    if (rank < 0)
        return fail(err.text);
    root = bench_machine_json();
    rows = json_array();
    json_object_set_new(root, "rows", rows);
    json_object_set_new(root, "rounds", json_integer(a.rounds));
    rc = measure((uint32_t)rank, &a, fd, cpu_ns, rows, &err);
    if (rc < 0)
        fprintf(stderr, "bench_messages: worker %d: %s\n", rank, err.text);
    if (rank + 1 < a.workers && (wait(&status) < 0 || status))
        rc = -1;
    if (rc == 0 && rank == 0) {
        add_cpu(rows, cpu_ns, a.workers);
        print(root, a.is_json);
        rc = dp_stdout_flush(&err);
        if (rc < 0)
            fail(err.text);
    }
    json_decref(root);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
