/* SPDX-License-Identifier: BSD-3-Clause */
/* Where threads of a warp meet: to exchange values, to vote, to multiply matrices. */
#ifndef DP_KERNELS_CUDA_EMU_WARP_H
#define DP_KERNELS_CUDA_EMU_WARP_H

#include <stdint.h>

#define DP_WARP_MEETINGS 8 /* of one warp at a time, each with a mask of its own */
#define DP_WARP_WORDS 8    /* that a thread brings */

struct dp_meeting {
    unsigned mask, arrived;
    unsigned left; /* who has not taken the result; 0: the place is free, unless somebody has arrived */
    int line;
    const char *what;
    uint32_t words[32][DP_WARP_WORDS];
};

struct dp_warp {
    struct dp_meeting meetings[DP_WARP_MEETINGS];
};

/* (block.c) The warp of the thread that runs; wait until somebody lets it go on; let those of the mask go on; count a
 * meeting of the whole warp that orders what its threads do to memory. */
struct dp_warp *dp_warp_now(void);
void dp_warp_wait(int line);
void dp_warp_go_on(unsigned mask);
void dp_warp_synced(void);

#endif
