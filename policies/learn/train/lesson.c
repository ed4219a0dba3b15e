/* SPDX-License-Identifier: BSD-3-Clause */
/* See lesson.h. */
#include "policies/learn/train/lesson.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/line.h"
#include "policies/graph/maxload/maxload.h"
#include "policies/graph/search/draw.h"
#include "policies/learn/train/family.h"
#include "policies/learn/net/floats.h"

#define LEAST_NODES 30u  /* of a graph */
#define MORE_NODES 100u  /* at most */
#define SMALL_LEAST 16u  /* of a small one */
#define SMALL_MORE 32u   /* at most */
#define EXACT_IDEALS 10000u /* that an exact plan is looked for among: some ms */
#define EXACT_STEPS UINT64_C(20000000) /* about a tenth of a second */

/* Within limits that grow from a little above a fair share up: a near one saves most of the work. */
int dp_lesson_load(const struct dp_lesson *l, const uint32_t *order, uint64_t *load_ns, struct dp_err *err)
{
    struct dp_maxload_answer a = {0};
    struct dp_ideals ideals;
    uint64_t limit = l->seen.facts.share_ns;
    int rc = DP_MAXLOAD_NONE;

    if (dp_ideals_create_chain(&ideals, &l->units, order, err) < 0)
        return -1;
    while (rc == DP_MAXLOAD_NONE && limit < UINT64_MAX / 2) {
        struct dp_maxload q = {.units = &l->units, .ideals = &ideals, .n_accel = l->n_devices, .accel_bytes = UINT64_MAX};

        limit += limit / 8 + 1;
        q.bound_ns = limit;
        dp_maxload_release(&a);
        rc = dp_maxload_solve(&q, &a, err);
    }
    *load_ns = a.load_ns;
    dp_maxload_release(&a);
    dp_ideals_release(&ideals);
    return rc < 0 ? -1 : 0;
}

float dp_lesson_reward(const struct dp_lesson *l, uint64_t load_ns)
{
    return -dp_f_log((float)((double)(load_ns + 1) / (double)(l->line_ns + 1)));
}

static int try_lines(struct dp_lesson *l, struct dp_err *err)
{
    uint32_t *order = calloc((size_t)l->units.n + 1, sizeof *order);
    int rc = order ? 0 : dp_err_set(err, DP_ENOMEM, "a lesson: out of memory");

    l->line_ns = UINT64_MAX;
    for (int kind = 0; rc == 0 && kind < DP_N_LINES; kind++) {
        uint64_t load = UINT64_MAX;

        rc = dp_line_make(&l->units, (enum dp_line_kind)kind, order, err);
        if (rc == 0)
            rc = dp_lesson_load(l, order, &load, err);
        l->line_ns = load < l->line_ns ? load : l->line_ns;
    }
    free(order);
    return rc;
}

int dp_lesson_create(struct dp_lesson *l, uint64_t seed, uint64_t number, bool is_small, struct dp_err *err)
{
    static const double bandwidths[] = {1.25e9, 5e9, 12e9};
    static const uint32_t devices[] = {4, 8, 16};
    uint64_t draws = dp_draw_stream(seed, number);
    uint32_t n = is_small ? SMALL_LEAST + dp_draw_below(&draws, SMALL_MORE) : LEAST_NODES + dp_draw_below(&draws, MORE_NODES);

    *l = (struct dp_lesson){.n_devices = devices[dp_draw_below(&draws, 3)]};
    if (dp_family_make(&l->graph, (enum dp_family)(number % DP_N_LEARNED_FAMILIES), n, dp_draw(&draws), err) < 0 ||
        dp_graph_set_bandwidth(&l->graph, bandwidths[dp_draw_below(&draws, 3)], err) < 0 ||
        dp_units_create(&l->units, &l->graph, err) < 0 || dp_net_graph_create(&l->seen, &l->units, l->n_devices, err) < 0)
        return -1;
    return try_lines(l, err);
}

void dp_lesson_release(struct dp_lesson *l)
{
    dp_net_graph_release(&l->seen);
    dp_units_release(&l->units);
    dp_graph_release(&l->graph);
}

int dp_lesson_exact(const struct dp_lesson *l, uint32_t *stage, struct dp_err *err)
{
    struct dp_maxload_answer a = {0};
    struct dp_maxload q = {
        .units = &l->units, .n_accel = l->n_devices, .accel_bytes = UINT64_MAX, .bound_ns = l->line_ns, .max_steps = EXACT_STEPS};
    struct dp_ideals ideals;
    bool is_too_many;
    int rc;

    if (dp_ideals_create(&ideals, &l->units, EXACT_IDEALS, &is_too_many, err) < 0)
        return is_too_many ? 0 : -1;
    q.ideals = &ideals;
    rc = dp_maxload_solve(&q, &a, err);
    if (rc == DP_MAXLOAD_FOUND)
        memcpy(stage, a.stage, l->units.n * sizeof *stage);
    dp_maxload_release(&a);
    dp_ideals_release(&ideals);
    return rc < 0 ? -1 : rc == DP_MAXLOAD_FOUND;
}

int dp_lesson_try(const struct dp_lesson *l, const struct dp_net *net, uint64_t key_seed, uint64_t *load_ns, struct dp_err *err)
{
    const struct dp_net_walk ask = {.key_seed = key_seed, .max_steps = UINT64_MAX - 1};
    uint32_t *order = calloc((size_t)l->units.n + 1, sizeof *order);
    struct dp_net_code code = {0};
    uint64_t steps = 0;
    int rc = order ? dp_net_encode(&code, net, &l->seen, err) : dp_err_set(err, DP_ENOMEM, "a lesson: out of memory");

    if (rc == 0 && dp_net_order(net, &l->seen, &code, &ask, order, &steps, err) < 0)
        rc = -1;
    if (rc == 0)
        rc = dp_lesson_load(l, order, load_ns, err);
    dp_net_code_release(&code);
    free(order);
    return rc;
}
