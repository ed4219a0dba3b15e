/* SPDX-License-Identifier: BSD-3-Clause */
/* See answer.h. */
#include "policies/predict/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "policies/predict/predict.h"

/* What dp_layout_check() cannot know: the size, and who may own layers. */
static int answer_check(const struct dp_policy_in *in, const struct dp_layout *l, struct dp_err *err)
{
    if (dp_layout_check(l, err) < 0)
        return -1;
    if (l->n_layers != in->n_layers || l->n_workers != in->n_devices)
        return dp_err_set(err, DP_EPROTO, "layout of %u layers on %u workers, asked for %u on %u", l->n_layers,
                          l->n_workers, in->n_layers, in->n_devices);
    if (l->epoch != in->current->epoch)
        return dp_err_set(err, DP_EPROTO, "layout of epoch %" PRIu64 ", asked in %" PRIu64, l->epoch,
                          in->current->epoch);
    for (uint32_t d = 0; d < in->n_devices; d++) {
        if (!l->gone[d] != !in->current->gone[d])
            return dp_err_set(err, DP_EPROTO, "says that worker %u %s", d, l->gone[d] ? "left" : "came back");
        if (l->cut[d + 1] != l->cut[d] && (!in->device[d].is_allowed || in->current->gone[d]))
            return dp_err_set(err, DP_EPROTO, "gives layers to worker %u, which may not own any", d);
    }
    return 0;
}

static int memory_check(const struct dp_policy_in *in, const struct dp_layout *l, const struct dp_sim_stage_out *stage,
                        struct dp_err *err)
{
    for (uint32_t d = 0, s = 0; d < in->n_devices; d++) {
        uint64_t limit = in->device[d].mem_limit_bytes;

        if (l->cut[d + 1] == l->cut[d])
            continue;
        if (limit && stage[s].mem_bytes > limit)
            return dp_err_set(err, DP_ENOMEM, "worker %u would need %.1f MiB of its %.1f MiB", d,
                              (double)stage[s].mem_bytes / 1048576.0, (double)limit / 1048576.0);
        s++;
    }
    return 0;
}

/* Texts of a policy go to logs, terminals and JSON. */
static void make_printable(char *text, size_t cap)
{
    text[cap - 1] = '\0';
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            *text = '?';
}

int dp_policy_predict(const struct dp_policy_in *in, struct dp_policy_out *out, struct dp_err *err)
{
    struct dp_sim_stage_out *stage = calloc(DP_MAX_WORKERS, sizeof *stage);
    int rc = -1;

    out->bottleneck_ns = out->iteration_ns = 0;
    if (!stage)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    if (dp_predict_layout(in, &out->layout, stage, &out->iteration_ns, err) < 0 ||
        memory_check(in, &out->layout, stage, err) < 0)
        goto out;
    for (uint32_t s = 0; s < dp_layout_active(&out->layout); s++)
        if (stage[s].busy_ns > out->bottleneck_ns)
            out->bottleneck_ns = stage[s].busy_ns;
    rc = 0;
out:
    free(stage);
    return rc;
}

int dp_policy_run(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                  struct dp_policy_out *out, struct dp_err *err)
{
    struct dp_err local = {.code = DP_EINVAL};
    int rc = dp_policy_check(policy, &local);

    if (rc == 0) {
        memset(out, 0, sizeof *out);
        rc = policy->decide(state, in, out, &local);
        make_printable(out->reason, sizeof out->reason);
        make_printable(local.text, sizeof local.text);
        if (rc == 0 && answer_check(in, &out->layout, &local) < 0) {
            local.code = DP_EPROTO;
            rc = -1;
        } else if (rc == 0)
            rc = dp_policy_predict(in, out, &local);
        else if (!local.text[0])
            dp_err_set(&local, local.code, "it gave no layout and no reason");
    }
    if (rc == 0)
        return 0;
    if (err) {
        *err = local;
        dp_err_prefix(err, "policy %s", policy->name ? policy->name : "?");
    }
    return -1;
}
