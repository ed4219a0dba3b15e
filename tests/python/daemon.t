#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# etc/examples/torch_pipeline.py with libdynpipe and a real daemon, without Slurm: hand-overs that are asked for on the command line, and a
# daemon that is killed when all are about to vote. The losses are those of a run without DynPipe, bit for bit.
# shellcheck disable=SC2154 # dir, pid and the rest come from lone-daemon.sh
# shellcheck source=tests/lib/lone-daemon.sh
. "${DP_SRCDIR:-.}/tests/lib/lone-daemon.sh"
python=$(find_python 'import torch.distributed, sys; sys.exit(not torch.distributed.is_available())') || skip_all "no python3 with torch here (Debian: python3-torch)"
export DYNPIPE_LIBRARY=${DP_BUILDDIR:-.}/lib/libdynpipe.so.1
[ -e "$DYNPIPE_LIBRARY" ] || bail "lib/libdynpipe.so.1 is not built"
"$python" -c 'import ctypes, os; ctypes.CDLL(os.environ["DYNPIPE_LIBRARY"])' 2>/dev/null ||
    skip_all "Python cannot load what a sanitizer built"
dynpipe=${DP_BUILDDIR:-.}/cli/dynpipe
export PYTHONPATH=${DP_SRCDIR:-.}/lib/python PYTHONDONTWRITEBYTECODE=1 GLOO_SOCKET_IFNAME=lo DYNPIPE_CONF=$dir/conf
unset SLURM_PROCID SLURM_NTASKS MASTER_ADDR
example=${DP_SRCDIR:-.}/etc/examples/torch_pipeline.py
show_errors() { tail -qn 5 "$dir"/*.err "$dir/log"; }
on_failure=show_errors

# begin NAME JOB ARGUMENT...: three workers in the background, to $own; they train until $dir/NAME.stop is there.
begin() {
    local r
    own=
    for r in 0 1 2; do
        SLURM_JOB_ID=$2 SLURM_STEP_ID=0 timeout 1500 "$python" "${@:3}" --rank $r --world 3 --init "file://$dir/$1.meet" --width 32 \
            --freeze 4:2 --stop-file "$dir/$1.stop" >"$dir/$1.$r" 2>"$dir/$1.$r.err" &
        own="$own $!"
    done
    pids="$pids $own"
}
end() { # their statuses to $statuses
    local p
    statuses=
    for p in $own; do
        wait "$p"
        statuses="$statuses$? "
    done
}
trains() { "$dynpipe" status -h 2>/dev/null | grep -qE "^ *$job .* training "; }
asked() { timeout 60 "$dynpipe" layout -j "$job" --set "$1" >/dev/null 2>&1; } # refused while the one before is not over for all
layout_is() { [[ $(timeout 60 "$dynpipe" layout -j "$job" 2>/dev/null) == "$1 "* ]]; }
steps() { cat "$dir/$1".[012] | wc -l; }
goes_on() { [ "$(steps "$1")" -ge "$2" ]; }
# What the run printed is the beginning of what a longer one without DynPipe prints.
same_losses() { is "$(sort -n "$dir/$1".[012])" "$(head -n "$(steps "$1")" "$dir/fixed.0")" "$2"; }

write_conf "$dir/conf" "report_ms = 50;"
echo 'run: { cooldown_s = 3600.0; };' >>"$dir/conf" # layouts are this test's to change
export DYNPIPE_SOCKET=$sock
start || bail "dynpiped does not come up"

job=77
begin run $job "$example" --steps 1000000
wait_for 200 trains
ok $? "the daemon knows the run"
runs "automatic moves are paused" "$dynpipe" pause -j $job
for layout in '0-1|2-5|6-8' '0-4|-|5-8' '0-2|3-4|5-8'; do
    wait_for 200 asked "$layout"
    ok $? "asked for $layout"
    wait_for 200 layout_is "$layout"
    ok $? "and it is in force"
done
wait_for 200 goes_on run $(($(steps run) + 3))
touch "$dir/run.stop"
end
is "$statuses" "0 0 0 " "the run ends when it is asked to"
over() { grep -q "job=$job training completed" "$dir/log"; }
wait_for 100 over
ok $? "and the daemon knows that it was completed"
n_steps=$(steps run)

# The daemon is killed when all are about to vote yes. The one that comes in its place has no such hand-over: all go on as before.
job=78
export HOLD=$dir/hold
begin killed $job "${DP_SRCDIR:-.}/tests/python/torch_faults.py" 0:0:hold,0:1:hold,0:2:hold "$example" --steps 1000000
wait_for 200 trains
"$dynpipe" pause -j $job >/dev/null
wait_for 200 asked '0-1|2-5|6-8'
ok $? "a hand-over is asked for"
all_hold() { [ -e "$HOLD.0" ] && [ -e "$HOLD.1" ] && [ -e "$HOLD.2" ]; }
wait_for 200 all_hold
ok $? "all are about to vote"
end_processes "$pid"
touch "$HOLD.go"
before=$(steps killed)
start
wait_for 200 goes_on killed $((before + 3))
ok $? "a new daemon: the run goes on"
runs "in the old layout" layout_is '0-2|3-5|6-8'
touch "$dir/killed.stop"
end
is "$statuses" "0 0 0 " "and ends when it is asked to"
[ "$(steps killed)" -le "$n_steps" ] || n_steps=$(steps killed)

# As before, and no daemon comes: nobody knows what was decided.
job=79
rm -f "$HOLD".*
export DYNPIPE_DOUBT_S=2
begin doubt $job "${DP_SRCDIR:-.}/tests/python/torch_faults.py" 0:0:hold,0:1:hold,0:2:hold "$example" --steps 1000000
wait_for 200 trains
"$dynpipe" pause -j $job >/dev/null
wait_for 200 asked '0-1|2-5|6-8'
ok $? "another run"
wait_for 200 all_hold
end_processes "$pid"
touch "$HOLD.go"
end
is "$statuses" "1 1 1 " "no daemon comes: all end"
is "$(grep -l '^dynpipe.Ended: in doubt about hand-over' "$dir"/doubt.?.err | wc -l)" 3 "and say that they are in doubt"

own=
begin fixed 0 "$example" --fixed --steps "$n_steps"
end
same_losses run "layers moved: the same losses"
same_losses killed "a hand-over broke off: the same losses"
done_testing
