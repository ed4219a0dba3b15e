/* SPDX-License-Identifier: BSD-3-Clause */
/* See lean.h. A bound that has an answer falls to the load that the answer really has; between it and the last one that has
 * none it is halved. The stages of an answer are found going backwards, each the one with the least traffic. */
#include "policies/graph/maxload/lean.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/maxload/walk.h"

#define NONE UINT32_MAX
#define MOST_NS (INT64_MAX / 2) /* above every load (graph.h), and no sum with it overflows */

struct lean {
    const struct dp_maxload *q;
    struct dp_walk w;
    uint32_t row;             /* n_cpus + 1 */
    uint32_t *least;          /* [ideals][row] NONE: cannot be done */
    uint32_t *faster;         /* [n_accel + 1] the next accelerator that is faster than this one, 0: none; NULL: all are alike */
    int64_t *compute, *over;  /* [ideals] C and x of a plain order; NULL: it is none */
    int64_t *largest;         /* [n_accel + 1] C - x of the cuts with this least() */
    struct dp_ideal_step *best; /* [units] path of the stage that is looked for */
    uint64_t low, high, span; /* bounds that have no answer end before low; high has one. span: where they began */
    bool was_ended, is_too_much;
};

/* ---- a plain order ---- */

bool dp_lean_is_plain(const struct dp_maxload *q)
{
    const struct dp_units *u = q->units;
    uint32_t *last;
    bool is_plain = q->ideals->rank && !q->speed && !q->n_cpus && q->n_accel && q->accel_bytes == UINT64_MAX;

    for (uint32_t i = 0; is_plain && i < u->n; i++)
        is_plain = !u->only_on_cpu[i];
    for (uint32_t net = 0; is_plain && net < u->n_nets; net++)
        is_plain = u->net_size[net] == 2;
    last = is_plain ? calloc((size_t)u->n_nets + 1, sizeof *last) : NULL; /* place of the net's first unit, + 1 */
    is_plain = last != NULL;
    for (uint32_t place = 0; is_plain && place < u->n; place++) {
        uint32_t v = q->ideals->sub[place].unit;

        for (uint32_t k = u->net_of_at[v]; k < u->net_of_at[v + 1]; k++) {
            uint32_t *at = &last[u->net_of[k]];

            is_plain = is_plain && (!*at || *at == place);
            *at = place + 1;
        }
    }
    free(last);
    return is_plain;
}

/* What does not cross the cut before a unit, of its nets, crosses the one behind it. */
static int make_plain(struct lean *t)
{
    const struct dp_units *u = t->q->units;
    uint32_t n = t->q->ideals->n;

    t->compute = calloc(n, sizeof *t->compute);
    t->over = calloc(n, sizeof *t->over);
    t->largest = calloc((size_t)t->q->n_accel + 1, sizeof *t->largest);
    if (!t->compute || !t->over || !t->largest)
        return -1;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t v = t->q->ideals->sub[i - 1].unit;

        t->compute[i] = t->compute[i - 1] + (int64_t)u->accel_ns[v];
        t->over[i] = -t->over[i - 1];
        for (uint32_t k = u->net_of_at[v]; k < u->net_of_at[v + 1]; k++)
            t->over[i] += (int64_t)u->net_ns[u->net_of[k]];
    }
    return 0;
}

/* least() of every cut of a plain order. A value whose every C - x is too small for compute alone stays so for all later
 * cuts, and when all smaller ones are, no cut gets it any more. */
static void probe_plain(struct lean *t, int64_t bound)
{
    uint32_t n = t->q->ideals->n, first = 0, last = 0;

    for (uint32_t k = 0; k <= t->q->n_accel; k++)
        t->largest[k] = INT64_MIN;
    t->largest[0] = 0;
    t->least[0] = 0;
    t->w.steps += n;
    for (uint32_t j = 1; j < n; j++) {
        uint32_t k;

        while (first <= last && t->largest[first] < t->compute[j] - bound)
            first++;
        for (k = first; k <= last && t->largest[k] < t->compute[j] + t->over[j] - bound; k++)
            ;
        t->least[j] = k > last || k == t->q->n_accel ? NONE : k + 1;
        if (t->least[j] == NONE)
            continue;
        k++;
        last = k > last ? k : last;
        if (t->compute[j] - t->over[j] > t->largest[k])
            t->largest[k] = t->compute[j] - t->over[j];
    }
}

/* ---- any ideals ---- */

/* The first accelerator from `from` on, from 1, that takes what lies in the walk; NONE: there is none. */
static uint32_t taker(const struct lean *t, uint32_t from)
{
    if (!dp_walk_accel_may(&t->w))
        return NONE;
    for (uint32_t k = from; k && k <= t->q->n_accel; k = t->faster ? t->faster[k] : 0)
        if (dp_walk_accel_load(&t->w, k) != DP_WALK_NEVER)
            return k;
    return NONE;
}

static uint32_t *least_of(const struct lean *t, uint32_t ideal)
{
    return t->least + (size_t)ideal * t->row;
}

/* least() of one ideal. */
static void probe_ideal(struct lean *t, uint32_t ideal)
{
    uint32_t below, *to = least_of(t, ideal);
    bool is_of_use = false;

    for (uint32_t c = 0; c < t->row; c++) {
        struct dp_walk_window win = dp_walk_window_at(&t->w, ideal, c);

        to[c] = NONE;
        is_of_use |= win.low <= win.high;
    }
    if (!is_of_use)
        return;
    dp_walk_begin(&t->w, ideal);
    while ((below = dp_walk_next(&t->w, ideal)) != UINT32_MAX) {
        const uint32_t *before = least_of(t, below);
        uint32_t room = dp_walk_accel_may(&t->w) ? dp_walk_first_with_room(&t->w) : NONE;
        bool by_cpu = dp_walk_cpu_load(&t->w) != DP_WALK_NEVER;

        for (uint32_t c = 0; c < t->row; c++) {
            uint32_t from = before[c] == NONE || room == NONE ? NONE : before[c] + 1 > room ? before[c] + 1 : room;

            if (from < to[c]) {
                uint32_t k = taker(t, from);

                to[c] = k < to[c] ? k : to[c];
            }
            if (c && by_cpu && before[c - 1] < to[c])
                to[c] = before[c - 1];
        }
    }
    for (uint32_t c = 1; c < t->row; c++) /* one may stay idle */
        to[c] = to[c - 1] < to[c] ? to[c - 1] : to[c];
}

/* How far, of the halvings that there are. */
static bool may_go_on(struct lean *t, uint32_t ideal)
{
    const struct dp_plan_watch *watch = t->q->watch;
    double all = 1, left = 1;

    for (uint64_t s = t->span; s; s /= 2)
        all++;
    for (uint64_t s = t->high - t->low; s; s /= 2)
        left++;
    left -= (double)ideal / t->q->ideals->n;
    t->is_too_much = t->q->max_steps && t->w.steps > t->q->max_steps;
    t->was_ended = watch && !watch->go_on(watch->arg, left < all ? 1 - left / all : 0, t->q->best_ns, t->q->lower_ns);
    return !t->is_too_much && !t->was_ended;
}

/* returns: 1: there is an answer within the bound; 0: there is none, or the search was ended; -1: no memory. */
static int probe(struct lean *t, uint64_t bound)
{
    uint32_t n = t->q->ideals->n;

    if (dp_walk_limit(&t->w, bound) < 0)
        return -1;
    if (t->compute) {
        probe_plain(t, bound < (uint64_t)MOST_NS ? (int64_t)bound : MOST_NS);
        return may_go_on(t, 0) && t->least[n - 1] != NONE;
    }
    memset(t->least, 0, t->row * sizeof *t->least);
    for (uint32_t i = 1; i < n; i++) {
        probe_ideal(t, i);
        if (i % 64 == 0 && !may_go_on(t, i))
            return 0;
    }
    return least_of(t, n - 1)[t->row - 1] != NONE;
}

/* ---- the answer ---- */

struct choice {
    uint32_t below, n_path, accelerator; /* from 1; 0: a CPU */
    uint64_t load_ns;
};

/* The last stage of an answer for `ideal` on accelerators 1 .. k and c CPUs. */
static struct choice choose(struct lean *t, uint32_t ideal, uint32_t k, uint32_t c)
{
    struct choice best = {.below = NONE};
    uint64_t least_traffic = UINT64_MAX;
    uint32_t below;

    dp_walk_begin(&t->w, ideal);
    while ((below = dp_walk_next(&t->w, ideal)) != UINT32_MAX) {
        const uint32_t *before = least_of(t, below);
        uint32_t room = dp_walk_accel_may(&t->w) ? dp_walk_first_with_room(&t->w) : NONE;
        uint32_t by = before[c] >= k || room > k ? NONE : taker(t, before[c] + 1 > room ? before[c] + 1 : room);
        bool with_cpu = c && dp_walk_cpu_load(&t->w) != DP_WALK_NEVER && before[c - 1] <= k;

        if ((by > k && !with_cpu) || t->w.traffic_ns >= least_traffic)
            continue;
        least_traffic = t->w.traffic_ns;
        best = (struct choice){below, t->w.depth, by > k ? 0 : by, by > k ? t->w.cpu_ns : dp_walk_accel_load(&t->w, by)};
        memcpy(t->best, t->w.path, t->w.depth * sizeof *t->best);
    }
    return best;
}

static void turn_round(struct dp_maxload_answer *out, uint32_t n)
{
    for (uint32_t v = 0; v < n; v++)
        out->stage[v] = out->n_stages - 1 - out->stage[v];
    for (uint32_t s = 0; s < out->n_stages / 2; s++) {
        uint32_t other = out->n_stages - 1 - s, place = out->accelerator[s];
        bool swap = out->is_cpu[s];

        out->is_cpu[s] = out->is_cpu[other];
        out->is_cpu[other] = swap;
        out->accelerator[s] = out->accelerator[other];
        out->accelerator[other] = place;
    }
}

/* After a probe that had an answer. On as few accelerators, then CPUs, as it can be. */
static void trace(struct lean *t, struct dp_maxload_answer *out)
{
    uint32_t ideal = t->q->ideals->n - 1, c = t->row - 1, k = least_of(t, ideal)[c];

    while (c && least_of(t, ideal)[c - 1] == k)
        c--;
    out->n_stages = 0;
    out->load_ns = 0;
    while (ideal) {
        struct choice last = choose(t, ideal, k, c);
        uint32_t s = out->n_stages++;

        for (uint32_t i = 0; i < last.n_path; i++)
            out->stage[t->best[i].unit] = s;
        out->is_cpu[s] = !last.accelerator;
        out->accelerator[s] = t->q->speed && last.accelerator ? last.accelerator - 1 : 0;
        out->load_ns = last.load_ns > out->load_ns ? last.load_ns : out->load_ns;
        k = last.accelerator ? last.accelerator - 1 : k;
        c -= !last.accelerator;
        ideal = last.below;
    }
    turn_round(out, t->q->units->n);
}

static int search(struct lean *t, struct dp_maxload_answer *out)
{
    uint64_t bound = t->q->bound_ns;
    int rc;

    if (t->q->best_ns && bound >= t->q->best_ns)
        bound = t->q->best_ns - 1; /* what is no better is known already */
    if (bound < t->q->lower_ns)
        return DP_MAXLOAD_NONE;
    t->low = t->q->lower_ns;
    t->high = bound;
    t->span = t->high > t->low ? t->high - t->low : 0;
    for (;;) {
        rc = probe(t, bound);
        if (rc < 0 || t->is_too_much || t->was_ended)
            return rc < 0 ? -1 : t->is_too_much ? DP_MAXLOAD_TOO_MUCH : DP_MAXLOAD_ENDED;
        if (rc) {
            trace(t, out);
            t->high = out->load_ns;
        } else if (!out->n_stages) {
            return DP_MAXLOAD_NONE;
        } else {
            t->low = bound + 1;
        }
        if (t->low >= t->high)
            return DP_MAXLOAD_FOUND;
        bound = t->low + (t->high - t->low) / 2;
    }
}

static int make_faster(struct lean *t)
{
    const struct dp_maxload *q = t->q;

    t->faster = calloc((size_t)q->n_accel + 1, sizeof *t->faster);
    if (!t->faster)
        return -1;
    for (uint32_t k = q->n_accel; k-- > 1;) {
        uint32_t next = k + 1;

        while (next && q->speed[next - 1] <= q->speed[k - 1])
            next = t->faster[next];
        t->faster[k] = next;
    }
    return 0;
}

static int create(struct lean *t, struct dp_maxload_answer *out)
{
    const struct dp_maxload *q = t->q;
    size_t most = (size_t)q->n_accel + q->n_cpus + 1;

    t->least = malloc((size_t)q->ideals->n * t->row * sizeof *t->least);
    t->best = calloc((size_t)q->units->n + 1, sizeof *t->best);
    out->stage = calloc((size_t)q->units->n + 1, sizeof *out->stage);
    out->is_cpu = calloc(most, sizeof *out->is_cpu);
    out->accelerator = calloc(most, sizeof *out->accelerator);
    if (!t->least || !t->best || !out->stage || !out->is_cpu || !out->accelerator || (q->speed && make_faster(t) < 0))
        return -1;
    return dp_lean_is_plain(q) ? make_plain(t) : 0;
}

int dp_lean_solve(const struct dp_maxload *q, struct dp_maxload_answer *out, struct dp_err *err)
{
    struct lean t = {.q = q, .row = q->n_cpus + 1};
    int rc = dp_walk_create(&t.w, q);

    if (rc == 0)
        rc = create(&t, out);
    if (rc == 0)
        rc = search(&t, out);
    if (rc < 0)
        dp_err_set(err, DP_ENOMEM, "a search over %u ideals: out of memory", q->ideals->n);
    out->steps = t.w.steps;
    dp_walk_release(&t.w);
    free(t.least);
    free(t.faster);
    free(t.compute);
    free(t.over);
    free(t.largest);
    free(t.best);
    return rc;
}
