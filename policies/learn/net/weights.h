/* SPDX-License-Identifier: BSD-3-Clause */
/* order.dpw: networks that make orders (net.h), as a file; or parts.dpw: one that places units (cutter.h). All numbers are
 * little-endian:
 *
 *   8 bytes  "DPORDER", NUL; or "DPPARTS", NUL: what kind of networks
 *   u32      version of the format; u32 version of facts and features (DP_WEIGHTS_FEATURES)
 *   u32 x 4  WIDTH, ROUNDS, FACTS, LOOKS; of parts: WIDTH, ROUNDS, FACTS, PARTS
 *   u32      networks, 1..DP_WEIGHTS_MOST; u32 hash of the generators of training graphs (family.h)
 *   u64      seed of the training
 *   float32  DP_NET_SIZE of each network, or DP_CUTTER_SIZE
 *   u32      CRC-32C of all that comes before
 *
 * Networks are good together: each makes an order, and the best of these counts. */
#ifndef DP_POLICIES_LEARN_WEIGHTS_H
#define DP_POLICIES_LEARN_WEIGHTS_H

#include "policies/learn/net/cutter.h"
#include "policies/learn/net/net.h"

#define DP_WEIGHTS_FORMAT 1u   /* of the bytes */
#define DP_WEIGHTS_FEATURES 1u /* another number whenever a fact or a feature means something else */
#define DP_WEIGHTS_MOST 12u     /* networks: each costs a walk and a cut */
#define DP_WEIGHTS_MAX_FILE (64 + 4 * DP_NET_SIZE * DP_WEIGHTS_MOST) /* bytes */

enum dp_weights_kind { DP_WEIGHTS_ORDERS, DP_WEIGHTS_PARTS };

struct dp_weights {
    enum dp_weights_kind kind;
    uint32_t n; /* 1 of PARTS */
    uint32_t n_trained; /* of them; the others are random rules. Known where they were learned: no file says it */
    uint32_t families_hash;
    uint32_t crc; /* of the file that it was read from, or written to */
    uint64_t seed;
    struct dp_net *net;       /* [n] owned; NULL in PARTS */
    struct dp_cutter *cutter; /* [n] owned; NULL in ORDERS */
};

/* From bytes; `name` stands for the file in messages. *w is the caller's to release, whatever comes back. returns 0, or -1:
 * DP_EINVAL (no such file, another version or size, a number that is none), DP_ECORRUPT (the checksum), DP_ENOMEM. */
int dp_weights_parse(const char *name, const void *data, size_t bytes, struct dp_weights *w, struct dp_err *err);
/* Likewise from a file; DP_EIO, too. */
int dp_weights_read(const char *path, struct dp_weights *w, struct dp_err *err);
void dp_weights_release(struct dp_weights *w);

/* Is it of that kind? returns 0, or -1 with an error that says what the file is for. */
int dp_weights_want(const char *name, const struct dp_weights *w, enum dp_weights_kind kind, struct dp_err *err);
/* w: = PARTS, with a copy of the network; seed and hash stay. returns 0 or -1 (DP_ENOMEM). */
int dp_weights_hold_cutter(struct dp_weights *w, const struct dp_cutter *cutter, struct dp_err *err);

/* data: = such a file, of *bytes, for the caller to free; w->crc: = its checksum. returns 0, or -1: DP_EINVAL (how many
 * networks, or a number that is none), DP_ENOMEM. */
int dp_weights_encode(struct dp_weights *w, char **data, size_t *bytes, struct dp_err *err);

#endif
