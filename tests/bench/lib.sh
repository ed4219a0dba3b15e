# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the tests of the benchmarks share: source it after nothing else. Gives $dir, a folder that goes at the end,
# holds and needs_slurm.
: "${DP_SRCDIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"
command -v jq >/dev/null || skip_all "jq is not installed"

dir=$(mktemp -d) || bail "no temporary directory"
trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT

# holds NAME JQ_EXPRESSION: it is true of $dir/out.json
holds() {
    jq -n -e "input | ($2)" "$dir/out.json" >/dev/null 2>"$dir/jq.err"
    ok $? "$1" || diag "not true: $2 $(cat "$dir/jq.err") $(head -c 10000 "$dir/out.json")"
}

# needs_slurm PROGRAM...: for those that start one: without it, the plugin, or one of these the test is skipped. take_core and
# take_cores (tests/lib/cores.sh) are there then.
needs_slurm() {
    local p
    for p in sbatch munged "$@"; do
        command -v "$p" >/dev/null || [ -x "/usr/sbin/$p" ] || skip_all "$p is not installed"
    done
    [ -e "$DP_BUILDDIR/spank_plugin/spank_dynpipe.so" ] || skip_all "the plugin is not built"
    # shellcheck source=tests/lib/cores.sh
    . "$DP_SRCDIR/tests/lib/cores.sh"
}
