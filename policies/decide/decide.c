/* SPDX-License-Identifier: BSD-3-Clause */
/* See decide.h. The order of the tests is the order in which a person would ask. */
#include "policies/decide/decide.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "policies/decide/pack.h"

#define FIXED_NS UINT64_C(500000000) /* of a hand-over, before one was measured */
#define MS(ns) ((double)(ns) / 1e6)
#define SAY(out, ...) snprintf((out)->reason, sizeof(out)->reason, __VA_ARGS__)

struct dp_move_cost dp_next_move_cost(const struct dp_moved *moved, uint32_t n, double link_bytes_per_s)
{
    struct dp_move_cost cost = {.fixed_ns = FIXED_NS, .byte_ns = link_bytes_per_s > 0.0 ? 1e9 / link_bytes_per_s : 0.0};

    for (uint32_t i = n; i-- > 0;) {
        const struct dp_moved *m = &moved[i];

        if (!m->pause_ns)
            continue;
        cost.fixed_ns = m->pause_ns > m->transfer_ns ? m->pause_ns - m->transfer_ns : 0;
        if (m->bytes >= DP_MOVED_BYTES)
            cost.byte_ns = ((double)m->transfer_ns + (double)m->copying_ns) / (double)m->bytes;
    }
    return cost;
}

static const char *kind_of(const struct dp_decide_in *in)
{
    return in->is_corrected ? "corrected time" : "device time";
}

static void numbers(const struct dp_decide_in *in, struct dp_decide_out *out)
{
    double step_gain_ns = (double)in->current_ns - (double)in->proposed_ns;

    out->gain_percent = in->current_ns ? 100.0 * step_gain_ns / (double)in->current_ns : 0.0;
    out->lasting_steps = dp_lasting_steps(&in->noise, out->gain_percent / 100.0);
    out->gain_s = step_gain_ns * fmin((double)in->steps_left, out->lasting_steps) / 1e9;
    out->cost_s = ((double)in->move.fixed_ns + in->move.byte_ns * (double)in->moved_bytes) / 1e9;
    if (in->slots_after < in->slots_now)
        out->saved_slot_s = (double)(in->slots_now - in->slots_after) *
                            ((double)in->proposed_ns * (double)in->steps_left / 1e9 - out->cost_s);
}

/* Fewer slots: worth it when they are free for longer than the hand-over stops the others. */
static void decide_shrink(const struct dp_decide_in *in, struct dp_decide_out *out)
{
    double stopped = out->cost_s * in->slots_after;
    const char *slot = in->is_sliced ? "slice" : "node";
    char allowed[DP_PACK_ALLOWED];

    if (out->saved_slot_s <= stopped) {
        SAY(out, "stay: from %u %ss to %u would save %.1f %s-s, the hand-over costs %.1f %s-s", in->slots_now, slot,
            in->slots_after, out->saved_slot_s, slot, stopped, slot);
        return;
    }
    out->verdict = DP_MOVE;
    SAY(out, "move: from %u %ss to %u at %.3f ms of %s a step (now %.3f ms, allowed %s); frees %.0f %s-s", in->slots_now, slot,
        in->slots_after, MS(in->proposed_ns), kind_of(in), MS(in->current_ns), dp_pack_allowed(in->limit_ns, allowed),
        out->saved_slot_s, slot);
}

static void decide_speed(const struct dp_decide_in *in, struct dp_decide_out *out)
{
    if (out->gain_percent < in->hysteresis) {
        SAY(out, "stay: predicted gain %.1f %% is below the hysteresis of %.1f %% (%s %.3f ms -> %.3f ms)",
            out->gain_percent, in->hysteresis, kind_of(in), MS(in->current_ns), MS(in->proposed_ns));
        return;
    }
    if (out->gain_s <= out->cost_s) {
        bool wanders = out->lasting_steps < (double)in->steps_left;

        SAY(out, "stay: %.2f s gained over %.0f steps%s do not pay for a hand-over of %.2f s", out->gain_s,
            fmin((double)in->steps_left, out->lasting_steps), wanders ? ", as loads wander," : "", out->cost_s);
        return;
    }
    out->is_better = true;
    if (in->n_wins < DP_DECIDE_WINS && out->gain_percent < DP_DECIDE_SURE * 100.0 * in->noise.scatter) {
        SAY(out, "stay: a layout is better by %.1f %%, but loads scatter by %.1f %%: found %u of %u times in a row",
            out->gain_percent, 100.0 * in->noise.scatter, in->n_wins, DP_DECIDE_WINS);
        return;
    }
    out->verdict = DP_MOVE;
    SAY(out, "move: predicted gain %.1f %% (%s %.3f ms -> %.3f ms), %.1f s over %.0f steps for a hand-over of %.2f s",
        out->gain_percent, kind_of(in), MS(in->current_ns), MS(in->proposed_ns), out->gain_s,
        fmin((double)in->steps_left, out->lasting_steps), out->cost_s);
}

void dp_decide(const struct dp_decide_in *in, struct dp_decide_out *out)
{
    memset(out, 0, sizeof *out);
    numbers(in, out);
    if (!in->moved_layers && in->slots_after >= in->slots_now)
        SAY(out, "stay: the layout is already the best (%s %.3f ms a step)", kind_of(in), MS(in->current_ns));
    else if (in->cooldown_left_ns)
        SAY(out, "stay: %.1f s of the cooldown are left", (double)in->cooldown_left_ns / 1e9);
    else if (in->pause_left_ns && in->slots_after >= in->slots_now)
        SAY(out, "stay: balancing pauses for another %.1f s, unless loads change (predicted gain %.1f %%)",
            (double)in->pause_left_ns / 1e9, out->gain_percent);
    else if (in->slots_after < in->slots_now)
        decide_shrink(in, out);
    else
        decide_speed(in, out);
}

uint32_t dp_moved_layers(const struct dp_policy_in *in, const struct dp_layout *to, uint64_t *bytes)
{
    struct dp_moves moves;

    *bytes = 0;
    dp_layout_moves(in->current, to, &moves);
    for (uint32_t i = 0; i < moves.n; i++)
        *bytes += in->layer[moves.move[i].layer].state_bytes;
    return moves.n;
}
