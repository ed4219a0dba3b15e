/* Journals: the file itself, and what a node's daemon and a coordinator read in it. An input is a
 * journal; its checksums are mended for a second reading. A coordinator that accepts a journal must be
 * able to begin, to answer and to print itself. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/journal.h"
#include "common/wire.h"
#include "daemon/node_log.h"
#include "tests/unit/coord_world.h"

const char fuzz_name[] = "fuzz_journal";

#define HEAD 17u /* len, crc, seq, type: common/journal.c */
#define MAGIC "DPJRNL1\n"

static struct world world;

static int swallow(void *arg, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)type, (void)payload, (void)bytes, (void)err;
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

static int replay(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_coord_replay(arg, (enum dp_record)type, payload, bytes, err);
}

static void go_on(struct dp_coord *c)
{
    struct dp_err err;

    if (dp_coord_begin(c, 1000, &err) < 0)
        return;
    for (uint64_t now = 1; now < 40; now++)
        dp_coord_tick(c, now * 1000000000u);
    for (enum dp_query q = DP_QUERY_STATUS; q <= DP_QUERY_REPORT; q++)
        json_decref(dp_coord_json(c, 41000000000u, q));
}

static void read_journal(const uint8_t *data, size_t bytes)
{
    static const struct dp_coord_ops ops = {swallow, no_worker, no_slot, no_shrink, no_read, no_child};
    struct dp_coord *c = dp_coord_create(&world.job, &world.limits, &ops, NULL, NULL);
    struct dp_journal *j = dp_journal_open(fuzz_file(data, bytes), replay, c, NULL);

    if (j)
        go_on(c);
    dp_journal_destroy(j);
    dp_coord_destroy(c);
    dp_node_log_destroy(dp_node_log_open(fuzz_file(data, bytes), NULL));
}

/* Checksums and numbers of all records that lie within the input. */
static void mend(uint8_t *data, size_t bytes)
{
    uint64_t seq = 1;

    for (size_t at = strlen(MAGIC); at + HEAD <= bytes; seq++) {
        uint8_t head[13];
        struct dp_reader r;
        struct dp_writer w;
        uint32_t len;

        dp_reader_init(&r, data + at, 4);
        len = dp_rd_u32(&r);
        if (len > bytes - at - HEAD)
            return;
        dp_writer_init(&w, data + at + 8, 8);
        dp_wr_u64(&w, seq);
        memcpy(head, data + at, 4);
        memcpy(head + 4, data + at + 8, 9);
        dp_writer_init(&w, data + at + 4, 4);
        dp_wr_u32(&w, dp_crc32c(dp_crc32c(0, head, sizeof head), data + at + HEAD, len));
        at += HEAD + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);

    if (!world.job.job_id)
        world_init(&world, 1);
    read_journal(data, bytes);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    mend(copy, bytes);
    read_journal(copy, bytes);
    free(copy);
    return 0;
}

/* One record behind what is in out. returns the new length. */
static size_t put_record(uint8_t *out, size_t at, uint8_t type, const void *payload, size_t bytes)
{
    struct dp_writer w;

    dp_writer_init(&w, out + at, HEAD + bytes);
    dp_wr_u32(&w, (uint32_t)bytes);
    dp_wr_u32(&w, 0);
    dp_wr_u64(&w, 0);
    dp_wr_u8(&w, type);
    dp_wr_bytes(&w, payload, bytes);
    return at + HEAD + bytes;
}

static void seed_records(uint8_t *out, size_t bytes)
{
    mend(out, bytes);
    fuzz_seed(out, bytes);
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
        world_start(&world);
        world_run(&world, seed * 12.0, seed > 3);
        for (uint32_t i = 0; i < world.n_records; i++) {
            n = put_record(out, n, (uint8_t)world.record[i].type, world.record[i].payload, world.record[i].bytes);
            if (i == 4)
                seed_records(out, n);
        }
        seed_records(out, n);
        world_release(&world);
    }
    seed_node_log(out);
    world_init(&world, 1);
}
