/* SPDX-License-Identifier: BSD-3-Clause */
/* Growth: a run of slices asks for more of them (doc/protocol.md, "Slices that are asked for"). Plans say what more would bring
 * (grow_plan.c), policies/decide/grow.h whether it is worth it. Asked for is by wanting more slices: the daemon sees that and has
 * Slurm submit them (daemon/run/slices/want.c), who comes gets a seat and is taken in like everybody who comes late (seat.c, join.c).
 *
 * A request is journalled before more are wanted, with when it was made; so whoever restarts goes on with it, and neither makes it
 * again nor waits anew. It ends when all are in the layout, when they have waited too long, when Slurm refuses them or they end,
 * when slices are given back meanwhile; and that is journalled before fewer are wanted.
 *
 * So that release and growth do not take turns: after a slice was given back, after each request, a pause; twice as long after each
 * request in vain, and after each growth that was given back again. And the load with which slices were given back is kept: by
 * predictions alone they are not asked for again while it has not grown.
 */
#include "daemon/coord/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/numbers.h"

#define DOUBLINGS 6u                   /* of the pause */
#define BEGIN_S 10.0                   /* until a slice trains that Slurm starts at once: measured here, 4 to 8 */
#define JOIN_NS (120 * DP_SECOND_NS)   /* that began: to say HELLO and be taken in */
#define RESTART_NS (15 * DP_SECOND_NS) /* until it is known what became of a request of an incarnation before */
#define RETRY_NS DP_SECOND_NS          /* of a record that could not be written */
#define FORGET 16.0                    /* pauses: a growth that lasted so long was none in vain */
#define GREW (1.0 + DP_PROMISE_TOLERANCE) /* of a load: less may be noise */

static uint64_t pause_ns(const struct dp_coord *c, uint32_t doublings)
{
    return (uint64_t)(c->limits.growth.cooldown_s * 1e9) << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
}

static bool is_settled_slot(const struct coord_slot *s)
{
    return s->state == SLOT_ACTIVE || s->state == SLOT_EMPTY || s->state == SLOT_RELEASED;
}

/* returns: why nothing may be asked for now; NULL: it may. */
static const char *why_not_now(const struct dp_coord *c)
{
    if (c->life.is_paused)
        return "the run is paused";
    if (c->grow.state == GROW_ASKED)
        return "a request is under way";
    if (!coord_migrate_is_idle(c) || coord_promise_is_deciding(c))
        return "layers move, or a trial is under way";
    if (coord_count(c, coord_is_counted, NULL) < coord_wanted(c) || coord_count(c, coord_is_newcomer, NULL) || c->join.refusal[0])
        return "slices are missing, or join";
    if (coord_count(c, coord_should_leave, NULL))
        return "slices are to leave";
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (!is_settled_slot(&c->slot[s]))
            return "the job of a slice that was given back has not ended yet";
    return NULL;
}

bool coord_grow_may(const struct dp_coord *c)
{
    return c->limits.growth.max_gpus && coord_mode(c) >= DP_MODE_BALANCE && coord_is_sliced(c) && c->train.has_layout &&
           !c->life.is_over && !c->life.failed[0] && !c->train.is_completed;
}

bool coord_grow_may_now(const struct dp_coord *c, uint64_t now_ns)
{
    return coord_grow_may(c) && !why_not_now(c) && now_ns >= c->grow.next_ns;
}

/* Device time of all layers, of a microbatch and of the optimizer. */
static uint64_t load_now(const struct dp_coord *c)
{
    uint64_t ns = 0;

    for (uint32_t l = 0; l < c->train.n_layers; l++) {
        const struct dp_layer_load *k = &c->layer[l].load;

        ns += c->train.microbatches * (k->fwd_ns + k->bwd_input_ns + k->bwd_weight_ns) + c->layer[l].opt_ns;
    }
    return ns;
}

/* --- a request begins and ends --- */

/* returns false: it could not be journalled, and nothing has changed. */
static bool put(struct dp_coord *c, uint64_t now_ns, const struct coord_grow *next, uint32_t wanted)
{
    if (now_ns - c->grow.tried_ns < RETRY_NS)
        return false;
    if (coord_journal_grow(c, next, wanted) < 0) {
        c->grow.tried_ns = now_ns;
        return false;
    }
    c->grow = *next;
    c->join.wanted = wanted;
    return true;
}

/* By the controller's clock; what is submitted from then on is of this request. */
static uint64_t controller_s(const struct dp_coord *c, uint64_t now_ns)
{
    uint64_t ago_s = c->job.read_ns && now_ns > c->job.read_ns ? (now_ns - c->job.read_ns) / DP_SECOND_NS : 0;

    return c->job.now_s ? c->job.now_s + ago_s : 0;
}

static void ask(struct dp_coord *c, uint64_t now_ns, const struct dp_grow_out *d)
{
    struct coord_grow g = c->grow;

    g.state = GROW_ASKED;
    g.why = d->why;
    g.n++;
    g.held = coord_count(c, coord_is_counted, NULL); /* one more than was wanted may have come in, while others left */
    g.asked = d->slots;
    g.asked_ns = now_ns;
    g.ended_ns = g.begun_ns = 0;
    g.since_s = controller_s(c, now_ns);
    snprintf(g.reason, sizeof g.reason, "%s", d->reason);
    g.text[0] = '\0';
    if (put(c, now_ns, &g, g.asked))
        coord_note(c, now_ns, "asks for %u slices more: %.200s", g.asked - g.held, g.reason);
}

/* wanted: from here on. */
static void end(struct dp_coord *c, uint64_t now_ns, enum coord_grow_state state, uint32_t wanted, const char *text)
{
    struct coord_grow g = c->grow;

    g.state = state;
    g.ended_ns = now_ns;
    g.n_vain = state == GROW_JOINED || state == GROW_OVERTAKEN ? 0 : g.n_vain + (g.n_vain <= DOUBLINGS);
    g.next_ns = dp_most_u64(g.next_ns, now_ns + pause_ns(c, dp_most_u64(g.n_vain ? g.n_vain - 1 : 0, g.n_back)));
    snprintf(g.text, sizeof g.text, "%s", text);
    if (put(c, now_ns, &g, wanted))
        coord_note(c, now_ns, "the request for %u slices is over, %s: %.180s", g.asked, coord_grow_state_name(state), g.text);
}

/* Who is there stays. */
static void give_up(struct dp_coord *c, uint64_t now_ns, enum coord_grow_state state, const char *text)
{
    uint32_t n = coord_count(c, coord_is_counted, NULL);

    end(c, now_ns, state, n > c->grow.held || c->join.wanted < c->grow.held ? n : c->grow.held, text);
}

/* --- decisions --- */

static double time_left_s(const struct dp_coord *c, uint64_t now_ns)
{
    if (!c->limit.is_known || c->limit.end_ns == UINT64_MAX)
        return INFINITY;
    return c->limit.end_ns > now_ns ? (double)(c->limit.end_ns - now_ns) / 1e9 : 0.0;
}

/* Of iterations as they are predicted for more slices. 0: there is none. */
static uint64_t limit_ns(const struct coord_plan *t)
{
    if (!t->limit_ns || t->limit_ns == UINT64_MAX || !t->basis_ns)
        return 0;
    return (uint64_t)((double)t->limit_ns / (double)t->basis_ns * (double)t->grow.current_ns);
}

static void fill(const struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, uint32_t slots_now, double cost_s,
                 struct dp_grow_in *in)
{
    *in = (struct dp_grow_in){.slots_now = slots_now, .current_ns = t->grow.current_ns, .best_ns = t->grow.best_ns,
                              .wants_speed = coord_mode(c) == DP_MODE_BALANCE, .limit_ns = limit_ns(t),
                              .limit_falls = c->limits.pack.reference != DP_REF_START, .now = t->measured,
                              .step_ns = coord_recent_step_ns(c), .allowed_ns = t->allowed_ns ? t->allowed_ns : c->promise.allowed_ns,
                              .has_given = c->grow.given_load > 0,
                              .loads_grew = (double)load_now(c) > (double)c->grow.given_load * GREW,
                              .hysteresis = c->limits.hysteresis, .left_mean = t->left_mean,
                              .steps_left = c->train.steps_total > c->train.step ? (double)(c->train.steps_total - c->train.step) : 0.0,
                              .time_left_s = time_left_s(c, now_ns), .begin_s = BEGIN_S, .cost_s = cost_s, .n = t->grow.n};
    memcpy(in->option, t->grow.option, sizeof in->option);
    if (in->allowed_ns == UINT64_MAX)
        in->allowed_ns = 0;
}

void coord_grow_planned(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, uint32_t slots_now, double cost_s)
{
    const char *why = why_not_now(c);
    struct dp_grow_in in;
    struct dp_grow_out out;

    if (!coord_grow_may(c))
        return;
    if (!why && slots_now >= c->limits.growth.max_gpus)
        why = "it has as many as it may have";
    if (!why && now_ns < c->grow.next_ns) {
        snprintf(c->grow.stay, sizeof c->grow.stay, "stay: for another %.0f s nothing is asked for",
                 (double)(c->grow.next_ns - now_ns) / 1e9);
        return;
    }
    if (!why && t->measured.n < DP_PROMISE_WINDOW)
        why = "too few steps of this layout were measured";
    if (!why && !t->grow.n)
        why = "there is no seat for more, or no layer";
    if (why) {
        snprintf(c->grow.stay, sizeof c->grow.stay, "stay: %s", why);
        return;
    }
    fill(c, now_ns, t, slots_now, cost_s, &in);
    dp_grow_decide(&in, &out);
    snprintf(c->grow.stay, sizeof c->grow.stay, "%s", out.reason);
    if (out.why != DP_GROW_STAY)
        ask(c, now_ns, &out);
}

/* A plan is as good as its layout: slices that leave, because fewer do, change what is worth asking for. */
void coord_grow_given(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_grow g = c->grow;
    double lasted_s = (double)(now_ns - g.ended_ns) / 1e9;

    if (!coord_grow_may(c))
        return;
    if (g.state == GROW_JOINED && g.back_of != g.n) {
        g.n_back = lasted_s > FORGET * (double)pause_ns(c, g.n_back) / 1e9 ? 0 : g.n_back + (g.n_back < DOUBLINGS);
        g.back_of = g.n;
    }
    if (g.state == GROW_ASKED) {
        g.state = GROW_OVERTAKEN;
        g.ended_ns = now_ns;
        snprintf(g.text, sizeof g.text, "fewer slices do by now");
    }
    g.given_load = load_now(c);
    g.next_ns = dp_most_u64(g.next_ns, now_ns + pause_ns(c, g.n_back));
    c->grow = g;
    (void)coord_journal_grow(c, &c->grow, c->join.wanted); /* without it a restart may ask for them earlier */
}

/* --- a request under way --- */

void dp_coord_grows(const struct dp_coord *c, struct dp_coord_growth *out)
{
    *out = (struct dp_coord_growth){.is_asked = c->grow.state == GROW_ASKED && !c->life.is_over, .number = c->grow.n,
                                    .since_s = c->grow.since_s};
}

static void take_refusal(struct dp_coord *c, uint64_t now_ns, const struct dp_coord_growth_news *news)
{
    uint32_t n = 1 + news->n_running + news->n_waiting;
    struct coord_grow g = c->grow;

    if (n >= g.asked)
        return;
    if (n <= g.held || n <= coord_count(c, coord_is_counted, NULL)) {
        give_up(c, now_ns, GROW_REFUSED, news->refusal);
        return;
    }
    g.asked = n;
    snprintf(g.text, sizeof g.text, "%.190s", news->refusal);
    if (put(c, now_ns, &g, n))
        coord_note(c, now_ns, "Slurm gives %u slices of those that were asked for: %.180s", n - g.held, g.text);
}

void dp_coord_growth_told(struct dp_coord *c, uint64_t now_ns, const struct dp_coord_growth_news *news)
{
    struct coord_grow *g = &c->grow;
    char text[96];

    if (g->state != GROW_ASKED || !coord_grow_may(c))
        return;
    if (news->n_waiting)
        g->begun_ns = 0;
    else if (!g->begun_ns)
        g->begun_ns = now_ns;
    if (news->refusal[0]) {
        take_refusal(c, now_ns, news);
    } else if (news->n_ended && 1 + news->n_running + news->n_waiting < g->asked) {
        snprintf(text, sizeof text, "%u of the jobs have ended by themselves", news->n_ended);
        give_up(c, now_ns, GROW_ENDED, text);
    }
}

static bool is_too_late(const struct dp_coord *c, uint64_t now_ns)
{
    uint64_t until_ns = c->grow.asked_ns + (uint64_t)(c->limits.growth.wait_s * 1e9);

    if (c->grow.begun_ns)
        until_ns = dp_most_u64(until_ns, c->grow.begun_ns + JOIN_NS);
    if (c->life.incarnation > 1)
        until_ns = dp_most_u64(until_ns, c->life.begin_ns + RESTART_NS);
    return now_ns >= until_ns;
}

void coord_grow_tick(struct dp_coord *c, uint64_t now_ns)
{
    char text[96];

    if (c->grow.state != GROW_ASKED || !c->train.has_layout || c->life.failed[0] || c->train.is_completed)
        return;
    if (!c->limits.growth.max_gpus) {
        give_up(c, now_ns, GROW_OVERTAKEN, "the site lets the run grow no more");
    } else if (coord_count(c, coord_is_live, NULL) >= c->grow.asked) {
        snprintf(text, sizeof text, "all of them train, %.1f s after they were asked for", (double)(now_ns - c->grow.asked_ns) / 1e9);
        end(c, now_ns, GROW_JOINED, c->join.wanted, text);
    } else if (is_too_late(c, now_ns) && coord_count(c, coord_is_counted, NULL) < c->grow.asked) {
        snprintf(text, sizeof text, "not all of them have come in %.0f s", (double)(now_ns - c->grow.asked_ns) / 1e9);
        give_up(c, now_ns, GROW_WITHDRAWN, text);
    }
}

/* --- for people --- */

const char *coord_grow_state_name(enum coord_grow_state state)
{
    static const char *const name[] = {"none", "asked", "joined", "withdrawn", "refused", "ended", "overtaken"};

    return (unsigned)state < sizeof name / sizeof name[0] ? name[state] : "?";
}

json_t *coord_grow_json(const struct dp_coord *c, uint64_t now_ns)
{
    const struct coord_grow *g = &c->grow;
    json_t *o;

    if (!c->limits.growth.max_gpus && !g->n)
        return NULL;
    o = json_pack("{s:i, s:i, s:i, s:s}", "max_gpus", (int)c->limits.growth.max_gpus, "wanted", (int)c->join.wanted, "requests", (int)g->n,
                  "state", coord_grow_state_name(g->state));
    if (g->n) {
        json_object_set_new(o, "why", json_string(dp_grow_name(g->why)));
        json_object_set_new(o, "held", json_integer(g->held));
        json_object_set_new(o, "asked", json_integer(g->asked));
        json_object_set_new(o, "asked_at_s", json_real(coord_seconds(c, g->asked_ns)));
        json_object_set_new(o, "ended_at_s", g->ended_ns ? json_real(coord_seconds(c, g->ended_ns)) : json_null());
        json_object_set_new(o, "reason", json_string(g->reason));
        json_object_set_new(o, "text", json_string(g->text));
    }
    json_object_set_new(o, "pause_s", json_real(g->next_ns > now_ns ? (double)(g->next_ns - now_ns) / 1e9 : 0.0));
    json_object_set_new(o, "decision", json_string(g->stay));
    return o;
}
