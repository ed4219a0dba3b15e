# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Small TAP helpers for tests in bash; source it: . "$DP_SRCDIR/tests/lib/tap.sh"
#
#   ok RC NAME              passes when RC is 0         (run something; ok $? "it works")
#   is GOT WANT NAME        passes when both are the same text
#   isnt GOT WANT NAME      passes when they differ
#   like TEXT REGEX NAME    passes when the text matches the extended regex; unlike: when it does not
#   runs NAME COMMAND...    passes when the command succeeds; its output is shown when it fails
#   fails NAME COMMAND...   passes when the command ends by itself with a nonzero status
#   skip NAME REASON        one skipped test
#   skip_all REASON         skips the whole file and ends it
#   bail REASON             ends the file as failed
#   diag TEXT               a comment for whoever reads the log
#   wait_for SECONDS COMMAND...   polls until the command succeeds; 1 when the time is over
#   end_processes PID...    kills what the test started in the background, and waits for it
#   find_python CODE        prints the first python3, Debian's before others, that runs this code; 1: there is none
#   dead PID                has this process ended, whether its parent knows or not?
#   done_testing            prints the plan and ends with the right status
#
# A file that ends before done_testing has no plan, and the driver counts that as a failure.
# on_failure may be set to a command that prints logs; it runs once, after the first failed test.

tap_count=0
tap_failed=0
on_failure=

diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

tap_result() { # RC NAME
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
        return 0
    fi
    echo "not ok $tap_count - $2"
    tap_failed=$((tap_failed + 1))
    return 1
}

# The logs of the first failure tell most; later ones would repeat them.
tap_explain() {
    [ -n "$on_failure" ] && [ "$tap_failed" -eq 1 ] && $on_failure 2>&1 | sed 's/^/# /'
    return 1
}

ok() { tap_result "$1" "$2" || tap_explain; }

is() {
    tap_result "$([ "$1" = "$2" ]; echo $?)" "$3" || { diag "got:  $1"; diag "want: $2"; tap_explain; }
}

isnt() {
    tap_result "$([ "$1" != "$2" ]; echo $?)" "$3" || { diag "got what it must not be: $1"; tap_explain; }
}

like() {
    tap_result "$([[ $1 =~ $2 ]]; echo $?)" "$3" || { diag "got: $1"; diag "does not match: $2"; tap_explain; }
}

unlike() {
    tap_result "$(! [[ $1 =~ $2 ]]; echo $?)" "$3" || { diag "got: $1"; diag "matches: $2"; tap_explain; }
}

runs() {
    local name=$1 out rc
    shift
    out=$("$@" 2>&1 </dev/null)
    rc=$?
    tap_result $rc "$name" || { diag "$* ended with $rc:"; diag "$out"; tap_explain; }
}

fails() {
    local name=$1 out rc
    shift
    out=$("$@" 2>&1 </dev/null)
    rc=$?
    # 124 is timeout(1), 126 and 127 the shell's "cannot run", above that a signal; Slurm's own
    # commands refuse with 255.
    tap_result "$([ $rc -gt 0 ] && { [ $rc -lt 124 ] || [ $rc -gt 192 ]; }; echo $?)" "$name" ||
        { diag "$* ended with $rc:"; diag "$out"; tap_explain; }
}

skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

skip_all() {
    echo "1..0 # SKIP $*"
    exit 0
}

bail() {
    diag "$*"
    tap_failed=$((tap_failed + 1))
    [ -n "$on_failure" ] && $on_failure 2>&1 | sed 's/^/# /'
    echo "Bail out! $*"
    exit 1
}

wait_for() {
    local deadline=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
    shift
    until "$@"; do
        [ "${EPOCHREALTIME/[.,]/}" -lt $deadline ] || return 1
        sleep 0.05
    done
}

find_python() {
    local p
    for p in /usr/bin/python3 python3; do
        "$p" -c "$1" 2>/dev/null && echo "$p" && return 0
    done
    return 1
}

dead() { ! [ -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

end_processes() {
    local p
    for p; do kill -9 "$p" 2>/dev/null; wait "$p" 2>/dev/null; done
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit $?
}
