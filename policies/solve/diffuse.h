/* SPDX-License-Identifier: BSD-3-Clause */
/* Decentralised diffusion: the rule by which one worker of a pipeline talks to its two neighbours and
 * takes layers from them, until no cut of the pipeline has a lower highest load.
 *
 * A worker knows its own layers and what its neighbours tell it, nothing else: no collective, nobody who
 * sees all loads. A round has three steps, the same for all workers:
 *   1. everyone sends each neighbour a note (dp_diffuse_tell);
 *   2. everyone reads both notes and asks at most one neighbour for a layer (dp_diffuse_ask);
 *   3. who is asked gives the layer that lies at that border (dp_diffuse_grant; not to one whom it asks
 *      itself, and of two who ask for an only layer the left one gets it). Layers never pass each other.
 * A worker without layers cuts nobody off: it waits for one neighbour's note and tells the other one of the layer
 * in it, passes on an ask unless it asks itself (dp_diffuse_wants), and then the layer that comes. So what counts
 * below as the next layer, or its giver, lies beyond all workers without layers.
 * What goes round while they settle is a layer's description; its bytes need to travel only once, at the end.
 *
 * A note relays one number, which travels one worker a round: the highest load of the sender and of all
 * beyond it, as far as it has heard. What is heard may be old.
 *
 * The rule. Let M be the higher of the two highest loads that a worker has heard of, from the left where
 * both are equal. It asks the neighbour on that side for its layer when its own load with that layer (a)
 * stays below M and (b) fits into its memory.
 *
 * It ends. Let H be the highest of all loads and of all that anybody has heard of, K the number of workers
 * with load H, D the sum over layers of the distance (in workers) from the leftmost of these. Within as
 * many rounds as there are workers, (H, K, -D) falls lexicographically, or nothing moves any more:
 * - By (a) a load that grows ends below an M <= H: H never rises, and while it stays, K never does.
 * - Once K is 0, all that is heard is renewed within so many rounds: H falls. Loads are sums of runs of
 *   layers, so H falls only finitely often.
 * - While H and K > 0 stay, so many rounds later everyone knows on which side the leftmost worker with
 *   load H is; then all ask in its direction, nobody's ask is in vain for ever, and D grows with every
 *   move and is bounded.
 * - If nothing moves for so many rounds, what everyone has heard is exact, and nothing ever will.
 *
 * Where it ends, whatever the speeds and limits of memory:
 * - H is the least possible: no contiguous partition has a lower highest load. Let p be the leftmost worker with
 *   load H. A worker right of p does not ask to its left, so with one layer more there it would reach H, or not
 *   fit. Now take a better partition, and in it the last worker: did it begin before where it does here, it would
 *   hold that layer and all that it has here, so it begins here or later. So does, after it, each worker
 *   before it, up to the one behind p; mirrored, those left of p end here or earlier. So p has at least the
 *   layers that it has here, whose load is H: that partition is no better.
 * - Without limits of memory, highest - lowest <= the time of the heaviest layer on the slowest device (and 1 ns
 *   where speeds differ, for rounding): a worker q that does not ask for layer w reaches H with it, H - load(q)
 *   <= time of w on q. That there are such partitions, and that moving end items finds them: Barany and
 *   Grinberg, Block partitions of sequences, Israel J. Math. 206 (2015), arXiv:1308.2452, who choose each move
 *   from all loads.
 * - With limits of memory no worker whose layers fitted ends with more than fits; one whose layers did not counts
 *   as loaded beyond all that do, so it gives first. By the first point all fit in the end, if that is possible.
 * The highest load never rises on the way, so one may stop after any round.
 */
#ifndef DP_POLICIES_SOLVE_DIFFUSE_H
#define DP_POLICIES_SOLVE_DIFFUSE_H

#include <stdbool.h>
#include <stdint.h>

enum dp_diffuse_side { DP_DIFFUSE_LEFT, DP_DIFFUSE_RIGHT, DP_DIFFUSE_NONE };

/* What a neighbour is told of a layer. */
struct dp_diffuse_layer {
    uint64_t weight;      /* time on a device of speed 1 */
    uint64_t fixed_bytes; /* memory */
    uint64_t multi_bytes; /* memory that counts `copies` times */
};

/* What a worker knows. All 0 at first, but for its device. */
struct dp_diffuse_worker {
    double speed;       /* > 0 */
    uint64_t cap_bytes; /* 0: unlimited */
    uint32_t copies;
    /* of its layers: dp_diffuse_moved() keeps count */
    uint32_t layers;
    uint64_t weight, fixed_bytes, multi_bytes;
    /* the rule's own */
    uint64_t highest[2]; /* load beyond the left and the right border, as heard */
    uint32_t quiet;      /* rounds without a move, as far as heard */
    enum dp_diffuse_side asks;
};

struct dp_diffuse_note {
    uint64_t highest; /* load of the sender and of all beyond it */
    uint32_t quiet;
    bool has_layer;
    struct dp_diffuse_layer layer; /* that lies at this border */
};

/* Time that the worker's layers take; beyond any such time where they do not fit into its memory. */
uint64_t dp_diffuse_load(const struct dp_diffuse_worker *w);

/* Step 1: the note over one border. end: the worker's layer there. NULL when it has none: then passed is this
 * round's note over its other border, NULL where there is no neighbour. */
void dp_diffuse_tell(const struct dp_diffuse_worker *w, enum dp_diffuse_side to, const struct dp_diffuse_layer *end,
                     const struct dp_diffuse_note *passed, struct dp_diffuse_note *out);
/* Step 2: left and right are the neighbours' notes, NULL where there is no neighbour. returns: whom it asks. */
enum dp_diffuse_side dp_diffuse_ask(struct dp_diffuse_worker *w, const struct dp_diffuse_note *left,
                                    const struct dp_diffuse_note *right);
/* Does it ask over the border `side`: for itself, or for one beyond it who asks over the other border? */
bool dp_diffuse_wants(const struct dp_diffuse_worker *w, enum dp_diffuse_side side, bool is_asked);
/* Step 3: does it give its layer at the border `to`, the one that its note told of? It goes to the
 * nearest worker there that asks for itself. Call it for both sides before anything moves. */
bool dp_diffuse_grant(const struct dp_diffuse_worker *w, enum dp_diffuse_side to, bool left_asks, bool right_asks);
/* A layer came (is_mine), or went. */
void dp_diffuse_moved(struct dp_diffuse_worker *w, const struct dp_diffuse_layer *layer, bool is_mine);

/* Has nothing moved for so long that nothing will, in a pipeline of n workers? `quiet` is relayed as well: a
 * worker at distance d counts what was d rounds ago, so 2 n quiet rounds hold n that were quiet
 * everywhere, after which every note is exact. All workers say so within n rounds of each other. */
bool dp_diffuse_is_over(const struct dp_diffuse_worker *w, uint32_t n);

#endif
