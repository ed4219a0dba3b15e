/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that fails at every single call of a training step, an evaluation, a pruning event and a checkpoint
 * (failing_device.h; hand-overs: test_handover_calls.c): at once, as late as the interface allows, and for lack of memory.
 * Each ends with an error that has the call's name, however late that was; nothing is left over, and nothing of a checkpoint
 * is found but what was whole before. Without memory a checkpoint changes nothing of the model, so that training goes on. */
#include <dirent.h>
#include <unistd.h>

#include "tests/unit/worker/engine.h"
#include "tests/unit/worker/failing_device.h"
#include "worker/checkpoint/ckpt_file.h"
#include "worker/checkpoint/distributed.h"

#define MOST 20000 /* calls, far more than there are */

struct subject {
    struct dp_train_config config;
    struct dp_tune tune;
    struct dp_backend *be;
    struct dp_stage *stage;
    uint32_t *tokens; /* [device] and targets behind them */
    double *loss;     /* [device] */
};

typedef int work_fn(struct subject *s, struct dp_err *err);

static char dir[] = "/tmp/dpcallsXXXXXX";

static void begin(struct subject *s)
{
    const size_t n = (size_t)(s->config.train.batch * s->config.model.context);
    uint32_t host[2 * 64];
    void *mem;

    assert_true(2 * n <= sizeof host / sizeof host[0]);
    s->be = failing_device_create(cpu());
    assert_non_null(s->be);
    s->stage = stage_of(&s->config, 0, 4, s->be, &s->tune);
    fake_tokens(&s->config, 0, 0, host, host + n);
    assert_int_equal(s->be->ops->alloc(s->be, 2 * n * sizeof *host, &mem, NULL), 0);
    s->tokens = mem;
    assert_int_equal(s->be->ops->put(s->be, mem, host, 2 * n * sizeof *host, NULL), 0);
    assert_int_equal(s->be->ops->alloc(s->be, sizeof *s->loss, &mem, NULL), 0);
    s->loss = mem;
}

static void end(struct subject *s)
{
    s->be->ops->free(s->be, s->tokens);
    s->be->ops->free(s->be, s->loss);
    dp_stage_destroy(s->stage);
    failing_device_destroy(s->be);
}

static int forward(struct subject *s, uint32_t mb, bool keep, struct dp_err *err)
{
    const int64_t n = s->config.train.batch * s->config.model.context;

    return dp_stage_forward(s->stage, mb, NULL, s->tokens, s->tokens + n, NULL, s->loss, keep, err);
}

static int step(struct subject *s, struct dp_err *err)
{
    double squares[4], loss;

    for (uint32_t mb = 0; mb < 2; mb++)
        if (forward(s, mb, true, err) < 0 || dp_stage_backward(s->stage, mb, NULL, s->tokens, err) < 0)
            return -1;
    if (dp_stage_sum_squares(s->stage, err) < 0 || dp_stage_grad_squares(s->stage, squares, err) < 0 ||
        dp_stage_step(s->stage, 0, 1.0, err) < 0)
        return -1;
    return s->be->ops->get(s->be, &loss, s->loss, sizeof loss, err);
}

static int evaluation(struct subject *s, struct dp_err *err)
{
    double loss;

    if (s->be->ops->zero(s->be, s->loss, sizeof *s->loss, err) < 0 || forward(s, 0, false, err) < 0)
        return -1;
    return s->be->ops->get(s->be, &loss, s->loss, sizeof loss, err);
}

/* To sparse matrices, and once more. */
static int pruning(struct subject *s, struct dp_err *err)
{
    double reached;

    if (dp_prune_run(s->stage, NULL, &s->config, 0.5, NULL, NULL, &reached, err) < 0 ||
        dp_prune_run(s->stage, NULL, &s->config, 0.75, NULL, NULL, &reached, err) < 0)
        return -1;
    return s->be->ops->sync(s->be, err); /* a late failure is the next one's who waits */
}

static int checkpoint(struct subject *s, struct dp_err *err)
{
    const struct dp_layout layout = {.n_workers = 1, .n_layers = 4, .cut = {0, 4}};
    struct dp_collectives alone;
    struct dp_saved saved = {0};

    dp_collectives_init(&alone, NULL, &layout, 0);
    return dp_distributed_save(&alone, &s->config, s->be, &s->tune, s->stage, 6, &saved, err);
}

/* All bytes of all layers. */
static uint8_t *state_of(struct subject *s, size_t *bytes)
{
    uint8_t *all = NULL;

    *bytes = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t *one;
        size_t n;

        assert_int_equal(dp_layer_write(dp_stage_layer(s->stage, i), &one, &n, NULL), 0);
        all = realloc(all, *bytes + n);
        assert_non_null(all);
        memcpy(all + *bytes, one, n);
        *bytes += n;
        free(one);
    }
    return all;
}

/* What is saved is in part sparse. */
static void prune_half(struct subject *s)
{
    double reached;

    assert_int_equal(dp_prune_run(s->stage, NULL, &s->config, 0.5, NULL, NULL, &reached, NULL), 0);
}

/* The model is one that nothing happened to. */
static void same_as_fresh(struct subject *s)
{
    struct subject fresh = *s;
    uint8_t *now, *want;
    size_t n_now, n_want;

    failing_device_arm(s->be, FAILS_MEMORY, 0);
    begin(&fresh);
    prune_half(&fresh);
    now = state_of(s, &n_now);
    want = state_of(&fresh, &n_want);
    assert_int_equal(n_now, n_want);
    assert_memory_equal(now, want, n_now);
    free(now);
    free(want);
    end(&fresh);
}

static int n_checkpoints(void)
{
    DIR *d = opendir(dir);
    int n = 0;

    for (const struct dirent *e; d && (e = readdir(d));)
        n += !strncmp(e->d_name, "step-", 5);
    if (d)
        closedir(d);
    return n;
}

static void drop_checkpoint(void)
{
    char path[sizeof dir + 32];

    snprintf(path, sizeof path, "%s/step-00000006", dir);
    assert_int_equal(dp_ckpt_dir_remove(path, NULL), 0);
}

/* Each call fails once; work is what makes them. */
static void sweep(const char *name, work_fn *work, const char *granularity, bool is_survived)
{
    static const char *const hows[N_FAILS_HOW] = {"at once", "late", "memory"};

    for (int how = 0; how < N_FAILS_HOW; how++) {
        struct subject s = {.config = tiny_config()};
        uint32_t at = 1;
        bool is_over = false;

        snprintf(s.config.prune.granularity, sizeof s.config.prune.granularity, "%s", granularity);
        snprintf(s.config.checkpoint.dir, sizeof s.config.checkpoint.dir, "%s", dir);
        s.tune = tune_at(&s.config, 0.3);
        for (; at < MOST && !is_over; at++) {
            struct dp_err err = {0};
            const char *failed;
            int rc;

            begin(&s);
            if (is_survived)
                prune_half(&s);
            failing_device_arm(s.be, (enum fails_how)how, at);
            rc = work(&s, &err);
            failed = failing_device_failed(s.be);
            is_over = !failed;
            if (rc != (failed ? -1 : 0) || (failed && !strstr(err.text, failed)))
                fail_msg("%s, %s, call %u (%s): rc %d: %s", name, hows[how], at, failed ? failed : "none", rc, err.text);
            if (is_survived) {
                assert_int_equal(n_checkpoints(), is_over);
                if (is_over)
                    drop_checkpoint();
                if (how == FAILS_MEMORY && failed)
                    same_as_fresh(&s);
            }
            end(&s);
        }
        assert_true(is_over);
        printf("# %s, %s: %u calls\n", name, hows[how], at - 2);
    }
}

static void a_step(void **state)
{
    (void)state;
    sweep("step", step, "weight", false);
}

static void an_evaluation(void **state)
{
    (void)state;
    sweep("evaluation", evaluation, "weight", false);
}

static void a_pruning_event(void **state)
{
    (void)state;
    sweep("pruning by weights", pruning, "weight", false);
    sweep("pruning by blocks", pruning, "4x1", false);
}

static void a_checkpoint(void **state)
{
    (void)state;
    sweep("checkpoint", checkpoint, "weight", true);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_step),
    cmocka_unit_test(an_evaluation),
    cmocka_unit_test(a_pruning_event),
    cmocka_unit_test(a_checkpoint),
};

int main(void)
{
    return cmocka_run_group_tests_name("device_calls", tests, make_dir, drop_dir);
}
