/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that are lost in the coordinator's world (coord_world.h): the others go on without them, whatever was under way,
 * and whatever the daemon and its journal did meanwhile; or nobody does, and all hear it. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

#define SEC 1000000000ull
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAMPAIGNS 40
#else
#define CAMPAIGNS 400
#endif
#define REC_REGROUP ((enum dp_record)23) /* daemon/coord/internal.h */

static struct world *begin_training(uint64_t seed)
{
    struct world *w = begin(seed);

    w->limits.mode = DP_MODE_BALANCE;
    w->vote_ms = 100;
    train_unmoved(w);
    return w;
}

static json_t *status_of(struct world *w)
{
    return dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
}

static bool says(struct world *w, const char *text)
{
    json_t *o = status_of(w), *e;
    bool is_there = strstr(text_of(o, "state_text"), text) != NULL;
    size_t i;

    json_array_foreach(json_object_get(o, "events"), i, e)
        is_there |= strstr(text_of(e, "text"), text) != NULL;
    json_decref(o);
    return is_there;
}

static void state_is(struct world *w, const char *state)
{
    json_t *o = status_of(w);

    assert_string_equal(text_of(o, "state"), state);
    json_decref(o);
}

static uint32_t first_alive(const struct world *w)
{
    uint32_t r = 0;

    while (r + 1 < W_MAX && !w->worker[r].is_alive)
        r++;
    return r;
}

/* All who live have one layout, in which those of `lost` (bits) are gone, and it has all layers. */
static void without(struct world *w, uint32_t lost)
{
    const struct dp_layout *l = &w->worker[first_alive(w)].layout;

    for (uint32_t r = 0; r < W_MAX; r++) {
        assert_int_equal(l->gone[r], lost >> r & 1);
        if (lost >> r & 1)
            assert_int_equal(l->cut[r], l->cut[r + 1]);
        else
            assert_memory_equal(&w->worker[r].layout, l, sizeof *l);
        assert_int_equal(w->worker[r].doubt, 0);
    }
    assert_int_equal(l->cut[W_MAX], W_LAYERS);
}

/* They make steps again. */
static void train_on(struct world *w)
{
    uint32_t r = first_alive(w);
    uint64_t step = w->worker[r].step;

    world_run(w, 3.0, false);
    assert_true(w->worker[r].step > step);
}

/* In mode release, with n nodes at least. */
static struct world *begin_release(uint64_t seed, uint32_t n)
{
    struct world *w = begin(seed);

    w->limits.pack.min_devices = n;
    train_unmoved(w);
    return w;
}

static void the_others_go_on(void **state)
{
    (void)state;
    struct world *w = begin_training(3);
    uint64_t before = w->worker[0].step;
    json_t *o, *losses;

    world_kill(w, 2);
    assert_true(says(w, "worker 2 on n2 was lost (process 102)"));
    world_run(w, 2.0, false);
    without(w, 1u << 2);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    assert_int_equal(world_count(w, DP_REC_DONE), 1);
    assert_int_equal(w->worker[0].layout.epoch, 2);
    assert_true(w->worker[0].step < before + 20);
    train_on(w);
    state_is(w, "training");
    o = report_of(w);
    losses = json_object_get(o, "losses");
    assert_int_equal(json_array_size(losses), 1);
    assert_string_equal(text_of(json_array_get(losses, 0), "text"), "worker 2 on n2 was lost (process 102); they go on");
    assert_int_equal(int_of(json_array_get(losses, 0), "step"), before / 100 * 100);
    assert_string_equal(text_of(json_array_get(json_object_get(o, "handovers"), 0), "outcome"), "regrouped");
    json_decref(o);
    world_run(w, 20.0, false);
    assert_true(w->held[2]);
    assert_false(world_slot_has(w, 2, DP_REC_DRAIN));
    end(w);
}

/* As even as the loads allow: three workers for eight layers that take 1.0, 1.1, 1.2, 1.0 ... */
static void the_layers_are_shared_out_evenly(void **state)
{
    (void)state;
    struct world *w = begin_training(4);
    const uint32_t *cut = w->worker[0].layout.cut;

    world_kill(w, 3);
    world_run(w, 2.0, false);
    without(w, 1u << 3);
    for (uint32_t r = 0; r < 3; r++)
        assert_in_range(cut[r + 1] - cut[r], 2, 3);
    end(w);
}

static void its_node_is_given_back(void **state)
{
    (void)state;
    struct world *w = begin_release(5, 3);

    world_kill(w, 1);
    world_run(w, 40.0, false);
    without(w, 1u << 1);
    assert_true(world_slot_has(w, 1, DP_REC_GONE));
    assert_true(world_slot_has(w, 1, DP_REC_RELEASED));
    assert_false(w->held[1]);
    assert_true(world_is_settled(w));
    end(w);
}

/* Worker 0 leads at first, and after it the next one: it knows how much time is left, and is asked to save. Layers still move, and
 * nodes go back, but the batch host stays, though nothing runs there. */
static void without_its_leader_a_run_goes_on(void **state)
{
    (void)state;
    struct world *w = begin_training(12);
    uint32_t n_limits = w->worker[1].n_limits;
    struct dp_err err;

    dp_coord_time_left(w->c, w->now_ns, 0, 3600000);
    world_run(w, 1.0, false);
    assert_int_equal(w->worker[1].n_limits, n_limits + 1);
    world_kill(w, 0);
    world_run(w, 3.0, false);
    without(w, 1u << 0);
    train_on(w);
    state_is(w, "training");
    assert_int_equal(w->worker[1].n_limits, n_limits + 1);
    assert_in_range(w->worker[1].left_ms, 3500000, 3600000);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "x|0-5|6|7", &err), 0);
    world_run(w, 3.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    without(w, 1u << 0);
    w->worker[1].is_connected = false;
    w->worker[1].connect_at_ns = w->now_ns + 2 * SEC;
    dp_coord_worker_lost(w->c, w->now_ns, &(struct dp_msg_worker_lost){w->job.job_id, 1, 101, 0});
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_SAVE, NULL, &err), -1);
    assert_string_equal(err.text, "worker 1, which leads the run, is not connected");
    world_run(w, 4.0, false);
    assert_int_equal(w->worker[1].n_limits, n_limits + 2); /* it came back */
    end(w);

    w = begin_release(13, 2);
    world_kill(w, 0);
    world_run(w, 40.0, false);
    assert_int_equal(w->worker[first_alive(w)].layout.gone[0], 1);
    assert_true(w->held[0]);
    assert_false(world_slot_has(w, 0, DP_REC_DRAIN));
    assert_true(world_is_settled(w));
    train_on(w);
    end(w);
}

/* What the end of a step on the batch host means: there it ends with the last process, however that ended. */
static void who_goes_on_when_the_batch_host_has_no_worker(void **state)
{
    (void)state;
    struct world *w = begin_training(14);

    world_kill(w, 0);
    assert_true(dp_coord_goes_on(w->c, true));
    world_run(w, 2.0, false);
    assert_true(dp_coord_goes_on(w->c, true));
    assert_false(dp_coord_goes_on(w->c, false));
    dp_coord_worker_lost(w->c, w->now_ns, &(struct dp_msg_worker_lost){w->job.job_id, 3, 103, 0});
    assert_true(dp_coord_goes_on(w->c, false));
    /* a run that ends: the others' goodbyes are on their way, and the next step is not to wait for them */
    dp_coord_goodbye(w->c, w->now_ns, &(struct dp_msg_goodbye){.rank = 1, .how = DP_BYE_COMPLETED});
    assert_false(dp_coord_goes_on(w->c, true));
    assert_false(dp_coord_goes_on(w->c, false));
    end(w);
}

static void two_at_once_are_one_regroup(void **state)
{
    (void)state;
    struct world *w = begin_training(6);

    world_kill(w, 1);
    world_kill(w, 3);
    world_run(w, 2.0, false);
    without(w, 1u << 1 | 1u << 3);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    assert_true(says(w, "worker 1 on n1 was lost (process 101), and 1 more"));
    train_on(w);
    end(w);
}

static void another_loss_meanwhile_is_another_regroup(void **state)
{
    (void)state;
    struct world *w = begin_training(7);

    w->worker[2].is_connected = false; /* it does not hear of the first one */
    w->worker[2].connect_at_ns = w->now_ns + 2 * SEC;
    world_kill(w, 1);
    world_run(w, 1.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    assert_int_equal(world_count(w, DP_REC_DONE), 0);
    state_is(w, "migrating");
    assert_true(says(w, "regrouping: worker 1 on n1 was lost"));
    world_kill(w, 3);
    world_run(w, 4.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 2);
    without(w, 1u << 1 | 1u << 3);
    assert_int_equal(w->worker[0].layout.epoch, 3);
    train_on(w);
    end(w);
}

/* Worker 3 does not vote; worker 0 has, and is in doubt. */
static struct world *begin_undecided(uint64_t seed)
{
    struct world *w = begin_training(seed);
    struct dp_err err;

    w->worker[3].is_slow = true;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 2.0, false);
    assert_true(w->worker[0].doubt);
    return w;
}

static void a_handover_that_is_prepared_is_aborted(void **state)
{
    (void)state;
    struct world *w = begin_undecided(8);

    world_kill(w, 3);
    world_run(w, 3.0, false);
    assert_int_equal(world_count(w, DP_REC_ABORT), 1);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 0);
    without(w, 1u << 3);
    train_on(w);
    end(w);
}

/* Worker 1 has voted and hears no decision; then another one is lost. */
static void a_handover_that_is_committed_is_overtaken(void **state)
{
    (void)state;
    struct world *w = begin_undecided(9);

    w->worker[1].is_connected = false;
    w->worker[1].connect_at_ns = w->now_ns + 3 * SEC;
    w->worker[3].is_slow = false;
    world_run(w, 1.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    assert_true(w->worker[1].doubt);
    world_kill(w, 2);
    world_run(w, 5.0, false);
    without(w, 1u << 2);
    assert_int_equal(w->worker[0].layout.epoch, 3);
    train_on(w);
    end(w);
}

/* Worker 3 has voted that it leaves, and is away until its hand-over, and the regroup behind it, are over for all others. */
static void a_leaver_that_missed_both_leaves(void **state)
{
    (void)state;
    struct world *w = begin(13);
    struct world_worker *leaver = &w->worker[3];
    uint64_t doubt = 0;
    uint32_t n_done;

    w->limits.pack.min_devices = 3;
    w->vote_ms = 500;
    world_start(w);
    for (uint32_t i = 0; i < 40000 && !w->worker[0].layout.gone[3]; i++) { /* it leaves by the second or third hand-over */
        if (leaver->doubt != doubt && leaver->doubt) {
            leaver->is_connected = false;
            leaver->connect_at_ns = w->now_ns + 3 * SEC;
        }
        doubt = leaver->doubt;
        world_run(w, 0.01, false);
    }
    assert_true(w->worker[0].layout.gone[3]);
    w->limits.pack.min_devices = 2; /* a daemon that starts anew asks for less */
    world_crash(w);
    for (uint32_t i = 0; i < 40; i++) {
        leaver->connect_at_ns = w->now_ns + 600 * SEC;
        world_run(w, 0.1, false);
    }
    n_done = world_count(w, DP_REC_DONE);
    world_kill(w, 1);
    world_run(w, 1.5, false);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    assert_int_equal(world_count(w, DP_REC_DONE), n_done + 1);
    assert_true(leaver->doubt && leaver->is_alive);
    leaver->connect_at_ns = w->now_ns;
    world_run(w, 1.0, false);
    assert_int_equal(leaver->n_regroups, 1); /* not: it is killed in the end */
    assert_false(leaver->is_alive);
    world_run(w, 30.0, false);
    assert_true(world_is_settled(w));
    end(w);
}

/* A worker's process may ask about any hand-over: a regroup is never told as one. */
static void a_regroup_is_told_as_a_regroup(void **state)
{
    (void)state;
    struct world *w = begin_training(14);
    uint32_t n_regroups;

    world_kill(w, 2);
    world_run(w, 3.0, false);
    assert_int_equal(world_count(w, DP_REC_DONE), 1);
    n_regroups = w->worker[1].n_regroups;
    for (uint32_t i = 0; i < 2; i++) { /* also to one who knows it already: the world breaks over a DECISION */
        dp_coord_vote(w->c, w->now_ns, &(struct dp_msg_vote){.incarnation = dp_coord_incarnation(w->c), .migration = 1,
                                                             .rank = 1, .yes = 1});
        world_run(w, 1.0, false);
        world_crash(w);
        world_run(w, 4.0, false);
    }
    assert_int_equal(w->worker[1].n_regroups, n_regroups);
    without(w, 1u << 2);
    train_on(w);
    end(w);
}

/* Its COMMIT may be on the disk: nobody is told anything else before that is known. */
static void a_doubtful_commit_is_settled_first(void **state)
{
    (void)state;
    struct world *w = begin_undecided(10);

    w->fail_type = DP_REC_COMMIT;
    w->fails_in_doubt = true;
    w->worker[3].is_slow = false;
    world_run(w, 1.0, false);
    assert_true(w->is_disk_dead);
    world_kill(w, 2);
    world_run(w, 3.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 0);
    assert_true(w->worker[0].doubt);
    w->is_disk_dead = false;
    world_run(w, 4.0, false);
    without(w, 1u << 2);
    train_on(w);
    end(w);
}

static void a_record_that_fails_is_tried_again(void **state)
{
    (void)state;
    for (int in_doubt = 0; in_doubt < 2; in_doubt++) {
        struct world *w = begin_training(11);

        w->fail_type = REC_REGROUP;
        w->fails_in_doubt = in_doubt;
        world_kill(w, 2);
        world_run(w, 2.0, false);
        assert_true(in_doubt ? w->is_disk_dead : w->is_disk_full);
        assert_int_equal(w->worker[0].layout.epoch, 1);
        w->is_disk_full = w->is_disk_dead = false;
        world_run(w, 4.0, false);
        without(w, 1u << 2);
        train_on(w);
        end(w);
    }
}

/* The daemon dies before and after each record, and the worker anywhere between them. */
static void a_crash_at_every_record(void **state)
{
    (void)state;
    uint32_t n = 0;

    for (uint32_t k = 0; k < 16; k++)
        for (int before = 0; before < 2; before++) {
            struct world *w = begin(12 + k);

            w->limits.mode = DP_MODE_BALANCE;
            snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
            w->crash_at = k;
            w->crash_before = before;
            world_start(w);
            world_run(w, 10.0, false);
            world_kill(w, 2);
            world_run(w, 20.0, false);
            if (!w->c || w->has_crashed)
                world_run(w, 20.0, false);
            n += w->n_crashes;
            without(w, 1u << 2);
            train_on(w);
            state_is(w, "training");
            end(w);
        }
    assert_true(n >= 10);
}

/* Nobody was there to hear of its end. */
static void a_worker_that_dies_with_the_daemon_is_found(void **state)
{
    (void)state;
    struct world *w = begin_training(40);

    world_crash(w);
    world_kill(w, 1);
    world_run(w, 2.5, false);
    assert_int_equal(world_count(w, REC_REGROUP), 0);
    world_run(w, 12.0, false);
    without(w, 1u << 1);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    train_on(w);
    end(w);
}

static void a_restart_in_the_middle_tells_it_again(void **state)
{
    (void)state;
    struct world *w = begin_training(41);

    w->worker[3].is_connected = false;
    w->worker[3].connect_at_ns = w->now_ns + 8 * SEC;
    world_kill(w, 1);
    world_run(w, 1.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    assert_int_equal(world_count(w, DP_REC_DONE), 0);
    world_crash(w);
    world_run(w, 14.0, false);
    without(w, 1u << 1);
    assert_int_equal(world_count(w, REC_REGROUP), 1);
    assert_int_equal(world_count(w, DP_REC_DONE), 1);
    train_on(w);
    end(w);
}

/* A journal that is written anew while it is told, and after. */
static void a_journal_written_anew_says_the_same(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct world *w = begin_training(42);
        json_t *o;

        w->worker[3].is_connected = false;
        w->worker[3].connect_at_ns = w->now_ns + (late ? 0 : 12) * SEC;
        world_kill(w, 1);
        w->renew_percent = 100;
        world_run(w, 2.0, false);
        world_crash(w);
        world_run(w, 18.0, false);
        assert_true(w->n_renewals > 0);
        without(w, 1u << 1);
        train_on(w);
        o = report_of(w);
        assert_int_equal(json_array_size(json_object_get(o, "losses")), 1);
        json_decref(o);
        end(w);
    }
}

/* Slurm took it: there is nothing to prove, and it is not asked for. */
static void a_node_that_slurm_took_is_not_asked_for(void **state)
{
    (void)state;
    struct world *w = begin(43);

    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->limits.pack.min_devices = 3;
    world_start(w);
    world_run(w, 4.0, false);
    w->is_cut_off[3] = true;
    world_kill(w, 3);
    world_run(w, 8.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 0);
    w->held[3] = w->held_durable[3] = false;
    world_run(w, 20.0, false);
    without(w, 1u << 3);
    assert_true(world_slot_has(w, 3, DP_REC_RELEASED));
    assert_false(world_slot_has(w, 3, DP_REC_RELINTENT));
    assert_int_equal(w->n_shrinks, 0);
    world_crash(w);
    world_run(w, 20.0, false);
    assert_int_equal(w->n_shrinks, 0);
    assert_true(world_is_settled(w));
    train_on(w);
    end(w);
}

/* A connection that is down is no loss, however long. */
static void who_is_away_is_not_lost(void **state)
{
    (void)state;
    struct world *w = begin_training(44);

    w->worker[2].is_connected = false;
    w->worker[2].connect_at_ns = w->now_ns + 60 * SEC;
    world_run(w, 59.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 0);
    world_run(w, 3.0, false);
    state_is(w, "training");
    end(w);
}

static void all_hear_that_nobody_goes_on(struct world *w, const char *why)
{
    world_run(w, 3.0, false);
    assert_int_equal(world_count(w, REC_REGROUP), 0);
    state_is(w, "failed");
    if (!says(w, why))
        fail_msg("it is not said why: %s", why);
    for (uint32_t r = 0; r < W_MAX; r++)
        assert_true(!w->worker[r].is_alive || w->worker[r].is_alone || w->worker[r].n_refusals > 0);
    end(w);
}

static void some_losses_end_the_run(void **state)
{
    (void)state;
    struct world *w = begin(51);

    w->limits.mode = DP_MODE_BALANCE;
    w->limits.pack.min_devices = 3;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    world_start(w);
    world_run(w, 4.0, false);
    world_kill(w, 2);
    world_kill(w, 1);
    all_hear_that_nobody_goes_on(w, "fewer workers are left");

    w = begin(52);
    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 4.0, false);
    world_kill(w, 2);
    all_hear_that_nobody_goes_on(w, "layers may not move in this mode");

    w = begin(53);
    w->worker[1].is_alone = true;
    world_start(w);
    world_run(w, 4.0, false);
    world_kill(w, 2);
    all_hear_that_nobody_goes_on(w, "the workers met by PMIx");

    w = begin(54);
    w->limits.mode = DP_MODE_BALANCE;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->mem_limit_bytes = 215000; /* two layers of 100 000 bytes, and not three */
    world_start(w);
    world_run(w, 4.0, false);
    world_kill(w, 2);
    all_hear_that_nobody_goes_on(w, "does not fit into the memory of those who are left");
}

/* Is anybody left of the newest layout? The last one of a run may die, too. */
static bool is_anybody_left(const struct world *w)
{
    const struct dp_layout *newest = &w->worker[0].layout;

    for (uint32_t r = 1; r < W_MAX; r++)
        if (w->worker[r].layout.epoch > newest->epoch)
            newest = &w->worker[r].layout;
    for (uint32_t r = 0; r < W_MAX; r++)
        if (w->worker[r].is_alive && !newest->gone[r])
            return true;
    return false;
}

/* All that can go wrong, and workers that die on top: those who are left have one layout in the end, without the dead. */
static void campaigns_end_with_one_layout(void **state)
{
    (void)state;
    uint32_t n_regroups = 0, n_commits = 0, n_crashes = 0, n_leaders = 0, n_nobody = 0;

    for (uint64_t seed = 1; seed <= CAMPAIGNS; seed++) {
        struct world *w = begin(seed);
        const struct world_worker *leader;
        uint32_t lost = 0;

        w->crash_percent = 3;
        w->loss_percent = 5;
        w->fault_percent = 5;
        w->no_percent = 5;
        w->full_percent = 3;
        w->renew_percent = 10;
        w->kill_percent = 1;
        world_start(w);
        world_run(w, 40.0, true);
        w->crash_percent = w->loss_percent = w->no_percent = w->full_percent = 0;
        for (uint32_t r = 0; r < W_MAX; r++)
            w->is_stuck[r] = false;
        world_run(w, 90.0, false);
        if (w->broken[0])
            fail_msg("seed %u: %s", (unsigned)seed, w->broken);
        for (uint32_t r = 0; r < W_MAX; r++)
            lost |= (uint32_t)!w->worker[r].is_alive << r;
        if (!is_anybody_left(w)) {
            state_is(w, "failed");
            n_nobody++;
            end(w);
            continue;
        }
        n_leaders += lost & 1;
        leader = &w->worker[first_alive(w)];
        for (uint32_t r = 0; r < W_MAX; r++)
            if (w->worker[r].is_alive &&
                (memcmp(&w->worker[r].layout, &leader->layout, sizeof leader->layout) != 0 || w->worker[r].doubt))
                fail_msg("seed %u: worker %u has another layout, or is in doubt", (unsigned)seed, r);
        for (uint32_t r = 0; r < W_MAX; r++)
            if (leader->layout.gone[r] != (lost >> r & 1))
                fail_msg("seed %u: worker %u is %s", (unsigned)seed, r, lost >> r & 1 ? "dead and in the layout" : "left out");
        n_regroups += leader->n_regroups;
        n_commits += w->n_commits;
        n_crashes += w->n_crashes;
        end(w);
    }
    print_message("# %u regroups, %u commits, %u crashes, %u new leaders, %u runs that nobody was left of\n", n_regroups, n_commits,
                  n_crashes, n_leaders, n_nobody);
    assert_true(n_leaders > CAMPAIGNS / 10);
    assert_true(n_nobody < CAMPAIGNS / 20);
    assert_true(n_regroups > CAMPAIGNS / 2);
    assert_true(n_crashes > CAMPAIGNS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_go_on),
        cmocka_unit_test(the_layers_are_shared_out_evenly),
        cmocka_unit_test(its_node_is_given_back),
        cmocka_unit_test(without_its_leader_a_run_goes_on),
        cmocka_unit_test(who_goes_on_when_the_batch_host_has_no_worker),
        cmocka_unit_test(two_at_once_are_one_regroup),
        cmocka_unit_test(another_loss_meanwhile_is_another_regroup),
        cmocka_unit_test(a_handover_that_is_prepared_is_aborted),
        cmocka_unit_test(a_handover_that_is_committed_is_overtaken),
        cmocka_unit_test(a_leaver_that_missed_both_leaves),
        cmocka_unit_test(a_regroup_is_told_as_a_regroup),
        cmocka_unit_test(a_doubtful_commit_is_settled_first),
        cmocka_unit_test(a_record_that_fails_is_tried_again),
        cmocka_unit_test(a_crash_at_every_record),
        cmocka_unit_test(a_worker_that_dies_with_the_daemon_is_found),
        cmocka_unit_test(a_restart_in_the_middle_tells_it_again),
        cmocka_unit_test(a_journal_written_anew_says_the_same),
        cmocka_unit_test(a_node_that_slurm_took_is_not_asked_for),
        cmocka_unit_test(who_is_away_is_not_lost),
        cmocka_unit_test(some_losses_end_the_run),
        cmocka_unit_test(campaigns_end_with_one_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
