/* SPDX-License-Identifier: BSD-3-Clause */
/* Who reads and writes which byte of a device, and whether that may be.
 *
 * Time is counted in stamps, one for each stretch of a block between two barriers. Every two bytes of device and shared
 * memory have a cell that knows the last write and the last reads by stamp and thread. Two accesses, one of them a
 * write, race when
 *   - they are of two blocks of one launch;
 *   - they are of two threads of a block in the same stretch, unless the threads are of one warp and it has met in
 *     __syncwarp in between;
 *   - they are of two pieces of work (launches, copies) that nothing orders: neither one stream, nor an event that one
 *     waits for, nor the host that waited for the one before it asked for the other.
 * That does not depend on what happened to run first.
 *
 * The compiler tells of each access by a call (-fsanitize=thread, whose library is not linked: its functions are ours).
 */
#ifndef DP_KERNELS_CUDA_EMU_CHECK_H
#define DP_KERNELS_CUDA_EMU_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/emu/ipc.h"

enum dp_access { DP_ACCESS_READ, DP_ACCESS_WRITE, DP_ACCESS_ATOMIC };

#define DP_EMU_STREAMS 64 /* streams at a time */

/* Clock i: the last work of stream i that is known to come before. */
struct dp_emu_clock {
    uint64_t at[DP_EMU_STREAMS];
};

/* A thread that runs, as far as checks go. NULL: this thread of the host runs no kernel. */
struct dp_emu_thread {
    unsigned linear, warp; /* number in its block, of its warp */
    uint16_t warp_syncs;   /* __syncwarp of its warp since the last barrier */
    const char *stack;
    size_t stack_bytes;
};
extern _Thread_local struct dp_emu_thread *dp_emu_now __attribute__((tls_model("initial-exec")));

/* Device memory: an address range of `bytes`, at first without arrays; shared memory of a block. returns: 0, -1
 * without memory. */
int dp_check_begin(size_t bytes);
void dp_check_end(void);
/* An array of device memory, poisoned, on a page of its own; NULL when there is no room. */
void *dp_check_alloc(size_t bytes);
/* An array begins at p. */
bool dp_check_is_array(const void *p);
/* Bytes from p to the end of its array; 0: it is in none. p is device memory. */
size_t dp_check_room(const void *p);
void dp_check_free(void *p);
/* Memory of two processes (ipc.h): an array that begins at p is shown to others; what another process shows is opened here,
 * as an array that takes no memory of this device; and is closed again. */
cudaError_t dp_check_show(void *p, cudaIpcMemHandle_t *handle);
cudaError_t dp_check_open_shown(const cudaIpcMemHandle_t *handle, void **p);
cudaError_t dp_check_close_shown(void *p);
/* p begins an array that was opened. */
bool dp_check_is_opened(const void *p);
/* Bytes that arrays have, with what is lost between them; bytes in all. */
size_t dp_check_used(void);
size_t dp_check_total(void);
/* The host may touch device memory, or gets a signal when it does. */
void dp_check_open(bool open);
bool dp_check_is_device(const void *p);

/* Look at what kernels do, or only keep books of arrays. */
void dp_check_enable(bool on);

/* A piece of work begins: `name`, what is known to come before it. */
void dp_check_work(const char *name, const struct dp_emu_work *work, const struct dp_emu_clock *before);
/* The next block of it, the next stretch of the block. */
void dp_check_block(void);
void dp_check_stretch(void);
/* Forget works that everything to come is ordered behind: of stream i up to `known`[i]. */
void dp_check_forget(const struct dp_emu_clock *known);

/* Shared memory of the block that runs: poisoned, `bytes` of it; NULL when there is no room. `name` stays. */
void *dp_check_shared(const char *name, size_t bytes);

/* An access by the thread that runs, like one that the compiler tells of. */
void dp_check_access(const void *p, size_t bytes, enum dp_access access);
/* An asynchronous copy to shared memory begins (it may not be touched any more) and arrives. */
void dp_check_copy_begins(void *p, size_t bytes);
void dp_check_copy_arrives(void *p, size_t bytes);
/* The work, which is a copy, reads or writes device memory. returns: 0, or -1: a finding. */
int dp_check_copy(const void *p, size_t bytes, enum dp_access access);

/* Something is wrong: the first text is remembered, with its place. A thread that runs does not come back from it. */
void dp_emu_found(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Findings so far, and begin again. */
long dp_emu_findings(void);
void dp_emu_forget_findings(void);
/* (block.c) The place, for texts; what a thread does that has been found out. */
void dp_emu_where(char *text, size_t cap);
void dp_emu_abandon(void) __attribute__((noreturn));

#endif
