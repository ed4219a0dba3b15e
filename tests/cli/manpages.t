#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The man pages name everything that the programs say about themselves.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # tmp comes from lib.sh

# Text of a page, its \- and font changes undone.
page() { sed -e 's/\\-/-/g' -e 's/\\f.//g' "$DP_SRCDIR/doc/$1.in"; }

page dynpipe.1 >"$tmp/dynpipe.1"
for c in $("$dynpipe" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    runs "dynpipe.1 has $c" grep -qE "^\\.BR? .*\\b$c\\b" "$tmp/dynpipe.1"
    for o in $("$dynpipe" "$c" --help | grep -oE '^  .{4}--[a-z-]+' | grep -oE '[a-z][a-z-]*$'); do echo "$o"; done
done >"$tmp/lines"
grep -E '^(ok|not ok|#)' "$tmp/lines"
tap_count=$(grep -cE '^(ok|not ok)' "$tmp/lines")
for o in $(grep -E '^[a-z-]+$' "$tmp/lines" | sort -u); do
    runs "dynpipe.1 has --$o" grep -qE -- "--$o\\b" "$tmp/dynpipe.1"
done

dynpiped=$DP_BUILDDIR/daemon/dynpiped
if [ -x "$dynpiped" ]; then
    page dynpipe.conf.5 >"$tmp/dynpipe.conf.5"
    for k in $("$dynpiped" --print-config | sed -n 's/^ *\([a-z_]*\) *=.*;.*/\1/p' | sort -u); do
        runs "dynpipe.conf.5 has $k" grep -qx "\\.B $k" "$tmp/dynpipe.conf.5"
    done
    page dynpiped.8 >"$tmp/dynpiped.8"
    for o in $("$dynpiped" --help | grep -oE -- '--[a-z]+(-[a-z]+)*' | sort -u); do
        runs "dynpiped.8 has $o" grep -qe "$o" "$tmp/dynpiped.8"
    done
else
    skip "dynpipe.conf.5" "dynpiped is not built"
fi

worker=$DP_BUILDDIR/worker/dynpipe-worker
if [ -x "$worker" ]; then
    page dynpipe-worker.1 >"$tmp/worker.1"
    for o in $("$worker" --help | grep -oE -- '^ .*--[a-z]+(-[a-z]+)*' | grep -oE -- '--[a-z-]+' | sort -u); do
        runs "dynpipe-worker.1 has $o" grep -qe "$o" "$tmp/worker.1"
    done
else
    skip "dynpipe-worker.1" "dynpipe-worker is not built"
fi

page spank_dynpipe.8 >"$tmp/spank.8"
options=$(grep -oE '"dynpipe(-[a-z-]+)?"' "$DP_SRCDIR/common/conf/options.c" | tr -d '"')
runs "options of the plugin are found" test -n "$options"
for o in $options; do
    runs "spank_dynpipe.8 has --$o" grep -qe "--$o" "$tmp/spank.8"
done
for a in socket policies default_mode; do runs "spank_dynpipe.8 has $a=" grep -q "$a=" "$tmp/spank.8"; done

page dynpipe.3 >"$tmp/dynpipe.3"
for f in $(grep -oE '\bdynpipe_[a-z_]+\(' "$DP_SRCDIR/lib/dynpipe.h" | tr -d '(' | sort -u); do
    runs "dynpipe.3 has $f" grep -qE "^\\.BR? .*\\b$f\\b" "$tmp/dynpipe.3"
done

version=$("$dynpipe" --version)
for p in dynpipe.1 dynpipe.3 dynpipe-worker.1 dynpipe.conf.5 dynpiped.8 spank_dynpipe.8; do
    like "$(grep '^\.TH' "$DP_BUILDDIR/doc/$p")" " \"DynPipe ${version#dynpipe }\" " "$p has the version"
    is "$(grep -n '@[A-Za-z_]*@' "$DP_BUILDDIR/doc/$p")" "" "$p: every name is filled in"
done
done_testing
