/* SPDX-License-Identifier: BSD-3-Clause */
/* Bits of what is above a threshold. The elements equal to it are counted along; where some of these survive, a second pass
 * over the parts that have them sets their bits.
 */
#include "common/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pruning/run_of_bits.h"

#define PART (1 << 16) /* elements of a task, a multiple of 64 */

struct call {
    struct dp_choose a;
    uint64_t *ties; /* of each part: how many there are, then how many survive */
};

/* Elements [i, i + n), n at most 64: bits of those above the threshold and of those equal to it. */
static inline uint64_t look(const struct dp_choose *a, int64_t i, int64_t n, uint64_t *equal)
{
    const vi cut = vi_set1((int32_t)a->key);
    uint64_t above = 0, same = 0, left = a->left ? a->left[i / 64] & dp_low_bits(n) : dp_low_bits(n);

    *equal = 0;
    if (!left)
        return 0;
    for (int64_t j = 0; j < n; j += VW) {
        vi key = (vi)(n - j >= VW ? vf_load(a->x + i + j) : vf_load_n(a->x + i + j, n - j)) & vi_set1(0x7fffffff);

        above |= (uint64_t)vi_bits((vi)(key > cut)) << j;
        same |= (uint64_t)vi_bits((vi)(key == cut)) << j;
    }
    *equal = same & left;
    return above & left;
}

static int choose_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    const struct dp_choose a = call->a;
    uint64_t ties = 0, equal;

    (void)thread;
    (void)err;
    for (int64_t i = task * PART; i < dp_least_i64((task + 1) * PART, a.n); i += 64) {
        a.chosen[i / 64] = look(&a, i, dp_least_i64(64, a.n - i), &equal);
        ties += (uint64_t)__builtin_popcountll(equal);
    }
    call->ties[task] = ties;
    return 0;
}

/* The lowest n set bits of a word. */
static uint64_t first_of(uint64_t bits, uint64_t n)
{
    uint64_t rest = bits;

    while (rest && n--)
        rest &= rest - 1;
    return bits ^ rest;
}

static int ties_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    const struct dp_choose a = call->a;
    uint64_t ties = call->ties[task], equal;

    (void)thread;
    (void)err;
    for (int64_t i = task * PART; i < dp_least_i64((task + 1) * PART, a.n) && ties; i += 64) {
        look(&a, i, dp_least_i64(64, a.n - i), &equal);
        equal = first_of(equal, ties);
        a.chosen[i / 64] |= equal;
        ties -= (uint64_t)__builtin_popcountll(equal);
    }
    return 0;
}

int DP_FN(choose)(struct dp_backend *be, const struct dp_choose *a, struct dp_err *err)
{
    int64_t parts = (a->n + PART - 1) / PART;
    struct call call = {.a = *a, .ties = (uint64_t *)(void *)dp_cpu_scratch(be, 2 * parts, err)};
    uint64_t left = a->ties;

    if (!call.ties || dp_cpu_parallel(be, parts, choose_task, &call, err) < 0)
        return -1;
    for (int64_t p = 0; p < parts; p++) {
        call.ties[p] = dp_least_u64(call.ties[p], left);
        left -= call.ties[p];
    }
    return left == a->ties ? 0 : dp_cpu_parallel(be, parts, ties_task, &call, err);
}
