/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that code compiled with -fsanitize=thread calls at each access. The sanitizer's own library is not
 * linked: these take its place, in the plugin and nowhere else. */
#include "kernels/cuda/emu/check.h"

#define HIDDEN __attribute__((visibility("hidden")))

#define HOOKS(n)                                                                                              \
    HIDDEN void __tsan_read##n(const void *p);                                                                \
    HIDDEN void __tsan_write##n(void *p);                                                                     \
    HIDDEN void __tsan_unaligned_read##n(const void *p);                                                      \
    HIDDEN void __tsan_unaligned_write##n(void *p);                                                           \
    void __tsan_read##n(const void *p) { dp_check_access(p, n, DP_ACCESS_READ); }                             \
    void __tsan_write##n(void *p) { dp_check_access(p, n, DP_ACCESS_WRITE); }                                 \
    void __tsan_unaligned_read##n(const void *p) { dp_check_access(p, n, DP_ACCESS_READ); }                   \
    void __tsan_unaligned_write##n(void *p) { dp_check_access(p, n, DP_ACCESS_WRITE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

HIDDEN void __tsan_read_range(const void *p, unsigned long bytes);
HIDDEN void __tsan_write_range(void *p, unsigned long bytes);
HIDDEN void __tsan_init(void);
HIDDEN void __tsan_func_entry(const void *p);
HIDDEN void __tsan_func_exit(void);

void __tsan_read_range(const void *p, unsigned long bytes)
{
    dp_check_access(p, bytes, DP_ACCESS_READ);
}

void __tsan_write_range(void *p, unsigned long bytes)
{
    dp_check_access(p, bytes, DP_ACCESS_WRITE);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(const void *p)
{
    (void)p;
}

void __tsan_func_exit(void)
{
}

/* What dp_emu_atomic has told of already (device.h). */
#define ATOMICS(bits, type)                                                                                   \
    HIDDEN type __tsan_atomic##bits##_fetch_add(volatile type *p, type v, int order);                         \
    HIDDEN type __tsan_atomic##bits##_fetch_or(volatile type *p, type v, int order);                          \
    HIDDEN void __tsan_atomic##bits##_store(volatile type *p, type v, int order);                             \
    type __tsan_atomic##bits##_fetch_add(volatile type *p, type v, int order)                                 \
    {                                                                                                         \
        (void)order;                                                                                          \
        return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                                    \
    }                                                                                                         \
    type __tsan_atomic##bits##_fetch_or(volatile type *p, type v, int order)                                  \
    {                                                                                                         \
        (void)order;                                                                                          \
        return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);                                                     \
    }                                                                                                         \
    void __tsan_atomic##bits##_store(volatile type *p, type v, int order)                                     \
    {                                                                                                         \
        (void)order;                                                                                          \
        __atomic_store_n(p, v, __ATOMIC_RELAXED);                                                             \
    }
ATOMICS(32, unsigned)
ATOMICS(64, unsigned long)
