# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # D and the rest are lib.sh's
# For tests whose daemons, jobs and onlookers are different users: root alone can run them, in a mount name space in which
# /etc/passwd has these users besides the machine's. Source it instead of lib.sh, with the users in own_users, as NAME:ID.
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
export DP_SRCDIR
if [ "${DP_OWN_USERS:-}" != yes ]; then
    # shellcheck source=tests/lib/tap.sh
    . "$DP_SRCDIR/tests/lib/tap.sh"
    [ "$(id -u)" = 0 ] || skip_all "only root can start daemons of several users"
    unshare -m true 2>/dev/null || skip_all "no mount name spaces here"
    command -v setpriv >/dev/null || skip_all "setpriv is not installed"
    DP_OWN_USERS=yes exec unshare -m "$0"
fi
users=$(mktemp -d /tmp/dpusersXXXXXX)
for f in passwd group; do cp /etc/$f "$users/$f"; chmod 644 "$users/$f"; done
for u in $own_users; do
    sed -i "/^${u%:*}:/d" "$users/passwd" "$users/group"
    echo "${u%:*}:x:${u#*:}:${u#*:}::/:/bin/sh" >>"$users/passwd"
    echo "${u%:*}:x:${u#*:}:" >>"$users/group"
done
mount --bind "$users/passwd" /etc/passwd && mount --bind "$users/group" /etc/group || exit 1
# shellcheck source=tests/e2e/lib.sh
. "$DP_SRCDIR/tests/e2e/lib.sh"
remove_users() { umount /etc/passwd /etc/group; rm -rf "$users"; }
at_end+=(remove_users)

as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
as dpowner test -x "$worker" || skip_all "another user does not reach the build"
