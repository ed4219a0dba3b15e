/* SPDX-License-Identifier: BSD-3-Clause */
/* A policy that a command line names: one that is built in, or, where the name has a slash, the user's own. */
#ifndef DP_CLI_COMMAND_POLICY_H
#define DP_CLI_COMMAND_POLICY_H

#include "common/site/site_policy.h"

struct dp_cli_policy {
    const char *name;            /* of the registry, or DP_SIM_OWN_POLICY; NULL: no policy was named */
    const struct dp_policy *own; /* NULL: it is of the registry */
    void *own_state;
    struct dp_site_policy site; /* own refers to it */
};

/* option: the one that named it, in errors; name: its value, or NULL; arguments: of --arguments, or NULL.
 * *out must stay where it is. returns 0 or -1. */
int dp_cli_policy_take(const char *option, const char *name, const char *arguments, struct dp_cli_policy *out, struct dp_err *err);

#endif
