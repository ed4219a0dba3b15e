/* SPDX-License-Identifier: BSD-3-Clause */
/* make fit-costs, make bench-costs: coefficients of estimated costs (policies/graph/costs/) from profiles, and how much slower plans
 * get that are made by them.
 *
 * Every argument is a family of networks: profiles, separated by commas. Each family is left out in turn: the others teach the
 * coefficients, its networks are planned with them, and the plans are judged by the times that were measured. A question is
 * a network on 4, 8 or 16 devices at 1.25 or 12 GB/s, one device a stage. The answer that it is compared with is the best plan
 * found, by measured times or by any of the estimates. Without --table the coefficients of all profiles are printed, as
 * `dynpipe plan --costs=estimate` takes them, with the errors of the families left out in them. The same profiles in the
 * same order are the same bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/stdout.h"
#include "policies/graph/costs/costs_file.h"
#include "policies/graph/costs/fit.h"
#include "policies/graph/plan.h"
#include "policies/graph/read/read.h"

#define MAX_NETWORKS 256    /* on the command line */
#define N_DEVICES 3         /* numbers of devices */
#define N_BANDWIDTHS 2      /* of them */
#define EXACT_IDEALS 30000u /* seconds */
#define N_QUESTIONS ((size_t)MAX_NETWORKS * N_DEVICES * N_BANDWIDTHS)

static const uint32_t devices[N_DEVICES] = {4, 8, 16};
static const double bandwidths[N_BANDWIDTHS] = {1.25e9, 12e9};

enum way { ROOFLINE, ESTIMATE, WITH_MEASURED, N_WAYS };
static const char *const titles[N_WAYS] = {"roofline", "estimate", "estimate and 8 measured"};

struct network {
    const char *name;
    uint32_t family;
    struct dp_graph_node *measured; /* [n_nodes] the nodes as they were read, with the bandwidth set */
};

struct comparison {
    uint32_t n;
    struct network network[MAX_NETWORKS];
    struct dp_graph graph[MAX_NETWORKS];
    struct dp_costs costs;
    size_t n_questions;
    double slower[N_WAYS][N_QUESTIONS]; /* in percent */
};

static void give(struct dp_graph *g, const struct dp_graph_node *nodes)
{
    memcpy(g->node, nodes, g->n_nodes * sizeof *nodes);
}

static int plan(const struct dp_graph *g, uint32_t n, struct dp_graph_plan *p, struct dp_err *err)
{
    const struct dp_plan_maxload ask = {.n_accel = n, .accel_bytes = UINT64_MAX, .max_ideals = EXACT_IDEALS};

    return dp_plan_maxload_find(g, &ask, p, err);
}

/* The times of one way into g, whose nodes are as they were measured. */
static int estimate(struct comparison *c, enum way way, struct dp_graph *g, const struct dp_graph_node *measured, struct dp_err *err)
{
    uint32_t node[DP_COSTS_MEASURED], n;

    if (way != WITH_MEASURED)
        return dp_costs_estimate(way == ROOFLINE ? NULL : &c->costs, &c->costs.profiled, false, g, err);
    if (dp_costs_estimate(&c->costs, &c->costs.profiled, false, g, err) < 0)
        return -1;
    n = dp_costs_advise(g, node);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        g->node[i].forward_ns = g->node[i].backward_ns = 0;
    for (uint32_t i = 0; i < n; i++)
        g->node[node[i]] = measured[node[i]];
    return dp_costs_estimate(&c->costs, &c->costs.profiled, true, g, err);
}

/* What the measured times say of the plan that one way makes. */
static int judge(struct comparison *c, enum way way, uint32_t network, uint32_t n, uint64_t *load_ns, struct dp_err *err)
{
    const struct dp_graph_node *measured = c->network[network].measured;
    struct dp_graph *g = &c->graph[network];
    struct dp_graph_plan p = {0};
    int rc = estimate(c, way, g, measured, err);

    if (rc == 0)
        rc = plan(g, n, &p, err);
    give(g, measured);
    if (rc == 0)
        rc = dp_plan_maxload_evaluate(g, NULL, &p, err);
    *load_ns = p.load_ns;
    dp_graph_plan_release(&p);
    return rc;
}

static int ask(struct comparison *c, uint32_t network, uint32_t n, struct dp_err *err)
{
    struct dp_graph_plan p = {0};
    uint64_t load[N_WAYS], best;

    if (plan(&c->graph[network], n, &p, err) < 0)
        return -1;
    best = p.load_ns;
    dp_graph_plan_release(&p);
    for (int w = 0; w < N_WAYS; w++) {
        if (judge(c, (enum way)w, network, n, &load[w], err) < 0)
            return -1;
        best = load[w] < best ? load[w] : best;
    }
    for (int w = 0; w < N_WAYS; w++)
        c->slower[w][c->n_questions] = 100 * ((double)load[w] - (double)best) / (double)best;
    c->n_questions++;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Of n percentages, which are sorted here. */
static struct dp_costs_error sum_up(double *slower, size_t n)
{
    struct dp_costs_error e = {0};

    for (size_t i = 0; i < n; i++)
        e.mean += slower[i] / (double)n;
    qsort(slower, n, sizeof *slower, by_size);
    e.median = n ? (slower[(n - 1) / 2] + slower[n / 2]) / 2 : 0;
    e.worst = n ? slower[n - 1] : 0;
    return e;
}

static void print_row(const char *name, struct comparison *c, size_t first, size_t n)
{
    printf("| %s | %zu |", name, n);
    for (int w = 0; w < N_WAYS; w++) {
        double *copy = malloc((n + 1) * sizeof *copy);
        struct dp_costs_error e = {0};

        if (copy) {
            memcpy(copy, &c->slower[w][first], n * sizeof *copy);
            e = sum_up(copy, n);
        }
        free(copy);
        printf(" %.2f, %.2f, %.2f |", e.mean, e.median, e.worst);
    }
    printf("\n");
    fflush(stdout);
}

static int leave_out(struct comparison *c, uint32_t network, bool prints, struct dp_err *err)
{
    struct network *net = &c->network[network];
    struct dp_graph *g = &c->graph[network];
    size_t first = c->n_questions;
    bool use[MAX_NETWORKS];

    for (uint32_t i = 0; i < c->n; i++)
        use[i] = c->network[i].family != net->family;
    if (dp_costs_fit(c->graph, c->n, use, &c->costs, err) < 0)
        return -1;
    for (int b = 0; b < N_BANDWIDTHS; b++) {
        if (dp_graph_set_bandwidth(g, bandwidths[b], err) < 0)
            return -1;
        memcpy(net->measured, g->node, g->n_nodes * sizeof *g->node);
        for (int d = 0; d < N_DEVICES; d++)
            if (ask(c, network, devices[d], err) < 0)
                return -1;
    }
    if (prints)
        print_row(net->name, c, first, c->n_questions - first);
    return 0;
}

static int compare(struct comparison *c, bool prints, struct dp_err *err)
{
    if (prints) {
        printf("| network | questions |");
        for (int w = 0; w < N_WAYS; w++)
            printf(" %s |", titles[w]);
        printf("\n|---|---|---|---|---|\n");
    }
    for (uint32_t i = 0; i < c->n; i++)
        if (leave_out(c, i, prints, err) < 0)
            return dp_err_prefix(err, "%s", c->network[i].name);
    if (prints)
        print_row("all", c, 0, c->n_questions);
    return 0;
}

static int write_costs(struct comparison *c, const char *source, const char *licence, struct dp_err *err)
{
    struct dp_costs_error *const error[N_WAYS] = {&c->costs.roofline, &c->costs.estimate, &c->costs.with_measured};
    json_t *doc;

    if (dp_costs_fit(c->graph, c->n, NULL, &c->costs, err) < 0)
        return -1;
    snprintf(c->costs.source, sizeof c->costs.source, "%s", source);
    snprintf(c->costs.licence, sizeof c->costs.licence, "%s", licence);
    c->costs.n_questions = (uint32_t)c->n_questions;
    for (int w = 0; w < N_WAYS; w++)
        *error[w] = sum_up(c->slower[w], c->n_questions);
    doc = dp_costs_json(&c->costs);
    if (!doc)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    json_dumpf(doc, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(doc);
    return 0;
}

static int read_family(struct comparison *c, char *files, uint32_t family, struct dp_err *err)
{
    char *file;

    while ((file = strsep(&files, ","))) {
        struct network *net = &c->network[c->n];
        const char *slash = strrchr(file, '/');

        if (c->n == MAX_NETWORKS)
            return dp_err_set(err, DP_EINVAL, "more than %d networks", MAX_NETWORKS);
        *net = (struct network){.name = slash ? slash + 1 : file, .family = family};
        if (dp_graph_read(file, &c->graph[c->n++], err) < 0)
            return -1;
        net->measured = calloc(c->graph[c->n - 1].n_nodes, sizeof *net->measured);
        if (!net->measured)
            return dp_err_set(err, DP_ENOMEM, "out of memory");
    }
    return 0;
}

static int run(struct comparison *c, int argc, char **argv, struct dp_err *err)
{
    const char *source = "profiles of one's own", *licence = "as those";
    bool is_table = false;
    uint32_t families = 0;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--table"))
            is_table = true;
        else if (!strncmp(argv[i], "--source=", 9))
            source = argv[i] + 9;
        else if (!strncmp(argv[i], "--licence=", 10))
            licence = argv[i] + 10;
        else if (argv[i][0] == '-')
            return dp_err_set(err, DP_EINVAL, "unknown option '%.40s'", argv[i]);
        else if (read_family(c, argv[i], families++, err) < 0)
            return -1;
    }
    if (!families)
        return dp_err_set(err, DP_EINVAL, "no profile given");
    if (strlen(source) >= DP_COSTS_TEXT || strlen(licence) >= DP_COSTS_TEXT)
        return dp_err_set(err, DP_EINVAL, "--source, --licence: at most %d bytes", DP_COSTS_TEXT - 1);
    if ((families > 1 || is_table) && compare(c, is_table, err) < 0)
        return -1;
    return is_table ? 0 : write_costs(c, source, licence, err);
}

int main(int argc, char *argv[])
{
    struct dp_err err = {.text = ""};
    struct comparison *c;
    int rc;

    if (argc < 2 || !strcmp(argv[1], "--help")) {
        printf("usage: bench_costs [--table] [--source=TEXT] [--licence=TEXT] FAMILY...\n"
               "FAMILY: profiles (graph.txt), separated by commas. Prints coefficients, or with --table how much slower plans by\n"
               "estimated costs are where the network's family was left out, in percent: mean, median, worst.\n");
        return argc < 2 ? 2 : 0;
    }
    c = calloc(1, sizeof *c);
    rc = c ? run(c, argc, argv, &err) : dp_err_set(&err, DP_ENOMEM, "out of memory");
    if (rc < 0)
        fprintf(stderr, "bench_costs: %s\n", err.text);
    for (uint32_t i = 0; c && i < c->n; i++) {
        dp_graph_release(&c->graph[i]);
        free(c->network[i].measured);
    }
    free(c);
    return rc == 0 && dp_stdout_flush(&err) == 0 ? 0 : 1;
}
