/* SPDX-License-Identifier: BSD-3-Clause */
/* See fit.h. First the three constants of the roofline, by descent in their logarithms; then for each type of operators a ridge
 * regression of log(measured / roofline), drawn towards that of all types together where a type has few operators. Errors are
 * weighted by the operator's time, since long ones decide where a plan cuts. */
#include "config.h"

#include "policies/graph/costs/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RIDGE 1.0 /* weight of the prior, in operators of mean weight; not tuned */

struct sample {
    struct dp_operator op;
    double forward_s, time_s, weight;
    uint32_t origin; /* keeps the order of equal types */
};

struct samples {
    struct sample *s;
    size_t n;
};

static int by_type(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    int order = strcmp(x->op.type, y->op.type);

    return order ? order : x->origin < y->origin ? -1 : 1;
}

static int collect(const struct dp_graph *g, struct samples *out, struct dp_err *err)
{
    struct dp_operator *op;
    struct sample *more;

    if (dp_operators_of(g, &op, err) < 0)
        return -1;
    more = realloc(out->s, (out->n + g->n_nodes) * sizeof *more);
    if (!more) {
        free(op);
        return dp_err_set(err, DP_ENOMEM, "fit: out of memory");
    }
    out->s = more;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *n = &g->node[i];

        if (n->is_input || !*op[i].type)
            continue;
        out->s[out->n] = (struct sample){.op = op[i],
                                         .forward_s = (double)n->forward_ns * 1e-9,
                                         .time_s = (double)dp_graph_accel_ns(n) * 1e-9,
                                         .origin = (uint32_t)out->n};
        out->s[out->n].weight = sqrt(out->s[out->n].time_s);
        out->n++;
    }
    free(op);
    return 0;
}

/* ---- the roofline ---- */

static double roof_error(const struct samples *all, const struct dp_costs_roof *roof)
{
    double sum = 0;

    for (size_t i = 0; i < all->n; i++) {
        const struct sample *s = &all->s[i];

        if (s->time_s > 0) {
            double e = log(s->time_s / dp_costs_roof_s(&s->op, roof));

            sum += s->weight * e * e;
        }
    }
    return sum;
}

static void fit_roof(const struct samples *all, struct dp_costs_roof *roof)
{
    double *const constant[] = {&roof->flops_per_s, &roof->bytes_per_s, &roof->launch_s};
    double best;

    *roof = (struct dp_costs_roof){1e13, 1e11, 1e-4};
    best = roof_error(all, roof);
    for (double step = 2; step > 1.001;) {
        bool is_better = false;

        for (int i = 0; i < 3; i++) {
            for (int up = 0; up < 2; up++) {
                double before = *constant[i], error;

                *constant[i] = up ? before * step : before / step;
                error = *constant[i] > 1e-9 && *constant[i] < 1e18 ? roof_error(all, roof) : INFINITY;
                if (error < best) {
                    best = error;
                    is_better = true;
                } else {
                    *constant[i] = before;
                }
            }
        }
        if (!is_better)
            step = sqrt(step);
    }
}

/* ---- the residual ---- */

/* Least squares of a[i][i..] x = b with a symmetric and positive: Cholesky. x replaces b. */
static void solve(double a[DP_COSTS_TERMS][DP_COSTS_TERMS], double b[DP_COSTS_TERMS])
{
    for (int i = 0; i < DP_COSTS_TERMS; i++)
        for (int j = 0; j <= i; j++) {
            double sum = a[i][j];

            for (int k = 0; k < j; k++)
                sum -= a[i][k] * a[j][k];
            a[i][j] = i == j ? sqrt(fmax(sum, 1e-12)) : sum / a[j][j];
        }
    for (int i = 0; i < DP_COSTS_TERMS; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = DP_COSTS_TERMS - 1; i >= 0; i--) {
        for (int k = i + 1; k < DP_COSTS_TERMS; k++)
            b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
}

/* Of n samples, drawn towards prior. */
static void regress(const struct sample *s, size_t n, const struct dp_costs_roof *roof, double mean_weight,
                    const double prior[DP_COSTS_TERMS], struct dp_costs_type *t)
{
    double a[DP_COSTS_TERMS][DP_COSTS_TERMS] = {{0}}, b[DP_COSTS_TERMS] = {0};

    for (int k = 0; k < DP_COSTS_TERMS; k++) {
        t->low[k] = INFINITY;
        t->high[k] = -INFINITY;
    }
    for (size_t i = 0; i < n; i++) {
        double feature[DP_COSTS_TERMS], error, weight = s[i].weight / mean_weight;

        if (s[i].time_s <= 0)
            continue;
        dp_costs_features(&s[i].op, roof, feature);
        error = log(s[i].time_s / dp_costs_roof_s(&s[i].op, roof));
        for (int k = 0; k < DP_COSTS_TERMS; k++) {
            error -= prior[k] * feature[k];
            t->low[k] = fmin(t->low[k], feature[k]);
            t->high[k] = fmax(t->high[k], feature[k]);
        }
        for (int k = 0; k < DP_COSTS_TERMS; k++) {
            b[k] += weight * feature[k] * error;
            for (int m = 0; m < DP_COSTS_TERMS; m++)
                a[k][m] += weight * feature[k] * feature[m];
        }
    }
    for (int k = 0; k < DP_COSTS_TERMS; k++)
        a[k][k] += RIDGE;
    solve(a, b);
    for (int k = 0; k < DP_COSTS_TERMS; k++)
        t->term[k] = prior[k] + b[k];
}

static void fit_type(const struct sample *s, size_t n, const struct dp_costs *c, double mean_weight, const double *prior,
                     struct dp_costs_type *t)
{
    double forward = 0, time = 0;

    for (size_t i = 0; i < n; i++) {
        forward += s[i].forward_s;
        time += s[i].time_s;
    }
    t->operators = (uint32_t)n;
    t->is_free = !(time > 0);
    t->forward_share = time > 0 ? forward / time : 0;
    if (!t->is_free)
        regress(s, n, &c->profiled, mean_weight, prior, t);
}

static int fit_types(const struct samples *all, struct dp_costs *c, struct dp_err *err)
{
    static const double none[DP_COSTS_TERMS];
    struct dp_costs_type together;
    double weight = 0;
    size_t timed = 0;

    for (size_t i = 0; i < all->n; i++) {
        weight += all->s[i].weight;
        timed += all->s[i].time_s > 0;
    }
    weight /= (double)timed;
    fit_type(all->s, all->n, c, weight, none, &together);
    c->n_types = 0;
    for (size_t i = 0, end; i < all->n; i = end) {
        struct dp_costs_type *t = &c->type[c->n_types];

        for (end = i + 1; end < all->n && !strcmp(all->s[end].op.type, all->s[i].op.type);)
            end++;
        if (c->n_types == DP_COSTS_MAX_TYPES)
            return dp_err_set(err, DP_EINVAL, "fit: more than %d types of operators", DP_COSTS_MAX_TYPES);
        *t = (struct dp_costs_type){.type = ""};
        memcpy(t->type, all->s[i].op.type, DP_OPERATOR_TYPE);
        fit_type(&all->s[i], end - i, c, weight, together.term, t);
        c->n_types++;
    }
    return 0;
}

int dp_costs_fit(const struct dp_graph *g, uint32_t n, const bool *use, struct dp_costs *c, struct dp_err *err)
{
    struct samples all = {0};
    double time = 0;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (!use || use[i])
            rc = collect(&g[i], &all, err);
    for (size_t i = 0; i < all.n; i++)
        time += all.s[i].time_s;
    if (rc == 0 && !(time > 0))
        rc = dp_err_set(err, DP_EINVAL, "fit: no operator of the profiles has a text and a time");
    if (rc == 0) {
        qsort(all.s, all.n, sizeof *all.s, by_type);
        fit_roof(&all, &c->profiled);
        rc = fit_types(&all, c, err);
    }
    free(all.s);
    return rc;
}
