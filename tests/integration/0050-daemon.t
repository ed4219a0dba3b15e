#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One dynpiped without Slurm: configuration, hostile bytes, who may say what, kill -9 and restart.
# Needs nothing but the build; works as root and as an ordinary user.
# shellcheck disable=SC2015,SC2317,SC2154
# shellcheck source=tests/lib/lone-daemon.sh
. "${DP_SRCDIR:-.}/tests/lib/lone-daemon.sh"

# ---- configuration
write_conf "$dir/conf" ""
runs "a good configuration is accepted" "$bin" --check-config -f "$dir/conf"
runs "the printed configuration is accepted" bash -c "'$bin' --print-config >'$dir/full' && chmod 644 '$dir/full' && '$bin' --check-config -f '$dir/full'"
check_bad() { # NAME LINE REGEX
    write_conf "$dir/bad" "$2"
    like "$("$bin" --check-config -f "$dir/bad" 2>&1; echo "rc=$?")" "$3" "$1"
}
check_bad "an unknown key names file, line and the nearest key" 'reprot_ms = 5;' "$dir/bad:7:.*report_ms.*rc=1"
check_bad "a number out of range names the range" 'report_ms = 5;' "$dir/bad:7:.*10.*600000.*rc=1"
check_bad "a number that would wrap is refused" 'report_ms = 99999999999999999999;' "$dir/bad:7:.*rc=1"
check_bad "a wrong type is refused" 'report_ms = "fast";' "$dir/bad:7:.*rc=1"
write_conf "$dir/bad" ""
chmod 666 "$dir/bad"
like "$("$bin" --check-config -f "$dir/bad" 2>&1; echo "rc=$?")" "others may write.*rc=1" "a file that others may write is refused"
fails "a missing file is refused" "$bin" --check-config -f "$dir/none"
fails "a node name with a slash is refused" "$bin" --check-config -f "$dir/conf" --node ../x
write_conf "$dir/bad" ""
echo 'partitions = ( { name = "p"; nonsense = 1; } );' >>"$dir/bad"
like "$("$bin" --check-config -f "$dir/bad" 2>&1; echo "rc=$?")" "bad:9:.*nonsense.*rc=1" "an unknown key of a partition is refused"
write_conf "$dir/bad" ""
echo 'nodes = ( { name = "n1"; port = 70000; } );' >>"$dir/bad"
like "$("$bin" --check-config -f "$dir/bad" 2>&1; echo "rc=$?")" "bad:9:.*port.*rc=1" "a port of a node out of range is refused"

# ---- start
start
ok $? "starts and says ready"
like "$("$probe" "$sock" query node 0)" '"node":"n1"' "answers a query"
is "$(stat -c %a "$sock")" 666 "everybody may connect"
like "$(timeout 60 "$bin" -f "$dir/conf" --node n1 --foreground 2>&1; echo "rc=$?")" "another dynpiped.*rc=1" \
    "a second daemon on the socket says so and leaves"
like "$("$probe" "$sock" query node 0)" '"node":"n1"' "the first one is unharmed"

# ---- hostile bytes: header = magic, version, type, length, seq
is "$("$probe" "$sock" raw 47455420)$("$probe" "$sock" raw 474554202f20485454502f312e310d0a0d0a)" closedclosed "what is no frame is refused"
is "$("$probe" "$sock" raw 44594e500001000affffffff00000000)" closed "a huge length is refused before it is read"
is "$("$probe" "$sock" raw 44594e500000000a0000001000000000)$("$probe" "$sock" raw 44594e500002000a0000001000000000)" closedclosed \
    "a protocol version that no release had is refused"
node_query=00280000000500000000 # type, length and number of a QUERY, without its body
is "$("$probe" "$sock" raw "44594e5000c8${node_query}040000000044594e500001${node_query}0400000000")" closed \
    "and so is another one in the middle"
is "$("$probe" "$sock" raw 44594e5000c8002800001006000000000400000000)" closed "a newer version may say more, but not any amount"
is "$("$probe" "$sock" raw 44594e5000010063000000100000000000)" closed "an unknown type is refused"
is "$("$probe" "$sock" raw 44594e50000100280000000500000000000000)" closed "a frame that never ends is hung up on"
is "$("$probe" "$sock" raw 44594e500001002800000006000000000000000000ff)" closed "trailing bytes are refused"
for type in 0b 0c 0d 0e 0f 10 11 12 13 14 1e 1f 20 21 22 29 32 33 34; do
    wrong=$("$probe" "$sock" raw "44594e50000100${type}0000000000000000")
    [ "$wrong" = closed ] || break
done
is "$wrong" closed "no type is taken from a peer whose role does not have it"
is "$("$probe" "$sock" vote 7 0)" closed "a vote without a HELLO is refused"
is "$("$probe" "$sock" idle 20)" 20 "silent connections are hung up on"
like "$("$probe" "$sock" query node 0)" '"node":"n1"' "the daemon answers after all that"

# ---- a run, kill -9, and the same run again
hello() { # JOB RANK N OUT: a worker in the background, until $worker_fd is closed
    in_background "${4##*/}" worker_fd "$probe" "$sock" hello "$1" "$2" "$3"
    wait_for 60 grep -qs welcome "$4"
}
hello 7 0 2 "$dir/w0"
like "$(cat "$dir/w0")" '^welcome 0 ' "a worker is welcome"
like "$("$probe" "$sock" query jobs 0)" '"job_id":7' "its run is listed"
like "$("$probe" "$sock" query status 7)" '^\{' "its status can be asked for"
like "$("$probe" "$sock" query status 8)" '^error ' "another run's cannot"
hello 7 0 2 "$dir/w0b"
like "$(cat "$dir/w0b")" '^welcome 1 ' "a second process with the same rank is turned away"
if [ ${#nobody[@]} -gt 0 ]; then
    like "$("${nobody[@]}" "$probe" "$sock" query status 7)" 'error .*another user' "another user may not see it"
    is "$("${nobody[@]}" "$probe" "$sock" query jobs 0)" '{"node":"n1","jobs":[]}' "nor find it in the list"
    is "$("${nobody[@]}" "$probe" "$sock" hello 7 1 2 </dev/null)" "welcome 1 the job belongs to another user" \
        "nor join it"
    is "$("${nobody[@]}" "$probe" "$sock" step 9 65534 n1 | grep -c ack)" 0 "nor register a job"
else
    skip "another user may not see it" "needs root to become another user"
fi
hello 0 0 1 "$dir/w2" # as under mpirun
like "$(cat "$dir/w2")" '^welcome 0 ' "a worker without a job is welcome"
like "$("$probe" "$sock" query jobs 0)" "\"job_id\":$((1000000000 + $(id -u)))" "its run has a number of its own"
kill -9 "$pid"
wait "$pid" 2>/dev/null
start
ok $? "starts again over the stale socket"
like "$("$probe" "$sock" query jobs 0)" '"job_id":7' "the run is known after kill -9"
runs "the old connection ended with the old daemon" wait_for 60 grep -q closed "$dir/w0"
hello 7 0 2 "$dir/w0c"
like "$(cat "$dir/w0c")" '^welcome 0 ' "the worker is welcome again"
like "$(cat "$dir/log")" 'incarnation=2' "the coordinator has a new incarnation"
hello 8 0 1 "$dir/w1" # a second record in the node's journal
like "$(cat "$dir/w1")" '^welcome 0 ' "another run beside it"

# ---- reload and end
write_conf "$dir/conf" 'nonsense = 1;'
kill -HUP "$pid"
runs "a wrong configuration is not loaded" wait_for 60 grep -q "not reloaded.*nonsense" "$dir/log"
like "$("$probe" "$sock" query node 0)" '"trouble":"configuration not reloaded, the old one stays: [^"]*conf:7: [^"]*nonsense' "which is told to who asks"
write_conf "$dir/conf" 'report_ms = 77;'
kill -HUP "$pid"
runs "a right one is" wait_for 60 grep -q "configuration reloaded" "$dir/log"
unlike "$("$probe" "$sock" query node 0)" '"trouble"' "and all is well again"
write_conf "$dir/conf" "log = \"$dir/%n.log\";"
kill -HUP "$pid"
runs "the log goes into a file" wait_for 60 grep -q "configuration reloaded" "$dir/n1.log"
mv "$dir/n1.log" "$dir/n1.log.1"
kill -HUP "$pid"
runs "which a reload opens anew" wait_for 60 grep -q "configuration reloaded" "$dir/n1.log"
write_conf "$dir/conf" 'log = "/nowhere/log";'
kill -HUP "$pid"
runs "one that cannot be opened leaves the old one" wait_for 60 grep -q "the old log stays: log /nowhere/log: No such file" "$dir/n1.log"
write_conf "$dir/conf" 'log = "stderr";'
n=$(grep -c "configuration reloaded" "$dir/log")
kill -HUP "$pid"
more() { [ "$(grep -c "configuration reloaded" "$dir/log")" -gt "$n" ]; }
runs "and back to stderr" wait_for 60 more
kill -TERM "$pid"
wait "$pid"
is "$?" 0 "ends with 0 on SIGTERM"
is "$(find "$sock" 2>/dev/null)" "" "and takes its socket away"
# ---- files and folders that others could put something into
mkdir "$dir/open" && chmod 777 "$dir/open"
sed "s|socket = .*|socket = \"$dir/open/%n.sock\";|" "$dir/conf" >"$dir/conf-open" && chmod 644 "$dir/conf-open"
like "$(timeout 60 "$bin" -f "$dir/conf-open" --node n3 --foreground 2>&1; echo "rc=$?")" "nobody else may write.*rc=1" "a socket in a folder that others may write is refused"
chmod 1777 "$dir/open"
like "$(timeout 60 "$bin" -f "$dir/conf-open" --node n3 --foreground 2>&1; echo "rc=$?")" "nobody else may write.*rc=1" "with a sticky bit, too: others can be there first"
mkdir -m 755 "$dir/open/ours"
sed "s|socket = .*|socket = \"$dir/open/ours/%n.sock\";|" "$dir/conf" >"$dir/conf-open"
chmod 777 "$dir/open"
like "$(timeout 60 "$bin" -f "$dir/conf-open" --node n3 --foreground 2>&1; echo "rc=$?")" "others may write to a folder above.*rc=1" "nor in a folder below one"
write_conf "$dir/conf-pid" "pidfile = \"$dir/pid-%n\";"
echo precious >"$dir/precious" && ln -s precious "$dir/pid-n3"
like "$(timeout 60 "$bin" -f "$dir/conf-pid" --node n3 --foreground 2>&1; echo "rc=$?")" "pid-n3.*rc=1" "a pid file that is a link is refused"
is "$(cat "$dir/precious")" precious "and what it leads to stays"
rm "$dir/pid-n3"
write_conf "$dir/conf-pid" "pidfile = \"$dir/open/pid-%n\";"
like "$(timeout 60 "$bin" -f "$dir/conf-pid" --node n3 --foreground 2>&1; echo "rc=$?")" "folder of the pid file: .*nobody else may write.*rc=1" "nor one in a folder that others may write"
# A second daemon that cannot start leaves the first one's pid file alone; a new one replaces what was left.
write_conf "$dir/conf-pid" "pidfile = \"$dir/pid-%n\";"
echo 1 >"$dir/pid-n3"
"$bin" -f "$dir/conf-pid" --node n3 --foreground >"$dir/ready3" 2>>"$dir/log" &
third=$!
pids="$pids $third"
wait_for 60 grep -qs ready "$dir/ready3"
is "$(cat "$dir/pid-n3")" "$third" "a pid file that was left is replaced"
like "$(timeout 60 "$bin" -f "$dir/conf-pid" --node n3 --foreground 2>&1; echo "rc=$?")" "another dynpiped.*rc=1" "a second daemon does not start"
is "$(cat "$dir/pid-n3")" "$third" "and leaves the pid file"
kill "$third"
wait "$third"
is "$(find "$dir/pid-n3" 2>/dev/null)" "" "which goes with its daemon"
# A child that a killed daemon left holds its lock for a moment: the next daemon waits. Here somebody lets go when that one is there.
if [ "$(id -u)" -eq 0 ]; then # to see what it has open
    in_background holder hold flock -n "$dir/n8.sock.lock" sh -c 'echo held; read -r _'
    "$bin" -f "$dir/conf" --node n8 --foreground >"$dir/ready8" 2>>"$dir/log" {hold}>&- &
    eighth=$!
    pids="$pids $eighth"
    waits_for_lock() { find "/proc/$eighth/fd" -lname "$dir/n8.sock.lock" 2>/dev/null | grep -q .; }
    wait_for 60 waits_for_lock
    ok $? "a daemon whose lock is held does not leave at once"
    end_background holder "$hold"
    wait_for 60 grep -qs ready "$dir/ready8"
    ok $? "and begins when it has it"
fi
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    strace -f -e trace=open,openat,openat2 -o "$dir/opened" "$bin" --check-config -f "$dir/conf" >/dev/null
    is "$(grep -c "\"$dir/conf\"" "$dir/opened")" 1 "the configuration is opened once: what is checked is what is read"
else
    skip "the configuration is opened once" "needs strace"
fi
ln -s /etc "$dir/state-n4"
like "$(timeout 60 "$bin" -f "$dir/conf" --node n4 --foreground 2>&1; echo "rc=$?")" "state-n4.*rc=1" "a state_dir that is a link is refused"

# ---- no core files: what cannot be dumped shows as root's in /proc, whoever it runs as
mkdir "$dir/plain" && chmod 755 "$dir"
as=
[ "$(id -u)" -ne 0 ] || { chown 65534 "$dir/plain"; as="setpriv --reuid=65534 --regid=65534 --clear-groups"; }
sed "s|\"$dir/|\"$dir/plain/|" "$dir/conf" >"$dir/conf-plain" && chmod 644 "$dir/conf-plain"
if $as test -x "$bin"; then
    $as "$bin" -f "$dir/conf-plain" --node n5 --foreground >"$dir/ready5" 2>>"$dir/log" &
    plain=$!
    pids="$pids $plain"
    ok "$(wait_for 60 grep -qs ready "$dir/ready5"; echo $?)" "starts as an ordinary user"
    is "$(stat -c %u /proc/$plain/environ)" 0 "and cannot be dumped"
    kill "$plain"
    wait "$plain"
else
    skip "cannot be dumped" "another user does not reach the build"
fi

# ---- a damaged journal is refused, not guessed at
printf 'x' | dd of="$dir/state-n1/node.journal" bs=1 seek=12 conv=notrunc 2>/dev/null
like "$(timeout 60 "$bin" -f "$dir/conf" --node n1 --foreground 2>&1; echo "rc=$?")" "node.journal.*rc=1" "a damaged journal is refused"
done_testing
