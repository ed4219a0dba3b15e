/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that ask the emulator what CUDA's manuals answer. All pointers are device memory. */
#ifndef DP_TESTS_UNIT_CUDA_EMU_H
#define DP_TESTS_UNIT_CUDA_EMU_H

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif
/* Words that a warp fills: rows of 32, one a question. */
enum emu_row {
    EMU_IDX, EMU_UP, EMU_DOWN, EMU_XOR, EMU_IDX_8, EMU_UP_8, EMU_DOWN_8, EMU_XOR_16, EMU_BALLOT, EMU_ANY, EMU_ALL,
    EMU_PARTS, EMU_LONG, EMU_ROWS
};
int emu_warp(struct dp_backend *be, uint32_t *out, struct dp_err *err);
/* c (16, 8) += a (16, 16) b (16, 8) by fragments as the PTX manual has them; a, b bfloat16 */
int emu_mma(struct dp_backend *be, float *c, const uint16_t *a, const uint16_t *b, struct dp_err *err);
/* out (32, 8): what each thread gets of four 8 x 8 matrices whose element (i, r, c) is 64 i + 8 r + c, by ldmatrix and,
 * behind them, transposed */
int emu_ldmatrix(struct dp_backend *be, uint16_t *out, struct dp_err *err);
/* out[i] = 100 z + 10 y + x of thread i, blocks of (2, 3, 4) in a grid of (2, 2, 2), a block behind the other */
int emu_places(struct dp_backend *be, uint32_t *out, struct dp_err *err);
/* out (128): 64 words copied asynchronously from in, 16 bytes and 4 bytes at a time, half of each not there */
int emu_copies(struct dp_backend *be, uint32_t *out, const uint32_t *in, struct dp_err *err);
/* out (3) = sum, or and maximum of 1 ... n by atomic operations */
int emu_atomics(struct dp_backend *be, uint32_t *out, int n, struct dp_err *err);
/* A launch of any shape; what = 0: does nothing; 1: __trap(); 2: writes its order of blocks to out; 3: 64 KiB of
 * DP_SHARED; 4: uses all of its dynamic shared memory, and writes to out what is in the last word */
int emu_launch(struct dp_backend *be, int what, unsigned gx, unsigned gy, unsigned bx, unsigned bz, size_t shared,
               uint32_t *out, struct dp_err *err);
#ifdef __cplusplus
}
#endif
#endif
