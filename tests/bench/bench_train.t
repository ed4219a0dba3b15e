#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_train on tiny shapes: its JSON is complete, its figures agree with each other and with the shape, and
# what it runs does train.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
bench=$DP_BUILDDIR/worker/bench/bench_train
[ -x "$bench" ] || bail "$bench is not built"

# L 2, C 64, heads 4, V 101, B 2, T 20; every figure that is not a time follows from these.
"$bench" --json --steps 12 --model 2x64x4x101x2x20 --stage 2x64x4x2x20 --sparsity 0,0.9 --ops >"$dir/out.json" 2>"$dir/err"
ok $? "a model and a stage, dense and at 90 % zeros" || bail "$(cat "$dir/err")"
holds "machine, versions and options are named" '
    (.machine.cpu | length > 0) and .machine.cores > 0 and .machine.memory_bytes > 1e6 and .machine.load >= 0 and
    (.dynpipe, .gemm, .compiler, .flops_formula | length > 0) and
    .backend == "cpu" and .steps == 12 and .clip == true and .clock == "wall"'
holds "two rows of two variants" '[.rows[] | .kind, (.variants | length)] == ["model", 2, "stage", 2]'
# A NaN has no JSON: its key would be missing.
holds "all times are there and positive" '[.rows[].variants[] |
    .step_ns.min > 0 and .step_ns.median >= .step_ns.min and .step_ns.max >= .step_ns.median and .cpu_ns.median > 0 and
    .parts_ns.forward > 0 and .parts_ns.backward > 0 and .parts_ns.optimizer > 0 and .parts_ns.clip > 0 and
    .parts_ns.blocks > 0 and .threads == 1 and .tokens_per_s > 0 and .gflops > 0 and .setup_ns > 0 and
    .page_faults >= 0] | all'
holds "the parts are those of the step" '[.rows[].variants[] |
    (.parts_ns | .forward + .backward + .tied + .clip + .optimizer) as $sum |
    $sum > 0.5 * .step_ns.min and ([.parts_ns[]] | max) <= .step_ns.max] | all'
holds "only a model has ends and a loss" '
    [.rows[0].variants[] | .parts_ns.head > 0 and .parts_ns.embedding > 0 and (.loss | length) == 2] +
    [.rows[1].variants[] | .parts_ns.head == 0 and .parts_ns.embedding == 0 and .loss == null] | all'
holds "the loss begins near ln 101 and falls" '[.rows[0].variants[].loss | .[0] > 4.4 and .[0] < 4.9 and .[1] < .[0] - 0.1] | all'
holds "parameters" '
    [.rows[].variants[].parameters] == [2*(12*64*64 + 13*64) + 101*64 + 20*64 + 2*64 | ., .] +
                                       [2*(12*64*64 + 13*64) | ., .]'
holds "FLOPs of a token" '[.rows[] | (if .kind == "model" then 101*64 else 0 end) as $head | .variants[] |
    .flops_per_token / (6 * (12*2*64*64 * (1 - .sparsity) + $head) + 6*2*64*20) - 1 | fabs < 1e-6] | all'
holds "speed, FLOPs and time agree" '[.rows[].variants[] | .peak_gflops as $peak |
    (.gflops * .step_ns.median / (.flops_per_token * 40) - 1 | fabs < 1e-6) and
    (.tokens_per_s * .step_ns.median / 40e9 - 1 | fabs < 1e-6) and
    (.peak_fraction * $peak / .gflops - 1 | fabs < 1e-6)] | all'
holds "speed-ups are those of the times" '[.rows[].variants | (.[0].parts_ns | .forward + .backward) as $dense | .[] |
    .thread_speedup == 1 and (.speedup * (.parts_ns | .forward + .backward) / $dense - 1 | fabs < 1e-6)] | all'
holds "sparsity is what was asked for" '[.rows[].variants | .[0].sparsity == 0 and .[0].masks == "none" and
    .[1].sparsity > 0.88 and .[1].sparsity < 0.92 and .[1].masks == "random" and .[1].prunable_matrices == 8] | all'
holds "memory of the dense model: 16 bytes a parameter, 8 for the copy of the tied matrix" '
    .rows[0].variants[0] | .memory_bytes.weights == 4 * (.parameters + 101*64) and
    .memory_bytes.gradients == .memory_bytes.weights and .memory_bytes.optimizer == 8 * .parameters and
    .memory_bytes.activations > 0'
holds "memory adds up, and a resident set holds it" '[.rows[] | .peak_rss_bytes as $rss | .variants[].memory_bytes |
    (.weights + .gradients + .optimizer + .indexes - .state | fabs < 1) and .state < $rss] | all'
holds "operations are listed with their shapes" '[.rows[].variants[0].ops |
    (map(select(.op == "linear" and .shape == "256x64, 40" and .calls == 2 and .gflops > 0)) | length == 1) and
    (map(select(.op == "adamw" and .shape == "" and .elements_per_ns > 0)) | length == 1)] | all'

"$bench" --json --steps 2 --stage 1x32x2x1x7 --sparsity 0,0.5 --threads 1,2 --no-clip --ops >"$dir/out.json" 2>"$dir/err"
ok $? "one thread and two, no clipping" || diag "$(cat "$dir/err")"
holds "no clipping means no squares" '.clip == false and
    ([.rows[0].variants[0].ops[].op] | index("adamw") != null and index("sum_squares") == null)'

holds "each number of threads has all variants" '.rows[0].variants |
    [.[] | [.threads, .masks]] == [[1, "none"], [1, "random"], [2, "none"], [2, "random"]] and
    .[0].sparsity == .[2].sparsity and .[1].sparsity == .[3].sparsity and .[0].loss == .[2].loss and
    .[2].peak_gflops > 0 and .[2].speedup == 1 and (.[3].thread_speedup * .[3].step_ns.median / .[1].step_ns.median - 1 | fabs < 1e-6)'
"$bench" --json --steps 2 --stage 2x64x4x2x20 --sparsity 0,0.9 --granularity both >"$dir/out.json" 2>"$dir/err"
ok $? "single weights and blocks of 4 x 1" || diag "$(cat "$dir/err")"
# What is stored sparse was measured just now: sizes compare where that came out alike.
holds "blocks are as many zeros, and fewer indexes" '.rows[0].variants |
    [.[] | .masks + " " + .granularity] == ["none weight", "random weight", "random 4x1"] and
    (.[2].sparsity - 0.9 | fabs < 0.02) and
    (.[2].sparse_matrices < 8 or .[1].sparse_matrices < 8 or (.[2].memory_bytes.indexes < .[1].memory_bytes.indexes and
        .[2].memory_bytes.weights < 1.2 * .[1].memory_bytes.weights))'
"$bench" --json --steps 2 --stage 2x64x4x2x20 --sparsity 0,0.5 --granularity 4x1,32x32 >"$dir/out.json" 2>"$dir/err"
ok $? "square blocks" || diag "$(cat "$dir/err")"
holds "are random, a block with another one's luck" '[.rows[0].variants[] | .masks + " " + .granularity] ==
    ["none weight", "random 4x1", "random 32x32"] and (.rows[0].variants[2].sparsity - 0.5 | fabs < 0.25)'
printf '3\n2\n' | "$bench" --follow --model 1x32x2x50x1x9 >"$dir/lines" 2>"$dir/err"
ok $? "--follow ends with its input" || diag "$(cat "$dir/err")"
jq -s . "$dir/lines" >"$dir/out.json"
holds "--follow: what it is, then a line per order" 'length == 3 and .[0].parameters == 12*32*32 + 13*32 + 50*32 + 9*32 + 64 and
    .[0].flops_per_token > 0 and [.[1:][] | (.ns | length), (.ns | all(. > 0)), .peak_gflops > 0] == [3, true, true, 2, true, true] and
    .[2].loss < .[1].loss'
"$bench" --follow --model 1x32x2x50x1x9 <<<0 >/dev/null 2>"$dir/err"
is "$? $(cat "$dir/err")" "1 bench_train: cannot make 0 steps" "--follow refuses no steps"

# A checkpoint of two blocks of 64 channels; the stage has three, so that the first one's masks come twice.
worker=$DP_BUILDDIR/worker/dynpipe-worker
text=$dir/text.txt
for i in {1..400}; do echo "line $i of a text to train on"; done >"$text"
"$DP_SRCDIR/worker/bench/train_pruned" "$dir/pruned" --worker "$worker" --text "$text" --parts 8 model.channels=64 \
    model.heads=4 model.context=16 train.lr=5e-3 train.min_lr=5e-3 >"$dir/pruned.out" 2>"$dir/err"
ok $? "a network is trained and pruned" || diag "$(cat "$dir/pruned.out" "$dir/err" "$dir"/pruned/*.out)"
is "$(sed -E 's/^([0-9]+ % at step [0-9]+), validation loss [0-9.]+: .*\/pruned\/([^ ]*)$/\1 \2/' "$dir/pruned.out" | tr '\n' ';')" \
    "50 % at step 72 50/step-00000072;70 % at step 104 70/step-00000104;80 % at step 136 80/step-00000136;$(:
    )90 % at step 168 90/step-00000168;95 % at step 200 95/step-00000200;" "five checkpoints"
masks=$dir/pruned/90/step-00000168
"$bench" --json --steps 2 --stage 3x64x4x2x16 --masks "$masks" >"$dir/out.json" 2>"$dir/err"
ok $? "a stage with the masks of a checkpoint" || diag "$(cat "$dir/err")"
holds "trained masks, and random ones of the same density" '.rows[0].variants | length == 3 and
    .[0].sparsity == 0 and (.[1].masks | endswith("/90/step-00000168")) and .[2].masks == "random, densities of " + .[1].masks and
    (.[1].sparsity - 0.9 | fabs < 0.05) and (.[1].sparsity - .[2].sparsity | fabs < 0.01)'
holds "trained masks are less even than random ones" '.rows[0].variants |
    .[1].mask_spread.row_cv > .[2].mask_spread.row_cv and .[1].mask_spread.col_cv > .[2].mask_spread.col_cv and
    .[2].mask_spread.row_cv > 0.1 and .[2].mask_spread.row_cv < 1'
"$DP_SRCDIR/worker/bench/train_pruned" "$dir/blocks" --worker "$worker" --text "$text" --parts 1 model.channels=64 \
    model.heads=4 model.context=16 prune.granularity=4x1 >/dev/null 2>&1
"$bench" --json --steps 1 --stage 2x64x4x2x16 --masks "$dir/blocks/90/step-00000021" >"$dir/out.json" 2>"$dir/err"
ok $? "masks of blocks" || diag "$(cat "$dir/err")"
holds "their granularity is found" '[.rows[0].variants[].granularity] == ["weight", "4x1", "4x1"]'
fails "masks of another width are refused" "$bench" --steps 1 --stage 1x32x2x1x7 --masks "$masks"
echo >>"$masks/layer-0001.bin"
fails "a damaged checkpoint is refused" "$bench" --steps 1 --stage 1x64x4x1x7 --masks "$masks"

"$bench" --steps 1 --model 1x32x2x50x1x9 --sparsity 0,0.5 --ops >"$dir/text" 2>&1
like "$(cat "$dir/text")" 'vocabulary 50.*zeros.*tok/s.*(4[5-9]|5[0-5])\.[0-9] %.*adamw' "the table for people"

for bad in "--row nonsense" "--model 2x64x3x101x2x20" "--model 2x64" "--stage 1x32x2x1x7x9" "--sparsity 1" "--sparsity 0.5," \
    "--threads 0" "--threads 1," "--threads 1,2,3,4,5" "--steps 0" "--steps 2x" "--clock moon" "--granularity 2x2" "--clock cpu --threads 2" "--follow" "extra"; do
    # shellcheck disable=SC2086 # an option and its argument
    "$bench" $bad >/dev/null 2>"$dir/err"
    is "$? $(grep -c 'Try bench_train --help' "$dir/err")" "2 1" "refused: $bad"
done
for bad in "" "--what" "a b" "a --parts x" "a --text"; do
    # shellcheck disable=SC2086 # several words
    "$DP_SRCDIR/worker/bench/train_pruned" $bad >/dev/null 2>&1
    is "$?" 2 "train_pruned refuses '$bad'"
done
fails "a backend that is not there" "$bench" --steps 1 --model 1x32x2x50x1x9 --backend cpu:vax
fails "masks that are not there" "$bench" --steps 1 --stage 1x32x2x1x7 --masks "$dir/none"
done_testing
