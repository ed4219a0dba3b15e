/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): a crash before and after every single journal record, disks that
 * are full or lie, journals that are damaged or written anew, and thousands of seeded campaigns with faults of every
 * kind. DP_CAMPAIGNS sets how many campaigns run, DP_SEED runs one and shows it. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

/* Sanitizers make each campaign ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAMPAIGNS 200
#else
#define CAMPAIGNS 2000
#endif

static void a_crash_at_every_record(void **state)
{
    (void)state;
    uint32_t n = 0, k;

    for (k = 0; k < 60; k++)
        for (int before = 0; before < 2; before++) {
            struct world *w = begin(12);

            w->crash_at = k;
            w->crash_before = before;
            world_start(w);
            world_run(w, 120.0, false);
            if (!w->c || w->has_crashed)
                world_run(w, 20.0, false); /* the record of the last moment */
            n += w->n_crashes;
            if (!world_is_settled(w) && !w->broken[0])
                snprintf(w->broken, sizeof w->broken, "not settled after a crash %s record %u",
                         before ? "before" : "after", k);
            if (!w->broken[0] && world_count(w, DP_REC_RELEASED) < 3)
                snprintf(w->broken, sizeof w->broken, "%u released after a crash at record %u",
                         world_count(w, DP_REC_RELEASED), k);
            end(w);
        }
    print_message("# %u crashes\n", n);
    assert_true(n >= 30);
}

/* A proof counts once, however often it is said. */
static void a_repeated_proof_changes_nothing(void **state)
{
    (void)state;
    struct world *w = begin(21);
    struct dp_msg_slot_gone m = {.job_id = 7, .gone = 1};
    uint32_t n;

    world_start(w);
    world_run(w, 90.0, false);
    assert_true(world_is_settled(w));
    n = w->n_records;
    m.incarnation = dp_coord_incarnation(w->c);
    for (int i = 0; i < W_MAX; i++)
        dp_coord_slot_gone(w->c, w->now_ns, w->job.node[i], &m);
    m.gone = 0;
    for (int i = 0; i < W_MAX; i++)
        dp_coord_slot_gone(w->c, w->now_ns, w->job.node[i], &m);
    assert_int_equal(w->n_records, n);
    assert_true(world_is_settled(w));
    end(w);
}

/* A journal that lost a commit: its workers are ahead of it. Nothing is guessed. */
static void workers_newer_than_the_journal_are_refused(void **state)
{
    (void)state;
    struct world *w = begin(22);
    struct dp_msg_hello m = {.job_id = 7, .n_workers = 4, .n_layers = 8, .steps_total = W_STEPS,
                             .microbatches = 8, .tokens_per_microbatch = 64};
    struct dp_msg_welcome v;
    struct dp_coord *c;
    struct dp_err err;

    world_start(w);
    world_run(w, 90.0, false);
    c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < w->n_records && w->record[i].type != DP_REC_COMMIT; i++)
        assert_int_equal(dp_coord_replay(c, w->record[i].type, w->record[i].payload, w->record[i].bytes, &err), 0);
    assert_int_equal(dp_coord_begin(c, w->now_ns, &err), 0);
    m.epoch = w->worker[0].layout.epoch;
    memcpy(m.cut, w->worker[0].layout.cut, sizeof m.cut);
    dp_coord_hello(c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    assert_non_null(strstr(v.text, ", the run is at 1"));
    dp_coord_destroy(c);
    end(w);
}

static void bad_records_are_refused(void **state)
{
    (void)state;
    struct world *w = begin(20);
    struct dp_job_info job;
    struct dp_coord *c;
    struct dp_err err;

    world_start(w);
    world_run(w, 90.0, false);
    job = w->job;
    for (uint32_t i = 0; i < w->n_records; i++)
        for (uint32_t cutoff = 0; cutoff < w->record[i].bytes; cutoff += 3) {
            int rc = 0;

            c = dp_coord_create(&job, &w->limits, &w->ops, w, &err);
            for (uint32_t k = 0; k < i && rc == 0; k++)
                rc = dp_coord_replay(c, w->record[k].type, w->record[k].payload, w->record[k].bytes, &err);
            assert_int_equal(rc, 0);
            assert_int_equal(dp_coord_replay(c, w->record[i].type, w->record[i].payload, cutoff, &err), -1);
            dp_coord_destroy(c);
        }
    job.job_id = 8;
    c = dp_coord_create(&job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < w->n_records; i++)
        if (w->record[i].type == DP_REC_START) {
            assert_int_equal(dp_coord_replay(c, DP_REC_START, w->record[i].payload, w->record[i].bytes, &err), -1);
            assert_non_null(strstr(err.text, "this is job 8"));
            break;
        }
    dp_coord_destroy(c);
    end(w);
}

/* The record was written as a node's daemon had said it. */
static void long_proofs_of_former_releases_are_read(void **state)
{
    (void)state;
    enum { TEXT_AT = 4 + 8 + 8, BYTES = 600 }; /* behind slot and two times; with its length before it */
    struct world *w = begin(23);
    struct world_record *last;
    struct dp_coord *c;
    struct dp_err err;
    uint32_t i = 0;

    world_start(w);
    world_run(w, 90.0, false);
    while (i < w->n_records && w->record[i].type != DP_REC_GONE)
        i++;
    assert_true(i < w->n_records);
    last = &w->record[i];
    last->payload[TEXT_AT] = BYTES >> 8;
    last->payload[TEXT_AT + 1] = BYTES & 255;
    memset(last->payload + TEXT_AT + 2, 'y', BYTES);
    last->bytes = TEXT_AT + 2 + BYTES;
    c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    for (uint32_t k = 0; k <= i; k++)
        if (dp_coord_replay(c, w->record[k].type, w->record[k].payload, w->record[k].bytes, &err) < 0)
            fail_msg("%s", err.text);
    dp_coord_destroy(c);
    end(w);
}

/* To a hand-over of which all votes but that of worker 3 have come. */
static struct world *begin_undecided(uint64_t seed)
{
    struct world *w = begin(seed);
    struct dp_err err;

    w->limits.mode = DP_MODE_BALANCE;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->vote_ms = 100;
    world_start(w);
    world_run(w, 4.0, false);
    w->worker[3].is_slow = true;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 2.0, false);
    assert_true(w->worker[0].doubt && w->worker[1].doubt && w->worker[2].doubt && !w->worker[3].doubt);
    w->worker[3].is_slow = false;
    return w;
}

static uint32_t n_in_doubt(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < W_MAX; r++)
        n += w->worker[r].doubt != 0;
    return n;
}

/* COMMIT is certainly not there: nobody stands still for the record of an ABORT. */
static void a_full_disk_aborts_at_once(void **state)
{
    (void)state;
    struct world *w = begin_undecided(41);
    struct dp_err err;
    json_t *o;

    w->is_disk_full = true;
    world_run(w, 1.0, false);
    assert_int_equal(n_in_doubt(w), 0);
    assert_int_equal(world_count(w, DP_REC_COMMIT) + world_count(w, DP_REC_ABORT), 0);
    for (uint32_t r = 0; r < W_MAX; r++)
        assert_int_equal(w->worker[r].layout.epoch, 1);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "journal_error"), "the journal is gone");
    json_decref(o);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), -1);
    assert_string_equal(err.text, "journal: no room"); /* refused before anybody is told */
    w->is_disk_full = false;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 2.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_true(json_is_null(json_object_get(o, "journal_error")));
    json_decref(o);
    end(w);
}

/* COMMIT may be on the disk: nobody hears anything, until the journal has been written anew without it, or
 * until a restart has found out. */
static void a_doubtful_commit_is_not_told(void **state)
{
    (void)state;
    for (uint64_t seed = 42; seed < 62; seed++) {
        struct world *w = begin_undecided(seed);
        bool is_restart = seed % 2;
        json_t *o;

        w->is_disk_dead = true;
        world_run(w, 60.0, false);
        assert_int_equal(n_in_doubt(w), W_MAX);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
        assert_non_null(strstr(text_of(o, "state_text"), "wait for a decision that cannot be written to the journal"));
        json_decref(o);
        w->is_disk_dead = false;
        if (is_restart)
            world_crash(w);
        world_run(w, is_restart ? 10.0 : 1.0, false);
        assert_int_equal(n_in_doubt(w), 0);
        if (!is_restart)
            assert_int_equal(w->worker[0].layout.epoch, 1);
        for (uint32_t r = 1; r < W_MAX; r++)
            assert_int_equal(w->worker[r].layout.epoch, w->worker[0].layout.epoch);
        end(w);
    }
}

static struct dp_coord *replay_all(struct world *w, const struct world_record *record, uint32_t n)
{
    struct dp_err err = {0};
    struct dp_coord *c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);

    assert_non_null(c);
    for (uint32_t i = 0; i < n; i++)
        if (dp_coord_replay(c, record[i].type, record[i].payload, record[i].bytes, &err) < 0)
            fail_msg("record %u of %u: %s", i, n, err.text);
    return c;
}

static void assert_same_report(struct world *w, const struct dp_coord *a, const struct dp_coord *b, uint64_t seed)
{
    for (enum dp_query q = DP_QUERY_STATUS; q <= DP_QUERY_REPORT; q++) {
        json_t *x = dp_coord_json(a, w->now_ns, q), *y = dp_coord_json(b, w->now_ns, q);
        char *s = json_dumps(x, JSON_SORT_KEYS), *t = json_dumps(y, JSON_SORT_KEYS);

        if (strcmp(s, t) != 0)
            fail_msg("seed %llu: written anew\n%s\nbefore\n%s", (unsigned long long)seed, t, s);
        free(s), free(t);
        json_decref(x), json_decref(y);
    }
}

/* Whatever a restart makes of a journal, it makes of the one written anew. */
static void a_journal_written_anew_says_the_same(void **state)
{
    (void)state;
    uint32_t n_states[8] = {0};

    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world *w = begin(seed);

        w->loss_percent = seed % 3 ? 10 : 0;
        w->fault_percent = seed % 4;
        w->no_percent = seed % 5 ? 0 : 10;
        w->job.shrinks_allowed = seed % 2 ? 1 : 50;
        world_start(w);
        for (int i = 0; i < 60 && !w->broken[0]; i++) {
            struct dp_coord *a, *b;
            uint32_t n = 0;
            struct world_record *anew;

            world_run(w, 1.0, true);
            a = replay_all(w, w->record, w->n_records);
            anew = world_snapshot(a, &n);
            assert_non_null(anew);
            b = replay_all(w, anew, n);
            assert_same_report(w, a, b, seed);
            for (uint32_t k = 0; k < n; k++)
                n_states[anew[k].type == DP_REC_COMMIT ? 0 : anew[k].type == DP_REC_ABORT ? 1 :
                         anew[k].type == DP_REC_INTENT ? 2 : anew[k].type == DP_REC_HELD ? 3 :
                         anew[k].type == DP_REC_RELEASED ? 4 : anew[k].type == DP_REC_GONE ? 5 : 6]++;
            free(anew);
            dp_coord_destroy(a);
            dp_coord_destroy(b);
        }
        end(w);
    }
    for (int k = 0; k < 7; k++)
        assert_true(n_states[k] > 0);
}

static void campaign(uint64_t seed, uint64_t total[9])
{
    struct world *w = begin(seed);

    w->loss_percent = seed % 3 ? 20 : 5;
    w->fault_percent = 1 + seed % 5;
    w->crash_percent = seed % 4 ? 8 : 0;
    w->full_percent = seed % 5 ? 0 : 15;
    w->renew_percent = seed % 3 == 1 ? 10 : 0;
    w->no_percent = seed % 2 ? 5 : 0;
    w->job.shrinks_allowed = seed % 2 ? 1 : 50;
    w->limits.pack.min_devices = 1 + seed % 3;
    w->noise = seed % 7 == 3 ? 3.0 : 0.0;
    world_start(w);
    world_run(w, 70.0, true);
    world_settle(w);
    total[0] += w->n_crashes;
    total[1] += world_count(w, DP_REC_COMMIT);
    total[2] += world_count(w, DP_REC_ABORT);
    total[3] += world_count(w, DP_REC_RELEASED);
    total[4] += w->n_lost_updates;
    total[5] += w->n_refused_starts;
    total[6] += w->n_doubts;
    total[7] += w->n_renewals;
    total[8] += w->n_told_without;
    if (w->broken[0]) {
        json_t *o = w->c ? dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS) : NULL;

        if (o && getenv("DP_SEED"))
            json_dumpf(o, stderr, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
        json_decref(o);
        fail_msg("seed %llu: %s", (unsigned long long)seed, w->broken);
    }
    end(w);
}

static void campaigns(void **state)
{
    (void)state;
    const char *n = getenv("DP_CAMPAIGNS"), *one = getenv("DP_SEED");
    uint64_t total[9] = {0}, last = n ? strtoull(n, NULL, 10) : CAMPAIGNS, first = 0;

    if (one) {
        first = strtoull(one, NULL, 10);
        last = first + 1;
    }
    for (uint64_t seed = first; seed < last; seed++)
        campaign(seed, total);
    print_message("# %llu campaigns: %llu coordinator crashes, %llu commits, %llu aborts, %llu slots released, "
                  "%llu updates lost by slurmctld, %llu starts refused, %llu records in doubt, %llu journals written "
                  "anew, %llu aborts told without a record\n",
                  (unsigned long long)(last - first), (unsigned long long)total[0], (unsigned long long)total[1],
                  (unsigned long long)total[2], (unsigned long long)total[3], (unsigned long long)total[4],
                  (unsigned long long)total[5], (unsigned long long)total[6], (unsigned long long)total[7],
                  (unsigned long long)total[8]);
    for (uint32_t k = 0; k < 9 && last - first >= 100; k++)
        assert_true(total[k] > 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_crash_at_every_record),
    cmocka_unit_test(a_repeated_proof_changes_nothing),
    cmocka_unit_test(workers_newer_than_the_journal_are_refused),
    cmocka_unit_test(a_full_disk_aborts_at_once),
    cmocka_unit_test(a_doubtful_commit_is_not_told),
    cmocka_unit_test(a_journal_written_anew_says_the_same),
    cmocka_unit_test(bad_records_are_refused),
        cmocka_unit_test(long_proofs_of_former_releases_are_read),
    cmocka_unit_test(campaigns),
};
TEST_MAIN("coord_journal", tests)
