/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-handover: how fast do layers go from one worker of a node to another?
 *
 *   bench_handover [--mib LIST] [--sparsity LIST] [--rounds N] [--no-stock] [--json]      (--help says what is measured)
 *
 * Two processes, as in a run; rank 0 is this one, has the layers and prints.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/stdout.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/machine.h"
#include "kernels/bench/options.h"
#include "worker/bench/layers.h"
#include "worker/bench/workers.h"

#define MAX_SIZES 16 /* of a list, and sparsities */
#define MAX_MIB 4096 /* 22 GiB of memory: both ends, and gradients */

static const char usage[] =
    "usage: bench_handover [options]\n"
    "\n"
    "  --mib 1,16,...     what three dense layers have together, 1 to 4096 MiB, default 1,16,256,1024; both ends need five\n"
    "                     times as much memory\n"
    "  --sparsity 0,0.9   zeros of their matrices, default 0,0.9; sparse layers of the same shape have fewer bytes\n"
    "  --rounds N         samples of each figure, at most 101, default 5\n"
    "  --no-stock         the destination asks for memory when the layers come, as where nobody told it before\n"
    "  --json             for machines\n"
    "\n"
    "hand-over: three layers with both moments, from the manifest until the destination has checked them and could vote:\n"
    "all workers wait so long. The destination's memory was made ready before, as it is while training goes on. ready: until\n"
    "the destination, too, could train, because it has plans of sparse matrices.\n"
    "messages: as many bytes between the same processes, as make bench-messages sends 4 MiB, in turns.\n"
    "What a hand-over has besides: checksums (of one end), memory (of all arrays of the layers: asked for, touched and\n"
    "given back), plans (of sparse matrices). Each is timed by itself; at the two ends they overlap.\n";

struct arguments {
    int n_mib, mib[MAX_SIZES];
    int n_sparsity;
    double sparsity[MAX_SIZES];
    int rounds;
    bool is_stocked, is_json;
};

static int take_option(int c, struct arguments *a, struct dp_err *err)
{
    switch (c) {
    case 'm':
        return bench_parse_counts(optarg, MAX_MIB, MAX_SIZES, a->mib, &a->n_mib, err);
    case 's':
        return bench_parse_fractions(optarg, MAX_SIZES, a->sparsity, &a->n_sparsity, err);
    case 'r':
        return bench_parse_count(optarg, DP_BENCH_MAX_ROUNDS, &a->rounds, err);
    case 'n':
        a->is_stocked = false;
        return 0;
    default:
        a->is_json = true;
        return 0;
    }
}

/* returns: -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option longs[] = {{"mib", 1, NULL, 'm'},    {"sparsity", 1, NULL, 's'}, {"rounds", 1, NULL, 'r'},
                                          {"no-stock", 0, NULL, 'n'}, {"json", 0, NULL, 'j'},
                                          {"help", 0, NULL, 'h'},     {0}};
    struct dp_err err = {0};
    int c, rc = 0;

    *a = (struct arguments){.n_mib = 4, .mib = {1, 16, 256, 1024}, .n_sparsity = 2, .sparsity = {0, 0.9}, .rounds = 5, .is_stocked = true};
    while (rc == 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?') /* getopt_long has said why */
            return 2;
        rc = take_option(c, a, &err);
    }
    if (rc == 0 && optind < argc)
        rc = dp_err_set(&err, DP_EINVAL, "unknown option '%.60s'", argv[optind]);
    if (rc < 0)
        fprintf(stderr, "bench_handover: %s\n", err.text);
    return rc < 0 ? 2 : -1;
}

/* ---- figures ---- */

/* The samples of one row, ns. */
struct samples {
    double handover[DP_BENCH_MAX_ROUNDS], ready[DP_BENCH_MAX_ROUNDS], messages[DP_BENCH_MAX_ROUNDS];
    double checksum[DP_BENCH_MAX_ROUNDS], memory[DP_BENCH_MAX_ROUNDS], plans[DP_BENCH_MAX_ROUNDS];
};

static json_t *row_json(const struct bench_layers *b, double sparsity, struct samples *s, int n)
{
    json_int_t bytes = (json_int_t)bench_layers_bytes(b);
    double handover = dp_bench_summarise(s->handover, n).median, messages = dp_bench_summarise(s->messages, n).median;

    return json_pack("{s:I, s:f, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f}", "channels", (json_int_t)bench_layers_channels(b),
                     "sparsity", sparsity, "bytes", bytes, "handover_ns", bench_times_json(s->handover, n), "ready_ns",
                     bench_times_json(s->ready, n), "messages_ns", bench_times_json(s->messages, n), "checksum_ns",
                     bench_times_json(s->checksum, n), "memory_ns", bench_times_json(s->memory, n), "plans_ns",
                     bench_times_json(s->plans, n), "handover_gb_s", (double)bytes / handover, "messages_gb_s",
                     (double)bytes / messages, "share", messages / handover);
}

/* One row: rank 0 notes what it measured. */
static int measure_row(struct dp_transport *t, uint32_t rank, int mib, double sparsity, const struct arguments *a, json_t *rows,
                       struct dp_err *err)
{
    const int rounds = a->rounds;
    struct bench_layers *b = bench_layers_create(t, rank, mib, sparsity, err);
    struct samples s;
    int rc = b ? 0 : -1;

    for (int i = -1; rc == 0 && i < rounds; i++) { /* one to warm up */
        int k = i < 0 ? 0 : i;

        rc = bench_layers_hand_over(b, a->is_stocked, &s.handover[k], &s.ready[k], err);
        if (rc == 0)
            rc = bench_layers_messages(b, &s.messages[k], err);
        if (rc == 0 && rank == 0)
            rc = bench_layers_parts(b, &s.checksum[k], &s.memory[k], &s.plans[k], err);
    }
    if (rc == 0 && rank == 0)
        json_array_append_new(rows, row_json(b, sparsity, &s, rounds));
    bench_layers_destroy(b);
    return rc;
}

static int measure(uint32_t rank, const struct arguments *a, int fd[][2], json_t *rows, struct dp_err *err)
{
    struct dp_transport *t = bench_workers_meet(rank, 2, fd, err);
    int rc = t ? 0 : -1;

    for (int i = 0; rc == 0 && i < a->n_sparsity; i++)
        for (int k = 0; rc == 0 && k < a->n_mib; k++)
            rc = measure_row(t, rank, a->mib[k], a->sparsity[i], a, rows, err);
    dp_transport_destroy(t);
    return rc;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static double median_ms(const json_t *row, const char *key)
{
    return number(json_object_get(row, key), "median") / 1e6;
}

static void print_row(const json_t *row)
{
    const json_t *ns = json_object_get(row, "handover_ns");

    printf("%8.0f %8.2f %9.1f %9.2f (%.2f .. %.2f) %8.2f %10.2f %7.0f %% %9.2f %11.2f %8.2f %8.2f\n", number(row, "channels"),
           number(row, "sparsity"), number(row, "bytes") / (1 << 20), median_ms(row, "handover_ns"), number(ns, "min") / 1e6,
           number(ns, "max") / 1e6, number(row, "handover_gb_s"), number(row, "messages_gb_s"), 100.0 * number(row, "share"),
           median_ms(row, "ready_ns"), median_ms(row, "checksum_ns"), median_ms(row, "memory_ns"), median_ms(row, "plans_ns"));
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
    printf("channels sparsity       MiB    hand-over, ms (min .. max)  GB/s   messages   share  ready, ms  checks, ms   memory    plans\n");
    json_array_foreach(json_object_get(root, "rows"), i, row) print_row(row);
}

static int fail(const char *why)
{
    fprintf(stderr, "bench_handover: %s\n", why);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    int fd[2][2], rank, status = 0, rc;
    struct dp_err err = {0};
    struct arguments a;
    json_t *root, *rows;

    if ((rc = parse(argc, argv, &a)) >= 0) {
        if (rc == 2)
            fputs("Try bench_handover --help.\n", stderr);
        return rc;
    }
    rank = bench_workers_start(2, fd, &err);
    if (rank < 0)
        return fail(err.text);
    root = bench_machine_json();
    rows = json_array();
    json_object_set_new(root, "rows", rows);
    json_object_set_new(root, "rounds", json_integer(a.rounds));
    rc = measure((uint32_t)rank, &a, fd, rows, &err);
    if (rc < 0)
        fprintf(stderr, "bench_handover: worker %d: %s\n", rank, err.text);
    if (rank == 0 && (wait(&status) < 0 || status))
        rc = -1;
    if (rc == 0 && rank == 0) {
        print(root, a.is_json);
        rc = dp_stdout_flush(&err);
        if (rc < 0)
            fail(err.text);
    }
    json_decref(root);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
