#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe.torch and etc/examples/torch_pipeline.py: three processes, gloo, and hand-overs at the steps that a script names
# (tests/python/scripted_dynpipe.c). Whatever moves, fails or leaves: the losses are those of a run without DynPipe, bit for bit.
DP_SRCDIR=${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
DP_BUILDDIR=${DP_BUILDDIR:-$PWD}
. "$DP_SRCDIR/tests/lib/tap.sh"
python=$(find_python 'import torch.distributed, sys; sys.exit(not torch.distributed.is_available())') || skip_all "no python3 with torch here (Debian: python3-torch)"
export DYNPIPE_LIBRARY=$DP_BUILDDIR/tests/python/scripted_dynpipe.so
[ -f "$DYNPIPE_LIBRARY" ] || bail "tests/python/scripted_dynpipe.so is not built"
export PYTHONPATH=$DP_SRCDIR/lib/python PYTHONDONTWRITEBYTECODE=1 GLOO_SOCKET_IFNAME=lo
unset DYNPIPE_SOCKET SLURM_PROCID SLURM_NTASKS MASTER_ADDR
example=$DP_SRCDIR/etc/examples/torch_pipeline.py
steps=14

dir=$(mktemp -d) || bail "no temporary directory"
pids=
# shellcheck disable=SC2086 # a list
trap 'case $BASHPID in $$) end_processes $pids; rm -rf "$dir" ;; esac' EXIT
show_errors() { tail -qn 5 "$dir"/*.err; }
on_failure=show_errors

# train NAME SCRIPT ARGUMENT...: three workers; their statuses to $statuses, the losses of who led to $dir/NAME, in the order of steps, and
# what the library was told to $dir/NAME.log.
train() {
    local name=$1 r p own=
    export DYNPIPE_SCRIPT_LOG=$dir/$name.log DYNPIPE_SCRIPT=$dir/$name.script
    [ -f "$dir/$name.script" ] || : >"$dir/$name.script"
    for r in 0 1 2; do
        timeout 900 "$python" "${@:2}" --rank $r --world 3 --init "file://$dir/$name.meet" --steps $steps --width 32 --freeze 6:3 \
            >"$dir/$name.$r" 2>"$dir/$name.$r.err" &
        own="$own $!"
    done
    pids="$pids $own"
    statuses=
    for p in $own; do
        wait "$p"
        statuses="$statuses$? "
    done
    sort -n "$dir/$name".[012] >"$dir/$name"
}
same_losses() { is "$(cat "$dir/$1")" "$(cat "$dir/fixed")" "$2"; }
said() { grep -cE "$2" "$dir/$1.log"; }

while read -r rc name; do
    if [ "$rc" = "#" ]; then diag "$name"; else ok "$rc" "parts: $name"; fi
done < <("$python" "$DP_SRCDIR/tests/python/torch_parts.py" 2>&1 || echo 1 it ends)

lines=$(grep -c '# dynpipe$' "$example")
is $((lines > 0 && lines <= 30)) 1 "the example has at most 30 lines for DynPipe" || diag "$lines"
train fixed "$example" --fixed
is "$statuses" "0 0 0 " "without DynPipe it trains"
is "$(cut -d' ' -f1 "$dir/fixed" | paste -sd' ')" "$(seq -s' ' $steps)" "a loss for each step"
isnt "$(sed -n '5s/.* //p' "$dir/fixed")" "$(sed -n '6s/.* //p' "$dir/fixed")" "losses change"
is "$(said fixed . 2>/dev/null)" "" "libdynpipe is not called"
grep -v '# dynpipe$' "$example" >"$dir/bare.py"
train bare "$dir/bare.py" --cut 0,1,2,9
is "$statuses" "0 0 0 " "without the lines for DynPipe it trains"
same_losses bare "in another layout: the same losses"

# Layers go to and fro; one abort; first the worker in the middle leaves, then the leader, and the last one goes on alone.
cat >"$dir/moves.script" <<X
move 2 commit 0 2 5 9
move 4 abort 0 4 6 9
move 5 commit 0 4 6 9
move 7 commit 0 5 5 9
move 10 commit 0 0 0 9
keep 2
X
train moves "$example"
is "$statuses" "0 0 0 " "workers that leave end with 0"
same_losses moves "layers move, workers leave: the same losses"
is "$(grep -c . "$dir/moves.0") $(grep -c . "$dir/moves.2")" "11 3" "the next worker leads when the leader has left"
is "$(said moves 'decide [0-9]+ yes=1') $(said moves 'done [0-9]+ pause=1 transfer=1')" "14 14" "all voted yes, and said when they went on"
is "$(sed -nE 's/.* decide ([0-9]+) yes=1 (digest=..) .*/\1 \2/p' "$dir/moves.log" | sort -u | wc -l)" 5 \
    "with one digest for each hand-over"
is "$(grep ' leave ' "$dir/moves.log" | sort)" "0 leave how=1 text=-
1 leave how=1 text=-
2 leave how=0 text=-" "how each said goodbye"
is "$(said moves 'report step=6 layer=1 fwd=1 bwd=1')" 1 "a layer that is trained goes forward and back"
is "$(said moves 'report step=7 layer=1 fwd=1 bwd=0 .*act=0')" 1 "a frozen one only forward"
is "$(said moves 'change step=6 kind=2 value=3')" 3 "freezing is announced"

# Each of these hand-overs goes wrong in one worker; all vote no and go on as before, and the next one succeeds.
for k in 1 2 3 4 5 6; do echo "move $((k + 1)) commit 0 2 4 9"; done >"$dir/faults.script"
train faults "$DP_SRCDIR/tests/python/torch_faults.py" 1:2:shadow,2:1:flip,3:2:cut,4:1:pack,5:2:other "$example"
is "$statuses" "0 0 0 " "after hand-overs that failed it goes on"
same_losses faults "the same losses"
is "$(said faults 'decide [1-5] yes=1') $(said faults 'decide [1-5] yes=0') $(said faults 'decide 6 yes=1')" "0 15 3" \
    "one that could not makes all vote no"
like "$(grep '^2 decide 1 ' "$dir/faults.log")" "why=layer 4: no room for it" "why: no room"
like "$(grep '^1 decide 2 ' "$dir/faults.log")" "why=layer 2: its bytes are not those that were sent" "why: a flipped bit"
like "$(grep '^2 decide 3 ' "$dir/faults.log")" "why=layer 4: its bytes are not those that were sent" "why: a byte short"
like "$(grep '^1 decide 4 ' "$dir/faults.log")" "why=layer 2: no room to pack it" "why: it cannot be packed"
like "$(grep '^2 decide 5 ' "$dir/faults.log")" "why=layer 4: its state here is not the one that was sent" "why: another layer came out"
like "$(grep '^0 decide 1 ' "$dir/faults.log")" "why=another worker could not" "why, in the others"

# A worker dies where it is to send: nobody may have voted yes.
echo "move 2 commit 0 2 5 9" >"$dir/dies.script"
train dies "$DP_SRCDIR/tests/python/torch_faults.py" 1:1:end "$example"
unlike "$statuses" "(^| )(0|124) " "a worker dies in a transfer: the others end, too"
is "$(said dies 'decide 1 yes=1') $(said dies 'decide 1 yes=0')" "0 2" "after a vote of no"

# Nobody knows what was decided.
echo "move 2 end 0 2 5 9" >"$dir/doubt.script"
train doubt "$example"
is "$statuses" "1 1 1 " "in doubt all end"
like "$(tail -n 1 "$dir/doubt.0.err")" "^dynpipe.Ended: the script ends it" "and say why"
done_testing
