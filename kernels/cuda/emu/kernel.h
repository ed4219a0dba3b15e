/* SPDX-License-Identifier: BSD-3-Clause */
/* What a launch hands over instead of a kernel's address, in C and in C++. */
#ifndef DP_KERNELS_CUDA_EMU_KERNEL_H
#define DP_KERNELS_CUDA_EMU_KERNEL_H

#include <stddef.h>

struct dp_emu_kernel {
    const char *name; /* stays */
    void (*kernel)(void);
    void (*call)(void (*kernel)(void), void **args);
    const size_t *sizes; /* of its arguments, up to a 0 */
};

#ifdef __cplusplus
extern "C" {
#endif
/* The one place of this kernel, as on a card it has one address. What k names stays. */
const struct dp_emu_kernel *dp_emu_kernel_at(const struct dp_emu_kernel *k);
#ifdef __cplusplus
}
#endif

#endif
