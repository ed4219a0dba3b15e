/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that fails at a call that a test names: another backend's, with every call that kernels/backend.h lets fail
 * counted in front of it; who asks again how far the device is counts once.
 *
 * What failed at once says so, and so does every later call. What fails late is told as if all were well, and so is all
 * that comes behind it, but nothing of it is done any more; the next call that waits, or asks how far the device is,
 * says what failed. That is as late as the interface allows, and calls that return something fail at once. Memory that
 * is not there fails one call only. */
#ifndef DP_TESTS_FAILING_DEVICE_H
#define DP_TESTS_FAILING_DEVICE_H

#include "kernels/backend.h"

enum fails_how { FAILS_AT_ONCE, FAILS_LATE, FAILS_MEMORY, N_FAILS_HOW };

/* Around `inner`, which it takes. NULL: no memory, and inner is the caller's still. */
struct dp_backend *failing_device_create(struct dp_backend *inner);
/* In place of dp_backend_destroy(). NULL is fine. */
void failing_device_destroy(struct dp_backend *be);
/* Count from here on; the at-th call fails (FAILS_MEMORY: the at-th allocation). at 0: none. What failed stays so. */
void failing_device_arm(struct dp_backend *be, enum fails_how how, uint32_t at);
/* The name of the call that failed, NULL: none was. */
const char *failing_device_failed(const struct dp_backend *be);

#endif
