/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of schemes: what makes layers cheaper, or dearer, while a model trains, as cost tables for simulated runs. One
 * line for each, and a file of this folder with its rule, dp_sim_scheme_<id>. Names in errors, in --help and behind TAB come
 * from here; tests/cli/names.t holds the table in doc/simulator.md against it.
 */
#ifndef DP_POLICIES_SIM_SCHEME_LIST_H
#define DP_POLICIES_SIM_SCHEME_LIST_H

#define DP_SIM_SCHEMES(S)                                                                           \
    S(freeze, "freeze", "the first blocks stop learning, more and more of them or from the start")  \
    S(drop, "drop", "blocks are left out at random, the later ones more often")                     \
    S(moe, "moe", "mixture of experts over several ranks: each layer waits for its fullest rank")   \
    S(mod, "mod", "mixture of depths: every second block takes a part of the tokens")               \
    S(early_exit, "early-exit", "losses at exits within the model, and tokens that leave there")    \
    S(sparse_attention, "sparse-attention", "attention to a part of the tokens")

/* The names as one text: all but the first two bytes are "freeze, drop, ...", as the table of options wants it. */
#define DP_SIM_SCHEME_COMMA(id, name, help) ", " name

#endif
