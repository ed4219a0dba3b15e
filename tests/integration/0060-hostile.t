#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One dynpiped without Slurm and users who mean it harm: whatever they send, it stays small and answers others.
# Works as root and as an ordinary user.
# shellcheck disable=SC2015,SC2317,SC2154 # run_fd and its kind are set by in_background
# shellcheck source=tests/lib/lone-daemon.sh
. "${DP_SRCDIR:-.}/tests/lib/lone-daemon.sh"

# A munge of its own, for the port.
if command -v munged perl >/dev/null; then
    port=$(perl -MSocket -e 'for (1 .. 200) { my $p = 12000 + int rand 20000; socket(my $s, PF_INET, SOCK_STREAM, 0);
        bind($s, sockaddr_in($p, INADDR_ANY)) and print($p), exit }')
    mkdir -m 700 "$dir/key"
    (umask 077 && head -c 1024 /dev/urandom >"$dir/key/munge.key")
    mkdir -m 755 "$dir/run"
    munged --key-file="$dir/key/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
        --log-file="$dir/key/munged.log" --seed-file="$dir/key/munged.seed" --num-threads=2 --foreground 2>"$dir/munged.log" &
    pids="$pids $!"
    wait_for 60 test -S "$dir/run/munge.socket" || port=0
fi

write_conf "$dir/conf" "listen = \"127.0.0.1\"; munge_socket = \"$dir/run/munge.socket\";
  max_connections = 64; max_connections_per_uid = 16;"

memory_kb() { # most that the daemon has had
    awk '/VmHWM/ { print $2 }' "/proc/$pid/status"
}

be_run() { # NAME JOB WORKERS LAYERS MICROBATCHES: until $run_fd is closed
    in_background "$1" run_fd "$hostile" run "$sock" "$2" "$3" "$4" "$5"
    wait_for 100 grep -qs '^reported\|^error' "$dir/$1"
}

gap() { # SECONDS: the longest that an honest question waits meanwhile, ms
    "$hostile" gap "$sock" "$1" | sed -n 's/^answers.* gap //p'
}
log_lines() { wc -l <"$dir/log"; }

# Reports of finished runs, as they lie there after a restart.
end_ms=$(($(date +%s) * 1000 - 3600000))
mkdir -p "$dir/state-n1/history"
chmod 755 "$dir/state-n1"
filler=$(seq -s, 3000)
for job in $(seq 1001 1400); do
    echo "{\"job_id\":$job,\"uid\":4242,\"ended_s\":1,\"status\":{\"state\":\"job $job\"},\"explain\":{},\"report\":[$filler]}" \
        >"$dir/state-n1/history/job-$job.0.$((end_ms + job)).json"
done
echo nonsense >"$dir/state-n1/history/job-999.0.$end_ms.json"

start
ok $? "starts"

# ---- finished runs
is "$("$probe" "$sock" query jobs 0 | grep -o '"job_id":1[0-9]*' | wc -l)" "$([ "$(id -u)" = 0 ] && echo 400 || echo 0)" \
    "lists the runs that its files tell of"
like "$("$probe" "$sock" query status 1234)" "$([ "$(id -u)" = 0 ] && echo '"job 1234"' || echo 'error .*another user')" \
    "and answers from the file of one"
if [ ${#nobody[@]} -gt 0 ]; then
    "${nobody[@]}" "$hostile" flood "$sock" 0 0 4 >"$dir/flood" &
    pids="$pids $!"
    longest=$(gap 5)
    ok $((${longest:-99999} > 3000)) "a flood of questions keeps nobody waiting" || diag "waited ${longest:-for ever} ms"
    "${nobody[@]}" "$hostile" cards "$sock" 7 4 >"$dir/flood" &
    pids="$pids $!"
    longest=$(gap 5)
    ok $((${longest:-99999} > 3000)) "nor does one of workers who want to wire up" || diag "waited ${longest:-for ever} ms"
    like "$("${nobody[@]}" "$probe" "$sock" query status 1234)" 'error .*another user' "a finished run is its owner's to see"
else
    skip "a flood of questions keeps nobody waiting" "needs root to become another user"
    skip "nor does one of workers who want to wire up" "needs root to become another user"
fi

# ---- numbers in a HELLO: what they cost is another process's, and has an end
be_run big 7 128 128 65535
like "$(cat "$dir/big")" '^welcome 3 128 workers x 65535 microbatches x 128 layers are more than' "a run of any size is not decided about"
exec {run_fd}>&-
before=$(memory_kb)
be_run large 8 32 32 65535
like "$(cat "$dir/large")" '^welcome 0 ' "a large one is"
has_decided() { "$probe" "$sock" query explain 8 | grep -q '"reason":'; }
runs "and comes to a decision" wait_for 100 has_decided
more=$(($(memory_kb) - before))
ok $((more > 50000)) "which does not grow the daemon" || diag "$more kB more" # 200 MB where it works that out itself
exec {run_fd}>&-
is_finished() { "$probe" "$sock" query jobs 0 | grep -q '"job_id":8,[^}]*"finished"'; }
runs "a run that ended is listed as finished" wait_for 60 is_finished
like "$("$probe" "$sock" query report 8)" '"slot_seconds_held"' "and its report can be asked for at once"

# ---- the log
before=$(log_lines)
"$hostile" events "$sock" 12 4 >/dev/null
more=$(($(log_lines) - before))
ok $((more > 400)) "a worker that tells of thousands of events fills no log" || diag "$more lines" # 2,500 without a limit
runs "and the log says that it left some out" wait_for 60 grep -q "uid $(id -u): [0-9]* lines about its runs were left out" "$dir/log"
mkfifo "$dir/stuck"
exec {stuck_fd}<>"$dir/stuck"
sed "s|%n.sock|stuck.sock|; s|port = .*|port = 0;|" "$dir/conf" >"$dir/conf-stuck"
chmod 644 "$dir/conf-stuck"
dd if=/dev/zero of="$dir/stuck" bs=4096 count=1024 oflag=nonblock conv=notrunc 2>/dev/null # until the pipe is full
"$bin" -f "$dir/conf-stuck" --node n2 --foreground >"$dir/ready2" 2>"$dir/stuck" &
pids="$pids $!"
runs "starts while nobody takes its log" wait_for 60 grep -qs ready "$dir/ready2"
like "$(timeout 60 "$probe" "$dir/stuck.sock" query node 0)" '"node":"n2"' "and answers"
cat "$dir/stuck" >"$dir/taken" &
pids="$pids $!"
timeout 60 "$hostile" run "$dir/stuck.sock" 13 1 8 4 </dev/null >"$dir/after"
runs "what was lost is told to who takes it later" wait_for 60 grep -qa "lines were lost here" "$dir/taken"
exec {stuck_fd}>&-

# ---- the command, which is hung up on
cat >"$dir/busy.pl" <<'X2'
use IO::Socket::UNIX;
my ($path, $times, $then) = @ARGV;
my $s = IO::Socket::UNIX->new(Local => $path, Listen => 8) or die "$path: $!";
$| = 1;
print "ready\n";
for (1 .. $times) { my $c = $s->accept; sysread $c, my $drop, 16; close $c }
unlink $path;
symlink $then, $path;
X2
dynpipe=$DP_BUILDDIR/cli/dynpipe
in_background busy busy_fd perl "$dir/busy.pl" "$dir/busy.sock" 3 "$sock"
status_at() { timeout 60 "$dynpipe" status --socket "$1" 2>&1; echo "rc $?"; }
like "$(status_at "$dir/busy.sock")" "rc 0" "who is hung up on three times asks a fourth time"
exec {busy_fd}>&-
in_background never never_fd perl "$dir/busy.pl" "$dir/never.sock" 1000000 "$sock"
from=${EPOCHREALTIME/[.,]/}
like "$(status_at "$dir/never.sock")" "no answer from dynpiped.*closed the connection.*rc 1" \
    "and who is hung up on for ever is told so"
took=$(((${EPOCHREALTIME/[.,]/} - from) / 1000))
ok $((took < 5000)) "after five seconds" || diag "$took ms"
exec {never_fd}>&-

# ---- TCP: who says nothing, and who holds on to what he has
remote() { "$probe" - remote "$port" n1 "$dir/run/munge.socket" node 0; }
if [ "$port" != 0 ]; then
    like "$(remote)" '"node":"n1"' "answers over TCP"
    in_background silent silent_fd "$hostile" silent "$port" 200 127.0.0.2
    answers=0
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        remote | grep -q '"node":"n1"' && answers=$((answers + 1))
        sleep 0.2 # ten looks over two seconds, not one lucky one
    done
    ok $((answers < 5)) "and while 200 connections from elsewhere say nothing" || diag "$answers of 10 answered"
    like "$(cat "$dir/log")" "too many TCP connections that have not said who they are, the newest from 127.0.0.2" "which the log tells"
    end_background silent "$silent_fd"
    ok $? "they go"
    in_background still still_fd bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; for i in \$(seq 70); do
        eval \"exec \$((i + 10))<>/dev/tcp/127.0.0.1/$port\"; done; echo ready; read -r"
    like "$(remote)" '"node":"n1"' "who speaks has his turn behind those from the same address" # they would have 10 s
    exec {still_fd}>&-
    # More of them than have places, from the address of who asks, and each that is closed comes back within 50 ms.
    in_background many1 many1_fd "$hostile" silent "$port" 900 127.0.0.1
    in_background many2 many2_fd "$hostile" silent "$port" 900 127.0.0.1
    write_conf "$dir/there.conf" "munge_socket = \"$dir/run/munge.socket\";"
    echo "nodes = ( { name = \"n1\"; address = \"127.0.0.1\"; port = $port; } );" >>"$dir/there.conf"
    # Without a turn of one's own it took seconds. The address sanitizer makes everything several times slower.
    answers=0 soon=0 slower=1
    ! nm -D "$DP_BUILDDIR/daemon/dynpiped" | grep -q ' U __asan_' || slower=3
    for _ in 1 2 3 4 5 6 7 8; do
        from=${EPOCHREALTIME/[.,]/}
        timeout $((slower * 20)) "$dynpipe" status --config "$dir/there.conf" --node n1 >"$dir/status" 2>&1 && answers=$((answers + 1))
        ((${EPOCHREALTIME/[.,]/} - from > slower * 800000)) || soon=$((soon + 1))
    done
    is "$answers" 8 "the command has its answer while 1800 of its own address say nothing" || diag "$(cat "$dir/status")"
    ok $((soon < 4)) "and most often at once" || diag "$soon of 8 within $((slower * 800)) ms"
    end_background many2 "$many2_fd" && end_background many1 "$many1_fd" # many2 has its pipe, too
    ok $? "1800 go"
    for how in silent garbage; do
        in_background "reopen-$how" reopen_fd "$hostile" reopen "$port" 64 127.0.0.1 $how
        answers=0 longest=0
        for _ in 1 2 3 4 5 6 7 8; do
            from=${EPOCHREALTIME/[.,]/}
            timeout $((slower * 20)) "$dynpipe" status --config "$dir/there.conf" --node n1 >"$dir/status" 2>&1 && answers=$((answers + 1))
            took=$(((${EPOCHREALTIME/[.,]/} - from) / 1000))
            [ $took -le $longest ] || longest=$took
        done
        is "$answers" 8 "and while 64 are opened there again and again ($how)" || diag "$(cat "$dir/status")"
        ok $((longest > slower * 10000)) "in the time that the command waits: 5 s of trying, and for the last answer" || diag "$longest ms"
        end_background "reopen-$how" "$reopen_fd"
        ok $? "the flood is over ($how)"
        [ $how = garbage ] || continue
        most=$(sed -n 's/^overtaken //p' "$dir/reopen-$how")
        ok $((${most:-99} > 32)) "who waits is overtaken by those whose credentials are opened at the same time, by no others" ||
            diag "overtaken by ${most:-?}"
    done
else
    skip "answers over TCP" "no munged"
fi
if [ "$port" != 0 ] && [ ${#nobody[@]} -gt 0 ]; then
    in_background one one_fd "${nobody[@]}" "$hostile" sessions "$port" n1 "$dir/run/munge.socket" 24
    is "$(cat "$dir/one")" "open 16" "a user has no more TCP sessions than connections"
    owner=(setpriv --reuid 60006 --clear-groups)
    in_background run9 owner_fd "${owner[@]}" "$hostile" run "$sock" 9 1 8 4
    for uid in 60001 60002 60003 60004; do
        in_background "many$uid" many_fd setpriv --reuid $uid --clear-groups "$hostile" sessions "$port" n1 "$dir/run/munge.socket" 16
    done
    connections() { "$probe" "$sock" query node 0 | sed -n 's/.*"connections":\([0-9]*\).*/\1/p'; }
    total=$(connections)
    ok $((total > 52)) "those without a run here leave places" || diag "$total connections"
    in_background owner owner_fd "${owner[@]}" "$hostile" sessions "$port" n1 "$dir/run/munge.socket" 12
    is "$(cat "$dir/owner")" "open 12" "which the owner of a run finds"
    more=$(($(connections) - total))
    is "$more" 12 "and nobody else's goes for them"
    like "$(setpriv --reuid 60005 --clear-groups "$probe" "$sock" query node 0)" '"node":"n1"' "and one more user finds one at once"
else
    skip "a user has no more TCP sessions than connections" "needs root to become another user, and munged"
fi

done_testing
