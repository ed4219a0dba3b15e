/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a training run's keys, and the checks that need more than one key (train_config.h).
 *
 * The defaults are a byte-level GPT of 1.7 million parameters that trains on two cores; etc/gpt-prune.conf
 * and etc/gpt2-124m.conf list every key, which tests/unit/worker/test_config.c checks against this table.
 */
#include "worker/model/train_config.h"

#include <stddef.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/run/layout.h"
#include "common/schedule/list.h"
#include "kernels/backend.h"
#include "kernels/granularity.h"

#define AT(member) offsetof(struct dp_train_config, member)
#define INT(section, key, low, high, fallback, help)                                               \
    {#section, #key, DP_CONF_INT, AT(section.key), 0, low, high, fallback, NULL, help}
#define FLOAT(section, key, low, high, fallback, help)                                             \
    {#section, #key, DP_CONF_FLOAT, AT(section.key), 0, low, high, fallback, NULL, help}
#define BOOL(section, key, fallback, help)                                                         \
    {#section, #key, DP_CONF_BOOL, AT(section.key), 0, 0, 0, fallback, NULL, help}
#define TEXT(section, key, fallback, choices, help)                                                \
    {#section, #key, DP_CONF_STRING, AT(section.key),                                              \
     sizeof((struct dp_train_config *)0)->section.key, 0, 0, fallback, choices, help}

static const struct dp_conf_key keys[] = {
    INT(model, blocks, 1, DP_MAX_LAYERS - 2, "8", "transformer blocks; the model has two layers more"),
    INT(model, channels, 1, 65536, "128", "width of the model, a multiple of heads"),
    INT(model, heads, 1, 1024, "4", "attention heads per block"),
    INT(model, context, 1, 65536, "128", "tokens that a prediction sees"),
    INT(model, vocabulary, 2, 1048576, "256", "different tokens: 256 for text, 50257 for GPT-2's .bin files"),
    BOOL(model, tied_head, "false", "the head uses the token embedding instead of a matrix of its own"),

    INT(train, steps, 1, 1e9, "600", "optimizer steps"),
    INT(train, batch, 1, 65536, "4", "rows per microbatch"),
    INT(train, microbatches, 1, 4096, "8", "microbatches per step"),
    FLOAT(train, lr, 0, 10, "3e-3", "learning rate at the end of the warm-up"),
    FLOAT(train, min_lr, 0, 10, "3e-4", "learning rate at the last step (cosine between the two)"),
    INT(train, warmup, 0, 1e9, "40", "steps of linear warm-up"),
    FLOAT(train, beta1, 0, 0.999999, "0.9", "AdamW: decay of the mean of the gradients"),
    FLOAT(train, beta2, 0, 0.999999, "0.95", "AdamW: decay of the mean of their squares"),
    FLOAT(train, eps, 1e-30, 1, "1e-8", "AdamW: added to the root"),
    FLOAT(train, weight_decay, 0, 10, "0.1", "AdamW: decoupled decay of matrices and embeddings"),
    FLOAT(train, clip, 0, 1e9, "1.0", "largest global norm of the gradient, 0: no clipping"),
    INT(train, seed, 0, 9.3e18, "1", "seed of weights and sampling"),

    TEXT(data, path, "", NULL, "text file, or GPT-2 tokens as llm.c writes them (.bin)"),
    TEXT(data, format, "auto", "text|tokens|auto", "auto tells .bin files by their first bytes"),
    FLOAT(data, validation, 0, 0.5, "0.05", "fraction at the end of the file that is not trained on"),
    INT(data, eval_every, 0, 1e9, "100", "steps between validations, 0: only at the end"),
    INT(data, eval_batches, 0, 1e6, "8", "microbatches per validation, 0: no validation"),

    INT(prune, begin, 0, 1e9, "0", "step of the first pruning, begin = end = 0: no pruning"),
    INT(prune, end, 0, 1e9, "0", "step of the last pruning, which reaches `final`"),
    INT(prune, every, 1, 1e9, "20", "steps between prunings"),
    FLOAT(prune, initial, 0, 0.9999, "0.0", "sparsity of all prunable matrices together at `begin`"),
    FLOAT(prune, final, 0, 0.9999, "0.9", "sparsity at `end`"),
    TEXT(prune, pattern, "global", "global", "global: the smallest magnitudes of all matrices together"),
    TEXT(prune, granularity, "weight", DP_GRANULARITY_CHOICES,
         "single weights, or blocks of so many outputs x inputs, by their L2 norm"),

    INT(freeze, layers, 0, DP_MAX_LAYERS - 1, "0", "so many layers, from the embedding on, only go forward in the end; 0: no freezing"),
    INT(freeze, begin, 0, 1e9, "0", "step of the first freezing; begin = end = 0: all of it before the first step"),
    INT(freeze, end, 0, 1e9, "0", "step of the last freezing"),
    INT(freeze, every, 1, 1e9, "20", "steps between freezings"),
    TEXT(freeze, rule, "linear", "linear|geometric|change|noise",
         "how many at each: evenly more, a share of the rest, or what the gradients say (doc/schemes.md)"),
    FLOAT(freeze, share, 0.001, 0.999, "0.3333333333333333", "geometric: of those that are left, at each freezing"),
    FLOAT(freeze, noise, 0, 1, "0.05", "noise: a layer is frozen whose signal-to-noise is below it, and those before it"),

    FLOAT(drop, rate, 0, 0.9, "0.0", "share of the microbatches that leave out the last block, those before it less; 0: none"),

    TEXT(pipeline, schedule, "1f1b", &DP_SCHEDULES_TRAINED(DP_SCHEDULE_BAR)[1], "order of forwards and backwards"),
    TEXT(pipeline, backend, "cpu", "cpu|cuda", "where the layers are computed"),
    INT(pipeline, threads, 1, 1024, "1", "compute threads of a worker (cpu)"),
    INT(pipeline, memory_mb, 0, 1e9, "0",
        "MiB that a worker's layers may take, 0: what its cgroup and rlimits leave"),
    TEXT(pipeline, layout, "", NULL, "layers of each worker to begin with, 0-4|5-9 or Megatron's Et*4|t*4L; empty: parameters evenly"),
    BOOL(pipeline, pin, "true", "bind a worker to its cores"),
    TEXT(pipeline, wireup, "auto", "auto|daemon|pmix",
         "how workers meet: by the launcher's PMIx, or by the daemons; auto: by PMIx where it is"),
    TEXT(pipeline, link, "auto", "auto|off",
         "messages of neighbours on one node; auto: from device to device where both can; off: through the host"),
    TEXT(pipeline, record, "off", "off|on",
         "on: what a device is told in a step is recorded and replayed, same bits (cuda; on an H200 no faster with GPT-2)"),

    TEXT(handover, background, "auto", "auto|always|off",
         "layers that move are copied while training goes on; auto: where it would stand still for a twentieth of a step, and 20 ms"),
    INT(handover, copies, 0, 1, "0", "1: a worker on another node follows each layer, for when it is lost; 0: as --dynpipe-copies says"),
    FLOAT(handover, max_rate, 0, 1e6, "0", "MB that are copied so in a second to each worker; 0: what costs a twentieth of a step"),

    TEXT(checkpoint, dir, "", NULL, "directory of the checkpoints, empty: none are written"),
    INT(checkpoint, every, 0, 1e9, "0", "steps between checkpoints, 0: as every_s says, on request and at the end"),
    FLOAT(checkpoint, every_s, 0, 1e9, "900", "seconds between checkpoints, 0: as every says, on request and at the end"),
    FLOAT(checkpoint, before_limit_s, 0, 1e6, "60",
          "seconds before the job's time limit at which the run saves and stops; 0: when Slurm's SIGTERM comes"),
    INT(checkpoint, keep, 1, 1e6, "2", "newest checkpoints that stay"),
    TEXT(checkpoint, weights, "", NULL,
         "a checkpoint whose weights a run that does not resume begins with, or a folder: its newest one; empty: new ones"),
    TEXT(checkpoint, resume, "auto", NULL, "auto: the newest complete one in dir, none, or a path"),

    TEXT(output, log, "", NULL, "file of JSON lines, one per step, empty: none"),
    INT(output, every, 1, 1e9, "10", "steps between two lines on the terminal"),
    TEXT(output, trace, "", NULL, "JSON lines with the layers' costs over time, in FILE.RANK; empty: none"),
    TEXT(output, tune, "", NULL, "table of sparse crossovers, empty: in ~/.cache/dynpipe"),
    {0},
};

const struct dp_conf_key *dp_train_config_keys(void)
{
    return keys;
}

static int check_model(const struct dp_train_config *c, struct dp_err *err)
{
    int64_t wide = 4 * c->model.channels, widest = c->model.vocabulary > wide ? c->model.vocabulary : wide;

    if (c->model.channels % c->model.heads)
        return dp_err_set(err, DP_EINVAL, "model.heads: %lld heads do not divide %lld channels",
                          (long long)c->model.heads, (long long)c->model.channels);
    /* one microbatch's largest tensor: far from where a product of sizes could wrap */
    if ((double)c->train.batch * (double)c->model.context * (double)widest > 1e12)
        return dp_err_set(err, DP_EINVAL, "train.batch: a microbatch of %lld rows of %lld tokens is too large",
                          (long long)c->train.batch, (long long)c->model.context);
    return 0;
}

int64_t dp_train_block_rows(const struct dp_train_config *c)
{
    int64_t rows = dp_granularity_rows(c->prune.granularity);

    return rows ? rows : 1;
}

int dp_train_config_check(const struct dp_train_config *c, struct dp_err *err)
{
    if (check_model(c, err) < 0)
        return -1;
    if (c->train.min_lr > c->train.lr)
        return dp_err_set(err, DP_EINVAL, "train.min_lr: %g is more than train.lr %g", c->train.min_lr,
                          c->train.lr);
    if (c->checkpoint.every && !c->checkpoint.dir[0])
        return dp_err_set(err, DP_EINVAL, "checkpoint.every: requires checkpoint.dir");
    if (!c->checkpoint.resume[0])
        return dp_err_set(err, DP_EINVAL, "checkpoint.resume: must not be empty; it takes auto, none or a path");
    if (c->data.eval_batches && c->data.validation == 0)
        return dp_err_set(err, DP_EINVAL, "data.validation: 0 leaves nothing for the %lld data.eval_batches",
                          (long long)c->data.eval_batches);
    return 0;
}

size_t dp_stage_message_bytes(const struct dp_train_config *c, uint32_t act_bytes)
{
    return (size_t)(c->train.batch * c->model.context * c->model.channels) * act_bytes;
}

int dp_train_config_load(const char *path, int n_overrides, char *const overrides[],
                         struct dp_train_config *out, struct dp_err *err)
{
    struct dp_train_config fresh;

    memset(&fresh, 0, sizeof fresh);
    if (dp_conf_load(path, keys, NULL, &fresh, err) < 0)
        return -1;
    for (int i = 0; i < n_overrides; i++)
        if (dp_conf_set(keys, overrides[i], "command line", &fresh, err) < 0)
            return -1;
    if (dp_train_config_check(&fresh, err) < 0)
        return dp_err_prefix(err, "%s", path ? path : "defaults");
    *out = fresh;
    return 0;
}
