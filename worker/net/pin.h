/* SPDX-License-Identifier: BSD-3-Clause */
/* Bind the process to the cores of its rank. */
#ifndef DP_WORKER_NET_PIN_H
#define DP_WORKER_NET_PIN_H

#include <stdint.h>

#include "common/err.h"

/* Take `threads` of the allowed cores for worker local_rank of the n_local workers of this machine. Does
 * nothing where they have fewer cores than threads: the kernel shares them out better then. */
int dp_pin(uint32_t local_rank, uint32_t n_local, uint32_t threads, struct dp_err *err);

#endif
