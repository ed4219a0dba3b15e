/* SPDX-License-Identifier: BSD-3-Clause */
/* See rights.h. Capabilities by the system calls themselves: libcap would be one library more for three
 * calls. Every change is looked at afterwards: a kernel or a sandbox that says yes and does not do it
 * must not go unnoticed.
 */
#include "config.h"

#include "daemon/release/rights.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <string.h>
#include <stdint.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(cap) (UINT64_C(1) << (cap))

struct caps {
    struct __user_cap_data_struct part[2];
};

static uint64_t effective_of(const struct caps *c)
{
    return c->part[0].effective | (uint64_t)c->part[1].effective << 32;
}

static uint64_t permitted_of(const struct caps *c)
{
    return c->part[0].permitted | (uint64_t)c->part[1].permitted << 32;
}

static int get_caps(struct caps *c)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

    memset(c, 0, sizeof *c);
    return (int)syscall(SYS_capget, &head, c->part);
}

/* Permitted and effective become what is wanted of what there is; nothing is passed on to an exec. */
static int keep_caps(uint64_t wanted)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct caps now, next;

    if (get_caps(&now) < 0)
        return -1;
    memset(&next, 0, sizeof next);
    wanted &= permitted_of(&now);
    next.part[0].permitted = next.part[0].effective = (uint32_t)wanted;
    next.part[1].permitted = next.part[1].effective = (uint32_t)(wanted >> 32);
    if (syscall(SYS_capset, &head, next.part) < 0 || get_caps(&now) < 0)
        return -1;
    return permitted_of(&now) == wanted && effective_of(&now) == wanted ? 0 : -1;
}

bool dp_rights_can_change(void)
{
    struct caps now;

    return get_caps(&now) == 0 && (effective_of(&now) & BIT(CAP_SETUID)) && (effective_of(&now) & BIT(CAP_SETGID));
}

static bool is_user(const struct dp_rights *who)
{
    uid_t real, effective, saved;

    return getresuid(&real, &effective, &saved) == 0 && real == who->guard && effective == who->uid &&
           saved == who->guard;
}

static int change_user(const struct dp_rights *who, struct dp_err *err)
{
    if ((who->name ? initgroups(who->name, who->gid) : setgroups(0, NULL)) < 0 ||
        setresgid(who->gid, who->gid, who->gid) < 0 || setresuid(who->guard, who->uid, who->guard) < 0)
        return dp_err_set(err, DP_EAUTH, "cannot become uid %u: %s", who->uid, strerror(errno));
    return is_user(who) ? 0 : dp_err_set(err, DP_EAUTH, "the change to uid %u had no effect", who->uid);
}

int dp_rights_become(const struct dp_rights *who, struct dp_err *err)
{
    if (!is_user(who) && change_user(who, err) < 0)
        return -1;
    if (who->uid == 0)
        return 0;
    if (keep_caps(0) < 0)
        return dp_err_set(err, DP_EAUTH, "capabilities cannot be dropped: %s", strerror(errno));
    if (setuid(0) == 0)
        return dp_err_set(err, DP_EAUTH, "became uid %u, but root can be regained", who->uid);
    return 0;
}

int dp_rights_watch_as(const struct dp_rights *who, struct dp_err *err)
{
    if (is_user(who))
        return 0;
    if (prctl(PR_SET_KEEPCAPS, 1) < 0)
        return dp_err_set(err, DP_EAUTH, "capabilities cannot be kept: %s", strerror(errno));
    if (change_user(who, err) < 0)
        return -1;
    prctl(PR_SET_KEEPCAPS, 0);
    if (who->uid != 0 && keep_caps(BIT(CAP_SYS_PTRACE) | BIT(CAP_SETUID)) < 0)
        return dp_err_set(err, DP_EAUTH, "capabilities cannot be dropped: %s", strerror(errno));
    return 0;
}

void dp_rights_see_as_root(bool on)
{
    setfsuid(on ? 0 : geteuid()); /* says nothing when it may not */
}

bool dp_rights_trace_all(void)
{
    struct caps now;

    return get_caps(&now) == 0 && (effective_of(&now) & BIT(CAP_SYS_PTRACE));
}
