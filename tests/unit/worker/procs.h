/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes with a transport each, for tests of what runs between workers. */
#ifndef DP_TESTS_PROCS_H
#define DP_TESTS_PROCS_H

#include <stdbool.h>

#include "tests/unit/unit.h"
#include "worker/net/transport.h"

/* What one process does; its exit status. */
typedef int procs_body_fn(struct dp_transport *t, uint32_t rank);

/* Run n (at most 4) processes that know each other; the i-th must end with want[i] (256 + signal when
 * killed). has_stranger: the last one knows only the card of worker 0, no key, and says that it is
 * worker 1. A process that hangs is killed after a minute. */
void procs_run(uint32_t n, procs_body_fn *const body[], const int want[], bool has_stranger);

#endif
