/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's programs fork while other threads of theirs run, and use the heap in the child before they exec. The C library
 * locks its own heap around a fork for that; the address sanitizer of gcc 12 does not, so a child now and then waits for
 * ever for a lock that a thread held which the child does not have. Loaded before that sanitizer (LD_PRELOAD), this does
 * what the C library does: whoever uses the heap holds a lock to read, a fork takes it to write. Whoever forks inside an
 * allocation would wait for himself; nobody does.
 *
 *   gcc -O2 -fPIC -shared -D_GNU_SOURCE -o fork_lock.so fork_lock.c -pthread
 */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* Who wants to fork goes before those who come to allocate after it: a busy process would not get to its fork. */
static pthread_rwlock_t heap = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void
before_fork(void)
{
    pthread_rwlock_wrlock(&heap);
}

static void
after_fork_parent(void)
{
    pthread_rwlock_unlock(&heap);
}

/* The lock knows its writer by a thread id that the child does not have. */
static void
after_fork_child(void)
{
    static const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

    heap = fresh;
}

__attribute__((constructor)) static void
lock_forks(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* A function of the heap, as the sanitizer has it under a second name. An interceptor may call another function here: only
 * the outermost call of a thread takes the lock, for a reader that comes again waits for a writer that waits for it. */
static __thread int depth __attribute__((tls_model("initial-exec")));

static void
enter(void)
{
    if (depth++ == 0)
        pthread_rwlock_rdlock(&heap);
}

static void
leave(void)
{
    if (--depth == 0)
        pthread_rwlock_unlock(&heap);
}

#define LOCKED(type, name, parameters, arguments)    \
    extern type __interceptor_##name parameters;     \
    type name parameters                             \
    {                                                \
        type result;                                 \
                                                     \
        enter();                                     \
        result = __interceptor_##name arguments;     \
        leave();                                     \
        return result;                               \
    }

LOCKED(void *, malloc, (size_t n), (n))
LOCKED(void *, calloc, (size_t n, size_t size), (n, size))
LOCKED(void *, realloc, (void *p, size_t n), (p, n))
LOCKED(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))
LOCKED(void *, memalign, (size_t align, size_t n), (align, n))
LOCKED(void *, aligned_alloc, (size_t align, size_t n), (align, n))
LOCKED(int, posix_memalign, (void **p, size_t align, size_t n), (p, align, n))
LOCKED(char *, strdup, (const char *s), (s))
LOCKED(char *, __strdup, (const char *s), (s))

extern void __interceptor_free(void *p);
void
free(void *p)
{
    enter();
    __interceptor_free(p);
    leave();
}
