# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # what is not set here is run's
# What can be done to a run. fault_NAME TARGET MS hurts and mends again; it ends with 0 when it hurt something. Names with a
# dash: fault_worker_kill is "worker-kill". Each runs in a shell of its own, at its moment, beside the others.

pause_ms() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

run_pid() { # NODE: the run's worker there
    local f
    for f in $(LC_ALL=C grep -lzxF "SLURM_JOB_ID=$job" /proc/[0-9]*/environ 2>/dev/null); do
        { LC_ALL=C grep -qzxF "SLURMD_NODENAME=$1" "$f" && LC_ALL=C grep -qzxF "SLURM_CONF=$SLURM_CONF" "$f"; } 2>/dev/null || continue
        case $(readlink "${f%environ}exe" 2>/dev/null) in
            */dynpipe-worker) f=${f#/proc/}; echo "${f%/environ}"; return ;;
        esac
    done
}
# That node may have left the run; the batch host never does.
victim() { local p; p=$(run_pid "$1"); [ -n "$p" ] || p=$(run_pid n1); echo "$p"; }
fault_worker_kill() { local p; p=$(victim "$1"); [ -n "$p" ] && kill -KILL "$p"; }
fault_worker_stop() {
    local p
    p=$(victim "$1")
    [ -n "$p" ] && kill -STOP "$p" || return 1
    pause_ms "$2"
    kill -CONT "$p" 2>/dev/null
    return 0
}

kill_part() { # PART MS
    cluster stop "$1" KILL || return 1
    pause_ms "$2"
    cluster start "$1"
}
stop_part() {
    cluster stop "$1" STOP || return 1
    pause_ms "$2"
    cluster stop "$1" CONT
}
coordinated_on() { if [ "$1" = home ]; then coordinator_now; else echo "$1"; fi; } # home: the node whose daemon coordinates
fault_daemon_kill() { kill_part "daemon:$(coordinated_on "$1")" "$2"; }
fault_daemon_stop() { local node; node=$(coordinated_on "$1"); stop_part "daemon:$node" "$2"; }
fault_slurmd_kill() { kill_part "slurmd:$1" "$2"; }
fault_slurmd_stop() { stop_part "slurmd:$1" "$2"; }
fault_munged_kill() { kill_part munged "$2"; }
fault_munged_stop() { stop_part munged "$2"; }
fault_slurmdbd_kill() { kill_part slurmdbd "$2"; }
fault_slurmdbd_stop() { stop_part slurmdbd "$2"; }
fault_slurmctld_stop() { stop_part slurmctld "$2"; }
# A job that slurmctld has not saved yet (it takes up to 5 s) would not be there afterwards: that is no matter of DynPipe's.
is_saved() { [ "$D/state/job_state" -nt "$D/submitted" ]; }
fault_slurmctld_kill() { wait_for 20 is_saved && kill_part slurmctld "$2"; }

# The coordinator's daemon, when a record is durable and nobody has been told.
fault_record_kill() { # RECORD MS
    local until=$((SECONDS + 20))
    wait_for 20 test -e "$(coordinator_journal "$job")" || return 1
    stop_at_records "$(daemon_pid 1)" "$(coordinator_journal "$job")" || { kill $tracer; return 1; }
    while [ $SECONDS -lt $until ]; do
        stopped_again || { sleep 0.02; continue; }
        n_stops=$((n_stops + 1))
        if [ "$(last_record)" = "${type[$1]}" ]; then
            kill -KILL "$stopped"
            wait $tracer
            rm -f "$D/run/dynpiped.n1.pid"
            pause_ms "$2"
            cluster start daemon:1
            return
        fi
        kill -CONT "$stopped"
    done
    let_go
    return 1
}

# On the batch host the journal of the coordinator, elsewhere that of the node.
journal_of() {
    local of=
    [ -z "$(plan_value slices)" ] || of=$(find "$D/dynpipe/$1" -name 'job-*.journal' 2>/dev/null | head -n 1)
    [ -n "$(plan_value slices)" ] || [ "$1" != n1 ] || of=$(coordinator_journal "$job")
    echo "${of:-$D/dynpipe/$1/node.journal}"
}
fail_journal() { # NODE MS EXPRESSION...
    local node=$1 ms=$2
    shift 2
    fail_calls "$(daemon_pid "${node#n}")" "$(journal_of "$node")" "$@" || { kill $failer; return 1; }
    pause_ms "$ms"
    let_succeed
    [ "$(n_failed)" -gt 0 ]
}
fault_journal_eio() { fail_journal "$1" "$2" fdatasync:error=EIO fsync:error=EIO; }
fault_journal_enospc() { fail_journal "$1" "$2" pwrite64:error=ENOSPC; }
fault_disk_full() {
    dd if=/dev/zero of="$D/dynpipe/n1/filler" bs=4096 2>/dev/null
    pause_ms "$2"
    rm -f "$D/dynpipe/n1/filler"
}

# Nothing gets to or from the daemon of a node: not what it is asked, nor what it answers (as tests/cluster/0125-firewall.t;
# offsets: Ethernet's header, then IP's without options; 2 is TC_ACT_SHOT). Its own calls go to the others' ports.
port() { sed -n "s/.*name = \"$1\";.*port = \([0-9]*\);.*/\1/p" "$D/etc/dynpipe.conf"; }
address() { sed -n "s/.*name = \"$1\";.*address = \"\([0-9.]*\)\";.*/\1/p" "$D/etc/dynpipe.conf"; }
drop_port() {
    tc filter add dev lo ingress bpf da bytecode \
        "7,48 0 0 23,21 0 4 6,40 0 0 36,21 1 0 $1,6 0 0 4294967295,6 0 0 2,6 0 0 4294967295"
}
drop_from() { # PORT ADDRESS
    local a b c d
    IFS=. read -r a b c d <<<"$2"
    tc filter add dev lo ingress bpf da bytecode \
        "8,48 0 0 23,21 0 5 6,32 0 0 26,21 0 3 $(((a << 24) + (b << 16) + (c << 8) + d)),40 0 0 36,21 0 1 $1,6 0 0 2,6 0 0 4294967295"
}
fault_net_cut() { # NODE MS
    local n
    [ -n "${DP_OWN_NET:-}" ] || return 1
    drop_port "$(port "$1")" || return 1
    for ((n = 1; n <= $(plan_value nodes); n++)); do
        [ "n$n" = "$1" ] || drop_from "$(port "n$n")" "$(address "$1")"
    done
    pause_ms "$2"
    tc filter del dev lo ingress
}

# Slurm may be away because of another fault, and answers later.
ask_slurm() {
    local until=$((SECONDS + 20))
    until timeout 10 "$@" >>"$E/asked" 2>&1; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.5
    done
}
fault_job_scancel() { ask_slurm scancel "$job" && touch "$D/cancelled"; }
fault_job_requeue() { ask_slurm scontrol requeue "$job"; }
fault_job_preempt() { ask_slurm scancel --signal=TERM "$job"; } # as a preemption begins
# update_by_hand JOB WHAT LIMIT: what an owner may change; a limit in minutes.
update_by_hand() {
    case $2 in
        comment) ask_slurm scontrol update JobId="$1" Comment="by hand" ;;
        limit) ask_slurm scontrol update JobId="$1" TimeLimit="$3" ;;
        nice) ask_slurm scontrol update JobId="$1" Nice=5 ;;
    esac
}
fault_job_update() { update_by_hand "$job" "$1" 600; }
# The owner takes the last node by hand: Slurm kills what runs there, and the run begins again.
fault_job_shrink() {
    local nodes
    mapfile -t nodes < <(scontrol show hostnames "$(squeue -h -j "$job" -o %N)")
    [ ${#nodes[@]} -gt 1 ] || return 1
    unset 'nodes[-1]'
    touch "$D/shrunk-by-hand"
    timeout 20 scontrol update JobId="$job" NodeList="$(IFS=,; echo "${nodes[*]}")" >>"$E/asked" 2>&1
}

# The wall clock of a node jumps: what its daemon and its workers are told is off by so many seconds, until it is set again.
jump() { # NODE SECONDS MS
    echo "$2" >"$D/run/$1.clock.new" && mv "$D/run/$1.clock.new" "$D/run/$1.clock"
    pause_ms "$3"
    rm -f "$D/run/$1.clock"
}
fault_clock_ahead() { jump "$1" 1200 "$2"; }
fault_clock_back() { jump "$1" -7200 "$2"; }
# Those of Slurm's daemons: by less than what makes slurmctld take nodes for lost (SlurmdTimeout), and their credentials for expired.
fault_slurm_clock_ahead() { jump slurmctld 40 "$2"; }
fault_slurm_clock_back() { jump slurmctld -40 "$2"; }
fault_slurmd_clock_ahead() { jump "slurmd.$1" 40 "$2"; }
fault_slurmd_clock_back() { jump "slurmd.$1" -40 "$2"; }
fault_slurmdbd_clock_ahead() { jump slurmdbd 40 "$2"; }
fault_slurmdbd_clock_back() { jump slurmdbd -40 "$2"; }
fault_munged_clock_ahead() { jump munged 40 "$2"; }
fault_munged_clock_back() { jump munged -40 "$2"; }
# One munged makes and reads all credentials here, so a jump hurts those alone that are on their way. So its clock swings, by more than
# DynPipe's credentials live (60 s) and less than Slurm's (300 s): half of those of sessions are refused, as expired or from the
# future. A daemon that begins again meanwhile opens some; without effect where munge refused none.
fault_munged_clock_swing() { # NODE MS
    local before
    before=$(n_refused)
    cluster stop "daemon:$1" KILL || return 1
    (sleep 0.1; cluster start "daemon:$1") &
    jump munged "90 -90" "$2"
    wait $!
    [ "$(n_refused)" -gt "$before" ]
}
n_refused() { cat "$D"/log/dynpiped.*.log | grep -cE '(Expired|Rewound) credential'; }

# What slurmctld answers the daemon of a node gets lost, and so on (odd_answers.c). Hurts when the daemon has asked something.
spoil_answers() { # NODE|home HOW MS
    local node file
    node=$(coordinated_on "$1")
    [ -n "$node" ] || return 1
    file=$D/run/$node.answers
    echo "$2" >"$file.new" && mv "$file.new" "$file"
    pause_ms "$3"
    mv "$file" "$file.was" && [ "$(cat "$file.was")" != "$2" ]
}
fault_answers_lost() { spoil_answers "$1" lost "$2"; }
fault_answers_twice() { spoil_answers "$1" twice "$2"; }
fault_answers_late() { spoil_answers "$1" late "$2"; }

# ---- power cuts -----------------------------------------------------------------------------------------------------

# What its daemon keeps lies on a disk of the node's own, an ext4 in a file. returns: 1 where none can be mounted.
has_loop_mounts=1
give_disk() { # NODE
    local at=$D/dynpipe/$1
    mkdir -p "$at"
    { truncate -s 16M "$D/disk.$1" && mkfs.ext4 -q -F -m 0 "$D/disk.$1" && mount -o loop "$D/disk.$1" "$at"; } 2>>"$E/disk.out" || return 1
    rmdir "$at/lost+found"
    at_end+=("umount -l $at")
}

# The newest epoch that a coordinator's journal has: of START with a layout, COMMIT, REGROUP (doc/protocol.md, "A daemon's files").
epoch_in() { # JOURNAL
    perl -e 'local $/; open my $f, "<:raw", shift or exit 1; my $d = <$f>; my ($p, $e) = (8, 0);
        while ($p + 17 <= length $d) { my ($len, $crc, $seq, $type) = unpack "NNQ>C", substr $d, $p;
            last if $p + 17 + $len > length $d;
            my $at = $type == 1 ? 33 : $type == 3 || $type == 23 ? 16 : $len;
            $e = unpack "Q>", substr $d, $p + 17 + $at, 8 if $at + 8 <= $len && ($type != 1 || ord substr $d, $p + 17 + 32, 1);
            $p += 17 + $len }
        print "$e\n"' "$1" 2>/dev/null
}

# cut_power NODE: of its disk, in the middle of whatever its daemon does; what was not yet on the disk never gets there (ext4's
# shutdown without flushing its log, EXT4_IOC_SHUTDOWN). The daemon is stopped, so that it sees nothing of it, and is the
# caller's to kill. Sets told: the epoch in which the run made its last step, and cut: the journal that has it.
cut_power() {
    local at=$D/dynpipe/$1
    [ -n "$has_loop_mounts" ] && mountpoint -q "$at" && cluster stop "daemon:$1" STOP || return 1
    told=$(tail -n 2 "$D/train.jsonl" 2>/dev/null | sed -n 's/.*"epoch":\([0-9]*\).*/\1/p' | tail -n 1)
    cut=$(find "$at" -name 'job-*.journal' -printf '%T@ %p\n' | sort -n | sed -n '$s/[^ ]* //p')
    [ -n "$told" ] && [ -n "$cut" ] && [ "$(epoch_in "$cut")" -ge "$told" ] || cut= # of a life before
    perl -e 'open my $f, "<", shift or die; my $how = pack "L", 2; ioctl($f, 0x8004587d, $how) or die "$!\n"' "$at" && return
    cluster stop "daemon:$1" CONT
    return 1
}
# restore_power NODE: with what its disk has. The witness has files of the old one open, so there is a copy under another number. What
# was told must be on it.
restore_power() {
    local at=$D/dynpipe/$1
    cp "$D/disk.$1" "$D/disk.$1.next" && umount -l "$at" && mv "$D/disk.$1.next" "$D/disk.$1" && mount -o loop "$D/disk.$1" "$at" ||
        { echo "the disk of $1 does not come back" >>"$E/trouble"; return 1; }
    [ -z "$cut" ] || [ "$(epoch_in "$cut" || echo -1)" -ge "$told" ] ||
        echo "the run made steps in epoch $told, and after a power cut ${cut#"$D/dynpipe/"} has '$(epoch_in "$cut")'" >>"$E/wrong"
}
fault_disk_cut() { # NODE MS
    cut_power "$1" || return 1
    cluster stop "daemon:$1" KILL
    pause_ms "$2"
    restore_power "$1" && cluster start "daemon:$1"
}

# ---- nodes that are lost ----------------------------------------------------------------------------------------------

# slurmd, daemon, step daemons and tasks at once. It comes back, and its disk with it: as it was, or as it was when its power was cut.
fault_node_lost() { lose_for_a_while "$1" "$2" true; }
fault_node_power() { cut_power "$1" && lose_for_a_while "$1" "$2" "restore_power $1"; }
# Whatever runs on a node: slurmd (preloaded, so that it and its step daemons can be told), tasks of all jobs, the daemon. The list is made
# at once, while tests/lib/lose-node.sh takes seconds for it on a busy machine, and again: what began meanwhile is lost, too.
processes_on() { # NODE
    perl -e 'my ($conf, $node) = @ARGV;
        for my $p (map m#(\d+)#, glob "/proc/[0-9]*") {
            open my $f, "<:raw", "/proc/$p/environ" or next;
            local $/;
            my $e = "\0" . (<$f> // "") . "\0";
            print "$p\n" if $e =~ /\0SLURM_CONF=\Q$conf\E\0/ && $e =~ /\0(?:SLURMD_NODENAME=\Q$node\E|DP_FAULTS_NODE=slurmd\.\Q$node\E)\0/ }' "$SLURM_CONF" "$1"
}
lose_all() { # NODE
    local all
    mapfile -t all < <(processes_on "$1")
    # shellcheck disable=SC2046 # none, or one
    kill -KILL "${all[@]}" $(cat "$D/run/dynpiped.$1.pid" 2>/dev/null) 2>/dev/null
    [ -z "$(processes_on "$1")" ]
}
lose_for_a_while() { # NODE MS COMMAND-BEFORE-IT-STARTS
    wait_for 20 lose_all "$1" || return 1
    rm -f "$D/run/slurmd.$1.pid" "$D/run/dynpiped.$1.pid"
    note "hits all on $1"
    ask_slurm scontrol update NodeName="$1" State=down Reason=lost
    pause_ms "$2"
    $3 || return 1
    cluster start "slurmd:$1"
    cluster start "daemon:$1"
    ask_slurm scontrol update NodeName="$1" State=resume
    return 0
}
