/* SPDX-License-Identifier: BSD-3-Clause */
/* llm.c as a program that bench_peers can run in turns with others. It is not part of the build: bench_peers
 * compiles it against the llm.c folder that its user names, whose train_gpt2.c leaves out its own main()
 * under TESTING.
 *
 *   peer_llmc CHECKPOINT BLOCKSxCHANNELSxHEADSxVOCABULARYxBATCHxCONTEXT wall|cpu
 *
 * Writes a random model to the file CHECKPOINT in llm.c's format, loads it, says in one line of JSON what it
 * is; then for each line "N" of stdin makes N optimizer steps on the same random tokens and prints
 * {"ns": [...], "loss": of the last}. What llm.c prints stands between these lines.
 */
#define TESTING
#include "train_gpt2.c"

#include <inttypes.h>
#include <time.h>

static uint64_t state = 88172645463325252u;

/* xorshift64 (Marsaglia 2003) */
static uint32_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

/* Near enough to normal: the sum of four uniform numbers, variance 1. */
static float random_normal(void)
{
    float sum = 0.0f;

    for (int i = 0; i < 4; i++)
        sum += (float)(random_bits() >> 8) / 16777216.0f - 0.5f;
    return sum * 1.7320508f;
}

static void write_tensor(FILE *f, size_t n, float constant, float std)
{
    for (size_t i = 0; i < n; i++) {
        float x = std > 0.0f ? std * random_normal() : constant;

        fwrite(&x, sizeof x, 1, f);
    }
}

/* The tensors in the order of llm.c's ParameterTensors; odd ones of a kind (n, biases) are vectors. */
static int write_checkpoint(const char *path, const int v[6])
{
    const size_t l = (size_t)v[0], c = (size_t)v[1], words = (size_t)v[3], t = (size_t)v[5];
    const int header[256] = {20240326, 3, v[5], v[3], v[0], v[2], v[1], v[3]};
    const float std = 0.02f, residual = 0.02f / sqrtf(2.0f * (float)v[0]);
    FILE *f = fopen(path, "wb");

    if (!f)
        return -1;
    fwrite(header, sizeof header, 1, f);
    write_tensor(f, words * c, 0.0f, std);
    write_tensor(f, t * c, 0.0f, std);
    write_tensor(f, l * c, 1.0f, 0.0f);
    write_tensor(f, l * c, 0.0f, 0.0f);
    write_tensor(f, l * 3 * c * c, 0.0f, std);
    write_tensor(f, l * 3 * c, 0.0f, 0.0f);
    write_tensor(f, l * c * c, 0.0f, residual);
    write_tensor(f, l * c, 0.0f, 0.0f);
    write_tensor(f, l * c, 1.0f, 0.0f);
    write_tensor(f, l * c, 0.0f, 0.0f);
    write_tensor(f, l * 4 * c * c, 0.0f, std);
    write_tensor(f, l * 4 * c, 0.0f, 0.0f);
    write_tensor(f, l * c * 4 * c, 0.0f, residual);
    write_tensor(f, l * c, 0.0f, 0.0f);
    write_tensor(f, c, 1.0f, 0.0f);
    write_tensor(f, c, 0.0f, 0.0f);
    return ferror(f) | fclose(f) ? -1 : 0;
}

static int64_t now_ns(int is_cpu)
{
    struct timespec t;

    clock_gettime(is_cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void make_steps(GPT2 *model, int *tokens, int *targets, const int v[6], int is_cpu, long steps)
{
    static int t;

    printf("{\"ns\": [");
    for (long i = 0; i < steps; i++) {
        int64_t start = now_ns(is_cpu);

        gpt2_forward(model, tokens, targets, (size_t)v[4], (size_t)v[5]);
        gpt2_zero_grad(model);
        gpt2_backward(model);
        gpt2_update(model, 3e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, ++t);
        printf("%s%" PRId64, i ? ", " : "", now_ns(is_cpu) - start);
    }
    printf("], \"loss\": %.6f}\n", (double)model->mean_loss);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int v[6], n, *tokens, *targets;
    char line[32];
    GPT2 model;

    if (argc != 4 || sscanf(argv[2], "%dx%dx%dx%dx%dx%d", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) != 6)
        return 2;
    if (write_checkpoint(argv[1], v) < 0) {
        perror(argv[1]);
        return 1;
    }
    gpt2_build_from_checkpoint(&model, argv[1]);
    n = v[4] * v[5];
    tokens = mallocCheck((size_t)n * sizeof *tokens);
    targets = mallocCheck((size_t)n * sizeof *targets);
    for (int i = 0; i < n; i++) {
        tokens[i] = (int)(random_bits() % (uint32_t)v[3]);
        targets[i] = (int)(random_bits() % (uint32_t)v[3]);
    }
    /* the first forward prints; it allocates too, so it is no step of a user's */
    gpt2_forward(&model, tokens, targets, (size_t)v[4], (size_t)v[5]);
    printf("\n{\"parameters\": %zu}\n", model.num_parameters);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        make_steps(&model, tokens, targets, v, !strcmp(argv[3], "cpu"), strtol(line, NULL, 10));
    gpt2_free(&model);
    free(tokens);
    free(targets);
    return 0;
}
