# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets the rest
# A run of slices: jobs of one GPU each, several on a node, tasks of an array or a job and its companions. It prunes, hands over and
# gives slices back; some begin late; other jobs want every GPU that comes free. A slice that fails, or is stopped before the
# campaign is done with it, puts itself back (of companions home alone: for them the run asks again).

kind_slices_plan() {
    local nodes slices late i all="" some=""
    draw 2
    nodes=$((drawn + 2))
    plan+=("nodes=$nodes")
    for ((i = 1; i <= nodes; i++)); do all="$all,n$i"; done
    all=${all#,}
    draw 3
    slices=$((drawn + 3))
    plan+=("slices=$slices")
    for ((i = 1; i <= slices; i++)); do some="$some,s$i"; done
    some=home${some}
    one_of array array companions
    plan+=("made=$drawn")
    one_of release release release balance
    plan+=("mode=$drawn")
    draw $slices
    plan+=("keep=$((drawn + 1))")
    # So many GPUs it may have when it asks for more; 0: it does not ask, as no array may.
    one_of 0 $slices $((slices + 1)) $((slices + 2))
    [[ " ${plan[*]} " = *" made=companions "* ]] || drawn=0
    plan+=("most=$drawn")
    draw 3
    # As many GPUs as the run cannot do without are free at the start.
    late=$((nodes * (slices / 2 + 1) - drawn >= slices ? drawn : nodes * (slices / 2 + 1) - slices))
    plan+=("late=$late")
    plan_draw_rest 1
    slices_faults "$all" "$some"
}
# slices_faults NODES SLICES: what may be done to a run of slices on these nodes, and when.
slices_faults() {
    local all=$1 some=$2
    plan_moments=("start" training training intent commit commit "done" drain gone seat regroup given saving)
    plan_faults=(
        "slice-kill $some 0 0"
        "slice-kill $some 0 0"
        "slice-stop $some 500 4000"
        "slice-scancel $some 0 0"
        "slice-scancel $some 0 0"
        "slice-requeue $some 0 0"
        "slice-requeue $some 0 0"
        "slice-preempt $all 1000 3000"
        "slice-preempt $all 1000 3000"
        "node-drain $all 2000 8000"
        "node-lost $all 1000 8000"
        "daemon-kill $all 200 3000"
        "daemon-kill home 200 3000"
        "daemon-stop $all,home 500 5000"
        "slurmctld-kill - 500 4000"
        "slurmctld-stop - 500 6000"
        "slurmd-kill $all 200 3000"
        "slurmd-stop $all 500 4000"
        "munged-kill - 500 4000"
        "munged-stop - 500 4000"
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
        "answers-lost $all,home 1000 5000"
        "answers-twice $all,home 1000 5000"
        "answers-late $all,home 1000 5000"
        "disk-cut $all 200 3000"
        "node-power $all 1000 8000"
        "run-scancel - 0 0"
        "run-requeue - 0 0"
        "run-preempt - 0 0"
        "slice-update comment,limit,nice 0 0"
    )
    case " ${plan[*]} " in *" dbd=1 "*) plan_faults+=("slurmdbd-kill - 500 4000" "slurmdbd-stop - 500 4000" "slurmdbd-clock-ahead - 500 6000" "slurmdbd-clock-back - 500 6000") ;; esac
}

# As of kinds/node_shrink.sh. Where the controller forgets what it acknowledged, nothing is asked of it.
kind_slices_clash() {
    case $1 in
        slurmctld-kill) [[ $2 =~ \ (slice-(kill|cut|scancel|requeue|preempt|update)|node-[a-z]*|run-[a-z]*|slurmd?-clock-[a-z]*)\  ]] ;;
        slurm-clock-* | slurmd-clock-*) [[ $2 =~ \ (slurmctld-kill|node-(lost|power))\  ]] ;;
        slice-kill | slice-cut | slice-scancel | slice-requeue | slice-preempt | slice-update) [[ $2 =~ \ slurmctld-kill\  ]] ;;
        node-drain) [[ $2 =~ \ (slurmctld-kill|node-(lost|power))\  ]] ;;
        node-lost | node-power) [[ $2 =~ \ (slurmctld-kill|slurmd?-clock-[a-z]*|node-[a-z]*|disk-cut|daemon-[a-z]*|slurmd-[a-z]*|journal-[a-z]*|net-cut|munged-clock-swing)\  ]] ;;
        run-*) [[ $2 =~ \ (slurmctld-kill|run-[a-z]*)\  ]] ;;
        daemon-kill | daemon-stop) [[ $2 =~ \ (journal-[a-z]*|disk-cut|node-(lost|power)|daemon-[a-z]*|munged-clock-swing)\  ]] ;;
        munged-clock-swing) [[ $2 =~ \ (munged-clock-[a-z]*|journal-[a-z]*|disk-cut|node-(lost|power)|daemon-[a-z]*)\  ]] ;;
        munged-clock-*) [[ $2 =~ \ munged-clock-[a-z]*\  ]] ;;
        slurmd-kill | slurmd-stop | net-cut) [[ $2 =~ \ node-(lost|power)\  ]] ;;
        journal-eio | journal-enospc | disk-cut) [[ $2 =~ \ (journal-[a-z]*|disk-cut|daemon-[a-z]*|node-(lost|power)|munged-clock-swing)\  ]] ;;
        *) false ;;
    esac
}

kind_slices_begin() {
    local up=() i options size
    [ "$(plan_value dbd)" = 0 ] || up=(--dbd)
    size=$(plan_value slices)
    gpus=$((size / 2 + 1))
    [ "$gpus" -le 3 ] || gpus=3
    cluster_up --nodes "$(plan_value nodes)" --gpus "$gpus" --cpus 8 --daemon-key 'report_ms = 150; slices_wait_s = 6.0; poll_s = 2.0;' "${up[@]}" \
        --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" --conf DebugFlags=Gres \
        --conf PreemptType=preempt/partition_prio --conf PreemptMode=REQUEUE --conf 'PartitionName=DEFAULT GraceTime=4 MaxTime=INFINITE State=UP' \
        --conf 'PartitionName=other Nodes=ALL PriorityTier=1 PreemptMode=OFF' --conf 'PartitionName=urgent Nodes=ALL PriorityTier=10' \
        --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 1; confirm_s = 2.0; growth_wait_s = 8.0; growth_cooldown_s = 2.0; };'
    export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
    cat >"$D/train.sh" <<X
#!/bin/bash
restarts=\${SLURM_RESTART_COUNT:-0}
me=\$SLURM_JOB_ID # of an array \$SLURM_ARRAY_JOB_ID is that of a task, too, and would name all
[ -z "\${SLURM_ARRAY_TASK_ID:-}" ] || me=\${SLURM_ARRAY_JOB_ID}_\$SLURM_ARRAY_TASK_ID
export DYNPIPE_WIREUP_S=20
srun -n1 $train_command output.log=$D/train.jsonl checkpoint.dir=$D/saved checkpoint.every=20 checkpoint.resume=auto
status=\$?
echo "start \$restarts ended with \$status"
[ \$status != 0 ] || exit 0
[ ! -e $D/ending ] && [ \$restarts -lt 4 ] || { [ \$status != 75 ] || exit 0; exit \$status; }
# For a companion the run asks again.
[ ! -e $D/home ] || [ "\$(cat $D/home)" = "\$me" ] || { [ \$status != 75 ] || exit 0; exit \$status; }
# Slurm may be away just now. A job that was cancelled, or that Slurm puts back by itself, needs no help.
for try in \$(seq 30); do
    case " \$(scontrol -o show job \$me) " in
        *" JobState=RUNNING "*" Restarts=\$restarts "* | *" Restarts=\$restarts "*" JobState=RUNNING "*) scontrol requeue \$me && exit 0 ;;
        *" JobState="*) break ;;
    esac
    sleep 1
done
[ \$status != 75 ] || exit 0
exit \$status
X
    for ((i = 0; i < $(plan_value late); i++)); do
        late_jobs+=("$(sbatch --parsable -p other -J late -n1 -c1 --gpus=1 --mem=10 --no-requeue -o /dev/null --wrap 'sleep 1000')")
    done
    [ "$(plan_value late)" = 0 ] || wait_for 30 late_ones_run
    options=(-J train -n1 -c1 --gpus=1 --mem=100 -t 60 --requeue --open-mode=append "--dynpipe=$(plan_value mode)" --dynpipe-max-slowdown=50
        "--dynpipe-min-gpus=$(plan_value keep)" "--dynpipe-slices=$size" --dynpipe-reference=start "${run_options[@]}")
    [ "$(plan_value most)" = 0 ] || options+=("--dynpipe-max-gpus=$(plan_value most)")
    [ "$(plan_value made)" = companions ] || options+=("--array=0-$((size - 1))")
    [ -z "$(plan_value policy)" ] || options+=("--dynpipe-policy=$(plan_value policy)")
    job=$(sbatch --parsable -o "$D/train.%j.out" "${options[@]}" "$D/train.sh")
    [ -n "$job" ] || bail "the run was not accepted"
    [ "$(plan_value made)" = array ] || echo "$job" >"$D/home"
    wait_for 60 some_slice_runs || bail "the run does not start"
    touch "$D/submitted"
}
late_jobs=()
late_until=$((SECONDS + 60))
late_ones_run() { [ "$(squeue -h -n late -t R -o %A | wc -l)" = "${#late_jobs[@]}" ]; }
other_job() { sbatch --parsable -p other -J other -n1 -c1 --gpus=1 --mem=10 --no-requeue -o /dev/null --wrap "sleep $1" >/dev/null 2>&1; } # SECONDS

# The run's jobs that Slurm shows: "JOB NAME-FOR-SCANCEL STATE NODE", by number.
slices_now() { squeue -h -r -n train -t "${1:-all}" -o '%A %i %T %N' 2>/dev/null | sort -n; } # [STATES]
some_slice_runs() { [ -n "$(slices_now R)" ]; }
none_is_left() {
    local all
    all=$(squeue -h -r -n train -t all -o %T 2>/dev/null) && [ -n "$all" ] && ! grep -qE 'PENDING|RUNNING|COMPLETING|REQUEUED|CONFIGURING' <<<"$all"
}

# Which one a fault hits: sN the N-th of those that run, home the one that the run has its name of. Sets hit, hit_name, hit_node.
hit_slice() {
    local all=() home n
    hit=
    mapfile -t all < <(slices_now R)
    [ ${#all[@]} -gt 0 ] || return 1
    n=0
    if [ "$1" = home ]; then
        home=$(home_now)
        for n in "${!all[@]}"; do [ "${all[n]%% *}" != "$home" ] || break; done
    else
        n=$(((${1#s} - 1) % ${#all[@]}))
    fi
    read -r hit hit_name _ hit_node <<<"${all[n]}"
    note "hits $hit on $hit_node"
}
# The newest journal of a coordinator is DIR/NODE/job-HOME.LIFE.journal.
newest_journal() { find "$D"/dynpipe -name 'job-*.journal' -printf '%T@ %p\n' 2>/dev/null | sort -n | sed -n '$s/[^ ]* //p'; }
home_now() { newest_journal | sed 's/.*job-\([0-9]*\)\..*/\1/'; }
coordinator_now() { newest_journal | sed 's/.*dynpipe\/\(n[0-9]*\)\/.*/\1/'; }
run_status() { DYNPIPE_SOCKET=$D/run/dynpiped-$(coordinator_now).sock status "$(home_now)" "$1"; } # FILTER

# A slice that was put back waits two minutes, and must not start in the second of its requeue. Late ones begin when the run trains.
nudged=" "
kind_slices_nudge() {
    local j name state restarts
    if [ ${#late_jobs[@]} -gt 0 ] && { [ "$(last_step)" -ge 60 ] 2>/dev/null || [ $SECONDS -gt "$late_until" ]; }; then
        scancel "${late_jobs[@]}" 2>/dev/null && late_jobs=()
    fi
    # Whatever comes free somebody else wants.
    [ -e "$D/ending" ] || [ "$(squeue -h -n other -t PD -o %A 2>/dev/null | wc -l)" -ge "$(plan_value waiting)" ] || other_job 2
    while read -r j name state _; do
        [ "$state" = PENDING ] || continue
        restarts=$(scontrol -o show job "$name" 2>/dev/null | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p')
        [ "${restarts:-0}" != 0 ] || continue
        case $nudged in *" $j.$restarts "*) continue ;; esac
        scontrol update JobId="$name" StartTime=now+2 2>/dev/null && nudged="$nudged$j.$restarts "
    done < <(slices_now PD)
}

kind_slices_heals() {
    nudge
    if none_is_left; then
        note "over early" # the judge asks why
        return 0
    fi
    [ ! -f "$D/cancelled" ] || return 1
    some_slice_runs || { reached=; return 1; }
    now=$(last_step)
    [ -n "${reached:-}" ] || reached=$now
    [ -n "$now" ] && [ "$now" -gt $((reached + 20)) ] && [ "$(run_status .state)" = training ] && are_settled
}
are_settled() { is_idle_slot "$(run_status '[.slots[].state] | join(" ")')"; }
kind_slices_told() {
    echo "jobs $(slices_now | tr '\n' ';') home $(home_now), coordinator $(coordinator_now): state $(run_status .state), slots" \
        "$(run_status '[.slots[].state] | join(" ")'), at $(run_status .state_text), step $(last_step) after ${reached:-none}"
}
kind_slices_has_released() {
    nudge
    [ ! -f "$D/cancelled" ] && [ "$(plan_value mode)" = release ] && ! none_is_left || return 0
    DYNPIPE_SOCKET=$D/run/dynpiped-$(coordinator_now).sock timeout 5 dynpipe resume -j "$(home_now)" >/dev/null 2>&1
    grep -q ' left ' "$E/events" && are_settled
}

# What waits of an array is its owner's affair; of companions the run's, which withdraws it. Those that run are asked to end.
asked=" "
has_worker() { # JOB
    local f
    for f in $(LC_ALL=C grep -lzxF "SLURM_JOB_ID=$1" /proc/[0-9]*/environ 2>/dev/null); do
        case $(readlink "${f%environ}exe" 2>/dev/null) in */dynpipe-worker) return 0 ;; esac
    done
    return 1
}
kind_slices_ends() {
    local j name state told
    nudge
    if none_is_left; then return 0; fi
    while read -r j name state _; do
        case $state in
            PENDING)
                [ -e "$D/home" ] && [ "$j" != "$(cat "$D/home")" ] || { scancel "$name" && note "withdrew $j"; }
                ;;
            RUNNING)
                told=$j.$(scontrol -o show job "$name" 2>/dev/null | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p')
                case $asked in *" $told "*) continue ;; esac
                # Before it has a worker it would not hear that.
                has_worker "$j" || continue
                scancel --signal=TERM "$name" && asked="$asked$told "
                ;;
        esac
    done < <(slices_now)
    return 1
}
end_others() { # scancel takes one name at a time
    scancel -n other 2>/dev/null
    scancel -n late 2>/dev/null
}
are_recorded() {
    sacct -X -n -P -D --name=train -S now-1hour -o JobIDRaw,State,NNodes,ElapsedRaw,Start,End >"$E/end.sacct" 2>&1
    ! grep -q '|Unknown$' "$E/end.sacct" &&
        [ -z "$(comm -23 <(sed -n 's/^JobId=\([0-9]*\).*/\1/p' "$E/end.jobs" | sort -u) <(sed 's/|.*//' "$E/end.sacct" | sort -u))" ]
}
kind_slices_ended() {
    end_others
    squeue -h -r -t all -n train -o %i | while read -r j; do scontrol -o show job "$j"; done | sort -u >"$E/end.jobs"
    [ "$(plan_value dbd)" = 0 ] || wait_for 30 are_recorded # slurmctld tells slurmdbd a moment later; the judge sees what is missing
    cp "$D"/train.*.out "$E/" 2>/dev/null
    # A slurmctld that is killed forgets jobs of its last seconds, and gives their numbers to others; where it finds both on a node
    # it drains that, for its administrator.
    [[ $(plan_value fault) != *slurmctld-kill* ]] || sinfo -h -N -o '%N %E' | sed -n 's/ Duplicate jobid$//p' | sort -u | while read -r n; do
        note "a number twice on $n"
        ask_slurm scontrol update NodeName="$n" State=resume
        end_others # what began with such a number runs nowhere, and would run for ever
    done
    # A coordinator that was lost finds that out 10 s after it is back.
    no_journal() { [ -z "$(newest_journal)" ]; }
    wait_for 40 no_journal || find "$D"/dynpipe -name 'job-*.journal' -printf 'a journal is left: %P\n' >>"$E/trouble"
    find "$D"/run -name 'slices-of-*' -printf 'a lock is left: %P\n' >"$E/locks"
    [ ! -s "$E/locks" ] || cat "$E/locks" >>"$E/trouble"
}

# ---- what is done to slices ---------------------------------------------------------------------------------------------

hit_worker() { # sN|home: sets victim_pid, too
    hit_slice "$1" && victim_pid=$(workers_on "$hit" "$hit_node" | head -n 1) && [ -n "$victim_pid" ]
}
fault_slice_kill() { hit_worker "$1" && kill -KILL "$victim_pid"; }
fault_slice_stop() {
    hit_worker "$1" && kill -STOP "$victim_pid" || return 1
    pause_ms "$2"
    kill -CONT "$victim_pid" 2>/dev/null
    return 0
}
# Without grace: its worker is killed by Slurm before it hears that the slice is cancelled.
fault_slice_cut() { hit_slice "$1" && ask_slurm scancel --signal=KILL "$hit_name" && ask_slurm scancel "$hit_name"; }
fault_slice_scancel() { hit_slice "$1" && ask_slurm scancel "$hit_name"; }
fault_slice_requeue() { hit_slice "$1" && ask_slurm scontrol requeue "$hit_name"; }
# Somebody more important wants every GPU of a node, so all slices there have to go.
fault_slice_preempt() { # NODE MS
    local j
    slices_now R | grep -q " $1$" || return 1
    j=$(sbatch --parsable -p urgent -J other -n1 -c1 -w "$1" --gpus="$gpus" --mem=10 --no-requeue -o /dev/null \
        --wrap "sleep $(($2 / 1000))" 2>>"$E/asked") || return 1
    begins() { ! job_is "$j" PENDING; }
    wait_for 30 begins
}
fault_slice_update() { hit_slice s2 && update_by_hand "$hit_name" "$1" 50; }
fault_node_drain() {
    ask_slurm scontrol update NodeName="$1" State=drain Reason=campaign || return 1
    pause_ms "$2"
    ask_slurm scontrol update NodeName="$1" State=resume
}
# All of them; of companions home is the run.
names_of_run() {
    if [ -e "$D/home" ]; then cat "$D/home"; else slices_now "$1" | awk '{print $2}'; fi # STATES
}
ask_for_run() { # STATES COMMAND...
    local names name
    mapfile -t names < <(names_of_run "$1")
    shift
    [ ${#names[@]} -gt 0 ] || return 1
    for name in "${names[@]}"; do ask_slurm "$@" "$name"; done
}
fault_run_scancel() { ask_for_run PD,R scancel && touch "$D/cancelled"; }
fault_run_requeue() { ask_for_run R scontrol requeue; }
fault_run_preempt() { ask_for_run R scancel --signal=TERM; } # as a preemption of all begins
