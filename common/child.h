/* SPDX-License-Identifier: BSD-3-Clause */
/* What a child process does with itself after a fork: lets go of what is its parent's, keeps to its limits, answers by a
 * pipe. Nothing of an event loop, so that any program can have such a child. */
#ifndef DP_COMMON_CHILD_H
#define DP_COMMON_CHILD_H

#include <stddef.h>
#include <stdint.h>

/* In the child of a fork: close all but keep_fd and stderr, give signals their default meaning and
 * die at the deadline by SIGALRM even when nobody is left to kill us. */
void dp_child_become(int keep_fd, double deadline_s);

/* In the child: no more address space and processor time than this, and no core file; where memory runs out it ends
 * before the daemon does. */
void dp_child_limit(uint64_t address_bytes, double cpu_s);

/* Write a result to a pipe; for children. */
void dp_child_write(int fd, const uint8_t *result, size_t bytes);

#endif
