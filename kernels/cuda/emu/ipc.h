/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays of device memory that several processes have, and the order of what they do there.
 *
 * One process shows an array, another one opens it: both have its pages, and books of who wrote and read what. The
 * processes' hosts are all that orders their works (no event goes from one to the other), so one work comes before
 * another process's when its own host has seen it done by the time that the other host asked for that one. Whatever
 * touches what it is not ordered behind is a finding, in the process that comes second. Two works of one process are
 * check.c's affair.
 */
#ifndef DP_KERNELS_CUDA_EMU_IPC_H
#define DP_KERNELS_CUDA_EMU_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/emu/types.h"

struct dp_emu_clock;
struct dp_emu_books; /* of an array that is shown or open */

/* A work, as other processes are told of it. */
struct dp_emu_work {
    int stream;
    uint64_t number;
    uint64_t asked_ns; /* when its host asked for it */
};

/* Others may open the `pages` bytes at `at`, whole pages, whose contents stay; `bytes` of them are an array. NULL: the
 * system does not let it. */
struct dp_emu_books *dp_ipc_show(void *at, size_t bytes, size_t pages, size_t grain, cudaIpcMemHandle_t *handle);
/* The same handle again. */
void dp_ipc_handle(const struct dp_emu_books *b, cudaIpcMemHandle_t *handle);
/* What another process shows. First how much that is (returns 0, or why not), then into `pages` bytes at `at`. */
cudaError_t dp_ipc_look(const cudaIpcMemHandle_t *handle, size_t *bytes, size_t *pages);
struct dp_emu_books *dp_ipc_open(const cudaIpcMemHandle_t *handle, void *at, size_t pages);
/* The end of either: the pages at `at` are this process's alone again, and empty. */
void dp_ipc_close(struct dp_emu_books *b, void *at, size_t pages);
/* Shown by this process, and another one that lives has it open. */
bool dp_ipc_is_open(const struct dp_emu_books *b);

/* Written before anybody else could. */
void dp_ipc_was_written(struct dp_emu_books *b, size_t cell);
/* Some process has written it. */
bool dp_ipc_is_written(const struct dp_emu_books *b, size_t cell);
/* The work touches a cell, and that is noted. returns: NULL, or what another process does there ("writes", "reads") that
 * nothing orders before it. */
const char *dp_ipc_touch(struct dp_emu_books *b, size_t cell, bool writes, const struct dp_emu_work *w);
/* The host knows more works of its own to be done. */
void dp_ipc_learned(const struct dp_emu_clock *known);

#endif
