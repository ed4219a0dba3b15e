/* SPDX-License-Identifier: BSD-3-Clause */
/* See list.h. */
#include "policies/list.h"

#include <stdio.h>
#include <string.h>

#define ENTRY(id) {&dp_policy_##id, &dp_policy_chain_##id},
static const struct {
    const struct dp_policy *policy;
    const struct dp_policy_chain *chain;
} known[] = {DP_POLICIES(ENTRY)};
#define N_KNOWN (sizeof known / sizeof known[0])

const struct dp_policy *dp_policy_at(size_t i)
{
    return i < N_KNOWN ? known[i].policy : NULL;
}

const struct dp_policy_chain *dp_policy_chain_at(size_t i)
{
    return i < N_KNOWN ? known[i].chain : NULL;
}

const struct dp_policy *dp_policy_find(const char *name, struct dp_err *err)
{
    char names[1024] = "";
    size_t n = 0;

    for (size_t i = 0; i < N_KNOWN; i++) {
        if (!strcmp(known[i].policy->name, name))
            return known[i].policy;
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", known[i].policy->name);
    }
    dp_err_set(err, DP_EINVAL, "unknown policy '%.64s'; known: %s", name, names);
    return NULL;
}
