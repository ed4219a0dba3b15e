/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-balance: how long the balancers take, and how many rounds the decentralised one, on random
 * layers of this seed. What is timed is the library's function as the policies call it. Medians of CPU
 * time, after one run that is not counted. With --large: once each, up to 100 000 layers on 10 000 devices, with the most
 * memory of a process that does nothing else. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/numbers.h"
#include "common/stdout.h"
#include "policies/balancer.h"
#include "policies/solve/chain.h"

#define MOST_REPEATS 101 /* odd, for the median */
#define BUDGET_NS UINT64_C(1000000000) /* of one row */

struct chain {
    struct dp_partition q;
    uint64_t *weight, *bytes, *cap, *cost;
    uint32_t *start, *cut;
    double *speed;
};

static uint64_t random_u64(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void chain_release(struct chain *c)
{
    free(c->weight);
    free(c->bytes);
    free(c->cap);
    free(c->cost);
    free(c->start);
    free(c->cut);
    free(c->speed);
}

static int chain_init(struct chain *c, uint32_t n, uint32_t p)
{
    uint64_t seed = 1;

    *c = (struct chain){.weight = calloc(n, sizeof *c->weight), .bytes = calloc(n, sizeof *c->bytes),
                        .cap = calloc(p, sizeof *c->cap), .cost = calloc(p, sizeof *c->cost),
                        .start = calloc((size_t)p + 1, sizeof *c->start), .cut = calloc((size_t)p + 1, sizeof *c->cut),
                        .speed = calloc(p, sizeof *c->speed)};
    if (!c->weight || !c->bytes || !c->cap || !c->cost || !c->start || !c->cut || !c->speed)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        c->weight[i] = 1000000 + random_u64(&seed) % 9000000;
        c->bytes[i] = 1000 + random_u64(&seed) % 1000;
    }
    for (uint32_t b = 0; b < p; b++) {
        c->speed[b] = 0.5 + (double)(random_u64(&seed) % 100) / 100.0;
        c->cap[b] = UINT64_C(3000) * (n / p + 1);
        c->cost[b] = random_u64(&seed) % 1000000;
    }
    dp_chain_uniform(n, p, c->start);
    c->q = (struct dp_partition){.n = n, .p = p, .weight = c->weight, .prefer = c->start};
    return 0;
}

static void make_unequal(struct chain *c)
{
    c->q.speed = c->speed;
    c->q.cost = c->cost;
    c->q.fixed_bytes = c->bytes;
    c->q.cap_bytes = c->cap;
}

struct row {
    const char *name;
    dp_balancer_fn *fn;
    uint32_t n, p;
    bool is_unequal;
};

static const struct row rows[] = {
    {"time", dp_balancer_minmax, 10000, 1000, false},
    {"time", dp_balancer_minmax, 10000, 1000, true},
    {"time", dp_balancer_minmax, 100000, 1000, false},
    {"time", dp_balancer_minmax, 100000, 1000, true},
    {"nicol", dp_balancer_nicol, 1000, 100, false},
    {"deepspeed", dp_balancer_deepspeed, 10000, 1000, false},
    {"deepspeed-range", dp_balancer_deepspeed_range, 1000, 100, false},
    {"torchgpipe", dp_balancer_torchgpipe, 1000, 100, false},
    {"dynmo", dp_balancer_dynmo, 10000, 1000, false},
    {"dynmo-diffusion", dp_balancer_dynmo_diffusion, 1000, 100, false},
    {"diffusion", dp_balancer_diffusion, 26, 8, false},
    {"diffusion", dp_balancer_diffusion, 50, 16, false},
    {"diffusion", dp_balancer_diffusion, 98, 32, false},
    {"diffusion", dp_balancer_diffusion, 194, 64, false},
};

static int run_row(const struct row *r)
{
    struct dp_balancer_note note = {""};
    struct dp_err err = {.text = "out of memory"};
    uint64_t ns[MOST_REPEATS], spent = 0;
    uint32_t repeats = 0;
    struct chain c;
    int rc = -1;

    if (chain_init(&c, r->n, r->p) < 0)
        goto out;
    if (r->is_unequal)
        make_unequal(&c);
    if (r->fn(&c.q, c.cut, &note, &err) < 0)
        goto out;
    while (repeats < MOST_REPEATS && (spent < BUDGET_NS || !repeats)) {
        uint64_t t = dp_thread_cpu_ns();

        r->fn(&c.q, c.cut, &note, NULL);
        ns[repeats] = dp_thread_cpu_ns() - t;
        spent += ns[repeats++];
    }
    qsort(ns, repeats, sizeof *ns, dp_by_u64);
    printf("%-16s %7" PRIu32 " %7" PRIu32 "  %-7s %10.3f %10.3f  %s\n", r->name, r->n, r->p,
           r->is_unequal ? "unequal" : "equal", (double)ns[repeats / 2] / 1e6, (double)ns[repeats - 1] / 1e6, note.text);
    rc = 0;
out:
    chain_release(&c);
    if (rc < 0)
        fprintf(stderr, "bench_balance: %s: %s\n", r->name, err.text);
    return rc;
}

static const struct {
    const char *name;
    dp_balancer_fn *fn;
} all[] = {
    {"time", dp_balancer_minmax},        {"nicol", dp_balancer_nicol},
    {"deepspeed", dp_balancer_deepspeed}, {"torchgpipe", dp_balancer_torchgpipe},
    {"dynmo", dp_balancer_dynmo},        {"dynmo-diffusion", dp_balancer_dynmo_diffusion},
    {"diffusion", dp_balancer_diffusion}, {"deepspeed-range", dp_balancer_deepspeed_range},
};

/* In a process of its own: its most memory is the row's. */
static int time_once(const char *name, dp_balancer_fn *fn, uint32_t n, uint32_t p)
{
    struct dp_balancer_note note = {""};
    struct dp_err err = {.text = "out of memory"};
    uint64_t begin = dp_thread_cpu_ns(), largest = 0;
    struct rusage used;
    struct chain c;

    if (chain_init(&c, n, p) < 0 || fn(&c.q, c.cut, &note, &err) < 0) {
        fprintf(stderr, "bench_balance: %s: %s\n", name, err.text);
        chain_release(&c);
        return -1;
    }
    begin = dp_thread_cpu_ns() - begin;
    getrusage(RUSAGE_SELF, &used);
    for (uint32_t b = 0; b < p; b++) {
        uint64_t sum = 0;

        for (uint32_t i = c.cut[b]; i < c.cut[b + 1]; i++)
            sum += c.weight[i];
        largest = sum > largest ? sum : largest;
    }
    printf("%-16s %7" PRIu32 " %7" PRIu32 " %10.3f %8.1f %12.3f  %s\n", name, n, p, (double)begin / 1e9, (double)used.ru_maxrss / 1024,
           (double)largest / 1e6, note.text);
    chain_release(&c);
    return fflush(stdout) == 0 ? 0 : -1;
}

static int run_large(void)
{
    static const uint32_t size[][2] = {{1000, 100}, {10000, 1000}, {100000, 10000}};

    printf("%-16s %7s %7s %10s %8s %12s\n", "BALANCER", "LAYERS", "DEVICES", "S", "MIB", "FULLEST");
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            int status;
            pid_t child;

            fflush(stdout);
            child = fork();
            if (child == 0)
                _exit(time_once(all[k].name, all[k].fn, size[i][0], size[i][1]) < 0);
            if (child < 0 || waitpid(child, &status, 0) != child || status)
                return -1;
        }
    return 0;
}

int main(int argc, char *argv[])
{
    struct dp_err err;

    if (argc > 1 && !strcmp(argv[1], "--large"))
        return run_large() < 0;
    if (argc > 1) {
        bool is_help = !strcmp(argv[1], "--help");

        if (!is_help)
            fprintf(stderr, "bench_balance: unknown option '%s'\n", argv[1]);
        fprintf(is_help ? stdout : stderr, "Usage: bench_balance [--large]\nTimes the balancers of doc/policies.md on random layers.\n"
                "--large: each once, with its memory, up to 100 000 layers on 10 000 devices.\n");
        return is_help ? 0 : 2;
    }
    printf("%-16s %7s %7s  %-7s %10s %10s\n", "BALANCER", "LAYERS", "DEVICES", "ARE", "MEDIAN MS", "MOST MS");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (run_row(&rows[i]) < 0)
            return 1;
    if (dp_stdout_flush(&err) == 0)
        return 0;
    fprintf(stderr, "bench_balance: %s\n", err.text);
    return 1;
}
