/* SPDX-License-Identifier: BSD-3-Clause */
/* Journals: the bytes themselves, and what a node's daemon and a coordinator make of them. An input is a
 * journal, read from memory as opening one reads it; its checksums are mended for a second reading. A
 * coordinator that accepts a journal must be able to begin, to answer, to print itself, and to write its
 * journal anew so that it is accepted again. (Files: unit/common/file/test_journal.) */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/file/journal_record.h"
#include "common/wire.h"
#include "daemon/run/state/node_journal.h"
#include "tests/unit/daemon/coord_world.h"

const char fuzz_name[] = "fuzz_journal";

#define HEAD DP_JOURNAL_HEAD_BYTES
#define MAGIC DP_JOURNAL_MAGIC

static struct world world;

static enum dp_journal_fate swallow(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                    struct dp_err *err)
{
    (void)arg, (void)type, (void)payload, (void)bytes, (void)err;
    return DP_JOURNAL_DURABLE;
}

static int no_doubt(void *arg, struct dp_err *err)
{
    (void)arg, (void)err;
    return 0;
}

static int no_room_needed(void *arg, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)bytes, (void)err;
    return 0;
}

static void no_worker(void *arg, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes)
{
    (void)arg, (void)type, (void)body, (void)bytes;
    if (rank >= DP_MAX_WORKERS)
        fuzz_die("a message for a worker that cannot be");
}

static void no_slot(void *arg, uint32_t slot, uint32_t grace_ms)
{
    (void)arg, (void)grace_ms;
    if (slot >= world.job.n_nodes)
        fuzz_die("a slot is stopped that the job does not have");
}

static void no_requeue(void *arg, bool may_requeue)
{
    (void)arg;
    (void)may_requeue;
}

static void no_shrink(void *arg, const uint8_t keep[DP_MAX_SLOTS])
{
    (void)arg;
    if (!keep[0])
        fuzz_die("the batch host is given back");
}

static void no_read(void *arg)
{
    (void)arg;
}

static int no_child(void *arg, double deadline_s, struct dp_err *err)
{
    (void)arg;
    (void)deadline_s;
    return dp_err_set(err, DP_ENOMEM, "no child");
}

static const struct dp_coord_ops ops = {
    .journal = swallow,
    .settle = no_doubt,
    .reserve = no_room_needed,
    .to_worker = no_worker,
    .stop_slot = no_slot,
    .shrink = no_shrink,
    .requeue = no_requeue,
    .read_job = no_read,
    .plan = no_child,
};

static int replay(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_coord_replay(arg, (enum dp_record)type, payload, bytes, err);
}

static int replay_node(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_node_journal_replay(arg, type, payload, bytes, err);
}

static enum dp_journal_fate put_anew(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                     struct dp_err *err)
{
    if (dp_coord_replay(arg, type, payload, bytes, err) < 0)
        fuzz_die("a journal written anew is not accepted");
    return DP_JOURNAL_DURABLE;
}

static void write_anew(const struct dp_coord *c)
{
    struct dp_coord *again = dp_coord_create(&world.job, &world.limits, &ops, NULL, NULL);

    if (!again || dp_coord_snapshot(c, put_anew, again, NULL) < 0)
        fuzz_die("a journal cannot be written anew");
    dp_coord_destroy(again);
}

static void go_on(struct dp_coord *c)
{
    struct dp_err err;

    if (dp_coord_begin(c, 1000, &err) < 0)
        return;
    for (uint64_t now = 1; now < 40; now += 3)
        dp_coord_tick(c, now * 1000000000u);
    for (enum dp_query q = DP_QUERY_STATUS; q <= DP_QUERY_REPORT; q++)
        json_decref(dp_coord_json(c, 41000000000u, q));
    write_anew(c);
}

/* Where the records end; 0: refused, or there are none. */
static size_t end_of(const uint8_t *data, size_t bytes)
{
    struct dp_journal_extent good;

    if (dp_journal_scan(data, bytes, &good, NULL) < 0)
        return 0;
    if (good.end > bytes || (good.seq == 0) != (good.end == DP_JOURNAL_MAGIC_BYTES))
        fuzz_die("the end of the records is not where they end");
    return good.seq ? good.end : 0;
}

static void read_records(const uint8_t *data, size_t end)
{
    struct dp_coord *c = dp_coord_create(&world.job, &world.limits, &ops, NULL, NULL);
    struct dp_node_journal *log = dp_node_journal_create(NULL);

    if (!c || !log)
        fuzz_die("out of memory");
    if (dp_journal_replay(data, end, replay, c, NULL) == 0)
        go_on(c);
    (void)dp_journal_replay(data, end, replay_node, log, NULL);
    dp_coord_destroy(c);
    dp_node_journal_destroy(log);
}

/* Checksums and numbers of all records that lie within the input. */
static void mend(uint8_t *data, size_t bytes)
{
    uint8_t copy[DP_JOURNAL_PAYLOAD_MAX];
    uint64_t seq = 1;

    for (size_t at = DP_JOURNAL_MAGIC_BYTES; at + HEAD <= bytes; seq++) {
        struct dp_reader r;
        uint32_t len;

        dp_reader_init(&r, data + at, 4);
        len = dp_rd_u32(&r);
        if (len > bytes - at - HEAD || len > sizeof copy)
            return;
        memcpy(copy, data + at + HEAD, len);
        at += dp_journal_record_encode(data + at, seq, data[at + HEAD - 1], copy, len);
    }
}

/* As it is it is only searched for records: a good one is also good when the numbers behind it are mended. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    size_t end;

    if (!world.job.job_id)
        world_init(&world, 1);
    (void)end_of(data, bytes);
    if (!copy)
        fuzz_die("out of memory");
    memcpy(copy, data, bytes);
    mend(copy, bytes);
    end = end_of(copy, bytes);
    if (end)
        read_records(copy, end);
    free(copy);
    return 0;
}

/* One record behind what is in out; mend() numbers it. returns the new length. */
static size_t put_record(uint8_t *out, size_t at, uint8_t type, const void *payload, size_t bytes)
{
    return at + dp_journal_record_encode(out + at, 0, type, payload, bytes);
}

static void seed_records(uint8_t *out, size_t bytes)
{
    mend(out, bytes);
    fuzz_seed(out, bytes);
}

static void seed_snapshot(const struct world *w, uint8_t *out)
{
    uint32_t n_records = 0;
    struct world_record *anew = world_snapshot(w->c, &n_records);
    size_t n = strlen(MAGIC);

    for (uint32_t i = 0; anew && i < n_records; i++)
        n = put_record(out, n, (uint8_t)anew[i].type, anew[i].payload, anew[i].bytes);
    free(anew);
    seed_records(out, n);
}

static void seed_node_log(uint8_t *out)
{
    const struct dp_msg_step_start m = {.job_id = 7, .step_id = 0, .uid = 1000, .mode = 3, .policy = "time", .node = "n0"};
    uint8_t body[1024];
    struct dp_writer w;
    size_t n = strlen(MAGIC);

    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, &m);
    n = put_record(out, n, 1, body, dp_writer_used(&w));
    dp_writer_init(&w, body, sizeof body);
    dp_wr_u32(&w, 7);
    dp_wr_u32(&w, 0);
    dp_wr_u32(&w, 1);
    n = put_record(out, n, 2, body, 12);
    n = put_record(out, n, 3, body, 4);
    seed_records(out, n);
}

/* The journals of runs that handed over, released, crashed and went on. */
void fuzz_make_seeds(void)
{
    static uint8_t out[400 * (HEAD + sizeof world.record[0].payload) + 16];

    memcpy(out, MAGIC, strlen(MAGIC));
    for (uint64_t seed = 1; seed <= 6; seed++) {
        size_t n = strlen(MAGIC);

        world_init(&world, seed);
        world.no_percent = seed % 2 ? 10 : 0;
        world_start(&world);
        world_run(&world, seed * 12.0, seed > 3);
        for (uint32_t i = 0; i < world.n_records; i++) {
            n = put_record(out, n, (uint8_t)world.record[i].type, world.record[i].payload, world.record[i].bytes);
            if (i == 4)
                seed_records(out, n);
        }
        seed_records(out, n);
        if (world.c)
            seed_snapshot(&world, out);
        world_release(&world);
    }
    seed_node_log(out);
    world_init(&world, 1);
}
