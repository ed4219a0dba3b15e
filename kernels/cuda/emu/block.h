/* SPDX-License-Identifier: BSD-3-Clause */
/* A launch, block by block and thread by thread. */
#ifndef DP_KERNELS_CUDA_EMU_BLOCK_H
#define DP_KERNELS_CUDA_EMU_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/emu/types.h"

#define DP_EMU_BLOCK_THREADS 1024            /* of a block at most */
#define DP_EMU_SHARED ((size_t)227 << 10)    /* bytes that a block may have where it asks for them */
#define DP_EMU_UNASKED ((size_t)48 << 10)    /* ... and where it does not; and of all DP_SHARED together */

struct dp_emu_launch {
    const char *name;
    dim3 grid, block;
    size_t shared; /* dynamic, bytes */
    void (*call)(void (*kernel)(void), void **args);
    void (*kernel)(void);
    void **args;
};

/* Run it, blocks and threads in an order that *random decides. returns: 0, or -1: a finding, and the rest of the launch
 * is not run. */
int dp_emu_run(const struct dp_emu_launch *launch, uint64_t *random);

/* The next number of a sequence; *random is not 0. */
static inline uint64_t dp_emu_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 11;
}

/* Give stacks back. */
void dp_emu_end_blocks(void);

#endif
