#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# etc/examples/own_loop.py and its batch script: a loop that cannot move layers saves when fewer workers are proposed, gives nodes back, and
# goes on with the same losses, bit for bit. libdynpipe is a stand-in that plays a script, Slurm's commands are played.
DP_SRCDIR=${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
DP_BUILDDIR=${DP_BUILDDIR:-$PWD}
. "$DP_SRCDIR/tests/lib/tap.sh"
PYTHON=$(find_python 'import ctypes, sys; sys.exit(sys.version_info < (3, 9))') || skip_all "no python3 (3.9 or newer) here"
export PYTHON DYNPIPE_LIBRARY=$DP_BUILDDIR/tests/python/scripted_dynpipe.so
[ -f "$DYNPIPE_LIBRARY" ] || bail "tests/python/scripted_dynpipe.so is not built"
export PYTHONPATH=$DP_SRCDIR/lib/python PYTHONDONTWRITEBYTECODE=1
unset DYNPIPE_SOCKET SLURM_PROCID SLURM_NTASKS HOSTS
export LOOP=$DP_SRCDIR/etc/examples/own_loop.py
export options="--steps 24 --layers 7 --freeze 6:3"

dir=$(mktemp -d /tmp/dp-XXXXXX) || bail "no temporary directory"
trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT
cd "$dir" || exit 1
export DYNPIPE_SCRIPT=$dir/script DYNPIPE_SCRIPT_LOG=$dir/log
show_errors() { tail -qn 5 "$dir"/*.err; }
on_failure=show_errors

# srun --ntasks=N ... COMMAND: N tasks on this machine. They meet in the folder of checkpoints: the addresses are left out.
mkdir bin
cat >bin/srun <<'X'
#!/bin/bash
echo "srun $*" >>calls
own=
while [[ $1 == -* ]]; do
    case $1 in --ntasks=*) n=${1#*=} ;; esac
    shift
done
command=()
while [ $# -gt 0 ]; do
    if [ "$1" = --hosts ]; then shift 2; else command+=("$1"); shift; fi
done
for ((r = 0; r < n; r++)); do
    SLURM_PROCID=$r SLURM_NTASKS=$n timeout 300 "${command[@]}" >>"out.$r" 2>>"$r.err" &
    own="$own $!"
done
worst=0
for p in $own; do
    wait "$p"
    rc=$?
    [ $rc -le $worst ] || worst=$rc
done
exit $worst
X
# scontrol leaves what Slurm 22.05 leaves; REFUSE: it does not shrink the job.
cat >bin/scontrol <<'X'
#!/bin/bash
echo "scontrol $*" >>calls
case $* in
    "show hostnames "*) printf 'n%s\n' 1 2 3 ;;
    "update "*)
        [ -z "$REFUSE" ] || { echo "Job update not available right now" >&2; exit 1; }
        n=${!#}
        n=${n#NumNodes=}
        echo "export SLURM_NNODES=$n SLURM_JOB_NODELIST=n[1-$n]" >slurm_job_77_resize.sh
        : >slurm_job_77_resize.csh ;;
esac
X
chmod +x bin/*
export PATH=$dir/bin:$PATH SLURM_JOB_ID=77

# start NODES FOLDER ARGUMENT...: the batch script; its status to $rc, losses to $dir/losses.
start() {
    rm -f calls out.* log slurm_job_*
    # shellcheck disable=SC2086 # a list
    SLURM_NNODES=$1 SLURM_JOB_NODELIST=n[1-$1] CHECKPOINTS=$2 "$DP_SRCDIR/etc/examples/own_loop.sbatch" $options "${@:3}" >said 2>&1
    rc=$?
    cat out.* | sort -n >losses
}

: >script
start 1 one --fixed
is "$rc $(wc -l <losses)" "0 24" "one worker trains"
cp losses want
isnt "$(sed -n '7s/.* //p' want)" "$(sed -n '8s/.* //p' want)" "losses change"
start 3 three --fixed
is "$rc $(cat losses)" "0 $(cat want)" "three workers: the same losses"
is "$(cat log 2>/dev/null)" "" "without DynPipe its library is not called"

echo "propose 9 0 5 5 7" >script
start 3 fewer
is "$rc $(cat losses)" "0 $(cat want)" "it begins again on fewer nodes: the same losses"
is "$(cat fewer/next.json)" '{"step": 9, "cut": [0, 5, 7]}' "from the checkpoint behind the step in which that was proposed"
is "$(grep -oE '^srun|nodes=[0-9]|ntasks=[0-9]|--hosts [n0-9,]+|scontrol update .*' calls | paste -sd' ')" \
    "srun nodes=3 ntasks=3 --hosts n1,n2,n3 scontrol update JobId=77 NumNodes=2 srun nodes=2 ntasks=2 --hosts n1,n2" \
    "the nodes that are not needed go back"
is "$(ls slurm_job_* 2>/dev/null)" "" "what scontrol left is used up"
is "$(grep -c 'leave how=3 text=fewer/step-9' log) $(grep -c 'leave how=0' log)" "3 2" "workers say that they saved, later that all is done"
is "$(grep -c 'join .*traits=6 workers=3 .* step=0 .* changes=1 ' log) $(grep -c 'join .*traits=6 workers=2 .* step=9 .* changes=0 ' log)" \
    "3 2" "they join without CAN_MOVE, and later with the step they are at"
is "$(grep -c 'report step=6 layer=1 fwd=1 bwd=1' log) $(grep -c 'report step=7 layer=1 fwd=1 bwd=0 .*act=0' log)" "1 1" \
    "they report what layers cost"

REFUSE=1 start 3 refused
is "$rc $(cat losses)" "0 $(cat want)" "where Slurm refuses it goes on all the same"
is "$(grep -oE 'nodes=[0-9] --ntasks=[0-9]' calls | paste -sd' ')" "nodes=3 --ntasks=3 nodes=2 --ntasks=2" "with fewer workers"

: >script
start 3 fewer --steps 30
is "$rc" 2 "a checkpoint of another number of workers is refused"
like "$(cat 0.err)" "fewer/next.json is of 2 workers with 7 layers: there are 3 with 7" "and named"
rm fewer/step-9/layer-2.json
start 2 fewer
isnt "$rc" 0 "a layer of the checkpoint is missing: the run ends"
mkdir empty && : >empty/next.json
out=$("$PYTHON" "$LOOP" --dir empty --fixed 2>&1)
isnt $? 0 "a next.json that was cut short is refused"
like "$out" "empty/next.json does not say where to go on" "and named"
done_testing
