#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe check on a private Slurm: a cluster that is set up right, and what it says about mistakes.
# shellcheck disable=SC2034,SC2154 # D and dynpipe's output come from the sourced files
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"
dynpipe=$DP_BUILDDIR/cli/dynpipe
plugin=$DP_BUILDDIR/spank_plugin/spank_dynpipe.so
[ -x "$dynpipe" ] && [ -f "$plugin" ] || skip_all "dynpipe or its plugin is not built"
export LC_ALL=C.UTF-8 COLUMNS=200

cluster_up --nodes 2 --gpus 1
export DYNPIPE_CONF=$D/etc/dynpipe.conf SLURMD_NODENAME=n1
stack=$(scontrol show config | sed -n 's/^PlugStackConfig *= *//p')
diag "plugstack.conf: $(cat "$stack" 2>/dev/null)"
look() { "$dynpipe" check "$@" >"$D/check" 2>&1; }
finding() { grep -E "^$1 +$2 " -A1 "$D/check"; }

echo "optional $plugin socket=$D/run/dynpiped-%n.sock" >"$stack"
look
rc=$?
diag "$(cat "$D/check")"
like "$(finding ok slurm)" "Slurm [0-9]" "Slurm's version"
like "$(finding ok shrink)" "may shrink" "jobs may shrink"
like "$(finding ok plugstack)" ":1: optional" "the plugin is in plugstack.conf"
like "$(finding ok plugin)" "for Slurm" "and fits this Slurm"
like "$(finding ok socket)" "agree" "plugin and daemon mean the same socket"
like "$(finding ok munge)" "created and decoded" "munge works"
like "$(finding warn proctrack)" "linuxproc: a process .* leaves its job" "a Slurm that loses sight of processes is warned about"
like "$(finding ok select)" "cons_tres" "select/cons_tres"
if [ -S "$D/run/dynpiped-n1.sock" ]; then
    like "$(finding ok daemon)" "on n1 answers" "the daemon here answers"
    like "$(finding ok nodes)" "2 of 2" "the daemons of both nodes answer"
    is "$rc" 0 "nothing is FAIL: exit code 0"
else
    skip "daemons" "dynpiped is not built"
fi

echo "required $plugin" >"$stack"
look
is "$?" 1 "a required plugin: exit code 1"
like "$(finding FAIL plugstack)" "drains its node.*optional" "says why, and what to do"
echo "optional /nowhere/spank_dynpipe.so" >"$stack"
look
like "$(finding FAIL plugin)" "/nowhere/spank_dynpipe.so: No such file" "a plugin that is not there"
for f in "$dynpipe" "$D/etc/slurm.conf"; do
    cp "$f" "$D/spank_dynpipe.so"
    echo "optional $D/spank_dynpipe.so" >"$stack"
    look
    like "$(finding FAIL plugin)" "spank_dynpipe.so: not a (SPANK plugin|shared object for this machine)" "a file that is no plugin: ${f##*/}"
done
mkdir "$D/etc/stack.d"
echo "optional $plugin socket=/elsewhere.sock" >"$D/etc/stack.d/dynpipe.conf"
echo "include stack.d/*" >"$stack"
look
like "$(finding ok plugstack)" "stack.d/dynpipe.conf:1" "an included file is read"
like "$(finding FAIL socket)" "/elsewhere.sock.*listens on" "two different sockets"
: >"$stack"
look
like "$(finding FAIL plugstack)" "does not name" "no plugin"
{ cat "$D/etc/dynpipe.conf"; echo 'partitions = ( { name = "main"; cooldown_s = 1.0; }, { name = "mian"; cooldown_s = 2.0; } );'; } >"$D/etc/parts.conf"
look --config "$D/etc/parts.conf"
like "$(finding warn partitions)" "has values for partition mian, which Slurm does not have" "a partition that is not there"
is "$(grep -c "partition main," "$D/check")" 0 "one that is there is not named"
echo 'daemon: { prot = 1; };' >"$D/etc/wrong.conf"
look --config "$D/etc/wrong.conf"
like "$(finding FAIL config)" "wrong.conf:1: .*port" "a wrong dynpipe.conf"
look --json
runs "--json" python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); assert d["checks"] and d["errors"]' "$D/check"
# Slurm's default, of which slurmctld says nothing.
echo "optional $plugin socket=$D/run/dynpiped-%n.sock" >"$stack"
sed -i '/^PlugStackConfig/d' "$D/etc/slurm.conf"
cluster restart-slurmctld >/dev/null 2>&1
wait_for 60 scontrol ping >/dev/null 2>&1
look
like "$(finding ok plugstack)" "$D/etc/plugstack.conf:1: optional" "a slurm.conf that does not name plugstack.conf: it lies beside it"
cluster down >/dev/null 2>&1
look
is "$?" 1 "without slurmctld: exit code 1"
like "$(finding FAIL slurm)" "cannot be read" "says so, and ends"
done_testing
