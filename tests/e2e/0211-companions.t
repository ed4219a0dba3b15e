#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A job of one GPU with --dynpipe-slices=N asks Slurm for the others itself, as its owner: they are one run, squeue and sacct show
# what belongs together, and with the job the run ends and what waits is withdrawn. Restarts of daemon and controller in the middle
# submit nothing twice; what Slurm refuses is told. Another user's job that names the run has no part in it.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/companions.sh
. "$DP_SRCDIR/tests/e2e/companions.sh"

for p in slurmdbd mariadbd sacctmgr; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

# Slurm asks this about every job that is submitted: it can hold slurmctld in the middle of a companion, and refuse it.
mkdir -p "$D/etc"
cat >"$D/etc/job_submit.lua" <<X
local function is(name)
    local f = io.open("$D/" .. name)
    if f then f:close() end
    return f ~= nil
end
function slurm_job_submit(job, parts, uid)
    if job.comment == nil or not string.find(job.comment, "dynpipe: slice of", 1, true) then return slurm.SUCCESS end
    if is("hold") then
        io.open("$D/held", "w"):close()
        while is("hold") do os.execute("sleep 0.1") end
    end
    if is("refuse") then
        slurm.log_user("the site says no")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end
function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end
return slurm.SUCCESS
X

run="$endless prune.begin=20 prune.end=120 prune.every=20"
cluster_up --nodes 2 --gpus 4 --cpus 8 --dbd --conf AccountingStoreFlags=job_comment \
    --conf JobSubmitPlugins=lua \
    --daemon-key 'report_ms = 250; slices_wait_s = 20.0; poll_s = 2.0;' --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
    --daemon-conf 'run: { hysteresis = 50.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
me=$(id -un)
# Companions have home's arguments, environment and umask.
job_first='echo "given: $# <$2> <$GIVEN> umask $(umask)"' job_args=(a "b  c")
given() { (umask 0027; export GIVEN="some thing"; "$@"); } # COMMAND
logs() { cat "$D"/log/dynpiped.n*.log; }
companions() { timeout 10 dynpipe status --json ${2:+-j "$1"} 2>/dev/null | jq -c "(.run // (.runs[] | select(.job_id == $1))) | .companions"; } # JOB [running]

# ---- four GPUs of one node: one job becomes four ------------------------------------------------------------------

one=$(given job one -w n1 --comment 'sweep 7' $release --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run)
wait_for 60 states_are "$one" "4 RUNNING"
ok $? "one: the job is four"
wait_for 60 steps_done "$D/one.jsonl" 5
ok $? "one: they train as one run"
is "$(status "$one" '[.slots[] | .job] | length')" 4 "one: status has four slices"
is "$(status "$one" '.slots[0].job')" "$one" "one: home is the job that was submitted"
marked() { [ "$(squeue -h -j "$one" -o %k)" = "sweep 7; dynpipe: home of slices" ]; }
wait_for 60 marked
ok $? "one: its comment says so, behind the user's words"
is "$(family "$one" | grep -c " one sweep 7; dynpipe: slice of $one\$")" 3 "one: the others have its name, and say what they are"
second=$(family "$one" | awk -v j="$one" '$1 != j {print $1; exit}')
field() { scontrol show job "$1" | grep -oE "\\b$2=[^ ]*" | head -n1; }
for f in Partition NumCPUs MinMemoryNode TresPerJob ReqNodeList WorkDir; do
    like "$(field "$one" $f)" "=." "one: home has a value of $f"
    is "$(field "$second" $f)" "$(field "$one" $f)" "one: $f is as home's"
done
is "$(field "$second" Requeue)" "Requeue=0" "one: a companion is never requeued"
like "$(squeue -h -j "$second" -o %l)" "^(59:00|1:00:00)$" "one: a companion has what was left of home's time"
is "$(grep given: "$D/one.$second.out")" "$(grep given: "$D/one.$one.out")" "one: it was given home's arguments, environment and umask"
is "$(grep given: "$D/one.$one.out")" "given: 2 <b  c> <some thing> umask 0027" "one: these are what the user gave"
paused() { timeout 10 dynpipe pause -j "$one" >"$D/pause.out" 2>&1; }
wait_for 60 paused
ok $? "one: none is given back for another reason"
scancel "$second"
wait_for 60 job_ended "$second"
makes_steps one 10
ok $? "one: a companion is cancelled, and the others train on"
is "$(grep -c '"event":"regrouped"' "$D/one.jsonl")" 0 "one: it had handed its layers over before Slurm killed it"
given_back() { [ "$(status "$one" '[.slots[] | select(.state == "released")] | length')" = 1 ]; }
wait_for 60 given_back
ok $? "one: its GPU is given back"
is "$(n_submitted "$one")" 3 "one: three were submitted, and none in its place"
scancel --signal=TERM "$one"
wait_for 120 all_ended "$one"
is "$(states "$one")" "1 CANCELLED, 3 COMPLETED" "one: when home is asked to end all end well"
is "$(grep -i 'exit code' "$D"/one.*.out | grep -v 'exit code 75')" "" "one: no worker fails"
accounted() { [ "$(sacct -n -X -P --format=JobName,Comment | grep -c "^one|sweep 7; dynpipe: slice of $one\$")" = 3 ]; }
wait_for 60 accounted
ok $? "one: sacct shows them"


# ---- fewer than were asked for: the rest joins later, who is cancelled is replaced, and scancel of home ends all in order ---

wait_for 60 all_nodes_idle
occupant=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o /dev/null --wrap "sleep 1000")
wait_for 60 job_is "$occupant" RUNNING
two=$(given job two -w n1 --dynpipe=balance --dynpipe-min-gpus=2 --dynpipe-slices=4 -- $run checkpoint.dir="$D/two.ckpt")
wait_for 60 states_are "$two" "2 PENDING, 2 RUNNING"
ok $? "two: one companion runs, and two wait"
waiting_is_told() { timeout 10 dynpipe status -j "$two" 2>&1 | grep -q "of 4 slices have come; 2 wait in Slurm's queue: Resources"; }
wait_for 60 waiting_is_told
ok $? "two: status says for what the run waits"
like "$(companions "$two")" '"state":"waiting","wanted":3,"waiting":2,"running":1' "two: so does its list"
wait_for 60 steps_done "$D/two.jsonl" 5
ok $? "two: with two of four it begins when the time is over"
like "$(logs | grep "job=$two the run begins")" "with 2 of 4 slices: 2 wait in Slurm's queue: Resources" "two: the log says why"
is "$(states "$two")" "2 PENDING, 2 RUNNING" "two: the others wait on"
scancel "$occupant"
wait_for 60 states_are "$two" "4 RUNNING"
wait_for 60 holders_are "$two" 4
ok $? "two: they join the run when they begin"
taken=$(family "$two" | awk -v j="$two" '$1 != j {print $1}' | tail -n1)
scancel "$taken"
wait_for 120 states_are "$two" "1 CANCELLED, 4 RUNNING"
ok $? "two: for one that is cancelled another one is submitted"
wait_for 60 holders_are "$two" 4
ok $? "two: and joins"
is "$(grep -c '"event":"regrouped"' "$D/two.jsonl")" 0 "two: nothing was made again"
scancel "$two"
wait_for 120 all_ended "$two"
is "$(states "$two")" "2 CANCELLED, 3 COMPLETED" "two: scancel of home ends its companions, too, and well"
runs "two: with a checkpoint" test -n "$(find "$D/two.ckpt" -name '*.manifest' -o -name 'manifest*' -o -name '*.json' 2>/dev/null | head -n1)"

occupant=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o /dev/null --wrap "sleep 1000")
wait_for 60 job_is "$occupant" RUNNING
three=$(given job three -w n1 --dynpipe=balance --dynpipe-slices=4 -- $run)
wait_for 60 states_are "$three" "2 PENDING, 2 RUNNING"
ok $? "three: two wait"
scancel "$three"
wait_for 120 all_ended "$three"
is "$(states "$three")" "3 CANCELLED, 1 FAILED" "three: scancel of home before the run begins withdraws them, and the one that ran ends"
like "$(cat "$D"/three.*.out)" "the run of job $three is over|job $three is over" "three: it was told why"
is "$(states_are "$three" "3 CANCELLED, 1 FAILED" && n_submitted "$three")" 3 "three: nothing came in their place"

# The same while home's daemon is dead: the one that comes back withdraws them. They are held, or one would begin on home's GPU.
away=$(given job away -w n1 --dynpipe=balance --dynpipe-slices=4 -- $run)
wait_for 60 states_are "$away" "2 PENDING, 2 RUNNING"
ok $? "away: two wait"
for j in $(family "$away" | awk '$2 == "PENDING" {print $1}'); do scontrol hold "$j"; done
cluster stop daemon:n1 KILL
scancel "$away"
wait_for 60 job_ended "$away"
like "$(states "$away")" "2 PENDING" "away: home is over, and nobody is there to withdraw them"
cluster start daemon:n1
wait_for 120 all_ended "$away"
is "$(states "$away")" "3 CANCELLED, 1 FAILED" "away: the daemon that comes back does, and the one that ran ends"
is "$(find "$D/run" -name "slices-of-$away")" "" "away: and leaves no lock"

# ---- another user's job names it, and a second job of the same user's that is no home ------------------------------------

if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$worker" 2>/dev/null; then
    four=$(given job four -w n1 --dynpipe=balance --dynpipe-slices=4 -- $run)
    wait_for 60 states_are "$four" "2 PENDING, 2 RUNNING"
    # shellcheck disable=SC2046
    foreign=$(sbatch --parsable --uid=65534 --gid=65534 -w n2 -n1 --gpus=1 --mem=100 -D / -o "$D/tmp/n2/foreign.out" \
        --comment "dynpipe: slice of $four" --dynpipe=balance --dynpipe-slices=4 --wrap "srun -n1 $(worker_command /dev/null $run)")
    wait_for 60 job_ended "$foreign"
    is "$(job_state "$foreign")" FAILED "four: another user's job that names the run has no part in it"
    like "$(cat "$D/tmp/n2/foreign.out")" "Slurm knows no job $four of this user" "four: and is told so"
    is "$(states "$four" | grep -c "2 RUNNING\|FAILED")" 1 "four: the run goes on waiting"
    like "$(timeout 10 dynpipe status -j "$four" 2>&1)" "2 of 4 slices have come|1 of 4 slices have come" "four: and does not count it"
    scancel "$four"
    wait_for 120 all_ended "$four"
else
    skip "four: another user's job that names the run has no part in it" "no other user reaches the build"
fi
scancel "$occupant"

# ---- what the site refuses -----------------------------------------------------------------------------------------------

wait_for 60 all_nodes_idle
touch "$D/refuse"
seven=$(given job seven --dynpipe=balance --dynpipe-slices=2 -- $run)
wait_for 60 job_ended "$seven"
like "$(cat "$D/seven.$seven.out")" "Slurm refuses more of them: (the site says no|.*job_submit)" "seven: that a plugin of the site's refuses it is told"
is "$(states "$seven")" "1 FAILED" "seven: nothing was submitted"
rm "$D/refuse"

# ---- home is requeued: Slurm counts its next life while the worker of this one still ends ----------------------------

wait_for 60 all_nodes_idle
eight=$(given job eight -w n1 --requeue --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run checkpoint.dir="$D/eight.ckpt")
wait_for 60 states_are "$eight" "4 RUNNING"
wait_for 60 steps_done "$D/eight.jsonl" 5
ok $? "eight: four train as one run"
scontrol requeue "$eight"
wait_for 60 job_is "$eight" PENDING # when it has ended, Slurm lets it wait two minutes from then on
scontrol update JobId="$eight" StartTime=now+3
wait_for 60 states_are "$eight" "3 COMPLETED, 4 RUNNING"
ok $? "eight: home is requeued, its companions save and end, and its next life has others"
wait_for 60 grep -q '"event":"resumed"' "$D/eight.jsonl"
ok $? "eight: which go on from the checkpoint"
makes_steps eight 5
ok $? "eight: and train"
is "$(logs | grep -c "job=$eight coordinator restarted")" 0 "eight: nobody began the former life anew"
scancel --signal=TERM "$eight"
wait_for 120 all_ended "$eight"

# ---- restarts in the middle ------------------------------------------------------------------------------------------

wait_for 60 all_nodes_idle
children_of() { local p; for p in /proc/[0-9]*; do [ "$(sed 's/.*) . \([0-9]*\) .*/\1/' "$p/stat" 2>/dev/null)" != "$1" ] || echo "${p#/proc/}"; done; }
for what in daemon both; do
    touch "$D/hold"
    rm -f "$D/held"
    job=$(given job "$what" -w n1 --dynpipe=balance --dynpipe-slices=4 -- $run)
    wait_for 60 test -e "$D/held"
    ok $? "$what: the first companion is being submitted"
    daemon=$(cat "$D/run/dynpiped.n1.pid")
    helpers=$(children_of "$daemon")
    cluster stop daemon:n1 KILL
    # shellcheck disable=SC2086
    [ "$what" = daemon ] || kill -KILL $helpers 2>/dev/null
    cluster start daemon:n1
    rm "$D/hold"
    wait_for 90 steps_done "$D/$what.jsonl" 5
    ok $? "$what: killed in the middle, and restarted, the run begins"
    is "$(states "$job")" "4 RUNNING" "$what: no companion was submitted twice"
    scancel --signal=TERM "$job"
    wait_for 120 all_ended "$job"
    is "$(states "$job")" "4 COMPLETED" "$what: and ends well"
done

# ---- what Slurm refuses ------------------------------------------------------------------------------------------------

wait_for 60 all_nodes_idle
cluster stop slurmctld
echo AccountingStorageEnforce=associations,limits >>"$SLURM_CONF"
cluster start slurmctld
wait_for 60 all_nodes_idle
# One user only, and told to the slurmctld that runs: 22.05.8 does not find him in some databases, and dies of a second one.
{ sacctmgr -i add account lab && sacctmgr -i add user "$me" account=lab defaultaccount=lab MaxSubmitJobs=2; } >"$D/sacctmgr.out" 2>&1 ||
    bail "no account: $(tail -n 3 "$D/sacctmgr.out")"
five=$(given job five -w n1 --dynpipe=balance --dynpipe-min-gpus=2 --dynpipe-slices=4 -- $run)
wait_for 60 steps_done "$D/five.jsonl" 5
ok $? "five: where the owner may have two jobs the run begins with two slices"
like "$(logs | grep "job=$five the run begins")" "with 2 of 4 slices: Slurm refuses more of them: Job violates accounting/QOS policy" "five: and says why"
like "$(companions "$five" running)" '"state":"refused","wanted":3.*Job violates accounting/QOS policy' "five: so does status, while it runs"
is "$(states "$five")" "2 RUNNING" "five: no more were submitted"
is "$(field "$(family "$five" | awk -v j="$five" '$1 != j {print $1}')" Account)" "Account=lab" "five: the companion has home's account"
scancel --signal=TERM "$five"
wait_for 120 all_ended "$five"
six=$(given job six -w n1 --dynpipe=balance --dynpipe-slices=4 -- $run)
wait_for 60 job_ended "$six"
is "$(job_state "$six")" FAILED "six: a run that needs four does not begin with two"
like "$(cat "$D/six.$six.out")" "no more than [12] of the 4 slices that the run needs are there; Slurm refuses more of them: Job violates" "six: and says so to its owner"
wait_for 120 all_ended "$six"
each_step_once eight
same_as_alone $run -- one two eight-whole
is "$(drained_nodes)" "" "no node is drained"
done_testing
