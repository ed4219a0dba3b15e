/* SPDX-License-Identifier: BSD-3-Clause */
/* What the run saved against the runs that it could have been (policies/saving/saving.h), added up as it goes.
 *
 * A window lies between two reports of the worker with the first layer. It is closed with the newest predictions
 * for its layout; those come from plan.c, some reports after a layout is in force, so what was measured
 * before waits for them. All time of the run is in some window: what no step explains is between the steps of
 * every way, the pause of a hand-over alone belongs to the run. The sums are journalled now and then, and a
 * restarted coordinator goes on from there: its first window reaches back to them.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

#include "policies/saving/saving_json.h"

#define JOURNAL_EVERY_NS (60 * DP_SECOND_NS) /* a restart loses so much of the sums */

/* --- windows --- */

static bool is_predicted(const struct dp_coord *c, const struct coord_saving *s)
{
    return c->predicted.ns && c->predicted.epoch == s->epoch;
}

static struct dp_saving_window window_of(const struct dp_coord *c, const struct coord_saving *s)
{
    struct dp_saving_window w = {.steps = s->steps,
                                 .step_s = s->steps ? s->steps_s / (double)s->steps : 0.0,
                                 .besides_s = s->besides_s,
                                 .pause_s = s->pause_s,
                                 .is_whole = s->is_whole,
                                 .dense_s = (double)coord_steady_step_ns(c) / 1e9};

    if (is_predicted(c, s)) {
        w.measured_s = (double)c->predicted.beside_ns / 1e9;
        w.predicted_s[DP_WAY_RUN] = (double)c->predicted.ns / 1e9;
        w.predicted_s[DP_WAY_FIXED] = (double)c->predicted.start_ns / 1e9;
        w.predicted_s[DP_WAY_BALANCED] = (double)c->predicted.balanced_ns / 1e9;
    }
    return w;
}

static void close_window(const struct dp_coord *c, struct coord_saving *s)
{
    struct dp_saving_window w = window_of(c, s);

    dp_saving_add(&s->sums, &w);
    s->steps = 0;
    s->steps_s = s->besides_s = s->pause_s = 0.0;
}

static void open_window(const struct dp_coord *c, struct coord_saving *s)
{
    s->epoch = c->layout.epoch;
    s->is_whole = dp_layout_active(&c->layout) == dp_layout_active(&c->start_layout);
}

void coord_saving_begin(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_saving *s = &c->saving;

    if (s->since_ns > now_ns) /* of a clock before the machine's start */
        memset(s, 0, sizeof *s);
    if (!s->since_ns)
        s->since_ns = c->life.first_ns;
}

void coord_saving_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    struct coord_saving *s = &c->saving;
    uint64_t first = m->window_steps < m->step ? m->window_steps : m->step;
    uint64_t steps = s->step && m->step > s->step ? m->step - s->step : first;
    double steps_s = (double)steps * (double)m->step_ns / 1e9;

    if (m->first_layer || !m->n_layers || now_ns < s->since_ns)
        return;
    open_window(c, s);
    s->steps += steps;
    s->steps_s += steps_s;
    s->besides_s += (double)(now_ns - s->since_ns) / 1e9 - steps_s;
    s->since_ns = now_ns;
    s->step = m->step;
    if (is_predicted(c, s))
        close_window(c, s);
    if (now_ns - s->journalled_ns >= JOURNAL_EVERY_NS) {
        s->journalled_ns = now_ns; /* when it cannot be written, not at once again */
        (void)coord_journal_saving(c);
    }
}

/* Another layout is in force from now on. While a trial goes on nothing is predicted: its steps wait for what is
 * predicted when its workers have left, with the same cuts. */
void coord_saving_moved(struct dp_coord *c)
{
    struct coord_saving *s = &c->saving, next = *s;

    open_window(c, &next);
    if (is_predicted(c, s) || next.is_whole != s->is_whole)
        close_window(c, s);
    open_window(c, s);
}

/* A hand-over is over, and stopped the run for so long. */
void coord_saving_paused(struct dp_coord *c, uint64_t pause_ns)
{
    c->saving.pause_s += (double)pause_ns / 1e9;
    c->saving.besides_s -= (double)pause_ns / 1e9;
    c->saving.journalled_ns = 0;
}

/* --- the saving so far, and to the last step --- */

uint32_t coord_per_slot(const struct dp_coord *c)
{
    return c->job.gpus_per_node ? c->job.gpus_per_node : 1;
}

/* held: [COORD_HELD_MAX]. returns: how many are filled in. */
static uint32_t held_by_time(const struct dp_coord *c, struct dp_saving_held *held)
{
    static uint64_t t_ns[COORD_HELD_MAX];
    static uint32_t n_slots[COORD_HELD_MAX];
    uint32_t n = coord_held_by_time(c, t_ns, n_slots);

    for (uint32_t i = 0; i < n; i++)
        held[i] = (struct dp_saving_held){coord_seconds(c, t_ns[i]), n_slots[i] * coord_per_slot(c)};
    return n;
}

/* The sums of all time until now. */
static void sums_until(const struct dp_coord *c, uint64_t now_ns, struct coord_saving *s)
{
    *s = c->saving;
    close_window(c, s);
    s->besides_s = coord_seconds(c, now_ns) - s->sums.time_s[DP_WAY_RUN];
    close_window(c, s);
}

void coord_saving_so_far(const struct dp_coord *c, uint64_t now_ns, struct dp_saving *out)
{
    static struct dp_saving_held held[COORD_HELD_MAX];
    struct coord_saving s;

    sums_until(c, now_ns, &s);
    dp_saving_close(&s.sums, held, held_by_time(c, held), out);
}

/* A window of so many steps as they are now. */
static struct dp_saving_window steps_of_now(const struct dp_coord *c, uint64_t steps)
{
    struct coord_saving s = {.steps = steps, .steps_s = (double)steps * (double)coord_recent_step_ns(c) / 1e9};

    open_window(c, &s);
    return window_of(c, &s);
}

/* Layers get cheaper: the steps of all ways get shorter alike. */
static void make_as_long(struct dp_saving_window *w, double factor)
{
    w->step_s *= factor;
    w->measured_s *= factor;
    for (int way = 0; way < DP_N_WAYS; way++)
        w->predicted_s[way] *= factor;
}

/* What makes layers cheaper in this run, as far as it has come or is known to come. */
static const char *cheaper_by(const struct dp_coord *c)
{
    bool prunes = c->train.is_pruned, freezes = c->train.n_frozen > 0;

    for (uint32_t i = 0; i < c->train.n_changes; i++) {
        prunes |= c->train.change[i].kind == DP_CHANGE_PRUNE;
        freezes |= c->train.change[i].kind == DP_CHANGE_FREEZE;
    }
    return prunes && freezes ? "pruning and freezing" : freezes ? "freezing" : "pruning";
}

json_t *coord_saving_json(const struct dp_coord *c, uint64_t now_ns)
{
    bool goes_on = c->train.has_layout && !c->life.is_over && !c->train.is_completed && !dp_coord_all_left(c) &&
                   c->train.steps_total > c->train.step;
    static struct dp_saving_held held[COORD_HELD_MAX];
    struct dp_saving_window now, left;
    struct dp_saving saving;
    struct coord_saving s;
    json_t *o;

    sums_until(c, now_ns, &s);
    now = left = steps_of_now(c, goes_on ? c->train.steps_total - c->train.step : 1);
    make_as_long(&left, c->predicted.left_mean > 0.0 ? c->predicted.left_mean : 1.0);
    if (goes_on)
        dp_saving_add(&s.sums, &left);
    dp_saving_close(&s.sums, held, held_by_time(c, held), &saving);
    for (int way = 0; way < DP_N_WAYS; way++)
        saving.step_s[way] = dp_saving_step_s(&s.sums, &now, (enum dp_way)way);
    o = dp_saving_json(&saving, s.sums.steps,
                       (double)s.sums.steps * (double)c->train.microbatches * (double)c->train.tokens_per_microbatch);
    json_object_set_new(o, "cheaper_by", json_string(cheaper_by(c)));
    json_object_set_new(o, "is_forecast", json_boolean(goes_on));
    json_object_set_new(o, "unknown_steps", json_integer((json_int_t)s.sums.unknown_steps));
    return o;
}
