/* SPDX-License-Identifier: BSD-3-Clause */
/* See front.h.
 *
 * way(d, y): the shortest way through bins 0 .. d that hold items [0, y), each within the bound:
 *
 *   way(d, y) = min of  way(d - 1, y)                                          bin d is empty
 *               and     way(d - 1, x) + pass of [x, y) / speed of d + hop      over all x with [x, y) within the bound
 *
 * The starts x of a run that fits are a window that moves with y, whose least way(d - 1, x) - pass of [0, x) / speed a
 * queue has ready. */
#include "policies/solve/front.h"

#include <math.h>
#include <stdlib.h>

#include "policies/solve/chain.h"

struct ways {
    const struct dp_front *f;
    struct dp_chain chain;
    uint64_t *pass;  /* [n+1] sums */
    double *way;     /* [n+1] up to the bin before, then up to this one */
    double *before;  /* [n+1] */
    uint32_t *from;  /* [p][n+1] where the run of a bin begins; y: it is empty */
    uint32_t *queue; /* [n+1] */
    double *key;     /* [n+1] of what is in the queue */
};

static double speed_of(const struct dp_partition *q, uint32_t bin)
{
    return q->speed ? q->speed[bin] : 1.0;
}

static bool fits(const struct ways *t, uint32_t bin, uint32_t from, uint32_t to, uint64_t room)
{
    return t->chain.weight[to] - t->chain.weight[from] < room && dp_chain_fits(&t->chain, bin, from, to);
}

/* way[] up to the bin before becomes that up to this one. */
static void add_bin(struct ways *t, uint32_t bin, uint64_t bound)
{
    const struct dp_partition *q = t->f->q;
    uint64_t room = dp_partition_room(q, bin, bound);
    uint32_t *from = &t->from[(size_t)bin * (q->n + 1)], head = 0, tail = 0, least = 0;
    double speed = speed_of(q, bin), *swap = t->before;

    t->before = t->way;
    t->way = swap;
    for (uint32_t y = 0; y <= q->n; y++) {
        t->way[y] = t->before[y];
        from[y] = y;
        while (least < y && !fits(t, bin, least, y, room))
            least++;
        while (head < tail && t->queue[head] < least)
            head++;
        if (head < tail && least < y) {
            double way = t->key[head] + (double)t->pass[y] / speed + t->f->hop_ns;

            if (way < t->way[y]) {
                t->way[y] = way;
                from[y] = t->queue[head];
            }
        }
        if (t->before[y] < INFINITY) {
            double key = t->before[y] - (double)t->pass[y] / speed;

            while (tail > head && t->key[tail - 1] >= key)
                tail--;
            t->key[tail] = key;
            t->queue[tail++] = y;
        }
    }
}

static uint64_t trace(const struct ways *t, uint32_t *cut)
{
    const struct dp_partition *q = t->f->q;
    uint64_t fullest = 0;

    cut[q->p] = q->n;
    for (uint32_t bin = q->p; bin-- > 0;) {
        uint64_t load;

        cut[bin] = t->from[(size_t)bin * (q->n + 1) + cut[bin + 1]];
        load = dp_chain_load(&t->chain, bin, cut[bin], cut[bin + 1]);
        fullest = load > fullest ? load : fullest;
    }
    return fullest;
}

static uint64_t *sums(const struct dp_front *f)
{
    uint64_t *sum = calloc((size_t)f->q->n + 1, sizeof *sum);

    for (uint32_t i = 0; sum && i < f->q->n; i++)
        sum[i + 1] = sum[i] + f->pass[i];
    return sum;
}

int dp_front_shortest(const struct dp_front *f, uint64_t bound, uint32_t *cut, uint64_t *fullest, struct dp_err *err)
{
    size_t n = (size_t)f->q->n + 1;
    struct ways t = {.f = f, .pass = sums(f), .way = malloc(n * sizeof *t.way), .before = malloc(n * sizeof *t.before),
                     .from = malloc(n * f->q->p * sizeof *t.from), .queue = malloc(n * sizeof *t.queue),
                     .key = malloc(n * sizeof *t.key)};
    int rc = -1;

    if (!t.pass || !t.way || !t.before || !t.from || !t.queue || !t.key) {
        dp_err_set(err, DP_ENOMEM, "layouts: out of memory");
        goto out;
    }
    if (dp_chain_init(&t.chain, f->q, err) < 0)
        goto out;
    for (uint32_t y = 0; y < n; y++)
        t.way[y] = y ? INFINITY : 0.0;
    for (uint32_t bin = 0; bin < f->q->p; bin++)
        add_bin(&t, bin, bound);
    if (t.way[f->q->n] < INFINITY) {
        *fullest = trace(&t, cut);
        rc = 0;
    } else {
        dp_err_set(err, DP_EINVAL, "no layout keeps within the bound");
    }
out:
    dp_chain_release(&t.chain);
    free(t.pass);
    free(t.way);
    free(t.before);
    free(t.from);
    free(t.queue);
    free(t.key);
    return rc;
}

/* ---- the bound ---- */

struct below {
    const struct dp_front *f;
    struct dp_chain chain;
    uint64_t *pass; /* [n+1] sums */
    double fastest;
};

/* Farthest end of a run in `bin` that is done in time when it begins after all before it have passed the fastest. */
static uint32_t farthest(const struct below *t, uint32_t bin, uint32_t from, double ns)
{
    uint32_t low = from, high = t->f->q->n;
    double wait = from ? (double)t->pass[from] / t->fastest + t->f->hop_ns : 0.0;

    while (low < high) {
        uint32_t at = high - (high - low) / 2;

        if (wait + (double)dp_chain_weight(&t->chain, from, at) / speed_of(t->f->q, bin) <= ns)
            low = at;
        else
            high = at - 1;
    }
    return low;
}

/* Later runs never end earlier, but for one from the first item, which waits for nobody: it is asked apart. */
static bool is_possible(const struct below *t, double ns)
{
    uint32_t reach = 0;

    for (uint32_t bin = 0; bin < t->f->q->p; bin++) {
        uint32_t on = farthest(t, bin, reach, ns), anew = reach ? farthest(t, bin, 0, ns) : 0;

        reach = on > anew ? on : anew;
    }
    return reach == t->f->q->n;
}

uint64_t dp_front_bound(const struct dp_front *f, uint64_t known)
{
    struct below t = {.f = f, .pass = sums(f), .fastest = 0.0};
    double low, high = (double)known;

    if (!t.pass || dp_chain_init(&t.chain, f->q, NULL) < 0) {
        free(t.pass);
        return 0;
    }
    for (uint32_t bin = 0; bin < f->q->p; bin++)
        t.fastest = fmax(t.fastest, speed_of(f->q, bin));
    low = fmin((double)t.pass[f->q->n] / t.fastest, high);
    for (int i = 0; i < 60 && high - low > high * 1e-7; i++) {
        double middle = low + (high - low) / 2;

        if (is_possible(&t, middle))
            high = middle;
        else
            low = middle;
    }
    dp_chain_release(&t.chain);
    free(t.pass);
    return low > 8.0 ? (uint64_t)(low * (1 - 1e-12) - 8.0) : 0; /* room for what the doubles and the simulator round */
}
