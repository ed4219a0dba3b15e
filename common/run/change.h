/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known to make layers cheaper later in a run: pruning and freezing by a schedule. Workers tell daemons (HELLO), which
 * foresee loads from it. Rules that look at the training itself have no such list: what they do is seen when it has happened.
 *
 * A change at `step` comes at the boundary behind so many completed steps. Changes are ordered by step; those of one kind come at
 * different steps, and their values never fall. A long schedule is a sample of its changes: between two of them the earlier one's
 * value stands.
 */
#ifndef DP_COMMON_RUN_CHANGE_H
#define DP_COMMON_RUN_CHANGE_H

#include <stdint.h>

#include "common/err.h"

#define DP_CHANGES_MAX 64 /* each may be packed for (daemon/coord/decide/plan.c): a decision must end */

/* Numbers are for ever: they are in messages. */
enum dp_change_kind {
    DP_CHANGE_PRUNE = 1,  /* value: sparsity of all prunable weights together from then on, 0 to less than 1 */
    DP_CHANGE_FREEZE = 2, /* value: layers from layer 0 on that only go forward from then on, a whole number */
};

struct dp_change {
    uint64_t step;
    double value;
    uint8_t kind; /* enum dp_change_kind */
};

/* Is this a list as above, of a run of n_layers layers? Takes no longer than DP_CHANGES_MAX changes do.
 * returns: 0, or -1 with the first offence in err. */
int dp_changes_check(const struct dp_change *c, uint32_t n, uint32_t n_layers, struct dp_err *err);

/* The value of a kind when `step` steps are completed, 0: nothing of that kind has come yet. c: [n], checked. */
double dp_changes_value(const struct dp_change *c, uint32_t n, enum dp_change_kind kind, uint64_t step);

/* Does any change come after `step`? returns its number in c, or n: none does. */
uint32_t dp_changes_next(const struct dp_change *c, uint32_t n, uint64_t step);

/* The list of gradual pruning: at begin, begin + every, ... and at end, from the sparsity `initial` to `final` by a cubic. end 0: it
 * has none. Where there are more than DP_CHANGES_MAX, an even choice of them with the first and the last, in the same time.
 * every: at least 1; begin: at most end. returns: how many. */
uint32_t dp_changes_of_pruning(uint64_t begin, uint64_t every, uint64_t end, double initial, double final,
                               struct dp_change out[DP_CHANGES_MAX]);

#endif
