#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_linear on tiny shapes: its JSON is complete and agrees with itself and with its tables; the masks of a network
# that was trained and pruned go from a checkpoint through pictures to it; what is no mask and no option is refused.
# bench_ops: its JSON and its options.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
bench=$DP_BUILDDIR/kernels/bench/bench_linear
ops=$DP_BUILDDIR/kernels/bench/bench_ops
train=$DP_BUILDDIR/worker/bench/bench_train
[ -x "$bench" ] && [ -x "$ops" ] && [ -x "$train" ] || bail "the benchmarks are not built"
# What is true of every result: medians lie between, ratios are those of the times. (jq has no NaN: its key would be gone.)
# shellcheck disable=SC2016 # jq's variables
consistent='def all3: .forward.median + .dx.median + .dw.median;
    def near(b): . / b - 1 | fabs < 1e-6;
    [.cases[] | (.c_out * .c_in * .tokens * 6) as $flops | .rows as $rows | ($rows | map(.threads) | unique) as $threads |
     ($rows | length / ($threads | length)) as $n |
     ([$rows[].ns[] | (.max - .min) / .median] | max) as $spread | (.spread | near($spread)),
     (range($rows | length) as $i | $rows[$i] as $r | $rows[$i - $i % $n].ns as $dense | $rows[$i % $n].ns as $first |
        ([$r.ns[] | .min > 0 and .median >= .min and .max >= .median] | all),
        ($r.gflops | near($flops * (1 - $r.sparsity) / ($r.ns | all3) + 1e-300)),
        ($r.speedup.forward | near($dense.forward.median / $r.ns.forward.median)),
        ($r.speedup.all | near(($dense | all3) / ($r.ns | all3))),
        ($r.thread_speedup.dx | near($first.dx.median / $r.ns.dx.median)),
        ($r.thread_speedup.all | near(($first | all3) / ($r.ns | all3))),
        ($i % $n == 0 or ($r.plan_bytes > 0 and $r.mask_spread.row_cv >= 0 and $r.mask_spread.empty_cols >= 0)))] | all'

"$bench" --json --rounds 3 --shape 64x96x70 --shape 33x20x5 --sparsity 0,0.75 --threads 1,2 >"$dir/out.json" 2>"$dir/err"
ok $? "two shapes, two sparsities, one thread and two" || bail "$(cat "$dir/err")"
holds "machine, versions and options are named" '
    (.machine.cpu | length > 0) and .machine.cores > 0 and .machine.memory_bytes > 1e6 and .machine.load >= 0 and
    (.dynpipe, .gemm, .compiler | length > 0) and
    .backend == "cpu" and .rounds == 3 and .clock == "wall" and .format == "tiles"'
holds "each number of threads has all rows; 33 rows have no blocks of 4" '[.cases[] | [.rows[] | .granularity]] ==
    [["dense", "weight", "weight", "4x1", "4x1"] | . + .] + [["dense", "weight", "weight"] | . + .] and
    [.cases[0].rows[].threads] == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]'
holds "zeros are as many as asked for, the same for each number of threads" '.cases[0].rows |
    .[0].sparsity == 0 and .[1].sparsity == 0 and (.[2].sparsity, .[4].sparsity | . - 0.75 | fabs < 0.05) and
    [.[0:5][].sparsity] == [.[5:10][].sparsity] and .[0].masks == "none" and .[1].masks == "random"'
holds "figures agree" "$consistent"
"$bench" --json --rounds 3 --shape 8x8x8 --best --threads 1,2 >"$dir/out.json" 2>"$dir/err"
ok $? "the fastest rounds" || diag "$(cat "$dir/err")"
holds "are what is compared" '.cases[0] | .figure == "min" and (.rows[2] as $r |
    ($r.speedup.dx * $r.ns.dx.min / .rows[0].ns.dx.min - 1 | fabs < 1e-6)) and (.rows[13 + 2] as $r |
    ($r.thread_speedup.dw * $r.ns.dw.min / .rows[2].ns.dw.min - 1 | fabs < 1e-6))'
"$bench" --rounds 1 --shape 64x96x70 --shape 33x20x5 --sparsity 0,0.75 --threads 1,2 >"$dir/text" 2>&1
is "$(grep -c '^ .*(' "$dir/text") $(grep -c '^w (' "$dir/text") $(grep -c 'x 1 thread:' "$dir/text") $(grep -c '^      2 ' "$dir/text")" \
    "16 2 2 16" "the tables have as many rows; those of two threads twice"
like "$(cat "$dir/text")" 'machine: .*wall time.*w \(64, 96\), 70 tokens; dense [0-9]+ GFLOP/s.*dense.*4x1  7[0-9]\.[0-9] %' "the table for people"
"$bench" --json --rounds 1 --shape 8x8x8 --sparsity 0.5 --granularity 4x1 --format rows --clock cpu --backend cpu:plain >"$dir/out.json" 2>"$dir/err"
ok $? "the other options" || diag "$(cat "$dir/err")"
holds "are taken" '.clock == "cpu" and .format == "rows" and .backend == "cpu:plain" and
    [.cases[].rows[].granularity] == ["dense", "4x1"]'
"$bench" --json --rounds 2 --shape 128x64x70 --shape 32x96x5 --sparsity 0.5 --granularity weight,32x32,64x64 >"$dir/out.json" 2>"$dir/err"
ok $? "square blocks" || diag "$(cat "$dir/err")"
holds "are measured where they fit, with as many zeros" '[.cases[] | [.rows[] | .granularity]] ==
    [["dense", "weight", "32x32", "64x64"], ["dense", "weight", "32x32"]] and
    [.cases[0].rows[2:][].sparsity] == [0.5, 0.5] and (.cases[1].rows[2].sparsity - 1 / 3 | fabs < 1e-6)'
holds "their figures agree, too" "$consistent"

# ---- masks that were trained: two blocks of 64 channels ----
worker=$DP_BUILDDIR/worker/dynpipe-worker
text=$dir/text.txt
for i in {1..400}; do echo "line $i of a text to train on"; done >"$text"
pruned() { # FOLDER KEY=VALUE
    "$DP_SRCDIR/worker/bench/train_pruned" "$@" --worker "$worker" --bench "$train" --text "$text" --parts 1 \
        model.channels=64 model.heads=4 model.context=16 >"$dir/pruned.out" 2>"$dir/err"
}
pruned "$dir/weights" || diag "$(cat "$dir/pruned.out" "$dir/err")"
is "$(cd "$dir/weights/masks-90" && echo *)" "$(for b in 1 2; do for m in attn.proj attn.qkv mlp.fc mlp.proj; do
    printf 'block%d-%s.pbm ' $b $m; done; done | sed 's/ $//')" "train_pruned draws the masks of all matrices"
mask=$dir/weights/masks-90/block2-mlp.fc.pbm
is "$(head -c 10 "$mask" | tr '\n' ' ') $(wc -c <"$mask")" "P4 64 256  $((10 + 256 * 8))" "a raw bitmap, a column of pixels per input"
# The same as a plain one, by other means.
{
    echo "P1 64 256"
    tail -c +11 "$mask" | od -An -v -tu1 -w8 | while read -r -a bytes; do
        for b in "${bytes[@]}"; do
            for bit in 128 64 32 16 8 4 2 1; do printf '%d' $((b / bit % 2)); done
        done
        echo
    done
} >"$dir/plain.pbm"
kept=$(tail -n +2 "$dir/plain.pbm" | tr -cd 1 | wc -c)
"$bench" --json --rounds 2 --mask "$mask" --mask "$dir/plain.pbm" --tokens 5,70 >"$dir/out.json" 2>"$dir/err"
ok $? "masks, raw and plain, with two numbers of tokens" || diag "$(cat "$dir/err")"
holds "both are the same one, beside a random one" "[.cases[] | .c_out, .c_in, .tokens] == [256, 64, 5, 256, 64, 70, 256, 64, 5, 256, 64, 70] and
    ([.cases[].rows[1] | .sparsity, .mask_spread] | .[0:2] == .[4:6]) and
    (.cases[0].rows[1].sparsity - (1 - $kept / 16384) | fabs < 1e-9) and
    .cases[0].mask == \"$mask\" and
    [.cases[2].rows[] | .granularity + \" \" + .masks] ==
        [\"dense none\", \"weight $dir/plain.pbm\", \"weight random, density of $dir/plain.pbm\"]"
holds "their figures agree" "$consistent"
holds "random ones have their density, and are more even" '[.cases[].rows | (.[1].sparsity - .[2].sparsity | fabs < 0.02) and
    .[1].mask_spread.row_cv > .[2].mask_spread.row_cv] | all'
"$train" --json --steps 1 --stage 2x64x4x2x16 --masks "$dir"/weights/90/step-* >"$dir/train.json" 2>"$dir/err"
ok $? "bench_train with the checkpoint" || diag "$(cat "$dir/err")"
args=()
for m in "$dir"/weights/masks-90/*; do args+=(--mask "$m"); done
"$bench" --json --rounds 1 --tokens 1 "${args[@]}" >"$dir/out.json" 2>"$dir/err"
ok $? "all masks of the checkpoint" || diag "$(cat "$dir/err")"
# shellcheck disable=SC2016 # jq's variables
jq -n -e --slurpfile t "$dir/train.json" 'input | $t[0].rows[0].variants[1] as $v |
    (([.cases[] | .rows[1].sparsity * .c_out * .c_in] | add) / ([.cases[] | .c_out * .c_in] | add) - $v.sparsity | fabs < 1e-6) and
    (([.cases[].rows[1].mask_spread.col_cv] | add / length) - $v.mask_spread.col_cv | fabs < 1e-6)' "$dir/out.json" >/dev/null
ok $? "as many zeros, as even, as bench_train finds in the checkpoint"
pruned "$dir/blocks" prune.granularity=4x1 || diag "$(cat "$dir/pruned.out" "$dir/err")"
"$bench" --json --rounds 1 --mask "$dir/blocks/masks-70/block1-mlp.proj.pbm" >"$dir/out.json" 2>"$dir/err"
ok $? "a mask of blocks" || diag "$(cat "$dir/err")"
holds "its granularity is found" '[.cases[0].rows[].granularity] == ["dense", "4x1", "4x1"]'
"$bench" --rounds 1 --mask "$dir/blocks/masks-70/block1-mlp.proj.pbm" >"$dir/text"
is "$(grep -c '^nonzeros: deviation per row' "$dir/text")" 2 "how even masks are is printed"

# ---- what is refused ----
printf 'P4 1000000 1000000\n' >"$dir/huge.pbm"
printf 'P1 3 2\n1 0 1\n1 0 x\n' >"$dir/bad.pbm"
head -c 100 "$mask" >"$dir/short.pbm"
refused() { # FILE TEXT
    "$bench" --rounds 1 --mask "$1" >/dev/null 2>"$dir/err"
    is "$? $(cat "$dir/err")" "1 bench_linear: $1$2" "refused: $(basename "$1")"
}
refused "$dir/none.pbm" ": No such file or directory"
refused "$dir/huge.pbm" ", line 1, byte 9: more than 65536 columns"
refused "$dir/bad.pbm" ", line 3, byte 18: a byte 0x78 where a pixel is 0 or 1"
refused "$dir/short.pbm" ", line 3, byte 10: 90 bytes of pixels, not 2048"
"$train" --masks "$dir"/weights/90/step-* --pictures "$dir/none/pictures" >/dev/null 2>"$dir/err"
is "$? $(cat "$dir/err")" "1 bench_train: $dir/none/pictures: No such file or directory" "pictures want a folder"
"$train" --pictures "$dir/p" >/dev/null 2>"$dir/err"
is "$?" 2 "pictures want a checkpoint"
for bad in "--shape 4x4" "--shape 0x4x4" "--shape 70000x4x4" "--shape 65536x65536x1" "--shape 4x4x4x4" "--sparsity 1" "--sparsity 0.5," \
    "--sparsity -0.1" "--sparsity nan" "--threads 0" "--threads 1," "--threads 1,2,3,4,5" "--rounds 0" "--rounds 2x" "--rounds 102" "--clock moon" \
    "--clock cpu --threads 1,2" "--granularity 2x2" "--granularity weight," "--format columns" "--tokens 0" "--tokens" "--nonsense" "extra"; do
    # shellcheck disable=SC2086 # an option and its argument
    "$bench" $bad >/dev/null 2>"$dir/err"
    is "$? $(grep -c 'Try bench_linear --help' "$dir/err") $(grep -vc 'Try' "$dir/err")" "2 1 1" "refused: $bad"
done
fails "a backend that is not there" "$bench" --rounds 1 --shape 4x4x4 --backend cpu:vax
like "$("$bench" --help)" '--mask FILE.*--threads LIST.*--clock' "--help"

# ---- the other operations ----
"$ops" --json --rounds 1 --op sum >"$dir/out.json" 2>"$dir/err"
ok $? "bench_ops" || diag "$(cat "$dir/err")"
holds "its JSON" '(.machine.cpu, .gemm, .compiler | length > 0) and .clock == "cpu" and .threads == 1 and
    [.ops[] | .op == "sum_squares" and .ns > 0 and .limit_value > 0 and .gbytes_per_s > 0] == [true, true]'
like "$("$ops" --rounds 1 --op sum)" 'machine: .*sum_squares' "its table"
for bad in "--threads 1,2" "--rounds 0" "--nonsense" "extra"; do
    # shellcheck disable=SC2086
    "$ops" $bad >/dev/null 2>"$dir/err"
    is "$? $(grep -c 'Try bench_ops --help' "$dir/err")" "2 1" "refused by bench_ops: $bad"
done
done_testing
