/* SPDX-License-Identifier: BSD-3-Clause */
/* See save_clock.h. What must still fit before the end is one more step, the evaluation before or after it
 * where one is due, and a save, all twice as long as they lately were, and checkpoint.before_limit_s for what
 * nobody has measured: a first save, the clock of another machine, a batch script that puts the job back into the
 * queue. That reserve is a tenth of the whole time at most, so that short jobs train at all. */
#include "worker/train/save_clock.h"

#include <stdlib.h>

#include "common/clock.h"
#include "worker/step/step_order.h"

/* Follows a longer one at once, shorter ones slowly: a stall of a minute is forgotten after some steps. */
static uint64_t follow(uint64_t old, uint64_t now)
{
    return now > old ? now : old - (old - now) / 8;
}

void dp_save_clock_start(struct dp_save_clock *c, const struct dp_train_config *config, uint64_t now_ns)
{
    *c = (struct dp_save_clock){.config = config, .start_ns = now_ns, .tried_ns = now_ns, .mark_ns = now_ns};
}

void dp_save_clock_end_at(struct dp_save_clock *c, uint64_t end_ns)
{
    c->end_ns = end_ns;
}

static bool is_eval_due(const struct dp_train_config *c, uint64_t step)
{
    return step >= (uint64_t)c->train.steps || (c->data.eval_every > 0 && step % (uint64_t)c->data.eval_every == 0);
}

/* The first one is taken for as long as so many microbatches of training. */
static uint64_t eval_ns_near(const struct dp_save_clock *c, uint64_t step)
{
    const struct dp_train_config *t = c->config;

    if (!is_eval_due(t, step) && !is_eval_due(t, step + 1))
        return 0;
    return c->eval_ns || t->train.microbatches < 1
               ? c->eval_ns : (uint64_t)((double)c->step_ns * (double)t->data.eval_batches / (double)t->train.microbatches);
}

static bool is_time_over(const struct dp_save_clock *c, uint64_t now_ns, uint64_t step)
{
    double reserve_s = c->config->checkpoint.before_limit_s, whole_s;
    uint64_t next_ns = c->step_ns + c->save_ns + eval_ns_near(c, step);

    if (!c->end_ns || !(reserve_s > 0))
        return false;
    if (now_ns >= c->end_ns)
        return true;
    whole_s = (double)(c->end_ns - c->start_ns) / 1e9;
    if (reserve_s > whole_s / 10)
        reserve_s = whole_s / 10;
    return (double)(c->end_ns - now_ns) / 1e9 <= reserve_s + 2 * (double)next_ns / 1e9;
}

uint32_t dp_save_clock_requests(struct dp_save_clock *c, uint64_t now_ns, uint64_t step)
{
    double every_s = c->config->checkpoint.every_s;

    c->step_ns = follow(c->step_ns, now_ns - c->mark_ns);
    if (!c->config->checkpoint.dir[0])
        return 0;
    if (is_time_over(c, now_ns, step))
        return DP_REQUEST_END;
    return every_s > 0 && (double)(now_ns - c->tried_ns) / 1e9 >= every_s ? DP_REQUEST_SAVE : 0;
}

void dp_save_clock_boundary(struct dp_save_clock *c, uint64_t now_ns, const struct dp_save_clock_took *took)
{
    c->mark_ns = now_ns;
    if (took->eval_ns)
        c->eval_ns = follow(c->eval_ns, took->eval_ns);
    if (!took->save_ns)
        return;
    c->tried_ns = now_ns;
    c->save_ns = follow(c->save_ns, took->save_ns);
}

uint64_t dp_save_clock_env_end(uint64_t now_ns, uint64_t wall_ns)
{
    const char *text = getenv("SLURM_JOB_END_TIME");
    unsigned long long end_s = text ? strtoull(text, NULL, 10) : 0;
    uint64_t wall_s = wall_ns / DP_SECOND_NS;

    /* what lies in the past, or more than ten years ahead, is no end of this job */
    if (end_s <= wall_s || end_s - wall_s > 10 * 366 * 86400ull)
        return 0;
    return now_ns + (end_s - wall_s) * DP_SECOND_NS;
}
