/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a warp. All threads of a mask come to one call, each with its words, and go on with what all brought.
 *
 * Fragments of matrices lie in threads as the PTX manual draws them: of a (16, 16), thread t has in a[0] the elements
 * (t / 4, 2 (t % 4)) and the next, in a[1] those 8 rows below, in a[2] those 8 columns to the right, in a[3] both; of
 * b (16, 8) in b[0] (2 (t % 4), t / 4) and the one below, in b[1] those 8 rows below; of c (16, 8) in c[0] and c[1]
 * (t / 4, 2 (t % 4)) and the next, in c[2] and c[3] those 8 rows below.
 */
#include "kernels/cuda/emu/warp.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/cuda/emu/check.h"

#define ALL 0xffffffffu /* threads of a warp */

void dp_emu_sync_warp(unsigned mask, int line);
void dp_emu_shuffle(unsigned mask, void *value, size_t bytes, unsigned from, int line);
unsigned dp_emu_vote(unsigned mask, int yes, int line);
void dp_emu_ldmatrix4(uint32_t r[4], const void *row, bool transposed, int line);
void dp_emu_mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2], int line);

static unsigned my_bit(void)
{
    return 1u << dp_emu_now->linear % 32;
}

/* The meeting of these threads that is not complete, or a free place. */
static struct dp_meeting *find_meeting(struct dp_warp *w, unsigned mask)
{
    struct dp_meeting *free_place = NULL;

    for (int i = 0; i < DP_WARP_MEETINGS; i++) {
        struct dp_meeting *m = &w->meetings[i];

        if (m->arrived && !m->left && m->mask == mask)
            return m;
        if (!m->arrived && !m->left)
            free_place = m;
    }
    return free_place;
}

/* Bring n words; back when all of the mask have. The result stays until leave(). */
static struct dp_meeting *meet(const char *what, unsigned mask, const void *words, size_t bytes, int line)
{
    struct dp_meeting *m;

    if (!(mask & my_bit()))
        dp_emu_found("line %d: thread %u is not in its own mask %08x (%s)", line, dp_emu_now->linear, mask, what);
    m = find_meeting(dp_warp_now(), mask);
    if (!m) {
        dp_emu_found("line %d: too many masks at a time (%s)", line, what);
        return NULL;
    }
    if (!m->arrived) {
        m->mask = mask;
        m->line = line;
        m->what = what;
    } else if (m->line != line || m->what != what) {
        dp_emu_found("threads of a warp meet in different operations: %s in line %d, %s in line %d", m->what, m->line,
                     what, line);
    }
    memcpy(m->words[dp_emu_now->linear % 32], words, bytes);
    m->arrived |= my_bit();
    if (m->arrived == mask) {
        m->arrived = 0;
        m->left = mask;
        dp_warp_go_on(mask);
    } else {
        dp_warp_wait(line);
    }
    return m;
}

static void leave(struct dp_meeting *m)
{
    m->left &= ~my_bit();
}

void dp_emu_sync_warp(unsigned mask, int line)
{
    const uint32_t nothing = 0;
    struct dp_meeting *m = meet("__syncwarp", mask, &nothing, sizeof nothing, line);

    /* the first to go on counts for all */
    if (m->left == mask && mask == ALL)
        dp_warp_synced();
    leave(m);
}

void dp_emu_shuffle(unsigned mask, void *value, size_t bytes, unsigned from, int line)
{
    struct dp_meeting *m;

    if (from >= 32 || !(mask >> from & 1))
        dp_emu_found("line %d: thread %u shuffles from thread %u of its warp, which is not in the mask %08x", line,
                     dp_emu_now->linear, from, mask);
    m = meet("a shuffle", mask, value, bytes, line);
    memcpy(value, m->words[from], bytes);
    leave(m);
}

unsigned dp_emu_vote(unsigned mask, int yes, int line)
{
    const uint32_t word = yes != 0;
    struct dp_meeting *m = meet("a vote", mask, &word, sizeof word, line);
    unsigned all = 0;

    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1 && m->words[i][0])
            all |= 1u << i;
    leave(m);
    return all;
}

void dp_emu_ldmatrix4(uint32_t r[4], const void *row, bool transposed, int line)
{
    const unsigned me = dp_emu_now->linear % 32;
    struct dp_meeting *m;

    if ((uintptr_t)row % 16)
        dp_emu_found("line %d: ldmatrix: thread %u's row is not aligned to 16 bytes", line, dp_emu_now->linear);
    m = meet(transposed ? "ldmatrix.trans" : "ldmatrix", ALL, &row, sizeof row, line);
    for (unsigned i = 0; i < 4; i++) {
        uint16_t pair[2];

        for (unsigned k = 0; k < 2; k++) {
            unsigned at_row = transposed ? 2 * (me % 4) + k : me / 4, column = transposed ? me / 4 : 2 * (me % 4) + k;
            const char *from;

            memcpy(&from, m->words[8 * i + at_row], sizeof from);
            dp_check_access(from + 2 * column, 2, DP_ACCESS_READ);
            memcpy(&pair[k], from + 2 * column, 2);
        }
        r[i] = pair[0] | (uint32_t)pair[1] << 16;
    }
    leave(m);
}

static float bf16(uint32_t pair, unsigned which)
{
    uint32_t bits = which ? pair & 0xffff0000u : pair << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Sums in the order of k: a tensor core's own is not specified. */
void dp_emu_mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2], int line)
{
    const uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const unsigned me = dp_emu_now->linear % 32;
    struct dp_meeting *m = meet("mma", ALL, words, sizeof words, line);

    for (unsigned e = 0; e < 4; e++) {
        unsigned row = me / 4 + 8 * (e / 2), column = 2 * (me % 4) + e % 2;

        for (unsigned k = 0; k < 16; k++) {
            const uint32_t *of_a = m->words[row % 8 * 4 + k % 8 / 2], *of_b = m->words[column * 4 + k % 8 / 2];

            c[e] += bf16(of_a[row / 8 + 2 * (k / 8)], k % 2) * bf16(of_b[4 + k / 8], k % 2);
        }
    }
    leave(m);
}
