/* make bench-train: how fast does one worker train, and what limits it?
 *
 *   bench_train [--row NAME]... [--model SHAPE]... [--stage SHAPE]... [options]      (--help lists them)
 *
 * Each row is a process of its own, so that its largest resident set is its own. Inside of it all
 * sparsities take turns, and with them the measurement of the processor's peak: a machine that is slow
 * for a while is slow for all.
 */
#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/bench/limits.h"
#include "kernels/bench/machine.h"
#include "kernels/waiting.h"
#include "worker/bench/group.h"
#include "worker/bench/table.h"

static const char usage[] =
    "usage: bench_train [options]\n"
    "\n"
    "  --row NAME        one of the rows below; may be repeated; default: all\n"
    "  --model SHAPE     a GPT: BLOCKSxCHANNELSxHEADSxVOCABULARYxBATCHxCONTEXT, heads divide channels\n"
    "  --stage SHAPE     blocks alone: BLOCKSxCHANNELSxHEADSxBATCHxCONTEXT\n"
    "  --sparsity LIST   fractions of zeros in the blocks' matrices, 0,0.5,0.9; default: the row's\n"
    "  --granularity G   of random zeros: weight (default), 4x1, both\n"
    "  --masks FOLDER    a checkpoint: its masks, and random ones with the same densities; may be repeated\n"
    "  --threads LIST    compute threads, default 1; 1,2: each of them, in alternation\n"
    "  --steps N         measured steps, default 7\n"
    "  --backend NAME    cpu, cpu:avx512, cpu:avx2, cpu:plain; default cpu\n"
    "  --clock CLOCK     wall (default), or cpu: with one thread, on a machine that is busy\n"
    "  --no-clip         no clipping of the gradient (other programs of this kind have none)\n"
    "  --ops             as many steps again, with the time of each operation and shape\n"
    "  --follow          one row, one sparsity: for each line \"N\" of stdin make N steps, print JSON\n"
    "  --json            for machines; --list: names of the rows\n"
    "\n"
    "rows: ";

/* GPT-2's vocabulary of 50257, padded to a multiple of 128 as everybody does. */
#define STAGE_SPARSITIES .n_sparsities = 6, .sparsity = {0.0, 0.5, 0.7, 0.8, 0.9, 0.95}
#define DENSE .n_sparsities = 1
static const struct bench_row rows[] = {
    {.shape = {"gpt2-124m", false, 12, 768, 12, 50304, 4, 64}, DENSE},
    {.shape = {"gpt2-124m-t1024", false, 12, 768, 12, 50304, 1, 1024}, DENSE},
    {.shape = {"l6-c384", false, 6, 384, 6, 50304, 4, 64}, DENSE},
    {.shape = {"l6-c384-v512", false, 6, 384, 6, 512, 4, 64}, DENSE},
    {.shape = {"stage-m256", true, 6, 768, 12, 256, 4, 64}, STAGE_SPARSITIES},
    {.shape = {"stage-m1024", true, 6, 768, 12, 256, 4, 256}, STAGE_SPARSITIES},
};
#define N_ROWS ((int)(sizeof rows / sizeof rows[0]))
#define MAX_ROWS 16

struct arguments {
    struct bench_options options;
    bool json, follow;
    int n_rows;
    struct bench_row row[MAX_ROWS];
};

/* ---- arguments ---- */

static int parse_row(const char *name, struct arguments *a)
{
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(name, rows[i].shape.name) && a->n_rows < MAX_ROWS) {
            a->row[a->n_rows++] = rows[i];
            return 0;
        }
    fprintf(stderr, "bench_train: no row '%s'\n", name);
    return -1;
}

static int parse_shape(const char *text, bool is_stage, struct arguments *a)
{
    const int n = is_stage ? 5 : 6;
    long v[6];
    const char *at = text;
    struct bench_row *r = &a->row[a->n_rows];

    for (int i = 0; i < n; i++) {
        char *end;

        v[i] = strtol(at, &end, 10);
        if (end == at || v[i] < 1 || v[i] > 1 << 20 || *end != (i < n - 1 ? 'x' : '\0') ||
            a->n_rows == MAX_ROWS) {
            fprintf(stderr, "bench_train: '%s' is no shape\n", text);
            return -1;
        }
        at = end + 1;
    }
    *r = (struct bench_row){.shape = {.is_stage = is_stage,
                                      .blocks = v[0],
                                      .channels = v[1],
                                      .heads = v[2],
                                      .vocabulary = is_stage ? 256 : v[3],
                                      .batch = v[n - 2],
                                      .context = v[n - 1]},
                            .n_sparsities = 1};
    snprintf(r->shape.name, sizeof r->shape.name, "%.60s", text);
    if (v[1] % v[2] || v[0] > 1000 || (!is_stage && v[3] < 2)) {
        fprintf(stderr, "bench_train: '%s': heads divide channels, at most 1000 blocks, 2 tokens at least\n",
                text);
        return -1;
    }
    a->n_rows++;
    return 0;
}

static int parse_sparsities(const char *text, struct bench_options *o)
{
    const char *at = text;

    for (;;) {
        char *end;
        double x = strtod(at, &end);

        if (end == at || !(x >= 0.0 && x < 1.0) || (*end && *end != ',') ||
            o->n_sparsities == BENCH_MAX_VARIANTS) {
            fprintf(stderr, "bench_train: '%s' is no list of fractions below 1\n", text);
            return -1;
        }
        o->sparsity[o->n_sparsities++] = x;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

static int parse_count(const char *text, int most, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < 1 || n > most) {
        fprintf(stderr, "bench_train: '%s' is not from 1 to %d\n", text, most);
        return -1;
    }
    *out = (int)n;
    return 0;
}

static int parse_threads(const char *text, struct bench_options *o)
{
    const char *at = text;

    o->n_threads = 0;
    for (;;) {
        char *end;
        long n = strtol(at, &end, 10);

        if (end == at || n < 1 || n > DP_LIMIT_MAX_THREADS || (*end && *end != ',') ||
            o->n_threads == BENCH_MAX_THREADS) {
            fprintf(stderr, "bench_train: '%s' is no list of at most %d numbers from 1 to %d\n", text,
                    BENCH_MAX_THREADS, DP_LIMIT_MAX_THREADS);
            return -1;
        }
        o->threads[o->n_threads++] = (int)n;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

static int parse_masks(const char *folder, struct bench_options *o)
{
    if (o->n_masks == BENCH_MAX_MASKS) {
        fprintf(stderr, "bench_train: more than %d checkpoints\n", BENCH_MAX_MASKS);
        return -1;
    }
    o->masks[o->n_masks++] = folder;
    return 0;
}

static int parse_granularity(const char *name, struct bench_options *o)
{
    bool both = !strcmp(name, "both");

    o->weights = both || !strcmp(name, "weight");
    o->blocks = both || !strcmp(name, "4x1");
    if (o->weights || o->blocks)
        return 0;
    fprintf(stderr, "bench_train: --granularity takes weight, 4x1 and both, not '%s'\n", name);
    return -1;
}

static int parse_clock(const char *name, struct bench_options *o)
{
    o->clock = strcmp(name, "cpu") ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    if (!strcmp(name, "cpu") || !strcmp(name, "wall"))
        return 0;
    fprintf(stderr, "bench_train: --clock takes wall and cpu, not '%s'\n", name);
    return -1;
}

static void print_names(FILE *f, const char *between)
{
    for (int i = 0; i < N_ROWS; i++)
        fprintf(f, "%s%s", i ? between : "", rows[i].shape.name);
    fputc('\n', f);
}

/* returns: -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option longs[] = {{"row", 1, NULL, 'r'},
                                          {"model", 1, NULL, 'm'},
                                          {"stage", 1, NULL, 's'},
                                          {"sparsity", 1, NULL, 'z'},
                                          {"masks", 1, NULL, 'k'},
                                          {"threads", 1, NULL, 't'},
                                          {"steps", 1, NULL, 'n'},
                                          {"backend", 1, NULL, 'b'},
                                          {"no-clip", 0, NULL, 'c'},
                                          {"ops", 0, NULL, 'o'},
                                          {"follow", 0, NULL, 'f'},
                                          {"json", 0, NULL, 'j'},
                                          {"list", 0, NULL, 'l'},
                                          {"clock", 1, NULL, 'w'},
                                          {"granularity", 1, NULL, 'g'},
                                          {"help", 0, NULL, 'h'},
                                          {0}};
    struct bench_options *o = &a->options;
    int c, rc = 0;

    *a = (struct arguments){.options = {.backend = "cpu",
                                        .n_threads = 1,
                                        .threads = {1},
                                        .steps = 7,
                                        .clock = CLOCK_MONOTONIC,
                                        .clip = true,
                                        .weights = true}};
    while (rc == 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (c) {
        case 'r':
            rc = parse_row(optarg, a);
            break;
        case 'm':
            rc = parse_shape(optarg, false, a);
            break;
        case 's':
            rc = parse_shape(optarg, true, a);
            break;
        case 'z':
            rc = parse_sparsities(optarg, o);
            break;
        case 'k':
            rc = parse_masks(optarg, o);
            break;
        case 't':
            rc = parse_threads(optarg, o);
            break;
        case 'n':
            rc = parse_count(optarg, BENCH_MAX_STEPS, &o->steps);
            break;
        case 'b':
            o->backend = optarg;
            break;
        case 'w':
            rc = parse_clock(optarg, o);
            break;
        case 'g':
            rc = parse_granularity(optarg, o);
            break;
        case 'c':
            o->clip = false;
            break;
        case 'o':
            o->trace = true;
            break;
        case 'f':
            a->follow = true;
            break;
        case 'j':
            a->json = true;
            break;
        case 'l':
            print_names(stdout, "\n");
            return 0;
        case 'h':
            fputs(usage, stdout);
            print_names(stdout, ", ");
            return 0;
        default:
            rc = -1;
        }
    }
    if (rc == 0 && optind < argc) {
        fprintf(stderr, "bench_train: '%s' is no option\n", argv[optind]);
        rc = -1;
    }
    if (rc == 0 && o->clock != CLOCK_MONOTONIC && (o->n_threads > 1 || o->threads[0] > 1)) {
        fputs("bench_train: the CPU time of several threads is no duration: --clock cpu takes one\n", stderr);
        rc = -1;
    }
    if (a->n_rows == 0) {
        memcpy(a->row, rows, sizeof rows);
        a->n_rows = N_ROWS;
    }
    if (rc == 0 && a->follow &&
        (a->n_rows != 1 || o->n_threads != 1 ||
         (o->n_sparsities ? o->n_sparsities : a->row[0].n_sparsities) != 1 || o->n_masks)) {
        fprintf(stderr, "bench_train: --follow takes one row, one sparsity, one number of threads\n");
        rc = -1;
    }
    return rc < 0 ? 2 : -1;
}

/* ---- rows ---- */

static int child(const struct bench_row *row, const struct bench_options *o, int fd)
{
    struct dp_err err = {0};
    json_t *result = bench_group_run(row, o, &err);
    int rc = 1;

    if (!result)
        fprintf(stderr, "bench_train: %s\n", err.text);
    else
        rc = json_dumpfd(result, fd, JSON_REAL_PRECISION(9)) < 0;
    json_decref(result);
    close(fd);
    return rc;
}

/* The row's result from a process of its own; NULL when that failed and has said why. */
static json_t *run_row(const struct bench_row *row, const struct bench_options *o)
{
    int pipe_fd[2], status = 0;
    json_t *result;
    json_error_t why;
    pid_t pid;

    fflush(NULL);
    if (pipe(pipe_fd) < 0 || (pid = fork()) < 0) {
        perror("bench_train");
        return NULL;
    }
    if (pid == 0) {
        close(pipe_fd[0]);
        _exit(child(row, o, pipe_fd[1]));
    }
    close(pipe_fd[1]);
    result = json_loadfd(pipe_fd[0], 0, &why);
    close(pipe_fd[0]);
    if (waitpid(pid, &status, 0) < 0 || status || !result) {
        if (WIFSIGNALED(status))
            fprintf(stderr, "bench_train: %s ended by signal %d\n", row->shape.name, WTERMSIG(status));
        json_decref(result);
        return NULL;
    }
    return result;
}

static json_t *head_json(const struct bench_options *o)
{
    struct bench_machine m;

    bench_machine_read(&m);
    return json_pack("{s:{s:s, s:i, s:f, s:f}, s:s, s:s, s:s, s:s, s:i, s:b, s:s, s:s}", "machine", "cpu",
                     m.cpu, "cores", m.cores, "load", m.load, "memory_bytes", (double)m.memory_bytes,
                     "dynpipe", PACKAGE_VERSION, "gemm", m.gemm, "compiler", __VERSION__, "backend",
                     o->backend, "steps", o->steps, "clip", (int)o->clip, "clock",
                     o->clock == CLOCK_MONOTONIC ? "wall" : "cpu", "flops_formula",
                     "per token 6 (12 L C^2 density + V C) + 6 L C T");
}

static int run_all(const struct arguments *a)
{
    json_t *root = head_json(&a->options), *list = json_array();
    int rc = 0;

    if (!a->json)
        bench_table_head(root);
    for (int i = 0; i < a->n_rows && rc == 0; i++) {
        json_t *row = run_row(&a->row[i], &a->options);

        if (!row)
            rc = 1;
        else if (!a->json)
            bench_table_row(row);
        json_array_append_new(list, row ? row : json_null());
    }
    json_object_set_new(root, "rows", list);
    if (a->json && rc == 0) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    }
    json_decref(root);
    return rc;
}

static int follow(const struct arguments *a)
{
    json_t *head = head_json(&a->options);
    struct dp_err err = {0};
    int rc = bench_group_follow(head, &a->row[0], &a->options, &err);

    if (rc < 0)
        fprintf(stderr, "bench_train: %s\n", err.text);
    json_decref(head);
    return rc < 0;
}

int main(int argc, char **argv)
{
    struct arguments a;
    int rc = parse(argc, argv, &a), threads = 1;

    if (rc >= 0) {
        if (rc == 2)
            fputs("Try bench_train --help.\n", stderr);
        return rc;
    }
    for (int i = 0; i < a.options.n_threads; i++)
        threads = a.options.threads[i] > threads ? a.options.threads[i] : threads;
    dp_wait_briefly(threads, argv);
    return a.follow ? follow(&a) : run_all(&a);
}
