/* SPDX-License-Identifier: BSD-3-Clause */
/* What every record of the journals looks like, byte by byte, in hexadecimal digits, a line for each field: payloads of
 * the coordinator's, and the whole file of a node's journal with one record of each kind, heads and checksums included.
 * Written by a program that shares no code with the daemon.
 *
 * A daemon reads what the one before it wrote, so a line changes only with a new type of record. Such a record gets its
 * bytes here and a row in test_records.c; journals of older releases: journals_v1.h.
 */
#ifndef DP_TESTS_UNIT_RECORDS_GOLDEN_H
#define DP_TESTS_UNIT_RECORDS_GOLDEN_H

static const char golden_nodes[] =
    "00000004" /* n_slots */
    "00000000" /* batch_slot */
    "00000000" /* first */
    "00000004" /* number of names */
    "00026e3100026e3200026e3300026e34"; /* names */

static const char golden_slices[] =
    "00000004" /* n_slots */
    "01020341010203420102034301020344" /* job of each */
    "0506050705080509"; /* how often each was requeued */

static const char golden_workers[] =
    "00000003" /* n_workers */
    "000001020311" /* slot, pid */
    "000101020312" /* slot, pid */
    "000301020313"; /* slot, pid */

static const char golden_start[] =
    "01020305" /* incarnation */
    "00000007" /* job_id */
    "00000002" /* restart_count */
    "0102030405060701" /* t0_ns */
    "0000000000000003" /* newest migration */
    "01020309" /* step_id */
    "01" /* has_layout */
    "0000000000000011" /* epoch */
    "00000003" /* n_workers */
    "00000008" /* n_layers */
    "000300050008" /* cuts */
    "000000"; /* gone */

static const char golden_reference[] =
    "0102030405060702" /* reference_ns */
    "0102030405060703" /* reference_step_ns */
    "01" /* is_reference_final */
    "00000003" /* n_workers */
    "000003e8000001f4000008ca"; /* speeds in thousandths */

static const char golden_saving[] =
    "0102030405060704" /* step */
    "0102030405060705" /* since_ns */
    "0102030405060706" /* steps */
    "0102030405060707" /* unknown_steps */
    "3ff80000000000004004000000000000400c000000000000" /* run, fixed, balanced: s */
    "4012000000000000" /* dense_s */
    "4016000000000000" /* pruned_s */
    "3fe8000000000000" /* miss */
    "0102030a"; /* n_miss */

static const char golden_promise[] =
    "0102030405060708" /* now */
    "01" /* is_stopped */
    "0102030b" /* n_missed */
    "0102030405060709" /* until_ns */
    "0014612070726f6d69736520776173206d6973736564"; /* why */

static const char golden_balance[] =
    "0102030c" /* n */
    "010203040506070a" /* until_ns */
    "010203040506070b" /* quiet_ns */
    "010100" /* is_corrected, is_balancing, is_counted */
    "010203040506070c" /* weights_left */
    "00000003" /* n_workers of the layout before */
    "000200060008" /* its cuts */
    "01" /* promise.is_corrected */
    "0000000403e805dc07d009c4" /* slots, thousandths */
    "010203040506070d" /* link_ns */
    "010203040506070e" /* rest_ns */
    "3fe0000000000000" /* scale */
    "000000040bb80dac0fa01194" /* of the promise: slots */
    "010203040506070f" /* link_ns */
    "0102030405060710" /* rest_ns */
    "3fd0000000000000"; /* scale */

static const char golden_links[] =
    "000000003b9aca00" /* step_ns */
    "00000002" /* n */
    "0000000201020321" /* a, b, ns */
    "0001000301020322"; /* a, b, ns */

static const char golden_memory[] =
    "01020333" /* start_mb */
    "01020332" /* given_mb */
    "01020331" /* target_mb */
    "0102030d" /* n_given */
    "0102030405060711" /* given_ns */
    "0102030405060712"; /* given_step */

static const char golden_seat[] =
    "00000001" /* rank */
    "01020345" /* slice */
    "00000102" /* restarts */
    "01020346" /* pid */
    "0102030405060751" /* since_ns */
    "00026e35"; /* node */

static const char golden_wanted[] =
    "00000003"; /* slices */

static const char golden_grow[] =
    "03" /* state: withdrawn */
    "02" /* why: loads */
    "00000003" /* slices that are wanted */
    "00000002" /* held */
    "00000004" /* asked */
    "0102030405060761" /* asked_ns */
    "0102030405060762" /* ended_ns */
    "0102030405060763" /* since_s */
    "01020361" /* n */
    "01020362" /* n_vain */
    "01020363" /* n_back */
    "01020364" /* back_of */
    "0102030405060764" /* next_ns */
    "0102030405060765" /* given_load */
    "00116c61796572732061726520646561726572" /* reason */
    "000c6e6f7420616c6c2063616d65"; /* text */

static const char golden_past[] =
    "0102030405060752" /* from_ns */
    "0102030405060753"; /* freed_ns */

static const char golden_handover[] =
    "00000002" /* number */
    "0000000000000002" /* id */
    "0000000000000010" /* epoch */
    "0102030405060713" /* boundary */
    "0102030405060714" /* started_ns */
    "0102030405060715" /* decided_ns */
    "0102030405060716" /* done_ns */
    "01" /* is_committed */
    "0102030e" /* moved_layers */
    "0102030f" /* n_leavers */
    "0102030405060717" /* moved_bytes */
    "0102030405060718" /* pause_max_ns */
    "0102030405060719" /* pause_median_ns */
    "010203040506071a" /* transfer_max_ns */
    "000b302d327c332d347c352d37" /* layout */
    "000c6c65737320746f2077616974" /* reason */
    "010203040506072e"; /* copying_max_ns */

static const char golden_intent[] =
    "0000000000000004" /* id */
    "010203040506071b" /* started_ns */
    "0000000000000012" /* epoch */
    "00000003" /* n_workers */
    "00000008" /* n_layers */
    "000400080008" /* cuts */
    "000001" /* gone */
    "01020310" /* moved_layers */
    "010203040506071c" /* moved_bytes */
    "000c74776f20736c6f747320646f"; /* reason */

static const char golden_abort[] =
    "0000000000000004" /* id */
    "010203040506071d" /* now */
    "0013776f726b657220313a206e6f206d656d6f7279"; /* why */

static const char golden_commit[] =
    "0000000000000004" /* id */
    "010203040506071e" /* now */
    "0000000000000012" /* epoch */
    "010203040506071f"; /* boundary */

static const char golden_regrouped[] =
    "0000000000000005" /* id */
    "010203040506072c" /* now */
    "0000000000000013" /* epoch */
    "00000003" /* n_workers */
    "00000008" /* n_layers */
    "000300080008" /* cuts */
    "000001" /* gone */
    "01020311" /* moved_layers */
    "010203040506072d" /* moved_bytes */
    "000d776f726b657220312064696564"; /* reason */

static const char golden_done[] =
    "0000000000000004" /* id */
    "0102030405060720" /* done_ns */
    "0102030405060721" /* pause_max_ns */
    "0102030405060722" /* pause_median_ns */
    "0102030405060723" /* transfer_max_ns */
    "010203040506072f"; /* copying_max_ns */

static const char golden_drain[] =
    "00000003" /* slot */
    "0102030405060724" /* now */
    "0000000000000000" /* nothing */
    "0000"; /* text */

static const char golden_held[] =
    "00000003" /* slot */
    "0102030405060725" /* now */
    "0000000000000000" /* nothing */
    "001370696420373720646f6573206e6f7420656e64"; /* why */

static const char golden_gone[] =
    "00000003" /* slot */
    "0102030405060726" /* now */
    "0102030405060727" /* took_ns */
    "0013746865206367726f757020697320656d707479"; /* proof */

static const char golden_relintent[] =
    "0102030405060728" /* now */
    "00000002" /* number of slots */
    "00010003"; /* slots */

static const char golden_released[] =
    "00000003" /* slot */
    "0102030405060729" /* freed_ns */
    "010203040506072a" /* now */
    "000972656164206261636b"; /* text */

static const char golden_counts[] =
    "0000000000000004" /* last_commit_id */
    "01020341"; /* shrinks_used */

static const char golden_end[] =
    "010203040506072b" /* now */
    "000e746865207374657020656e646564"; /* why */

static const char golden_node_journal[] =
    "44504a524e4c310a" /* DPJRNL1, line feed */
    "0000003d" /* len */
    "60e2c3e2" /* crc32c */
    "000000000000000101" /* seq, type */
    "01020301010203020102030301020304000003ff0302010203084029000000000000000474696d6500026e310102030c" /* ADOPT: a STEP_START */
    "0102030d0102030e0102030f01"
    "0000000c" /* len */
    "e013ab8a" /* crc32c */
    "000000000000000202" /* seq, type */
    "010203010102032a0102032b" /* FENCE: job, restart count, incarnation */
    "00000004" /* len */
    "a7352801" /* crc32c */
    "000000000000000303" /* seq, type */
    "01020301"; /* END: job */

#endif
