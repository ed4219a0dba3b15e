/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU that stands in for a card, for tests: kernels are C++ functions, each thread of a block is a fiber of one
 * CPU thread. What a real card would leave to chance a seed decides, and what is wrong by the rules is found whatever
 * happened to run first. doc/cuda.md says how it works and what it cannot see.
 *
 * A finding is an error of the device like any other: the launch fails with cudaErrorLaunchFailure, whose text is the
 * finding, and so does every call after it.
 */
#ifndef DP_KERNELS_CUDA_EMU_EMU_H
#define DP_KERNELS_CUDA_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/emu/types.h"

/* What a test may choose. Before the first call it comes from the environment: DYNPIPE_EMU="seed=7 fail=12 check=0". */
struct dp_emu_settings {
    uint64_t seed;        /* 1, 2, ...: order of threads, blocks and streams */
    long fail;            /* the fail-th call of the runtime from now on fails; 0: none */
    bool fail_on;         /* and so does every later one */
    bool unchecked;       /* kernels run faster and findings are left to the results */
    size_t memory;        /* bytes of the device, 0: 512 MiB; counts when nothing is in use */
    int driver, count;    /* what the driver says: its version (13000), 0: there is none; devices, -1 for 1 */
    int cc_major;         /* 0: 9 */
    bool no_code;         /* the plugin has no code for the device */
    bool says;            /* at the end: how many calls, kernels and graphs there were */
    bool no_ipc;          /* processes do not see each other's memory */
};

/* Take these from now on. Nothing may be under way. */
void dp_emu_configure(const struct dp_emu_settings *settings);
/* What the environment says, on top of the settings so far. */
void dp_emu_use_environment(void);

struct dp_emu_counts {
    long calls;                           /* of the runtime since dp_emu_configure */
    long blocks, staging, streams, events; /* that live: memory, streams, events that were not given back */
    long opened;                          /* memory of other processes that was not closed */
    long graphs;                          /* graphs, and what was made of them to be launched */
    long launches, findings, replays;      /* ever; replays: launches of graphs, whose kernels count as launches */
};
/* What has happened and what lives. */
struct dp_emu_counts dp_emu_count(void);
/* The last finding, "" without one. Valid until the next. */
const char *dp_emu_finding(void);

#endif
