#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How tests share the machine's cores (tests/lib/cores.sh): as many as there are cores train at a time, one that wants all
# of them alone; what a test lets go of others have, whatever it left in the background.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
unset DP_CORES DP_WAITED
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"
take_core && take_cores && leave_cores
ok $? "where ./check does not say so nobody waits"

dir=$(mktemp -d) || bail "no temporary folder"
export DP_CORES=$dir/cores DP_WAITED=$dir/waited
mkdir "$DP_CORES"
pids=()
clean_up() { end_processes "${pids[@]}"; rm -rf "$dir"; }
trap 'case $BASHPID in $$) clean_up ;; esac' EXIT

# other NAME COMMAND...: a test beside this one, which does that, says so in NAME and ends when NAME.go is there
other() {
    local name=$dir/$1
    shift
    rm -f "$name" "$name.go"
    (
        core_locks=()
        "$@"
        touch "$name"
        wait_for 60 test -e "$name.go"
    ) &
    pids+=($!)
}
has() { [ -e "$dir/$1" ]; }
gets() { wait_for 60 has "$1"; }
waits() { # it does not have it within half a second
    for _ in {1..25}; do
        ! has "$1" || return 1
        sleep 0.02
    done
}
ends() { touch "$dir/$1.go"; }

for ((c = 0; c < $(nproc); c++)); do other one$c take_core; done
all_have=0
for ((c = 0; c < $(nproc); c++)); do gets one$c || all_have=1; done
ok $all_have "as many as there are cores train"
other late take_core
waits late
ok $? "one more waits"
ends one0
gets late
ok $? "until one of them ends"
like "$(cat "$DP_WAITED")" '[1-9]' "how long it waited is noted"
other alone take_cores
waits alone
ok $? "who wants to be alone waits for all of them"
ends late
for ((c = 1; c < $(nproc); c++)); do ends one$c; done
gets alone
ok $? "and then trains"
other one take_core
waits one
ok $? "and nobody else does meanwhile"
ends alone
gets one
ok $? "until it ends"
ends one

take_cores
sleep 600 &
pids+=($!)
leave_cores
both() { take_cores && take_core; } # as a test that is alone, and run_cluster behind it
other guest both
gets guest
ok $? "what a test let go of others have, whatever it left in the background"
(take_core; touch "$dir/again") &
pids+=($!)
waits again
ok $? "taken again, it is waited for"
ends guest
gets again
ok $? "as by everybody"
is "$(idly nice)" 10 "what need not be soon has a low priority"
done_testing
