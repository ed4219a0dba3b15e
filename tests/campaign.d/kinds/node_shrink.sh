# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets the rest
# A run that gives nodes back by shrinking its job: one worker a node, pruning, hand-overs, releases, and other jobs that
# wait for what comes back. Its batch script puts the job back when the run fails or is told to stop before the campaign is
# done with it, as etc/examples/resume.sh does. Another kind of run is another file with these functions:
#   kind_KIND_plan     adds to plan, sets plan_faults ("NAME TARGETS|- MIN_MS MAX_MS") and plan_moments
#   kind_KIND_begin    brings the Slurm up, submits the run (job) and what waits; prints nothing
#   kind_KIND_clash NAME USED   true: that fault is not drawn beside those
#   kind_KIND_nudge    called a few times a second as long as the run lives
#   kind_KIND_heals    true when what the faults did has healed; kind_KIND_told says what there is when it has not
#   kind_KIND_has_released   true when it has given something back, or will not; asks it to
#   kind_KIND_ends     asks the run to end, again and again; true when it has. kind_KIND_ended: then, keeps what Slurm says of it

kind_node_shrink_plan() {
    local nodes i all="" but_first
    draw 3
    nodes=$((drawn + 3))
    plan+=("nodes=$nodes")
    for ((i = 1; i <= nodes; i++)); do all="$all,n$i"; done
    all=${all#,}
    but_first=${all#n1,}
    draw $((nodes - 1))
    plan+=("keep=$((drawn + 1))")
    plan_draw_rest 0
    plan_moments=("start" training training intent intent commit commit "done" drain drain gone relintent left saving saving)
    plan_faults=(
        "worker-kill $all 0 0"
        "worker-stop $all 500 4000"
        "daemon-kill $all 200 3000"
        "daemon-kill $but_first 200 3000"
        "daemon-stop $all 500 5000"
        "record-kill INTENT,COMMIT,DONE,DRAIN,GONE,RELINTENT 200 2000"
        "record-kill COMMIT,DRAIN,GONE,RELINTENT 200 2000"
        "slurmctld-kill - 500 4000"
        "slurmctld-stop - 500 6000"
        "slurmd-kill $all 200 3000"
        "slurmd-stop $all 500 4000"
        "munged-kill - 500 4000"
        "munged-stop - 500 4000"
        "disk-full n1 1000 4000"
        "journal-eio $all 500 3000"
        "journal-enospc $all 500 3000"
        "net-cut $all 1000 5000"
        "clock-ahead $all 500 6000"
        "clock-back $all 500 6000"
        "slurm-clock-ahead - 500 6000"
        "slurm-clock-back - 500 6000"
        "slurmd-clock-ahead $all 500 6000"
        "slurmd-clock-back $all 500 6000"
        "munged-clock-ahead - 500 6000"
        "munged-clock-back - 500 6000"
        "munged-clock-swing $all 1000 5000"
        "answers-lost $all 1000 5000"
        "answers-twice $all 1000 5000"
        "answers-late $all 1000 5000"
        "disk-cut $all 200 3000"
        "job-scancel - 0 0"
        "job-requeue - 0 0"
        "job-preempt - 0 0"
        "job-update comment,limit,nice 0 0"
    )
    # Without slurmdbd Slurm 22.05 lets a job shrink once: an owner who does it takes that from the run, whose nodes are
    # asked back in vain then, as long as the job lives.
    case " ${plan[*]} " in
        *" dbd=1 "*) plan_faults+=("slurmdbd-kill - 500 4000" "slurmdbd-stop - 500 4000" "slurmdbd-clock-ahead - 500 6000" "slurmdbd-clock-back - 500 6000"
            "job-shrink - 0 0" "job-shrink - 0 0") ;;
    esac
}

# kind_node_shrink_clash NAME USED: is this fault better not together with those? What slurmctld acknowledged and had not saved when it
# was killed it forgets, with any job: then the end and the requeue of a job are no longer what was asked for. A daemon has
# one tracer, and one that died takes it along. What is proved by comparing the times of two logs wants their clocks together.
kind_node_shrink_clash() {
    case $1 in
        slurmctld-kill) [[ $2 =~ \ (worker-kill|job-[a-z]*|slurmd?-clock-[a-z]*)\  ]] ;;
        slurm-clock-* | slurmd-clock-*) [[ $2 =~ \ slurmctld-kill\  ]] ;;
        munged-clock-swing) [[ $2 =~ \ (munged-clock-[a-z]*|record-kill|journal-[a-z]*|disk-[a-z]*|daemon-[a-z]*)\  ]] ;;
        munged-clock-*) [[ $2 =~ \ munged-clock-[a-z]*\  ]] ;;
        node-lost | node-power) [[ $2 =~ \ (node-[a-z]*|disk-[a-z]*|daemon-[a-z]*|net-cut)\  ]] ;;
        net-cut) [[ $2 =~ \ node-[a-z]*\  ]] ;;
        worker-kill | job-requeue | job-preempt | job-shrink) [[ $2 =~ \ (slurmctld-kill|job-scancel)\  ]] ;;
        job-update) [[ $2 =~ \ slurmctld-kill\  ]] ;;
        job-scancel) [[ $2 =~ \ (slurmctld-kill|worker-kill|job-[a-z]*)\  ]] ;;
        daemon-kill | daemon-stop) [[ $2 =~ \ (record-kill|journal-[a-z]*|disk-[a-z]*|munged-clock-swing|node-(lost|power))\  ]] ;;
        record-kill | journal-eio | journal-enospc | disk-full | disk-cut) [[ $2 =~ \ (record-kill|journal-[a-z]*|disk-[a-z]*|daemon-[a-z]*|munged-clock-swing)\  ]] ;;
        *) false ;;
    esac
}

kind_node_shrink_begin() {
    local up=() i
    [ "$(plan_value dbd)" = 0 ] || up=(--dbd)
    cluster_up --nodes "$(plan_value nodes)" --gpus 1 --cpus 2 --daemon-key 'report_ms = 150;' "${up[@]}" \
        --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
        --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 1; confirm_s = 3.0; grace_s = 2.0; gone_timeout_s = 8.0; };'
    export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
    cat >"$D/train.sh" <<X
#!/bin/bash
restarts=\${SLURM_RESTART_COUNT:-0}
export DYNPIPE_WIREUP_S=20 # a node that is lost before the workers have met is waited for as long as that
srun $mpi --no-kill --kill-on-bad-exit=0 -n \$SLURM_JOB_NUM_NODES $train_command output.log=$D/train.jsonl checkpoint.dir=$D/saved checkpoint.resume=auto
status=\$?
echo "start \$restarts ended with \$status"
case \$status in 0 | 75 | 137) [ ! -e $D/ending ] || exit 0 ;; esac # 137: of a worker that was killed, while the others went on
# Slurm may be away just now. A job that was cancelled, or that Slurm puts back by itself, needs no help.
for try in \$(seq 60); do
    case " \$(scontrol -o show job \$SLURM_JOB_ID) " in
        *" JobState=RUNNING "*" Restarts=\$restarts "* | *" Restarts=\$restarts "*" JobState=RUNNING "*) scontrol requeue \$SLURM_JOB_ID && exit 0 ;;
        *" JobState="*) exit \$status ;;
    esac
    sleep 1
done
exit \$status
X
    job=$(sbatch --parsable -J train -N"$(plan_value nodes)" --gpus-per-node=1 --exclusive --requeue --open-mode=append -o "$D/train.out" \
        --dynpipe=release --dynpipe-min-gpus="$(plan_value keep)" --dynpipe-max-slowdown=50 --dynpipe-reference=start "${run_options[@]}" "$D/train.sh")
    [ -n "$job" ] || bail "the run was not accepted"
    wait_for 60 job_is "$job" RUNNING || bail "the run does not start"
    for ((i = 0; i < $(plan_value waiting); i++)); do
        sbatch -J "waiting$i" -N1 --gpus-per-node=1 --exclusive --no-requeue -o /dev/null --wrap "sleep 2" >/dev/null
    done
    touch "$D/submitted"
}

# A job that was put back waits two minutes in Slurm's queue, and must not start in the second of its requeue.
nudged=" "
kind_node_shrink_nudge() {
    local restarts
    case $(scontrol -o show job "$job" 2>/dev/null) in
        *" JobState=PENDING "*) ;;
        *) return ;;
    esac
    restarts=$(scontrol show job "$job" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p')
    case $nudged in *" $restarts "*) return ;; esac
    scontrol update JobId="$job" StartTime=now+2 2>/dev/null && nudged="$nudged$restarts "
}

slots() { status "$job" '[.slots[].state] | join(" ")'; }
use_batch_host() { DYNPIPE_SOCKET=$D/run/dynpiped-$(scontrol show job "$job" | sed -n 's/ *BatchHost=//p').sock; }
kind_node_shrink_heals() {
    nudge
    [ ! -f "$D/cancelled" ] || { job_ended "$job"; return; }
    job_is "$job" RUNNING || { reached=; return 1; }
    use_batch_host
    now=$(last_step)
    [ -n "${reached:-}" ] || reached=$now
    [ -n "$now" ] && [ "$now" -gt $((reached + 20)) ] && is_idle_slot "$(slots)" && [ "$(status "$job" .state)" = training ]
}
kind_node_shrink_told() { echo "job $(job_state "$job"), slots $(slots), state $(status "$job" .state), at $(status "$job" .state_text)"; }
kind_node_shrink_has_released() {
    nudge
    [ ! -f "$D/cancelled" ] || return 0
    timeout 5 dynpipe resume -j "$job" >/dev/null 2>&1
    grep -q ' left ' "$E/events" && is_idle_slot "$(slots)"
}
ended_life=
kind_node_shrink_ends() {
    [ ! -f "$D/cancelled" ] || return 0
    nudge
    job_ended "$job" && return 0
    # Each start is told once, when it has workers.
    life=$(scontrol show job "$job" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p')
    [ "$life" != "$ended_life" ] && job_is "$job" RUNNING && has_worker "$job" &&
        scancel --signal=TERM "$job" && ended_life=$life
    return 1
}
kind_node_shrink_ended() {
    scontrol -o show job "$job" >"$E/end.job"
    [ "$(plan_value dbd)" = 0 ] || sacct -X -n -P -D -j "$job" -o JobID,State,NNodes,ElapsedRaw,Start,End >"$E/end.sacct" 2>&1
}
