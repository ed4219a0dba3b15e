/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of schemes: a line S(ID, id) for each, and a file of this folder with its dp_scheme_<id>. Their order is the one in
 * which they are applied at a boundary, and that of their parts in an order of the leader. */
#ifndef DP_WORKER_SCHEME_LIST_H
#define DP_WORKER_SCHEME_LIST_H

#define DP_SCHEMES(S)   \
    S(PRUNE, prune)     \
    S(FREEZE, freeze)   \
    S(DROP, drop)

#define DP_SCHEME_ID(ID, id) DP_SCHEME_##ID,
enum dp_scheme_id { DP_SCHEMES(DP_SCHEME_ID) DP_N_SCHEMES };
#undef DP_SCHEME_ID

#endif
