#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_peers: programs take turns, its figures agree with each other, and it says what is missing or not the same
# model. llm.c is a stand-in here (fake_llmc.c); PyTorch is the real one where it is installed.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
[ -x /usr/bin/python3 ] || skip_all "no /usr/bin/python3"
bench=$DP_BUILDDIR/worker/bench/bench_train
[ -x "$bench" ] || bail "$bench is not built"
mkdir "$dir/llm.c" && cp "$DP_SRCDIR/tests/bench/fake_llmc.c" "$dir/llm.c/train_gpt2.c" || bail "no folder"
shape=2x32x2x200x2x16

peers() { "$DP_SRCDIR/worker/bench/bench_peers" --bench "$bench" --model $shape "$@"; }
consistent='[.rows[0] | .flops_per_token as $flops | .peak_gflops as $peak | (.batch * .context) as $tokens |
    .programs[0].step_ns.median as $ours | .programs[] |
    .step_ns.min > 0 and .step_ns.median >= .step_ns.min and .step_ns.max >= .step_ns.median and
    (.tokens_per_s * .step_ns.median / ($tokens * 1e9) - 1 | fabs < 1e-6) and
    (.gflops * .step_ns.median / ($tokens * $flops) - 1 | fabs < 1e-6) and
    (.peak_fraction * $peak / .gflops - 1 | fabs < 1e-6) and
    (.ours_is_faster * $ours / .step_ns.median - 1 | fabs < 1e-6) and
    (.loss[0] - 5.298 | fabs < 0.26) and .loss[1] < .loss[0] and (.version | length > 0)] | all'

peers --no-torch --llmc "$dir/llm.c" --llmc-flags=-O1 --rounds 3 --steps 2 --json >"$dir/out.json" 2>"$dir/err"
ok $? "ours and a stand-in for llm.c" || diag "$(cat "$dir/err")"
holds "machine, options and model are named" '(.machine.cpu | length > 0) and .rounds == 3 and .steps == 2 and
    .threads == 1 and .clock == "wall" and .rows[0].parameters == 2*(12*32*32 + 13*32) + 200*32 + 16*32 + 64 and
    [.rows[0].programs[].name] == ["dynpipe", "llm.c"]'
holds "figures agree" "$consistent"
is "$(ls "$dir/llm.c")" train_gpt2.c "the source folder stays as it was"
like "$(peers --no-torch --llmc "$dir/llm.c" --rounds 1 --steps 2 --threads 2)" "ours is.*dynpipe.*llm\.c" "the table for people"

sed -i 's/h\[3\] == h\[7\]/&); fread(\&x, sizeof x, 1, f), assert(1/' "$dir/llm.c/train_gpt2.c"
like "$(peers --no-torch --llmc "$dir/llm.c" 2>&1)" "llm\.c has [0-9]+ parameters, not [0-9]+" "another model is refused"
sed -i 's/0\.99f/1.0f/; s/fread(&x, sizeof x, 1, f), //' "$dir/llm.c/train_gpt2.c"
like "$(peers --no-torch --llmc "$dir/llm.c" 2>&1)" "llm\.c: the loss does not fall" "one that does not train is refused"
echo nonsense >"$dir/llm.c/train_gpt2.c"
like "$(peers --no-torch --llmc "$dir/llm.c" 2>&1)" "llm\.c does not build: " "one that does not build is refused"
like "$(peers --no-torch --llmc "$dir" 2>&1)" "holds no train_gpt2\.c" "a folder without llm.c is refused"
like "$(peers --python /bin/false 2>&1)" "no python3 with torch here" "missing PyTorch is said"
fails "a clock for several threads is refused" peers --no-torch --threads 2 --clock cpu

if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    peers --rounds 2 --steps 3 --clock cpu --json >"$dir/out.json" 2>"$dir/err"
    ok $? "ours and PyTorch" || diag "$(cat "$dir/err")"
    holds "PyTorch as it comes, and tuned" '[.rows[0].programs[].name] == ["dynpipe", "pytorch", "pytorch, tuned"]'
    holds "figures agree with PyTorch's" "$consistent"
else
    skip "ours and PyTorch" "no /usr/bin/python3 with torch (Debian: python3-torch)"
fi
done_testing
