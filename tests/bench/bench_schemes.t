#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_schemes: all of it with a tiny model, what it reckons from figures that are known, and what it says about bad options.
# What schemes cost and save is no test: it hangs on text, model and machine.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
[ -x /usr/bin/python3 ] || skip_all "no /usr/bin/python3"
# shellcheck disable=SC2154 # dir comes from lib.sh
bench=$DP_SRCDIR/worker/bench/bench_schemes
programs=(--worker "$DP_BUILDDIR/worker/dynpipe-worker" --dynpipe "$DP_BUILDDIR/cli/dynpipe")
# With the address sanitizer: PMIx's library loses five bytes in each process.
echo "leak:libpmix" >"$dir/lsan"
export LSAN_OPTIONS=suppressions=$dir/lsan:print_suppressions=0

cat "$DP_SRCDIR"/doc/*.md >"$dir/text"
head -c 30000 "$DP_SRCDIR/README.md" >"$dir/other"
tiny=("${programs[@]}" --out "$dir/out" --text "$dir/text" --steps 20 --blocks 4 --channels 8 --devices 3
    model.context=16 model.heads=2 train.batch=1 train.microbatches=2)
arms="dense dense-40 dense-60 dense-80 smaller-50 smaller-75 prune freeze-linear freeze-geometric freeze-change freeze-noise prune-freeze drop"

"$bench" "${tiny[@]}" --seeds 1 --tune-text "$dir/other" >"$dir/stdout" 2>"$dir/stderr"
is $? 0 "both tasks, one seed" || diag "$(cat "$dir/stderr")"
ended() { awk '{ print $2 }' "$dir/stderr" | LC_ALL=C sort | tr '\n' ' '; }
# shellcheck disable=SC2086 # words
wanted() { printf '%s\n' $1 | LC_ALL=C sort | tr '\n' ' '; }
all=$(for a in $arms; do echo "A-$a-1 B-$a-1"; done)
is "$(ended)" "$(wanted "$all B-freeze-static-1")" "every arm was trained"
report=$dir/out/report.md
# A row of results: seeds, steps, bits per byte, device-s, tokens per device-s, frozen layers, zeros
rows() { grep -cE "^\| [a-z0-9-]+ \| $1 \| [0-9]+ \| [0-9]+\.[0-9]{3}[^|]* \| [0-9.]+[^|]* \| [0-9]+ \| [0-9.]+ \| [0-9]+ \|" "$report"; }
is "$(rows 1)" 27 "a row for each"
like "$(grep '^| prune |' "$report" | sed -n 2p)" "\| 0\.0 \| 90 \|" "pruned to 90 %"
is "$(grep -cE '^\| freeze-(linear|static) \| 1 \| [0-9]+ \|.*\| 4\.0 \| 0 \|' "$report")" 3 "four layers were frozen"
like "$(cat "$report")" "of one seed, which says little|is outside of what was run" "one seed decides nothing"
is "$(grep -c 'Device-seconds held, packed' "$report")" 2 "both tasks were played on a pipeline"
if command -v gnuplot >/dev/null; then
    is "$(grep -lE '</svg>' "$dir/out"/schemes-[ab].svg | wc -l)" 2 "two pictures"
else
    skip "two pictures" "gnuplot is not installed"
fi

"$bench" "${tiny[@]}" --seeds 2 >"$dir/stdout" 2>"$dir/stderr"
is $? 0 "another seed, task A alone" || diag "$(cat "$dir/stderr")"
like "$(cat "$dir/stdout")" "task B, fine-tuning, is left out: no --tune-text" "says that task B is left out"
is "$(ended)" "$(wanted "$(for a in $arms; do echo "A-$a-2"; done)")" "only what is missing was trained"
is "$(rows 2)" 13 "rows of two seeds"
like "$(grep -m 1 '^| dense |' "$report")" " ± [0-9.]+ \|" "with an interval"
mv "$dir/out/runs/A-drop-2" "$dir/gone"
"$bench" "${tiny[@]}" --seeds 2 --report-only >"$dir/stdout" 2>"$dir/stderr"
like "$(cat "$dir/stdout")" "1 of 26 runs are missing" "--report-only trains nothing, and says what is missing"
fails "and makes no run" test -e "$dir/out/runs/A-drop-2"

# What it reckons: three seeds; the dense model costs 1 s a step of its 10, and the longer it trains the better it is: in 5 s it
# gets to 7.5 + seed when it is planned so short, and to 7 + seed on the way.
/usr/bin/python3 -B - "$DP_SRCDIR/worker/bench" >"$dir/stdout" 2>"$dir/stderr" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
from schemes import costs, layouts, report

mean, half = costs.interval([1.0, 2.0, 3.0])
print(f"interval {mean:.3f} {half:.3f} {costs.interval([4.0])}")
print("between", costs.at([(2, 20), (0, 0), (1, 10)], 1.5), costs.at([(0, 0), (1, 1)], 1.5))

class Window:
    def __init__(self, state, ms):
        self.state, self.busy = state, ms * 1000000
class Run:
    def __init__(self, arm, seed, steps, frozen, loss):
        self.task, self.arm, self.seed, self.evals = "A", arm, seed, [(steps, loss)]
        self.states = [(4, 0, frozen, 0.0)] * steps
        self.windows = [Window(self.states[0], ms) for ms in ((400, 500, 9000) if frozen else (1000, 1000, 7000))]
    def loss(self):
        return self.evals[-1][1]
done = []
for seed in (1, 2, 3):
    for arm, steps in (("dense", 10), ("dense-80", 8), ("dense-60", 6), ("dense-40", 4)):
        done.append(Run(arm, seed, steps, 0, 10 - steps / 2 + seed))
    done[-4].evals.insert(0, (5, 7.0 + seed))
    done.append(Run("worse", seed, 10, 3, 8.5 + seed + seed / 100))  # half the device time
    done.append(Run("better", seed, 10, 3, 6.5 + seed + seed / 100))
    done.append(Run("level", seed, 10, 3, 5 + 2 * seed))
    done.append(Run("cheap", seed, 4, 3, 5.0))
task = report.Task("A", done, costs.Costs(done))
print("seconds", task.end("dense", 1)[0], task.end("worse", 1)[0])
print("\n".join(task.verdicts()))
P
is $? 0 "reckons" || diag "$(cat "$dir/stderr")"
known=$(cat "$dir/stdout")
like "$known" "interval 2.000 2.484 \(4.0, None\)" "mean and 95 % interval"
like "$known" "between 15.0 None" "between two runs, never outside of them"
like "$known" "seconds 10.0 5.0" "a step costs the median of its state"
like "$known" "worse \*\*loses\*\* to dense, stopped early: \+1.520 ± 0.025" "a scheme that loses is told"
like "$known" "better is better than dense, stopped early: -0.480 ± 0.025" "and one that does not"
like "$known" "level against dense, stopped early: \+0.000 ± 2.484 bits/byte; the interval has 0 in it" "and one of which nothing is known"
like "$known" "cheap: dense, stopped early of as many device-seconds is outside" "and one with nothing to compare with"

# A worker that fails, and one that is still at work when bench_schemes is ended.
printf '#!/bin/sh\necho "no memory" >&2\nexit 3\n' >"$dir/fails"
# shellcheck disable=SC2016 # the script's own
printf '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho $$ >>"%s"\nexec sleep 600\n' "$dir/pids" >"$dir/sleeps"
: >"$dir/pids"
chmod +x "$dir/fails" "$dir/sleeps"
fake=(--dynpipe "$DP_BUILDDIR/cli/dynpipe" --text "$dir/text" --seeds 1)
like "$("$bench" "${fake[@]}" --worker "$dir/fails" --out "$dir/failed" --jobs 1 2>&1; echo "rc=$?")" \
    "A-dense-1: the worker ended with 3: no memory.*rc=2" "a worker that fails is named, with its reason"
"$bench" "${fake[@]}" --worker "$dir/sleeps" --out "$dir/ended" --jobs 2 >/dev/null 2>&1 &
child=$!
for ((i = 0; i < 3000 && $(wc -l <"$dir/pids") < 2; i++)); do sleep 0.1; done
kill -TERM $child
wait $child
is $? 143 "ended by a signal"
is "$(while read -r pid; do [ ! -e "/proc/$pid" ] || echo "$pid"; done <"$dir/pids")" "" "and so are its workers"
is "$(find "$dir/ended/runs" -maxdepth 1 -name '*-1')" "" "what they began does not count"

refused() { # MESSAGE NAME OPTION...
    local message=$1 name=$2
    shift 2
    like "$("$bench" "${programs[@]}" --out "$dir/none" --text "$dir/text" "$@" 2>&1; echo "rc=$?")" "bench_schemes: .*$message.*rc=2" "$name"
}
refused "unknown option '--what'; known: --worker" "an unknown option is named" --what
refused "'0' is not a number from 1 to 99" "a wrong number is refused" --seeds 0
refused "'19' is not a number from 20" "too few steps are refused" --steps 19
refused "expected one argument" "an option without its value is refused" --jobs
refused "no file '$dir/nothing'" "a text that is not there is named" --tune-text "$dir/nothing"
refused "'train.seed' is set by bench_schemes itself" "what it sets itself is not overridden" train.seed=3
refused "no program '$dir/nothing'" "a program that is not there is named" --worker "$dir/nothing"
refused "no run in '$dir/none/runs' has ended" "a folder without runs has no report" --report-only
refused "have steps 20, not 40" "runs of other settings are not mixed" "${tiny[@]}" --steps 40
like "$("$bench" --help)" "\[--worker PROGRAM\]" "--help"
done_testing
