/* SPDX-License-Identifier: BSD-3-Clause */
/* Switching stacks: by hand on x86-64, where swapcontext's two system calls would be most of a kernel's time; by
 * swapcontext elsewhere. */
#include "kernels/cuda/emu/fiber.h"

#include <stdint.h>

#if defined(__x86_64__)

#define SAVED 6 /* registers that a function must leave as they were */

/* dp_emu_swap(save, load): keep the registers on the stack and the stack's address in *save; load is such an address. */
void dp_emu_swap(void **save, void *load);
__asm__(".text\n"
        ".p2align 4\n"
        ".type dp_emu_swap, @function\n"
        ".globl dp_emu_swap\n"
        ".hidden dp_emu_swap\n"
        "dp_emu_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size dp_emu_swap, . - dp_emu_swap\n");

void dp_fiber_make(struct dp_fiber *f, void *stack, size_t bytes, void (*entry)(void))
{
    uintptr_t top = ((uintptr_t)stack + bytes) & ~(uintptr_t)15;
    void **sp = (void **)top;

    *--sp = NULL; /* entry() believes that it was called from here: aligned as after a call */
    *--sp = (void *)(uintptr_t)entry;
    for (int i = 0; i < SAVED; i++)
        *--sp = NULL;
    f->stack_pointer = sp;
}

void dp_fiber_switch(struct dp_fiber *from, struct dp_fiber *to)
{
    dp_emu_swap(&from->stack_pointer, to->stack_pointer);
}

#else

void dp_fiber_make(struct dp_fiber *f, void *stack, size_t bytes, void (*entry)(void))
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = bytes;
    f->context.uc_link = NULL;
    makecontext(&f->context, entry, 0);
}

void dp_fiber_switch(struct dp_fiber *from, struct dp_fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#endif
