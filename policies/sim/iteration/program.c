/* SPDX-License-Identifier: BSD-3-Clause */
/* See program.h. Making a program walks the devices' lists with a work list: a device goes on until a
 * message is missing and is listed again when it is sent, so each operation is visited once. What is
 * left over then is a deadlock. */
#include "policies/sim/iteration/program.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "policies/sim/iteration/implied.h"

/* Indexes into the arrays of a run, worked out once. Slot 0 is a message that is always there. */
struct step {
    uint32_t device, in, out; /* out 0: nobody waits for it */
    uint32_t cost;            /* kind * V + place */
    uint32_t border, link;    /* of what is sent */
    uint32_t came_over;       /* border of what is awaited, where stages have several devices */
};

struct dp_sim_program {
    struct dp_sim_actions actions;
    uint32_t n_stages, n_places, n_actions;
    uint32_t n_links;
    uint32_t *first_link; /* [n_stages + 1] of the pairs with the next stage, where stages have several devices; else NULL */
    struct step *step;    /* [n_actions] */
    uint32_t *mb;         /* [n_actions] */
    uint32_t *in_flight;  /* [n_devices] */
    /* what changes during a run */
    uint64_t *slot;         /* [slots] arrival; where stages have several devices: when it is sent */
    uint64_t *now;          /* [D] end of the device's last operation */
    uint64_t *link_free;    /* [2D+1] */
    uint64_t *way_in_free;  /* [2D] where stages have several devices */
    uint64_t *there;        /* [2D] of implied lists (implied.h) */
    struct dp_sim_link *at; /* [L] borders; the last one costs nothing */
};

const struct dp_sim_actions *dp_sim_program_order(const struct dp_sim_program *p)
{
    return &p->actions;
}

uint32_t dp_sim_program_places(const struct dp_sim_program *p)
{
    return p->n_places;
}

uint32_t dp_sim_program_links(const struct dp_sim_program *p)
{
    return p->n_links;
}

uint32_t dp_sim_program_pairs(const struct dp_sim_program *p, uint32_t stage)
{
    return p->first_link[stage + 1] - p->first_link[stage];
}

uint32_t dp_sim_program_link(const struct dp_sim_program *p, uint32_t stage, uint32_t mb)
{
    return p->first_link[stage] + mb % dp_sim_program_pairs(p, stage);
}

uint32_t dp_sim_program_device(const struct dp_sim_program *p, uint32_t stage, uint32_t mb)
{
    const struct dp_sim_actions *o = &p->actions;

    return o->begin[stage] + mb % (o->begin[stage + 1] - o->begin[stage]);
}

uint32_t dp_sim_program_ops(const struct dp_sim_program *p)
{
    return p->n_actions;
}

/* Where the activation, or the gradient, for microbatch mb of a stage arrives. */
static uint32_t slot_of(const struct dp_sim_program *p, enum dp_action_kind kind, uint32_t stage, uint32_t mb)
{
    return 1 + ((kind == DP_ACTION_FORWARD ? 0 : p->n_stages) + stage) * p->actions.microbatches + mb;
}

static size_t n_slots(const struct dp_sim_program *p)
{
    return 1 + 2 * (size_t)p->n_stages * p->actions.microbatches;
}

/* As step_of(), where stages have several devices. */
static struct step wide_step_of(const struct dp_sim_program *p, uint32_t device, const struct dp_action *action)
{
    const struct dp_sim_actions *o = &p->actions;
    uint32_t d = o->n_devices, stage = o->stage_of[device], none = p->n_links - 1, before = none, behind = none;
    struct step s = {.device = device, .cost = action->kind * p->n_places + device};

    if (stage > 0)
        before = dp_sim_program_link(p, stage - 1, action->mb);
    if (stage + 1 < p->n_stages)
        behind = dp_sim_program_link(p, stage, action->mb);
    if (action->kind == DP_ACTION_FORWARD) {
        s.in = before != none ? slot_of(p, DP_ACTION_FORWARD, stage, action->mb) : 0;
        s.out = behind != none ? slot_of(p, DP_ACTION_FORWARD, stage + 1, action->mb) : 0;
        s.link = device;
    } else {
        s.in = behind != none ? slot_of(p, DP_ACTION_BACKWARD, stage, action->mb) : 0;
        s.out = before != none ? slot_of(p, DP_ACTION_BACKWARD, stage - 1, action->mb) : 0;
        s.link = d + device;
    }
    s.came_over = action->kind == DP_ACTION_FORWARD ? before : behind;
    s.border = action->kind == DP_ACTION_FORWARD ? behind : before;
    return s;
}

/* Links 0..D-1 lead from a device to the next, D..2D-1 to the one before; 2D is inside of a device. */
static struct step step_of(const struct dp_sim_program *p, uint32_t device, const struct dp_action *action)
{
    uint32_t d = p->actions.n_devices, stage = action->chunk * d + device, last = p->n_stages - 1;
    struct step s = {.device = device, .cost = action->kind * p->n_places + stage, .border = last, .link = 2 * d};

    if (p->actions.n_wide)
        return wide_step_of(p, device, action);
    if (action->kind == DP_ACTION_FORWARD) {
        s.in = stage > 0 ? slot_of(p, DP_ACTION_FORWARD, stage, action->mb) : 0;
        if (stage == last)
            return s;
        s.out = slot_of(p, DP_ACTION_FORWARD, stage + 1, action->mb);
        s.border = d > 1 ? stage : last;
        s.link = d > 1 ? device : 2 * d;
    } else if (action->kind == DP_ACTION_BACKWARD) {
        s.in = stage < last ? slot_of(p, DP_ACTION_BACKWARD, stage, action->mb) : 0;
        if (stage == 0)
            return s;
        s.out = slot_of(p, DP_ACTION_BACKWARD, stage - 1, action->mb);
        s.border = d > 1 ? stage - 1 : last;
        s.link = d > 1 ? d + device : 2 * d;
    }
    return s;
}

/* Chunks of a device that lie below first_live: they come before those that do not. */
static uint32_t forward_only_chunks(const struct dp_sim_actions *o, uint32_t device, uint32_t first_live)
{
    uint32_t stage = o->n_wide ? o->stage_of[device] : device;

    return stage < first_live ? o->n_wide ? 1 : (first_live - stage - 1) / o->n_devices + 1 : 0;
}

/* Without the first `chunks` chunks, which keep nothing. */
static uint32_t count_in_flight(const struct dp_sim_actions *o, uint32_t device, uint32_t chunks)
{
    const struct dp_action *action = dp_sim_actions_list(o, device);
    int last = o->is_split ? DP_ACTION_WEIGHT : DP_ACTION_BACKWARD;
    uint32_t n = dp_sim_actions_count(o, device), now = 0, most = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (action[i].chunk < chunks)
            continue;
        now += action[i].kind == DP_ACTION_FORWARD;
        most = now > most ? now : most;
        now -= action[i].kind == last;
    }
    return most;
}

uint32_t dp_sim_program_in_flight(const struct dp_sim_program *p, uint32_t device, uint32_t first_live)
{
    uint32_t chunks = forward_only_chunks(&p->actions, device, first_live);

    if (chunks == p->actions.chunks)
        return 0;
    return chunks ? count_in_flight(&p->actions, device, chunks) : p->in_flight[device];
}

/* The device that receives what a step sends. */
static uint32_t receiver(const struct dp_sim_program *p, const struct step *s, uint32_t mb)
{
    uint32_t d = p->actions.n_devices;

    if (p->actions.n_wide)
        return dp_sim_program_device(p, p->actions.stage_of[s->device] + (s->link < d ? 1 : -1u), mb);
    if (s->link == 2 * d)
        return s->device;
    return s->link < d ? (s->device + 1) % d : (s->device + d - 1) % d;
}

struct maker {
    struct dp_sim_program *p;
    uint32_t *next;     /* [D] operations of a device that are placed */
    uint32_t *todo;     /* [D] work list */
    uint8_t *is_listed; /* [D] */
    uint8_t *is_there;  /* [slots] */
    uint32_t n_todo;
};

static void list(struct maker *m, uint32_t device)
{
    if (!m->is_listed[device]) {
        m->is_listed[device] = 1;
        m->todo[m->n_todo++] = device;
    }
}

/* Place the operations of a device until a message is missing. */
static void advance(struct maker *m, uint32_t device)
{
    struct dp_sim_program *p = m->p;
    const struct dp_action *action = dp_sim_actions_list(&p->actions, device);
    uint32_t n = dp_sim_actions_count(&p->actions, device);

    while (m->next[device] < n) {
        uint32_t mb = action[m->next[device]].mb;
        struct step s = step_of(p, device, &action[m->next[device]]);

        if (!m->is_there[s.in])
            return;
        p->mb[p->n_actions] = mb;
        p->step[p->n_actions++] = s;
        m->next[device]++;
        if (s.out) {
            m->is_there[s.out] = 1;
            list(m, receiver(p, &s, mb));
        }
    }
}

static int deadlock(const struct maker *m, struct dp_err *err)
{
    static const char *const waits_for[] = {"activation", "gradient", "nothing"};
    const struct dp_sim_actions *o = &m->p->actions;
    uint32_t d = 0;
    const struct dp_action *action;

    while (m->next[d] == dp_sim_actions_count(o, d))
        d++;
    action = dp_sim_actions_list(o, d) + m->next[d];
    return dp_err_set(err, DP_EINVAL,
                      "schedule: deadlock, device %u waits forever at its action %u for the %s of chunk %u, microbatch %u", d,
                      m->next[d], waits_for[action->kind], action->chunk, action->mb);
}

static uint32_t count_ops(const struct dp_sim_actions *o)
{
    uint32_t all = 0;

    for (uint32_t d = 0; d < o->n_devices; d++)
        all += dp_sim_actions_count(o, d);
    return all;
}

static int place_all(struct dp_sim_program *p, struct dp_err *err)
{
    uint32_t d = p->actions.n_devices, all = count_ops(&p->actions);
    struct maker m = {.p = p};
    int rc = 0;

    m.next = calloc(d, sizeof *m.next);
    m.todo = calloc(d, sizeof *m.todo);
    m.is_listed = calloc(d, 1);
    m.is_there = calloc(n_slots(p), 1);
    if (m.next && m.todo && m.is_listed && m.is_there) {
        m.is_there[0] = 1;
        for (uint32_t i = d; i > 0; i--)
            list(&m, i - 1);
        while (m.n_todo) {
            uint32_t device = m.todo[--m.n_todo];

            m.is_listed[device] = 0;
            advance(&m, device);
        }
        if (p->n_actions < all)
            rc = deadlock(&m, err);
    } else {
        rc = dp_err_set(err, DP_ENOMEM, "schedule of %u operations: out of memory", all);
    }
    free(m.next);
    free(m.todo);
    free(m.is_listed);
    free(m.is_there);
    return rc;
}

/* Microbatches go round the devices of either stage: after so many the same two meet again. */
static uint64_t pairs_of(uint32_t a, uint32_t b, uint32_t microbatches)
{
    uint64_t x = a, y = b;

    while (y) {
        uint64_t rest = x % y;

        x = y;
        y = rest;
    }
    return a / x * b < microbatches ? a / x * b : microbatches;
}

/* The numbers of the links between stages of several devices. */
static int number_links(struct dp_sim_program *p, struct dp_err *err)
{
    const struct dp_sim_actions *o = &p->actions;
    uint64_t links = 0;

    p->first_link = calloc((size_t)p->n_stages + 1, sizeof *p->first_link);
    if (!p->first_link)
        return dp_err_set(err, DP_ENOMEM, "schedule of %u stages: out of memory", p->n_stages);
    for (uint32_t s = 0; s + 1 < p->n_stages; s++) {
        links += pairs_of(o->begin[s + 1] - o->begin[s], o->begin[s + 2] - o->begin[s + 1], o->microbatches);
        if (links >= DP_SIM_MAX_LINKS)
            return dp_err_set(err, DP_EINVAL, "stages of so many devices that there are more than %u pairs", DP_SIM_MAX_LINKS);
        p->first_link[s + 1] = (uint32_t)links;
    }
    p->n_links = (uint32_t)links + 1;
    return 0;
}

static int make_room(struct dp_sim_program *p, struct dp_err *err)
{
    size_t d = p->actions.n_devices, all = p->actions.is_implied ? 1 : count_ops(&p->actions);

    p->step = calloc(all, sizeof *p->step);
    p->mb = calloc(all, sizeof *p->mb);
    p->in_flight = calloc(d, sizeof *p->in_flight);
    p->slot = calloc(p->actions.is_implied ? 1 : n_slots(p), sizeof *p->slot);
    p->there = calloc(2 * d, sizeof *p->there);
    p->now = calloc(d, sizeof *p->now);
    p->link_free = calloc(2 * d + 1, sizeof *p->link_free);
    p->way_in_free = calloc(2 * d, sizeof *p->way_in_free);
    p->at = calloc(p->n_links, sizeof *p->at);
    if (p->step && p->mb && p->in_flight && p->slot && p->now && p->link_free && p->way_in_free && p->at && p->there)
        return 0;
    return dp_err_set(err, DP_ENOMEM, "schedule of %zu operations: out of memory", all);
}

struct dp_sim_program *dp_sim_program_create(struct dp_sim_actions *actions, struct dp_err *err)
{
    struct dp_sim_program *p = calloc(1, sizeof *p);

    if (!p) {
        dp_sim_actions_release(actions);
        dp_err_set(err, DP_ENOMEM, "schedule: out of memory");
        return NULL;
    }
    p->actions = *actions;
    memset(actions, 0, sizeof *actions);
    p->n_places = p->n_links = p->n_stages = p->actions.chunks * p->actions.n_devices;
    if (p->actions.n_wide)
        p->n_stages = p->actions.n_wide;
    if ((p->actions.n_wide && number_links(p, err) < 0) || (!p->actions.is_implied && dp_sim_actions_check(&p->actions, err) < 0) ||
        make_room(p, err) < 0 || (!p->actions.is_implied && place_all(p, err) < 0)) {
        dp_sim_program_destroy(p);
        return NULL;
    }
    p->n_actions = p->actions.is_implied ? 2 * p->actions.n_devices * p->actions.microbatches : p->n_actions;
    for (uint32_t d = 0; d < p->actions.n_devices; d++)
        p->in_flight[d] = p->actions.is_implied ? dp_least_u32(p->actions.n_devices - d, p->actions.microbatches)
                                                : count_in_flight(&p->actions, d, 0);
    return p;
}

void dp_sim_program_destroy(struct dp_sim_program *p)
{
    if (!p)
        return;
    dp_sim_actions_release(&p->actions);
    free(p->first_link);
    free(p->step);
    free(p->mb);
    free(p->in_flight);
    free(p->slot);
    free(p->now);
    free(p->link_free);
    free(p->way_in_free);
    free(p->there);
    free(p->at);
    free(p);
}

/* When the message that a step awaits has come over the receiver's way in. */
static uint64_t receive(struct dp_sim_program *p, const struct step *s)
{
    const struct dp_sim_link *over = &p->at[s->came_over];
    uint64_t *way_in = &p->way_in_free[s->link];

    *way_in = dp_most_u64(p->slot[s->in], *way_in + over->send_ns);
    return *way_in + over->latency_ns;
}

/* Which places only go forward, and which send no gradient on. */
struct live {
    uint32_t first; /* places below only go forward */
    uint32_t end;   /* of the first stage that learns */
};

static struct live live_from(const struct dp_sim_program *p, uint32_t first_live)
{
    const uint32_t *begin = p->actions.n_wide ? p->actions.begin + first_live : NULL;

    return begin ? (struct live){begin[0], begin[1]} : (struct live){first_live, first_live + 1};
}

/* Is a step's place below `end`, and its kind this one? cost is kind * V + place: below that kind it wraps around. */
static inline bool is_below(const struct dp_sim_program *p, const struct step *s, enum dp_action_kind kind, uint32_t end)
{
    return s->cost - kind * p->n_places < end;
}

uint32_t dp_sim_program_run(struct dp_sim_program *p, uint32_t first_live, const uint64_t *cost, const struct dp_sim_link *link,
                            uint64_t *done, struct dp_sim_span *span)
{
    size_t d = p->actions.n_devices;
    bool is_wide = p->actions.n_wide != 0;
    const struct live live = live_from(p, first_live);
    uint32_t n = 0;

    memset(p->way_in_free, 0, 2 * d * sizeof *p->way_in_free);
    memset(p->there, 0, 2 * d * sizeof *p->there);
    memset(p->now, 0, d * sizeof *p->now); /* slots are written before they are read; slot 0 stays 0 */
    memset(p->link_free, 0, (2 * d + 1) * sizeof *p->link_free);
    memset(done, 0, DP_ACTION_KINDS * (size_t)p->n_places * sizeof *done);
    memcpy(p->at, link, p->n_links * sizeof *p->at);
    p->at[p->n_links - 1] = (struct dp_sim_link){0, 0};
    if (p->actions.is_implied) {
        struct dp_sim_implied r = {.n_stages = p->actions.n_devices, .microbatches = p->actions.microbatches,
                                   .first_live = first_live, .fwd_ns = cost, .bwd_ns = cost + d, .link = p->at, .now = p->now,
                                   .activation = p->there, .gradient = p->there + d, .forth_free = p->link_free,
                                   .back_free = p->link_free + d};

        return dp_sim_implied_run(&r, done, span);
    }
    for (uint32_t i = 0; i < p->n_actions; i++) {
        const struct step *s = &p->step[i];
        uint64_t there, start, end;

        if (is_below(p, s, DP_ACTION_BACKWARD, live.first) || is_below(p, s, DP_ACTION_WEIGHT, live.first))
            continue;
        there = is_wide && s->in ? receive(p, s) : p->slot[s->in];
        start = dp_most_u64(there, p->now[s->device]);
        end = start + cost[s->cost];
        p->now[s->device] = done[s->cost] = end;
        if (s->out && !is_below(p, s, DP_ACTION_BACKWARD, live.end)) {
            uint64_t sent = dp_most_u64(end, p->link_free[s->link]) + p->at[s->border].send_ns;

            p->link_free[s->link] = sent;
            p->slot[s->out] = is_wide ? sent : sent + p->at[s->border].latency_ns;
        }
        if (span)
            span[n] = (struct dp_sim_span){
                .device = s->device,
                .place = s->cost % p->n_places,
                .mb = p->mb[i],
                .kind = (enum dp_action_kind)(s->cost / p->n_places),
                .start_ns = start,
                .end_ns = end,
            };
        n++;
    }
    return n;
}
