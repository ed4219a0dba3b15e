/* SPDX-License-Identifier: BSD-3-Clause */
/* What two workers send each other, byte by byte, in hexadecimal digits, a line for each field: with the header and the tag
 * that UCX is given, as transport_messages.c describes them. Written by a program that shares no code with the worker,
 * check sums and keyed checks included. test_peer_messages.c says what is sent; `zeros` follow. A dot is any digit: how large
 * a layer is in memory differs between builds.
 *
 * Workers of one run are one program, so a line may change with a release, never unnoticed.
 */
#ifndef DP_TESTS_UNIT_WORKER_PEER_MESSAGES_GOLDEN_H
#define DP_TESTS_UNIT_WORKER_PEER_MESSAGES_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

struct golden_sent {
    const char *name;
    uint64_t tag;
    const char *bytes; /* NULL: the caller's own, which are not copied */
    size_t zeros;
};

static const struct golden_sent golden_sent_by_0[] = {
    {"order", 0x3000000000010000,
     "314d504400000100" /* magic, from, to */
     "00000100000040006000000000000000" /* tag, bytes */
     "0100000000000000432ef91900000000" /* number, CRC-32C, zero */
     "8bf9a1a41883f62e" /* keyed check */
     "07000000000000001100000000000000" /* step, epoch */
     "0a00000000000000" /* flags, reason */
     "0500000000000000" /* migration */
     "00000000000000000000000000000000" /* each scheme: is it due, target */
     "00000000000000000000000000000000"
     "00000000000000000000000000000000"
     "000000000000d83fcd3b7f669ea00640", /* loss, norm of the gradient */
     0},
    {"sums of counters", 0x3000000000030000,
     "314d504400000100" /* magic, from, to */
     "00000300000040001000000000000000" /* tag, bytes */
     "02000000000000002a6bb43f00000000" /* number, CRC-32C, zero */
     "d974461285ce344e" /* keyed check */
     "110e0c0a08060402312e2c2a28262422", /* of both */
     0},
    {"joint verdict", 0x3000000000050000,
     "314d504400000100" /* magic, from, to */
     "00000500000040000804000000000000" /* tag, bytes */
     "0300000000000000487d60cd00000000" /* number, CRC-32C, zero */
     "9a4575261593a9ab" /* keyed check */
     "ffffffff09000000" /* result, code */
     "6c6179657220323a2064616d61676564", /* text */
     1008},
    {"note: verdict", 0x6000088000075003,
     "314d504400000100" /* magic, from, to */
     "03500700001170003001000000000000" /* tag, bytes */
     "0400000000000000fb78511600000000" /* number, CRC-32C, zero */
     "d2c2094da72b0f63" /* keyed check */
     "44504e54" /* magic */
     "0000000000000015" /* migration */
     "01" /* yes */
     "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f" /* digest */
     "0000", /* text */
     257},
    {"acceptance", 0x5000088000075a00,
     "314d504400000100" /* magic, from, to */
     "005a070000116000c000000000000000" /* tag, bytes */
     "0500000000000000d5d963f400000000" /* number, CRC-32C, zero */
     "0f12214d076bab40" /* keyed check */
     "44505348" /* magic */
     "0000000000000015" /* migration */
     "00000002" /* layer */
     "01" /* send it */
     "0000", /* text */
     173},
    {"stage message", 0x0000088000070003,
     "314d504400000100" /* magic, from, to */
     "03000700001110002823000000000000" /* tag, bytes */
     "06000000000000006515785d00000000" /* number, CRC-32C, zero */
     "eb611f3e6803a3a0", /* keyed check */
     0},
    {"stage message: payload", 0xa0a303683e1f61eb, NULL, 9000},
};

static const struct golden_sent golden_sent_by_1[] = {
    {"part of a step", 0x3008000000000000,
     "314d504401000000" /* magic, from, to */
     "00000000000040002000000000000000" /* tag, bytes */
     "0100000000000000acc8ab1300000000" /* number, CRC-32C, zero */
     "e9d2b46ebb5b7954" /* keyed check */
     "0100000000000000" /* requests */
     "0000000000001040" /* squares of its layer */
     "000000000000e03f000000000000d03f", /* losses */
     0},
    {"counters", 0x3008000000020000,
     "314d504401000000" /* magic, from, to */
     "00000200000040001000000000000000" /* tag, bytes */
     "0200000000000000c791cc1800000000" /* number, CRC-32C, zero */
     "3627fc4b55fa83a3" /* keyed check */
     "09070605040302011917161514131211", /* its own */
     0},
    {"verdict", 0x3008000000040000,
     "314d504401000000" /* magic, from, to */
     "00000400000040000804000000000000" /* tag, bytes */
     "0300000000000000487d60cd00000000" /* number, CRC-32C, zero */
     "a73e3d120e1beebc" /* keyed check */
     "ffffffff09000000" /* result, code */
     "6c6179657220323a2064616d61676564", /* text */
     1008},
    {"entry of a checkpoint", 0x3008000000060000,
     "314d504401000000" /* magic, from, to */
     "00000600000040002800000000000000" /* tag, bytes */
     "0400000000000000d425751500000000" /* number, CRC-32C, zero */
     "3a82c35561f951a4" /* keyed check */
     "2827262524232221" /* bytes */
     "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f", /* digest */
     0},
    {"note: ready", 0x6008088000075000,
     "314d504401000000" /* magic, from, to */
     "00500700001170003001000000000000" /* tag, bytes */
     "050000000000000058e0a4bc00000000" /* number, CRC-32C, zero */
     "85def6be176ca100" /* keyed check */
     "44504e54" /* magic */
     "0000000000000015" /* migration */
     "00" /* yes */
     "0000000000000000000000000000000000000000000000000000000000000000" /* digest */
     "00076e6f20726f6f6d", /* text */
     250},
    {"manifest", 0x5008088000075800,
     "314d504401000000" /* magic, from, to */
     "00580700001160004004000000000000" /* tag, bytes */
     "0600000000000000........00000000" /* number, CRC-32C, zero */
     "................" /* keyed check */
     "44505348" /* magic */
     "0000000000000015" /* migration */
     "00000002" /* layer */
     "0000000000000080" /* bytes */
     "................" /* bytes as a layer: as this build has them */
     "00000000" /* it was not copied before */
     "0000000000000000000000000000000000000000000000000000000000000000" /* digest of a copy: there is none */
     "0000012c" /* length of the head: the layer's header and a head for each tensor, of golden_tied_head */
     "44504c415945520102000000020000000300000001000000080706050403020118171615141312110100000000000000"
     "0400000000000000010000000000000001000000000000000200000000000000e31cec156c6e662e7765696768740000"
     "000000000000000000000000000000000000000004000000000000000100000000000000040000000000000004000000"
     "0000000000000000010000006c6e662e6269617300000000000000000000000000000000000000000000000004000000"
     "000000000100000000000000040000000000000004000000000000000000000001000000686561642e77656967687400"
     "000000000000000000000000000000000000000002000000000000000400000000000000080000000000000008000000"
     "000000000000000000000000",
     716},
    {"chunk", 0x5008088000075000,
     "314d504401000000" /* magic, from, to */
     "00500700001160008000000000000000" /* tag, bytes */
     "07000000000000006cd40c1d00000000" /* number, CRC-32C, zero */
     "3712b46fc9652b3e" /* keyed check */
     /* weights and moments of golden_tied_head */
     "000000000000803e0000003f0000403f0000003f0000403f0000803f0000a03f0000803e0000003f0000403f0000803f"
     "0000804100008241000084410000864100008441000086410000884100008a4100008241000084410000864100008841"
     "0000004200000142000002420000034200000442000005420000064200000742",
     0},
    {"end of a stream", 0x5008088000076fff,
     "314d504401000000" /* magic, from, to */
     "ff6f0700001160001400000000000000" /* tag, bytes */
     "08000000000000001c703cc100000000" /* number, CRC-32C, zero */
     "70b05680353e1200" /* keyed check */
     "44505348" /* magic */
     "0000000000000016" /* migration */
     "0000000000000000", /* chunks */
     0},
};

#endif
