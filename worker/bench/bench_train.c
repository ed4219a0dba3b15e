/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-train: how fast does one worker train, and what limits it?
 *
 *   bench_train [--row NAME]... [--model SHAPE]... [--stage SHAPE]... [options]      (--help lists them)
 *
 * Each row is a process of its own, so that its largest resident set is its own. Inside of it all
 * sparsities take turns, and with them the measurement of the processor's peak: a machine that is slow
 * for a while is slow for all.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/stdout.h"
#include "kernels/bench/limits.h"
#include "kernels/bench/machine.h"
#include "kernels/bench/options.h"
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
    "  --granularity LIST  of random zeros: weight (default), 4x1, 32x32, 64x64, 128x128; both: weight,4x1\n"
    "  --masks FOLDER    a checkpoint: its masks, and random ones with the same densities; may be repeated\n"
    "  --pictures FOLDER write the masks of --masks as portable bitmaps, and end: for bench_linear --mask\n"
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
    const char *pictures; /* folder, or NULL */
    int n_rows;
    struct bench_row row[MAX_ROWS];
};

/* ---- arguments ---- */

static int parse_row(const char *name, struct arguments *a, struct dp_err *err)
{
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(name, rows[i].shape.name) && a->n_rows < MAX_ROWS) {
            a->row[a->n_rows++] = rows[i];
            return 0;
        }
    return dp_err_set(err, DP_EINVAL, "no row '%.60s', or more than %d", name, MAX_ROWS);
}

static int parse_shape(const char *text, bool is_stage, struct arguments *a, struct dp_err *err)
{
    const int n = is_stage ? 5 : 6;
    int64_t v[6];
    struct bench_row *r = &a->row[a->n_rows];

    if (a->n_rows == MAX_ROWS)
        return dp_err_set(err, DP_EINVAL, "more than %d rows", MAX_ROWS);
    if (bench_parse_shape(text, n, v, err) < 0)
        return -1;
    *r = (struct bench_row){.shape = {.is_stage = is_stage,
                                      .blocks = v[0],
                                      .channels = v[1],
                                      .heads = v[2],
                                      .vocabulary = is_stage ? 256 : v[3],
                                      .batch = v[n - 2],
                                      .context = v[n - 1]},
                            .n_sparsities = 1};
    snprintf(r->shape.name, sizeof r->shape.name, "%.60s", text);
    if (v[1] % v[2] || v[0] > 1000 || (!is_stage && v[3] < 2))
        return dp_err_set(err, DP_EINVAL,
                          "'%.60s': heads divide channels, at most 1000 blocks, 2 tokens at least", text);
    a->n_rows++;
    return 0;
}

static int parse_masks(const char *folder, struct bench_options *o, struct dp_err *err)
{
    if (o->n_masks == BENCH_MAX_MASKS)
        return dp_err_set(err, DP_EINVAL, "more than %d checkpoints", BENCH_MAX_MASKS);
    o->masks[o->n_masks++] = folder;
    return 0;
}

static void print_names(FILE *f, const char *between)
{
    for (int i = 0; i < N_ROWS; i++)
        fprintf(f, "%s%s", i ? between : "", rows[i].shape.name);
    fputc('\n', f);
}

static int parse_option(int c, struct arguments *a, struct dp_err *err)
{
    struct bench_options *o = &a->options;

    switch (c) {
    case 'r':
        return parse_row(optarg, a, err);
    case 'm':
        return parse_shape(optarg, false, a, err);
    case 's':
        return parse_shape(optarg, true, a, err);
    case 'z':
        return bench_parse_fractions(optarg, BENCH_MAX_VARIANTS, o->sparsity, &o->n_sparsities, err);
    case 'k':
        return parse_masks(optarg, o, err);
    case 't':
        return bench_parse_counts(optarg, DP_LIMIT_MAX_THREADS, BENCH_MAX_THREADS, o->threads, &o->n_threads,
                                  err);
    case 'n':
        return bench_parse_count(optarg, BENCH_MAX_STEPS, &o->steps, err);
    case 'w':
        return bench_parse_clock(optarg, &o->clock, err);
    case 'g':
        return bench_parse_granularity(optarg, o->granularity, &o->n_granularities, err);
    case 'b':
        o->backend = optarg;
        return 0;
    case 'p':
        a->pictures = optarg;
        return 0;
    case 'c':
        o->clip = false;
        return 0;
    case 'o':
        o->trace = true;
        return 0;
    case 'f':
        a->follow = true;
        return 0;
    default: /* 'j' */
        a->json = true;
        return 0;
    }
}

/* Options that do not go together. Without rows, all of them. */
static int check(struct arguments *a, struct dp_err *err)
{
    const struct bench_options *o = &a->options;

    if (a->n_rows == 0) {
        memcpy(a->row, rows, sizeof rows);
        a->n_rows = N_ROWS;
    }
    if (bench_check_clock(o->clock, o->threads, o->n_threads, err) < 0)
        return -1;
    if (a->pictures && o->n_masks != 1)
        return dp_err_set(err, DP_EINVAL, "--pictures takes one checkpoint: --masks");
    if (a->follow && (a->n_rows != 1 || o->n_threads != 1 || o->n_masks ||
                      (o->n_sparsities ? o->n_sparsities : a->row[0].n_sparsities) != 1))
        return dp_err_set(err, DP_EINVAL, "--follow takes one row, one sparsity, one number of threads");
    return 0;
}

/* returns: -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option longs[] = {
        {"row", 1, NULL, 'r'},      {"model", 1, NULL, 'm'},   {"stage", 1, NULL, 's'},
        {"sparsity", 1, NULL, 'z'}, {"masks", 1, NULL, 'k'},   {"threads", 1, NULL, 't'},
        {"steps", 1, NULL, 'n'},    {"backend", 1, NULL, 'b'}, {"no-clip", 0, NULL, 'c'},
        {"ops", 0, NULL, 'o'},      {"follow", 0, NULL, 'f'},  {"json", 0, NULL, 'j'},
        {"list", 0, NULL, 'l'},     {"clock", 1, NULL, 'w'},   {"granularity", 1, NULL, 'g'},
        {"pictures", 1, NULL, 'p'}, {"help", 0, NULL, 'h'},    {0}};
    struct dp_err err = {0};
    int c, rc = 0;

    *a = (struct arguments){.options = {.backend = "cpu",
                                        .n_threads = 1,
                                        .threads = {1},
                                        .steps = 7,
                                        .clock = CLOCK_MONOTONIC,
                                        .clip = true,
                                        .n_granularities = 1,
                                        .granularity = {1}}};
    while (rc == 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'l' || c == 'h') {
            fputs(c == 'h' ? usage : "", stdout);
            print_names(stdout, c == 'h' ? ", " : "\n");
            return 0;
        }
        if (c == '?') /* getopt_long has said why */
            return 2;
        rc = parse_option(c, a, &err);
    }
    if (rc == 0 && optind < argc)
        rc = dp_err_set(&err, DP_EINVAL, "unknown option '%.60s'", argv[optind]);
    if (rc == 0)
        rc = check(a, &err);
    if (rc < 0)
        fprintf(stderr, "bench_train: %s\n", err.text);
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
    json_t *root = bench_machine_json();

    json_object_set_new(root, "backend", json_string(o->backend));
    json_object_set_new(root, "steps", json_integer(o->steps));
    json_object_set_new(root, "clip", json_boolean(o->clip));
    json_object_set_new(root, "clock", json_string(o->clock == CLOCK_MONOTONIC ? "wall" : "cpu"));
    json_object_set_new(root, "flops_formula", json_string("per token 6 (12 L C^2 density + V C) + 6 L C T"));
    return root;
}

static int run_all(const struct arguments *a)
{
    json_t *root = head_json(&a->options), *list = json_array();
    struct dp_err err;
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
    if (rc == 0 && dp_stdout_flush(&err) < 0) {
        fprintf(stderr, "bench_train: %s\n", err.text);
        rc = 1;
    }
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

static int draw(const struct arguments *a)
{
    struct dp_err err = {0};
    struct dp_backend *be = dp_backend_create(a->options.backend, 0, 1, &err);
    struct bench_masks *masks = be ? bench_masks_load(a->options.masks[0], be, &err) : NULL;
    int rc = masks ? bench_masks_draw(masks, a->pictures, &err) : -1;

    if (rc < 0)
        fprintf(stderr, "bench_train: %s\n", err.text);
    bench_masks_destroy(masks);
    dp_backend_destroy(be);
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
    if (a.pictures)
        return draw(&a);
    for (int i = 0; i < a.options.n_threads; i++)
        threads = a.options.threads[i] > threads ? a.options.threads[i] : threads;
    dp_wait_briefly(threads, argv);
    return a.follow ? follow(&a) : run_all(&a);
}
