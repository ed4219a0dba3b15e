/* SPDX-License-Identifier: BSD-3-Clause */
/* print_family FAMILY NODES SEED: a generated network (policies/learn/train/family.h) as a profile, PipeDream's graph.txt, for
 * `make graphs`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/stdout.h"
#include "policies/learn/train/family.h"

/* Times have all their digits, so that what is read again is the same graph. */
static void print(const struct dp_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *n = &g->node[i];

        printf("%s -- %s -- forward_compute_time=%" PRIu64 ".%06" PRIu64 ", backward_compute_time=%" PRIu64 ".%06" PRIu64
               ", activation_size=%" PRIu64 ", parameter_size=%" PRIu64 "\n",
               n->name, n->name, n->forward_ns / 1000000, n->forward_ns % 1000000, n->backward_ns / 1000000, n->backward_ns % 1000000,
               n->output_bytes, n->param_bytes);
    }
    for (uint32_t e = 0; e < g->n_edges; e++)
        printf("\t%s -- %s\n", g->node[g->edge[e].from].name, g->node[g->edge[e].to].name);
}

static int find_family(const char *name, enum dp_family *out, struct dp_err *err)
{
    for (int f = 0; f < DP_N_FAMILIES; f++)
        if (!strcmp(name, dp_family_name((enum dp_family)f))) {
            *out = (enum dp_family)f;
            return 0;
        }
    return dp_err_set(err, DP_EINVAL, "no family '%.40s'; --list names them", name);
}

static int read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out, struct dp_err *err)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno || *text < '0' || *text > '9' || *end || *out < least || *out > most
               ? dp_err_set(err, DP_EINVAL, "'%.40s' is not a number from %" PRIu64 " to %" PRIu64, text, least, most)
               : 0;
}

int main(int argc, char *argv[])
{
    struct dp_graph g = {0};
    struct dp_err err = {.text = ""};
    enum dp_family f = DP_N_FAMILIES;
    uint64_t n = 0, seed = 0;
    int rc;

    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (int i = 0; i < DP_N_FAMILIES; i++)
            printf("%s\n", dp_family_name((enum dp_family)i));
        return dp_stdout_flush(&err) == 0 ? 0 : 1;
    }
    if (argc != 4) {
        printf("usage: print_family FAMILY NODES SEED, or print_family --list\n");
        return argc == 2 && !strcmp(argv[1], "--help") ? 0 : 2;
    }
    rc = find_family(argv[1], &f, &err);
    if (rc == 0)
        rc = read_number(argv[2], 16, 100000, &n, &err);
    if (rc == 0)
        rc = read_number(argv[3], 0, UINT64_MAX, &seed, &err);
    if (rc == 0 && (rc = dp_family_make(&g, f, (uint32_t)n, seed, &err)) == 0)
        print(&g);
    dp_graph_release(&g);
    if (rc == 0)
        rc = dp_stdout_flush(&err);
    if (rc < 0)
        fprintf(stderr, "print_family: %s\n", err.text);
    return rc == 0 ? 0 : 1;
}
