# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # what is not set here is run's
# When a fault comes: moment NAME waits until the run does that, as the witness saw it (watch.c), 10 s at most; a moment that
# does not come is over then, and the fault comes all the same. returns 1 then.

moment_pattern() {
    case $1 in
        start) echo . ;; # anything: the witness looks from the first second on
        training) echo ' epoch ' ;;
        intent | commit | done | drain | gone | relintent | released) echo " record [^ ]+ job-[^ ]+ ${1^^}\b" ;;
        seat | regroup) echo " record [^ ]+ job-[^ ]+ ${1^^}\b" ;;
        given) echo ' given .* released' ;;
        left) echo ' left ' ;;
        saving) echo ' saving ' ;;
        *) return 1 ;;
    esac
}

# As seldom as every 2 ms, which costs nothing; a shell's loop would be a process each time.
moment() {
    perl -e '
        my ($file, $want, $until) = (shift, shift, time + 10);
        my $f;
        while (time < $until) {
            if ($f || open $f, "<", $file) { while (<$f>) { exit 0 if /$want/ } seek $f, 0, 1 }
            select undef, undef, undef, 0.002;
        }
        exit 1' "$E/events" "$(moment_pattern "$1")"
}
