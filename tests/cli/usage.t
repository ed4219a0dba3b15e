#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Wrong command lines: a clear error that names the nearest thing there is, and exit code 2.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh

exit_is 2 "no command"
like "$out" "Usage: dynpipe COMMAND" "tells how it is used"
exit_is 0 "--help" --help
for c in status watch explain layout pause resume save report plan learn check simulate; do
    like "$out" "  $c " "--help names $c"
    "$dynpipe" $c --help >"$tmp/help"
    is "$(head -n1 "$tmp/help" | cut -d' ' -f1-3)" "Usage: dynpipe $c" "$c --help"
    is "$("$dynpipe" help $c | cksum)" "$(cksum <"$tmp/help")" "help $c is the same"
done
exit_is 0 "--version" --version
like "$out" '^dynpipe [0-9]+\.[0-9]+' "prints a version"
exit_is 0 "-V of a subcommand" status -V
like "$out" '^dynpipe [0-9]+\.[0-9]+' "prints the same"

exit_is 2 "unknown command" stauts
like "$err" "unknown command 'stauts'; did you mean 'status'" "names the nearest"
exit_is 2 "unknown command that is near to nothing" frobnicate
unlike "$err" 'did you mean' "guesses nothing"
exit_is 2 "unknown option" status --jsno
like "$err" "unknown option '--jsno'; did you mean '--json'" "names the nearest"
exit_is 2 "unknown letter" status -x
like "$err" "unknown option '-x'" "names it"
exit_is 2 "an option of another command" status --interval 3
like "$err" '--interval does not apply to this command' "says so"
exit_is 2 "option before the command" --json status
like "$err" 'the command comes first' "says so"
exit_is 2 "an argument too many" status 12
like "$err" "unexpected argument '12'" "names it"
exit_is 2 "no argument" status -j
like "$err" '-j requires an argument' "says so"
for j in 0 x -1 12x 4294967295 1.5; do exit_is 2 "--job=$j" status "--job=$j"; done
for i in 0 -1 x 1e99 nan; do exit_is 2 "--interval=$i" watch "--interval=$i"; done
exit_is 2 "--color=blue" status --color=blue
exit_is 2 "unknown column" status -o jobid,laoyut --from "$data/runs.json"
like "$err" "unknown column 'laoyut', did you mean 'layout'" "names the nearest"
exit_is 2 "unknown letter of a format" status -o %Q --from "$data/runs.json"
exit_is 2 "--set with --from" layout --set '0-3|-' --from "$data/status.json"

exit_is 1 "no such file" status --from "$tmp/none.json"
like "$err" 'none.json: No such file' "names it"
echo '{"a": 1' >"$tmp/torn"
exit_is 1 "a torn document" status --from "$tmp/torn"
like "$err" 'torn: line 2: not valid JSON' "says so"
exit_is 1 "watch of a torn document" watch --from "$tmp/torn"
like "$err" 'torn: line 2: not valid JSON' "says so"

# Whatever reads a file says the same of one that is none, in one line.
: >"$tmp/empty"
printf ' \t\r\n\n' >"$tmp/blank"
printf '\0\0\0' >"$tmp/nul"
mkdir "$tmp/folder"
reads_files() { # NAME ARGUMENTS...: the file comes last
    local name=$1 file rc said
    shift
    for file in empty blank nul folder none; do
        case $file in
            empty | blank) said="the file is empty" ;;
            nul) said="a NUL byte: this is not a text file|not valid JSON" ;;
            folder) said="Is a directory|not a regular file" ;;
            none) said="No such file or directory" ;;
        esac
        err=$("$@" "$tmp/$file" 2>&1 >/dev/null)
        rc=$?
        like "$rc $(wc -l <<<"$err") $err" "^$code 1 .*$tmp/$file: (line 1: )?($said)" "$name: $file"
    done
}
code=1
for c in status watch explain report layout; do reads_files "$c --from" "$dynpipe" $c --from; done
reads_files "status --config" "$dynpipe" status --config
reads_files "plan" "$dynpipe" plan --devices=2
reads_files "simulate" "$dynpipe" simulate
reads_files "simulate --cluster" "$dynpipe" simulate --cluster
reads_files "a workload file" "$dynpipe" simulate --cluster "$DP_SRCDIR/etc/examples/simulate-cluster.json"
dynpiped=$DP_BUILDDIR/daemon/dynpiped worker=$DP_BUILDDIR/worker/dynpipe-worker
[ ! -x "$dynpiped" ] || reads_files "dynpiped" "$dynpiped" --check-config -f
[ ! -x "$worker" ] || code=2 reads_files "dynpipe-worker" "$worker" --check-config
exit_is 1 "nothing on stdin" watch --from - </dev/null
like "$err" 'stdin: the file is empty' "says so"

# What cannot be written is an error: a full disk must not look like a result.
if [ -c /dev/full ]; then
    full() { # COMMAND...
        is "$("$@" 2>&1 >/dev/full; echo "rc=$?")" "$(basename "$1"): stdout: No space left on device
rc=1" "${1##*/} ${*:2:2} on a full disk"
    }
    for args in --help "plan --help" --version "status --from $data/status.json" "status --json --from $data/status.json"; do
        # shellcheck disable=SC2086 # several words
        full "$dynpipe" $args
    done
    "$dynpipe" watch --from "$data/watch.jsonl" 2>"$tmp/err" >/dev/full
    is "$? $(cat "$tmp/err")" "1 dynpipe watch: stdout: No space left on device" "watch on a full disk"
    for p in "$dynpiped" "$worker"; do
        [ ! -x "$p" ] || { full "$p" --help; full "$p" --print-config; }
    done
    ln -s /dev/full "$tmp/link"
    exit_is 1 "a picture on a full disk" simulate "$DP_SRCDIR/etc/examples/simulate-gpt24.json" --svg "$tmp/link"
    like "$err" "link: No space left on device" "is told"
    runs "and removes no device, nor a link to one" test -L "$tmp/link" -a -c /dev/full
else
    skip "a full disk" "no /dev/full"
fi

# No daemon: one line on stderr, and with --json a document with the error in it.
echo 'daemon: { slurm = false; };' >"$tmp/dynpipe.conf"
for c in status explain layout report pause resume save watch; do
    exit_is 1 "$c without a daemon" "$c" --socket "$tmp/none.sock" --config "$tmp/dynpipe.conf"
    like "$err" "no answer from dynpiped: $tmp/none.sock: No such file" "$c names the socket"
done
exit_is 1 "status --json without a daemon" status --json --socket "$tmp/none.sock" --config "$tmp/dynpipe.conf"
like "$out" '"errors": \[' "has the error in its document"
exit_is 1 "a wrong configuration" status --config "$tmp/none.conf"
like "$err" 'none.conf' "names the file"
echo 'daemon: { sokcet = "x"; };' >"$tmp/dynpipe.conf"
exit_is 1 "an unknown key" status --config "$tmp/dynpipe.conf"
like "$err" 'dynpipe.conf:1: .*sokcet.*socket' "names file, line and the nearest key"
done_testing
