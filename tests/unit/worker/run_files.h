/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of whole runs in tests: a text to learn, and what their logs say. */
#ifndef DP_TESTS_RUN_FILES_H
#define DP_TESTS_RUN_FILES_H

#include "tests/unit/unit.h"

/* dir/text, the same in every test. */
void run_files_text(const char *dir);
/* loss[0 to steps] of a log, -1: no line; a step that is there twice must have the same one. returns how many lines have a loss. */
int run_files_losses(const char *path, int steps, double *loss);
/* Lines of that event at that step; *text, unless NULL: the newest one's, at most 4095 bytes. */
int run_files_events(const char *path, const char *event, int step, char *text);

#endif
