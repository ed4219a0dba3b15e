/* SPDX-License-Identifier: BSD-3-Clause */
/* Every record of the journals against the bytes in records_golden.h: what is written is these bytes, and from these bytes
 * a restart makes what writes them again. */
#include <fcntl.h>
#include <unistd.h>

#include "daemon/coord/internal.h"
#include "daemon/run/state/node_journal.h"
#include "tests/unit/common/message/messages_golden.h"
#include "tests/unit/daemon/records_golden.h"
#include "tests/unit/golden.h"

#define U(i) (0x0102030405060700u + (i)) /* a time or a number like no other */

/* ---- coordinators whose journal is kept here ---- */

/* The newest record of each type. */
static struct {
    bool is_there;
    size_t bytes;
    uint8_t payload[DP_JOURNAL_PAYLOAD_MAX];
} written[256];

static enum dp_journal_fate keep(void *arg, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)err;
    assert_true((unsigned)type < 256 && bytes <= DP_JOURNAL_PAYLOAD_MAX);
    written[type].is_there = true;
    written[type].bytes = bytes;
    memcpy(written[type].payload, payload, bytes);
    return DP_JOURNAL_DURABLE;
}

static int no_room_needed(void *arg, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)bytes, (void)err;
    return 0;
}

static struct dp_coord *coordinator(void)
{
    static const struct dp_job_info job = {.job_id = 7, .restart_count = 2, .is_running = true, .n_nodes = 4,
                                           .node = {"n1", "n2", "n3", "n4"}, .batch_host = "n1", .shrinks_allowed = 1};
    static const struct dp_run_limits limits = {.mode = DP_MODE_RELEASE, .pack.min_devices = 1, .pack.max_slowdown = 50.0,
                                                .policy = "time", .link_bytes_per_s = 1e9};
    static const struct dp_coord_ops ops = {.journal = keep, .reserve = no_room_needed};
    struct dp_err err = {0};
    struct dp_coord *c = dp_coord_create(&job, &limits, &ops, NULL, &err);

    if (!c)
        fail_msg("%s", err.text);
    return c;
}

static void set_layout(struct dp_layout *l, uint64_t epoch, uint32_t cut1, uint32_t cut2, uint8_t last_gone)
{
    *l = (struct dp_layout){.epoch = epoch, .n_workers = 3, .n_layers = 8, .cut = {0, cut1, cut2, 8}, .gone = {0, 0, last_gone}};
}

/* Everything that a START and what comes before it say. */
static void fill_start(struct dp_coord *c)
{
    static const uint32_t slot[] = {0, 1, 3};

    c->life.incarnation = 0x01020305;
    c->life.first_ns = U(1);
    c->mig.id = 3;
    c->train.step_id = 0x01020309;
    c->train.has_step = c->train.has_layout = true;
    c->train.n_workers = 3;
    c->train.n_layers = 8;
    set_layout(&c->layout, 0x11, 3, 5, 0);
    for (uint32_t s = 0; s < 3; s++) {
        c->worker[s].slot = slot[s];
        c->worker[s].pid = 0x01020311 + s;
    }
}

/* The slots as jobs of their own: what follows says the same of them. */
static void fill_slices(struct dp_coord *c)
{
    static const char *const name[] = {"n1", "n2", "n3", "n4"};

    fill_start(c);
    for (uint32_t s = 0; s < 4; s++)
        coord_slot_set(c, s, name[s], 0x01020341 + s, 0x0506 + s);
}

static void write_start(struct dp_coord *c)
{
    c->replay.has_nodes = false;
    assert_int_equal(coord_journal_start(c, U(99)), 0);
}

static void fill_reference(struct dp_coord *c)
{
    static const double speed[] = {1.0, 0.5, 2.25};

    c->reference.ns = U(2);
    c->reference.step_ns = U(3);
    c->reference.is_final = true;
    for (uint32_t s = 0; s < 3; s++)
        c->worker[s].speed = speed[s];
}

static void write_reference(struct dp_coord *c)
{
    assert_int_equal(coord_journal_reference(c), 0);
}

static void fill_saving(struct dp_coord *c)
{
    c->saving = (struct coord_saving){
        .step = U(4), .since_ns = U(5),
        .sums = {.steps = U(6), .unknown_steps = U(7), .dense_s = 4.5, .pruned_s = 5.5, .miss = 0.75, .n_miss = 0x0102030a,
                 .time_s = {[DP_WAY_RUN] = 1.5, [DP_WAY_FIXED] = 2.5, [DP_WAY_BALANCED] = 3.5}}};
}

static void write_saving(struct dp_coord *c)
{
    assert_int_equal(coord_journal_saving(c), 0);
}

static void fill_promise(struct dp_coord *c)
{
    c->promise.is_stopped = true;
    c->promise.n_missed = 0x0102030b;
    c->promise.until_ns = U(9);
    snprintf(c->promise.why, sizeof c->promise.why, "a promise was missed");
}

static void write_promise(struct dp_coord *c)
{
    assert_int_equal(coord_journal_promise(c, U(8)), 0);
}

static void set_correction(struct dp_correction *k, double first, uint64_t link_ns, double scale)
{
    for (uint32_t s = 0; s < 4; s++)
        k->slot[s] = first + 0.5 * s;
    k->link_ns = link_ns;
    k->rest_ns = link_ns + 1;
    k->scale = scale;
}

static void fill_balance(struct dp_coord *c)
{
    struct coord_balance *b = &c->balance;

    b->n = 0x0102030c;
    b->until_ns = U(10);
    b->quiet_ns = U(11);
    b->now.is_corrected = b->now.is_balancing = true;
    b->now.weights_left = U(12);
    set_layout(&b->before, 0, 2, 6, 0);
    c->promise.is_corrected = true;
    set_correction(&b->now.correction, 1.0, U(13), 0.5);
    set_correction(&c->promise.correction, 3.0, U(15), 0.25);
    c->links.n = 2;
    c->links.pair[0] = (struct coord_pair){.a = 0, .b = 2, .n = 3, .ns = {0x01020321, 0x01020321, 0x01020321}};
    c->links.pair[1] = (struct coord_pair){.a = 1, .b = 3, .n = 4, .ns = {0x01020322, 0x01020322, 1, 0x01020323}};
}

/* The step's time is not kept: it only tells which links are slow, when the record is read. */
static void write_balance(struct dp_coord *c)
{
    c->step_ns = DP_SECOND_NS;
    assert_int_equal(coord_journal_balance(c), 0);
}

static void fill_memory(struct dp_coord *c)
{
    c->memory = (struct coord_memory){.start_mb = 0x01020333, .given_mb = 0x01020332, .target_mb = 0x01020331,
                                      .n_given = 0x0102030d, .given_ns = U(17), .given_step = U(18)};
}

static void write_memory(struct dp_coord *c)
{
    assert_int_equal(coord_journal_memory(c), 0);
}

static const struct coord_seat seat = {1, 0x01020345, 0x0102, 0x01020346, "n5", U(0x51)};

static void fill_seat(struct dp_coord *c)
{
    coord_seat_take(c, &seat);
}

static void write_seat(struct dp_coord *c)
{
    struct coord_seat s = {1, c->slot[1].slice, c->job.slice_restarts[1], c->worker[1].pid, "", c->slot[1].from_ns};

    memcpy(s.node, c->slot[1].name, sizeof s.node);
    assert_int_equal(coord_journal_seat(c, &s), 0);
}

static void fill_wanted(struct dp_coord *c)
{
    c->join.wanted = 3;
}

static void write_wanted(struct dp_coord *c)
{
    assert_int_equal(coord_journal_wanted(c), 0);
}

static void fill_grow(struct dp_coord *c)
{
    c->grow = (struct coord_grow){.state = GROW_WITHDRAWN, .why = DP_GROW_LOADS, .held = 2, .asked = 4, .asked_ns = U(0x61),
                                  .ended_ns = U(0x62), .since_s = U(0x63), .n = 0x01020361, .n_vain = 0x01020362, .n_back = 0x01020363,
                                  .back_of = 0x01020364, .next_ns = U(0x64), .given_load = U(0x65), .reason = "layers are dearer",
                                  .text = "not all came"};
}

static void write_grow(struct dp_coord *c)
{
    assert_int_equal(coord_journal_grow(c, &c->grow, c->join.wanted), 0);
}

static void fill_past(struct dp_coord *c)
{
    coord_past_add(c, U(0x52), U(0x53));
}

static void write_past(struct dp_coord *c)
{
    assert_int_equal(coord_journal_past(c, &c->past[0]), 0);
}

static void fill_handover(struct dp_coord *c)
{
    c->history.n_handovers = 3;
    c->history.handover[2] = (struct coord_handover){
        .id = 2, .epoch = 0x10, .boundary = U(19), .started_ns = U(20), .decided_ns = U(21), .done_ns = U(22), .is_committed = true,
        .moved_layers = 0x0102030e, .n_leavers = 0x0102030f, .moved_bytes = U(23), .pause_max_ns = U(24),
        .pause_median_ns = U(25), .transfer_max_ns = U(26), .copying_max_ns = U(46), .layout = "0-2|3-4|5-7", .reason = "less to wait"};
}

static void write_handover(struct dp_coord *c)
{
    assert_int_equal(coord_journal_handover(c, 2), 0);
}

static void fill_intent(struct dp_coord *c)
{
    c->mig.id = 4;
    c->mig.started_ns = U(27);
    set_layout(&c->mig.next, 0x12, 4, 8, 1);
    c->mig.moved_layers = 0x01020310;
    c->mig.moved_bytes = U(28);
    snprintf(c->mig.reason, sizeof c->mig.reason, "two slots do");
}

static void write_intent(struct dp_coord *c)
{
    assert_int_equal(coord_journal_intent(c, &c->mig), 0);
}

static void fill_abort(struct dp_coord *c)
{
    c->mig.decided_ns = U(29);
    snprintf(c->mig.why, sizeof c->mig.why, "worker 1: no memory");
}

static void write_abort(struct dp_coord *c)
{
    assert_int_equal(coord_journal_abort(c, c->mig.decided_ns, c->mig.why), 0);
}

static void fill_commit(struct dp_coord *c)
{
    c->mig.decided_ns = U(30);
    c->mig.boundary = U(31);
}

static void write_commit(struct dp_coord *c)
{
    assert_int_equal(coord_journal_commit(c, c->mig.decided_ns), DP_JOURNAL_DURABLE);
}

static void fill_done(struct dp_coord *c)
{
    c->history.handover[c->history.n_handovers++] = (struct coord_handover){.id = 4, .done_ns = U(32), .pause_max_ns = U(33),
                                                            .pause_median_ns = U(34), .transfer_max_ns = U(35), .copying_max_ns = U(47)};
}

static void write_done(struct dp_coord *c)
{
    assert_int_equal(coord_journal_done(c, &c->history.handover[c->history.n_handovers - 1]), 0);
}

static void fill_regroup(struct dp_coord *c)
{
    c->mig.id = 5;
    c->mig.decided_ns = U(44);
    set_layout(&c->mig.next, 0x13, 3, 8, 1);
    c->mig.moved_layers = 0x01020311;
    c->mig.moved_bytes = U(45);
    snprintf(c->mig.reason, sizeof c->mig.reason, "worker 1 died");
}

static void write_regroup(struct dp_coord *c)
{
    assert_int_equal(coord_journal_regroup(c, &c->mig), DP_JOURNAL_DURABLE);
}

#define S (&c->slot[3])

static void fill_drain(struct dp_coord *c)
{
    S->drained_ns = U(36);
}

static void write_drain(struct dp_coord *c)
{
    assert_int_equal(coord_journal_slot(c, DP_REC_DRAIN, 3, S->drained_ns, 0, S->text), 0);
}

static void fill_held(struct dp_coord *c)
{
    snprintf(S->text, sizeof S->text, "pid 77 does not end");
}

static void write_held(struct dp_coord *c)
{
    assert_int_equal(coord_journal_slot(c, DP_REC_HELD, 3, U(37), 0, S->text), 0);
}

static void fill_gone(struct dp_coord *c)
{
    S->gone_ns = U(38);
    S->proof_took_ns = U(39);
    snprintf(S->text, sizeof S->text, "the cgroup is empty");
}

static void write_gone(struct dp_coord *c)
{
    assert_int_equal(coord_journal_slot(c, DP_REC_GONE, 3, S->gone_ns, S->proof_took_ns, S->text), 0);
}

static void fill_relintent(struct dp_coord *c)
{
    for (uint32_t s = 1; s < 4; s += 2) {
        c->slot[s].state = SLOT_RELEASING;
        c->slot[s].intent_ns = U(40);
    }
}

static void write_relintent(struct dp_coord *c)
{
    uint8_t is_set[DP_MAX_SLOTS] = {0};

    for (uint32_t s = 0; s < 4; s++)
        is_set[s] = c->slot[s].state == SLOT_RELEASING && c->slot[s].intent_ns == S->intent_ns;
    assert_int_equal(coord_journal_relintent(c, S->intent_ns, is_set), 0);
}

static void fill_released(struct dp_coord *c)
{
    S->freed_ns = U(41);
    S->released_ns = U(42);
    snprintf(S->text, sizeof S->text, "read back");
}

static void write_released(struct dp_coord *c)
{
    assert_int_equal(coord_journal_slot(c, DP_REC_RELEASED, 3, S->freed_ns, S->released_ns, S->text), 0);
}

static void fill_counts(struct dp_coord *c)
{
    c->last_commit_id = 4;
    c->rel.shrinks_used = 0x01020341;
}

static void write_counts(struct dp_coord *c)
{
    assert_int_equal(coord_journal_counts(c), 0);
}

static void fill_end(struct dp_coord *c)
{
    snprintf(c->life.over_why, sizeof c->life.over_why, "the step ended");
}

static void write_end(struct dp_coord *c)
{
    assert_int_equal(coord_journal_end(c, U(43), c->life.over_why), 0);
}

/* In an order that a run could have; numbers as they stand on disks. */
static const struct row {
    int type;
    const char *name, *bytes;
    void (*fill)(struct dp_coord *c), (*write)(struct dp_coord *c);
    bool is_part; /* a restart makes something of it with the next record only */
} rows[] = {
    {22, "SLICES", golden_slices, fill_slices, write_start, true},
    {12, "NODES", golden_nodes, fill_start, write_start, true},
    {14, "WORKERS", golden_workers, fill_start, write_start, true},
    {1, "START", golden_start, fill_start, write_start, false},
    {13, "REFERENCE", golden_reference, fill_reference, write_reference, false},
    {15, "SAVING", golden_saving, fill_saving, write_saving, false},
    {18, "PROMISE", golden_promise, fill_promise, write_promise, false},
    {19, "BALANCE", golden_balance, fill_balance, write_balance, false},
    {20, "LINKS", golden_links, fill_balance, write_balance, false},
    {21, "MEMORY", golden_memory, fill_memory, write_memory, false},
    {24, "SEAT", golden_seat, fill_seat, write_seat, false},
    {25, "WANTED", golden_wanted, fill_wanted, write_wanted, false},
    {27, "GROW", golden_grow, fill_grow, write_grow, false},
    {26, "PAST", golden_past, fill_past, write_past, false},
    {16, "HANDOVER", golden_handover, fill_handover, write_handover, false},
    {2, "INTENT", golden_intent, fill_intent, write_intent, false},
    {4, "ABORT", golden_abort, fill_abort, write_abort, false},
    {2, "INTENT", golden_intent, fill_intent, write_intent, false},
    {3, "COMMIT", golden_commit, fill_commit, write_commit, false},
    {5, "DONE", golden_done, fill_done, write_done, false},
    {23, "REGROUP", golden_regrouped, fill_regroup, write_regroup, false},
    {6, "DRAIN", golden_drain, fill_drain, write_drain, false},
    {10, "HELD", golden_held, fill_held, write_held, false},
    {7, "GONE", golden_gone, fill_gone, write_gone, false},
    {8, "RELINTENT", golden_relintent, fill_relintent, write_relintent, false},
    {9, "RELEASED", golden_released, fill_released, write_released, false},
    {17, "COUNTS", golden_counts, fill_counts, write_counts, false},
    {11, "END", golden_end, fill_end, write_end, false},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static void compare(const struct row *r)
{
    static uint8_t should[DP_JOURNAL_PAYLOAD_MAX];
    size_t n = unhex(r->bytes, should);

    if (!written[r->type].is_there)
        fail_msg("%s: no record of type %d was written", r->name, r->type);
    same_bytes(r->name, written[r->type].payload, written[r->type].bytes, should, n);
}

static void records_are_written_so(void **state)
{
    struct dp_coord *c = coordinator();

    (void)state;
    for (const struct row *r = rows; r < rows + N_ROWS; r++) {
        memset(written, 0, sizeof written);
        r->fill(c);
        r->write(c);
        compare(r);
    }
    dp_coord_destroy(c);
}

static void a_restart_reads_them(void **state)
{
    static uint8_t payload[DP_JOURNAL_PAYLOAD_MAX];
    struct dp_coord *c = coordinator();
    struct dp_err err = {0};

    (void)state;
    for (const struct row *r = rows; r < rows + N_ROWS; r++) {
        size_t n = unhex(r->bytes, payload);

        if (dp_coord_replay(c, (enum dp_record)r->type, payload, n, &err) < 0)
            fail_msg("%s: the golden bytes are refused: %s", r->name, err.text);
        if (r->is_part)
            continue;
        memset(written, 0, sizeof written);
        r->write(c);
        compare(r);
        for (const struct row *part = r - 1; part >= rows && part->is_part; part--)
            compare(part);
    }
    dp_coord_destroy(c);
}

static bool has_row(int type)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].type == type)
            return true;
    return false;
}

static void every_record_has_golden_bytes(void **state)
{
    (void)state;
    for (int type = 0; type < 256; type++) {
        struct dp_coord *c = coordinator();
        struct dp_err err = {0};
        bool is_known = dp_coord_replay(c, (enum dp_record)type, "", 0, &err) == 0 || !strstr(err.text, "unknown record");

        if (is_known && !has_row(type))
            fail_msg("record %d of a coordinator's journal has no row in test_records.c", type);
        if (!is_known && has_row(type))
            fail_msg("record %d has a row in test_records.c, and no restart knows it", type);
        dp_coord_destroy(c);
    }
}

/* ---- a node's journal ---- */

static char path[] = "/tmp/dprecordsXXXXXX";
static uint8_t is[8192], should[8192];

static void a_nodes_journal_is_written_so(void **state)
{
    struct dp_err err = {0};
    int fd = mkstemp(path);
    struct dp_node_journal *j;
    ssize_t n;

    (void)state;
    assert_true(fd >= 0);
    unlink(path); /* the journal makes it */
    close(fd);
    j = dp_node_journal_open(path, &err);
    if (!j)
        fail_msg("%s", err.text);
    assert_int_equal(dp_node_journal_adopt(j, &golden_step_start, &err), 0);
    assert_int_equal(dp_node_journal_fence(j, 0x01020301, 0x0102032a, 0x0102032b, &err), 0);
    assert_int_equal(dp_node_journal_end(j, 0x01020301, &err), 0);
    dp_node_journal_destroy(j);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, is, sizeof is);
    close(fd);
    unlink(path);
    assert_true(n > 0);
    same_bytes("a node's journal", is, (size_t)n, should, unhex(golden_node_journal, should));
}

struct found {
    struct dp_node_journal *j;
    uint32_t n;
};

static int find(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    static const uint8_t in_order[] = {1, 2, 3};
    struct found *f = arg;
    const struct dp_node_job *job;

    assert_true(f->n < 3 && type == in_order[f->n]);
    if (dp_node_journal_replay(f->j, type, payload, bytes, err) < 0)
        return -1;
    job = dp_node_journal_find(f->j, 0x01020301);
    if (f->n == 0)
        assert_memory_equal(&job->start, &golden_step_start, sizeof golden_step_start);
    assert_true(f->n == 2 ? !job : job->is_fenced == (f->n == 1));
    if (f->n == 1)
        assert_true(job->fence_restart == 0x0102032a && job->fence_incarnation == 0x0102032b);
    f->n++;
    return 0;
}

static void a_restart_reads_a_nodes_journal(void **state)
{
    struct dp_err err = {0};
    struct found f = {.j = dp_node_journal_create(&err)};
    struct dp_journal_extent extent;
    size_t n = unhex(golden_node_journal, should);

    (void)state;
    assert_non_null(f.j);
    if (dp_journal_scan(should, n, &extent, &err) < 0 || dp_journal_replay(should, extent.end, find, &f, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(extent.end == n && extent.seq == 3 && f.n == 3);
    for (unsigned type = 0; type < 256; type++)
        if (type < 1 || type > 3) {
            if (dp_node_journal_replay(f.j, (uint8_t)type, "", 0, &err) == 0 || !strstr(err.text, "unknown record"))
                fail_msg("record %u of a node's journal has no golden bytes", type);
        }
    dp_node_journal_destroy(f.j);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(records_are_written_so),
    cmocka_unit_test(a_restart_reads_them),
    cmocka_unit_test(every_record_has_golden_bytes),
    cmocka_unit_test(a_nodes_journal_is_written_so),
    cmocka_unit_test(a_restart_reads_a_nodes_journal),
};
TEST_MAIN("records", tests)
