/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring the shapes of a model before a run prunes (dp_model_tune in layer.h). */
#include "worker/model/model.h"

int dp_model_tune(const struct dp_train_config *config, struct dp_backend *be, struct dp_tune *tune,
                  struct dp_err *err)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    uint32_t n = dp_model_specs(config, 1, spec);

    if (config->prune.end == 0)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (spec[i].prunable && spec[i].rows <= DP_SPARSE_MAX && spec[i].cols <= DP_SPARSE_MAX &&
            dp_tune_add(tune, be, spec[i].rows, spec[i].cols,
                                            config->train.batch * config->model.context,
                                            dp_train_block_rows(config), err) < 0)
            return dp_err_prefix(err, "%s", spec[i].name);
    return 0;
}
