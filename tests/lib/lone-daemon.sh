# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2317 # who sources it uses what is set; cleanup is called by the trap
# One dynpiped without Slurm, for tests of what it takes from strangers; source it first of all. Skips the file where
# nothing is built. Sets
#   dir, sock    a folder of its own, and the socket of node n1 in it; both go at the end
#   bin, probe, hostile   programs
#   pids         to be ended at the end: add to it
#   nobody       (array) in front of a command: as an ordinary user; empty where this is not root
# and has
#   write_conf FILE LINES   a configuration with these lines in section daemon, behind those of every such daemon;
#                           $port: of TCP, 0 none
#   start                   starts node n1 from $dir/conf; sets pid; returns when it listens
#   in_background NAME FD-VARIABLE COMMAND...   runs it until that descriptor is closed; returns when it has said a
#                           line, to $dir/NAME
#   end_background NAME FD  closes it, and returns when the process has ended by that; 1 when it does not
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-.}/tests/lib/tap.sh"
bin=${DP_BUILDDIR:-.}/daemon/dynpiped
probe=${DP_BUILDDIR:-.}/tests/lib/daemon_probe
hostile=${DP_BUILDDIR:-.}/tests/lib/daemon_hostile
[ -x "$bin" ] && [ -x "$probe" ] && [ -x "$hostile" ] || skip_all "dynpiped is not built"

dir=$(mktemp -d /tmp/dp-XXXXXX) || bail "no temporary folder"
chmod 755 "$dir"
sock=$dir/n1.sock
pids=
port=0
# shellcheck disable=SC2086 # a list
cleanup() { end_processes $pids; rm -rf "$dir"; }
trap 'case $BASHPID in $$) cleanup ;; esac' EXIT
on_failure="tail -n 25 $dir/log"
nobody=()
[ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups test -x "$hostile" 2>/dev/null &&
    nobody=(setpriv --reuid 65534 --clear-groups)

write_conf() {
    cat >"$1" <<X
daemon: {
  socket = "$dir/%n.sock";
  state_dir = "$dir/state-%n";
  port = $port;
  slurm = false;
  run_user = "";
  $2
};
X
    chmod 644 "$1"
}

start() {
    rm -f "$dir/ready" # the daemon before may have said it
    "$bin" -f "$dir/conf" --node n1 --foreground >"$dir/ready" 2>>"$dir/log" &
    pid=$!
    pids="$pids $pid"
    wait_for 60 grep -qs ready "$dir/ready"
}

declare -A background=()
in_background() {
    local fd
    mkfifo "$dir/$1.in"
    "${@:3}" <"$dir/$1.in" >"$dir/$1" &
    pids="$pids $!"
    background[$1]=$!
    exec {fd}>"$dir/$1.in"
    printf -v "$2" %s "$fd"
    wait_for 100 test -s "$dir/$1"
}

end_background() {
    local fd=$2
    exec {fd}>&-
    wait_for 60 is_over "${background[$1]}"
}
is_over() { ! kill -0 "$1" 2>/dev/null; }
