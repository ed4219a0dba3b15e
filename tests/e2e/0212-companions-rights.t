#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Companions of an ordinary user's job, where the process that listens is user dynpipe and a helper becomes the owner: they are
# submitted and withdrawn in his name, by both ways to start the daemon, and his environment is read by nobody else. Root's jobs get none.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
own_users="dynpipe:64990 dpowner:64991 dpother:64992"
# shellcheck source=tests/e2e/own_users.sh
. "$(dirname "$0")/own_users.sh"
cluster_up --nodes 2 --gpus 2 --cpus 4 --split --plugstack "optional $plugin socket=$D/sock/%n.sock" \
    --daemon-key 'report_ms = 250; slices_wait_s = 10.0; poll_s = 2.0;' --daemon-conf 'run: { confirm_s = 2.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/sock/n1.sock
mkdir "$D/out" && chown dpowner "$D/out"
tune=$D/out/tune.json

family() { squeue -h -t all -o '%A %T %u %k' | awk -v j="$1" '$1 == j || $0 ~ ("dynpipe: slice of " j "$")' | sort -n; } # HOME
states() { family "$1" | awk '{print $2, $3}' | sort | uniq -c | awk '{printf "%s%s %s %s", (NR > 1 ? ", " : ""), $1, $2, $3}'; }
states_are() { [ "$(states "$1")" = "$2" ]; }
all_ended() { ! family "$1" | grep -qE 'PENDING|RUNNING|COMPLETING'; }

for n in 1 2; do
    how=$([ $n = 1 ] && echo "started by root" || echo "as the unit starts it")
    cat >"$D/out/run$n.sh" <<X
#!/bin/bash
echo "secret: \$SECRET"
srun -n1 $(worker_command "$D/out/run$n.jsonl" $endless prune.begin=20 prune.end=120 prune.every=20) || [ \$? = 75 ]
X
    job=$(cd "$D/out" && SECRET=$n as dpowner sbatch --parsable -w n$n -n1 -c1 --gpus=1 --mem=200 -o "$D/out/run$n.%j.out" --dynpipe=balance \
        --dynpipe-slices=2 "$D/out/run$n.sh")
    wait_for 60 states_are "$job" "2 RUNNING dpowner"
    ok $? "$how: the job's companion is its owner's"
    wait_for 60 steps_done "$D/out/run$n.jsonl" 5
    ok $? "$how: they train"
    is "$(sort -u "$D"/out/run$n.*.out | grep secret)" "secret: $n" "$how: with the owner's environment"
    marked() { [ "$(squeue -h -j "$job" -o %k)" = "dynpipe: home of slices" ]; }
    wait_for 60 marked
    ok $? "$how: home's comment is set"
    scancel --signal=TERM "$job"
    wait_for 120 all_ended "$job"
    is "$(states "$job")" "2 COMPLETED dpowner" "$how: and end well"

    wait_for 60 all_nodes_idle
    occupant=$(sbatch --parsable -w n$n -n1 -c1 --gpus=1 --mem=100 -o /dev/null --wrap "sleep 1000")
    wait_for 60 job_is "$occupant" RUNNING
    job=$(cd "$D/out" && as dpowner sbatch --parsable -w n$n -n1 -c1 --gpus=1 --mem=200 -o "$D/out/wait$n.%j.out" --dynpipe=balance \
        --dynpipe-slices=2 "$D/out/run$n.sh")
    wait_for 60 states_are "$job" "1 PENDING dpowner, 1 RUNNING dpowner"
    ok $? "$how: another one's companion waits"
    scancel "$job"
    wait_for 120 all_ended "$job"
    is "$(states "$job")" "2 CANCELLED dpowner" "$how: it is withdrawn with home"
    runs "$how: nothing of it is left among the locks" test ! -e "$D/sock/n$n.sock.locks/slices-of-$job"
    scancel "$occupant"
    wait_for 60 all_nodes_idle
done

roots=$(sbatch --parsable -w n1 -n1 -c1 --gpus=1 --mem=200 -o "$D/roots.out" --dynpipe=balance --dynpipe-slices=2 "$D/out/run1.sh")
wait_for 60 job_ended "$roots"
is "$(states "$roots")" "1 FAILED root" "root's job gets none"
like "$(cat "$D/roots.out")" "with run_user nothing is asked in root's name" "and is told why"
is "$(drained_nodes)" "" "no node is drained"
done_testing
