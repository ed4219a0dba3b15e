/* SPDX-License-Identifier: BSD-3-Clause */
/* How long threads that have nothing to do keep their cores busy. */
#ifndef DP_KERNELS_WAITING_H
#define DP_KERNELS_WAITING_H

/* Let the threads of operations, which wait for each other some hundred times a step, spin for some 0.1 ms and sleep
 * then. GNU's OpenMP, where nothing is set, spins for 15 ms: where other processes want the same cores, the threads that
 * wait use up what the process may have of them while those that work get none. It reads its settings when a program
 * starts, so this one starts again, with the same argv; to be called before anything else is open. Does nothing for
 * one thread, or where OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. */
void dp_wait_briefly(long threads, char *const argv[]);

#endif
