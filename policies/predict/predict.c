/* SPDX-License-Identifier: BSD-3-Clause */
/* See predict.h. */
#include "policies/predict/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/predict/links.h"

static uint64_t at_speed(uint64_t ns, double speed)
{
    return speed == 1.0 ? ns : (uint64_t)ceil((double)ns / speed);
}

static void stage_of(const struct dp_policy_in *in, const struct dp_layout *l, uint32_t d, struct dp_sim_stage *out)
{
    double speed = in->device[d].speed;
    uint64_t bwd = 0;

    memset(out, 0, sizeof *out);
    for (uint32_t i = l->cut[d]; i < l->cut[d + 1]; i++) {
        out->fwd_ns += in->layer[i].fwd_ns;
        bwd += in->layer[i].bwd_input_ns + in->layer[i].bwd_weight_ns;
        out->opt_ns += in->layer_opt_ns ? in->layer_opt_ns[i] : 0;
        out->state_bytes += in->layer[i].state_bytes;
        out->act_bytes += in->layer[i].act_bytes;
    }
    out->fwd_ns = at_speed(out->fwd_ns, speed);
    out->bwd_input_ns = at_speed(bwd, speed); /* both parts: no worker's schedule tells them apart */
    out->opt_ns = at_speed(out->opt_ns, speed);
}

/* From device a to device b. */
static struct dp_sim_link link_of(const struct dp_policy_in *in, uint32_t a, uint32_t b)
{
    struct dp_sim_link link = {.latency_ns = (uint64_t)(in->link_latency_s * 1e9)};

    if (in->links)
        link.latency_ns += dp_links_ns(in->links, in->device[a].slot, in->device[b].slot);

    if (in->link_bytes_per_s > 0.0)
        link.send_ns = (uint64_t)((double)in->stage_message_bytes / in->link_bytes_per_s * 1e9);
    return link;
}

int dp_predict_layout(const struct dp_policy_in *in, const struct dp_layout *layout, struct dp_sim_stage_out *out,
                      uint64_t *iteration_ns, struct dp_err *err)
{
    uint32_t n = dp_layout_active(layout), k = 0, last = 0;
    struct dp_sim_stage *stage = calloc(n + 1, sizeof *stage);
    struct dp_sim_link *link = calloc(n + 1, sizeof *link);
    struct dp_sim_in sim = {.replicas = 1, .stage = stage, .link = link};
    struct dp_sim_out result = {.device = out};
    struct dp_sim_program *program = NULL;
    struct dp_sim_actions actions;
    int rc = -1;

    if (!stage || !link) {
        dp_err_set(err, DP_ENOMEM, "simulation: out of memory");
        goto out;
    }
    if (dp_sim_actions_create(in->schedule, n, 1, in->microbatches, &actions, err) < 0)
        goto out;
    program = dp_sim_program_create(&actions, err);
    if (!program)
        goto out;
    for (uint32_t d = 0; d < layout->n_workers; d++)
        if (layout->cut[d + 1] > layout->cut[d]) {
            if (k)
                link[k - 1] = link_of(in, last, d);
            stage_of(in, layout, d, &stage[k++]);
            last = d;
        }
    if (n)
        link[n - 1] = link_of(in, last, last); /* behind the last stage no message goes in these schedules */
    sim.program = program;
    rc = dp_sim_iterate(&sim, &result, err);
    *iteration_ns = result.iteration_ns;
out:
    dp_sim_program_destroy(program);
    free(stage);
    free(link);
    return rc;
}
