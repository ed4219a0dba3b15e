/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench: dense against sparse linear layers on this machine: forward, input gradient, weight gradient.
 *
 *   bench_linear [--shape OUTxINxTOKENS]... [--mask FILE]... [options]      (--help lists them)
 *
 * Zeros are random, or those of a network that was trained and pruned: bench_train --pictures writes its
 * masks. Activations of sparse operations lie in tiles, as between the operations of a block; with --format
 * rows their times include packing and unpacking.
 */
#include <stdio.h>

#include "common/stdout.h"
#include "kernels/bench/linear_arguments.h"
#include "kernels/bench/machine.h"
#include "kernels/waiting.h"

static json_t *head_json(const struct linear_options *o)
{
    json_t *root = bench_machine_json();

    json_object_set_new(root, "backend", json_string(o->backend));
    json_object_set_new(root, "rounds", json_integer(o->rounds));
    json_object_set_new(root, "clock", json_string(o->clock == CLOCK_MONOTONIC ? "wall" : "cpu"));
    json_object_set_new(root, "format", json_string(o->format == DP_TILES ? "tiles" : "rows"));
    return root;
}

static void print_head(json_t *root, const struct linear_options *o)
{
    bench_machine_print(root);
    printf("backend %s; %s; activations of sparse operations in %s; x: over dense\n", o->backend,
           o->clock == CLOCK_MONOTONIC ? "wall time" : "CPU time of the thread",
           o->format == DP_TILES ? "tiles" : "rows");
}

static int run(const struct linear_arguments *a, json_t *root, struct dp_err *err)
{
    struct dp_backend *be[BENCH_MAX_THREADS] = {NULL};
    json_t *cases = json_array();
    int rc = 0;

    json_object_set_new(root, "cases", cases);
    for (int t = 0; t < a->options.n_threads && rc == 0; t++) {
        be[t] = dp_backend_create(a->options.backend, 0, a->options.threads[t], err);
        rc = be[t] ? 0 : -1;
    }
    if (rc == 0 && !a->is_json)
        print_head(root, &a->options);
    for (int i = 0; i < a->n_cases && rc == 0; i++) {
        json_t *result = linear_case_run(&a->c[i], &a->options, be, err);

        if (!result)
            rc = -1;
        else if (!a->is_json)
            linear_table_print(result);
        json_array_append_new(cases, result);
    }
    if (rc == 0 && a->is_json) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    }
    for (int t = 0; t < BENCH_MAX_THREADS; t++)
        dp_backend_destroy(be[t]);
    return rc;
}

int main(int argc, char **argv)
{
    static struct linear_arguments a;
    struct dp_err err = {0};
    json_t *root;
    int rc = linear_arguments_parse(argc, argv, &a), threads = 1;

    if (rc >= 0) {
        if (rc == 2)
            fputs("Try bench_linear --help.\n", stderr);
        return rc;
    }
    for (int t = 0; t < a.options.n_threads; t++)
        threads = a.options.threads[t] > threads ? a.options.threads[t] : threads;
    dp_wait_briefly(threads, argv);
    root = head_json(&a.options);
    rc = linear_arguments_load(&a, &err) < 0 || run(&a, root, &err) < 0 || dp_stdout_flush(&err) < 0;
    if (rc)
        fprintf(stderr, "bench_linear: %s\n", err.text);
    json_decref(root);
    linear_arguments_release(&a);
    return rc;
}
