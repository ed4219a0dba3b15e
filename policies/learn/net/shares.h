/* SPDX-License-Identifier: BSD-3-Clause */
/* One of several by chance, as a network scores them. */
#ifndef DP_POLICIES_LEARN_SHARES_H
#define DP_POLICIES_LEARN_SHARES_H

#include <stdbool.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/net/floats.h"

#define DP_SHARE_LEAST 1e-30f /* of which a log is taken: still a normal number */

/* score: [n] becomes shares, which add up to about 1 (softmax). n > 0 */
static inline void dp_shares_make(float *score, uint32_t n)
{
    float most = score[0], sum = 0;

    for (uint32_t i = 1; i < n; i++)
        most = score[i] > most ? score[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += score[i] = dp_f_exp(score[i] - most);
    for (uint32_t i = 0; i < n; i++)
        score[i] = score[i] / sum;
}

/* Which of share[n] these draws choose. n > 0 */
static inline uint32_t dp_shares_draw(const float *share, uint32_t n, uint64_t draws)
{
    float left = (float)(dp_draw(&draws) >> 40) / (float)(1 << 24);
    uint32_t i = 0;

    for (; i + 1 < n && left >= share[i]; i++)
        left -= share[i];
    return i;
}

static inline float dp_share_log(float share)
{
    return dp_f_log(share > DP_SHARE_LEAST ? share : DP_SHARE_LEAST);
}

/* What it adds to the entropy of all. */
static inline float dp_share_entropy(float share)
{
    return share > DP_SHARE_LEAST ? -(share * dp_f_log(share)) : 0;
}

/* The slope by the score that became it. slope: by the log of the chosen one's share; entropy: of all shares, which is worth so much. */
static inline float dp_share_back(float share, bool is_chosen, float slope, float entropy, float entropy_worth)
{
    return slope * ((is_chosen ? 1.0f : 0.0f) - share) + entropy_worth * share * (dp_share_log(share) + entropy);
}

#endif
