/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4 (Aumasson & Bernstein 2012): a keyed 64-bit check of short inputs. */
#ifndef DP_WORKER_NET_SIPHASH_H
#define DP_WORKER_NET_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* key 00..0f over the bytes 00..0e gives 0xa129ca6149be45e5 (appendix A of the paper). */
uint64_t dp_siphash(const uint8_t key[16], const void *data, size_t bytes);

#endif
