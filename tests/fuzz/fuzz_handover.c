/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole run under faults that the input chooses: a coordinator, its journal, a model of the daemons of the other
 * nodes (fuzz_daemons.c has real ones, and a tenth of the speed),
 * four workers and a slurmctld (tests/unit/daemon/coord_world.h). Its bytes decide what is lost, repeated, late, refused,
 * killed, full or forgotten, and when. With the fifth bit set its slots are slices. With the first bit set the workers are
 * hostile, too: messages of theirs
 * are changed on the way and made up. Then layers may be lost, which are theirs, but no node is given back on
 * which something of the run lives, and nothing breaks.
 *
 * How far the inputs got is told at the end: a target that never reaches a committed hand-over and a release
 * fails.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"
#include "tests/unit/daemon/coord_world.h"

const char fuzz_name[] = "fuzz_handover";

#define TICK_S 0.2
#define TICKS 300
#define ENOUGH 500 /* inputs after which something must have been reached */

static struct {
    uint64_t inputs, commits, aborts, releases, crashes, doubts, changed, made_up;
} reached;

static void tell(void)
{
    fprintf(stderr,
            "# fuzz_handover: %llu inputs reached %llu committed hand-overs, %llu aborted ones, %llu releases, "
            "%llu crashes of a coordinator, %llu records in doubt, %llu changed and %llu made-up messages\n",
            (unsigned long long)reached.inputs, (unsigned long long)reached.commits,
            (unsigned long long)reached.aborts, (unsigned long long)reached.releases,
            (unsigned long long)reached.crashes, (unsigned long long)reached.doubts,
            (unsigned long long)reached.changed, (unsigned long long)reached.made_up);
    if (reached.inputs >= ENOUGH && !(reached.commits && reached.aborts && reached.releases && reached.crashes))
        fuzz_die("a run that is fuzzed never gets anywhere");
}

/* Up to 4 bytes of a message that is under way from or to a worker. */
static void change_message(struct world *w)
{
    const size_t n = sizeof w->message / sizeof w->message[0];
    size_t from = world_draw(w, (uint32_t)n);

    for (size_t i = 0; i < n; i++) {
        struct world_message *m = &w->message[(from + i) % n];

        if (!m->is_used || !m->bytes || m->to_worker)
            continue;
        for (uint32_t k = 1 + world_draw(w, 4); k > 0; k--)
            m->body[world_draw(w, m->bytes)] ^= (uint8_t)(1 + world_draw(w, 255));
        reached.changed++;
        return;
    }
}

/* What a worker's process may say, with numbers that it chooses; small ones are likely to mean something. */
static uint64_t number(struct world *w)
{
    static const uint64_t odd[] = {0, 1, UINT32_MAX, INT64_MAX, UINT64_MAX};

    return world_draw(w, 4) ? world_draw(w, 16) : odd[world_draw(w, 5)];
}

static void make_up_vote(struct world *w, uint32_t rank)
{
    struct dp_msg_vote v = {.incarnation = (uint32_t)number(w), .migration = number(w), .rank = rank,
                            .yes = (uint8_t)world_draw(w, 2), .boundary = number(w)};

    if (world_draw(w, 2))
        v.incarnation = dp_coord_incarnation(w->c);
    dp_coord_vote(w->c, w->now_ns, &v);
}

static void make_up_message(struct world *w)
{
    uint32_t rank = world_draw(w, 8) ? world_draw(w, W_MAX) : (uint32_t)number(w);
    struct dp_msg_decision_ack ack = {number(w), rank, number(w), number(w), number(w), number(w)};
    struct dp_msg_goodbye bye = {.rank = rank, .how = (uint8_t)world_draw(w, 4), .step = number(w)};
    struct dp_msg_worker_lost lost = {7, rank, 100 + world_draw(w, W_MAX), (uint8_t)world_draw(w, 2)};
    struct dp_msg_event event = {.kind = (uint8_t)world_draw(w, 8), .step = number(w), .value = (double)number(w)};
    struct dp_msg_pong pong = {.rank = rank, .number = number(w)};

    reached.made_up++;
    switch (world_draw(w, 6)) {
    case 0:
        make_up_vote(w, rank);
        break;
    case 1:
        dp_coord_decision_ack(w->c, w->now_ns, &ack);
        break;
    case 2:
        dp_coord_goodbye(w->c, w->now_ns, &bye);
        break;
    case 3:
        dp_coord_worker_lost(w->c, w->now_ns, &lost);
        break;
    case 4:
        dp_coord_event(w->c, w->now_ns, rank, &event);
        break;
    default:
        dp_coord_pong(w->c, w->now_ns, &pong);
    }
}

static void be_hostile(struct world *w)
{
    if (!w->c || w->has_crashed)
        return;
    switch (world_draw(w, 8)) {
    case 0:
        change_message(w);
        break;
    case 1:
        make_up_message(w);
        break;
    default:
        break;
    }
}

static void ask_everything(const struct world *w)
{
    for (enum dp_query q = DP_QUERY_STATUS; w->c && q <= DP_QUERY_REPORT; q++)
        json_decref(dp_coord_json(w->c, w->now_ns, q));
}

static void set_faults(struct world *w, const uint8_t *data)
{
    w->is_hostile = data[0] & 1;
    w->job.shrinks_allowed = data[0] & 2 ? 50 : 1;
    w->limits.pack.min_devices = 1 + (data[0] >> 2 & 3) % 3;
    if (data[0] & 16)
        world_slice(w);
    w->loss_percent = data[1] % 32;
    w->fault_percent = data[2] % 8;
    w->crash_percent = data[3] % 12;
    w->full_percent = data[4] % 24;
    w->no_percent = data[5] % 12;
    w->renew_percent = data[6] % 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct world w;

    if (bytes < 8)
        return 0;
    if (!reached.inputs++)
        atexit(tell);
    world_init(&w, data[7]);
    set_faults(&w, data);
    w.input = data + 8;
    w.input_end = data + bytes;
    world_start(&w);
    for (int i = 0; i < TICKS && !w.broken[0]; i++) {
        if (w.is_hostile)
            be_hostile(&w);
        world_run(&w, TICK_S, true);
    }
    ask_everything(&w);
    reached.commits += w.n_commits;
    reached.aborts += w.n_aborts;
    reached.releases += w.n_released;
    reached.crashes += w.n_crashes;
    reached.doubts += w.n_doubts;
    if (w.broken[0])
        fuzz_die(w.broken);
    world_release(&w);
    return 0;
}

/* Runs without a fault, with some, and with many; the bytes behind decide, and when they end chance does. */
void fuzz_make_seeds(void)
{
    static const uint8_t faults[][8] = {
        {0, 0, 0, 0, 0, 0, 0, 1},   {2, 0, 0, 0, 0, 0, 0, 2},   {0, 20, 3, 8, 0, 5, 0, 3},  {2, 5, 4, 8, 15, 0, 10, 4},
        {4, 5, 2, 0, 15, 5, 5, 5},  {1, 0, 0, 0, 0, 0, 0, 6},   {3, 10, 2, 4, 5, 2, 5, 7},  {5, 0, 0, 0, 10, 0, 0, 8},
        {16, 0, 0, 0, 0, 0, 0, 9},  {20, 20, 3, 8, 0, 5, 12, 3}, {17, 10, 2, 4, 5, 2, 5, 7},
    };

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t seed[8 + 64];

        memcpy(seed, faults[i], 8);
        for (size_t k = 8; k < sizeof seed; k++)
            seed[k] = (uint8_t)(k * 37 + i * 101);
        fuzz_seed(seed, 8);
        fuzz_seed(seed, sizeof seed);
    }
}
