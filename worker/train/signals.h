/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals as requests: SIGTERM and SIGINT ask to save and stop, SIGUSR1 to save and go on. They take effect
 * at the next boundary of an optimizer step, whichever worker got them. */
#ifndef DP_WORKER_TRAIN_SIGNALS_H
#define DP_WORKER_TRAIN_SIGNALS_H

#include <stdint.h>

#include "common/err.h"

/* Catch the signals, in this process's threads of now and later: call it before any other thread exists.
 * SIGTERM and SIGINT end the process at once until dp_signals_begin(): there is nothing to save, and
 * whoever waits for others at the start may wait for ever. */
int dp_signals_catch(struct dp_err *err);
/* The first step begins: from here on both are requests, however often they come; only a second SIGINT
 * ends the process at once. */
void dp_signals_begin(void);
/* enum dp_step_request bits since the last call. */
uint32_t dp_signals_take(void);

#endif
