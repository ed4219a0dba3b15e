/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that the host must not touch, and staging memory that it must not touch while a copy is under way. */
#ifndef DP_KERNELS_CUDA_EMU_MEMORY_H
#define DP_KERNELS_CUDA_EMU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/emu/types.h"

/* Begin with a device of so many bytes. returns: 0, -1 without memory. */
int dp_memory_begin(size_t bytes);
void dp_memory_end(void);
/* Staging memory; NULL without room. */
void *dp_staging_alloc(size_t bytes);
/* returns: 0, -1: no staging memory begins there. */
int dp_staging_free(void *p);
/* Arrays of both kinds that live. */
long dp_memory_blocks(void);
long dp_memory_staging(void);
void dp_memory_count_block(long more);
/* A copy is asked for: dst and src are where that kind of copy may be. `stream` and `number`: the work that it will be.
 * returns: 0, -1: they are not. */
int dp_memory_asked(void *dst, const void *src, size_t bytes, int stream, unsigned long number);
/* Neither device nor staging memory: the driver takes it while it is called. */
bool dp_memory_is_pageable(const void *p);

#endif
