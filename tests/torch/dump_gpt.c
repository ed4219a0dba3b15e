/* SPDX-License-Identifier: BSD-3-Clause */
/* Run one step of the GPT on backend cpu and write everything that another implementation needs to do
 * the same: tests/torch/gpt_vs_torch.py compares.
 *
 * Use: dump_gpt FILE section.key=value ...   (dp_train_config's keys)
 * The file is a list of records, each a text line "name type rows cols" and then rows * cols values:
 * type i32 or f32 or f64, as they lie in memory. Gradients are named "grad.NAME".
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/model.h"
#include "worker/model/stage.h"

static void record(FILE *f, const char *name, const char *type, int64_t rows, int64_t cols, const void *data,
                   size_t item)
{
    fprintf(f, "%s %s %lld %lld\n", name, type, (long long)rows, (long long)cols);
    if (fwrite(data, item, (size_t)(rows * cols), f) != (size_t)(rows * cols))
        perror("dump_gpt");
}

static void write_config(FILE *f, const struct dp_train_config *c)
{
    const int32_t v[] = {(int32_t)c->model.blocks, (int32_t)c->model.channels, (int32_t)c->model.heads,
                         (int32_t)c->model.context, (int32_t)c->model.vocabulary, c->model.tied_head,
                         (int32_t)c->train.batch, (int32_t)c->train.microbatches};

    record(f, "config", "i32", 1, 8, v, sizeof v[0]);
}

/* Weights far from their start, so that no gradient is tiny and no gain is 1. */
static void shake(struct dp_layer *l)
{
    uint32_t seed = 12345u + l->index;

    for (uint32_t i = 0; i < l->n_params; i++)
        for (int64_t k = 0; k < l->param[i].n; k++) {
            seed = seed * 1664525u + 1013904223u;
            l->param[i].w[k] += 0.2f * (float)((double)(seed >> 8) / 16777216.0 - 0.5);
        }
}

static struct dp_stage *whole_model(const struct dp_train_config *c, struct dp_backend *be,
                                    const struct dp_tune *tune, struct dp_err *err)
{
    uint32_t n = dp_model_layers(c);
    struct dp_layer **layers = calloc(n, sizeof *layers);
    struct dp_stage *stage = NULL;
    uint32_t have = 0;

    for (; layers && have < n; have++) {
        layers[have] = dp_layer_create(c, have, be, tune, err);
        if (!layers[have])
            break;
        shake(layers[have]);
    }
    if (have == n && (!c->model.tied_head ||
                      dp_layer_tied_set(layers[n - 1], dp_layer_tied_weight(layers[0]), err) == 0))
        stage = dp_stage_create(c, be, layers, n, (uint32_t)c->train.microbatches, err);
    for (uint32_t i = 0; i < have && !stage; i++)
        dp_layer_destroy(layers[i]);
    free(layers);
    return stage;
}

static void write_params(FILE *f, struct dp_stage *stage, int gradients)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);

        for (uint32_t j = 0; j < l->n_params; j++) {
            const struct dp_param *p = &l->param[j];
            char name[64];

            if (!p->m) /* the tied head's copy */
                continue;
            snprintf(name, sizeof name, "%s%u.%s", gradients ? "grad." : "", l->index, p->name);
            record(f, name, "f32", p->rows, p->cols, gradients ? p->g : p->w, sizeof(float));
        }
    }
}

/* All microbatches of one step, forward and backward; tokens and loss go to the file. */
static int run_step(FILE *f, const struct dp_train_config *c, struct dp_stage *stage, struct dp_err *err)
{
    const int64_t n = c->train.batch * c->model.context, all = n * c->train.microbatches;
    uint32_t *tokens = calloc((size_t)all, sizeof *tokens), *targets = calloc((size_t)all, sizeof *targets);
    double sum = 0, loss = 0;
    int rc = 0;

    if (!tokens || !targets)
        rc = dp_err_set(err, DP_ENOMEM, "no memory for tokens");
    for (int64_t i = 0; i < all && rc == 0; i++) {
        uint64_t h = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;

        tokens[i] = (uint32_t)((h >> 33) % (uint64_t)c->model.vocabulary);
        targets[i] = (uint32_t)((h >> 41) % (uint64_t)c->model.vocabulary);
    }
    if (rc == 0)
        dp_stage_touch_tokens(stage, tokens, all);
    for (int64_t mb = 0; mb < c->train.microbatches && rc == 0; mb++) {
        rc = dp_stage_forward(stage, (uint32_t)mb, NULL, tokens + mb * n, targets + mb * n, NULL, &loss, true,
                              err);
        if (rc == 0)
            rc = dp_stage_backward(stage, (uint32_t)mb, NULL, tokens + mb * n, err);
        sum += loss;
    }
    if (rc == 0 && c->model.tied_head)
        rc = dp_layer_tied_merge(dp_stage_layer(stage, 0),
                               dp_layer_tied_gradient(dp_stage_layer(stage, dp_model_layers(c) - 1)), err);
    sum /= (double)all;
    if (rc == 0) {
        record(f, "tokens", "i32", all / c->model.context, c->model.context, tokens, sizeof *tokens);
        record(f, "targets", "i32", all / c->model.context, c->model.context, targets, sizeof *targets);
        record(f, "loss", "f64", 1, 1, &sum, sizeof sum);
    }
    free(tokens);
    free(targets);
    return rc;
}

int main(int argc, char **argv)
{
    struct dp_train_config c;
    struct dp_tune tune = {0};
    struct dp_err err = {0};
    struct dp_backend *be = NULL;
    struct dp_stage *stage = NULL;
    FILE *f = argc > 1 ? fopen(argv[1], "wb") : NULL;
    int rc = 1;

    if (!f) {
        fprintf(stderr, "use: dump_gpt FILE section.key=value ...\n");
        return 2;
    }
    if (dp_train_config_load(NULL, argc - 2, argv + 2, &c, &err) == 0 &&
        (be = dp_backend_create("cpu", 0, 1, &err)) && (stage = whole_model(&c, be, &tune, &err))) {
        write_config(f, &c);
        write_params(f, stage, 0);
        if (run_step(f, &c, stage, &err) == 0) {
            write_params(f, stage, 1);
            rc = ferror(f) ? 1 : 0;
        }
    }
    if (err.code)
        fprintf(stderr, "dump_gpt: %s\n", err.text);
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
    return fclose(f) ? 1 : rc;
}
