/* SPDX-License-Identifier: BSD-3-Clause */
/* Fibers: several stacks on one thread, and a switch from one to another. */
#ifndef DP_KERNELS_CUDA_EMU_FIBER_H
#define DP_KERNELS_CUDA_EMU_FIBER_H

#include <stddef.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct dp_fiber {
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t context;
#endif
};

/* A fiber that begins in entry() when it is first switched to, on the stack [stack, stack + bytes). entry never
 * returns. The fiber needs no end: its stack may serve again as soon as nobody switches to it any more. */
void dp_fiber_make(struct dp_fiber *f, void *stack, size_t bytes, void (*entry)(void));
/* Go on in `to`; back when somebody switches to `from`. */
void dp_fiber_switch(struct dp_fiber *from, struct dp_fiber *to);

#endif
