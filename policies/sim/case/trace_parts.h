/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of read_trace.c: which part of each trace is played.
 *
 * A resumed run goes on in its files. Where it came back with other workers or other settings, its layouts and
 * costs do not belong beside the older ones: what is played is the newest start, as worker 0's file has it.
 */
#ifndef DP_POLICIES_SIM_CASE_TRACE_PARTS_H
#define DP_POLICIES_SIM_CASE_TRACE_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "policies/sim/case/read.h"

struct dp_trace_part {
    size_t from;        /* byte at which it begins, with a header */
    unsigned from_line; /* of that byte, from 1 */
    bool is_stale;      /* of a worker that the newest start does not have: nothing of it is played */
};

/* part: [n], overwritten. Lines that are no JSON are left to the reader, which says where. */
void dp_trace_parts_find(uint32_t n, const struct dp_sim_trace_text *file, struct dp_trace_part *part);

#endif
