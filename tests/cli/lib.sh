# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # who sources it uses what is set
# What the tests of the command share: source it after nothing else.
: "${DP_SRCDIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"

for v in "${!SLURM_@}" "${!DYNPIPE_@}"; do unset "$v"; done
export COLUMNS=100 TERM=xterm LC_ALL=C.UTF-8
unset NO_COLOR
dynpipe=$DP_BUILDDIR/cli/dynpipe
data=$DP_SRCDIR/tests/data/cli
tmp=$(mktemp -d "${TMPDIR:-/tmp}/dpcliXXXXXX") || bail "no temporary directory"
trap 'case $BASHPID in $$) rm -rf "$tmp" ;; esac' EXIT

# What the command prints must be the recorded text. DP_UPDATE=1 records it anew.
golden() { # NAME ARGS...
    local name=$1
    shift
    "$dynpipe" "$@" >"$tmp/out" 2>"$tmp/err" || { ok 1 "$name: exit code $?"; diag "$(cat "$tmp/err")"; return; }
    [ -z "${DP_UPDATE:-}" ] || cp "$tmp/out" "$data/$name.out"
    if diff -u "$data/$name.out" "$tmp/out" >"$tmp/diff"; then
        ok 0 "$name: as recorded"
    else
        ok 1 "$name: as recorded"
        diag "$(cat "$tmp/diff")"
    fi
}

# exit_is CODE NAME ARGS...: the exit code; stdout and stderr are left in $out and $err.
exit_is() {
    local want=$1 name=$2
    shift 2
    out=$("$dynpipe" "$@" 2>"$tmp/err")
    is "$?" "$want" "$name"
    err=$(cat "$tmp/err")
}

valid_json() { # FILE: every line, or the whole, is JSON with meta, errors and warnings
    python3 - "$1" <<'X'
import json, sys
text = open(sys.argv[1]).read()
try:
    docs = [json.loads(text)]
except ValueError:
    docs = [json.loads(l) for l in text.splitlines()]
assert docs, "nothing"
for d in docs:
    assert d["meta"]["version"] and d["meta"]["command"], "no meta"
    assert isinstance(d["errors"], list) and isinstance(d["warnings"], list), "no lists"
X
}
