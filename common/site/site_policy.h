/* SPDX-License-Identifier: BSD-3-Clause */
/* A site's own policy: a shared object that exports DP_POLICY_SYMBOL (policies/policy.h), named in
 * dynpipe.conf, asked in a child process of its own for every single answer.
 *
 * A child costs a millisecond or so (tests/unit/common/site/test_site_policy prints how much), and buys that a
 * policy which crashes, hangs, eats memory or writes where it should not harms nobody, and that no state
 * survives from one question to the next: the same snapshot and seed can only give the same answer.
 */
#ifndef DP_COMMON_SITE_SITE_POLICY_H
#define DP_COMMON_SITE_SITE_POLICY_H

#include "policies/policy.h"

struct dp_site_policy {
    struct dp_policy policy; /* for dp_policy_run() and dp_pack_choose(), with this struct as the state */
    char name[64], file[256];
    char arguments[256]; /* for open(), separated by blanks */
    bool is_own;         /* of whoever runs this program, not of the site */
    double timeout_s;    /* for all answers together since dp_site_policy_init(); is_own: for each */
    uint64_t spent_ns;   /* of it */
};

/* Copies the texts. `s` must stay where it is: the policy in it points to its name. */
void dp_site_policy_init(struct dp_site_policy *s, const char *name, const char *file, const char *arguments,
                         double timeout_s);

/* A policy that is asked offline: any file, by any way, with the rights of whoever runs the program; errors name the
 * file. Probes it, too. returns 0 or -1. */
int dp_site_policy_init_own(struct dp_site_policy *s, const char *file, const char *arguments, double timeout_s,
                            struct dp_err *err);

/* Load it in a child, look at its interface and call open(); blocks for timeout_s at most. */
int dp_site_policy_probe(struct dp_site_policy *s, struct dp_err *err);

#endif
