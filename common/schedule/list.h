/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of pipeline schedules: one line for each, and a file of this folder with its rule. Names in errors, in --help,
 * behind TAB and in the run configuration's table come from here.
 *
 * A line is S(ID, id, name, help): DP_SCHED_<ID> is its number, dp_schedule_<id> its rule. Numbers of those that workers can
 * follow are in messages, in journals and in what policies of a site were compiled with: a new one goes behind the last
 * one of DP_SCHEDULES_TRAINED, and none is ever taken out. Those that only the simulator knows have no number outside.
 *
 * Part of the interface of policies (policies/policy.h), which sites compile against: no other header is needed here.
 */
#ifndef DP_COMMON_SCHEDULE_LIST_H
#define DP_COMMON_SCHEDULE_LIST_H

#define DP_SCHEDULES_TRAINED(S)                        \
    S(1F1B, 1f1b, "1f1b", "one forward, one backward") \
    S(GPIPE, gpipe, "gpipe", "all forwards, then all backwards")

#define DP_SCHEDULES_SIMULATED(S)                                                   \
    S(INTERLEAVED, interleaved, "interleaved", "1f1b over several chunks a device") \
    S(ZB_H1, zb_h1, "zb-h1", "zero-bubble with the memory of 1f1b")

#define DP_SCHEDULES(S)     \
    DP_SCHEDULES_TRAINED(S) \
    DP_SCHEDULES_SIMULATED(S)

#define DP_SCHEDULE_KIND(ID, id, name, help) DP_SCHED_##ID,
#define DP_SCHEDULE_ONE(ID, id, name, help) +1
enum dp_schedule_kind { DP_SCHEDULES(DP_SCHEDULE_KIND) DP_N_SCHEDULES };
enum { DP_N_SCHEDULES_TRAINED = 0 DP_SCHEDULES_TRAINED(DP_SCHEDULE_ONE) };

/* The names as one text: of DP_SCHEDULES(DP_SCHEDULE_COMMA) all but the first two bytes are "1f1b, gpipe, ...", of
 * DP_SCHEDULES_TRAINED(DP_SCHEDULE_BAR) all but the first one "1f1b|gpipe", as the tables of options and keys want it. */
#define DP_SCHEDULE_COMMA(ID, id, name, help) ", " name
#define DP_SCHEDULE_BAR(ID, id, name, help) "|" name

#endif
