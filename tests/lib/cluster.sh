#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A private Slurm of several nodes on this machine, for tests and for the demo.
#
#   cluster.sh up DIR [options]        bring it up, return when every node is idle
#   cluster.sh down DIR                stop all of it, return when every process is gone
#   cluster.sh env DIR                 print what a shell has to export to use it
#   cluster.sh logs DIR [LINES]        end of every log (default 60 lines each)
#   cluster.sh mpi DIR                 print srun's option with which workers meet: --mpi=pmix where this Slurm has it
#                                      (DP_PMIX=no: not even then), else nothing: by the daemons
#   cluster.sh pids DIR                every process that belongs to it, one per line
#   cluster.sh stop DIR PART [SIGNAL]  stop one part (TERM, then KILL; or the signal given)
#   cluster.sh start DIR PART          start one part again
#   cluster.sh restart DIR PART        stop and start
#   PART: munged, slurmctld, slurmdbd, slurmd:N, daemon:N (N: 1, 2, ... or n1, n2, ...)
#   Also: restart-slurmctld DIR, restart-slurmd DIR N, start-daemon DIR N, stop-daemon DIR N.
#
# Options of up:
#   --nodes N (4)  --gpus N (1, per node, fake)  --cpus N (2, per node)  --mem MB (1000, per node)
#   --plugstack LINE   a line of plugstack.conf, may be repeated
#   --conf LINE        a line of slurm.conf, may be repeated
#   --daemon-conf LINE a line of the daemon's configuration, may be repeated
#   --daemon-key LINE  a line in its section daemon, may be repeated
#   --no-daemon        do not start a dynpiped per node
#   --dbd              with slurmdbd on a private mariadb
#   --split            the daemons' rights parted as shipped: daemons of odd nodes are started by root and
#                      become user dynpipe, those of even nodes as dynpiped.service starts them. Their sockets
#                      are DIR/sock/NODE.sock then. Needs root and that user.
#
# Works as root and as an ordinary user, who then owns every daemon and every job. Nothing of the
# machine's own Slurm is touched: munge key, state, spool, sockets and ports are the cluster's own.
# Several clusters run side by side; each takes a free block of ports, found by binding them.
#
# DIR should be short (unix sockets: 107 bytes) and reachable by whoever runs jobs. Layout of DIR:
#   etc/ slurm.conf gres.conf cgroup.conf plugstack.conf dynpipe.conf    run/ pid files, sockets, fake GPUs
#   log/ one file per daemon     state/ spool/ tmp/ dynpipe/ (the daemons' journals)   key/ (0700)
# Every process is stopped by its pid. Step daemons and tasks that outlive their slurmd are found by
# the directory in their environment. A daemon's environment carries DYNPIPE_CLUSTER=DIR.
set -u
PATH=$PATH:/usr/sbin:/sbin
export PATH

usage() { sed -n '3,/^set -u/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
die() { echo "cluster.sh: $*" >&2; exit 1; }

[ $# -ge 2 ] || usage
command=$1
dir=$2
shift 2
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
conf=$dir/etc/slurm.conf
export SLURM_CONF=$conf
# A test runs inside a Slurm job now and then: nothing of that job may leak into the daemons.
unset SLURM_JOB_ID SLURM_JOBID SLURM_NODELIST SLURMD_NODENAME
# shellcheck source=/dev/null
[ -r "$dir/etc/cluster.vars" ] && . "$dir/etc/cluster.vars"

# ---- waiting -------------------------------------------------------------------------------------

now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }

# poll SECONDS COMMAND...: run the command until it succeeds or the time is over.
poll() {
    local deadline=$(($(now_ms) + $1 * 1000))
    shift
    until "$@"; do
        [ "$(now_ms)" -lt $deadline ] || return 1
        sleep 0.03
    done
}

# A zombie has ended; only its parent has not looked yet.
alive() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    case ${stat##*) } in [ZX]*) return 1 ;; esac
}
gone() {
    local p
    for p; do alive "$p" && return 1; done
    return 0
}

# end_pids GRACE_SECONDS PID...: TERM, and KILL for what is left after the grace.
end_pids() {
    local grace=$1
    shift
    [ $# -gt 0 ] || return 0
    kill -TERM "$@" 2>/dev/null
    kill -CONT "$@" 2>/dev/null
    poll "$grace" gone "$@" && return 0
    kill -KILL "$@" 2>/dev/null
    poll 60 gone "$@" || die "processes do not end: $*"
}

# ---- ports ---------------------------------------------------------------------------------------

# True when every port of BASE .. BASE+COUNT-1 can be bound now.
ports_free() {
    perl -MSocket -e '
        my ($base, $count) = @ARGV;
        my @held;
        for my $port ($base .. $base + $count - 1) {
            socket(my $s, PF_INET, SOCK_STREAM, 0) or exit 1;
            bind($s, sockaddr_in($port, INADDR_ANY)) or exit 1;
            push @held, $s;
        }' "$1" "$2"
}

# Below the ephemeral ports (32768 on Linux), which srun and the step daemons take at will.
pick_base() {
    local count=$1 try
    for ((try = 0; try < 200; try++)); do
        base=$((12000 + (RANDOM * 32768 + RANDOM) % 20000))
        ports_free $base "$count" && return 0
    done
    die "no free block of $count ports between 12000 and 32000"
}

# All of 127.0.0.0/8 is this machine, so every node has an address of its own, by which the daemons tell each
# other apart. Between machines it is worth nothing: no packet with such an address comes from outside.
node_address() { echo "127.0.$((($1 + 1) / 250)).$((($1 + 1) % 250))"; }

# ---- files ---------------------------------------------------------------------------------------

make_dirs() {
    local i g
    mkdir -p "$dir"/{etc,run,log,state,spool,tmp,dynpipe} || die "cannot make $dir"
    chmod 755 "$dir" "$dir"/{etc,run,log,tmp}
    [ "$split" = 0 ] || { mkdir -p "$dir/sock" && chown dynpipe "$dir/sock" && chmod 755 "$dir/sock"; }
    mkdir -p "$dir/key" && chmod 700 "$dir/key"
    [ -s "$dir/key/munge.key" ] ||
        (umask 077 && head -c 1024 /dev/urandom >"$dir/key/munge.key" && chmod 400 "$dir/key/munge.key")
    for ((i = 1; i <= nodes; i++)); do
        mkdir -p "$dir/spool/n$i" "$dir/dynpipe/n$i" "$dir/tmp/n$i"
        chmod 700 "$dir/dynpipe/n$i"
        [ "$split" = 0 ] || chown dynpipe "$dir/dynpipe/n$i" || die "there is no user dynpipe"
        # PMIx keeps its rendezvous files under TmpFS: each "node" needs its own.
        chmod 1777 "$dir/tmp/n$i"
        for ((g = 0; g < gpus; g++)); do ln -sfn /dev/null "$dir/run/n$i-gpu$g"; done
        # Slurm wants a device, and many hold that one open. What a process of a test holds open is a file.
        for ((g = 0; g < gpus; g++)); do : >"$dir/run/n$i-device$g"; done
    done
}

write_slurm_conf() {
    local i host me gres=
    host=$(uname -n)
    host=${host%%.*}
    me=$(id -un)
    [ "$gpus" -gt 0 ] && gres="Gres=gpu:$gpus"
    {
        cat <<X
ClusterName=dynpipetest
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/run/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=debug
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
TmpFS=$dir/tmp/%n
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=5,sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
MailProg=/bin/true
PlugStackConfig=$dir/etc/plugstack.conf
SlurmdTimeout=60
InactiveLimit=0
KillWait=5
MinJobAge=300
X
        [ "$gpus" -gt 0 ] && echo "GresTypes=gpu"
        if [ "$dbd" = 1 ]; then
            cat <<X
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((base + 1))
AccountingStoragePass=$dir/run/munge.socket
AccountingStorageTRES=gres/gpu
X
        fi
        [ ${#conf_lines[@]} -eq 0 ] || printf '%s\n' "${conf_lines[@]}"
        echo "NodeName=DEFAULT CPUs=$cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus" \
            "ThreadsPerCore=1 RealMemory=$mem $gres State=UNKNOWN"
        for ((i = 1; i <= nodes; i++)); do
            echo "NodeName=n$i NodeHostname=$host NodeAddr=$(node_address $i) Port=$((base + 2 + i))"
        done
        echo "PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP"
    } >"$conf"
    for ((i = 1; i <= nodes && gpus > 0; i++)); do
        echo "NodeName=n$i Name=gpu File=$dir/run/n$i-gpu[0-$((gpus - 1))]"
    done >"$dir/etc/gres.conf"
    { [ ${#plug_lines[@]} -eq 0 ] || printf '%s\n' "${plug_lines[@]}"; } >"$dir/etc/plugstack.conf"
    # Nothing here uses cgroups, yet slurmd loads a plugin for them, and the one for version 2 wants a
    # systemd that answers; version 1's asks for nothing before it is used.
    echo "CgroupPlugin=cgroup/v1" >"$dir/etc/cgroup.conf"
}

write_dbd_conf() {
    (
        umask 077
        cat >"$dir/etc/slurmdbd.conf" <<X
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((base + 1))
SlurmUser=$(id -un)
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
X
    )
}

daemon_socket() { if [ "$split" = 1 ]; then echo "$dir/sock/$1.sock"; else echo "$dir/run/dynpiped-$1.sock"; fi; }

daemon_port() { echo $((base + 2 + nodes + $1)); }

write_daemon_conf() {
    local i
    {
        echo "daemon: {"
        echo "  socket = \"$(daemon_socket %n)\";"
        echo "  state_dir = \"$dir/dynpipe/%n\";"
        echo "  munge_socket = \"$dir/run/munge.socket\";"
        [ ${#key_lines[@]} -eq 0 ] || printf '  %s\n' "${key_lines[@]}"
        echo "  device_files = \"$dir/run/%n-device[0-9]*\";"
        # Whoever starts a cluster owns all of it, unless the rights are to be parted.
        [ "$split" = 1 ] || echo "  run_user = \"\";"
        echo "};"
        echo "nodes = ("
        for ((i = 1; i <= nodes; i++)); do
            echo "  { name = \"n$i\"; address = \"$(node_address $i)\"; port = $(daemon_port $i); }$([ $i -lt "$nodes" ] && echo ,)"
        done
        echo ");"
        [ ${#daemon_lines[@]} -eq 0 ] || printf '%s\n' "${daemon_lines[@]}"
    } >"$dir/etc/dynpipe.conf"
}

# ---- parts ---------------------------------------------------------------------------------------

pid_file() {
    case $1 in
        slurmd:*) echo "$dir/run/slurmd.n${1#slurmd:}.pid" ;;
        daemon:*) echo "$dir/run/dynpiped.n${1#daemon:}.pid" ;;
        *) echo "$dir/run/$1.pid" ;;
    esac
}

part_pid() {
    local pid=
    { read -r pid <"$(pid_file "$1")"; } 2>/dev/null
    [ -n "$pid" ] && alive "$pid" && is_ours "$pid" && echo "$pid"
}

# A pid file may be old and its number taken by someone else since. (A daemon that is not dumpable
# hides its environment from an ordinary user, but not its command line.)
is_ours() {
    grep -qzxF "DYNPIPE_CLUSTER=$dir" "/proc/$1/environ" 2>/dev/null ||
        grep -qzF "$dir/" "/proc/$1/cmdline" 2>/dev/null
}

have_pid() { [ -n "$(part_pid "$1")" ]; }

# Daemons must not hold the test's pipes open, nor hear its ^C.
quiet() { env DYNPIPE_CLUSTER="$dir" SLURM_CONF="$conf" "$@" </dev/null >>"$dir/log/start.log" 2>&1 9>&-; }

start_part() {
    local part=$1 pid='' before=()
    have_pid "$part" && return 0
    rm -f "$(pid_file "$part")"
    # A library of a test that is loaded before a part of Slurm (and the step daemons of slurmd), and where it looks what it shall do:
    # as munged, slurmdbd, slurmctld, slurmd.n1.
    [ -z "${DP_SLURM_PRELOAD:-}" ] || before=(env LD_PRELOAD="$DP_SLURM_PRELOAD" DP_FAULTS="$dir/run" DP_FAULTS_NODE="${part/:/.n}")
    case $part in
        munged)
            quiet "${before[@]}" munged --key-file="$dir/key/munge.key" --socket="$dir/run/munge.socket" \
                --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" \
                --seed-file="$dir/key/munged.seed" --num-threads=2
            ;;
        mariadbd) start_mariadb ;;
        slurmdbd) MYSQL_UNIX_PORT=$dir/db/sock quiet "${before[@]}" slurmdbd ;;
        slurmctld) quiet "${before[@]}" slurmctld ${fresh:+-c} -f "$conf" ;;
        slurmd:*) quiet "${before[@]}" slurmd -N "n${part#slurmd:}" -f "$conf" ;;
        daemon:*) start_daemon "${part#daemon:}" ;;
        *) die "no part '$part'" ;;
    esac
    # shellcheck disable=SC2181
    [ $? -eq 0 ] || { echo "cluster.sh: $part does not start" >&2; return 1; }
    poll 60 have_pid "$part" || { echo "cluster.sh: $part has no process" >&2; return 1; }
}

daemon_binary() {
    local b
    for b in "${DP_DYNPIPED:-}" "${DP_BUILDDIR:-.}/dynpiped" "${DP_BUILDDIR:-.}/daemon/dynpiped"; do
        [ -n "$b" ] && [ -x "$b" ] && echo "$b" && return 0
    done
    return 1
}

# The rights that dynpiped.service gives, as words of setpriv.
as_unit() {
    local caps
    caps=$(sed -n 's/^AmbientCapabilities=//p' "${DP_SRCDIR:-.}/etc/dynpiped.service.in" | tr 'A-Z ' 'a-z,')
    caps=${caps//cap_/+}
    echo "setpriv --reuid dynpipe --regid dynpipe --clear-groups --no-new-privs" \
        "--bounding-set -all,$caps --inh-caps -all,$caps --ambient-caps -all,$caps"
}

start_daemon() {
    local bin n=$1 as= log=$dir/log/dynpiped.n$1.log was
    bin=$(daemon_binary) || return 1
    was=$(grep -cxa ready "$log" 2>/dev/null)
    [ "$split" = 0 ] || [ $((n % 2)) = 1 ] || as=$(as_unit)
    # Libraries of tests that are loaded before a daemon, and where they look what they shall do.
    [ -z "${DP_PRELOAD:-}" ] || as="$as env LD_PRELOAD=$DP_PRELOAD DP_FAULTS=$dir/run DP_FAULTS_NODE=n$n"
    # shellcheck disable=SC2086
    DYNPIPE_CLUSTER=$dir setsid $as "$bin" -f "$dir/etc/dynpipe.conf" --node "n$n" --foreground \
        </dev/null >>"$log" 2>&1 9>&- &
    echo $! >"$dir/run/dynpiped.n$n.pid"
    poll 60 daemon_ready $! "$log" "${was:-0}" && alive $!
}
# Its socket is there before its port.
daemon_ready() {
    local n
    n=$(grep -cxa ready "$2" 2>/dev/null)
    gone "$1" || [ "${n:-0}" -gt "$3" ]
}

# An empty data directory without the server's own tables is all that it takes: no plug-ins, no
# users. No network and no passwords: the socket lies in a directory that only its owner enters. The folder of
# slurmdbd's database is that database, empty. slurmdbd makes one that is not there and tries again with the same handle,
# but with libmariadb 3.4 (of MariaDB 11.8.9) a handle that failed once allows results of 0 columns: error 5027.
start_mariadb() {
    mkdir -p "$dir/db/data/slurm_acct_db" && chmod 700 "$dir/db"
    DYNPIPE_CLUSTER=$dir setsid mariadbd --no-defaults --datadir="$dir/db/data" \
        --socket="$dir/db/sock" --pid-file="$dir/run/mariadbd.pid" --skip-networking \
        --skip-grant-tables --innodb-buffer-pool-size=32M --innodb-log-file-size=16M \
        --innodb-flush-log-at-trx-commit=0 --user="$(id -un)" \
        </dev/null >>"$dir/log/mariadbd.log" 2>&1 9>&- &
    poll 60 test -S "$dir/db/sock" && poll 60 test -s "$dir/run/mariadbd.pid"
}

# Signals other than TERM and KILL (STOP, CONT, HUP) are only sent. TERM has a long grace: slurmctld
# writes its state first.
stop_part() {
    local part=$1 signal=${2:-} pid
    pid=$(part_pid "$part") || return 0
    case $signal in
        "" | TERM) end_pids 30 "$pid" ;;
        KILL | 9) kill -KILL "$pid" && poll 60 gone "$pid" ;;
        *) kill -"$signal" "$pid"; return ;;
    esac
    rm -f "$(pid_file "$part")"
}

normal_part() { # "slurmd:n2" and "slurmd:2" are the same part
    case $1 in
        slurmd:* | daemon:*) echo "${1%%:*}:${1##*[:n]}" ;;
        *) echo "$1" ;;
    esac
}

# ---- up ------------------------------------------------------------------------------------------

parse_up() {
    nodes=4 gpus=1 cpus=2 mem=1000 dbd=0 with_daemon=1 split=0
    conf_lines=() plug_lines=() daemon_lines=() key_lines=()
    while [ $# -gt 0 ]; do
        case $1 in
            --nodes) nodes=$2; shift ;;
            --gpus) gpus=$2; shift ;;
            --cpus) cpus=$2; shift ;;
            --mem) mem=$2; shift ;;
            --plugstack) plug_lines+=("$2"); shift ;;
            --conf) conf_lines+=("$2"); shift ;;
            --daemon-conf) daemon_lines+=("$2"); shift ;;
            --daemon-key) key_lines+=("$2"); shift ;;
            --no-daemon) with_daemon=0 ;;
            --dbd) dbd=1 ;;
            --split) split=1 ;;
            *) die "unknown option $1" ;;
        esac
        shift
    done
}

need_programs() {
    local p list="munged slurmctld slurmd sinfo perl"
    [ "$dbd" = 1 ] && list="$list slurmdbd mariadbd"
    for p in $list; do
        command -v "$p" >/dev/null || die "$p is not installed (tests/lib/deps.sh lists the packages)"
    done
    [ "$with_daemon" = 0 ] || daemon_binary >/dev/null ||
        die "no dynpiped under ${DP_BUILDDIR:-.}: build first, or use --no-daemon"
}

all_idle() {
    local idle
    idle=$(timeout 5 sinfo -h -t idle -o %D 2>/dev/null) && [ "${idle:-0}" = "$nodes" ]
}

start_all() {
    local i
    start_part munged || return 1
    if [ "$dbd" = 1 ]; then
        start_part mariadbd && start_part slurmdbd &&
            poll 60 timeout 5 sacctmgr -in show cluster >/dev/null 2>&1 || return 1
        timeout 20 sacctmgr -i add cluster dynpipetest >/dev/null 2>&1
    fi
    fresh=1 start_part slurmctld || return 1
    for ((i = 1; i <= nodes; i++)); do start_part slurmd:$i || return 1; done
    if [ "$with_daemon" = 1 ]; then
        for ((i = 1; i <= nodes; i++)); do start_part daemon:$i || return 1; done
    fi
    poll 60 all_idle || { echo "cluster.sh: the nodes are not idle" >&2; return 1; }
}

up() {
    local try
    parse_up "$@"
    need_programs
    [ ${#dir} -le 70 ] || die "$dir: too long for the names of sockets below it"
    [ -e "$dir/etc/cluster.vars" ] && [ -n "$(cluster_pids)" ] && die "$dir: a cluster runs there"
    for try in 1 2 3; do
        pick_base $((3 + 2 * nodes + 1))
        make_dirs
        write_slurm_conf
        [ "$dbd" = 1 ] && write_dbd_conf
        write_daemon_conf
        echo "base=$base nodes=$nodes gpus=$gpus dbd=$dbd with_daemon=$with_daemon split=$split" >"$dir/etc/cluster.vars"
        start_all && return 0
        # Someone may have taken a port between the probe and the start: try elsewhere.
        [ "$try" -lt 3 ] || break
        grep -qsi 'address already in use' "$dir"/log/*.log || break
        down
        rm -f "$dir"/log/*.log
    done
    logs 40 >&2
    down
    die "no cluster in $dir"
}

# ---- down ----------------------------------------------------------------------------------------

# Pids whose environment carries one of the lines given, but not this script's own ancestors.
pids_with_env() {
    local f self=" $$ $BASHPID $PPID "
    LC_ALL=C grep -lzxF "$@" /proc/[0-9]*/environ 2>/dev/null | while read -r f; do
        f=${f#/proc/}
        f=${f%/environ}
        case $self in *" $f "*) continue ;; esac
        alive "$f" && echo "$f"
    done
}

# Daemons by their mark; tasks, batch scripts and clients by the configuration file that Slurm gives
# them; and everything that descends from one of those.
cluster_pids() {
    local p exe
    {
        pids_with_env -e "DYNPIPE_CLUSTER=$dir"
        for p in $(pids_with_env -e "SLURM_CONF=$conf"); do
            if grep -qz '^SLURM_JOB_ID=' "/proc/$p/environ" 2>/dev/null; then
                echo "$p"
                continue
            fi
            exe=$(readlink "/proc/$p/exe" 2>/dev/null)
            case ${exe##*/} in srun | sbatch | salloc) echo "$p" ;; esac
        done
    } | sort -un | with_descendants
}

with_descendants() {
    local roots
    roots=$(tr '\n' ' ')
    [ -n "$roots" ] || return 0
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$roots" -v self="$$" '
        { pid = $1; rest = $0; sub(/^.*\) /, "", rest); split(rest, f, " "); parent[pid] = f[2]
          if (f[1] ~ /[ZX]/) dead[pid] = 1 }
        END {
            n = split(roots, r, " ")
            for (i = 1; i <= n; i++) mine[r[i]] = 1
            for (again = 1; again; ) {
                again = 0
                for (p in parent) if (!(p in mine) && (parent[p] in mine)) { mine[p] = 1; again = 1 }
            }
            # The caller may itself be started from inside the cluster: spare its line of ancestors.
            for (p = self; p in parent && p > 1; p = parent[p]) delete mine[p]
            for (p in parent) if (parent[p] == self) delete mine[p]
            for (p in mine) if ((p in parent) && !(p in dead)) print p
        }'
}

down() {
    local i left
    [ -d "$dir/run" ] || return 0
    # No more starts first, then the steps, then what they lean on.
    stop_part slurmctld CONT
    stop_part slurmctld
    local parts=()
    for ((i = 1; i <= ${nodes:-0}; i++)); do parts+=("slurmd:$i" "daemon:$i"); done
    left=
    for p in "${parts[@]}"; do left="$left $(part_pid "$p")"; done
    # shellcheck disable=SC2086
    end_pids 3 $left
    for i in 1 2 3 4 5; do
        left=$(cluster_pids | grep -vxF -e "$(part_pid munged)" -e "$(part_pid mariadbd)" \
            -e "$(part_pid slurmdbd)" -e 0)
        [ -n "$left" ] || break
        # shellcheck disable=SC2086
        end_pids $((i == 1)) $left
    done
    stop_part slurmdbd
    stop_part mariadbd
    stop_part munged
    # shellcheck disable=SC2046
    end_pids 1 $(cluster_pids)
    rm -f "$dir"/run/*.pid "$dir"/{run,sock}/*.sock "$dir"/run/munge.socket*
}

logs() {
    local f
    for f in "$dir"/log/*.log; do
        [ -s "$f" ] || continue
        echo "==> $f"
        tail -n "${1:-60}" "$f" | cat -v
    done
}

case $command in
    up) up "$@" ;;
    down) down ;;
    env) printf 'export SLURM_CONF=%q\n' "$conf" ;;
    logs) logs "$@" ;;
    mpi) [ "${DP_PMIX:-}" = no ] || ! SLURM_CONF=$conf srun --mpi=list 2>&1 | grep -qw pmix || echo --mpi=pmix ;;
    pids) cluster_pids ;;
    stop) stop_part "$(normal_part "${1:?part}")" "${2:-}" ;;
    start) start_part "$(normal_part "${1:?part}")" ;;
    restart) stop_part "$(normal_part "${1:?part}")" && start_part "$(normal_part "$1")" ;;
    restart-slurmctld) stop_part slurmctld && start_part slurmctld ;;
    restart-slurmd) p=$(normal_part "slurmd:${1:?node}"); stop_part "$p" && start_part "$p" ;;
    start-daemon) start_part "$(normal_part "daemon:${1:?node}")" ;;
    stop-daemon) stop_part "$(normal_part "daemon:${1:?node}")" "${2:-}" ;;
    *) usage ;;
esac
