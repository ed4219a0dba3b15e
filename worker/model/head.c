/* SPDX-License-Identifier: BSD-3-Clause */
/* The head of the model (layer_run.h): the final norm, the logits and the loss.
 *
 * The head's gradients are formed in forward, while a block of logits is in the cache: all logits would
 * be by far the largest tensor of the model. So the head's weight gradient adds up in the order of
 * forwards, which is that of the microbatches in every schedule, and backward begins with the gradient of
 * the final norm's output. The scale makes it that of the mean over all tokens of the step.
 */
#include "worker/model/layer_ops.h"
#include "worker/model/layer_run.h"
#include "worker/model/model.h"

/* The sum of the losses, in token order; with keep, the head's gradients too. */
static int loss_of(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *targets,
                   double *loss, bool keep, struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const int64_t n = c->train.batch * c->model.context;
    struct dp_param *p = &l->param[DP_HEAD_W];
    const struct dp_head a = {.n = n, .c = c->model.channels, .v = c->model.vocabulary, .loss = work->loss,
                              .dx = keep ? act->dx : NULL, .dw = keep ? p->g : NULL, .x = work->a, .w = p->w,
                              .targets = targets, .overwrite = p->g_is_void,
                              .scale = (float)(1.0 / (double)(n * c->train.microbatches))};
    const struct dp_sum sum = {.n = n, .sum = loss, .x = work->loss, .add_to_sum = !keep};

    if (l->be->ops->head(l->be, &a, err) < 0 || (loss && l->be->ops->sum(l->be, &sum, err) < 0))
        return -1;
    if (keep)
        p->g_is_void = false;
    act->has_loss = keep;
    return 0;
}

int dp_head_forward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *targets,
                    double *loss, bool keep, struct dp_err *err)
{
    if (dp_layer_norm(l, dp_rows(work->a), act->mean1, act->rstd1, act->x, DP_LNF_W, err) < 0 ||
        (targets && loss_of(l, act, work, targets, loss, keep, err) < 0) ||
        (keep && dp_layer_lap(l, &l->fwd_ns, err) < 0))
        return dp_err_prefix(err, "layer %u, forward", l->index);
    return 0;
}

int dp_head_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, struct dp_err *err)
{
    if (!act->has_loss)
        return dp_err_set(err, DP_EINVAL, "layer %u, backward: its forward had no targets", l->index);
    if (dp_layer_norm_back(l, work->d, act->dx, act->x, act->mean1, act->rstd1, DP_LNF_W, false, err) < 0 ||
        dp_layer_lap(l, &l->bwd_input_ns, err) < 0)
        return dp_err_prefix(err, "layer %u, backward", l->index);
    l->timed_microbatches++;
    return 0;
}
