# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # the rest is lib.sh's
# Runs of etc/examples/torch_pipeline.py, a trainer that is not ours, on the private Slurm: what the tests of it share.
# Source it behind lib.sh.

# shellcheck source=tests/e2e/foreign.sh
. "$DP_SRCDIR/tests/e2e/foreign.sh"

python=$(find_python 'import torch.distributed as d; assert d.is_available()') || skip_all "no python3 with torch here (Debian: python3-torch)"
example=$DP_SRCDIR/etc/examples/torch_pipeline.py
# Nobody knows how long a run takes: it ends when its file is there (end_torch), and is the beginning of every longer one.
torch_model="--layers 9 --width 96 --batch 32 --microbatches 4 --freeze 20:2 --freeze 40:4 --freeze 60:5"

# A port that nobody listens at now. All nodes are this machine.
free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# torch_run NAME SBATCH-OPTIONS -- PROGRAM...: a run of four workers of PROGRAM (a command that takes the example's options); prints
# the job id.
torch_run() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
export MASTER_PORT=$(free_port) MASTER_ADDR=127.0.0.1
exec srun --mpi=none --no-kill --kill-on-bad-exit=0 --wait=0 -n 4 $* $torch_model --steps 1000000 --stop-file $D/$name.stop
X
    sbatch --parsable -J "$name" -N4 --gpus-per-node=1 -o "$D/$name.out" "${options[@]}" "$D/$name.sh"
}

torch_makes_steps() { # NAME STEPS: so many more?
    local before
    before=$(foreign_losses "$D/$1.out" | tail -n 1 | cut -d' ' -f1)
    wait_for 120 foreign_steps_done "$D/$1.out" $((${before:-0} + $2))
}

# end_torch JOB NAME: as its user ends it.
end_torch() {
    touch "$D/$2.stop"
    wait_for 120 job_ended "$1"
    is "$(job_state "$1")" COMPLETED "$2: the run ends well"
    is "$(grep -i 'exit code' "$D/$2.out")" "" "$2: no worker fails"
}

# same_as_fixed NAME...: every loss of these runs is that of one process without DynPipe, which trains as far as the longest of them.
same_as_fixed() {
    local name most=60 n
    for name; do
        foreign_losses "$D/$name.out" >"$D/$name.loss"
        n=$(wc -l <"$D/$name.loss")
        runs "$name: $n steps have a loss" test "$n" -gt 20
        is "$(cut -d' ' -f1 "$D/$name.loss" | uniq -d)" "" "$name: no step twice"
        [ "$n" -le "$most" ] || most=$n
    done
    leave_cores
    # shellcheck disable=SC2086 # a list
    (cd "$D" && idly env -u SLURM_CONF -u DYNPIPE_SOCKET MASTER_PORT="$(free_port)" timeout 1200 "$python" "$example" --fixed $torch_model \
        --steps "$most" >"$D/fixed.out" 2>&1)
    ok $? "one process without DynPipe trains as far" || diag "$(tail -n 3 "$D/fixed.out")"
    foreign_losses "$D/fixed.out" >"$D/fixed.loss"
    for name; do
        runs "$name: every loss is that of it, to the last bit" cmp <(head -n "$(wc -l <"$D/$name.loss")" "$D/fixed.loss") "$D/$name.loss"
    done
}
