#!/bin/bash
# One dynpiped without Slurm and users who mean it harm: whatever they send, it stays small and answers others.
# Works as root and as an ordinary user.
# shellcheck disable=SC2015,SC2317,SC2034 # cleanup is called by the trap
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-.}/tests/lib/tap.sh"
bin=${DP_BUILDDIR:-.}/daemon/dynpiped
probe=${DP_BUILDDIR:-.}/tests/lib/daemon_probe
hostile=${DP_BUILDDIR:-.}/tests/lib/daemon_hostile
[ -x "$bin" ] && [ -x "$probe" ] && [ -x "$hostile" ] || skip_all "dynpiped is not built"

dir=$(mktemp -d /tmp/dp60-XXXXXX)
sock=$dir/n1.sock
pids=
cleanup() {
    local p
    for p in $pids; do kill -9 "$p" 2>/dev/null; wait "$p" 2>/dev/null; done
    rm -rf "$dir"
}
trap cleanup EXIT
on_failure="tail -n 25 $dir/log"

cat >"$dir/conf" <<X
daemon: {
  socket = "$dir/%n.sock";
  state_dir = "$dir/state-%n";
  port = 0;
  slurm = false;
};
X
chmod 644 "$dir/conf"

start() { # sets pid; returns when it listens
    rm -f "$dir/ready"
    "$bin" -f "$dir/conf" --node n1 --foreground >"$dir/ready" 2>>"$dir/log" &
    pid=$!
    pids="$pids $pid"
    wait_for 60 grep -qs ready "$dir/ready"
}

memory_kb() { # most that the daemon has had
    awk '/VmHWM/ { print $2 }' "/proc/$pid/status"
}

be_run() { # NAME JOB WORKERS LAYERS MICROBATCHES: until $run_fd is closed
    mkfifo "$dir/$1.in"
    "$hostile" run "$sock" "$2" "$3" "$4" "$5" <"$dir/$1.in" >"$dir/$1" &
    pids="$pids $!"
    exec {run_fd}>"$dir/$1.in"
    wait_for 100 grep -qs '^reported\|^error' "$dir/$1"
}

start
ok $? "starts"

# ---- numbers in a HELLO: what they cost is another process's, and has an end
be_run big 7 128 128 65535
like "$(cat "$dir/big")" '^welcome 3 128 workers x 65535 microbatches x 128 layers are more than' "a run of any size is not decided about"
exec {run_fd}>&-
before=$(memory_kb)
be_run large 8 32 32 65535
like "$(cat "$dir/large")" '^welcome 0 ' "a large one is"
has_decided() { "$probe" "$sock" query explain 8 | grep -q '"reason":'; }
runs "and comes to a decision" wait_for 100 has_decided
more=$(($(memory_kb) - before))
ok $((more > 50000)) "which does not grow the daemon" || diag "$more kB more" # 200 MB where it works that out itself
exec {run_fd}>&-

done_testing
