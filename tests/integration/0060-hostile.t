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
  run_user = "";
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

gap() { # SECONDS: the longest that an honest question waits meanwhile, ms
    "$hostile" gap "$sock" "$1" | sed -n 's/^answers.* gap //p'
}
log_lines() { wc -l <"$dir/log"; }
as=
[ "$(id -u)" = 0 ] && chmod 755 "$dir" && setpriv --reuid 65534 --clear-groups test -x "$hostile" &&
    as="setpriv --reuid 65534 --clear-groups"

# Reports of finished runs, as they lie there after a restart.
end_ms=$(($(date +%s) * 1000 - 3600000))
mkdir -p "$dir/state-n1/history"
chmod 755 "$dir/state-n1"
filler=$(seq -s, 3000)
for job in $(seq 1001 1400); do
    echo "{\"job_id\":$job,\"uid\":4242,\"ended_s\":1,\"status\":{\"state\":\"job $job\"},\"explain\":{},\"report\":[$filler]}" \
        >"$dir/state-n1/history/job-$job.0.$((end_ms + job)).json"
done
echo nonsense >"$dir/state-n1/history/job-999.0.$end_ms.json"

start
ok $? "starts"

# ---- finished runs
is "$("$probe" "$sock" query jobs 0 | grep -o '"job_id":1[0-9]*' | wc -l)" "$([ "$(id -u)" = 0 ] && echo 400 || echo 0)" \
    "lists the runs that its files tell of"
like "$("$probe" "$sock" query status 1234)" "$([ "$(id -u)" = 0 ] && echo '"job 1234"' || echo 'error .*somebody else')" \
    "and answers from the file of one"
if [ -n "$as" ]; then
    $as "$hostile" flood "$sock" 0 0 4 >"$dir/flood" &
    pids="$pids $!"
    longest=$(gap 5)
    ok $((${longest:-99999} > 3000)) "a flood of questions keeps nobody waiting" || diag "waited ${longest:-for ever} ms"
    like "$($as "$probe" "$sock" query status 1234)" 'error .*somebody else' "a finished run is its owner's to see"
else
    skip "a flood of questions keeps nobody waiting" "needs root to become another user"
fi

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
is_finished() { "$probe" "$sock" query jobs 0 | grep -q '"job_id":8,[^}]*"finished"'; }
runs "a run that ended is listed as finished" wait_for 60 is_finished
like "$("$probe" "$sock" query report 8)" '"slot_seconds_held"' "and its report can be asked for at once"

done_testing
