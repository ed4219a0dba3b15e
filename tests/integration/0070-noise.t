#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A run whose loads scatter: a layout that looks better now and then is not taken, one that lasts is, and `dynpipe explain` says why.
# The loads are told (tests/lib/told_loads.c), and each report waits until the daemon has decided on the one before: no time decides
# anything here. Needs nothing but the build.
# shellcheck disable=SC2154
# shellcheck source=tests/lib/lone-daemon.sh
. "${DP_SRCDIR:-.}/tests/lib/lone-daemon.sh"
dynpipe=$DP_BUILDDIR/cli/dynpipe
told=$DP_BUILDDIR/tests/lib/told_loads
[ -x "$dynpipe" ] && [ -x "$told" ] || skip_all "dynpipe or told_loads is not built"
command -v jq >/dev/null || skip_all "jq is not installed (tests/lib/deps.sh lists the packages)"
export DYNPIPE_CONF=$dir/conf DYNPIPE_SOCKET=$sock LC_ALL=C.UTF-8 COLUMNS=300

write_conf "$dir/conf" 'report_ms = 250;'
# Silence is no stall here, and a hand-over may come as soon as it pays.
echo 'run: { hysteresis = 1.0; cooldown_s = 0.0; warmup_reports = 3; stall_s = 86400.0; vote_timeout_s = 3600.0; };' >>"$dir/conf"
start
ok $? "a daemon starts"
in_background told told_fd "$told" "$sock" 7
is "$(cat "$dir/told")" welcome "a run of two workers joins it"

explain() { timeout 60 "$dynpipe" explain -j 7 --json 2>/dev/null | jq -r ".explain | $1" 2>/dev/null; }
taken() { [ "$(timeout 60 "$probe" "$sock" query status 7 2>/dev/null | jq .counters.reports)" = $((2 * n_reports)) ]; }
decided() { [ "$(explain '.decisions[-1].step // 0')" -ge "$step" ] 2>/dev/null; }
hand_overs() { grep -c '^hand-over' "$dir/told"; }

# say yes|no PERCENT...: a report of each worker, ten steps later, in which a layer of the first half took so many percent of the time
# of one of the second; yes: the daemon decides on each, which it does twice a second.
step=0 n_reports=0
say() {
    local decides=$1 percent
    shift
    for percent; do
        step=$((step + 10)) n_reports=$((n_reports + 1))
        echo "report $step $percent" >&"$told_fd"
        wait_for 120 taken || { diag "report $n_reports is not taken"; return 1; }
        [ "$decides" = no ] || wait_for 120 decided || { diag "no decision on report $n_reports"; return 1; }
    done
}

# Four layers each are best from 75 to 133 percent, three and five above. The daemon takes the median of three reports, so that the
# other layout is found better twice in a row, and then not twice, by 3 to 13 percent; a stage's part of the work scatters by 9 to 11.
say no 110 90
say yes 110 140 165 90 110 150 140 85 115 165 150 95 105 140 160 88 112
ok $? "the daemon decides on each report"
is "$(hand_overs)" 0 "what is better now and then moves no layer"
like "$(explain '.decisions[].reason')" "stay: a layout is better by [0-9.]+ %, but loads scatter by [0-9.]+ %: found 2 of 3 times in a row" \
    "it waits, and says why"
unlike "$(explain '.decisions[].reason')" "found 3 of 3" "and never found it often enough"
like "$(timeout 60 "$dynpipe" explain -j 7)" "but loads scatter by [0-9.]+ %" "explain shows it to people"
is "$(explain '.decisions | map(select(.scatter_percent != null and .scatter_percent < 3)) | length')" 0 "it sees how much they scatter"

# From here on it lasts.
say yes 150 140 160
is "$(hand_overs)" 0 "what was found twice waits"
say yes 145
ok $? "and the daemon decides on that, too"
wait_for 120 grep -q '^hand-over' "$dir/told"
is "$(grep '^hand-over' "$dir/told")" "hand-over 1 0-2|3-7" "what was found three times in a row is taken"
like "$(explain '.decisions[] | select(.applied) | .reason')" "^move: predicted gain [0-9.]+ %" "and it pays"

# The same scatter again: now it is the old layout that looks better now and then.
say no 150 140
say yes 165 90 110 150 140 85 115
ok $? "the daemon decides again"
is "$(hand_overs)" 1 "and no layer goes back"
end_background told "$told_fd"
ok $? "the run ends"
done_testing
