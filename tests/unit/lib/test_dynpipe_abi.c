/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs were compiled against: a field that moves, or a number that changes, breaks them silently. New fields go to the end
 * of a struct that has a size; new lines here. Numbers are those of machines with pointers of 8 bytes. */
#include "lib/dynpipe.h"

#include "tests/unit/unit.h"

#define FIELD(type, field, at) {#type "." #field, offsetof(struct dynpipe_##type, field), at}
#define SIZE(type, bytes) {"sizeof " #type, sizeof(struct dynpipe_##type), bytes}
#define NUMBER(name, value) {#name, (uint64_t)(int64_t)(name), (uint64_t)(int64_t)(value)}

static const struct {
    const char *name;
    uint64_t is, was;
} golden[] = {
    FIELD(run, size, 0), FIELD(run, traits, 4), FIELD(run, rank, 8), FIELD(run, n_workers, 12), FIELD(run, n_layers, 16),
    FIELD(run, schedule, 20), FIELD(run, microbatches, 24), FIELD(run, tokens_per_microbatch, 28), FIELD(run, step, 32),
    FIELD(run, steps_total, 40), FIELD(run, boundary_bytes, 48), FIELD(run, mem_limit_bytes, 56), FIELD(run, cut, 64),
    FIELD(run, change, 72), FIELD(run, n_changes, 80), FIELD(run, leave_s, 84), FIELD(run, doubt_s, 88), FIELD(run, zero, 92),
    FIELD(run, device, 96), FIELD(run, trainer, 104), FIELD(run, checkpoint_dir, 112), FIELD(run, socket, 120), SIZE(run, 128),
    FIELD(change, step, 0), FIELD(change, value, 8), FIELD(change, kind, 16), FIELD(change, zero, 20), SIZE(change, 24),
    FIELD(load, fwd_ns, 0), FIELD(load, bwd_input_ns, 8), FIELD(load, bwd_weight_ns, 16), FIELD(load, state_bytes, 24),
    FIELD(load, act_bytes, 32), FIELD(load, params, 40), FIELD(load, nnz, 48), SIZE(load, 56),
    FIELD(step, size, 0), FIELD(step, zero, 4), FIELD(step, step, 8), FIELD(step, wall_ns, 16), FIELD(step, wait_ns, 24),
    FIELD(step, optimizer_ns, 32), FIELD(step, busy_ns, 40), FIELD(step, mem_bytes, 48), FIELD(step, loss, 56),
    FIELD(step, grad_norm, 64), SIZE(step, 72),
    FIELD(plan, size, 0), FIELD(plan, n_workers, 4), FIELD(plan, n_layers, 8), FIELD(plan, n_moves, 12), FIELD(plan, migration, 16),
    FIELD(plan, old_cut, 24), FIELD(plan, cut, 32), FIELD(plan, gone, 40), FIELD(plan, now_ns, 48), FIELD(plan, then_ns, 56),
    SIZE(plan, 64),
    NUMBER(DYNPIPE_ABI, 1), NUMBER(DYNPIPE_MAX_WORKERS, 512), NUMBER(DYNPIPE_MAX_LAYERS, 1024), NUMBER(DYNPIPE_CAN_MOVE, 1),
    NUMBER(DYNPIPE_CAN_LEAVE, 2), NUMBER(DYNPIPE_EQUAL_COST, 4), NUMBER(DYNPIPE_GPIPE, 0), NUMBER(DYNPIPE_1F1B, 1),
    NUMBER(DYNPIPE_PRUNE, 1), NUMBER(DYNPIPE_FREEZE, 2), NUMBER(DYNPIPE_ABORT, 0), NUMBER(DYNPIPE_COMMIT, 1),
    NUMBER(DYNPIPE_AGAIN, 2), NUMBER(DYNPIPE_END, -1), NUMBER(DYNPIPE_BUSY, -2), NUMBER(DYNPIPE_IDLE, 0),
    NUMBER(DYNPIPE_KEEPING, 1), NUMBER(DYNPIPE_LEAVING, 2), NUMBER(DYNPIPE_LEAVE, 3), NUMBER(DYNPIPE_COMPLETED, 0),
    NUMBER(DYNPIPE_DRAINED, 1), NUMBER(DYNPIPE_FAILED, 2), NUMBER(DYNPIPE_SAVED, 3), NUMBER(DYNPIPE_EV_PRUNED, 0),
    NUMBER(DYNPIPE_EV_SAVED, 1), NUMBER(DYNPIPE_EV_EVAL, 2), NUMBER(DYNPIPE_EV_RESUMED, 3), NUMBER(DYNPIPE_EV_FAILED, 4),
    NUMBER(DYNPIPE_EV_FROZEN, 7),
};

static void nothing_has_moved(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        skip();
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        if (golden[i].is != golden[i].was)
            fail_msg("%s is %llu and was %llu", golden[i].name, (unsigned long long)golden[i].is, (unsigned long long)golden[i].was);
}

static void the_library_says_which_it_is(void **state)
{
    (void)state;
    assert_int_equal(dynpipe_abi(), DYNPIPE_ABI);
    assert_non_null(strchr(dynpipe_version(), '.'));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_has_moved),
    cmocka_unit_test(the_library_says_which_it_is),
};

TEST_MAIN("dynpipe_abi", tests)
