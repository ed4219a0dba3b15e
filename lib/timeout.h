/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a worker waits for something, where a user may say so. */
#ifndef DP_LIB_TIMEOUT_H
#define DP_LIB_TIMEOUT_H

#include <stdint.h>

/* Seconds from the environment, up to a day; the default where there is none, or nonsense (a warning). */
uint64_t dp_timeout_from_env_ns(const char *name, uint64_t fallback_ns);

#endif
