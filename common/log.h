/* SPDX-License-Identifier: BSD-3-Clause */
/* One line per event, on stderr or in a file: "2026-11-21T08:00:00.123 info: text".
 *
 * Whatever a peer, a user or a file wrote may appear in a line, so every control byte is escaped as
 * \xHH before it is written (slurm.md F10: Slurm's own logs can be forged with a newline), and a
 * line is cut at 2 KiB. Log state changes, not repetitions.
 */
#ifndef DP_COMMON_LOG_H
#define DP_COMMON_LOG_H

#include "common/err.h"

enum dp_log_level { DP_LOG_ERROR = 0, DP_LOG_WARN, DP_LOG_INFO, DP_LOG_DEBUG };

/* ident: printed after the time, NULL for none; borrowed for the life of the process.
 * level: the most talkative level that is still written. */
void dp_log_setup(const char *ident, enum dp_log_level level);

/* From here on lines that nobody takes (a pipe whose reader has stopped, a journald that was ended) are counted
 * instead of waited for; how many there were is said when somebody takes lines again. */
void dp_log_never_wait(void);

/* Where lines go from now on: "stderr", "syslog" (/dev/log, facility daemon), or the path of a file, which is appended
 * to and takes stderr's place, so that children and libraries write there, too. Called again with the same path it
 * opens the file anew: for a log that was moved away. returns: 0, or -1 when the file cannot be opened; then all stays
 * as it was. */
int dp_log_to(const char *where, struct dp_err *err);

/* From here on lines go to `tell`, escaped and cut as always but without time, ident and level's name, and nothing is written
 * anywhere: for a library, whose streams are its caller's. tell may be called by any thread that logs; NULL: back to where lines
 * went before. */
typedef void dp_log_tell_fn(enum dp_log_level level, const char *line);
void dp_log_to_function(dp_log_tell_fn *tell);

/* One line, cut at 2,047 bytes; control bytes in it are escaped. Levels above the one that was set up cost nothing.
 * Never fails: what cannot be written is lost, and counted after dp_log_never_wait(). */
void dp_log(enum dp_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define dp_error(...) dp_log(DP_LOG_ERROR, __VA_ARGS__)
#define dp_warn(...) dp_log(DP_LOG_WARN, __VA_ARGS__)
#define dp_info(...) dp_log(DP_LOG_INFO, __VA_ARGS__)
#define dp_debug(...) dp_log(DP_LOG_DEBUG, __VA_ARGS__)

#endif
