/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands for llm.c's train_gpt2.c in tests/bench/bench_peers.t: what worker/bench/peer_llmc.c calls, with a
 * "model" whose loss halves with every update. It holds the checkpoint to llm.c's format: header, and as many
 * floats as the shape has parameters.
 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TESTING
#error "llm.c's own main() must be left out"
#endif

typedef struct {
    size_t num_parameters;
    int vocabulary;
    float mean_loss, scale;
} GPT2;

static void *mallocCheck(size_t bytes)
{
    void *p = malloc(bytes);

    assert(p);
    return p;
}

static void gpt2_build_from_checkpoint(GPT2 *model, const char *path)
{
    FILE *f = fopen(path, "rb");
    int h[256];
    double sum = 0.0, squares = 0.0;
    float x;

    assert(f && fread(h, sizeof h, 1, f) == 1 && h[0] == 20240326 && h[1] == 3 && h[3] == h[7]);
    printf("[GPT-2]\nmax_seq_len: %d\n", h[2]);
    *model = (GPT2){.vocabulary = h[3], .scale = 1.0f};
    for (; fread(&x, sizeof x, 1, f) == 1; model->num_parameters++) {
        sum += (double)x;
        squares += (double)x * (double)x;
    }
    fclose(f);
    /* gains of layer norm: 2 L C + C ones; the rest is small */
    assert(fabs(sum - (2.0 * h[4] + 1.0) * h[6]) < 0.05 * (double)model->num_parameters);
    assert(squares > (2.0 * h[4] + 1.0) * h[6]);
}

static void gpt2_forward(GPT2 *model, int *tokens, int *targets, size_t b, size_t t)
{
    for (size_t i = 0; i < b * t; i++)
        assert(tokens[i] >= 0 && tokens[i] < model->vocabulary && targets[i] >= 0 &&
               targets[i] < model->vocabulary);
    model->mean_loss = logf((float)model->vocabulary) * model->scale;
}

static void gpt2_zero_grad(GPT2 *model)
{
    assert(model);
}

static void gpt2_backward(GPT2 *model)
{
    assert(model);
}

static void gpt2_update(GPT2 *model, float lr, float beta1, float beta2, float eps, float decay, int t)
{
    assert(lr > 0.0f && beta1 == 0.9f && beta2 == 0.95f && eps == 1e-8f && decay == 0.1f && t >= 1);
    model->scale *= 0.99f;
}

static void gpt2_free(GPT2 *model)
{
    model->num_parameters = 0;
}
