/* SPDX-License-Identifier: BSD-3-Clause */
/* Does munge work here: a credential made and read again. */
#ifndef DP_COMMON_MESSAGE_MUNGE_TRIP_H
#define DP_COMMON_MESSAGE_MUNGE_TRIP_H

#include "common/err.h"

/* socket "" or NULL: munge's default. Blocks for as long as munged takes: call it in a child with a deadline.
 * returns: 0, or -1 with munge's own words. */
int dp_munge_round_trip(const char *socket, struct dp_err *err);

#endif
