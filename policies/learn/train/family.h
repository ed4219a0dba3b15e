/* SPDX-License-Identifier: BSD-3-Clause */
/* Families of generated networks: graphs to learn from, and others that learning never sees, to test on. All are profiles
 * (graph.h) in whole numbers of a seed. */
#ifndef DP_POLICIES_LEARN_FAMILY_H
#define DP_POLICIES_LEARN_FAMILY_H

#include "policies/graph/graph.h"

/* All families, a line each; those to learn from come first. */
#define DP_FAMILIES(F)                                                                 \
    F(LAYERED, "layered", "layers of some nodes that take some of the layer before")   \
    F(CELLS, "cells", "irregular cells, one after the other, with joins")              \
    F(TOWERS, "towers", "long branches that seldom exchange something")                \
    F(UNET, "u-net", "down and up again, with a shortcut at every height")             \
    F(SMALL_WORLD, "small-world", "a line with shortcuts by chance")                   \
    F(TRANSFORMER, "transformer", "operators of blocks of attention")                  \
    F(EXPERTS, "experts", "blocks with mixtures of experts")

#define DP_FAMILY_ENUM(ID, name, help) DP_FAMILY_##ID,
enum dp_family { DP_FAMILIES(DP_FAMILY_ENUM) DP_N_FAMILIES };
#undef DP_FAMILY_ENUM
#define DP_N_LEARNED_FAMILIES 4 /* to learn from */

/* As tables have it. */
const char *dp_family_name(enum dp_family f);

/* A network of about n nodes (n >= 16; at least a third, at most n + 32). *g is finished, without a bandwidth, and the caller's to
 * release, whatever comes back. returns 0 or -1 (DP_ENOMEM). */
int dp_family_make(struct dp_graph *g, enum dp_family f, uint32_t n, uint64_t seed, struct dp_err *err);

/* hash: = of what the families to learn from make: another one where a generator has changed. returns 0 or -1. */
int dp_family_hash(uint32_t *hash, struct dp_err *err);

#endif
