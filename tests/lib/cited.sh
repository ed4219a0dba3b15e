# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What comments and documents of the current folder's tree cite and is not there, one a line (cited.awk).
cited() {
    local list
    list=$(find . \( -path './.git' -o -path './build*' -o -path './_*' -o -path './autom4te.cache' -o -path './demo-out*' \) -prune -o -type f -print)
    # shellcheck disable=SC2046 # no blanks in names
    awk -f "$DP_SRCDIR/tests/lib/cited.awk" <(printf '%s\n' "$list") \
        $(grep -E '\.([cht]|cu|md|sh|mk|[0-9]\.in)$|^\./(check|demo|bootstrap)$' <<<"$list" | sed 's,^\./,,' | LC_ALL=C sort) || echo "cited.awk failed"
}
