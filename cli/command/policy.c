/* SPDX-License-Identifier: BSD-3-Clause */
/* See policy.h. A name with a slash is a file, as for a shell, so that no file in the current folder takes the place of a
 * policy that is built in. */
#include "cli/command/policy.h"

#include <string.h>

#include "policies/list.h"
#include "policies/sim/case/case.h"

#define ANSWER_S 60.0 /* that a policy of the user has for each answer */

int dp_cli_policy_take(const char *option, const char *name, const char *arguments, struct dp_cli_policy *out, struct dp_err *err)
{
    bool is_file = name && strchr(name, '/');
    struct dp_err unknown;

    *out = (struct dp_cli_policy){.name = name};
    if (arguments && !is_file)
        return dp_err_set(err, DP_EINVAL, "--arguments requires --%s=./FILE.so", option);
    if (is_file) {
        if (dp_site_policy_init_own(&out->site, name, arguments ? arguments : "", ANSWER_S, err) < 0)
            return dp_err_prefix(err, "--%s", option);
        out->name = DP_SIM_OWN_POLICY;
        out->own = &out->site.policy;
        out->own_state = &out->site;
    } else if (name && !dp_policy_find(name, &unknown)) {
        return dp_err_set(err, DP_EINVAL, "--%s=%.64s: %s; one of your own is a file with a slash in its name", option, name,
                          unknown.text);
    }
    return 0;
}
