#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Loss and all gradients of our GPT equal PyTorch's to 1e-4 relative, on the same weights and tokens.
DP_SRCDIR=${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
DP_BUILDDIR=${DP_BUILDDIR:-$PWD}
. "$DP_SRCDIR/tests/lib/tap.sh"

python=$(find_python 'import torch') || skip_all "no python3 with torch here (Debian: python3-torch)"
[ -x "$DP_BUILDDIR/tests/torch/dump_gpt" ] || bail "tests/torch/dump_gpt is not built"

dir=$(mktemp -d) || bail "no temporary directory"
trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT

compare() { # NAME DTYPE KEY=VALUE...
    local name=$1 dtype=$2 out
    shift 2
    if ! "$DP_BUILDDIR/tests/torch/dump_gpt" "$dir/gpt" "$@" 2>"$dir/err"; then
        diag "$(cat "$dir/err")"
        ok 1 "$name: our side runs"
        return
    fi
    out=$("$python" "$DP_SRCDIR/tests/torch/gpt_vs_torch.py" "$dir/gpt" "$dtype" 2>&1)
    ok $? "$name: loss and gradients agree to 1e-4 ($dtype)"
    diag "$out"
}

small="model.blocks=2 model.channels=48 model.heads=4 model.context=32 model.vocabulary=101"
small="$small train.batch=2 train.microbatches=3"
# shellcheck disable=SC2086
compare "untied head" float32 $small
# shellcheck disable=SC2086
compare "untied head" float64 $small
# shellcheck disable=SC2086
compare "tied head" float32 $small model.tied_head=true
compare "one head, odd sizes" float64 model.blocks=1 model.channels=13 model.heads=1 model.context=7 \
    model.vocabulary=19 train.batch=3 train.microbatches=1
compare "8 blocks of 128 channels" float32 train.batch=1 train.microbatches=1
done_testing
