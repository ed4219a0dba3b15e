/* SPDX-License-Identifier: BSD-3-Clause */
/* The time by which files grow old. A time of day that is set forward makes no file older: from then on, and from the
 * daemon's start, this clock goes on as time passes, from where it was, or from the newest file. When it has done so for as
 * long as files are kept, all that were there have been kept for so long, and it follows the time of day again. It is never
 * ahead of that. */
#ifndef DP_DAEMON_RUN_KEEP_CLOCK_H
#define DP_DAEMON_RUN_KEEP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct dp_keep_clock {
    bool is_started;
    uint64_t base_ms, base_ns; /* what it showed when it began to go by itself */
    int64_t offset_ms;         /* of the time of day from dp_now_ns(), when it was asked last */
};

/* newest_ms: when the newest file was written, 0: there is none. now_ns: dp_now_ns(). */
void dp_keep_clock_start(struct dp_keep_clock *c, uint64_t newest_ms, uint64_t wall_ms, uint64_t now_ns);

/* Milliseconds since 1970. keep_ms: how long files are kept. To be asked at least once in some minutes. */
uint64_t dp_keep_clock_ms(struct dp_keep_clock *c, uint64_t keep_ms, uint64_t wall_ms, uint64_t now_ns);

#endif
