/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzz target and the program around it (driver.c, or libFuzzer) have of each other.
 *
 * A target is one file: its name, its seeds, made by the project's own encoders, and the function that
 * parses one input. It calls fuzz_die() where a property does not hold; a wrong access is the
 * sanitizers' to find.
 */
#ifndef DP_TESTS_FUZZ_H
#define DP_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- each target defines these ---- */
extern const char fuzz_name[];
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
/* Give every seed to fuzz_seed(). */
void fuzz_make_seeds(void);

/* ---- and may use these ---- */
void fuzz_seed(const void *data, size_t bytes); /* copied; ends the program when there are too many */
void fuzz_seed_text(const char *text);
void fuzz_die(const char *why) __attribute__((noreturn));
/* The input as a private file (mode 0600). returns its path, valid until the next call. */
const char *fuzz_file(const void *data, size_t bytes);

/* ---- for the program around it ---- */
#define FUZZ_MAX_SEEDS 256
struct fuzz_bytes {
    uint8_t *data;
    size_t bytes;
};
extern struct fuzz_bytes fuzz_seeds[FUZZ_MAX_SEEDS];
extern uint32_t fuzz_n_seeds;
/* Largest allocation from here on: a parser needs memory for what the input holds, not for the
 * numbers that are written in it. 0: no limit. */
void fuzz_limit_memory(size_t bytes);
/* Write the seeds into a folder, for libFuzzer. returns 0 or -1. */
int fuzz_write_seeds(const char *folder);

#endif
