/* SPDX-License-Identifier: BSD-3-Clause */
/* What every message of the protocol looks like, byte by byte, in the version that we speak: a struct whose fields all
 * differ, and its body in hexadecimal digits, a line for each field. Written from doc/messages.md by a program that
 * shares no code with common/message/msg.c, so that a mistake in the codec is none here.
 *
 * A line of this file changes only before the release that brings the version: what a release sends stays as it is
 * (common/message/msg.h, "Versions"; the bytes of older releases: messages_v1.h). A new message gets its struct, its bytes and
 * a row of the table at the end; test_msg_golden prints what it found instead.
 */
#ifndef DP_TESTS_UNIT_MESSAGES_GOLDEN_H
#define DP_TESTS_UNIT_MESSAGES_GOLDEN_H

#include <stddef.h>

#include "common/message/msg.h"

static const struct dp_msg_step_start golden_step_start = {
    .job_id = 0x01020301, .step_id = 0x01020302, .uid = 0x01020303, .gid = 0x01020304, .options_set = 1023,
    .mode = 3, .reference = 2, .min_gpus = 0x01020308, .max_slowdown = 12.5, .policy = "time", .node = "n1",
    .stall_end_s = 0x0102030c, .memory = 0x0102030d, .slices = 0x0102030e, .max_gpus = 0x0102030f,
    .copies = 1,
};
static const char golden_step_start_bytes[] =
    "01020301" /* job_id */
    "01020302" /* step_id */
    "01020303" /* uid */
    "01020304" /* gid */
    "000003ff" /* options_set */
    "03" /* mode */
    "02" /* reference */
    "01020308" /* min_gpus */
    "4029000000000000" /* max_slowdown */
    "000474696d65" /* policy */
    "00026e31" /* node */
    "0102030c" /* stall_end_s */
    "0102030d" /* memory */
    "0102030e" /* slices */
    "0102030f" /* max_gpus */
    "01"; /* copies */

static const struct dp_msg_step_end golden_step_end = {
    .job_id = 0x01020301, .step_id = 0x01020302,
};
static const char golden_step_end_bytes[] =
    "01020301" /* job_id */
    "01020302"; /* step_id */

static const struct dp_msg_ack golden_ack = {
    .verdict = 2, .text = "given back",
};
static const char golden_ack_bytes[] =
    "02" /* verdict */
    "000a676976656e206261636b"; /* text */

static const struct dp_msg_tasks golden_tasks = {
    .job_id = 0x01020301, .step_id = 0x01020302, .restarts = 0x01020303, .n_tasks = 0x01020304, .count = 2,
    .rank = {6, 7}, .pid = {0x01020341, 0x01020342},
};
static const char golden_tasks_bytes[] =
    "01020301" /* job_id */
    "01020302" /* step_id */
    "01020303" /* restarts */
    "01020304" /* n_tasks */
    "00000002" /* count */
    "0000000601020341" /* rank[0], pid[0] */
    "0000000701020342"; /* rank[1], pid[1] */

static const struct dp_msg_card golden_card = {
    .job_id = 0x01020301, .step_id = 0x01020302, .rank = 1, .n_workers = 2, .kind = 1, .patience_ms = 0x01020306,
    .options = "min-gpus=2", .key_len = 16, .card_len = 3, .key = (const uint8_t *)"0123456789abcdef",
    .card = (const uint8_t *)"xyz",
};
static const char golden_card_bytes[] =
    "01020301" /* job_id */
    "01020302" /* step_id */
    "00000001" /* rank */
    "00000002" /* n_workers */
    "01" /* kind */
    "01020306" /* patience_ms */
    "000a6d696e2d677075733d32" /* options */
    "0010" /* key_len */
    "0003" /* card_len */
    "30313233343536373839616263646566" /* key */
    "78797a"; /* card */

static const struct dp_msg_roster golden_roster = {
    .job_id = 0x01020301, .step_id = 0x01020302, .restarts = 0x01020303, .n_workers = 5, .first = 2, .count = 3,
    .cards_len = 9, .cards = (const uint8_t *)"\0\2ab\0\0\0\1c",
};
static const char golden_roster_bytes[] =
    "01020301" /* job_id */
    "01020302" /* step_id */
    "01020303" /* restarts */
    "00000005" /* n_workers */
    "00000002" /* first */
    "00000003" /* count */
    "00000009" /* cards_len */
    "000261620000000163"; /* cards */

static const struct dp_msg_wireup golden_wireup = {
    .job_id = 0x01020301, .step_id = 0x01020302, .restarts = 0x01020303, .state = 1, .speaker = 0x01020305,
    .text = "all are here", .key_len = 16, .key = (const uint8_t *)"0123456789abcdef", .n_workers = 0x01020308,
    .n_there = 0x01020309, .joins = 1,
};
static const char golden_wireup_bytes[] =
    "01020301" /* job_id */
    "01020302" /* step_id */
    "01020303" /* restarts */
    "01" /* state */
    "01020305" /* speaker */
    "000c616c6c206172652068657265" /* text */
    "0010" /* key_len */
    "01020308" /* n_workers */
    "01020309" /* n_there */
    "01" /* joins */
    "30313233343536373839616263646566"; /* key */

static const struct dp_msg_hello golden_hello = {
    .job_id = 0x01020301, .step_id = 0x01020302, .rank = 1, .n_workers = 3, .n_layers = 9,
    .epoch = 0x0102030405060706, .doubt = 0x0102030405060707, .step = 0x0102030405060708,
    .steps_total = 0x0102030405060709, .prune_begin = 0x010203040506070a, .prune_end = 0x010203040506070b,
    .final_sparsity = 0.9, .microbatches = 0x0102030d, .tokens_per_microbatch = 0x0102030e, .schedule = 1,
    .mem_limit_bytes = 0x0102030405060710, .stage_message_bytes = 0x0102030405060711, .device = "cpu",
    .checkpoint_dir = "/tmp/c", .options = "min-gpus=2", .regroups = 1, .n_there = 2, .joins = 1,
    .is_gone = 1, .incarnation = 0x01020312, .migration = 0x0102030405060713, .heard_epoch = 0x0102030405060714, .leader = 0x01020315,
    .blocks_differ = 1, .n_changes = 2, .is_fixed = 1, .stays = 1, .trainer = "mine 2",
    .cut = {0, 4, 4, 9}, .change = {{0x0102030405060717, 0.75, 1}, {0x0102030405060718, 4, 2}},
};
static const char golden_hello_bytes[] =
    "01020301" /* job_id */
    "01020302" /* step_id */
    "00000001" /* rank */
    "00000003" /* n_workers */
    "00000009" /* n_layers */
    "0102030405060706" /* epoch */
    "0102030405060707" /* doubt */
    "0102030405060708" /* step */
    "0102030405060709" /* steps_total */
    "010203040506070a" /* prune_begin */
    "010203040506070b" /* prune_end */
    "3feccccccccccccd" /* final_sparsity */
    "0102030d" /* microbatches */
    "0102030e" /* tokens_per_microbatch */
    "01" /* schedule */
    "0102030405060710" /* mem_limit_bytes */
    "0102030405060711" /* stage_message_bytes */
    "0003637075" /* device */
    "00062f746d702f63" /* checkpoint_dir */
    "00000000000000040000000400000009" /* cut */
    "000a6d696e2d677075733d32" /* options */
    "01" /* regroups */
    "00000002" /* n_there */
    "01" /* joins */
    "01" /* is_gone */
    "01020312" /* incarnation */
    "0102030405060713" /* migration */
    "0102030405060714" /* heard_epoch */
    "01020315" /* leader */
    "01" /* blocks_differ */
    "01" /* is_fixed */
    "01" /* stays */
    "00066d696e652032" /* trainer */
    "02" /* n_changes */
    "01" "0102030405060717" "3fe8000000000000" /* change: kind, step, value */
    "02" "0102030405060718" "4010000000000000"; /* change */

static const struct dp_msg_welcome golden_welcome = {
    .verdict = 0, .mode = 2, .report_ms = 0x01020303, .device_lock = "/run/dynpipe/cpu.lock", .text = "hello",
    .copies = 1,
};
static const char golden_welcome_bytes[] =
    "00" /* verdict */
    "02" /* mode */
    "01020303" /* report_ms */
    "00152f72756e2f64796e706970652f6370752e6c6f636b" /* device_lock */
    "000568656c6c6f" /* text */
    "01"; /* copies */

static const struct dp_msg_report golden_report = {
    .rank = 0x01020301, .epoch = 0x0102030405060702, .step = 0x0102030405060703, .window_steps = 0x01020304,
    .loss = 3.25, .grad_norm = 0.75, .step_ns = 0x0102030405060707, .busy_ns = 0x0102030405060708,
    .wait_ns = 0x0102030405060709, .optimizer_ns = 0x010203040506070a, .overhead_ns = 0x010203040506070b,
    .mem_bytes = 0x010203040506070c, .rss_bytes = 0x010203040506070d, .first_layer = 4, .n_layers = 2,
    .lost_ns = 0x0102030405060710, .ahead_ns = 0x0102030405060711, .held_ns = 0x0102030405060712,
    .need_bytes = 0x0102030405060713, .job_bytes = 0x0102030405060714,
    .copy_layers = 0x01020315, .copy_whole = 0x01020316, .copy_holder = 0x01020317, .copy_held = 0x01020318,
    .copy_bytes = 0x0102030405060719, .copy_step_bytes = 0x010203040506071a,
    .layer = {{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 0x0102030405060708}},
};
static const char golden_report_bytes[] =
    "01020301" /* rank */
    "0102030405060702" /* epoch */
    "0102030405060703" /* step */
    "01020304" /* window_steps */
    "400a000000000000" /* loss */
    "3fe8000000000000" /* grad_norm */
    "0102030405060707" /* step_ns */
    "0102030405060708" /* busy_ns */
    "0102030405060709" /* wait_ns */
    "010203040506070a" /* optimizer_ns */
    "010203040506070b" /* overhead_ns */
    "010203040506070c" /* mem_bytes */
    "010203040506070d" /* rss_bytes */
    "00000004" /* first_layer */
    "00000002" /* n_layers */
    "000000000000000100000000000000020000000000000003" /* layer[0]: fwd_ns, bwd_input_ns, bwd_weight_ns */
    "0000000000000004000000000000000500000000000000060000000000000007" /* state_bytes, act_bytes, params, nnz */
    "00000000000000080000000000000009000000000000000a" /* layer[1] */
    "000000000000000b000000000000000c000000000000000d0102030405060708"
    "0102030405060710" /* lost_ns */
    "0102030405060711" /* ahead_ns */
    "0102030405060712" /* held_ns */
    "0102030405060713" /* need_bytes */
    "0102030405060714" /* job_bytes */
    "01020315" /* copy_layers */
    "01020316" /* copy_whole */
    "01020317" /* copy_holder */
    "01020318" /* copy_held */
    "0102030405060719" /* copy_bytes */
    "010203040506071a"; /* copy_step_bytes */

static const struct dp_msg_prepare golden_prepare = {
    .incarnation = 0x01020301, .migration = 0x0102030405060702, .epoch = 0x0102030405060703, .n_workers = 3,
    .n_layers = 9, .cut = {0, 4, 4, 9}, .gone = {0, 1, 0}, .coming_bytes = 0x0102030405060704,
};
static const char golden_prepare_bytes[] =
    "01020301" /* incarnation */
    "0102030405060702" /* migration */
    "0102030405060703" /* epoch */
    "00000003" /* n_workers */
    "00000009" /* n_layers */
    "00000000000000040000000400000009" /* cut */
    "000100" /* gone */
    "0102030405060704"; /* coming_bytes */

static const struct dp_msg_regroup golden_regroup = {
    .incarnation = 0x01020301, .migration = 0x0102030405060702, .go = 1, .epoch = 0x0102030405060704, .n_workers = 3,
    .n_layers = 9, .text = "lost", .cut = {0, 4, 4, 9}, .gone = {0, 1, 0},
};
static const char golden_regroup_bytes[] =
    "01020301" /* incarnation */
    "0102030405060702" /* migration */
    "01" /* go */
    "0102030405060704" /* epoch */
    "00000003" /* n_workers */
    "00000009" /* n_layers */
    "00046c6f7374" /* text */
    "00000000000000040000000400000009" /* cut */
    "000100"; /* gone */

static const struct dp_msg_expect golden_expect = {
    .rank = 0x01020301, .step = 0x0102030405060702, .first_layer = 4, .n_layers = 2,
    .layer = {{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 0x0102030405060708}},
};
static const char golden_expect_bytes[] =
    "01020301" /* rank */
    "0102030405060702" /* step */
    "00000004" /* first_layer */
    "00000002" /* n_layers */
    "000000000000000100000000000000020000000000000003" /* layer[0]: fwd_ns, bwd_input_ns, bwd_weight_ns */
    "0000000000000004000000000000000500000000000000060000000000000007" /* state_bytes, act_bytes, params, nnz */
    "00000000000000080000000000000009000000000000000a" /* layer[1] */
    "000000000000000b000000000000000c000000000000000d0102030405060708";

static const struct dp_msg_proposal golden_proposal = {
    .incarnation = 0x01020301, .number = 0x0102030405060702, .now_ns = 3.25, .then_ns = 0.75, .n_workers = 3,
    .n_layers = 9, .cut = {0, 4, 4, 9}, .gone = {0, 1, 0},
};
static const char golden_proposal_bytes[] =
    "01020301" /* incarnation */
    "0102030405060702" /* number */
    "400a000000000000" /* now_ns */
    "3fe8000000000000" /* then_ns */
    "00000003" /* n_workers */
    "00000009" /* n_layers */
    "00000000000000040000000400000009" /* cut */
    "000100"; /* gone */

static const struct dp_msg_vote golden_vote = {
    .incarnation = 0x01020301, .migration = 0x0102030405060702, .rank = 0x01020303, .yes = 1,
    .boundary = 0x0102030405060705, .sent_bytes = 0x0102030405060706, .received_bytes = 0x0102030405060707,
    .digest = {0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7,
               0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7},
    .text = "no room",
};
static const char golden_vote_bytes[] =
    "01020301" /* incarnation */
    "0102030405060702" /* migration */
    "01020303" /* rank */
    "01" /* yes */
    "0102030405060705" /* boundary */
    "0102030405060706" /* sent_bytes */
    "0102030405060707" /* received_bytes */
    "a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7" /* digest */
    "00076e6f20726f6f6d"; /* text */

static const struct dp_msg_decision golden_decision = {
    .incarnation = 0x01020301, .migration = 0x0102030405060702, .commit = 1, .epoch = 0x0102030405060704,
    .text = "a vote is missing",
};
static const char golden_decision_bytes[] =
    "01020301" /* incarnation */
    "0102030405060702" /* migration */
    "01" /* commit */
    "0102030405060704" /* epoch */
    "00116120766f7465206973206d697373696e67"; /* text */

static const struct dp_msg_decision_ack golden_decision_ack = {
    .migration = 0x0102030405060701, .rank = 0x01020302, .epoch = 0x0102030405060703,
    .pause_ns = 0x0102030405060704, .transfer_ns = 0x0102030405060705, .copying_ns = 0x0102030405060706,
};
static const char golden_decision_ack_bytes[] =
    "0102030405060701" /* migration */
    "01020302" /* rank */
    "0102030405060703" /* epoch */
    "0102030405060704" /* pause_ns */
    "0102030405060705" /* transfer_ns */
    "0102030405060706"; /* copying_ns */

static const struct dp_msg_finish golden_finish = {
    .migration = 0x0102030405060701,
};
static const char golden_finish_bytes[] =
    "0102030405060701"; /* migration */

static const struct dp_msg_goodbye golden_goodbye = {
    .rank = 0x01020301, .how = 1, .step = 0x0102030405060703, .text = "bye", .loss = 2.5,
};
static const char golden_goodbye_bytes[] =
    "01020301" /* rank */
    "01" /* how */
    "0102030405060703" /* step */
    "0003627965" /* text */
    "4004000000000000"; /* loss */

static const struct dp_msg_save golden_save = {
    .stop = 0x01020301,
};
static const char golden_save_bytes[] =
    "01020301"; /* stop */

static const struct dp_msg_event golden_event = {
    .kind = 2, .step = 0x0102030405060702, .value = 1.75, .text = "0.9",
};
static const char golden_event_bytes[] =
    "02" /* kind */
    "0102030405060702" /* step */
    "3ffc000000000000" /* value */
    "0003302e39"; /* text */

static const struct dp_msg_ping golden_ping = {
    .number = 0x0102030405060701,
};
static const char golden_ping_bytes[] =
    "0102030405060701"; /* number */

static const struct dp_msg_pong golden_pong = {
    .rank = 0x01020301, .number = 0x0102030405060702,
};
static const char golden_pong_bytes[] =
    "01020301" /* rank */
    "0102030405060702"; /* number */

static const struct dp_msg_limit golden_limit = {
    .left_ms = 0x0102030405060701,
};
static const char golden_limit_bytes[] =
    "0102030405060701"; /* left_ms */

static const struct dp_msg_relay golden_relay = {
    .job_id = 0x01020301, .rank = 0x01020302, .pid = 0x01020303, .inner_type = 17, .inner_len = 8,
    .restarts = 0x01020306, .inner = (const uint8_t *)"\1\2\3\4\5\6\7\10",
};
static const char golden_relay_bytes[] =
    "01020301" /* job_id */
    "01020302" /* rank */
    "01020303" /* pid */
    "0011" /* inner_type */
    "00000008" /* inner_len */
    "0102030405060708" /* inner */
    "01020306"; /* restarts */

static const struct dp_msg_worker_lost golden_worker_lost = {
    .job_id = 0x01020301, .rank = 0x01020302, .pid = 0x01020303, .exited = 1,
};
static const char golden_worker_lost_bytes[] =
    "01020301" /* job_id */
    "01020302" /* rank */
    "01020303" /* pid */
    "01"; /* exited */

static const struct dp_msg_stop_slot golden_stop_slot = {
    .job_id = 0x01020301, .uid = 0x01020302, .incarnation = 0x01020303, .grace_ms = 0x01020304,
    .restarts = 0x01020305,
};
static const char golden_stop_slot_bytes[] =
    "01020301" /* job_id */
    "01020302" /* uid */
    "01020303" /* incarnation */
    "01020304" /* grace_ms */
    "01020305"; /* restarts */

static const struct dp_msg_slot_gone golden_slot_gone = {
    .job_id = 0x01020301, .incarnation = 0x01020302, .gone = 1, .took_ns = 0x0102030405060704,
    .text = "cgroup is empty",
};
static const char golden_slot_gone_bytes[] =
    "01020301" /* job_id */
    "01020302" /* incarnation */
    "01" /* gone */
    "0102030405060704" /* took_ns */
    "000f6367726f757020697320656d707479"; /* text */

static const struct dp_msg_join golden_join = {
    .job_id = 0x01020301,
};
static const char golden_join_bytes[] =
    "01020301"; /* job_id */

static const struct dp_msg_find_worker golden_find_worker = {
    .job_id = 0x01020301, .rank = 0x01020302, .pid = 0x01020303, .restarts = 0x01020304,
};
static const char golden_find_worker_bytes[] =
    "01020301" /* job_id */
    "01020302" /* rank */
    "01020303" /* pid */
    "01020304"; /* restarts */

static const struct dp_msg_slice golden_slice = {
    .job_id = 0x01020301, .slice = 0x01020302, .restarts = 0x01020303, .step_id = 0x01020304, .pid = 0x01020305, .has_ended = 1,
    .where = 1,
};
static const char golden_slice_bytes[] =
    "01020301" /* job_id */
    "01020302" /* slice */
    "01020303" /* restarts */
    "01020304" /* step_id */
    "01020305" /* pid */
    "01" /* has_ended */
    "01"; /* where */

static const struct dp_msg_slice_rank golden_slice_rank = {
    .job_id = 0x01020301, .slice = 0x01020302, .pid = 0x01020303, .state = 1, .step_id = 0x01020305, .rank = 0x01020306,
    .n_workers = 0x01020307, .text = "yes", .n_there = 0x01020308, .joins = 1,
    .home_job = 0x01020309, .home_restarts = 0x0102030a, .home_node = "n1",
};
static const char golden_slice_rank_bytes[] =
    "01020301" /* job_id */
    "01020302" /* slice */
    "01020303" /* pid */
    "01" /* state */
    "01020305" /* step_id */
    "01020306" /* rank */
    "01020307" /* n_workers */
    "0003796573" /* text */
    "01020308" /* n_there */
    "01" /* joins */
    "01020309" /* home_job */
    "0102030a" /* home_restarts */
    "00026e31"; /* home_node */

static const struct dp_msg_query golden_query = {
    .what = 2, .job_id = 0x01020302,
};
static const char golden_query_bytes[] =
    "02" /* what */
    "01020302"; /* job_id */

static const struct dp_msg_answer golden_answer = {
    .verdict = 1, .last = 1, .text = "not yours", .json_len = 2, .json = "{}",
};
static const char golden_answer_bytes[] =
    "01" /* verdict */
    "01" /* last */
    "00096e6f7420796f757273" /* text */
    "00000002" /* json_len */
    "7b7d"; /* json */

static const struct dp_msg_command golden_command = {
    .verb = 2, .job_id = 0x01020302, .argument = "e1:0-4,4-9",
};
static const char golden_command_bytes[] =
    "02" /* verb */
    "01020302" /* job_id */
    "000a65313a302d342c342d39"; /* argument */

static const struct dp_msg_check golden_check = {
    .job_id = 0x01020301, .target = "n2",
};
static const char golden_check_bytes[] =
    "01020301" /* job_id */
    "00026e32"; /* target */

static const struct dp_msg_challenge golden_challenge = {
    .nonce = {0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0,
               0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0},
    .node = "n1",
};
static const char golden_challenge_bytes[] =
    "a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0" /* nonce */
    "00026e31"; /* node */

static const struct dp_msg_auth golden_auth = {
    .node = "n2", .credential = "MUNGE:AwQFAAA=:",
};
static const char golden_auth_bytes[] =
    "00026e32" /* node */
    "000f4d554e47453a417751464141413d3a"; /* credential */

static const struct dp_msg_auth_ok golden_auth_ok = {
    .proof = {0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0,
               0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0},
};
static const char golden_auth_ok_bytes[] =
    "a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0"; /* proof */

struct golden {
    const void *message;
    const char *bytes;
    size_t plain; /* bytes of the struct before what it borrows, which no two decoders have at one address */
};

#define GOLDEN(name) {&golden_##name, golden_##name##_bytes, sizeof golden_##name}
#define GOLDEN_BORROWS(name, first) {&golden_##name, golden_##name##_bytes, offsetof(struct dp_msg_##name, first)}

/* By the number that stands in the frame's header. */
static const struct golden golden[] = {
    [1] = GOLDEN(step_start),
    [2] = GOLDEN(step_end),
    [3] = GOLDEN(ack),
    [4] = GOLDEN(tasks),
    [10] = GOLDEN(hello),
    [11] = GOLDEN(welcome),
    [12] = GOLDEN(report),
    [13] = GOLDEN(prepare),
    [14] = GOLDEN(vote),
    [15] = GOLDEN(decision),
    [16] = GOLDEN(decision_ack),
    [17] = GOLDEN(finish),
    [18] = GOLDEN(goodbye),
    [19] = GOLDEN(save),
    [20] = GOLDEN(event),
    [21] = GOLDEN(ping),
    [22] = GOLDEN(pong),
    [23] = GOLDEN(limit),
    [24] = GOLDEN_BORROWS(card, key),
    [25] = GOLDEN_BORROWS(roster, cards),
    [26] = GOLDEN_BORROWS(wireup, key),
    [27] = GOLDEN(regroup),
    [28] = GOLDEN(expect),
    [29] = GOLDEN(proposal),
    [30] = GOLDEN_BORROWS(relay, inner),
    [31] = GOLDEN(worker_lost),
    [32] = GOLDEN(stop_slot),
    [33] = GOLDEN(slot_gone),
    [34] = GOLDEN(join),
    [35] = GOLDEN(find_worker),
    [36] = GOLDEN(slice),
    [37] = GOLDEN(slice_rank),
    [40] = GOLDEN(query),
    [41] = GOLDEN_BORROWS(answer, json),
    [42] = GOLDEN(command),
    [43] = GOLDEN(check),
    [50] = GOLDEN(challenge),
    [51] = GOLDEN(auth),
    [52] = GOLDEN(auth_ok),
};
#define N_GOLDEN (sizeof golden / sizeof golden[0])

#endif
