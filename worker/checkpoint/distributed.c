/* SPDX-License-Identifier: BSD-3-Clause */
/* See distributed.h. Every phase ends with an agreement, so that no worker writes into a checkpoint that
 * another one has given up, and all go on (or end) together. */
#include "worker/checkpoint/distributed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

/* A device that has failed, however late it says so, has no state that is worth keeping. */
static int write_layers(const struct dp_train_config *config, struct dp_backend *be, struct dp_stage *stage, uint64_t step,
                        struct dp_ckpt_entry *entries, struct dp_err *err)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++)
        if (dp_ckpt_write_layer(config, step, dp_stage_layer(stage, i), &entries[i], err) < 0)
            return -1;
    return be->ops->sync(be, err);
}

/* All entries in layer order to the leader. */
static int gather_entries(struct dp_collectives *s, const struct dp_ckpt_entry *mine, uint32_t n,
                          struct dp_ckpt_entry *all, struct dp_err *err)
{
    size_t offset[DP_MAX_WORKERS + 1];

    for (uint32_t r = 0; r <= s->layout->n_workers; r++)
        offset[r] = s->layout->cut[r] * sizeof *all;
    return dp_collectives_gather(s, mine, n * sizeof *mine, all, offset, err);
}

/* From here on the leader can finish it: not before all have come so far. */
static void note_begun(const struct dp_collectives *s, const struct dp_train_config *config, uint64_t step,
                       const struct dp_ckpt_entry *mine, struct dp_saved *saved)
{
    const uint32_t *cut = s->layout->cut;

    dp_ckpt_name(config, step, saved->begun, sizeof saved->begun);
    saved->has_layer = cut[s->rank + 1] > cut[s->rank];
    saved->layer = cut[s->rank];
    saved->entry = mine[0];
}

static int save(struct dp_collectives *s, const struct dp_train_config *config, struct dp_backend *be,
                const struct dp_tune *tune, struct dp_stage *stage, uint64_t step, struct dp_saved *saved, struct dp_err *err)
{
    struct dp_ckpt_entry mine[DP_MAX_LAYERS], all[DP_MAX_LAYERS];
    int rc = dp_collectives_leads(s) ? dp_ckpt_begin(config, step, err) : 0;

    if (dp_collectives_agree(s, rc, err) < 0)
        return -1;
    memset(mine, 0, sizeof mine);
    rc = write_layers(config, be, stage, step, mine, err);
    if (dp_collectives_agree(s, rc, err) < 0)
        return -1;
    note_begun(s, config, step, mine, saved);
    if (gather_entries(s, mine, dp_stage_n_layers(stage), all, err) < 0)
        return -1;
    rc = dp_collectives_leads(s) ? dp_ckpt_commit(config, step, tune, all, err) : 0;
    return dp_collectives_agree(s, rc, err);
}

int dp_distributed_save(struct dp_collectives *s, const struct dp_train_config *config, struct dp_backend *be,
                        const struct dp_tune *tune, struct dp_stage *stage, uint64_t step, struct dp_saved *saved, struct dp_err *err)
{
    int rc = save(s, config, be, tune, stage, step, saved, err);

    if (rc == 0) {
        memcpy(saved->path, saved->begun, sizeof saved->path);
    } else if (err->code != DP_EGONE) { /* all have agreed: it is not there, and nobody writes any more */
        memcpy(saved->begun, saved->path, sizeof saved->begun);
        if (dp_collectives_leads(s))
            dp_ckpt_abandon(config, step);
    }
    return rc;
}

/* The table lives in this run (and its checkpoints) only: the next one measures anew and may choose
 * otherwise, which changes the last bits of its sums. */
static void warn_not_kept(const struct dp_err *why)
{
    dp_warn("dense-or-sparse table not kept: %s; another run may choose otherwise, so its losses may differ in "
            "their last digits: output.tune names a file that can be written", why->text);
}

static int find_tune_file(const struct dp_train_config *config, struct dp_backend *be, char *path, size_t cap, struct dp_err *err)
{
    if (!config->output.tune[0])
        return dp_tune_default_path(be, path, cap, err);
    snprintf(path, cap, "%s", config->output.tune);
    return 0;
}

/* Was a shape measured that the file did not have? */
static bool has_new(const struct dp_tune *now, const struct dp_tune *file)
{
    for (uint32_t i = 0; i < now->n_entries; i++) {
        const struct dp_tune_entry *e = &now->entry[i];
        uint32_t k = 0;

        while (k < file->n_entries && memcmp(e, &file->entry[k], sizeof *e) != 0)
            k++;
        if (k == file->n_entries)
            return true;
    }
    return false;
}

/* From the file; what it lacks is measured and kept there. A file or folder that cannot be read or
 * written is no reason not to train; a damaged one is, for its table may be what older runs used. */
static int decide_tune(const struct dp_train_config *config, struct dp_backend *be, struct dp_tune *tune,
                       struct dp_err *err)
{
    struct dp_tune before;
    struct dp_err why = {0};
    char path[1024];
    bool has_file;

    if (config->prune.end == 0)
        return 0; /* nothing to choose */
    has_file = find_tune_file(config, be, path, sizeof path, &why) == 0 && dp_tune_load(path, be, tune, &why) == 0;
    if (!has_file && why.code == DP_ECORRUPT) {
        *err = why;
        return -1;
    }
    before = *tune;
    if (dp_model_tune(config, be, tune, err) < 0)
        return -1;
    if (has_new(tune, &before) && (!has_file || dp_tune_save(path, be, tune, &why) < 0))
        warn_not_kept(&why);
    return 0;
}

/* Whoever goes back to an earlier step, or to the beginning, may want them still. */
static void warn_of_later(const struct dp_train_config *config, uint64_t step)
{
    uint64_t newest;

    if (dp_ckpt_newest(config, &newest, NULL) > 0 && newest > step)
        dp_warn("checkpoint.dir %s has a checkpoint of step %llu, this run begins at step %llu: later ones stay until it comes to "
                "their steps, and checkpoint.resume=auto would go on from the latest", config->checkpoint.dir,
                (unsigned long long)newest, (unsigned long long)step);
}

bool dp_start_resumes(const struct dp_start *start)
{
    return start->path[0] && !start->is_weights;
}

int dp_start_find(const struct dp_train_config *config, struct dp_start *out, struct dp_err *err)
{
    memset(out, 0, sizeof *out);
    if (strcmp(config->checkpoint.resume, "none") != 0 &&
        dp_ckpt_find(config, config->checkpoint.resume, &out->step, out->path, sizeof out->path, &out->tune, err) < 0)
        return -1;
    if (out->path[0] || !config->checkpoint.weights[0])
        return 0;
    if (dp_ckpt_find_in(config, config->checkpoint.weights, &out->step, out->path, sizeof out->path, &out->tune, err) < 0)
        return dp_err_prefix(err, "checkpoint.weights");
    out->is_weights = true;
    out->step = 0;
    return 0;
}

/* The leader's part of the start. */
static int decide_start(const struct dp_train_config *config, struct dp_backend *be, struct dp_start *out,
                        struct dp_err *err)
{
    if (dp_start_find(config, out, err) < 0)
        return -1;
    warn_of_later(config, out->step);
    if (dp_start_resumes(out))
        return 0;
    /* Weights that were pruned before keep the table by which they are stored. */
    return out->tune.n_entries ? dp_model_tune(config, be, &out->tune, err) : decide_tune(config, be, &out->tune, err);
}

int dp_start_agree(struct dp_collectives *s, const struct dp_train_config *config, struct dp_backend *be,
                   struct dp_start *out, struct dp_err *err)
{
    int rc = dp_collectives_leads(s) ? decide_start(config, be, out, err) : 0;

    if (dp_collectives_agree(s, rc, err) < 0)
        return -1;
    return dp_collectives_broadcast(s, out, sizeof *out, err);
}

/* Has the leader that is lost finished what was begun? It is there then, and has the layers that those who are left wrote: a run
 * before this one may have left one of the same step. Whoever wrote none does not know. Collective. */
static int is_begun_there(struct dp_collectives *s, const struct dp_train_config *config, const struct dp_saved *saved, bool *out,
                          struct dp_err *err)
{
    uint64_t answers[2] = {0}; /* no, yes */

    if (strcmp(saved->begun, saved->path) != 0 && saved->has_layer)
        answers[dp_ckpt_has(config, saved->begun, saved->layer, &saved->entry)] = 1;
    if (dp_collectives_allreduce(s, answers, 2, err) < 0)
        return -1;
    *out = answers[1] && !answers[0];
    return 0;
}

int dp_start_again(struct dp_collectives *s, const struct dp_train_config *config, struct dp_saved *saved, struct dp_start *out,
                   struct dp_err *err)
{
    struct dp_start found = *out;
    bool is_there;
    int rc = 0;

    if (is_begun_there(s, config, saved, &is_there, err) < 0)
        return -1;
    if (is_there)
        memcpy(saved->path, saved->begun, sizeof saved->path);
    if (saved->path[0])
        found.is_weights = false;
    if (dp_collectives_leads(s) && saved->path[0])
        rc = dp_ckpt_find(config, saved->path, &found.step, found.path, sizeof found.path, &found.tune, err);
    if (dp_collectives_agree(s, rc, err) < 0 || dp_collectives_broadcast(s, &found, sizeof found, err) < 0)
        return -1;
    *out = found;
    return 0;
}

static struct dp_layer *make_layer(const struct dp_train_config *config, struct dp_backend *be,
                                   const struct dp_start *start, uint32_t index, struct dp_err *err)
{
    struct dp_layer *layer;

    if (!start->path[0])
        return dp_layer_create(config, index, be, &start->tune, err);
    layer = dp_ckpt_read_layer(start->path, config, index, be, &start->tune, err);
    if (layer && start->is_weights && dp_layer_renew(layer, err) < 0) {
        dp_layer_destroy(layer);
        return NULL;
    }
    return layer;
}

struct dp_stage *dp_start_stage(const struct dp_train_config *config, struct dp_backend *be,
                                const struct dp_start *start, const struct dp_layout *layout, uint32_t rank,
                                struct dp_err *err)
{
    struct dp_layer *layers[DP_MAX_LAYERS];
    uint32_t n = layout->cut[rank + 1] - layout->cut[rank];
    struct dp_stage *stage = NULL;
    uint32_t have = 0;

    for (; have < n; have++) {
        layers[have] = make_layer(config, be, start, layout->cut[rank] + have, err);
        if (!layers[have])
            goto fail;
    }
    stage = dp_stage_create(config, be, layers, n, dp_stage_in_flight(config, layout, rank), err);
    if (stage)
        return stage;
fail:
    while (have--)
        dp_layer_destroy(layers[have]);
    return NULL;
}
