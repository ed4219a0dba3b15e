/* SPDX-License-Identifier: BSD-3-Clause */
/* Histogram of magnitudes. Each thread has bins of its own, which are added up at the end; sums of integers are the same in
 * any order. Where every element counts, four sets of bins take turns: magnitudes of weights fall into few bins, and a bin
 * cannot be counted up again before its last number has arrived.
 */
#include "common/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pruning/run_of_bits.h"

#define PART (1 << 16) /* elements of a task, a multiple of 64 */
#define SETS 4         /* of bins; see above */
#define MAX_BITS 11    /* of struct dp_count_keys */

struct call {
    struct dp_count_keys a;
    uint64_t *bins; /* of each thread: SETS times 1 << bits */
};

static inline vi keys_of(vf x)
{
    return (vi)x & vi_set1(0x7fffffff);
}

/* Elements [i, end), all of which count. */
static void count_all(const struct dp_count_keys *a, int64_t i, int64_t end, uint64_t *bins)
{
    const uint32_t mask = (1u << a->bits) - 1, shift = a->shift;
    uint64_t *set[SETS];

    for (int s = 0; s < SETS; s++)
        set[s] = bins + ((int64_t)s << a->bits);
    for (; i + SETS <= end; i += SETS) {
        DP_UNROLL
        for (int s = 0; s < SETS; s++) {
            uint32_t key;

            memcpy(&key, a->x + i + s, sizeof key);
            set[s][key >> shift & mask]++;
        }
    }
    for (; i < end; i++) {
        uint32_t key;

        memcpy(&key, a->x + i, sizeof key);
        bins[key >> shift & mask]++;
    }
}

/* Elements [i, end), at most 64, those whose bit is set and whose prefix fits. */
static void count_some(const struct dp_count_keys *a, int64_t i, int64_t end, uint64_t left, uint64_t *bins)
{
    const uint32_t mask = (1u << a->bits) - 1, high = a->shift + a->bits;
    const vi prefix = vi_set1((int32_t)(a->prefix >> high));
    uint64_t fits = 0;

    for (int64_t j = i; j < end; j += VW) {
        vi key = keys_of(end - j >= VW ? vf_load(a->x + j) : vf_load_n(a->x + j, end - j));

        fits |= (uint64_t)vi_bits((vi)(key >> (int)high == prefix)) << (j - i);
    }
    for (fits &= left; fits; fits &= fits - 1) {
        uint32_t key;

        memcpy(&key, a->x + i + __builtin_ctzll(fits), sizeof key);
        bins[key >> a->shift & mask]++;
    }
}

static int count_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    const struct dp_count_keys a = call->a;
    int64_t i = task * PART, end = dp_least_i64(i + PART, a.n);
    uint64_t *bins = call->bins + (int64_t)thread * SETS * (INT64_C(1) << a.bits);
    bool has_prefix = a.shift + a.bits < 31;

    (void)err;
    if (!has_prefix && !a.left) {
        count_all(&a, i, end, bins);
        return 0;
    }
    for (; i < end; i += 64) {
        int64_t n = dp_least_i64(end - i, 64);
        uint64_t left = a.left ? a.left[i / 64] & dp_low_bits(n) : dp_low_bits(n);

        if (!has_prefix && left == dp_low_bits(n))
            count_all(&a, i, i + n, bins);
        else if (left)
            count_some(&a, i, i + n, left, bins);
    }
    return 0;
}

int DP_FN(count_keys)(struct dp_backend *be, const struct dp_count_keys *a, struct dp_err *err)
{
    int64_t n_bins = INT64_C(1) << a->bits, sets = dp_cpu_threads(be) * SETS;
    struct call call = {.a = *a};

    if (a->bits > MAX_BITS || a->shift + a->bits > 31)
        return dp_err_set(err, DP_EINVAL, "count_keys: %u bits from bit %u on", a->bits, a->shift);
    call.bins = (uint64_t *)(void *)dp_cpu_scratch(be, 2 * sets * n_bins, err);
    if (!call.bins)
        return -1;
    memset(call.bins, 0, (size_t)(sets * n_bins) * sizeof *call.bins);
    if (dp_cpu_parallel(be, (a->n + PART - 1) / PART, count_task, &call, err) < 0)
        return -1;
    for (int64_t s = 0; s < sets; s++)
        for (int64_t b = 0; b < n_bins; b++)
            a->bins[b] += call.bins[s * n_bins + b];
    return 0;
}
