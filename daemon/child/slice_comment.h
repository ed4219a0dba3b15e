/* SPDX-License-Identifier: BSD-3-Clause */
/* What the comment of a Slurm job says of slices: which run a job is a part of, for people (squeue, sacct) and, where the job is
 * no task of an array, for the daemons.
 *
 * Only the owner of a job and the operators of the cluster can set its comment. So whoever counts a job by its comment asks for
 * the same owner, too: another user's job then gains nothing by naming somebody's run, and who names his own run does it to himself.
 *
 * What a user wrote stands before it and stays: "his own words; dynpipe: slice of 123".
 */
#ifndef DP_DAEMON_CHILD_SLICE_COMMENT_H
#define DP_DAEMON_CHILD_SLICE_COMMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_COMMENT_MAX 1024 /* bytes; Slurm's own limit is none, or larger */

/* The job that is home of the slice with this comment, 0: it names none. It does at its end alone, and by a plain number. */
uint32_t dp_slice_comment_home(const char *comment);

/* The comment of a slice of home (slice_of = home), or of home itself (0), with what the user wrote in `old`; what a daemon wrote there
 * before is replaced. returns false, with out = "", where nothing has to be changed, or there is no room for it. */
bool dp_slice_comment_make(const char *old, uint32_t slice_of, char *out, size_t cap);

#endif
