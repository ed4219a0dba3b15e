/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a proposed layout worth a hand-over? Hysteresis, cooldown, and the cost of moving against what
 * is gained in the steps that remain, or as long as loads stay what they are (noise.h). Numbers in, verdict with all its numbers out. */
#ifndef DP_POLICIES_DECIDE_DECIDE_H
#define DP_POLICIES_DECIDE_DECIDE_H

#include "policies/decide/noise.h"
#include "policies/policy.h"

/* Decisions in a row that must find a better layout, where its gain is less than DP_DECIDE_SURE times what loads scatter: about three
 * standard errors of a median of three reports. */
#define DP_DECIDE_WINS 3
#define DP_DECIDE_SURE 3.0

enum dp_move_verdict { DP_STAY = 0, DP_MOVE = 1 };

/* What a hand-over costs the run. */
struct dp_move_cost {
    uint64_t fixed_ns; /* for which it stands still, apart from the bytes */
    double byte_ns;    /* for each byte of moved layers: that it stands still, or that its busiest worker copies while others train */
};

/* What one has cost: times, each of the worker that it took longest. */
struct dp_moved {
    uint64_t pause_ns;    /* 0: not measured */
    uint64_t transfer_ns; /* part of it in which layers were sent or received */
    uint64_t copying_ns;  /* before it, while training went on */
    uint64_t bytes;       /* of all layers that moved */
};

/* What the next one is to cost. Bytes cost as in the newest hand-over of at least DP_MOVED_BYTES, since what is less measures how long
 * a message takes. moved: n of them, the newest one first. link_bytes_per_s: where there is none; 0: bytes cost nothing then. */
#define DP_MOVED_BYTES ((uint64_t)1 << 20)
struct dp_move_cost dp_next_move_cost(const struct dp_moved *moved, uint32_t n, double link_bytes_per_s);

struct dp_decide_in {
    uint64_t current_ns, proposed_ns; /* predicted iteration of both layouts: device time */
    bool is_corrected;                /* or as corrected by what was measured (decide/correction.h) */
    uint64_t limit_ns;                /* longest iteration that meets the reference; 0: none */
    uint32_t slots_now, slots_after;  /* used by the run; fewer after: the move frees slots */
    bool is_sliced;                   /* these are slices, and are called so */
    uint32_t moved_layers;
    uint64_t moved_bytes;
    struct dp_move_cost move;
    uint64_t steps_left;
    double hysteresis;       /* percent */
    uint64_t cooldown_left_ns;
    uint64_t pause_left_ns;  /* as long no layers are moved but to free slots */
    struct dp_noise noise;   /* of the loads */
    uint32_t n_wins;         /* decisions in a row that found a better layout, with this one if it does */
};

struct dp_decide_out {
    enum dp_move_verdict verdict;
    double gain_percent;   /* of the iteration; negative: slower */
    double lasting_steps;  /* for so many the gain lasts, as loads wander; INFINITY: they do not */
    double gain_s;         /* over these, or the steps that are left, where those are fewer */
    double cost_s;         /* of the hand-over */
    bool is_better;        /* a layout that would pay: it counts in the next n_wins */
    double saved_slot_s;   /* slot-seconds that the freed slots are worth; 0 where none is freed */
    char reason[256];      /* "stay: predicted gain 1.2 % is below the hysteresis of 5 %" */
};

/* Move or stay, and one line that says why. Cooldown comes first, then the pause of balancing. A layout that frees
 * slots must bring back more slot-seconds than the hand-over stops; any other one must gain more than the hysteresis,
 * and more time than the hand-over takes, and be found again where its gain is not sure. Giving slots back waits for none of that:
 * they stay given back whatever the loads do. out: overwritten. */
void dp_decide(const struct dp_decide_in *in, struct dp_decide_out *out);

/* Layers that change their owner between two layouts of the same model, and the bytes of their state. */
uint32_t dp_moved_layers(const struct dp_policy_in *in, const struct dp_layout *to, uint64_t *bytes);

#endif
